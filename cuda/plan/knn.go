package plan

import (
	"fmt"
	"slices"

	"odradek/detectors"
	"odradek/detectors/knn"
)

// Limits of the kernels in knn.cu.
const (
	knnPoints  = knn.MaxWindow // of a set
	knnScanned = 1 << 20       // of a set whose pairs all blocks search
	knnDim     = 64            // numbers a point
	knnK       = 1 << 10
	knnBefore  = 1 << 12 // points before a scored one
	knnWindow  = 2048    // points of a window in one block
	knnWindowK = 128
)

// Constants of knn.cu.
const (
	knnLanes  = 128 // threads of a scanning block
	knnUnit   = 512
	knnBlocks = 132 * 3   // of a set: as many as an H200 runs at once
	knnParts  = 16        // parts of the places of a small set, at most
	knnPart   = 1 << 10   // places of a part, at least
	knnLists  = 512 << 20 // bytes of the lists of a set, at most
)

// Constants of knn_tensor.h.
const (
	knnTensorLeast  = 5   // numbers a point
	knnTensorOthers = 128 // neighbours, at most
	knnTensorBlocks = 132 // of the parts of a set that it leaves to knn_scan
)

// knnScans are the kernels by numbers a point.
var knnScans = []int{2, 4, 6, 8, 10, 16, 32, 64}

// The offsets of the parameters of a task, in words.
var (
	knnParamK          = knn.Op.Spec().Word("K")
	knnParamPoints     = knn.Op.Spec().Word("POINTS")
	knnParamEmbed      = knn.Op.Spec().Word("EMBED")
	knnParamSelf       = knn.Op.Spec().Word("INCLUDE_SELF")
	knnParamNeighbours = knn.Op.Spec().Word("NEIGHBOURS")
	knnParamZNorm      = knn.Op.Spec().Word("ZNORM")
	knnParamCount      = len(knn.Op.Spec().Words())
)

// knnShape has the sizes that follow from a task's parameters and rows.
type knnShape struct {
	rows, fresh, n, width int // rows, points to score, points, numbers a point
	dim                   int // numbers a row
	k, others, points     int // neighbours; of them others; the window, 0 for a tumbling one
}

// knnShapeOf returns the shape of a task; false if the kernels do not take it.
func knnShapeOf(t *detectors.Task, params detectors.Words) (s knnShape, ok bool) {
	if len(params) != knnParamCount || t.Dim < 1 || t.Dim > knnDim || t.Fresh < 1 || t.X.Len%t.Dim != 0 || t.Scores.Len != t.Fresh {
		return s, false
	}
	k, m := params.Int(knnParamK), params.Int(knnParamEmbed)
	if m < 1 || m > knnDim || k < 1 || k > knnK || params.Bool(knnParamZNorm) { // knnRowParams clears ZNORM
		return s, false
	}
	s.dim, s.rows, s.fresh, s.width = int(t.Dim), int(t.X.Len/t.Dim), int(t.Fresh), int(t.Dim)*m
	s.n, s.k, s.points = s.rows-m+1, k, params.Int(knnParamPoints)
	if s.width > knnDim || s.n < s.fresh || s.n > knnPoints || params.Bool(knnParamNeighbours) && int(t.Detail.Len) != s.fresh*s.k {
		return s, false
	}
	s.others = max(0, min(s.k-int(params[knnParamSelf]), s.n-1))
	if s.points == 0 {
		return s, s.fresh == s.n
	}
	return s, s.before() <= knnBefore
}

// knnPointRows is opPlan.pointRows.
func knnPointRows(params detectors.Words) int {
	if len(params) != knnParamCount || !params.Bool(knnParamZNorm) {
		return 0
	}
	return params.Int(knnParamEmbed)
}

// knnRowParams is opPlan.rowParams: each row is a point, already normalised.
func knnRowParams(params detectors.Words) detectors.Words {
	params = slices.Clone(params)
	params.SetInt(knnParamEmbed, 1)
	params.SetBool(knnParamZNorm, false)
	return params
}

// before is the largest number of points before a scored one.
func (s *knnShape) before() int { return max(min(s.points-1, s.n-1), 1) }

// Constants of knn_recent.h.
const (
	knnRun       = 16 // successive points of a lane
	knnPitch     = knnRun + 4
	knnRecentMax = 4 * 32 * knnRun // points before a scored one
	knnRecentK   = 64
)

