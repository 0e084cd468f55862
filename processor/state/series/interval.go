package series

import (
	"math"
	"slices"

	"odradek/detectors/vec"
	"odradek/processor/state/rules"
)

// Interval is the open interval of a series (rules.Order.Every): what the values of its samples since its start have become so far.
type Interval struct {
	// Start is the start of the open interval or, where none is open, the end of the last one; minTime before the first. Samples before
	// it are late.
	Start int64
	// Samples are those in the open interval, Empty the intervals without any that were closed right before it.
	Samples, Empty int64
	Open           bool
	Listed         bool // in the state's heap of ends, which is not part of the state

	values []aggregated // one for each of Set.Aggregates
	one    [1]aggregated
}

// aggregated is what n values that are not missing have become. a and b are: the sum; the least or the largest value; the last one;
// the least and the largest; the mean and the sum of squared differences from it. kept are the values themselves, in order: every
// one, or of more than MostValues every second, of more than twice as many every fourth, and so on.
type aggregated struct {
	n    int64
	a, b float64
	kept []float64
}

// MostValues is the number of values that an open interval keeps for a median or a quantile.
const MostValues = 1024

// MostEmpty is the number of intervals without samples, one after another, that become samples.
const MostEmpty = 1000

// Sizes of the types in memory; TestSizes compares them.
const (
	intervalBytes   = 104
	aggregatedBytes = 48
)

// newInterval returns an Interval of n values.
func newInterval(n int) *Interval {
	v := &Interval{Start: minTime}
	if v.values = v.one[:]; n > 1 {
		v.values = make([]aggregated, n)
	}
	return v
}

// StartOf returns the start of the interval that a time is in.
func (set *Set) StartOf(time int64) int64 {
	into := time % set.Every
	if into < 0 {
		into += set.Every
	}
	if start := time - into; start <= time && start > minTime {
		return start
	}
	return minTime + 1
}

// EndOf returns the end of the interval of a start.
func (set *Set) EndOf(start int64) int64 {
	if end := start + set.Every; end > start {
		return end
	}
	return math.MaxInt64
}

// Any reports whether there was an interval.
func (v *Interval) Any() bool { return v != nil && v.Start != minTime }

// Clear forgets all; nil has nothing.
func (v *Interval) Clear() {
	if v == nil {
		return
	}
	v.Start, v.Open, v.Samples, v.Empty = minTime, false, 0, 0
	v.empty()
}

// empty empties the values.
func (v *Interval) empty() {
	for i := range v.values {
		v.values[i].empty()
	}
}

// empty forgets the values; the room for those that are kept stays.
func (a *aggregated) empty() { *a = aggregated{kept: a.kept[:0]} }

// bytes returns the memory of the values that are kept.
func (v *Interval) bytes() (n int64) {
	if v != nil {
		for i := range v.values {
			n += 8 * int64(cap(v.values[i].kept))
		}
	}
	return n
}

// Aggregate adds a value to the i-th of the set's Aggregates; a missing one changes nothing. It returns the bytes that it allocates.
func (s *Series) Aggregate(i int, v float64) (bytes int64) {
	if v-v != 0 {
		return 0
	}
	g := &s.Interval.values[i]
	g.n++
	switch first := g.n == 1; s.Set.Aggregates[i].Aggregate {
	case rules.Mean, rules.Sum:
		g.a += v
	case rules.Min:
		if first || v < g.a {
			g.a = v
		}
	case rules.Max:
		if first || v > g.a {
			g.a = v
		}
	case rules.Last:
		g.a = v
	case rules.Range:
		if first {
			g.a, g.b = v, v
		}
		g.a, g.b = min(g.a, v), max(g.b, v)
	case rules.StdDev:
		d := v - g.a
		g.a += d / float64(g.n)
		g.b += d * (v - g.a)
	case rules.Median, rules.P95:
		return g.keep(v)
	}
	return 0
}

// keep keeps the n-th value.
func (a *aggregated) keep(v float64) (bytes int64) {
	every := distance(a.n)
	if every > 1 && distance(a.n-1) < every { // every second of those so far
		half := len(a.kept) / 2
		for i := range half {
			a.kept[i] = a.kept[2*i]
		}
		a.kept = a.kept[:half]
	}
	if (a.n-1)%every != 0 {
		return 0
	}
	if len(a.kept) == cap(a.kept) {
		grown := make([]float64, len(a.kept), max(8, 2*len(a.kept)))
		copy(grown, a.kept)
		bytes = 8 * int64(cap(grown)-cap(a.kept))
		a.kept = grown
	}
	a.kept = append(a.kept, v)
	return bytes
}

// distance returns the distance of the values that are kept of n.
func distance(n int64) int64 {
	every := int64(1)
	for n > every*MostValues {
		every *= 2
	}
	return every
}

// kept returns how many of n values are kept.
func kept(n int64) int {
	every := distance(n)
	return int((n + every - 1) / every)
}

// result returns what the values of an interval that ends have become; NaN is missing.
func (a *aggregated) result(aggregate rules.Aggregate, zero bool) float64 {
	switch {
	case aggregate == rules.Count && (a.n > 0 || zero):
		return float64(a.n)
	case aggregate == rules.Sum && a.n == 0 && zero:
		return 0
	case a.n == 0:
		return math.NaN()
	}
	switch aggregate {
	case rules.Mean:
		return a.a / float64(a.n)
	case rules.Range:
		return a.b - a.a
	case rules.StdDev:
		if a.n == 1 {
			return math.NaN()
		}
		return math.Sqrt(a.b / float64(a.n-1))
	case rules.Median, rules.P95:
		slices.Sort(a.kept) // the interval ends, so that their order means nothing any more
		n := len(a.kept)
		if aggregate == rules.P95 {
			return a.kept[(n*95+99)/100-1]
		}
		return a.kept[(n-1)/2]/2 + a.kept[n/2]/2
	}
	return a.a
}

