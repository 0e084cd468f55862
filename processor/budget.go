package processor

import (
	"math"
	"sync"
	"time"

	"odradek/processor/kafka"
)

// budget divides the bytes of state that a worker may hold among its partitions.
//
// Every partition may have an equal share, and beyond it what the others leave: its
// limit is the larger of the share and of what the budget has left. A partition that
// is over its limit evicts its own least recently used keys before it folds another
// record, so the one that grows pays, down to the share and not below. One that is
// over its share and gets no records keeps what it has until the next one.
type budget struct {
	total int64 // 0: none

	mu   sync.Mutex
	used map[kafka.TP]int64 // of those that are assigned
	sum  int64
}

// join and leave count a partition in and out.
func (b *budget) join(tp kafka.TP) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used == nil {
		b.used = map[kafka.TP]int64{}
	}
	if _, ok := b.used[tp]; !ok {
		b.used[tp] = 0
	}
}

func (b *budget) leave(tp kafka.TP) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sum -= b.used[tp]
	delete(b.used, tp)
}

// limit notes what a partition uses and returns what it may use.
func (b *budget) limit(tp kafka.TP, bytes int64) int64 {
	if b.total == 0 {
		return math.MaxInt64
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	old, ok := b.used[tp]
	if !ok { // it has left
		return math.MaxInt64
	}
	b.used[tp] = bytes
	b.sum += bytes - old
	return max(b.total/int64(len(b.used)), b.total-(b.sum-bytes))
}

// trim evicts keys before the record at offset, as many as the partition is over
// its limit, and a little more so that not every record has to.
func (pt *partition) trim(offset int64) {
	s := pt.state
	pt.limit = pt.p.budget.limit(pt.tp, s.Bytes())
	if s.Bytes() <= pt.limit {
		return
	}
	n := s.Trim(pt.limit-pt.limit/64, offset)
	pt.p.budget.limit(pt.tp, s.Bytes())
	if pt.trimmedN += n; n > 0 && time.Since(pt.trimmedAt) > time.Minute {
		pt.log.Warn("the state is over its budget (ODRADEK_STATE_BYTES), the least recently used series are evicted",
			"offset", offset, "evicted", pt.trimmedN, "bytes", s.Bytes(), "limit", pt.limit)
		pt.trimmedAt, pt.trimmedN = time.Now(), 0
	}
}
