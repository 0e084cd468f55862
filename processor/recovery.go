package processor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"odradek/processor/cycle"
	"odradek/processor/kafka"
)

// This file recovers from failed commits. A transaction of version 1 can be committed in part
// when a request of unknown outcome is followed by another one of the same producer id
// and epoch (KIP-890 explains how). So after anything but a definite success the
// producer is abandoned: abort if possible, Init again (a new epoch: brokers refuse
// requests of the old one that are still in flight), and only then read the committed
// offsets. Init returns after the old transaction has ended one way or the other, so
// the offsets read after it are authoritative: they equal the cycle's (it was
// committed, the reply was lost), or the previous ones (it was not). Each partition is
// rolled back to the mark that equals them. A partition whose offset is neither was committed
// by another member meanwhile, and is restored.
//
// Only EndTxn(commit) is repeated when its outcome is unknown, with the same epoch
// (kafka/end.go): a coordinator that fails while it handles the request may have
// written markers to some partitions, and Init at its successor could abort the rest.
// If a repetition is answered with success, the cycle is committed and nothing is
// rolled back. But an earlier request may still be in flight, and would end the
// transaction that follows: so Init comes first in this case, too (commitOpen). If a
// repetition is refused, the outcome stays unknown: Init, then the committed offsets decide.
// Without an answer the repetitions go on. Only a commit that has not left by the time that
// the transaction's time-out is near is given up.

// recover brings every partition back to its committed offset after a cycle
// whose outcome is not a definite success. See the head of this file.
func (cm *commits) recover(ctx context.Context, c *cycle.Cycle[*partition], cause error) error {
	cm.assigned.committed(cm.committer.dropOffsets())
	cause = cm.named(cause)
	class := kafka.ClassOf(cause)
	cm.trouble.Warn(cm.log, "cycle: "+class.String(), "cycle failed, rolling back to the committed offsets", "err", cause,
		"class", class.String())
	switch class {
	case kafka.InstanceFenced:
		// While the membership lasts, the instance id is ours: the commit carried
		// the member id of a session that was lost, and a Lost event will follow.
		if cm.session.member.Load().Err() != nil {
			return fmt.Errorf("%w: %w", ErrInstanceFenced, cause)
		}
	case kafka.Fatal:
		if !cm.blame(c, cause) {
			return cause
		}
	case kafka.Abortable:
		cm.blame(c, cause)
	case kafka.Retriable, kafka.Unknown:
		if b, ok := kafka.Named(cause); ok && kafka.Doubtful(cause) && cm.refusals.persists(cm, c, b, time.Now()) {
			cm.accuse(c, b, cause)
		}
	}
	// Refuse further results before the producer is touched: partitions see the
	// new epoch at their next join and drop their results.
	cm.abandonOpen()
	var refused *kafka.ProduceError
	if class == kafka.TooLarge && errors.As(cause, &refused) {
		cm.shrink(refused.TP.Topic)
	}
	if class == kafka.Fenced {
		if err := cm.session.stillMember(ctx); err != nil {
			return err
		}
	}
	if class != kafka.Unknown && class != kafka.Fenced {
		actx, cancel := context.WithTimeout(ctx, cm.cfg.TransactionTimeout)
		if err := cm.committer.abort(actx); err != nil {
			cm.trouble.Warn(cm.log, "cycle: abort", "abort failed, the producer is abandoned", "err", err)
		}
		cancel()
	}
	if err := cm.session.reinit(ctx); err != nil {
		return err
	}
	return cm.rollback(ctx, c)
}

// named adds to the error of a commit what the topic is that it names: a changelog has the name of an input in its own.
func (cm *commits) named(cause error) error {
	b, ok := kafka.Named(cause)
	if !ok {
		return cause
	}
	role := "an input"
	if b.Written {
		role = cm.outputs.Role(b.TP.Topic)
	}
	return fmt.Errorf("%w; %s is %s", cause, b.TP.Topic, role)
}

// abandonOpen begins a new epoch with an empty open cycle: the results of the old one are
// dropped.
func (cm *commits) abandonOpen() { cm.cycles.Abandon(cm.room()) }

