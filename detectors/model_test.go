package detectors_test

import (
	"testing"

	"odradek/detectors"
	"odradek/detectors/simple"
)

// TestBatchModel requires that a batch finds its models by content, gives each a place, and forgets
// them on Reset.
func TestBatchModel(t *testing.T) {
	one, same, other := detectors.NewModel(detectors.Words{1, 2, 3}), detectors.NewModel(detectors.Words{1, 2, 3}),
		detectors.NewModel(detectors.Words{1, 2, 4})
	if one.Sum() != same.Sum() || one.Sum() == other.Sum() || detectors.NewModel(make(detectors.Words,
		1024)).Sum() == detectors.NewModel(make(detectors.Words, 1025)).Sum() {
		t.Fatal("the sum is not the content's")
	}
	var b detectors.Batch
	for range 2 {
		at := b.Model(other)
		if at != (detectors.Span{0, 3}) || b.Model(one) != (detectors.Span{64, 3}) || b.Model(same) != b.Model(one) || b.Model(other) != at {
			t.Errorf("models at %v, %v, %v", at, b.Model(one), b.Model(same))
		}
		n := 0
		b.Models(func(m *detectors.Model, at detectors.Span) {
			if b.Model(m) != at {
				t.Errorf("a model at %v, and at %v", at, b.Model(m))
			}
			n++
		})
		if n != 2 {
			t.Errorf("%d models, want 2", n)
		}
		b.Tasks = append(b.Tasks, detectors.Task{Op: simple.OpZScore, Dim: 1, Model: b.Model(same)}, detectors.Task{Op: simple.OpZScore, Dim: 1})
		if r := b.Rows(0); len(r.Model) != 3 || r.Model[2] != 3 {
			t.Errorf("the task's model is %v", r.Model)
		}
		if r := b.Rows(1); r.Model != nil {
			t.Errorf("a task without a model has %v", r.Model)
		}
		b.Reset()
		n = 0
		if b.Models(func(*detectors.Model, detectors.Span) { n++ }); n != 0 {
			t.Errorf("%d models after Reset", n)
		}
	}
}
