package processor

import (
	"log/slog"
	"time"

	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/processor/metrics"
	"odradek/processor/state"
)

// trimmer holds the state of a partition within its share of the worker's budget.
type trimmer struct {
	budget *cycle.Budget
	tp     kafka.TP
	log    *slog.Logger
	limit  int64 // of the state's bytes, as of the last call; see cycle.Budget
	logged time.Time
	keys   int // evicted since, for the log
}

// note tells the budget what the state takes, and renews the limit.
func (t *trimmer) note(s *state.State) { t.limit = t.budget.Limit(t.tp, s.Bytes()) }

// always makes the next record trim, regardless of the size of the state.
func (t *trimmer) always() { t.limit = -1 }

// trim evicts keys before the record at offset, as many as the partition is over its
// limit, and a few more, so that the next record need not evict again.
func (t *trimmer) trim(s *state.State, offset int64) {
	if n := s.Shed(offset); n > 0 {
		t.log.Warn("series that did not fit when the partition was restored are evicted (state_bytes)",
			"offset", offset, "evicted", n)
	}
	t.note(s)
	if s.Bytes() <= t.limit {
		return
	}
	n := s.Trim(t.limit-t.limit/64, offset)
	t.budget.Limit(t.tp, s.Bytes())
	if t.keys += n; n > 0 && time.Since(t.logged) > metrics.SummaryEvery {
		t.log.Warn("the state is over its budget (state_bytes), the least recently used series are evicted",
			"offset", offset, "evicted", t.keys, "bytes", s.Bytes(), "limit", t.limit)
		t.logged, t.keys = time.Now(), 0
	}
}
