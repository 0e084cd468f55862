package ops

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"odradek/detectors"
)

// nowhere is memory for windows that nothing lies in.
type nowhere struct{ next uint64 }

func (m *nowhere) Extend(bytes int) (first uint64, n int) {
	m.next += 1 << 20
	return m.next, 1 << 20 / bytes
}
func (m *nowhere) Release()   {}
func (m *nowhere) Gone() bool { return false }

// BenchmarkWindowCachePack is the owner's part of ops-window-cache on one core: windows and
// carries in cache, and of as many keys as do not fit there.
func BenchmarkWindowCachePack(b *testing.B) {
	shape := shapeNamed(latencyShape)
	det, err := shape.det()
	if err != nil {
		b.Fatal(err)
	}
	for _, keys := range []int{64, 200_000} {
		for _, cached := range []bool{false, true} {
			b.Run(fmt.Sprintf("keys=%d/cached=%v", keys, cached), func(b *testing.B) {
				o, err := newCacheOwner(det, keys)
				if err != nil {
					b.Fatal(err)
				}
				o.tasks = 4096
				o.begin()
				o.batch = &detectors.Batch{}
				if cached {
					memory := &nowhere{}
					takes := func(detectors.Detector, int, int) bool { return true }
					cache := detectors.NewWindowCache(func() detectors.CacheMemory { return memory }, takes)
					o.pool = cache.Pool(det, 1, 1)
				}
				for o.count < int64(o.rows)+1 {
					if err := o.round(b.Context(), known{}); err != nil {
						b.Fatal(err)
					}
				}
				o.pushed, o.packed, o.taken = 0, 0, 0
				tasks := 0
				for b.Loop() {
					n := min(o.tasks, keys-o.next)
					if err := o.round(b.Context(), known{}); err != nil {
						b.Fatal(err)
					}
					tasks += n
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(tasks), "ns/task")
				b.ReportMetric(float64(o.pushed.Nanoseconds())/float64(tasks), "ns/push")
				b.ReportMetric(float64(o.packed.Nanoseconds())/float64(tasks), "ns/pack")
				b.ReportMetric(float64(o.taken.Nanoseconds())/float64(tasks), "ns/take")
			})
		}
	}
}

// known is an executor that has what batches bring and does nothing.
type known struct{ detectors.Executor }

func (known) Execute(_ context.Context, b *detectors.Batch) error {
	b.Updated()
	return nil
}

// TestChainsShareRows: the tasks of ops' chains read the same rows whether they share
// them or not, and sharing takes a tenth of the room.
func TestChainsShareRows(t *testing.T) {
	const tasks = 16 * 5
	var batches [2]detectors.Batch
	for i, apart := range []bool{false, true} {
		s := shapeNamed("ikasst w=100, 1 fresh, 16 tasks a key")
		s.apart = apart
		in, err := s.input()
		if err != nil {
			t.Fatal(err)
		}
		in.pack(&batches[i], tasks)
	}
	for i := range tasks {
		shared, own := batches[0].Rows(i), batches[1].Rows(i)
		if !slices.Equal(shared.X, own.X) || batches[0].Tasks[i].After != batches[1].Tasks[i].After {
			t.Fatalf("task %d is another", i)
		}
	}
	if shared, own := len(batches[0].In), len(batches[1].In); 10*shared > own {
		t.Errorf("%d words, and %d where each task has rows of its own", shared, own)
	}
}
