//go:build linux

package cuda

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"odradek/cuda/plan"
	"odradek/detectors"
)

// limits are how much a batch's memory holds.
type limits struct{ in, out, tasks int }

// A batch begins small, so that a worker with many partitions does not lock
// memory that it does not need, and grows while it is more than half full.
// Largest is what a device works through in some hundred milliseconds.
var (
	smallest = limits{1 << 18, 1 << 16, 1 << 12}
	largest  = limits{1 << 26, 1 << 25, 1 << 18}
)

// planBytes is the room for a task's part in the plan: the task, and two tiles
// or what is as large.
const planBytes = 64 + 32

// planSlack is room in the plan besides.
const planSlack = 64 << 10

// memory is a batch's memory, shared with the children by a file that has no
// name: In, behind its used part the plan; Out, behind its used part the status
// words. It is never moved or resized: a batch that needs more gets another one.
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

// path is where a child of this process finds the memory.
func (m *memory) path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), m.file.Fd()) }

func (m *memory) free() error {
	m.file.Close()
	return unix.Munmap(m.Bytes)
}

func (m *memory) inArena() detectors.Words  { return plan.View[uint32](m.Bytes, 0, m.in) }
func (m *memory) outArena() detectors.Words { return plan.View[uint32](m.Bytes, m.Out, m.out) }

// status are the status words of a plan that lies here.
func (m *memory) status(q *plan.Request) []uint32 {
	return plan.View[uint32](m.Bytes, int(q.StatusOff), int(q.Tasks))
}

// holds reports whether the batch lies in m, and nothing of it was moved to the
// heap for having grown too large.
func (m *memory) holds(b *detectors.Batch) bool {
	return len(b.Tasks) <= m.tasks &&
		unsafe.SliceData(b.In) == unsafe.SliceData(m.inArena()) && unsafe.SliceData(b.Out) == unsafe.SliceData(m.outArena())
}

// take makes m the batch's memory, with what the batch has in it.
func (m *memory) take(b *detectors.Batch) {
	in, out := m.inArena(), m.outArena()
	in, out = in[:copy(in, b.In)], out[:copy(out, b.Out)]
	b.In, b.Out = in, out
	b.MaxTasks, b.MaxIn, b.MaxOut = m.tasks, m.in, m.out
}
