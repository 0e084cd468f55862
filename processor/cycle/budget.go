package cycle

import (
	"math"
	"sync"

	"odradek/processor/kafka"
)

// Budget divides the bytes of state that a worker may hold among its partitions.
//
// Every partition may have an equal share, and beyond it what the others leave: its
// limit is the larger of the share and of what the budget has left. A partition that
// is over its limit evicts its own least recently used keys before it folds another
// record, so a partition that grows evicts its own keys, but never below its share. One
// that is over its share and gets no records evicts none until its next record.
type Budget struct {
	Total int64 // 0: no limit

	mu   sync.Mutex
	used map[kafka.TP]int64 // of those that are assigned
	sum  int64
}

// Join adds an assigned partition to those that divide the budget.
func (b *Budget) Join(tp kafka.TP) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used == nil {
		b.used = map[kafka.TP]int64{}
	}
	if _, ok := b.used[tp]; !ok {
		b.used[tp] = 0
	}
}

// Leave removes a partition and returns its bytes to the others.
func (b *Budget) Leave(tp kafka.TP) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sum -= b.used[tp]
	delete(b.used, tp)
}

// Limit records the bytes that a partition uses and returns the bytes that it may use.
func (b *Budget) Limit(tp kafka.TP, bytes int64) int64 {
	if b.Total == 0 {
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
	return max(b.Total/int64(len(b.used)), b.Total-(b.sum-bytes))
}
