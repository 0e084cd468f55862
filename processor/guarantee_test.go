package processor

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestOtherGuarantee: a worker that writes at least once ends between the state and the offset of a cycle. Exactly once is
// refused, with advice that keeps the state: after one more run at least once, exactly once goes on.
func TestOtherGuarantee(t *testing.T) {
	b := newBench(t, 1)
	cfg := b.config("one")
	cfg.Guarantee, cfg.ReplayLimit = AtLeastOnce, time.Nanosecond // state is in each cycle
	var armed atomic.Bool
	reached, dead := make(chan struct{}, 1), make(chan struct{})
	cfg.Hooks.Step = func(s Step, _ int) {
		if armed.Load() && s == BeforeOffsets {
			select {
			case reached <- struct{}{}:
			default:
			}
			<-dead // the process is gone
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, _, stop := b.startWith(cfg)
	// One batch each: a cycle writes the keys that have changed before the newest arrival that is remembered, one a second. After a
	// first cycle of few records the second would write their keys, and the third none.
	b.produceBatch(0, 300)
	must(t, b.c.Admin().WaitCommitted(ctx, "g", b.input))
	armed.Store(true)
	b.produceBatch(0, 300)
	<-reached
	defer func() { close(dead); _ = stop() }() // of the worker that is gone no end matters: it may be fenced by the next one

	next := b.config("one")
	_, ended, _ := b.startWith(next)
	var refused *RefusedError
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
	}
	if !errors.As(err, &refused) || !strings.Contains(refused.Reason, "either the worker before had guarantee=at_least_once") ||
		!strings.HasPrefix(refused.Decide, "start once more with guarantee=at_least_once") {
		t.Fatalf("exactly once, with the state ahead: %v", err)
	}
	again := b.config("one")
	again.Guarantee = AtLeastOnce
	b.run(again)
	b.produce(300)
	b.run(b.config("one"))
	seen := map[int64]bool{}
	// The first worker may have written the scores of a further cycle, whose state it did not write: at least once has them again.
	for id := range b.scores(func([2]int64) {}) {
		seen[id[1]] = true
	}
	if len(seen) < 900-30*3 {
		t.Errorf("%d offsets of 900 have scores", len(seen))
	}
}
