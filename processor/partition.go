package processor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"odradek/detectors"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/keystate"
	"odradek/processor/metrics"
	"odradek/schemas"
	"odradek/schemas/output"
)

// partition is one assigned topic-partition: a goroutine that owns its state.
// It restores, then turns chunks into results of the open cycle until it is
// told to stop or to go back. Nothing but atomics is shared with the main
// goroutine.
type partition struct {
	host *host
	tp   kafka.TP
	log  *slog.Logger

	cancel context.CancelFunc // drop everything now (lost partition)
	done   chan struct{}

	mail chan struct{} // wakes the goroutine; capacity 1
	mu   sync.Mutex
	cmd  command // what the main goroutine wants; guarded by mu

	committed   atomic.Int64 // offset of the last definite commit, or where it started
	committedAt atomic.Int64 // unix ns
	behindAt    atomic.Int64 // unix ns; when there was first something to commit again
	fresh       atomic.Bool  // the group has no committed offset for it yet
	siblings    atomic.Int32 // partitions of the topic
	starting    atomic.Bool  // where it starts, or whose its changelog is, is not committed yet
	running     atomic.Bool  // restored; has or may have uncommitted results
	position    atomic.Int64 // next offset to fold
	end         atomic.Int64 // last stable offset seen
	keys        atomic.Int64
	bytes       atomic.Int64 // of memory, about
	maxTime     atomic.Int64 // largest event time folded, us; keystate.NoTime without one
	remaining   atomic.Int64 // offsets that the restore has yet to read, of the log it is reading
	heldNow     atomic.Int64
	suspectNow  atomic.Int64
	lateNow     atomic.Int64                     // late records since the state was restored
	openNow     atomic.Pointer[map[string]int64] // anomalies by detector
	onHold      atomic.Pointer[holding]          // nil: not held
	watched     atomic.Pointer[kafka.Source]     // what is being fetched now: the partition, or its changelog
	restoring   restoring
	confined    atomic.Pointer[metrics.Quarantine] // nil: it goes on

	// Owned by the goroutine.
	state      *keystate.State
	batch      *detectors.Batch
	windows    *detectors.WindowCache // nil: the executor caches none
	dec        schemas.Decoder
	enc        *output.ScoreEncoder
	anomalyEnc *output.AnomalyEncoder
	it         record.Iterator
	reading    schemas.Reading
	header     func(string) ([]byte, bool)
	source     *kafka.Source
	leader     record.Epoch // that wrote the last record read
	epoch      uint64
	noted      int64 // committed offset that was last passed to the state
	counts     metrics.Counts
	counted    keystate.Counts // state's counts already joined
	evicted    int64           // state's EvictedKeys already joined
	early      int64           // and its Early
	skipped    record.Skipped  // of the chunk, already joined
	copies     []copiedRecord  // dead letters, late records and forwarded records of the chunk
	value      []byte
	open       map[string]int64 // anomalies by detector
	owner      owned
	made       []StateSettings // that the changelog's settings record has
	growing    bool            // the topic has grown, and the next sample's offset is where that is decided
	waiting    bool            // for the commit of the start: nothing is fetched
	wipe       [][]byte        // changelog keys to delete (state given up), until that is committed
	arrivals   arrivals
	work       restoreWork
	lates      lateLog
	suspects   suspectLog

	limit       int64 // of the state's bytes, as of the last chunk; see budget
	trimmedAt   time.Time
	trimmedN    int // keys evicted since, for the log
	trouble     trouble
	patience    patience
	ref         []byte // of the record's schema
	again       bool   // fold the iterator's current record once more
	more        bool   // the chunk has more records than a cycle had room for
	forwardMost int    // largest batch of the internal topic, as of the chunk's begin
	forward     bool   // an input partition under ODRADEK_REKEY: records go to the internal topic
}

type command int

const (
	goOn      command = iota
	goBack            // roll back to the committed mark
	startOver         // restore from what is committed
	stopSoon          // finish the chunk in hand, join it, end
)

// host is a partition's view of its processor.
type host struct {
	cfg     *Config
	log     *slog.Logger
	outputs *outputs
	fetcher *kafka.Fetcher
	cycles  *cycles
	budget  *budget
	// committed reads the committed offsets of partitions, for as long as it takes.
	committed func(ctx context.Context, tps []kafka.TP) (map[kafka.TP]kafka.Offset, error)
	// fail ends the worker with an error.
	fail func(error)
}

