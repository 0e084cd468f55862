package processor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"odradek/detectors"
	"odradek/processor/kafka"
	"odradek/processor/kafka/fetch"
	"odradek/processor/kafka/record"
	"odradek/processor/keystate"
	"odradek/processor/limits"
	"odradek/processor/policy"
	"odradek/processor/provenance"
	"odradek/schemas"
)

// restore rebuilds the partition's state from what is committed: the changelog
// up to its end, then the input from the replay floor to the committed offset.
// It publishes nothing. A rollback gives the same state from memory, and a test
// compares the two.
func (pt *partition) restore(ctx context.Context, off kafka.Offset) error {
	begin := time.Now()
	pt.running.Store(false)
	pt.status.ClearHold()
	pt.confined.Store(nil)
	pt.closeSource()
	pt.wipe, pt.arrivals, pt.work = nil, limits.Arrivals{}, restoreWork{}
	pt.changelog.bytes = 0
	fctx, stop := context.WithCancel(ctx)
	defer stop()
	go pt.status.FollowEnds(fctx, pt.host.cfg.Client)
	for try := 0; ; try++ {
		pt.status.SetRestoring(off.Offset)
		err := pt.tryRestore(ctx, off)
		if err == nil {
			break
		}
		// Input that is deleted while it is replayed is missing in the next try.
		if !errors.Is(err, keystate.ErrAhead) && (try == 20 || !fetch.OffsetLost(err)) {
			return err
		}
		if try == 20 {
			return &policy.RefusedError{TP: pt.tp, Reason: fmt.Sprintf("%v (%d): was the group's offset set back by hand?", err, off.Offset),
				Decide: "worker state reset"}
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
	pt.resetChunk()
	pt.batch.Reset()
	pt.countOpen()
	pt.joined.reset(pt.state)
	pt.resetSuspects()
	at := pt.committed.Load()
	pt.noted = at
	pt.backfill.reset(pt.state, at)
	pt.showState()
	pt.limit = -1 // trim runs before the first record
	pt.status.CommittedNow()
	// In this order: the main goroutine raises the epoch and then reads running, so
	// either it sends a rollback or we have the new epoch.
	pt.running.Store(true)
	pt.setEpoch()
	if err := pt.resume(ctx, at); err != nil {
		return err
	}
	pt.exportState(true)
	pt.host.cfg.Metrics.Restored(pt.tp, int64(pt.state.Held()), time.Since(begin))
	w := &pt.work
	pt.log.Info("restored", "offset", at, "keys", pt.state.Keys.Len(), "took", time.Since(begin).Round(time.Millisecond),
		"changelog_bytes", pt.changelog.bytes, "changelog_took", pt.changelog.took.Round(time.Millisecond),
		"replayed", w.replayed, "replay_took", w.took.Round(time.Millisecond))
	return nil
}

// newState returns an empty state of the partition.
func (pt *partition) newState() *keystate.State {
	s := keystate.New(pt.host.cfg.State)
	s.SetSource(pt.tp.Topic, pt.tp.Partition)
	pt.windows.Close()
	if c, ok := pt.host.cfg.Executor.(detectors.CachingExecutor); ok {
		pt.windows = c.WindowCache()
		s.SetWindowCache(pt.windows)
	}
	return s
}

// restoreWork counts what the last restore has read, for the log.
type restoreWork struct {
	replayed int64 // offsets of input read again
	took     time.Duration
}

func (pt *partition) tryRestore(ctx context.Context, off kafka.Offset) error {
	g, err := pt.takeUp(ctx, off)
	if g == nil || err != nil {
		return err
	}
	began := time.Now()
	if err := pt.replay(ctx, &g.floor, max(g.floor.From(), g.starts), off.Offset); err != nil {
		return err
	}
	pt.work.replayed, pt.work.took = off.Offset-g.floor.Offset, time.Since(began)
	pt.state.EndReplay()
	pt.lostSuspects(&g.floor)
	pt.setStart(off.Offset, false)
	return nil
}

// ground has the offsets at which a replay begins.
type ground struct {
	floor  keystate.Floor
	starts int64 // the log's start
}

// takeUp decides how the partition resumes from what is committed, and loads the state
// for it. All refusals are made here, for a restore and for Examine, which `worker check`
// shows. It writes nothing. ground is nil where no input is to be replayed.
func (pt *partition) takeUp(ctx context.Context, off kafka.Offset) (*ground, error) {
	pt.state = pt.newState()
	pt.leader = off.Epoch
	pt.fresh.Store(off.Offset < 0)
	if pt.forward {
		// A partition whose records are only sent on has no state.
		if off.Offset < 0 {
			at, err := pt.startOffset(ctx)
			if err != nil {
				return nil, err
			}
			pt.setStart(at, true)
			return nil, nil
		}
		if _, lost, err := pt.bounds(ctx, off); lost || err != nil {
			return nil, err
		}
		pt.setStart(off.Offset, false)
		return nil, nil
	}
	state, stored, err := pt.changelog.load(ctx, off.Offset < 0)
	pt.state = state
	if err != nil {
		return nil, err
	}
	same := pt.changelog.identify(off.Metadata)
	if off.Offset < 0 {
		if len(stored) > 0 {
			return nil, pt.stateLost(ctx, stored,
				"the group has no committed offset for it (they expire when a group is away for long), but there is state", StartEarliest, false)
		}
		return nil, pt.begin(ctx)
	}
	floor, err := keystate.ParseFloor(off.Metadata)
	if err != nil {
		return nil, pt.stateLost(ctx, stored, fmt.Sprintf("offset %d was committed without a replay floor (by another program?)",
			off.Offset), off.Offset, true)
	}
	if begun, err := pt.refilled(ctx, off, &floor); begun || err != nil {
		return nil, err
	}
	starts, lost, err := pt.bounds(ctx, off)
	switch {
	case lost || err != nil:
		return nil, err
	case !same:
		return nil, pt.stateLost(ctx, stored, fmt.Sprintf("the changelog %s is not the one that offset %d was committed with: "+
			"it was deleted and made again, or its first records were deleted (is its cleanup.policy compact?)",
			pt.changelog.tp(), off.Offset), off.Offset, true)
	case floor.Offset < starts && floor.Offset < off.Offset:
		return nil, pt.stateLost(ctx, stored, fmt.Sprintf("its state needs the input from offset %d, and the log begins at %d", floor.Offset,
			starts), off.Offset, true)
	}
	if err := pt.state.BeginReplay(floor, off.Offset, pt.host.cfg.Guarantee == AtLeastOnce); err != nil {
		switch {
		case errors.Is(err, keystate.ErrAhead):
			return nil, err
		case errors.Is(err, keystate.ErrMismatch):
			return nil, pt.changelog.settings.Refuse(pt.tp, err)
		}
		return nil, fmt.Errorf("processor: %s/%d: restore: %w", pt.tp.Topic, pt.tp.Partition, err)
	}
	if m := pt.state.Restore.Mismatched; len(m) > 0 {
		pt.log.Warn("state that was made with other settings is emptied (ODRADEK_STATE_MISMATCH=reset)", "emptied", provenance.Emptied(m),
			"because", pt.changelog.settings.Causes(m))
	}
	return &ground{floor, starts}, nil
}

// replay folds the input from floor to end, scoring where carries need it. It
// begins to read at the first suspect of the floor.
func (pt *partition) replay(ctx context.Context, floor *keystate.Floor, from, end int64) error {
	header := func(rec *record.Record) func(string) ([]byte, bool) {
		if pt.header == nil {
			pt.header = rec.Header
		}
		return pt.header
	}
	s := pt.state
	pt.header = nil
	defer func() { pt.header = nil }()
	err := pt.logs.read(ctx, pt.tp, from, end, func(rec *record.Record) error {
		if rec.Offset < floor.Offset && !floor.Suspect(rec.Offset) {
			return nil
		}
		if pt.condemned(rec, header(rec)) {
			return nil // as before
		}
		for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
			err := pt.dec.Decode(ctx, rec.Key, rec.Value, rec.Timestamp, header(rec), &pt.reading)
			var de *schemas.DecodeError
			if errors.As(err, &de) && de.Retry && !pt.gone(rec, de) {
				why, _ := whyHeld(err)
				pt.held(why, rec.Offset, err)
				if err := sleep(ctx, wait); err != nil {
					return err
				}
				continue
			}
			pt.released()
			if err != nil || pt.checkReading(rec) != nil {
				return nil //nolint:nilerr // it was a dead letter before
			}
			break
		}
		if err := pt.makeRoom(ctx); err != nil {
			return err
		}
		sample := keystate.Sample{Key: pt.reading.Key, Time: pt.reading.Time, Offset: rec.Offset, Values: pt.reading.Values}
		if rec.Offset < floor.Offset {
			s.Suspects.Recall(&sample)
		} else {
			s.Fold(&sample, pt.batch)
		}
		pt.attachSuspect(rec)
		return nil
	})
	if err != nil {
		return err
	}
	s.Restore.EndInput()
	return pt.finish(ctx)
}

// bounds returns the first offset of the log. lost reports that off is not in it, or
// follows records that are not, and that ODRADEK_OFFSET_LOST has been applied.
func (pt *partition) bounds(ctx context.Context, off kafka.Offset) (start int64, lost bool, err error) {
	if lost, err := pt.diverged(ctx, off); lost || err != nil {
		return 0, lost, err
	}
	offset := off.Offset
	if start, err = pt.listOffset(ctx, StartEarliest); err != nil {
		return 0, false, err
	}
	for try := 0; ; try++ {
		end, err := pt.listOffset(ctx, StartLatest)
		switch {
		case err != nil:
			return 0, false, err
		case offset < start:
			return start, true, pt.offsetLost(ctx, lostOffset{offset: offset, logStart: start, earliest: start, count: start - offset,
				why: fmt.Sprintf("offset %d is not in the log, which begins at %d: retention has deleted input that was not read", offset, start)})
		case offset <= end:
			return start, false, nil
		case try == 2: // a leader that has just been elected may not know its end
			return start, true, pt.offsetLost(ctx, lostOffset{offset: offset, logStart: start, earliest: start,
				why: fmt.Sprintf("offset %d is not in the log, which ends at %d: the topic was made anew, or its last records were lost", offset, end)})
		}
		if err := sleep(ctx, time.Second); err != nil {
			return 0, false, err
		}
	}
}

// stateLost applies ODRADEK_STATE_LOST to state that cannot be rebuilt: it is refused, or
// emptied.
func (pt *partition) stateLost(ctx context.Context, stored map[string]struct{}, reason string, at int64, known bool) error {
	if pt.host.cfg.StateLost == policy.Fail {
		return &policy.RefusedError{TP: pt.tp, Reason: reason, Decide: "worker state reset, or ODRADEK_STATE_LOST=reset"}
	}
	if !known {
		var err error
		if at, err = pt.startOffset(ctx); err != nil {
			return err
		}
	}
	pt.log.Error("state cannot be rebuilt, resuming with empty state", "reason", reason, "at", at)
	return pt.empty(ctx, stored, at, 0)
}

// empty resumes at offset at without state, and with what is below backfill as a backfill. The
// content of the changelog is deleted in the transaction that commits the start.
func (pt *partition) empty(ctx context.Context, stored map[string]struct{}, at, backfill int64) error {
	pt.leader = 0
	if pt.forward {
		pt.setStart(at, true)
		return nil
	}
	if stored == nil {
		var err error
		if _, stored, err = pt.changelog.load(ctx, true); err != nil {
			return err
		}
		pt.changelog.identify("")
	}
	pt.state = pt.newState()
	pt.state.BackfillTo(backfill)
	pt.wipe = make([][]byte, 0, len(stored))
	for k := range stored {
		pt.wipe = append(pt.wipe, []byte(k))
	}
	pt.setStart(at, true)
	return nil
}

// startOffset returns the offset that ODRADEK_START names.
func (pt *partition) startOffset(ctx context.Context) (int64, error) {
	return pt.listOffset(ctx, pt.host.cfg.Start)
}

func (pt *partition) listOffset(ctx context.Context, at int64) (int64, error) {
	return pt.logs.list(ctx, pt.tp, at)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// fetchError handles the error of a fetch. If the position is not in the log any more,
// or the log is another one, everything before it is committed first. Then the partition
// is restored, which finds the gap and applies ODRADEK_OFFSET_LOST.
func (pt *partition) fetchError(ctx context.Context, c *fetch.Chunk) error {
	if !fetch.OffsetLost(c.Err) {
		return stuckFetch(fmt.Errorf("processor: fetch %s/%d: %w", pt.tp.Topic, pt.tp.Partition, c.Err))
	}
	for pt.committed.Load() < pt.position.Load() {
		pt.host.cycles.announce()
		if stop, err := pt.commands.wait(ctx, time.Millisecond); stop || err != nil || pt.stale() {
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
