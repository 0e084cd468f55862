package ops_test

import (
	"math"
	"slices"
	"testing"

	"odradek/detectors"
	"odradek/detectors/seedtest"
)

// TestNewest requires of each explanation that has what was expected in place of the scored row what another one has that is about
// this row alone, to the bit.
func TestNewest(t *testing.T) {
	rng := seedtest.New(t)
	e := detectors.NewCPU(1)
	defer e.Close()
	compared := map[string]int{}
	for _, op := range detectors.Ops() {
		if op.String() != "knn" && op.String() != "discord" {
			continue // the others have none
		}
		for _, c := range op.Spec().Cases(rng) {
			d, ok := c.Detector.(detectors.Explainer)
			if !ok || len(c.Rows)/c.Dim > 4000 {
				continue
			}
			if _, modelled := d.(detectors.Modelled); modelled {
				continue
			}
			fresh := c.Fresh[len(c.Fresh)-1]
			n := min(len(c.Rows)/c.Dim, detectors.TaskRows(d, fresh))
			size, ok := d.Size(detectors.View{Dim: c.Dim, Rows: n, Fresh: fresh})
			if !ok {
				continue
			}
			x := c.Rows[len(c.Rows)-n*c.Dim:]
			for _, wide := range []bool{false, true} {
				b := e.Batch()
				task := detectors.Task{Op: op, Dim: uint32(c.Dim), Fresh: uint32(fresh), Params: b.Put(d.Params())}
				switch {
				case op.Elem() == detectors.F64:
					var to []float64
					task.X, to = b.GrowF64(len(x))
					copy(to, x)
				case wide:
					bits := make([]uint64, len(x))
					for i, v := range x {
						bits[i] = math.Float64bits(v)
					}
					b.PackWide(&task, bits, nil)
				default:
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
				r := b.Rows(0)
				expected, shares := make([]float64, c.Dim), make([]float64, c.Dim)
				again, same := make([]float64, c.Dim), make([]float64, c.Dim)
				every := 1
				if z, ok := d.(interface{ Every() int }); ok {
					every = z.Every()
				}
				for i := fresh - 1; i >= max(0, fresh-4*every); i -= every {
					row := r.Row(i)
					p, ok := d.Explain(r, i, 0, expected, shares)
					q, also := d.Explain(r, i, row, again, same)
					if ok != also || ok && !slices.Equal(shares, same) {
						t.Fatalf("%s: row %d is explained: %v, %v, shares %v, %v", c.Name, row, ok, also, shares, same)
					}
					if !ok || !p.HasNewest {
						continue
					}
					if want := again[detectors.Largest(same)]; q.Row != row || math.Float64bits(p.Newest) != math.Float64bits(want) {
						t.Errorf("%v, %s: %v is expected in place of row %d, want %v (%+v)", op, c.Name, p.Newest, row, want, q)
					}
					compared[op.String()]++
				}
				e.Release(b)
			}
		}
	}
	if compared["knn"] < 100 || compared["discord"] < 100 {
		t.Errorf("compared %v explanations", compared)
	}
}
