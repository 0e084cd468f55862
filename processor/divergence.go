package processor

import (
	"context"
	"fmt"
	"time"

	"odradek/processor/kafka"
)

// diverged reports whether the log lacks records that were read before a committed
// position, and others may stand at their offsets: a leader was elected that did
// not have them (KIP-320). Then ODRADEK_OFFSET_LOST has been applied. The state is
// one of records that are no more, so it goes with them. "earliest" goes on where
// the two logs part: what lies before was read, and nothing behind it was.
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

// askDiverged is Client.Diverged with patience: leaders move.
func (pt *partition) askDiverged(ctx context.Context, off kafka.Offset) (*kafka.DivergedError, error) {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		cctx, cancel := context.WithTimeout(ctx, 15*time.Second)
		m, err := pt.host.cfg.Client.Diverged(cctx, map[kafka.TP]kafka.Offset{pt.tp: off})
		cancel()
		switch {
		case err == nil:
			return m[pt.tp], nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case kafka.ClassOf(err) == kafka.Fatal:
			return nil, fmt.Errorf("processor: leader epochs of %s/%d: %w", pt.tp.Topic, pt.tp.Partition, err)
		}
		pt.log.Warn("leader epochs not answered yet", "err", err)
		if err := sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// lostOffset is a position that cannot be gone on from, and where to go instead.
type lostOffset struct {
	offset   int64
	logStart int64
	earliest int64 // where ODRADEK_OFFSET_LOST=earliest goes on
	count    int64 // records that were not read, or were read and are gone
	why      string
}

// offsetLost applies ODRADEK_OFFSET_LOST.
func (pt *partition) offsetLost(ctx context.Context, l lostOffset) error {
	pt.host.cfg.Metrics.OffsetLost(pt.tp, l.count)
	at := l.earliest
	switch pt.host.cfg.OffsetLost {
	case Fail:
		return &RefusedError{TP: pt.tp, Reason: l.why, Decide: "ODRADEK_OFFSET_LOST=earliest or latest, or worker state reset"}
	case Latest:
		var err error
		if at, err = pt.listOffset(ctx, StartLatest); err != nil {
			return err
		}
	}
	pt.log.Error("offset lost, going on with empty state", "offset", l.offset, "log_start", l.logStart, "at", at, "reason", l.why)
	return pt.empty(ctx, nil, at)
}
