//go:build linux

package cuda

import (
	"context"
	"errors"
	"sync"

	"odradek/cuda/plan"
	"odradek/detectors"
)

// The window cache of a device lies in memory that its child takes when it starts, in
// blocks that owners have, and is lost with the child. Which window lies where only its
// owner knows (detectors.WindowPool): the device never looks anything up, and so cannot
// find the wrong thing. A batch with updates goes to the device that has the windows, or
// back to its owner.

// blockBytes is what an owner takes at a time.
const blockBytes = 1 << 20

// cacheMemory is a child's memory for cached windows.
type cacheMemory struct {
	d     *device
	c     *child
	block int // bytes

	mu   sync.Mutex
	free []uint64 // blocks, by address
}

func newCacheMemory(d *device, c *child, base uint64, size int64) *cacheMemory {
	k := &cacheMemory{d: d, c: c, block: int(min(size, blockBytes))}
	for at := size - int64(k.block); at >= 0; at -= int64(k.block) {
		k.free = append(k.free, base+uint64(at))
	}
	return k
}

// cacheShare is what one owner has of a child's memory.
type cacheShare struct {
	*cacheMemory
	blocks []uint64
}

func (s *cacheShare) Extend(bytes int) (first uint64, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := len(s.free) - 1
	if last < 0 || bytes > s.block {
		return 0, 0
	}
	first = s.free[last]
	s.free = s.free[:last]
	s.blocks = append(s.blocks, first)
	return first, s.block / bytes
}

func (s *cacheShare) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = append(s.free, s.blocks...)
	s.blocks = nil
}

func (s *cacheShare) Gone() bool {
	select {
	case <-s.c.dead:
		return true
	default:
		return false
	}
}

// WindowCache returns a cache of one owner's windows on a device, if
// Options.WindowCache allows it: see detectors.WindowPool.
func (e *Executor) WindowCache() *detectors.WindowCache {
	if e.o.WindowCache <= 0 {
		return nil
	}
	find := func() detectors.CacheMemory {
		var best *cacheMemory
		blocks := 0
		for _, d := range e.devices {
			if c := d.serving(); c != nil && c.cache != nil {
				c.cache.mu.Lock()
				n := len(c.cache.free)
				c.cache.mu.Unlock()
				if n > blocks {
					best, blocks = c.cache, n
				}
			}
		}
		if best == nil {
			return nil
		}
		return &cacheShare{cacheMemory: best}
	}
	takes := func(d detectors.Detector, dim, fresh int) bool {
		p := plan.Planner{Shared: e.least}
		return p.Caches(d, dim, fresh)
	}
	return detectors.NewWindowCache(find, takes)
}

// onCache executes the plan of this round on the device that caches the windows that
// its tasks read; taken is false where that is not in service.
func (e *Executor) onCache(ctx context.Context, h *held) (taken bool, err error) {
	p := &h.plan
	s, ok := h.CacheMemory().(*cacheShare)
	if !ok || s.Gone() || !p.Fed() {
		return false, nil
	}
	if !e.write(h, p) {
		e.refuse(h, errors.New("its plan is too large"))
		return false, nil
	}
	cost := h.work(p)
	s.d.load.Add(cost)
	refused, err := e.onChild(ctx, s.d, s.c, h.memory, p.Request())
	s.d.load.Add(-cost)
	switch {
	case err == nil && refused == nil:
		p.Settle(h.Batch, h.memory.status(p.Request()))
		return true, nil
	case err == nil:
		e.refuse(h, refused)
		return false, nil
	case ctx.Err() != nil && s.c.failed() == nil:
		return false, err
	}
	e.lost.Add(1)
	h.deaths++
	if !s.c.ends() {
		e.abandon(h)
	}
	return false, nil
}