// CloseInterval closes the open interval, and appends what the values of its samples have become. The next one is open if further is
// true, unless MostEmpty had no samples.
func (s *Series) CloseInterval(dst []float64, further bool) []float64 {
	v := s.Interval
	for i := range v.values {
		dst = append(dst, v.values[i].result(s.Set.Aggregates[i].Aggregate, s.Set.EmptyZero))
	}
	if v.Samples > 0 {
		v.Empty = 0
	} else {
		v.Empty++
	}
	v.Start = s.Set.EndOf(v.Start)
	v.Open, v.Samples = further && v.Empty < MostEmpty, 0
	v.empty()
	return dst
}

// OpenInterval opens the interval of a start, and returns the number of intervals since the last one.
func (s *Series) OpenInterval(start int64) (skipped int64) {
	v := s.Interval
	if v.Start != minTime {
		skipped = int64(uint64(start-v.Start) / uint64(s.Set.Every))
	}
	v.Start, v.Open, v.Empty = start, true, 0
	return skipped
}

// forgetInterval forgets the values of aggregates, or the whole interval. It reports whether there was one.
func (s *Series) forgetInterval(ids []uint64, whole bool) (forgotten bool) {
	v := s.Interval
	if whole {
		forgotten = v.Any()
		v.Clear()
		return forgotten
	}
	for i := 0; v != nil && i < len(v.values); i++ {
		if g := &v.values[i]; slices.Contains(ids, s.Set.Aggregates[i].ID) {
			forgotten = forgotten || g.n > 0
			g.empty()
		}
	}
	return forgotten
}

// Interval appends the open interval, a section of a head: the length of intervals, whether an empty one has zeros, start, whether it
// is open, its samples, the empty ones before it, number of values, and for each
//
//	ID of the aggregate, number of values, and where that is above 0: a, b, number of kept values, these
func (wr Writer) Interval(k *Series) {
	v := k.Interval
	wr.Int(k.Set.Every)
	wr.Flag(k.Set.EmptyZero)
	wr.Int(v.Start)
	wr.Flag(v.Open)
	wr.Uint(uint64(v.Samples))
	wr.Uint(uint64(v.Empty))
	wr.Uint(uint64(len(v.values)))
	for i := range v.values {
		g := &v.values[i]
		wr.Bits(k.Set.Aggregates[i].ID)
		if wr.Uint(uint64(g.n)); g.n == 0 {
			continue
		}
		wr.Bits(math.Float64bits(g.a))
		wr.Bits(math.Float64bits(g.b))
		wr.Uint(uint64(len(g.kept)))
		for _, v := range g.kept {
			wr.Bits(math.Float64bits(v))
		}
	}
}

// Interval reads what Writer.Interval has written. What is no aggregate of the configuration is left out, and all of other intervals.
func (r *Reader) Interval(k *Series) {
	every, zero := r.Int(), r.Flags(1) != 0
	known := every == k.Set.Every && zero == k.Set.EmptyZero
	start, open := r.Int(), r.Flags(1) != 0
	samples, empty := r.Offset(), r.Offset()
	for range r.Len(9) {
		id, g := r.Bits(), aggregated{n: r.Offset()}
		if g.n > 0 {
			g.a, g.b = math.Float64frombits(r.Bits()), math.Float64frombits(r.Bits())
			for range r.Len(8) {
				g.kept = append(g.kept, math.Float64frombits(r.Bits()))
			}
		}
		if r.Bad {
			break
		}
		for i := range k.Set.Aggregates {
			a := &k.Set.Aggregates[i]
			if !known || a.ID != id {
				continue
			}
			if a.Keeps() && len(g.kept) != kept(g.n) || !a.Keeps() && len(g.kept) > 0 {
				r.Fail()
				break
			}
			g.kept = append(k.Interval.values[i].kept[:0], g.kept...)
			k.Interval.values[i] = g
		}
	}
	if start == minTime || every <= 0 {
		r.Fail()
	}
	if r.Bad || !known {
		k.Interval.Clear()
		return
	}
	v := k.Interval
	v.Start, v.Open, v.Samples, v.Empty = start, open, samples, empty
}

// appendInterval appends what RestorePlaces needs of the open interval.
func (s *Series) appendInterval(w []uint64) []uint64 {
	v := s.Interval
	if v == nil {
		return w
	}
	open := uint64(0)
	if v.Open {
		open = 1
	}
	w = append(w, uint64(v.Start), open, uint64(v.Samples), uint64(v.Empty))
	for i := range v.values {
		g := &v.values[i]
		w = append(w, uint64(g.n), math.Float64bits(g.a), math.Float64bits(g.b))
		n := len(w)
		w = slices.Grow(w, len(g.kept))[:n+len(g.kept)]
		copy(vec.BitsF64(w[n:]), g.kept)
	}
	return w
}

// restoreInterval reverses appendInterval and returns the words behind.
func (s *Series) restoreInterval(w []uint64) []uint64 {
	v := s.Interval
	if v == nil {
		return w
	}
	v.Start, v.Open, v.Samples, v.Empty = int64(w[0]), w[1] != 0, int64(w[2]), int64(w[3])
	w = w[4:]
	for i := range v.values {
		g := &v.values[i]
		g.n, g.a, g.b = int64(w[0]), math.Float64frombits(w[1]), math.Float64frombits(w[2])
		w, g.kept = w[3:], g.kept[:0]
		if !s.Set.Aggregates[i].Keeps() {
			continue
		}
		n := kept(g.n)
		g.kept = append(g.kept, vec.BitsF64(w[:n])...) // it has had room for them
		w = w[n:]
	}
	return w
}
