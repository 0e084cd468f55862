package processor

import (
	"context"
	"errors"
	"sync"

	"odradek/processor/limits"
)

// cycles holds the cycle that is open: partitions add their results to it, and the main
// goroutine closes it and opens another.
type cycles struct {
	// mu: partitions add under RLock; closing takes Lock, which waits for those that are
	// in the middle of adding. It also guards BatchBytes of the output topics.
	mu      sync.RWMutex
	open    *cycle
	swapped chan struct{} // closed when open is replaced
	epoch   uint64        // grows with every rollback; a result of an older epoch is dropped

	ready chan struct{} // open is not empty (capacity 1)

	spare *cycle        // empty, to be the next open one; nil: make one; main goroutine only
	make  func() *cycle // returns an empty one
}

var errStaleEpoch = errors.New("processor: the result is of an abandoned epoch")

func newCycles(empty func() *cycle, r limits.Room) *cycles {
	cs := &cycles{open: empty(), swapped: make(chan struct{}), ready: make(chan struct{}, 1), make: empty}
	cs.open.room = r
	return cs
}

// enter waits for room in the open cycle and returns it; the cycle stays open until leave.
// It returns errStaleEpoch for an old epoch.
func (cs *cycles) enter(ctx context.Context, epoch uint64) (*cycle, error) {
	for {
		cs.mu.RLock()
		if cs.epoch != epoch {
			cs.mu.RUnlock()
			return nil, errStaleEpoch
		}
		c, swapped := cs.open, cs.swapped
		c.mu.Lock()
		full := c.full
		c.mu.Unlock()
		if !full {
			return c, nil
		}
		cs.mu.RUnlock()
		select {
		case <-swapped:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// leave allows the cycle that enter returned to be closed.
func (cs *cycles) leave() { cs.mu.RUnlock() }

// announce signals to the main goroutine that the open cycle is not empty.
func (cs *cycles) announce() {
	select {
	case cs.ready <- struct{}{}:
	default:
	}
}

// now returns the epoch.
func (cs *cycles) now() uint64 {
	cs.mu.RLock()
	defer cs.mu.RUnlock()
	return cs.epoch
}

// room returns the capacity of the open cycle.
func (cs *cycles) room() limits.Room {
	cs.mu.RLock()
	defer cs.mu.RUnlock()
	return cs.open.room
}

// promptBytes is the size from which a cycle does not wait for the commit interval: the
// fixed cost of a transaction is then small beside that of its bytes, and its first
// records would only wait longer.
const promptBytes = 4 << 20

// prompt reports whether the open cycle should be committed as soon as the last
// commit is done, regardless of the commit interval.
func (cs *cycles) prompt() bool {
	cs.mu.RLock()
	defer cs.mu.RUnlock()
	cs.open.mu.Lock()
	defer cs.open.mu.Unlock()
	return cs.open.full || cs.open.bytes >= promptBytes
}

// close returns the open cycle and puts an empty one with room for r in its place.
func (cs *cycles) close(r limits.Room) *cycle {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c := cs.open
	if cs.open = cs.spare; cs.open == nil {
		cs.open = cs.make()
	}
	cs.spare = nil
	cs.swap(r)
	return c
}

// abandon begins a new epoch with an empty open cycle.
func (cs *cycles) abandon(r limits.Room) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.epoch++
	cs.open = cs.make()
	cs.swap(r)
}

func (cs *cycles) swap(r limits.Room) {
	cs.open.room = r
	close(cs.swapped)
	cs.swapped = make(chan struct{})
}

// entry is a partition's way into the open cycle. One goroutine uses it.
type entry struct {
	cycles *cycles
	epoch  uint64 // of the partition's results
}

// renew makes the results that follow those of the present epoch.
func (e *entry) renew() { e.epoch = e.cycles.now() }

// stale reports whether the partition's results are of an abandoned epoch.
func (e *entry) stale() bool { return e.epoch != e.cycles.now() }

// enter waits for room in the open cycle, which stays open until leave. It returns
// errStaleEpoch for an abandoned epoch.
func (e *entry) enter(ctx context.Context) (*cycle, error) { return e.cycles.enter(ctx, e.epoch) }

func (e *entry) leave()    { e.cycles.leave() }
func (e *entry) announce() { e.cycles.announce() }

// spoil marks the cycle that the partition has written to as one that must not be
// committed.
func (e *entry) spoil(c *cycle, err error) {
	c.spoil(err)
	e.cycles.announce() // otherwise the main goroutine might wait for another result
}
