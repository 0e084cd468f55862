package processor

import (
	"context"
	"fmt"
	"time"

	"odradek/processor/kafka"
	"odradek/processor/kafka/fetch"
	"odradek/processor/policy"
)

// diverged reports whether the log lacks records that were read before a committed
// position, and may have others at their offsets: a leader was elected that did not
// have them (KIP-320). Then ODRADEK_OFFSET_LOST has been applied. The state was made
// from records that do not exist any more, so it is emptied. "earliest" resumes at the
// offset where the two logs diverge: the records before it were read, and none of those
// after it.
func (pt *partition) diverged(ctx context.Context, off kafka.Offset) (lost bool, err error) {
	d, err := pt.askDiverged(ctx, off)
	if d == nil || err != nil {
		return false, err
	}
	start, err := pt.listOffset(ctx, StartEarliest)
	if err != nil {
		return false, err
	}
	return true, pt.offsetLost(ctx, lostOffset{
		offset: off.Offset, logStart: start, earliest: max(start, d.End), count: off.Offset - max(start, d.End), why: d.Reason(),
	})
}

// askDiverged repeats fetch.Diverged until there is an answer: leaders move.
func (pt *partition) askDiverged(ctx context.Context, off kafka.Offset) (*fetch.DivergedError, error) {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		cctx, cancel := context.WithTimeout(ctx, 15*time.Second)
		m, err := fetch.Diverged(cctx, pt.host.cfg.Client, map[kafka.TP]kafka.Offset{pt.tp: off})
		cancel()
		switch {
		case err == nil:
			return m[pt.tp], nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case kafka.ClassOf(err) == kafka.Fatal:
			return nil, fmt.Errorf("processor: leader epochs of %s/%d: %w", pt.tp.Topic, pt.tp.Partition, err)
		}
		pt.log.Warn("leader epochs cannot be read yet", "err", err)
		if err := sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// lostOffset is a position at which a partition cannot resume, and those at which it can.
type lostOffset struct {
	offset   int64
	logStart int64
	earliest int64 // where ODRADEK_OFFSET_LOST=earliest resumes
	count    int64 // records that were deleted unread, or were read and are not in the log any more
	why      string
}

// offsetLost applies ODRADEK_OFFSET_LOST.
func (pt *partition) offsetLost(ctx context.Context, l lostOffset) error {
	pt.host.cfg.Metrics.OffsetLost(pt.tp, l.count)
	at := l.earliest
	switch pt.host.cfg.OffsetLost {
	case policy.Fail:
		return &policy.RefusedError{TP: pt.tp, Reason: l.why, Decide: "ODRADEK_OFFSET_LOST=earliest or latest, or worker state reset"}
	case policy.Latest:
		var err error
		if at, err = pt.listOffset(ctx, StartLatest); err != nil {
			return err
		}
	}
	pt.log.Error("offset lost, resuming with empty state", "offset", l.offset, "log_start", l.logStart, "at", at, "reason", l.why)
	return pt.empty(ctx, nil, at, 0)
}
