package processor

import (
	"testing"
	"time"
)

// TestCommands: the strongest of several commands is taken, wait leaves it for take, and a
// wake-up whose command was taken already stops nothing.
func TestCommands(t *testing.T) {
	c := newCommands()
	wait := func(d time.Duration, want bool) {
		t.Helper()
		if stop, err := c.wait(t.Context(), d); stop != want || err != nil {
			t.Errorf("wait stops: %t (%v), want %t", stop, err, want)
		}
	}
	wait(0, false)
	for _, cmd := range []command{goBack, startOver, goBack} {
		c.send(cmd)
	}
	wait(time.Hour, true)
	if len(c.ready) != 1 {
		t.Error("the command is not left for take")
	}
	if cmd := c.receive(); cmd != startOver {
		t.Errorf("command %d was taken, want %d", cmd, startOver)
	}
	wait(time.Millisecond, false) // ready may still be set
	if cmd := c.receive(); cmd != goOn {
		t.Errorf("command %d was taken from none", cmd)
	}
}
