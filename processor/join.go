package processor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"odradek/processor/anomaly"
	"odradek/processor/cycle"
	"odradek/processor/kafka/record"
	"odradek/processor/metrics"
	"odradek/processor/state"
)

// This file adds the results of a partition to the open cycle. The main goroutine closes
// and commits the cycle (commit.go).

// join adds the results of everything folded so far to the open cycle. The next record is
// at offset next; the chunk was fetched at the time fetched.
func (pt *partition) join(ctx context.Context, next int64, fetched time.Time) error {
	s := pt.state
	c, err := pt.entry.Enter(ctx)
	if err != nil {
		return err
	}
	defer pt.entry.Leave()
	return pt.into(c, func() error {
		r := cycle.Result{Next: next, Leader: pt.leader, Work: metrics.Work{Fetched: fetched}, Advance: pt.advance.Load() == advanceJoined}
		r.Work.Counts, r.Traceparents = pt.counts, pt.traces.Take()
		pt.joined.take(s, pt.it.Skipped(), &r.Work.Counts)
		r.Work.Counts.Suspects = pt.suspects.count(s, fetched, pt.position.Load(), pt.log)
		bytes, err := pt.write(c, &r)
		if err != nil {
			return err
		}
		r.Floor, r.Work.Held = s.Floor(), int64(s.Held())
		pt.position.Store(next)
		pt.showState()
		if pt.fill.note(next, &r.Work.Counts) {
			pt.backfilled(next)
		}
		logLate(pt.log, &pt.side.lates, fetched, pt.mapping.State.Reading.Lateness, pt.host.cfg.Outputs[cycle.Late])
		pt.reset()
		pt.side.stop.Join(next, pt.committed.Load())
		pt.addTo(c, &r, bytes)
		return nil
	})
}

// into has add add results to c, and signals that to the main goroutine. If add fails, or panics, c has a part of the
// results, and must not be committed without the others.
func (pt *partition) into(c *cycle.Cycle[*partition], add func() error) error {
	err := QuarantineOfWrite(Contain(add))
	if err != nil {
		pt.entry.Spoil(c, err)
		return err
	}
	pt.entry.Announce()
	return nil
}

// addTo adds the results of the partition up to r.Next to c.
func (pt *partition) addTo(c *cycle.Cycle[*partition], r *cycle.Result, bytes int) {
	r.Incarnation, r.Window = pt.restorer.Owner.Incarnation, pt.side.stop.Window()
	c.Add(pt, r, bytes)
}

// joined holds the counts of the state, which only grow, as of the last time that they joined a cycle.
type joined struct {
	outcomes       state.Counts   // of the state
	evicted, early int64          // its EvictedKeys and Early
	skipped        record.Skipped // of the chunk
}

// take sets the counts in c that are new since the last call.
func (j *joined) take(s *state.State, skipped record.Skipped, c *metrics.Counts) {
	for i := range c.Outcomes {
		c.Outcomes[i] = s.Counts[i] - j.outcomes[i]
	}
	c.Evicted, c.Early = s.EvictedKeys-j.evicted, s.Early-j.early
	c.Aborted, c.Control = skipped.Aborted-j.skipped.Aborted, skipped.Control-j.skipped.Control
	j.reset(s)
	j.skipped = skipped
}

// reset begins with the counts of a state that was restored or rolled back.
func (j *joined) reset(s *state.State) {
	j.outcomes, j.evicted, j.early = s.Counts, s.EvictedKeys, s.Early
}

// showState shows the state as it is now to Status, and renews its limit of memory.
func (pt *partition) showState() {
	pt.status.SetState(pt.state)
	pt.trimmer.note(pt.state)
}

// write adds the chunk's outputs to the cycle, and the snapshots that are due.
func (pt *partition) write(c *cycle.Cycle[*partition], r *cycle.Result) (bytes int, err error) {
	bytes, err = pt.side.writer.Write(c.Payload, pt.state, &r.Work, time.Now())
	if err != nil {
		return 0, err
	}
	pt.open.change(pt.state.Events)
	pt.state.Mark(r.Next)
	if pt.forward {
		return bytes, nil
	}
	pt.arrivals.Add(r.Next, r.Work.Fetched)
	want := pt.arrivals.Before(r.Work.Fetched.Add(-pt.host.cfg.ReplayLimit * 3 / 4))
	state, err := pt.writeState(c, want, c.Room.State)
	return bytes + state, err
}

