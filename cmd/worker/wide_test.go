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

// wideFields are the sensors of a machine, each of which is a series.
var wideFields = []string{"temperature", "vibration", "load", "speed"}

// wideSettings read records of machines with all their sensors.
var wideSettings = []string{
	"FORMAT=json", "KEY_FIELD=machine", "TIME_FIELD=at", "LATENESS=3s", "DUPLICATES=drop",
	"SERIES_FIELDS=sensors.temperature,sensors.vibration,sensors.load,sensors.speed",
	"DETECTORS=level,rest", "DETECTOR_LEVEL_OP=zscore", "DETECTOR_LEVEL_WINDOW=12", "DETECTOR_LEVEL_THRESHOLD=fixed:4",
	"DETECTOR_REST_OP=flatline", "DETECTOR_REST_WINDOW=6", "DETECTOR_REST_STRIDE=2",
	"DETECTOR_REST_KEYS=*/sensors.speed",
}

// wideInput makes records of six machines, of two partitions: sensors that walk and jump, null and absent ones.
type wideInput struct {
	rng   *rand.Rand
	at    time.Time
	n     int
	value map[string]float64
}

func newWideInput(rng *rand.Rand) *wideInput {
	return &wideInput{rng: rng, at: time.UnixMilli(1_700_000_000_000).UTC(), value: map[string]float64{}}
}

// wideRecord returns a record of a machine; the values are JSON, "" for an absent one.
func wideRecord(topic string, machine int, at time.Time, values []string) kafkatest.Record {
	key := fmt.Sprint("machine-", machine)
	var sensors []string
	for i, v := range values {
		if v != "" {
			sensors = append(sensors, fmt.Sprintf("%q:%s", wideFields[i], v))
		}
	}
	value := fmt.Sprintf(`{"machine":%q,"at":%d,"sensors":{%s}}`, key, at.UnixMilli(), strings.Join(sensors, ","))
	return kafkatest.Record{Topic: topic, Partition: int32(machine % 2), Key: []byte(key), Value: []byte(value)}
}

// next returns the next machine, the time and the values of its record.
func (w *wideInput) next() (machine int, at time.Time, values []string) {
	w.n++
	w.at = w.at.Add(100 * time.Millisecond)
	machine, at = w.n%6, w.at
	for _, f := range wideFields {
		name := fmt.Sprint(machine, f)
		v := w.value[name] + w.rng.NormFloat64()
		w.value[name] = 0.9 * v
		if w.rng.IntN(80) == 0 {
			v += 12
		}
		text := fmt.Sprint(v)
		switch w.rng.IntN(40) {
		case 0:
			text = "null"
		case 1:
			text = ""
		}
		values = append(values, text)
	}
	switch w.rng.IntN(40) {
	case 0:
		at = at.Add(-2 * time.Second) // out of order
	case 1:
		at = at.Add(-time.Minute) // late
	}
	return machine, at, values
}

// TestWide: each field of a record is a series, and has the scores that it would have with a record of its own,
// although its worker is killed and comes back, another joins, and one leaves.
func TestWide(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *kafkatest.Cluster) {
		input := c.Topic(t, "in", 2)
		single := c.Topic(t, "single", 2)
		settings := append(slices.Clone(wideSettings), "MAX_JUMP=0s")
		f := newFleet(t, c, input, input+"-g", settings...)
		f.several = true
		source := newWideInput(seedtest.New(t))
		records, singles := 0, 0
		produce := func() {
			var recs, each []kafkatest.Record
			for range 500 {
				machine, at, values := source.next()
				r := wideRecord(input, machine, at, values)
				recs = append(recs, r)
				for i, v := range values {
					if v == "" {
						v = "null"
					}
					each = append(each, kafkatest.Record{Topic: single, Partition: r.Partition, Key: r.Key,
						Value: fmt.Appendf(nil, `{"machine":"%s/sensors.%s","at":%d,"value":%s}`, r.Key, wideFields[i], at.UnixMilli(), v)})
				}
			}
			records, singles = records+len(recs), singles+len(each)
			_, err := c.ProduceAcked(context.Background(), recs)
			must(t, err)
			_, err = c.ProduceAcked(context.Background(), each)
			must(t, err)
		}
		got := f.killJoinLeave(produce)
		still, offsets := undisturbedFleet(t, c, input, append(settings, "COMMIT_INTERVAL=300ms")...)
		still.several = true
		compare(t, "wide", original(t, still, offsets), got)

		// One record a sensor: the same samples, by another way.
		var plain []string
		for _, s := range settings {
			if !strings.HasPrefix(s, "SERIES_FIELDS=") {
				plain = append(plain, s)
			}
		}
		alone, _ := undisturbedFleet(t, c, single, plain...)
		alone.several = true
		want, _ := alone.scores()
		if a, b := bySeries(want), bySeries(got); len(a) < 8000 {
			t.Errorf("only %d scores", len(a))
		} else {
			compare(t, "single", a, b)
		}
		late, err := c.Admin().ReadAll(context.Background(), f.group+"-late", true)
		must(t, err)
		lateSingles, err := alone.c.Admin().ReadAll(context.Background(), alone.group+"-late", true)
		must(t, err)
		if len(late) == 0 || len(lateSingles) <= 3*len(late) || len(lateSingles) > 4*len(late) {
			t.Errorf("%d late records of several samples, %d of one", len(late), len(lateSingles))
		}
	})
}

