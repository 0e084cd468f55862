//go:build linux

package cuda

import (
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"os"
	"slices"
	"sync"
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
	path := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), file.Fd())
	return &memory{l, plan.Memory{ID: id, Bytes: b, Out: in, Path: path}, file}, nil
}

func (m *memory) free() error {
	m.file.Close()
	return unix.Munmap(m.Bytes)
}

// adopt makes m the batch's memory, with the batch's content.
func (m *memory) adopt(b *detectors.Batch) {
	in, out := plan.View[uint32](m.Bytes, 0, m.in), plan.View[uint32](m.Bytes, m.Out, m.out)
	in, out = in[:copy(in, b.In)], out[:copy(out, b.Out)]
	b.In, b.Out = in, out
	b.MaxTasks, b.MaxIn, b.MaxOut = m.tasks, m.in, m.out
}

// batchState is a batch with its memory and what becomes of it in an Execute.
type batchState struct {
	batch   *detectors.Batch
	memory  *memory   // nil: no shared memory was available, the batch is in the heap
	retired []*memory // former memories, kept until the next Execute
	plan    plan.Planner
	refused bool // a device had no room for the plan
	deaths  int  // children that ended with the batch in this Execute
	losses  int  // consecutive losses of the whole batch

	parts    []*attempt // of a plan that is split
	one      attempt    // at a plan that is not
	attempts []*attempt // of this round
	divided  bool       // each has a portion of the work in each task
}

// memories has the batches of an Executor and their memories.
type memories struct {
	devices  devices
	log      *slog.Logger
	limit    int64 // bytes of all memories
	mostFree int   // batches kept for reuse
	least    int   // least shared memory of a block among the devices, bytes; 0: unknown
	freeing  sync.WaitGroup

	mu     sync.Mutex
	states map[*detectors.Batch]*batchState
	free   []*batchState
	shared int64    // bytes of all memories
	ids    []uint32 // free ones
}

// newMemories returns memories without a batch: limit bytes at most, with free batches kept for reuse.
func newMemories(log *slog.Logger, limit int64, free int) *memories {
	ms := &memories{log: log, limit: limit, mostFree: free, states: map[*detectors.Batch]*batchState{}, ids: make([]uint32, maxMemories)}
	for i := range ms.ids {
		ms.ids[i] = uint32(maxMemories - 1 - i)
	}
	return ms
}

// close frees all memories.
func (ms *memories) close() {
	ms.mu.Lock()
	for _, h := range ms.states {
		ms.release(h)
	}
	clear(ms.states)
	ms.free = nil
	ms.mu.Unlock()
	ms.freeing.Wait()
}

// state returns the state of a batch; nil for a batch of another executor.
func (ms *memories) state(b *detectors.Batch) *batchState {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	return ms.states[b]
}

// bytes returns the bytes of all memories.
func (ms *memories) bytes() int64 {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	return ms.shared
}

// newBatch returns an empty batch in memory shared with the devices.
func (ms *memories) newBatch() *detectors.Batch {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if n := len(ms.free); n > 0 {
		h := ms.free[n-1]
		ms.free = ms.free[:n-1]
		h.batch.Reset()
		return h.batch
	}
	h := &batchState{batch: new(detectors.Batch)}
	h.plan.Shared = ms.least
	if m, err := ms.allocate(smallest); err == nil {
		h.memory = m
		m.adopt(h.batch)
	} else {
		h.batch.MaxTasks, h.batch.MaxIn, h.batch.MaxOut = largest.tasks/4, largest.in/4, largest.out/4
	}
	ms.states[h.batch] = h
	return h.batch
}

// reuse keeps the memory of a batch that its owner has released for another, or frees it.
func (ms *memories) reuse(b *detectors.Batch) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	h := ms.states[b]
	if h == nil {
		return
	}
	ms.drop(&h.retired)
	if len(ms.free) < ms.mostFree {
		ms.free = append(ms.free, h)
		return
	}
	delete(ms.states, b)
	ms.release(h)
}

// release frees a batch's memory; mu is held.
func (ms *memories) release(h *batchState) {
	ms.drop(&h.retired)
	if h.memory != nil {
		ms.drop(&[]*memory{h.memory})
		h.memory = nil
	}
	h.batch.In, h.batch.Out = nil, nil
}

