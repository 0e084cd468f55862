package discord

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"odradek/detectors"
)

// BenchmarkDiscord scores tasks of the newest rows of a noisy period: large windows with several lengths and few scored rows,
// and the windows of the preset's detectors.
func BenchmarkDiscord(b *testing.B) {
	large := Params{Window: 20000, Length: 50, MaxLength: 200, Lengths: 3, Every: 32}
	for _, tt := range []struct {
		p     Params
		fresh int
	}{
		{large, 32}, {large, 64}, {large, 512},
		{Params{Window: 20000, Length: 50, MaxLength: 150, Every: 32}, 32}, // none of its lengths is the sum of others
		{Params{Window: 20000, Length: 50, MaxLength: 200, Lengths: 3, K: 2, Every: 32}, 32},
		{Params{Window: 20000, Length: 100, Every: 32}, 32},
		{Params{Window: 1024, Length: 50, K: 2}, 16},
		{Params{Window: 1024, Length: 50, K: 2}, 1},
		{Params{Window: 2048, Length: 64}, 16},
		{Params{Window: 2048, Length: 64}, 1},
		{Params{Window: 8192, Length: 300, MaxLength: 1000, Every: 8}, 64},
	} {
		b.Run(fmt.Sprintf("%d/%d-%d x %d/k=%d/every=%d/fresh=%d", tt.p.Window, tt.p.Length, tt.p.MaxLength, tt.p.Lengths, tt.p.K, tt.p.Every,
			tt.fresh), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 1))
			d := detectors.Must(New(tt.p))
			n := tt.p.Window + tt.fresh - 1
			r := detectors.Rows{Dim: 1, Fresh: tt.fresh, Params: d.Params(), X64: make([]float64, n)}
			for i := range r.X64 {
				r.X64[i] = 20 + math.Sin(float64(i)*0.1) + 0.2*rng.NormFloat64()
			}
			size, _ := d.Size(detectors.View{Dim: 1, Rows: n, Fresh: tt.fresh})
			r.Scores, r.Detail = make([]float32, size.Scores), make(detectors.Words, size.Detail)
			for b.Loop() {
				cpu(b.Context(), &r, detectors.Sequential)
			}
			per := float64(b.Elapsed().Nanoseconds()) / float64(b.N)
			b.ReportMetric(per/float64(tt.fresh), "ns/sample")
			b.ReportMetric(per/float64(size.Scores), "ns/score")
			b.ReportMetric(float64(cost(&r))/per, "cost/ns")
		})
	}
}

// BenchmarkExactAbove scores the tasks of a series one after the other.
func BenchmarkExactAbove(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	sum := 0.0
	for name, next := range map[string]func(i int) float64{
		"period": func(i int) float64 { return math.Sin(float64(i)*0.1) + 0.2*rng.NormFloat64() },
		"walk":   func(int) float64 { sum += rng.NormFloat64(); return sum },
		"noise":  func(int) float64 { return rng.NormFloat64() },
	} {
		x := make([]float64, 30000)
		for i := range x {
			x[i] = next(i)
		}
		for _, share := range []float64{0, 0.5, 0.75, 0.9} {
			p := Params{Window: 20000, Length: 50, MaxLength: 150, Lengths: 4, Every: 32, ExactAbove: share}
			b.Run(fmt.Sprintf("%s/%v", name, share), func(b *testing.B) {
				tasks := 0
				for b.Loop() {
					tasks = 0
					chainOf(p, x, 32, func(detectors.Rows) { tasks++ })
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*tasks*32), "ns/sample")
			})
		}
	}
}

// chainOf scores a series by tasks of that many fresh rows, from the first full window on.
func chainOf(p Params, x []float64, fresh int, scored func(r detectors.Rows)) {
	d := detectors.Must(New(p))
	var carry detectors.Words
	for end := p.Window + fresh - 1; end <= len(x); end += fresh {
		r := detectors.Rows{Dim: 1, Fresh: fresh, Params: d.Params(), X64: x[end-p.Window-fresh+1 : end], Carry: carry}
		size, _ := d.Size(detectors.View{Dim: 1, Rows: len(r.X64), Fresh: fresh})
		r.Scores, r.Detail, r.Next = make([]float32, size.Scores), make(detectors.Words, size.Detail), make(detectors.Words, size.Carry)
		cpu(context.Background(), &r, detectors.Sequential)
		scored(r)
		carry = r.Next
	}
}
