package processor

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"odradek/processor/kafka/record"
	"odradek/processor/state/rules"
	"odradek/schemas"
)

// reader reads records by one reading. A replay reads each record by the one that was in force when it was live.
type reader struct {
	of    *rules.Reading
	dec   schemas.Decoder
	split *schemas.Splitter // of readings into samples
	// translation of samples into those of the configured reading; nil: they are alike. foreign: they are of other series,
	// and no window takes them.
	translation rules.Translation
	foreign     bool
	values      []float64
}

// newReader returns the reader of the configured reading.
func newReader(m *Mapping) *reader {
	return &reader{of: &m.State.Reading, dec: m.Decoder.Clone(), split: NewSplitter(&m.State.Reading)}
}

// readBy has the folder read records by a reading.
func (f *folder) readBy(of *rules.Reading) error {
	if of == f.reads {
		return nil
	}
	i := slices.IndexFunc(f.readers, func(r *reader) bool { return r.of.SameDecoding(of) })
	if i < 0 {
		r := &reader{of: of, split: NewSplitter(of), values: make([]float64, f.mapping.State.Dim)}
		err := errNoFormer
		if f.mapping.Former != nil {
			r.dec, err = f.mapping.Former(of)
		}
		if err != nil {
			return &UnreadableError{Why: fmt.Sprintf("the decoder of the former reading cannot be made: %v", err)}
		}
		var alike bool
		r.translation, alike = f.mapping.State.Reading.Translate(of)
		r.foreign = !alike
		i, f.readers = len(f.readers), append(f.readers, r)
	}
	f.reads, f.reader = of, f.readers[i]
	f.verdicts.dec = f.reader.dec
	return nil
}

var errNoFormer = errors.New("there is none of another reading")

// sample returns the key, the time and the values, by the configured reading, of the i-th sample of a record.
func (r *reader) sample(in *schemas.Reading, i int) (key []byte, at int64, values []float64) {
	key, at, values = r.split.Sample(in, i)
	return key, at, r.translated(values)
}

// translated returns values by the configured reading. They are valid until the next call.
func (r *reader) translated(values []float64) []float64 {
	switch {
	case r.foreign:
		for i := range r.values {
			r.values[i] = math.NaN()
		}
	case r.translation != nil:
		r.translation.Apply(r.values, values)
	default:
		return values
	}
	return r.values
}

// maxSeriesKey bounds a series key so that no record made of it can pass the
// broker's limit.
const maxSeriesKey = 8 << 10

// check returns why a record that could be read is a dead letter all the same, as a *schemas.DecodeError: its time or its key.
func (r *reader) check(rec *record.Record, in *schemas.Reading) error {
	if in.Len() == 0 {
		return nil
	}
	if most := r.of.MaxFuture; most > 0 && rec.Timestamp >= 0 && in.Time > rec.Timestamp*1000+most {
		of := ""
		for i := range in.Len() {
			if _, at, _ := in.At(i); at == in.Time && in.Len() > 1 {
				of = fmt.Sprintf(" of reading %d", i)
				break
			}
		}
		return &schemas.DecodeError{Class: "future_time", Err: fmt.Errorf(
			"event time%s %s is more than %s after the record's timestamp %s (max_future)",
			of,
			time.UnixMicro(in.Time).UTC().Format(time.RFC3339),
			time.Duration(most)*time.Microsecond,
			time.UnixMilli(rec.Timestamp).UTC().Format(time.RFC3339),
		)}
	}
	if n := r.split.KeyBytes(in); n > maxSeriesKey {
		return &schemas.DecodeError{Class: "too_large", Err: fmt.Errorf("series key of %d bytes is longer than %d", n, maxSeriesKey)}
	}
	return nil
}
