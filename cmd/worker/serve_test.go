package main

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"odradek/cmd/worker/config"
	"odradek/cmd/worker/preflight"
	"odradek/cmd/worker/reload"
	"odradek/processor/cycle"
	"odradek/processor/web"
)

// The worker ends by itself when brokers or registry do not answer within
// preflight.StartLimit, so the probe does not end it before: not while the last attempt is
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
		{preflight.StartLimit, 1, true},
		{preflight.StartLimit + preflight.StartGrace/2, 1, true},
		{preflight.StartLimit + preflight.StartGrace + time.Second, 1, false},
	} {
		w := &worker{started: began.Add(-c.started)}
		if err := w.healthy(); (err == nil) != c.healthy {
			t.Errorf("started %s ago: %v", c.started, err)
		}
		attempts := 0
		err := preflight.Retry(t.Context(), log, w.started.Add(preflight.StartLimit), func(context.Context) error {
			if attempts++; attempts == 2 {
				return preflight.Permanent(down)
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
	probes, page := freeAddr(t), freeAddr(t)
	c, faults, _ := config.Parse(append(minimal(), "ODRADEK_HTTP_ADDR="+probes, "ODRADEK_PAGE_ADDR="+page))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	w := &worker{c: c, started: time.Now(), metrics: cycle.NewMetrics(), faults: web.NewFaults(10)}
	w.settings = reload.New(nil, c, slog.New(slog.DiscardHandler), new(slog.LevelVar), w.metrics)
	stop, err := w.serve(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for url, want := range map[string]int{probes + "/": 404, probes + "/status.json": 404, probes + "/metrics": 200, probes + "/healthz": 200,
		probes + "/readyz": 503,
		page + "/":         200, page + "/status.json": 200, page + "/metrics": 200, page + "/healthz": 200} {
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
