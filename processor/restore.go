package processor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"odradek/detectors"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/keystate"
	"odradek/schemas"
)

// restore rebuilds the partition's state from what is committed: the changelog
// up to its end, then the input from the replay floor to the committed offset.
// It publishes nothing. Rollback is its twin in memory, and a test holds the
// two equal.
func (pt *partition) restore(ctx context.Context, off kafka.Offset) error {
	begin := time.Now()
	pt.running.Store(false)
	pt.onHold.Store(nil)
	pt.confined.Store(nil)
	pt.closeSource()
	pt.wipe, pt.arrivals, pt.work = nil, arrivals{}, restoreWork{}
	fctx, stop := context.WithCancel(ctx)
	defer stop()
	go pt.restoring.follow(fctx, pt.host.cfg.Client, pt.tp)
	for try := 0; ; try++ {
		pt.restoring.committed.Store(off.Offset)
		err := pt.tryRestore(ctx, off)
		if err == nil {
			break
		}
		// Input that goes while it is replayed is found missing by the next try.
		if !errors.Is(err, keystate.ErrAhead) && (try == 20 || !kafka.OffsetLost(err)) {
			return err
		}
		if try == 20 {
			return &RefusedError{TP: pt.tp, Reason: fmt.Sprintf("%v (%d): was the group's offset set back by hand?", err, off.Offset),
				Decide: "worker state reset"}
		}
		// The changelog is ahead of the offset: another member committed between
		// the two reads (it was still the owner). Ask again.
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
	pt.counted, pt.evicted, pt.early = pt.state.Counts, pt.state.EvictedKeys, pt.state.Early
	pt.resetSuspects()
	at := pt.committed.Load()
	pt.noted = at
	pt.look()
	pt.limit = -1 // trim looks before the first record
	pt.committedAt.Store(time.Now().UnixNano())
	// In this order: the main goroutine raises the epoch and then looks at
	// running, so either it tells us to go back or we have the new epoch.
	pt.running.Store(true)
	pt.setEpoch()
	if err := pt.goFrom(ctx, at); err != nil {
		return err
	}
	pt.exportState(true)
	pt.host.cfg.Metrics.Restored(pt.tp, pt.heldNow.Load(), time.Since(begin))
	w := &pt.work
	pt.log.Info("restored", "offset", at, "keys", pt.state.Keys(), "took", time.Since(begin).Round(time.Millisecond),
		"changelog_bytes", w.bytes, "changelog_took", w.loadTook.Round(time.Millisecond),
		"replayed", w.replayed, "replay_took", w.replayTook.Round(time.Millisecond))
	return nil
}

// newState is an empty state of the partition.
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

// restoreWork is what the last restore has read, for the log.
type restoreWork struct {
	bytes, replayed      int64 // of the changelog's keys and values; offsets of input read again
	loadTook, replayTook time.Duration
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
	pt.work.replayed, pt.work.replayTook = off.Offset-g.floor.Offset, time.Since(began)
	pt.state.EndReplay()
	pt.lostSuspects(&g.floor)
	return pt.begin(off.Offset, false)
}

// ground is where a replay begins.
type ground struct {
	floor  keystate.Floor
	starts int64 // the log's start
}

// takeUp decides how the partition goes on from what is committed, and loads the state
// for it. Everything that is refused is refused here, whoever asks: a restore, or
// Examine, which `worker check` shows. It writes nothing. ground is nil where no input
// is to be replayed.
func (pt *partition) takeUp(ctx context.Context, off kafka.Offset) (*ground, error) {
	pt.state = pt.newState()
	pt.leader = off.Epoch
	pt.fresh.Store(off.Offset < 0)
	if pt.forward {
		// Nothing is remembered of a partition that is only sent on.
		if off.Offset < 0 {
			at, err := pt.startOffset(ctx)
			if err != nil {
				return nil, err
			}
			return nil, pt.begin(at, true)
		}
		if _, lost, err := pt.bounds(ctx, off); lost || err != nil {
			return nil, err
		}
		return nil, pt.begin(off.Offset, false)
	}
	stored, err := pt.loadChangelog(ctx, off.Offset < 0)
	if err != nil {
		return nil, err
	}
	same := pt.identify(off.Metadata)
	if off.Offset < 0 {
		if len(stored) > 0 {
			return nil, pt.giveUp(ctx, stored,
				"the group has no committed offset for it (they expire when a group is away for long), but there is state", StartEarliest, false)
		}
		at, err := pt.startOffset(ctx)
		if err != nil {
			return nil, err
		}
		return nil, pt.begin(at, true)
	}
	floor, err := keystate.ParseFloor(off.Metadata)
	if err != nil {
		return nil, pt.giveUp(ctx, stored, fmt.Sprintf("offset %d was committed without a replay floor (by another program?)",
			off.Offset), off.Offset, true)
	}
	starts, lost, err := pt.bounds(ctx, off)
	switch {
	case lost || err != nil:
		return nil, err
	case !same:
		return nil, pt.giveUp(ctx, stored, fmt.Sprintf("the changelog %s is not the one that offset %d was committed with: it was deleted and "+
			"made again, or its first records were deleted (is its cleanup.policy compact?)",
			pt.changelogTP(), off.Offset), off.Offset, true)
	case floor.Offset < starts && floor.Offset < off.Offset:
		return nil, pt.giveUp(ctx, stored, fmt.Sprintf("its state needs the input from offset %d, and the log begins at %d", floor.Offset,
			starts), off.Offset, true)
	}
	if err := pt.state.BeginReplay(floor, off.Offset, pt.host.cfg.Guarantee == AtLeastOnce); err != nil {
		switch {
		case errors.Is(err, keystate.ErrAhead):
			return nil, err
		case errors.Is(err, keystate.ErrMismatch):
			return nil, pt.refuseMismatched(err)
		}
		return nil, fmt.Errorf("processor: %s/%d: restore: %w", pt.tp.Topic, pt.tp.Partition, err)
	}
	pt.tellMismatched()
	return &ground{floor, starts}, nil
}

// changelogTP is the partition's changelog.
func (pt *partition) changelogTP() kafka.TP {
	return kafka.TP{Topic: pt.host.outputs.changelogs[pt.tp.Topic].name, Partition: pt.tp.Partition}
}

// loadChangelog feeds the partition's changelog to the state, which is empty,
// and returns the keys that are stored in it if they are wanted: they take memory.
func (pt *partition) loadChangelog(ctx context.Context, wanted bool) (map[string]struct{}, error) {
	var fit fitting
	for {
		stored, err := pt.readChangelog(ctx, wanted, &fit)
		if errors.Is(err, errOverBudget) {
			if err = pt.measure(ctx, &fit); err == nil {
				continue
			}
		}
		if !kafka.OffsetLost(err) {
			return stored, err
		}
		// The log's start has moved past what was being read (compaction or
		// retention), or a new leader's log is another one. What was deleted may
		// supersede what is loaded already.
		pt.log.Info("the changelog was cut while it was read, beginning again", "err", err)
		pt.state, fit = pt.newState(), fitting{}
	}
}

func (pt *partition) readChangelog(ctx context.Context, wanted bool, fit *fitting) (map[string]struct{}, error) {
	tp := pt.changelogTP()
	pt.owner, pt.made = owned{}, nil
	if int(tp.Partition) >= pt.host.outputs.changelogs[pt.tp.Topic].partitions {
		return nil, nil // Examine, before the changelog is made
	}
	from, err := pt.list(ctx, tp, StartEarliest)
	if err != nil {
		return nil, err
	}
	// To the end of the log, not to the last stable offset of now: below it may
	// be the outcome of a transaction that is still being decided.
	to, err := pt.list(ctx, tp, StartLatest)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	defer func() { pt.work.loadTook = time.Since(began) }()
	var stored map[string]struct{}
	if wanted {
		stored = map[string]struct{}{}
	}
	err = pt.read(ctx, tp, from, to, func(rec *record.Record) error {
		pt.work.bytes += int64(len(rec.Key) + len(rec.Value))
		if rec.Key == nil {
			return nil
		}
		switch key := string(rec.Key); {
		case key == OwnerKey:
			return pt.loadOwner(tp, rec.Value)
		case key == SettingsKey:
			pt.loadSettings(rec.Value)
			return nil
		case AboutLog(key):
			return nil // of a later version
		}
		if rec.Value == nil {
			delete(stored, string(rec.Key))
		} else if _, ok := stored[string(rec.Key)]; !ok && wanted {
			stored[string(rec.Key)] = struct{}{}
		}
		if err := pt.state.Load(rec.Key, rec.Value); err != nil {
			return &RefusedError{TP: pt.tp, Reason: fmt.Sprintf("changelog %s/%d at offset %d: %v", tp.Topic, tp.Partition, rec.Offset, err),
				Decide: "worker state reset, or ODRADEK_STATE_MISMATCH=reset"}
		}
		return pt.fits(fit)
	})
	return stored, err
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
	err := pt.read(ctx, pt.tp, from, end, func(rec *record.Record) error {
		if rec.Offset < floor.Offset && !floor.Suspect(rec.Offset) {
			return nil
		}
		if pt.condemned(rec, header(rec)) {
			return nil // it was when it was live
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
				return nil //nolint:nilerr // it was a dead letter when it was live
			}
			break
		}
		if err := pt.makeRoom(ctx); err != nil {
			return err
		}
		sample := keystate.Sample{Key: pt.reading.Key, Time: pt.reading.Time, Offset: rec.Offset, Values: pt.reading.Values}
		if rec.Offset < floor.Offset {
			s.Recall(&sample)
		} else {
			s.Fold(&sample, pt.batch)
		}
		pt.holdSuspect(rec)
		return nil
	})
	if err != nil {
		return err
	}
	s.EndInput()
	return pt.finish(ctx)
}

