package processor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/state"
)

// restorer decides how a partition resumes from what is committed. All refusals are made
// here, for a running worker and for `worker check` alike. It writes nothing.
type restorer struct {
	changelog *changelogReader
	resumer   resumer
	StateLost OnLoss
	// Backfill is how far before its start such a partition reads input.
	Backfill time.Duration
	// Ahead reports that the changelog may be ahead of the committed offset: state that
	// was written at least once.
	Ahead bool
}

// resumption is how a partition resumes.
type resumption struct {
	State  *state.State // never nil
	At     int64        // offset that the state is of, and that is committed or to be committed
	Commit bool         // At has yet to be committed
	Wipe   [][]byte     // changelog keys of state that was emptied, to be deleted with that commit
	Leader record.Epoch // that wrote the record before At
	// From is the first offset to replay, with Floor, up to At; none where it is NoReplay.
	From  int64
	Floor state.Floor
}

// noReplay says that no input is to be replayed.
const noReplay = math.MaxInt64

// TakeUp decides how the partition resumes from its committed offset (negative: none), and
// loads the state for it. The resumption is never nil; its State is the one to close also
// after an error.
func (r *restorer) TakeUp(ctx context.Context, off kafka.Offset) (*resumption, error) {
	n := &resumption{State: r.changelog.NewState(), At: off.Offset, Leader: off.Epoch, From: noReplay}
	st, stored, err := r.changelog.Load(ctx, off.Offset < 0)
	n.State = st
	if err != nil {
		return n, err
	}
	same := r.changelog.Identify(off.Metadata)
	if off.Offset < 0 {
		if len(stored) > 0 {
			return n, r.stateLost(ctx, n, stored,
				"the group has no committed offset for it (they expire when a group is away for long), but there is state", kafka.Earliest, false)
		}
		return n, r.startNew(ctx, n)
	}
	floor, err := state.ParseFloor(off.Metadata)
	if err != nil {
		return n, r.stateLost(ctx, n, stored, fmt.Sprintf("offset %d was committed without a replay floor (by another program?)",
			off.Offset), off.Offset, true)
	}
	if begun, err := r.refilled(ctx, n, off, &floor); begun || err != nil {
		return n, err
	}
	starts, lost, err := r.resumer.bounds(ctx, off)
	switch {
	case err != nil:
		return n, err
	case lost != nil:
		at, err := r.resumer.skip(ctx, lost)
		if err != nil {
			return n, err
		}
		return n, r.empty(ctx, n, nil, at, 0)
	case !same:
		return n, r.stateLost(ctx, n, stored, fmt.Sprintf("the changelog %s is not the one that offset %d was committed with: "+
			"it was deleted and made again, or its first records were deleted (is its cleanup.policy compact?)",
			r.changelog.TP(), off.Offset), off.Offset, true)
	case floor.Bits != r.changelog.State.SampleBits && floor.MaxTime != state.NoTime:
		return n, r.stateLost(ctx, n, stored, r.renumbered(&floor, off.Offset), off.Offset, true)
	case floor.Offset < starts && floor.Offset < off.Offset:
		return n, r.stateLost(ctx, n, stored, fmt.Sprintf("its state needs the input from offset %d, and the log begins at %d", floor.Offset,
			starts), off.Offset, true)
	}
	if err := n.State.BeginReplay(floor, off.Offset, r.Ahead); err != nil {
		switch {
		case errors.Is(err, state.ErrReading):
			return n, r.Unreadable(ctx, n, &UnreadableError{Why: err.Error()})
		case errors.Is(err, state.ErrAhead):
			return n, err
		case errors.Is(err, state.ErrMismatch):
			return n, r.changelog.Settings.Refuse(r.changelog.logs.Input, err)
		}
		return n, fmt.Errorf("processor: %s: restore: %w", r.changelog.logs.Input, err)
	}
	if m := n.State.Restore.Mismatched; len(m) > 0 {
		r.changelog.logs.Log.Warn("state that was made with other settings is emptied (state_mismatch=reset)", "emptied", Emptied(m),
			"because", r.changelog.Settings.Causes(m))
	}
	n.Floor, n.From = floor, max(floor.From(), starts)
	return n, nil
}

// renumbered returns why state is refused whose offsets number the samples of records that are several, where a record is one
// sample now, or the other way round. That is so after a drain, too: each head of a series has such offsets.
func (r *restorer) renumbered(floor *state.Floor, committed int64) string {
	was, is := "one sample", "several (readings_field or series_fields is set now)"
	if floor.Bits > 0 {
		was, is = "several samples (readings_field or series_fields was set)", "one"
	}
	lost := fmt.Sprintf("everything up to offset %d is scored, but for samples that are held for their order", committed)
	if floor.Offset < committed {
		lost = fmt.Sprintf("what waits since offset %d is given up, too, unless a worker with the former setting is started and ended with "+
			"SIGTERM before", floor.Offset)
	}
	return fmt.Sprintf("each offset in its state is of a record of %s, and a record is %s: windows, histories and open anomalies mean "+
		"other samples, and all series begin anew; set it back to keep them; %s", was, is, lost)
}

