package state

import "math"

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

// backfilling reports whether no sample after the backfill has been folded.
func (p *position) backfilling() bool { return p.backfill > 0 && p.next <= p.backfill }

// pass notes that offsets below next are folded. From the end of the backfill on, keys can become silent.
func (s *sweeps) pass(next int64) {
	filling := s.at.backfilling()
	if s.at.next = next; filling && !s.at.backfilling() {
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

// withholds reports whether the results of the sample at offset are not published.
func (o *Output) withholds(offset int64) bool { return o.journal.Replaying || offset < o.at.backfill }