// recent returns the number of the kernel of knn_recent.h that takes the task, of those for one, two and
// four runs a lane; ok is false if none does.
func (s *knnShape) recent(params detectors.Words) (kind int, ok bool) {
	n := s.before()
	if s.dim != 1 || s.width < 2 || n > knnRecentMax || s.others > knnRecentK || params.Bool(knnParamNeighbours) {
		return 0, false
	}
	for 32*knnRun<<kind < n {
		kind++
	}
	return kind, true
}

// search is the shape of the search in lof.cu.
func (s *knnShape) search() (g lofShape) {
	g.n, g.total, g.dim, g.k, g.fresh = s.n, s.n, s.width, s.others, s.fresh
	g.group()
	g.wide = 64
	if g.k > lofSmallK || g.total <= 64 {
		g.wide = 32
	}
	return g
}

// window returns the shared memory and the scratch memory of a block with its own window, in shared
// memory with dim numbers a point, or outside it with dim 0.
func (s *knnShape) window(dim int) (shared, scratch int) {
	g := s.search()
	scratch = g.padded*8 + g.wide*g.k*10
	if dim == 0 {
		return g.searchBytes(g.dim, g.threads()), scratch + g.padded*(g.dim+1)*4
	}
	rows := dim
	if dim >= 4 {
		rows++ // the norms
	}
	return g.searchBytes(dim, g.threads()) + g.padded*rows*4, scratch
}

// knnSet describes how a large set is divided among blocks: Set in knn_scan.h.
type knnSet struct {
	most, queries, groups, parts, blocks, room int
	steps                                      int // of the products of knn_tensor.h; 0: it leaves the set to knn_scan
	scratch                                    int
}

func (s *knnShape) set() (g knnSet) {
	for _, g.most = range knnScans {
		if g.most >= s.width {
			break
		}
	}
	g.queries = 4 * knnLanes
	if g.most > 16 {
		g.queries = 64 / g.most * knnLanes
	}
	g.groups = (s.n + g.queries - 1) / g.queries
	g.room = max(64, (2*s.k+28+31)/32*32)
	entries := g.queries * g.room * 8
	blocks, items := knnBlocks, 0
	if s.width >= knnTensorLeast && s.others >= 1 && s.others <= knnTensorOthers {
		g.steps = tensorSteps(g.most)
		blocks, items = knnTensorBlocks, (s.n+g.tensorRows()-1)/g.tensorRows()
	}
	g.parts = max(1, min(blocks/g.groups, knnParts, s.n/knnPart, knnLists/entries/g.groups))
	g.blocks = g.groups * g.parts
	if g.parts == 1 {
		g.blocks = max(1, min(max(g.groups, items), knnBlocks, knnLists/entries))
	}
	padded := (s.n + knnUnit - 1) / knnUnit * knnUnit
	rows := g.most
	if rows >= 4 {
		rows++
	}
	lists := g.blocks * entries
	if g.steps > 0 {
		minima := 256
		switch {
		case s.others <= 24:
			minima = 64
		case s.others <= 64:
			minima = 128
		}
		lists = max(lists, min(g.blocks, items)*g.tensorRows()*(4*minima+16*((s.others/2+24+7)/8*8)))
		g.scratch = Align(padded*g.steps*32) + Align(padded*8)
	}
	g.scratch += Align(20) + Align(g.blocks*16) + Align(padded*4) + Align(padded*rows*4) + Align(lists) +
		Align(g.blocks*g.queries*4) + Align(4*g.groups) + g.blocks*knnLanes/32*g.parts*g.room*8
	return g
}

// tensorSteps returns the number of products of 16 values that knn_tensor.h takes for up to most values a point.
func tensorSteps(most int) int { return (most + 4 + 15) / 16 }

// tensorRows is the number of queries of a block in knn_tensor.h.
func (k *knnSet) tensorRows() int {
	if k.most <= 16 {
		return 2 * knnLanes
	}
	return knnLanes
}

// cost is the approximate device time in nanoseconds.
func (k *knnSet) cost(s *knnShape) int {
	n := float64(s.n)
	if k.steps > 0 {
		return int(n*n*float64(k.steps)/6000+n*float64(8+s.others)/20) + 1
	}
	return int(n*n*float64(2*s.width+8)/20000+n/2) + 1
}

// launch adds the launches of a search of sets by all blocks of the device, for the tiles since the last
// launch.
func (k *knnSet) launch(p *builder) {
	p.launch("knn_peaks", blockATile, 256, 0)
	p.again("knn_load", blockATile, 256, 0)
	if k.steps > 0 {
		p.again("knn_halves", blockATile, 256, 0)
		p.again(fmt.Sprint("knn_tensor_", 16*k.steps), blockATile, knnLanes, 0)
	}
	p.again(fmt.Sprint("knn_scan_", k.most), blockATile, knnLanes, 0)
	p.again("knn_finish", blockATile, knnLanes, 0)
}

