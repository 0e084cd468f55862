package rules

import (
	"math"

	"odradek/processor/anomaly"
	"odradek/processor/state/changelog"
)

// Encode returns a list as the content of a decision; nil for an empty one.
func (l LearnedList) Encode() []byte {
	if len(l) == 0 {
		return nil
	}
	var e changelog.Encoder
	e.Uint(uint64(len(l)))
	for i := range l {
		r := &l[i]
		e.String(r.Detector)
		e.String(r.Series)
		e.Flag(r.All)
		e.Uint(uint64(r.Field + 1))
		e.Byte(byte(r.Side))
		for _, v := range []float64{r.From, r.To, r.Most} {
			e.Bits(math.Float64bits(v))
		}
		for _, v := range []float64{r.Least, r.First, r.Apart, r.Far} {
			e.Bits(math.Float64bits(v))
		}
		e.Int(r.After)
		e.Uint(uint64(r.Samples))
		for _, v := range []float64{r.Initial, r.Narrow, r.Wide, r.Steep} {
			e.Bits(math.Float64bits(v))
		}
		for _, n := range []uint32{r.Early, r.Short, r.Long} {
			e.Uint(uint64(n))
		}
		e.Uint(uint64(r.Count))
		e.Uint(uint64(len(r.Labels)))
		for _, id := range r.Labels {
			e.B = append(e.B, id[:]...)
		}
	}
	return e.B
}

// DecodeLearned reads the output of Encode. The error wraps changelog.ErrCorrupt.
func DecodeLearned(content []byte) (LearnedList, error) {
	if len(content) == 0 {
		return nil, nil
	}
	d := changelog.Decoder{B: content}
	n := d.Uint()
	if d.Bad || n > MaxLearned {
		return nil, changelog.ErrCorrupt
	}
	l := make(LearnedList, n)
	number := func() float64 { return math.Float64frombits(d.Bits()) }
	for i := range l {
		r := &l[i]
		r.Detector, r.Series, r.All, r.Field, r.Side = d.String(), d.String(), d.Byte() == 1, d.Small()-1, Direction(d.Byte())
		r.From, r.To, r.Bounds = number(), number(), anomaly.NoBounds(number())
		r.Least, r.First, r.Apart, r.Far, r.After, r.Samples = number(), number(), number(), number(), d.Int(), d.Uint32()
		r.Initial, r.Narrow, r.Wide, r.Steep = number(), number(), number(), number()
		r.Early, r.Short, r.Long = d.Uint32(), d.Uint32(), d.Uint32()
		r.Count = d.Small()
		for range d.Len(16) {
			r.Labels = append(r.Labels, [16]byte(d.Slice(16)))
		}
		if d.Bad || r.Side > Below || len(r.Labels) > named {
			return nil, changelog.ErrCorrupt
		}
	}
	if d.Bad || len(d.B) > 0 {
		return nil, changelog.ErrCorrupt
	}
	return l, nil
}
