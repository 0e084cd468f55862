package plan

import (
	"fmt"

	"odradek/detectors"
	"odradek/detectors/sst"
)

// svdsstMaxWindow is the largest w of the kernels, svdsstMaxRank the largest r.
const (
	svdsstMaxWindow = 512
	svdsstMaxRank   = 16
)

// The offsets of the parameters of a task, in words.
var (
	svdsstParamWindow = sst.OpSVD.Spec().Word("WINDOW")
	svdsstParamRank   = sst.OpSVD.Spec().Word("RANK")
	svdsstParamGamma  = sst.OpSVD.Spec().Word("GAMMA")
)

// svdsstShape is a kernel of svdsst.cu: rows of a vector a lane, warps a block, and blocks that fit on
// a multiprocessor.
type svdsstShape struct{ rows, warps, blocks int }

var svdsstShapes = []svdsstShape{{2, 1, 16}, {4, 2, 8}, {7, 2, 6}, {10, 2, 6}, {13, 2, 4}, {16, 2, 4}}

func svdsstKernels() (names []string) {
	for _, s := range svdsstShapes {
		names = append(names, fmt.Sprint("svdsst", s.rows))
	}
	return append(names, "svdsst_dense")
}

// Constants of svdsst.cu.
const (
	svdsstSteps  = 128
	svdsstBeyond = 4
	svdsstHeld   = 80
)

// svdsstShapeOf returns the kernel for a window.
func svdsstShapeOf(w int) svdsstShape {
	for _, s := range svdsstShapes {
		if 32*s.rows >= w {
			return s
		}
	}
	panic(fmt.Sprintf("plan: no kernel of svdsst for a window of %d", w))
}

// memory returns a block's bytes of shared memory, and of scratch memory for the vectors that do not
// fit: struct Memory in svdsst.cu.
func (s svdsstShape) memory(w, rank int) (shared, scratch int) {
	steps := min(w, svdsstSteps)
	most, n := (steps+7)&^7, 32*s.rows
	pitch, window := (rank+svdsstBeyond)|1, 64*(s.rows|1)
	shares := max(s.warps*n, 2*min(most, svdsstHeld)*pitch)
	doubles := 3*most + 32 + 24*s.warps + 64
	floats := 32*((s.rows+3)&^3) + 2*n + 3*most + 128 + 16 + window + shares
	fixed := 8*doubles + 4*floats
	kept := max(min(((227/s.blocks-1)<<10-fixed)/(4*n), steps), (12*w-window-shares+n-1)/n, 0)
	if kept < steps {
		scratch = 4 * n * (steps - kept)
	}
	if most > svdsstHeld {
		scratch += 8 * most * pitch
	}
	return fixed + 4*n*kept, scratch
}

// svdsstDense is the launch of svdsst_dense for a window: threads and bytes of shared memory a block,
// blocks that fit on a multiprocessor, and the bytes of a block's matrix if it is in scratch memory:
// struct Dense in svdsst_dense.h.
type svdsstDense struct{ threads, shared, blocks, matrix int }

// The most shared memory of a block and of a multiprocessor, and the most scratch memory for matrices,
// the size of the L2.
const (
	svdsstShared   = 227 << 10
	svdsstMatrices = 48 << 20
)

// svdsstDenseOf returns the launch for a window on devices whose blocks have the given
// shared memory, 0 for svdsstShared. A score does not depend on where the matrix lies.
func svdsstDenseOf(w, most int) svdsstDense {
	if most == 0 {
		most = svdsstShared
	}
	columns, padded := (w+31)&^31, (w+7)&^7
	d := svdsstDense{threads: columns * max(512/columns, 2)}
	if columns <= 64 {
		d.threads = 128
	}
	fixed := func() int { return 8 * (3*padded + 7*w + max(2*columns, d.threads) + 128 + 8) }
	if d.shared = fixed() + 8*w*w; d.shared > most {
		d.threads = columns * (1024 / columns)
		d.shared, d.matrix = fixed(), Align(8*w*w)
	}
	d.blocks = min(svdsstShared/(d.shared+1<<10), 2048/d.threads)
	return d
}

// SVDSSTHeads is the number of Tile structs that the header of a launch of op svdsst occupies. The header comes before the
// launch's tiles and is counted as tiles; it is struct Heads in svdsst.cu (svdsstHeads).
const SVDSSTHeads = 2

// svdsstHeads is struct Heads in svdsst.cu.
type svdsstHeads struct{ tiles, counters, again, left, apart, matrices uint32 }

// tile returns the i-th of the tiles that the heads occupy.
func (h *svdsstHeads) tile(i int) Tile {
	if i == 0 {
		return Tile{h.tiles, h.counters, h.again, h.left}
	}
	return Tile{First: h.apart, Count: h.matrices}
}

// svdsstCounters is the size of struct Counters in svdsst.cu, in bytes.
const svdsstCounters = 12

