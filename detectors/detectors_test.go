package detectors

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"
)

func TestOpTable(t *testing.T) {
	for o := range opCount {
		s := o.Spec()
		if s.Name == "" || s.Score == nil || s.CPU == nil || s.Cost == nil || s.Compare == nil || s.Cases == nil {
			t.Errorf("op %d: an empty field in its row", o)
		}
		if got, ok := OpByName(o.String()); !ok || got != o {
			t.Errorf("OpByName(%q) = %d, %v; want %d", o, got, ok, o)
		}
	}
	if _, ok := OpByName("zsocre"); ok {
		t.Error("OpByName found a name that there is not")
	}
	if got := opCount.String(); got != fmt.Sprintf("op(%d)", uint32(opCount)) {
		t.Errorf("an unknown op is %q", got)
	}
}

// A task goes to a device as it lies.
func TestLayout(t *testing.T) {
	if n := unsafe.Sizeof(Task{}); n != 64 {
		t.Errorf("a task has %d bytes, want 64", n)
	}
}

// A Compare that accepts anything would make the conformance suite say nothing.
func TestCompareNotices(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	nan := float32(math.NaN())
	for _, op := range Ops() {
		s := op.Spec()
		c := s.Cases(rng)[0] // noise, or what gives a score above 0
		fresh := c.Fresh[0]
		n := c.Detector.Window() + fresh - 1
		_, carry, _ := c.Detector.Size(View{Dim: 1, Rows: n, Fresh: fresh})
		r := Rows{Dim: 1, Fresh: fresh, Params: c.Detector.Params(), Scores: make([]float32, fresh), Next: make(Words, carry)}
		for _, v := range c.Rows[:n] {
			if op.Elem() == F64 {
				r.X64 = append(r.X64, v)
			} else {
				r.X = append(r.X, float32(v))
			}
		}
		s.Score(r)
		want := Result{r.Scores, r.Next}
		f := func(name string, ok bool, change func(got *Result)) {
			t.Helper()
			got := Result{append([]float32(nil), r.Scores...), append(Words(nil), r.Next...)}
			change(&got)
			if err := s.Compare(&r, got, want); (err == nil) != ok {
				t.Errorf("%s: %s: Compare says %v", op, name, err)
			}
		}
		last := fresh - 1
		f("the same", true, func(*Result) {})
		f("a rounding", true, func(g *Result) { g.Scores[last] *= 1 + 0x1p-22 })
		f("a score off by 1e-3 of it", false, func(g *Result) { g.Scores[last] *= 1.001 })
		f("a NaN", false, func(g *Result) { g.Scores[last] = nan })
		f("a score too few", false, func(g *Result) { g.Scores = g.Scores[:last] })
		if carry > 0 {
			f("a carry off by 1e-3", false, func(g *Result) { g.Next.F32()[carry-1] += 1e-3 })
			f("no carry", false, func(g *Result) { g.Next = nil })
		}
	}
}

func TestIKASSTFaultsAreReportedTogether(t *testing.T) {
	_, err := NewIKASST(IKASSTParams{Window: 1, Rank: -1, Krylov: 40, Gamma: -5, PowerSteps: -1, Epsilon: 2})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"window", "rank", "Krylov", "gamma", "power steps", "epsilon"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not speak of %s: %v", want, err)
		}
	}
}

func TestIKASSTSizes(t *testing.T) {
	d := must(NewIKASST(IKASSTParams{Window: 100}))
	if got := d.Window(); got != 406 {
		t.Errorf("window of %d rows, want 4w+6 = 406", got)
	}
	if _, _, ok := d.Size(View{Dim: 1, Rows: 420, Fresh: 16}); ok {
		t.Error("one row too few is enough")
	}
	scores, carry, ok := d.Size(View{Dim: 3, Rows: 421, Fresh: 16})
	if !ok || scores != 16 || carry != 300 {
		t.Errorf("Size = %d, %d, %v; want 16, 300, true", scores, carry, ok)
	}
	f := d.AppendFindings(nil, Rows{Dim: 1, Fresh: 2, X: make([]float32, 407), Scores: []float32{0.25, 0.5}})
	// The newest row of the second is 406; its past ends with row 199, its
	// current begins with row 208.
	if want := (Finding{1, 200, 208, 0.5}); len(f) != 2 || f[1] != want {
		t.Errorf("findings %v, want the second to be %v", f, want)
	}
}

// The row's score is the largest of its values'.
func TestIKASSTOfSeveralValues(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	d := must(NewIKASST(IKASSTParams{Window: 20}))
	n := d.Window() + 3
	x, columns := make([]float32, 2*n), [2][]float32{make([]float32, n), make([]float32, n)}
	for i := range x {
		x[i] = float32(rng.NormFloat64())
		columns[i%2][i/2] = x[i]
	}
	run := func(x []float32, dim int) Result {
		r := Rows{Dim: dim, Fresh: 4, Params: d.Params(), X: x, Scores: make([]float32, 4), Next: make(Words, 20*dim)}
		ikasstCPU(t.Context(), &r, Serial)
		return Result{r.Scores, r.Next}
	}
	both, first, second := run(x, 2), run(columns[0], 1), run(columns[1], 1)
	for i, s := range both.Scores {
		if want := max(first.Scores[i], second.Scores[i]); s != want {
			t.Errorf("score %d is %v, want %v", i, s, want)
		}
	}
	for i, v := range append(first.Next, second.Next...) {
		if both.Next[i] != v {
			t.Fatalf("carry %d is %v, want %v", i, both.Next.Float32(i), Words{v}.Float32(0))
		}
	}
}

func TestSVDSSTSizes(t *testing.T) {
	d := must(NewSVDSST(SVDSSTParams{Window: 100}))
	if got := d.Window(); got != 406 {
		t.Errorf("window of %d rows, want 4w+6 = 406", got)
	}
	if _, _, ok := d.Size(View{Dim: 1, Rows: 420, Fresh: 16}); ok {
		t.Error("one row too few is enough")
	}
	scores, carry, ok := d.Size(View{Dim: 3, Rows: 421, Fresh: 16})
	if !ok || scores != 16 || carry != 0 {
		t.Errorf("Size = %d, %d, %v; want 16, 0, true", scores, carry, ok)
	}
	x := make([]float32, 407)
	same := must(NewIKASST(IKASSTParams{Window: 100})).AppendFindings(nil, Rows{Dim: 1, Fresh: 2, X: x, Scores: []float32{0.25, 0.5}})
	if f := d.AppendFindings(nil, Rows{Dim: 1, Fresh: 2, X: x, Scores: []float32{0.25, 0.5}}); !slices.Equal(f, same) {
		t.Errorf("findings %v, those of ikasst are %v", f, same)
	}
	_, err := NewSVDSST(SVDSSTParams{Window: 5, Rank: 5, Gamma: -1})
	for _, want := range []string{"rank", "gamma"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not speak of %s: %v", want, err)
		}
	}
}
