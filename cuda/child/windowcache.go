//go:build linux

package child

import "sync"

// blockBytes is the size of an owner's block.
const blockBytes = 1 << 20

// WindowMemory is a child's memory for cached windows.
type WindowMemory struct {
	Device  *Device
	Process *Process
	block   int // bytes

	mu   sync.Mutex
	free []uint64 // blocks, by address
}

func newWindowMemory(d *Device, c *Process, base uint64, size int64) *WindowMemory {
	k := &WindowMemory{Device: d, Process: c, block: int(min(size, blockBytes))}
	for at := size - int64(k.block); at >= 0; at -= int64(k.block) {
		k.free = append(k.free, base+uint64(at))
	}
	return k
}

// Free returns how many blocks are free.
func (k *WindowMemory) Free() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.free)
}

// Share returns an owner's share of the memory, at first without blocks.
func (k *WindowMemory) Share() *WindowShare { return &WindowShare{WindowMemory: k} }

// WindowShare has one owner's blocks of a child's memory.
type WindowShare struct {
	*WindowMemory
	blocks []uint64
}

// Extend takes a block, for n windows of the given size in bytes; n is 0 where no block is free.
func (s *WindowShare) Extend(bytes int) (first uint64, n int) {
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

// Release returns all blocks.
func (s *WindowShare) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = append(s.free, s.blocks...)
	s.blocks = nil
}

// Gone reports whether the memory is lost, with its child.
func (s *WindowShare) Gone() bool {
	select {
	case <-s.Process.dead:
		return true
	default:
		return false
	}
}
