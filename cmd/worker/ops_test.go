package main

import (
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"odradek/detectors"
	"odradek/detectors/seedtest"
	"odradek/processor/kafkatest"
)

// opDetectors are settings of detectors, by op: small windows, so that every sensor gets
// scores of full ones. An op that is not here has its defaults.
var opDetectors = map[string]string{
	"ar":       "ORDER=4 MIN_POINTS=8 MEMORY=50",
	"band":     "RATE=0.1 MIN_POINTS=32 ZONE=Asia/Kathmandu",
	"discord":  "WINDOW=24 LENGTH=4 MAX_LENGTH=8 K=2",
	"discords": "WINDOW=24 MIN_LENGTH=6 MAX_LENGTH=10 LENGTH_STEP=2 TOP=2",
	"flatline": "TOLERANCE=0.5",
	"ikasst":   "WINDOW=8",
	"joint":    "WINDOW=8 GUARD=8 MEMORY=100",
	"knn":      "WINDOW=24 K=4",
	"lof":      "WINDOW=24 K=4",
	"scan":     "WINDOW=24 COLUMNS=6 MODEL=normal",                   // the readings are no counts
	"season":   "BINS=255 MEMORY=9 MIN_POINTS=4 ZONE=Asia/Kathmandu", // a bin is 339 seconds
	// Mined anew about four times a sensor.
	"solvingset": "WINDOW=24 K=2 EMBED=3 TOP=1 MODEL_POINTS=8 MINE_EVERY=13",
	"svdsst":     "WINDOW=8",
	"topn":       "WINDOW=24 K=4 TOP=3",
	"value":      "WINDOW=3",
	"zscore":     "WINDOW=16",
}

