package schemas

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"odradek/schemas/expression"
)

// Reading is the content of a record: one reading of a series, or, where a record has an array of readings, several (Len, At).
// Of several readings, Key is the first one's, nil where there is none, and Time is the latest.
type Reading struct {
	Key    []byte    // series key; aliases the record, the decoder's schema or the reading's own memory
	Time   int64     // event time, microseconds since 1970 UTC
	Values []float64 // Mapping.Width values, NaN where missing
	Schema int32     // id in the registry, -1 if it has none
	// Rejected has the indices in Mapping.Fields of the values that are missing because of Valid or MissingIf, or because they are
	// no numbers in an array of readings, one for each value.
	Rejected []int

	// Skipped is why the record is left out: it has no readings then, and nothing is wrong with it.
	Skipped Skip

	// Partition is the partition of the record. The caller sets it before Decode; only keys with "@partition" need it.
	Partition int32

	Work // of the program that fills the reading in
}

// Skip is a reason why a record is left out.
type Skip uint8

// The reasons.
const (
	NotSkipped Skip = iota
	SkippedTombstone
	SkippedUnmapped // its lines or data points have none of the mapped values
	SkippedFiltered // Mapping.OnlyIf is false
	Skips
)

func (s Skip) String() string { return [...]string{"", ClassTombstone, "unmapped", "filtered"}[s] }

// Skip makes out the reading of a record that is left out.
func (r *Reading) Skip(why Skip) {
	r.Key, r.Time, r.Schema, r.Rejected, r.Skipped = nil, NoTime, -1, r.Rejected[:0], why
}

// MaxSaves bounds the positions that a program saves at a time.
const MaxSaves = 8

// Work is a program's scratch memory for a record until its reading is finished.
type Work struct {
	KeyParts  [MaxKeyParts]KeyPart // of the key
	Saved     [MaxSaves]int        // positions in the record that are read twice
	Counts    []int                // counters of the program
	scratch   []byte
	fault     Fault
	faultSink int32
	items     *items   // of a record with an array of readings
	record    *Reading // of an item of such an array: the record
	kafkaKey  *Reading // parts of the key that are in the Kafka key
	layout    *Layout  // of such an item
	lacks     bool     // it lacks a mapped field
	absent    []bool   // of each value, that the reading has no such field; empty: it has all
	leaves    *leaves  // where a field stands for each number below a path
	Operands  expression.Operands
}

// RowReading returns the reading of a row of a table: absent says of each value that the row has no such field; empty: it has all.
func RowReading(key []byte, time int64, values []float64, absent []bool) Reading {
	return Reading{Key: key, Time: time, Values: values, Work: Work{absent: absent}}
}

// Absent says of each value that the reading has no such field; empty: it has all.
func (r *Reading) Absent() []bool { return r.absent }

// Reset prepares a reading for a record's values.
func (l *Layout) Reset(out *Reading, schemaID int32) {
	if cap(out.Values) < l.Width {
		out.Values = make([]float64, l.Width)
	}
	out.Values = out.Values[:l.Width]
	out.Schema = schemaID
	out.Skipped = NotSkipped
	out.Rejected = out.Rejected[:0]
	out.absent = out.absent[:0]
	out.fault = FaultNone
	out.Key = nil
	out.Time = NoTime
	for i := range l.KeyParts {
		out.KeyParts[i].Kind = KeyNone
	}
	if l.extra {
		l.resetMore(out)
	}
}

// resetMore prepares what few layouts have.
func (l *Layout) resetMore(out *Reading) {
	if l.operands > 0 {
		out.Operands.Reset(l.operands)
	}
	if l.wildcard != nil {
		out.beginLeaves(l)
	}
	if out.record != nil {
		out.layout, out.lacks = l, false
		out.inherit(l)
	} else if l.Key != nil && out.kafkaKey != nil {
		for i := range l.Key.Sinks {
			slot := l.Key.Sinks[i].Slot
			out.KeyParts[slot] = out.kafkaKey.KeyParts[slot]
		}
	}
}

