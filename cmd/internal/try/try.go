// Package try reads records one by one as a worker with the same settings does, and says what becomes of each: what is read of
// it, before and after its values are transformed, or why it is left out. Commands show this (worker try) and compare it with
// what a user expects (worker test). Nothing is published or stored.
package try

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"odradek/cmd/internal/backtest"
	"odradek/cmd/internal/config"
	"odradek/detectors"
	"odradek/processor"
	"odradek/processor/state"
	"odradek/processor/state/rules"
	"odradek/processor/state/series"
	"odradek/schemas"
	"odradek/schemas/registry"
)

// Record is a record as it is in its topic, or a row of a table, which has values in place of bytes.
type Record struct {
	Topic      string
	Partition  int32
	Offset     int64 // -1: it is of no topic
	Line       int64 // of a file, from 1; 0: it is of none
	Timestamp  int64 // in milliseconds, -1: it has none
	Key, Value []byte
	Headers    func(name string) ([]byte, bool) // nil: it has none

	Row *Row
}

// Row is a row of a table.
type Row struct {
	Key    []byte
	Time   int64     // in microseconds
	Values []float64 // as they are in the table; NaN: missing
	Absent []bool    // of each value, that the row does not have it; empty: it has all
	LeftOut
}

// LeftOut is why a row is no sample.
type LeftOut struct {
	Outcome Outcome // Read: it is one
	Reason  string
}

// Outcome says what becomes of a record or of a sample.
type Outcome string

// The outcomes. A record of several samples has Read where one of them has it.
const (
	Read      Outcome = "read"      // it enters a window
	Missing   Outcome = "missing"   // every window lacks a value of it
	Filtered  Outcome = "filtered"  // ODRADEK_ONLY_IF is false
	Tombstone Outcome = "tombstone" // it has no value, and is left out
	Unmapped  Outcome = "unmapped"  // it has none of the mapped values
	Empty     Outcome = "empty"     // its array of readings is empty
	Dead      Outcome = "dead"      // a dead letter
	Late      Outcome = "late"      // older than ODRADEK_LATENESS allows
	Duplicate Outcome = "duplicate" // of the time of another, with ODRADEK_DUPLICATES=drop
	Unread    Outcome = "unread"    // no detector reads its series
	Held      Outcome = "held"      // its event time may be wrong: later records decide (ODRADEK_MAX_JUMP)
)

// Outcomes are all of them, in the order of a summary.
var Outcomes = []Outcome{Read, Missing, Filtered, Tombstone, Unmapped, Empty, Late, Duplicate, Unread, Held, Dead}

// Result is what becomes of a record.
type Result struct {
	Topic     string     `json:"topic"`
	Partition int32      `json:"partition"`
	Offset    *int64     `json:"offset,omitempty"`
	Line      int64      `json:"line,omitempty"`
	Timestamp *time.Time `json:"timestamp,omitempty"`
	Outcome   Outcome    `json:"outcome"`
	Class     string     `json:"class,omitempty"` // of a dead letter
	Reason    string     `json:"reason,omitempty"`
	Samples   []*Sample  `json:"samples,omitempty"`
	Intervals []*Sample  `json:"intervals,omitempty"` // that it closes (ODRADEK_EVERY): what enters windows in place of their samples
}

// Sample is a sample of a record.
type Sample struct {
	Key     string    `json:"key"`
	Time    time.Time `json:"time"`
	Outcome Outcome   `json:"outcome"`
	Reason  string    `json:"reason,omitempty"`
	Values  []Value   `json:"values"`

	result *Result
}

// Value is a value of a sample.
type Value struct {
	Field  string   `json:"field"`
	Read   *float64 `json:"read"`  // in the record; nil: missing
	Value  *float64 `json:"value"` // what enters windows; nil: missing
	Reason string   `json:"reason,omitempty"`
}

// Trial reads records. A partition's records come in their order.
type Trial struct {
	// Anomaly takes each change of an anomaly; nil: nothing does.
	Anomaly func(e *state.EventRow)

	c       *config.Config
	reg     *registry.Client
	exec    detectors.Executor
	readers map[string]*reader // by topic
	results []*Result
}

// New returns a Trial by the settings; reg is nil without a registry. It must be closed.
func New(c *config.Config, reg *registry.Client) *Trial {
	return &Trial{c: c, reg: reg, exec: detectors.NewCPU(1), readers: map[string]*reader{}}
}

