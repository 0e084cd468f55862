package keystate

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"

	"odradek/processor/keystate/changelog"
	"odradek/processor/keystate/reorder"
)

// Held samples in the changelog: as those of a window, they are in records of their
// own, written once when full, so that a key that holds many does not write them
// with every snapshot. A block has samples in order of offset. The head has those
// that fill no block, and names the blocks.
//
// A block does not change when its samples are released: those of a time up to the
// key's last one are, and no others (see reorder/overdue.go). A block of which all are is not
// named any more, and deleted.
//
// The name of a block is its first offset and a checksum of its content, so that one
// that is written again with other content, after a rollback or by another member,
// leaves that which an older head names.

// heldBlock is a block that the key's head names.
type heldBlock struct {
	first, last int64 // offsets
	newest      int64 // time
	sum         uint64
}

// heldBlockBytes is the size of a block where records may be as large.
const heldBlockBytes = 16 << 10

// heldBlockSamples is the number of samples of a block.
func (s *State) heldBlockSamples() int {
	return max(1, min(heldBlockBytes, s.maxRecord()/2)/(8*(2+s.cfg.Dim)))
}

// heldTail is a held sample that is in no block.
type heldTail struct {
	offset int64
	at     int // among the held samples of its key
}

// emitHeld emits the blocks that have become full and sets those that the head is to
// name and the samples that it is to have.
func (s *State) emitHeld(c *emitter, k *Key) {
	old := s.blocks[k]
	s.tail = s.tail[:0]
	if k.held.Len() == 0 {
		delete(s.blocks, k)
		return
	}
	blocks := make([]heldBlock, 0, len(old)+k.held.Len()/s.heldBlockSamples())
	written := int64(-1)
	for _, b := range old {
		if b.newest > k.lastTime {
			blocks = append(blocks, b)
			written = b.last
		}
	}
	for i := range k.held.Len() {
		// A version without blocks may have held samples that are not after lastTime:
		// a block cannot say so.
		if w := k.held.At(i); int64(w[1]) > written || int64(w[0]) <= k.lastTime {
			s.tail = append(s.tail, heldTail{int64(w[1]), i})
		}
	}
	slices.SortFunc(s.tail, func(a, b heldTail) int { return cmp.Compare(a.offset, b.offset) })
	early := 0
	for early < len(s.tail) && (s.tail[early].offset <= written || int64(k.held.At(s.tail[early].at)[0]) <= k.lastTime) {
		early++
	}
	if slices.ContainsFunc(s.tail[early:], func(t heldTail) bool { return int64(k.held.At(t.at)[0]) <= k.lastTime }) {
		early = len(s.tail) // until they are released
	}
	n, done := s.heldBlockSamples(), early
	for ; len(s.tail)-done >= n; done += n {
		s.enc.Reset()
		b := s.enc.heldBlock(s, k, s.tail[done:done+n])
		blocks = append(blocks, b)
		c.put(changelog.Held, k.name, s.enc.B, uint64(b.first), b.sum)
	}
	s.tail = append(s.tail[:early], s.tail[done:]...)
	if len(blocks) == 0 {
		delete(s.blocks, k)
	} else {
		s.blocks[k] = blocks
	}
}

// unblock takes the samples behind offset out of their blocks, because one of that
// offset is held from now on. The next head names blocks that have it.
func (s *State) unblock(k *Key, offset int64) {
	blocks := s.blocks[k]
	n := len(blocks)
	for n > 0 && blocks[n-1].last > offset {
		n--
	}
	if n == len(blocks) {
		return
	}
	stale := slices.Clone(s.stale[k])
	for _, b := range blocks[n:] {
		stale = append(stale, staleSegment{changelog.Held, uint64(b.first), b.sum})
	}
	s.stale[k] = stale
	if n == 0 {
		delete(s.blocks, k)
	} else {
		s.blocks[k] = blocks[:n:n]
	}
}

// heldBlock is a block's value: version, born, fingerprint of the values, values a
// sample, and the samples.
func (e *encoder) heldBlock(s *State, k *Key, tail []heldTail) heldBlock {
	e.Byte(version)
	e.Uint(uint64(k.born))
	e.Bits(s.layout)
	e.Uint(uint64(s.cfg.Dim))
	e.heldTail(k, tail)
	b := heldBlock{first: tail[0].offset, last: tail[len(tail)-1].offset, newest: minTime, sum: contentSum(e.B)}
	for _, t := range tail {
		b.newest = max(b.newest, int64(k.held.At(t.at)[0]))
	}
	return b
}

func contentSum(value []byte) uint64 {
	h := fnv.New64a()
	h.Write(value)
	return h.Sum64()
}

// heldTail is samples in order of offset: their number, and for each the differences
// of offset and time, and the values.
func (e *encoder) heldTail(k *Key, tail []heldTail) {
	e.Uint(uint64(len(tail)))
	offset, time := int64(-1), int64(0)
	for _, t := range tail {
		w := k.held.At(t.at)
		e.Uint(uint64(t.offset - offset))
		e.Int(int64(w[0]) - time)
		offset, time = t.offset, int64(w[0])
		for _, v := range w[2:] {
			e.Bits(v)
		}
	}
}

