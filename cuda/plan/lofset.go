package plan

import (
	"odradek/detectors"
	"odradek/detectors/lof"
)

// Limits of the sets whose points op KNN's kernels search for op LOF.
const (
	lofSetPoints = knnScanned
	lofSetLists  = 1 << 25 // neighbours of all points together
)

// knnKeepsLists marks the part of a tile whose task is op LOF's, as in knn_scan.h.
const knnKeepsLists = 1 << 15

// lofSetClass is lofClass for sets of more than lofPoints points without virtual ones, of which more
// points are scored than a search for each of them and its neighbours would be worth.
func lofSetClass(t *detectors.Task, params detectors.Words) (Class, int, bool) {
	if len(params) != lofParamCount || t.Dim < 1 || t.Dim > knnDim || t.X.Len%t.Dim != 0 || t.Bins.Len > 0 || t.Fresh < 1 ||
		t.Scores.Len != t.Fresh || params.Bool(lofParamZNorm) {
		return Class{}, 0, false
	}
	s := knnShape{k: params.Int(lofParamK), rows: int(t.X.Len / t.Dim), fresh: int(t.Fresh), dim: int(t.Dim)}
	m := params.Int(lofParamEmbed)
	if m < 1 || m > knnDim || s.dim*m > knnDim || s.k < 1 || s.k > lofK {
		return Class{}, 0, false
	}
	s.width, s.n, s.others = s.dim*m, s.rows-m+1, s.k
	if s.n <= lofPoints || s.n > lofSetPoints || s.n < s.fresh || s.n*s.k > lofSetLists || s.fresh*(s.k+1)*2 <= s.n {
		return Class{}, 0, false
	}
	if points := params.Int(lofParamPoints); points > 0 && max(points, s.fresh) < s.n {
		return Class{}, 0, false
	}
	g := s.set()
	kind := 0
	for knnScans[kind] != g.most {
		kind++
	}
	scratch := g.scratch + s.n*s.k*12 + s.n*8
	if g.steps > 0 {
		kind |= knnTensor
	}
	c := Class{Op: lof.Op, Variant: uint32(lofSet + kind), A: uint32(g.blocks), B: uint32(knnRounded(scratch))}
	return c, g.cost(&s) + s.n*s.k/50, true
}

// lofSetLaunches adds the launches of a class of sets, a task's after the other's: of each set alone
// all blocks of a device have work.
func lofSetLaunches(c Class, p *builder, chains []chain) {
	scratch, blocks := p.scratch(int(c.B)*256), c.A
	for _, ch := range chains {
		for i := range ch.count {
			for block := range blocks {
				p.tiles = append(p.tiles, Tile{First: ch.first + i, Count: 1, Part: block | knnKeepsLists | blocks<<16, Scratch: scratch})
			}
			g := knnSetOf(int(c.Variant&^knnTensor)-lofSet, c.Variant&knnTensor != 0)
			g.launch(p)
			p.again("lof_set_density", blockATile, 256, 0)
			p.again("lof_set_score", blockATile, 256, 0)
		}
	}
}