// leavesOf makes a record's metrics as JSON, with leaves that come and go, in a random order, texts and Booleans among them; numbers
// has each number by the path that a series key ends with.
func leavesOf(rng *rand.Rand, n int, walk map[string]float64, machine int) (metrics string, numbers map[string]string) {
	numbers = map[string]string{}
	var flat, motor []string
	for i := range 7 {
		if i >= 4 && (n < 900 || rng.IntN(3) == 0) || rng.IntN(12) == 0 { // three appear later
			continue
		}
		name := fmt.Sprint(machine, " ", i)
		v := walk[name] + rng.NormFloat64()
		if walk[name] = 0.9 * v; rng.IntN(60) == 0 {
			v += 12
		}
		text := fmt.Sprint(v)
		if i%3 == 1 {
			numbers[fmt.Sprint("metrics.motor.x", i)] = text
			motor = append(motor, fmt.Sprintf(`"x%d":%s`, i, text))
			continue
		}
		numbers[fmt.Sprintf(`metrics.a%%2Fb\.%d`, i)] = text
		flat = append(flat, fmt.Sprintf(`"a/b.%d":%s`, i, text))
	}
	flat = append(flat, `"motor":{`+strings.Join(motor, ",")+`}`)
	for _, other := range []string{`"state":"RUN"`, `"on":true`, `"last":null`, `"list":[1,2]`} {
		if rng.IntN(2) == 0 {
			flat = append(flat, other)
		}
	}
	rng.Shuffle(len(flat), func(i, j int) { flat[i], flat[j] = flat[j], flat[i] })
	return "{" + strings.Join(flat, ",") + "}", numbers
}

// TestWideLeaves: each number below a path is a series, and has the scores that it would have with a record of its own, although
// its worker is killed and comes back, another joins, and one leaves.
func TestWideLeaves(t *testing.T) {
	c := kafkatest.Open(t, kafkatest.KindFake)
	input, single := c.Topic(t, "in", 2), c.Topic(t, "single", 2)
	settings := []string{"FORMAT=json", "KEY_FIELD=machine", "TIME_FIELD=at", "LATENESS=3s", "MAX_JUMP=0s", "DETECTORS=level",
		"DETECTOR_LEVEL_OP=zscore", "DETECTOR_LEVEL_WINDOW=12", "DETECTOR_LEVEL_THRESHOLD=fixed:4"}
	each := append(slices.Clone(settings), "SERIES_FIELDS=metrics.*")
	f := newFleet(t, c, input, input+"-g", each...)
	f.several = true
	rng, walk := seedtest.New(t), map[string]float64{}
	at, n := int64(1_700_000_000_000), 0
	produce := func() {
		var recs, alone []kafkatest.Record
		for range 400 {
			n++
			at += 100
			machine, event := n%6, at
			if rng.IntN(30) == 0 {
				event -= 2000 // out of order
			}
			metrics, numbers := leavesOf(rng, n, walk, machine)
			r := kafkatest.Record{Topic: input, Partition: int32(machine % 2),
				Value: fmt.Appendf(nil, `{"metrics":%s,"machine":"m%d","at":%d}`, metrics, machine, event)}
			recs = append(recs, r)
			for path, v := range numbers {
				id, err := json.Marshal(fmt.Sprintf("m%d/%s", machine, path))
				must(t, err)
				alone = append(alone, kafkatest.Record{Topic: single, Partition: r.Partition,
					Value: fmt.Appendf(nil, `{"machine":%s,"at":%d,"value":%s}`, id, event, v)})
			}
		}
		_, err := c.ProduceAcked(context.Background(), recs)
		must(t, err)
		_, err = c.ProduceAcked(context.Background(), alone)
		must(t, err)
	}
	got := f.killJoinLeave(produce)
	still, offsets := undisturbedFleet(t, c, input, append(each, "COMMIT_INTERVAL=300ms")...)
	still.several = true
	compare(t, "wildcard", original(t, still, offsets), got)
	alone, _ := undisturbedFleet(t, c, single, settings...)
	alone.several = true
	want, _ := alone.scores()
	if a, b := bySeries(want), bySeries(got); len(a) < 3000 {
		t.Errorf("only %d scores", len(a))
	} else {
		compare(t, "single", a, b)
	}
}

