package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"odradek/cmd/internal/admin"
	"odradek/cmd/internal/config"
	"odradek/cmd/internal/page"
	"odradek/processor/kafka"
	"odradek/processor/metrics"
	"odradek/schemas/registry"
)

// worker has the state behind the status page and the probes.
type worker struct {
	c        *config.Config // of the start
	settings *config.Reloader
	started  time.Time
	metrics  *metrics.Metrics
	instance string // id of a static member
	executor string
	gpus     func() []page.GPU // nil without any
	faults   *page.Faults
	ps       atomic.Pointer[processors]        // nil until they are built
	explorer atomic.Pointer[page.Explorer]     // nil until there is one, and where the page has none
	reader   atomic.Pointer[page.RecordReader] // as explorer
}

func stdTerminal() terminal { return terminal{os.Stdout, os.Stderr, os.Environ()} }

// newLogger returns the logger of a configuration, whose level it sets.
func newLogger(w io.Writer, c *config.Config, level *slog.LevelVar, faults *page.Faults) *slog.Logger {
	_ = level.UnmarshalText([]byte(c.Program.LogLevel)) // checked with the configuration
	opts := &slog.HandlerOptions{Level: level, ReplaceAttr: withVariables}
	var h slog.Handler = slog.NewTextHandler(w, opts)
	if c.Program.LogFormat == "json" {
		h = slog.NewJSONHandler(w, opts)
	}
	return slog.New(faults.Handler(h))
}

// withVariables has the log name settings by their variables, in messages, errors and texts.
func withVariables(_ []string, a slog.Attr) slog.Attr {
	switch v := a.Value.Any().(type) {
	case string:
		a.Value = slog.StringValue(config.WithVariables(v))
	case error:
		a.Value = slog.StringValue(config.WithVariables(v.Error()))
	}
	return a
}

// serve starts the HTTP servers that are configured.
func (w *worker) serve(log *slog.Logger) (stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, f := range stops {
			f()
		}
	}
	start := func(addr string, h http.Handler, serve func(string, http.Handler, *tls.Config) (*page.Server, error), t *tls.Config) error {
		if addr == config.Off || addr == "" {
			return nil
		}
		s, err := serve(addr, h, t)
		if err != nil {
			return err
		}
		stops = append(stops, func() { _ = s.Close() })
		return nil
	}
	pageTLS, err := w.c.PageTLS()
	if err != nil {
		return nil, fmt.Errorf("worker: ODRADEK_PAGE_TLS_CERT_FILE: %w", err)
	}
	src := page.Source{Status: w.status, Ready: w.ready, Healthy: w.healthy, Metrics: w.metrics.Registry,
		Access: page.Access{Token: w.c.Program.PageToken.Reveal(), ClientCertificates: w.c.Program.PageClientCA != "",
			Hosts: w.c.Program.PageHosts},
		Explorer: w.group, Records: w.records}
	probes := page.Probes(src)
	if w.c.Program.PageAddr == w.c.Program.HTTPAddr {
		probes = page.Handler(src)
	} else if err := start(w.c.Program.PageAddr, page.Handler(src), page.Serve, pageTLS); err != nil {
		return nil, errors.Join(errors.New("worker: ODRADEK_PAGE_ADDR"), err)
	}
	if err := start(w.c.Program.HTTPAddr, probes, page.Serve, nil); err != nil {
		stop()
		return nil, errors.Join(errors.New("worker: ODRADEK_HTTP_ADDR"), err)
	}
	if err := start(w.c.Program.PprofAddr, page.Pprof(), page.ServeLoopback, nil); err != nil {
		stop()
		return nil, errors.Join(errors.New("worker: ODRADEK_PPROF_ADDR"), err)
	}
	if w.c.PageIsOpen() {
		log.Warn("whoever reaches the page may read names and values of series; set ODRADEK_PAGE_TOKEN or ODRADEK_PAGE_TLS_CLIENT_CA_FILE, "+
			"or ODRADEK_PAGE_ADDR to a loopback address", "page", w.c.Program.PageAddr)
	}
	log.Info("started", "version", buildVersion(), "group", w.c.Group.Group, "http", w.c.Program.HTTPAddr, "page", w.c.Program.PageAddr)
	return stop, nil
}

func (w *worker) ready() error {
	ps := w.ps.Load()
	if ps == nil {
		return errors.New("worker: starting")
	}
	return ps.NotReady()
}

func (w *worker) healthy() error {
	ps := w.ps.Load()
	if ps == nil {
		if time.Since(w.started) > admin.StartLimit+admin.StartGrace { // otherwise the start ends by itself
			return errors.New("worker: not started yet")
		}
		return nil
	}
	return ps.Stalled(w.c.StallLimit())
}

func (w *worker) status() page.Status {
	m := page.Worker{
		Config: w.settings.Settings(), Instance: w.instance, Version: buildVersion(), Started: w.started, Metrics: w.metrics,
		Executor: w.executor, GPUs: w.gpus,
		Faults: w.faults,
	}
	if ps := w.ps.Load(); ps != nil {
		return m.Status(ps)
	}
	return m.Status(nil)
}

// explore starts the explorer of the page. The returned function ends it.
func (w *worker) explore(ctx context.Context, client *kafka.Client, registry *registry.Client, log *slog.Logger) (stop func(), err error) {
	if w.c.Program.PageAddr == config.Off {
		return func() {}, nil
	}
	cfg, err := page.Configure(w.c, client, registry, log)
	if err != nil {
		return nil, err
	}
	cfg.Backtests = &page.Backtests{Started: w.settings.Started(), Settings: w.settings.Settings, Registry: registry}
	e, stop := page.Start(ctx, cfg)
	w.explorer.Store(e)
	read := page.Records(w.settings.Started, client, registry)
	w.reader.Store(&read)
	return stop, nil
}

// records returns what reads input records for the page; nil before the brokers are reached.
func (w *worker) records() page.RecordReader {
	if read := w.reader.Load(); read != nil {
		return *read
	}
	return nil
}

// group returns the explorer; nil before there is one.
func (w *worker) group() page.DataSource {
	if e := w.explorer.Load(); e != nil {
		return e
	}
	return nil
}
