package discord

import (
	"math"
	"math/rand/v2"
	"testing"

	"odradek/detectors"
	"odradek/detectors/seedtest"
)

// TestLeftSearch compares whole searches with LeftScorer, to the bit, from any first neighbour; what an early end leaves is no
// less.
func TestLeftSearch(t *testing.T) {
	rng := seedtest.New(t)
	var s leftSearch
	var l LeftScorer
	var w, v LeftMemory
	searched, single, nearest := 0, 0, 0
	for _, signal := range append(detectors.Signals(rng), randomWalk(rng), randomWalk(rng)) {
		n := 300 + rng.IntN(6000)
		x := make([]float64, n)
		for i := range x {
			x[i] = signal.At(i, n)
		}
		lengths := [][]int{{50, 72, 104, 150}, {5}, {7, 14}, {20, 31, 33}}[rng.IntN(4)]
		longest, flat := lengths[len(lengths)-1], rng.IntN(2) == 0
		l.Load(x, 1)
		l.Lengths(lengths, 1, flat)
		want, got := make([]float64, len(lengths)), make([]float64, len(lengths))
		lag := 0
		for range 6 {
			end := 2*longest + rng.IntN(n-2*longest+1)
			from := rng.IntN(end - 2*longest + 1)
			if rng.IntN(2) == 0 {
				from = max(0, end-n/2-2*longest)
			}
			l.Scores(&v, want, from, end)
			if rng.IntN(3) == 0 {
				lag = longest + rng.IntN(n)
			}
			next, ok := s.scores(&w, got, x, lengths, flat, from, end, lag, func([]float64) bool { return false })
			if !ok {
				continue
			}
			searched++
			for a := range want {
				if math.Float64bits(got[a]) != math.Float64bits(want[a]) {
					t.Fatalf("%s: %d rows, lengths %v, rows %d to %d, lag %d: scores %v, want %v", signal.Name, n, lengths, from, end, lag, got, want)
				}
			}
			lag = next
			if k := end - lag - longest; len(lengths) == 1 && lag > 0 && k >= from && want[0] > 1e-3 {
				single++
				if d := dissimilarity(x, 1, 0, k, end-longest, longest, flat); math.Abs(math.Sqrt(d)-want[0]) < 1e-6 {
					nearest++
				}
			}
			calls := 0
			if _, ok = s.scores(&w, got, x, lengths, flat, from, end, lag, func([]float64) bool {
				calls++
				return calls == 2
			}); !ok {
				t.Fatal("a search that ends early fails")
			}
			for a := range want {
				if got[a] < want[a]-1e-12 {
					t.Fatalf("%s: an early end leaves %v, less than the scores %v", signal.Name, got, want)
				}
			}
		}
	}
	if searched < 40 {
		t.Errorf("only %d of the scores are searched for", searched)
	}
	if 2*nearest < single {
		t.Errorf("the lag is of the nearest neighbour in %d of %d searches", nearest, single)
	}
}

func randomWalk(rng *rand.Rand) detectors.Signal {
	sum := 0.0
	return detectors.Signal{Name: "walk", At: func(int, int) float64 { sum += rng.NormFloat64(); return sum }}
}
