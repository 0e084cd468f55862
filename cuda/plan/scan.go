package plan

import (
	"math/bits"

	"odradek/detectors"
	"odradek/detectors/scan"
)

// Limits of the kernels in scan.cu.
const (
	scanSide  = 1 << 10 // rows, and columns, of a grid
	scanBlock = 1<<16 - 1
)

// Constants of scan.cu.
const (
	scanThreads     = 256
	scanNullThreads = 512
	scanRows        = 8    // of a block of scan_rows
	scanColumns     = 32   // of a block of scan_columns
	scanSeedCells   = 8192 // of a large grid, of a block of scan_seed for each size of rectangles
	scanSeedLeast   = 2048 // of a small one
	scanSeedBlocks  = 8    // of scan_seed for a size, more only for a large grid
	scanTrials      = 1 << 23
	scanGuides      = 32       // blocks of scan_guide for a task
	scanHead        = 2048     // bytes
	scanWords       = 14       // of a region
	scanTable       = 72 << 10 // bytes of a null map's table that is made in shared memory
)

// The blocks that search all grids, and those that draw null maps, for each multiprocessor. All blocks together take the
// best of all rectangles, in an order without ties, and count null maps that depend on their numbers alone.
const (
	scanSearchBlocks = 32
	scanNullBlocks   = 2
)

// The offsets of the parameters of a task, in words.
var (
	scanParamColumns    = scan.Op.Spec().Word("COLUMNS")
	scanParamRows       = scan.Op.Spec().Word("ROWS")
	scanParamModel      = scan.Op.Spec().Word("MODEL")
	scanParamTop        = scan.Op.Spec().Word("TOP")
	scanParamMaxRows    = scan.Op.Spec().Word("MAX_ROWS")
	scanParamMaxColumns = scan.Op.Spec().Word("MAX_COLUMNS")
	scanParamDirection  = scan.Op.Spec().Word(detectors.DirectionParam)
	scanParamCount      = len(scan.Op.Spec().Words())
)

// scanClass returns a class of Scan: A is rows and, << 16, columns of the grid; B the most rows of a
// rectangle, << 11 its most columns and << 22 regions; Variant null maps
// and, << 28, the model and, << 30, the direction.
func scanClass(t *detectors.Task, params detectors.Words) (Class, int, bool) {
	if len(params) != scanParamCount || t.Dim < 1 || t.Fresh < 1 || t.X.Len%t.Dim != 0 || t.Scores.Len != t.Fresh || t.Next.Len > 0 {
		return Class{}, 0, false
	}
	rows, columns, top := params.Int(scanParamRows), params.Int(scanParamColumns), params.Int(scanParamTop)
	model, direction := scan.OpModel(params.Int(scanParamModel)), params.Int(scanParamDirection)
	if direction < 0 || direction > int(scan.Both) || model < scan.ModelPoisson || model > scan.ModelExponential || rows < 1 || columns < 1 ||
		rows > scanSide || columns > scanSide ||
		rows*columns < 2 || rows*columns > int(t.X.Len/t.Dim) || top < 1 || top > scan.MaxTop ||
		int(t.Detail.Len) != top*scanWords {
		return Class{}, 0, false
	}
	high, wide, replicates := rows, columns, scan.NullMaps(params)
	if limit := params.Int(scanParamMaxRows); limit > 0 {
		high = min(high, limit)
	}
	if limit := params.Int(scanParamMaxColumns); limit > 0 {
		wide = min(wide, limit)
	}
	strips, runs := high*(2*rows-high+1)/2, wide*(2*columns-wide+1)/2
	if direction == int(scan.Both) {
		strips *= 2
	}
	shared := scanThreads / 32 * scanShared(columns)
	if replicates > 0 {
		shared = scanNullShared(rows, columns)
	}
	cost := rows*columns/4 + (top+replicates)*(strips*runs/4000+1000)
	return Class{
		Op: scan.Op, Variant: uint32(replicates | int(model)<<28 | direction<<30), A: uint32(rows | columns<<16),
		B: uint32(high | wide<<11 | top<<22), Shared: uint32(shared),
	}, cost, true
}

// scanReplicates returns the null maps of a class.
func scanReplicates(c Class) int { return int(c.Variant & (1<<28 - 1)) }

// scanShared returns the shared memory of a strip of rows: stripBytes in scan_search.h.
func scanShared(columns int) int {
	padded := (columns + 31) / 32 * 32
	return (padded+8)*8 + (padded/8+4)*16
}

// scanNullShared returns the shared memory of a block that draws null maps: for its strips, or for a map's table.
func scanNullShared(rows, columns int) int {
	shared := scanNullThreads / 32 * scanShared(columns)
	if table := 4 * (rows + 1) * (columns + 1); table <= scanTable {
		shared = max(shared, table)
	}
	return shared
}

// scanSeeders returns the number of a task's blocks of scan_seed, for rectangles of up to high rows and
// wide columns.
func scanSeeders(rows, columns, high, wide int) int {
	cells := rows * columns
	parts := max(min((cells+scanSeedLeast-1)/scanSeedLeast, scanSeedBlocks), (cells+scanSeedCells-1)/scanSeedCells)
	return bits.Len(uint(high)) * bits.Len(uint(wide)) * parts
}