func newPartition(h *host, tp kafka.TP) *partition {
	rekeyed := h.cfg.Outputs[OutputRekeyed]
	pt := &partition{
		host: h, tp: tp,
		log:     h.log.With("topic", tp.Topic, "partition", tp.Partition),
		done:    make(chan struct{}),
		mail:    make(chan struct{}, 1),
		dec:     h.cfg.Decoder.Clone(),
		forward: rekeyed != "" && tp.Topic != rekeyed,
	}
	pt.restoring.committed.Store(-1)
	pt.restoring.stable.Store(-1)
	pt.restoring.high.Store(-1)
	if t := h.outputs.changelogs[tp.Topic]; t != nil {
		pt.siblings.Store(int32(t.partitions))
	}
	pt.reading.Values = make([]float64, h.cfg.State.Dim)
	names := make([]string, len(h.cfg.State.Detectors))
	for i := range names {
		names[i] = h.cfg.State.Detectors[i].Name
	}
	pt.enc = output.NewScoreEncoder(h.cfg.SchemaIDs[OutputScores], tp.Topic, tp.Partition, names)
	pt.anomalyEnc = output.NewAnomalyEncoder(h.cfg.SchemaIDs[OutputAnomalies], tp.Topic, tp.Partition)
	return pt
}

// start begins the goroutine; offsets are read by the first partition that needs
// them.
func (pt *partition) start(ctx context.Context, offsets func() (map[kafka.TP]kafka.Offset, error)) {
	ctx, pt.cancel = context.WithCancel(ctx)
	go func() {
		defer close(pt.done)
		offs, err := offsets()
		if kafka.Unauthorized(err) { // of one topic, and others may have been asked for with it
			if offs, err = pt.host.committed(ctx, []kafka.TP{pt.tp}); kafka.Unauthorized(err) {
				err = &stuckError{reasonUnauthorized, err}
			}
		}
		if err == nil || pt.quarantine(err) {
			err = pt.run(ctx, offs[pt.tp])
		}
		pt.closeSource()
		pt.windows.Close()
		if pt.batch != nil {
			pt.host.cfg.Executor.Release(pt.batch)
		}
		if err != nil && ctx.Err() == nil {
			pt.log.Error("partition stopped", "err", err)
			pt.host.fail(err)
		}
	}()
}

func (pt *partition) wait() { <-pt.done }

// send asks the goroutine to do cmd; a later, stronger command wins.
func (pt *partition) send(cmd command) {
	pt.mu.Lock()
	pt.cmd = max(pt.cmd, cmd)
	pt.mu.Unlock()
	select {
	case pt.mail <- struct{}{}:
	default:
	}
}

func (pt *partition) restart(fully bool) {
	if fully {
		pt.send(startOver)
	} else {
		pt.send(goBack)
	}
}

func (pt *partition) take() command {
	pt.mu.Lock()
	defer pt.mu.Unlock()
	cmd := pt.cmd
	pt.cmd = goOn
	return cmd
}

// run is the goroutine.
func (pt *partition) run(ctx context.Context, off kafka.Offset) error {
	pt.batch = pt.host.cfg.Executor.Batch()
	if pt.confined.Load() == nil {
		if err := pt.restore(ctx, off); err != nil && !pt.quarantine(err) {
			return err
		}
	}
	for {
		var chunks <-chan *kafka.Chunk
		if pt.source != nil {
			chunks = pt.source.C()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-pt.mail:
			cmd := pt.take()
			if cmd == goBack && !pt.running.Load() {
				cmd = goOn // quarantined without a state
			}
			if (cmd == goBack || cmd == startOver) && !pt.stale() {
				// Restored since the command was given: nothing here is of before, and
				// what has been joined counts.
				cmd = goOn
				if pt.source == nil && !pt.waiting { // a hold was given up for the command
					pt.seek(pt.position.Load())
				}
			}
			switch cmd {
			case goOn:
				pt.started()
			case goBack:
				if err := pt.rollback(ctx); err != nil && !pt.quarantine(err) {
					return err
				}
			case startOver:
				offs, err := pt.host.committed(ctx, []kafka.TP{pt.tp})
				if err != nil {
					return err
				}
				if err := pt.restore(ctx, offs[pt.tp]); err != nil && !pt.quarantine(err) {
					return err
				}
			default:
				pt.exportState(false)
				return pt.lastSnapshot(ctx)
			}
		case c, ok := <-chunks:
			if !ok {
				pt.watched.Store(nil)
				pt.source = nil
				continue
			}
			err := pt.process(ctx, c)
			c.Release()
			switch {
			case errors.Is(err, errStaleEpoch):
				// The main goroutine is on its way to say where to go on.
				pt.closeSource()
			case err != nil && !pt.quarantine(err):
				return err
			}
		}
	}
}

func (pt *partition) exportState(restored bool) {
	if f := pt.host.cfg.export; f != nil {
		f(pt.tp, restored, pt.position.Load(), pt.state.Export(nil))
	}
}

