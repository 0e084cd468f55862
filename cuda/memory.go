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

// begin prepares to make memories, before the first batch.
func (s *memories) begin() {
	s.states, s.ids = map[*detectors.Batch]*batchState{}, make([]uint32, maxMemories)
	for i := range s.ids {
		s.ids[i] = uint32(maxMemories - 1 - i)
	}
}

// end frees all memories.
func (s *memories) end() {
	s.mu.Lock()
	for _, h := range s.states {
		s.release(h)
	}
	clear(s.states)
	s.free = nil
	s.mu.Unlock()
	s.freeing.Wait()
}

// of returns the state of a batch; nil for a batch of another executor.
func (s *memories) of(b *detectors.Batch) *batchState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.states[b]
}

// bytes returns the bytes of all memories.
func (s *memories) bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shared
}

// Batch returns an empty batch in memory shared with the devices.
func (s *memories) Batch() *detectors.Batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.free); n > 0 {
		h := s.free[n-1]
		s.free = s.free[:n-1]
		h.Reset()
		return h.Batch
	}
	h := &batchState{Batch: new(detectors.Batch)}
	h.plan.Shared = s.least
	if m, err := s.allocate(smallest); err == nil {
		h.memory = m
		m.take(h.Batch)
	} else {
		h.MaxTasks, h.MaxIn, h.MaxOut = largest.tasks/4, largest.in/4, largest.out/4
	}
	s.states[h.Batch] = h
	return h.Batch
}

// Release returns a batch's memory.
func (s *memories) Release(b *detectors.Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.states[b]
	if h == nil {
		return
	}
	s.drop(&h.retired)
	if len(s.free) < s.mostFree {
		s.free = append(s.free, h)
		return
	}
	delete(s.states, b)
	s.release(h)
}

// release frees a batch's memory; mu is held.
func (s *memories) release(h *batchState) {
	s.drop(&h.retired)
	if h.memory != nil {
		s.drop(&[]*memory{h.memory})
		h.memory = nil
	}
	h.In, h.Out = nil, nil
}

// drop frees memories, also in the children; mu is held.
func (s *memories) drop(ms *[]*memory) {
	for _, m := range *ms {
		s.shared -= int64(len(m.Bytes))
		s.freeing.Go(func() {
			for _, d := range s.devices {
				if c := d.Serving(); c != nil {
					c.Unmap(m.ID, d.Allowance)
				}
			}
			s.mu.Lock()
			s.ids = append(s.ids, m.ID)
			s.mu.Unlock()
		})
		if err := m.free(); err != nil {
			s.log.Error("memory of a batch is not freed", "err", err)
		}
	}
	*ms = (*ms)[:0]
}

// maxMemories is the number of memories that a child can map; ids are below it.
const maxMemories = 4096

var errMemory = errors.New("the limit of memory shared with devices is reached")

// allocate makes a memory within the limit, and frees unused batches if necessary; mu is held.
func (s *memories) allocate(l limits) (*memory, error) {
	_, size := l.sizes()
	for s.shared+int64(size) > s.limit {
		if len(s.free) == 0 {
			return nil, fmt.Errorf("%w: %d bytes in use, %d more wanted, %d allowed", errMemory, s.shared, size, s.limit)
		}
		h := s.free[0]
		s.free = s.free[1:]
		delete(s.states, h.Batch)
		s.release(h)
	}
	if len(s.ids) == 0 {
		return nil, fmt.Errorf("cuda: more than %d batches", maxMemories)
	}
	last := len(s.ids) - 1
	m, err := newMemory(s.ids[last], l)
	if err == nil {
		s.ids = s.ids[:last]
		s.shared += int64(size)
	}
	return m, err
}

// ensureShared moves a batch to memory shared with the devices. It copies a batch that has outgrown its
// memory to a larger one, and also one more than half full, to leave room for the next. It returns
// an error where there is no memory.
func (s *memories) ensureShared(h *batchState) error {
	b := h.Batch
	used := limits{len(b.In), len(b.Out), len(b.Tasks)}
	if len(h.retired) > 0 {
		s.mu.Lock()
		s.drop(&h.retired)
		s.mu.Unlock()
	}
	if m := h.memory; m != nil && m.holds(b) {
		more := limits{grown(used.in, m.in, largest.in), grown(used.out, m.out, largest.out), grown(used.tasks, m.tasks, largest.tasks)}
		if more != m.limits {
			_ = s.move(h, more, false) // the batch also fits where it is
		}
		return nil
	}
	if used.in > largest.in || used.out > largest.out || used.tasks > largest.tasks {
		return fmt.Errorf("more than %d numbers, %d outputs or %d tasks", largest.in, largest.out, largest.tasks)
	}
	want := limits{room(used.in, smallest.in), room(used.out, smallest.out), room(used.tasks, smallest.tasks)}
	return s.move(h, want, false)
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
func (s *memories) move(h *batchState, l limits, abandon bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, err := s.allocate(l)
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
func (s *memories) abandon(h *batchState) bool {
	if s.move(h, h.memory.limits, true) == nil {
		return true
	}
	h.memory = nil
	h.In, h.Out = slices.Clone(h.In), slices.Clone(h.Out)
	return false
}
