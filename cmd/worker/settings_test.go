package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"odradek/detectors/seedtest"
	"odradek/processor/kafkatest"
)

// TestLate: out of order within the bound, the scores are as for ordered
// input; beyond it, records go to the late topic and are counted.
func TestLate(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *kafkatest.Cluster) {
		rng := seedtest.New(t)
		ctx := context.Background()
		input, ordered := c.Topic(t, "in", 2), c.Topic(t, "ordered", 2)
		m := newMeasurements(t, c.RegistryURL(t), input)
		recs := walk(t, m, input, rng, 6, 3000) // one a second
		end := m.record(t, input, "end", time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC), 1)
		late := m.record(t, input, "sensor-001", time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC), 1)

		inOrder := make([]kafkatest.Record, len(recs))
		for i, r := range recs {
			r.Topic = ordered
			inOrder[i] = r
		}
		place := make([]int, len(recs)) // up to 20 s from its own
		for i := range place {
			place[i] = 20*i + rng.IntN(400)
		}
		order := make([]int, len(recs))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return place[a] - place[b] })
		var shuffled []kafkatest.Record
		for _, i := range order {
			shuffled = append(shuffled, recs[i])
		}
		for p := range int32(2) { // both watermarks pass everything
			e := end
			e.Partition = p
			shuffled = append(shuffled, e)
		}
		shuffled = append(shuffled, late)
		if _, err := c.ProduceAcked(ctx, shuffled); err != nil {
			t.Fatal(err)
		}
		if _, err := c.ProduceAcked(ctx, inOrder); err != nil {
			t.Fatal(err)
		}
		// One record moves each watermark past everything: no jump is too large.
		f := newFleet(t, c, input, input+"-g", "LATENESS=1m", "MAX_JUMP=0s", "INSTANCE_ID=one", "MISSING=hold")
		w := f.start("killed", "TEST_FAILPOINT=before-end:2", "PARTITION_BYTES=16KiB", "COMMIT_INTERVAL=0s")
		select {
		case <-w.done:
		case <-time.After(10 * time.Second):
			w.kill()
		}
		w = f.start("w")
		w.waitReady(t)
		f.waitDone()
		w.waitCounted(t, nil)
		w.drain(t)
		got, doubled := f.scores()
		if len(doubled) > 0 {
			t.Errorf("%d scores doubled", len(doubled))
		}
		// By series and event time: the offsets differ.
		type id struct {
			key, detector string
			time          int64
		}
		by := func(scores map[scoreID]scored) map[id]scored {
			out := map[id]scored{}
			for s, v := range scores {
				out[id{v.key, s.detector, v.eventTime}] = v
			}
			return out
		}
		f2 := newFleet(t, c, ordered, ordered+"-g", "MISSING=hold")
		w2 := f2.start("ordered")
		w2.waitReady(t)
		f2.waitDone()
		w2.drain(t)
		want, _ := f2.scores()
		have, n := by(got), 0
		for k, s := range by(want) {
			h, ok := have[k]
			if !ok || h.bits != s.bits && !(math.IsNaN(h.value()) && math.IsNaN(s.value())) || h.state != s.state {
				if n++; n <= 5 {
					t.Errorf("%v: %+v (%v), in order %+v (%v)", k, h, ok, s, s.value())
				}
			}
		}
		if n > 0 {
			t.Errorf("%d of %d scores differ from the ordered input's", n, len(want))
		}
		dead, err := c.Admin().ReadAll(ctx, f.group+"-late", true)
		if err != nil {
			t.Fatal(err)
		}
		if len(dead) != 1 || !bytes.Equal(dead[0].Value, late.Value) || string(dead[0].Key) != "sensor-001" {
			t.Errorf("%d records in the late topic, want the one that was too late", len(dead))
		}
	})
}

