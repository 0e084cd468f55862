package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"odradek/detectors/seedtest"
	"odradek/processor/kafkatest"
)

// TestReload: thresholds, guards and policies of anomalies that change while workers run hold from one offset of each
// partition on. Workers that are killed, and read the input again from before the change, publish what one undisturbed
// worker does. A change that needs a restart is refused with what it would empty.
func TestReload(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *kafkatest.Cluster) {
		rng := seedtest.New(t)
		ctx := context.Background()
		const partitions = 2
		input := c.Topic(t, "in", partitions)
		m := newMeasurements(t, c.RegistryURL(t), input)
		var parts [][]kafkatest.Record
		for _, n := range []int{600, 48, 1200} { // few after the change: heads of most series are older
			parts = append(parts, walk(t, m, input, rng, 6, n))
		}
		file := filepath.Join(t.TempDir(), "plant.yaml")
		write := func(level string) {
			t.Helper()
			must(t, os.WriteFile(file, []byte("detectors:\n  change: {op: ikasst, window: 8, stride: 4, threshold: fixed:1e9}\n"+
				"  level: {op: zscore, "+level+"}\n"), 0o600))
		}
		const before, after = "window: 16, threshold: quantile:0.9, history: 64, close_after: 2",
			"window: 16, threshold: quantile:0.8, history: 96, direction: above, open_after: 2, close_after: 5"
		fleetOf := func(group string) *fleet {
			f := newFleet(t, c, input, group, "CONFIG="+file, "DETECTORS=", "DETECTOR_CHANGE_OP=", "DETECTOR_CHANGE_WINDOW=",
				"DETECTOR_CHANGE_STRIDE=", "DETECTOR_LEVEL_OP=", "DETECTOR_LEVEL_WINDOW=", "REPLAY_LIMIT=1h", "INSTANCE_ID=one", "MISSING=hold")
			write(before)
			return f
		}
		reload := func(w *child, level string) {
			t.Helper()
			write(level)
			must(t, w.cmd.Process.Signal(syscall.SIGHUP))
			w.waitLogged(t, "changed settings were taken up")
		}
		produce := func(i int) {
			t.Helper()
			_, err := c.ProduceAcked(ctx, parts[i])
			must(t, err)
		}

		// Both groups change at the same offsets: everything before is committed.
		produce(0)
		f, calm := fleetOf(input+"-g"), fleetOf(input+"-calm")
		w, one := f.start("first"), calm.start("calm")
		f.waitDone()
		calm.waitDone()
		reload(w, after)
		must(t, one.cmd.Process.Signal(syscall.SIGHUP))
		one.waitLogged(t, "changed settings were taken up")
		produce(1)
		f.waitDone()
		calm.waitDone()
		w.kill()
		w = f.start("killed", "TEST_FAILPOINT=before-end")
		produce(2)
		w.exit(t)
		w = f.start("last")
		w.waitReady(t)
		f.waitDone()
		calm.waitDone()

		write(strings.Replace(after, "window: 16", "window: 20", 1))
		must(t, w.cmd.Process.Signal(syscall.SIGHUP))
		w.waitLogged(t, "settings were not taken up")
		if said := strings.Join(w.lines("settings were not taken up"), ""); !strings.Contains(said, "ODRADEK_DETECTOR_LEVEL_WINDOW: 16 -> 20") ||
			!strings.Contains(said, `a_restart_empties="scores and progress of detector level"`) {
			t.Errorf("the log says %s", said)
		}
		w.drain(t)
		one.drain(t)
		// A worker with other settings says so where it takes a partition over, and only then.
		const otherwise = "scores were judged by other settings so far"
		if w.logged(otherwise) {
			t.Errorf("a worker with the same settings says: %s", w.lines(otherwise))
		}
		write(before)
		w = f.start("other")
		w.waitLogged(t, otherwise)
		if said := w.lines(otherwise); !strings.Contains(said[0], "detectors=level") {
			t.Errorf("the log says %s", said)
		}
		w.waitReady(t)
		w.drain(t)
		want, got := calm.anomalies(), f.anomalies()
		for _, fault := range append(lifeFaults(got), sameLives(want, got)...) {
			t.Error(fault)
		}
		undisturbed, _ := calm.scores()
		scores, doubled := f.scores()
		compare(t, "scores", undisturbed, scores)
		t.Logf("%d changes of anomalies", len(want))
		if len(doubled) > 0 || len(want) < 20 {
			t.Errorf("%d scores doubled, %d changes of anomalies", len(doubled), len(want))
		}
	})
}
