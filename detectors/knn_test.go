package detectors

import (
	"math"
	"testing"
)

func TestKNNExplain(t *testing.T) {
	d, err := NewKNN(KNNParams{Window: 8, K: 2})
	if err != nil {
		t.Fatal(err)
	}
	r := Rows{Dim: 2, Fresh: 1, Params: d.Params(), X: []float32{0, 0, 2, 0, 50, 50, 90, 90, 1, 6}}
	expected, contribution := make([]float32, 2), make([]float32, 2)
	if !d.(Explainer).Explain(r, 0, expected, contribution) {
		t.Fatal("no explanation")
	}
	// The nearest are (0, 0) and (2, 0): 1 and 36 of squared distance each.
	if expected[0] != 1 || expected[1] != 0 || contribution[0] != float32(1.0/37) || contribution[1] != float32(36.0/37) {
		t.Errorf("expected %v, contribution %v", expected, contribution)
	}
	r.X[4] = float32(math.NaN())
	if d.(Explainer).Explain(r, 0, expected, contribution) {
		t.Error("a NaN is explained")
	}
	r.X = make([]float32, 10)
	if d.(Explainer).Explain(r, 0, expected, contribution) {
		t.Error("a score of 0 is explained")
	}
}

func TestKNNRefuses(t *testing.T) {
	for _, p := range []KNNParams{{}, {Window: 1}, {Window: 19}, {Window: 1<<20 + 1}, {Window: 64, K: -1}, {Window: 64, K: 33}, {Window: 64, Embed: -1}, {Window: 64, Embed: 1025}, {Window: 4096, K: 1025}} {
		if _, err := NewKNN(p); err == nil {
			t.Errorf("%+v passes", p)
		}
	}
	d, err := NewKNN(KNNParams{Window: 64, K: 3, Embed: 5})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, ok := d.Size(View{Dim: 1, Rows: 9, Fresh: 1}); ok || d.Window() != 68 {
		t.Error("nine rows are five points, too few for 2k")
	}
	if n, _, ok := d.Size(View{Dim: 1, Rows: 12, Fresh: 3}); n != 3 || !ok {
		t.Error("ten rows are six points, enough")
	}
}
