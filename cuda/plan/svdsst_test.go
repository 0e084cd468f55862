package plan

import (
	"slices"
	"testing"

	"odradek/detectors"
	"odradek/detectors/seedtest"
	"odradek/detectors/sst"
)

func TestSVDSSTShapes(t *testing.T) {
	for w := 2; w <= svdsstMaxWindow; w++ {
		s := svdsstShapeOf(w)
		for _, r := range []int{1, min(3, w-1), min(w-1, svdsstMaxRank)} {
			shared, scratch := s.memory(w, r)
			// The number of blocks that it is compiled for, except for the smallest windows of large
			// ranks.
			if room := (227/s.blocks - 1) << 10; shared > room && (s.rows > 2 || shared > 2*room) {
				t.Errorf("w=%d r=%d: %+v takes %d bytes of shared memory, %d of scratch", w, r, s, shared, scratch)
			}
		}
	}
}

// TestSVDSSTDense requires that a block of svdsst_dense has the memory that its matrix takes, wherever
// that lies, and at least half of the possible threads where only one block fits.
func TestSVDSSTDense(t *testing.T) {
	for _, most := range []int{0, 227 << 10, 99 << 10, 64 << 10} {
		for w := 2; w <= svdsstMaxWindow; w++ {
			d := svdsstDenseOf(w, most)
			room := most
			if room == 0 {
				room = svdsstShared
			}
			columns := (w + 31) / 32 * 32
			vectors := 8 * (10*w + d.threads)
			switch {
			case d.threads%columns != 0 || d.threads > 1024 || d.threads < 128:
				t.Errorf("w=%d of %d bytes: %d threads for %d columns", w, most, d.threads, columns)
			case d.shared > room || d.blocks < 1:
				t.Errorf("w=%d of %d bytes: %+v", w, most, d)
			case d.matrix == 0 && d.shared < vectors+8*w*w, d.matrix > 0 && (d.matrix < 8*w*w || d.shared < vectors):
				t.Errorf("w=%d of %d bytes: no room for the matrix in %+v", w, most, d)
			case d.matrix > 0 && d.shared+8*w*w <= room:
				t.Errorf("w=%d of %d bytes: the matrix of %+v has room in shared memory", w, most, d)
			}
		}
	}
}

// TestSVDSSTTiles requires that every row of every task is in one tile.
func TestSVDSSTTiles(t *testing.T) {
	rng := seedtest.New(t)
	d, err := sst.NewSVD(sst.SVDOpParams{Window: 20})
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		b := &detectors.Batch{}
		params := b.Put(d.Params())
		for range 1 + rng.IntN(2500) {
			fresh := 1 + rng.IntN(1+rng.IntN(20))*rng.IntN(1+rng.IntN(20))
			task := detectors.Task{Op: sst.OpSVD, Dim: 1, Fresh: uint32(fresh), Params: params,
				X: detectors.Span{Len: uint32(d.Window() + fresh - 1)}}
			task.Scores = b.GrowOut(fresh)
			b.Tasks = append(b.Tasks, task)
		}
		var pl Planner
		pl.Start(b)
		pl.Assign(b)
		tasks := make([]Task, pl.Tasks)
		pl.schedule(b, tasks)
		left := make([]uint32, len(tasks))
		for _, tile := range pl.build.tiles[SVDSSTHeads:] {
			for i := tile.First; i < tile.First+tile.Count; i++ {
				rows := tasks[i].Fresh
				if tile.Count == 1 {
					if rows = tile.Part >> 16; tile.Part&0xffff != left[i] {
						t.Fatalf("task %d: a tile begins at row %d, %d are done", i, tile.Part&0xffff, left[i])
					}
				}
				left[i] += rows
			}
		}
		for i, n := range left {
			if n != tasks[i].Fresh {
				t.Fatalf("%d of %d rows of task %d are in tiles", n, tasks[i].Fresh, i)
			}
		}
	}
}

// TestSVDSSTRounds requires that the first round has no launch in float64, that the second has one of
// the tasks that requested it, and that nothing else has a second round.
func TestSVDSSTRounds(t *testing.T) {
	rng := seedtest.New(t)
	for _, w := range []int{20, 200} { // matrices in shared memory, and in scratch
		d, err := sst.NewSVD(sst.SVDOpParams{Window: w})
		if err != nil {
			t.Fatal(err)
		}
		b := &detectors.Batch{}
		params := b.Put(d.Params())
		for range 300 {
			dim, fresh := 1+rng.IntN(3), 1+rng.IntN(5)
			task := detectors.Task{Op: sst.OpSVD, Dim: uint32(dim), Fresh: uint32(fresh), Params: params}
			task.X, _ = b.GrowF32(dim * (d.Window() + fresh - 1))
			task.Scores = b.GrowOut(fresh)
			b.Tasks = append(b.Tasks, task)
		}
		var pl Planner
		pl.Start(b)
		round := func() (kernels map[string]int, open uint32) {
			pl.Assign(b)
			pl.schedule(b, make([]Task, pl.Tasks))
			kernels = map[string]int{}
			for i, l := range pl.build.launches {
				kernels[Kernels()[l.Kernel]]++
				heads := pl.build.tiles[l.FirstTile]
				if again := heads.Part; again == 1 {
					open++
				}
				zero := slices.ContainsFunc(pl.build.zeroes, func(z Zeroed) bool { return z.Scratch <= heads.Count && heads.Count < z.Scratch+z.Count })
				if heads.First != l.Tiles-SVDSSTHeads || !zero {
					t.Errorf("w=%d: heads of launch %d are %+v, zeroed is %+v", w, i, heads, pl.build.zeroes)
				}
			}
			return kernels, open
		}
		first := "svdsst" + map[int]string{20: "2", 200: "7"}[w]
		if kernels, again := round(); len(kernels) != 1 || kernels[first] == 0 || again != 0 {
			t.Errorf("w=%d: the first round has the launches %v, %d of them again", w, kernels, again)
		}
		status := make([]uint32, len(b.Tasks))
		asked := map[int32]bool{}
		for range 40 {
			k := rng.IntN(len(status))
			status[k] = StatusMore
			asked[pl.order[k]] = true
		}
		pl.Progress.ReadStatus(b, &pl, status)
		if pl.Progress.Left != len(asked) {
			t.Fatalf("w=%d: %d tasks are left, %d asked for more", w, pl.Progress.Left, len(asked))
		}
		kernels, again := round()
		if len(kernels) != 2 || kernels[first] == 0 || kernels["svdsst_dense"] != kernels[first] || int(again) != len(pl.build.launches) {
			t.Errorf("w=%d: the second round has the launches %v, %d of them again", w, kernels, again)
		}
		if len(pl.order) != len(asked) || pl.later != len(asked) {
			t.Errorf("w=%d: the second round has %d tasks, %d of them in a later round; %d asked for it", w, len(pl.order), pl.later, len(asked))
		}
		for _, i := range pl.order {
			if !asked[i] {
				t.Errorf("w=%d: task %d did not ask for a second round", w, i)
			}
		}
		// Requesting more in the second round is one too many: it goes to the CPU.
		status = slices.Repeat([]uint32{StatusMore}, len(pl.order))
		pl.Progress.ReadStatus(b, &pl, status)
		pl.Assign(b)
		if pl.Progress.Declined != len(asked) || pl.Tasks != 0 {
			t.Errorf("w=%d: after two rounds %d tasks are declined, %d on the device", w, pl.Progress.Declined, pl.Tasks)
		}
	}
}
