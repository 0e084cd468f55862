package sst

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"odradek/detectors"
)

func TestIKASSTFaultsAreReportedTogether(t *testing.T) {
	_, err := NewIKA(IKAOpParams{Window: 1, Rank: -1, Krylov: 40, Gamma: -5, PowerSteps: -1, Epsilon: 2})
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
	d := detectors.Must(NewIKA(IKAOpParams{Window: 100}))
	if got := d.Window(); got != 406 {
		t.Errorf("window of %d rows, want 4w+6 = 406", got)
	}
	if _, ok := d.Size(detectors.View{Dim: 1, Rows: 420, Fresh: 16}); ok {
		t.Error("one row too few is enough")
	}
	size, ok := d.Size(detectors.View{Dim: 3, Rows: 421, Fresh: 16})
	if !ok || size != (detectors.Outputs{Scores: 16, Carry: 300}) {
		t.Errorf("Size = %+v, %v; want 16 scores, a carry of 300, true", size, ok)
	}
	f := d.AppendFindings(nil, detectors.Rows{Dim: 1, Fresh: 2, X: make([]float32, 407), Scores: []float32{0.25, 0.5}})
	// The newest row of the second is 406; its past ends with row 199, its
	// current begins with row 208.
	if want := (detectors.Finding{Fresh: 1, From: 200, To: 208, Score: 0.5}); len(f) != 2 || !reflect.DeepEqual(f[1], want) {
		t.Errorf("findings %v, want the second to be %v", f, want)
	}
}

// The row's score is the largest of its values'.
func TestIKASSTOfSeveralValues(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	d := detectors.Must(NewIKA(IKAOpParams{Window: 20}))
	n := d.Window() + 3
	x, columns := make([]float32, 2*n), [2][]float32{make([]float32, n), make([]float32, n)}
	for i := range x {
		x[i] = float32(rng.NormFloat64())
		columns[i%2][i/2] = x[i]
	}
	run := func(x []float32, dim int) detectors.Result {
		r := detectors.Rows{Dim: dim, Fresh: 4, Params: d.Params(), X: x, Scores: make([]float32, 4), Next: make(detectors.Words, 20*dim)}
		ikaCPU(t.Context(), &r, detectors.Sequential)
		return detectors.Result{Scores: r.Scores, Next: r.Next}
	}
	both, first, second := run(x, 2), run(columns[0], 1), run(columns[1], 1)
	for i, s := range both.Scores {
		if want := max(first.Scores[i], second.Scores[i]); s != want {
			t.Errorf("score %d is %v, want %v", i, s, want)
		}
	}
	for i, v := range append(first.Next, second.Next...) {
		if both.Next[i] != v {
			t.Fatalf("carry %d is %v, want %v", i, both.Next.Float32(i), detectors.Words{v}.Float32(0))
		}
	}
}
