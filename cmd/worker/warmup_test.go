package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"odradek/detectors/seedtest"
	"odradek/processor/kafkatest"
)

// warmUpInput makes a topic of three partitions with 20 batches of 300 records; produce writes further records to it.
func warmUpInput(t *testing.T) (c *kafkatest.Cluster, input string, produce func(records int)) {
	t.Helper()
	rng := seedtest.New(t)
	c = kafkatest.Open(t, kafkatest.KindFake)
	input = c.Topic(t, "in", 3)
	m := newMeasurements(t, c.RegistryURL(t), input)
	produce = func(records int) {
		t.Helper()
		if _, err := c.ProduceAcked(t.Context(), walk(t, m, input, rng, 40, records)); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		produce(300)
	}
	return c, input, produce
}

// TestWarmUp: a new group that warms up on what the topic has retained, killed in the middle of it, and with
// members that join and leave there: each acknowledged record after its start has the score that a group has
// which read everything, and nothing is published of those before. Without warming up the first scores differ.
func TestWarmUp(t *testing.T) {
	c, input, produce := warmUpInput(t)
	ctx := t.Context()
	bad := kafkatest.Record{Topic: input, Partition: 1, Key: []byte("bad"), Value: []byte("rubbish")}
	if _, err := c.ProduceAcked(ctx, []kafkatest.Record{bad}); err != nil {
		t.Fatal(err)
	}
	start, err := c.Admin().Ends(ctx, input, kafkatest.HighWatermark)
	must(t, err)
	time.Sleep(5 * time.Millisecond) // Kafka timestamps are whole milliseconds
	startSetting := "START=" + time.Now().UTC().Format(time.RFC3339Nano)
	time.Sleep(5 * time.Millisecond)
	f := newFleet(t, c, input, input+"-g", append([]string{startSetting, "WARMUP_FROM=24h", "PARTITION_BYTES=16KiB"}, alarms...)...)
	cold := newFleet(t, c, input, input+"-cold", append([]string{startSetting}, alarms...)...)
	cold.start("cold").waitReady(t)

	// Killed in the middle of a commit of the warm-up.
	for _, point := range []string{"before-end", "after-end", "before-send"} {
		w := f.start(point, "TEST_FAILPOINT="+point, "INSTANCE_ID=only")
		if code := w.exit(t); code != -1 {
			t.Fatalf("%s: the worker ended with %d, not by SIGKILL", point, code)
		}
		produce(500)
	}
	first := f.start("first", "INSTANCE_ID=only")
	second := f.start("second")
	second.waitReady(t)
	produce(1000)
	if code := second.drain(t); code != exitOK {
		t.Errorf("the leaving worker ended with %d", code)
	}
	f.waitDone()
	cold.waitDone()
	if code := first.drain(t); code != exitOK {
		t.Errorf("drain ended with %d", code)
	}

	all, offsets := undisturbedFleet(t, c, input, alarms...)
	want := map[scoreID]scored{}
	for id, s := range original(t, all, offsets) {
		if id.offset >= start[id.partition] {
			want[id] = s
		}
	}
	got, doubled := f.scores()
	if len(doubled) > 0 {
		t.Errorf("%d scores doubled, such as %v", len(doubled), doubled[0])
	}
	compare(t, "warmed up", want, got)
	noFaults(t, "anomalies of the group", lifeFaults(f.anomalies()))
	dead, err := c.Admin().ReadAll(ctx, f.group+"-dlq", true)
	must(t, err)
	if len(dead) > 0 {
		t.Errorf("%d dead letters of the warm-up", len(dead))
	}

	other, _ := cold.scores()
	differ := 0
	for id, s := range other {
		if want[id] != s {
			differ++
		}
	}
	if differ == 0 {
		t.Error("a group that does not warm up has the same scores")
	}
	t.Logf("%d scores; %d differ without warming up", len(got), differ)
}

// TestCheckWarmUp: check says what a new group reads to warm up.
func TestCheckWarmUp(t *testing.T) {
	c := kafkatest.Open(t, kafkatest.KindFake)
	input := c.Topic(t, "in", 2)
	m := newMeasurements(t, c.RegistryURL(t), input)
	if _, err := c.ProduceAcked(context.Background(), walk(t, m, input, seedtest.New(t), 20, 300)); err != nil {
		t.Fatal(err)
	}
	f := newFleet(t, c, input, input+"-g", "START=latest", "WARMUP_FROM=1h")
	for _, group := range []string{"new", "begun"} {
		if group == "begun" {
			w := f.start("first")
			w.waitReady(t)
			f.waitDone()
			w.drain(t)
		}
		term, out, _ := console(f.settings("HTTP_ADDR=127.0.0.1:1")...)
		term.check(context.Background(), []string{"-online"})
		if said := strings.Contains(out.String(), "without publishing"); said != (group == "new") {
			t.Errorf("check of a group that is %s says what a new one reads: %v\n%s", group, said, out)
		}
	}
}

// TestResetWarmUp: a group whose state is reset where it was, with a warm-up, goes on with the scores of a group whose state
// was never reset, though a worker is killed in the warm-up; without one it begins with empty windows.
func TestResetWarmUp(t *testing.T) {
	c, input, produce := warmUpInput(t)
	reset := func(f *fleet, args ...string) {
		t.Helper()
		term, _, errs := console(f.settings("HTTP_ADDR=127.0.0.1:1")...)
		if code := term.state(t.Context(), append([]string{"reset", "-yes"}, args...)); code != exitOK {
			t.Fatalf("reset %v: exit %d: %s", args, code, errs)
		}
		t.Log(errs)
	}
	settings := append([]string{"START=earliest", "PARTITION_BYTES=16KiB"}, alarms...)
	warm, cold := newFleet(t, c, input, input+"-g", settings...), newFleet(t, c, input, input+"-cold", settings...)
	for _, f := range []*fleet{warm, cold} {
		w := f.start("before")
		f.waitDone()
		if code := w.drain(t); code != exitOK {
			t.Fatalf("drain ended with %d", code)
		}
	}
	ends, err := c.Admin().Ends(t.Context(), input, kafkatest.HighWatermark)
	must(t, err)
	reset(warm, "-to", "committed", "-warmup", "24h")
	reset(cold, "-to", "committed")
	w := warm.start("killed", "TEST_FAILPOINT=after-end", "INSTANCE_ID=only")
	if code := w.exit(t); code != -1 {
		t.Fatalf("the worker ended with %d, not by SIGKILL", code)
	}
	produce(2000)
	for _, f := range []*fleet{warm, cold} {
		w := f.start("after", "INSTANCE_ID=only")
		f.waitDone()
		if code := w.drain(t); code != exitOK {
			t.Fatalf("drain ended with %d", code)
		}
	}
	all, offsets := undisturbedFleet(t, c, input, alarms...)
	want := original(t, all, offsets)
	got, doubled := warm.scores()
	if len(doubled) > 0 {
		t.Errorf("%d scores doubled, such as %v", len(doubled), doubled[0])
	}
	empty, _ := cold.scores()
	for id := range want {
		_, warmed := got[id]
		_, plain := empty[id]
		if !warmed && !plain && id.offset < ends[id.partition] {
			delete(want, id) // its sample was held back when the state was reset
		}
	}
	compare(t, "reset and warmed up", want, got)
	differ := 0
	for id, s := range empty {
		if id.offset >= ends[id.partition] && want[id] != s {
			differ++
		}
	}
	if differ == 0 {
		t.Error("a group that does not warm up has the same scores")
	}
}
