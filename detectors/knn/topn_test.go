package knn

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"odradek/detectors"
	"odradek/detectors/seedtest"
)

// definedTop returns the points of largest weight by the definition.
func definedTop(x []float64, dim int, p TopParams) []Outlier {
	n := len(x) / dim
	all := make([]Outlier, n)
	for i := range all {
		w, _ := Define(x, dim, 1, p.K, p.Self, Query{i, 0, n})
		all[i] = Outlier{i, w}
	}
	slices.SortStableFunc(all, func(a, b Outlier) int { return cmp.Compare(b.Weight, a.Weight) })
	return all[:min(p.N, n)]
}

func equal(a, b []Outlier) bool {
	return slices.EqualFunc(a, b, func(a, b Outlier) bool {
		return a.At == b.At && (a.Weight == b.Weight || a.Weight != a.Weight && b.Weight != b.Weight)
	})
}

// topDraws are distributions of a coordinate.
var topDraws = map[string]func(rnd *rand.Rand, i int) float64{
	"normal":   func(rnd *rand.Rand, _ int) float64 { return rnd.NormFloat64() },
	"tied":     func(rnd *rand.Rand, _ int) float64 { return float64(rnd.IntN(4)) },
	"equal":    func(*rand.Rand, int) float64 { return 0.1 },
	"spots":    func(rnd *rand.Rand, _ int) float64 { return math.Floor(rnd.Float64() * rnd.Float64() * 1.2) },
	"drift":    func(_ *rand.Rand, i int) float64 { return float64(i) },
	"clusters": func(rnd *rand.Rand, _ int) float64 { return 1e3*float64(rnd.IntN(5)) + rnd.NormFloat64() },
	"far":      func(rnd *rand.Rand, _ int) float64 { return rnd.NormFloat64() + 1e7*float64(rnd.IntN(60)/59) },
	"sizes":    func(rnd *rand.Rand, _ int) float64 { return math.Exp(60 * (rnd.Float64() - 0.5)) },
	"huge":     func(rnd *rand.Rand, _ int) float64 { return 1e200 * rnd.NormFloat64() },
}

// drawPoints returns up to most points of up to four values, with their number and the number of values of a point.
func drawPoints(rnd *rand.Rand, draw func(*rand.Rand, int) float64, most int) (x []float64, n, dim int) {
	n, dim = 1+rnd.IntN(1+rnd.IntN(most)), 1+rnd.IntN(4)
	x = make([]float64, n*dim)
	for i := range x {
		x[i] = draw(rnd, i)
	}
	return x, n, dim
}

// TestAlgorithmsAgree requires that all algorithms find the points of the definition, to the bit.
func TestAlgorithmsAgree(t *testing.T) {
	rnd := seedtest.New(t)
	for name, draw := range topDraws {
		for range 25 {
			x, n, dim := drawPoints(rnd, draw, 200)
			p := TopParams{N: 1 + rnd.IntN(15), K: 1 + rnd.IntN(1+rnd.IntN(40)), Self: rnd.IntN(2) == 0,
				Candidates: rnd.IntN(30), Workers: rnd.IntN(4)}
			want := definedTop(x, dim, p)
			for _, algorithm := range Algorithms {
				what := fmt.Sprintf("%s of %d points of %d %s values, %+v", algorithm.Name, n, dim, name, p)
				got, err := algorithm.Find(x, dim, p)
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				if !equal(got.Outliers, want) {
					t.Fatalf("%s: got %v, want %v", what, got.Outliers, want)
				}
				if pairs := int64(n) * int64(n-1); got.Distances > pairs {
					t.Errorf("%s: %d distances of %d pairs", what, got.Distances, pairs)
				}
				if got.SolvingSet != nil {
					checkSolvingSet(t, what, x, dim, p, got)
				}
			}
		}
	}
}

// checkSolvingSet compares a solving set with its definition: it has enough points, and among these no
// point outside has a weight above the last outlier's.
func checkSolvingSet(t *testing.T, what string, x []float64, dim int, p TopParams, top Top) {
	in := map[int]bool{}
	var set []float64
	for _, i := range top.SolvingSet {
		if in[i] {
			t.Fatalf("%s: point %d is in the solving set twice", what, i)
		}
		in[i] = true
		set = append(set, x[i*dim:(i+1)*dim]...)
	}
	for _, o := range top.Outliers {
		if !in[o.At] {
			t.Errorf("%s: outlier %d is not in the solving set", what, o.At)
		}
	}
	cut := top.Outliers[len(top.Outliers)-1].Weight
	for i := range len(x) / dim {
		if in[i] {
			continue
		}
		y := slices.Concat(set, x[i*dim:(i+1)*dim])
		n := len(set) / dim
		if w, _ := Define(y, dim, 1, p.K, p.Self, Query{n, 0, n}); w > cut*(1+1e-12) {
			t.Fatalf("%s: point %d has weight %v among the solving set, above %v", what, i, w, cut)
		}
	}
}

