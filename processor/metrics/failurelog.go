package metrics

import (
	"log/slog"
	"strings"
	"sync"
	"time"
)

// SummaryEvery is the least time between two log lines about the same: a trouble, late records, suspects, evictions.
const SummaryEvery = time.Minute

// calm is the time without a failure after which a trouble is over: what fails every
// other time is one trouble.
const calm = 10 * time.Second

// FailureLog limits the log lines of repeated failures: one when a trouble begins, one a
// minute with the number of failures since, and one when it is over.
type FailureLog struct {
	mu   sync.Mutex
	open map[string]*episode
	now  func() time.Time // nil: the clock
}

// episode is one trouble from its begin to its end.
type episode struct {
	msg           string
	began, logged time.Time
	last          time.Time
	since, total  int // failures since the last line, and of all
}

// Warn logs a failure, unless a line of the same kind was written less than a minute
// ago.
func (l *FailureLog) Warn(log *slog.Logger, kind, msg string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock()
	e := l.open[kind]
	if e == nil {
		if l.open == nil {
			l.open = map[string]*episode{}
		}
		e = &episode{msg: msg, began: now}
		l.open[kind] = e
	}
	e.total++
	e.last = now
	if e.since++; e.total > 1 && now.Sub(e.logged) < SummaryEvery {
		return
	}
	if e.total > 1 {
		args = append(args, "times", e.since, "since", e.began.UTC().Format(time.RFC3339))
	}
	e.logged, e.since = now, 0
	log.Warn(msg, args...)
}

// Over ends the troubles whose kind begins with prefix, once it is calm. It is
// called whenever what they are about succeeds. A single failure needs no second line.
func (l *FailureLog) Over(log *slog.Logger, prefix string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for kind, e := range l.open {
		if !strings.HasPrefix(kind, prefix) || l.clock().Sub(e.last) < calm {
			continue
		}
		delete(l.open, kind)
		if e.total > 1 {
			log.Info("over: "+e.msg, "times", e.total, "lasted", l.clock().Sub(e.began).Round(time.Millisecond))
		}
	}
}

func (l *FailureLog) clock() time.Time {
	if l.now != nil {
		return l.now()
	}
	return time.Now()
}
