package processor

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/metrics"
	"odradek/schemas"
)

// partition is one assigned topic-partition: a goroutine that fetches its records, has its work make results of them and
// adds these to the open cycle (handle), until a command stops it or rolls it back. It shares nothing but atomics and
// commands with the main goroutine.
type partition struct {
	host    *host
	tp      kafka.TP
	mapping *Mapping // of the topic
	log     *slog.Logger
	work    work

	status *partitionStatus
	holds  holds

	cancel context.CancelFunc // drop everything now (lost partition)
	done   chan struct{}

	commands *commands // of the main goroutine

	committed atomic.Int64                       // offset of the last definite commit, or where it started
	fresh     atomic.Bool                        // the group has no committed offset for it yet
	starting  atomic.Bool                        // its start or the owner of its changelog is not committed yet
	running   atomic.Bool                        // restored; has or may have uncommitted results
	position  atomic.Int64                       // offset of the next record
	end       atomic.Int64                       // last stable offset seen
	siblings  atomic.Int32                       // partitions of its topic
	advance   atomic.Int32                       // of the watermark while the partition is idle: noAdvance ...
	confined  atomic.Pointer[metrics.Quarantine] // nil: not in quarantine
	refusal   atomic.Pointer[RefusedError]       // what an operator has to decide, in quarantine for that

	// Owned by the goroutine.
	source  *kafka.FetchSource
	leader  record.Epoch // that wrote the last record read
	handle  cycle.Handle[*partition]
	idle    idleness
	waiting bool      // for the commit of the start: nothing is fetched
	until   time.Time // when handOver stops; the main goroutine sets it before it sends stopSoon; zero: never
	release func()    // gives the work's memory back at the end; nil: there is none, or goroutines may still use it
	trouble metrics.FailureLog

	// Of the chunk.
	it      record.Iterator
	skipped record.Skipped // as of the last time that it joined a cycle
	reading schemas.Reading
	header  headerOf
	counts  metrics.Counts // since then
	side    sideOutputs
	traces  cycle.Traceparents
	again   bool // process the iterator's current record once more
	more    bool // the chunk has more records than a cycle had room for
}

// work is what a partition makes of its records. The partition's goroutine calls it, and each method that returns an error
// may panic (Contain).
type work interface {
	// restore resumes from what is committed.
	restore(ctx context.Context, off kafka.Offset) error
	// rollback returns to the committed offset, by what is in memory.
	rollback(ctx context.Context) error
	// prepare prepares for a chunk.
	prepare()
	// read makes results of the rest of the chunk, from offset from on, or of as much as a cycle has room for at a
	// time; then it sets more. retry is the reason to stop before the iterator's current record and to try it again.
	read(ctx context.Context, from int64) (retry, err error)
	// write adds the results, which are up to r.Next, to the cycle, and forgets them.
	write(c *cycle.Cycle[*partition], r *cycle.Result) (bytes int, err error)
	// writeStart adds what is committed together with the first offset.
	writeStart(c *cycle.Cycle[*partition], r *cycle.Result) (bytes int, err error)
	// handOver writes what the next owner would have to make again.
	handOver(ctx context.Context) error
	// examine returns the offsets at which a worker would begin to read and to publish, without doing so.
	examine(ctx context.Context, off kafka.Offset) (from, start int64, err error)
}

// host is a partition's view of its processor.
type host struct {
	cfg     *Config
	log     *slog.Logger
	outputs *cycle.Topics
	fetcher *kafka.Fetcher
	cycles  *cycle.Current[*partition]
	budget  *cycle.Budget
	warned  *sync.Map // topics whose event times were logged
	// committed reads the committed offsets of partitions, and waits until they are known.
	committed func(ctx context.Context, tps []kafka.TP) (map[kafka.TP]kafka.Offset, error)
	// gone reports whether an input topic was deleted.
	gone func(ctx context.Context, topic string) bool
	// fail ends the worker with an error.
	fail func(error)
	// refused wakes the main goroutine, which looks at all partitions: one of them is refused.
	refused chan struct{}
}

