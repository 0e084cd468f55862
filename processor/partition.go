package processor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/metrics"
	"odradek/processor/trouble"
	"odradek/schemas"
)

// partition is one assigned topic-partition: a goroutine that owns its state.
// It restores (restore.Restorer), then folds chunks (folder) and adds the results to the
// open cycle (entry) until a command stops it or rolls it back. It shares nothing but
// atomics and commands with the main goroutine.
type partition struct {
	folder // owned by the goroutine alone

	status   *partitionStatus
	holds    holds
	restorer restorer

	cancel context.CancelFunc // drop everything now (lost partition)
	done   chan struct{}

	commands *commands // of the main goroutine

	committed atomic.Int64                       // offset of the last definite commit, or where it started
	fresh     atomic.Bool                        // the group has no committed offset for it yet
	starting  atomic.Bool                        // its start or the owner of its changelog is not committed yet
	running   atomic.Bool                        // restored; has or may have uncommitted results
	position  atomic.Int64                       // next offset to fold
	end       atomic.Int64                       // last stable offset seen
	advance   atomic.Int32                       // of the watermark while the partition is idle: noAdvance ...
	confined  atomic.Pointer[metrics.Quarantine] // nil: not in quarantine
	refusal   atomic.Pointer[RefusedError]       // what an operator has to decide, in quarantine for that

	// Owned by the goroutine.
	source   *kafka.FetchSource
	leader   record.Epoch // that wrote the last record read
	entry    cycle.Entry[*partition]
	noted    int64 // committed offset that was last passed to the state
	joined   joined
	open     openAnomalies
	idle     idleness
	waiting  bool     // for the commit of the start: nothing is fetched
	wipe     [][]byte // changelog keys to delete, of state that was emptied, until the deletion is committed
	arrivals cycle.Arrivals
	until    time.Time // when writeRest stops; the main goroutine sets it before it sends stopSoon; zero: never
	work     restoreWork
	suspects suspectLog
	trouble  trouble.Log
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
	cfg, rekeyed, m := h.cfg, h.cfg.Outputs[cycle.Rekeyed], h.cfg.Of(tp.Topic)
	pt := &partition{
		folder: folder{host: h, tp: tp, mapping: m, log: h.log.With("topic", tp.Topic, "partition", tp.Partition),
			forward: rekeyed != "" && tp.Topic != rekeyed,
			carried: cycle.NewCarried(cfg.CarryHeaders), traces: cycle.Traceparents{Wanted: cfg.Traced != nil}},
		status:   newPartitionStatus(tp),
		done:     make(chan struct{}),
		commands: newCommands(),
		entry:    cycle.Entry[*partition]{Cycles: h.cycles},
	}
	pt.idle.after = m.IdleAfter
	pt.holds = holds{pt.status, pt.log}
	pt.open.status = pt.status
	pt.trimmer = trimmer{budget: h.budget, tp: tp, log: pt.log}
	pt.reader = newReader(m)
	pt.reads, pt.readers = pt.reader.of, []*reader{pt.reader}
	pt.verdicts = verdicts{dec: pt.reader.dec, grace: cfg.SchemaGrace, forward: pt.forward, log: pt.log}
	pt.side = sideOutputs{tp: tp, metrics: cfg.Metrics, log: pt.log, trouble: &pt.trouble, counts: &pt.counts, fill: &pt.fill,
		stop:   newDeadLetterStop(tp, m.StopAbove, cfg.Resume),
		writer: cycle.NewWriter(h.outputs, tp, m.State, &cfg.SchemaIDs, cfg.Scores, pt.carried)}
	if cfg.Numbered {
		pt.side.writer.Number()
	}
	pt.restorer = restorer{
		changelogReader: &changelogReader{
			restoreLogs: &restoreLogs{Input: tp, Client: cfg.Client, Fetcher: h.fetcher, Log: pt.log, Status: pt.status, Trouble: &pt.trouble},
			Group:       cfg.Group,
			Topic:       func() string { return h.outputs.Changelog(tp.Topic).Name },
			Siblings:    &pt.growth.siblings, State: m.State, Budget: h.budget, NewState: pt.newState, NewID: randomID,
			Settings: StoredSettings{InForce: m.Settings},
		},
		OffsetLost: cfg.OffsetLost, StateLost: cfg.StateLost, Start: cfg.Start, Backfill: cfg.Backfill,
		Ahead: cfg.Guarantee == AtLeastOnce, Forward: pt.forward,
		Lost: func(n int64) { cfg.Metrics.OffsetLost(tp, n) },
	}
	if t := h.outputs.Changelog(tp.Topic); t != nil {
		pt.growth.siblings.Store(int32(t.Partitions))
	}
	pt.reading = schemas.Reading{Values: make([]float64, m.Decoder.Width()), Partition: tp.Partition}
	return pt
}

