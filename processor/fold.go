package processor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"odradek/detectors"
	"odradek/processor/cycle"
	"odradek/processor/feedback"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/metrics"
	"odradek/processor/state"
	"odradek/processor/state/rules"
	"odradek/schemas"
)

// folder folds the records of a chunk into the state of a partition, scores them, and adds
// records that become no sample to the side outputs. One goroutine uses it.
type folder struct {
	host    *host
	tp      kafka.TP
	mapping *Mapping // of the topic
	log     *slog.Logger

	state   *state.State
	batch   *detectors.Batch
	reads   *rules.Reading // by which reader reads
	reader  *reader
	readers []*reader // of all readings so far
	it      record.Iterator
	reading schemas.Reading
	late    []int // numbers of the late samples of a record
	header  headerOf
	counts  metrics.Counts // of the chunk

	side     sideOutputs
	verdicts verdicts
	trimmer  trimmer
	growth   growth
	fill     backfill
	carried  *cycle.Carried
	traces   cycle.Traceparents
	clock    ClockComparison // of event times with Kafka's timestamps
	changed  *Changeable     // what the state and the writer have taken up of Config.Changeable
	rules    *feedback.Rules // operators' rules that the state follows; nil: not known at the chunk's begin

	again   bool // fold the iterator's current record once more
	more    bool // the chunk has more records than a cycle had room for
	forward bool // an input partition under ODRADEK_REKEY: records go to the internal topic
}

// foldChunk folds and scores the rest of the chunk, from offset from on, or as much of it as a cycle has room
// for at a time; then it sets more. retry is the reason to stop before the iterator's
// current record and to try it again.
func (f *folder) foldChunk(ctx context.Context, from int64) (retry, err error) {
	s := f.state
	limit := f.chunkRecords(from)
	f.more = false
	for f.counts.Consumed+f.counts.Further < limit && (f.again || f.side.next(&f.it)) {
		f.again = false
		rec := f.it.Record()
		rec.Timestamp = cycle.Timestamp(rec)
		if f.header == nil {
			f.header = rec.Header // one method value: the iterator reuses its record
		}
		f.carried.Note(rec)
		f.traces.Note(rec)
		f.counts.Consumed++
		f.counts.Bytes += int64(len(rec.Key) + len(rec.Value))
		header := f.header
		if rec.HeaderCount == 0 {
			header = nil // the decoder need not ask for headers
		}
		if !f.forward {
			if err := f.readBy(s.ReadingOf(rec.Offset, f.batch)); err != nil {
				return nil, err
			}
		}
		if err := f.reader.dec.Decode(ctx, rec.Key, rec.Value, rec.Timestamp, header, &f.reading); err != nil {
			var de *schemas.DecodeError
			if errors.As(err, &de) && (de.Retry || de.Absent) && !f.verdicts.condemn(s, rec, header, de, f.side.stop.Refuses(rec.Offset)) {
				f.postpone(rec)
				return err, f.finish(ctx)
			}
			if !f.side.deadLetter(rec, err) {
				break
			}
			continue
		}
		if !f.clock.Done() && f.reading.Len() > 0 {
			f.compareClock(rec)
		}
		if err := f.checkReading(rec); err != nil {
			if !f.side.deadLetter(rec, err) {
				break
			}
			continue
		}
		if f.state.Decisions.Subjects(state.Verdict) > 0 {
			f.verdicts.acquit(s, rec, header, f.reading.Schema)
		}
		if f.reading.Len() == 0 {
			f.side.empty(rec)
			f.side.stop.Pass()
			continue
		}
		if f.forward {
			if !f.side.forward(rec, f.reading.Key) {
				break
			}
			continue
		}
		f.side.stop.Pass()
		if err := f.makeRoom(ctx); err != nil {
			return nil, err
		}
		if s.Bytes() > f.trimmer.limit {
			f.trimmer.trim(s, rec.Offset)
		}
		if f.growth.due {
			f.growth.decide(s, rec.Offset, f.log)
		}
		if f.host.cfg.Rules != nil {
			f.rules = f.host.cfg.Rules().Follow(f.rules, &s.Decisions, f.tp, rec.Offset)
		}
		if err := f.foldSamples(ctx, rec); err != nil {
			return nil, err
		}
	}
	if full := f.side.stop.Full(); full != nil {
		if f.it.Err() == nil {
			f.postpone(f.it.Record())
		}
		return full, f.finish(ctx)
	}
	if f.it.Err() == nil {
		f.more = f.counts.Consumed+f.counts.Further >= limit
	}
	return f.it.Err(), f.finish(ctx)
}

// postpone has the chunk end before rec, which is tried once more.
func (f *folder) postpone(rec *record.Record) {
	f.counts.Consumed--
	f.counts.Bytes -= int64(len(rec.Key) + len(rec.Value))
	f.again = true
}

// foldSamples folds the samples of a record, and adds the record to the side outputs if samples of it are late or
// refused: once, however many of them are.
func (f *folder) foldSamples(ctx context.Context, rec *record.Record) error {
	s := f.state
	held := false
	f.late = f.late[:0]
	n := f.reader.split.Samples(&f.reading)
	for i := range n {
		if i > 0 {
			if err := f.makeRoom(ctx); err != nil {
				return err
			}
		}
		sample := f.sample(rec, i)
		switch s.Fold(&sample, f.batch) {
		case state.Late:
			f.side.noteLate(rec, sample.Key)
			f.late = append(f.late, i)
		case state.Held:
			held = true
		}
		if len(s.Suspects.Refused) > 0 {
			if err := f.makeRoom(ctx); err != nil { // all that the sample's vote has refused is there then
				return err
			}
			f.side.refused(s, f.mapping.State)
		}
	}
	if len(f.late) > 0 {
		f.side.late(rec, f.late)
	}
	if held {
		attachSuspect(s, rec)
	}
	f.counts.Further += int64(n - 1)
	return nil
}