func newPartition(h *host, tp kafka.TP) *partition {
	cfg, m := h.cfg, h.cfg.Mappings.ForTopic(tp.Topic)
	pt := &partition{
		host: h, tp: tp, mapping: m, log: h.log.With("topic", tp.Topic, "partition", tp.Partition),
		status:   newPartitionStatus(tp, m.State.Reading.Lateness),
		done:     make(chan struct{}),
		commands: newCommands(),
		handle:   cycle.Handle[*partition]{Cycles: h.cycles},
		traces:   cycle.Traceparents{Wanted: cfg.Traced != nil},
		reading:  schemas.Reading{Values: make([]float64, m.Decoder.Width()), Partition: tp.Partition},
	}
	pt.holds = holds{pt.status, pt.log}
	pt.side = sideOutputs{tp: tp, metrics: cfg.Metrics, log: pt.log, trouble: &pt.trouble, counts: &pt.counts, fill: new(backfill),
		stop: newDeadLetterStop(tp, m.StopAbove, cfg.Resume)}
	if cfg.Outputs[cycle.Rekeyed] != "" {
		pt.work = newRekeyer(pt)
	} else {
		pt.work = newFolder(pt)
	}
	return pt
}

// start starts the goroutine. The first partition that needs offsets reads the offsets of all.
func (pt *partition) start(ctx context.Context, offsets func() (map[kafka.TP]kafka.Offset, error)) {
	ctx, pt.cancel = context.WithCancel(ctx)
	go func() {
		defer close(pt.done)
		offs, err := offsets()
		if kafka.Unauthorized(err) { // of one topic, and the request may have included others
			if offs, err = pt.host.committed(ctx, []kafka.TP{pt.tp}); kafka.Unauthorized(err) {
				err = QuarantineOfPermission(err)
			}
		}
		if err == nil || pt.quarantine(err) {
			err = pt.run(ctx, offs[pt.tp])
		}
		pt.closeSource()
		if pt.release != nil {
			pt.release()
		}
		switch {
		case err == nil || ctx.Err() != nil:
		case pt.host.gone(ctx, pt.tp.Topic):
			pt.running.Store(false)
			pt.log.Warn("partition stopped: its topic does not exist any more", "err", err)
		default:
			pt.log.Error("partition stopped", "err", err)
			pt.host.fail(err)
		}
	}()
}

func (pt *partition) wait() { <-pt.done }

func (pt *partition) restart(fully bool) {
	if fully {
		pt.commands.send(startOver)
	} else {
		pt.commands.send(goBack)
	}
}

// run does the work of the partition's goroutine.
func (pt *partition) run(ctx context.Context, off kafka.Offset) error {
	if pt.confined.Load() == nil {
		if err := Contain(func() error { return pt.work.restore(ctx, off) }); err != nil && !pt.quarantine(err) {
			return err
		}
	}
	idle, stop := pt.idleTicks()
	defer stop()
	for {
		var chunks <-chan *kafka.Chunk
		if pt.source != nil {
			chunks = pt.source.C()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-pt.resumeTick():
			pt.resumeIfAllowed()
		case <-idle:
			switch err := Contain(func() error { return pt.idle.advance(ctx) }); {
			case errors.Is(err, cycle.ErrStale):
				pt.closeSource() // as below
			case err != nil && !pt.quarantine(err):
				return err
			}
		case <-pt.commands.ready:
			cmd := pt.commands.receive()
			if cmd == goBack && !pt.running.Load() {
				cmd = goOn // quarantined without a state
			}
			if (cmd == goBack || cmd == startOver) && !pt.handle.Stale() {
				// The partition was restored after the command was sent: it has no results
				// from before, and those that it has joined are valid.
				cmd = goOn
				if pt.source == nil && !pt.waiting { // a hold ended for the command
					pt.seek(pt.position.Load())
				}
			}
			switch cmd {
			case goOn:
				pt.started()
			case goBack:
				if err := Contain(func() error { return pt.work.rollback(ctx) }); err != nil && !pt.quarantine(err) {
					return err
				}
			case startOver:
				offs, err := pt.host.committed(ctx, []kafka.TP{pt.tp})
				if err != nil {
					return err
				}
				if err := Contain(func() error { return pt.work.restore(ctx, offs[pt.tp]) }); err != nil && !pt.quarantine(err) {
					return err
				}
			default:
				if err := Contain(func() error { return pt.work.handOver(ctx) }); err != nil && !pt.quarantine(err) {
					return err
				}
				return nil
			}
		case c, ok := <-chunks:
			if !ok {
				pt.status.SetSource(nil)
				pt.source = nil
				continue
			}
			err := Contain(func() error { return pt.process(ctx, c) })
			c.Release()
			switch {
			case errors.Is(err, cycle.ErrStale):
				// A command of the main goroutine will say where to resume.
				pt.closeSource()
			case err != nil && !pt.quarantine(err):
				return err
			}
		}
	}
}