// read calls fn for the visible records of tp in [from, to). It ends by
// position: the last records may be markers, aborted or compacted away. A batch of
// the input that cannot be read is passed over, as it was live; state that cannot
// be read is the operator's to decide about.
func (pt *partition) read(ctx context.Context, tp kafka.TP, from, to int64, fn func(*record.Record) error) error {
	if from >= to {
		return nil
	}
	src := pt.host.fetcher.Add(tp, from)
	defer func() { src.Close() }()
	pt.watched.Store(src)
	defer pt.watched.Store(nil)
	pt.remaining.Store(to - from)
	defer pt.remaining.Store(0)
	var it record.Iterator
	pt.header = nil
	defer func() { pt.header = nil }()
	for {
		var c *kafka.Chunk
		select {
		case <-ctx.Done():
			return ctx.Err()
		case c = <-src.C():
		}
		if c == nil {
			return fmt.Errorf("processor: read %s/%d: the fetcher ended", tp.Topic, tp.Partition)
		}
		if c.Err != nil {
			return pt.unread(tp, fmt.Errorf("processor: read %s/%d: %w", tp.Topic, tp.Partition, c.Err))
		}
		it.Reset(&c.Chunk)
		pt.remaining.Store(to - c.From)
		var err error
		advance := it.Next
		if tp == pt.tp {
			advance = func() bool { return nextReplayed(&it) }
		}
		for err == nil && advance() {
			rec := it.Record()
			if rec.Offset >= to {
				break
			}
			err = fn(rec)
		}
		if err == nil && it.Err() != nil {
			err = pt.unread(tp, it.Err())
		}
		next := it.NextOffset()
		c.Release()
		if err != nil {
			return err
		}
		if next >= to {
			return nil
		}
		if it.Cut() {
			src.Close()
			src = pt.host.fetcher.Add(tp, next)
			pt.watched.Store(src)
		}
	}
}

