package kafka

import (
	"context"
	"math/rand/v2"
	"time"
)

// This file spaces the attempts of a request that may succeed later.

// backoff doubles from one attempt to the next, with jitter so that workers do not retry
// all at once.
type backoff struct{ first, most, next time.Duration }

// newBackoff returns a Delay that begins at first and grows up to most.
func newBackoff(first, most time.Duration) backoff { return backoff{first: first, most: most} }

// Next returns how long to wait before the next attempt: between half of the delay and all of it.
func (b *backoff) Next() time.Duration {
	if b.next == 0 {
		b.next = b.first
	}
	now := b.next
	b.next = min(2*now, b.most)
	return now/2 + rand.N(now/2+1)
}

// Reset returns the delay to its first value after a success.
func (b *backoff) Reset() { b.next = 0 }

// Wait sleeps for Next, or returns the cause of the context's end.
func (b *backoff) Wait(ctx context.Context) error { return sleep(ctx, b.Next()) }

// sleep waits for d, or returns the cause of the context's end.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
