package processor

import (
	"time"

	"odradek/processor/trouble"
)

// trim evicts keys before the record at offset, as many as the partition is over its
// limit, and a few more, so that the next record need not evict again.
func (pt *partition) trim(offset int64) {
	s := pt.state
	if n := s.Restore.Shed(offset); n > 0 {
		pt.log.Warn("series that did not fit when the partition was restored are evicted (ODRADEK_STATE_BYTES)",
			"offset", offset, "evicted", n)
	}
	pt.limit = pt.host.budget.Limit(pt.tp, s.Bytes())
	if s.Bytes() <= pt.limit {
		return
	}
	n := s.Keys.Trim(pt.limit-pt.limit/64, offset)
	pt.host.budget.Limit(pt.tp, s.Bytes())
	if pt.trimmedN += n; n > 0 && time.Since(pt.trimmedAt) > trouble.SummaryEvery {
		pt.log.Warn("the state is over its budget (ODRADEK_STATE_BYTES), the least recently used series are evicted",
			"offset", offset, "evicted", pt.trimmedN, "bytes", s.Bytes(), "limit", pt.limit)
		pt.trimmedAt, pt.trimmedN = time.Now(), 0
	}
}