// bounds returns where the log begins. lost reports that the offset is not in it,
// or follows records that are not, and that ODRADEK_OFFSET_LOST has been applied.
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

// giveUp applies ODRADEK_STATE_LOST: state that cannot be rebuilt is an
// explanation and a stop, or is emptied.
func (pt *partition) giveUp(ctx context.Context, stored map[string]struct{}, reason string, at int64, known bool) error {
	if pt.host.cfg.StateLost == Fail {
		return &RefusedError{TP: pt.tp, Reason: reason, Decide: "worker state reset, or ODRADEK_STATE_LOST=reset"}
	}
	if !known {
		var err error
		if at, err = pt.startOffset(ctx); err != nil {
			return err
		}
	}
	pt.log.Error("state given up, going on with empty state", "reason", reason, "at", at)
	return pt.empty(ctx, stored, at)
}

// empty goes on at offset at without state; what the changelog holds is deleted
// in the transaction that commits that.
func (pt *partition) empty(ctx context.Context, stored map[string]struct{}, at int64) error {
	pt.leader = 0
	if pt.forward {
		return pt.begin(at, true)
	}
	if stored == nil {
		pt.state = pt.newState()
		var err error
		if stored, err = pt.loadChangelog(ctx, true); err != nil {
			return err
		}
		pt.identify("")
	}
	pt.state = pt.newState()
	pt.wipe = make([][]byte, 0, len(stored))
	for k := range stored {
		pt.wipe = append(pt.wipe, []byte(k))
	}
	return pt.begin(at, true)
}

