package plan

import (
	"testing"

	"odradek/detectors"
)

func TestSVDSSTShapes(t *testing.T) {
	for w := 2; w <= svdsstMaxWindow; w++ {
		s := svdsstShapeOf(w)
		for _, r := range []int{1, min(3, w-1), min(w-1, svdsstMaxRank)} {
			shared, scratch := s.memory(w, r)
			// As many blocks as it is compiled for, but for the smallest windows of large ranks.
			if room := (227/s.blocks - 1) << 10; shared > room && (s.rows > 2 || shared > 2*room) {
				t.Errorf("w=%d r=%d: %+v takes %d bytes of shared memory, %d of scratch", w, r, s, shared, scratch)
			}
		}
	}
}

// TestSVDSSTDense: a block of svdsst_dense has what its matrix takes, wherever that
// lies, and at least half of the threads that it may have where only one has room.
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

// TestSVDSSTTiles: every row of every task is in one tile.
func TestSVDSSTTiles(t *testing.T) {
	rng := seeded(t)
	d, err := detectors.NewSVDSST(detectors.SVDSSTParams{Window: 20})
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		b := &detectors.Batch{}
		params := b.Put(d.Params())
		for range 1 + rng.IntN(2500) {
			fresh := 1 + rng.IntN(1+rng.IntN(20))*rng.IntN(1+rng.IntN(20))
			task := detectors.Task{Op: detectors.SVDSST, Dim: 1, Fresh: uint32(fresh), Params: params,
				X: detectors.Span{Len: uint32(d.Window() + fresh - 1)}}
			task.Scores = b.GrowOut(fresh)
			b.Tasks = append(b.Tasks, task)
		}
		var pl Planner
		pl.Start(b)
		pl.Assign(b)
		tasks := make([]Task, pl.Device())
		pl.lay(b, tasks)
		left := make([]uint32, len(tasks))
		for _, tile := range pl.tiles {
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
