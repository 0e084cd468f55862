package knn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"odradek/detectors/seedtest"
)

func narrow(x []float64) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = float32(v)
	}
	return y
}

func widen(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

// fast is the fast form for one query.
func fast(s *Scorer, x []float32, dim, m, k int, self bool, q Query) (weight float64, neighbours []int) {
	s.Load(x, dim, m)
	w := make([]float64, 1)
	s.Weights(w, k, self, func(int) Query { return q }, func(_ int, near []Neighbour) { neighbours = list(w[0], self, q, near) })
	return w[0], neighbours
}

// list returns the neighbours in the form of Define.
func list(w float64, self bool, q Query, near []Neighbour) (neighbours []int) {
	if self && w == w {
		neighbours = []int{q.At}
	}
	for _, o := range near {
		neighbours = append(neighbours, int(o.At))
	}
	return neighbours
}

func TestWeightOfKnownPoints(t *testing.T) {
	f := func(want float64, dim, m, k int, self bool, q Query, x ...float64) {
		t.Helper()
		var s Scorer
		a, _ := Define(x, dim, m, k, self, q)
		b, _ := fast(&s, narrow(x), dim, m, k, self, q)
		for name, got := range map[string]float64{"definition": a, "fast form": b} {
			if got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
				t.Errorf("%s of %v: got %v, want %v", name, x, got, want)
			}
		}
	}
	before := func(last int) Query { return Query{last, 0, last} }
	f(2, 1, 1, 2, false, before(4), 1, 9, 5, 3, 4)    // 5 and 3
	f(5, 1, 1, 3, false, before(4), 1, 9, 5, 3, 4)    // and 1
	f(2, 1, 1, 3, true, before(4), 1, 9, 5, 3, 4)     // itself, 5 and 3
	f(0, 1, 1, 2, false, before(3), 4, 4, 9, 4)       // k others on its spot
	f(5, 2, 1, 1, false, before(2), 0, 0, 9, 9, 3, 4) // the sides of 5 are 3 and 4
	f(5, 1, 2, 1, false, before(3), 0, 0, 9, 3, 4)    // (0,0), (0,9), (9,3) and (3,4)
	f(8, 1, 1, 4, false, before(2), 1, 3, 4)          // only two others: 3 and 1, twice
	f(16./3, 1, 1, 4, true, before(2), 1, 3, 4)       // and itself
	f(math.NaN(), 1, 1, 1, false, before(0), 4)       // none
	f(0, 1, 1, 1, true, before(0), 4)                 // itself
	f(7, 1, 1, 2, false, Query{1, 0, 5}, 1, 9, 5, 3, 12)
	f(math.NaN(), 1, 1, 2, false, Query{1, 0, 5}, 1, 9, 5, 3, math.Inf(1))
	f(math.NaN(), 1, 1, 2, true, Query{1, 0, 5}, 1, 9, math.NaN(), 3, 12)
	f(8, 1, 1, 1, false, Query{0, 1, 2}, 1, 9, math.NaN()) // not asked for
}

// TestWeightIsTheDefinition requires the definition's neighbours of the fast form, and its weights up
// to the order of a sum.
func TestWeightIsTheDefinition(t *testing.T) {
	rnd := seedtest.New(t)
	var s Scorer
	for range 1500 {
		dim, m, k, self := 1+rnd.IntN(4), 1+rnd.IntN(7)*rnd.IntN(2), 1+rnd.IntN(40)*rnd.IntN(2), rnd.IntN(2) == 0
		n := 1 + rnd.IntN(300)
		x := make([]float32, dim*(m+n-1))
		draw := draws(rnd)[rnd.IntN(len(draws(rnd)))]
		for i := range x {
			x[i] = draw(i)
		}
		if rnd.IntN(20) == 0 {
			x[rnd.IntN(len(x))] = float32(math.NaN())
		}
		// A window of its own for each, as a detector moves it, or all among all.
		window := rnd.IntN(2) * (1 + rnd.IntN(n))
		first := rnd.IntN(n)
		query := func(i int) Query {
			if window == 0 {
				return Query{first + i, 0, n}
			}
			return Query{first + i, max(0, first+i-window), first + i}
		}
		weights := make([]float64, min(n-first, 1+rnd.IntN(9)))
		s.Load(x, dim, m)
		s.Weights(weights, k, self, query, func(i int, near []Neighbour) {
			want, ids := Define(widen(x), dim, m, k, self, query(i))
			if got := weights[i]; !(math.Abs(got-want) <= 1e-12*want) && !(math.IsNaN(got) && math.IsNaN(want)) {
				t.Fatalf("dim %d m %d k %d self %v, %d points, %+v: got %v, want %v", dim, m, k, self, n, query(i), got, want)
			}
			if got := list(weights[i], self, query(i), near); !slices.Equal(got, ids) {
				t.Fatalf("dim %d m %d k %d self %v, %d points, %+v: neighbours %v, want %v", dim, m, k, self, n, query(i), got, ids)
			}
		})
	}
}

