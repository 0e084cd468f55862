package processor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/state"
	"odradek/schemas"
)

// restore rebuilds the partition's state from what is committed: the changelog
// up to its end, then the input from the replay floor to the committed offset.
// It publishes nothing. A rollback gives the same state from memory, and a test
// compares the two.
func (f *folder) restore(ctx context.Context, off kafka.Offset) error {
	started := time.Now()
	f.pt.suspend()
	if f.pt.release == nil {
		batch := f.pt.host.cfg.Executor.Batch()
		f.batch, f.pt.release = batch, func() { f.pt.host.cfg.Executor.Release(batch) }
	}
	f.wipe, f.arrivals, f.restored = nil, cycle.Arrivals{}, restoreWork{}
	f.restorer.changelog.Bytes = 0
	fctx, stop := context.WithCancel(ctx)
	defer stop()
	go f.pt.status.FollowEnds(fctx, f.pt.host.cfg.Client.Offsets)
	for try := 0; ; try++ {
		f.pt.status.SetRestoring(off.Offset)
		err := f.tryRestore(ctx, off)
		if err == nil {
			break
		}
		// Input that is deleted while it is replayed is missing in the next try.
		if !errors.Is(err, state.ErrAhead) && (try == 20 || !kafka.OffsetLost(err)) {
			return err
		}
		if try == 20 {
			refused := &RefusedError{TP: f.pt.tp, Reason: fmt.Sprintf("%v (%d): was the group's offset set back by hand?", err, off.Offset),
				Decide: "worker state reset"}
			if f.pt.host.cfg.Guarantee == ExactlyOnce {
				refused.Reason = fmt.Sprintf("%v (%d): either the worker before had guarantee=at_least_once and ended between its "+
					"state and its offset, or the offset was set back by hand", err, off.Offset)
				refused.Decide = "start once more with guarantee=at_least_once and stop it with SIGTERM, which keeps the state; if the " +
					"offset was set back: worker state reset"
			}
			return refused
		}
		// The changelog is ahead of the offset: another member, the owner until
		// then, committed between the two reads. Read the offset again.
		if err := sleep(ctx, time.Duration(try+1)*100*time.Millisecond); err != nil {
			return err
		}
		offs, err := f.pt.host.committed(ctx, []kafka.TP{f.pt.tp})
		if err != nil {
			return err
		}
		off = offs[f.pt.tp]
	}
	f.drop()
	f.pt.reset()
	f.batch.Reset()
	f.countOpen()
	f.joined.reset(f.state)
	f.suspects.reset(f.state)
	at := f.pt.committed.Load()
	f.noted = at
	f.fill.reset(f.state, at)
	f.showState()
	f.trimmer.always()
	if err := f.pt.settle(ctx, at); err != nil {
		return err
	}
	f.exportState(true)
	f.pt.host.cfg.Metrics.Restored(f.pt.tp, int64(f.state.Held()), time.Since(started))
	w := &f.restored
	f.pt.log.Info("restored", "offset", at, "keys", f.state.Keys.Len(), "took", time.Since(started).Round(time.Millisecond),
		"changelog_bytes", f.restorer.changelog.Bytes, "changelog_took", f.restorer.changelog.Took.Round(time.Millisecond),
		"replayed", w.replayed, "replay_took", w.took.Round(time.Millisecond))
	return nil
}

// examine takes up what is committed, and does nothing with it.
func (f *folder) examine(ctx context.Context, off kafka.Offset) (from, start int64, err error) {
	n, err := f.restorer.TakeUp(ctx, off)
	if err != nil || off.Offset >= 0 {
		return 0, 0, err
	}
	return n.At, max(n.At, n.State.BackfillEnd()), nil
}

// newState returns an empty state of the partition.
func (f *folder) newState() *state.State {
	s := state.New(f.pt.mapping.State)
	f.changed = nil // the new state has nothing of it
	s.SetSource(f.pt.tp.Topic, f.pt.tp.Partition)
	return s
}

// restoreWork counts what the last restore has read, for the log.
type restoreWork struct {
	replayed int64 // offsets of input read again
	took     time.Duration
}

