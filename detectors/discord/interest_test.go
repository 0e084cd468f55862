package discord

import (
	"math"
	"slices"
	"testing"

	"odradek/detectors/seedtest"
)

// TestInterest compares the ranking with equation 12 by the whole heatmap: of all discords of all lengths the one with the largest
// normalised distance, then of those that have no value in common with it, and so on.
func TestInterest(t *testing.T) {
	rng := seedtest.New(t)
	for range 200 {
		n, k := 1+rng.IntN(200), 1+rng.IntN(2)
		score := func(d Discord) float64 { return Normalised(d.Distance, d.Length, k) }
		in := NewInterest(n, k)
		var all []Discord
		for range rng.IntN(100) {
			m := 1 + rng.IntN(min(n, 20))
			d := Discord{At: rng.IntN(n - m + 1), Length: m, Nearest: rng.IntN(n)}
			d.Distance = float64(k) * math.Sqrt(2*float64(m)*(0.1+float64(rng.IntN(4000))/2000))
			if !slices.ContainsFunc(all, func(o Discord) bool { return o.At == d.At && score(o) == score(d) }) {
				all = append(all, d)
				in.Add(d)
			}
		}
		var want []Discord
		for len(want) < 6 {
			best := -1
			for i, d := range all {
				largest := !slices.ContainsFunc(all, func(o Discord) bool { return o.At == d.At && score(o) > score(d) })
				apart := !slices.ContainsFunc(want, func(f Discord) bool { return max(d.At, f.At) < min(d.At+d.Length, f.At+f.Length) })
				better := best < 0 || score(d) > score(all[best]) || score(d) == score(all[best]) && d.At < all[best].At
				if largest && apart && better {
					best = i
				}
			}
			if best < 0 {
				break
			}
			want = append(want, all[best])
		}
		if got := in.Top(6); !slices.Equal(got, want) {
			t.Fatalf("of %d discords in %d places: %v, want %v", len(all), n, got, want)
		}
	}
}