func (pt *partition) closeSource() {
	if pt.source != nil {
		pt.watched.Store(nil)
		pt.source.Close()
		pt.source = nil
	}
}

// seek fetches from offset on; nothing fetched before can arrive any more. In
// quarantine nothing is fetched.
func (pt *partition) seek(offset int64) {
	pt.closeSource()
	pt.position.Store(offset)
	if pt.confined.Load() != nil {
		pt.watched.Store(nil)
		return
	}
	pt.source = pt.host.fetcher.Resume(pt.tp, offset, pt.leader)
	pt.watched.Store(pt.source)
}

// rollback returns to the committed mark: the in-memory twin of restore.
func (pt *partition) rollback(ctx context.Context) error {
	pt.resetChunk()
	to := pt.committed.Load()
	if err := pt.state.Rollback(to); err != nil {
		return fmt.Errorf("processor: %s/%d: roll back to offset %d: %w", pt.tp.Topic, pt.tp.Partition, to, err)
	}
	pt.limit = -1 // trim looks before the first record
	pt.noteCommitted()
	pt.countOpen()
	pt.batch.Reset()
	pt.counted, pt.evicted, pt.early = pt.state.Counts, pt.state.EvictedKeys, pt.state.Early
	pt.resetSuspects()
	pt.setEpoch()
	return pt.goFrom(ctx, to)
}

func (pt *partition) setEpoch() {
	pt.epoch = pt.host.cycles.now()
}

// noteCommitted passes on to the state what has been committed since the last call.
func (pt *partition) noteCommitted() {
	if c := pt.committed.Load(); c > pt.noted {
		pt.state.Committed(c)
		pt.noted = c
	}
}

func (pt *partition) resetChunk() {
	pt.state.Rows = pt.state.Rows[:0]
	pt.state.Events = pt.state.Events[:0]
	clear(pt.state.Blocks)
	pt.state.Blocks = pt.state.Blocks[:0]
	clear(pt.copies)
	pt.copies = pt.copies[:0]
	pt.counts = metrics.Counts{}
}

// process folds, scores and joins one chunk.
func (pt *partition) process(ctx context.Context, c *kafka.Chunk) error {
	if c.Err != nil {
		return pt.fetchError(ctx, c)
	}
	pt.leader = max(pt.leader, c.Epoch) // of any position in the chunk: it is one log up to its end
	now := time.Now()
	pt.noteCommitted()
	if pt.position.Load() == pt.committed.Load() {
		pt.behindAt.Store(now.UnixNano())
	}
	pt.end.Store(c.LastStable) // after behindAt: Stalled reads them the other way round
	if pt.forward {
		pt.host.cycles.mu.RLock()
		pt.forwardMost = pt.host.outputs.topics[OutputRekeyed].batchBytes
		pt.host.cycles.mu.RUnlock()
	}
	pt.it.Reset(&c.Chunk)
	pt.skipped = record.Skipped{}
	pt.again = false
	pt.growing = pt.grown(pt.position.Load())
	for {
		retry, err := pt.foldChunk(ctx)
		if err != nil {
			return err
		}
		next := pt.it.NextOffset()
		why, pause := whyHeld(retry)
		if retry != nil && pt.it.Err() == nil {
			next = pt.it.Record().Offset
			pt.held(why, next, retry)
		} else {
			pt.released()
		}
		if next > pt.position.Load() {
			if err := pt.join(ctx, next, now); err != nil {
				return err
			}
		}
		if pt.more {
			if stop, err := pt.hold(ctx, 0); stop || err != nil {
				pt.closeSource() // as below
				return err
			}
			continue
		}
		if retry == nil {
			if pt.it.Cut() {
				pt.seek(next)
			}
			return nil
		}
		if pt.it.Err() != nil {
			return stuckFetch(retry)
		}
		// The writer schema of this record is not known (yet): hold the partition
		// here, everything before it is joined.
		if stop, err := pt.hold(ctx, pause); stop || err != nil {
			// The rest of this chunk is given up, so the next one must not come
			// before the command does: every command says where to fetch from.
			pt.closeSource()
			return err
		}
	}
}

// hold waits; stop means that a command has come and the chunk is given up.
func (pt *partition) hold(ctx context.Context, d time.Duration) (stop bool, err error) {
	select {
	case <-ctx.Done():
		return true, ctx.Err()
	case <-pt.mail:
		pt.mu.Lock()
		none := pt.cmd == goOn // taken already, with an earlier wake-up
		pt.mu.Unlock()
		if none {
			return false, nil
		}
		select {
		case pt.mail <- struct{}{}: // run takes it
		default:
		}
		return true, nil
	case <-time.After(d):
		return false, nil
	}
}

