package cycle

import (
	"testing"
	"time"
)

// TestBackpressure: small cycles and a lag that has grown for a minute are backpressure, until the lag shrinks for a minute
// or a cycle is larger.
func TestBackpressure(t *testing.T) {
	now, lag := time.Unix(0, 0), int64(1000)
	var b Backpressure
	run := func(name string, least bool, change int64, seconds int, want bool) {
		t.Helper()
		got := false
		for range seconds {
			now, lag = now.Add(time.Second), lag+change
			got = b.Note(least, lag, now)
		}
		if got != want {
			t.Errorf("%s: %t, want %t", name, got, want)
		}
	}
	run("the lag grows, cycles are large", false, 10, 100, false)
	run("cycles have been small for half a minute", true, 10, 30, false)
	run("for more than a minute", true, 10, 40, true)
	run("the lag has just begun to shrink", true, -10, 10, true)
	run("it shrinks", true, -10, 120, false)
	run("it grows again", true, 10, 130, true)
	run("a larger cycle", false, 10, 1, false)
}
