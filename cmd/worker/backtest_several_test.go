package main

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"odradek/cmd/internal/config"
	"odradek/detectors/seedtest"
	"odradek/processor/kafka"
	"odradek/processor/kafkatest"
	"odradek/schemas/output"
)

// severalShapes are records that are several samples: their settings, and a source of records of two partitions.
var severalShapes = []struct {
	name     string
	settings []string
	numbered bool // scores name the sample of their record
	source   func(rng *rand.Rand) func(topic string) kafkatest.Record
}{
	{"wide", wideSettings, false, func(rng *rand.Rand) func(string) kafkatest.Record {
		g := newWideInput(rng)
		return func(topic string) kafkatest.Record {
			machine, at, values := g.next()
			switch rng.IntN(120) {
			case 0:
				values[1] = `"warm"` // a dead letter
			case 1:
				at = at.Add(3 * time.Hour) // a suspect
			}
			return wideRecord(topic, machine, at, values)
		}
	}},
	{"batch", batchSettings, true, func(rng *rand.Rand) func(string) kafkatest.Record {
		g := newBatchInput(rng)
		return func(topic string) kafkatest.Record {
			machine, readings := g.next()
			if n := len(readings); n > 0 {
				switch r := &readings[rng.IntN(n)]; rng.IntN(120) {
				case 0:
					r.value = `"warm"`
				case 1:
					r.at = r.at.Add(3 * time.Hour)
				}
			}
			return batchRecord(topic, machine, readings)
		}
	}},
	{"wide batch", append(slices.DeleteFunc(slices.Clone(wideSettings), func(s string) bool {
		return strings.HasPrefix(s, "SERIES_FIELDS=") || strings.HasPrefix(s, "TIME_FIELD=")
	}), "READINGS_FIELD=points", "TIME_FIELD=points.at", "SERIES_FIELDS=points.temperature,points.load",
		"DETECTOR_REST_KEYS=*/points.load"), true, func(rng *rand.Rand) func(string) kafkatest.Record {
		g := newWideInput(rng)
		return func(topic string) kafkatest.Record {
			var points []string
			machine := 0
			for range 1 + rng.IntN(4) {
				var at time.Time
				var values []string
				machine, at, values = g.next()
				for i := range values[:2] {
					if values[i] == "" {
						values[i] = "null"
					}
				}
				points = append(points, fmt.Sprintf(`{"at":%d,"temperature":%s,"load":%s}`, at.UnixMilli(), values[0], values[1]))
			}
			key := fmt.Sprint("machine-", machine)
			return kafkatest.Record{Topic: topic, Partition: int32(machine % 2), Key: []byte(key),
				Value: fmt.Appendf(nil, `{"machine":%q,"points":[%s]}`, key, strings.Join(points, ","))}
		}
	}},
}

// TestBacktestOfSeveral: a backtest of a topic whose records are several samples each finds what a worker has published of it,
// record for record and to the byte, with late samples, suspects and dead letters among them.
func TestBacktestOfSeveral(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs workers")
	}
	for _, shape := range severalShapes {
		t.Run(shape.name, func(t *testing.T) {
			c := kafkatest.Open(t, kafkatest.KindFake)
			input := c.Topic(t, "in", 2)
			settings := append(slices.Clone(shape.settings), "MAX_JUMP=1h", "MAX_FUTURE=0s", "EXECUTOR=cpu", "SILENCE=2s")
			f := newFleet(t, c, input, input+"-g", settings...)
			next := shape.source(seedtest.New(t))
			var recs []kafkatest.Record
			for range 2500 {
				r := next(input)
				r.Time = 1_700_000_000_000 + int64(len(recs))
				recs = append(recs, r)
			}
			f.add(recs, "live")
			dir := t.TempDir()
			scores, anomalies := filepath.Join(dir, "scores.csv"), filepath.Join(dir, "anomalies.csv")
			env := append([]string{"KAFKA_BROKERS=" + strings.Join(c.Brokers, ","), "SCHEMA_REGISTRY_URL=" + f.registry, "GROUP=" + f.group,
				"TOPICS=" + input}, settings...)
			text := runBacktest(t, env, "-in-topic", input, "-published", f.group+"-anomalies", "-to-topic", input+"-again", "-scores", scores,
				"-anomalies", anomalies, "-report", filepath.Join(dir, "r.html"), "-quiet")
			compared := 0
			for line := range strings.Lines(text) {
				if !strings.Contains(line, " published by ") || strings.HasPrefix(line, "rest: ") &&
					strings.HasSuffix(line, " 0 anomalies of the backtest among them, 0 new\n") { // it has published none
					continue
				}
				var name, by string
				var published, found, missed, both, only int
				_, err := fmt.Sscanf(line, "%s %d published by %s %d of them found, %d not; %d anomalies of the backtest among them, %d new",
					&name, &published, &by, &found, &missed, &both, &only)
				if compared += published; err != nil || by != name || found != published || missed != 0 || only != 0 {
					t.Errorf("beside what was published (%v): %s", err, line)
				}
			}
			if compared < 20 {
				t.Errorf("%d published anomalies are compared: %s", compared, text)
			}
			sizes := map[string]int{}
			for _, suffix := range []string{"-scores", "-anomalies"} {
				read := func(topic string) (list []string) {
					recs, err := c.Admin().ReadAll(t.Context(), topic, true)
					must(t, err)
					for i := range recs {
						list = append(list, fmt.Sprintf("%s %x", recs[i].Key, recs[i].Value[5:])) // the schema's id is the subject's
					}
					slices.Sort(list)
					return list
				}
				want, got := read(f.group+suffix), read(input+"-again"+suffix)
				if sizes[suffix] = len(want); !slices.Equal(want, got) {
					t.Errorf("%d records in again%s, the worker has published %d, or others", len(got), suffix, len(want))
				}
			}
			rows, ids, numbers := tableRows(t, scores), map[string]bool{}, map[string]bool{}
			for _, r := range append(rows, tableRows(t, anomalies)...) {
				ids[strings.Join([]string{r["partition"], r["offset"], r["sample"], r["detector"], r["series_key"], r["id"]}, " ")] = true
				numbers[r["sample"]] = true
			}
			list := tableRows(t, anomalies)
			if len(rows) != sizes["-scores"] || len(ids) != len(rows)+len(list) || len(rows) < 4000 || shape.numbered != (len(numbers) > 3) {
				t.Errorf("%d rows of scores, %d of anomalies, %d of their own; the worker has %d scores; numbers of samples: %v", len(rows), len(list),
					len(ids), sizes["-scores"], numbers)
			}
			for _, a := range publishedOf(t, c, f.group+"-anomalies") {
				if shape.numbered != (a.Sample != nil) {
					t.Fatalf("an anomaly with sample %v", a.Sample)
				}
			}
		})
	}
}

