package seedtest

import "testing"

// TestNew: with a seed that is given two sources draw the same numbers; without, others.
func TestNew(t *testing.T) {
	first := New(t).Uint64()
	if again := New(t).Uint64(); again == first {
		t.Error("two new seeds draw the same number")
	}
	t.Setenv("ODRADEK_TEST_SEED", "42")
	if a, b := New(t).Uint64(), New(t).Uint64(); a != b || a == first {
		t.Errorf("seed 42 draws %d and %d, a new one %d", a, b, first)
	}
}
