package plan

import (
	"odradek/detectors"
	"odradek/detectors/knn"
)

// Limits of the kernel in solvingset.cu. Without the last one a block might take seconds where a set is cut off.
const (
	setDim    = 64  // numbers a point
	setOthers = 128 // neighbours
	setTop    = 256 // outliers
	setPairs  = 1 << 31
)

// Constants of solvingset_search.h.
const (
	setThreads = 256
	setWide    = 16 // candidates that are compared at a time
)

// setScratch is the most scratch memory of a launch of several chains, in bytes.
const setScratch = 512 << 20

// The offsets of the parameters of a task, in words.
var (
	setParamWindow = knn.OpSolvingSet.Spec().Word("WINDOW")
	setParamK      = knn.OpSolvingSet.Spec().Word("K")
	setParamEmbed  = knn.OpSolvingSet.Spec().Word("EMBED")
	setParamZNorm  = knn.OpSolvingSet.Spec().Word("ZNORM")
	setParamTop    = knn.OpSolvingSet.Spec().Word("TOP")
	setParamMost   = knn.OpSolvingSet.Spec().Word("MODEL_POINTS")
	setParamTimed  = knn.OpSolvingSet.Spec().Word("TIMED")
	setParamCount  = setParamTimed + 1
)

// setClass returns a class of op solvingset: B is the scratch memory of a task in units of 256 bytes. Only tasks that mine a set have
// one: their rows are more than those of the fresh points.
func setClass(t *detectors.Task, params detectors.Words) (Class, int, bool) {
	if len(params) != setParamCount || t.Dim < 1 || t.Fresh < 1 || t.X.Len%t.Dim != 0 || t.Scores.Len != t.Fresh {
		return Class{}, 0, false
	}
	window, k, embed, top, most := params.Int(setParamWindow), params.Int(setParamK), params.Int(setParamEmbed), params.Int(setParamTop),
		params.Int(setParamMost)
	timed, fresh, rows := int(params[setParamTimed]), int(t.Fresh), int(t.X.Len/t.Dim)
	dim := int(t.Dim) - timed
	width := dim * embed
	if window < 2 || k < 1 || k > setOthers || embed < 1 || top < 1 || top > setTop || most < 2*k || dim < 1 || width > setDim ||
		rows <= embed+fresh-1 || int(t.Next.Len) != 4+dim*(2+most*embed) {
		return Class{}, 0, false
	}
	n := min(window, rows-embed+1)
	if n*n*width > setPairs {
		return Class{}, 0, false
	}
	aligned := func(bytes int) int { return (bytes + 15) &^ 15 }
	scratch := 2*aligned(8*n) + aligned(8*n*min(k, max(n-1, 1))) + aligned(8*setWide*max(n, most)) + aligned(8*most*width) +
		aligned(4*n) + 2*aligned(4*most) + aligned(n) + aligned(rows)
	if timed > 0 {
		scratch += aligned(8 * rows * dim)
	}
	if params.Bool(setParamZNorm) {
		scratch += aligned(8 * n * width)
	}
	return Class{Op: knn.OpSolvingSet, B: uint32(knnRounded(scratch))}, n*(most+n/4)*(8+width)/1000 + 1000, true
}

// setLaunches gives each chain a block.
func setLaunches(c Class, p *builder, chains []chain) {
	scratch := int(c.B) * 256
	each := max(1, setScratch/scratch)
	var at []uint32
	for len(chains) > 0 {
		n := min(each, len(chains))
		for i, ch := range chains[:n] {
			if len(at) <= i {
				at = append(at, p.scratch(scratch))
			}
			p.tiles = append(p.tiles, Tile{First: ch.first, Count: ch.count, Scratch: at[i]})
		}
		p.launch("solvingset_mine", blockATile, setThreads, 0)
		chains = chains[n:]
	}
}

var setPlan = opPlan{op: knn.OpSolvingSet, kernels: []string{"solvingset_mine"}, class: setClass, launches: setLaunches}
