package events

import (
	"encoding/binary"
	"errors"
	"math"
)

// ErrCorrupt is the error for bytes that Append has not written.
var ErrCorrupt = errors.New("events: the bytes are no state of an anomaly")

// Append encodes s: one byte if it is idle.
func (s *State) Append(b []byte) []byte {
	l := s.life
	if l == nil {
		return append(b, 0)
	}
	kind := byte(1)
	if l.open {
		kind = 2
	}
	b = append(b, kind, l.told)
	b = binary.AppendUvarint(b, uint64(l.run))
	b = binary.AppendUvarint(b, uint64(l.since))
	b = binary.AppendVarint(b, l.first)
	return l.Anomaly.Append(b)
}

// Decode reads what Append wrote at the front of b, and returns the rest.
func Decode(b []byte) (s State, rest []byte, err error) {
	d := reader{b: b}
	kind := d.byte()
	if kind == 0 && !d.bad {
		return s, d.b, nil
	}
	l := &life{open: kind == 2, told: d.byte(), run: d.uint32(), since: d.uint32(), first: d.int()}
	d.anomaly(&l.Anomaly)
	if d.bad || kind > 2 || l.open != (l.Revision > 0) {
		return State{}, nil, ErrCorrupt
	}
	return State{l}, d.b, nil
}

// Append encodes a.
func (a *Anomaly) Append(b []byte) []byte {
	b = append(b, a.ID[:]...)
	b = binary.AppendUvarint(b, uint64(a.Revision))
	severity := a.Severity
	if a.Rank != 0 {
		severity |= ranked
	}
	b = append(b, severity)
	b = binary.AppendUvarint(b, uint64(a.Samples))
	for _, t := range [...]int64{a.Start, a.End, a.PeakTime, a.OpenedAt} {
		b = binary.AppendVarint(b, t)
	}
	b = appendFloats(b, a.PeakScore, a.Threshold)
	if a.Rank != 0 {
		b = appendFloats(b, a.Rank)
	}
	for _, v := range [...][]float64{a.Expected, a.Actual, a.Contribution} {
		b = appendDoubles(b, v)
	}
	return b
}

// ranked is added to the severity, which is 100 at most, of an anomaly with a rank;
// those of earlier versions have none.
const ranked = 1 << 7

// doubles marks a list of float64: it is added to its length. The lists of earlier
// versions are of float32, with their length alone; those versions take a marked
// length for one of more numbers than there are, and refuse it.
const doubles = 1 << 31

func appendDoubles(b []byte, v []float64) []byte {
	if len(v) == 0 {
		return append(b, 0)
	}
	b = binary.AppendUvarint(b, doubles+uint64(len(v)))
	for _, f := range v {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(f))
	}
	return b
}

func appendFloats(b []byte, v ...float32) []byte {
	for _, f := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
	}
	return b
}

// DecodeAnomaly reads what Anomaly.Append wrote at the front of b, and returns the
// rest.
func DecodeAnomaly(b []byte) (a Anomaly, rest []byte, err error) {
	d := reader{b: b}
	if d.anomaly(&a); d.bad {
		return Anomaly{}, nil, ErrCorrupt
	}
	return a, d.b, nil
}

// reader gives zeros after the first fault.
type reader struct {
	b   []byte
	bad bool
}

func (d *reader) fail() { d.b, d.bad = nil, true }

func (d *reader) take(n int) []byte {
	if n > len(d.b) {
		d.fail()
		return nil
	}
	v := d.b[:n]
	d.b = d.b[n:]
	return v
}

func (d *reader) byte() byte {
	if v := d.take(1); v != nil {
		return v[0]
	}
	return 0
}

func (d *reader) uint32() uint32 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 || v > math.MaxUint32 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return uint32(v)
}

func (d *reader) int() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *reader) float() float32 {
	if v := d.take(4); v != nil {
		return math.Float32frombits(binary.LittleEndian.Uint32(v))
	}
	return 0
}

// doubles reads what appendDoubles wrote, or the float32 of an earlier version.
func (d *reader) doubles() []float64 {
	n, wide := d.uint32(), false
	size := 4
	if n >= doubles {
		n, wide, size = n-doubles, true, 8
	}
	if n == 0 || int(n) > len(d.b)/size {
		if n > 0 || wide {
			d.fail()
		}
		return nil
	}
	v := make([]float64, n)
	for i := range v {
		if wide {
			v[i] = math.Float64frombits(binary.LittleEndian.Uint64(d.take(8)))
		} else {
			v[i] = float64(d.float())
		}
	}
	return v
}

func (d *reader) anomaly(a *Anomaly) {
	copy(a.ID[:], d.take(len(a.ID)))
	a.Revision, a.Severity, a.Samples = d.uint32(), d.byte(), d.uint32()
	hasRank := a.Severity&ranked != 0
	a.Severity &^= ranked
	a.Start, a.End, a.PeakTime, a.OpenedAt = d.int(), d.int(), d.int(), d.int()
	a.PeakTime = max(a.Start, min(a.End, a.PeakTime)) // earlier versions have the sample that completed the score
	a.PeakScore, a.Threshold = d.float(), d.float()
	if hasRank {
		a.Rank = d.float()
	}
	a.Expected, a.Actual, a.Contribution = d.doubles(), d.doubles(), d.doubles()
}