// A launch has as many blocks as fit on a large device, and eight tiles for each: the times of scores
// differ widely, but little between neighbours in a series.
const (
	svdsstSMs   = 148
	svdsstTiles = 8
)

// svdsstAgain is the bit of Variant of tasks in their second round, for svdsst_dense.
const svdsstAgain = 1 << 16

// svdsstPlan is the plan of op svdsst. In its classes, Variant is the kernel's rows and svdsstAgain,
// A the dimension, B w | r << 16.
//
// A task has a second round where float32 cannot decide a score, which is rare. A block of svdsst_dense
// takes a multiprocessor's shared memory and makes other lanes wait even without work: hence it is not
// a second launch of the first round.
var svdsstPlan = opPlan{
	op:      sst.OpSVD,
	kernels: svdsstKernels(),
	class:   svdsstClass,
	rounds:  2,
	again: func(t *detectors.Task, params detectors.Words, _ int, _ detectors.Words) (Class, int, bool) {
		c, cost, ok := svdsstClass(t, params)
		c.Variant |= svdsstAgain
		return c, svdsstDearer * cost, ok
	},
	launches: func(c Class, p *builder, chains []chain) {
		w, again := int(c.B&0xffff), c.Variant&svdsstAgain != 0
		s := svdsstShapeOf(w)
		_, scratch := s.memory(w, int(c.B>>16))
		first, end, rows := chains[0].first, chains[0].first, 0
		for _, c := range chains {
			end += c.count
		}
		for i := first; i < end; i++ {
			rows += int(p.tasks[i].Fresh)
		}
		heads := svdsstHeads{counters: p.zeroed(svdsstCounters)}
		dense, blocks := svdsstDense{}, 0
		if again {
			scores := rows * int(c.A)
			dense = svdsstDenseOf(w, p.shared)
			blocks = min(scores, dense.blocks*svdsstSMs)
			heads.again, heads.left = 1, p.scratch(8*scores)
			if dense.matrix > 0 {
				blocks = min(blocks, svdsstMatrices/dense.matrix)
				heads.apart, heads.matrices = 1, p.scratch(blocks*dense.matrix)
			}
		}
		// A tile has this many rows, of several tasks or some of one.
		most, grid, head := s.blocks*svdsstSMs, 0, len(p.tiles)
		for range SVDSSTHeads {
			p.tiles = append(p.tiles, Tile{})
		}
		share := uint32((rows + svdsstTiles*most - 1) / (svdsstTiles * most))
		tile := func(first, count, part uint32) {
			t := Tile{First: first, Count: count, Part: part}
			if grid < most {
				if grid++; scratch > 0 {
					t.Scratch = p.scratch(scratch)
				}
			}
			p.tiles = append(p.tiles, t)
		}
		for i := first; i < end; {
			fresh := p.tasks[i].Fresh
			if fresh >= share {
				for at := uint32(0); at < fresh; at += share {
					tile(i, 1, at|min(share, fresh-at)<<16)
				}
				i++
				continue
			}
			n, next := fresh, i+1
			for next < end && n+p.tasks[next].Fresh <= share {
				n += p.tasks[next].Fresh
				next++
			}
			tile(i, next-i, fresh<<16)
			i = next
		}
		heads.tiles = uint32(len(p.tiles) - head - SVDSSTHeads)
		for i := range SVDSSTHeads {
			p.tiles[head+i] = heads.tile(i)
		}
		p.launch(fmt.Sprint("svdsst", s.rows), grid, 32*s.warps, int(c.Shared))
		if again {
			p.again("svdsst_dense", blocks, dense.threads, dense.shared)
		}
	},
}

// svdsstDearer is the approximate ratio of the costs of a score in float64 and in float32.
const svdsstDearer = 4

// svdsstClass is opPlan.class for a task's first round.
func svdsstClass(t *detectors.Task, params detectors.Words) (Class, int, bool) {
	w, rank, gamma := params.Int(svdsstParamWindow), params.Int(svdsstParamRank), params.Int(svdsstParamGamma)
	if w < 2 || w > svdsstMaxWindow || rank < 1 || rank >= w || rank > svdsstMaxRank || t.Dim < 1 || t.Fresh == 0 || t.Fresh > 1<<15 ||
		t.Scores.Len != t.Fresh || t.Next.Len != 0 || int(t.X.Len) < int(t.Dim)*(2*w-2+gamma+int(t.Fresh)) {
		return Class{}, 0, false
	}
	cost := 100 + w*w*(40+2*rank)/5000
	s := svdsstShapeOf(w)
	shared, _ := s.memory(w, rank)
	return Class{Op: sst.OpSVD, Variant: uint32(s.rows), A: t.Dim, B: uint32(w | rank<<16), Shared: uint32(shared)},
		int(t.Dim*t.Fresh) * cost, true
}