// UnreadableError reports that a record which a replay needs cannot be read as it was when it was live.
type UnreadableError struct{ Why string }

func (e *UnreadableError) Error() string {
	return fmt.Sprintf("its state needs records that cannot be read again as they were read before: %s; where they can be, a start with the "+
		"former settings, ended with SIGTERM, writes all state, and the start after it reads no record again", e.Why)
}

// Unreadable applies state_lost to state whose replay has failed with e.
func (r *restorer) Unreadable(ctx context.Context, n *resumption, e *UnreadableError) error {
	n.From = noReplay
	return r.stateLost(ctx, n, nil, e.Error(), n.At, true)
}

// stateLost applies state_lost to state that cannot be rebuilt: it is refused, or
// emptied.
func (r *restorer) stateLost(ctx context.Context, n *resumption, stored map[string]struct{}, reason string, at int64, known bool) error {
	if r.StateLost == FailOnLoss {
		return &RefusedError{TP: r.changelog.logs.Input, Reason: reason, Decide: "worker state reset, or state_lost=reset"}
	}
	if !known {
		var err error
		if at, err = r.resumer.startOffset(ctx); err != nil {
			return err
		}
	}
	r.changelog.logs.Log.Error("state cannot be rebuilt, resuming with empty state", "reason", reason, "at", at)
	return r.empty(ctx, n, stored, at, 0)
}

// empty resumes at offset at without state, and with what is below backfill as a backfill. The
// content of the changelog is deleted in the transaction that commits the start.
func (r *restorer) empty(ctx context.Context, n *resumption, stored map[string]struct{}, at, backfill int64) error {
	n.Leader, n.At, n.Commit = 0, at, true
	if stored == nil {
		var err error
		if _, stored, err = r.changelog.Load(ctx, true); err != nil {
			return err
		}
		r.changelog.Identify("")
	}
	n.State = r.changelog.NewState()
	n.State.BackfillTo(backfill)
	n.Wipe = make([][]byte, 0, len(stored))
	for k := range stored {
		n.Wipe = append(n.Wipe, []byte(k))
	}
	return nil
}

// startNew starts a partition that has neither a committed offset nor state.
func (r *restorer) startNew(ctx context.Context, n *resumption) error {
	at, err := r.resumer.startOffset(ctx)
	if err != nil {
		return err
	}
	from, err := r.backfillFrom(ctx, at)
	if err != nil {
		return err
	}
	if from < at {
		n.State.BackfillTo(at)
		r.changelog.logs.Log.Info("new partition of the group: input before its start fills windows and histories", "from", from,
			"start", at)
	}
	n.At, n.Commit = from, true
	return nil
}

// backfillFrom returns the first offset of the backfill of a partition that starts at offset at: of the
// first record with a timestamp at most Backfill before the start's, which is now for kafka.Latest; at
// where there is none. Before the log's first record there is nothing.
func (r *restorer) backfillFrom(ctx context.Context, at int64) (int64, error) {
	start := r.resumer.Start
	if r.Backfill <= 0 || start == kafka.Earliest {
		return at, nil
	}
	if start == kafka.Latest {
		start = time.Now().UnixMilli()
	}
	from, err := r.changelog.logs.List(ctx, r.changelog.logs.Input, max(0, start-r.Backfill.Milliseconds()))
	return min(from, at), err
}

// refilled begins a backfill again whose input was deleted before it was read: at the log's start, without
// state, and with the same end. It reports false where the backfill is over, or records that follow it are
// deleted too: offset_lost and state_lost decide about those.
func (r *restorer) refilled(ctx context.Context, n *resumption, off kafka.Offset, floor *state.Floor) (bool, error) {
	if off.Offset >= floor.Backfill {
		return false, nil
	}
	start, err := r.changelog.logs.List(ctx, r.changelog.logs.Input, kafka.Earliest)
	if err != nil || start <= min(off.Offset, floor.From()) || start > floor.Backfill {
		return false, err
	}
	r.changelog.logs.Log.Warn("input of the backfill was deleted before it was read, it begins again with what is left",
		"offset", off.Offset, "floor", floor.Offset, "log_start", start, "start", floor.Backfill)
	return true, r.empty(ctx, n, nil, start, floor.Backfill)
}
