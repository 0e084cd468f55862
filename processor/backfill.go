package processor

import (
	"time"

	"odradek/processor/metrics"
	"odradek/processor/state"
)

// A partition that the group begins with fills its windows and histories from input before its
// start, if Config.Backfill says so. The transaction that commits the start (start.go) commits the
// first offset of the backfill, with the backfill's end in the replay floor: so both bounds are fixed
// before anything is read, and every later restore takes the same. From there on the backfill is input
// like any other, folded by foldChunk in cycles that commit offsets and state. The only difference is that the state
// withholds its results and that its dead letters and late records are dropped here. It is no replay
// of a restore, which makes no decisions: a replay evicts no series and declares no schema missing, so that the next one
// has the same result.

// backfill tracks the backfill of a partition.
type backfill struct {
	end        int64 // 0: none
	over       bool  // or there is none
	began      time.Time
	from       int64 // since began
	records    int64 // since began, with those that cannot be read
	unreadable int64
}

// covers reports whether the record at offset is one of the backfill.
func (b *backfill) covers(offset int64) bool { return offset < b.end }

// reset begins with a state that was restored or rolled back to offset at.
func (b *backfill) reset(s *state.State, at int64) {
	*b = backfill{end: s.BackfillEnd(), began: time.Now(), from: at}
	b.over = at >= b.end
}

// note counts the records that have joined a cycle; the next record is at offset next. It
// reports whether the backfill has ended with them.
func (b *backfill) note(next int64, c *metrics.Counts) (ended bool) {
	if b.over {
		return false
	}
	b.unreadable += c.Unreadable
	b.records += c.Backfilled + c.Outcomes[state.Backfilled]
	b.over = !b.covers(next)
	return b.over
}
