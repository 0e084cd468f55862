package ops

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"odradek/cmd/bench/testbed"
	"odradek/cuda"
	"odradek/detectors"
	"odradek/detectors/sst"
)

// scaleShapes are shapes with different limits of several devices: arithmetic, the copies, and
// both; and the windows of Ueno and Suzumura's table. They have no targets of
// their own.
func scaleShapes() []shape {
	shapes := []shape{shapeNamed("lof N=1024 d=8 k=20")}
	for _, s := range allShapes() {
		if s.op != sst.OpIKA && s.op != sst.OpSVD || s.apart {
			continue
		}
		s.kernel, s.whole = 0, 0
		if s.name == "svdsst w=320 r=12, 16 fresh" {
			s.tasks = 2048
		}
		shapes = append(shapes, s)
	}
	return shapes
}

// aloneShapes are shapes whose batches are split where there is one at a time: into runs of tasks, or, of one task,
// into portions of its work.
func aloneShapes() []shape {
	shapes := []shape{shapeNamed("ikasst w=320, 16 fresh"), shapeNamed("lof N=4096 d=8 k=20")}
	for _, name := range append([]string{"scan n=512, one map", "scan n=1024, up to 128 x 128, one map"}, dividedShapes...) {
		shapes = append(shapes, shapeNamed(name))
	}
	return shapes
}

// dividedShapes are the shapes of one task whose work devices divide that have a target: the null maps of a grid.
var dividedShapes = []string{
	"scan n=128, 999 replicates, one map", "scan n=128, 999 replicates, one map, cluster",
	"scan n=128, 999 replicates, one map, zero baselines",
}

// scaleTargets are ratios to one device, by their number.
var scaleTargets = map[int]float64{2: 1.9, 4: 3.6}

// OnDevices measures the rate of Execute on some of this host's devices, with as many
// goroutines as there are cores, and with one batch at a time.
func (b *Bench) OnDevices(ctx context.Context) (rows []testbed.Row, err error) {
	counts, err := b.scaleCounts()
	if err != nil {
		return nil, err
	}
	shapes, alone := scaleShapes(), aloneShapes()
	one := map[string]float64{}
	for _, n := range counts {
		devices := make([]int, n)
		for i := range devices {
			devices[i] = i
		}
		e, err := b.GPU.Open(cuda.Options{Devices: devices})
		if err != nil {
			return rows, err
		}
		add := func(what string, s shape, measure func(in *input) (testbed.Row, error)) {
			if !b.wants(s.name) {
				return
			}
			if b.Quick {
				s.tasks = max(s.tasks/8, 1)
			}
			var in *input
			if in, err = s.input(); err != nil {
				return
			}
			b.Say("%s, %d GPUs", s.name, n)
			before := e.Stats()
			var r testbed.Row
			if r, err = measure(in); err != nil {
				err = fmt.Errorf("%s: %w", s.name, err)
				return
			}
			name := s.name + ", " + what
			if n == counts[0] {
				one[name] = r.Value / float64(n)
			}
			ratio := r.Value / one[name]
			r.Case = fmt.Sprintf("%s, %d GPUs", name, n)
			if want := scaleTargets[n]; want > 0 && (what == "Execute" || slices.Contains(dividedShapes, s.name)) {
				r = r.Want(fmt.Sprintf("ratio >= %.1f", want), ratio >= want)
			}
			shares := ""
			after := e.Stats()
			for i, d := range after.Devices {
				shares += fmt.Sprintf(" %d", d.Tasks-before.Devices[i].Tasks)
			}
			rows = append(rows, r.Against("one GPU", one[name], false).
				Noted("ratio to one %.2f; tasks by GPU%s; %d batches lost, %d refused, %d tasks on the CPU", ratio, shares,
					after.Lost-before.Lost, after.Refused-before.Refused, after.CPUTasks-before.CPUTasks))
		}
		for i := 0; i < len(shapes) && err == nil; i++ {
			add("Execute", shapes[i], func(in *input) (testbed.Row, error) {
				return b.opsExecute(ctx, e, in, max(in.tasks/16, 1))
			})
		}
		for i := 0; i < len(alone) && err == nil; i++ {
			add("one batch at a time", alone[i], func(in *input) (testbed.Row, error) { return b.scaleAlone(ctx, e, in) })
		}
		name := e.Stats().Devices[0].Name
		if closed := e.Close(); err == nil {
			err = closed
		}
		for i := range rows {
			rows[i].Device = name
		}
		if err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// scaleCounts returns the numbers of devices to measure with.
func (b *Bench) scaleCounts() (counts []int, err error) {
	child, err := b.GPU.Program()
	if err != nil {
		return nil, err
	}
	listed, err := exec.Command(child, "-list").Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", testbed.ErrNone, err)
	}
	there := bytes.Count(listed, []byte("\n"))
	if b.GPUs == "" {
		for n := 1; n <= there; n *= 2 {
			counts = append(counts, n)
		}
		return counts, nil
	}
	for _, f := range strings.Split(b.GPUs, ",") {
		n, err := strconv.Atoi(f)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-gpus %s: write numbers of GPUs like 1,2,4", b.GPUs)
		}
		if n <= there {
			counts = append(counts, n)
		} else {
			b.Say("%d GPUs are not measured: there are %d", n, there)
		}
	}
	if len(counts) == 0 {
		return nil, fmt.Errorf("%w: %d are here, -gpus %s asks for more", testbed.ErrNone, there, b.GPUs)
	}
	slices.Sort(counts)
	return counts, nil
}

// scaleAlone measures the rate of one batch after the other, packed before.
func (b *Bench) scaleAlone(ctx context.Context, e detectors.Executor, in *input) (r testbed.Row, err error) {
	batch := e.Batch()
	defer e.Release(batch)
	if err := in.warmUp(ctx, e, batch, in.tasks); err != nil {
		return r, err
	}
	ns, _ := perItem(b.Span(time.Second), in.tasks*in.fresh, func() {
		if e := e.Execute(ctx, batch); e != nil {
			err = e
		}
	})
	return testbed.NewRow(in.name, 1e9/ns, in.unit).Noted("Execute alone of %d tasks, %d KB; %d cores",
		in.tasks, 4*(len(batch.In)+len(batch.Out))>>10, runtime.GOMAXPROCS(0)), err
}
