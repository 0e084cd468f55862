package state

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"odradek/detectors"
	"odradek/detectors/ar"
	"odradek/detectors/discord"
	"odradek/detectors/joint"
	"odradek/detectors/knn"
	"odradek/detectors/lof"
	"odradek/detectors/simple"
	"odradek/detectors/sst"
	"odradek/detectors/threshold"
	"odradek/processor/anomaly"
	"odradek/processor/state/series"
)

// TestAnomalyCoversItsFault: with every op an anomaly's peak lies between its start
// and its end at each of its changes, and the highest anomaly of a series covers the
// fault that was planted. An op that has no settings here has its defaults, and may miss
// the fault.
func TestAnomalyCoversItsFault(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const n, fault = 900, 600
	spike := func(i int) float64 {
		if i == fault {
			return 30
		}
		return 0
	}
	change := func(i int) float64 {
		if i >= fault {
			return 3 * math.Sin(float64(i)*2.1)
		}
		return 0
	}
	held := func(i int) float64 { return 0 }
	must := func(d detectors.Detector, err error) detectors.Detector {
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	type setting struct {
		detectors.Detector
		stride int
		signal func(i int) float64
	}
	ops := map[detectors.Op][]setting{
		simple.OpZScore: {{must(simple.NewZScore(50)), 1, spike}, {must(simple.NewZScore(50)), 7, spike}},
		sst.OpIKA: {
			{must(sst.NewIKA(sst.IKAOpParams{Window: 20})), 1, change},
			{must(sst.NewIKA(sst.IKAOpParams{Window: 16, Gamma: 50, Rank: 2})), 5, change},
		},
		sst.OpSVD: {{must(sst.NewSVD(sst.SVDOpParams{Window: 20})), 3, change}},
		lof.Op: {
			{must(lof.New(lof.OpParams{Window: 128, K: 10, Embed: 8})), 2, spike},
			{must(lof.New(lof.OpParams{Window: 100, K: 10, Tumbling: true})), 100, spike},
		},
		simple.OpFlatline: {{must(simple.NewFlatline(0)), 4, held}},
		knn.Op: {
			{must(knn.New(knn.Params{Window: 256, Embed: 16})), 1, spike},
			{must(knn.New(knn.Params{Window: 100, K: 5, Tumbling: true})), 100, spike},
		},
		knn.OpTopN: {
			{must(knn.NewTopN(knn.TopNParams{Window: 256, Top: 3})), 7, spike},
			{must(knn.NewTopN(knn.TopNParams{Window: 100, K: 5, Top: 1, Tumbling: true})), 100, spike},
		},
		joint.Op: {
			{must(joint.New(joint.OpParams{Window: 8, Guard: 32, Memory: 1000})), 1, spike},
			{must(joint.New(joint.OpParams{Window: 16, Guard: 64, Memory: 1000})), 7, spike},
		},
		ar.Op: {
			{must(ar.New(ar.OpParams{Order: 8, Memory: 400})), 1, spike},
			{must(ar.New(ar.OpParams{Order: 4, Memory: 1000})), 7, spike},
		},
		discord.Op: {
			{must(discord.New(discord.Params{Window: 256, Length: 16})), 1, spike},
			{must(discord.New(discord.Params{Window: 200, Length: 8, MaxLength: 18, K: 2})), 7, spike},
		},
		discord.OpTop: {
			{must(discord.NewTop(discord.TopParams{Window: 200, MinLength: 10, MaxLength: 14, Step: 4})), 50, spike},
			{must(discord.NewTop(discord.TopParams{Window: 100, MinLength: 10, Tumbling: true})), 100, spike},
		},
	}
	exec := detectors.NewCPU(1)
	defer exec.Close()
	for _, op := range detectors.Ops() {
		settings, finds := ops[op]
		if !finds {
			settings = []setting{{must(op.Spec().Build(nil, 1)), 1, spike}}
		}
		for _, set := range settings {
			for _, dim := range []int{1, 3} {
				params := threshold.New(threshold.Quantile, 0.97)
				if op == discord.OpTop || op == knn.OpTopN {
					params = threshold.New(threshold.Fixed, 0.1) // there are few scores above 0, all of discords or outliers
				}
				cfg := &Config{
					Dim: dim, Windows: []series.WindowConfig{{Columns: []int{0, 1, 2}[:dim], Fingerprint: 1}},
					Detectors: []series.DetectorConfig{{
						Name: "d", Detector: set.Detector, Stride: set.stride, Fingerprint: 1, Threshold: &params,
						Events: &anomaly.Policy{OpenAfter: 1, CloseAfter: 3, Release: 1, UpdateEvery: 2},
					}},
				}
				s, b := New(cfg), exec.Batch()
				s.Mark(0)
				var best anomaly.Anomaly
				changes, first, last := 0, int64(fault), int64(fault+1)
				switch op {
				case simple.OpFlatline:
					last += 40 // a run is long before its scores are high
				case sst.OpIKA, sst.OpSVD:
					first, last = first-10, last+10 // a few samples of the other side make no difference
				}
				for i := range int64(n) {
					row := []float64{0, 0, 0}[:dim]
					for c := range row {
						row[c] = math.Sin(float64(i)*0.3+float64(c)) + 0.05*r.NormFloat64()
					}
					row[dim-1] += set.signal(int(i))
					if op == simple.OpFlatline && i > fault && i < fault+40 {
						row[dim-1] = 0.5
					}
					s.Fold(&Sample{Key: []byte("a"), Time: 10 * i, Offset: i, Values: row}, b)
					if i%64 < 63 && s.Fits(b) && i < n-1 {
						continue
					}
					if err := exec.Execute(context.Background(), b); err != nil {
						t.Fatal(err)
					}
					s.Apply(b)
					b.Reset()
					for _, e := range s.Events {
						a := &e.Change.Anomaly
						changes++
						if a.PeakTime < a.Start || a.PeakTime > a.End || a.Start > a.End || a.End > a.OpenedAt && e.Change.Kind == anomaly.Open {
							t.Fatalf("%v, stride %d, %d values: an anomaly from %d to %d, opened at %d, has its peak at %d", op, set.stride, dim, a.Start, a.End,
								a.OpenedAt, a.PeakTime)
						}
						if a.PeakScore >= best.PeakScore {
							best = *a
						}
					}
					s.Events = s.Events[:0]
				}
				if finds && (changes == 0 || best.Start > 10*last || best.End < 10*first) {
					t.Errorf("%v, stride %d, %d values: the fault at %d is not in the highest anomaly, %d to %d, of %d changes", op, set.stride, dim,
						10*fault, best.Start, best.End, changes)
				}
				exec.Release(b)
			}
		}
	}
}
