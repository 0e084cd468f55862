package plan

import (
	"fmt"
	"slices"
	"testing"

	"odradek/detectors"
	"odradek/detectors/knn"
	"odradek/detectors/scan"
	"odradek/detectors/seedtest"
)

// laid returns the tiles of tasks of a detector's class on a device, and the launch parameter.
func laid(t *testing.T, d detectors.Detector, dim, fresh, tasks int, on Device) (tiles []Tile, k Knob, choice int, scratch uint64) {
	t.Helper()
	c, ok := ClassOf(d, dim, fresh)
	if !ok {
		t.Fatalf("no kernel takes %+v", d)
	}
	var b builder
	b.Target = on
	b.begin(nil, nil, 0)
	chains := make([]chain, tasks)
	for i := range chains {
		chains[i] = chain{first: uint32(i), count: 1}
	}
	b.choose(byOp[c.Op], c, chains, 1)
	byOp[c.Op].launches(c, &b, chains)
	k, choice = b.Chosen()
	return b.tiles, k, choice, b.scratchBytes
}

// must returns a detector whose parameters are valid.
func must(d detectors.Detector, err error) detectors.Detector {
	if err != nil {
		panic(err)
	}
	return d
}

// TestBlocks holds the numbers of blocks of large sets and grids to the choices and to what a task has work for. On a device with
// 132 multiprocessors, or one that does not tell, the default gives the numbers that were once constants.
func TestBlocks(t *testing.T) {
	rng := seedtest.New(t)
	for range 200 {
		n, tasks := 1<<13+rng.IntN(1<<(13+rng.IntN(8))), 1+rng.IntN(3)
		sms := []int{0, 132, 1 + rng.IntN(1<<rng.IntN(9))}[rng.IntN(3)]
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
			name    string
			d       detectors.Detector
			choices []int
			usual   int                // blocks of a task by default, with 132 multiprocessors
			blocks  func(full int) int // of a task
			number  func([]Tile) int   // the same, from the tiles
		}{
			{"topn", must(knn.NewTopN(knn.TopNParams{K: 5, Window: n, Tumbling: true})), topnBlocks, min(132*8, points),
				func(full int) int { return min(full, work(132*8)) }, number},
			{"knn", must(knn.New(knn.Params{K: 5, Window: n, Tumbling: true})), knnIndexBlocks, min(132*5, points),
				func(full int) int { return min(max(full, 4), work(132*5)) }, number},
			{"scan", must(scan.New(grid)), scanSearchBlocks, min((strips+15)/16, max(4*132*8/tasks, 16)),
				func(full int) int { return min((strips+15)/16, max(full/tasks, 16)) }, func(tiles []Tile) int { return int(tiles[0].Part >> 16) }},
			{"scan, null maps", must(scan.New(nulls)), scanNullBlocks, min(nulls.Replicates, (132*2+tasks-1)/tasks, 1<<29/table),
				func(full int) int { return min(nulls.Replicates, (full+tasks-1)/tasks, 1<<29/table) },
				func(tiles []Tile) int { return int(tiles[1].Part >> 16) }},
		} {
			name := fmt.Sprintf("%s: %d points or %d x %d cells, %d tasks, %d multiprocessors", c.name, n, rows, columns, tasks, sms)
			fresh, all := n, sms
			if c.d.Op() == scan.Op {
				fresh = 1
			}
			if sms == 0 {
				all = 132
			}
			tiles, k, _, scratch := laid(t, c.d, 2, fresh, tasks, Device{SMs: sms})
			if got := c.number(tiles); got != c.blocks(c.choices[0]*all) || all == 132 && got != c.usual {
				t.Errorf("%s: %d blocks by default, want %d, %d with 132 multiprocessors", name, got, c.blocks(c.choices[0]*all), c.usual)
			}
			differ := slices.ContainsFunc(c.choices, func(per int) bool { return c.blocks(per*all) != c.blocks(c.choices[0]*all) })
			if differ != (k.Class != "") || differ && (!slices.Equal(k.Choices, c.choices) || k.Cost != 1) {
				t.Errorf("%s: there is %+v, want %d: %v", name, k, c.choices, differ)
			}
			for _, per := range c.choices {
				tiles, again, choice, more := laid(t, c.d, 2, fresh, tasks, Device{sms, func(Knob) int { return per }})
				if !differ {
					per = c.choices[0]
				}
				if got := c.number(tiles); got != c.blocks(per*all) || choice != per || again.Class != k.Class {
					t.Errorf("%s: %d blocks with %d a multiprocessor (%+v), want %d", name, got, choice, again, c.blocks(per*all))
				}
				further := c.blocks(per*all) - c.blocks(c.choices[0]*all)
				grown := int(more) - int(scratch)
				if c.name == "scan, null maps" && grown != further*table*tasks || c.d.Op() == scan.Op && further > 0 && grown < 0 {
					t.Errorf("%s: %d bytes of scratch memory with %d a multiprocessor, %d by default", name, more, per, scratch)
				}
			}
		}
	}
}
