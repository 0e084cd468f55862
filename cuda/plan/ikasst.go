package plan

import (
	"fmt"
	"math/bits"

	"odradek/detectors"
	"odradek/detectors/sst"
)

// ikasstMaxWindow is the largest w of the kernels, ikasstMaxKrylov the largest k.
const (
	ikasstMaxWindow = 1024
	ikasstMaxKrylov = 32
)

// The offsets of the parameters of a task, in words.
var (
	ikasstParamWindow = sst.OpIKA.Spec().Word("WINDOW")
	ikasstParamKrylov = sst.OpIKA.Spec().Word("KRYLOV")
	ikasstParamGamma  = sst.OpIKA.Spec().Word("GAMMA")
	ikasstParamSteps  = sst.OpIKA.Spec().Word("POWER_STEPS")
)

// ikasstRows lists the kernels by the rows of a vector that a lane has.
var ikasstRows = []int{8, 10, 13, 16, 20, 26, 32}

func ikasstKernels() (names []string) {
	for _, rows := range ikasstRows {
		names = append(names, fmt.Sprint("ikasst", rows))
	}
	return names
}

// ikasstShape describes how a window is divided among lanes.
type ikasstShape struct{ rows, lanes int }

// ikasstBest returns the best shape for a task's parameters, and the picoseconds of a series' score on
// a full H200.
func ikasstBest(w, k, steps int) (best ikasstShape, ps int) {
	for _, rows := range ikasstRows {
		blocks := (w + rows - 1) / rows
		lanes := 1 << bits.Len(uint(blocks-1))
		if lanes > 32 {
			continue
		}
		// Warp instructions of a round of 32/lanes scores: products, with loads of x and of v; means
		// and centring, and the wait for values of many series; Lanczos without its products; the
		// tridiagonal problem.
		products := 2 * (steps + k) * (blocks*(rows*rows+rows+(rows+3)/4+7) + 5*rows + 20)
		others := 1500 + (40+320/lanes)*(2*w/lanes+1) + k*(6*rows+80) + k*k*2*rows + 300*k*k/lanes
		// 132 multiprocessors issue 4 a cycle, at 1.98 GHz, if they have enough warps.
		warps := min(ikasstWarps[rows], ikasstSharedMemory/(ikasstShared(rows, lanes, k)+1024))
		t := (products + others) * lanes * (warps + 3) / (32 * warps)
		if best.rows == 0 || t < ps {
			best, ps = ikasstShape{rows, lanes}, t
		}
	}
	return best, ps * 96 / 100
}

// ikasstWarps are the warps that a multiprocessor has registers for, by rows. ikasstSharedMemory is the
// multiprocessor's memory for them in bytes; each warp takes one KiB more than its own.
var ikasstWarps = map[int]int{8: 16, 10: 16, 13: 16, 16: 12, 20: 12, 26: 8, 32: 8}

const ikasstSharedMemory = 227 << 10

// ikasstShared returns the bytes of shared memory of a warp, by rows a lane, lanes a series and k
// vectors: struct Memory in ikasst.cu.
func ikasstShared(rows, lanes, k int) int {
	up := func(n int) int { return (n + 31) &^ 31 }
	series, p, v := 32/lanes, rows|1, (rows+3)&^3
	floats := series*(up(lanes*v)+4) + max((k-1)*rows*32, 192*k) + (2*k-1)*32 + 96 + series*(lanes*p+up(lanes*p))
	return 4 * floats
}

// ikasstFull is the number of blocks that occupies a large device.
const ikasstFull = 4096

// ikasstPlan is the plan of op ikasst. In its classes, Variant is the kernel's rows, A the dimension, B
// lanes | k << 8.
var ikasstPlan = opPlan{
	op:      sst.OpIKA,
	kernels: ikasstKernels(),
	class: func(t *detectors.Task, params detectors.Words) (Class, int, bool) {
		w, k := params.Int(ikasstParamWindow), params.Int(ikasstParamKrylov)
		gamma, steps := params.Int(ikasstParamGamma), params.Int(ikasstParamSteps)
		if w < 2 || w > ikasstMaxWindow || k > ikasstMaxKrylov || t.Fresh == 0 || t.Scores.Len != t.Fresh || t.Next.Len != t.Dim*uint32(w) ||
			int(t.X.Len) < int(t.Dim)*(2*w-2+gamma+int(t.Fresh)) {
			return Class{}, 0, false
		}
		s, ps := ikasstBest(w, k, steps)
		return Class{Op: sst.OpIKA, Variant: uint32(s.rows), A: t.Dim, B: uint32(s.lanes | k<<8),
			Shared: uint32(ikasstShared(s.rows, s.lanes, k))}, int(t.Dim*t.Fresh) * ps / 1000, true
	},
	launches: func(c Class, p *builder, chains []chain) {
		dim, lanes, k := int(c.A), int(c.B&0xff), int(c.B>>8)
		series := 32 / lanes
		// A block's series fill a warp once; or several times, where there are enough blocks and few
		// scores, so that 32 tridiagonal problems are solved together.
		each := max(series/dim, 1) // chains of a block
		scores := int(p.tasks[chains[0].first].Fresh) * int(chains[0].count)
		for scores < lanes && each*2*ikasstFull <= len(chains) {
			scores, each = scores*2, each*2
		}
		each = min(each, 1<<15)
		part := uint32(each | bits.Len(uint(lanes-1))<<16 | k<<24)
		for _, c := range chains {
			p.tiles = append(p.tiles, Tile{First: c.first, Count: c.count, Part: part, Scratch: uint32(len(chains))})
		}
		p.launch(fmt.Sprint("ikasst", c.Variant), (len(chains)+each-1)/each, 32, int(c.Shared))
	},
}
