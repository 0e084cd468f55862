package keystate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"odradek/detectors"
)

// ErrCorrupt is in the error for changelog records that are not what a Snapshot
// emits, or not all of it.
var ErrCorrupt = errors.New("the changelog is damaged")

// version is the first byte of every value, but for heads of a key with thresholds,
// anomalies or silence: these have more at the end.
const (
	version       = 1
	versionAlerts = 2
	// versionSummaries is that of a head that ends with summaries. Before them
	// is 1 and what a head of versionAlerts ends with, or 0.
	versionSummaries = 3
	// versionHeld is that of a head with held samples: see heldblocks.go. Before its
	// anomalies and summaries are 1 or 0 for each, and then those that there are.
	versionHeld = 4
)

// Types of changelog records: the first byte of the key.
const (
	recHead     = 'H'
	recPart     = 'P'
	recSegment  = 'S'
	recEviction = 'E'
	recHeld     = 'B'
	recDecision = 'D' // its name is the kind, a byte, and the subject
)

// suffixes is how many numbers of 8 bytes, big-endian, follow the name.
func suffixes(kind byte) int {
	switch kind {
	case recPart, recDecision:
		return 1
	case recSegment, recHeld:
		return 2
	}
	return 0
}

func recordKey(dst []byte, kind byte, name []byte, suffix ...uint64) []byte {
	dst = append(append(dst, kind), name...)
	for _, n := range suffix {
		dst = binary.BigEndian.AppendUint64(dst, n)
	}
	return dst
}

// splitKey is the opposite of recordKey.
func splitKey(key []byte) (kind byte, name []byte, suffix [2]uint64, err error) {
	if len(key) > 0 {
		kind = key[0]
		n := suffixes(kind)
		if end := len(key) - 8*n; end >= 1 {
			for i := range n {
				suffix[i] = binary.BigEndian.Uint64(key[end+8*i:])
			}
			return kind, key[1:end], suffix, nil
		}
	}
	return 0, nil, suffix, fmt.Errorf("keystate: changelog key %s: %w", Digest(key), ErrCorrupt)
}

// encoder appends to b. Integers are varints, floats their bits, little-endian.
type encoder struct{ b []byte }

func (e *encoder) reset()        { e.b = e.b[:0] }
func (e *encoder) byte(v byte)   { e.b = append(e.b, v) }
func (e *encoder) uint(v uint64) { e.b = binary.AppendUvarint(e.b, v) }
func (e *encoder) int(v int64)   { e.b = binary.AppendVarint(e.b, v) }
func (e *encoder) bits(v uint64) { e.b = binary.LittleEndian.AppendUint64(e.b, v) }
func (e *encoder) words(v detectors.Words) {
	e.uint(uint64(len(v)))
	for _, w := range v {
		e.b = binary.LittleEndian.AppendUint32(e.b, w)
	}
}
func (e *encoder) floats(v []float32) { e.words(detectors.WordsOf(v)) }

// headStart begins a head and each of its parts: version, number of parts with
// their generation, asOf, born.
func (e *encoder) headStart(k *Key, asOf int64) {
	switch {
	case k.held.Len() > 0:
		e.byte(versionHeld)
	case k.summarised():
		e.byte(versionSummaries)
	case !k.alerts.empty():
		e.byte(versionAlerts)
	default:
		e.byte(version)
	}
	e.uint(uint64(k.parts)*generations + uint64(k.gen))
	e.uint(uint64(asOf))
	e.uint(uint64(k.born))
}

// head is a head's body:
//
//	last offset, last time
//	windows: number, and for each
//	    fingerprint, columns, rows of a segment, rows ever, rows there,
//	    where in its segment the first one begins (if there are segments),
//	    the rows after the last full segment
//	detectors: number, and for each
//	    hash of the name, fingerprint, the window's fingerprint,
//	    offsets of the fresh rows, carry
//	held samples, if the version is 4: see heldblocks.go; before, their number,
//	    and if there are any, which versions before 4 have written,
//	    fingerprint of the values, values a sample, and for each time, offset, values
//	thresholds, anomalies and silence, if the version is 2: see alertcodec.go
//	1 and these, or 0, and summaries, if the version is 3: see summary.go
func (e *encoder) head(s *State, k *Key) {
	e.int(k.lastOffset)
	e.int(k.lastTime)
	e.uint(uint64(len(k.wins)))
	for i := range k.wins {
		w, sw := &k.wins[i], &k.shape.wins[i]
		e.bits(s.cfg.Windows[sw.index].Fingerprint)
		e.uint(uint64(len(sw.cols)))
		e.uint(uint64(sw.seg))
		e.uint(uint64(w.count))
		e.uint(uint64(w.rows))
		first := w.count - int64(w.rows)
		if sw.seg > 0 {
			e.uint(uint64(w.segs.from & (sw.seg - 1)))
			first = max(first, w.count&^(sw.seg-1))
		}
		e.rows(w, len(sw.cols), first, w.count)
	}
	e.uint(uint64(len(k.marks)))
	for i := range k.shape.wins {
		for j := range k.shape.wins[i].dets {
			d := &k.shape.wins[i].dets[j]
			e.bits(nameHash(d.Name))
			e.bits(d.Fingerprint)
			e.bits(s.cfg.Windows[d.Window].Fingerprint)
			e.mark(&k.wins[i], &k.shape.wins[i], d, &k.marks[d.mark])
		}
	}
	full, summarised, held := !k.alerts.empty(), k.summarised(), k.held.Len() > 0
	if held {
		e.heldSamples(s, k)
	} else {
		e.uint(0)
	}
	if held || summarised {
		e.flag(full)
	}
	if held {
		e.flag(summarised)
	}
	if full {
		e.alerts(s, k)
	}
	if summarised {
		e.summaries(s, k)
	}
}

