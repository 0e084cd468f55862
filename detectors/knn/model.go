package knn

import (
	"math"
	"slices"
)

// Model returns a small set of points of x that judges new points as all of x would: a new point is an outlier if its weight
// among the set exceeds the cut. set has indexes into x.
//
// The set is the solving set that the algorithm SolvingSet finds, and the cut is the weight of the last of the p.N outliers in
// x. A solving set of more than most points is cut off after the first most of them (most is at least 2K). Points of x that
// are no outliers may then have a weight above that among the points kept; so the cut is raised to the largest of these weights.
//
// Model compares no more than most candidates with all points: that takes the same time for all points of one number and
// size, while whole sets may have most of the points where these are evenly spread or tied. The outliers of a larger set
// are found by a Tree, whose work parallel divides. The result does not depend on it.
func Model(x []float64, dim, most int, p TopParams, parallel func(n int, f func(i int))) (set []int, cut float64, err error) {
	s, err := newMining(x, dim, p)
	if err != nil {
		return nil, 0, err
	}
	if s.others < 1 {
		return []int{0}[:s.n], 0, nil
	}
	v := s.solving()
	outliers, rest := []Outlier(nil), best{n: s.N + 1} // rest: points that are neither kept nor inactive, with their weights among the kept
	if v.run(most, (*solving).compareInOrder) {
		outliers = v.top.list
	} else {
		for p, near := range v.near {
			if v.state[p] == active {
				slices.Sort(near)
				sum := 0.0
				for _, d := range near {
					sum += d
				}
				rest.add(Outlier{p, sum})
			}
		}
		v.near = nil // a tree needs memory, too
		t := newWideTree(x, dim, parallel)
		switch {
		case v.mining.stopped(): // parts of the tree may be missing
		case t != nil && (v.least == 0 || 32*float64(s.others)*t.off <= v.least*float64(t.scale)):
			outliers = t.Top(s.TopParams, parallel)
		default: // float32s are too coarse for these points
			outliers = s.sequential().Outliers
		}
	}
	if len(outliers) > 0 {
		cut = outliers[len(outliers)-1].Weight
	}
	for _, o := range rest.list {
		if !slices.ContainsFunc(outliers, func(outlier Outlier) bool { return outlier.At == o.At }) {
			cut = max(cut, o.Weight)
			break
		}
	}
	return v.set, cut, nil
}

// newWideTree returns a tree whose Top finds what Algorithms find for the float64 points x, nil where float32s have not
// the range. It has no Weights.
func newWideTree(x []float64, dim int, parallel func(n int, f func(i int))) *Tree {
	narrow, origin, off := make([]float32, len(x)), make([]float64, dim), make([]float64, dim)
	exact := true
	for i, v := range x {
		narrow[i] = float32(v)
		exact = exact && float64(narrow[i]) == v
	}
	if exact {
		return NewTree(narrow, dim, parallel)
	}
	for i, v := range x {
		origin[i%dim] += v / float64(len(x)/dim)
	}
	for i, v := range x {
		c := i % dim
		narrow[i] = float32(v - origin[c])
		off[c] = max(off[c], math.Abs(v-origin[c]-float64(narrow[i]))+(math.Abs(v)+math.Abs(origin[c]))*0x1p-53)
	}
	if !Finite(narrow) {
		return nil
	}
	t := NewTree(narrow, dim, parallel)
	t.wide, t.exact = x, false
	for _, v := range off {
		t.off += v * v
	}
	t.off = math.Sqrt(t.off) * float64(t.scale) * (1 + 0x1p-40)
	return t
}