// heldSamples is what a head of versionHeld has of them: fingerprint of the values,
// values a sample, the blocks, and the samples that are in none.
func (e *encoder) heldSamples(s *State, k *Key) {
	e.Bits(s.layout)
	e.Uint(uint64(s.cfg.Dim))
	blocks := s.blocks[k]
	e.Uint(uint64(len(blocks)))
	before := int64(-1)
	for _, b := range blocks {
		e.Uint(uint64(b.first - before))
		e.Bits(b.sum)
		before = b.first
	}
	e.heldTail(k, s.tail)
}

// deleteBlocks deletes the blocks that the head does not name any more.
func (s *State) deleteBlocks(c *emitter, k *Key, old []heldBlock) {
	for _, b := range old {
		if !s.hasBlock(k, b.first, b.sum) {
			c.put(changelog.Held, k.name, nil, uint64(b.first), b.sum)
		}
	}
}

func (s *State) hasBlock(k *Key, first int64, sum uint64) bool {
	return slices.ContainsFunc(s.blocks[k], func(b heldBlock) bool { return b.first == first && b.sum == sum })
}

// heldSample is a held sample that is being loaded, or one of a block that is not
// held any more.
type heldSample struct {
	time, offset int64
	values       []byte
}

// heldSamples reads samples and appends them to dst.
func (d *decoder) heldSamples(dst []heldSample, dim int) []heldSample {
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
		dst = append(dst, heldSample{time, offset, d.B[:8*dim]})
		d.B = d.B[8*dim:]
	}
	return dst
}

// blockName is the end of a block's key.
type blockName struct{ first, sum uint64 }

// takeBlock reads the samples of a block that a head names.
func (s *State) takeBlock(k *Key, name blockName, dst []heldSample) (heldBlock, []heldSample, bool) {
	value, ok := s.restore.load.blocks[string(k.name)][name]
	if !ok {
		return heldBlock{}, dst, false
	}
	d := newDecoder(value)
	d.Start()
	born, layout, dim := d.Offset(), d.Bits(), d.Small()
	if d.Bad || born != k.born || layout != s.layout || dim != s.cfg.Dim {
		return heldBlock{}, dst, false
	}
	from := len(dst)
	if dst = d.heldSamples(dst, dim); d.Bad || len(d.B) > 0 || len(dst) == from || dst[from].offset != int64(name.first) {
		return heldBlock{}, nil, false
	}
	b := heldBlock{first: dst[from].offset, last: dst[len(dst)-1].offset, newest: minTime, sum: name.sum}
	for _, h := range dst[from:] {
		b.newest = max(b.newest, h.time)
	}
	return b, dst, true
}

// loadHeldSamples reads what heldSamples has written, with the blocks.
func (s *State) loadHeldSamples(d *decoder, k *Key) {
	layout, dim := d.Bits(), d.Small()
	if d.Bad || dim < 1 || dim > maxDim {
		d.Fail()
		return
	}
	same := layout == s.layout && dim == s.cfg.Dim
	var (
		blocks  []heldBlock
		samples []heldSample
		missing bool
	)
	first := int64(-1)
	for range d.Len(9) {
		step := d.Offset()
		if first += step; step == 0 || first < 0 {
			d.Fail()
		}
		name := blockName{uint64(first), d.Bits()}
		if d.Bad {
			return
		}
		if !same {
			s.stale[k] = append(s.stale[k], staleSegment{changelog.Held, name.first, name.sum})
			continue
		}
		b, more, ok := s.takeBlock(k, name, samples)
		if !ok {
			missing = true
			continue
		}
		if n := len(blocks); n > 0 && b.first <= blocks[n-1].last {
			d.Fail()
			return
		}
		blocks, samples = append(blocks, b), more
	}
	samples = slices.DeleteFunc(samples, func(h heldSample) bool { return h.time <= k.lastTime }) // released
	written := int64(-1)
	for _, b := range blocks {
		if b.newest > k.lastTime {
			written = b.last
		}
	}
	tail := len(samples)
	samples = d.heldSamples(samples, dim)
	if d.Bad {
		return
	}
	if !same {
		s.restore.load.mismatched(k, Mismatch{Fields: true, Window: layout})
		return
	}
	if missing {
		s.restore.load.broken[k] = broken{err: fmt.Errorf("samples that it holds are missing: %w", ErrCorrupt)}
		return
	}
	for _, h := range samples[tail:] {
		if h.offset <= written && h.time > k.lastTime {
			d.Fail() // it would be one of a block
			return
		}
	}
	slices.SortFunc(samples, func(a, b heldSample) int {
		return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.offset, b.offset))
	})
	if len(samples) > 0 {
		k.held = reorder.NewList(k, dim, len(samples))
	}
	for i, h := range samples {
		if i > 0 && h.time == samples[i-1].time && h.offset == samples[i-1].offset {
			d.Fail()
		}
		k.held.Append(h.time, h.offset)
		for v := newDecoder(h.values); len(v.B) > 0; {
			k.held.Value(v.Bits())
		}
	}
	if d.Bad {
		k.held = nil
		return
	}
	if len(blocks) > 0 {
		s.blocks[k] = blocks
	}
}