// SetKafkaKey gives a reading the parts of its key that Layout.Key has found in the Kafka key, before its record is read.
func (r *Reading) SetKafkaKey(key *Reading) {
	if len(key.Key) > 0 && key.KeyParts[0].Kind == KeyNone { // a program may set the key itself where it has one part
		key.KeyParts[0] = KeyPart{Kind: KeyText, Text: key.Key}
	}
	r.kafkaKey = key
}

// Finish completes a reading whose record has been read: it joins the key's parts and
// reports the record's first fault, if any, as a *DecodeError. key is the Kafka
// key, timestampMs the Kafka timestamp. A record for which OnlyIf is false is skipped, also if its fields have other faults.
func (l *Layout) Finish(key []byte, timestampMs int64, out *Reading) error {
	if l.extra {
		return l.finishMore(key, timestampMs, out)
	}
	if out.faulty() {
		return l.finish(key, timestampMs, out)
	}
	return nil
}

// faulty reports whether a reading is not complete yet, or has a fault.
func (r *Reading) faulty() bool {
	return uint(len(r.Key)-1) >= MaxKeyBytes || r.Time == NoTime || r.fault != FaultNone
}

// finishMore completes a reading that has a condition, values that are computed, or values that are not taken.
func (l *Layout) finishMore(key []byte, timestampMs int64, out *Reading) error {
	if l.onlyIf != nil {
		if holds, err := l.holds(out); !holds {
			return err
		}
	}
	if out.faulty() {
		if err := l.finish(key, timestampMs, out); err != nil {
			return err
		}
	}
	if err := l.compute(out); err != nil {
		return err
	}
	if l.screens {
		l.screen(out)
	}
	if l.wildcard != nil {
		return l.finishLeaves(out)
	}
	return nil
}

func (l *Layout) finish(key []byte, timestampMs int64, out *Reading) error {
	if l.own.record {
		return l.finishRecord(key, timestampMs, out)
	}
	if l.KeyParts == 0 {
		out.Key = key
	} else if out.Key == nil {
		out.joinKeyParts(key, l)
	}
	if l.kafkaTime {
		if out.Time = NoTime; timestampMs >= 0 { // -1: the record has none
			out.Time, _ = ClockMillis.Micros(timestampMs)
		}
	}
	if out.fault != FaultNone || len(out.Key) == 0 || len(out.Key) > MaxKeyBytes || out.Time == NoTime {
		return l.unacceptable(out, timestampMs)
	}
	return nil
}

// unmet marks a value that has not been read yet: a NaN that no arithmetic
// and no decoder produces.
var unmet = math.Float64frombits(0x7ff8_0000_0bad_0001)

// Expect marks all values as not yet read. Formats whose records need not have every
// field call it once, after Begin.
func (r *Reading) Expect() {
	for i := range r.Values {
		r.Values[i] = unmet
	}
}

// Unmeet marks the values i to j-1 as not yet read, again.
func (r *Reading) Unmeet(i, j int) {
	for ; i < j; i++ {
		r.Values[i] = unmet
	}
}

// Met reports whether a value has been read since Expect.
func (r *Reading) Met(i int) bool { return math.Float64bits(r.Values[i]) != math.Float64bits(unmet) }

// FillMissing sets the values that were not read to NaN, before Finish. It reports
// whether any was read.
func (r *Reading) FillMissing() (met bool) {
	for i := range r.Values {
		if r.Met(i) {
			met = true
		} else {
			r.Values[i] = math.NaN()
		}
	}
	return met
}

// FillAbsent sets the values that were not read to NaN, as FillMissing does, in a format whose readings have fields of their
// own: where each field is a series, the reading has no sample of a series whose field it lacks.
func (r *Reading) FillAbsent() (met bool) {
	if cap(r.absent) < len(r.Values) {
		r.absent = make([]bool, len(r.Values))
	}
	r.absent = r.absent[:len(r.Values)]
	for i := range r.Values {
		r.absent[i] = !r.Met(i)
	}
	return r.FillMissing()
}

