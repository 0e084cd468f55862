package plan

import (
	"cmp"
	"testing"

	"odradek/detectors"
	"odradek/detectors/knn"
	"odradek/detectors/scan"
	"odradek/detectors/seedtest"
)

// tilesOf returns the tiles of tasks of a detector's class on a device of some multiprocessors, and the bytes of scratch memory.
func tilesOf(t *testing.T, d detectors.Detector, dim, fresh, tasks, sms int) (tiles []Tile, scratch uint64) {
	t.Helper()
	c, ok := ClassOf(d, dim, fresh)
	if !ok {
		t.Fatalf("no kernel takes %+v", d)
	}
	b := builder{sms: cmp.Or(sms, usualSMs)}
	chains := make([]chain, tasks)
	for i := range chains {
		chains[i] = chain{first: uint32(i), count: 1}
	}
	byOp[c.Op].launches(c, &b, chains)
	return b.tiles, b.scratchBytes
}

// must returns a detector whose parameters are valid.
func must(d detectors.Detector, err error) detectors.Detector {
	if err != nil {
		panic(err)
	}
	return d
}

// TestBlocks compares the numbers of blocks of large sets and grids with the blocks for each multiprocessor and with what a task
// has work for. A device that does not tell its multiprocessors has 132.
func TestBlocks(t *testing.T) {
	rng := seedtest.New(t)
	for range 200 {
		n, tasks := 1<<13+rng.IntN(1<<(13+rng.IntN(8))), 1+rng.IntN(3)
		sms := []int{0, 132, 1 + rng.IntN(1<<rng.IntN(9))}[rng.IntN(3)]
		all := sms
		if sms == 0 {
			all = 132
		}
		rows, columns := 2+rng.IntN(200), 2+rng.IntN(200)
		grid := scan.OpParams{Cells: rows * columns, Columns: columns, Top: 1}
		nulls := grid
		nulls.Replicates = 1 + rng.IntN(999)
		points, strips, table := (n+127)/128, rows*(rows+1)/2, 256+2*Align(4*(rows+1)*(columns+1))
		work := func(usual int) int { // many blocks are rounded up
			if points <= usual {
				return points
			}
			return knnRounded(256 * points)
		}
		number := func(tiles []Tile) int { return len(tiles) / tasks }
		for _, c := range []struct {
			name   string
			d      detectors.Detector
			fresh  int
			blocks int              // of a task
			number func([]Tile) int // the same, from the tiles
		}{
			{"topn", must(knn.NewTopN(knn.TopNParams{K: 5, Window: n, Tumbling: true})), n, min(8*all, work(132*8)), number},
			{"knn", must(knn.New(knn.Params{K: 5, Window: n, Tumbling: true})), n, min(max(5*all, 4), work(132*5)), number},
			{"scan", must(scan.New(grid)), 1, min((strips+15)/16, max(32*all/tasks, 16)),
				func(tiles []Tile) int { return int(tiles[0].Part >> 16) }},
			{"scan, null maps", must(scan.New(nulls)), 1, min(nulls.Replicates, (2*all+tasks-1)/tasks, 1<<29/table),
				func(tiles []Tile) int { return int(tiles[1].Part >> 16) }},
		} {
			tiles, scratch := tilesOf(t, c.d, 2, c.fresh, tasks, sms)
			if got := c.number(tiles); got != c.blocks {
				t.Errorf(
					"%s, %d points or %d x %d cells, %d tasks, %d multiprocessors: %d blocks, want %d",
					c.name,
					n,
					rows,
					columns,
					tasks,
					sms,
					got,
					c.blocks,
				)
			}
			if c.name == "scan, null maps" && int(scratch) < c.blocks*table {
				t.Errorf(
					"%s, %d x %d cells, %d maps: %d bytes of scratch memory, want tables of %d bytes for %d blocks",
					c.name,
					rows,
					columns,
					nulls.Replicates,
					scratch,
					table,
					c.blocks,
				)
			}
		}
	}
}