// drop frees memories, also in the children; mu is held.
func (ms *memories) drop(unused *[]*memory) {
	for _, m := range *unused {
		ms.shared -= int64(len(m.Bytes))
		ms.freeing.Go(func() {
			for _, d := range ms.devices {
				if c := d.Serving(); c != nil {
					c.Unmap(m.ID, d.Allowance)
				}
			}
			ms.mu.Lock()
			ms.ids = append(ms.ids, m.ID)
			ms.mu.Unlock()
		})
		if err := m.free(); err != nil {
			ms.log.Error("memory of a batch is not freed", "err", err)
		}
	}
	*unused = (*unused)[:0]
}

// maxMemories is the number of memories that a child can map; ids are below it.
const maxMemories = 4096

var errMemory = errors.New("the limit of memory shared with devices is reached")

// allocate makes a memory within the limit, and frees unused batches if necessary; mu is held.
func (ms *memories) allocate(l limits) (*memory, error) {
	_, size := l.sizes()
	for ms.shared+int64(size) > ms.limit {
		if len(ms.free) == 0 {
			return nil, fmt.Errorf("%w: %d bytes in use, %d more wanted, %d allowed", errMemory, ms.shared, size, ms.limit)
		}
		h := ms.free[0]
		ms.free = ms.free[1:]
		delete(ms.states, h.batch)
		ms.release(h)
	}
	if len(ms.ids) == 0 {
		return nil, fmt.Errorf("cuda: more than %d batches", maxMemories)
	}
	last := len(ms.ids) - 1
	m, err := newMemory(ms.ids[last], l)
	if err == nil {
		ms.ids = ms.ids[:last]
		ms.shared += int64(size)
	}
	return m, err
}

// ensureShared moves a batch to memory shared with the devices. It copies a batch that has outgrown its
// memory to a larger one, and also one more than half full, to leave room for the next. It returns
// an error where there is no memory.
func (ms *memories) ensureShared(h *batchState) error {
	b, m := h.batch, h.memory
	used := limits{len(b.In), len(b.Out), len(b.Tasks)}
	if len(h.retired) > 0 {
		ms.mu.Lock()
		ms.drop(&h.retired)
		ms.mu.Unlock()
	}
	// An arena that outgrew the memory lies in the heap.
	if m != nil && used.tasks <= m.tasks && unsafe.SliceData(b.In) == (*uint32)(unsafe.Pointer(&m.Bytes[0])) &&
		unsafe.SliceData(b.Out) == (*uint32)(unsafe.Pointer(&m.Bytes[m.Out])) {
		grown := func(used, has, most int) int {
			if used > has/2 {
				return max(has, min(4*has, most))
			}
			return has
		}
		more := limits{grown(used.in, m.in, largest.in), grown(used.out, m.out, largest.out), grown(used.tasks, m.tasks, largest.tasks)}
		if more != m.limits {
			_ = ms.move(h, more, false) // the batch also fits where it is
		}
		return nil
	}
	if used.in > largest.in || used.out > largest.out || used.tasks > largest.tasks {
		return fmt.Errorf("more than %d numbers, %d outputs or %d tasks", largest.in, largest.out, largest.tasks)
	}
	want := limits{room(used.in, smallest.in), room(used.out, smallest.out), room(used.tasks, smallest.tasks)}
	return ms.move(h, want, false)
}

// room rounds up to a power of two.
func room(used, least int) int { return max(least, 1<<bits.Len(uint(max(used, 1)-1))) }

// move copies a batch to another memory. With abandon, the old one is never used again, because a child
// may still write to it.
func (ms *memories) move(h *batchState, l limits, abandon bool) error {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	m, err := ms.allocate(l)
	if err != nil {
		return err
	}
	if h.memory != nil && !abandon {
		h.retired = append(h.retired, h.memory) // a caller's slices of it stay valid until the next Execute
	}
	h.memory = m
	m.adopt(h.batch)
	return nil
}

// abandon moves a batch that a killed child may still write to, and retires its memory for good. It
// returns false where there is no other memory: the batch is then in the heap.
func (ms *memories) abandon(h *batchState) bool {
	if ms.move(h, h.memory.limits, true) == nil {
		return true
	}
	h.memory = nil
	h.batch.In, h.batch.Out = slices.Clone(h.batch.In), slices.Clone(h.batch.Out)
	return false
}
