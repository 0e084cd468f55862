package cycle

import (
	"testing"
	"time"
)

// TestPatience: one unknown schema holds a partition for the grace period, many of them for
// a small part of the time.
func TestPatience(t *testing.T) {
	var p Patience
	now := time.Unix(0, 0)
	const grace = 30 * time.Second
	wait := func(offset int64) (held time.Duration) {
		for ; !p.Spent(offset, grace, now); held += time.Second {
			now = now.Add(time.Second)
		}
		return held
	}
	if got := wait(1); got < grace || got > 2*grace {
		t.Errorf("the first schema holds for %s", got)
	}
	for o := int64(2); o < 100; o++ {
		if got := wait(o); got > 0 {
			t.Errorf("schema %d of a burst holds for %s", o, got)
		}
	}
	now = now.Add(time.Hour)
	if got := wait(100); got < grace {
		t.Errorf("an hour later a schema has only %s", got)
	}
	var held time.Duration
	began := now
	for o := int64(101); o < 500; o++ { // one every 10 s for an hour
		now = now.Add(10 * time.Second)
		held += wait(o)
	}
	if share := float64(held) / float64(now.Sub(began)); share > 0.15 {
		t.Errorf("a stream of unknown schemas holds the partition for %.0f %% of the time", 100*share)
	}
}
