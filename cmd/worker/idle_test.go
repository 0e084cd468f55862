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
	topic, environ := stateFixture(t, c)
	environ = append(environ, "ODRADEK_IDLE_AFTER=500ms", "ODRADEK_SILENCE=2s", "ODRADEK_LATENESS=1s")
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	silent := func() int {
		t.Helper()
		recs, err := c.Admin().ReadAll(ctx, topic+"-g-anomalies", true)
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
				t.Fatalf("the series that are silent are not 20")
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
}
