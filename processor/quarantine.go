package processor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/metrics"
)

// Quarantine. A partition that cannot go on by itself is paused, and the others
// run on. Its goroutine stays: it fetches nothing, and answers the commands of a
// rollback and of a rebalance as always, so that what it had finished is committed
// and the group never notices. A new assignment or a restart tries it again.
//
// Two ways lead here. The partition's goroutine finds that it cannot go on and
// returns a *stuckError (run, quarantine). Or the brokers refuse what a cycle holds
// of it, for good (Processor.blame): the same results would be refused in every
// cycle to come, with those of all other partitions.
//
// What is not of one partition ends the worker: a decision about state that is the
// operator's (RefusedError), an output topic that may not be written, an executor
// that fails.

// The reasons of a quarantine, as the metric has them.
const (
	reasonUnreadable   = "unreadable"   // the log at its position, and where the next batch begins is not known
	reasonUnfetchable  = "unfetchable"  // brokers refuse to hand out records
	reasonUnauthorized = "unauthorized" // the worker lacks a permission on its topic or changelog
	reasonUnwritable   = "unwritable"   // an output that no batch of its topic holds
	reasonRefused      = "refused"      // its offset or state, by the brokers
)

// stuckError is an error by which one partition cannot go on.
type stuckError struct {
	reason string
	err    error
}

func (e *stuckError) Error() string { return e.err.Error() }
func (e *stuckError) Unwrap() error { return e.err }

// stuckFetch makes an error of the fetcher one of the partition.
func stuckFetch(err error) error {
	reason := reasonUnfetchable
	var corrupt *record.CorruptError
	switch {
	case kafka.Unauthorized(err):
		reason = reasonUnauthorized
	case errors.As(err, &corrupt):
		reason = reasonUnreadable
	}
	return &stuckError{reason, err}
}

// unread is the error of a restore that cannot read tp: the partition's input, or
// its changelog.
func (pt *partition) unread(tp kafka.TP, err error) error {
	var corrupt *record.CorruptError
	switch {
	case kafka.OffsetLost(err): // the caller knows what to do
		return err
	case tp != pt.tp && errors.As(err, &corrupt):
		return &RefusedError{TP: pt.tp, Reason: fmt.Sprintf("its changelog cannot be read: %v", err),
			Decide: fmt.Sprintf("worker state reset -topic %s -partition %d", pt.tp.Topic, pt.tp.Partition)}
	}
	return stuckFetch(err)
}

// stuckWrite makes an error of the partition of a record that fits no batch.
func stuckWrite(err error) error {
	if errors.Is(err, record.ErrTooLarge) {
		return &stuckError{reasonUnwritable, err}
	}
	return err
}

// quarantine pauses the partition if err is of it alone.
func (pt *partition) quarantine(err error) bool {
	var stuck *stuckError
	if !errors.As(err, &stuck) {
		return false
	}
	pt.closeSource()
	pt.watched.Store(nil)
	pt.confine(stuck.reason, err)
	return true
}

// confine notes and tells why the partition is paused.
func (pt *partition) confine(reason string, err error) {
	if pt.confined.Load() != nil {
		return
	}
	at := pt.committed.Load()
	if reason == reasonUnreadable {
		at = pt.position.Load()
	}
	pt.confined.Store(&metrics.Quarantine{Reason: reason, Detail: err.Error(), Offset: at, Since: time.Now()})
	decide := "mend what the reason names; a restart or a rebalance tries the partition again"
	if reason == reasonUnreadable {
		decide = fmt.Sprintf("to step over the place: worker state reset -topic %s -partition %d -to OFFSET", pt.tp.Topic, pt.tp.Partition)
	}
	pt.log.Error("partition quarantined, the others go on", "reason", reason, "offset", at, "err", err, "decide", decide)
}

// spoil keeps the cycle that pt has written to from being committed.
func (pt *partition) spoil(c *cycle, err error) {
	c.spoil(err)
	pt.host.cycles.announce() // otherwise the main goroutine might wait for another result
}

// discard drops a cycle that holds some of a partition's results without the
// rest. An error is one that ends the worker.
func (p *Processor) discard(ctx context.Context, c *cycle) error {
	var stuck *stuckError
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
	reason := reasonRefused
	if b.Unauthorized {
		reason = reasonUnauthorized
	}
	some := false
	for tp, pt := range p.partitions {
		topic := tp.Topic
		if t := p.outputs.changelogs[topic]; t != nil && t.name == b.TP.Topic {
			topic = t.name
		}
		if topic == b.TP.Topic && (b.Unauthorized || tp.Partition == b.TP.Partition) && pt.confined.Load() == nil {
			pt.confine(reason, cause)
			some = true
		}
	}
	return some
}

// known reads the committed offsets of the partitions. Where the worker may no
// longer read one topic's, those in quarantine are left out.
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
