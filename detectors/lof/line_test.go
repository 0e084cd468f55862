package lof

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"odradek/detectors/seedtest"
)

// TestLineHasTheBitsOfTheSearch requires that points of one coordinate have the scores, to the bit, of
// the search in two dimensions with a second coordinate of 0.
func TestLineHasTheBitsOfTheSearch(t *testing.T) {
	rng := seedtest.New(t)
	draws := map[string]func(*rand.Rand) float64{
		"filled": func(rng *rand.Rand) float64 {
			if rng.IntN(6) == 0 {
				return math.MaxFloat32
			}
			return rng.NormFloat64()
		},
		"two levels": func(rng *rand.Rand) float64 { return 100*float64(rng.IntN(2)) + rng.ExpFloat64() },
		"spikes": func(rng *rand.Rand) float64 {
			return math.Exp(30*rng.Float64()*float64(rng.IntN(12)/11)) + rng.NormFloat64()
		},
	}
	for kind, draw := range kinds {
		draws[kind] = draw
	}
	var line, plane Scorer
	for kind, draw := range draws {
		for round := range 12 {
			n := 1 + rng.IntN(1+rng.IntN(700))
			p := &Params{K: 1 + rng.IntN(30), Floor: Floor(rng.IntN(3))}
			if rng.IntN(8) == 0 {
				p.K = 1 + rng.IntN(n)
			}
			x, y := make([]float32, n), make([]float32, 2*n)
			for i := range x {
				x[i] = float32(draw(rng))
				if round%5 == 0 {
					x[i] += float32(i) / 50
				}
				y[2*i] = x[i]
			}
			want, got := make([]float32, n), make([]float32, n)
			plane.Score(p, want, y, 2, nil, nil)
			for _, fresh := range []int{n, 1, 1 + rng.IntN(n)} {
				got := got[n-fresh:]
				line.Score(p, got, x, 1, nil, nil)
				for i, v := range got {
					if w := want[n-fresh+i]; math.Float32bits(v) != math.Float32bits(w) {
						t.Fatalf("%s, %d points, %+v: score %d of the last %d is %v, want %v", kind, n, *p, i, fresh, v, w)
					}
				}
			}
			if n == 1 {
				continue
			}
			line.Score(p, got, x, 1, nil, nil)
			for i := rng.IntN(20); i < n; i += 20 {
				at := line.line.line.At[i]
				if v, w := line.line.densityInOrder(p, min(p.K, n-1), i), plane.lrd[at]; v != w {
					t.Fatalf("%s, %d points, %+v: density %d in the order of points is %v, want %v", kind, n, *p, at, v, w)
				}
				if v, w := line.line.inOrder(p, min(p.K, n-1), i), want[at]; math.Float32bits(v) != math.Float32bits(w) {
					t.Fatalf("%s, %d points, %+v: score %d in the order of points is %v, want %v", kind, n, *p, at, v, w)
				}
			}
		}
	}
}

// TestPartIsEnough requires that one score is found from a part of the points for usual distributions,
// also at their ends.
func TestPartIsEnough(t *testing.T) {
	rng := seedtest.New(t)
	var s Scorer
	x, score := make([]float32, 1024), make([]float32, 1)
	for _, draw := range []func(i int) float64{
		func(i int) float64 { return rng.NormFloat64() * (1 - 0.9*float64(i/1023)) }, // not far out: neighbours there are many ranks apart
		func(i int) float64 { return float64(i) },
		func(i int) float64 { return -float64(i) + 0.1*rng.NormFloat64() },
		func(i int) float64 { return rng.NormFloat64() + float64(i/1023)*1e6 },
	} {
		for i := range x {
			x[i] = float32(draw(i))
		}
		s.Score(&Params{K: 20}, score, x, 1, nil, nil)
		if got := len(s.line.line.X); got > len(x)/2 {
			t.Errorf("%v ... %v: %d points were sorted for one score", x[:2], x[1022:], got)
		}
	}
}

// BenchmarkLine compares the two forms on points of one coordinate.
func BenchmarkLine(b *testing.B) {
	const n, k = 1024, 20
	rng := rand.New(rand.NewPCG(1, 2))
	for _, d := range []struct {
		name string
		draw func(i int) float64
	}{
		{"normal", func(int) float64 { return rng.NormFloat64() }},
		{"sine in steps of 0.01", func(i int) float64 { return math.Round(100*math.Sin(float64(i)/30)+5*rng.NormFloat64()) / 100 }},
		{"two levels", func(i int) float64 { return float64(100*(i/300%2)) + rng.NormFloat64() }},
	} {
		x := make([]float32, 2*n)
		for i := range x {
			x[i] = float32(d.draw(i))
		}
		for _, fresh := range []int{n, 1} {
			for _, searched := range []bool{false, true} {
				b.Run(fmt.Sprintf("%s/fresh=%d/searched=%v", d.name, fresh, searched), func(b *testing.B) {
					var s Scorer
					scores, at, used := make([]float32, fresh), 0, cpu(b)
					for b.Loop() {
						at = (at + 1) % n
						if searched {
							s.load(x[at:at+n], 1, nil)
							s.k = k
							s.scoreSearched(&Params{K: k}, scores, nil, 0, nil, nil)
						} else {
							s.Score(&Params{K: k}, scores, x[at:at+n], 1, nil, nil)
						}
					}
					b.ReportMetric(float64(fresh)*float64(b.N)/used(), "points/cpu-s")
				})
			}
		}
	}
}