// Fail records a value that is not acceptable. Of several faults Finish reports the one of
// the first sink: key, time, then the fields in their order; of an array its
// length before its items. In an array of readings a value that is no number is missing instead, so that others are read.
func (r *Reading) Fail(sink int32, f Fault) {
	if r.record != nil && r.leaveOut(sink, f) {
		return
	}
	if r.fault == FaultNone || sink < r.faultSink || sink == r.faultSink && f == FaultLength {
		r.fault, r.faultSink = f, sink
	}
}

// leaveOut notes a value of an item that is missing because it is no number. It reports whether the fault is such a one.
func (r *Reading) leaveOut(sink int32, f Fault) bool {
	s := &r.layout.Sinks[sink]
	if s.Role != RoleValue || f != FaultValueType && f != FaultQuoted && f != FaultText && f != FaultBranch {
		return false
	}
	r.lacks = r.lacks || f == FaultBranch
	r.Rejected = append(r.Rejected, s.field)
	return true
}

// joinKeyParts returns the key made of its parts: the text itself of a single one, else a
// text in the reading's own memory. The key is empty if a part is missing.
func (r *Reading) joinKeyParts(key []byte, l *Layout) {
	if l.recordKey >= 0 {
		r.KeyParts[l.recordKey] = KeyPart{Kind: KeyText, Text: key}
	}
	if l.partition >= 0 {
		r.KeyParts[l.partition] = KeyPart{Kind: KeyNumber, Num: int64(r.Partition)}
	}
	if l.KeyParts == 1 && r.KeyParts[0].Kind == KeyText {
		r.Key = r.KeyParts[0].Text
		return
	}
	r.scratch = r.scratch[:0]
	empty := true
	for i := range l.KeyParts {
		p := &r.KeyParts[i]
		empty = empty && p.Kind == KeyEmpty
		if p.Kind == KeyNone || p.Kind == KeyText && len(p.Text) == 0 || len(p.Text) > MaxKeyBytes {
			if len(p.Text) > MaxKeyBytes {
				r.Fail(0, faultKeyLong)
			}
			return
		}
		if i > 0 {
			r.scratch = append(r.scratch, '/')
		}
		r.scratch = appendKeyPart(r.scratch, p, l.KeyParts > 1)
	}
	if !empty {
		r.Key = r.scratch
	}
}

// unacceptable returns the error for a record that is well-formed but not a
// reading: the fault of its key, else of its time, else of its first value.
func (l *Layout) unacceptable(out *Reading, timestampMs int64) error {
	e := &DecodeError{SchemaID: out.Schema}
	set := func(f Fault, field string) error {
		e.Class, e.Err, e.Field = faultErrors[f].class, faultErrors[f].err, field
		return e
	}
	field := func(r Role, other string) string {
		for i := range l.Sinks {
			if l.Sinks[i].Role == r {
				return l.Sinks[i].Text
			}
		}
		return other
	}
	var r Role = math.MaxUint8
	if out.fault != FaultNone {
		r = l.Sinks[out.faultSink].Role
	}
	switch {
	case r == RoleKey:
		return set(out.fault, l.Sinks[out.faultSink].Text)
	case l.own.record && !l.own.key:
	case len(out.Key) == 0:
		return set(FaultKeyNull, field(RoleKey, "@key"))
	case len(out.Key) > MaxKeyBytes:
		return set(faultKeyLong, field(RoleKey, "@key"))
	}
	switch {
	case r == RoleTime:
		return set(out.fault, l.Sinks[out.faultSink].Text)
	case l.own.record && !l.own.time:
	case out.Time == NoTime && l.kafkaTime && timestampMs >= 0:
		return set(FaultTimeRange, "@timestamp")
	case out.Time == NoTime:
		return set(FaultTimeNull, field(RoleTime, "@timestamp"))
	}
	return set(out.fault, l.Sinks[out.faultSink].Text)
}

// Finite returns a number as it is; every NaN becomes the canonical one, infinity a fault.
func Finite(f float64, sink int32, out *Reading) float64 {
	if math.Float64bits(f)&InfiniteBits != InfiniteBits {
		return f
	}
	if f == f {
		out.Fail(sink, FaultInfinite)
	}
	return math.NaN()
}

