package cycle

import (
	"context"
	"errors"
	"testing"

	"odradek/processor/metrics"
)

// TestPrompt: a cycle that is full, or has much to commit, does not wait for the
// commit interval; a light one does.
func TestPrompt(t *testing.T) {
	for _, c := range []struct {
		bytes int
		full  bool
		want  bool
	}{{0, false, false}, {promptBytes - 1, false, false}, {promptBytes, false, true}, {1000, true, true}} {
		p := &Current[int]{open: &Cycle[int]{Bytes: c.bytes, full: c.full}}
		if got := p.Prompt(); got != c.want {
			t.Errorf("%d bytes, full %t: prompt is %t", c.bytes, c.full, got)
		}
	}
}

// TestExtend: results that follow others replace what is as of the next record, and add to what was done.
func TestExtend(t *testing.T) {
	work := func(consumed int64) (w metrics.Work) {
		w.Counts.Consumed = consumed
		return w
	}
	have := Result{Next: 10, Leader: 1, Incarnation: "a", Window: LetterWindow{Dead: 1}, Work: work(10), Advance: true,
		Traceparents: []string{"x"}}
	have.Extend(&Result{Next: 15, Leader: 2, Incarnation: "b", Window: LetterWindow{Dead: 3}, Work: work(5),
		Traceparents: make([]string, MaxTraceparents)})
	if have.Next != 15 || have.Leader != 2 || have.Incarnation != "b" || have.Window.Dead != 3 || have.Work.Counts.Consumed != 15 ||
		!have.Advance || len(have.Traceparents) != MaxTraceparents || have.Traceparents[0] != "x" {
		t.Errorf("%+v", have)
	}
}

// TestStaleHandle: a handle of an epoch that was abandoned gets no cycle until it is renewed, and one that waits for room
// is woken by the next cycle.
func TestStaleHandle(t *testing.T) {
	c := NewCurrent(func() *Cycle[int] { return &Cycle[int]{Results: Results[int]{}} }, Room{})
	e := Handle[int]{Cycles: c}
	c.Abandon(Room{})
	if _, err := e.Enter(t.Context()); !errors.Is(err, ErrStale) || !e.Stale() {
		t.Fatalf("a stale handle: %v", err)
	}
	e.Renew()
	open, err := e.Enter(t.Context())
	if err != nil || e.Stale() {
		t.Fatalf("a renewed handle: %v", err)
	}
	e.Leave()
	open.full = true
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Enter(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a full cycle is entered: %v", err)
	}
	got := make(chan *Cycle[int])
	go func() {
		next, err := e.Enter(t.Context())
		if err != nil {
			t.Error(err)
		} else {
			e.Leave()
		}
		got <- next
	}()
	if closed := c.Close(Room{}); closed != open {
		t.Error("another cycle is closed than was open")
	}
	if next := <-got; next == open {
		t.Error("the full cycle is entered")
	}
}