// reader reads the records of a topic.
type reader struct {
	trial   *Trial
	topic   string
	c       *config.Config
	by      rules.Reading
	dec     schemas.Decoder
	raw     schemas.Decoder // takes all values (ODRADEK_VALID, ODRADEK_MISSING_IF); nil: dec does
	mapping schemas.Mapping
	screen  func(values []float64)
	state   *state.Config
	split   *schemas.Splitter
	all     *schemas.Splitter // splits what raw reads
	names   []string          // of the values of a sample; of series of their own, of each
	lanes   map[int32]*lane
}

// lane is a partition.
type lane struct {
	fold    *backtest.Lane
	place   int64              // of the next record
	latest  int64              // event time
	samples map[int64]*pending // by their place
}

// pending is a sample whose values may yet be transformed.
type pending struct {
	sample      *Sample
	transformed bool
	held        bool
}

// reader returns the reader of a topic's records.
func (t *Trial) reader(topic string) (*reader, error) {
	if r := t.readers[topic]; r != nil {
		return r, nil
	}
	c := t.c.ForTopic(topic)
	r := &reader{trial: t, topic: topic, c: c, lanes: map[int32]*lane{}, mapping: c.RecordMapping(),
		split: schemas.NewSplitter(c.Series()), all: schemas.NewSplitter(c.Series())}
	var err error
	if r.by, err = c.Reading(); err != nil {
		return nil, err
	}
	if r.state, err = c.KeystateConfig(); err != nil {
		return nil, err
	}
	columns, err := r.mapping.Columns(nil)
	if err != nil {
		return nil, err
	}
	r.names, r.screen = r.mapping.ColumnNames(columns), r.mapping.Screen()
	t.readers[topic] = r
	return r, nil
}

// decoders makes what reads records; rows of a table need none.
func (r *reader) decoders() (err error) {
	if r.dec != nil {
		return nil
	}
	newDecoder := r.c.Former(r.trial.reg)
	if r.dec, err = newDecoder(&r.by); err != nil || len(r.by.Valid)+len(r.by.MissingIf) == 0 {
		return err
	}
	all := r.by
	all.Valid, all.MissingIf = nil, nil
	r.raw, err = newDecoder(&all)
	return err
}

