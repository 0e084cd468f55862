package series

import (
	"math"
	"slices"

	"odradek/processor/state/rules"
)

// Former is what the transforms of a series' values remember (rules.Rate, rules.Difference): for each value of
// Set.Transforms that needs it, the value before.
type Former struct {
	values []formerValue
	one    [1]formerValue // values, where it is one
}

// formerValue is the last value that was not missing; NaN: there is none.
type formerValue struct {
	time  int64
	value float64
}

// Sizes of the types in memory; TestSizes compares them.
const (
	formerBytes      = 40
	formerValueBytes = 16
)

// SetTransform is the transform of one value of the samples of a set's series.
type SetTransform struct {
	rules.ColumnTransform
	at int // index into Former.values, where it remembers
}

// setTransforms places what transforms remember.
func setTransforms(columns []rules.ColumnTransform) (list []SetTransform, remembered int) {
	for _, c := range columns {
		list = append(list, SetTransform{c, remembered})
		if c.Remembers() {
			remembered++
		}
	}
	return list, remembered
}

// newFormer returns the memory of n values, with no value yet.
func newFormer(n int) *Former {
	f := new(Former)
	if f.values = f.one[:]; n > 1 {
		f.values = make([]formerValue, n)
	}
	f.Clear()
	return f
}

// Clear forgets all values; nil has none.
func (f *Former) Clear() {
	if f != nil {
		for i := range f.values {
			f.values[i] = formerValue{value: math.NaN()}
		}
	}
}

// Any reports whether there is a value.
func (f *Former) Any() bool {
	if f == nil {
		return false
	}
	for i := range f.values {
		if v := f.values[i].value; v == v {
			return true
		}
	}
	return false
}

// Transform returns what becomes of a value of a sample at a time in microseconds: NaN is missing. reset: a counter began again.
func (s *Series) Transform(t *SetTransform, time int64, v float64) (_ float64, reset bool) {
	switch t.Transform {
	case rules.Log:
		if v <= 0 {
			return math.NaN(), false
		}
		return math.Log(v), false
	case rules.Absolute:
		return math.Abs(v), false
	}
	if v-v != 0 {
		return math.NaN(), false
	}
	f := &s.Former.values[t.at]
	last := *f
	*f = formerValue{time, v}
	d := v - last.value // NaN without a value before
	if t.Transform == rules.Difference {
		return d, false
	}
	if d < 0 {
		return math.NaN(), true
	}
	if time <= last.time {
		return math.NaN(), false
	}
	return d / (float64(uint64(time-last.time)) / 1e6), false
}

// Forget forgets the value that a transform remembers.
func (s *Series) Forget(t *SetTransform) {
	if t.Remembers() {
		s.Former.values[t.at] = formerValue{value: math.NaN()}
	}
}

// ForgetAll forgets the values of transforms and of aggregates, with intervals the open interval, and reports whether there was one.
func (s *Series) ForgetAll(ids []uint64, intervals bool) (forgotten bool) {
	forgotten = s.forgetInterval(ids, intervals)
	for i := range s.Set.Transforms {
		if t := &s.Set.Transforms[i]; t.Remembers() && slices.Contains(ids, t.ID) {
			v := s.Former.values[t.at].value
			forgotten = forgotten || v == v
			s.Forget(t)
		}
	}
	return forgotten
}

// Former appends what transforms remember, a section of a head: number, and for each value
//
//	ID of the transform, time, value
func (wr Writer) Former(k *Series) {
	n := 0
	for i := range k.Former.values {
		if v := k.Former.values[i].value; v == v {
			n++
		}
	}
	wr.Uint(uint64(n))
	for i := range k.Set.Transforms {
		t := &k.Set.Transforms[i]
		if !t.Remembers() {
			continue
		}
		if f := k.Former.values[t.at]; f.value == f.value {
			wr.Bits(t.ID)
			wr.Int(f.time)
			wr.Bits(math.Float64bits(f.value))
		}
	}
}

// Former reads what Writer.Former has written. What no transform of the configuration remembers is left out.
func (r *Reader) Former(k *Series) {
	for range r.Len(17) {
		id, f := r.Bits(), formerValue{r.Int(), math.Float64frombits(r.Bits())}
		if f.value-f.value != 0 {
			r.Fail()
		}
		if r.Bad {
			return
		}
		for i := range k.Set.Transforms {
			if t := &k.Set.Transforms[i]; t.ID == id && t.Remembers() {
				k.Former.values[t.at] = f
			}
		}
	}
}

// appendFormer appends what RestorePlaces needs of the values that transforms remember.
func (s *Series) appendFormer(w []uint64) []uint64 {
	if s.Former != nil {
		for _, f := range s.Former.values {
			w = append(w, uint64(f.time), math.Float64bits(f.value))
		}
	}
	return w
}

// restoreFormer reverses appendFormer and returns the words behind.
func (s *Series) restoreFormer(w []uint64) []uint64 {
	if s.Former != nil {
		for i := range s.Former.values {
			s.Former.values[i] = formerValue{int64(w[2*i]), math.Float64frombits(w[2*i+1])}
		}
		w = w[2*len(s.Former.values):]
	}
	return w
}
