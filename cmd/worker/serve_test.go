package main

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"
)

// The worker ends by itself when brokers or registry do not answer within
// startLimit, so the probe does not end it before: not while the last attempt is
// still under way, however many things the start has had to wait for.
func TestHealthyWhileStarting(t *testing.T) {
	log, began := slog.New(slog.DiscardHandler), time.Now()
	down := errors.New("no answer")
	for _, c := range []struct {
		started  time.Duration // ago
		attempts int
		healthy  bool
	}{
		{0, 2, true},
		{startLimit, 1, true},
		{startLimit + startGrace/2, 1, true},
		{startLimit + startGrace + time.Second, 1, false},
	} {
		w := &worker{started: began.Add(-c.started)}
		if err := w.healthy(); (err == nil) != c.healthy {
			t.Errorf("started %s ago: %v", c.started, err)
		}
		attempts := 0
		err := retryStart(t.Context(), log, w.started.Add(startLimit), func(context.Context) error {
			if attempts++; attempts == 2 {
				return permanent(down)
			}
			return down
		})
		if !errors.Is(err, down) || attempts != c.attempts {
			t.Errorf("started %s ago: %d attempts: %v", c.started, attempts, err)
		}
	}
}
