//go:build linux

package cuda

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"odradek/detectors"
	"odradek/detectors/executortest"
	"odradek/detectors/knn"
	"odradek/detectors/seedtest"
)

// normalisedBatch adds chains of tasks that share rows, whole windows, and tasks without normalised points between them: keys
// of every kind of number, around the sizes of a block of the kernel.
func normalisedBatch(t *testing.T, rng *rand.Rand, b *detectors.Batch, keys, most int) (names []string) {
	t.Helper()
	draws := lofDraws(rng)
	kinds := []string{"noise", "tied", "spikes", "far"}
	for range keys {
		kind := kinds[rng.IntN(len(kinds))]
		embed := 3 + rng.IntN(14)
		dim := 1 + rng.IntN(min(3, 64/embed))
		p := knn.Params{K: 1 + rng.IntN(12), Embed: embed, ZNorm: true, Neighbours: rng.IntN(2) == 0, IncludeSelf: rng.IntN(3) == 0}
		n := 2*p.K + embed + rng.IntN(most) // rows
		switch rng.IntN(4) {
		case 0:
			p.Tumbling = true
			executortest.KNNTask(t, b, p, n, dim, n, draws[kind])
		case 1: // without normalised points
			p.ZNorm = false
			executortest.KNNTask(t, b, p, n, dim, 1, draws[kind])
		case 2:
			executortest.KNNTask(t, b, p, n, dim, 1+rng.IntN(3), draws[kind])
		case 3:
			links, fresh := 2+rng.IntN(6), 1+rng.IntN(3)
			first := executortest.KNNTask(t, b, p, n+links*fresh, dim, fresh, draws[kind])
			first.X.Len -= uint32(links * fresh * dim)
			task := *first
			for i := range links + 1 {
				names = append(names, fmt.Sprintf("%s, %d rows of %d, %+v, %d of a chain", kind, n, dim, p, i))
				if i == 0 {
					continue
				}
				task.X.Off += uint32(fresh * dim)
				task.Scores = b.GrowOut(fresh)
				if p.Neighbours {
					task.Detail = b.GrowOut(fresh * p.K)
				}
				b.Tasks = append(b.Tasks, task)
			}
			continue
		}
		names = append(names, fmt.Sprintf("%s, %d rows of %d, %+v", kind, n, dim, p))
	}
	return names
}

// TestNormalised is TestNormalisedEmulated with kernels in Go, and longer windows.
func TestNormalised(t *testing.T) {
	o := goChildOptions(t, "")
	normalised(t, o, 60, 2600)
	splitAlways(t)
	o.Devices = indices(3)
	normalised(t, o, 60, 1200)
}

// TestNormalisedEmulated: tasks of normalised points are the device's, and have the CPU's neighbours and weights, also where
// parts of a batch are on two devices.
func TestNormalisedEmulated(t *testing.T) {
	o := emulated(t)
	normalised(t, o, 24, 120)
	splitAlways(t)
	o.Devices = indices(2)
	normalised(t, o, 16, 60)
}

// TestDeviceNormalised is TestNormalisedEmulated on a device, with more and longer windows.
func TestDeviceNormalised(t *testing.T) { normalised(t, deviceOptions(t), 400, 3000) }

func normalised(t *testing.T, o Options, keys, most int) {
	rng := seedtest.New(t)
	e := open(t, o)
	defer e.Close()
	b := e.Batch()
	defer e.Release(b)
	tasks := 0
	for range 3 {
		b.Reset()
		names := normalisedBatch(t, rng, b, keys, most)
		if err := e.Execute(context.Background(), b); err != nil {
			t.Fatal(err)
		}
		for i := range b.Tasks {
			tasks++
			r := b.Rows(i)
			want := r
			want.Scores, want.Detail = make([]float32, len(r.Scores)), make(detectors.Words, len(r.Detail))
			knn.Op.Spec().CPU(t.Context(), &want, detectors.Sequential)
			if err := knn.Op.Spec().Compare(&r, detectors.Result{Scores: r.Scores, Detail: r.Detail},
				detectors.Result{Scores: want.Scores, Detail: want.Detail}); err != nil {
				t.Errorf("%s: %v", names[i], err)
			}
		}
	}
	s := e.Stats()
	noFault(t, s)
	scored := uint64(0)
	for _, d := range s.Devices {
		if scored += d.Tasks; d.Tasks == 0 {
			t.Errorf("device %d has scored nothing", d.Index)
		}
	}
	t.Logf("%d tasks: %d on devices, %d on the CPU, %d declined", tasks, scored, s.CPUTasks, s.Declined)
	if s.CPUTasks > 0 || scored != uint64(tasks) {
		t.Errorf("of %d tasks devices scored %d and the CPU %d", tasks, scored, s.CPUTasks)
	}
}