// TestWideBadInput: a record with one value that cannot be read is one dead letter; null and absent values are missing samples,
// and each sample has an outcome. State that was made with one reading of the records is not taken for the other.
func TestWideBadInput(t *testing.T) {
	c := kafkatest.Open(t, kafkatest.KindFake)
	input := c.Topic(t, "in", 1)
	at := time.UnixMilli(1_700_000_000_000).UTC()
	var recs []kafkatest.Record
	add := func(values ...string) {
		at = at.Add(time.Second)
		recs = append(recs, wideRecord(input, 0, at, values))
	}
	for range 20 {
		add("1", "2", "3", "4")
	}
	add("null", "2", "", "4")
	bad := []struct{ class, field, text string }{
		{"missing_field", "sensors.temperature", "does not have"}, // nor any other
		{"bad_type", "sensors.vibration", "not a number"}, {"infinite_value", "sensors.load", "infinite"},
		{"bad_type", "sensors.temperature", "not a number"}, {"malformed", "", "JSON"},
	}
	add("", "", "", "")
	add("1", `"warm"`, "3", "4")
	add("1", "2", "1e999", "4")
	add("[1]", "2", `"x"`, "4") // the first fault in the order of the fields
	add("1", "2", "NaN", "4")
	_, err := c.ProduceAcked(context.Background(), recs)
	must(t, err)
	f := newFleet(t, c, input, input+"-g", append(slices.Clone(wideSettings), "LATENESS=0s", "MAX_JUMP=0s")...)
	f.several = true
	w := f.start("w")
	w.waitReady(t)
	f.waitDone()
	w.waitCounted(t, map[string]string{"consumed": "26", "further_samples": "63", "missing": "2", "dead_lettered": "5"})
	dead, err := c.Admin().ReadAll(context.Background(), f.group+"-dlq", true)
	must(t, err)
	if len(dead) != len(bad) {
		t.Fatalf("%d dead letters, want %d", len(dead), len(bad))
	}
	for i, d := range dead {
		class, _ := d.Header("odradek.error.class")
		field, _ := d.Header("odradek.error.field")
		text, _ := d.Header("__streams.errors.message")
		if string(class) != bad[i].class || string(field) != bad[i].field || !strings.Contains(string(text), bad[i].text) {
			t.Errorf("dead letter %d: %s of field %s: %s", i, class, field, text)
		}
	}
	if code := w.drain(t); code != exitOK {
		t.Errorf("drain ended with %d", code)
	}
	plain := f.start("plain", "SERIES_FIELDS=", "VALUE_FIELDS=sensors.load", "DETECTORS=level", "STATE_MISMATCH=reset")
	if code := plain.exit(t); code != exitRefused || !plain.logged("worker state reset") ||
		!plain.logged("ODRADEK_SERIES_FIELDS") {
		t.Errorf("state of other samples: exit code %d, want %d and a word of ODRADEK_SERIES_FIELDS", code, exitRefused)
	}
	emptied := f.start("emptied", "SERIES_FIELDS=", "VALUE_FIELDS=sensors.load", "DETECTORS=level", "STATE_LOST=reset")
	emptied.waitReady(t)
	recs = recs[:0]
	for range 5 {
		add("1", "2", "3", "4")
	}
	_, err = c.ProduceAcked(context.Background(), recs)
	must(t, err)
	f.waitDone()
	if code := emptied.drain(t); code != exitOK {
		t.Errorf("drain ended with %d", code)
	}
	if got, doubled := f.scores(); len(doubled) > 0 || len(got) == 0 {
		t.Errorf("%d scores, %d doubled", len(got), len(doubled))
	}
}

// bySeries returns scores by series, time and detector in the place of their source.
func bySeries(scores map[scoreID]scored) map[scoreID]scored {
	all := make(map[scoreID]scored, len(scores))
	for id, s := range scores {
		all[scoreID{series: id.series, offset: s.eventTime, detector: id.detector}] = s
	}
	return all
}

// goldenWide makes the steps of the run of wide records: some of a clock that leaps, some that cannot be read, and one
// machine that stops for two minutes and is evicted.
type goldenWide struct{ wideInput }

func (g *goldenWide) step(_ *testing.T, topic string) []kafkatest.Record {
	var all []kafkatest.Record
	for len(all) < goldenStep {
		g.at = g.at.Add(150 * time.Millisecond)
		machine, at, values := g.next()
		if since := g.at.Unix() - 1_700_000_000; machine == 3 && since > 60 && since < 200 {
			continue
		}
		switch g.rng.IntN(70) {
		case 0:
			values[1] = `"warm"`
		case 1:
			values[2] = "1e999"
		case 2:
			at = at.Add(time.Hour) // a suspect
		}
		r := wideRecord(topic, machine, at, values)
		r.Partition, r.Time = 0, g.at.UnixMilli()
		all = append(all, r)
	}
	return all
}

// testGoldenWide compares what a run with records of several series leaves with the ledger in a file.
func testGoldenWide(t *testing.T, file string) {
	settings := append(slices.Clone(goldenSettings), wideSettings...)
	got := goldenRun(t, append(settings, "VALUE_FIELDS=value", "MAX_JUMP=10m"), func(*testing.T, string, string) goldenSource {
		return &goldenWide{*newWideInput(rand.New(rand.NewPCG(2024, 9)))}
	})
	for _, name := range []string{`golden-in-changelog "Emachine-3/sensors.load"`, `golden-dlq "machine-1"`, `golden-late "machine-0"`,
		`golden-anomalies "machine-0/sensors.temperature"`, `golden-scores "machine-2/sensors.speed"`} {
		if got[name] == nil {
			t.Errorf("nothing at %s", name)
		}
	}
	compareGolden(t, file, got)
}