func (f *folder) tryRestore(ctx context.Context, off kafka.Offset) error {
	n, err := f.restorer.TakeUp(ctx, off)
	f.state, f.pt.leader, f.wipe = n.State, n.Leader, n.Wipe
	f.pt.fresh.Store(off.Offset < 0)
	if err != nil {
		return err
	}
	if n.From != noReplay {
		began := time.Now()
		var unreadable *UnreadableError
		switch err := f.replay(ctx, &n.Floor, n.From, n.At); {
		case errors.As(err, &unreadable):
			if err := f.restorer.Unreadable(ctx, n, unreadable); err != nil {
				return err
			}
			f.state, f.pt.leader, f.wipe = n.State, n.Leader, n.Wipe
			f.batch.Reset()
		case err != nil:
			return err
		default:
			f.restored.replayed, f.restored.took = n.At-n.Floor.Offset, time.Since(began)
			f.state.EndReplay()
			f.lostSuspects(&n.Floor)
		}
	}
	f.takeChanges()
	if other := f.state.Rulings.OtherwiseJudged(); len(other) > 0 {
		f.pt.log.Warn("scores were judged by other settings so far; this worker's settings hold from the next record on, by a decision in "+
			"the changelog; expected once after a change, but not if workers of the group have different settings",
			"offset", n.At, "detectors", strings.Join(other, ","))
	}
	if other := f.state.OtherwiseRead(); len(other) > 0 {
		f.pt.log.Warn("records were read by other settings so far; this worker's settings hold from the next record on, by a decision in "+
			"the changelog; expected once after a change, but not if workers of the group have different settings",
			"offset", n.At, "differ", strings.Join(other, ","))
	}
	if err := f.readCarried(ctx, n.At); err != nil {
		return err
	}
	f.state.Mark(n.At)
	f.state.Committed(n.At)
	f.noted = n.At
	f.pt.setStart(n.At, n.Commit || f.restorer.changelog.Owner.Unwritten || f.restorer.changelog.Settings.Unwritten(), off.Metadata)
	return nil
}

// readCarried reads the headers to carry of the last records before offset end, where the partition resumes: samples
// that are not scored yet are of those records. Records that retention has deleted have none.
func (f *folder) readCarried(ctx context.Context, end int64) error {
	f.carried.Reset()
	if !f.carried.Any() || end <= 0 {
		return nil
	}
	first, err := f.restorer.changelog.logs.List(ctx, f.pt.tp, kafka.Earliest)
	if err != nil {
		return err
	}
	return f.restorer.changelog.logs.Read(ctx, f.pt.tp, max(first, end-cycle.CarryWindow), end, func(rec *record.Record) error {
		f.carried.Note(rec)
		return nil
	})
}

// replay folds the input from floor to end, scoring where carries need it. It
// begins to read at the first suspect of the floor.
func (f *folder) replay(ctx context.Context, floor *state.Floor, from, end int64) error {
	header := func(rec *record.Record) func(string) ([]byte, bool) {
		if f.pt.header == nil {
			f.pt.header = rec.Header
		}
		return f.pt.header
	}
	s := f.state
	f.pt.header = nil
	defer func() { f.pt.header = nil }()
	err := f.restorer.changelog.logs.Read(ctx, f.pt.tp, from, end, func(rec *record.Record) error {
		if rec.Offset < floor.Offset && !floor.Suspect(rec.Offset) {
			return nil
		}
		if reading := s.ReadingOf(rec.Offset, f.batch); reading != f.reads {
			if err := f.readBy(reading); err != nil {
				return err
			}
		}
		if f.missing.decided(s, rec, header(rec)) {
			return nil // as before
		}
		rec.Timestamp = cycle.Timestamp(rec)
		for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
			err := f.reader.dec.Decode(ctx, rec.Key, rec.Value, rec.Timestamp, header(rec), &f.pt.reading)
			var de *schemas.DecodeError
			if errors.As(err, &de) && de.Retry && !f.missing.gone(rec, de) {
				why, _ := whyHeld(err)
				f.pt.holds.note(why, rec.Offset, err)
				if err := sleep(ctx, wait); err != nil {
					return err
				}
				continue
			}
			f.pt.holds.end()
			if de != nil && de.Absent { // else a decision would stand
				return &UnreadableError{Why: fmt.Sprintf("the schema registry has no schema any more for the record at offset %d: %v",
					rec.Offset, de)}
			}
			if recall := rec.Offset < floor.Offset; err != nil || !recall && f.checkReading(rec) != nil {
				return nil //nolint:nilerr // it was a dead letter before
			}
			break
		}
		return f.fold(ctx, rec, rec.Offset < floor.Offset)
	})
	if err != nil {
		return err
	}
	if err := f.makeRoom(ctx); err != nil { // EndInput would have the batch grow past its limits
		return err
	}
	s.EndInput(f.batch)
	return f.finish(ctx)
}

// fetchError handles the error of a fetch. If the position is not in the log any more,
// or the log is another one, everything before it is committed first. Then the partition
// is restored, which finds the gap and applies offset_lost.
func (pt *partition) fetchError(ctx context.Context, c *kafka.Chunk) error {
	if !kafka.OffsetLost(c.Err) {
		return QuarantineOfFetch(kafka.Lacks(fmt.Errorf("processor: fetch input %s: %w", pt.tp, c.Err), kafka.OpRead, pt.tp.Topic))
	}
	for pt.committed.Load() < pt.position.Load() {
		pt.handle.Announce()
		if stop, err := pt.commands.wait(ctx, time.Millisecond); stop || err != nil || pt.handle.Stale() {
			pt.closeSource()
			return err
		}
	}
	offs, err := pt.host.committed(ctx, []kafka.TP{pt.tp})
	if err != nil {
		return err
	}
	return pt.work.restore(ctx, offs[pt.tp])
}

func (f *folder) exportState(restored bool) {
	if export := f.pt.host.cfg.export; export != nil {
		export(f.pt.tp, restored, f.pt.position.Load(), f.state.Export(nil))
	}
}
