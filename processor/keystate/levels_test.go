package keystate

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"odradek/detectors"
	"odradek/detectors/knn"
	"odradek/detectors/lof"
	knnop "odradek/detectors/ops/knn"
	lofop "odradek/detectors/ops/lof"
	"odradek/detectors/ops/svdsst"
	"odradek/detectors/ops/topn"
	"odradek/detectors/ops/zscore"
	"odradek/detectors/seedtest"
	"odradek/detectors/sst"
	"odradek/detectors/vec"
	"odradek/processor/keystate/series"
)

// leveled is a detector, and its definition: the scores of the last fresh rows of a series in float64.
type leveled struct {
	name     string
	detector detectors.Detector
	stride   int
	define   func(x []float64, fresh int) []float64
	unit     float64 // errors of scores below it are shares of it
}

// leveledDetectors are detectors of all ops of float32 on windows of n points, with scores of each row and of whole windows.
func leveledDetectors(n int) []leveled {
	const k = 10
	ofKNN := func(p knnop.Params) func(x []float64, fresh int) []float64 {
		m := max(1, p.Embed)
		return func(x []float64, fresh int) (want []float64) {
			points := vec.Embed(nil, x, 1, m, p.ZNorm)
			var s knn.WideScorer
			for f := range fresh {
				at := len(points)/m - fresh + f
				q := knn.Query{At: at, From: max(0, at+1-n), To: at}
				if p.Tumbling {
					q.From, q.To = len(points)/m-n, len(points)/m
				}
				w, _ := s.Weight(points, m, 1, k, false, q)
				want = append(want, w)
			}
			return want
		}
	}
	ofLOF := func(p lofop.Params) func(x []float64, fresh int) []float64 {
		m := max(1, p.Embed)
		return func(x []float64, fresh int) []float64 {
			x = x[max(0, len(x)-max(n, fresh)-m+1):]
			return lof.Define(&lof.Params{K: k}, vec.Embed(nil, x, 1, m, p.ZNorm), m, fresh, nil, nil)
		}
	}
	add := func(list []leveled, what string, d detectors.Detector, stride int, define func([]float64, int) []float64) []leveled {
		unit := 0.0
		if op := d.Op(); op == zscore.Op || op == svdsst.Op {
			unit = 1
		}
		return append(list, leveled{fmt.Sprintf("%v %s by %d", d.Op(), what, stride), d, stride, define, unit})
	}
	var list []leveled
	for _, p := range []knnop.Params{{}, {Embed: 4}, {Embed: 6, ZNorm: true}} {
		p.Window, p.K = n, k
		list = add(list, fmt.Sprintf("of %d", p.Embed), detectors.Must(knnop.New(p)), 1, ofKNN(p))
		list = add(list, fmt.Sprintf("of %d", p.Embed), detectors.Must(knnop.New(p)), 7, ofKNN(p))
		p.Tumbling = true
		list = add(list, fmt.Sprintf("of %d tumbling", p.Embed), detectors.Must(knnop.New(p)), n, ofKNN(p))
	}
	for _, p := range []lofop.Params{{}, {Embed: 4}, {Embed: 6, ZNorm: true}} {
		p.Window, p.K = n, k
		list = add(list, fmt.Sprintf("of %d", p.Embed), detectors.Must(lofop.New(p)), 1, ofLOF(p))
		list = add(list, fmt.Sprintf("of %d", p.Embed), detectors.Must(lofop.New(p)), 7, ofLOF(p))
		p.Tumbling = true
		list = add(list, fmt.Sprintf("of %d tumbling", p.Embed), detectors.Must(lofop.New(p)), n, ofLOF(p))
	}
	ofTop := func(x []float64, fresh int) []float64 {
		x = x[max(0, len(x)-max(n, fresh)):]
		top, err := knn.Algorithms[0].Find(x, 1, knn.TopParams{N: n / 2, K: k})
		want := make([]float64, len(x))
		for _, o := range top.Outliers {
			want[o.At] = o.Weight
		}
		if err != nil {
			panic(err)
		}
		return want[len(x)-fresh:]
	}
	list = add(list, "", detectors.Must(topn.New(topn.Params{Window: n, K: k, Top: n / 2})), 5, ofTop)
	list = add(list, "tumbling", detectors.Must(topn.New(topn.Params{Window: n, K: k, Top: n / 2, Tumbling: true})), n, ofTop)
	list = add(list, "", detectors.Must(zscore.New(n/4)), 1, func(x []float64, fresh int) (want []float64) {
		for at := len(x) - fresh; at < len(x); at++ {
			mean, sd := vec.Moments(x[at-n/4+1:at], 0, 1)
			want = append(want, min(math.Abs(x[at]-mean)/sd, 1e6))
		}
		return want
	})
	w := n / 16
	list = add(list, "", detectors.Must(svdsst.New(svdsst.Params{Window: w})), 3, func(x []float64, fresh int) []float64 {
		p := sst.SVDParams{Window: w}
		if err := p.Defaults(); err != nil {
			panic(err)
		}
		want, _ := sst.DefineSVD(&p, x, fresh)
		return want
	})
	return list
}

