//go:build linux

package child

import (
	"slices"
	"testing"

	"odradek/detectors"
	"odradek/detectors/seedtest"
	"odradek/detectors/sst"
)

// TestWindowPool compares the windows that a pool considers cached with those that it was given, under
// random operations.
func TestWindowPool(t *testing.T) {
	d, err := sst.NewIKA(sst.IKAOpParams{Window: 8})
	if err != nil {
		t.Fatal(err)
	}
	c := &Process{dead: make(chan struct{})}
	k := newWindowMemory(nil, c, 4096, 30*512)
	s := k.Share()
	cache := detectors.NewWindowCache(func() detectors.CacheMemory { return s }, func(detectors.Detector, int, int) bool { return true })
	pool := cache.Pool(d, 1, 1)
	rows := d.Window()
	rng := seedtest.New(t)
	type window struct {
		slot  detectors.SlotRef
		count int
	}
	windows := make([]window, 60)
	for i := range windows {
		windows[i].count = rows + i
	}
	memory := map[uint64]map[int]int{} // by address and row of the ring: series << 20 | row
	b := &detectors.Batch{}
	for range 5000 {
		i := min(rng.IntN(60), rng.IntN(60))
		w := &windows[i]
		w.count += rng.IntN(4)
		switch rng.IntN(200) {
		case 0:
			cache.Invalidate()
		case 1:
			w.count -= rng.IntN(3)
			cache.Invalidate()
		}
		n, ok := pool.Missing(b, &w.slot, int64(w.count))
		if ok {
			span, _ := b.GrowF64(n)
			b.Tasks = append(b.Tasks, detectors.Task{X: pool.Update(b, &w.slot, int64(w.count), span, len(b.Tasks)), Dim: 1})
			r := b.Updates[len(b.Updates)-1]
			if memory[r.At] == nil {
				memory[r.At] = map[int]int{}
			}
			for row := w.count - n; row < w.count; row++ {
				memory[r.At][row%rows] = i<<20 | row
			}
			for row := w.count - rows; row < w.count; row++ {
				if got := memory[r.At][row%rows]; got != i<<20|row {
					t.Fatalf("series %d at %d: row %d is row %d of series %d", i, w.count, row, got&(1<<20-1), got>>20)
				}
			}
			if int(r.First) != (w.count-rows)%rows {
				t.Fatalf("the oldest row is %d of the ring, want %d", r.First, (w.count-rows)%rows)
			}
		}
		if rng.IntN(20) == 0 {
			b.Updated()
			b.Reset()
		}
	}
	if len(memory) > 30 || pool.Hits < 500 {
		t.Errorf("%d windows are kept, %d hits, %d misses", len(memory), pool.Hits, pool.Misses)
	}
	if cache.Close(); len(k.free) != 1 || !slices.Contains(k.free, 4096) {
		t.Errorf("free after Close: %v", k.free)
	}
}
