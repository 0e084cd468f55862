package processor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"sync/atomic"
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

// folder is the work of a partition whose samples are scored: it folds them into the partition's state. It restores that
// (restorer), and writes it to the changelog.
type folder struct {
	pt *partition

	state   *state.State
	batch   *detectors.Batch
	reads   *rules.Reading // by which reader reads
	reader  *reader
	readers []*reader // of all readings so far
	late    []int     // numbers of the late samples of a record

	missing missingSchemas
	trimmer trimmer
	growth  growth
	fill    backfill
	carried *cycle.Carried
	clock   ClockComparison // of event times with Kafka's timestamps
	clocks  seriesClocks
	noticed bool            // noticeMissing has decided
	changed *Changeable     // what the state and the writer have taken up of Config.Changeable
	rules   *feedback.Rules // operators' rules that the state follows; nil: not known at the chunk's begin

	restorer restorer
	wipe     [][]byte // changelog keys to delete, of state that was emptied, until the deletion is committed
	restored restoreWork
	noted    int64 // committed offset that was last passed to the state
	joined   joined
	open     openAnomalies
	arrivals cycle.Arrivals
	suspects suspectLog
	rises    riseLog
}

func newFolder(pt *partition) *folder {
	h, cfg, m, tp := pt.host, pt.host.cfg, pt.mapping, pt.tp
	f := &folder{pt: pt, carried: cycle.NewCarried(cfg.CarryHeaders), trimmer: trimmer{budget: h.budget, tp: tp, log: pt.log}}
	f.reader = newReader(m)
	f.reads, f.readers = f.reader.reading, []*reader{f.reader}
	f.missing = missingSchemas{dec: f.reader.dec, grace: cfg.SchemaGrace, log: pt.log}
	f.open.status = pt.status
	f.growth.siblings = &pt.siblings
	pt.idle = idleness{after: m.IdleAfter, advance: f.advanceIdle}
	pt.side.fill = &f.fill
	pt.side.writer = cycle.NewWriter(h.outputs, tp, m.State, &cfg.SchemaIDs, cfg.Scores, f.carried)
	if cfg.Numbered {
		pt.side.writer.Number()
	}
	if cfg.ScoreRuns {
		pt.side.writer.Runs()
	}
	r := pt.newResumer()
	f.restorer = restorer{
		changelog: &changelogReader{
			logs:     r.logs,
			Group:    cfg.Group,
			Topic:    func() string { return h.outputs.Changelog(tp.Topic).Name },
			Siblings: &pt.siblings, State: m.State, Budget: h.budget, NewState: f.newState, NewID: randomID,
			Settings: StoredSettings{InForce: m.Settings},
		},
		resumer: r, StateLost: cfg.StateLost, Backfill: cfg.Backfill, Ahead: cfg.Guarantee == AtLeastOnce,
	}
	if t := h.outputs.Changelog(tp.Topic); t != nil {
		pt.siblings.Store(int32(t.Partitions))
	}
	return f
}

// prepare passes on to the state what has been committed and changed since the last chunk.
func (f *folder) prepare() {
	f.wipe = nil // it is committed with the start
	f.noteCommitted()
	f.rules = nil
	f.takeChanges()
	f.growth.compare(f.state, f.pt.position.Load(), f.restorer.changelog.Owner.Partitions)
}

