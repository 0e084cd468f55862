package plan

import (
	"fmt"

	"odradek/detectors"
	"odradek/detectors/knn"
)

// Limits of the kernels in topn.cu.
const (
	topnPoints = knn.MaxTopNWindow // of a set
	topnDim    = 64                // numbers a point
	topnOthers = 128               // neighbours
)

// Constants of topn_set.h.
const (
	topnThreads = 128
	topnHeader  = 1096 // bytes of Header
	topnStrong  = 1024 // strongMost
)

// topnMemory is the most scratch memory of a launch of several tasks, in bytes.
const topnMemory = 512 << 20

// topnBlocks is the most blocks of a set for each multiprocessor. They take the items of a launch from one counter, and what
// they write is the same in any order. Two, on an H100, are 9 % faster for some sets, and 40 % slower for others of the same size.
const topnBlocks = 8

// topnWide lists the widths to which kernels pad a point, in numbers.
var topnWide = []int{2, 4, 8, 12, 16, 32, 64}

// The offsets of the parameters of a task, in words.
var (
	topnParamK      = knn.OpTopN.Spec().Word("K")
	topnParamPoints = knn.OpTopN.Spec().Word("POINTS")
	topnParamEmbed  = knn.OpTopN.Spec().Word("EMBED")
	topnParamTop    = knn.OpTopN.Spec().Word("TOP")
	topnParamSelf   = knn.OpTopN.Spec().Word("INCLUDE_SELF")
	topnParamCount  = len(knn.OpTopN.Spec().Words())
)

// topnClass returns a class of topn: Variant is a padded width (topnWide); A is the blocks that a task has work for, rounded
// up where they are many; B is the scratch memory of a task with as many, in units of 256 bytes.
func topnClass(t *detectors.Task, params detectors.Words) (Class, int, bool) {
	if len(params) != topnParamCount || t.Dim < 1 || t.Dim > topnDim || t.Fresh < 1 || t.X.Len%t.Dim != 0 || t.Scores.Len != t.Fresh {
		return Class{}, 0, false
	}
	k, m, row := params.Int(topnParamK), params.Int(topnParamEmbed), int(t.Dim)
	if m < 1 || m > topnDim || k < 1 || params.Int(topnParamTop) < 1 {
		return Class{}, 0, false
	}
	width, all := row*m, int(t.X.Len/t.Dim)-m+1
	n := min(all, max(params.Int(topnParamPoints), int(t.Fresh)))
	others := min(k-int(params[topnParamSelf]), n-1)
	if width > topnDim || int(t.Fresh) > n || n > topnPoints || others > topnOthers {
		return Class{}, 0, false
	}
	wide := 0
	for _, wide = range topnWide {
		if wide >= width {
			break
		}
	}
	blocks := (n + topnThreads - 1) / topnThreads
	if blocks > usualSMs*topnBlocks {
		blocks = knnRounded(blocks * 256)
	}
	leaves := (n + knnLeaf - 1) / knnLeaf
	nodes := (leaves + knnNode - 1) / knnNode
	scratch := Align(topnHeader) + Align(4*1024*row) + Align(min(blocks, knnSortBlocks)*256*4) + 2*Align(8*n) + 2*Align(4*n) +
		Align(4*wide*knnLeaf*leaves) + Align(8*wide*leaves) + Align(8*wide*nodes) + Align(knnLeaf*leaves) + Align(4*n) +
		Align(4*topnStrong) + Align(8*n) + Align(4*n)
	c := Class{Op: knn.OpTopN, Variant: uint32(wide), A: uint32(blocks), B: uint32(knnRounded(scratch))}
	return c, n*(2+width) + min(n, 1<<17)*min(n, 1<<17)/1000*width/100 + 50_000, true
}

// topnLaunches is opPlan.launches: sorting and boxes as for the index of op knn, then searches and counts by turns.
func topnLaunches(c Class, p *builder, chains []chain) {
	wide, blocks, scratch := int(c.Variant), uint32(min(topnBlocks*p.sms, int(c.A))), int(c.B)*256
	p.launchWithin(chains, blocks, blocks<<16, scratch, topnMemory, func(tasks int) {
		p.launch("topn_begin", tasks, 128, 0)
		p.again("topn_survey", blockATile, 256, 0)
		p.again("topn_keys", blockATile, 256, 0)
		for range 3 {
			p.again("topn_tally", blockATile, 512, 0)
			p.again("topn_scatter", blockATile, 512, 0)
		}
		p.again(fmt.Sprint("topn_leaves_", wide), blockATile, 256, 0)
		for _, phase := range []string{"search", "count", "search", "count", "search", "search"} {
			p.again(fmt.Sprintf("topn_%s_%d", phase, wide), blockATile, topnThreads, 0)
			p.again("topn_step", tasks, 1024, 0)
		}
	})
}

var topnPlan = opPlan{
	op: knn.OpTopN,
	kernels: append([]string{"topn_begin", "topn_survey", "topn_keys", "topn_tally", "topn_scatter", "topn_step"},
		topnKernels()...),
	class: topnClass, launches: topnLaunches,
}

// topnKernels returns the names of the kernels that there is one of for each padded width.
func topnKernels() (names []string) {
	for _, name := range []string{"leaves", "count", "search"} {
		for _, wide := range topnWide {
			names = append(names, fmt.Sprintf("topn_%s_%d", name, wide))
		}
	}
	return names
}