// knnSetOf returns what launch needs, by the number of a kernel among knnScans.
func knnSetOf(kind int, tensor bool) (g knnSet) {
	g.most = knnScans[kind]
	if tensor {
		g.steps = tensorSteps(g.most)
	}
	return g
}

// knnTensor is set in the variant of a class that knn_tensor.h searches first.
const knnTensor = 1 << 31

// Variants of a class.
const (
	knnIsBefore     = iota
	knnIsWindow     // 0, 2, 4, 8 numbers a point
	knnIsScan       = knnIsWindow + 4
	knnIsLine       = knnIsScan + 8 // of one coordinate: 1, 2, 4, 8 points a thread
	knnIsBeforeLine = knnIsLine + 4
	knnIsRecent     = knnIsBeforeLine + 1 // of up to 512, 1,024, 2,048 points
	knnIsReference  = knnIsRecent + 3     // among the points of a model
	knnIsIndex      = knnIsReference + 1  // knnIndex's kernel
)

// knnClass returns a class of KNN: Variant is one of the above, a kernel's number among its kind, and,
// << 8, threads a block or, of an index, passes of its sort; A is the blocks of a task or, of knn_recent, the
// tasks of a block; B is scratch memory in 256 bytes.
func knnClass(t *detectors.Task, params detectors.Words) (Class, int, bool) {
	if t.Model.Len > 0 {
		return knnReferenceClass(t, params)
	}
	s, ok := knnShapeOf(t, params)
	if !ok {
		return Class{}, 0, false
	}
	line := s.width == 1 && !params.Bool(knnParamNeighbours)
	if s.points > 0 {
		n := s.before()
		warps := max(1, min(4, s.fresh, 1<<12/n))
		if line {
			c := Class{Op: knn.Op, Variant: uint32(knnIsBeforeLine | 32*warps<<8), A: 1, Shared: wholeKB(warps * n * 4)}
			return c, s.fresh*(n*20+4000)/20000 + 1, true
		}
		if kind, ok := s.recent(params); ok {
			shared := knnLanes / 32 * 4 * ((32<<kind+knnDim/knnRun)*knnPitch + knnDim + knnRecentK)
			tasks := max(1, 4/s.fresh)
			c := Class{Op: knn.Op, Variant: uint32(knnIsRecent + kind | knnLanes<<8), A: uint32(tasks), Shared: wholeKB(shared)}
			return c, s.fresh*(n*(s.width+8)+4000)/10000 + 1, true
		}
		c := Class{Op: knn.Op, Variant: uint32(knnIsBefore | 32*warps<<8), A: 1, Shared: wholeKB(warps * n * 8)}
		return c, s.fresh*(n*(s.width+40)+4000)/20000 + 1, true
	}
	if line && s.n <= lineMost {
		l := lineShapeOf(s.n)
		c := Class{Op: knn.Op, Variant: uint32(knnIsLine + l.kernel() | l.threads()<<8), A: 1, Shared: wholeKB(l.bytes(0, 0))}
		return c, l.cost(8 * s.others), true
	}
	cost := int(float64(s.n)*float64(s.n)*float64(2*s.width+8)/20000) + s.n/2 + 1
	if s.n <= knnWindow && s.others <= knnWindowK {
		g := s.search()
		variant := knnIsWindow
		shared, scratch := s.window(0)
		if s.width <= 8 && s.others <= lofSmallK {
			log := 1
			for 1<<log < s.width {
				log++
			}
			if a, b := s.window(1 << log); a <= lofOnBlock {
				variant, shared, scratch = knnIsWindow+log, a, b
			}
		}
		return Class{Op: knn.Op, Variant: uint32(variant | g.threads()<<8), A: 1,
			B: uint32(knnRounded(scratch)), Shared: wholeKB(shared)}, cost, true
	}
	if g, ok := s.index(int(t.Dim), params.Bool(knnParamNeighbours)); ok {
		c := Class{Op: knn.Op, Variant: uint32(knnIsIndex + g.kernel | g.passes<<8), A: uint32(g.blocks), B: uint32(knnRounded(g.scratch))}
		return c, s.n*(1+s.others*s.width/40) + 100_000, true
	}
	if s.n > knnScanned {
		return Class{}, 0, false
	}
	g := s.set()
	variant := knnIsScan
	for knnScans[variant-knnIsScan] != g.most {
		variant++
	}
	if g.steps > 0 {
		variant |= knnTensor
	}
	return Class{Op: knn.Op, Variant: uint32(variant | knnLanes<<8), A: uint32(g.blocks),
		B: uint32(knnRounded(g.scratch))}, g.cost(&s), true
}

