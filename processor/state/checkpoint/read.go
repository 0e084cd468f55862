package checkpoint

import (
	"cmp"
	"math"
	"slices"

	"odradek/processor/state/changelog"
	"odradek/processor/state/series"
)

// LoadedBlocks is what a head says of held samples.
type LoadedBlocks struct {
	// Layout is the fingerprint of the values. Where Other is set, it is not the present one,
	// and of the rest there is only Foreign, the names of the blocks.
	Layout  uint64
	Other   bool
	Foreign []BlockName

	Blocks  []HeldBlock // that the head names
	Missing bool        // a block that the head names is missing
	samples []sample
}

// sample is a held sample that is being loaded, or one of a block that is not
// held any more.
type sample struct {
	time, offset int64
	values       []byte
}

// maxDim bounds the values of a sample in a record.
const maxDim = 1 << 16

// Read reads the output of AppendHead, with the blocks that it names: value returns that of
// a block's record, nil where there is none. lastTime and born are as for BlockWriter.Blocks.
func (f *HeldFormat) Read(d *changelog.Decoder, lastTime, born int64, value func(BlockName) []byte) (l LoadedBlocks) {
	dim := l.start(d, f)
	first := int64(-1)
	for range d.Len(9) {
		step := d.Offset()
		if first += step; step == 0 || first < 0 {
			d.Fail()
		}
		name := BlockName{uint64(first), d.Bits()}
		if d.Bad {
			return l
		}
		if l.Other {
			l.Foreign = append(l.Foreign, name)
			continue
		}
		b, samples, ok := f.block(name, born, value(name), l.samples)
		if !ok {
			l.Missing = true
			continue
		}
		if n := len(l.Blocks); n > 0 && b.first <= l.Blocks[n-1].last {
			d.Fail()
			return l
		}
		l.Blocks, l.samples = append(l.Blocks, b), samples
	}
	l.samples = slices.DeleteFunc(l.samples, func(h sample) bool { return h.time <= lastTime }) // released
	written := int64(-1)
	for _, b := range l.Blocks {
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
			d.Fail() // it would be one of a block, or released
			return l
		}
	}
	slices.SortFunc(l.samples, compare)
	l.check(d)
	return l
}

// start reads the fingerprint of the values and their number.
func (l *LoadedBlocks) start(d *changelog.Decoder, f *HeldFormat) (dim int) {
	l.Layout, dim = d.Bits(), d.Small()
	if d.Bad || dim < 1 || dim > maxDim {
		d.Fail()
	}
	l.Other = l.Layout != f.Layout || dim != f.Dim
	return dim
}

// check checks that the samples are in order of time and offset.
func (l *LoadedBlocks) check(d *changelog.Decoder) {
	for i := 1; i < len(l.samples); i++ {
		if compare(l.samples[i-1], l.samples[i]) >= 0 {
			d.Fail()
		}
	}
}

func compare(a, b sample) int {
	return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.offset, b.offset))
}

// block reads the samples of a block that a head names, and appends them to dst.
func (f *HeldFormat) block(name BlockName, born int64, value []byte, dst []sample) (HeldBlock, []sample, bool) {
	if value == nil {
		return HeldBlock{}, dst, false
	}
	d := changelog.Decoder{B: value}
	d.Version()
	bornAt, layout, dim := d.Offset(), d.Bits(), d.Small()
	if d.Bad || bornAt != born || layout != f.Layout || dim != f.Dim {
		return HeldBlock{}, dst, false
	}
	from := len(dst)
	if dst = readSamples(&d, dst, dim); d.Bad || len(d.B) > 0 || len(dst) == from || dst[from].offset != int64(name.First) {
		return HeldBlock{}, nil, false
	}
	b := HeldBlock{first: dst[from].offset, last: dst[len(dst)-1].offset, newest: math.MinInt64, sum: name.Sum}
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
func LoadedSamples[K any](key K, dim int, l *LoadedBlocks) *series.HeldSamples[K] {
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
