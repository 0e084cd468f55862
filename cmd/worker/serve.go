package main

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"odradek/cmd/worker/config"
	"odradek/cmd/worker/preflight"
	"odradek/processor"
	"odradek/processor/metrics"
	"odradek/processor/web"
)

// worker has the state behind the status page and the probes.
type worker struct {
	c        *config.Config
	started  time.Time
	metrics  *metrics.Metrics
	executor string
	faults   *web.Faults
	p        atomic.Pointer[processor.Processor] // nil until it is built
}

func stdTerminal() terminal { return terminal{os.Stdout, os.Stderr, os.Environ()} }

func newLogger(w io.Writer, c *config.Config, faults *web.Faults) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.Program.LogLevel)) // checked with the configuration
	opts := &slog.HandlerOptions{Level: level}
	var h slog.Handler = slog.NewTextHandler(w, opts)
	if c.Program.LogFormat == "json" {
		h = slog.NewJSONHandler(w, opts)
	}
	return slog.New(faults.Handler(h))
}

// serve starts the HTTP servers that are configured.
func (w *worker) serve(log *slog.Logger) (stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, f := range stops {
			f()
		}
	}
	start := func(addr string, h http.Handler, serve func(string, http.Handler) (*web.Server, error)) error {
		if addr == config.Off || addr == "" {
			return nil
		}
		s, err := serve(addr, h)
		if err != nil {
			return err
		}
		stops = append(stops, func() { _ = s.Close() })
		return nil
	}
	src := web.Source{Status: w.status, Ready: w.ready, Healthy: w.healthy, Metrics: w.metrics.Registry}
	probes := web.Probes(src)
	if w.c.Program.PageAddr == w.c.Program.HTTPAddr {
		probes = web.Handler(src)
	} else if err := start(w.c.Program.PageAddr, web.Handler(src), web.Serve); err != nil {
		return nil, errors.Join(errors.New("worker: ODRADEK_PAGE_ADDR"), err)
	}
	if err := start(w.c.Program.HTTPAddr, probes, web.Serve); err != nil {
		stop()
		return nil, errors.Join(errors.New("worker: ODRADEK_HTTP_ADDR"), err)
	}
	if err := start(w.c.Program.PprofAddr, web.Pprof(), web.ServeLoopback); err != nil {
		stop()
		return nil, errors.Join(errors.New("worker: ODRADEK_PPROF_ADDR"), err)
	}
	log.Info("started", "version", buildVersion(), "group", w.c.Group.Group, "http", w.c.Program.HTTPAddr, "page", w.c.Program.PageAddr)
	return stop, nil
}

func (w *worker) ready() error {
	p := w.p.Load()
	if p == nil {
		return errors.New("worker: starting")
	}
	return p.NotReady()
}

func (w *worker) healthy() error {
	p := w.p.Load()
	if p == nil {
		if time.Since(w.started) > preflight.StartLimit+preflight.StartGrace { // otherwise the start ends by itself
			return errors.New("worker: not started yet")
		}
		return nil
	}
	return p.Stalled(w.c.Program.StallTimeout)
}

func (w *worker) status() web.Status {
	s := web.Status{
		Version: buildVersion(), Group: w.c.Group.Group, Instance: w.c.Group.InstanceID, State: "joining",
		Guarantee: w.c.Cycle.Guarantee, Executor: w.executor, Started: w.started, Rate: w.metrics.Rate(),
		EventToScore: [2]web.Duration{web.Duration(w.metrics.EventToScore(0.5)), web.Duration(w.metrics.EventToScore(0.99))},
		IngestTime:   [2]web.Duration{web.Duration(w.metrics.IngestToScore(0.5)), web.Duration(w.metrics.IngestToScore(0.99))},
		Faults:       w.faults.List(),
	}
	for i := range w.c.Detectors {
		d := &w.c.Detectors[i]
		s.Detectors = append(s.Detectors, web.Detector{Name: d.Name, Op: d.Op, Fields: strings.Join(d.Fields, ", "),
			Keys: strings.Join(d.Keys, ", "), Window: d.Window, Stride: d.Stride, Threshold: d.Alarm.Threshold})
	}
	for _, a := range w.metrics.RecentAnomalies() {
		s.Anomalies = append(s.Anomalies, web.Anomaly{Time: a.Time, Kind: a.Kind, Series: a.Key, Detector: a.Detector,
			Severity: a.Severity, Band: a.Band})
	}
	for _, o := range w.metrics.Outcomes() {
		out := web.NewOutcome(o.Topic, o.Consumed)
		for _, part := range o.Parts {
			out.Add(part.Name, part.Records)
		}
		s.Outcomes = append(s.Outcomes, out)
	}
	p := w.p.Load()
	if p == nil {
		return s
	}
	if s.State = "running"; !p.Ready() {
		s.State = "restoring"
	}
	for _, ps := range p.Status() {
		s.Partitions = append(s.Partitions, web.Partition{Quarantine: (*web.Quarantine)(ps.Quarantine), Topic: ps.Topic,
			Partition: ps.Partition, Running: ps.Running,
			Committed: ps.Committed, End: ps.End, Lag: ps.Lag, Keys: ps.Keys, Held: ps.Held, Late: ps.Late,
			Rate: w.metrics.Partition(ps.TP()).Rate(), CommittedAt: ps.CommittedAt,
			Hold: ps.Hold, HoldSince: ps.HoldSince, HighWatermark: ps.HighWatermark, FetchAge: web.Duration(ps.FetchAge), Lost: ps.Lost})
	}
	return s
}
