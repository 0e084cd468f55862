package config

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"odradek/processor"
	"odradek/processor/metrics"
)

// ReloadInterval is the time between two looks at the settings file. Its content is compared, not its time or
// its inode: Kubernetes swaps a symbolic link above it.
const ReloadInterval = 5 * time.Second

// Reloader has the settings in effect.
type Reloader struct {
	environ []string
	log     *slog.Logger
	level   *slog.LevelVar
	metrics *metrics.Metrics

	started    *Config
	current    atomic.Pointer[Config]
	changeable atomic.Pointer[processor.Changeable]
	seen       [sha256.Size]byte // of the file that was last read
	unreadable bool
}

// NewReloader returns the Reloader of a worker that runs with c, which it read from environ.
func NewReloader(environ []string, c *Config, log *slog.Logger, level *slog.LevelVar, m *metrics.Metrics) *Reloader {
	r := &Reloader{environ: environ, log: log, level: level, metrics: m, started: c}
	r.current.Store(c)
	m.SettingsLoaded(Hash(c), time.Now())
	return r
}

// Started returns the settings of the start.
func (r *Reloader) Started() *Config { return r.started }

// Settings returns the settings in effect.
func (r *Reloader) Settings() *Config { return r.current.Load() }

// Changeable is processor.Config.Changeable.
func (r *Reloader) Changeable() *processor.Changeable { return r.changeable.Load() }

// Watch takes up changed settings in the background, until ctx ends or stop is called.
func (r *Reloader) Watch(ctx context.Context) (stop func()) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	ticker := time.NewTicker(ReloadInterval)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx, hangup, ticker.C)
	}()
	return func() {
		signal.Stop(hangup)
		ticker.Stop()
		cancel()
		<-done
	}
}

// Run takes up settings when hangup receives, and when the settings file has changed at a tick, until ctx ends.
func (r *Reloader) Run(ctx context.Context, hangup <-chan os.Signal, ticks <-chan time.Time) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			r.changed()
			r.Reload()
		case <-ticks:
			first := r.seen == [sha256.Size]byte{} // the file may have changed since the start has read it
			if r.changed() {
				r.reload(!first)
			}
		}
	}
}

// changed reports whether the file has another content than at the last call. Faults of the file are Reload's, but
// one that cannot be read now may be about to be replaced.
func (r *Reloader) changed() bool {
	path := r.started.Program.ConfigFile
	if path == "" {
		return false
	}
	text, err := os.ReadFile(path)
	if err != nil {
		if !r.unreadable {
			r.log.Warn("the settings file cannot be read; the settings stay as they are", "err", err)
		}
		r.unreadable = true
		return false
	}
	sum := sha256.Sum256(text)
	same := sum == r.seen && !r.unreadable
	r.seen, r.unreadable = sum, false
	return !same
}

// Reload reads the settings anew and takes them up, all or none.
func (r *Reloader) Reload() { r.reload(true) }

// reload is Reload. With unchanged, the log says so where nothing has changed.
func (r *Reloader) reload(unchanged bool) {
	c, faults, warnings := Parse(r.environ)
	for _, f := range faults {
		r.log.Error("settings were not taken up: a fault", "fault", f.String())
	}
	if len(faults) > 0 {
		r.metrics.SettingsRefused()
		return
	}
	for _, w := range warnings {
		r.log.Warn("settings", "warning", w.String())
	}
	was := r.current.Load()
	p, err := Compare(r.started, was, c)
	switch {
	case err != nil:
		r.log.Error("settings were not taken up", "err", err)
		r.metrics.SettingsRefused()
	case len(p.Restart) > 0:
		empties := "nothing"
		if len(p.Empties) > 0 {
			empties = strings.Join(p.Empties, "; ")
		}
		r.log.Error("settings were not taken up, none of them: some need a restart", "settings", join(p.Restart), "a_restart_empties", empties)
		r.metrics.SettingsRefused()
	default:
		r.follow(c, p, unchanged)
	}
}

// follow has the worker follow c.
func (r *Reloader) follow(c *Config, p *Plan, unchanged bool) {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.Program.LogLevel)) // checked with the configuration
	r.level.Set(level)
	r.current.Store(c)
	r.metrics.SettingsLoaded(Hash(c), time.Now())
	if len(p.Live) == 0 {
		if unchanged {
			r.log.Info("settings were read again: nothing has changed")
		}
		return
	}
	r.changeable.Store(&processor.Changeable{State: p.State, ByName: p.ByName, Scores: scoresMode(c)})
	r.log.Info("changed settings were taken up", "settings", join(p.Live))
}

func join(changes []Change) string {
	var list []string
	for _, c := range changes {
		list = append(list, c.String())
	}
	return strings.Join(list, ", ")
}
