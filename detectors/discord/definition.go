package discord

import (
	"cmp"
	"math"
	"slices"
)

// Options define the neighbours of a distance; the zero value is the usual discord.
type Options struct {
	// Exclusion is the least |i-j| of subsequences that are compared; 0 is m. SCAMP
	// (Zimmerman et al., SoCC 2019) has m/4, rounded down.
	Exclusion int
	// K is the number of neighbours whose distances are summed; 0 is 1.
	K int
	// ExcludeFlat compares flat subsequences with each other alone.
	ExcludeFlat bool
	// Single searches neighbours in float32. [MERLIN] finds the same discords, and
	// [Compute] neighbours that may not be the nearest. The definition ignores it, and so do
	// searches with a K above 1.
	Single bool
}

func (o Options) exclusion(m int) int {
	if o.Exclusion > 0 {
		return o.Exclusion
	}
	return m
}

func (o Options) k() int { return max(1, o.K) }

// Profile has the nearest neighbour of every subsequence of a series of n values: n-m+1
// numbers in each field, or none where the series is shorter than m.
type Profile struct {
	Distance []float64 // summed over K neighbours; NaN without any
	Nearest  []int     // first value of the nearest neighbour; -1 without one
}

// Discord is a subsequence and the distance to its neighbours.
type Discord struct {
	At, Length int
	Distance   float64 // summed over K neighbours
	Nearest    int
}

// window is a subsequence of the definition.
type window struct {
	z    []float64 // z-normalised; nil: it has no distance
	flat bool
}

// normalise returns the z-normalised subsequence. It averages the differences to the first value, in units of the
// largest, so that neither a level far from zero nor a tiny scale loses digits.
func normalise(x []float64) window {
	z, peak := make([]float64, len(x)), 0.0
	for k, v := range x {
		z[k] = v - x[0]
		if isBad(v) || isBad(z[k]) {
			return window{}
		}
		peak = max(peak, math.Abs(z[k]))
	}
	if peak == 0 {
		return window{z, true}
	}
	mean := 0.0
	for k := range z {
		z[k] /= peak
		mean += z[k] / float64(len(z))
	}
	variance := 0.0
	for k := range z {
		z[k] -= mean
		variance += z[k] * z[k] / float64(len(z))
	}
	for k := range z {
		z[k] /= math.Sqrt(variance)
	}
	return window{z, false}
}

func isBad(v float64) bool { return math.IsNaN(v - v) }

// distance returns the distance of two subsequences; NaN where they are not compared.
func distance(a, b window, excludeFlat bool) float64 {
	switch {
	case a.z == nil || b.z == nil || a.flat != b.flat && excludeFlat:
		return math.NaN()
	case a.flat && b.flat:
		return 0
	case a.flat || b.flat:
		return math.Sqrt(2 * float64(len(a.z)))
	}
	sum := 0.0
	for k, v := range a.z {
		d := v - b.z[k]
		sum += float64(d * d)
	}
	return math.Sqrt(sum)
}

// windows returns all subsequences of length m.
func windows(x []float64, m int) []window {
	w := make([]window, max(0, len(x)-m+1))
	for i := range w {
		w[i] = normalise(x[i : i+m])
	}
	return w
}

// define computes the distance of the subsequence at i to its neighbours by its definition.
func define(w []window, i, m int, o Options) (sum float64, nearest int) {
	exclusion := o.exclusion(m)
	type neighbour struct {
		at int
		d  float64
	}
	var all []neighbour
	for j := range w {
		if j > i-exclusion && j < i+exclusion {
			continue
		}
		if d := distance(w[i], w[j], o.ExcludeFlat); d == d {
			all = append(all, neighbour{j, d})
		}
	}
	nearest, found := -1, 0
	for len(all) > 0 && found < o.k() {
		best := slices.MinFunc(all, func(a, b neighbour) int { // the first of the nearest
			if o.k() > 1 {
				return cmp.Compare(float32(Normalised(a.d, m, 1)-1), float32(Normalised(b.d, m, 1)-1))
			}
			return cmp.Compare(a.d, b.d)
		})
		if found == 0 {
			nearest = best.at
		}
		found++
		sum += best.d
		all = slices.DeleteFunc(all, func(a neighbour) bool { return a.at > best.at-exclusion && a.at < best.at+exclusion })
	}
	return scaleToK(sum, o.k(), found), nearest
}

// scaleToK scales the sum over n neighbours to k.
func scaleToK(sum float64, k, n int) float64 {
	switch n {
	case 0:
		return math.NaN()
	case k:
		return sum
	}
	return sum * float64(k) / float64(n)
}

// Define is the definition of the profile of the subsequences of length m, at least 1, of x.
func Define(x []float64, m int, o Options) Profile {
	w := windows(x, m)
	p := Profile{make([]float64, len(w)), make([]int, len(w))}
	for i := range w {
		p.Distance[i], p.Nearest[i] = define(w, i, m, o)
	}
	return p
}

// Top returns the first k discords of a profile of subsequences of length m, the first one
// first; fewer where there are no more.
func (p Profile) Top(m, k int) []Discord {
	return top(p.Range(m, math.Inf(-1)), k)
}

// top returns the first k discords among subsequences in the order of their places.
func top(candidates []Discord, k int) []Discord {
	var found []Discord
	for len(found) < k {
		best := -1
		for c, d := range candidates {
			overlaps := func(f Discord) bool { return d.At > f.At-f.Length && d.At < f.At+f.Length }
			if (best < 0 || d.Distance > candidates[best].Distance) && !slices.ContainsFunc(found, overlaps) {
				best = c
			}
		}
		if best < 0 {
			break
		}
		found = append(found, candidates[best])
	}
	return found
}

// Range returns the subsequences of length m whose distance is at least r, in the order of
// their places. Distances that are less by a rounding, 1e-9 of r, are at least r.
func (p Profile) Range(m int, r float64) []Discord {
	var found []Discord
	for i, d := range p.Distance {
		if d >= r-slack*math.Abs(r) {
			found = append(found, Discord{At: i, Length: m, Distance: d, Nearest: p.Nearest[i]})
		}
	}
	return found
}

// Lengths are the lengths from Min to Max, Step apart; Step 0 is 1.
type Lengths struct{ Min, Max, Step int }

// All returns the lengths, the least first.
func (l Lengths) All() []int {
	var all []int
	for m := l.Min; m <= l.Max; m += max(1, l.Step) {
		all = append(all, m)
	}
	return all
}