// startOffset is where ODRADEK_START points.
func (pt *partition) startOffset(ctx context.Context) (int64, error) {
	return pt.listOffset(ctx, pt.host.cfg.Start)
}

func (pt *partition) listOffset(ctx context.Context, at int64) (int64, error) {
	return pt.list(ctx, pt.tp, at)
}

// list is ListOffsets with patience: leaders move.
func (pt *partition) list(ctx context.Context, tp kafka.TP, at int64) (int64, error) {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		cctx, cancel := context.WithTimeout(ctx, 15*time.Second)
		m, err := pt.host.cfg.Client.ListOffsets(cctx, []kafka.TP{tp}, at)
		cancel()
		if err == nil {
			pt.trouble.over(pt.log, "offsets "+tp.Topic)
			if off, ok := m[tp]; ok && off >= 0 {
				return off, nil
			}
			if at >= 0 {
				return pt.list(ctx, tp, StartLatest) // no record that late
			}
			err = errors.New("no offset in the answer")
		}
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		if c := kafka.ClassOf(err); c == kafka.Fatal {
			err = fmt.Errorf("processor: offsets of %s/%d: %w", tp.Topic, tp.Partition, err)
			if kafka.Unauthorized(err) {
				err = &stuckError{reasonUnauthorized, err}
			}
			return 0, err
		}
		pt.trouble.warn(pt.log, "offsets "+tp.Topic, "offsets cannot be listed yet", "of", tp.Topic, "err", err)
		if err := sleep(ctx, wait); err != nil {
			return 0, err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// fetchError handles a chunk that is an error. If the position is not in the log
// any more, or the log is another one, all before it is committed first; then the
// partition is restored from there, which finds the gap and does what
// ODRADEK_OFFSET_LOST says.
func (pt *partition) fetchError(ctx context.Context, c *kafka.Chunk) error {
	if !kafka.OffsetLost(c.Err) {
		return stuckFetch(fmt.Errorf("processor: fetch %s/%d: %w", pt.tp.Topic, pt.tp.Partition, c.Err))
	}
	for pt.committed.Load() < pt.position.Load() {
		pt.host.cycles.announce()
		if stop, err := pt.hold(ctx, time.Millisecond); stop || err != nil || pt.stale() {
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
