package detectors

import (
	"bytes"
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestHelpers requires that all callers together have at most the given number of helpers, and that
// these join work that has begun without them.
func TestHelpers(t *testing.T) {
	h := NewHelpers(1)
	// f(0) and f(1) wait for each other: two goroutines run them.
	both := make(chan bool)
	h.Run(t.Context(), 2, func(i int) {
		if i == 0 {
			both <- true
		} else {
			<-both
		}
	})
	var running, most atomic.Int64
	counted := func(int) {
		for n := running.Add(1); ; {
			m := most.Load()
			if n <= m || most.CompareAndSwap(m, n) {
				break
			}
		}
		time.Sleep(50 * time.Microsecond)
		running.Add(-1)
	}
	var callers sync.WaitGroup
	for range 3 {
		callers.Go(func() { h.Run(t.Context(), 40, counted) })
	}
	callers.Wait()
	if n := most.Load(); n > 4 {
		t.Errorf("%d goroutines at a time, of three callers and one helper", n)
	}
	// The helper is busy with another's work, then free: it joins.
	busy, join := make(chan bool), make(chan bool)
	callers.Go(func() {
		h.Run(t.Context(), 2, func(int) { <-busy })
	})
	for len(h.tokens) == 0 {
		time.Sleep(time.Millisecond)
	}
	h.Run(t.Context(), 64, func(i int) {
		switch i {
		case 0:
			close(busy)
			callers.Wait()
		case 2: // by either goroutine; the other has to come
			join <- true
		case 3:
			<-join
		}
	})
	// Once the context is done what has not begun is left out.
	ctx, cancel := context.WithCancel(t.Context())
	var ran atomic.Int64
	h.Run(ctx, 1000, func(int) {
		ran.Add(1)
		cancel()
	})
	if n := ran.Load(); n > 2 {
		t.Errorf("%d of 1000 ran after the context was done", n)
	}
}

// TestPanicOfAHelper: a panic in any of the goroutines comes to the caller, once, with the stack of where it was, when no
// call runs any more; and the helpers are free again.
func TestPanicOfAHelper(t *testing.T) {
	h := NewHelpers(3)
	for bad := range 8 {
		var running atomic.Int64
		func() {
			defer func() {
				p, ok := recover().(*Panic)
				if !ok || p.Value != "bad" || !bytes.Contains(p.Stack, []byte("TestPanicOfAHelper")) {
					t.Errorf("recovered %v", p)
				}
				if n := running.Load(); n != 0 {
					t.Errorf("%d calls are running", n)
				}
			}()
			h.Run(t.Context(), 8, func(i int) {
				running.Add(1)
				defer running.Add(-1)
				if i == bad {
					panic("bad")
				}
				runtime.Gosched()
			})
		}()
		if n := len(h.tokens); n != 0 {
			t.Errorf("%d helpers are not free", n)
		}
	}
}
