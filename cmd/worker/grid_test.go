package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"odradek/detectors/seedtest"
	"odradek/processor/kafkatest"
)

// gridSettings count events of four regions on a grid of 8 x 6 cells, over 10 s of event time: hot learns what is
// usual, even compares with the mean over the grid, and risk with the baselines of the events.
var gridSettings = []string{
	"FORMAT=json", "KEY_FIELD=region", "TIME_FIELD=at", "VALUE_FIELDS=x,y,n,at_risk", "LATENESS=3s", "DETECTORS=hot,even,risk",
	"DETECTOR_HOT_OP=scan", "DETECTOR_HOT_WINDOW=48", "DETECTOR_HOT_COLUMNS=8", "DETECTOR_HOT_GRID=10s", "DETECTOR_HOT_FIELDS=x,y,n",
	"DETECTOR_HOT_GRID_LEARN=3", "DETECTOR_HOT_GRID_BOX=-4,0,4,3",
	"DETECTOR_EVEN_OP=scan", "DETECTOR_EVEN_WINDOW=48", "DETECTOR_EVEN_COLUMNS=8", "DETECTOR_EVEN_GRID=10s", "DETECTOR_EVEN_FIELDS=x,y",
	"DETECTOR_EVEN_GRID_BOX=-4,0,4,3", "DETECTOR_EVEN_REPLICATES=99", "DETECTOR_EVEN_MAX_P=1", "DETECTOR_EVEN_THRESHOLD=fixed:4",
	"DETECTOR_RISK_OP=scan", "DETECTOR_RISK_WINDOW=12", "DETECTOR_RISK_COLUMNS=4", "DETECTOR_RISK_GRID=7s",
	"DETECTOR_RISK_FIELDS=x,y,n,at_risk", "DETECTOR_RISK_GRID_BOX=-4,0,4,3", "DETECTOR_RISK_REPLICATES=99", "DETECTOR_RISK_TOP=2",
}

// slidingSettings are gridSettings with windows of two detectors that overlap.
var slidingSettings = append(slices.Clone(gridSettings), "DETECTOR_HOT_GRID_STRIDE=2500ms", "DETECTOR_RISK_GRID=15s",
	"DETECTOR_RISK_GRID_STRIDE=3s")

// gridInput makes events at random places, and more of them about a spot that moves: where x is
// gridSpot of the event's time.
type gridInput struct {
	rng *rand.Rand
	at  time.Time
}

func newGridInput(rng *rand.Rand) *gridInput {
	return &gridInput{rng, time.UnixMilli(1_700_000_000_000).UTC()}
}

func gridSpot(at time.Time) float64 { return -3 + 6*float64(at.Unix()%200)/200 }

func (g *gridInput) event(topic string) kafkatest.Record {
	g.at = g.at.Add(time.Duration(10+g.rng.IntN(40)) * time.Millisecond)
	region := g.rng.IntN(4)
	x, y := -4+8*g.rng.Float64(), 3*g.rng.Float64()
	if region == 0 && g.rng.IntN(3) == 0 {
		x, y = gridSpot(g.at)+g.rng.Float64()-0.5, 1+g.rng.Float64()
	}
	at := g.at.Add(-time.Duration(g.rng.IntN(2000)) * time.Millisecond) // out of order
	if g.rng.IntN(100) == 0 {
		at = at.Add(-20 * time.Second) // late
	}
	return gridRecord(topic, region, at, x, y, 1+g.rng.IntN(2), 3+g.rng.IntN(3))
}

// gridRecord returns an event; its numbers are written as they are formatted.
func gridRecord(topic string, region int, at time.Time, x, y, n, risk any) kafkatest.Record {
	key := fmt.Sprint("region-", region)
	value := fmt.Sprintf(`{"region":%q,"at":%d,"x":%v,"y":%v,"n":%v,"at_risk":%v}`, key, at.UnixMilli(), x, y, n, risk)
	return kafkatest.Record{Topic: topic, Partition: int32(region % 2), Key: []byte(key), Value: []byte(value)}
}

