package plan

import "fmt"

// Limits of the sets with an index.
const (
	knnIndexed   = 1 << 13 // points, at least: brute force is faster below
	knnIndexDim  = 4
	knnIndexMost = 64 // neighbours
)

// Constants of knn_index.h.
const (
	knnLeaf       = 32 // points
	knnNode       = 32 // leaves
	knnSortBlocks = 132
	knnSamples    = 1024 * knnIndexDim
)

// knnIndexBlocks is the most blocks of a set for each multiprocessor. An H200 runs five at once, where the neighbours are
// many. Blocks take leaves from one counter, and write the weights of the points in them; the order of the points is the
// same for any number of blocks.
const knnIndexBlocks = 5

// knnNearest are the kernels by neighbours, for points of two and of four coordinates.
var knnNearest = []int{10, 20, 32, 50, 64}

// knnIndex describes the division of a large set of few coordinates, as Index in knn_index.h.
type knnIndex struct {
	kernel  int // among the kernels for two coordinates, then for four
	passes  int // of the sort
	blocks  int // that the set has work for, rounded up where they are many
	scratch int
}

// index returns the index of a set; ok is false where there is none: the set's neighbours are listed,
// or brute force is faster.
func (s *knnShape) index(dim int, listed bool) (g knnIndex, ok bool) {
	if listed || dim != s.width || dim > knnIndexDim || s.n < knnIndexed || s.points > 0 || s.others < 1 || s.others > knnIndexMost {
		return g, false
	}
	for knnNearest[g.kernel] < s.others {
		g.kernel++
	}
	wide := 2
	if dim > 2 {
		wide = 4
		g.kernel += len(knnNearest)
	}
	g.passes = max(4, 2*dim)
	if g.blocks = (s.n + knnLanes - 1) / knnLanes; g.blocks > usualSMs*knnIndexBlocks {
		g.blocks = knnRounded(g.blocks * 256)
	}
	leaves := (s.n + knnLeaf - 1) / knnLeaf
	nodes := (leaves + knnNode - 1) / knnNode
	g.scratch = Align(24) + Align(g.blocks*48) + Align(4*knnSamples) + Align(min(g.blocks, knnSortBlocks)*256*4) +
		2*Align(8*s.n) + 2*Align(4*s.n) + Align(4*wide*knnLeaf*leaves) + Align(8*wide*leaves) + Align(8*wide*nodes)
	return g, true
}

// knnNearestKernel returns the name of a kernel by its number among its kind.
func knnNearestKernel(kind int) string {
	return fmt.Sprintf("knn_nearest_%d_%d", 2<<(kind/len(knnNearest)), knnNearest[kind%len(knnNearest)])
}

// launchIndexed adds the launches of the tiles since the last launch.
func launchIndexed(p *builder, variant, passes int) {
	kind := variant - knnIsIndex
	wide := 2 << (kind / len(knnNearest))
	p.launch("knn_index_extent", blockATile, 256, 0)
	p.again("knn_index_keys", blockATile, 256, 0)
	for range passes {
		p.again("knn_index_count", blockATile, 512, 0)
		p.again("knn_index_scatter", blockATile, 512, 0)
	}
	p.again(fmt.Sprint("knn_index_leaves_", wide), blockATile, 256, 0)
	p.again(knnNearestKernel(kind), blockATile, knnLanes, 0)
}
