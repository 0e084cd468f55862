package discord

import (
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
