package schemas

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A record with an array of readings (Mapping.Readings) is read in two steps: the program of the record
// finds the parts that all readings share and the bytes of each item; then the program of the items
// makes a reading of each. Either all readings of a record are taken or, if one has a fault, none.

// owner says which parts of a key, and whether the time, are looked for in the record or in its items.
type owner struct {
	record bool // a record's layout; its Item has the rest
	key    bool // all of the key is the record's
	time   bool
}

// itemize divides the paths of l into those of the record and those of the items of its array. err is what was wrong with
// the paths themselves.
func (m Mapping) itemize(l *Layout, err error) (*Layout, error) {
	array, wrong := parsePath(m.Readings)
	switch {
	case wrong != nil:
		return nil, errors.Join(err, fmt.Errorf("schemas: readings %q: %w", m.Readings, wrong))
	case counted(array) > 0:
		return nil, errors.Join(err, fmt.Errorf("schemas: readings %q: an array of readings has any length, leave out the [%d]", m.Readings,
			counted(array)))
	case err != nil:
		return nil, err
	}
	record, item := *l, *l
	record.Sinks, item.Sinks = nil, nil
	record.Item, record.own = &item, owner{record: true, key: true, time: true}
	var faults []error
	values := 0
	for _, s := range l.Sinks {
		n := common(s.Segs, array)
		switch {
		case n < len(array):
			record.Sinks = append(record.Sinks, s)
			continue
		case counted(s.Segs[:n]) > 0:
			faults = append(faults, fmt.Errorf("schemas: %s %q gives a length to the array of readings: leave out the [%d]", s.Role, s.Text,
				counted(s.Segs[:n])))
			continue
		}
		s.Segs = s.Segs[n:]
		s.Text = strings.Join(split(s.Text, '.')[n:], ".")
		if len(s.Segs) == 0 {
			s.Text = "@value"
		}
		switch s.Role {
		case RoleKey:
			record.own.key = false
		case RoleTime:
			record.own.time = false
		case RoleValue:
			values++
		}
		item.Sinks = append(item.Sinks, s)
	}
	if values == 0 && len(faults) == 0 {
		faults = append(faults, fmt.Errorf("schemas: readings %q: no value is in the array: name one as %s", m.Readings,
			strings.TrimPrefix(m.Readings+".value", "@value.")))
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	record.Sinks = append(record.Sinks, Sink{Role: RoleReadings, Text: m.Readings, Segs: array})
	return &record, nil
}

// KeyInReadings reports whether a part of the key is in the readings of a record, so that these may be of several series.
func (m Mapping) KeyInReadings() bool {
	l, err := m.Layout()
	return err == nil && l.Item != nil && !l.own.key
}

// common returns how many steps of a path are those that another one begins with.
func common(segs, other []Segment) int {
	n := 0
	for n < len(segs) && n < len(other) && segs[n].Name == other[n].Name {
		n++
	}
	return n
}

// items is what a Reading holds of a record with an array of readings.
type items struct {
	bytes  [][]byte // of the items, as they are in the record
	found  bool     // the record has the array, or null in its place
	over   int      // items beyond MaxReadings
	item   Reading  // the one being read
	keys   []byte
	at     []int // of each reading, where its key begins and ends in keys
	times  []int64
	values []float64
}

// reset forgets the record before.
func (s *items) reset() {
	s.bytes, s.keys, s.at, s.times, s.values = s.bytes[:0], s.keys[:0], s.at[:0], s.times[:0], s.values[:0]
	s.found, s.over = false, 0
}

// add adds the reading that s.item holds.
func (s *items) add() {
	r := &s.item
	if n := len(s.at); n > 0 && bytes.Equal(s.keys[s.at[n-2]:s.at[n-1]], r.Key) {
		s.at = append(s.at, s.at[n-2], s.at[n-1])
	} else {
		from := len(s.keys)
		s.keys = append(s.keys, r.Key...)
		s.at = append(s.at, from, len(s.keys))
	}
	s.times = append(s.times, r.Time)
	s.values = append(s.values, r.Values...)
}

// AddItem adds an item of the array of readings, whose bytes alias the record.
func (r *Reading) AddItem(b []byte) {
	s := r.items
	s.found = true
	if len(s.bytes) == MaxReadings {
		s.over++
		return
	}
	s.bytes = append(s.bytes, b)
}

// FoundItems notes that the record has the array of readings, or null in its place. It reports whether that was known.
func (r *Reading) FoundItems() (before bool) {
	before, r.items.found = r.items.found, true
	return before
}

// DropItems forgets the items so far.
func (r *Reading) DropItems() { r.items.bytes, r.items.over = r.items.bytes[:0], 0 }

// HasItems reports whether the record has the array of readings, or null in its place.
func (r *Reading) HasItems() bool { return r.items.found }

// Len returns the number of readings of the record: 1, or the number of items of its array.
func (r *Reading) Len() int {
	if r.items == nil {
		return 1
	}
	return len(r.items.times)
}

// At returns the i-th reading of the record. Key and values are valid until the next record is read.
func (r *Reading) At(i int) (key []byte, time int64, values []float64) {
	s := r.items
	if s == nil {
		return r.Key, r.Time, r.Values
	}
	w := len(r.Values)
	return s.keys[s.at[2*i]:s.at[2*i+1]], s.times[i], s.values[i*w : (i+1)*w]
}

// inherit begins a reading with what all readings of its record share.
func (r *Reading) inherit(l *Layout) {
	r.Key, r.Time, r.Partition = r.record.Key, r.record.Time, r.record.Partition
	copy(r.Parts[:l.Parts], r.record.Parts[:l.Parts])
}

// batch is the Program of records with an array of readings.
type batch struct {
	layout       *Layout
	record, item Program
	schemaID     int32
	array        *Sink
}

// NewBatch returns the program of records with an array of readings from those of the record, whose layout is l, and of
// one item, whose layout is l.Item.
func NewBatch(l *Layout, schemaID int32, record, item Program) Program {
	return &batch{l, record, item, schemaID, &l.Sinks[len(l.Sinks)-1]}
}

// Decode implements Program. Key is the first reading's key, Time the latest time, and Values are the record's.
func (p *batch) Decode(key, body []byte, timestampMs int64, out *Reading) error {
	if out.items == nil {
		out.items = &items{}
		out.items.item.record = out
	}
	s := out.items
	s.reset()
	if err := p.record.Decode(key, body, timestampMs, out); err != nil {
		return err
	}
	if n, most := len(s.bytes)+s.over, min(MaxReadings, maxValues/p.layout.Width); n > most {
		return &DecodeError{Class: ClassTooLarge, Field: p.array.Text, SchemaID: p.schemaID,
			Err: fmt.Errorf("%d readings in a record, %d at most of %d values each", n, most, p.layout.Width)}
	}
	latest := out.Time
	for i, b := range s.bytes {
		if err := p.item.Decode(key, b, timestampMs, &s.item); err != nil {
			return p.locate(err, i)
		}
		for j := range p.layout.Sinks {
			if c := &p.layout.Sinks[j]; c.Role == RoleValue { // of the record
				copy(s.item.Values[c.Slot:c.Slot+c.N], out.Values[c.Slot:])
			}
		}
		s.add()
		out.Rejected = append(out.Rejected, s.item.Rejected...)
		if i == 0 || s.item.Time > latest {
			latest = s.item.Time
		}
	}
	if len(s.times) > 0 {
		out.Key, _, _ = out.At(0)
	}
	out.Time = latest
	return nil
}

// locate returns the error of the i-th item with the item's place in the record.
func (p *batch) locate(err error, i int) error {
	var e *DecodeError
	if !errors.As(err, &e) {
		return err
	}
	at := *e // a copy: programs share their errors
	at.Field = strings.TrimPrefix(p.array.Text, "@value") + "[" + strconv.Itoa(i) + "]"
	if e.Field != "" && e.Field != "@value" {
		at.Field += "." + e.Field
	}
	return &at
}

// finishRecord completes what all readings of a record share: its key and its time, where the items have none.
func (l *Layout) finishRecord(key []byte, timestampMs int64, out *Reading) error {
	if l.Parts == 0 {
		out.Key = key
	} else if l.own.key && out.Key == nil {
		out.joinParts(key, l)
	}
	for i := range l.Sinks {
		if s := &l.Sinks[i]; !l.own.key && s.Role == RoleKey && out.Parts[s.Slot].Kind == PartNone {
			out.Fail(int32(i), FaultKeyNull)
		}
	}
	if l.kafkaTime {
		if out.Time = NoTime; timestampMs >= 0 {
			out.Time, _ = ClockMillis.Micros(timestampMs)
		}
	}
	if out.fault == FaultNone && (!l.own.key || uint(len(out.Key)-1) < MaxKeyBytes) && (!l.own.time || out.Time != NoTime) {
		if l.screens {
			l.screen(out)
		}
		return nil
	}
	return l.unacceptable(out, timestampMs)
}
