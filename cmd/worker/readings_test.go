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
	"odradek/schemas/output"
)

// batchSettings read records of machines with an array of readings.
var batchSettings = []string{
	"FORMAT=json", "READINGS_FIELD=points", "KEY_FIELD=machine+points.sensor", "TIME_FIELD=points.at", "VALUE_FIELDS=points.value",
	"LATENESS=3s", "DUPLICATES=drop",
	"DETECTORS=level,rest", "DETECTOR_LEVEL_OP=zscore", "DETECTOR_LEVEL_WINDOW=12", "DETECTOR_LEVEL_THRESHOLD=fixed:4",
	"DETECTOR_REST_OP=flatline", "DETECTOR_REST_WINDOW=6", "DETECTOR_REST_STRIDE=2", "DETECTOR_REST_KEYS=*/speed",
}

// singleSettings are batchSettings for records of one reading each.
func singleSettings() (settings []string) {
	for _, s := range batchSettings {
		if !strings.HasPrefix(s, "READINGS_FIELD=") {
			settings = append(settings, strings.ReplaceAll(s, "points.", ""))
		}
	}
	return settings
}

// batchReading is a reading of a machine; value is JSON.
type batchReading struct {
	sensor string
	at     time.Time
	value  string
}

func (r batchReading) fields() string {
	return fmt.Sprintf(`"sensor":%q,"at":%d,"value":%s`, r.sensor, r.at.UnixMilli(), r.value)
}

// batchRecord is a record of a machine.
func batchRecord(topic string, machine int, readings []batchReading) kafkatest.Record {
	key := fmt.Sprint("machine-", machine)
	var points []string
	for _, r := range readings {
		points = append(points, "{"+r.fields()+"}")
	}
	value := fmt.Sprintf(`{"machine":%q,"points":[%s]}`, key, strings.Join(points, ","))
	return kafkatest.Record{Topic: topic, Partition: int32(machine % 2), Key: []byte(key), Value: []byte(value)}
}

// batchInput makes records of six machines, of two partitions: of no reading to eight, in order and out of order, some late,
// some of the same sensor and time, some without a value.
type batchInput struct {
	rng   *rand.Rand
	at    time.Time
	n     int
	value map[string]float64
}

func newBatchInput(rng *rand.Rand) *batchInput {
	return &batchInput{rng: rng, at: time.UnixMilli(1_700_000_000_000).UTC(), value: map[string]float64{}}
}

func (b *batchInput) next() (machine int, readings []batchReading) {
	b.n++
	b.at = b.at.Add(400 * time.Millisecond)
	machine = b.n % 6
	for i := range b.rng.IntN(9) {
		r := batchReading{sensor: wideFields[b.rng.IntN(len(wideFields))], at: b.at.Add(time.Duration(i) * 50 * time.Millisecond)}
		name := fmt.Sprint(machine, r.sensor)
		v := b.value[name] + b.rng.NormFloat64()
		b.value[name] = 0.9 * v
		if b.rng.IntN(80) == 0 {
			v += 12
		}
		r.value = fmt.Sprint(v)
		switch b.rng.IntN(60) {
		case 0:
			r.value = "null"
		case 1:
			r.at = r.at.Add(-2 * time.Second)
		case 2:
			r.at = r.at.Add(-time.Minute) // late
		case 3:
			if len(readings) > 0 {
				r.sensor, r.at = readings[len(readings)-1].sensor, readings[len(readings)-1].at // a duplicate
			}
		}
		readings = append(readings, r)
	}
	return machine, readings
}

// TestReadings: each reading of a record has the scores that it would have with a record of its own, although its worker is
// killed and comes back, another joins, and one leaves.
func TestReadings(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *kafkatest.Cluster) {
		input := c.Topic(t, "in", 2)
		single := c.Topic(t, "single", 2)
		settings := append(slices.Clone(batchSettings), "MAX_JUMP=0s")
		f := newFleet(t, c, input, input+"-g", settings...)
		source := newBatchInput(seedtest.New(t))
		produce := func() {
			var recs, each []kafkatest.Record
			for range 500 {
				machine, readings := source.next()
				rec := batchRecord(input, machine, readings)
				recs = append(recs, rec)
				for _, r := range readings {
					each = append(each, kafkatest.Record{Topic: single, Partition: rec.Partition, Key: rec.Key,
						Value: fmt.Appendf(nil, `{"machine":%q,%s}`, rec.Key, r.fields())})
				}
			}
			_, err := c.ProduceAcked(context.Background(), recs)
			must(t, err)
			_, err = c.ProduceAcked(context.Background(), each)
			must(t, err)
		}
		got := f.killJoinLeave(produce)
		still, offsets := undisturbedFleet(t, c, input, append(settings, "COMMIT_INTERVAL=300ms")...)
		compare(t, "batch", original(t, still, offsets), got)

		// One record a reading: the same samples, by another way.
		alone, _ := undisturbedFleet(t, c, single, append(singleSettings(), "MAX_JUMP=0s")...)
		want, _ := alone.scores()
		if a, b := byTime(want), byTime(got); len(a) < 8000 || len(a) != len(want) {
			t.Errorf("%d scores, %d of series and times that are no other's", len(want), len(a))
		} else {
			compare(t, "single", a, b)
		}
		lateBatch, lateSingle := lateReadings(t, c, f.group+"-late"), lateReadings(t, alone.c, alone.group+"-late")
		if len(lateSingle) < 20 || !slices.Equal(lateBatch, lateSingle) {
			t.Errorf("%d late readings, of records of one reading %d, or others", len(lateBatch), len(lateSingle))
		}
	})
}

