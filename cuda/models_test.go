//go:build linux

package cuda

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"odradek/cuda/plan"
	"odradek/detectors"
	"odradek/detectors/seedtest"
	"odradek/detectors/sst"
)

// withModels returns a load in which every other task has one of the test's models. A Go child fails
// where the model differs from the one that the task's first value chooses.
func withModels(t testing.TB, keys int) *load {
	l := newLoad(t, seedtest.New(t), keys, 1)
	for n := range testModels {
		l.models = append(l.models, detectors.NewModel(testModel(n)))
	}
	return l
}

// uploads returns the number of models that batches have brought to each device.
func uploads(e *Executor) (n []uint64) {
	for _, d := range e.Stats().Devices {
		n = append(n, d.Uploads)
	}
	return n
}

// TestModels requires that a model is copied to a device once, stays there while there is room, and is
// copied again to the next child.
func TestModels(t *testing.T) {
	const keys = 400 // so that each model is drawn
	none := func(t *testing.T, e *Executor) {
		t.Helper()
		noFault(t, e.Stats())
		if s := e.Stats(); s.CPUTasks > 0 {
			t.Errorf("%+v, want nothing on the CPU", s)
		}
	}
	t.Run("once", func(t *testing.T) {
		defer plan.SetModels(sst.OpIKA)()
		e := open(t, goChildOptions(t, ""))
		defer e.Close()
		withModels(t, keys).run(t, e, 4)
		if n := uploads(e); n[0] != testModels {
			t.Errorf("%d models were brought in four batches, want %d", n[0], testModels)
		}
		none(t, e)
	})
	t.Run("little room", func(t *testing.T) {
		defer plan.SetModels(sst.OpIKA)()
		o := goChildOptions(t, "")
		// The largest has 2,800 bytes, all have 10,000. Wherever one lies, another finds room before or
		// after it.
		o.Models = 8 << 10
		e := open(t, o)
		defer e.Close()
		for range 40 { // two models each at most, drawn at random
			withModels(t, 3).run(t, e, 2)
		}
		if n := uploads(e); n[0] < testModels+1 || n[0] > 80 {
			t.Errorf("%d models were brought", n[0])
		}
		none(t, e)
	})
	t.Run("no room", func(t *testing.T) {
		defer plan.SetModels(sst.OpIKA)()
		o := goChildOptions(t, "")
		o.Models = 4 << 10
		e := open(t, o)
		defer e.Close()
		withModels(t, keys).run(t, e, 2)
		if s := e.Stats(); s.Refused != 2 || s.CPUBatches != 2 || s.Devices[0].Faults > 0 {
			t.Errorf("%+v, want two batches refused", s)
		}
	})
	t.Run("split", func(t *testing.T) {
		splitAlways(t)
		defer plan.SetModels(sst.OpIKA)()
		o := goChildOptions(t, "")
		o.Devices = indices(2)
		e := open(t, o)
		defer e.Close()
		withModels(t, keys).run(t, e, 3)
		if n := uploads(e); n[0] == 0 || n[1] == 0 || n[0] > testModels || n[1] > testModels {
			t.Errorf("%v models were brought to two devices", n)
		}
		none(t, e)
	})
	t.Run("a new child", func(t *testing.T) {
		defer plan.SetModels(sst.OpIKA)()
		e := open(t, goChildOptions(t, ""))
		defer e.Close()
		l := withModels(t, keys)
		l.run(t, e, 1)
		unix.Kill(e.Stats().Devices[0].Pid, unix.SIGKILL)
		for e.Stats().Devices[0].Faults == 0 {
			time.Sleep(time.Millisecond)
		}
		waitUp(t, e, 30*time.Second)
		l.run(t, e, 2)
		if n := uploads(e); n[0] != 2*testModels {
			t.Errorf("%d models were brought to two children, want %d", n[0], 2*testModels)
		}
	})
	t.Run("rounds", func(t *testing.T) {
		defer plan.SetModels(sst.OpIKA)()
		defer plan.SetRounds(sst.OpIKA, 5, false)()
		e := open(t, roundsOn(t, "", 3))
		defer e.Close()
		withModels(t, keys).run(t, e, 1)
		if n := uploads(e); n[0] != testModels || e.Stats().Devices[0].Batches != 3 {
			t.Errorf("%d models were brought, want %d: %+v", n[0], testModels, e.Stats())
		}
		none(t, e)
	})
	t.Run("no kernel reads them", func(t *testing.T) {
		e := open(t, goChildOptions(t, ""))
		defer e.Close()
		withModels(t, keys).run(t, e, 1)
		if s := e.Stats(); s.CPUTasks != keys/2 || s.Devices[0].Tasks != keys/2 {
			t.Errorf("%+v, want the tasks with a model on the CPU", s)
		}
	})
}

// TestDeviceModels brings two models to a device with one request, whose kernel sums them up in this
// request and the next.
func TestDeviceModels(t *testing.T) {
	o := deviceOptions(t)
	o.Args = []string{"-faults"}
	e := open(t, o)
	defer e.Close()
	e.memories.mu.Lock()
	m, err := e.memories.allocate(smallest)
	e.memories.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	const tasks, tiles, launches, uploads, content, end = 256, 512, 768, 1024, 2048, 8192
	words := func(at, n int) []uint32 { return plan.View[uint32](m.Bytes, at, n) }
	want := []uint32{0, 0}
	for n := range want {
		w := testModel(n)
		plan.View[plan.Task](m.Bytes, tasks, 2)[n] = plan.Task{
			Next: detectors.Span{Off: uint32(n), Len: 1}, Model: detectors.Span{Off: uint32(1000 + 500*n), Len: uint32(len(w))},
		}
		copy(words(content+2048*n, len(w)), w)
		plan.View[plan.Upload](m.Bytes, uploads, 2)[n] = plan.Upload{
			From: uint64(content + 2048*n), To: uint64(4000 + 2000*n), Bytes: uint64(4 * len(w)),
		}
		for _, v := range w {
			want[n] += v
		}
	}
	copy(plan.View[plan.Tile](m.Bytes, tiles, 2), []plan.Tile{{Count: 1}, {First: 1, Count: 1}})
	copy(plan.View[plan.Launch](m.Bytes, launches, 1), []plan.Launch{{Kernel: uint32(len(plan.Kernels()) + 1), Grid: 2, Block: 32, Tiles: 2}})
	out := uint64(m.Out)
	q := plan.Request{
		Batch: m.ID, Launches: 1, InBytes: end, TasksOff: tasks, TilesOff: tiles, LaunchesOff: launches, OutOff: out, OutBytes: 264,
		StatusOff: out + 256, Tasks: 2, InTo: tasks, OutFrom: out, OutTo: out + 256, UploadsOff: uploads, Models: 2, Uploads: 2,
	}
	for range 2 {
		clear(words(m.Out, 2))
		d := e.devices[0]
		if _, refused, err := d.Execute(t.Context(), d.Serving(), &m.Memory, &q, 0); refused != nil || err != nil {
			t.Fatal(refused, err)
		}
		if got := words(m.Out, 2); got[0] != want[0] || got[1] != want[1] {
			t.Errorf("the models' sums are %v, want %v", got, want)
		}
		q.Uploads = 0
		clear(words(content, 1024))
	}
}
