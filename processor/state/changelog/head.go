package changelog

import (
	"encoding/binary"
	"fmt"
)

// HeadStart begins a head and each of its fragments.
type HeadStart struct {
	Alerts     bool   // there is a section of alerts
	Fragments  uint16 // 0: the head is whole
	Generation uint8  // of the fragments
	AsOf       int64  // offsets below are in the head
	Born       int64  // offset of the key's first sample
}

// withAlerts is the flag of a HeadStart with Alerts.
const withAlerts = 1

// HeadStart appends the start of a head or of one of its fragments: version, flags, number of fragments and generation, AsOf, Born.
func (e *Encoder) HeadStart(h *HeadStart) {
	e.Byte(Version)
	e.Flag(h.Alerts)
	e.Uint(uint64(h.Fragments)*Generations + uint64(h.Generation))
	e.Uint(uint64(h.AsOf))
	e.Uint(uint64(h.Born))
}

// HeadStart reads the start of a head or of one of its fragments.
func (d *Decoder) HeadStart() (h HeadStart) {
	d.Version()
	h.Alerts = d.Flags(withAlerts) != 0
	n := d.Small()
	if n/Generations > MaxFragments {
		d.Fail()
	}
	h.Fragments, h.Generation = uint16(n/Generations), uint8(n%Generations)
	h.AsOf, h.Born = d.Offset(), d.Offset()
	return h
}

// The kinds of a head's sections, which follow each other in this order. A reader skips a section of an odd kind that it does not
// know, and refuses a head with one of an even kind.
const (
	RowsSection        = 2
	ProgressSection    = 4
	HeldSection        = 6
	AlertsSection      = 8
	SummariesSection   = 10
	ScoreStatesSection = 12
	FormerSection      = 14
	IntervalSection    = 16
)

// BeginSection appends the kind of a section, whose content follows until EndSection.
func (e *Encoder) BeginSection(kind byte) (start int) {
	e.Byte(kind)
	return len(e.B)
}

// EndSection puts the length of a section in front of its content.
func (e *Encoder) EndSection(start int) {
	n := len(e.B) - start
	e.Uint(uint64(n))
	var length [binary.MaxVarintLen64]byte
	size := copy(length[:], e.B[start+n:])
	copy(e.B[start+size:], e.B[start:start+n])
	copy(e.B[start:], length[:size])
}

// Sections calls read for each section, with its content in d.B; read returns whether it knows the kind.
func (d *Decoder) Sections(read func(kind byte) (known bool, err error)) error {
	for last := byte(0); len(d.B) > 0; {
		kind, n := d.Byte(), d.Len(1)
		if d.Bad || kind <= last {
			return ErrCorrupt
		}
		last = kind
		rest := d.B[n:]
		d.B = d.B[:n:n]
		known, err := read(kind)
		if err == nil && !known {
			d.B = nil
			if kind%2 == 0 {
				err = fmt.Errorf("a section of kind %d: %w", kind, ErrNewer)
			}
		}
		if err == nil {
			err = d.End()
		}
		if err != nil {
			return err
		}
		d.B = rest
	}
	return d.Err()
}