// writeState adds snapshots of keys to the cycle until the replay floor is at want, or
// they have limit bytes.
func (pt *partition) writeState(c *cycle.Cycle[*partition], want int64, limit int) (bytes int, err error) {
	ms := time.Now().UnixMilli()
	err = c.Payload.Changelog(pt.tp, func(b *record.Batches) error {
		return pt.state.Snapshot(want, limit, func(key, value []byte) error {
			bytes += len(key) + len(value)
			return b.Append(ms, key, value, nil)
		})
	})
	if err != nil {
		return bytes, fmt.Errorf("processor: %s/%d: snapshot to %s: %w", pt.tp.Topic, pt.tp.Partition, pt.restorer.TP().Topic, err)
	}
	return bytes, nil
}

// backfilled ends the backfill with the record before offset next. The next cycles write
// its state to the changelog; until then a restart has to replay the backfill.
func (pt *partition) backfilled(next int64) {
	b := &pt.fill
	pt.arrivals = cycle.Arrivals{}
	pt.arrivals.Add(b.end, time.Time{})
	pt.log.Info("backfilled", "start", b.end, "offset", next, "from", b.from, "records", b.records, "unreadable", b.unreadable,
		"keys", pt.state.Keys.Len(), "took", time.Since(b.began).Round(time.Millisecond))
}

// openAnomalies counts the open anomalies of a partition by detector, for Status.
type openAnomalies struct {
	status *partitionStatus
	by     map[string]int64 // nil: anomalies are not written
}

// change counts the anomalies that a chunk has opened and closed.
func (o *openAnomalies) change(rows []state.EventRow) {
	if o.by == nil || len(rows) == 0 {
		return
	}
	for i := range rows {
		row := &rows[i]
		if row.Change.Anomaly.Shadow {
			continue
		}
		switch row.Change.Kind {
		case anomaly.Open:
			o.by[row.Name]++
		case anomaly.Close:
			o.by[row.Name]--
		}
	}
	o.status.SetOpen(o.by)
}

// countOpen takes the number of open anomalies from the state, which has been
// restored or rolled back.
func (pt *partition) countOpen() {
	if pt.host.cfg.Outputs[cycle.Anomalies] != "" {
		pt.open.by = pt.state.Keys.OpenAnomalies()
		pt.status.SetOpen(pt.open.by)
	}
}

// handOverBytes bounds the state that a partition adds to one cycle at a hand-over.
const handOverBytes = 16 << 20

// writeRest writes all state that the changelog lacks before the partition is handed over, so that the replay floor is the
// committed offset and the next owner replays nothing. It takes as many cycles as that needs: a mark has one snapshot until
// its cycle is committed. At pt.until it stops, and logs what is left.
func (pt *partition) writeRest(ctx context.Context) error {
	at := pt.position.Load()
	if pt.forward || pt.confined.Load() != nil {
		return nil
	}
	for {
		for pt.committed.Load() < at || pt.advance.Load() == advanceJoined {
			pt.entry.Announce()
			if stale, err := pt.commands.wait(ctx, time.Millisecond); stale || err != nil || pt.entry.Stale() {
				return err // the next owner repeats what is not committed
			}
		}
		pt.noteCommitted()
		floor := pt.state.Floor().Offset
		if floor >= at {
			return nil
		}
		if !pt.until.IsZero() && time.Now().After(pt.until) {
			pt.log.Warn("no time is left to write all state to the changelog: the next owner replays input", "offset", at,
				"floor", floor, "records_to_replay", at-floor, "unwritten_series", pt.state.Keys.Dirty(),
				"fix", "raise ODRADEK_DRAIN_TIMEOUT and the orchestrator's grace period (a drain) or ODRADEK_REBALANCE_TIMEOUT (a rebalance)")
			return nil
		}
		if done, err := pt.writePart(ctx, at); done || err != nil {
			return err
		}
	}
}

// writePart adds a cycle's share of the state that the changelog lacks to the open cycle, which commits the offset at
// again. done reports that the partition has nothing more to add.
func (pt *partition) writePart(ctx context.Context, at int64) (done bool, err error) {
	c, err := pt.entry.Enter(ctx)
	if errors.Is(err, cycle.ErrStale) {
		return true, nil
	}
	if err != nil {
		return true, err
	}
	defer pt.entry.Leave()
	err = pt.into(c, func() error {
		bytes, err := pt.writeState(c, at, min(handOverBytes, 4*c.Room.State))
		if err != nil {
			return err
		}
		pt.advance.Store(advanceJoined)
		pt.addTo(c, &cycle.Result{Next: at, Leader: pt.leader, Floor: pt.state.Floor(), Advance: true,
			Work: metrics.Work{Held: int64(pt.state.Held()), Fetched: time.Now()}}, bytes)
		return nil
	})
	if err != nil && pt.quarantine(err) {
		return true, nil // the next owner replays more
	}
	return err != nil, err
}