// lateReadings returns the readings that the records of a topic of late records are there for, in order; each record is there once.
func lateReadings(t *testing.T, c *kafkatest.Cluster, topic string) (list []string) {
	t.Helper()
	recs, err := c.Admin().ReadAll(context.Background(), topic, true)
	must(t, err)
	seen := map[string]bool{}
	for i := range recs {
		r := &recs[i]
		type reading struct {
			Sensor string
			At     int64
			Value  *float64
		}
		var body struct {
			Machine string
			Points  []reading
			reading
		}
		must(t, json.Unmarshal(r.Value, &body))
		partition, _ := r.Header("odradek.source.partition")
		offset, _ := r.Header("odradek.source.offset")
		if id := fmt.Sprintf("%s %s", partition, offset); seen[id] {
			t.Errorf("the record at %s is twice in %s", id, topic)
		} else {
			seen[id] = true
		}
		late, numbered := r.Header("odradek.late.samples")
		if !numbered {
			body.Points, late = []reading{body.reading}, []byte("0")
		}
		n := 0
		for part := range strings.SplitSeq(string(late), ",") {
			var from, to int
			if _, err := fmt.Sscanf(part, "%d-%d", &from, &to); err != nil {
				to = from
			}
			for ; from <= to; from++ {
				p := body.Points[from]
				value := "null"
				if p.Value != nil {
					value = fmt.Sprint(*p.Value)
				}
				list = append(list, fmt.Sprint(body.Machine, " ", p.Sensor, " ", p.At, " ", value))
				n++
			}
		}
		if count, _ := r.Header("odradek.late.count"); numbered && string(count) != fmt.Sprint(n) {
			t.Errorf("%s late readings, and %s", count, late)
		}
	}
	slices.Sort(list)
	return list
}

// byTime returns scores by series, time and detector in the place of their source.
func byTime(scores map[scoreID]scored) map[scoreID]scored {
	all := make(map[scoreID]scored, len(scores))
	for id, s := range scores {
		all[scoreID{series: s.key, offset: s.eventTime, detector: id.detector}] = s
	}
	return all
}

// TestReadingsBadInput: a record with one reading that cannot be read is one dead letter, which names the reading, and none of its
// readings is scored; each of the others has an outcome of its own.
func TestReadingsBadInput(t *testing.T) {
	c := kafkatest.Open(t, kafkatest.KindFake)
	input := c.Topic(t, "in", 1)
	at := time.UnixMilli(1_700_000_000_000).UTC()
	var recs []kafkatest.Record
	add := func(values ...string) {
		var readings []batchReading
		for _, v := range values {
			at = at.Add(time.Second)
			readings = append(readings, batchReading{"speed", at, v})
		}
		recs = append(recs, batchRecord(input, 0, readings))
	}
	raw := func(value string) {
		recs = append(recs, kafkatest.Record{Topic: input, Key: []byte("machine-0"), Value: []byte(value)})
	}
	for range 10 {
		add("1", "2", "3")
	}
	add("1", "null", "3")
	bad := []struct{ class, field, text string }{
		{"infinite_value", "points[2].value", "infinite"},
		{"missing_field", "points", "does not have"}, {"bad_type", "points", "not an array"}, {"bad_time", "points[0].at", "no event time"},
		{"missing_key", "machine", "null or empty"}, {"too_large", "points", "65536 at most"}, {"future_time", "", "max_future"},
	}
	add("1", `"warm"`, "3") // missing
	add("1", "2", "1e999")
	raw(`{"machine":"machine-0"}`)
	raw(`{"machine":"machine-0","points":{"sensor":"speed"}}`)
	raw(`{"machine":"machine-0","points":[{"sensor":"speed","value":1}]}`)
	raw(`{"points":[{"sensor":"speed","value":1,"at":5}]}`)
	raw(`{"machine":"machine-0","points":[` + strings.Repeat("0,", 70000) + `0]}`)
	later := at
	at = time.Now().Add(48 * time.Hour)
	add("7")
	at = later
	raw(`{"machine":"machine-0","points":[]}`)
	raw(`{"machine":"machine-0","points":null}`)
	add("1", "2", "3")
	_, err := c.ProduceAcked(context.Background(), recs)
	must(t, err)
	f := newFleet(t, c, input, input+"-g", append(slices.Clone(batchSettings), "LATENESS=0s", "MAX_JUMP=0s", "MAX_FUTURE=24h")...)
	w := f.start("w")
	w.waitReady(t)
	f.waitDone()
	w.waitCounted(t, map[string]string{"consumed": "22", "further_samples": "26", "missing": "4", "dead_lettered": "7"})
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
	scores, err := c.Admin().ReadAll(context.Background(), f.group+"-scores", true)
	must(t, err)
	numbers := map[int32]int{}
	for i := range scores {
		s, err := output.DecodeScore(scores[i].Value)
		must(t, err)
		if s.Sample == nil {
			t.Fatalf("a score without the number of its sample: %+v", s)
		}
		numbers[*s.Sample]++
	}
	if len(numbers) != 3 {
		t.Errorf("numbers of samples: %v", numbers)
	}
	plain := f.start("plain", slices.Concat([]string{"READINGS_FIELD="}, singleSettings(), []string{"STATE_MISMATCH=reset", "LATENESS=0s"})...)
	if code := plain.exit(t); code != exitRefused || !plain.logged("worker state reset") ||
		!plain.logged("ODRADEK_READINGS_FIELD") {
		t.Errorf("state of other samples: exit code %d, want %d and a word of ODRADEK_READINGS_FIELD", code, exitRefused)
	}
}

