package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"odradek/cmd/internal/why"
	"odradek/detectors/seedtest"
	"odradek/processor/kafkatest"
)

// TestShadowMode: a detector is promoted and demoted while workers are killed, join and leave. Both topics of anomalies, and
// the scores, have what one undisturbed worker publishes: each anomaly in one topic, from its opening on, anomalies of the
// detector in shadow mode in no group and uncounted by the metric of the others.
func TestShadowMode(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *kafkatest.Cluster) {
		rng := seedtest.New(t)
		ctx := context.Background()
		input := c.Topic(t, "in", 2)
		m := newMeasurements(t, c.RegistryURL(t), input)
		var parts [][]kafkatest.Record
		for _, n := range []int{600, 48, 900, 300, 300, 300} {
			parts = append(parts, walk(t, m, input, rng, 6, n))
		}
		file := filepath.Join(t.TempDir(), "plant.yaml")
		write := func(shadow string) {
			t.Helper()
			must(t, os.WriteFile(file, []byte("detectors:\n  change: {op: ikasst, window: 8, stride: 4, threshold: quantile:0.9, history: 64}\n"+
				"  level: {op: zscore, window: 16, threshold: quantile:0.9, history: 64, close_after: 20, shadow: "+shadow+"}\n"), 0o600))
		}
		fleetOf := func(group string) *fleet {
			return newFleet(t, c, input, group, "CONFIG="+file, "DETECTORS=", "DETECTOR_CHANGE_OP=", "DETECTOR_CHANGE_WINDOW=",
				"DETECTOR_CHANGE_STRIDE=", "DETECTOR_LEVEL_OP=", "DETECTOR_LEVEL_WINDOW=", "REPLAY_LIMIT=1h", "MISSING=hold",
				"GROUP_BY=^sensor", "GROUP_WINDOW=1h")
		}
		f, calm := fleetOf(input+"-g"), fleetOf(input+"-calm")
		produce := func(i int, done bool) {
			t.Helper()
			_, err := c.ProduceAcked(ctx, parts[i])
			must(t, err)
			if done {
				f.waitDone()
				calm.waitDone()
			}
		}
		// reload changes the mode in all workers, between two records of each partition: everything before is committed.
		reload := func(shadow string, workers ...*child) {
			t.Helper()
			write(shadow)
			for _, w := range workers {
				must(t, w.cmd.Process.Signal(syscall.SIGHUP))
			}
			for _, w := range workers {
				w.waitLogged(t, "SHADOW: "+map[string]string{"true": "false -> true", "false": "true -> false"}[shadow])
			}
		}

		write("true")
		a, one := f.start("a", "INSTANCE_ID=a"), calm.start("calm")
		produce(0, true)
		reload("false", a, one)
		produce(1, true)
		a.kill()
		a = f.start("a-killed", "INSTANCE_ID=a", "TEST_FAILPOINT=before-end")
		produce(2, false)
		a.exit(t)
		a = f.start("a-again", "INSTANCE_ID=a")
		a.waitReady(t)
		b := f.start("b", "INSTANCE_ID=b")
		b.waitReady(t)
		produce(3, true)
		reload("true", a, b, one)
		produce(4, true)
		if code := b.drain(t); code != exitOK {
			t.Errorf("the leaving worker ended with %d", code)
		}
		produce(5, true)

		live, shadow := calm.anomalies(), calm.anomaliesOf(calm.group+"-anomalies-shadow")
		for _, counted := range []struct {
			metric string
			list   []published
		}{{"odradek_anomalies_total", live}, {"odradek_shadow_anomalies_total", shadow}} {
			n := 0
			for _, r := range counted.list {
				if r.detector == "level" {
					n++
				}
			}
			got := -1.0
			for end := time.Now().Add(patience); got != float64(n) && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
				counts := scrape(t, one.http) // again, as a commit is seen before it is counted
				got = 0
				for _, kind := range []string{"open", "update", "close"} {
					got += counts[counted.metric+`{detector="level",kind="`+kind+`"}`]
				}
			}
			if got != float64(n) || n == 0 {
				t.Errorf("%s of detector level counts %v of %d records", counted.metric, got, n)
			}
		}
		for name, want := range map[string][]published{"-anomalies": live, "-anomalies-shadow": shadow} {
			got := f.anomaliesOf(f.group + name)
			for _, fault := range append(append(lifeFaults(got), lifeFaults(want)...), sameLives(want, got)...) {
				t.Errorf("%s: %s", name, fault)
			}
			if len(want) < 20 {
				t.Errorf("%s: %d changes", name, len(want))
			}
		}
		if r, code, errs := runWhy(t, calm.settings(), shadow[len(shadow)-1].id); code != exitOK || r.Anomaly.ID != shadow[len(shadow)-1].id ||
			r.Verdict != why.Equal {
			t.Errorf("why of an anomaly in shadow mode: exit %d, %+v, %s", code, r.Anomaly, errs)
		}
		ids := map[string]bool{}
		for _, r := range live {
			ids[r.id] = true
		}
		ended := map[bool]int{}
		for _, r := range shadow {
			if r.detector != "level" || r.group != "" || ids[r.id] {
				t.Errorf("in shadow mode: %s", r.content)
			}
		}
		for i, list := range [][]published{live, shadow} {
			for _, r := range list {
				if r.reason == "detector_removed" {
					ended[i == 1]++
				}
			}
		}
		scores, doubled := f.scores()
		undisturbed, _ := calm.scores()
		compare(t, "scores", undisturbed, scores)
		t.Logf("%d changes of live anomalies, %d in shadow mode; %d ended by demotion, %d by promotion",
			len(live), len(shadow), ended[false], ended[true])
		if len(doubled) > 0 || ended[true] == 0 || ended[false] == 0 {
			t.Errorf("%d scores doubled; %v", len(doubled), ended)
		}
		a.drain(t)
		one.drain(t)

		// Without the setting the topic is not needed, and a change to shadow mode has to wait for a restart.
		must(t, os.WriteFile(file, []byte("detectors:\n  level: {op: zscore, window: 16}\n"), 0o600))
		plain := fleetOf(input + "-plain")
		w := plain.start("plain")
		w.waitReady(t)
		must(t, os.WriteFile(file, []byte("detectors:\n  level: {op: zscore, window: 16, shadow: true}\n"), 0o600))
		must(t, w.cmd.Process.Signal(syscall.SIGHUP))
		w.waitLogged(t, "settings were not taken up")
		if said := strings.Join(w.lines("settings were not taken up"), ""); !strings.Contains(said, "LEVEL_SHADOW: false -> true") {
			t.Errorf("the log says %s", said)
		}
		if recs, err := c.Admin().ReadAll(ctx, plain.group+"-anomalies-shadow", true); err == nil {
			t.Errorf("a topic for shadow mode, which no detector is in, with %d records", len(recs))
		}
		w.drain(t)
	})
}
