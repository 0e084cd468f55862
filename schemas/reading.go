package schemas

import "math"

// Reading is what a record says: one sample of one series.
type Reading struct {
	Key    []byte    // series key; aliases the record, the decoder's schema or the reading's own memory
	Time   int64     // event time, microseconds since 1970 UTC
	Values []float64 // Mapping.Width values, NaN where missing
	Schema int32     // id in the registry, -1 if it has none

	work // of the program that fills the reading in
}

// maxSaves is the most positions that a program saves at a time.
const maxSaves = 8

// work is what a program notes about a record until its reading is finished.
type work struct {
	parts     [maxKeyParts]part // of the key
	saved     [maxSaves]int     // positions in the record that are read twice
	scratch   []byte
	fault     fault
	faultSink int32
}

// begin makes a reading ready for a record's values.
func (l *layout) begin(out *Reading, schemaID int32) {
	if cap(out.Values) < l.width {
		out.Values = make([]float64, l.width)
	}
	out.Values = out.Values[:l.width]
	out.Schema = schemaID
	out.fault = faultNone
	out.Key = nil
	out.Time = noTime
	for i := range l.parts {
		out.parts[i].kind = partNone
	}
}

// finish completes a reading whose record has been read: it puts the key together and
// reports what is wrong with the record, if anything, as a *DecodeError. key is the Kafka
// key, timestampMs the Kafka timestamp.
func (l *layout) finish(key []byte, timestampMs int64, out *Reading) error {
	if l.parts == 0 {
		out.Key = key
	} else if out.Key == nil {
		out.joinParts(key, l)
	}
	if l.kafkaTime {
		if out.Time = noTime; timestampMs >= 0 { // -1: the record has none
			out.Time, _ = clockMillis.micros(timestampMs)
		}
	}
	if out.fault != faultNone || len(out.Key) == 0 || len(out.Key) > maxKeyBytes || out.Time == noTime {
		return l.unacceptable(out, timestampMs)
	}
	return nil
}

// fail notes a value that is not acceptable. Of several the one of the first
// sink is reported: key, time, then the fields in their order; of an array its
// length before its items.
func (r *Reading) fail(sink int32, f fault) {
	if r.fault == faultNone || sink < r.faultSink || sink == r.faultSink && f == faultLength {
		r.fault, r.faultSink = f, sink
	}
}

// joinParts makes the key of its parts: the text itself if it is one, else a
// text in the reading's own memory. It is empty if a part is missing.
func (r *Reading) joinParts(key []byte, l *layout) {
	if l.recordKey >= 0 {
		r.parts[l.recordKey] = part{kind: partText, text: key}
	}
	if l.parts == 1 && r.parts[0].kind == partText {
		r.Key = r.parts[0].text
		return
	}
	r.scratch = r.scratch[:0]
	for i := range l.parts {
		p := &r.parts[i]
		if p.kind == partNone || p.kind == partText && len(p.text) == 0 || len(p.text) > maxKeyBytes {
			if len(p.text) > maxKeyBytes {
				r.fail(0, faultKeyLong)
			}
			return
		}
		if i > 0 {
			r.scratch = append(r.scratch, '/')
		}
		r.scratch = appendPart(r.scratch, p, l.parts > 1)
	}
	r.Key = r.scratch
}

// unacceptable makes the error of a record that is well-formed but not a
// reading: what is wrong with its key, else its time, else its first value.
func (l *layout) unacceptable(out *Reading, timestampMs int64) error {
	e := &DecodeError{SchemaID: out.Schema}
	set := func(f fault, field string) error {
		e.Class, e.Err, e.Field = faultErrors[f].class, faultErrors[f].err, field
		return e
	}
	field := func(r role, other string) string {
		for i := range l.sinks {
			if l.sinks[i].role == r {
				return l.sinks[i].text
			}
		}
		return other
	}
	var r role = math.MaxUint8
	if out.fault != faultNone {
		r = l.sinks[out.faultSink].role
	}
	switch {
	case r == roleKey:
		return set(out.fault, l.sinks[out.faultSink].text)
	case len(out.Key) == 0:
		return set(faultKeyNull, field(roleKey, "@key"))
	case len(out.Key) > maxKeyBytes:
		return set(faultKeyLong, field(roleKey, "@key"))
	case r == roleTime:
		return set(out.fault, l.sinks[out.faultSink].text)
	case out.Time == noTime && l.kafkaTime && timestampMs >= 0:
		return set(faultTimeRange, "@timestamp")
	case out.Time == noTime:
		return set(faultTimeNull, field(roleTime, "@timestamp"))
	}
	return set(out.fault, l.sinks[out.faultSink].text)
}

// finite passes a number on; NaN becomes the one NaN, infinity a fault.
func finite(f float64, sink int32, out *Reading) float64 {
	if math.Float64bits(f)&infiniteBits != infiniteBits {
		return f
	}
	if f == f {
		out.fail(sink, faultInfinite)
	}
	return math.NaN()
}

// infiniteBits is the exponent of infinities and NaNs.
const infiniteBits = 0x7ff << 52
