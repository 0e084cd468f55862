package plan

import "odradek/detectors"

// usualSMs is the number of multiprocessors of an H100 or H200, and of a device that does not tell.
const usualSMs = 132

// builder collects what a device does for a plan: tiles, launches and the scratch memory that they take. The plans of the
// ops add to it.
type builder struct {
	// SMs is the number of multiprocessors of the device; 0: 132, those of an H100 or H200. A large set or grid gets a number
	// of blocks for each; no result depends on it.
	SMs    int
	shared int             // bytes of shared memory that a block may have, 0 for no limit
	in     detectors.Words // of the batch
	tasks  []Task          // in plan order, in the batch's memory

	portion, portions int    // of the work in each task, of a divided plan; portions is 0 for other plans
	own               uint32 // of a divided plan: the word of Out where the next task's outputs begin

	tiles        []Tile
	launched     int // tiles that belong to a launch
	launches     []Launch
	scratchBytes uint64
	zeroes       []Zeroed
}

// begin empties the builder for a plan of tasks.
func (p *builder) begin(tasks []Task, in detectors.Words, shared int) {
	if p.SMs <= 0 {
		p.SMs = usualSMs
	}
	p.tasks, p.in, p.shared = tasks, in, shared
	p.tiles, p.launches, p.launched, p.scratchBytes, p.zeroes = p.tiles[:0], p.launches[:0], 0, 0, p.zeroes[:0]
}

// tile adds a block's work to the next launch.
func (p *builder) tile(t Tile) { p.tiles = append(p.tiles, t) }

// launch adds a launch of the tiles since the last launch, a block each.
func (p *builder) launch(kernel uint32, block, shared int) {
	p.launchGrid(kernel, len(p.tiles)-p.launched, block, shared)
}

// launchGrid is launch for a kernel whose blocks find their tiles themselves.
func (p *builder) launchGrid(kernel uint32, grid, block, shared int) {
	if p.launched == len(p.tiles) {
		return
	}
	p.launches = append(p.launches, Launch{
		Kernel: kernel, Grid: uint32(grid), Block: uint32(block), Shared: uint32(shared),
		FirstTile: uint32(p.launched), Tiles: uint32(len(p.tiles) - p.launched),
	})
	p.launched = len(p.tiles)
}

// again adds a launch of another kernel on the tiles of the last launch: an op's next phase.
func (p *builder) again(kernel uint32, grid, block, shared int) {
	l := p.launches[len(p.launches)-1]
	l.Kernel, l.Grid, l.Block, l.Shared = kernel, uint32(grid), uint32(block), uint32(shared)
	p.launches = append(p.launches, l)
}

// launchInTurns adds tiles for all tasks of chains, one for each part of a task with the part's number and flags in Part.
// It calls launch, with the number of tasks, once the scratch memory of tasks, of scratch bytes each, would exceed most
// bytes together, and after the last task. Each launch has nearly the same number of tasks; all use the same memory.
func (p *builder) launchInTurns(chains []chain, parts, flags uint32, scratch, most int, launch func(tasks int)) {
	all := 0
	for _, ch := range chains {
		all += int(ch.count)
	}
	if all == 0 {
		return
	}
	each := max(1, most/max(scratch, 1))
	turns := (all + each - 1) / each
	each = (all + turns - 1) / turns
	at := make([]uint32, 0, each)
	tasks := 0
	for _, ch := range chains {
		for i := range ch.count {
			if len(at) <= tasks {
				at = append(at, p.scratch(scratch))
			}
			for part := range parts {
				p.tile(Tile{First: ch.first + i, Count: 1, Part: part | flags, Scratch: at[tasks]})
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
func (p *builder) zeroed(n int) uint32 {
	at := p.scratch(n)
	count := uint32(p.scratchBytes/Alignment) - at
	if last := len(p.zeroes) - 1; last >= 0 && p.zeroes[last].Scratch+p.zeroes[last].Count == at {
		p.zeroes[last].Count += count
	} else {
		p.zeroes = append(p.zeroes, Zeroed{at, count})
	}
	return at
}

// scratch allocates n bytes on the device for the batch alone, with undefined content; the offset is in
// units of 256 bytes, as in tiles.
func (p *builder) scratch(n int) uint32 {
	at := p.scratchBytes
	p.scratchBytes += uint64(Align(n))
	return uint32(at / Alignment)
}

// Alignment is the alignment of everything in a batch's memory, in bytes.
const Alignment = 256

// Align rounds up to a multiple of Alignment.
func Align(n int) int { return (n + Alignment - 1) &^ (Alignment - 1) }
