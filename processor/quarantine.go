package processor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"odradek/processor/kafka"
	"odradek/processor/metrics"
	"odradek/processor/quarantine"
)

// Quarantine pauses a partition that fails by itself, while the others continue. Its
// goroutine stays: it fetches nothing, and obeys the commands of a rollback and of a
// rebalance as always, so that its finished results are committed and the group is not
// affected. A new assignment or a restart tries the partition again.
//
// A partition comes into quarantine in one of two ways. Its goroutine returns a
// *quarantine.Error (run, quarantine). Or the brokers refuse its results in a cycle for good
// (Processor.blame): they would refuse them in every later cycle, together with those of
// all other partitions.
//
// A fault that is not of one partition ends the worker: a decision about state that is
// the operator's (policy.RefusedError), an output topic that must not be written, an
// executor that fails.

// quarantine pauses the partition if err is a *quarantine.Error, and reports whether it is.
func (pt *partition) quarantine(err error) bool {
	var stuck *quarantine.Error
	if !errors.As(err, &stuck) {
		return false
	}
	pt.closeSource()
	pt.status.SetSource(nil)
	pt.confine(stuck.Reason, err)
	return true
}

// confine records and logs why the partition is paused.
func (pt *partition) confine(reason string, err error) {
	if pt.confined.Load() != nil {
		return
	}
	at := pt.committed.Load()
	if reason == quarantine.Unreadable {
		at = pt.position.Load()
	}
	pt.confined.Store(&metrics.Quarantine{Reason: reason, Detail: err.Error(), Offset: at, Since: time.Now()})
	decide := "repair what the reason names; a restart or a rebalance tries the partition again"
	if reason == quarantine.Unreadable {
		decide = fmt.Sprintf("to skip the unreadable part: worker state reset -topic %s -partition %d -to OFFSET", pt.tp.Topic, pt.tp.Partition)
	}
	pt.log.Error("partition quarantined, the others continue", "reason", reason, "offset", at, "err", err, "decide", decide)
}

// discard drops a cycle that holds a part of a partition's results. It returns only
// errors that end the worker.
func (p *Processor) discard(ctx context.Context, c *cycle) error {
	var stuck *quarantine.Error
	if !errors.As(c.spoilt, &stuck) {
		return c.spoilt
	}
	// What was written at least once is committed first, or it would come again.
	if err := p.flushOffsets(ctx); err != nil {
		return err
	}
	p.abandonOpen()
	return p.rollback(ctx, nil)
}

// blame quarantines the partitions whose results or offsets the brokers refuse for
// good. It reports whether there are any.
func (p *Processor) blame(cause error) bool {
	b, ok := kafka.BlameOf(cause)
	if !ok {
		return false
	}
	reason := quarantine.Refused
	if b.Unauthorized {
		reason = quarantine.Unauthorized
	}
	some := false
	for tp, pt := range p.partitions {
		topic := tp.Topic
		if t := p.outputs.Changelogs[topic]; t != nil && t.Name == b.TP.Topic {
			topic = t.Name
		}
		if topic == b.TP.Topic && (b.Unauthorized || tp.Partition == b.TP.Partition) && pt.confined.Load() == nil {
			pt.confine(reason, cause)
			some = true
		}
	}
	return some
}

// known reads the committed offsets of the partitions. Where the worker is no longer
// permitted to read those of a topic, partitions in quarantine are left out.
func (p *Processor) known(ctx context.Context, tps []kafka.TP) (map[kafka.TP]kafka.Offset, error) {
	offs, err := p.committedOffsets(ctx, tps)
	if !kafka.Unauthorized(err) {
		return offs, err
	}
	var free []kafka.TP
	for _, tp := range tps {
		if pt := p.partitions[tp]; pt == nil || pt.confined.Load() == nil {
			free = append(free, tp)
		}
	}
	if len(free) == len(tps) {
		return nil, err
	}
	return p.committedOffsets(ctx, free)
}
