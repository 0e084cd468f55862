package plan

import (
	"fmt"
	"slices"
	"unsafe"

	"odradek/detectors"
)

// usualSMs is the number of multiprocessors of an H100 or H200, and of a device that does not tell.
const usualSMs = 132

// builder collects what a device does for a plan: tiles, launches and the scratch memory that they take. The plans of the
// ops add to it.
type builder struct {
	sms    int             // multiprocessors of the device
	shared int             // bytes of shared memory that a block may have, 0 for no limit
	in     detectors.Words // of the batch
	tasks  []Task          // in plan order, in the batch's memory

	portion, portions int    // of the work in each task, of a divided plan; portions is 0 for other plans
	own               uint32 // of a divided plan: the word of Out where the next task's outputs begin

	tiles        []Tile // a block's work each, of the launches so far and of the next one
	launched     int    // tiles that belong to a launch
	launches     []Launch
	scratchBytes uint64
	zeroes       []Zeroed
}

// blockATile is the grid of a launch with a block for each tile.
const blockATile = 0

// launch adds a launch of a kernel on the tiles since the last launch, if there are any: of grid blocks, or blockATile, of block
// threads each, with shared bytes of dynamic shared memory.
func (b *builder) launch(kernel string, grid, block, shared int) {
	tiles := len(b.tiles) - b.launched
	if tiles == 0 {
		return
	}
	index := slices.Index(names, kernel)
	if index < 0 {
		panic(fmt.Sprintf("plan: %q is none of the kernels that plans name", kernel))
	}
	if grid == blockATile {
		grid = tiles
	}
	b.launches = append(b.launches, Launch{
		Kernel: uint32(index), Grid: uint32(grid), Block: uint32(block), Shared: uint32(shared),
		FirstTile: uint32(b.launched), Tiles: uint32(tiles),
	})
	b.launched = len(b.tiles)
}

// again adds a launch on the tiles of the last launch, since which none was added: an op's next phase.
func (b *builder) again(kernel string, grid, block, shared int) {
	b.launched = int(b.launches[len(b.launches)-1].FirstTile)
	b.launch(kernel, grid, block, shared)
}

// launchWithin adds tiles for all tasks of chains, one for each part of a task with the part's number and flags in Part.
// It calls launch, with the number of tasks, once the scratch memory of tasks, of scratch bytes each, would exceed most
// bytes together, and after the last task. Each launch has nearly the same number of tasks; all use the same memory.
func (b *builder) launchWithin(chains []chain, parts, flags uint32, scratch, most int, launch func(tasks int)) {
	all := 0
	for _, ch := range chains {
		all += int(ch.count)
	}
	if all == 0 {
		return
	}
	each := max(1, most/max(scratch, 1))
	launches := (all + each - 1) / each
	each = (all + launches - 1) / launches
	at := make([]uint32, 0, each)
	tasks := 0
	for _, ch := range chains {
		for i := range ch.count {
			if len(at) <= tasks {
				at = append(at, b.scratch(scratch))
			}
			for part := range parts {
				b.tiles = append(b.tiles, Tile{First: ch.first + i, Count: 1, Part: part | flags, Scratch: at[tasks]})
			}
			if tasks++; tasks == each {
				launch(tasks)
				tasks = 0
			}
		}
	}
	if tasks > 0 {
		launch(tasks)
	}
}

// zeroed allocates scratch memory that is zero before the launches of the plan and before each
// repetition.
func (b *builder) zeroed(n int) uint32 {
	at := b.scratch(n)
	count := uint32(b.scratchBytes/Alignment) - at
	if last := len(b.zeroes) - 1; last >= 0 && b.zeroes[last].Scratch+b.zeroes[last].Count == at {
		b.zeroes[last].Count += count
	} else {
		b.zeroes = append(b.zeroes, Zeroed{at, count})
	}
	return at
}

// scratch allocates n bytes on the device for the batch alone, with undefined content; the offset is in
// units of 256 bytes, as in tiles.
func (b *builder) scratch(n int) uint32 {
	at := b.scratchBytes
	b.scratchBytes += uint64(Align(n))
	return uint32(at / Alignment)
}

// Alignment is the alignment of everything in a batch's memory, in bytes.
const Alignment = 256

// Align rounds up to a multiple of Alignment.
func Align(n int) int { return (n + Alignment - 1) &^ (Alignment - 1) }

// View returns n elements at a byte offset.
func View[T any](b []byte, off, n int) []T {
	if n == 0 {
		return nil
	}
	var t T
	_ = b[off : off+n*int(unsafe.Sizeof(t))]
	return unsafe.Slice((*T)(unsafe.Pointer(&b[off])), n)
}
