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
func (pt *partition) restore(ctx context.Context, off kafka.Offset) error {
	begin := time.Now()
	pt.running.Store(false)
	if pt.batch == nil {
		pt.batch = pt.host.cfg.Executor.Batch()
	}
	pt.status.ClearHold()
	pt.confined.Store(nil)
	pt.advance.Store(noAdvance)
	pt.closeSource()
	pt.wipe, pt.arrivals, pt.work = nil, cycle.Arrivals{}, restoreWork{}
	pt.restorer.Bytes = 0
	fctx, stop := context.WithCancel(ctx)
	defer stop()
	go pt.status.FollowEnds(fctx, pt.host.cfg.Client.Offsets)
	for try := 0; ; try++ {
		pt.status.SetRestoring(off.Offset)
		err := pt.tryRestore(ctx, off)
		if err == nil {
			break
		}
		// Input that is deleted while it is replayed is missing in the next try.
		if !errors.Is(err, state.ErrAhead) && (try == 20 || !kafka.OffsetLost(err)) {
			return err
		}
		if try == 20 {
			refused := &RefusedError{TP: pt.tp, Reason: fmt.Sprintf("%v (%d): was the group's offset set back by hand?", err, off.Offset),
				Decide: "worker state reset"}
			if pt.host.cfg.Guarantee == ExactlyOnce {
				refused.Reason = fmt.Sprintf("%v (%d): either the worker before had ODRADEK_GUARANTEE=at_least_once and ended between its "+
					"state and its offset, or the offset was set back by hand", err, off.Offset)
				refused.Decide = "start once more with ODRADEK_GUARANTEE=at_least_once and stop it with SIGTERM, which keeps the state; if the " +
					"offset was set back: worker state reset"
			}
			return refused
		}
		// The changelog is ahead of the offset: another member, the owner until
		// then, committed between the two reads. Read the offset again.
		if err := sleep(ctx, time.Duration(try+1)*100*time.Millisecond); err != nil {
			return err
		}
		offs, err := pt.host.committed(ctx, []kafka.TP{pt.tp})
		if err != nil {
			return err
		}
		off = offs[pt.tp]
	}
	pt.reset()
	pt.batch.Reset()
	pt.countOpen()
	pt.joined.reset(pt.state)
	pt.suspects.reset(pt.state)
	at := pt.committed.Load()
	pt.noted = at
	pt.fill.reset(pt.state, at)
	pt.showState()
	pt.trimmer.always()
	pt.status.CommittedNow()
	// In this order: the main goroutine raises the epoch and then reads running, so
	// either it sends a rollback or we have the new epoch.
	pt.running.Store(true)
	pt.entry.Renew()
	if err := pt.resume(ctx, at); err != nil {
		return err
	}
	pt.exportState(true)
	pt.host.cfg.Metrics.Restored(pt.tp, int64(pt.state.Held()), time.Since(begin))
	w := &pt.work
	pt.log.Info("restored", "offset", at, "keys", pt.state.Keys.Len(), "took", time.Since(begin).Round(time.Millisecond),
		"changelog_bytes", pt.restorer.Bytes, "changelog_took", pt.restorer.Took.Round(time.Millisecond),
		"replayed", w.replayed, "replay_took", w.took.Round(time.Millisecond))
	return nil
}

// newState returns an empty state of the partition.
func (pt *partition) newState() *state.State {
	s := state.New(pt.mapping.State)
	pt.changed = nil // the new state has nothing of it
	s.SetSource(pt.tp.Topic, pt.tp.Partition)
	return s
}

// restoreWork counts what the last restore has read, for the log.
type restoreWork struct {
	replayed int64 // offsets of input read again
	took     time.Duration
}

