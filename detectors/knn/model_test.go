package knn

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"odradek/detectors/seedtest"
)

// modelDraws are distributions of a coordinate, beside topDraws: values that float32s have not, tied and far from 0.
var modelDraws = map[string]func(rnd *rand.Rand, i int) float64{
	"tenths":  func(rnd *rand.Rand, _ int) float64 { return float64(rnd.IntN(30)) / 10 },
	"offset":  func(rnd *rand.Rand, _ int) float64 { return 1e9 + float64(rnd.IntN(60))/100 },
	"dice":    func(rnd *rand.Rand, _ int) float64 { return 0.1 * float64(1+rnd.IntN(2)) },
	"uniform": func(rnd *rand.Rand, _ int) float64 { return rnd.Float64() },
	"levels":  func(rnd *rand.Rand, _ int) float64 { return 1e6*float64(rnd.IntN(3)) + rnd.NormFloat64()/100 },
}

// TestModel requires the first points of the solving set that SolvingSet finds, and the cut of the definition.
func TestModel(t *testing.T) {
	rnd := seedtest.New(t)
	whole, short, raised := 0, 0, 0
	for _, draws := range []map[string]func(*rand.Rand, int) float64{topDraws, modelDraws} {
		for name, draw := range draws {
			for range 20 {
				x, n, dim := drawPoints(rnd, draw, 600)
				p := TopParams{N: 1 + rnd.IntN(15), K: 1 + rnd.IntN(1+rnd.IntN(40)), Candidates: 1 + rnd.IntN(30)}
				most := 2*p.K + rnd.IntN(1+rnd.IntN(100))
				set, cut, err := Model(x, dim, most, p, together)
				if err != nil {
					t.Fatal(err)
				}
				want, wantCut := definedModel(t, x, dim, most, p)
				if !slices.Equal(set, want) || cut != wantCut {
					t.Fatalf("%d points of %d %s values, at most %d, %+v: set %v with cut %v, want %v with %v", n, dim, name, most, p, set, cut,
						want, wantCut)
				}
				if len(set) < most {
					whole++
				} else if short++; len(set) < n && cut > definedTop(x, dim, p)[min(p.N, n)-1].Weight {
					raised++
				}
			}
		}
	}
	if whole < 30 || short < 30 || raised < 10 {
		t.Errorf("%d whole solving sets, %d of which a part is kept, %d cuts that are raised", whole, short, raised)
	}
}

// definedModel is the definition of Model.
func definedModel(t *testing.T, x []float64, dim, most int, p TopParams) (set []int, cut float64) {
	t.Helper()
	top, err := Algorithms[2].Find(x, dim, p)
	if err != nil {
		t.Fatal(err)
	}
	if set = top.SolvingSet; len(x) == dim {
		return []int{0}, 0
	}
	cut = definedTop(x, dim, p)[len(top.Outliers)-1].Weight
	if len(set) <= most {
		return set, cut
	}
	set = set[:most]
	for i := range len(x) / dim {
		if slices.Contains(set, i) || slices.ContainsFunc(top.Outliers, func(o Outlier) bool { return o.At == i }) {
			continue
		}
		var far []float64
		for _, j := range set {
			far = append(far, square(x, dim, i, j))
		}
		slices.Sort(far)
		weight := 0.0
		for _, d := range far[:p.K] {
			weight += math.Sqrt(d)
		}
		cut = max(cut, weight)
	}
	return set, cut
}