// TestGrid: the windows of grids give the scores, the anomalies and the regions of an undisturbed run
// although their worker is killed and comes back, another joins, and one leaves; windows of two of the detectors
// overlap. The anomalies of the region with a hot spot follow it.
func TestGrid(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *kafkatest.Cluster) {
		input := c.Topic(t, "in", 2)
		f := newFleet(t, c, input, input+"-g", slidingSettings...)
		source := newGridInput(seedtest.New(t))
		produce := func() {
			var recs []kafkatest.Record
			for range 1500 {
				recs = append(recs, source.event(input))
			}
			_, err := c.ProduceAcked(context.Background(), recs)
			must(t, err)
		}
		got := f.killJoinLeave(produce)
		still, offsets := undisturbedFleet(t, c, input, slidingSettings...)
		compare(t, "grids", original(t, still, offsets), got)
		windows := map[string]int{}
		for id := range got {
			windows[id.detector]++
		}
		// Windows of hot and even are of 10 s; hot has one every 2.5 s, and risk one of 15 s every 3 s.
		if hot, risk, even := windows["hot"], windows["risk"], windows["even"]; even < 50 || hot < 3*even || risk < 2*even {
			t.Errorf("%d windows of hot and %d of risk, which overlap, %d of even, which do not", hot, risk, even)
		}
		if want, blocks := still.blocks(offsets), f.blocks(nil); len(blocks) < 50 || fmt.Sprint(want) != fmt.Sprint(blocks) {
			t.Errorf("%d blocks, the undisturbed run has %d, or others", len(blocks), len(want))
		}
		// Ids and sources have the offsets, which differ between the brokers.
		list := f.anomalies()
		if faults := lifeFaults(list); len(faults) > 0 {
			t.Error(faults)
		}
		if want, all := regionsOf(still.anomalies()), regionsOf(list); !slices.Equal(want, all) {
			t.Errorf("%d changes with regions, the undisturbed run has %d, or others", len(all), len(want))
		}
		hot := 0
		for _, a := range list {
			if a.detector == "hot" && a.key == "region-0" && a.kind != "close" {
				hot++
			}
		}
		if hot < 5 {
			t.Errorf("the hot spot has %d anomalies and updates", hot)
		}
	})
}

// regionsOf lists the changes of anomalies without what depends on offsets, in order.
func regionsOf(list []published) (texts []string) {
	for _, a := range list {
		_, region, _ := strings.Cut(a.content, "region:")
		region, _, _ = strings.Cut(region, " revision:")
		_, times, _ := strings.Cut(a.content, "event_time:")
		times, _, _ = strings.Cut(times, " expected:")
		texts = append(texts, fmt.Sprint(a.key, " ", a.detector, " ", a.kind, " ", a.revision, " ", times, " ", region))
	}
	slices.Sort(texts)
	return texts
}

// TestGridBadInput: events that are none of the grid are dead letters that name the field; what lacks a value counts as
// missing, and what comes after its window as late.
func TestGridBadInput(t *testing.T) {
	c, err := kafkatest.StartFake(kafkatest.FakeOptions{Brokers: 1})
	must(t, err)
	defer c.Close()
	ctx := context.Background()
	const input = "in"
	must(t, c.Admin().CreateTopic(ctx, input, 2, 0, nil))
	at := time.UnixMilli(1_700_000_000_000)
	bads := []struct {
		x, y, n, risk any
		class, field  string
	}{
		{-4.001, 1, 1, 3, "outside_grid", "x"},
		{4, 1, 1, 3, "outside_grid", "x"},
		{1, 3, 1, 3, "outside_grid", "y"},
		{1, -1e300, 1, 3, "outside_grid", "y"},
		{1, 1, -1, 3, "bad_count", "n"},
		{1, 1, 1.5, 3, "bad_count", "n"},
		{1, 1, 1e16, 3, "bad_count", "n"},
		{1, 1, 1, -3, "bad_count", "at_risk"},
		{1, 1, 1, 0.5, "bad_count", "at_risk"},
		{1, 1, `"many"`, 3, "bad_type", "n"},
	}
	var recs []kafkatest.Record
	for i, b := range bads {
		r := gridRecord(input, 0, at, b.x, b.y, b.n, b.risk)
		r.Headers = []kafkatest.Header{{Key: "case", Value: fmt.Append(nil, i)}}
		recs = append(recs, r)
	}
	for range 20 {
		recs = append(recs, gridRecord(input, 0, at, 1, 1, 1, 3))
	}
	recs = append(recs, gridRecord(input, 0, at, "null", 1, 1, 3), gridRecord(input, 0, at, 1, 1, "null", 3),
		gridRecord(input, 0, at, 1, 1, 5, 0), gridRecord(input, 0, at.Add(time.Hour), 1, 1, 1, 3), gridRecord(input, 0, at, 1, 1, 1, 3))
	f := newFleet(t, c, input, "g", append(gridSettings, "MAX_JUMP=0s", "MAX_FUTURE=0s")...)
	_, err = c.ProduceAcked(ctx, recs)
	must(t, err)
	w := f.start("w")
	w.waitReady(t)
	f.waitDone()
	scrape := w.waitCounted(t, map[string]string{"consumed": fmt.Sprint(len(recs))})
	if !strings.Contains(scrape, `odradek_decode_errors_total{reason="outside_grid",topic="in"} 4`) ||
		!strings.Contains(scrape, `odradek_decode_errors_total{reason="bad_count",topic="in"} 5`) {
		t.Error("dead letters are not counted by reason")
	}
	if code := w.drain(t); code != exitOK {
		t.Errorf("drain ended with %d", code)
	}
	must(t, c.Admin().WaitStable(ctx, "g-dlq"))
	dead, err := c.Admin().ReadAll(ctx, "g-dlq", true)
	must(t, err)
	if len(dead) != len(bads) {
		t.Errorf("%d dead letters, want %d", len(dead), len(bads))
	}
	for i := range dead {
		n := 0
		text, _ := dead[i].Header("case")
		must(t, json.Unmarshal(text, &n))
		class, _ := dead[i].Header("odradek.error.class")
		field, _ := dead[i].Header("odradek.error.field")
		message, _ := dead[i].Header("__streams.errors.message")
		if string(class) != bads[n].class || string(field) != bads[n].field ||
			!strings.Contains(string(message), fmt.Sprintf("in/0 at offset %d", n)) {
			t.Errorf("case %d: class %s, field %s, message %s; want %s of %s", n, class, field, message, bads[n].class, bads[n].field)
		}
	}
	late, err := c.Admin().ReadAll(ctx, "g-late", true)
	must(t, err)
	if len(late) != 1 {
		t.Errorf("%d late records, want 1", len(late))
	}
}

