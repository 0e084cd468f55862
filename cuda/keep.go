//go:build linux

package cuda

import (
	"context"
	"errors"
	"sync"

	"odradek/cuda/plan"
	"odradek/detectors"
)

// The windows that stay on a device lie in memory that its child takes when it
// starts, in blocks that owners have, and are lost with the child. Which window lies
// where only its owner knows (detectors.Shelf): the device never looks anything up,
// and so cannot find the wrong thing. A batch with runs goes to the device that has
// the windows, or back to its owner.

// blockBytes is what an owner takes at a time.
const blockBytes = 1 << 20

// kept is a child's memory for windows.
type kept struct {
	d     *device
	c     *child
	block int // bytes

	mu   sync.Mutex
	free []uint64 // blocks, by address
}

func newKept(d *device, c *child, base uint64, size int64) *kept {
	k := &kept{d: d, c: c, block: int(min(size, blockBytes))}
	for at := size - int64(k.block); at >= 0; at -= int64(k.block) {
		k.free = append(k.free, base+uint64(at))
	}
	return k
}

// share is what one owner has of a child's memory.
type share struct {
	*kept
	blocks []uint64
}

func (s *share) Extend(bytes int) (first uint64, n int) {
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

func (s *share) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = append(s.free, s.blocks...)
	s.blocks = nil
}

func (s *share) Gone() bool {
	select {
	case <-s.c.dead:
		return true
	default:
		return false
	}
}

// Keep is what the executor keeps of one owner's windows on a device, if
// Options.Resident allows it: see detectors.Shelf.
func (e *Executor) Keep() *detectors.Keep {
	if e.o.Resident <= 0 {
		return nil
	}
	find := func() detectors.KeepMemory {
		var best *kept
		blocks := 0
		for _, d := range e.devices {
			if c := d.serving(); c != nil && c.kept != nil {
				c.kept.mu.Lock()
				n := len(c.kept.free)
				c.kept.mu.Unlock()
				if n > blocks {
					best, blocks = c.kept, n
				}
			}
		}
		if best == nil {
			return nil
		}
		return &share{kept: best}
	}
	takes := func(d detectors.Detector, dim, fresh int) bool {
		p := plan.Planner{Shared: e.least}
		return p.Keeps(d, dim, fresh)
	}
	return detectors.NewKeep(find, takes)
}

// onKeeper executes the plan of this round on the device that keeps windows that
// its tasks read; taken is false where that is not in service.
func (e *Executor) onKeeper(ctx context.Context, h *held) (taken bool, err error) {
	p := &h.plan
	s, ok := h.KeptIn().(*share)
	if !ok || s.Gone() || !p.Feeds() {
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
