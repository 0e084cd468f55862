package processor

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"odradek/processor/kafka"
	"odradek/processor/kafkatest"
	"odradek/schemas/output"
)

// produceKeys writes n samples of each of a number of keys, key by key in turn.
func (b *bench) produceKeys(from, keys, n int) {
	b.t.Helper()
	enc := output.NewReadingEncoder(-1, "plant", "mm")
	var recs []kafkatest.Record
	for range n {
		for k := from; k < from+keys; k++ {
			name := fmt.Sprintf("device-%06d", k)
			recs = append(recs, kafkatest.Record{Topic: b.input, Partition: -1, Key: []byte(name), Time: 1700000000000 + int64(b.n)*1000,
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

// TestStateBudget: the states of all partitions stay within the worker's budget. Series
// that need more memory evict those that were used least recently.
func TestStateBudget(t *testing.T) {
	b := newBench(t, 2)
	cfg := b.config("one")
	cfg.StateBytes = 256 << 10
	p, stop := b.start(cfg)
	for i := range 5 {
		b.produceKeys(400*i, 400, 8)
		waitFor(t, "all is committed", func() bool {
			n := int64(0)
			for _, s := range p.Status() {
				n += s.Committed
			}
			return n >= int64(b.n)
		})
		// A partition that has had its last record may be above its share.
		if bytes, keys := stateBytes(p); bytes > cfg.StateBytes*3/2+4096 || keys < 400 {
			t.Fatalf("%d bytes for %d keys, the budget is %d", bytes, keys, cfg.StateBytes)
		}
	}
	for i := range 3 { // every partition has records after the others have grown
		b.produceKeys(3000+20*i, 20, 1)
		waitFor(t, "all is committed", func() bool {
			n := int64(0)
			for _, s := range p.Status() {
				n += s.Committed
			}
			return n >= int64(b.n)
		})
	}
	// One sample may make its window grow before the next one evicts.
	if bytes, keys := stateBytes(p); keys > 1500 || bytes < cfg.StateBytes*3/4 || bytes > cfg.StateBytes+4096 {
		t.Errorf("%d keys and %d bytes are left: nothing shows that the budget evicts", keys, bytes)
	}
	stop(nil)
	b.ledger() // no score twice
}

// A changelog that holds more than the budget is restored within it: what was used
// last stays, the rest is evicted once, with the first cycle, and the next restore
// has the same state, to the byte.
func TestRestoreWithinBudget(t *testing.T) {
	b := newBench(t, 2)
	b.produceKeys(0, 1500, 8)
	p, stop := b.start(b.config("one"))
	waitFor(t, "all is committed", func() bool {
		n := int64(0)
		for _, s := range p.Status() {
			n += s.Committed
		}
		return n >= int64(b.n)
	})
	whole, _ := stateBytes(p)
	stop(nil)

	cfg := b.config("one")
	cfg.StateBytes = 200 << 10
	var mu sync.Mutex
	handed, restored := map[kafka.TP][]byte{}, map[kafka.TP][]byte{}
	cfg.export = func(tp kafka.TP, was bool, _ int64, state []byte) {
		mu.Lock()
		defer mu.Unlock()
		if !was {
			handed[tp] = state
		}
	}
	p, stop = b.start(cfg)
	waitFor(t, "restored", p.Ready)
	// What is left of an evicted series until then is about 350 bytes.
	bytes1, all := stateBytes(p)
	b.produceKeys(1500, 10, 2)
	waitFor(t, "all is committed", func() bool {
		n := int64(0)
		for _, s := range p.Status() {
			n += s.Committed
		}
		return n >= int64(b.n)
	})
	bytes2, keys := stateBytes(p)
	t.Logf("%d keys and %d bytes restored of %d, %d and %d are left", all, bytes1, whole, keys, bytes2)
	if bytes1 > cfg.StateBytes*9/8+350*all || bytes1 > whole*4/5 || bytes2 > cfg.StateBytes*5/4 || bytes2 < cfg.StateBytes/2 || keys >= all {
		t.Errorf("%d keys and %d bytes restored, %d and %d are left, the budget is %d", all, bytes1, keys, bytes2, cfg.StateBytes)
	}
	if n := testutil.ToFloat64(cfg.Metrics.Evictions.WithLabelValues(b.input, "0")) +
		testutil.ToFloat64(cfg.Metrics.Evictions.WithLabelValues(b.input, "1")); n != float64(1510-keys) {
		t.Errorf("%v evictions, %d keys are left of 1510", n, keys)
	}
	stop(nil)

	cfg = b.config("one") // without a budget: nothing is left out
	cfg.export = func(tp kafka.TP, was bool, _ int64, state []byte) {
		mu.Lock()
		defer mu.Unlock()
		if was {
			restored[tp] = state
		}
	}
	b.run(cfg)
	for tp, h := range handed {
		if !bytes.Equal(h, restored[tp]) {
			t.Errorf("%v: the second restore has %d bytes of state, the first had %d", tp, len(restored[tp]), len(h))
		}
	}
	if len(handed) != 2 {
		t.Errorf("%d partitions were handed over", len(handed))
	}
}
