package schemas

import "math"

// Reading is the content of a record: one reading of a series, or, where a record has an array of readings, several (Len, At).
// Of several readings, Key is the first one's, nil where there is none, and Time is the latest.
type Reading struct {
	Key    []byte    // series key; aliases the record, the decoder's schema or the reading's own memory
	Time   int64     // event time, microseconds since 1970 UTC
	Values []float64 // Mapping.Width values, NaN where missing
	Schema int32     // id in the registry, -1 if it has none
	// Rejected has the indices in Mapping.Fields of the values that are missing because of Valid or MissingIf, one for each value.
	Rejected []int

	// Partition is the partition of the record. The caller sets it before Decode; only keys with "@partition" need it.
	Partition int32

	Work // of the program that fills the reading in
}

// MaxSaves bounds the positions that a program saves at a time.
const MaxSaves = 8

// Work is a program's scratch memory for a record until its reading is finished.
type Work struct {
	Parts     [maxKeyParts]Part // of the key
	Saved     [MaxSaves]int     // positions in the record that are read twice
	Counts    []int             // counters of the program
	scratch   []byte
	fault     Fault
	faultSink int32
	items     *items   // of a record with an array of readings
	record    *Reading // of an item of such an array: the record
}

// Reset prepares a reading for a record's values.
func (l *Layout) Reset(out *Reading, schemaID int32) {
	if cap(out.Values) < l.Width {
		out.Values = make([]float64, l.Width)
	}
	out.Values = out.Values[:l.Width]
	out.Schema = schemaID
	out.Rejected = out.Rejected[:0]
	out.fault = FaultNone
	out.Key = nil
	out.Time = NoTime
	for i := range l.Parts {
		out.Parts[i].Kind = PartNone
	}
	if out.record != nil {
		out.inherit(l)
	}
}

// Finish completes a reading whose record has been read: it joins the key's parts and
// reports the record's first fault, if any, as a *DecodeError. key is the Kafka
// key, timestampMs the Kafka timestamp.
func (l *Layout) Finish(key []byte, timestampMs int64, out *Reading) error {
	if uint(len(out.Key)-1) < MaxKeyBytes && out.Time != NoTime && out.fault == FaultNone {
		if l.screens {
			l.screen(out)
		}
		return nil
	}
	return l.finish(key, timestampMs, out)
}

func (l *Layout) finish(key []byte, timestampMs int64, out *Reading) error {
	if l.own.record {
		return l.finishRecord(key, timestampMs, out)
	}
	if l.Parts == 0 {
		out.Key = key
	} else if out.Key == nil {
		out.joinParts(key, l)
	}
	if l.kafkaTime {
		if out.Time = NoTime; timestampMs >= 0 { // -1: the record has none
			out.Time, _ = ClockMillis.Micros(timestampMs)
		}
	}
	if out.fault != FaultNone || len(out.Key) == 0 || len(out.Key) > MaxKeyBytes || out.Time == NoTime {
		return l.unacceptable(out, timestampMs)
	}
	if l.screens {
		l.screen(out)
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

// Fail records a value that is not acceptable. Of several faults Finish reports the one of
// the first sink: key, time, then the fields in their order; of an array its
// length before its items.
func (r *Reading) Fail(sink int32, f Fault) {
	if r.fault == FaultNone || sink < r.faultSink || sink == r.faultSink && f == FaultLength {
		r.fault, r.faultSink = f, sink
	}
}

// joinParts returns the key made of its parts: the text itself of a single one, else a
// text in the reading's own memory. The key is empty if a part is missing.
func (r *Reading) joinParts(key []byte, l *Layout) {
	if l.recordKey >= 0 {
		r.Parts[l.recordKey] = Part{Kind: PartText, Text: key}
	}
	if l.partition >= 0 {
		r.Parts[l.partition] = Part{Kind: PartNumber, Num: int64(r.Partition)}
	}
	if l.Parts == 1 && r.Parts[0].Kind == PartText {
		r.Key = r.Parts[0].Text
		return
	}
	r.scratch = r.scratch[:0]
	for i := range l.Parts {
		p := &r.Parts[i]
		if p.Kind == PartNone || p.Kind == PartText && len(p.Text) == 0 || len(p.Text) > MaxKeyBytes {
			if len(p.Text) > MaxKeyBytes {
				r.Fail(0, faultKeyLong)
			}
			return
		}
		if i > 0 {
			r.scratch = append(r.scratch, '/')
		}
		r.scratch = appendPart(r.scratch, p, l.Parts > 1)
	}
	r.Key = r.scratch
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
