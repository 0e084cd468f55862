package knn

import (
	"math"
	"math/rand/v2"
	"syscall"
	"testing"

	"odradek/detectors/seedtest"
)

func TestLineHasTheBitsOfTheSearch(t *testing.T) {
	rnd := seedtest.New(t)
	var search Scorer
	var line Line
	for range 600 {
		n, k, self := 1+rnd.IntN(1+rnd.IntN(500)), 1+rnd.IntN(40), rnd.IntN(2) == 0
		draw := draws(rnd)[rnd.IntN(len(draws(rnd)))]
		x := make([]float32, n)
		for i := range x {
			x[i] = draw(i)
		}
		if rnd.IntN(20) == 0 {
			x[rnd.IntN(n)] = float32(math.Inf(1 - 2*rnd.IntN(2)))
		}
		want, got := make([]float64, n), make([]float32, 1+rnd.IntN(n))
		search.Load(x, 1, 1)
		search.Weights(want, k, self, func(i int) Query { return Query{i, 0, n} }, nil)
		line.Weights(got, x, k, self)
		for i, v := range got {
			if w := float32(want[n-len(got)+i]); math.Float32bits(v) != math.Float32bits(w) && (v == v || w == w) {
				t.Fatalf("n=%d k=%d self=%v: weight %d of the last %d is %v, want %v", n, k, self, i, len(got), v, w)
			}
		}
		if got[0] != got[0] || min(k-number(self), n-1) < 1 {
			continue
		}
		for i, at := range line.line.At {
			if w := scaleToK(line.inOrder(i), k, min(k-number(self), n-1)+number(self)); w != want[at] {
				t.Fatalf("n=%d k=%d self=%v: weight %d in the order of points is %v, want %v", n, k, self, at, w, want[at])
			}
		}
	}
}

// cpu is the processor time since, in seconds: the machine may be shared.
func cpu(b *testing.B) func() float64 {
	now := func() float64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
	}
	start := now()
	return func() float64 { return now() - start }
}

// BenchmarkLine compares the two forms on whole windows of points of one coordinate.
func BenchmarkLine(b *testing.B) {
	const n, k = 1024, 20
	rnd := rand.New(rand.NewPCG(1, 1))
	x := make([]float32, 2*n)
	for i := range x {
		x[i] = float32(rnd.NormFloat64())
	}
	at := 0
	b.Run("sorted", func(b *testing.B) {
		var l Line
		w := make([]float32, n)
		used := cpu(b)
		for b.Loop() {
			at = (at + 1) % n
			l.Weights(w, x[at:at+n], k, false)
		}
		b.ReportMetric(n*float64(b.N)/used(), "points/cpu-s")
	})
	b.Run("search", func(b *testing.B) {
		var s Scorer
		w := make([]float64, n)
		used := cpu(b)
		for b.Loop() {
			at = (at + 1) % n
			s.Load(x[at:at+n], 1, 1)
			s.Weights(w, k, false, func(i int) Query { return Query{i, 0, n} }, nil)
		}
		b.ReportMetric(n*float64(b.N)/used(), "points/cpu-s")
	})
}
