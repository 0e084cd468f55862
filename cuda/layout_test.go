//go:build linux

package cuda

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"odradek/cuda/kernels"
	"odradek/cuda/plan"
	"odradek/detectors"
	"odradek/detectors/knn"
	"odradek/detectors/lof"
	"odradek/detectors/seedtest"
	"odradek/detectors/sst"
)

// layoutParams is a table of parameters of all types: LayoutParams in fault.cu.
var layoutParams = detectors.Spec{Name: "layout", Params: []detectors.Param{
	{Name: "COUNT", Type: detectors.Int, Word: 1}, {Name: "SEED", Type: detectors.Long, Word: 2},
	{Name: "SCALE", Type: detectors.Float, Word: 3}, {Name: "NEGATE", Type: detectors.Bool, Word: 4},
	{Name: "ELEM", Type: detectors.Int, Word: 5}, {Name: "TIMES", Type: detectors.Ints, Word: 6},
}}

// layoutTask has the values that a task of the test reads, of every type.
type layoutTask struct {
	elem             detectors.Elem
	dim, fresh, rows int
	x                []float64 // of elem F32 and F64
	xi               []int64   // of elem I64
	count            int
	seed             int64
	scale            float32
	negate           bool
	times            []int
	bins             []float32
	model            detectors.Words
	carry            int64 // of a chain's first task; 0: none
	after            int   // 1 + the task whose Next is the carry, 0: none
}

// layoutOf returns the outputs of a task, and the first number of its Next.
func layoutOf(t *layoutTask, carry int64) (scores []float32, next, detail []byte, left int64) {
	le := binary.LittleEndian
	for i := range t.fresh {
		at := (t.rows-t.fresh+i+1)*t.dim - 1
		var whole int64
		var d float64
		if t.elem == detectors.I64 {
			whole = t.xi[at]
			d = float64(whole)
		} else {
			d = t.x[at]
		}
		score := float32(d) * t.scale
		if t.negate {
			score = -score
		}
		scores = append(scores, score)
		detail = le.AppendUint64(detail, math.Float64bits(d-1))
		detail = le.AppendUint64(detail, uint64(whole+t.seed+int64(t.times[i%len(t.times)])))
		detail = le.AppendUint32(detail, uint32(t.count+i))
	}
	left = carry + int64(t.count)*int64(t.fresh)
	sum, last := uint32(0), float32(0)
	for _, w := range t.model {
		sum += w
	}
	if len(t.bins) > 0 {
		last = t.bins[len(t.bins)-1]
	}
	next = le.AppendUint32(le.AppendUint32(le.AppendUint64(next, uint64(left)), sum), math.Float32bits(last))
	return scores, next, detail, left
}

// layoutCPU is fault_layout as an op's CPU form.
func layoutCPU(_ context.Context, r *detectors.Rows, _ detectors.Parallel) {
	word := layoutParams.Word
	t := layoutTask{
		elem: detectors.Elem(r.Params.Int(word("ELEM"))), dim: r.Dim, fresh: r.Fresh, rows: r.Len(), x: slices.Clone(r.X64), xi: r.XI,
		count: r.Params.Int(word("COUNT")), seed: r.Params.Int64(word("SEED")), scale: r.Params.Float32(word("SCALE")),
		negate: r.Params.Bool(word("NEGATE")), bins: r.Bins, model: r.Model,
	}
	for _, v := range r.X {
		t.x = append(t.x, float64(v))
	}
	for i := word("TIMES"); i < len(r.Params); i++ {
		t.times = append(t.times, r.Params.Int(i))
	}
	carry := int64(0)
	if len(r.Carry) > 0 {
		carry = r.Carry.Int64(0)
	}
	scores, next, detail, _ := layoutOf(&t, carry)
	copy(r.Scores, scores)
	for to, from := range map[*detectors.Words][]byte{&r.Next: next, &r.Detail: detail} {
		for i := range *to {
			(*to)[i] = binary.LittleEndian.Uint32(from[4*i:])
		}
	}
}

// TestLayout requires that a task's rows, parameters, model, carry and outputs have the types of the
// op, wherever they lie in a batch with all of them.
func TestLayout(t *testing.T) { layoutOn(t, detectors.NewCPU(2)) }

// TestLayoutEmulated is TestLayout with a kernel.
func TestLayoutEmulated(t *testing.T) { layoutOnKernel(t, emulated(t)) }

// TestDeviceLayout is TestLayout on a device.
func TestDeviceLayout(t *testing.T) {
	o := deviceOptions(t)
	o.Args = []string{"-faults"}
	layoutOnKernel(t, o)
}

// layoutOps are the ops whose rows of the table a test replaces, by the type of X.
var layoutOps = []detectors.Op{detectors.F32: sst.OpIKA, detectors.F64: lof.Op, detectors.I64: knn.Op}

func layoutOnKernel(t *testing.T, o Options) {
	for _, op := range layoutOps {
		defer plan.SetKernel(op, slices.Index(kernels.Tests, "fault_layout"))()
	}
	e := open(t, o)
	layoutOn(t, e)
	if s := e.Stats(); s.CPUTasks > 0 || s.Devices[0].Tasks == 0 || s.Devices[0].Faults > 0 {
		t.Errorf("%+v, want all tasks on the device", s)
	}
}