// knnRounded rounds scratch memory, in 256 bytes, up to a value of few, so that there are few classes.
func knnRounded(bytes int) int {
	scratch := (bytes + 255) / 256
	for step := 1; scratch > 16*step; step *= 2 {
		scratch = (scratch + step - 1) / step * step
	}
	return scratch
}

// knnMemory is the most scratch memory of a launch of several tasks, in bytes.
const knnMemory = 512 << 20

func knnLaunches(c Class, p *builder, chains []chain) {
	if c.Variant == knnIsReference {
		launchReference(c, p, chains)
		return
	}
	variant, threads := int(c.Variant&0xff), int(c.Variant&^knnTensor>>8)
	shared, blocks, scratch := int(c.Shared), c.A, int(c.B)*256
	name := "knn_window"
	switch {
	case variant == knnIsBefore:
		name = "knn_before"
	case variant == knnIsBeforeLine:
		name = "knn_before_line"
	case variant >= knnIsIndex:
	case variant >= knnIsRecent:
		name = fmt.Sprint("knn_recent_", 1<<(variant-knnIsRecent))
	case variant >= knnIsLine:
		name = fmt.Sprint("knn_line_", 1<<(variant-knnIsLine))
	case variant >= knnIsScan:
	case variant > knnIsWindow:
		name = fmt.Sprint("knn_window_", 1<<(variant-knnIsWindow))
	}
	if variant == knnIsBefore || variant >= knnIsLine && variant < knnIsIndex {
		if variant >= knnIsRecent {
			chains = together(chains, blocks)
		}
		for _, ch := range chains {
			p.tiles = append(p.tiles, Tile{First: ch.first, Count: ch.count})
		}
		p.launch(name, blockATile, threads, shared)
		return
	}
	if variant >= knnIsIndex {
		blocks = uint32(min(max(knnIndexBlocks*p.sms, knnIndexDim), int(c.A))) // one for each coordinate, at least
	}
	p.launchWithin(chains, blocks, blocks<<16, scratch, knnMemory, func(int) {
		if variant >= knnIsIndex {
			launchIndexed(p, variant, threads)
			return
		}
		if variant < knnIsScan {
			p.launch(name, blockATile, threads, shared)
			return
		}
		g := knnSetOf(variant-knnIsScan, c.Variant&knnTensor != 0)
		g.launch(p)
	})
}

// together joins successive chains, in place, until each has the given number of tasks. It is for
// tasks without a carry.
func together(chains []chain, tasks uint32) []chain {
	joined := chains[:0]
	for _, ch := range chains {
		if last := len(joined) - 1; last >= 0 && joined[last].count < tasks {
			joined[last].count += ch.count
			continue
		}
		joined = append(joined, ch)
	}
	return joined
}

var knnPlan = opPlan{
	op: knn.Op,
	kernels: []string{"knn_before", "knn_before_line", "knn_recent_1", "knn_recent_2", "knn_recent_4",
		"knn_reference", "knn_line_1", "knn_line_2", "knn_line_4", "knn_line_8", "knn_peaks", "knn_load", "knn_finish",
		"knn_halves", "knn_tensor_16", "knn_tensor_32", "knn_tensor_48", "knn_tensor_80",
		"knn_scan_2", "knn_scan_4", "knn_scan_6", "knn_scan_8", "knn_scan_10", "knn_scan_16", "knn_scan_32", "knn_scan_64",
		"knn_window", "knn_window_2", "knn_window_4", "knn_window_8",
		"knn_index_extent", "knn_index_keys", "knn_index_count", "knn_index_scatter", "knn_index_leaves_2", "knn_index_leaves_4",
		"knn_nearest_2_10", "knn_nearest_2_20", "knn_nearest_2_32", "knn_nearest_2_50", "knn_nearest_2_64",
		"knn_nearest_4_10", "knn_nearest_4_20", "knn_nearest_4_32", "knn_nearest_4_50", "knn_nearest_4_64"},
	class: knnClass, launches: knnLaunches, models: true, pointRows: knnPointRows, rowParams: knnRowParams,
}
