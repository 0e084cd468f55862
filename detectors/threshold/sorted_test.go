package threshold

import (
	"slices"
	"testing"

	"odradek/detectors/seedtest"
)

// TestLower holds that lower counts the scores below x in sets of every size up to some thousands,
// with ties, for scores in the set and between.
func TestLower(t *testing.T) {
	r := seedtest.New(t)
	for n := range 3000 {
		if n > 300 && r.IntN(20) > 0 {
			continue
		}
		sorted := make([]float32, n)
		for i := range sorted {
			if sorted[i] = r.Float32(); n%2 == 0 {
				sorted[i] = float32(r.IntN(1 + n/4))
			}
		}
		slices.Sort(sorted)
		for range 30 {
			x := 2*r.Float32() - 0.5
			if n > 0 && r.IntN(3) > 0 {
				x = sorted[r.IntN(n)]
			}
			want := 0
			for want < n && sorted[want] < x {
				want++
			}
			y := r.Float32()
			both, other := lowers(sorted, x, y)
			if got := lower(sorted, x); got != want || both != want || other != lower(sorted, y) {
				t.Fatalf("%d of %d scores are below %v, got %d, and %d and %d with %v", want, n, x, got, both, other, y)
			}
		}
	}
}

func BenchmarkLower(b *testing.B) {
	sorted := make([]float32, 2048)
	for i := range sorted {
		sorted[i] = float32(i)
	}
	at := uint32(1)
	for b.Loop() {
		at = at*1664525 + 1013904223 + uint32(lower(sorted, float32(at>>21)))
	}
}
