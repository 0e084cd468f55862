package lof

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"odradek/detectors"
)

// TestSummaryKnowsWhatTheWindowForgot simulates concept drift, as in the paper: what is usual moves,
// returns, and is finally forgotten. A machine works in state A for a long time, then in B, and now and
// then in A again; A is usual, but a window of B does not contain it. In between are faults, as far
// from B as A is.
//
// Without the summary a return to A looks like a fault; with it it does not. When A has not occurred
// for long, its bins have decayed, and it is unusual again.
func TestSummaryKnowsWhatTheWindowForgot(t *testing.T) {
	const window, k, seeds = 100, 10, 5
	var aurocs, alarms [2][]float64
	for seed := range uint64(seeds) {
		for with := range 2 {
			returns, faults, forgotten := driftScores(window, k, seed, with == 1)
			auroc := 0.0
			for _, f := range faults {
				for _, r := range returns {
					if f > r {
						auroc += 1 / float64(len(faults)*len(returns))
					}
				}
			}
			// The bound that catches nine of ten faults: how many returns does it
			// call faults too?
			slices.Sort(faults)
			bound, wrong := faults[len(faults)/10], 0.0
			for _, r := range returns {
				if r >= bound {
					wrong += 1 / float64(len(returns))
				}
			}
			aurocs[with], alarms[with] = append(aurocs[with], auroc), append(alarms[with], wrong)
			if with == 1 && forgotten < bound {
				t.Errorf("seed %d: long after, A has LOF %.1f; it is not forgotten (faults have %.1f)", seed, forgotten, bound)
			}
		}
	}
	mean := func(x []float64) float64 {
		s := 0.0
		for _, v := range x {
			s += v / float64(len(x))
		}
		return s
	}
	t.Logf("faults against returns to a known state: AUROC %.3f without the summary, %.3f with it; returns taken for faults %.0f%% and "+
		"%.0f%%, where 9 of 10 faults are found",
		mean(aurocs[0]), mean(aurocs[1]), 100*mean(alarms[0]), 100*mean(alarms[1]))
	if mean(aurocs[0]) > 0.75 || mean(aurocs[1]) < 0.95 || mean(alarms[1]) > 0.05 {
		t.Errorf("AUROC %v, returns taken for faults %v", aurocs, alarms)
	}
}

// driftScores runs LOF over the stream, one fresh row a task, and returns the scores of the returns to
// A, of the faults, and of a sample of A at the end.
func driftScores(window, k int, seed uint64, summary bool) (returns, faults []float32, forgotten float32) {
	rng := rand.New(rand.NewPCG(seed, 9))
	d := detectors.Must(New(OpParams{Window: window, K: k}))
	b := &detectors.BinParams{Dim: 2, Cells: 40, Period: window, Decay: 0.98}
	if err := b.Defaults(); err != nil {
		panic(err)
	}
	var rows, state []float64
	step := func(x, y, spread float64, score bool) float32 {
		rows = append(rows, x+spread*rng.NormFloat64(), y+spread*rng.NormFloat64())
		if len(rows) > 2*window {
			if summary {
				state = b.Add(state, rows[:2])
			}
			rows = rows[2:]
		}
		if !score {
			return 0
		}
		r := detectors.Rows{Dim: 2, Fresh: 1, Params: d.Params(), Scores: make([]float32, 1)}
		for _, v := range rows {
			r.X = append(r.X, float32(v))
		}
		r.Bins = make([]float32, 3*b.Count(state))
		b.Pack(r.Bins, state, []float64{0, 0})
		opCPU(context.Background(), &r, detectors.Sequential)
		return r.Scores[0]
	}
	inA := func(score bool) float32 { return step(0, 0, 1, score) }
	inB := func() { step(10, 10, 1, false) }
	for range 2000 {
		inA(false)
	}
	for i := range 4000 {
		switch {
		case i > 500 && i%97 == 0:
			returns = append(returns, inA(true))
		case i > 500 && i%97 == 50:
			x, y := 0.0, 0.0
			for math.Hypot(x, y) < 8 || math.Hypot(x-10, y-10) < 8 {
				x, y = 30*rng.Float64()-10, 30*rng.Float64()-10
			}
			faults = append(faults, step(x, y, 0, true))
		default:
			inB()
		}
	}
	for range 60_000 {
		inB()
	}
	return returns, faults, inA(true)
}