// draws are distributions of a number.
func draws(rnd *rand.Rand) []func(int) float32 {
	return []func(int) float32{
		func(int) float32 { return float32(rnd.NormFloat64()) },
		func(int) float32 { return float32(rnd.IntN(3)) },
		func(int) float32 { return float32(rnd.IntN(40)) / 10 },
		func(int) float32 { return 7 },
		func(i int) float32 { return float32(i) },
		func(i int) float32 { return -float32(i) / 7 },
		func(int) float32 { return 1e6 + 0.1*float32(rnd.IntN(9)) },
		func(int) float32 { return float32(1e37 * rnd.NormFloat64()) },
		func(int) float32 { return float32(1e-38 * rnd.NormFloat64()) },
		func(int) float32 { return float32(rnd.IntN(5)) * 0x1p-149 },
		func(int) float32 { return float32(rnd.NormFloat64()) * float32(1+rnd.IntN(50)/49*1000000) },
		func(int) float32 { return float32(1e-12*rnd.NormFloat64() + float64(rnd.IntN(2))) },
	}
}

// TestManyPoints has more points than the search keeps distances of, in every order.
func TestManyPoints(t *testing.T) {
	rnd := seedtest.New(t)
	var s Scorer
	for kind, draw := range draws(rnd) {
		n, dim, k := 2*chunk+rnd.IntN(200), 1+rnd.IntN(3), 1+rnd.IntN(80)
		x := make([]float32, n*dim)
		for i := range x {
			x[i] = draw(i)
		}
		for range 3 {
			q := Query{rnd.IntN(n), 0, n}
			want, ids := Define(widen(x), dim, 1, k, false, q)
			got, near := fast(&s, x, dim, 1, k, false, q)
			if !(math.Abs(got-want) <= 1e-12*want) || !slices.Equal(near, ids) {
				t.Errorf("kind %d, dim %d k %d, %d points, %+v: got %v %v, want %v %v", kind, dim, k, n, q, got, near, want, ids)
			}
		}
	}
}

func BenchmarkWeights(b *testing.B) {
	rnd := rand.New(rand.NewPCG(1, 1))
	x := make([]float32, 1024*8)
	for i := range x {
		x[i] = float32(rnd.NormFloat64())
	}
	var s Scorer
	w := make([]float64, 1024)
	for b.Loop() {
		s.Load(x, 8, 1)
		s.Weights(w, 20, false, func(i int) Query { return Query{i, 0, 1024} }, nil)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1024, "ns/point")
}

// BenchmarkRuns scores runs of 32 samples among 2,048 of them, as the default preset does: a task of one fresh sample,
// and one of sixteen.
func BenchmarkRuns(b *testing.B) {
	const n, m, k = 2048, 32, 27
	for _, fresh := range []int{1, 16} {
		b.Run(fmt.Sprint(fresh, " fresh"), func(b *testing.B) {
			rnd := rand.New(rand.NewPCG(1, 1))
			x := make([]float32, n+m+fresh-2)
			for i := range x {
				x[i] = float32(math.Sin(float64(i)/40) + 0.2*rnd.NormFloat64())
			}
			var s Scorer
			w, spent := make([]float64, fresh), cpu(b)
			for b.Loop() {
				s.Load(x, 1, m)
				s.Weights(w, k, false, func(i int) Query { return Query{n - 1 + i, i, n - 1 + i} }, nil)
			}
			b.ReportMetric(1e9*spent()/float64(b.N*fresh), "cpu-ns/score")
		})
	}
}
