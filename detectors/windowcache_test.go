package detectors

import "testing"

// room is CacheMemory for a number of windows.
type room struct{ left int }

func (r *room) Extend(bytes int) (uint64, int) {
	n := r.left
	r.left = 0
	return 4096, n
}
func (r *room) Release()   {}
func (r *room) Gone() bool { return false }

// One WindowCache serves the batches of its goroutine, several of which may be filled by
// turns: what one of them has brought is no run of the other, whichever use of its
// memory that is.
func TestKeepOfTwoBatches(t *testing.T) {
	memory := &room{left: 4}
	k := NewWindowCache(func() CacheMemory { return memory }, func(Detector, int, int) bool { return true })
	defer k.Close()
	d := must(NewIKASST(IKASSTParams{Window: 4}))
	s := k.Pool(d, 1, 1)
	var p SlotRef
	var batches [2]Batch
	count := int64(s.rows)
	for i := range 6 {
		b := &batches[i%2]
		b.Tasks = append(b.Tasks, Task{})
		n, ok := s.Missing(b, &p, count)
		if want := 1; !ok || i > 0 && n != want || i == 0 && n != s.rows {
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
