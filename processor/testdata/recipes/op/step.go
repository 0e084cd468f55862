// Package step is op step: the difference of a sample from the one before it. It has no parameters.
package step

import (
	"context"
	"math"
	"math/rand/v2"

	"odradek/detectors"
)

// Op is replaced by the next free number.
const Op detectors.Op = 0

var spec = detectors.Spec{
	Name: "step", Elem: detectors.F64,
	Help:  "Finds samples far from the one before. The score is the absolute difference, of several fields the largest.",
	New:   func(detectors.Values) (detectors.Detector, error) { return newDetector(), nil },
	Score: score, CPU: func(_ context.Context, r *detectors.Rows, _ detectors.Parallel) { score(*r) },
	Cost: func(r *detectors.Rows) int { return 10 + 3*r.Fresh*r.Dim },
	Compare: func(_ *detectors.Rows, got, want detectors.Result) error {
		return detectors.CompareScores(got.Scores, want.Scores, 0, 1e-6)
	},
	Cases: cases,
}

func init() { detectors.Register(Op, &spec) }

type detector struct {
	detectors.Steady
	params detectors.Words
}

func newDetector() *detector {
	return &detector{detectors.Steady{Least: 2, From: 1}, detectors.Words{0}}
}

func (d *detector) Op() detectors.Op        { return Op }
func (d *detector) Params() detectors.Words { return d.params }
func (d *detector) Window() int             { return 2 }

// Describe returns the sample that a fresh one is compared with.
func (d *detector) Describe(r detectors.Rows, fresh int) detectors.Evidence {
	row := r.Row(fresh)
	return detectors.Evidence{From: row - 1, To: row, Inputs: []detectors.Input{
		{Role: detectors.Baseline, From: row - 1, To: row - 1, Distance: math.NaN()}}}
}

func score(r detectors.Rows) {
	first := r.Len() - r.Fresh
	for i := range r.Scores {
		most := 0.0
		for c := range r.Dim {
			most = max(most, math.Abs(r.X64[(first+i)*r.Dim+c]-r.X64[(first+i-1)*r.Dim+c]))
		}
		r.Scores[i] = float32(min(most, math.MaxFloat32))
	}
}

func cases(rng *rand.Rand) []detectors.Case {
	var cases []detectors.Case
	for _, s := range detectors.Signals(rng) {
		cases = append(cases, detectors.NewCase("step", newDetector(), 1, rng.IntN(3), []int{1, 1, 5, 16}, s))
	}
	cases[0].Bench = true
	return cases
}
