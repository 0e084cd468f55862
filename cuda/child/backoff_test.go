//go:build linux

package child

import (
	"testing"
	"time"
)

// TestBackoff compares the waits before the next child, for sequences of deaths.
func TestBackoff(t *testing.T) {
	type death struct {
		lived  time.Duration
		killed bool
		want   time.Duration
	}
	const s = time.Second
	for _, c := range []struct {
		name string
		row  []death
	}{
		{"a batch that breaks the device each time",
			[]death{{s, false, 0}, {0, false, s / 2}, {0, false, s}, {0, false, 2 * s}, {0, false, 4 * s}, {0, false, 8 * s}, {0, false, 16 * s},
				{0, false, 32 * s}, {0, false, 32 * s}}},
		{"killed every few seconds", []death{{3 * s, true, 0}, {3 * s, true, 0}, {3 * s, true, 0}, {3 * s, true, 0}, {s / 2, true, 0}}},
		{"killed as soon as it is there", []death{{0, true, s / 2}, {0, true, s / 2}, {0, true, s / 2}}},
		{"forgotten", []death{{s, false, 0}, {0, false, s / 2}, {0, false, s}, {0, false, 2 * s}, {9 * s, false, 0}, {0, false, s / 2}}},
		{"killed in between", []death{{s, false, 0}, {0, false, s / 2}, {s / 2, true, 0}, {0, false, s}}},
	} {
		b := backoff{retry: s / 2}
		for i, d := range c.row {
			if got := b.after(d.lived, d.killed); got != d.want {
				t.Errorf("%s: death %d is followed by a wait of %v, want %v", c.name, i, got, d.want)
			}
		}
	}
	b := backoff{retry: s / 2}
	b.after(time.Hour, false)
	for i, want := range []time.Duration{s, 2 * s, 4 * s} {
		if got := b.again(); got != want {
			t.Errorf("start %d that fails is followed by a wait of %v, want %v", i, got, want)
		}
	}
}
