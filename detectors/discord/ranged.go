package discord

import (
	"cmp"
	"math"
	"slices"

	"odradek/detectors"
)

// Auto is the radius of a [RangeQuery] that takes one for each length by MERLIN's rule.
const Auto = -1

// RangeQuery asks for range discords.
type RangeQuery struct {
	Lengths Lengths
	// Radius is the least distance of a range discord, above 0; or Auto. Auto begins with 2*sqrt(m), which no distance
	// exceeds, and halves it; with 0.99 of the distance at the length before, for the next four lengths, and takes off 1 % a
	// time; and from then on with the mean less two standard deviations of the last five distances, and takes off one
	// deviation a time (Algorithm 1 of Zymbler and Kraeva 2023): until Top discords that do not overlap are at
	// least r. The distance of a length is the one of its Top-th discord, as in MERLIN; by the paper's, the least of all range
	// discords, the radius would fall from length to length.
	Radius float64
	Top    int // with Auto; 0 is 1
	// Most bounds the range discords of a length: the farthest are kept, the first of equal ones. 0: all are.
	Most    int
	Options func(m int) Options
}

// Ranged are the range discords of a length.
type Ranged struct {
	Length int
	Radius float64   // NaN: none is taken, since no subsequence has a distance
	Count  int       // of range discords
	Found  []Discord // the farthest first; fewer than Count where there are more than Most
}

// Ranges calls visit for each length, the least first, with the subsequences whose distance is at least the radius, while
// visit returns true. They are the ones that [DefineRanges] gives, up to rounding, and do not depend on the order in which
// parallel runs its calls. Memory holds one length.
func Ranges(x []float64, q *RangeQuery, parallel detectors.Parallel, visit func(Ranged) bool) {
	rule := radii{q: q}
	everyLength(x, 0, q.Lengths, q.Options, parallel, func(m int, t table) bool { return visit(rule.find(m, t)) })
}

// Radii returns a function that returns the radius of one length after the other, the least first, whose first discords it is given;
// NaN for none.
func (q *RangeQuery) Radii() func(m int, first []Discord) float64 {
	rule := radii{q: q}
	return func(m int, first []Discord) float64 {
		if q.Radius == Auto {
			return rule.next(m, first)
		}
		return q.Radius
	}
}

// DefineRanges is the definition of Ranges.
func DefineRanges(x []float64, q *RangeQuery, visit func(Ranged) bool) {
	rule := radii{q: q}
	for _, m := range q.Lengths.All() {
		if !visit(rule.find(m, whole{Define(x, m, q.Options(m)), m})) {
			return
		}
	}
}

// radii takes the radius of one length after the other.
type radii struct {
	q    *RangeQuery
	last []float64 // distances of the Top-th discords of the last lengths, at most five
}

// find returns the range discords of a length.
func (rd *radii) find(m int, t table) Ranged {
	r := rd.q.Radius
	if r == Auto {
		r = rd.next(m, t.discords(max(1, rd.q.Top)))
	}
	found := Ranged{Length: m, Radius: r}
	if r != r {
		return found
	}
	found.Found = t.ranged(r)
	found.Count = len(found.Found)
	slices.SortStableFunc(found.Found, func(rd, b Discord) int { return cmp.Compare(b.Distance, rd.Distance) })
	if n := rd.q.Most; n > 0 && found.Count > n {
		found.Found = slices.Clone(found.Found[:n])
	}
	return found
}

// negligible is a normalised distance of equal subsequences.
const negligible = 1e-9

// next returns the radius of a length whose first discords are known; NaN where all have neighbours that are equal to them.
func (rd *radii) next(m int, first []Discord) float64 {
	for len(first) > 0 && Normalised(first[len(first)-1].Distance, m, max(1, rd.q.Options(m).K)) < negligible {
		first = first[:len(first)-1]
	}
	if len(first) == 0 {
		return math.NaN()
	}
	reach := first[len(first)-1].Distance
	r := radiusAfter(rd.last)
	fall := func() { r *= 0.99 }
	switch spread := deviation(rd.last); {
	case len(rd.last) == 0:
		r = 2 * math.Sqrt(float64(m)) * float64(max(1, rd.q.Options(m).K))
		fall = func() { r /= 2 }
	case len(rd.last) == 5 && spread > 1e-6*r:
		fall = func() { r -= spread }
	}
	for r > reach*(1+slack) {
		fall()
	}
	rd.last = append(rd.last[max(0, len(rd.last)-4):], reach)
	return max(r, reach/2)
}