func (pt *partition) tryRestore(ctx context.Context, off kafka.Offset) error {
	n, err := pt.restorer.TakeUp(ctx, off)
	pt.state, pt.leader, pt.wipe = n.State, n.Leader, n.Wipe
	pt.fresh.Store(off.Offset < 0)
	if err != nil {
		return err
	}
	if n.From != noReplay {
		began := time.Now()
		var unreadable *UnreadableError
		switch err := pt.replay(ctx, &n.Floor, n.From, n.At); {
		case errors.As(err, &unreadable):
			if err := pt.restorer.Unreadable(ctx, n, unreadable); err != nil {
				return err
			}
			pt.state, pt.leader, pt.wipe = n.State, n.Leader, n.Wipe
			pt.batch.Reset()
		case err != nil:
			return err
		default:
			pt.work.replayed, pt.work.took = n.At-n.Floor.Offset, time.Since(began)
			pt.state.EndReplay()
			pt.lostSuspects(&n.Floor)
		}
	}
	pt.takeChanges()
	if other := pt.state.Rules.OtherwiseJudged(); len(other) > 0 {
		pt.log.Warn("scores were judged by other settings so far; those of this worker hold from the next record on, by a decision in "+
			"the changelog; expected once after a change, but not if workers of the group have different settings",
			"offset", n.At, "detectors", strings.Join(other, ","))
	}
	if other := pt.state.OtherwiseRead(); len(other) > 0 {
		pt.log.Warn("records were read by other settings so far; those of this worker hold from the next record on, by a decision in the "+
			"changelog; expected once after a change, but not if workers of the group have different settings",
			"offset", n.At, "differ", strings.Join(other, ","))
	}
	if err := pt.readCarried(ctx, n.At); err != nil {
		return err
	}
	pt.setStart(n.At, n.Commit)
	pt.side.stop.Begin(n.At, off.Metadata)
	return nil
}

// readCarried reads the headers to carry of the last records before offset end, where the partition resumes: samples
// that are not scored yet are of those records. Records that retention has deleted have none.
func (pt *partition) readCarried(ctx context.Context, end int64) error {
	pt.carried.Reset()
	if !pt.carried.Any() || pt.forward || end <= 0 {
		return nil
	}
	first, err := pt.restorer.List(ctx, pt.tp, kafka.Earliest)
	if err != nil {
		return err
	}
	return pt.restorer.Read(ctx, pt.tp, max(first, end-cycle.CarryWindow), end, func(rec *record.Record) error {
		pt.carried.Note(rec)
		return nil
	})
}

// replay folds the input from floor to end, scoring where carries need it. It
// begins to read at the first suspect of the floor.
func (pt *partition) replay(ctx context.Context, floor *state.Floor, from, end int64) error {
	header := func(rec *record.Record) func(string) ([]byte, bool) {
		if pt.header == nil {
			pt.header = rec.Header
		}
		return pt.header
	}
	s := pt.state
	pt.header = nil
	defer func() { pt.header = nil }()
	err := pt.restorer.Read(ctx, pt.tp, from, end, func(rec *record.Record) error {
		if rec.Offset < floor.Offset && !floor.Suspect(rec.Offset) {
			return nil
		}
		if err := pt.readBy(s.ReadingOf(rec.Offset, pt.batch)); err != nil {
			return err
		}
		if pt.verdicts.condemned(s, rec, header(rec)) {
			return nil // as before
		}
		rec.Timestamp = cycle.Timestamp(rec)
		for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
			err := pt.reader.dec.Decode(ctx, rec.Key, rec.Value, rec.Timestamp, header(rec), &pt.reading)
			var de *schemas.DecodeError
			if errors.As(err, &de) && de.Retry && !pt.verdicts.gone(rec, de) {
				why, _ := whyHeld(err)
				pt.holds.begin(why, rec.Offset, err)
				if err := sleep(ctx, wait); err != nil {
					return err
				}
				continue
			}
			pt.holds.end()
			if de != nil && de.Absent { // else a verdict would stand
				return &UnreadableError{Why: fmt.Sprintf("the schema registry has no schema any more for the record at offset %d: %v",
					rec.Offset, de)}
			}
			if recall := rec.Offset < floor.Offset; err != nil || !recall && pt.checkReading(rec) != nil {
				return nil //nolint:nilerr // it was a dead letter before
			}
			break
		}
		return pt.fold(ctx, rec, rec.Offset < floor.Offset)
	})
	if err != nil {
		return err
	}
	s.Restore.EndInput(pt.batch)
	return pt.finish(ctx)
}

// fetchError handles the error of a fetch. If the position is not in the log any more,
// or the log is another one, everything before it is committed first. Then the partition
// is restored, which finds the gap and applies ODRADEK_OFFSET_LOST.
func (pt *partition) fetchError(ctx context.Context, c *kafka.Chunk) error {
	if !kafka.OffsetLost(c.Err) {
		return QuarantineOfFetch(kafka.Lacks(fmt.Errorf("processor: fetch input %s: %w", pt.tp, c.Err), kafka.OpRead, pt.tp.Topic))
	}
	for pt.committed.Load() < pt.position.Load() {
		pt.entry.Announce()
		if stop, err := pt.commands.wait(ctx, time.Millisecond); stop || err != nil || pt.entry.Stale() {
			pt.closeSource()
			return err
		}
	}
	offs, err := pt.host.committed(ctx, []kafka.TP{pt.tp})
	if err != nil {
		return err
	}
	return pt.restore(ctx, offs[pt.tp])
}