func layoutOn(t *testing.T, e detectors.Executor) {
	defer e.Close()
	for elem, op := range layoutOps {
		spec := op.Spec()
		old := *spec
		defer func() { *spec = old }()
		spec.Elem, spec.CPU = detectors.Elem(elem), layoutCPU
		spec.Cost = func(*detectors.Rows) int { return 1 }
	}
	rng := seedtest.New(t)
	b := e.Batch()
	defer e.Release(b)
	for range 4 {
		b.Reset()
		tasks := layoutTasks(rng, b)
		if err := e.Execute(context.Background(), b); err != nil {
			t.Fatal(err)
		}
		left := make([]int64, len(tasks))
		for i := range tasks {
			task := &tasks[i]
			carry := task.carry
			if task.after > 0 {
				carry = left[task.after-1]
			}
			scores, next, detail, after := layoutOf(task, carry)
			left[i] = after
			got := b.Rows(i)
			if !slices.Equal(got.Scores, scores) || !slices.Equal(bytesOf(got.Next), next) || !slices.Equal(bytesOf(got.Detail), detail) {
				t.Fatalf("task %d of %d, %+v\nleaves %v, % x, % x\nwant   %v, % x, % x", i, len(tasks), *task,
					got.Scores, bytesOf(got.Next), bytesOf(got.Detail), scores, next, detail)
			}
			if got.Next.Int64(0) != after || got.Detail.Float64(0) != math.Float64frombits(binary.LittleEndian.Uint64(detail)) {
				t.Fatalf("task %d leaves %d and %v", i, got.Next.Int64(0), got.Detail.Float64(0))
			}
		}
	}
}

// layoutTasks packs tasks of all types, some of them in chains.
func layoutTasks(rng *rand.Rand, b *detectors.Batch) (tasks []layoutTask) {
	models := []*detectors.Model{detectors.NewModel(testModel(0)), detectors.NewModel(testModel(1))}
	for range 60 {
		t := layoutTask{
			elem: detectors.Elem(rng.IntN(3)), dim: 1 + rng.IntN(3), fresh: 1 + rng.IntN(5),
			count: 1<<24 + 1 + rng.IntN(1<<30), seed: int64(rng.Uint64()), scale: rng.Float32(), negate: rng.IntN(2) == 0,
		}
		t.rows = t.fresh + rng.IntN(9)
		for range t.dim * t.rows {
			t.x, t.xi = append(t.x, 1e9+rng.NormFloat64()), append(t.xi, int64(rng.Uint64()))
		}
		for range 1 + rng.IntN(4) {
			t.times = append(t.times, int(int32(rng.Uint32())))
		}
		for range rng.IntN(4) {
			t.bins = append(t.bins, rng.Float32())
		}
		if rng.IntN(2) == 0 {
			t.carry = 1 + rng.Int64()
		}
		model := models[rng.IntN(2)]
		if rng.IntN(2) == 0 {
			t.model = model.Words()
		} else {
			model = nil
		}
		for link := range 1 + rng.IntN(2) {
			if link > 0 {
				t.after, t.carry = len(tasks), 0
			}
			b.Tasks = append(b.Tasks, t.pack(b, model))
			tasks = append(tasks, t)
		}
	}
	return tasks
}

// pack appends the task's spans.
func (t *layoutTask) pack(b *detectors.Batch, model *detectors.Model) detectors.Task {
	params := make(detectors.Words, layoutParams.Word("TIMES")+len(t.times))
	params.SetInt(layoutParams.Word("COUNT"), t.count)
	params.SetInt64(layoutParams.Word("SEED"), t.seed)
	params.SetFloat32(layoutParams.Word("SCALE"), t.scale)
	params.SetBool(layoutParams.Word("NEGATE"), t.negate)
	params.SetInt(layoutParams.Word("ELEM"), int(t.elem))
	for i, v := range t.times {
		params.SetInt(layoutParams.Word("TIMES")+i, v)
	}
	task := detectors.Task{Op: layoutOps[t.elem], Dim: uint32(t.dim), Fresh: uint32(t.fresh), After: uint32(t.after), Params: b.Put(params)}
	var f []float32
	task.Bins, f = b.GrowF32(len(t.bins))
	copy(f, t.bins)
	switch t.elem {
	case detectors.F32:
		task.X, f = b.GrowF32(len(t.x))
		for i, v := range t.x {
			f[i] = float32(v)
			t.x[i] = float64(f[i])
		}
	case detectors.F64:
		var x []float64
		task.X, x = b.GrowF64(len(t.x))
		copy(x, t.x)
	case detectors.I64:
		var x []int64
		task.X, x = b.GrowI64(len(t.xi))
		copy(x, t.xi)
	}
	if t.carry != 0 {
		w := make(detectors.Words, 2)
		w.SetInt64(0, t.carry)
		task.Carry = b.Put(w)
	}
	if model != nil {
		task.Model = b.Model(model)
	}
	b.GrowOutputs(&task, detectors.Outputs{Scores: t.fresh, Carry: 4, Detail: 5 * t.fresh})
	return task
}

func bytesOf(w detectors.Words) (b []byte) {
	for _, v := range w {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}
