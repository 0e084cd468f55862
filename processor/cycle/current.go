package cycle

import (
	"context"
	"errors"
	"sync"
)

// Current holds the cycle that is open: partitions add their results to it, and the main
// goroutine closes it and opens another.
type Current[P comparable] struct {
	// mu: partitions add under RLock; closing takes Lock, which waits for those that are
	// in the middle of adding. It also guards what Read and Write say.
	mu      sync.RWMutex
	open    *Cycle[P]
	swapped chan struct{} // closed when open is replaced
	epoch   uint64        // grows with every rollback; a result of an older epoch is dropped

	ready chan struct{} // open is not empty (capacity 1)

	spare *Cycle[P]        // empty, to be the next open one; nil: make one; main goroutine only
	make  func() *Cycle[P] // returns an empty one
}

// ErrStale reports that a result is of an abandoned epoch.
var ErrStale = errors.New("cycle: the result is of an abandoned epoch")

// NewCurrent opens the first cycle, with room for r; empty returns an empty one.
func NewCurrent[P comparable](empty func() *Cycle[P], r Room) *Current[P] {
	cs := &Current[P]{open: empty(), swapped: make(chan struct{}), ready: make(chan struct{}, 1), make: empty}
	cs.open.Room = r
	return cs
}

// Room returns the capacity of the open cycle.
func (cr *Current[P]) Room() Room {
	cr.mu.RLock()
	defer cr.mu.RUnlock()
	return cr.open.Room
}

// Ready delivers when the open cycle is not empty.
func (cr *Current[P]) Ready() <-chan struct{} { return cr.ready }

// Reuse keeps an empty cycle, to be the next open one; nil frees the one that is kept. Only the goroutine that closes
// cycles calls it.
func (cr *Current[P]) Reuse(c *Cycle[P]) { cr.spare = c }

// Read calls f while no call of Write is running, and Write calls f while no partition is adding.
func (cr *Current[P]) Read(f func()) {
	cr.mu.RLock()
	defer cr.mu.RUnlock()
	f()
}

// Write changes what partitions read while they add; see Read.
func (cr *Current[P]) Write(f func()) {
	cr.mu.Lock()
	defer cr.mu.Unlock()
	f()
}

// promptBytes is the size from which a cycle does not wait for the commit interval: the
// fixed cost of a transaction is then small beside the cost of its bytes, and its first
// records would only wait longer.
const promptBytes = 4 << 20

// Prompt reports whether the open cycle should be committed as soon as the last
// commit is done, regardless of the commit interval.
func (cr *Current[P]) Prompt() bool {
	cr.mu.RLock()
	defer cr.mu.RUnlock()
	cr.open.mu.Lock()
	defer cr.open.mu.Unlock()
	return cr.open.full || cr.open.Bytes >= promptBytes
}

// Close returns the open cycle and puts an empty one with room for r in its place.
func (cr *Current[P]) Close(r Room) *Cycle[P] {
	cr.mu.Lock()
	defer cr.mu.Unlock()
	c := cr.open
	if cr.open = cr.spare; cr.open == nil {
		cr.open = cr.make()
	}
	cr.spare = nil
	cr.swap(r)
	return c
}

// Abandon begins a new epoch with an empty open cycle.
func (cr *Current[P]) Abandon(r Room) {
	cr.mu.Lock()
	defer cr.mu.Unlock()
	cr.epoch++
	cr.open = cr.make()
	cr.swap(r)
}

// swap gives the new open cycle room for r, and wakes those that wait for it. mu is held.
func (cr *Current[P]) swap(r Room) {
	cr.open.Room = r
	close(cr.swapped)
	cr.swapped = make(chan struct{})
}

// Handle is a partition's handle of the open cycle. One goroutine uses it.
type Handle[P comparable] struct {
	Cycles *Current[P]
	epoch  uint64 // of the partition's results
}

// Renew makes the results that follow belong to the present epoch.
func (h *Handle[P]) Renew() {
	h.Cycles.mu.RLock()
	defer h.Cycles.mu.RUnlock()
	h.epoch = h.Cycles.epoch
}

// Stale reports whether the partition's results are of an abandoned epoch.
func (h *Handle[P]) Stale() bool {
	h.Cycles.mu.RLock()
	defer h.Cycles.mu.RUnlock()
	return h.epoch != h.Cycles.epoch
}

// Enter waits for room in the open cycle and returns it; the cycle stays open until Leave. It returns
// ErrStale for an abandoned epoch.
func (h *Handle[P]) Enter(ctx context.Context) (*Cycle[P], error) {
	cr := h.Cycles
	for {
		cr.mu.RLock()
		if cr.epoch != h.epoch {
			cr.mu.RUnlock()
			return nil, ErrStale
		}
		c, swapped := cr.open, cr.swapped
		c.mu.Lock()
		full := c.full
		c.mu.Unlock()
		if !full {
			return c, nil
		}
		cr.mu.RUnlock()
		select {
		case <-swapped:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Leave allows the cycle that Enter returned to be closed.
func (h *Handle[P]) Leave() { h.Cycles.mu.RUnlock() }

// Announce signals to the main goroutine that the open cycle is not empty.
func (h *Handle[P]) Announce() {
	select {
	case h.Cycles.ready <- struct{}{}:
	default:
	}
}

// Spoil marks the cycle that the partition has written to as one that must not be
// committed.
func (h *Handle[P]) Spoil(c *Cycle[P], err error) {
	c.spoil(err)
	h.Announce() // otherwise the main goroutine might wait for another result
}
