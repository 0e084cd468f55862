//go:build linux

package cuda

import (
	"log/slog"
	"testing"

	"odradek/cuda/plan"
	"odradek/detectors"
	"odradek/detectors/executortest"
	"odradek/detectors/sst"
)

// testLog writes to the test's log.
func testLog(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
}

func open(t testing.TB, o Options) *Executor {
	t.Helper()
	if o.Log == nil {
		o.Log = testLog(t)
	}
	e, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// checked is an executor whose Close reports faults.
type checked struct {
	*Executor
	t     testing.TB
	check func(testing.TB, Stats)
}

func (c checked) Close() error {
	s := c.Stats()
	err := c.Executor.Close()
	c.check(c.t, s)
	return err
}

// placed is an executor that reports where its tasks were scored.
type placed struct{ checked }

func (p placed) Placed() executortest.Placed { return placedBy(p.Stats()) }

func (p placed) Takes(op detectors.Op) bool { return plan.Has(op) }

func placedBy(s Stats) executortest.Placed {
	var tasks uint64
	for _, d := range s.Devices {
		tasks += d.Tasks
	}
	return executortest.Placed{Device: tasks - s.Declined, Declined: s.Declined, CPU: s.CPUTasks}
}

// byKernels requires that kernels scored the tasks so far, except a share that they may leave to the
// CPU.
func byKernels(t testing.TB, s Stats, most float64) {
	t.Helper()
	p := placedBy(s)
	t.Logf("%d tasks were scored on the device, %d declined", p.Device, p.Declined)
	if p.Device == 0 || float64(p.CPU) > most*float64(p.Device+p.CPU) {
		t.Errorf("%d tasks were scored on the device, %d on the CPU, of them %d declined; %.0f %% are allowed", p.Device,
			p.CPU, p.Declined, 100*most)
	}
}

func noFault(t testing.TB, s Stats) {
	for _, d := range s.Devices {
		if d.Faults > 0 {
			t.Errorf("device %d had %d faults, the last: %s", d.Index, d.Faults, d.LastFault)
		}
	}
	if s.Lost > 0 || s.Refused > 0 {
		t.Errorf("%d batches lost, %d refused", s.Lost, s.Refused)
	}
}

func TestConformance(t *testing.T) {
	var tasks, declined uint64
	for _, fault := range []string{"", "flag"} {
		t.Run("fault="+fault, func(t *testing.T) {
			var without []string
			if fault != "" { // TestSplit covers these with this fault
				without = []string{"mixed", "orders", "sizes", "cancelled"}
			}
			executortest.Run(t, func() detectors.Executor {
				e := checked{open(t, goChildOptions(t, fault)), t, func(t testing.TB, s Stats) {
					noFault(t, s)
					tasks += s.Devices[0].Tasks
					declined += s.Declined
				}}
				if fault == "" {
					return placed{e}
				}
				return e
			}, without...)
		})
	}
	if tasks == 0 || declined == 0 {
		t.Errorf("%d tasks were on the device, %d were declined", tasks, declined)
	}
}

// BenchmarkWrite measures the work of Execute on a core before a device begins: 4,096 tasks of one
// fresh sample, planned and written.
func BenchmarkWrite(b *testing.B) {
	d, err := sst.NewIKA(sst.IKAOpParams{Window: 100})
	if err != nil {
		b.Fatal(err)
	}
	const tasks = 4096
	m, err := newMemory(0, limits{1 << 22, 1 << 20, tasks})
	if err != nil {
		b.Fatal(err)
	}
	defer m.free()
	h := &batchState{batch: &detectors.Batch{}, memory: m}
	m.adopt(h.batch)
	params := h.batch.Put(d.Params())
	for range tasks {
		t := detectors.Task{Op: d.Op(), Dim: 1, Fresh: 1, Params: params}
		t.X, _ = h.batch.GrowF32(d.Window())
		t.Carry, _ = h.batch.GrowF32(100)
		t.Scores, t.Next = h.batch.GrowOut(1), h.batch.GrowOut(100)
		h.batch.Tasks = append(h.batch.Tasks, t)
	}
	e, p := &dispatcher{memories: new(memories)}, &h.plan
	for b.Loop() {
		p.Start(h.batch)
		p.Assign(h.batch)
		if !e.write(h, p) {
			b.Fatal("no room")
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/tasks, "ns/task")
	b.ReportMetric(float64(p.Request.InBytes-p.Request.InFrom)/tasks, "B/task")
}