// publishedOf returns the changes of anomalies in a topic.
func publishedOf(t *testing.T, c *kafkatest.Cluster, topic string) (list []output.Anomaly) {
	t.Helper()
	recs, err := c.Admin().ReadAll(t.Context(), topic, true)
	must(t, err)
	for i := range recs {
		a, err := output.DecodeAnomaly(recs[i].Value)
		must(t, err)
		list = append(list, a)
	}
	return list
}

// TestBacktestOfWideFiles: each column of a file is a series, and has the scores of a worker that reads the rows as records.
func TestBacktestOfWideFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs a worker")
	}
	c := kafkatest.Open(t, kafkatest.KindFake)
	input := c.Topic(t, "in", 2)
	settings := append(slices.Clone(wideSettings), "MAX_FUTURE=0s", "EXECUTOR=cpu")
	f := newFleet(t, c, input, input+"-g", settings...)
	f.several = true
	g := newWideInput(seedtest.New(t))
	var recs []kafkatest.Record
	var b bytes.Buffer
	b.WriteString("machine,at")
	for _, field := range wideFields {
		b.WriteString(",sensors." + field)
	}
	b.WriteByte('\n')
	for range 1500 {
		machine, at, values := g.next()
		if values[0] == "" {
			values[0] = "null" // a record with none of the fields would be a dead letter
		}
		r := wideRecord(input, machine, at, values)
		r.Partition = kafka.Partition(r.Key, 2)
		recs = append(recs, r)
		fmt.Fprintf(&b, "%s,%d,%s\n", r.Key, at.UnixMilli(), strings.ReplaceAll(strings.Join(values, ","), "null", ""))
	}
	f.add(recs, "live")
	dir := t.TempDir()
	path, scores := filepath.Join(dir, "rows.csv"), filepath.Join(dir, "scores.csv")
	must(t, os.WriteFile(path, b.Bytes(), 0o644))
	runBacktest(t, settings, "-in", path, "-topic", input, "-partitions", "2", "-scores", scores, "-report", "", "-quiet")
	want, _ := f.scores()
	got := tableRows(t, scores)
	differ := 0
	for _, r := range got {
		var partition int32
		var offset int64
		fmt.Sscan(r["partition"], &partition)
		fmt.Sscan(r["offset"], &offset)
		s, ok := want[scoreID{topic: input, partition: partition, offset: offset, detector: r["detector"], series: r["series_key"]}]
		v := math.NaN()
		if r["score"] != "" {
			_, err := fmt.Sscan(r["score"], &v)
			must(t, err)
		}
		if !ok || math.Float64bits(v) != s.bits || timeOf(t, r["event_time"]) != s.eventTime {
			if differ++; differ < 5 {
				t.Errorf("%v: the worker has %+v", r, s)
			}
		}
	}
	if len(got) != len(want) || len(got) < 4000 || differ > 0 {
		t.Errorf("%d scores, %d of which differ; the worker has %d", len(got), differ, len(want))
	}

	// An array of readings is no row.
	var out, errs bytes.Buffer
	code := terminal{&out, &errs, []string{config.Prefix + "READINGS_FIELD=points", config.Prefix + "TIME_FIELD=points.at",
		config.Prefix + "VALUE_FIELDS=points.value", config.Prefix + "KEY_FIELD=machine"}}.backtest(t.Context(),
		[]string{"-in", path, "-report", "", "-scores", scores, "-quiet"})
	if code == exitOK || !strings.Contains(errs.String(), "-in-topic") {
		t.Errorf("exit code %d, %q", code, errs.String())
	}
}
