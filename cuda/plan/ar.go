package plan

import (
	"odradek/detectors"
	"odradek/detectors/ar"
	arop "odradek/detectors/ops/ar"
)

const arThreads = 64 // of a block of ar.cu, at most

var arParamOrder = arop.Op.Spec().Word("ORDER")

// arKernels are the kernels, by Variant: for tasks with one fresh row or any number, and for one order or any up to twice the lanes
// that a series has. What is learnt takes 4 or 8 bytes a number in shared memory.
var arKernels = []struct {
	name                string
	fresh, order, lanes int // 0 for any
	bytes               int
}{
	{"ar_order16", 1, 16, 8, 4}, {"ar_order32", 1, 32, 16, 4}, {"ar_one8", 1, 0, 8, 4}, {"ar_one16", 1, 0, 16, 4},
	{"ar_run8", 0, 0, 8, 8}, {"ar_run16", 0, 0, 16, 8}, {"ar_run32", 0, 0, 32, 8},
}

// arPlan is the plan of op AR. In its classes, A is the shared memory of a series, in bytes, and B the dimension.
var arPlan = opPlan{
	op:      arop.Op,
	kernels: []string{"ar_order16", "ar_order32", "ar_one8", "ar_one16", "ar_run8", "ar_run16", "ar_run32", "ar_largest"},
	class: func(t *detectors.Task, params detectors.Words) (Class, int, bool) {
		order := params.Int(arParamOrder)
		words := (&ar.Params{Order: order}).Words()
		dim, fresh := int(t.Dim), int(t.Fresh)
		if order < 1 || order > ar.MaxOrder || dim < 1 || dim > 1<<15 || fresh < 1 || int(t.X.Len) < dim*(order+fresh) ||
			int(t.X.Len)%dim != 0 || int(t.Scores.Len) != fresh || int(t.Next.Len) != dim*words || int(t.Detail.Len) != 2*dim*fresh {
			return Class{}, 0, false
		}
		variant := 0
		for _, k := range arKernels {
			if (k.fresh == 0 || k.fresh == fresh) && (k.order == order || k.order == 0 && order <= 2*k.lanes) {
				break
			}
			variant++
		}
		ps := dim * (2*words + fresh*(200+20*order))
		return Class{Op: arop.Op, Variant: uint32(variant), A: uint32(arShared(order, variant)), B: t.Dim}, ps / 1000, true
	},
	shared:   func(c Class) int { return int(c.A) * arSeries(c) },
	launches: arLaunches,
}

// arShared returns the shared memory of a series: three float64 a weight, and the words of the state after its header.
func arShared(order, variant int) int {
	return (24*order + arKernels[variant].bytes*order*(order+3)/2 + 15) &^ 15
}

// arSeries returns the series of a block: as many as fill whole warps.
func arSeries(c Class) int {
	each, most := 32/arKernels[c.Variant].lanes, arThreads/arKernels[c.Variant].lanes
	if c.B == 1 {
		return most
	}
	return min(most, (int(c.B)+each-1)/each*each)
}

// arLaunches gives each group of lanes a chain, with others of the same length in its block; of rows with several values each
// group one value, and then makes the rows' scores of those of their values.
func arLaunches(c Class, p *builder, chains []chain) {
	series, k := arSeries(c), arKernels[c.Variant]
	for i := 0; i < len(chains); {
		first, n := chains[i], 1
		if c.B > 1 {
			for value := uint32(0); value < c.B; value += uint32(series) {
				p.tile(Tile{First: first.first, Count: first.count, Part: 1<<31 | value<<16 | c.B, Scratch: first.count})
			}
		} else {
			for n < series && i+n < len(chains) && chains[i+n].count == first.count {
				n++
			}
			p.tile(Tile{First: first.first, Count: uint32(n) * first.count, Part: uint32(n), Scratch: first.count})
		}
		i += n
	}
	p.launch(kernel(k.name), series*k.lanes, int(c.A)*series)
	if c.B > 1 {
		p.again(kernel("ar_largest"), len(p.tiles)-int(p.launches[len(p.launches)-1].FirstTile), 256, 0)
	}
}
