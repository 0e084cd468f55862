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
	"odradek/processor/state/rules"
)

// This file adds the results of a partition to the open cycle. The main goroutine closes
// and commits the cycle (commit.go).

// join adds the results of everything folded so far to the open cycle. The next record is
// at offset next; the chunk was fetched at the time fetched.
func (pt *partition) join(ctx context.Context, next int64, fetched time.Time) error {
	c, err := pt.handle.Enter(ctx)
	if err != nil {
		return err
	}
	defer pt.handle.Leave()
	return pt.into(c, func() error {
		r := cycle.Result{Next: next, Leader: pt.leader, Work: metrics.Work{Fetched: fetched}, Advance: pt.advance.Load() == advanceJoined}
		r.Work.Counts, r.Traceparents = pt.counts, pt.traces.Drain()
		skipped := pt.it.Skipped()
		r.Work.Counts.Aborted, r.Work.Counts.Control = skipped.Aborted-pt.skipped.Aborted, skipped.Control-pt.skipped.Control
		pt.skipped = skipped
		bytes, err := pt.work.write(c, &r)
		if err != nil {
			return err
		}
		pt.position.Store(next)
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
		pt.handle.Spoil(c, err)
		return err
	}
	pt.handle.Announce()
	return nil
}

// addTo adds the results of the partition up to r.Next to c.
func (pt *partition) addTo(c *cycle.Cycle[*partition], r *cycle.Result, bytes int) {
	r.Window = pt.side.stop.Window()
	c.Add(pt, r, bytes)
}

// joined holds the counts of the state, which only grow, as of the last time that they joined a cycle.
type joined struct {
	tally state.Tally
	names map[uint64]string // of the fields in Tally.Fields
}

// count sets the counts in c that are new since the last call.
func (j *joined) count(s *state.State, by *rules.Reading, c *metrics.Counts) {
	for i := range c.Outcomes {
		c.Outcomes[i] = s.Tally.Counts[i] - j.tally.Counts[i]
	}
	c.Evicted, c.Early = s.Tally.EvictedKeys-j.tally.EvictedKeys, s.Tally.Early-j.tally.Early
	for id, n := range s.Tally.Fields {
		if before := j.tally.Fields[id]; n != before {
			name, known := j.names[id]
			if !known {
				j.names = by.FieldNames()
				name = j.names[id]
			}
			c.Fields.Add(name, metrics.FieldCount{Resets: n.Resets - before.Resets, Closed: n.Closed - before.Closed,
				Empty: n.Empty - before.Empty})
		}
	}
	j.reset(s)
}

// reset begins with the counts of a state that was restored or rolled back.
func (j *joined) reset(s *state.State) { j.tally = s.Tally.Copy() }

// showState shows the state as it is now to Status, and renews its limit of memory.
func (f *folder) showState() {
	f.pt.status.SetState(f.state)
	f.trimmer.note(f.state)
}

// write adds the chunk's outputs to the cycle, and the snapshots that are due.
func (f *folder) write(c *cycle.Cycle[*partition], r *cycle.Result) (bytes int, err error) {
	s, fetched := f.state, r.Work.Fetched
	f.joined.count(s, &f.pt.mapping.State.Reading, &r.Work.Counts)
	r.Work.Counts.Suspects = f.suspects.count(s, fetched, f.pt.position.Load(), f.pt.log)
	r.Work.Counts.Rises = f.rises.count(s.Rises, f.pt.mapping.State, fetched, f.pt.log)
	if bytes, err = f.pt.side.writer.Write(c.Payload, s, &r.Work, time.Now()); err != nil {
		return 0, err
	}
	f.open.change(s.Events)
	s.Mark(r.Next)
	f.arrivals.Add(r.Next, fetched)
	want := f.arrivals.Before(fetched.Add(-f.pt.host.cfg.ReplayLimit * 3 / 4))
	snapshots, err := f.writeState(c, want, c.Room.State)
	if err != nil {
		return 0, err
	}
	f.noteState(r)
	f.showState()
	if f.fill.note(r.Next, &r.Work.Counts) {
		f.backfilled(r.Next)
	}
	logLate(f.pt.log, &f.pt.side.lates, fetched, &f.pt.mapping.State.Reading.Order, f.pt.host.cfg.Outputs[cycle.Late])
	f.drop()
	return bytes + snapshots, nil
}

// noteState notes the state of which a result is.
func (f *folder) noteState(r *cycle.Result) {
	r.Floor, r.Incarnation, r.Work.Held = f.state.Floor(), f.restorer.changelog.Owner.Incarnation, int64(f.state.Held())
}

// writeState adds snapshots of keys to the cycle until the replay floor is at want, or
// they have limit bytes.
func (f *folder) writeState(c *cycle.Cycle[*partition], want int64, limit int) (bytes int, err error) {
	ms := time.Now().UnixMilli()
	err = c.Payload.Changelog(f.pt.tp, func(b *record.Batches) error {
		return f.state.Snapshot(want, limit, func(key, value []byte) error {
			bytes += len(key) + len(value)
			return b.Append(ms, key, value, nil)
		})
	})
	if err != nil {
		return bytes, fmt.Errorf("processor: %s/%d: snapshot to %s: %w", f.pt.tp.Topic, f.pt.tp.Partition, f.restorer.changelog.TP().Topic,
			err)
	}
	return bytes, nil
}

// backfilled ends the backfill with the record before offset next. The next cycles write
// its state to the changelog; until then a restart has to replay the backfill.
func (f *folder) backfilled(next int64) {
	b := &f.fill
	f.arrivals = cycle.Arrivals{}
	f.arrivals.Add(b.end, time.Time{})
	f.pt.log.Info("backfilled", "start", b.end, "offset", next, "from", b.from, "records", b.records, "unreadable", b.unreadable,
		"keys", f.state.Keys.Len(), "took", time.Since(b.began).Round(time.Millisecond))
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
func (f *folder) countOpen() {
	if f.pt.host.cfg.Outputs[cycle.Anomalies] != "" {
		f.open.by = f.state.Keys.OpenAnomalies()
		f.pt.status.SetOpen(f.open.by)
	}
}

// handOverBytes bounds the state that a partition adds to one cycle at a hand-over.
const handOverBytes = 16 << 20

// handOver writes all state that the changelog lacks before the partition is handed over, so that the replay floor is the
// committed offset and the next owner replays nothing. It takes as many cycles as that needs: a mark has one snapshot until
// its cycle is committed. At f.until it stops, and logs what is left.
func (f *folder) handOver(ctx context.Context) error {
	at := f.pt.position.Load()
	if f.pt.running.Load() {
		f.exportState(false)
	}
	if f.pt.confined.Load() != nil {
		return nil
	}
	for {
		for f.pt.committed.Load() < at || f.pt.advance.Load() == advanceJoined {
			f.pt.handle.Announce()
			if stale, err := f.pt.commands.wait(ctx, time.Millisecond); stale || err != nil || f.pt.handle.Stale() {
				return err // the next owner repeats what is not committed
			}
		}
		f.noteCommitted()
		floor := f.state.Floor().Offset
		if floor >= at {
			return nil
		}
		if !f.pt.until.IsZero() && time.Now().After(f.pt.until) {
			f.pt.log.Warn("no time is left to write all state to the changelog: the next owner replays input", "offset", at,
				"floor", floor, "records_to_replay", at-floor, "unwritten_series", f.state.DirtyKeys(),
				"fix", "raise drain_timeout and the orchestrator's grace period (a drain) or rebalance_timeout (a rebalance)")
			return nil
		}
		if done, err := f.writeShare(ctx, at); done || err != nil {
			return err
		}
	}
}

// writeShare adds a cycle's share of the state that the changelog lacks to the open cycle, which commits the offset at
// again. done reports that the partition has nothing more to add.
func (f *folder) writeShare(ctx context.Context, at int64) (done bool, err error) {
	c, err := f.pt.handle.Enter(ctx)
	if errors.Is(err, cycle.ErrStale) {
		return true, nil
	}
	if err != nil {
		return true, err
	}
	defer f.pt.handle.Leave()
	err = f.pt.into(c, func() error {
		bytes, err := f.writeState(c, at, min(handOverBytes, 4*c.Room.State))
		if err != nil {
			return err
		}
		f.pt.advance.Store(advanceJoined)
		r := cycle.Result{Next: at, Leader: f.pt.leader, Advance: true, Work: metrics.Work{Fetched: time.Now()}}
		f.noteState(&r)
		f.pt.addTo(c, &r, bytes)
		return nil
	})
	if err != nil && f.pt.quarantine(err) {
		return true, nil // the next owner replays more
	}
	return err != nil, err
}
