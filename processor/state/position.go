package state

import (
	"fmt"
	"math"
)

// first returns the offset of the first sample of the record at offset.
func (s *State) first(offset int64) int64 { return first(s.bits, offset) }

func first(bits uint8, offset int64) int64 {
	switch {
	case offset < 0:
		return offset // none
	case offset > math.MaxInt64>>bits:
		return math.MaxInt64
	}
	return offset << bits
}

// MaxTime returns the largest event time folded, NoTime without one.
func (s *State) MaxTime() int64 { return s.maxTime }

// watermark returns the event time that held samples wait for: the largest one less the lateness. It never goes back, also
// where another reading raises the lateness.
func (s *State) watermark() int64 { return max(s.released, s.bound()) }

// bound returns the event time below which samples are late.
func (s *State) bound() int64 {
	if s.maxTime == NoTime {
		return NoTime
	}
	return timeBefore(s.maxTime, s.order.Lateness)
}

// turn returns the offset of the newest sample, whose turn it is (gate).
func (s *State) turn() int64 { return s.next - 1 }

// Results are withheld where they are published already, in a replay, and where they are from before the offset at which the
// partition begins to publish, in a backfill. withholds says which offsets these are. What makes results asks nothing else: a
// replay counts and saves like live input, and EndReplay forgets the counts, as the undo log drops what a replay saves. Only
// what decides (evictions, readings, rules) asks whether it replays, because a replay makes no decisions.
//
// A backfill is the part of the log before the offset at which the partition begins to publish. Its samples
// fill windows, carries and histories, and their results are not published. It is a fold like any other,
// with decisions, undo and snapshots, so a state in the middle of it can be rolled back, restored and handed
// over; a replay, which makes no decisions, could not bound the keys or forget those past their TTL.
//
// Whether a result is withheld follows from the offset of its sample, also where the sample is processed
// later: a sample of the backfill that is held for order, or is fresh until its stride is full, has no row
// after the backfill either. So the offset stays in the floor for good.
//
//   - Rows, blocks and refusals of its samples are not handed out, and every outcome is counted as
//     Backfilled.
//   - A task whose results no state depends on is not packed if it becomes due in the backfill. Later ones are,
//     regardless of their offset: consecutive tasks share rows, so none between two may be left out.
//   - No anomaly opens. Consecutive exceeding scores that reach to the end are pending as always: the first
//     score after the backfill that exceeds opens the anomaly, with the start of the first of them.
//   - No series becomes silent. A series that has had no sample for long enough at the end of the backfill becomes
//     silent with the next sample that raises the watermark.

// BackfillTo declares the samples below offset a backfill, before the first Mark or sample of a new
// State. BeginReplay takes it from the floor.
func (s *State) BackfillTo(offset int64) {
	if s.next != math.MinInt64 {
		panic("state: BackfillTo of a state that has begun")
	}
	s.backfill = s.first(offset)
}

// BackfillEnd returns the offset of BackfillTo; 0 without a backfill.
func (s *State) BackfillEnd() int64 { return s.backfill >> s.bits }

// pass notes that offsets below next are folded. From the end of the backfill on, keys can become silent.
func (s *State) pass(next int64) {
	filling := !s.publishes()
	if s.next = next; filling && s.publishes() {
		s.planSilences()
	}
}

// countSample counts a sample by its outcome, which it returns; in a backfill as Backfilled.
func (s *State) countSample(out Outcome, offset int64) Outcome {
	if offset < s.backfill {
		s.Tally.Counts[Backfilled]++
	} else {
		s.Tally.Counts[out]++
	}
	return out
}

// withholds reports whether the results of the sample at offset are left out.
func (s *State) withholds(offset int64) bool { return s.replaying || offset < s.backfill }

// withholdsSome reports whether there may be offsets for which withholds is true.
func (s *State) withholdsSome() bool { return s.replaying || s.backfill > 0 }

// publishes reports whether the present turn may have results that are not withheld.
func (s *State) publishes() bool { return !s.replaying && (s.backfill == 0 || s.next > s.backfill) }

// mustDecide panics if nothing can be decided before the sample at offset: a replay makes no decisions, and what is folded cannot
// be changed.
func (s *State) mustDecide(what string, offset int64) {
	if s.replaying || offset < s.next {
		panic(fmt.Sprintf("state: %s at %d during replay, or behind %d, which is folded", what, offset, s.turn()))
	}
}

// This file has the arithmetic of event times: microseconds since the epoch, any
// int64 but the smallest, which stands for no time.

// noTime stands for the event time of no sample.
const noTime = math.MinInt64

// timeBefore returns the time that is a number of microseconds before t, not negative, or the
// smallest time if there is none as early.
func timeBefore(t, microseconds int64) int64 {
	if d := t - microseconds; d <= t && d > noTime {
		return d
	}
	return noTime + 1
}