// InfiniteBits is the exponent of infinities and NaNs.
const InfiniteBits = 0x7ff << 52

// A record with an array of readings (Mapping.Readings) is read in two steps: the program of the record
// finds the parts that all readings share and the bytes of each item; then the program of the items
// makes a reading of each. Either all readings of a record are taken or, if one has a fault, none.

// owner says which parts of a key, and whether the time, are looked for in the record or in its items.
type owner struct {
	record bool // a record's layout; its Item has the rest
	key    bool // all of the key is the record's
	time   bool
}

// itemize divides the paths of l into paths of the record and paths of the items of its array. err is what was wrong with
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
	record.Item, record.own, record.computed = &item, owner{record: true, key: true, time: true}, nil
	item.extra = true                             // it begins with what its record has
	if l.onlyIf != nil && uses(l.onlyIf, array) { // it is about each reading
		record.onlyIf = nil
	} else {
		item.onlyIf = nil
	}
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
		case RoleValue, RoleOperand:
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
	absent []bool // of each of values; empty: no reading lacks a field
}

// newItems returns the items without the items of the record before.
func (r *Reading) newItems() *items {
	if r.items == nil {
		r.items = &items{}
		r.items.item.record = r
	}
	s := r.items
	s.bytes, s.keys, s.at, s.times, s.values, s.absent = s.bytes[:0], s.keys[:0], s.at[:0], s.times[:0], s.values[:0], s.absent[:0]
	s.found, s.over = false, 0
	return s
}

// add adds the reading that it.item holds.
func (it *items) add() {
	r := &it.item
	if n := len(it.at); n > 0 && bytes.Equal(it.keys[it.at[n-2]:it.at[n-1]], r.Key) {
		it.at = append(it.at, it.at[n-2], it.at[n-1])
	} else {
		from := len(it.keys)
		it.keys = append(it.keys, r.Key...)
		it.at = append(it.at, from, len(it.keys))
	}
	it.times = append(it.times, r.Time)
	it.values = append(it.values, r.Values...)
	it.absent = append(it.absent, r.absent...)
	if r.leaves != nil {
		r.record.leaves.add(r.leaves)
	}
}

