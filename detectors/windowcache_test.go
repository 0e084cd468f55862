package detectors_test

import (
	"testing"

	"odradek/detectors"
	"odradek/detectors/sst"
)

// room is CacheMemory for a number of windows.
type room struct{ left int }

func (r *room) Extend(bytes int) (uint64, int) {
	n := r.left
	r.left = 0
	return 4096, n
}
func (r *room) Release()   {}
func (r *room) Gone() bool { return false }

// TestWindowCacheOfTwoBatches has one WindowCache serve the batches of its goroutine, several of which
// are filled by turns: the updates of one batch are no run of the other, whichever use of its memory
// that is.
func TestWindowCacheOfTwoBatches(t *testing.T) {
	memory := &room{left: 4}
	k := detectors.NewWindowCache(func() detectors.CacheMemory { return memory }, func(detectors.Detector, int, int) bool { return true })
	defer k.Close()
	d := detectors.Must(sst.NewIKA(sst.IKAOpParams{Window: 4}))
	s := k.Pool(d, 1, 1)
	var p detectors.SlotRef
	var batches [2]detectors.Batch
	count := int64(d.Window())
	for i := range 6 {
		b := &batches[i%2]
		b.Tasks = append(b.Tasks, detectors.Task{})
		n, ok := s.Missing(b, &p, count)
		if want := 1; !ok || i > 0 && n != want || i == 0 && n != d.Window() {
			t.Fatalf("task %d has to bring %d rows, %v", i, n, ok)
		}
		span, _ := b.GrowF64(n)
		s.Update(b, &p, count, span, len(b.Tasks)-1)
		if r := b.Updates[len(b.Updates)-1]; r.Later {
			t.Errorf("task %d: its run comes after one of another batch", i)
		}
		count++
		b.Updated()
		b.Reset()
		b.Tasks = b.Tasks[:0]
	}
}

// TestUpdatesOfALaterUse requires that a batch whose updates were not applied invalidates the window
// cache at Reset, also where an earlier use of its memory was executed without updates.
func TestUpdatesOfALaterUse(t *testing.T) {
	memory := &room{left: 4}
	cache := detectors.NewWindowCache(func() detectors.CacheMemory { return memory }, func(detectors.Detector, int, int) bool { return true })
	defer cache.Close()
	d := detectors.Must(sst.NewIKA(sst.IKAOpParams{Window: 4}))
	pool := cache.Pool(d, 1, 1)
	var ref detectors.SlotRef
	var b detectors.Batch
	b.Updated() // of a use without updates
	b.Reset()
	count := int64(d.Window())
	b.Tasks = append(b.Tasks, detectors.Task{})
	n, ok := pool.Missing(&b, &ref, count)
	if !ok || n != d.Window() {
		t.Fatalf("%d rows are missing of a new window, %v", n, ok)
	}
	span, _ := b.GrowF64(n)
	pool.Update(&b, &ref, count, span, 0)
	b.Reset() // it was never executed
	if n, ok := pool.Missing(&b, &ref, count+1); !ok || n != d.Window() {
		t.Errorf("%d rows are missing, %v; the device has none of the %d", n, ok, d.Window())
	}
}
