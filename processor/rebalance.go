package processor

import (
	"context"
	"sync"
	"time"

	"odradek/processor/kafka"
)

// rebalancer starts and stops partitions as the group assigns them. The main goroutine owns it.
type rebalancer struct {
	cfg      *Config
	session  *session
	assigned *assignment
	commits  *commits
	host     *host     // of the partitions
	drainEnd time.Time // when a drain has to be over; zero: a rebalance limits a hand-over
}

// handOverEnd returns when partitions that are handed over stop writing state, so that the rest of the hand-over has time;
// zero: never. In a rebalance, the members that get the partitions wait for it.
func (r *rebalancer) handOverEnd() time.Time {
	switch {
	case !r.drainEnd.IsZero():
		return r.drainEnd.Add(-r.cfg.Drain / 4)
	case r.cfg.Rebalance > 0:
		return time.Now().Add(r.cfg.Rebalance / 4)
	}
	return time.Time{}
}

// rebalance handles a group event, which the group's membership has logged. An error ends the worker.
func (r *rebalancer) rebalance(ctx context.Context, ev kafka.GroupEvent) error {
	defer ev.Done()
	r.commits.cycles.Reuse(nil) // it may hold memory for partitions that leave
	switch ev.Kind {
	case kafka.Assigned:
		r.cfg.Metrics.Rebalanced("assigned")
		r.commits.changelogs.recount(ctx)
		if len(ev.Partitions) == 0 {
			return nil
		}
		// One request for all, but not here: an offset may wait for the open
		// transaction of a dead worker, and other partitions continue meanwhile.
		tps := ev.Partitions
		offsets := sync.OnceValues(func() (map[kafka.TP]kafka.Offset, error) { return r.session.committedOffsets(ctx, tps) })
		for _, tp := range ev.Partitions {
			if old := r.assigned.partitions[tp]; old != nil {
				r.assigned.drop(old)
			}
			pt := newPartition(r.host, tp)
			r.assigned.add(pt)
			if err := r.commits.changelogs.unfit(ctx, tp); err != nil {
				pt.quarantine(err)
			}
			pt.start(ctx, offsets)
		}
	case kafka.Revoked:
		r.cfg.Metrics.Rebalanced("revoked")
		return r.handOver(ctx, ev.Partitions)
	case kafka.Lost:
		// Another member may own them already: their uncommitted results must not be
		// committed, and the open cycle contains results of several partitions.
		r.cfg.Metrics.Rebalanced("lost")
		r.assigned.committed(r.commits.committer.dropOffsets())
		for _, tp := range ev.Partitions {
			if pt := r.assigned.partitions[tp]; pt != nil {
				r.assigned.drop(pt)
			}
		}
		r.commits.abandonOpen()
		return r.commits.rollback(ctx, nil)
	}
	return nil
}

// handOver stops the partitions, commits their finished results and removes
// them. Their goroutines may be waiting for room, so commits continue meanwhile.
func (r *rebalancer) handOver(ctx context.Context, tps []kafka.TP) error {
	if r.commits.dropGone(ctx) {
		r.commits.abandonOpen()
		if err := r.commits.rollback(ctx, nil); err != nil {
			return err
		}
	}
	var stopping []*partition
	until := r.handOverEnd()
	for _, tp := range tps {
		if pt := r.assigned.partitions[tp]; pt != nil {
			if !pt.running.Load() {
				pt.cancel() // it is restoring, and has nothing to commit
			}
			pt.until = until
			pt.commands.send(stopSoon)
			stopping = append(stopping, pt)
		}
	}
	for _, pt := range stopping {
		for waiting := true; waiting; {
			select {
			case <-pt.done:
				waiting = false
			case <-r.commits.cycles.Ready():
				if err := r.commits.commitOpen(ctx); err != nil {
					return err
				}
			case err := <-r.commits.committer.offsets():
				if err := r.commits.offsetsAnswered(ctx, err); err != nil {
					return err
				}
			case err := <-r.session.fatal:
				return err
			}
		}
	}
	if err := r.commits.commitOpen(ctx); err != nil {
		return err
	}
	if err := r.commits.flushOffsets(ctx); err != nil {
		return err
	}
	for _, pt := range stopping {
		r.assigned.remove(pt)
	}
	return nil
}