// counted returns what a scrape says of a counter of records of one partition.
func counted(scrape, name string) string {
	for line := range strings.Lines(scrape) {
		if rest, ok := strings.CutPrefix(line, "odradek_records_"+name+"_total{"); ok {
			_, n, _ := strings.Cut(strings.TrimSpace(rest), "} ")
			return n
		}
	}
	return "none"
}

// TestReadingsOfSeries: of an array of readings with many sensors each, every sensor of a reading is a sample.
func TestReadingsOfSeries(t *testing.T) {
	c := kafkatest.Open(t, kafkatest.KindFake)
	input := c.Topic(t, "in", 1)
	var recs []kafkatest.Record
	for i := range 20 {
		value := `{"machine":"m","points":[`
		for j := range 3 {
			if j > 0 {
				value += ","
			}
			value += fmt.Sprintf(`{"at":%d,"a":%d,"b":null}`, 1_700_000_000_000+1000*(3*i+j), (i*j)%5)
		}
		recs = append(recs, kafkatest.Record{Topic: input, Key: []byte("m"), Value: []byte(value + "]}")})
	}
	_, err := c.ProduceAcked(context.Background(), recs)
	must(t, err)
	f := newFleet(t, c, input, input+"-g", "FORMAT=json", "READINGS_FIELD=points", "KEY_FIELD=machine", "TIME_FIELD=points.at",
		"SERIES_FIELDS=points.a,points.b", "MAX_JUMP=10m", "DETECTORS=level", "DETECTOR_LEVEL_OP=zscore", "DETECTOR_LEVEL_WINDOW=4")
	w := f.start("w")
	w.waitReady(t)
	f.waitDone()
	w.waitCounted(t, map[string]string{"further_samples": "100", "missing": "60"})
	if code := w.drain(t); code != exitOK {
		t.Errorf("drain ended with %d", code)
	}
	got, doubled := f.scores()
	if len(doubled) > 0 || len(got) < 50 {
		t.Errorf("%d scores, %d doubled", len(got), len(doubled))
	}
	for id, s := range got {
		if s.key != "m/points.a" || id.sample == 0 || (id.sample-1)%2 != 0 {
			t.Fatalf("%+v: %+v", id, s)
		}
	}
}

// goldenBatch makes the steps of the run of batch records: some of a clock that leaps, some that cannot be read, and one
// machine that stops for two minutes and is evicted.
type goldenBatch struct{ batchInput }

func (g *goldenBatch) step(_ *testing.T, topic string) []kafkatest.Record {
	var all []kafkatest.Record
	for len(all) < goldenStep {
		machine, readings := g.next()
		if since := g.at.Unix() - 1_700_000_000; machine == 3 && since > 60 && since < 200 {
			continue
		}
		if n := len(readings); n > 0 {
			switch r := &readings[g.rng.IntN(n)]; g.rng.IntN(70) {
			case 0:
				r.value = `"warm"`
			case 1:
				r.value = "1e999"
			case 2:
				r.at = r.at.Add(time.Hour) // the record is a suspect
			}
		}
		r := batchRecord(topic, machine, readings)
		r.Partition, r.Time = 0, g.at.UnixMilli()
		all = append(all, r)
	}
	return all
}

// testGoldenBatch compares what a run with records of several readings leaves with the ledger in a file.
func testGoldenBatch(t *testing.T, file string) {
	settings := append(slices.Clone(goldenSettings), batchSettings...)
	got := goldenRun(t, append(settings, "MAX_JUMP=10m"), func(*testing.T, string, string) goldenSource {
		return &goldenBatch{*newBatchInput(rand.New(rand.NewPCG(2024, 10)))}
	})
	for _, name := range []string{`golden-in-changelog "Emachine-3/load"`, `golden-dlq "machine-1"`, `golden-late "machine-0"`,
		`golden-anomalies "machine-0/temperature"`, `golden-scores "machine-2/speed"`} {
		if got[name] == nil {
			t.Errorf("nothing at %s", name)
		}
	}
	compareGolden(t, file, got)
}