func (pt *partition) closeSource() {
	if pt.source != nil {
		pt.status.SetSource(nil)
		pt.source.Close()
		pt.source = nil
	}
}

// seek fetches from offset on, and drops what was fetched before. In quarantine nothing
// is fetched.
func (pt *partition) seek(offset int64) {
	pt.closeSource()
	pt.position.Store(offset)
	pt.busy(time.Now())
	if pt.confined.Load() != nil {
		pt.status.SetSource(nil)
		return
	}
	pt.source = pt.host.fetcher.Resume(pt.tp, offset, pt.leader)
	pt.status.SetSource(pt.source)
}

// process has the work make results of a chunk, and joins these to the open cycle.
func (pt *partition) process(ctx context.Context, c *kafka.Chunk) error {
	if c.Err != nil {
		return pt.fetchError(ctx, c)
	}
	pt.leader = max(pt.leader, c.Epoch) // of any position in the chunk: it is one log up to its end
	now := time.Now()
	if len(c.Raw) > 0 { // else it only says how far the log is
		pt.busy(now)
	}
	if pt.position.Load() == pt.committed.Load() {
		pt.status.BehindNow()
	}
	pt.end.Store(c.LastStable) // after BehindNow: Stalled reads them the other way round
	pt.it.Reset(&c.Chunk)
	pt.skipped = record.Skipped{}
	pt.again = false
	pt.work.prepare()
	for {
		retry, err := pt.work.read(ctx, pt.position.Load())
		if err != nil {
			return err
		}
		next := pt.it.NextOffset()
		why, pause := whyHeld(retry)
		if retry != nil && pt.it.Err() == nil {
			next = pt.it.Record().Offset
		}
		full := tooMany(retry)
		if retry != nil && full == nil && pt.it.Err() == nil {
			pt.holds.note(why, next, retry)
		} else {
			pt.holds.end()
		}
		if next > pt.position.Load() {
			if err := pt.join(ctx, next, now); err != nil {
				return err
			}
		}
		if full != nil {
			return full
		}
		if pt.more {
			if stop, err := pt.commands.wait(ctx, 0); stop || err != nil {
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
			return QuarantineOfFetch(retry)
		}
		// The writer schema of this record is not known (yet): the partition is held
		// here, and everything before it has joined a cycle.
		if stop, err := pt.commands.wait(ctx, pause); stop || err != nil {
			// The rest of this chunk is dropped, so the next one must not be folded
			// before the command is obeyed: every command says where to fetch from.
			pt.closeSource()
			return err
		}
	}
}

// reset drops what was made of the chunk and has not joined a cycle.
func (pt *partition) reset() {
	pt.side.writer.Reset()
	pt.traces.Drain()
	pt.counts = metrics.Counts{}
}

// next returns the next record of the chunk, and its headers, nil without any: the decoder need not ask for them. A batch that
// cannot be read becomes one dead letter, and each of its records is counted as one. The chunk ends before a batch that would
// be too many.
func (pt *partition) next() (rec *record.Record, header headerOf, ok bool) {
	for !pt.again && !pt.it.Next() {
		u, bad := pt.it.Unreadable()
		if !bad || !pt.side.deadBatch(&u, pt.it.NextOffset()) {
			return nil, nil, false
		}
		pt.it.Skip()
	}
	pt.again = false
	rec = pt.it.Record()
	pt.counts.Consumed++
	pt.counts.Bytes += int64(len(rec.Key) + len(rec.Value))
	if rec.HeaderCount == 0 {
		return rec, nil, true
	}
	rec.Timestamp = cycle.Timestamp(rec)
	pt.traces.Note(rec)
	if pt.header == nil {
		pt.header = rec.Header // one method value: the iterator reuses its record
	}
	return rec, pt.header, true
}

// postpone has the chunk end before rec, which is tried once more.
func (pt *partition) postpone(rec *record.Record) {
	pt.counts.Consumed--
	pt.counts.Bytes -= int64(len(rec.Key) + len(rec.Value))
	pt.again = true
}

// endOfChunk returns why the chunk ends before its end: it has a dead letter too many, or cannot be read further. It sets more
// where a cycle has no room for more records.
func (pt *partition) endOfChunk(limit int64) (retry error) {
	if full := pt.side.stop.Full(); full != nil {
		if pt.it.Err() == nil {
			pt.postpone(pt.it.Record())
		}
		return full
	}
	if pt.it.Err() == nil {
		pt.more = pt.counts.Consumed+pt.counts.Further >= limit
	}
	return pt.it.Err()
}
