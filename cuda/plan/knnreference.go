package plan

import "odradek/detectors"

// Constants of knn_reference.h.
const (
	referenceQueries = 16       // of a warp
	referenceWarps   = 4        // of a block, at most
	referenceStep    = 64       // points that a warp compares its queries with at a time
	referencePad     = 4        // numbers between the rows of a tile
	referenceK       = 256      // neighbours, at most
	referenceTile    = 2 << 10  // numbers of a tile of points, at most, but for one step
	referencePoints  = 512      // points of a tile, at most
	referenceShared  = 92 << 10 // bytes of a block, at most
	referenceWords   = 1 << 24  // of a model, at most: a quarter of a device's memory for models, by default
	referenceHead    = 6        // words of a model before the origins of its values
	referenceSpread  = 132      // blocks that a launch should have before they have more warps
)

// referenceShape has the sizes of blocks that judge points by a reference set: of points of width numbers, points of
// them in a tile, room entries in the list of a query.
type referenceShape struct{ width, points, room int }

func referenceShapeOf(width, k int) referenceShape {
	points := min(referenceTile/width/referenceStep*referenceStep, referencePoints)
	return referenceShape{width, max(points, referenceStep), max(64, (k+min(k, 128)+63)/32*32)}
}

// bytes returns the shared memory of a block of warps.
func (s referenceShape) bytes(warps int) int {
	queries := warps * referenceQueries
	return 4*s.width*(queries+s.points+referencePad) + 8*queries*s.room + 16*warps*s.room
}

// warps returns the most warps of a block.
func (s referenceShape) warps() int {
	warps := referenceWarps
	for warps > 1 && s.bytes(warps) > referenceShared {
		warps /= 2
	}
	return warps
}

// knnReferenceClass is knnClass for a task with a model. Variant is knnIsReference, A the points of a tile and, << 16,
// the room of a list, B the numbers of a point. A task whose rows do not fit its model is the kernel's too, since the
// model's content shows it.
func knnReferenceClass(t *detectors.Task, params detectors.Words) (Class, int, bool) {
	if len(params) != knnParamCount || t.Dim < 1 || t.Dim > knnDim || t.Fresh < 1 || t.X.Len%t.Dim != 0 || t.Scores.Len != t.Fresh ||
		t.Model.Len <= referenceHead || t.Model.Len > referenceWords {
		return Class{}, 0, false
	}
	k, m := params.Int(knnParamK), params.Int(knnParamEmbed)
	if m < 1 || m > knnDim || k < 1 || k > referenceK || params.Bool(knnParamZNorm) { // knnRowParams clears ZNORM
		return Class{}, 0, false
	}
	width, rows := int(t.Dim)*m, int(t.X.Len/t.Dim)
	if width > knnDim || rows-m+1 < int(t.Fresh) || params.Bool(knnParamNeighbours) && int(t.Detail.Len) != int(t.Fresh)*k {
		return Class{}, 0, false
	}
	s := referenceShapeOf(width, k)
	n := (int(t.Model.Len) - referenceHead) / width // of a model that fits the rows, at most
	cost := int(float64(t.Fresh) * (3 + float64(n)*float64(width+1)/8000))
	return Class{Op: t.Op, Variant: knnIsReference, A: uint32(s.points | s.room<<16), B: uint32(width),
		Shared: uint32(s.bytes(s.warps()))}, cost + 1, true
}

// referenceOf returns the sizes of a class's blocks.
func referenceOf(c Class) referenceShape {
	return referenceShape{int(c.B), int(c.A & 0xffff), int(c.A >> 16)}
}

// launchReference adds a block for as many fresh points as it has queries, of one or several tasks of one model. A block's
// tile has its runs of fresh points in First and Count, and A of the class in Part. A run, after the blocks' tiles, has a
// task in First, in Part the first of Count fresh points, and in Scratch the place of that in the block.
func launchReference(c Class, p *builder, chains []chain) {
	tasks, all := p.byModel(chains)
	s := referenceOf(c)
	warps := 1
	for most := s.warps(); warps < most && all > referenceSpread*referenceQueries*warps; warps *= 2 {
	}
	room := uint32(warps * referenceQueries)
	var blocks, runs []Tile
	used := room
	for a, i := range tasks {
		t := &p.tasks[i]
		if a > 0 && t.Model.Off != p.tasks[tasks[a-1]].Model.Off {
			used = room
		}
		for at := uint32(0); at < t.Fresh; {
			if used == room {
				blocks, used = append(blocks, Tile{First: uint32(len(runs)), Part: c.A}), 0
			}
			n := min(room-used, t.Fresh-at)
			runs = append(runs, Tile{First: i, Count: n, Part: at, Scratch: used})
			blocks[len(blocks)-1].Count++
			used, at = used+n, at+n
		}
	}
	for _, b := range blocks {
		b.First += uint32(len(blocks))
		p.tiles = append(p.tiles, b)
	}
	p.tiles = append(p.tiles, runs...)
	p.launch("knn_reference", len(blocks), 32*warps, s.bytes(warps))
}

// byModel returns the tasks of chains, each model's one after the other, and the number of their fresh rows.
func (b *builder) byModel(chains []chain) (tasks []uint32, fresh int) {
	place, counts, number := map[uint32]int{}, []int(nil), []int(nil)
	last := uint32(0)
	for _, ch := range chains {
		for i := ch.first; i < ch.first+ch.count; i++ {
			off := b.tasks[i].Model.Off
			var k int
			if len(number) > 0 && off == last {
				k = number[len(number)-1]
			} else {
				var known bool
				if k, known = place[off]; !known {
					k = len(counts)
					place[off], counts = k, append(counts, 0)
				}
			}
			last = off
			counts[k]++
			number = append(number, k)
			tasks, fresh = append(tasks, i), fresh+int(b.tasks[i].Fresh)
		}
	}
	if len(counts) < 2 {
		return tasks, fresh
	}
	at := 0
	for k, n := range counts {
		counts[k], at = at, at+n
	}
	sorted := make([]uint32, len(tasks))
	for a, i := range tasks {
		k := number[a]
		sorted[counts[k]] = i
		counts[k]++
	}
	return sorted, fresh
}
