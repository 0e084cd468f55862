package plan

import (
	"odradek/detectors"
	"odradek/detectors/ar"
)

// arKernels are the kernels, by Variant: for tasks with one fresh row or any number, and for one order or any up to twice the lanes
// that a series has, 0 for any. What is learnt takes 4 or 8 bytes a number in shared memory.
var arKernels = []struct {
	name                       string
	fresh, order, lanes, bytes int
}{
	{"ar_order16", 1, 16, 8, 4}, {"ar_order32", 1, 32, 16, 4}, {"ar_one8", 1, 0, 8, 4}, {"ar_one16", 1, 0, 16, 4},
	{"ar_run8", 0, 0, 8, 8}, {"ar_run16", 0, 0, 16, 8}, {"ar_run32", 0, 0, 32, 8},
}

// arPlan is the plan of op AR. In its classes, B is the dimension. A series has three float64 a weight in shared memory, and the words
// after the state's header.
var arPlan = opPlan{
	op:      ar.Op,
	kernels: []string{"ar_order16", "ar_order32", "ar_one8", "ar_one16", "ar_run8", "ar_run16", "ar_run32", "ar_largest"},
	class: func(t *detectors.Task, params detectors.Words) (Class, int, bool) {
		order, dim, fresh := params.Int(ar.Op.Spec().Word("ORDER")), int(t.Dim), int(t.Fresh)
		learnt := order * (order + 3) / 2 // words of a series after the 8 of the header
		if order < 1 || order > 64 || dim < 1 || dim >= 1<<15 || fresh < 1 || int(t.X.Len) < dim*(order+fresh) ||
			int(t.X.Len)%dim != 0 || int(t.Scores.Len) != fresh || int(t.Next.Len) != dim*(8+learnt) || int(t.Detail.Len) != 2*dim*fresh {
			return Class{}, 0, false
		}
		variant := 0
		for k := arKernels[0]; k.fresh == 1 && fresh > 1 || k.order != order && (k.order > 0 || order > 2*k.lanes); k = arKernels[variant] {
			variant++
		}
		shared := (24*order + arKernels[variant].bytes*learnt + 15) &^ 15
		c := Class{Op: ar.Op, Variant: uint32(variant), B: t.Dim}
		c.Shared = uint32(shared * arSeries(c))
		return c, dim * (2*learnt + fresh*(200+20*order)) / 1000, true
	},
	launches: arLaunches,
}

// arSeries returns the series of a block of up to 64 threads: as many as fill whole warps.
func arSeries(c Class) int {
	each := 32 / arKernels[c.Variant].lanes
	if c.B == 1 {
		return 2 * each
	}
	return min(2*each, (int(c.B)+each-1)/each*each)
}

// arLaunches gives each group of lanes a chain, with others of the same length in its block; of rows with several values each
// group one value, and then computes each row's score from its values' scores.
func arLaunches(c Class, p *builder, chains []chain) {
	series, k := arSeries(c), arKernels[c.Variant]
	for len(chains) > 0 {
		first, n := chains[0], 1
		if c.B == 1 {
			for n < min(series, len(chains)) && chains[n].count == first.count {
				n++
			}
			p.tiles = append(p.tiles, Tile{First: first.first, Count: uint32(n) * first.count, Part: uint32(n) << 16})
		}
		for value := uint32(0); c.B > 1 && value < c.B; value += uint32(series) {
			p.tiles = append(p.tiles, Tile{First: first.first, Count: first.count, Part: 1<<31 | c.B<<16 | value})
		}
		chains = chains[n:]
	}
	p.launch(k.name, blockATile, series*k.lanes, int(c.Shared))
	if c.B > 1 {
		p.again("ar_largest", blockATile, 256, 0)
	}
}
