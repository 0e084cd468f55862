//go:build linux

package cuda

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"odradek/cuda/child"
	"odradek/detectors"
	"odradek/detectors/seedtest"
	"odradek/detectors/sst"
)

// owner has the windows of some series, as package state has those of a partition.
type owner struct {
	t        testing.TB
	rng      *rand.Rand
	detector detectors.Detector
	dim      int
	fresh    int
	series   []*series
	e        *Executor
	cache    *detectors.WindowCache // nil: all windows are copied
	pool     *detectors.WindowPool
	repacked int
}

type series struct {
	rows  []float64 // all rows so far
	slot  detectors.SlotRef
	carry []float32
}

// due is a task for a batch: of series k, after count rows.
type due struct{ k, count int }

func newOwner(t testing.TB, rng *rand.Rand, e *Executor, d detectors.Detector, n, dim, fresh int, size bool) *owner {
	o := &owner{t: t, rng: rng, detector: d, dim: dim, fresh: fresh, e: e}
	for range n {
		o.series = append(o.series, &series{})
	}
	if size {
		o.cache = e.WindowCache()
		if o.pool = o.cache.Pool(d, dim, fresh); o.pool == nil {
			t.Fatal("nothing is kept")
		}
	}
	return o
}

// push gives a series n more rows.
func (o *owner) push(rng *rand.Rand, k, n int) {
	s := o.series[k]
	level := 1e6 * float64(k)
	for range n * o.dim {
		v := level + rng.NormFloat64()
		if rng.IntN(50) == 0 {
			v = level
		}
		if rng.IntN(300) == 0 {
			v *= 1e30
		}
		s.rows = append(s.rows, v)
	}
}

// pack packs the tasks, with the pool or without.
func (o *owner) pack(b *detectors.Batch, dues []due, pool *detectors.WindowPool) {
	b.Reset()
	params := b.Put(o.detector.Params())
	last := map[int]uint32{}
	rows := o.detector.Window() + o.fresh - 1
	for _, d := range dues {
		s := o.series[d.k]
		x := s.rows[(d.count-rows)*o.dim : d.count*o.dim]
		t := detectors.Task{Op: o.detector.Op(), Dim: uint32(o.dim), Fresh: uint32(o.fresh), Params: params}
		missing, ok := 0, false
		if pool != nil {
			missing, ok = pool.Missing(b, &s.slot, int64(d.count))
		}
		if ok {
			span, raw := b.GrowF64(missing * o.dim)
			copy(raw, x[len(x)-len(raw):])
			t.X = pool.Update(b, &s.slot, int64(d.count), span, len(b.Tasks))
		} else {
			var f []float32
			t.X, f = b.GrowF32(len(x))
			from, n := detectors.CenterRows(rows, int64(d.count))
			center(f, x, o.dim, from, n)
		}
		if after := last[d.k]; after > 0 {
			t.After = after
		} else if len(s.carry) > 0 {
			t.Carry = b.Put(detectors.WordsOf(s.carry))
		}
		size, ok := o.detector.Size(detectors.View{Dim: o.dim, Rows: rows, Fresh: o.fresh})
		if !ok {
			o.t.Fatal("too little history")
		}
		b.GrowOutputs(&t, size)
		b.Tasks = append(b.Tasks, t)
		last[d.k] = uint32(len(b.Tasks))
	}
}

// score packs and executes the tasks, again with whole windows where the cached ones are lost, and
// takes the carries.
func (o *owner) score(b *detectors.Batch, dues []due) []float32 {
	o.pack(b, dues, o.pool)
	for i := range b.Out {
		b.Out.SetFloat32(i, -77)
	}
	err := o.e.Execute(context.Background(), b)
	if errors.Is(err, detectors.ErrCacheLost) {
		o.repacked++
		o.pack(b, dues, nil)
		err = o.e.Execute(context.Background(), b)
	}
	if err != nil {
		o.t.Fatal(err)
	}
	for i, d := range dues {
		next := b.Tasks[i].Next
		o.series[d.k].carry = append(o.series[d.k].carry[:0], b.Out[next.Off:next.Off+next.Len].F32()...)
	}
	return b.Out.F32()
}

