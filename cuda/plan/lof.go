package plan

import (
	"odradek/detectors"
	"odradek/detectors/lof"
)

// Limits of the kernels in lof.cu.
const (
	lofPoints   = 4096 // real points
	lofVirtuals = 256
	lofDim      = 64 // numbers a point
	lofK        = 128
)

// Constants of lof.cu.
const (
	lofSmallK     = 31
	lofOnChip     = 1024
	lofPartPlaces = 128
)

// The offsets of the parameters of a task, in words.
var (
	lofParamK      = lof.Op.Spec().Word("K")
	lofParamPoints = lof.Op.Spec().Word("POINTS")
	lofParamEmbed  = lof.Op.Spec().Word("EMBED")
	lofParamZNorm  = lof.Op.Spec().Word("ZNORM")
	lofParamAlpha  = lof.Op.Spec().Word("ALPHA")
	lofParamCount  = len(lof.Op.Spec().Words())
)

// lofShape is Geometry in lof.cu.
type lofShape struct {
	n, total, dim, k    int
	log, groups, padded int
	wide                int
	some                bool
	fresh               int
}

// lofShapeOf returns the shape of a task; ok is false where the kernels that search all pairs do not
// take it.
func lofShapeOf(t *detectors.Task, params detectors.Words) (g lofShape, ok bool) {
	if len(params) != lofParamCount || t.Dim < 1 || t.Dim > lofDim || t.Fresh < 1 || t.X.Len%t.Dim != 0 || t.Scores.Len != t.Fresh {
		return g, false
	}
	k, m, points := params.Int(lofParamK), params.Int(lofParamEmbed), params.Int(lofParamPoints)
	if m < 1 || m > lofDim || k < 1 || k > lofK {
		return g, false
	}
	g.fresh = int(t.Fresh)
	rows := int(t.X.Len / t.Dim)
	if points > 0 {
		rows = min(rows, max(points, g.fresh)+m-1)
	}
	g.dim = int(t.Dim) * m
	g.n = rows - m + 1
	virtuals := int(t.Bins.Len) / (g.dim + 1)
	if g.n < g.fresh || g.n > lofPoints || virtuals > lofVirtuals || g.dim > lofDim || int(t.Bins.Len) != virtuals*(g.dim+1) {
		return g, false
	}
	g.total = g.n + virtuals
	g.k = min(k, g.total-1)
	g.group()
	median := virtuals > 0 && params.Float32(lofParamAlpha) == 0
	g.some = !median && g.fresh*(g.k+1)*2 <= g.total
	g.wide = 64
	if g.some || g.k > lofSmallK || g.total <= 64 {
		g.wide = 32
	}
	return g, true
}

// group divides the points of a search into groups of a power of two, at most 64 of them or,
// for a large k, 256, and pads the points to whole units of groups and warps.
func (l *lofShape) group() {
	most := 64
	if l.k > lofSmallK {
		most = 256
	}
	for most<<l.log < l.total {
		l.log++
	}
	group := 1 << l.log
	unit := max(group, 32)
	l.groups = (l.total + group - 1) / group
	l.padded = (l.groups*group + unit - 1) / unit * unit
}

// threads returns the size of a block: one thread per unit of places, four queries a
// thread.
func (l *lofShape) threads() int {
	units := l.padded / max(1<<l.log, 32)
	return max(min(units*l.wide/4, 256)/32*32, 32)
}

// searchBytes returns the shared memory of carve in lof.cu, with dim numbers a query.
func (l *lofShape) searchBytes(dim, threads int) int {
	low := (l.padded >> l.log) * (l.wide + 16) * 4
	within := l.wide * (l.padded/32 | 1) * 4
	region := max(low, within)
	if l.padded <= lofOnChip {
		region = max(region, l.padded*8)
	}
	found := 64*10 + 128*2
	if l.k > lofSmallK {
		found = 192 * 12
	}
	return (region+15)&^15 + dim*l.wide*4 + l.wide*6 + threads/32*found
}

// windowBytes returns the shared and the scratch memory of a kernel that takes a whole task: with dim
// numbers a point in shared memory, or outside it with dim 0.
func (l *lofShape) windowBytes(dim int) (shared, scratch int) {
	if dim > 0 {
		rows := dim
		if dim >= 4 {
			rows++ // the norms
		}
		shared = l.searchBytes(dim, l.threads()) + l.padded*rows*4
	} else {
		shared = l.searchBytes(l.dim, l.threads())
		scratch = l.padded * (l.dim + 1) * 4
	}
	if l.padded <= lofOnChip {
		shared += l.padded * 8
	} else {
		scratch += l.padded * 16
	}
	lists := l.padded // of neighbours
	if l.some {
		lists = l.fresh * (l.k + 1)
		shared += l.padded/8 + l.padded*2
	}
	return shared, scratch + lists*l.k*10
}

// partBytes is windowBytes for the kernels that share a task.
func (l *lofShape) partBytes() (shared, scratch int) {
	return l.searchBytes(l.dim, l.threads()), 256 + l.padded*((l.dim+1)*4+16+l.k*10)
}

// parts returns the number of blocks that share a task.
func (l *lofShape) parts() int { return (l.padded + lofPartPlaces - 1) / lofPartPlaces }

