package processor

import (
	"context"
	"errors"
	"time"

	"odradek/processor/keystate"
	"odradek/processor/metrics"
)

// How a partition puts what it has done into the open cycle. The main goroutine
// closes and commits it (commit.go).

// join makes everything folded so far a result of the open cycle.
func (pt *partition) join(ctx context.Context, next int64, fetched time.Time) error {
	s := pt.state
	c, err := pt.host.cycles.enter(ctx, pt.epoch)
	if err != nil {
		return err
	}
	defer pt.host.cycles.leave()
	r := result{next: next, leader: pt.leader, work: metrics.Work{Fetched: fetched}}
	r.work.Counts = pt.counts
	for i := range r.work.Counts.Outcomes {
		r.work.Counts.Outcomes[i] = s.Counts[i] - pt.counted[i]
	}
	pt.counted = s.Counts
	r.work.Counts.Suspects = pt.countSuspects(fetched)
	r.work.Counts.Evicted, pt.evicted = s.EvictedKeys-pt.evicted, s.EvictedKeys
	r.work.Counts.Early, pt.early = s.Early-pt.early, s.Early
	skipped := pt.it.Skipped()
	r.work.Counts.Aborted, r.work.Counts.Control = skipped.Aborted-pt.skipped.Aborted, skipped.Control-pt.skipped.Control
	pt.skipped = skipped
	bytes, err := pt.write(c, &r)
	if err != nil {
		err = stuckWrite(err)
		pt.spoil(c, err) // some of the results are in it, and their offset must not be without the rest
		return err
	}
	r.floor, r.work.Held = s.Floor(), int64(s.Held())
	pt.position.Store(next)
	pt.look()
	pt.logLate(fetched)
	pt.resetChunk()
	c.add(pt, r, bytes)
	pt.host.cycles.announce()
	return nil
}

// look shows the state as it is to Status.
func (pt *partition) look() {
	pt.keys.Store(int64(pt.state.Keys()))
	pt.heldNow.Store(int64(pt.state.Held()))
	pt.suspectNow.Store(int64(pt.state.HeldSuspects()))
	pt.lateNow.Store(pt.state.Counts[keystate.Late])
	pt.bytes.Store(pt.state.Bytes())
	pt.limit = pt.host.budget.limit(pt.tp, pt.state.Bytes())
	pt.maxTime.Store(pt.state.MaxTime())
}

// write puts the chunk's outputs and the state that is due into the cycle.
func (pt *partition) write(c *cycle, r *result) (bytes int, err error) {
	now := time.Now()
	for i := range Outputs {
		n, err := Outputs[i].write(pt, c, r, now)
		if err != nil {
			return 0, err
		}
		bytes += n
	}
	pt.state.Mark(r.next)
	if pt.forward {
		return bytes, nil
	}
	pt.arrivals.add(r.next, r.work.Fetched)
	want := pt.arrivals.before(r.work.Fetched.Add(-pt.host.cfg.ReplayLimit * 3 / 4))
	state, err := pt.writeState(c, want, c.room.state)
	return bytes + state, err
}

// handOverBytes bounds the state that is written at a hand-over.
const handOverBytes = 16 << 20

// lastSnapshot brings the changelog up to date before the partition is handed
// over, as far as that is quick, so that the next owner has little to replay. It
// waits until everything else of the partition is committed: a mark has one
// snapshot, and this one is of the cycle that comes after.
func (pt *partition) lastSnapshot(ctx context.Context) error {
	at := pt.position.Load()
	if pt.forward || pt.confined.Load() != nil || pt.state.Dirty() == 0 {
		return nil
	}
	for pt.committed.Load() < at {
		pt.host.cycles.announce()
		if stale, err := pt.hold(ctx, time.Millisecond); stale || err != nil || pt.stale() {
			return err // what is not committed is the next owner's to do again
		}
	}
	pt.noteCommitted()
	c, err := pt.host.cycles.enter(ctx, pt.epoch)
	if errors.Is(err, errStaleEpoch) {
		return nil
	}
	if err != nil {
		return err
	}
	defer pt.host.cycles.leave()
	bytes, err := pt.writeState(c, at, min(handOverBytes, 4*c.room.state))
	if err != nil {
		err = stuckWrite(err)
		pt.spoil(c, err)
		if pt.quarantine(err) {
			return nil // the next owner replays more, that is all
		}
		return err
	}
	c.add(pt, result{next: at, leader: pt.leader, floor: pt.state.Floor(),
		work: metrics.Work{Held: int64(pt.state.Held()), Fetched: time.Now()}}, bytes)
	pt.host.cycles.announce()
	return nil
}

// stale reports whether the partition's results are of an abandoned epoch.
func (pt *partition) stale() bool { return pt.epoch != pt.host.cycles.now() }
