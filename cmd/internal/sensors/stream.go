package sensors

import (
	"bytes"
	"math"
	"regexp"
	"strconv"
	"time"

	"odradek/schemas/output"
)

// Stream makes the records of some series. A record is a function of the stream and its number:
// of n series, record i is of series i mod n, at its step i div n.
type Stream interface {
	// Keys returns the keys of the series.
	Keys() [][]byte
	// Append appends the value of a series' record at a step; time is its event time, in microseconds.
	// ok is false where the series gives nothing.
	Append(dst []byte, series int, step, time int64) (value []byte, ok bool)
	// Label returns the label of the planted fault that includes a step of a series; ok is false without one. The ToSeq
	// of a fault that continues after the step is above it.
	Label(series int, step int64) (l Label, ok bool)
}

// readings is the Stream of sensors.
type readings struct {
	sensors []Sensor
	names   [][]byte
	enc     output.ReadingAppender
}

// Readings returns the stream of n sensors; enc encodes the readings.
func (m *Model) Readings(n int, enc output.ReadingAppender) Stream {
	r := &readings{sensors: make([]Sensor, n), names: make([][]byte, n), enc: enc}
	for i := range r.sensors {
		r.sensors[i], r.names[i] = m.Sensor(i), []byte(Name(i))
	}
	return r
}

func (r *readings) Keys() [][]byte { return r.names }

func (r *readings) Append(dst []byte, series int, step, time int64) (value []byte, ok bool) {
	v, ok := r.sensors[series].At(step)
	if !ok {
		v = math.NaN()
	}
	return r.enc.Append(dst, r.names[series], time, v, step), ok
}

func (r *readings) Label(series int, step int64) (l Label, ok bool) {
	f := r.sensors[series].faultAt(step)
	if f == nil {
		return Label{}, false
	}
	return Label{Sensor: string(r.names[series]), Fault: f.Kind.String(), FromSeq: f.From, ToSeq: f.To, Size: f.Size}, true
}

// field is a number of a JSON record.
type field struct {
	name  string
	value float64
}

// appendRecord appends a JSON record; names and texts need no escapes.
func appendRecord(dst []byte, keyName string, key []byte, us int64, fields []field, step int64) []byte {
	dst = append(append(append(append(dst, `{"`...), keyName...), `":"`...), key...)
	dst = strconv.AppendInt(append(dst, `","time":`...), time.UnixMicro(us).UnixMilli(), 10)
	for _, f := range fields {
		dst = append(append(append(dst, `,"`...), f.name...), `":`...)
		dst = strconv.AppendFloat(dst, f.value, 'f', -1, 64)
	}
	return append(strconv.AppendInt(append(dst, `,"seq":`...), step, 10), '}')
}

// keyRE matches the keys of the records of all streams.
var keyRE = regexp.MustCompile(`^(sensor-\d{5,}|fleet-\d{2,}|region-\d{2,})$`)

// Generated reports whether a record is of a Source, or a label: its key is of a stream, and its value, in each format, has
// the key in it.
func Generated(key, value []byte) bool { return keyRE.Match(key) && bytes.Contains(value, key) }
