package processor

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"odradek/processor/brokertest"
	"odradek/processor/kafka"
	"odradek/schemas"
)

// produceKeys writes n samples of each of so many keys, key by key in turn.
func (b *bench) produceKeys(from, keys, n int) {
	b.t.Helper()
	enc := schemas.NewReadingEncoder(-1, "plant", "mm")
	var recs []brokertest.Record
	for range n {
		for k := from; k < from+keys; k++ {
			name := fmt.Sprintf("device-%06d", k)
			recs = append(recs, brokertest.Record{Topic: b.input, Partition: -1, Key: []byte(name), Time: 1700000000000 + int64(b.n)*1000,
				Value: enc.Append(nil, []byte(name), 1700000000000000+int64(b.n)*1e6, math.Sin(float64(b.n)), int64(b.n))})
			b.n++
		}
	}
	if _, err := b.c.ProduceAcked(context.Background(), recs); err != nil {
		b.t.Fatal(err)
	}
}

func stateBytes(p *Processor) (bytes, keys int64) {
	for _, s := range p.Status() {
		bytes += s.Bytes
		keys += s.Keys
	}
	return bytes, keys
}

// The states of all partitions stay within the worker's budget: more series than
// there is memory for evict those that were not heard of for longest.
func TestStateBudget(t *testing.T) {
	b := newBench(t, 2)
	cfg := b.config("one")
	cfg.StateBytes = 256 << 10
	p, stop := b.start(cfg)
	for i := range 5 {
		b.produceKeys(400*i, 400, 8)
		waitFor(t, "all is committed", 20*time.Second, func() bool {
			n := int64(0)
			for _, s := range p.Status() {
				n += s.Committed
			}
			return n >= int64(b.n)
		})
		// One sample may make its window grow before the next one evicts.
		if bytes, keys := stateBytes(p); bytes > cfg.StateBytes+4096 || keys < 400 {
			t.Fatalf("%d bytes for %d keys, the budget is %d", bytes, keys, cfg.StateBytes)
		}
	}
	evicted := int64(0)
	for _, s := range p.Status() {
		evicted += 1000 - s.Keys
	}
	if bytes, keys := stateBytes(p); evicted < 500 || bytes < cfg.StateBytes*9/10 {
		t.Errorf("%d keys and %d bytes are left: nothing shows that the budget evicts", keys, bytes)
	}
	stop(nil)
	b.ledger() // no score twice
}

// A partition may use what the others leave, but never less than its share.
func TestBudgetShares(t *testing.T) {
	tp := func(i int32) kafka.TP { return kafka.TP{Topic: "in", Partition: i} }
	b := budget{total: 1000}
	b.join(tp(0))
	if got := b.limit(tp(0), 900); got != 1000 {
		t.Errorf("alone: %d", got)
	}
	b.join(tp(1))
	if got := b.limit(tp(1), 0); got != 500 {
		t.Errorf("beside one that has nearly all: %d", got)
	}
	if got := b.limit(tp(1), 400); got != 500 {
		t.Errorf("grown: %d", got)
	}
	if got := b.limit(tp(0), 900); got != 600 {
		t.Errorf("the one that has nearly all: %d", got)
	}
	b.limit(tp(0), 600)
	b.leave(tp(1))
	if got := b.limit(tp(0), 600); got != 1000 {
		t.Errorf("alone again: %d", got)
	}
	if got := b.limit(tp(1), 700); got != math.MaxInt64 || b.sum != 600 {
		t.Errorf("one that has left: %d, sum %d", got, b.sum)
	}
	none := budget{}
	none.join(tp(0))
	if got := none.limit(tp(0), 1<<40); got != math.MaxInt64 {
		t.Errorf("no budget: %d", got)
	}
}
