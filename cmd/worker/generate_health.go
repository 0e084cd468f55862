package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"odradek/cmd/internal/page"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
)

// generatorStall is the longest pause between writes of a healthy generator; at low rates
// the time of two records is added.
const generatorStall = 30 * time.Second

// generatorPatience is for how long a generator tries to write while the brokers do not answer: as run, without an end
// that anyone waits for.
const generatorPatience = 100 * 365 * 24 * time.Hour

// slowWrite is how long a write takes before the log says that the brokers do not answer.
const slowWrite = 5 * time.Second

// pulse records when a generator last wrote something.
type pulse struct {
	last  atomic.Int64 // Unix nanoseconds
	limit time.Duration
}

func newPulse(rate float64) *pulse {
	p := &pulse{limit: generatorStall}
	if rate > 0 {
		p.limit += time.Duration(2 / rate * float64(time.Second))
	}
	p.last.Store(time.Now().UnixNano())
	return p
}

// watch notes each call of send that succeeds, and logs one that takes long.
func (p *pulse) watch(log *slog.Logger, send func(context.Context,
	map[kafka.TP]*record.Batches) error) func(context.Context, map[kafka.TP]*record.Batches) error {
	return func(ctx context.Context, m map[kafka.TP]*record.Batches) error {
		began := time.Now()
		slow := time.AfterFunc(slowWrite, func() { log.Warn("nothing could be written, trying on", "for", slowWrite) })
		err := send(ctx, m)
		if !slow.Stop() && err == nil {
			log.Info("written after all", "took", time.Since(began).Round(time.Millisecond))
		}
		if err == nil && len(m) > 0 {
			p.last.Store(time.Now().UnixNano())
		}
		return err
	}
}

// serve answers /healthz on addr until stop is called.
func (p *pulse) serve(addr string) (stop func(), err error) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		ago := time.Since(time.Unix(0, p.last.Load()))
		if ago > p.limit {
			http.Error(w, fmt.Sprintf("generate: nothing was written for %v", ago.Round(time.Second)), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	s, err := page.Serve(addr, mux, nil)
	if err != nil {
		return nil, fmt.Errorf("generate: -http: %w", err)
	}
	return func() { _ = s.Close() }, nil
}