func (e *encoder) flag(v bool) {
	if v {
		e.byte(1)
	} else {
		e.byte(0)
	}
}

func (e *encoder) mark(w *win, sw *shapeWin, d *shapeDet, m *mark) {
	e.uint(uint64(m.n))
	if m.n > 0 {
		last := int64(0)
		for _, word := range w.fresh(sw, d)[:m.n] {
			e.int(int64(word) - last)
			last = int64(word)
		}
	}
	e.words(m.carry)
}

func (e *encoder) held(w []uint64) {
	e.int(int64(w[0]))
	e.int(int64(w[1]))
	for _, v := range w[2:] {
		e.bits(v)
	}
}

// segment is a segment's value: version, born, number of its first row, columns,
// rows.
func (e *encoder) segment(k *Key, sw *shapeWin, w *win, first, end int64) {
	e.byte(version)
	e.uint(uint64(k.born))
	e.uint(uint64(first))
	e.uint(uint64(len(sw.cols)))
	e.rows(w, len(sw.cols), first, end)
}

// rows are rows first to end of the window: their number, the first time, the
// differences of the differences of times, and the values.
func (e *encoder) rows(w *win, cols int, first, end int64) {
	n := end - first
	e.uint(uint64(n))
	if n == 0 {
		return
	}
	// The run of rows that ends at end is the last of what was there then.
	then := *w
	then.unpush(w.count - end)
	a, b := then.times(int32(n), 0)
	last, step := int64(a[0]), int64(0)
	e.int(last)
	for _, run := range [2][]uint64{a[1:], b} {
		for _, t := range run {
			d := int64(t) - last
			e.int(d - step)
			last, step = int64(t), d
		}
	}
	a, b = then.values(cols, int32(n))
	for _, run := range [2][]uint64{a, b} {
		for _, v := range run {
			e.bits(v)
		}
	}
}

// decoder reads what encoder wrote. After the first fault it gives zeros and
// bad is set; no number it gives is larger than what follows can hold.
type decoder struct {
	b     []byte
	bad   bool
	newer bool // why: a newer version wrote it
}

func (d *decoder) fail() {
	d.b, d.bad = nil, true
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.fail()
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

// offset is a number of a record or row.
func (d *decoder) offset() int64 {
	v := d.uint()
	if v > 1<<62 {
		d.fail()
		return 0
	}
	return int64(v)
}

func (d *decoder) int() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) bits() uint64 {
	if len(d.b) < 8 {
		d.fail()
		return 0
	}
	v := binary.LittleEndian.Uint64(d.b)
	d.b = d.b[8:]
	return v
}

// len is a number of things of at least size bytes each.
func (d *decoder) len(size int) int {
	v := d.uint()
	if v > uint64(len(d.b)/size) {
		d.fail()
		return 0
	}
	return int(v)
}

// small is a number that fits an int32.
func (d *decoder) small() int {
	v := d.uint()
	if v > math.MaxInt32 {
		d.fail()
		return 0
	}
	return int(v)
}

func (d *decoder) start() {
	if v := d.byte(); v != version {
		d.fail()
	}
}

func (d *decoder) words() detectors.Words {
	n := d.len(4)
	if n == 0 {
		return nil
	}
	v := make(detectors.Words, n)
	for i := range v {
		v[i] = binary.LittleEndian.Uint32(d.b[4*i:])
	}
	d.b = d.b[4*n:]
	return v
}

func (d *decoder) floats() []float32 { return d.words().F32() }

// times reads the number of rows and their times; the values that follow are
// there.
func (d *decoder) times(dst []uint64, cols int) []uint64 {
	n := d.len(1 + 8*cols)
	if n == 0 {
		return dst
	}
	last, step := d.int(), int64(0)
	dst = append(dst, uint64(last))
	for range n - 1 {
		step += d.int()
		last += step
		dst = append(dst, uint64(last))
	}
	if len(d.b) < n*8*cols {
		d.fail()
	}
	if d.bad {
		return dst[:0]
	}
	return dst
}

func (d *decoder) skip(n int) {
	if n > len(d.b) {
		d.fail()
		return
	}
	d.b = d.b[n:]
}
