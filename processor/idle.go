package processor

import (
	"context"
	"time"
)

// A partition whose log has ended for Config.IdleAfter is idle, and its watermark goes on by the wall clock: its owner
// decides that the largest event time has grown by as much as the partition has been without records (state.Advance).
// Event times keep their distance from the clock that way, however large it is. The decision is made when something follows from
// it: held samples are released, a window of a grid ends, or a series becomes silent.
//
// It is committed in a cycle of its own, at the offset that is committed already. If that cycle fails, the offset does not
// tell whether it was committed all the same, so the partition is restored instead of rolled back.

// idleEvery is the longest time between two checks of a partition that may be idle.
const idleEvery = time.Second

// idleness is what a partition knows of how long it has been idle. One goroutine uses it.
type idleness struct {
	after time.Duration // Config.IdleAfter; 0: partitions are never idle
	// advance is called from time to time, where after is above 0.
	advance func(context.Context) error
	since   time.Time // since when there is no record
	base    int64     // the largest event time then
	based   bool      // base is set
}

// The values of partition.advance.
const (
	noAdvance        int32 = iota
	advanceJoined          // it is in a cycle, or about to be
	advanceCommitted       // and committed, which the state does not know yet
)

// idleTicks returns when to check whether the partition is idle; nil without idle partitions.
func (pt *partition) idleTicks() (ticks <-chan time.Time, stop func()) {
	if pt.idle.after == 0 {
		return nil, func() {}
	}
	t := time.NewTicker(max(time.Millisecond, min(idleEvery, pt.idle.after/4)))
	return t.C, t.Stop
}

// busy notes that the partition is not idle at a time.
func (pt *partition) busy(at time.Time) { pt.idle.since, pt.idle.based = at, false }

// advanceIdle advances the watermark where the partition is idle.
func (f *folder) advanceIdle(ctx context.Context) error {
	now, at, i := time.Now(), f.pt.position.Load(), &f.pt.idle
	if f.pt.source == nil || f.pt.waiting || f.pt.confined.Load() != nil || !f.pt.running.Load() {
		f.pt.busy(now)
		return nil
	}
	seen := f.pt.source.Seen()
	if seen.Lost || seen.LastStable != at || seen.HighWatermark > at {
		f.pt.busy(now)
		return nil
	}
	if i.since.IsZero() || f.pt.committed.Load() != at || f.pt.handle.Stale() {
		return nil
	}
	idle := now.Sub(i.since) - seen.Age
	if !i.based {
		i.base, i.based = f.state.MaxTime(), true
	}
	if idle < i.after {
		return nil
	}
	to := i.base + idle.Microseconds()
	if f.noteCommitted(); to < f.state.NextAdvance() || !f.state.DecideAdvance(to) {
		return nil
	}
	if err := f.finish(ctx); err != nil {
		return err
	}
	f.pt.log.Debug("idle, the watermark advances", "offset", at, "event_time", time.UnixMicro(to).UTC(), "idle",
		idle.Round(time.Millisecond))
	f.pt.advance.Store(advanceJoined)
	if err := f.pt.join(ctx, at, now); err != nil {
		return err
	}
	for f.pt.advance.Load() == advanceJoined {
		f.pt.handle.Announce()
		if stop, err := f.pt.commands.wait(ctx, time.Millisecond); stop || err != nil {
			return err
		}
	}
	f.noteCommitted()
	return nil
}
