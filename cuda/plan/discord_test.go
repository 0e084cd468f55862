package plan

import (
	"testing"

	"odradek/detectors"
	"odradek/detectors/ops/discord"
)

// discordTask returns a task of the given rows, and the parameters of its detector.
func discordTask(t *testing.T, p discord.Params, rows, dim, fresh int) (*detectors.Task, detectors.Words) {
	t.Helper()
	d, err := discord.New(p)
	if err != nil {
		t.Fatal(err)
	}
	n, ok := d.Size(detectors.View{Dim: dim, Rows: rows, Fresh: fresh})
	if !ok {
		t.Fatalf("%+v: no task of %d rows", p, rows)
	}
	task := &detectors.Task{Op: discord.Op, Dim: uint32(dim), Fresh: uint32(fresh), X: detectors.Span{Len: uint32(rows * dim)}}
	task.Scores.Len, task.Detail.Len = uint32(n.Scores), uint32(n.Detail)
	return task, d.Params()
}

// TestDiscordClass compares classes with the limits, and launches with the device's limits and one
// block for each fresh row.
func TestDiscordClass(t *testing.T) {
	for _, c := range []struct {
		p         discord.Params
		dim       int
		ok        bool
		variant   uint32
		each, all int // fresh rows of a block; of the task
	}{
		{discord.Params{Window: 2048, Length: 64}, 1, true, 0, 1, 1},
		{discord.Params{Window: 2048, Length: 64}, 1, true, 0, 1, 3},
		{discord.Params{Window: 2048, Length: 64}, 1, true, 1, 4, 5},
		{discord.Params{Window: 2048, Length: 64}, 1, true, 1, 16, 100},
		{discord.Params{Window: 4096, Length: 600}, 1, true, 1, 4, 100},
		{discord.Params{Window: 8192, Length: 4096}, 1, true, 0, 1, 100},
		{discord.Params{Window: 8194, Length: 4097}, 1, false, 0, 0, 1},
		{discord.Params{Window: 2048, Length: 64, K: 2}, 1, true, 2, 1, 16},
		{discord.Params{Window: 2048, Length: 64}, 3, true, 2, 1, 16},
		{discord.Params{Window: 24000, Length: 64}, 1, true, 0, 1, 1},
		{discord.Params{Window: 26000, Length: 64}, 1, false, 0, 0, 1},
		{discord.Params{Window: 6, Length: 3}, 1, true, 0, 1, 1},
	} {
		task, params := discordTask(t, c.p, c.p.Window+c.all-1, c.dim, c.all)
		class, cost, ok := discordClass(task, params)
		if ok != c.ok || ok && (class.Variant != c.variant || int(class.B>>16) != c.each) {
			t.Errorf("%+v: %+v, taken %v", c, class, ok)
		}
		if !ok {
			continue
		}
		p := builder{tasks: []Task{{Fresh: uint32(c.all)}, {Fresh: uint32(c.all)}}}
		discordLaunches(class, &p, []chain{{0, 1, cost}, {1, 1, cost}})
		seen := map[[2]uint32]int{}
		for _, tile := range p.tiles {
			for f := range tile.Part >> 16 {
				seen[[2]uint32{tile.First, tile.Part&0xffff + f}]++
			}
		}
		for row, n := range seen {
			if n != 1 || int(row[1]) >= c.all {
				t.Errorf("%+v: row %v has %d blocks", c, row, n)
			}
		}
		if len(seen) != 2*c.all {
			t.Errorf("%+v: %d of %d rows have a block", c, len(seen), 2*c.all)
		}
		for _, l := range p.launches {
			if l.Block < 32 || l.Block > 32*discordWarps || l.Block%32 != 0 || l.Shared > discordShared {
				t.Errorf("%+v: %+v", c, l)
			}
		}
	}
}
