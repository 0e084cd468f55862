package series

import (
	"slices"
	"testing"
)

// TestWaits: samples become overdue in the order of their offsets, whichever list they are in.
func TestWaits(t *testing.T) {
	w := waits[string]{most: 10, released: func(key string, _ int64) bool { return key == "gone" }}
	w.loaded.list = append(w.loaded.list, arrival[string]{time: 1, offset: 3, key: "loaded"})
	for _, a := range []arrival[string]{{5, 2, "a"}, {6, 7, "b"}, {7, 5, "suspect"}, {8, 9, "gone"}} {
		w.add(a, 4)
	}
	overdue := func(offset int64) (keys []string) {
		w.Pass(offset)
		for {
			k, _, ok := w.Overdue()
			if !ok {
				return keys
			}
			keys = append(keys, k)
			w.PopOverdue()
		}
	}
	if got := overdue(11); len(got) > 0 {
		t.Errorf("overdue at 11 are %v", got)
	}
	if got := overdue(15); !slices.Equal(got, []string{"a", "loaded", "suspect"}) {
		t.Errorf("overdue at 15 are %v", got)
	}
	for len(w.arrived.list) < cap(w.arrived.list) {
		w.add(arrival[string]{8, 9, "gone"}, 1)
	}
	w.add(arrival[string]{9, 10, "c"}, 1) // there is no room, most are released
	if n := len(w.arrived.list); n != 2 {
		t.Errorf("%d arrivals are left, not b and c", n)
	}
	if got := overdue(100); !slices.Equal(got, []string{"b", "c"}) {
		t.Errorf("overdue at 100 are %v", got)
	}
	if w.reset(); w.overdue >= 0 {
		t.Errorf("offsets to %d are overdue after a reset", w.overdue)
	}
}