// read folds and scores the rest of the chunk.
func (f *folder) read(ctx context.Context, from int64) (retry, err error) {
	s := f.state
	limit := f.chunkRecords(from)
	f.pt.more = false
	for f.pt.counts.Consumed+f.pt.counts.Further < limit {
		rec, header, ok := f.pt.next()
		if !ok {
			break
		}
		if header != nil {
			f.carried.Note(rec)
		}
		if reading := s.ReadingOf(rec.Offset, f.batch); reading != f.reads {
			if err := f.readBy(reading); err != nil {
				return nil, err
			}
		}
		if err := f.reader.dec.Decode(ctx, rec.Key, rec.Value, rec.Timestamp, header, &f.pt.reading); err != nil {
			var de *schemas.DecodeError
			if errors.As(err, &de) && (de.Retry || de.Absent) && !f.missing.decide(s, rec, header, de, f.pt.side.stop.Refuses(rec.Offset)) {
				f.pt.postpone(rec)
				return err, f.finish(ctx)
			}
			if !f.pt.side.deadLetter(rec, err) {
				break
			}
			continue
		}
		if !f.clock.Done() && f.pt.reading.Len() > 0 {
			f.compareClock(rec)
		}
		if f.clocks.pass > 0 {
			f.clocks.pass--
		} else if f.pt.reading.Len() > 0 {
			f.compareSeries(rec)
		}
		if err := f.checkReading(rec); err != nil {
			if !f.pt.side.deadLetter(rec, err) {
				break
			}
			continue
		}
		if f.state.Subjects(state.MissingSchema) > 0 && f.pt.reading.Skipped != schemas.SkippedTombstone {
			f.missing.withdraw(s, rec, header, f.pt.reading.Schema)
		}
		f.pt.side.stop.Pass()
		for _, i := range f.pt.reading.Rejected {
			f.pt.counts.Rejected.Add(f.reader.reading.Fields[i], 1)
		}
		if f.pt.reading.Len() == 0 {
			f.pt.side.empty(rec, f.pt.reading.Skipped)
			continue
		}
		if err := f.makeRoom(ctx); err != nil {
			return nil, err
		}
		if s.Bytes() > f.trimmer.limit {
			f.trimmer.trim(s, rec.Offset)
		}
		if f.growth.due {
			f.growth.decide(s, rec.Offset, f.pt.log)
		}
		if f.pt.host.cfg.Rules != nil {
			if now := f.pt.host.cfg.Rules(); now != nil && now != f.rules {
				now.Follow(s, f.pt.tp, rec.Offset)
				f.rules = now
			}
		}
		if err := f.foldSamples(ctx, rec); err != nil {
			return nil, err
		}
	}
	f.noticeMissing()
	return f.pt.endOfChunk(limit), f.finish(ctx)
}

// foldSamples folds the samples of a record, and adds the record to the side outputs if samples of it are late or
// refused: once, however many of them are.
func (f *folder) foldSamples(ctx context.Context, rec *record.Record) error {
	s := f.state
	held := false
	f.late = f.late[:0]
	n := f.reader.split.Samples(&f.pt.reading)
	if n == 0 { // each value is a series of its own, and computed as null
		f.pt.side.empty(rec, schemas.SkippedUnmapped)
		return nil
	}
	for i := range n {
		if i > 0 {
			if err := f.makeRoom(ctx); err != nil {
				return err
			}
		}
		sample := f.sample(rec, i)
		switch s.Fold(&sample, f.batch) {
		case state.Late:
			f.pt.side.noteLate(rec, sample.Key)
			f.late = append(f.late, i)
		case state.Held:
			held = true
			if s.HeldLate() {
				f.pt.side.noteLate(rec, sample.Key)
				f.late = append(f.late, i)
			}
		}
		if len(s.Suspects.Refused) > 0 {
			if err := f.makeRoom(ctx); err != nil { // all that the sample's vote has refused is there then
				return err
			}
			f.pt.side.refused(s, f.pt.mapping.State)
		}
	}
	if len(f.late) > 0 {
		f.pt.side.late(rec, f.late)
	}
	if held {
		attachSuspect(s, rec)
	}
	f.pt.counts.Further += int64(n - 1)
	return nil
}

// sample returns the i-th sample of the reading of rec, with the values of the configured reading.
func (f *folder) sample(rec *record.Record, i int) state.Sample {
	r := f.reader
	key, at, values := r.split.Sample(&f.pt.reading, i)
	if r.foreign || r.translation != nil {
		values = r.translated(values)
	}
	return state.Sample{Key: key, Time: at, Ahead: f.pt.reading.Time - at, Offset: f.pt.mapping.State.Place(rec.Offset, i), Values: values}
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
		err := f.pt.host.cfg.Executor.Execute(ctx, f.batch)
		if err != nil {
			return fmt.Errorf("processor: %s/%d: score: %w", f.pt.tp.Topic, f.pt.tp.Partition, err)
		}
		f.pt.host.cfg.Metrics.Executed(n, time.Since(began))
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
	return f.pt.host.cycles.Room().Records
}

// compareClock logs what is wrong with the event times of the topic, once a worker.
func (f *folder) compareClock(rec *record.Record) {
	finding, fix := f.clock.Add(f.pt.reading.Time, rec.Timestamp, f.pt.mapping.TimeUnit)
	if finding == "" {
		return
	}
	if _, logged := f.pt.host.warned.LoadOrStore(f.pt.tp.Topic, nil); !logged {
		f.pt.log.Warn("event times do not fit Kafka's timestamps: "+finding, "offset", rec.Offset, "fix", fix)
	}
}

// seriesClocks compares the clocks of series in clocksMost records, and again after clocksEvery records.
type seriesClocks struct {
	comparison SeriesClocks
	pass       int // records that are passed over first
}

const clocksEvery = 100_000