// room returns the capacity of the next cycle.
func (cm *commits) room() cycle.Room { return cm.pace.Room(len(cm.assigned.partitions)) }

// shrink halves the batches of a topic whose max.message.bytes was lowered: batches of
// the same size would be refused again.
func (cm *commits) shrink(name string) {
	cm.cycles.Write(func() {
		if n := cm.outputs.Shrink(name); n > 0 {
			cm.log.Warn("the topic refuses batches of the former size, halving them", "topic", name, "bytes", n)
		}
	})
}

// rollback returns every partition to its committed offset. c, which may be nil,
// is the cycle whose outcome was unknown: it may have been committed.
func (cm *commits) rollback(ctx context.Context, c *cycle.Cycle[*partition]) error {
	cm.dropGone(ctx)
	tps := cm.assigned.running()
	if len(tps) == 0 {
		return nil
	}
	offs, err := cm.known(ctx, tps)
	if err != nil {
		return err
	}
	// A partition that was restored while the producer was initialised may have results
	// in the open cycle already. They are dropped, and it is rolled back like all
	// others: rolled back with its results in the cycle, it would add them twice.
	cm.abandonOpen()
	for tp, pt := range cm.assigned.partitions {
		if !pt.running.Load() {
			continue // it will begin with the present epoch
		}
		known, ok := offs[tp]
		if !ok {
			pt.restart(false)
			continue
		}
		off, before := known.Offset, pt.committed.Load()
		if off != before && c != nil && c.Results[pt] != nil && c.Results[pt].Next == off {
			// The transaction was committed after all, only its reply was lost.
			pt.committed.Store(off)
			done := c.Results[pt]
			cm.cfg.Metrics.Worked(pt.tp, &done.Work, done.Floor.Offset, done.Next, pt.end.Load())
		} else if off != before && !(off == -1 && pt.fresh.Load()) {
			// Neither mark is ours: another member has committed. Our results and
			// our state are void, and the partition is restored.
			cm.log.Warn("committed offset is another member's, restoring", "topic", tp.Topic, "partition", tp.Partition,
				"committed", off, "ours", before)
			pt.restart(true)
			continue
		}
		pt.restart(false)
	}
	return nil
}

// blame quarantines the partitions whose results or offsets the brokers refuse for
// good. It reports whether there are any.
func (cm *commits) blame(c *cycle.Cycle[*partition], cause error) bool {
	b, ok := kafka.BlameOf(cause)
	return ok && cm.accuse(c, b, cause)
}

// accuse does so for the partition that an error of cycle c names.
func (cm *commits) accuse(c *cycle.Cycle[*partition], b kafka.Blame, cause error) bool {
	if b.Written && cm.outputs.Output(b.TP.Topic) != nil {
		if b.Unauthorized {
			return false
		}
		cm.refusals.handle(cm, c, b, cause)
		return true
	}
	reason := Refused
	if b.Unauthorized {
		reason = Unauthorized
	}
	some := false
	for tp, pt := range cm.assigned.partitions {
		topic := tp.Topic
		if b.Written {
			topic = ""
			if t := cm.outputs.Changelog(tp.Topic); t != nil {
				topic = t.Name
			}
		}
		if topic == b.TP.Topic && (b.Unauthorized || tp.Partition == b.TP.Partition) && pt.confined.Load() == nil {
			pt.confine(reason, cause)
			some = true
		}
	}
	return some
}

// known reads the committed offsets of the partitions. Where the worker is no longer
// permitted to read the offsets of a topic, partitions in quarantine are left out.
func (cm *commits) known(ctx context.Context, tps []kafka.TP) (map[kafka.TP]kafka.Offset, error) {
	offs, err := cm.session.committedOffsets(ctx, tps)
	if !kafka.Unauthorized(err) {
		return offs, err
	}
	var free []kafka.TP
	for _, tp := range tps {
		if pt := cm.assigned.partitions[tp]; pt == nil || pt.confined.Load() == nil {
			free = append(free, tp)
		}
	}
	if len(free) == len(tps) {
		return nil, err
	}
	return cm.session.committedOffsets(ctx, free)
}
