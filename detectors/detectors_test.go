package detectors

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
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

// A task is small, as there may be 100,000 in a batch.
func TestLayout(t *testing.T) {
	if n := unsafe.Sizeof(Task{}); n != 80 {
		t.Errorf("a task has %d bytes, want 80", n)
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
		size, _ := c.Detector.Size(View{Dim: 1, Rows: n, Fresh: fresh})
		carry := size.Carry
		r := Rows{Dim: 1, Fresh: fresh, Params: c.Detector.Params(), Scores: make([]float32, fresh), Next: make(Words, carry),
			Detail: make(Words, size.Detail)}
		for _, v := range c.Rows[:n] {
			switch op.Elem() {
			case F64:
				r.X64 = append(r.X64, v)
			case I64:
				r.XI = append(r.XI, Count(v))
			default:
				r.X = append(r.X, float32(v))
			}
		}
		s.Score(r)
		want := Result{Scores: r.Scores, Next: r.Next, Detail: r.Detail}
		f := func(name string, ok bool, change func(got *Result)) {
			t.Helper()
			got := Result{Scores: append([]float32(nil), r.Scores...), Next: append(Words(nil), r.Next...),
				Detail: append(Words(nil), r.Detail...)}
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
		if size.Detail > 0 {
			word := 0
			if op == Discords {
				word = 2 // the place: before it is a distance, of which 1 is a rounding
			}
			f("a word of detail that is another", false, func(g *Result) { g.Detail[word] ^= 1 << 22 })
			f("no detail", false, func(g *Result) { g.Detail = nil })
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
			t.Errorf("the error does not mention %s: %v", want, err)
		}
	}
}

func TestIKASSTSizes(t *testing.T) {
	d := must(NewIKASST(IKASSTParams{Window: 100}))
	if got := d.Window(); got != 406 {
		t.Errorf("window of %d rows, want 4w+6 = 406", got)
	}
	if _, ok := d.Size(View{Dim: 1, Rows: 420, Fresh: 16}); ok {
		t.Error("one row too few is enough")
	}
	size, ok := d.Size(View{Dim: 3, Rows: 421, Fresh: 16})
	if !ok || size != (Outputs{Scores: 16, Carry: 300}) {
		t.Errorf("Size = %+v, %v; want 16 scores, a carry of 300, true", size, ok)
	}
	f := d.AppendFindings(nil, Rows{Dim: 1, Fresh: 2, X: make([]float32, 407), Scores: []float32{0.25, 0.5}})
	// The newest row of the second is 406; its past ends with row 199, its
	// current begins with row 208.
	if want := (Finding{Fresh: 1, From: 200, To: 208, Score: 0.5}); len(f) != 2 || !reflect.DeepEqual(f[1], want) {
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
		ikasstCPU(t.Context(), &r, Sequential)
		return Result{Scores: r.Scores, Next: r.Next}
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
	if _, ok := d.Size(View{Dim: 1, Rows: 420, Fresh: 16}); ok {
		t.Error("one row too few is enough")
	}
	size, ok := d.Size(View{Dim: 3, Rows: 421, Fresh: 16})
	if !ok || size != (Outputs{Scores: 16}) {
		t.Errorf("Size = %+v, %v; want 16 scores, true", size, ok)
	}
	x := make([]float32, 407)
	same := must(NewIKASST(IKASSTParams{Window: 100})).AppendFindings(nil, Rows{Dim: 1, Fresh: 2, X: x, Scores: []float32{0.25, 0.5}})
	if f := d.AppendFindings(nil, Rows{Dim: 1, Fresh: 2, X: x, Scores: []float32{0.25, 0.5}}); !reflect.DeepEqual(f, same) {
		t.Errorf("findings %v, those of ikasst are %v", f, same)
	}
	_, err := NewSVDSST(SVDSSTParams{Window: 5, Rank: 5, Gamma: -1})
	for _, want := range []string{"rank", "gamma"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not mention %s: %v", want, err)
		}
	}
}