// sample returns the i-th sample of the reading of rec.
func (f *folder) sample(rec *record.Record, i int) state.Sample {
	key, at, values := f.reader.sample(&f.reading, i)
	return state.Sample{Key: key, Time: at, Ahead: f.reading.Time - at, Offset: f.mapping.State.Place(rec.Offset, i), Values: values}
}

// makeRoom scores until the batch has room for the tasks of one more sample.
// One sample may release many held ones, a batch at a time.
func (f *folder) makeRoom(ctx context.Context) error {
	for !f.state.Fits(f.batch) {
		if err := f.score(ctx); err != nil {
			return err
		}
	}
	return nil
}

// finish scores everything folded so far.
func (f *folder) finish(ctx context.Context) error {
	if err := f.makeRoom(ctx); err != nil {
		return err
	}
	return f.score(ctx)
}

// score executes the packed tasks and applies their results.
func (f *folder) score(ctx context.Context) error {
	if n := len(f.batch.Tasks); n > 0 {
		began := time.Now()
		err := f.host.cfg.Executor.Execute(ctx, f.batch)
		if err != nil {
			return fmt.Errorf("processor: %s/%d: score: %w", f.tp.Topic, f.tp.Partition, err)
		}
		f.host.cfg.Metrics.Executed(n, time.Since(began))
	}
	f.state.Apply(f.batch)
	f.batch.Reset()
	return nil
}

// chunkRecords returns how many records of a chunk from offset on join a cycle at a time: a backfill has
// no outputs that could fill it.
func (f *folder) chunkRecords(offset int64) int64 {
	if f.fill.covers(offset) {
		return math.MaxInt64
	}
	return f.host.cycles.Room().Records
}

// maxSeriesKey bounds a series key so that no record made of it can pass the
// broker's limit.
const maxSeriesKey = 8 << 10

// compareClock logs what is wrong with the event times of the topic, once a worker.
func (f *folder) compareClock(rec *record.Record) {
	finding, fix := f.clock.Add(f.reading.Time, rec.Timestamp, f.mapping.TimeUnit)
	if finding == "" {
		return
	}
	if _, logged := f.host.warned.LoadOrStore(f.tp.Topic, nil); !logged {
		f.log.Warn("event times do not fit Kafka's timestamps: "+finding, "offset", rec.Offset, "fix", fix)
	}
}

// checkReading returns why no reading of a record must be folded, as a *schemas.DecodeError.
func (f *folder) checkReading(rec *record.Record) error {
	if f.reading.Len() == 0 {
		return nil
	}
	if most := f.reader.of.MaxFuture; most > 0 && rec.Timestamp >= 0 && f.reading.Time > rec.Timestamp*1000+most {
		of := ""
		for i := range f.reading.Len() {
			if _, at, _ := f.reading.At(i); at == f.reading.Time && f.reading.Len() > 1 {
				of = fmt.Sprintf(" of reading %d", i)
				break
			}
		}
		return &schemas.DecodeError{Class: "future_time", Err: fmt.Errorf(
			"event time%s %s is more than %s after the record's timestamp %s (ODRADEK_MAX_FUTURE)",
			of,
			time.UnixMicro(f.reading.Time).UTC().Format(time.RFC3339),
			time.Duration(most)*time.Microsecond,
			time.UnixMilli(rec.Timestamp).UTC().Format(time.RFC3339),
		)}
	}
	if n := f.reader.split.KeyBytes(&f.reading); n > maxSeriesKey {
		return &schemas.DecodeError{Class: "too_large", Err: fmt.Errorf("series key of %d bytes is longer than %d", n, maxSeriesKey)}
	}
	for i := range f.reading.Len() {
		key, _, values := f.reading.At(i)
		if e := f.state.Grids.Misplaced(key, f.reader.translated(values)); e != nil {
			return &schemas.DecodeError{Class: e.Class, Field: e.Field, SchemaID: -1, Err: e}
		}
	}
	return nil
}

// reset drops what was made of the chunk and has not joined a cycle.
func (f *folder) reset() {
	f.state.Rows = f.state.Rows[:0]
	f.state.Events = f.state.Events[:0]
	clear(f.state.Blocks)
	f.state.Blocks = f.state.Blocks[:0]
	f.side.writer.Reset()
	f.traces.Take()
	f.counts = metrics.Counts{}
}

// fold folds the samples of rec, which a restore replays; recall reads them again as suspects
// only.
func (f *folder) fold(ctx context.Context, rec *record.Record, recall bool) error {
	for i := range f.reader.split.Samples(&f.reading) {
		if err := f.makeRoom(ctx); err != nil {
			return err
		}
		sample := f.sample(rec, i)
		if recall {
			f.state.Suspects.Recall(&sample)
		} else {
			f.state.Fold(&sample, f.batch)
		}
	}
	attachSuspect(f.state, rec)
	return nil
}
