package processor

import (
	"context"
	"fmt"
	"time"

	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
)

// resumer decides where a partition resumes in its input.
type resumer struct {
	logs       *restoreLogs
	OffsetLost OnLoss
	// Start is where a partition without a committed offset begins: kafka.Earliest,
	// kafka.Latest or a Kafka timestamp in milliseconds.
	Start int64
	// Lost counts records that were deleted unread, or are not in the log any more.
	Lost func(n int64)
}

// newResumer returns the resumer of a partition.
func (pt *partition) newResumer() resumer {
	cfg := pt.host.cfg
	return resumer{
		logs: &restoreLogs{Input: pt.tp, Client: cfg.Client, Fetcher: pt.host.fetcher, Log: pt.log, Status: pt.status,
			Trouble: &pt.trouble},
		OffsetLost: cfg.OffsetLost, Start: cfg.Start, Lost: func(n int64) { cfg.Metrics.OffsetLost(pt.tp, n) },
	}
}

// resume returns the offset at which a partition without state resumes, given the committed one (negative: none), and the leader
// epoch of the record before it.
func (r *resumer) resume(ctx context.Context, off kafka.Offset) (at int64, leader record.Epoch, err error) {
	if off.Offset < 0 {
		at, err = r.startOffset(ctx)
		return at, 0, err
	}
	_, lost, err := r.bounds(ctx, off)
	if lost == nil || err != nil {
		return off.Offset, off.Epoch, err
	}
	at, err = r.skip(ctx, lost)
	return at, 0, err
}

// startOffset returns the offset that start names.
func (r *resumer) startOffset(ctx context.Context) (int64, error) {
	return r.logs.List(ctx, r.logs.Input, r.Start)
}

// bounds returns the first offset of the log. lost is not nil where off is not in it, or follows records that are not.
func (r *resumer) bounds(ctx context.Context, off kafka.Offset) (start int64, lost *lostOffset, err error) {
	in, offset := r.logs.Input, off.Offset
	d, err := r.diverged(ctx, off)
	if err != nil {
		return 0, nil, err
	}
	if start, err = r.logs.List(ctx, in, kafka.Earliest); err != nil {
		return 0, nil, err
	}
	if d != nil {
		at := max(start, d.End)
		return start, &lostOffset{offset: offset, logStart: start, earliest: at, count: offset - at, why: d.Reason()}, nil
	}
	for try := 0; ; try++ {
		end, err := r.logs.List(ctx, in, kafka.Latest)
		switch {
		case err != nil:
			return 0, nil, err
		case offset < start:
			return start, &lostOffset{offset: offset, logStart: start, earliest: start, count: start - offset,
				why: fmt.Sprintf("offset %d is not in the log, which begins at %d: retention has deleted input that was not read", offset, start)}, nil
		case offset <= end:
			return start, nil, nil
		case try == 2: // a leader that has just been elected may not know its end
			return start, &lostOffset{offset: offset, logStart: start, earliest: start,
				why: fmt.Sprintf("offset %d is not in the log, which ends at %d: the topic was created again, or its last records were lost",
					offset, end)}, nil
		}
		if err := sleep(ctx, time.Second); err != nil {
			return 0, nil, err
		}
	}
}

// diverged returns where the log and the one that was read diverge, nil if they do not: the log lacks records that were read
// before a committed position, and may have others at their offsets, because a leader was elected that did not
// have them (KIP-320). State was made from records that do not exist any more, so it is emptied. "earliest" resumes at the
// offset where the two logs diverge: the records before it were read, and none of those
// after it. It repeats kafka.DivergedOffsets until there is an answer: leaders move.
func (r *resumer) diverged(ctx context.Context, off kafka.Offset) (*kafka.DivergedError, error) {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		cctx, cancel := context.WithTimeout(ctx, 15*time.Second)
		m, err := kafka.DivergedOffsets(cctx, r.logs.Client.Cluster, map[kafka.TP]kafka.Offset{r.logs.Input: off})
		cancel()
		switch {
		case err == nil:
			return m[r.logs.Input], nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case kafka.ClassOf(err) == kafka.Fatal:
			err = fmt.Errorf("processor: leader epochs of %s: %w", r.logs.name(r.logs.Input), err)
			return nil, QuarantineOfPermission(kafka.Lacks(err, kafka.OpDescribe, r.logs.Input.Topic))
		}
		r.logs.Log.Warn("leader epochs cannot be read yet", "of", r.logs.name(r.logs.Input), "err", err)
		if err := sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// lostOffset is a position at which a partition cannot resume, and those at which it can.
type lostOffset struct {
	offset   int64
	logStart int64
	earliest int64 // where offset_lost=earliest resumes
	count    int64 // records that were deleted unread, or were read and are not in the log any more
	why      string
}

// skip applies offset_lost, and returns where the partition resumes.
func (r *resumer) skip(ctx context.Context, l *lostOffset) (at int64, err error) {
	r.Lost(l.count)
	at = l.earliest
	switch r.OffsetLost {
	case FailOnLoss:
		return 0, &RefusedError{TP: r.logs.Input, Reason: l.why, Decide: "offset_lost=earliest or latest, or worker state reset"}
	case Latest:
		if at, err = r.logs.List(ctx, r.logs.Input, kafka.Latest); err != nil {
			return 0, err
		}
	}
	r.logs.Log.Error("offset lost, resuming with empty state", "offset", l.offset, "log_start", l.logStart, "at", at, "reason", l.why)
	return at, nil
}
