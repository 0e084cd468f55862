package plan

import (
	"testing"

	"odradek/detectors"
	"odradek/detectors/discord"
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
	task.Scores.Len, task.Detail.Len, task.Next.Len = uint32(n.Scores), uint32(n.Detail), uint32(n.Carry)
	return task, d.Params()
}

// TestDiscordClass compares classes with the limits, and launches with the device's limits and one
// block for each score.
func TestDiscordClass(t *testing.T) {
	for _, c := range []struct {
		p         discord.Params
		dim       int
		ok        bool
		variant   uint32
		each, all int // scores of a block; fresh rows of the task
	}{
		{discord.Params{Window: 2048, Length: 64}, 1, true, 0, 1, 1},
		{discord.Params{Window: 2048, Length: 64}, 1, true, 1, 2, 2},
		{discord.Params{Window: 2048, Length: 64}, 1, true, 2, 4, 3},
		{discord.Params{Window: 2048, Length: 64}, 1, true, 1, 6, 5},
		{discord.Params{Window: 2048, Length: 64}, 1, true, 2, 16, 16},
		{discord.Params{Window: 2048, Length: 64}, 1, true, 2, 16, 100},
		{discord.Params{Window: 2048, Length: 64, Every: 2}, 1, true, 2, 12, 80000},
		{discord.Params{Window: 2048, Length: 64}, 1, false, 0, 0, 80000},
		{discord.Params{Window: 4096, Length: 600}, 1, true, 2, 4, 100},
		{discord.Params{Window: 8192, Length: 4096}, 1, true, 0, 1, 100},
		{discord.Params{Window: 8194, Length: 4097}, 1, false, 0, 0, 1},
		{discord.Params{Window: 2048, Length: 64, K: 2}, 1, true, 3, 1, 16},
		{discord.Params{Window: 2048, Length: 64, K: 2, Every: 7}, 1, true, 3, 1, 50},
		{discord.Params{Window: 2048, Length: 64}, 3, true, 3, 1, 16},
		{discord.Params{Window: 24000, Length: 64}, 1, true, 0, 1, 1},
		{discord.Params{Window: 26000, Length: 64}, 1, false, 0, 0, 1},
		{discord.Params{Window: 6, Length: 3}, 1, true, 0, 1, 1},
		{discord.Params{Window: 2048, Length: 64, ExactAbove: 0.9}, 1, false, 0, 0, 1}, // each score needs the carry of the one before
		// One score or few of a large window, also where EVERY exceeds the fresh rows.
		{discord.Params{Window: 20000, Length: 50, MaxLength: 200, Lengths: 3, Every: 32}, 1, true, 0, 1, 32},
		{discord.Params{Window: 20000, Length: 50, MaxLength: 200, Lengths: 3, Every: 32}, 1, true, 1, 2, 64},
		{discord.Params{Window: 20000, Length: 50, MaxLength: 200, Lengths: 3, Every: 4096}, 1, true, 0, 1, 5},
		// Of 16 scores one in a block, which has no room for two; four, and one, since more would compare too much in vain.
		{discord.Params{Window: 20000, Length: 64, Every: 1024}, 1, true, 0, 1, 16 << 10},
		{discord.Params{Window: 12000, Length: 64, Every: 1024}, 1, true, 2, 4, 16 << 10},
		{discord.Params{Window: 2048, Length: 64, Every: 500}, 1, true, 1, 2, 16 * 500},
		{discord.Params{Window: 2048, Length: 64, Every: 4096}, 1, true, 0, 1, 16 << 12},
	} {
		task, params := discordTask(t, c.p, c.p.Window+c.all-1, c.dim, c.all)
		class, cost, ok := discordClass(task, params)
		if ok != c.ok || ok && (class.Variant != c.variant || int(class.B>>16) != c.each) {
			t.Errorf("%+v: %+v, taken %v", c, class, ok)
		}
		if !ok {
			continue
		}
		every := max(1, c.p.Every)
		scores := (c.all-1)/every + 1
		// The rows with the space around them, queries, their shifts and norms, and the correlations of each warp or all of them.
		rows, longest, lengths := min(c.p.Window+c.all-1, c.p.Window+(c.each-1)*every), max(c.p.Length, c.p.MaxLength), max(1, c.p.Lengths)
		need := c.dim*(rows+14) + c.each*longest + (2+int(class.B&0xffff)/32)*c.each*lengths
		if c.variant == 3 {
			need = c.dim*(rows+14) + longest + 2 + rows
		}
		if int(class.Shared) != 8*need {
			t.Errorf("%+v: %d bytes of shared memory, of which %d are used", c, class.Shared, 8*need)
		}
		p := builder{tasks: make([]Task, 2)}
		for i := range p.tasks {
			p.tasks[i].Fresh, p.tasks[i].Scores.Len = uint32(c.all), uint32(scores)
		}
		discordLaunches(class, &p, []chain{{0, 1, cost}, {1, 1, cost}})
		seen := map[[2]uint32]int{}
		for _, tile := range p.tiles {
			for f := range tile.Part >> 16 {
				seen[[2]uint32{tile.First, tile.Part&0xffff + f}]++
			}
		}
		for score, n := range seen {
			if n != 1 || int(score[1]) >= scores {
				t.Errorf("%+v: score %v has %d blocks", c, score, n)
			}
		}
		if len(seen) != 2*scores {
			t.Errorf("%+v: %d of %d scores have a block", c, len(seen), 2*scores)
		}
		for _, l := range p.launches {
			if l.Block < 32 || l.Block > 32*discordWarps || l.Block%32 != 0 || l.Shared > discordShared {
				t.Errorf("%+v: %+v", c, l)
			}
		}
	}
}

// TestDiscordOutputs holds that the kernels take no task whose outputs do not fit its EVERY.
func TestDiscordOutputs(t *testing.T) {
	task, params := discordTask(t, discord.Params{Window: 200, Length: 10, MaxLength: 30, Every: 3}, 216, 1, 17)
	if _, _, ok := discordClass(task, params); !ok || task.Scores.Len != 6 {
		t.Fatalf("a task with %d scores: taken %v", task.Scores.Len, ok)
	}
	for _, change := range []func(t *detectors.Task){
		func(t *detectors.Task) { t.Scores.Len = 17 },
		func(t *detectors.Task) { t.Scores.Len, t.Detail.Len = 17, 17*t.Detail.Len/6 },
		func(t *detectors.Task) { t.Detail.Len = 0 },
		func(t *detectors.Task) { t.Detail.Len = 17 * t.Detail.Len / 6 },
	} {
		other := *task
		change(&other)
		if class, _, ok := discordClass(&other, params); ok {
			t.Errorf("%d scores and %d numbers of detail of %d fresh rows: taken as %+v", other.Scores.Len, other.Detail.Len, other.Fresh, class)
		}
	}
}