// compareSeries shows a series whose clock is ahead of the others, and logs it once a worker, without its name.
func (f *folder) compareSeries(rec *record.Record) {
	c := &f.clocks
	if c.comparison.Add(f.pt.reading.Key, f.pt.reading.Time); !c.comparison.Full() {
		return
	}
	limit := max(time.Duration(f.pt.mapping.State.Reading.Lateness)*time.Microsecond, time.Minute)
	series, by, ahead := c.comparison.Ahead(limit)
	*c = seriesClocks{pass: clocksEvery}
	if !ahead {
		f.pt.status.SetFastClock("")
		return
	}
	finding, fix := AheadText(series, by)
	f.pt.status.SetFastClock(finding)
	if _, logged := f.pt.host.warned.LoadOrStore(f.pt.tp.Topic+" series ahead", nil); !logged {
		f.pt.log.Warn("the clock of a series is ahead of the others", "by", by.Round(time.Second), "offset", rec.Offset, "fix", fix+
			"; the page names the series, and worker check -online does")
	}
}

// manyMissing is the number of samples after which it is noticed that all lack a value.
const manyMissing = 500

// noticeMissing logs, once a worker and topic, that no sample so far had all values that a detector needs: such records are no
// fault one by one, but none of them will ever be scored.
func (f *folder) noticeMissing() {
	counts := &f.state.Tally.Counts
	if f.noticed || counts[state.Missing] < manyMissing && counts[state.Scored]+counts[state.WarmingUp] == 0 {
		return
	}
	f.noticed = true
	if counts[state.Scored]+counts[state.WarmingUp]+counts[state.Backfilled] > 0 {
		return
	}
	if _, logged := f.pt.host.warned.LoadOrStore(f.pt.tp.Topic+" missing", nil); !logged {
		f.pt.log.Warn("no record has all fields that a detector needs: nothing is scored", "missing", counts[state.Missing],
			"fix", "correct value_fields, make each field a series of its own (series_fields), or give each detector its fields; "+
				"worker check -online counts the fields")
	}
}

// checkReading returns why no reading of a record must be folded, as a *schemas.DecodeError: as CheckReading does, or because
// one of them is no event of a grid.
func (f *folder) checkReading(rec *record.Record) error {
	if err := CheckReading(f.reader.reading, f.reader.split, rec.Timestamp, &f.pt.reading); err != nil || !f.state.Grids.Any() {
		return err
	}
	for i := range f.pt.reading.Len() {
		key, _, values := f.pt.reading.At(i)
		if e := f.state.Misplaced(key, f.reader.translated(values)); e != nil {
			return &schemas.DecodeError{Class: e.Class, Field: e.Field, SchemaID: -1, Err: e}
		}
	}
	return nil
}

// drop drops the results that the state has.
func (f *folder) drop() {
	f.state.Rows = f.state.Rows[:0]
	f.state.Events = f.state.Events[:0]
	clear(f.state.Blocks)
	f.state.Blocks = f.state.Blocks[:0]
	clear(f.state.Rises)
	f.state.Rises = f.state.Rises[:0]
}

// rollback returns the state in memory to the committed mark. A restore would give the
// same state.
func (f *folder) rollback(ctx context.Context) error {
	if f.noteCommitted(); f.pt.advance.Load() == advanceJoined {
		offs, err := f.pt.host.committed(ctx, []kafka.TP{f.pt.tp})
		if err != nil {
			return err
		}
		return f.restore(ctx, offs[f.pt.tp])
	}
	f.drop()
	f.pt.reset()
	to := f.pt.committed.Load()
	if err := f.state.Rollback(to); err != nil {
		return fmt.Errorf("processor: %s/%d: roll back to offset %d: %w", f.pt.tp.Topic, f.pt.tp.Partition, to, err)
	}
	f.carried.Return(to)
	f.trimmer.always()
	f.noteCommitted()
	f.countOpen()
	f.batch.Reset()
	f.joined.reset(f.state)
	f.suspects.reset(f.state)
	f.fill.reset(f.state, to)
	return f.pt.returnTo(ctx, to)
}

// noteCommitted passes the committed offset on to the state, if it has grown.
func (f *folder) noteCommitted() {
	if c := f.pt.committed.Load(); f.pt.advance.CompareAndSwap(advanceCommitted, noAdvance) || c > f.noted {
		f.state.Committed(c)
		f.carried.Committed(c)
		f.noted = c
	}
}

// takeChanges has the state and the writer follow what has been changed since they were made.
func (f *folder) takeChanges() {
	if f.pt.host.cfg.Changeable == nil {
		return
	}
	if now := f.pt.host.cfg.Changeable(); now != f.changed {
		f.changed = now
		f.state.Rulings.Reconfigure(now.detectors(f.pt.mapping.Name))
		f.pt.side.writer.Publish(now.Scores)
	}
}

