package vec

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"odradek/detectors/seedtest"
)

// lineDraws are distributions of a coordinate: with ties, with equal points, and with sizes so
// different that distances of different points round to the same.
var lineDraws = map[string]func(rnd *rand.Rand) float32{
	"noise":    func(rnd *rand.Rand) float32 { return float32(rnd.NormFloat64()) },
	"tied":     func(rnd *rand.Rand) float32 { return float32(rnd.IntN(3)) },
	"tenths":   func(rnd *rand.Rand) float32 { return float32(rnd.IntN(40)) / 10 },
	"integers": func(rnd *rand.Rand) float32 { return float32(rnd.IntN(60) - 30) },
	"constant": func(*rand.Rand) float32 { return 0.1 },
	"zeros":    func(rnd *rand.Rand) float32 { return float32(math.Copysign(0, float64(rnd.IntN(2))-1)) },
	"mostly":   func(rnd *rand.Rand) float32 { return max(0, float32(rnd.NormFloat64())-1) },
	"huge":     func(rnd *rand.Rand) float32 { return 3e38 * (2*rnd.Float32() - 1) },
	"grain":    func(rnd *rand.Rand) float32 { return float32(rnd.IntN(9)-4) * 0x1p-149 },
	"mixed":    func(rnd *rand.Rand) float32 { return float32(math.Exp(160 * (rnd.Float64() - 0.5))) },
	"filled": func(rnd *rand.Rand) float32 {
		if rnd.IntN(5) == 0 {
			return math.MaxFloat32
		}
		return float32(rnd.NormFloat64())
	},
}

func TestLineHasTheNearest(t *testing.T) {
	rnd := seedtest.New(t)
	var l Line
	for name, draw := range lineDraws {
		for range 150 {
			n := 2 + rnd.IntN(1+rnd.IntN(400))
			x := make([]float32, n)
			for i := range x {
				x[i] = draw(rnd)
			}
			k := 1 + rnd.IntN(min(n-1, 40))
			if rnd.IntN(8) == 0 {
				k = n - 1
			}
			var places []int32
			if rnd.IntN(2) == 0 {
				at := int32(rnd.IntN(5))
				for range x {
					places = append(places, at)
					at += 1 + int32(rnd.IntN(3))
				}
			}
			l.Sort(x, places)
			if !slices.IsSorted(l.X) {
				t.Fatalf("%s, %d points: not in order", name, n)
			}
			from := rnd.IntN(n)
			to := from + rnd.IntN(n-from) + 1
			l.Near(k, from, to)
			for i := from; i < to; i++ {
				want := make([]int32, 0, n)
				for j := range n {
					if j != i {
						want = append(want, int32(j))
					}
				}
				far := func(j int32) float64 { return math.Abs(l.X[i] - l.X[j]) }
				slices.SortFunc(want, func(a, b int32) int {
					return cmp.Or(cmp.Compare(far(a), far(b)), cmp.Compare(l.At[a], l.At[b]))
				})
				want = want[:k]
				if got := far(want[k-1]); l.Far[i] != got {
					t.Fatalf("%s, %d points, k = %d: neighbour k of position %d is %v away, want %v", name, n, k, i, l.Far[i], got)
				}
				var got []int32
				for j := l.Range[i].From; j < l.Range[i].To; j++ {
					if int(j) != i {
						got = append(got, j)
					}
				}
				got = append(got, l.Tied(l.Range[i])...)
				if l.Far[i] == 0 {
					if len(got) != k || slices.ContainsFunc(got, func(j int32) bool { return far(j) != 0 }) {
						t.Fatalf("%s, %d points, k = %d: neighbours of position %d are %v, not on its spot", name, n, k, i, got)
					}
					continue
				}
				slices.Sort(got)
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Fatalf("%s, %d points, k = %d: neighbours of position %d are %v, want %v", name, n, k, i, got, want)
				}
			}
		}
	}
}

func TestLineKeepsPlaces(t *testing.T) {
	rnd := seedtest.New(t)
	var l Line
	for _, n := range []int{0, 1, fewKeys, fewKeys + 1, 300, 70000} {
		for name, draw := range lineDraws {
			x := make([]float32, n)
			for i := range x {
				x[i] = draw(rnd)
			}
			l.Sort(x, nil)
			for i, at := range l.At {
				if l.X[i] != float64(x[at]) || i > 0 && (l.X[i-1] > l.X[i] || l.X[i-1] == l.X[i] && l.At[i-1] >= at) {
					t.Fatalf("%s, %d points: %v of place %d at position %d", name, n, l.X[i], at, i)
				}
			}
		}
	}
}

func BenchmarkLine(b *testing.B) {
	const n = 1024
	x := make([]float32, n+256)
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range x {
		x[i] = float32(rnd.NormFloat64())
	}
	var l Line
	at := 0
	each := func(b *testing.B) { b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/point") }
	b.Run("sort", func(b *testing.B) {
		for b.Loop() {
			at = (at + 1) % 256
			l.Sort(x[at:at+n], nil)
		}
		each(b)
	})
	b.Run("near", func(b *testing.B) {
		for b.Loop() {
			l.Near(20, 0, n)
		}
		each(b)
	})
}
