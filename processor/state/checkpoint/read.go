package checkpoint

import (
	"cmp"
	"math"
	"slices"

	"odradek/processor/state/changelog"
	"odradek/processor/state/series"
)

// LoadedHeld is what a head says of held samples.
type LoadedHeld struct {
	// Layout is the fingerprint of the values. Where Other is set, it is not the present one,
	// and of the rest there is only Foreign, the names of the segments.
	Layout  uint64
	Other   bool
	Foreign []HeldName

	Segments []HeldSegment // that the head names
	Missing  bool          // a segment that the head names is missing
	samples  []sample
}

// sample is a held sample that is being loaded, or one of a segment that is not
// held any more.
type sample struct {
	time, offset int64
	values       []byte
}

// maxDim bounds the values of a sample in a record.
const maxDim = 1 << 16

// Read reads the output of AppendHead, with the segments that it names: value returns the value of
// a segment's record, nil where there is none. lastTime and born are as for HeldWriter.Segments.
func (f *HeldFormat) Read(d *changelog.Decoder, lastTime, born int64, value func(HeldName) []byte) (l LoadedHeld) {
	dim := l.start(d, f)
	first := int64(-1)
	for range d.Len(9) {
		step := d.Offset()
		if first += step; step == 0 || first < 0 {
			d.Fail()
		}
		name := HeldName{uint64(first), d.Bits()}
		if d.Bad {
			return l
		}
		if l.Other {
			l.Foreign = append(l.Foreign, name)
			continue
		}
		b, samples, ok := f.segment(name, born, value(name), l.samples)
		if !ok {
			l.Missing = true
			continue
		}
		if n := len(l.Segments); n > 0 && b.first <= l.Segments[n-1].last {
			d.Fail()
			return l
		}
		l.Segments, l.samples = append(l.Segments, b), samples
	}
	l.samples = slices.DeleteFunc(l.samples, func(h sample) bool { return h.time <= lastTime }) // released
	written := int64(-1)
	for _, b := range l.Segments {
		if b.newest > lastTime {
			written = b.last
		}
	}
	tail := len(l.samples)
	l.samples = readSamples(d, l.samples, dim)
	if d.Bad || l.Other || l.Missing {
		return l
	}
	for _, h := range l.samples[tail:] {
		if h.offset <= written || h.time <= lastTime {
			d.Fail() // it would be one of a segment, or released
			return l
		}
	}
	slices.SortFunc(l.samples, compare)
	l.check(d)
	return l
}

// start reads the fingerprint of the values and their number.
func (l *LoadedHeld) start(d *changelog.Decoder, f *HeldFormat) (dim int) {
	l.Layout, dim = d.Bits(), d.Small()
	if d.Bad || dim < 1 || dim > maxDim {
		d.Fail()
	}
	l.Other = l.Layout != f.Layout || dim != f.Dim
	return dim
}

// check checks that the samples are in order of time and offset.
func (l *LoadedHeld) check(d *changelog.Decoder) {
	for i := 1; i < len(l.samples); i++ {
		if compare(l.samples[i-1], l.samples[i]) >= 0 {
			d.Fail()
		}
	}
}

func compare(a, b sample) int {
	return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.offset, b.offset))
}

// segment reads the samples of a segment that a head names, and appends them to dst.
func (f *HeldFormat) segment(name HeldName, born int64, value []byte, dst []sample) (HeldSegment, []sample, bool) {
	if value == nil {
		return HeldSegment{}, dst, false
	}
	d := changelog.Decoder{B: value}
	d.Version()
	bornAt, layout, dim := d.Offset(), d.Bits(), d.Small()
	if d.Bad || bornAt != born || layout != f.Layout || dim != f.Dim {
		return HeldSegment{}, dst, false
	}
	from := len(dst)
	if dst = readSamples(&d, dst, dim); d.Bad || len(d.B) > 0 || len(dst) == from || dst[from].offset != int64(name.First) {
		return HeldSegment{}, nil, false
	}
	b := HeldSegment{first: dst[from].offset, last: dst[len(dst)-1].offset, newest: math.MinInt64, sum: name.Sum}
	for _, h := range dst[from:] {
		b.newest = max(b.newest, h.time)
	}
	return b, dst, true
}

// readSamples reads the output of appendSamples and appends it to dst.
func readSamples(d *changelog.Decoder, dst []sample, dim int) []sample {
	offset, time := int64(-1), int64(0)
	for range d.Len(2 + 8*dim) {
		step := d.Offset()
		if offset += step; step == 0 || offset < 0 {
			d.Fail()
		}
		time += d.Int()
		if len(d.B) < 8*dim {
			d.Fail()
			return nil
		}
		dst = append(dst, sample{time, offset, d.Slice(8 * dim)})
	}
	return dst
}

// LoadedSamples returns the samples that a key holds; nil without any.
func LoadedSamples[K any](key K, dim int, l *LoadedHeld) *series.HeldSamples[K] {
	if l.Other || len(l.samples) == 0 {
		return nil
	}
	list := series.NewHeldSamples(key, dim, len(l.samples))
	for _, h := range l.samples {
		list.Append(h.time, h.offset)
		for d := (changelog.Decoder{B: h.values}); len(d.B) > 0; {
			list.Value(d.Bits())
		}
	}
	return list
}