// TestGridCheck: check says which share of the newest events is none of the grid, by field, and it is a fault where no event can be read.
func TestGridCheck(t *testing.T) {
	c := kafkatest.Open(t, kafkatest.KindFake)
	input := c.Topic(t, "in", 1)
	at := time.UnixMilli(1_700_000_000_000)
	environ := []string{"ODRADEK_KAFKA_BROKERS=" + strings.Join(c.Brokers, ","), "ODRADEK_GROUP=" + input + "-g", "ODRADEK_TOPICS=" + input}
	for _, s := range gridSettings {
		environ = append(environ, "ODRADEK_"+s)
	}
	say := func(code int, more string, want ...string) {
		t.Helper()
		got, out := runCheck(t, append(environ, strings.Fields(more)...))
		for _, w := range want {
			if got != code || !strings.Contains(out, w) {
				t.Errorf("exit %d, want %d; lacks %q\n%s", got, code, w, out)
			}
		}
	}
	var recs []kafkatest.Record
	for i := range 10 {
		x, n, risk := any(1), any(1), any(3)
		switch i {
		case 1, 2, 3:
			x = 4 + i
		case 4, 5:
			n = 1.5
		case 6:
			risk = -3
		}
		r := gridRecord(input, 0, at.Add(time.Duration(i)*time.Second), x, 1, n, risk)
		recs = append(recs, r)
	}
	_, err := c.ProduceAcked(t.Context(), recs)
	must(t, err)
	say(exitOK, "", "3 of 10 would be dead letters (outside_grid of field x)", "at offset 3: 7 is outside the grid, which is from -4 up to 4",
		"2 of 10 would be dead letters (bad_count of field n)", "1.5 is not a whole number",
		"1 of 10 would be dead letters (bad_count of field at_risk)", "-3 is less than 0")
	boxes := "ODRADEK_DETECTOR_HOT_GRID_BOX=50,50,60,60"
	say(exitFailed, boxes, "10 of 10 would be dead letters (outside_grid of field x)", "correct GRID_BOX of the detector")
}

// TestGridChanges: a grid of another size does not read the stored one: the worker stops and names the settings.
func TestGridChanges(t *testing.T) {
	c, err := kafkatest.StartFake(kafkatest.FakeOptions{Brokers: 1})
	must(t, err)
	defer c.Close()
	const input = "in"
	must(t, c.Admin().CreateTopic(context.Background(), input, 2, 0, nil))
	f := newFleet(t, c, input, "g", gridSettings...)
	source := newGridInput(seedtest.New(t))
	var recs []kafkatest.Record
	for range 500 {
		recs = append(recs, source.event(input))
	}
	f.add(recs, "before")
	w := f.start("after", "DETECTOR_EVEN_WINDOW=56")
	if code := w.exit(t); code != exitRefused {
		t.Errorf("the worker ended with %d, want %d", code, exitRefused)
	}
	if !w.logged("ODRADEK_DETECTOR_EVEN_WINDOW") {
		t.Error("the log does not name the setting")
	}
	f.add(recs[:1], "emptied", "DETECTOR_EVEN_WINDOW=56", "STATE_MISMATCH=reset")
}
