package knn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"odradek/detectors/seedtest"
)

// sequentially and together run the parts of a task.
func sequentially(n int, f func(i int)) {
	for i := range n {
		f(i)
	}
}

func together(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

// treeDraws are distributions of a coordinate of point i.
var treeDraws = map[string]func(rnd *rand.Rand, i int) float32{
	"normal":   func(rnd *rand.Rand, _ int) float32 { return float32(rnd.NormFloat64()) },
	"tied":     func(rnd *rand.Rand, _ int) float32 { return float32(rnd.IntN(6)) },
	"equal":    func(*rand.Rand, int) float32 { return 0.1 },
	"clusters": func(rnd *rand.Rand, _ int) float32 { return float32(1e3*float64(rnd.IntN(5)) + rnd.NormFloat64()) },
	"spots":    func(rnd *rand.Rand, i int) float32 { return float32(i%7) + float32(rnd.IntN(20)/19)*rnd.Float32() },
	"specks":   func(rnd *rand.Rand, i int) float32 { return float32(i%3) + float32(1e-12*rnd.NormFloat64()) },
	"far":      func(rnd *rand.Rand, _ int) float32 { return float32(rnd.NormFloat64() + 1e9*float64(rnd.IntN(60)/59)) },
	"huge":     func(rnd *rand.Rand, _ int) float32 { return float32(1e37 * rnd.NormFloat64()) },
	"tiny":     func(rnd *rand.Rand, _ int) float32 { return float32(1e-38 * rnd.NormFloat64()) },
	"grain":    func(rnd *rand.Rand, _ int) float32 { return float32(rnd.IntN(5)) * 0x1p-149 },
	"sizes":    func(rnd *rand.Rand, _ int) float32 { return float32(math.Exp(100 * (rnd.Float64() - 0.5))) },
}

func TestTreeHasTheBitsOfTheSearch(t *testing.T) {
	rnd := seedtest.New(t)
	for name, draw := range treeDraws {
		for range 12 {
			n, dim, k, self := 1+rnd.IntN(1+rnd.IntN(1500)), 1+rnd.IntN(5), 1+rnd.IntN(60), rnd.IntN(2) == 0
			x := make([]float32, n*dim)
			for i := range x {
				x[i] = draw(rnd, i/dim)
			}
			what := fmt.Sprintf("%s, %d points of %d, k=%d self=%v", name, n, dim, k, self)
			var s Scorer
			want := make([]float64, n)
			s.Load(x, dim, 1)
			s.Weights(want, k, self, func(i int) Query { return Query{i, 0, n} }, nil)
			got := make([]float32, n)
			NewTree(x, dim, together).Weights(got, k, self, together)
			for i, v := range got {
				if w := float32(want[i]); math.Float32bits(v) != math.Float32bits(w) && (v == v || w == w) {
					t.Fatalf("%s: weight %d is %v, want %v", what, i, v, w)
				}
			}
		}
	}
}

func TestTreeHasTheTop(t *testing.T) {
	rnd := seedtest.New(t)
	for name, draw := range treeDraws {
		for range 12 {
			n, dim := 1+rnd.IntN(1+rnd.IntN(900)), 1+rnd.IntN(4)
			p := TopParams{N: 1 + rnd.IntN(15), K: 1 + rnd.IntN(1+rnd.IntN(60)), Self: rnd.IntN(2) == 0}
			x := make([]float32, n*dim)
			for i := range x {
				x[i] = draw(rnd, i/dim)
			}
			want, err := Algorithms[4].Find(widen(x), dim, p)
			if err != nil {
				t.Fatal(err)
			}
			if got := NewTree(x, dim, together).Top(p, together); !equal(got, want.Outliers) {
				t.Fatalf("%s, %d points of %d, %+v: got %v, want %v", name, n, dim, p, got, want.Outliers)
			}
		}
	}
}

// TestTreeOfSpecks: clusters so tight that most points of one are equal take no longer than
// others, counted in distances: of 8,000 points the search would compute 64 million.
func TestTreeOfSpecks(t *testing.T) {
	rnd := seedtest.New(t)
	const n, dim, k = 8000, 2, 20
	x := make([]float32, n*dim)
	for i := range x {
		x[i] = treeDraws["specks"](rnd, i/dim)
	}
	tree, computed := NewTree(x, dim, sequentially), 0
	v := tree.visit()
	defer v.leave()
	for i := range n {
		v.search(i, i, k+1)
		computed += len(v.seen[0].places)
	}
	if computed > n*20*k {
		t.Errorf("%d points are left of %d searches for %d neighbours", computed, n, k)
	}
}

// BenchmarkTree compares the tree with the search, where that ends in time.
func BenchmarkTree(b *testing.B) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct{ n, dim, k int }{{20_000, 2, 50}, {100_000, 2, 50}, {1_000_000, 2, 50}, {100_000, 3, 50}, {50_000, 8, 20}} {
		x := make([]float32, c.n*c.dim)
		for i := range x {
			x[i] = float32(rnd.NormFloat64())
		}
		weights := make([]float32, c.n)
		b.Run(fmt.Sprintf("tree/n=%d/d=%d/k=%d", c.n, c.dim, c.k), func(b *testing.B) {
			used := cpu(b)
			for b.Loop() {
				NewTree(x, c.dim, sequentially).Weights(weights, c.k, false, sequentially)
			}
			b.ReportMetric(float64(c.n)*float64(b.N)/used(), "points/cpu-s")
		})
		if c.n > 50_000 {
			continue
		}
		b.Run(fmt.Sprintf("search/n=%d/d=%d/k=%d", c.n, c.dim, c.k), func(b *testing.B) {
			var s Scorer
			w := make([]float64, c.n)
			used := cpu(b)
			for b.Loop() {
				s.Load(x, c.dim, 1)
				s.Weights(w, c.k, false, func(i int) Query { return Query{i, 0, c.n} }, nil)
			}
			b.ReportMetric(float64(c.n)*float64(b.N)/used(), "points/cpu-s")
		})
	}
}