// TestNeighbourCounts has numbers of neighbours up to the largest: the fast forms must have the
// neighbours and weights of the definition, and the tree the points of all algorithms.
func TestNeighbourCounts(t *testing.T) {
	rnd := seedtest.New(t)
	for name, draw := range map[string]func(i, c int) float64{
		"G2d":   func(_, _ int) float64 { return float64(float32(rnd.NormFloat64())) },
		"G3d":   func(i, c int) float64 { return float64(float32(rnd.NormFloat64() + 10*float64(i%3*c))) },
		"Poker": func(_, c int) float64 { return float64(1 + rnd.IntN([2]int{4, 13}[c%2])) },
	} {
		dim := map[string]int{"G2d": 2, "G3d": 3, "Poker": 10}[name]
		n := 1100 + rnd.IntN(300)
		x := make([]float64, n*dim)
		for i := range x {
			x[i] = draw(i/dim, i%dim)
		}
		for _, k := range []int{5, 10, 50, 100, 1000} {
			what := fmt.Sprintf("%s, %d points, k=%d", name, n, k)
			weights, neighbours := all(narrow(x), dim, k, false)
			byTree := make([]float32, n)
			tree := NewTree(narrow(x), dim, together)
			tree.Weights(byTree, k, false, together)
			for range 20 {
				i := rnd.IntN(n)
				want, ids := Define(x, dim, 1, k, false, Query{i, 0, n})
				if !slices.Equal(neighbours[i], ids) {
					t.Errorf("%s: neighbours of %d are %v, want %v", what, i, neighbours[i], ids)
				}
				if !near(weights[i], want, 1e-12) || !near(float64(byTree[i]), want, 1e-6) {
					t.Errorf("%s: weight of %d is %v, by the tree %v, want %v", what, i, weights[i], byTree[i], want)
				}
			}
			p := TopParams{N: 10, K: k, Workers: 2}
			found := tree.Top(p, together)
			if want, _ := Define(x, dim, 1, k, false, Query{found[0].At, 0, n}); found[0].Weight != want {
				t.Errorf("%s: the largest weight is %v, want %v", what, found[0], want)
			}
			for _, algorithm := range Algorithms {
				if got, err := algorithm.Find(x, dim, p); err != nil || !equal(got.Outliers, found) {
					t.Errorf("%s: %s finds %v, %v, the tree %v", what, algorithm.Name, got.Outliers, err, found)
				}
			}
		}
	}
}

// TestSolvingSetIsSmall requires that a solving set is a small part of the points, and that equal
// points do not all become candidates.
func TestSolvingSetIsSmall(t *testing.T) {
	rnd := seedtest.New(t)
	const n = 5000
	x := make([]float64, 2*n)
	for i := range x {
		x[i] = rnd.NormFloat64()
	}
	for _, algorithm := range Algorithms[2:] {
		for what, x := range map[string][]float64{"normal": x, "equal": make([]float64, 2*n)} {
			got, err := algorithm.Find(x, 2, TopParams{N: 10, K: 10, Workers: 2})
			if err != nil {
				t.Fatal(err)
			}
			if len(got.SolvingSet) > n/5 || got.Distances > n*n/10 {
				t.Errorf("%s of %s points: %d in the solving set, %d distances", algorithm.Name, what, len(got.SolvingSet), got.Distances)
			}
		}
	}
}

func TestFindRefuses(t *testing.T) {
	for _, c := range []struct {
		x    []float64
		dim  int
		p    TopParams
		want string
	}{
		{[]float64{1, 2, 3}, 2, TopParams{N: 1, K: 1}, "3 values do not make points of 2"},
		{[]float64{1, 2}, 0, TopParams{N: 1, K: 1}, "do not make points of 0"},
		{[]float64{1, 2, 3, math.NaN()}, 2, TopParams{N: 1, K: 1}, "value 1 of point 1 is NaN"},
		{[]float64{1, math.Inf(1)}, 1, TopParams{N: 0, K: 1}, "n is 0"},
		{[]float64{1, math.Inf(1)}, 1, TopParams{N: 1, K: MaxK + 1}, "point 1 is +Inf"},
	} {
		for _, algorithm := range Algorithms {
			if _, err := algorithm.Find(c.x, c.dim, c.p); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s of %v: the error is %v, want one with %q", algorithm.Name, c.x, err, c.want)
			}
		}
	}
	for _, algorithm := range Algorithms {
		if got, err := algorithm.Find(nil, 3, TopParams{N: 1, K: 1}); err != nil || len(got.Outliers) > 0 {
			t.Errorf("%s of no points: %v, %v", algorithm.Name, got, err)
		}
	}
}