// levelSeries is a series of n values with a change of level.
func levelSeries(rng *rand.Rand, n int, from, to, fromNoise, toNoise float64) []float64 {
	x := make([]float64, n)
	for i := range x {
		if x[i] = from + fromNoise*rng.NormFloat64(); i >= n/2 {
			x[i] = to + toNoise*rng.NormFloat64()
		}
	}
	return x
}

// TestScoresAfterAChangeOfLevel compares scores, from the first sample of another level on, with the definition in float64.
func TestScoresAfterAChangeOfLevel(t *testing.T) {
	rng := seedtest.New(t)
	const n = 64
	cases := map[string][]float64{
		"pump down":     levelSeries(rng, 5*n, 101325, 1e-3, 20, 1e-5),
		"start":         levelSeries(rng, 5*n, 0, 1500, 0.05, 0.05),
		"stop":          levelSeries(rng, 5*n, 1500, 0, 0.05, 0.05),
		"another range": levelSeries(rng, 5*n, 20, 2020, 1e-3, 1e-3),
	}
	for exponent := range 10 {
		cases[fmt.Sprintf("1e%d deviations", exponent)] = levelSeries(rng, 5*n, 3, 3+math.Pow(10, float64(exponent)), 1, 1)
	}
	for name, x := range cases {
		for _, d := range leveledDetectors(n) {
			got := levelScores(t, d, x)
			var errs []float64
			first := slices.IndexFunc(got, func(v float64) bool { return v == v })
			for at := first + d.stride; at <= len(x); at += d.stride {
				for i, want := range d.define(x[:at], d.stride) {
					if got := got[at-d.stride+i]; got != want {
						errs = append(errs, math.Abs(got-want)/max(want, d.unit))
					}
				}
			}
			slices.Sort(errs) // a NaN comes first
			if first < 0 || len(errs) == 0 || errs[0] != errs[0] {
				t.Fatalf("%s, %s: %d scores, some are no numbers", name, d.name, len(errs))
			}
			if most := errs[len(errs)-1]; !(most <= 1e-5) {
				t.Errorf("%s, %s: errors up to %.2g of a score, half of them %.2g or more", name, d.name, most, errs[len(errs)/2])
			}
		}
	}
}

// levelScores returns the scores of a series, NaN where there is none.
func levelScores(t *testing.T, d leveled, x []float64) []float64 {
	t.Helper()
	cfg := &Config{Dim: 1, Windows: []series.WindowConfig{{Columns: []int{0}, Fingerprint: 1}},
		Detectors: []series.DetectorConfig{{Name: "d", Detector: d.detector, Stride: d.stride, Fingerprint: 1}}}
	s, e := New(cfg), detectors.NewCPU(1)
	b := e.Batch()
	score := func() {
		if err := e.Execute(context.Background(), b); err != nil {
			t.Fatal(err)
		}
		s.Apply(b)
		b.Reset()
	}
	for i, v := range x {
		for !s.Fits(b) {
			score()
		}
		s.Fold(&Sample{Key: []byte("a"), Time: int64(i), Offset: int64(i), Values: []float64{v}}, b)
	}
	score()
	got := slices.Repeat([]float64{math.NaN()}, len(x))
	for _, r := range s.Rows {
		if r.State == RowScored {
			got[r.Offset] = float64(r.Score)
		}
	}
	return got
}