// start starts the goroutine. The first partition that needs offsets reads those of all.
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
		if pt.batch != nil {
			pt.host.cfg.Executor.Release(pt.batch)
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
		if err := Contain(func() error { return pt.restore(ctx, off) }); err != nil && !pt.quarantine(err) {
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
			switch err := Contain(func() error { return pt.advanceIdle(ctx) }); {
			case errors.Is(err, cycle.ErrStale):
				pt.closeSource() // as below
			case err != nil && !pt.quarantine(err):
				return err
			}
		case <-pt.commands.ready:
			cmd := pt.commands.take()
			if cmd == goBack && !pt.running.Load() {
				cmd = goOn // quarantined without a state
			}
			if (cmd == goBack || cmd == startOver) && !pt.entry.Stale() {
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
				if err := Contain(func() error { return pt.rollback(ctx) }); err != nil && !pt.quarantine(err) {
					return err
				}
			case startOver:
				offs, err := pt.host.committed(ctx, []kafka.TP{pt.tp})
				if err != nil {
					return err
				}
				if err := Contain(func() error { return pt.restore(ctx, offs[pt.tp]) }); err != nil && !pt.quarantine(err) {
					return err
				}
			default:
				if pt.running.Load() {
					pt.exportState(false)
				}
				if err := Contain(func() error { return pt.writeRest(ctx) }); err != nil && !pt.quarantine(err) {
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

func (pt *partition) exportState(restored bool) {
	if f := pt.host.cfg.export; f != nil {
		f(pt.tp, restored, pt.position.Load(), pt.state.Export(nil))
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

// rollback returns the state in memory to the committed mark. A restore would give the
// same state.
func (pt *partition) rollback(ctx context.Context) error {
	if pt.noteCommitted(); pt.advance.Load() == advanceJoined {
		offs, err := pt.host.committed(ctx, []kafka.TP{pt.tp})
		if err != nil {
			return err
		}
		return pt.restore(ctx, offs[pt.tp])
	}
	pt.reset()
	pt.endStop()
	to := pt.committed.Load()
	pt.side.stop.Rollback(to)
	if err := pt.state.Rollback(to); err != nil {
		return fmt.Errorf("processor: %s/%d: roll back to offset %d: %w", pt.tp.Topic, pt.tp.Partition, to, err)
	}
	pt.carried.Return(to)
	pt.trimmer.always()
	pt.noteCommitted()
	pt.countOpen()
	pt.batch.Reset()
	pt.joined.reset(pt.state)
	pt.suspects.reset(pt.state)
	pt.fill.reset(pt.state, to)
	pt.entry.Renew()
	return pt.resume(ctx, to)
}

// noteCommitted passes the committed offset on to the state, if it has grown.
func (pt *partition) noteCommitted() {
	if c := pt.committed.Load(); pt.advance.CompareAndSwap(advanceCommitted, noAdvance) || c > pt.noted {
		pt.state.Committed(c)
		pt.carried.Committed(c)
		pt.noted = c
	}
}

// process folds, scores and joins one chunk.
func (pt *partition) process(ctx context.Context, c *kafka.Chunk) error {
	if c.Err != nil {
		return pt.fetchError(ctx, c)
	}
	pt.leader = max(pt.leader, c.Epoch) // of any position in the chunk: it is one log up to its end
	now := time.Now()
	pt.noteCommitted()
	if len(c.Raw) > 0 { // else it only says how far the log is
		pt.busy(now)
	}
	if pt.position.Load() == pt.committed.Load() {
		pt.status.BehindNow()
	}
	pt.end.Store(c.LastStable) // after BehindNow: Stalled reads them the other way round
	if pt.forward {
		pt.host.cycles.Read(func() { pt.side.most = pt.host.outputs.Outputs[cycle.Rekeyed].BatchBytes })
	}
	pt.it.Reset(&c.Chunk)
	pt.joined.skipped = record.Skipped{}
	pt.again = false
	pt.rules = nil
	pt.takeChanges()
	if !pt.forward {
		pt.growth.compare(pt.state, pt.position.Load(), pt.restorer.Owner.Partitions)
	}
	for {
		retry, err := pt.foldChunk(ctx, pt.position.Load())
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
			pt.holds.begin(why, next, retry)
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

// takeChanges has the state and the writer follow what has been changed since they were made.
func (pt *partition) takeChanges() {
	if pt.host.cfg.Changeable == nil {
		return
	}
	if now := pt.host.cfg.Changeable(); now != pt.changed {
		pt.changed = now
		pt.state.Rules.Reconfigure(now.detectors(pt.mapping.Name))
		pt.side.writer.Publish(now.Scores)
	}
}