// windowCacheTest drives two owners with the same series, one whose windows the device caches and one
// whose windows are copied, and requires the same bits. It calls between before each round.
func windowCacheTest(t *testing.T, o Options, n, dim, fresh, rounds int,
	between func(round int, e *Executor, kept *owner)) (hits, misses uint64, repacked int) {
	d, err := sst.NewIKA(sst.IKAOpParams{Window: 8})
	if err != nil {
		t.Fatal(err)
	}
	e := open(t, o)
	defer e.Close()
	rng := seedtest.New(t)
	kept, travel := newOwner(t, rng, e, d, n, dim, fresh, true), newOwner(t, rng, e, d, n, dim, fresh, false)
	push := func(k, rows int) {
		seed := rng.Uint64()
		kept.push(rand.New(rand.NewPCG(seed, 1)), k, rows)
		travel.push(rand.New(rand.NewPCG(seed, 1)), k, rows)
	}
	rows := d.Window() + fresh - 1
	for k := range n {
		push(k, rows+rng.IntN(rows))
	}
	b, whole := e.Batch(), e.Batch()
	for round := range rounds {
		if between != nil {
			between(round, e, kept)
		}
		var dues []due
		for range n {
			k := rng.IntN(n)
			switch rng.IntN(20) {
			case 0: // more than a window
				push(k, rows+rng.IntN(3))
			case 1: // the same window again
			default:
				push(k, fresh+rng.IntN(3))
			}
			dues = append(dues, due{k, len(kept.series[k].rows) / dim})
		}
		before := e.Stats().CPUTasks
		got, want := kept.score(b, dues), travel.score(whole, dues)
		// The CPU's bits are those of a Go child, but not of a child that runs kernels.
		tolerance := 0.0
		if o.Child != os.Args[0] && e.Stats().CPUTasks > before {
			tolerance = 1e-3
		}
		for i, task := range b.Tasks {
			for _, s := range []detectors.Span{task.Scores, task.Next} {
				w := whole.Tasks[i].Scores
				if s == task.Next {
					w = whole.Tasks[i].Next
				}
				for j := range s.Len {
					if g, w := got[s.Off+j], want[w.Off+j]; math.Float32bits(g) != math.Float32bits(w) && !(math.Abs(float64(g-w)) <= tolerance) {
						t.Fatalf("round %d, task %d of %d: number %d is %v, with whole windows %v", round, i, len(dues), j, g, w)
					}
				}
			}
		}
		if tolerance > 0 {
			for k, s := range kept.series {
				travel.series[k].carry = slices.Clone(s.carry)
			}
		}
	}
	t.Logf("%d hits, %d misses, %d batches packed again, %+v", kept.pool.Hits, kept.pool.Misses, kept.repacked, e.Stats())
	return kept.pool.Hits, kept.pool.Misses, kept.repacked
}

// windowBytes is the size of a window of these tests.
const windowBytes = 512

// TestWindowCache requires that cached windows give the bits of copied windows, with room for all or
// for few, through rollbacks of their owner, and after the loss of their device.
func TestWindowCache(t *testing.T) {
	for _, dim := range []int{1, 3} {
		t.Run(fmt.Sprintf("room/dim=%d", dim), func(t *testing.T) {
			o := goChildOptions(t, "")
			o.WindowCache = 1 << 20
			hits, misses, _ := windowCacheTest(t, o, 50, dim, 1+dim, 40, nil)
			if hits < 8*misses {
				t.Error("few hits")
			}
		})
	}
	t.Run("little room", func(t *testing.T) {
		o := goChildOptions(t, "")
		o.WindowCache = 20 * windowBytes
		hits, misses, _ := windowCacheTest(t, o, 50, 1, 1, 100, nil)
		if hits < 300 || misses < 300 {
			t.Error("few of both")
		}
	})
	t.Run("forgotten", func(t *testing.T) {
		o := goChildOptions(t, "")
		o.WindowCache = 1 << 20
		windowCacheTest(t, o, 30, 1, 1, 40, func(round int, e *Executor, kept *owner) {
			if round%7 == 0 {
				kept.cache.Invalidate()
			}
			if round%9 == 0 { // packed and never executed
				b := e.Batch()
				kept.pack(b, []due{{0, len(kept.series[0].rows)}}, kept.pool)
				b.Reset()
				e.Release(b)
			}
		})
	})
	t.Run("killed", func(t *testing.T) {
		o := goChildOptions(t, "")
		o.WindowCache, o.Retry, o.Devices = 1<<20, time.Millisecond, []int{0, 1}
		_, _, repacked := windowCacheTest(t, o, 30, 2, 1, 60, func(round int, e *Executor, kept *owner) {
			if round%6 != 5 {
				return
			}
			for _, d := range e.Stats().Devices {
				if s, ok := kept.cache.Memory().(*child.WindowShare); ok && d.Pid > 0 && d.Index == s.Device.Index() {
					unix.Kill(d.Pid, unix.SIGKILL)
				}
			}
			if round%12 == 5 { // else it is in the middle of the next
				time.Sleep(20 * time.Millisecond)
			}
		})
		if repacked == 0 {
			t.Error("nothing was packed again")
		}
	})
	t.Run("dies in a batch", func(t *testing.T) {
		o := goChildOptions(t, "die@9")
		o.WindowCache = 1 << 20
		if _, _, repacked := windowCacheTest(t, o, 30, 1, 2, 20, nil); repacked == 0 {
			t.Error("nothing was packed again")
		}
	})
	t.Run("none", func(t *testing.T) {
		e := open(t, goChildOptions(t, ""))
		defer e.Close()
		if e.WindowCache() != nil {
			t.Error("windows are kept without a limit for them")
		}
		var k *detectors.WindowCache
		if k.Pool(nil, 1, 1) != nil {
			t.Error("a pool of nothing")
		}
	})
}

