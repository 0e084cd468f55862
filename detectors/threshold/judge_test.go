package threshold

import (
	"math/rand/v2"
	"testing"
)

// BenchmarkJudge measures scores of one series and, 16 of a series at once, of many whose histories together are larger than the caches.
// All histories are full.
func BenchmarkJudge(b *testing.B) {
	conformal := Params{Kind: Conformal, Value: 0.0015, History: 2048, Decluster: 32}
	quantile := Params{Kind: Quantile, Value: 0.95, Margin: 1.5, History: 2048, Decluster: 8}
	for _, c := range []struct {
		name   string
		params Params
		series int
	}{{"conformal/1", conformal, 1}, {"conformal/4096", conformal, 4096}, {"quantile/1", quantile, 1}, {"quantile/4096", quantile, 4096}} {
		b.Run(c.name, func(b *testing.B) {
			if err := c.params.Check(); err != nil {
				b.Fatal(err)
			}
			const each = 16
			rng := rand.New(rand.NewPCG(1, 2))
			scores := make([]float32, 1<<16)
			for i := range scores {
				scores[i] = rng.Float32()
			}
			states := make([][]float32, c.series)
			for i := range states {
				states[i] = make([]float32, c.params.Size())
				for j := range c.params.History {
					states[i][head+j] = scores[rng.IntN(len(scores))]
				}
				if states[i][atCount] = float32(c.params.History); !c.params.Restore(states[i]) {
					b.Fatal("no state")
				}
				c.params.JudgeAt(states[i], 0.5, 0, false)
			}
			for n := 0; b.Loop(); n++ {
				c.params.JudgeAt(states[n/each%c.series], scores[n%len(scores)], 0, false)
			}
			b.ReportMetric(float64(4*c.params.Size()), "B/state")
		})
	}
}
