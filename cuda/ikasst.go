package cuda

import (
	"fmt"
	"math/bits"

	"odradek/detectors"
)

// ikasstMaxWindow is the largest w that there is a kernel for, ikasstMaxKrylov
// the largest k.
const (
	ikasstMaxWindow = 1024
	ikasstMaxKrylov = 32
)

// ikasstRows are the kernels: rows of a vector that a lane has.
var ikasstRows = []int{8, 10, 13, 16, 20, 26, 32}

// ikasstShape is how a window is laid over lanes.
type ikasstShape struct {
	rows, lanes int
	work        int // warp instructions of a product with a Hankel matrix, for one series, times 32
}

// ikasstShapes are the best shapes by w.
var ikasstShapes = func() (shapes [ikasstMaxWindow + 1]ikasstShape) {
	for w := 2; w <= ikasstMaxWindow; w++ {
		for _, rows := range ikasstRows {
			blocks := (w + rows - 1) / rows
			lanes := 1 << bits.Len(uint(blocks-1))
			if lanes > 32 {
				continue
			}
			// Multiply-adds, loads of x and of v; and some for each product.
			work := lanes * (blocks*(rows*rows+rows+(rows+3)/4) + 8*rows)
			if s := &shapes[w]; s.rows == 0 || work < s.work {
				*s = ikasstShape{rows, lanes, work}
			}
		}
	}
	return shapes
}()

// ikasstShared is the bytes of shared memory of a warp with a lane's rows,
// lanes a series, k vectors: struct Memory in ikasst.cu.
func ikasstShared(rows, lanes, k int) int {
	up := func(n int) int { return (n + 31) &^ 31 }
	series, p, v := 32/lanes, rows|1, (rows+3)&^3
	floats := series*(up(lanes*v)+4) + max((k-1)*rows*32, 192*k) + (2*k-1)*32 + 64 + series*(lanes*p+up(lanes*p))
	return 4 * floats
}

// ikasstFull is the number of blocks that keep a large device busy.
const ikasstFull = 4096

// Of a class, Variant is the kernel's rows, A the dimension, B lanes | k << 8.
var ikasstPlan = opPlan{
	class: func(t *detectors.Task, params []float32) (Class, int, bool) {
		w, k, gamma, steps := int(params[0]), int(params[2]), int(params[3]), int(params[4])
		if w < 2 || w > ikasstMaxWindow || k > ikasstMaxKrylov || t.Fresh == 0 || t.Scores.Len != t.Fresh || t.Next.Len != t.Dim*uint32(w) ||
			int(t.X.Len) < int(t.Dim)*(2*w-2+gamma+int(t.Fresh)) {
			return Class{}, 0, false
		}
		s := ikasstShapes[w]
		// An H200 issues 1e12 warp instructions a second.
		cost := int(t.Dim*t.Fresh) * (2*(steps+k)*s.work + 8*w*w/s.rows) / 32 / 800
		return Class{Op: detectors.IKASST, Variant: uint32(s.rows), A: t.Dim, B: uint32(s.lanes | k<<8)}, cost, true
	},
	launches: func(c Class, p *planner, chains []chain) {
		dim, lanes, k := int(c.A), int(c.B&0xff), int(c.B>>8)
		series := 32 / lanes
		// A block's series fill a warp once; several times, where there are
		// blocks enough and few scores, so that 32 tridiagonal problems come
		// together.
		share := max(series/dim, 1)
		scores := int(p.tasks[chains[0].first].Fresh) * int(chains[0].count)
		for scores < lanes && share*2*ikasstFull <= len(chains) {
			scores, share = scores*2, share*2
		}
		share = min(share, 1<<15)
		part := uint32(share | bits.Len(uint(lanes-1))<<16 | k<<24)
		for _, c := range chains {
			p.tile(Tile{First: c.first, Count: c.count, Part: part, Scratch: uint32(len(chains))})
		}
		p.launchGrid(kernel(fmt.Sprint("ikasst", c.Variant)), (len(chains)+share-1)/share, 32, ikasstShared(int(c.Variant), lanes, k))
	},
}
