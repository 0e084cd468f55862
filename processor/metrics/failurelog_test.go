package metrics

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestFailureLog: a line at first, one a minute with the count, and one at the end.
func TestFailureLog(t *testing.T) {
	now := time.Unix(1700000000, 0)
	lines := new(logLines)
	log := slog.New(slog.NewTextHandler(lines, nil))
	tr := FailureLog{now: func() time.Time { return now }}
	for range 150 { // a second apart: 0, 60 and 120 are logged
		tr.Warn(log, "cycle unknown", "cycle failed", "err", "x")
		now = now.Add(time.Second)
	}
	tr.Warn(log, "cycle fenced", "cycle failed", "err", "y") // another kind
	if got := lines.with("cycle failed"); len(got) != 4 || !strings.Contains(got[1], "times=60 ") || !strings.Contains(got[3], "err=y") {
		t.Errorf("%q", got)
	}
	tr.Over(log, "cycle") // every other one succeeds: the trouble lasts
	if got := lines.with("over:"); len(got) != 0 {
		t.Errorf("over too early: %q", got)
	}
	now = now.Add(calm)
	tr.Over(log, "cycle")
	tr.Over(log, "cycle")
	if got := lines.with("over: cycle failed"); len(got) != 1 || !strings.Contains(got[0], "times=150 lasted=2m40s") {
		t.Errorf("%q", got)
	}
	tr.Warn(log, "cycle unknown", "cycle failed", "err", "again")
	if got := lines.with("err=again"); len(got) != 1 {
		t.Errorf("a trouble that comes back: %q", got)
	}
}

// logLines are the lines of a log.
type logLines struct{ bytes.Buffer }

// with returns the lines that contain text.
func (l *logLines) with(text string) (found []string) {
	for line := range strings.Lines(l.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}
