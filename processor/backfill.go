package processor

import (
	"math"
	"time"

	"odradek/processor/keystate"
	"odradek/processor/limits"
	"odradek/processor/metrics"
)

// A partition that the group begins with fills its windows and histories from input before its
// start, if Config.Backfill says so. The transaction that commits the start (start.go) commits the
// first offset of the backfill, with the backfill's end in the replay floor: so both bounds are fixed
// before anything is read, and every later restore takes the same. From there on the backfill is input
// like any other, folded by foldChunk in cycles that commit offsets and state; what keystate does not
// hand out, and what is dropped here (dead letters, late records), is all that differs. It is no replay
// of a restore, which makes no decisions: it evicts no series and condemns no schema, and another one
// must find the same.

// backfill is what a partition knows of its backfill.
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
func (b *backfill) reset(s *keystate.State, at int64) {
	*b = backfill{end: s.BackfillEnd(), began: time.Now(), from: at}
	b.over = at >= b.end
}

// addBackfilled counts records of the backfill that cannot be read. They are no dead letters: where the
// group begins to publish, nobody waits for them.
func (pt *partition) addBackfilled(n int64) {
	pt.counts.Backfilled += n
	pt.counts.Unreadable += n
}

// noteBackfill counts what has joined a cycle, of which the next record is at offset next, and ends the
// backfill.
func (pt *partition) noteBackfill(next int64, c *metrics.Counts) {
	b := &pt.backfill
	if b.over {
		return
	}
	b.unreadable += c.Unreadable
	b.records += c.Backfilled + c.Outcomes[keystate.Backfilled]
	if b.covers(next) {
		return
	}
	b.over = true
	// The next cycles write the state that it has made: until then a restart has the backfill to replay.
	pt.arrivals = limits.Arrivals{}
	pt.arrivals.Add(b.end, time.Time{})
	pt.log.Info("backfilled", "start", b.end, "offset", next, "from", b.from, "records", b.records, "unreadable", b.unreadable,
		"keys", pt.state.Keys.Len(), "took", time.Since(b.began).Round(time.Millisecond))
}

// chunkRecords returns how many records of a chunk from offset on join a cycle at a time: a backfill has
// no outputs that could fill it.
func (pt *partition) chunkRecords(offset int64) int64 {
	if pt.backfill.covers(offset) {
		return math.MaxInt64
	}
	return pt.host.cycles.room().Records
}
