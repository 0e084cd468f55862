package main

import (
	"slices"
	"strings"
	"testing"

	"odradek/detectors/seedtest"
	"odradek/processor/kafkatest"
)

// TestSteps: with conditions, bounds, computed values, transforms, aggregates of intervals, a lateness and a largest gap together the
// scores are an undisturbed worker's, although a worker is killed and comes back, another joins, and one leaves.
func TestSteps(t *testing.T) {
	c := kafkatest.Fake(t, kafkatest.FakeOptions{})
	input := c.Topic(t, "in", 2)
	settings := slices.DeleteFunc(slices.Clone(batchSettings), func(s string) bool {
		return strings.HasPrefix(s, "VALUE_FIELDS=") || strings.Contains(s, "_REST_") || strings.HasPrefix(s, "DETECTORS=")
	})
	settings = append(settings, "DETECTORS=level,spread", "VALUE_FIELDS=points.value,square", "COMPUTE=square=points.value * points.value",
		`ONLY_IF=points.sensor != "speed"`, "VALID=points.value=-9..9", "TRANSFORM=points.value=difference,square=rate", "EVERY=1s",
		"AGGREGATE=points.value=mean,square=max", "MAX_GAP=20s", "MAX_JUMP=0s", "MISSING=hold",
		"DETECTOR_LEVEL_FIELDS=points.value", "DETECTOR_SPREAD_OP=zscore", "DETECTOR_SPREAD_FIELDS=square", "DETECTOR_SPREAD_WINDOW=12",
		"DETECTOR_SPREAD_THRESHOLD=fixed:4")
	f := newFleet(t, c, input, input+"-g", settings...)
	source := newBatchInput(seedtest.New(t))
	got := f.killJoinLeave(func() {
		var recs []kafkatest.Record
		for range 500 {
			machine, readings := source.next()
			recs = append(recs, batchRecord(input, machine, readings))
		}
		_, err := c.ProduceAcked(t.Context(), recs)
		must(t, err)
	})
	still, offsets := undisturbedFleet(t, c, input, append(settings, "COMMIT_INTERVAL=300ms")...)
	want := original(t, still, offsets)
	compare(t, "steps", want, got)
	detectors := map[string]int{}
	for id, s := range got {
		if s.value() == s.value() && !strings.HasSuffix(s.key, "/speed") {
			detectors[id.detector]++
		}
		if strings.HasSuffix(s.key, "/speed") {
			t.Fatalf("a score of %s", s.key)
		}
	}
	if detectors["level"] < 1000 || detectors["spread"] < 500 {
		t.Errorf("scores by detector: %v", detectors)
	}
}
