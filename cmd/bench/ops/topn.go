package ops

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"odradek/cmd/bench/testbed"
	"odradek/detectors"
	"odradek/detectors/knn"
)

// topN is the number of outliers that topn asks for, the paper's n.
const topN = 10

// bruteMost is the largest number of points for which topn runs algorithms that compare all or most pairs, unless -shapes names them.
const bruteMost = 20_000

// treeWay is the name of the algorithm that is not from the paper.
const treeWay = "kd-tree"

// pointSet is a set of points to find outliers among.
type pointSet struct {
	name string
	load func(b *Bench) (x []float64, dim int, err error)
	// alike: weights differ so little that a solving set is a large part of the points.
	alike bool
}

// pointSets are the paper's sets that can be generated, and the tables with reference figures.
var pointSets = []pointSet{
	{"G2d", drawn(1_000_000, 2, func(rng *rand.Rand, _, _ int) float64 { return rng.NormFloat64() }), false},
	{"G3d", drawn(500_000, 3, func(rng *rand.Rand, i, c int) float64 {
		return rng.NormFloat64() + [3][3]float64{{0, 0, 0}, {10, 0, 0}, {0, 10, 10}}[i%3][c]
	}), false},
	// Poker hands: suits of 1 to 4 and ranks of 1 to 13 in turn.
	{"Poker", drawn(1_000_000, 10, func(rng *rand.Rand, _, c int) float64 { return float64(1 + rng.IntN([2]int{4, 13}[c%2])) }), true},
	{"mammography", table("23_mammography"), false},
	{"shuttle", table("32_shuttle"), false},
	{"skin", table("33_skin"), false},
	{"cover", table("10_cover"), false},
	{"http", table("16_http"), false},
}

// drawn draws n points, with -quick a tenth of them.
func drawn(n, dim int, draw func(rng *rand.Rand, i, c int) float64) func(*Bench) ([]float64, int, error) {
	return func(b *Bench) ([]float64, int, error) {
		points := n
		if b.Quick {
			points /= 10
		}
		rng := rand.New(rand.NewPCG(2013, uint64(dim)))
		x := make([]float64, points*dim)
		for i := range x {
			x[i] = draw(rng, i/dim, i%dim)
		}
		return x, dim, nil
	}
}

// table reads a table of the ADBench collection, as it is.
func table(name string) func(*Bench) ([]float64, int, error) {
	return func(b *Bench) ([]float64, int, error) { return readNPZ(filepath.Join(b.Tables, name+".npz"), "X") }
}

// TopWeights finds the points of largest weight by all ways and holds the results against
// each other.
func (b *Bench) TopWeights(ctx context.Context) ([]testbed.Row, error) {
	var rows []testbed.Row
	for _, set := range pointSets {
		name := func(algorithm string, k int) string {
			return fmt.Sprintf("%s n=%d k=%d, %s", set.name, topN, k, algorithm)
		}
		ks := []int{5, 10, 50}
		if !slices.ContainsFunc(ks, func(k int) bool {
			return b.wants(name(treeWay, k)) || slices.ContainsFunc(knn.Algorithms, func(w knn.Algorithm) bool { return b.wants(name(w.Name, k)) })
		}) {
			continue
		}
		x, dim, err := set.load(b)
		if err != nil {
			rows = append(rows, testbed.Row{Case: set.name, Skipped: testbed.FirstLine(err.Error())})
			continue
		}
		narrow := make([]float32, len(x)) // what the tree takes, and so that all ways have the same points
		for i, v := range x {
			narrow[i] = float32(v)
			x[i] = float64(narrow[i])
		}
		points := len(x) / dim
		for _, k := range ks {
			var found []knn.Outlier
			if b.wants(name(treeWay, k)) {
				b.Say("%s", name(treeWay, k))
				parallel := detectors.NewHelpers(runtime.GOMAXPROCS(0) - 1).Parallel(ctx)
				began := time.Now()
				tree := knn.NewTree(narrow, dim, parallel)
				built := time.Since(began)
				found = tree.Top(knn.TopParams{N: topN, K: k}, parallel)
				if ctx.Err() != nil {
					return rows, ctx.Err()
				}
				r := testbed.NewRow(name(treeWay, k), time.Since(began).Seconds(), "s")
				rows = append(rows, r.Noted("%d points of %d values; %.3f s of it to build the tree",
					points, dim, built.Seconds()))
			}
			for _, algorithm := range knn.Algorithms {
				all := algorithm.Name == "BruteForce" || algorithm.Name == "BruteForce-SH"
				if !b.wants(name(algorithm.Name, k)) {
					continue
				}
				if (all || set.alike) && points > bruteMost && b.Shapes == nil {
					rows = append(rows, testbed.Row{Case: name(algorithm.Name, k),
						Skipped: fmt.Sprintf("%d points, more than %d: -shapes selects it", points, bruteMost)})
					continue
				}
				if ctx.Err() != nil {
					return rows, ctx.Err()
				}
				b.Say("%s", name(algorithm.Name, k))
				began, used := time.Now(), testbed.OwnCPU()
				top, err := algorithm.Find(x, dim, knn.TopParams{N: topN, K: k, Workers: runtime.GOMAXPROCS(0)})
				if err != nil {
					return rows, err
				}
				took := time.Since(began).Seconds()
				if found == nil {
					found = top.Outliers
				}
				if !slices.Equal(found, top.Outliers) {
					return rows, fmt.Errorf("%s finds %v, another algorithm %v", name(algorithm.Name, k), top.Outliers, found)
				}
				pairs := float64(points) * float64(points-1)
				first, last := found[0], found[len(found)-1]
				r := testbed.NewRow(name(algorithm.Name, k), took, "s")
				r = r.Noted("%d points of %d values; %.4g%% of the distances", points, dim, 100*float64(top.Distances)/pairs)
				r = r.Noted("%.2f s of processor time", (testbed.OwnCPU() - used).Seconds())
				r = r.Noted("point %d first, weight %.6f; point %d last, weight %.6f", first.At, first.Weight, last.At, last.Weight)
				if top.SolvingSet != nil {
					r = r.Noted("%d in the solving set", len(top.SolvingSet))
				}
				rows = append(rows, r)
			}
		}
	}
	return rows, nil
}
