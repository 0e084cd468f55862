package threshold

import (
	"math/rand/v2"
	"testing"
)

// BenchmarkJudge measures scores of many series whose histories are full, 16 of a series at once: the histories of all are
// larger than the caches.
func BenchmarkJudge(b *testing.B) {
	params := Params{Kind: Conformal, Value: 0.0015, History: 2048, Decluster: 32}
	if err := params.Check(); err != nil {
		b.Fatal(err)
	}
	const series, each = 4000, 16
	rng := rand.New(rand.NewPCG(1, 2))
	states := make([][]float32, series)
	for i := range states {
		states[i] = make([]float32, params.Size())
		ring := states[i][head : head+params.History]
		for j := range ring {
			ring[j] = rng.Float32()
		}
		states[i][atCount] = float32(params.History)
		if !params.Restore(states[i]) {
			b.Fatal("no state")
		}
	}
	for n := 0; b.Loop(); n++ {
		params.Judge(states[n/each%series], rng.Float32())
	}
}
