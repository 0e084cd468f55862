package lof

import (
	"math"
	"slices"
)

// Define is the definition of the scores of the last fresh points of points,
// dim numbers each, among all of them and the virtual points, whose counts are
// counts. It computes everything there is, in float64.
func Define(p *Params, points []float64, dim, fresh int, virtuals, counts []float64) []float64 {
	n := len(points) / dim
	all := slices.Concat(points, virtuals)
	total := len(all) / dim
	scores := make([]float64, fresh)
	for _, v := range all {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			for i := range scores {
				scores[i] = math.NaN()
			}
			return scores
		}
	}
	k := min(p.K, total-1)
	if k < 1 {
		for i := range scores {
			scores[i] = 1
		}
		return scores
	}

	// Neighbours and k-distances.
	neighbours, distance := make([][]int, total), make([][]float64, total)
	kdist := make([]float64, total)
	for i := range total {
		square := make([]float64, total)
		var others []int
		for j := range total {
			for c := range dim {
				d := all[i*dim+c] - all[j*dim+c]
				square[j] += float64(d * d)
			}
			if j != i {
				others = append(others, j)
			}
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
		neighbours[i] = others[:k]
		for _, j := range neighbours[i] {
			distance[i] = append(distance[i], math.Sqrt(square[j]))
		}
		kdist[i] = distance[i][k-1]
	}

	// Local reachability densities.
	lrd := make([]float64, total)
	for i := range n {
		sum := 0.0
		for a, j := range neighbours[i] {
			sum += max(kdist[j], distance[i][a])
		}
		lrd[i] = p.Density(sum, k, func() float64 { return ResolutionOf(points, dim) })
	}
	if len(counts) > 0 {
		logs := make([]float64, len(counts))
		for i, c := range counts {
			logs[i] = math.Log1p(c)
		}
		a, literal := p.scale(medianOf(lrd[:n]), medianOf(logs))
		for i, c := range counts {
			lrd[n+i] = virtual(a, literal, c)
		}
	}

	for f := range scores {
		i := n - fresh + f
		sum := 0.0
		for _, j := range neighbours[i] {
			sum += lrd[j]
		}
		scores[f] = p.factor(sum, lrd[i], k)
	}
	return scores
}

func medianOf(x []float64) float64 {
	x = slices.Clone(x)
	slices.Sort(x)
	return x[(len(x)-1)/2]
}
