package main

import (
	"context"
	"testing"
	"time"

	"odradek/processor/anomaly"
	"odradek/processor/kafkatest"
	"odradek/schemas/output"
)

// TestIdleTopic: a topic that stops is an anomaly of each of its series, with ODRADEK_IDLE_AFTER.
func TestIdleTopic(t *testing.T) { eachCluster(t, testIdleTopic) }

func testIdleTopic(t *testing.T, c *kafkatest.Cluster) {
	allSilent(t, c, "ODRADEK_LATENESS=1s")
}

// TestSilenceWithoutDetectors: so it is of the series that no detector reads.
func TestSilenceWithoutDetectors(t *testing.T) {
	c := kafkatest.Fake(t, kafkatest.FakeOptions{})
	for _, lateness := range []string{"0s", "1s"} {
		allSilent(t, c, "ODRADEK_LATENESS="+lateness, "ODRADEK_DETECTOR_CHANGE_KEYS=sensor-0000?")
	}
}

// allSilent requires that each of 20 series becomes silent.
func allSilent(t *testing.T, c *kafkatest.Cluster, settings ...string) {
	t.Helper()
	topic, environ := stateFixture(t, c)
	environ = append(environ, append(settings, "ODRADEK_IDLE_AFTER=500ms", "ODRADEK_SILENCE=2s")...)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	silent := func() int {
		t.Helper()
		recs, err := c.Admin().ReadAll(t.Context(), topic+"-g-anomalies", true)
		must(t, err)
		open := map[string]bool{}
		for i := range recs {
			a, err := output.DecodeAnomaly(recs[i].Value)
			must(t, err)
			if a.Detector == "silence" {
				open[string(a.Key)] = anomaly.Kind(a.Kind) == anomaly.Open
			}
		}
		n := 0
		for _, is := range open {
			if is {
				n++
			}
		}
		return n
	}
	runUntil(t, c, environ, topic, func() {
		for silent() < 20 {
			select {
			case <-ctx.Done():
				t.Fatalf("%d of 20 series are silent", silent())
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
}