// TestChangedDetector: stored state of other parameters stops the worker, or
// empties just what the change touches.
func TestChangedDetector(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *kafkatest.Cluster) {
		rng := seedtest.New(t)
		ctx := context.Background()
		input := c.Topic(t, "in", 2)
		m := newMeasurements(t, c.RegistryURL(t), input)
		produce := func() {
			if _, err := c.ProduceAcked(ctx, walk(t, m, input, rng, 6, 900)); err != nil {
				t.Fatal(err)
			}
		}
		produce()
		f := newFleet(t, c, input, input+"-g", "INSTANCE_ID=one")
		w := f.start("first")
		w.waitReady(t)
		f.waitDone()
		w.drain(t)
		before, _ := f.scores()
		produce()
		w = f.start("refuses", "DETECTOR_CHANGE_RANK=2")
		if code := w.exit(t); code != exitRefused || !w.logged("ODRADEK_STATE_MISMATCH") {
			b, _ := os.ReadFile(w.log)
			t.Errorf("exit code %d, want %d and a word of ODRADEK_STATE_MISMATCH:\n%s", code, exitRefused, b)
		}
		w = f.start("resets", "DETECTOR_CHANGE_RANK=2", "STATE_MISMATCH=reset")
		w.waitReady(t)
		f.waitDone()
		w.drain(t)
		all, doubled := f.scores()
		if len(doubled) > 0 {
			t.Errorf("%d scores doubled", len(doubled))
		}
		warming := map[string]int{}
		scores := map[string]int{}
		for id, s := range all {
			if _, old := before[id]; old {
				continue
			}
			scores[id.detector]++
			if s.state == "warming_up" {
				warming[id.detector]++
			}
		}
		// The window is the same, so the untouched detector goes on, and the
		// changed one has its history too: only its carry is gone.
		if scores["level"] == 0 || scores["change"] == 0 || warming["level"] != 0 {
			t.Errorf("after the reset %v scores, of which warming up %v", scores, warming)
		}
		// The untouched detector scores as if nothing had been changed.
		want := undisturbed(t, c, input)
		for id, s := range want {
			if id.detector == "level" && all[id] != s && !math.IsNaN(s.value()) {
				t.Fatalf("%v is %+v, undisturbed %+v", id, all[id], s)
			}
		}
	})
}

// TestStart: earliest, latest and a time, for a group without offsets.
func TestStart(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *kafkatest.Cluster) {
		rng := seedtest.New(t)
		ctx := context.Background()
		input := c.Topic(t, "in", 1)
		m := newMeasurements(t, c.RegistryURL(t), input)
		base := time.Now().Add(-time.Hour).Truncate(time.Second)
		recs := walk(t, m, input, rng, 2, 400)
		for i := range recs {
			recs[i].Time = base.Add(time.Duration(i) * time.Second).UnixMilli()
		}
		if _, err := c.ProduceAcked(ctx, recs); err != nil {
			t.Fatal(err)
		}
		for i, tt := range []struct {
			start string
			first int64
		}{{"earliest", 0}, {"latest", 400}, {base.Add(150 * time.Second).UTC().Format(time.RFC3339), 150}} {
			f := newFleet(t, c, input, fmt.Sprintf("%s-%d", input, i), "START="+tt.start, "MISSING=hold", "MAX_FUTURE=0s", "MAX_JUMP=0s",
				"DETECTORS=level", "DUPLICATES=keep")
			w := f.start("w")
			w.waitReady(t)
			more := m.record(t, input, fmt.Sprintf("new-%d", i), time.Now(), 1)
			acked, err := c.ProduceAcked(ctx, []kafkatest.Record{more})
			if err != nil {
				t.Fatal(err)
			}
			f.waitDone()
			w.drain(t)
			got, _ := f.scores()
			lowest := int64(math.MaxInt64)
			for id := range got {
				lowest = min(lowest, id.offset)
			}
			if want := tt.first; lowest != want && !(tt.start == "latest" && lowest == acked[0].Offset) && !(lowest < want+3 && lowest >= want) {
				t.Errorf("START=%s: the first score is of offset %d, want %d", tt.start, lowest, want)
			}
		}
	})
}

// TestScoresMode: none publishes no scores and still keeps state and offsets;
// anomalous publishes those above the threshold, with the same values as all.
func TestScoresMode(t *testing.T) {
	c := kafkatest.Fake(t, kafkatest.FakeOptions{})
	rng := seedtest.New(t)
	input := c.Topic(t, "in", 2)
	m := newMeasurements(t, c.RegistryURL(t), input)
	if _, err := c.ProduceAcked(context.Background(), walk(t, m, input, rng, 6, 2000)); err != nil {
		t.Fatal(err)
	}
	all := undisturbed(t, c, input)
	f := newFleet(t, c, input, input+"-a", "SCORES=anomalous", "DETECTOR_CHANGE_THRESHOLD=fixed:0.5", "DETECTOR_LEVEL_THRESHOLD=fixed:3")
	w := f.start("w")
	w.waitReady(t)
	f.waitDone()
	w.drain(t)
	want := map[scoreID]scored{}
	for id, s := range all {
		if id.detector == "change" && s.value() > 0.5 || id.detector == "level" && s.value() > 3 {
			want[id] = s
		}
	}
	got, _ := f.scores()
	compare(t, "anomalous", want, got)
	if len(want) == 0 || len(want) == len(all) {
		t.Errorf("%d of %d scores are anomalous: the test shows nothing", len(want), len(all))
	}
	f = newFleet(t, c, input, input+"-n", "SCORES=none")
	w = f.start("w")
	w.waitReady(t)
	f.waitDone()
	if code := w.drain(t); code != exitOK {
		t.Errorf("drain ended with %d", code)
	}
}
