package ops_test

import (
	"slices"
	"testing"

	"odradek/detectors"
	"odradek/detectors/seedtest"
)

// TestDirect requires of each detectors.Direct the results of the CPU executor, to the bit, from one task of a series to the next: in
// memory of their own, and in place where it says so.
func TestDirect(t *testing.T) {
	rng := seedtest.New(t)
	e := detectors.NewCPU(1)
	defer e.Close()
	tasks := map[string]int{}
	for _, op := range detectors.Ops() {
		for _, c := range op.Spec().Cases(rng) {
			d, ok := c.Detector.(detectors.Direct)
			if !ok {
				continue
			}
			score, inPlace := d.Direct()
			if score == nil {
				continue
			}
			end := len(c.Rows) / c.Dim
			for _, fresh := range c.Fresh {
				end -= fresh
			}
			var carry, own, place detectors.Words
			for _, fresh := range c.Fresh {
				end += fresh
				n := min(end, detectors.TaskRows(d, fresh))
				size, ok := d.Size(detectors.View{Dim: c.Dim, Rows: n, Fresh: fresh})
				if !ok {
					t.Fatalf("%s: too little history", c.Name)
				}
				b := e.Batch()
				task := detectors.Task{Op: op, Dim: uint32(c.Dim), Fresh: uint32(fresh), Params: b.Put(d.Params()), Carry: b.Put(carry)}
				if x := c.Rows[(end-n)*c.Dim : end*c.Dim]; op.Elem() == detectors.F64 {
					var to []float64
					task.X, to = b.GrowF64(len(x))
					copy(to, x)
				} else {
					var to []float32
					task.X, to = b.GrowF32(len(x))
					for i, v := range x {
						to[i] = float32(v)
					}
				}
				b.GrowOutputs(&task, size)
				b.Tasks = append(b.Tasks, task)
				if err := e.Execute(t.Context(), b); err != nil {
					t.Fatal(err)
				}
				want := b.Rows(0)
				alike := func(r *detectors.Rows, how string) {
					score(r)
					same := slices.EqualFunc(r.Scores, want.Scores, func(a, b float32) bool { return a == b || a != a && b != b })
					if !same || !slices.Equal(r.Next, want.Next) || !slices.Equal(r.Detail, want.Detail) {
						t.Errorf("%v, %s: task of %d rows %s: not the executor's result", op, c.Name, n, how)
					}
				}
				r := want
				r.Carry, r.Scores, r.Detail = own, make([]float32, size.Scores), make(detectors.Words, size.Detail)
				r.Next = make(detectors.Words, size.Carry)
				alike(&r, "apart")
				own = r.Next
				if inPlace {
					if r.Carry = place; place == nil {
						place = slices.Repeat(detectors.Words{7}, size.Carry) // of undefined content
					}
					r.Next, r.Scores, r.Detail = place, make([]float32, size.Scores), make(detectors.Words, size.Detail)
					alike(&r, "in place")
				}
				carry = slices.Clone(want.Next)
				e.Release(b)
				tasks[op.String()]++
			}
		}
	}
	for _, name := range []string{"zscore", "flatline", "value", "band", "season"} {
		if tasks[name] == 0 {
			t.Errorf("op %s has no task", name)
		}
	}
}