// tooMany returns the error of a record whose readings have too many leaves; nil for any other.
func (r *Reading) tooMany(schemaID int32) error {
	if r.leaves == nil || len(r.leaves.ends) <= maxValues && len(r.leaves.names) <= maxNames {
		return nil
	}
	return &DecodeError{Class: ClassTooLarge, SchemaID: schemaID,
		Err: fmt.Errorf("more than %d numbers in a record, or than %d bytes in their paths", maxValues, maxNames)}
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

// Len returns the number of readings of the record: 1, the number of items of its array, or 0 where it is skipped.
func (r *Reading) Len() int {
	if r.Skipped != NotSkipped {
		return 0
	}
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
	copy(r.KeyParts[:l.KeyParts], r.record.KeyParts[:l.KeyParts])
	copy(r.Operands.List[:l.operands], r.record.Operands.List)
}

// batch is the Program of records with an array of readings.
type batch struct {
	layout       *Layout
	record, item Program
	schemaID     int32
	array        *Sink
}

// NewBatch returns the program of records with an array of readings from the programs of the record, whose layout is l, and of
// one item, whose layout is l.Item.
func NewBatch(l *Layout, schemaID int32, record, item Program) Program {
	return &batch{l, record, item, schemaID, &l.Sinks[len(l.Sinks)-1]}
}

// Decode implements Program. Key is the first reading's key, Time the latest time, and Values are the record's.
func (bt *batch) Decode(key, body []byte, timestampMs int64, out *Reading) error {
	s := out.newItems()
	if err := bt.record.Decode(key, body, timestampMs, out); err != nil || out.Skipped != NotSkipped {
		return err
	}
	if n, most := len(s.bytes)+s.over, min(MaxReadings, maxValues/bt.layout.Width); n > most {
		return &DecodeError{Class: ClassTooLarge, Field: bt.array.Text, SchemaID: bt.schemaID,
			Err: fmt.Errorf("%d readings in a record, %d at most of %d values each", n, most, bt.layout.Width)}
	}
	latest, lacking := out.Time, 0
	for i, b := range s.bytes {
		if err := bt.item.Decode(key, b, timestampMs, &s.item); err != nil {
			return bt.locate(err, i)
		}
		if s.item.Skipped != NotSkipped {
			continue
		}
		for j := range bt.layout.Sinks {
			if c := &bt.layout.Sinks[j]; c.Role == RoleValue { // of the record
				copy(s.item.Values[c.Slot:c.Slot+c.N], out.Values[c.Slot:])
			}
		}
		s.add()
		if err := out.tooMany(bt.schemaID); err != nil {
			return err
		}
		if s.item.lacks {
			lacking++
		}
		out.Rejected = append(out.Rejected, s.item.Rejected...)
		if i == 0 || s.item.Time > latest {
			latest = s.item.Time
		}
	}
	if n := len(s.times); n > 0 {
		if lacking == n { // a misspelled path would go unnoticed
			return bt.locate(bt.lacking(), 0)
		}
		out.Key, _, _ = out.At(0)
	} else if len(s.bytes) > 0 {
		out.filter()
		return nil
	}
	if out.Time = latest; bt.layout.wildcard != nil && len(s.times) > 0 && len(out.leaves.ends) == 0 {
		out.leaveEmpty()
	}
	return nil
}

// lacking returns the error of items that all lack the values.
func (bt *batch) lacking() error {
	e := &DecodeError{Class: faultErrors[FaultBranch].class, SchemaID: bt.schemaID, Err: faultErrors[FaultBranch].err}
	for i := range bt.layout.Item.Sinks {
		if s := &bt.layout.Item.Sinks[i]; s.Role == RoleValue {
			e.Field = s.Text
			break
		}
	}
	return e
}

// BeginReadings prepares for a record of readings that its format finds one after the other, all of whose paths lead into them.
// It returns the reading to fill in: for each, the program calls l.Item.Reset, l.Item.Finish and AddReading, and then
// EndReadings.
func (l *Layout) BeginReadings(key []byte, timestampMs int64, out *Reading, schemaID int32) (item *Reading, err error) {
	s := out.newItems()
	l.Reset(out, schemaID)
	return &s.item, l.Finish(key, timestampMs, out)
}

// AddReading adds the reading that has been filled in. An error is a *DecodeError.
func (l *Layout) AddReading(out *Reading) error {
	s := out.items
	if most := min(MaxReadings, maxValues/l.Width); len(s.times) == most {
		return &DecodeError{Class: ClassTooLarge, SchemaID: out.Schema,
			Err: fmt.Errorf("more than %d readings in a record, of %d values each", most, l.Width)}
	}
	s.add()
	out.Rejected = append(out.Rejected, s.item.Rejected...)
	return out.tooMany(out.Schema)
}

// EndReadings completes a record, whose readings have been added.
func (l *Layout) EndReadings(out *Reading) {
	s := out.items
	if len(s.times) == 0 {
		out.filter()
		return
	}
	out.Key, _, _ = out.At(0)
	out.Time = slices.Max(s.times)
}

// locate returns the error of the i-th item with the item's place in the record.
func (bt *batch) locate(err error, i int) error {
	var e *DecodeError
	if !errors.As(err, &e) {
		return err
	}
	at := *e // a copy: programs share their errors
	at.Field = strings.TrimPrefix(bt.array.Text, "@value") + "[" + strconv.Itoa(i) + "]"
	if e.Field != "" && e.Field != "@value" {
		at.Field += "." + e.Field
	}
	return &at
}

// finishRecord completes what all readings of a record share: its key and its time, where the items have none.
func (l *Layout) finishRecord(key []byte, timestampMs int64, out *Reading) error {
	if l.KeyParts == 0 {
		out.Key = key
	} else if l.own.key && out.Key == nil {
		out.joinKeyParts(key, l)
	}
	for i := range l.Sinks {
		if s := &l.Sinks[i]; !l.own.key && s.Role == RoleKey && out.KeyParts[s.Slot].Kind == KeyNone {
			out.Fail(int32(i), FaultKeyNull)
		}
	}
	if l.kafkaTime {
		if out.Time = NoTime; timestampMs >= 0 {
			out.Time, _ = ClockMillis.Micros(timestampMs)
		}
	}
	if out.fault == FaultNone && (!l.own.key || uint(len(out.Key)-1) < MaxKeyBytes) && (!l.own.time || out.Time != NoTime) {
		return nil
	}
	return l.unacceptable(out, timestampMs)
}

// Splitter splits the readings of a record into samples. Where values are series of their own, each makes one: the value of field
// "temperature" in a reading of key "press-1" belongs to the series "press-1/temperature". It serves one goroutine. A nil
// Splitter makes one sample of each reading.
type Splitter struct {
	names    []string
	longest  int
	wildcard bool   // the samples of a record are its leaves
	next     int    // then the reading of the next sample
	key      []byte // of the last sample: its reading's key, '/' and a name
	base     int    // length of the reading's key and '/' in key
	some     bool   // readings of the record lack fields
	present  []int  // then the values that they have, numbered through the record
}

// NewSplitter returns a Splitter of readings whose values have these names, which contain no '/', so that the last '/' of a
// series key ends the reading's key. One name may stand for each number below a path (IsWildcard). Without names it is nil.
func NewSplitter(names []string) *Splitter {
	if len(names) == 0 {
		return nil
	}
	s := &Splitter{names: names, wildcard: IsWildcard(names[0])}
	for _, n := range names {
		s.longest = max(s.longest, len(n))
	}
	return s
}

// Samples returns the number of samples of a record. It is called before Sample.
func (s *Splitter) Samples(r *Reading) int {
	if s == nil {
		return r.Len()
	}
	if s.wildcard {
		if s.next = 0; r.Len() == 0 || r.leaves == nil {
			return 0
		}
		return len(r.leaves.ends)
	}
	absent := r.absent
	if r.items != nil {
		absent = r.items.absent
	}
	if s.some = len(absent) > 0; !s.some || r.Len() == 0 {
		return r.Len() * len(s.names)
	}
	s.present = s.present[:0]
	for i := range absent {
		if !absent[i] {
			s.present = append(s.present, i)
		}
	}
	return len(s.present)
}

// KeyBytes returns the most bytes of the series keys of a record.
func (s *Splitter) KeyBytes(r *Reading) (most int) {
	for i := range r.Len() {
		key, _, _ := r.At(i)
		most = max(most, len(key))
	}
	if s != nil && most > 0 {
		longest := s.longest
		if s.wildcard {
			longest = r.leaves.longest()
		}
		most += 1 + longest
	}
	return most
}

// Sample returns the series key, the event time and the values of the i-th sample of a record. It is called in order; the
// result is valid until the next call.
func (s *Splitter) Sample(r *Reading, i int) (key []byte, time int64, values []float64) {
	if s == nil {
		return r.At(i)
	}
	return s.sample(r, i)
}

func (s *Splitter) sample(r *Reading, i int) (key []byte, time int64, values []float64) {
	if s.wildcard {
		return s.leaf(r, i)
	}
	first := i == 0
	if s.some {
		first = first || s.present[i]/len(s.names) != s.present[i-1]/len(s.names)
		i = s.present[i]
	}
	n := i % len(s.names)
	key, time, values = r.At(i / len(s.names))
	if first || n == 0 {
		s.key = append(append(s.key[:0], key...), '/')
		s.base = len(s.key)
	}
	s.key = append(s.key[:s.base], s.names[n]...)
	return s.key, time, values[n : n+1]
}

// leaf returns the sample of a leaf.
func (s *Splitter) leaf(r *Reading, i int) (key []byte, time int64, values []float64) {
	v := r.leaves
	begins := i == 0
	for r.items != nil && v.until[s.next] <= i {
		s.next++
		begins = true
	}
	key, time, _ = r.At(s.next)
	if begins {
		s.key = append(append(s.key[:0], key...), '/')
		s.base = len(s.key)
	}
	s.key = append(s.key[:s.base], v.name(i)...)
	return s.key, time, v.values[i : i+1]
}