// fold folds the samples of rec, which a restore replays; recall reads them again as suspects
// only.
func (f *folder) fold(ctx context.Context, rec *record.Record, recall bool) error {
	for i := range f.reader.split.Samples(&f.pt.reading) {
		if err := f.makeRoom(ctx); err != nil {
			return err
		}
		sample := f.sample(rec, i)
		if recall {
			f.state.Recall(&sample)
		} else {
			f.state.Fold(&sample, f.batch)
		}
	}
	attachSuspect(f.state, rec)
	return nil
}

// maxSeriesKey bounds a series key so that no record made of it can pass the
// broker's limit.
const maxSeriesKey = 8 << 10

// CheckReading returns why a record of a reading that could be read is a dead letter all the same, as a *schemas.DecodeError: its
// time or its key. timestampMs is the record's timestamp.
func CheckReading(by *rules.Reading, split *schemas.Splitter, timestampMs int64, in *schemas.Reading) error {
	if in.Len() == 0 {
		return nil
	}
	if most := by.MaxFuture; most > 0 && timestampMs >= 0 && in.Time > timestampMs*1000+most {
		which := ""
		for i := range in.Len() {
			if _, at, _ := in.At(i); at == in.Time && in.Len() > 1 {
				which = fmt.Sprintf(" of reading %d", i)
				break
			}
		}
		return &schemas.DecodeError{Class: "future_time", Err: fmt.Errorf(
			"event time%s %s is more than %s after the record's timestamp %s (max_future)",
			which,
			time.UnixMicro(in.Time).UTC().Format(time.RFC3339),
			time.Duration(most)*time.Microsecond,
			time.UnixMilli(timestampMs).UTC().Format(time.RFC3339),
		)}
	}
	if n := split.KeyBytes(in); n > maxSeriesKey {
		return &schemas.DecodeError{Class: "too_large", Err: fmt.Errorf("series key of %d bytes is longer than %d", n, maxSeriesKey)}
	}
	return nil
}

// trimmer holds the state of a partition within its share of the worker's budget.
type trimmer struct {
	budget *cycle.Budget
	tp     kafka.TP
	log    *slog.Logger
	limit  int64 // of the state's bytes, as of the last call; see cycle.Budget
	logged time.Time
	keys   int // evicted since, for the log
}

// note tells the budget what the state takes, and renews the limit.
func (t *trimmer) note(s *state.State) { t.limit = t.budget.Limit(t.tp, s.Bytes()) }

// always makes the next record trim, regardless of the size of the state.
func (t *trimmer) always() { t.limit = -1 }

// trim evicts keys before the record at offset, as many as the partition is over its
// limit, and a few more, so that the next record need not evict again.
func (t *trimmer) trim(s *state.State, offset int64) {
	if n := s.Shed(offset); n > 0 {
		t.log.Warn("series that did not fit when the partition was restored are evicted (state_bytes)",
			"offset", offset, "evicted", n)
	}
	t.note(s)
	if s.Bytes() <= t.limit {
		return
	}
	n := s.Trim(t.limit-t.limit/64, offset)
	t.budget.Limit(t.tp, s.Bytes())
	if t.keys += n; n > 0 && time.Since(t.logged) > metrics.SummaryEvery {
		t.log.Warn("the state is over its budget (state_bytes), the least recently used series are evicted",
			"offset", offset, "evicted", t.keys, "bytes", s.Bytes(), "limit", t.limit)
		t.logged, t.keys = time.Now(), 0
	}
}

// growth decides at which offset the topic of a partition had grown.
type growth struct {
	siblings *atomic.Int32 // partitions of the topic
	// due reports that the topic has grown, and the next sample's offset is where that is
	// decided.
	due bool
}

// compare sets due, before the record at offset at. owned is the number of partitions that
// the changelog's owner knew of.
func (g *growth) compare(s *state.State, at int64, owned int) {
	if c := s.Standing(state.Grown, nil, at); c != nil {
		if n, err := strconv.Atoi(string(c)); err == nil {
			owned = n
		}
	}
	g.due = owned > 0 && int(g.siblings.Load()) > owned
}

// decide decides that the topic had grown before the record at offset.
func (g *growth) decide(s *state.State, offset int64, log *slog.Logger) {
	g.due = false
	n := g.siblings.Load()
	s.Decide(state.Grown, nil, strconv.AppendInt(nil, int64(n), 10), offset)
	log.Warn("the topic has grown: keys without a sample from this offset on have moved", "offset", offset, "partitions", n)
}