// lofOnBlock is the most shared memory of a window in one block: all cards but the ones of capability 7.5
// have it, and an H100 for two blocks.
const lofOnBlock = 96 << 10

// lofMemory is the most scratch memory of a launch of several tasks, in bytes.
const lofMemory = 512 << 20

// lofKernels are the kernels by variant.
var lofKernels = []string{"lof_window", "lof_window_1", "lof_window_2", "lof_window_4", "lof_window_8", "lof_search", "lof_search_8",
	"lof_line_1", "lof_line_2", "lof_line_4", "lof_line_8"}

// lofVirtual marks the variant of a shared task with virtual points.
const lofVirtual = 0x80

const (
	lofWindow  = 0 // variants from here: a block a task; dim 0, 1, 2, 4, 8
	lofShared  = 5 // a block a part
	lofShared8 = 6
	lofLine    = 7           // a block a task of one coordinate; 1, 2, 4, 8 points a thread
	lofSet     = lofLine + 4 // many blocks a task; see lofset.go
)

// lofClass returns a class of LOF: Variant is a kernel, and threads a block << 8; A is the blocks of a task; B is scratch memory
// in 256 bytes.
func lofClass(t *detectors.Task, params detectors.Words) (Class, int, bool) {
	if c, cost, ok := lofLineClass(t, params); ok {
		return c, cost, true
	}
	if c, cost, ok := lofSetClass(t, params); ok {
		return c, cost, true
	}
	g, ok := lofShapeOf(t, params)
	if !ok {
		return Class{}, 0, false
	}
	var shared, scratch, variant int
	parts := 1
	if !g.some && g.padded > 2048 {
		variant, parts = lofShared, g.parts()
		if g.dim == 8 && g.k <= lofSmallK {
			variant = lofShared8
		}
		shared, scratch = g.partBytes()
		if g.total > g.n {
			variant |= lofVirtual
		}
	} else {
		variant = lofWindow
		shared, scratch = g.windowBytes(0)
		if g.dim <= 8 && g.k <= lofSmallK {
			log := 0
			for 1<<log < g.dim {
				log++
			}
			if s, o := g.windowBytes(1 << log); s <= lofOnBlock {
				variant, shared, scratch = lofWindow+1+log, s, o
			}
		}
	}
	// Rounded, so that there are few classes.
	scratch = (scratch + 255) / 256
	for step := 1; scratch > 8*step; step *= 2 {
		scratch = (scratch + step - 1) / step * step
	}
	c := Class{Op: lof.Op, Variant: uint32(variant | g.threads()<<8), A: uint32(parts), B: uint32(scratch), Shared: wholeKB(shared)}
	searches := g.padded
	if g.some {
		searches = min(searches, g.fresh*(g.k+1)*(g.k+1)/2)
	}
	return c, searches*(g.padded*(4*g.dim+6)+8000)/20000 + 1, true
}

// wholeKB rounds shared memory up to whole KB, so that there are few classes.
func wholeKB(bytes int) uint32 { return uint32((bytes + 1023) &^ 1023) }

// lofLineClass is lofClass for points of one coordinate, without virtual points; false for other tasks.
func lofLineClass(t *detectors.Task, params detectors.Words) (Class, int, bool) {
	if len(params) != lofParamCount || t.Dim != 1 || params.Int(lofParamEmbed) != 1 || t.Bins.Len > 0 || t.Fresh < 1 ||
		t.Scores.Len != t.Fresh || params.Int(lofParamK) < 1 {
		return Class{}, 0, false
	}
	n, fresh := int(t.X.Len), int(t.Fresh)
	if points := params.Int(lofParamPoints); points > 0 {
		n = min(n, max(points, fresh))
	}
	if n < fresh || n > lineMost {
		return Class{}, 0, false
	}
	k, s := min(params.Int(lofParamK), n-1), lineShapeOf(n)
	steps := 15 * k // two sums
	if fresh*(k+1)*2 <= n {
		steps /= 8
	}
	c := Class{Op: lof.Op, Variant: uint32(lofLine + s.kernel() | s.threads()<<8), A: 1, Shared: wholeKB(s.bytes(8, 2))}
	return c, s.cost(steps), true
}

func lofLaunches(c Class, p *builder, chains []chain) {
	variant, threads := int(c.Variant&0x7f), int(c.Variant>>8)
	if variant >= lofSet {
		lofSetLaunches(c, p, chains)
		return
	}
	shared, scratch := int(c.Shared), int(c.B)*256
	p.launchWithin(chains, c.A, 0, scratch, lofMemory, func(int) {
		if variant < lofShared || variant >= lofLine {
			p.launch(lofKernels[variant], blockATile, threads, shared)
			return
		}
		p.launch("lof_load", blockATile, 256, 0)
		p.again(lofKernels[variant], blockATile, threads, shared)
		p.again("lof_density", blockATile, lofPartPlaces, 0)
		if c.Variant&lofVirtual != 0 {
			p.again("lof_virtual", blockATile, 256, 0)
		}
		p.again("lof_score", blockATile, lofPartPlaces, 0)
	})
}

var lofPlan = opPlan{
	op:      lof.Op,
	kernels: append([]string{"lof_load", "lof_density", "lof_virtual", "lof_score", "lof_set_density", "lof_set_score"}, lofKernels...),
	class:   lofClass, launches: lofLaunches,
}
