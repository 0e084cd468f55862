//go:build linux

package cuda

import (
	"errors"
	"fmt"
	"math/bits"

	"odradek/detectors"
)

// Batch returns an empty batch in memory that the devices see.
func (e *Executor) Batch() *detectors.Batch {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := len(e.free); n > 0 {
		h := e.free[n-1]
		e.free = e.free[:n-1]
		h.Reset()
		return h.Batch
	}
	h := &held{Batch: new(detectors.Batch)}
	h.plan.Shared = e.least
	if m, err := e.share(smallest); err == nil {
		h.memory = m
		m.take(h.Batch)
	} else {
		h.MaxTasks, h.MaxIn, h.MaxOut = largest.tasks/4, largest.in/4, largest.out/4
	}
	e.held[h.Batch] = h
	return h.Batch
}

// Release gives a batch's memory back.
func (e *Executor) Release(b *detectors.Batch) {
	e.mu.Lock()
	defer e.mu.Unlock()
	h := e.held[b]
	if h == nil {
		return
	}
	e.drop(&h.retired)
	if len(e.free) < 2*e.o.Workers+2 {
		e.free = append(e.free, h)
		return
	}
	delete(e.held, b)
	e.release(h)
}

// release frees a batch's memory; e.mu is held.
func (e *Executor) release(h *held) {
	e.drop(&h.retired)
	if h.memory != nil {
		e.drop(&[]*memory{h.memory})
		h.memory = nil
	}
	h.In, h.Out = nil, nil
}

// drop frees memories, in the children too; e.mu is held.
func (e *Executor) drop(ms *[]*memory) {
	for _, m := range *ms {
		e.shared -= int64(len(m.Bytes))
		e.running.Go(func() {
			for _, d := range e.devices {
				if c := d.serving(); c != nil {
					c.forget(m.ID, d.allowance)
				}
			}
			e.mu.Lock()
			e.ids = append(e.ids, m.ID)
			e.mu.Unlock()
		})
		if err := m.free(); err != nil {
			e.log.Error("memory of a batch is not freed", "err", err)
		}
	}
	*ms = (*ms)[:0]
}

// maxMemories is how many a child can have; their ids are below it.
const maxMemories = 4096

var errMemory = errors.New("the limit of memory shared with devices is reached")

// share makes a memory within the limit, for which it gives up batches that
// nobody uses; e.mu is held.
func (e *Executor) share(l limits) (*memory, error) {
	_, size := l.sizes()
	for e.shared+int64(size) > e.o.Memory {
		if len(e.free) == 0 {
			return nil, fmt.Errorf("%w: %d bytes in use, %d more wanted, %d allowed", errMemory, e.shared, size, e.o.Memory)
		}
		h := e.free[0]
		e.free = e.free[1:]
		delete(e.held, h.Batch)
		e.release(h)
	}
	if len(e.ids) == 0 {
		return nil, fmt.Errorf("cuda: more than %d batches", maxMemories)
	}
	last := len(e.ids) - 1
	m, err := newMemory(e.ids[last], l)
	if err == nil {
		e.ids = e.ids[:last]
		e.shared += int64(size)
	}
	return m, err
}

// settle sees to it that a batch lies in memory that the devices see: one that
// has outgrown it is copied to a larger one, and so is one that is more than half
// full, so that the next is packed into more. False: there is none.
func (e *Executor) settle(h *held) bool {
	b := h.Batch
	used := limits{len(b.In), len(b.Out), len(b.Tasks)}
	if len(h.retired) > 0 {
		e.mu.Lock()
		e.drop(&h.retired)
		e.mu.Unlock()
	}
	if m := h.memory; m != nil && m.holds(b) {
		more := limits{grown(used.in, m.in, largest.in), grown(used.out, m.out, largest.out), grown(used.tasks, m.tasks, largest.tasks)}
		if more != m.limits {
			_ = e.move(h, more, false) // it is well where it is, too
		}
		return true
	}
	if used.in > largest.in || used.out > largest.out || used.tasks > largest.tasks {
		e.refuse(h, fmt.Errorf("more than %d numbers, %d outputs or %d tasks", largest.in, largest.out, largest.tasks))
		return false
	}
	want := limits{room(used.in, smallest.in), room(used.out, smallest.out), room(used.tasks, smallest.tasks)}
	if err := e.move(h, want, false); err != nil {
		e.refuse(h, err)
		return false
	}
	return true
}

// grown is the limit for an arena with used of limit elements in use.
func grown(used, limit, most int) int {
	if used > limit/2 {
		return max(limit, min(4*limit, most))
	}
	return limit
}

// room is a power of two.
func room(used, least int) int { return max(least, 1<<bits.Len(uint(max(used, 1)-1))) }

// move copies a batch to another memory. With abandon set, the old one is left
// to the child that has it, for good.
func (e *Executor) move(h *held, l limits, abandon bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	m, err := e.share(l)
	if err != nil {
		return err
	}
	if h.memory != nil && !abandon {
		h.retired = append(h.retired, h.memory) // a caller's slices of it are good until the next Execute
	}
	h.memory = m
	m.take(h.Batch)
	return nil
}
