//go:build linux

package cuda

import (
	"errors"
	"fmt"
	"math/bits"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"odradek/cuda/plan"
	"odradek/detectors"
)

// limits is the capacity of a batch's memory.
type limits struct{ in, out, tasks int }

// A batch begins small, so that a worker with many partitions does not lock unneeded memory, and grows
// while it is more than half full. largest is some hundred milliseconds of a device's work.
var (
	smallest = limits{1 << 18, 1 << 16, 1 << 12}
	largest  = limits{1 << 26, 1 << 25, 1 << 18}
)

// planBytes is the room of a task in the plan: the task, and two tiles or data of that size.
const planBytes = 64 + 32

// planSlack is further room in the plan.
const planSlack = 64 << 10

// memory is a batch's memory, shared with the children through an unlinked file: In, followed by the
// plan; Out, followed by the status words. It is never moved or resized: a batch that needs more gets
// another memory.
type memory struct {
	limits
	plan.Memory
	file *os.File
}

func (l limits) sizes() (in, size int) {
	in = plan.Align(4*l.in) + plan.Align(l.tasks*planBytes) + planSlack
	size = in + plan.Align(4*l.out) + plan.Align(4*l.tasks) + maxParts*plan.Alignment
	page := os.Getpagesize()
	return in, (size + page - 1) / page * page
}

func newMemory(id uint32, l limits) (*memory, error) {
	in, size := l.sizes()
	fd, err := unix.MemfdCreate("odradek-batch", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("cuda: memory for a batch: %w", err)
	}
	file := os.NewFile(uintptr(fd), "odradek-batch")
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		file.Close()
		return nil, fmt.Errorf("cuda: %d bytes for a batch: %w", size, err)
	}
	b, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("cuda: map %d bytes for a batch: %w", size, err)
	}
	return &memory{l, plan.Memory{ID: id, Bytes: b, Out: in}, file}, nil
}

// path returns the path of the memory for a child of this process.
func (m *memory) path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), m.file.Fd()) }

func (m *memory) free() error {
	m.file.Close()
	return unix.Munmap(m.Bytes)
}

func (m *memory) inArena() detectors.Words  { return plan.View[uint32](m.Bytes, 0, m.in) }
func (m *memory) outArena() detectors.Words { return plan.View[uint32](m.Bytes, m.Out, m.out) }

// status returns the status words of a plan in this memory.
func (m *memory) status(q *plan.Request) []uint32 {
	return plan.View[uint32](m.Bytes, int(q.StatusOff), int(q.Tasks))
}

// holds reports whether all of the batch's arenas lie in m; an arena that outgrew it lies in the heap.
func (m *memory) holds(b *detectors.Batch) bool {
	return len(b.Tasks) <= m.tasks &&
		unsafe.SliceData(b.In) == unsafe.SliceData(m.inArena()) && unsafe.SliceData(b.Out) == unsafe.SliceData(m.outArena())
}

// take makes m the batch's memory, with the batch's content.
func (m *memory) take(b *detectors.Batch) {
	in, out := m.inArena(), m.outArena()
	in, out = in[:copy(in, b.In)], out[:copy(out, b.Out)]
	b.In, b.Out = in, out
	b.MaxTasks, b.MaxIn, b.MaxOut = m.tasks, m.in, m.out
}

// Batch returns an empty batch in memory shared with the devices.
func (e *Executor) Batch() *detectors.Batch {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := len(e.free); n > 0 {
		h := e.free[n-1]
		e.free = e.free[:n-1]
		h.Reset()
		return h.Batch
	}
	h := &batchState{Batch: new(detectors.Batch)}
	h.plan.Shared = e.least
	if m, err := e.allocate(smallest); err == nil {
		h.memory = m
		m.take(h.Batch)
	} else {
		h.MaxTasks, h.MaxIn, h.MaxOut = largest.tasks/4, largest.in/4, largest.out/4
	}
	e.states[h.Batch] = h
	return h.Batch
}

// Release returns a batch's memory.
func (e *Executor) Release(b *detectors.Batch) {
	e.mu.Lock()
	defer e.mu.Unlock()
	h := e.states[b]
	if h == nil {
		return
	}
	e.drop(&h.retired)
	if len(e.free) < 2*e.o.Workers+2 {
		e.free = append(e.free, h)
		return
	}
	delete(e.states, b)
	e.release(h)
}

// release frees a batch's memory; e.mu is held.
func (e *Executor) release(h *batchState) {
	e.drop(&h.retired)
	if h.memory != nil {
		e.drop(&[]*memory{h.memory})
		h.memory = nil
	}
	h.In, h.Out = nil, nil
}

// drop frees memories, also in the children; e.mu is held.
func (e *Executor) drop(ms *[]*memory) {
	for _, m := range *ms {
		e.shared -= int64(len(m.Bytes))
		e.running.Go(func() {
			for _, d := range e.devices {
				if c := d.Serving(); c != nil {
					c.Unmap(m.ID, d.Allowance)
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

// maxMemories is the number of memories that a child can map; ids are below it.
const maxMemories = 4096

var errMemory = errors.New("the limit of memory shared with devices is reached")

// allocate makes a memory within the limit, and frees unused batches if necessary; e.mu is held.
func (e *Executor) allocate(l limits) (*memory, error) {
	_, size := l.sizes()
	for e.shared+int64(size) > e.o.Memory {
		if len(e.free) == 0 {
			return nil, fmt.Errorf("%w: %d bytes in use, %d more wanted, %d allowed", errMemory, e.shared, size, e.o.Memory)
		}
		h := e.free[0]
		e.free = e.free[1:]
		delete(e.states, h.Batch)
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

// ensureShared moves a batch to memory shared with the devices. It copies a batch that has outgrown its
// memory to a larger one, and also one more than half full, to leave room for the next. It returns
// false where there is no memory.
func (e *Executor) ensureShared(h *batchState) bool {
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
			_ = e.move(h, more, false) // the batch also fits where it is
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

// grown returns the next limit of an arena with used of limit elements in use.
func grown(used, limit, most int) int {
	if used > limit/2 {
		return max(limit, min(4*limit, most))
	}
	return limit
}

// room rounds up to a power of two.
func room(used, least int) int { return max(least, 1<<bits.Len(uint(max(used, 1)-1))) }

// move copies a batch to another memory. With abandon, the old one is never used again, because a child
// may still write to it.
func (e *Executor) move(h *batchState, l limits, abandon bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	m, err := e.allocate(l)
	if err != nil {
		return err
	}
	if h.memory != nil && !abandon {
		h.retired = append(h.retired, h.memory) // a caller's slices of it stay valid until the next Execute
	}
	h.memory = m
	m.take(h.Batch)
	return nil
}

// abandon moves a batch that a killed child may still write to, and retires its memory for good. It
// returns false where there is no other memory: the batch is then in the heap.
func (e *Executor) abandon(h *batchState) bool {
	if e.move(h, h.memory.limits, true) == nil {
		return true
	}
	h.memory = nil
	h.In, h.Out = slices.Clone(h.In), slices.Clone(h.Out)
	return false
}
