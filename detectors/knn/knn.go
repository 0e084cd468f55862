// Package knn computes the weight of a point: its distance to the k points nearest
// to it (Angiulli and Pizzuti, Fast outlier detection in high dimensional spaces,
// 2002), among the points before it, or among all points of a window (Angiulli,
// Basta, Lodi and Sartori, Fast outlier detection using a GPU, 2013, there by brute
// force).
//
// # The weight
//
// The weight of point p is the sum of the Euclidean distances, not squared, to its k neighbours: the k
// nearest of the other points, among equally far ones the first. If a function's parameter self is true (IncludeSelf of
// an op), p itself counts as the first of its k neighbours, at distance 0, and the other k-1 are the nearest other points, as in
// the pseudocode and the figures of 2013. The weight has the unit of the values.
//
// # Algorithms
//
// All algorithms find the weights of Define. The ops use, on the CPU:
//
//   - knn: a Tree where a task scores many points among all points of a window; Line for points of one coordinate; otherwise
//     a Scorer, by brute force.
//   - topn: Tree.Top, or for tasks in float64 the algorithm SolvingSet of Algorithms.
//   - solvingset, and knn with a reference set: Model, or SolvingSet of Algorithms, find the set; a Scorer compares the points with it.
//
// On a GPU knn and topn use the kernels of cuda/kernels (cuda/plan/knn.go, topn.go), which find the same weights.
//
// The other Algorithms are from the paper of 2013. `worker outliers` runs FindFast, FindByLeaves with a GPU, or the one that a flag
// names.
//
// # Degenerate input
//
//   - Where there are fewer than k points, all are neighbours, and the sum is times k
//     divided by their number. Without any the weight is NaN.
//   - A NaN or an infinity in one of the points, near or not, makes the weight NaN;
//     then there are no neighbours.
//   - A point that coincides with k others has the weight 0.
//
// Unlike the local outlier factor it does not depend on the density of the points around
// the neighbours, so scores are comparable everywhere in the window, as a threshold on the
// score's own history requires.
package knn

import (
	"math"
	"slices"
)

// MaxK is the largest number of neighbours.
const MaxK = 1 << 10

// Query asks for the weight of a point.
type Query struct {
	At       int // the point
	From, To int // compared with the points From to To-1, of which it need not be one
}

// Define is the definition of the weight of a point, and of its neighbours, nearest
// first; with self, the point itself is the first of them. x has successive rows of dim values; a point is m
// successive rows, and one begins at every row.
func Define(x []float64, dim, m, k int, self bool, q Query) (weight float64, neighbours []int) {
	point := func(i int) []float64 { return x[i*dim : (i+m)*dim] }
	at := point(q.At)
	others := make([]int, 0, q.To-q.From)
	square := make([]float64, max(q.To, q.At+1))
	bad := slices.ContainsFunc(at, isBad)
	for i := q.From; i < q.To; i++ {
		bad = bad || slices.ContainsFunc(point(i), isBad)
		if i == q.At {
			continue
		}
		sum := 0.0
		for c, v := range at {
			d := v - point(i)[c]
			sum += float64(d * d)
		}
		others, square[i] = append(others, i), sum
	}
	if bad {
		return math.NaN(), nil
	}
	slices.SortStableFunc(others, func(a, b int) int {
		switch {
		case square[a] < square[b]:
			return -1
		case square[a] > square[b]:
			return 1
		}
		return 0
	})
	if self {
		others = slices.Insert(others, 0, q.At)
	}
	neighbours = others[:min(k, len(others))]
	for _, i := range neighbours {
		weight += math.Sqrt(square[i]) // of itself 0
	}
	return scaleToK(weight, k, len(neighbours)), neighbours
}

// scaleToK scales the weight of n neighbours to k.
func scaleToK(sum float64, k, n int) float64 {
	if n == 0 {
		return math.NaN()
	}
	return sum * float64(k) / float64(n)
}

func isBad(v float64) bool { return math.IsNaN(v - v) }