// lane returns the lane of a partition. A new one begins at the event time of its first sample, which would otherwise wait until
// other samples agree with it (ODRADEK_MAX_JUMP).
func (r *reader) lane(partition int32, newest int64) (*lane, error) {
	if r.c.Cycle.Rekey { // all of a series is in one partition of the internal topic
		partition = 0
	}
	if l := r.lanes[partition]; l != nil {
		return l, nil
	}
	l := &lane{samples: map[int64]*pending{}, latest: math.MinInt64}
	own := *r.state
	own.Transformed = func(offset int64, values []float64) {
		if p := l.samples[offset]; p != nil {
			p.become(values)
		}
	}
	own.Closed = func(key []byte, start, offset int64, values []float64) {
		if p := l.samples[offset]; p != nil {
			s := &Sample{Key: text(key), Time: time.UnixMicro(start).UTC(), Outcome: Read, Values: r.values(key, values, values)}
			if r.lacks(s.Values) {
				s.Outcome = Missing
			}
			p.sample.result.Intervals = append(p.sample.result.Intervals, s)
		}
	}
	var err error
	l.fold, err = backtest.NewLaneAt(&own, r.trial.exec, r.topic, partition, 0, newest, func(_ []state.Row, events []state.EventRow) error {
		for i := range events {
			if r.trial.Anomaly != nil {
				r.trial.Anomaly(&events[i])
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	l.fold.TellRefused = func(u *state.Refusal) {
		p := l.samples[u.Offset]
		if p == nil {
			return
		}
		p.held = false
		if u.Outcome == state.Late {
			p.sample.Outcome, p.sample.Reason = Late, lateReason(&r.by)
			return
		}
		p.sample.Outcome, p.sample.result.Class = Dead, "future_time"
		p.sample.Reason = "its time is further past the partition's newest than ODRADEK_MAX_JUMP allows, and most of the next records are earlier"
	}
	r.lanes[partition] = l
	return l, nil
}

// Read reads a record. Results are complete after End.
func (t *Trial) Read(ctx context.Context, rec *Record) error {
	r, err := t.reader(rec.Topic)
	if err != nil {
		return err
	}
	out := &Result{Topic: rec.Topic, Partition: rec.Partition, Line: rec.Line, Outcome: Read}
	if rec.Offset >= 0 {
		out.Offset = &rec.Offset
	}
	if rec.Timestamp >= 0 {
		at := time.UnixMilli(rec.Timestamp).UTC()
		out.Timestamp = &at
	}
	t.results = append(t.results, out)
	var in, raw schemas.Reading
	if rec.Row != nil {
		if rec.Row.Outcome != Read {
			out.Outcome, out.Reason = rec.Row.Outcome, rec.Row.Reason
			return nil
		}
		in = schemas.RowReading(rec.Row.Key, rec.Row.Time, slices.Clone(rec.Row.Values), rec.Row.Absent)
		raw = schemas.RowReading(rec.Row.Key, rec.Row.Time, rec.Row.Values, rec.Row.Absent)
		if r.screen != nil {
			r.screen(in.Values)
		}
		return r.fold(ctx, rec, &in, &raw, out)
	}
	if err := r.decoders(); err != nil {
		return err
	}
	in.Partition, raw.Partition = rec.Partition, rec.Partition
	err = r.dec.Decode(ctx, rec.Key, rec.Value, rec.Timestamp, rec.Headers, &in)
	var de *schemas.DecodeError
	if errors.As(err, &de) && de.Retry && !de.Absent {
		return fmt.Errorf("try: the schema of a record of %s cannot be read: %w", rec.Topic, err)
	}
	if err == nil {
		err = processor.CheckReading(&r.by, r.split, rec.Timestamp, &in)
	}
	if err != nil {
		out.die(err)
		return nil
	}
	if in.Len() == 0 {
		switch in.Skipped {
		case schemas.SkippedFiltered:
			out.Outcome, out.Reason = Filtered, "only_if "+r.mapping.OnlyIf+" is false"
		case schemas.SkippedTombstone:
			out.Outcome, out.Reason = Tombstone, "the record has no value"
		case schemas.SkippedUnmapped:
			r.unmapped(out)
		default:
			out.Outcome, out.Reason = Empty, "the array "+r.mapping.Readings+" has no readings"
		}
		return nil
	}
	if r.raw == nil || r.raw.Decode(ctx, rec.Key, rec.Value, rec.Timestamp, rec.Headers, &raw) != nil || raw.Len() != in.Len() {
		raw = in
	}
	return r.fold(ctx, rec, &in, &raw, out)
}

// unmapped notes that a record has none of the mapped values.
func (r *reader) unmapped(out *Result) {
	out.Outcome, out.Reason = Unmapped, "the record has none of the values "+strings.Join(r.mapping.Fields, ", ")
}

// die notes why a record is a dead letter.
func (r *Result) die(err error) {
	r.Outcome, r.Class, r.Reason = Dead, "malformed", strings.TrimPrefix(err.Error(), "schemas: ")
	var de *schemas.DecodeError
	if errors.As(err, &de) {
		r.Class = de.Class
		r.Reason = strings.TrimPrefix(r.Reason, de.Class+": ")
	}
	var misplaced *series.PlaceError
	if errors.As(err, &misplaced) {
		r.Class = misplaced.Class
		r.Reason = fmt.Sprintf("field %q: %v", misplaced.Field, misplaced)
	}
}

// fold folds the samples of a record. raw has the values that are not taken, too.
func (r *reader) fold(ctx context.Context, rec *Record, in, raw *schemas.Reading, out *Result) error {
	l, err := r.lane(rec.Partition, in.Time)
	if err != nil {
		return err
	}
	for i := range in.Len() {
		key, at, values := in.At(i)
		if err := l.fold.Misplaced(&state.Sample{Key: key, Time: at, Values: values}); err != nil {
			out.die(err)
			return nil
		}
	}
	n := r.split.Samples(in)
	if n == 0 { // each value is a series of its own, and computed as null
		r.unmapped(out)
	}
	if r.all.Samples(raw) != n {
		raw = in
		r.all.Samples(raw)
	}
	for i := range n {
		key, at, values := r.split.Sample(in, i)
		sm := state.Sample{Key: key, Time: at, Ahead: in.Time - at, Offset: r.state.Place(l.place, i), Values: values}
		_, _, all := r.all.Sample(raw, i)
		s := &Sample{Key: text(key), Time: time.UnixMicro(at).UTC(), Outcome: Read, Values: r.values(key, values, all), result: out}
		out.Samples = append(out.Samples, s)
		p := &pending{sample: s}
		l.samples[sm.Offset] = p
		before := l.fold.Suspects()
		outcome, err := l.fold.Fold(ctx, &sm)
		if err != nil {
			return fmt.Errorf("try: %w", err)
		}
		l.latest = max(l.latest, at)
		switch outcome {
		case state.Missing:
			s.Outcome = Missing
		case state.Filtered:
			s.Outcome, s.Reason = Unread, "no detector reads the series (KEYS)"
		case state.Late:
			s.Outcome, s.Reason = Late, lateReason(&r.by)
		case state.Duplicate:
			s.Outcome, s.Reason = Duplicate, "its series has a sample of this time already"
		case state.Held:
			p.held = true
			if l.fold.Suspects() > before {
				s.Outcome, s.Reason = Held, "its time is further past the partition's newest than ODRADEK_MAX_JUMP allows: later records decide"
			}
		}
	}
	l.place++
	return nil
}

func lateReason(by *rules.Reading) string {
	if by.Lateness > 0 {
		return "its time is further behind the newest than ODRADEK_LATENESS allows"
	}
	return "its time is before the newest of its series, and ODRADEK_LATENESS is 0"
}

// values returns the values of a sample of a key: those that are taken, and all.
func (r *reader) values(key []byte, taken, all []float64) []Value {
	list := make([]Value, len(taken))
	for i := range taken {
		v := &list[i]
		if r.split != nil {
			v.Field = string(key[bytes.LastIndexByte(key, '/')+1:])
		} else {
			v.Field = r.names[i]
		}
		v.Read, v.Value = number(all[i]), number(taken[i])
		switch {
		case v.Read == nil:
			v.Reason = "missing"
		case v.Value == nil:
			v.Reason = "no reading by ODRADEK_VALID or ODRADEK_MISSING_IF"
		}
	}
	return list
}

// become notes what the values of a sample are transformed to.
func (p *pending) become(values []float64) {
	p.transformed = true
	for i := range p.sample.Values {
		v := &p.sample.Values[i]
		if was := v.Value; was != nil {
			if v.Value = number(values[i]); v.Value == nil {
				v.Reason = "no result of ODRADEK_TRANSFORM"
			}
		}
	}
}

// End takes what is still held for order, and returns the results in the order of the records.
func (t *Trial) End(ctx context.Context) ([]*Result, error) {
	for _, r := range t.readers {
		for _, l := range r.lanes {
			if l.latest != math.MinInt64 {
				if err := l.fold.Release(ctx, l.latest+r.by.Lateness); err != nil {
					return nil, fmt.Errorf("try: %w", err)
				}
			}
			for _, p := range l.samples {
				if p.held && p.sample.Outcome != Dead && (p.sample.Outcome != Held || l.fold.Suspects() == 0) {
					if p.sample.Outcome, p.sample.Reason = Read, ""; r.lacks(p.sample.Values) {
						p.sample.Outcome = Missing
					}
				}
			}
			clear(l.samples)
		}
	}
	for _, out := range t.results {
		out.conclude()
	}
	return t.results, nil
}

// lacks reports whether every window lacks a value of a sample.
func (r *reader) lacks(values []Value) bool {
	for i := range r.state.Windows {
		w := &r.state.Windows[i]
		missing := 0
		for _, c := range w.Columns {
			if values[c].Value == nil {
				missing++
			}
		}
		if missing == 0 || (w.Incomplete || r.by.Hold) && missing < len(w.Columns) {
			return false
		}
	}
	return true
}

// conclude derives the outcome of a record from its samples' outcomes.
func (r *Result) conclude() {
	if len(r.Samples) == 0 {
		return
	}
	r.Outcome, r.Reason = r.Samples[0].Outcome, r.Samples[0].Reason
	for _, s := range r.Samples {
		if s.Outcome == Missing {
			s.Reason = "no detector has all values that it needs"
		}
		if s.Outcome == Dead { // it is of the whole record
			r.Outcome, r.Reason = Dead, s.Reason
			return
		}
		if s.Outcome == Read {
			r.Outcome, r.Reason = Read, ""
		}
	}
	if r.Outcome == Missing {
		r.Reason = r.Samples[0].Reason
	}
}

// Close frees the memory of the partitions.
func (t *Trial) Close() {
	for _, r := range t.readers {
		for _, l := range r.lanes {
			l.fold.Close()
		}
	}
	t.exec.Close()
}

func number(v float64) *float64 {
	if v-v != 0 {
		return nil
	}
	return &v
}

// text returns a series key as outputs have it: one that is not UTF-8 as 0x and its bytes.
func text(key []byte) string {
	if s := string(key); strings.ToValidUTF8(s, "") == s {
		return s
	}
	return fmt.Sprintf("0x%x", key)
}
