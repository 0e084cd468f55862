package main

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"odradek/cmd/internal/admin"
	"odradek/cmd/internal/config"
	"odradek/cmd/internal/page"
	"odradek/processor/cycle"
)

// The worker ends by itself when brokers or registry do not answer within
// admin.StartLimit, so the probe does not end it before: not while the last attempt is
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
		{admin.StartLimit, 1, true},
		{admin.StartLimit + admin.StartGrace/2, 1, true},
		{admin.StartLimit + admin.StartGrace + time.Second, 1, false},
	} {
		w := &worker{started: began.Add(-c.started)}
		if err := w.healthy(); (err == nil) != c.healthy {
			t.Errorf("started %s ago: %v", c.started, err)
		}
		attempts := 0
		err := admin.Retry(t.Context(), log, w.started.Add(admin.StartLimit), func(context.Context) error {
			if attempts++; attempts == 2 {
				return admin.Permanent(down)
			}
			return down
		})
		if !errors.Is(err, down) || attempts != c.attempts {
			t.Errorf("started %s ago: %d attempts: %v", c.started, attempts, err)
		}
	}
}

// TestPageServer holds that the page, which shows names of series, is served only where
// PAGE_ADDR says, and metrics and probes where HTTP_ADDR says and there.
func TestPageServer(t *testing.T) {
	probes, body := freeAddr(t), freeAddr(t)
	c, faults, _ := config.Parse(append(minimal(), "ODRADEK_HTTP_ADDR="+probes, "ODRADEK_PAGE_ADDR="+body))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	w := &worker{c: c, started: time.Now(), metrics: cycle.NewMetrics(), faults: page.NewFaults(10)}
	w.settings = config.NewReloader(nil, c, slog.New(slog.DiscardHandler), new(slog.LevelVar), w.metrics)
	stop, err := w.serve(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for url, want := range map[string]int{probes + "/": 404, probes + "/status.json": 404, probes + "/metrics": 200, probes + "/healthz": 200,
		probes + "/readyz": 503,
		body + "/":         200, body + "/status.json": 200, body + "/metrics": 200, body + "/healthz": 200} {
		res, err := client.Get("http://" + url)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%s: %d, want %d", url, res.StatusCode, want)
		}
	}
}
