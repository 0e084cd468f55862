package state

import (
	"fmt"
	"math"
)

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
func (p *position) BackfillTo(offset int64) {
	if p.next != math.MinInt64 {
		panic("state: BackfillTo of a state that has begun")
	}
	p.backfill = p.first(offset)
}

// BackfillEnd returns the offset of BackfillTo; 0 without a backfill.
func (p *position) BackfillEnd() int64 { return p.backfill >> p.bits }

// pass notes that offsets below next are folded. From the end of the backfill on, keys can become silent.
func (s *State) pass(next int64) {
	filling := !s.publishes()
	if s.next = next; filling && s.publishes() {
		s.planSilences()
	}
}

// counted returns the outcome to count for the sample at offset: Backfilled in a backfill.
func (p *position) counted(out Outcome, offset int64) Outcome {
	if offset < p.backfill {
		return Backfilled
	}
	return out
}

// withholds reports whether the results of the sample at offset are left out.
func (p *position) withholds(offset int64) bool { return p.replaying || offset < p.backfill }

// withholdsSome reports whether there may be offsets for which withholds is true.
func (p *position) withholdsSome() bool { return p.replaying || p.backfill > 0 }

// publishes reports whether the present turn may have results that are not withheld.
func (p *position) publishes() bool { return !p.replaying && (p.backfill == 0 || p.next > p.backfill) }

// mustDecide panics if nothing can be decided before the sample at offset: a replay makes no decisions, and what is folded cannot
// be changed.
func (p *position) mustDecide(what string, offset int64) {
	if p.replaying || offset < p.next {
		panic(fmt.Sprintf("state: %s at %d during replay, or behind %d, which is folded", what, offset, p.turn()))
	}
}