// TestEveryOp: each op, with tasks of one sample and of three, gives the scores and blocks
// of an undisturbed run although its worker is killed and comes back, another joins, and
// one leaves: everything that an op carries from task to task is in the state, or follows
// from it.
func TestEveryOp(t *testing.T) {
	names, env := []string{"change", "level"}, []string{}
	add := func(name, op, settings string) {
		for _, stride := range []string{"1", "3"} {
			d := name + stride
			names = append(names, d)
			for _, s := range append(strings.Fields(settings), "OP="+op, "STRIDE="+stride) {
				env = append(env, "DETECTOR_"+strings.ToUpper(d)+"_"+s)
			}
		}
	}
	for _, op := range detectors.Ops() {
		add(op.Spec().Name, op.Spec().Name, opDetectors[op.Spec().Name])
	}
	batch := filepath.Join(t.TempDir(), "batch.csv")
	if err := os.WriteFile(batch, []byte("0\n1\n2\n1\n-3\n0.5\n7\n4\n0\n1\n2\n3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	add("referred", "knn", "K=2 EMBED=2 OUTLIERS=2 REFERENCE="+batch)
	days := filepath.Join(t.TempDir(), "days.txt")
	if err := os.WriteFile(days, []byte("2026-03-01 Tuesday\n2026-03-02\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	add("hourly", "solvingset", "WINDOW=40 K=2 EMBED=2 TOP=1 MODEL_POINTS=8 MIN_POINTS=4 MINE_INTERVAL=10m MAX_AGE=20m")
	add("weekly", "season", "PERIOD=week MIN_POINTS=2 ZONE=America/New_York CALENDAR="+days)
	add("zoned", "band", "MIN_POINTS=34 ZONE=America/New_York CALENDAR="+days)
	add("above", "discord", "WINDOW=60 LENGTH=4 MAX_LENGTH=8 EXACT_ABOVE=0.9")
	add("discordsranged", "discords", "WINDOW=24 MIN_LENGTH=6 MAX_LENGTH=10 LENGTH_STEP=2 RADIUS=auto")
	names = append(names, "past", "weighed")
	for _, s := range []string{"OP=discord", "WINDOW=60", "LENGTH=4", "MAX_LENGTH=8", "EVERY=3", "STRIDE=6", "SMOOTH=2"} {
		env = append(env, "DETECTOR_PAST_"+s)
	}
	for _, s := range []string{"OP=ensemble", "MEMBERS=zscore1,past", "WEIGHTS=1,4", "MIN_POINTS=4"} {
		env = append(env, "DETECTOR_WEIGHED_"+s)
	}
	env = append(env, "DETECTORS="+strings.Join(names, ","))
	eachCluster(t, func(t *testing.T, c *kafkatest.Cluster) { testEveryOp(t, c, names, env, 100) })
}

// presetDetectors are those of the default preset.
var presetDetectors = []string{"near", "start", "shape", "flat", "band", "past", "both", "any"}

// presetSettings are the settings of the default preset with smaller windows, the last sample of start given.
func presetSettings(until int) []string {
	return []string{"DETECTORS=", "DETECTOR_CHANGE_OP=", "DETECTOR_CHANGE_WINDOW=", "DETECTOR_CHANGE_STRIDE=", "DETECTOR_LEVEL_OP=",
		"DETECTOR_LEVEL_WINDOW=", "DETECTOR_NEAR_WINDOW=24", "DETECTOR_NEAR_K=4", "DETECTOR_NEAR_EMBED=4", "DETECTOR_SHAPE_WINDOW=24",
		"DETECTOR_SHAPE_LENGTH=4", "DETECTOR_BOTH_MIN_POINTS=8", "DETECTOR_PAST_WINDOW=60", "DETECTOR_PAST_LENGTH=4",
		"DETECTOR_PAST_MAX_LENGTH=8", "DETECTOR_PAST_EVERY=4", "DETECTOR_PAST_STRIDE=8", "DETECTOR_START_WINDOW=60",
		fmt.Sprint("DETECTOR_START_UNTIL=", until), "DETECTOR_BAND_MIN_POINTS=64"}
}

// TestEveryWorkerOfAPreset is TestEveryOp for the default preset, with smaller windows.
func TestEveryWorkerOfAPreset(t *testing.T) {
	c, err := kafkatest.StartFake(kafkatest.FakeOptions{Brokers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	testEveryOp(t, c, presetDetectors, presetSettings(400), 0)
}

func testEveryOp(t *testing.T, c *kafkatest.Cluster, names, env []string, leastBlocks int) {
	rng := seedtest.New(t)
	input := c.Topic(t, "in", 4)
	m := newMeasurements(t, c.RegistryURL(t), input)
	f := newFleet(t, c, input, input+"-g", env...)
	produce := func() {
		if _, err := c.ProduceAcked(context.Background(), walk(t, m, input, rng, 12, 600)); err != nil {
			t.Fatal(err)
		}
	}
	got := f.killJoinLeave(produce)
	still, offsets := undisturbedFleet(t, c, input, env...)
	compare(t, "every op", original(t, still, offsets), got)
	if leastBlocks > 0 {
		blocks := f.blocks(nil)
		if want := still.blocks(offsets); !maps.Equal(want, blocks) || len(blocks) < leastBlocks {
			t.Errorf("%d blocks, the undisturbed run has %d, or others", len(blocks), len(want))
		}
	}
	scores := map[string]int{}
	for id, s := range got {
		if !math.IsNaN(s.value()) {
			scores[id.detector]++
		}
	}
	for _, d := range names {
		least := len(got) / len(names) / 2
		if strings.HasPrefix(d, "discords") {
			least /= 10 // a discord is reported once
		}
		if strings.HasPrefix(d, "scan") {
			least /= 3 // a task has one score
		}
		if d == "past" {
			least = 3 * len(got) / len(names) / 20 // of a sample of three or four
		}
		if scores[d] < least {
			t.Errorf("detector %s: %d scores of %d records", d, scores[d], len(got)/len(names))
		}
	}
}
