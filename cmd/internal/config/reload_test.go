package config

import (
	"bytes"
	"context"
	"crypto/sha256"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"odradek/processor/cycle"
)

const base = `group: g
topics: [in]
schema_registry_url: http://r:8081
detectors:
  level: {op: zscore, window: 16, threshold: fixed:3}
  change: {op: ikasst, window: 8}
`

// bench is a Reloader of a file.
type bench struct {
	*Reloader
	t     *testing.T
	file  string
	log   bytes.Buffer
	level slog.LevelVar
}

func newBench(t *testing.T, text string) *bench {
	t.Helper()
	b := &bench{t: t, file: filepath.Join(t.TempDir(), "plant.yaml")}
	b.write(text)
	environ := []string{"ODRADEK_CONFIG=" + b.file}
	c, faults, warnings := Parse(environ)
	if len(faults)+len(warnings) > 0 {
		t.Fatal(faults, warnings)
	}
	b.Reloader = NewReloader(environ, c, slog.New(slog.NewTextHandler(&b.log, nil)), &b.level, cycle.NewMetrics())
	b.changed()
	return b
}

func (b *bench) write(text string) {
	b.t.Helper()
	if err := os.WriteFile(b.file, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// edit replaces parts of base, reads it again and returns what the log says.
func (b *bench) edit(oldnew ...string) string {
	b.t.Helper()
	b.write(strings.NewReplacer(oldnew...).Replace(base))
	b.log.Reset()
	b.Reload()
	return b.log.String()
}

// gauge returns the value of a metric.
func (b *bench) gauge(name string) float64 {
	b.t.Helper()
	families, err := b.metrics.Registry.Gather()
	if err != nil {
		b.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	b.t.Fatalf("no metric %s", name)
	return 0
}

const successful = "odradek_settings_last_reload_successful"

// TestReloadLive: what may change at once does, and reaches the processor.
func TestReloadLive(t *testing.T) {
	b := newBench(t, base)
	if b.Changeable() != nil || b.gauge(successful) != 1 {
		t.Error("something has changed before the first reload")
	}
	if said := b.edit(); !strings.Contains(said, "nothing has changed") || b.Changeable() != nil {
		t.Errorf("the same file: %s", said)
	}
	said := b.edit("fixed:3", "fixed:5, direction: above, close_after: 3", "group: g", "group: g\nscores: anomalous\nlog_level: debug")
	for _, want := range []string{"taken up", "ODRADEK_DETECTOR_LEVEL_THRESHOLD: fixed:3 -> fixed:5", "DIRECTION: both -> above",
		"CLOSE_AFTER: 8 -> 3", "ODRADEK_SCORES: all -> anomalous", "LOG_LEVEL: info -> debug"} {
		if !strings.Contains(said, want) {
			t.Errorf("the log lacks %q: %s", want, said)
		}
	}
	now := b.Changeable()
	if now == nil || now.Scores != cycle.ScoresAnomalous || b.level.Level() != slog.LevelDebug || b.gauge(successful) != 1 {
		t.Fatalf("%+v, log level %v", now, b.level.Level())
	}
	d := &now.State.Detectors[0]
	if d.Threshold.Value != 5 || d.Guard == nil || d.Events.CloseAfter != 3 || b.Settings().Detectors[0].Alarm.Threshold != "fixed:5" {
		t.Errorf("detector level has %+v, %+v, %+v", d.Threshold, d.Guard, d.Events)
	}
}

// TestReloadSensitivity: the sensitivity of a preset changes its thresholds at once.
func TestReloadSensitivity(t *testing.T) {
	text, _, _ := strings.Cut(base, "detectors:")
	b := newBench(t, text)
	b.write("sensitivity: high\n" + text)
	b.Reload()
	now := b.Changeable()
	if now == nil || now.State.Detectors[0].Threshold.Value != 0.003 {
		t.Errorf("changed to %+v; the log says %s", now, &b.log)
	}
}

// TestReloadFirstLook: the first look at the file, which the start has read, logs nothing.
func TestReloadFirstLook(t *testing.T) {
	b := newBench(t, base)
	b.seen = [sha256.Size]byte{}
	ctx, cancel := context.WithCancel(t.Context())
	ticks, done := make(chan time.Time), make(chan struct{})
	go func() {
		defer close(done)
		b.Run(ctx, nil, ticks)
	}()
	ticks <- time.Time{}
	ticks <- time.Time{} // taken when the first look is over
	cancel()
	if <-done; b.log.Len() > 0 {
		t.Errorf("the log has %s", b.log.String())
	}
}

// TestReloadRefused: where one setting needs a restart, or has a fault, nothing is taken up, and the log says why.
func TestReloadRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		oldnew []string
		want   []string
	}{
		{"window", []string{"window: 16, threshold: fixed:3", "window: 20, threshold: fixed:9"},
			[]string{"ODRADEK_DETECTOR_LEVEL_WINDOW: 16 -> 20", `a_restart_empties="scores and progress of detector level"`}},
		{"mapping", []string{"group: g", "group: g\nkey_field: device.id"},
			[]string{"KEY_FIELD: @key -> device.id", "windows and scores of detector level; windows and scores of detector change"}},
		{"detector removed", []string{"  change: {op: ikasst, window: 8}\n", ""}, []string{"ODRADEK_DETECTORS: level,change -> level",
			"all that detector change remembers"}},
		{"no longer judged", []string{"fixed:3", "off"}, []string{"THRESHOLD: fixed:3 -> off", "a_restart_empties=nothing"}},
		{"not of the state", []string{"group: g", "group: g\nsession_timeout: 50s"}, []string{"SESSION_TIMEOUT: 45s -> 50s", "a_restart_empties=nothing"}},
		{"fault", []string{"fixed:3", "fixed:x"}, []string{"a fault", "plant.yaml:5: ODRADEK_DETECTOR_LEVEL_THRESHOLD"}},
		{"unknown name", []string{"window: 16", "windo: 16"}, []string{"did you mean window?"}},
		{"no YAML", []string{"group: g", "group: ["}, []string{"not YAML"}},
	} {
		b := newBench(t, base)
		said := b.edit(c.oldnew...)
		for _, want := range append(c.want, "not taken up", "level=ERROR") {
			if !strings.Contains(said, want) {
				t.Errorf("%s: the log lacks %q: %s", c.name, want, said)
			}
		}
		if b.Changeable() != nil || b.gauge(successful) != 0 || b.Settings() != b.Started() {
			t.Errorf("%s: something was taken up", c.name)
		}
		if b.edit(); b.gauge(successful) != 1 {
			t.Errorf("%s: the file as it was is not taken up", c.name)
		}
	}
	if said := newBench(t, base).edit("fixed:3", "fixed:3, shadow: true"); !strings.Contains(said, "LEVEL_SHADOW: false -> true") ||
		!strings.Contains(said, "need a restart") {
		t.Errorf("shadow mode without a topic: %s", said)
	}
	prepared := newBench(t, strings.Replace(base, "window: 8", "window: 8, shadow: false", 1))
	if prepared.edit("fixed:3", "fixed:3, shadow: true"); prepared.Changeable() == nil || !prepared.Changeable().State.Detectors[0].Shadow {
		t.Errorf("shadow mode with its topic: %s", prepared.log.String())
	}
	if prepared.edit(); prepared.Changeable().State.Detectors[0].Shadow {
		t.Errorf("promotion: %s", prepared.log.String())
	}
	none := newBench(t, "scores: none\n"+base) // its topic was not asked for
	if said := none.edit(); !strings.Contains(said, "ODRADEK_SCORES: none -> all") || !strings.Contains(said, "need a restart") {
		t.Errorf("scores without a topic: %s", said)
	}
}

// TestReloadRun: a signal has the settings read again, a tick does so where the file's content has changed, also behind a
// symbolic link that is swapped.
func TestReloadRun(t *testing.T) {
	b := newBench(t, base)
	link := filepath.Join(t.TempDir(), "link.yaml")
	if err := os.Symlink(b.file, link); err != nil {
		t.Fatal(err)
	}
	environ := []string{"ODRADEK_CONFIG=" + link}
	c, _, _ := Parse(environ)
	b.Reloader = NewReloader(environ, c, b.Reloader.log, &b.level, b.metrics)
	b.changed()
	hangup, ticks, done := make(chan os.Signal), make(chan time.Time), make(chan struct{})
	ctx := t.Context()
	go func() {
		defer close(done)
		b.Run(ctx, hangup, ticks)
	}()
	tick := func() {
		ticks <- time.Time{}
		ticks <- time.Time{} // received after the first is done
	}
	if tick(); b.Changeable() != nil {
		t.Error("a tick without a change")
	}
	swap := func(text string) {
		t.Helper()
		next := filepath.Join(t.TempDir(), "next.yaml")
		if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(next, link+".new"); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(link+".new", link); err != nil {
			t.Fatal(err)
		}
	}
	swap(strings.Replace(base, "fixed:3", "fixed:7", 1))
	tick()
	first := b.Changeable()
	if first == nil || first.State.Detectors[0].Threshold.Value != 7 {
		t.Fatalf("after a swap: %+v", first)
	}
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	tick() // nothing to read: the settings stay
	swap(strings.Replace(base, "fixed:3", "fixed:8", 1))
	hangup <- syscall.SIGHUP
	ticks <- time.Time{}
	if now := b.Changeable(); now == first || now.State.Detectors[0].Threshold.Value != 8 {
		t.Errorf("after a signal: %+v", now)
	}
}

// TestHash: workers with the same settings have the same hash, wherever they listen.
func TestHash(t *testing.T) {
	hash := func(text string) string { return Hash(newBench(t, text).Settings()) }
	want := hash(base)
	for text, same := range map[string]bool{
		base + "http_addr: :1234\ninstance_id: a\nstate_bytes: 1GiB\n": true,
		strings.Replace(base, "fixed:3", "fixed:4", 1):                 false,
		strings.Replace(base, "window: 8", "window: 9", 1):             false,
		base + "scores: none\n":                                        false,
	} {
		if (hash(text) == want) != same {
			t.Errorf("%s\nhas the same hash: %t", text, !same)
		}
	}
}

// TestReadingEmptiesNothing: how records are read may change with a restart, and empties no state: records that are read again
// are read as they were. What does empty state is named.
func TestReadingEmptiesNothing(t *testing.T) {
	for line, empties := range map[string]string{
		"lateness: 10s": "nothing", "lateness: 10s\nlateness_by: partition": "nothing",
		"max_held: 1000": "nothing", "max_future: 5m": "nothing", "missing: hold": "nothing",
		"duplicates: drop": "nothing", "max_jump: 1h": "nothing", "max_gap: 5m": "nothing",
		"key_field: id": "samples held for ODRADEK_LATENESS; windows and scores of detector level; windows and scores of detector change",
		"value_fields: [all.v]\nreadings_field: all": "all state (and is refused without ODRADEK_STATE_LOST=reset)",
	} {
		b := newBench(t, base)
		if said := b.edit("group: g", "group: g\n"+line); !strings.Contains(said, "a_restart_empties="+empties) &&
			!strings.Contains(said, `a_restart_empties="`+empties+`"`) {
			t.Errorf("%s: no %q in %s", line, empties, said)
		}
	}
}