// scanWave is the most scratch memory of a launch with several tasks; more take turns.
const scanWave = 1 << 30

// scanSearchers returns the blocks that search each of some tasks' grids, of which the device is given full.
func scanSearchers(c Class, full, tasks, portions int) int {
	const strips = 2 * scanThreads / 32 // of a block
	all := scanStrips(c)
	if scanReplicates(c) == 0 { // devices divide the strips
		all = (all + max(1, portions) - 1) / max(1, portions)
	}
	return max(1, min((all+strips-1)/strips, scanBlock, max(full/tasks, 16)))
}

// scanStrips returns the strips of rows of a grid.
func scanStrips(c Class) int {
	rows, high := int(c.A&0xffff), int(c.B&0x7ff)
	return high * (2*rows - high + 1) / 2
}

// scanModel returns the model of a class.
func scanModel(c Class) scan.OpModel { return scan.OpModel(c.Variant >> 28 & 3) }

// scanForm returns the ending of the names of a class's kernels.
func scanForm(c Class) string {
	switch m := scanModel(c); {
	case m == scan.ModelNormal || m == scan.ModelExponential:
		return "_values"
	case m == scan.ModelPoisson && c.Variant>>30 == uint32(scan.Above):
		return ""
	}
	return "_general"
}

// scanNulls returns the blocks that draw null maps for each of some tasks, of which the device is given full.
func scanNulls(c Class, full, tasks int) int {
	if scanReplicates(c) == 0 {
		return 0
	}
	return max(1, min(scanReplicates(c), (full+tasks-1)/tasks, scanWave/2/scanNullTable(c)))
}

// scanNullTable returns the scratch memory of a block that draws null maps.
func scanNullTable(c Class) int {
	table := Alignment + 2*Align(4*int(c.A&0xffff+1)*int(c.A>>16+1)) // its job, and two tables
	if scanModel(c) == scan.ModelBernoulli {
		table += Align(scanTrials/8 + 4)
	}
	return table
}

func scanLaunches(c Class, p *builder, chains []chain) {
	rows, columns := int(c.A&0xffff), int(c.A>>16)
	high, wide, top := int(c.B&0x7ff), int(c.B>>11&0x7ff), int(c.B>>22)
	tasks := 0
	for _, ch := range chains {
		tasks += int(ch.count)
	}
	warps := scanThreads / 32
	searchers, nulls := scanSearchers(c, scanSearchBlocks*p.sms, tasks, p.portions), scanNulls(c, scanNullBlocks*p.sms, tasks)
	entries := (rows + 1) * (columns + 1)
	search := "scan_search" + scanForm(c)
	scratch := scanHead + 3*Align(8*entries) + 2*Align(4*entries) + Align(24*searchers) + 4<<16 + Align(32*rows) + nulls*scanNullTable(c)
	wave := max(1, scanWave/scratch)
	at := make([]uint32, 0, min(wave, tasks))
	var waveTasks []uint32 // tasks of the wave
	end := func() {
		if len(waveTasks) == 0 {
			return
		}
		for i, task := range waveTasks { // two tiles a task, for the numbers of both kinds of blocks and its portion of a divided plan
			p.tiles = append(p.tiles, Tile{First: task, Count: 1, Part: uint32(searchers << 16), Scratch: at[i]})
			p.tiles = append(p.tiles, Tile{First: task, Count: 1, Part: uint32(nulls<<16 | max(1, p.portions)<<8 | p.portion), Scratch: at[i]})
		}
		n := len(waveTasks)
		p.launch("scan_rows", n*((rows+scanRows-1)/scanRows), 32*scanRows, 0)
		p.again("scan_columns", n*((columns+scanColumns-1)/scanColumns), 512, 0)
		for range top {
			p.again("scan_seed", n*scanSeeders(rows, columns, high, wide), scanThreads, 0)
			p.again(search, n*searchers, scanThreads, warps*scanShared(columns))
		}
		if nulls > 0 {
			p.again("scan_guide", n*scanGuides, scanThreads, 0)
			p.again("scan_null"+scanForm(c), n*nulls, scanNullThreads, scanNullShared(rows, columns))
			p.again("scan_finish", n, 32, 0)
		}
		waveTasks = waveTasks[:0]
	}
	for _, ch := range chains {
		for i := range ch.count {
			if len(at) == len(waveTasks) {
				at = append(at, p.scratch(scratch))
			}
			if waveTasks = append(waveTasks, ch.first+i); len(waveTasks) == wave {
				end()
			}
		}
	}
	end()
}

var scanPlan = opPlan{
	op: scan.Op,
	kernels: []string{"scan_rows", "scan_columns", "scan_seed", "scan_search", "scan_search_general",
		"scan_search_values", "scan_guide",
		"scan_null", "scan_null_general", "scan_finish"},
	class: scanClass, launches: scanLaunches,
	divides: func(c Class) bool { return scan.Divides(int(c.B>>22), scanReplicates(c)) },
	merge:   scan.Merge,
}