// TestWindowCacheEmulated is TestWindowCache with the kernel that makes X.
func TestWindowCacheEmulated(t *testing.T) {
	o := emulated(t)
	for _, dim := range []int{1, 3} {
		for _, size := range []int64{1 << 20, 8 * windowBytes} {
			o.WindowCache = size
			windowCacheTest(t, o, 12, dim, 2, 12, nil)
		}
	}
}

// TestDeviceWindowCache is TestWindowCache on a device, and after its child is killed.
func TestDeviceWindowCache(t *testing.T) {
	o := deviceOptions(t)
	n := 1000
	if testing.Short() {
		n = 200
	}
	for _, dim := range []int{1, 3} {
		for _, size := range []int64{1 << 26, 200 * windowBytes} {
			o.WindowCache = size
			windowCacheTest(t, o, n, dim, 1+dim, 20, nil)
		}
	}
	if testing.Short() { // under a tool that does not outlive its child
		return
	}
	o.WindowCache = 1 << 26
	_, _, repacked := windowCacheTest(t, o, 1000, 1, 1, 12, func(round int, e *Executor, kept *owner) {
		if round%4 == 3 {
			waitUp(t, e, 30*time.Second)
			unix.Kill(e.Stats().Devices[0].Pid, unix.SIGKILL)
		}
		if round%4 == 0 {
			waitUp(t, e, 30*time.Second) // both owners on the device again: bits of one class
		}
	})
	t.Logf("%d batches packed again", repacked)
}

// BenchmarkWrite measures the work of Execute on a core before a device begins: 4,096 tasks of one
// fresh sample, planned and written, with windows that are copied and that are cached.
func BenchmarkWrite(b *testing.B) {
	d, err := sst.NewIKA(sst.IKAOpParams{Window: 100})
	if err != nil {
		b.Fatal(err)
	}
	const tasks = 4096
	for _, cached := range []bool{false, true} {
		b.Run(fmt.Sprintf("cached=%v", cached), func(b *testing.B) {
			m, err := newMemory(0, limits{1 << 22, 1 << 20, tasks})
			if err != nil {
				b.Fatal(err)
			}
			defer m.free()
			h := &batchState{Batch: &detectors.Batch{}, memory: m}
			m.take(h.Batch)
			memory := &unlimited{next: 4096}
			takes := func(detectors.Detector, int, int) bool { return true }
			cache := detectors.NewWindowCache(func() detectors.CacheMemory { return memory }, takes)
			pool := cache.Pool(d, 1, 1)
			params := h.Put(d.Params())
			slots := make([]detectors.SlotRef, tasks)
			for round := range 2 {
				h.Updated()
				h.Batch.Reset()
				h.GrowF32(len(d.Params()))
				for k := range tasks {
					t := detectors.Task{Op: d.Op(), Dim: 1, Fresh: 1, Params: params}
					if cached {
						n, ok := pool.Missing(h.Batch, &slots[k], int64(d.Window()+round))
						if !ok {
							b.Fatal("no room")
						}
						span, _ := h.GrowF64(n)
						t.X = pool.Update(h.Batch, &slots[k], int64(d.Window()+round), span, k)
					} else {
						t.X, _ = h.GrowF32(d.Window())
					}
					t.Carry, _ = h.GrowF32(100)
					t.Scores, t.Next = h.GrowOut(1), h.GrowOut(100)
					h.Tasks = append(h.Tasks, t)
				}
			}
			e, p := &dispatcher{memories: new(memories)}, &h.plan
			for b.Loop() {
				p.Start(h.Batch)
				p.Assign(h.Batch)
				if !e.write(h, p) {
					b.Fatal("no room")
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/tasks, "ns/task")
			b.ReportMetric(float64(p.Request().InBytes-p.Request().InFrom)/tasks, "B/task")
		})
	}
}

// unlimited is memory for windows without a limit.
type unlimited struct{ next uint64 }

func (u *unlimited) Extend(bytes int) (first uint64, n int) {
	first = u.next
	u.next += 1 << 20
	return first, 1 << 20 / bytes
}
func (u *unlimited) Release()   {}
func (u *unlimited) Gone() bool { return false }