// foldChunk folds and scores what is left of the chunk, or as much as a cycle has
// room for at a time: then there is more. retry is the reason to stop before the
// iterator's current record and to try it again.
func (pt *partition) foldChunk(ctx context.Context) (retry, err error) {
	s := pt.state
	limit := pt.host.cycles.room().records
	pt.more = false
	for pt.counts.Consumed < limit && (pt.again || pt.nextRecord()) {
		pt.again = false
		rec := pt.it.Record()
		if pt.header == nil {
			pt.header = rec.Header // one method value: the iterator reuses its record
		}
		pt.counts.Consumed++
		pt.counts.Bytes += int64(len(rec.Key) + len(rec.Value))
		header := pt.header
		if rec.HeaderCount == 0 {
			header = nil // lets the decoder skip the question
		}
		if err := pt.dec.Decode(ctx, rec.Key, rec.Value, rec.Timestamp, header, &pt.reading); err != nil {
			var de *schemas.DecodeError
			if errors.As(err, &de) && (de.Retry || de.Absent) && !pt.condemn(rec, header, de) {
				pt.counts.Consumed--
				pt.counts.Bytes -= int64(len(rec.Key) + len(rec.Value))
				pt.again = true
				return err, pt.finish(ctx)
			}
			pt.deadLetter(rec, err)
			continue
		}
		if pt.state.Decisions(keystate.Verdict) > 0 {
			pt.acquit(rec, header)
		}
		if err := pt.checkReading(rec); err != nil {
			pt.deadLetter(rec, err)
			continue
		}
		if pt.forward {
			pt.forwardRecord(rec)
			continue
		}
		if err := pt.makeRoom(ctx); err != nil {
			return nil, err
		}
		if pt.state.Bytes() > pt.limit {
			pt.trim(rec.Offset)
		}
		if pt.growing {
			pt.decideGrown(rec.Offset)
		}
		sample := keystate.Sample{Key: pt.reading.Key, Time: pt.reading.Time, Offset: rec.Offset, Values: pt.reading.Values}
		switch s.Fold(&sample, pt.batch) {
		case keystate.Late:
			pt.lateRecord(rec, pt.reading.Key)
		case keystate.Held:
			pt.holdSuspect(rec)
		}
		if len(s.Refused) > 0 {
			pt.sendRefused()
		}
	}
	if pt.it.Err() == nil {
		pt.more = pt.counts.Consumed >= limit
	}
	return pt.it.Err(), pt.finish(ctx)
}

// makeRoom scores until the batch has room for the tasks of one more sample.
// One sample may release many held ones, a batch at a time.
func (pt *partition) makeRoom(ctx context.Context) error {
	for !pt.state.Fits(pt.batch) {
		if err := pt.score(ctx); err != nil {
			return err
		}
	}
	return nil
}

// finish scores everything folded so far.
func (pt *partition) finish(ctx context.Context) error {
	if err := pt.makeRoom(ctx); err != nil {
		return err
	}
	return pt.score(ctx)
}

// score executes the packed tasks and applies their results.
func (pt *partition) score(ctx context.Context) error {
	if n := len(pt.batch.Tasks); n > 0 {
		began := time.Now()
		err := pt.host.cfg.Executor.Execute(ctx, pt.batch)
		if errors.Is(err, detectors.ErrCacheLost) {
			pt.state.Repack(pt.batch)
			err = pt.host.cfg.Executor.Execute(ctx, pt.batch)
		}
		if err != nil {
			return fmt.Errorf("processor: %s/%d: score: %w", pt.tp.Topic, pt.tp.Partition, err)
		}
		pt.host.cfg.Metrics.Executed(n, time.Since(began))
	}
	pt.state.Apply(pt.batch)
	pt.batch.Reset()
	return nil
}

// maxSeriesKey bounds a series key so that no record made of it can pass the
// broker's limit.
const maxSeriesKey = 8 << 10

func (pt *partition) checkReading(rec *record.Record) error {
	if f := pt.host.cfg.MaxFuture; f > 0 && rec.Timestamp >= 0 && pt.reading.Time > rec.Timestamp*1000+f.Microseconds() {
		return &schemas.DecodeError{Class: "future_time", Err: fmt.Errorf(
			"event time %s is more than %s after the record's timestamp %s (ODRADEK_MAX_FUTURE)",
			time.UnixMicro(pt.reading.Time).UTC().Format(time.RFC3339), f, time.UnixMilli(rec.Timestamp).UTC().Format(time.RFC3339))}
	}
	if len(pt.reading.Key) > maxSeriesKey {
		return &schemas.DecodeError{Class: "too_large",
			Err: fmt.Errorf("series key of %d bytes is longer than %d", len(pt.reading.Key), maxSeriesKey)}
	}
	return nil
}