// TestFindFast requires of the fastest way the points of the definition, to the bit: of ties, duplicates, more neighbours than
// points, and points that float32s cannot tell apart.
func TestFindFast(t *testing.T) {
	rnd := seedtest.New(t)
	draws := maps.Clone(topDraws)
	draws["offset"] = func(rnd *rand.Rand, _ int) float64 { return 1e9 + 1e-3*rnd.NormFloat64() }
	draws["specks"] = func(rnd *rand.Rand, i int) float64 { return 1e9*float64(i%3) + 1e-3*rnd.NormFloat64() }
	draws["duplicates"] = func(rnd *rand.Rand, _ int) float64 { return float64(rnd.IntN(30)) / 10 }
	ways := map[string]int{}
	for name, draw := range draws {
		for range 25 {
			x, n, dim := drawPoints(rnd, draw, 500)
			p := TopParams{N: 1 + rnd.IntN(15), K: 1 + rnd.IntN(1+rnd.IntN(n+20)), Self: rnd.IntN(2) == 0, Workers: 1 + rnd.IntN(3)}
			got, way, err := FindFast(x, dim, p, together)
			if err != nil {
				t.Fatal(err)
			}
			want, err := Algorithms[0].Find(x, dim, p)
			if err != nil {
				t.Fatal(err)
			}
			ways[way]++
			if !equal(got.Outliers, want.Outliers) {
				t.Fatalf("%s, %d points of %d, %+v, %s: got %v, want %v", name, n, dim, p, way, got.Outliers, want.Outliers)
			}
		}
	}
	if ways[Fastest] == 0 || len(ways) != 2 {
		t.Errorf("ways %v: both have to be taken", ways)
	}
	if _, _, err := FindFast([]float64{1, math.NaN()}, 1, TopParams{N: 1, K: 1}, together); err == nil {
		t.Error("a point without a value is taken")
	}
}

// TestFindByLeaves requires of searches of leaves in float32 the points of the definition, to the bit, or none: of ties, duplicates,
// more neighbours than points, values far from 0 and far apart. Points that float32s tell apart are found.
func TestFindByLeaves(t *testing.T) {
	rnd := seedtest.New(t)
	draws := maps.Clone(topDraws)
	draws["offset"] = func(rnd *rand.Rand, _ int) float64 { return 1e9 + 1e-3*rnd.NormFloat64() }
	draws["specks"] = func(rnd *rand.Rand, i int) float64 { return 1e9*float64(i%3) + 1e-3*rnd.NormFloat64() }
	draws["duplicates"] = func(rnd *rand.Rand, _ int) float64 { return float64(rnd.IntN(30)) / 10 }
	draws["tiny"] = func(rnd *rand.Rand, _ int) float64 { return 1e-100 * rnd.NormFloat64() }
	cpu := detectors.NewCPU(1)
	defer cpu.Close()
	search := LeavesBy(t.Context(), cpu, cpu.Batch())
	found, several := map[string]int{}, 0
	for name, draw := range draws {
		for range 25 {
			x, n, dim := drawPoints(rnd, draw, 500)
			p := TopParams{N: 1 + rnd.IntN(15), K: 1 + rnd.IntN(1+rnd.IntN(40)), Self: rnd.IntN(2) == 0, Workers: 1 + rnd.IntN(3)}
			parts := 0
			got, ok, err := FindByLeaves(x, dim, p, 1+rnd.IntN(n), func(n, dim int, p TopParams, fill func([]float32)) ([]Outlier, error) {
				parts++
				return search(n, dim, p, fill)
			}, together)
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				continue
			}
			found[name]++
			several += min(1, parts/2)
			if want := definedTop(x, dim, p); !equal(got.Outliers, want) {
				t.Fatalf("%s, %d points of %d, %+v: got %v, want %v", name, n, dim, p, got.Outliers, want)
			}
		}
	}
	if found["huge"] > 5 || found["normal"]+found["far"]+found["clusters"]+found["tiny"] < 100 || several < 20 {
		t.Errorf("found %v, %d in several parts", found, several)
	}
	x := make([]float64, 8000) // all weights are equal
	for i := range x {
		x[i] = float64(i)
	}
	if _, ok, err := FindByLeaves(x, 1, TopParams{N: 1, K: 1}, len(x), search, together); ok || err != nil {
		t.Errorf("equal weights: %v, %v", ok, err)
	}
	failing := func(int, int, TopParams, func([]float32)) ([]Outlier, error) { return nil, errors.New("out of order") }
	if _, ok, err := FindByLeaves(x, 1, TopParams{N: 1, K: 1}, 100, failing, together); ok || err == nil {
		t.Error("the error of a search is lost")
	}
}

// TestStop holds that each algorithm ends before its first point or step once it is told to.
func TestStop(t *testing.T) {
	x := make([]float64, 4000)
	for i := range x {
		x[i] = float64(i)
	}
	for i := range Algorithms {
		top, err := Algorithms[i].Find(x, 1, TopParams{N: 3, K: 2, Stop: func() bool { return true }})
		if err != nil || len(top.Outliers) > 0 {
			t.Errorf("%s goes on: %v, %v", Algorithms[i].Name, top.Outliers, err)
		}
	}
}
