package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/cmd/internal/sensors"
	"odradek/processor/kafkatest"
	"odradek/schemas"
	"odradek/schemas/formats"
	"odradek/schemas/output"
	"odradek/schemas/registry"
)

// console returns a terminal whose output is kept.
func console(environ ...string) (t terminal, out, err *bytes.Buffer) {
	out, err = new(bytes.Buffer), new(bytes.Buffer)
	return terminal{out, err, environ}, out, err
}

func TestGenerateFlags(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"-faults spike,boom", "no fault is called"},
		{"-sensors 0 -fault-every 5 -start-time noon", "-start-time"},
		{"-rate -3", "-rate"},
		{"-topic no/topic", "-topic"},
		{"-history 10s -records 5", "-history 10s: use"},
		{"-history 10s -rate 5 -start-time 2026-01-01T00:00:00Z", "-history 10s: use"},
		{"-format xml", "-format"},
		{"-stream planets", "-stream"},
		{"-stream machines -format avro", "-stream machines use json"},
		{"-stream regions -fault-every 3", "-fault-every 3: use at least 4"},
		{"surplus", "unexpected argument"},
		{"-nonsense", "not defined"},
	} {
		term, _, errs := console()
		if code := term.generate(context.Background(), strings.Fields(c.args)); code != exitUsage || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%s: exit %d, %s", c.args, code, errs)
		}
	}
	term, _, errs := console("ODRADEK_KAFKA_BROKERS=nowhere")
	if code := term.generate(context.Background(), nil); code != exitUsage || !strings.Contains(errs.String(), "ODRADEK_KAFKA_BROKERS") {
		t.Errorf("exit %d, %s", code, errs)
	}
}

// What generate writes is what the flags say, as a client that is not ours
// sees it; labels go to file and topic alike and are the model's.
func TestGenerate(t *testing.T) { realCluster(t, testGenerate) }

func testGenerate(t *testing.T, c *kafkatest.Cluster) {
	topic := kafkatest.Unique("generated")
	url := c.RegistryURL(t)
	file := filepath.Join(t.TempDir(), "labels.jsonl")
	const count, total, seed = 13, 26_003, 99
	term, _, errs := console("ODRADEK_KAFKA_BROKERS="+strings.Join(c.Brokers, ","), "ODRADEK_SCHEMA_REGISTRY_URL="+url)
	code := term.generate(context.Background(), strings.Fields(fmt.Sprintf(
		"-topic %s -partitions 3 -replication 1 -sensors %d -records %d -seed %d -fault-every 300 -labels %s -labels-topic %s-labels -interval "+
			"250ms",
		topic, count, total, seed, file, topic)))
	if code != exitOK {
		t.Fatalf("exit %d: %s", code, errs)
	}
	t.Log(errs)

	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	recs, err := c.Admin().ReadAll(ctx, topic, true)
	if err != nil || len(recs) != total {
		t.Fatalf("%d records, %v", len(recs), err)
	}
	reg, err := registry.New(registry.Config{URLs: []string{url}})
	if err != nil {
		t.Fatal(err)
	}
	dec, err := formats.NewDecoder(output.ReadingMapping, reg, formats.Options{})
	if err != nil {
		t.Fatal(err)
	}
	model := &sensors.Model{Seed: seed, FaultEvery: 300}
	model.Faults, _ = sensors.ParseKinds("all")
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	seq := map[string]int64{}
	where := map[string]int32{}
	all := map[string]*sensors.Sensor{}
	want := map[string]int{} // labels
	for i := range count {
		s := model.Sensor(i)
		name := fmt.Sprintf("sensor-%05d", i)
		all[name] = &s
		steps := int64(total / count)
		if i < total%count {
			steps++
		}
		for _, f := range s.FaultsUntil(steps) {
			b, _ := json.Marshal(sensors.Label{Sensor: name, Fault: f.Kind.String(), FromSeq: f.From, ToSeq: f.To,
				From: start.Add(time.Duration(f.From) * 250 * time.Millisecond),
				To:   start.Add(time.Duration(f.To) * 250 * time.Millisecond), Size: f.Size})
			want[string(b)]++
		}
	}
	var r schemas.Reading
	for i := range recs {
		rec := &recs[i]
		if err := dec.Decode(ctx, rec.Key, rec.Value, rec.Time, nil, &r); err != nil {
			t.Fatal(err)
		}
		name := string(rec.Key)
		if string(r.Key) != name {
			t.Fatalf("record of %s has key %s", r.Key, name)
		}
		if p, ok := where[name]; ok && p != rec.Partition {
			t.Fatalf("%s is in partitions %d and %d", name, p, rec.Partition)
		}
		where[name] = rec.Partition
		n := seq[name]
		seq[name]++
		v, ok := all[name].At(n)
		if ok != (r.Values[0] == r.Values[0]) || ok && v != r.Values[0] {
			t.Fatalf("%s step %d is %v, want %v %v", name, n, r.Values[0], v, ok)
		}
		if at := start.Add(time.Duration(n) * 250 * time.Millisecond).UnixMicro(); r.Time != at {
			t.Fatalf("%s step %d is at %d, want %d", name, n, r.Time, at)
		}
	}
	if len(seq) != count {
		t.Errorf("%d sensors", len(seq))
	}
	b, _ := os.ReadFile(file)
	inFile := map[string]int{}
	for line := range strings.SplitSeq(strings.TrimSpace(string(b)), "\n") {
		inFile[line]++
	}
	inTopic := map[string]int{}
	labels, err := c.Admin().ReadAll(ctx, topic+"-labels", true)
	if err != nil {
		t.Fatal(err)
	}
	for i := range labels {
		inTopic[string(labels[i].Value)]++
	}
	for what, got := range map[string]map[string]int{"file": inFile, "topic": inTopic} {
		for l := range want {
			if got[l] != 1 {
				t.Errorf("%s: %d times %s", what, got[l], l)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: %d labels, want %d", what, len(got), len(want))
		}
	}
}

// TestGenerateHistory: a topic without records gets records of the time before now at once, one with records gets records of now.
func TestGenerateHistory(t *testing.T) {
	c := kafkatest.Open(t, kafkatest.KindFake)
	topic := kafkatest.Unique("history")
	first := func(n int) time.Duration { // how long before now the first record of the nth run was
		began := time.Now()
		term, _, errs := console("ODRADEK_KAFKA_BROKERS=" + strings.Join(c.Brokers, ","))
		if code := term.generate(t.Context(), strings.Fields("-topic "+topic+
			" -partitions 1 -replication 1 -sensors 2 -rate 100 -interval 1s -history 1000h -records 20")); code != exitOK {
			t.Fatalf("exit %d: %s", code, errs)
		}
		recs, err := c.Admin().ReadAll(t.Context(), topic, true)
		must(t, err)
		if len(recs) != n*20 {
			t.Fatalf("%d records after run %d", len(recs), n)
		}
		var r struct{ Time int64 }
		must(t, json.Unmarshal(recs[(n-1)*20].Value, &r))
		return began.Sub(time.UnixMilli(r.Time)).Round(time.Hour)
	}
	if d := first(1); d != 1000*time.Hour {
		t.Errorf("the first record of an empty topic is of %v ago", d)
	}
	if d := first(2); d != 0 {
		t.Errorf("the first record of a topic with records is of %v ago", d)
	}
}

// TestGenerateFormats: the readings of a run are the same in each format, with and without a
// registry.
func TestGenerateFormats(t *testing.T) {
	c := kafkatest.Open(t, kafkatest.KindFake)
	model := &sensors.Model{Seed: 7, FaultEvery: 100, Faults: []sensors.Kind{sensors.Spike, sensors.Dropout}}
	const count, total = 3, 1200
	reg, err := registry.New(registry.Config{URLs: []string{c.RegistryURL(t)}})
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range output.ReadingFormats {
		for name, client := range map[string]*registry.Client{"registry": reg, "no registry": nil} {
			environ := []string{"ODRADEK_KAFKA_BROKERS=" + strings.Join(c.Brokers, ",")}
			opts := formats.Options{Format: formats.Auto}
			if client != nil {
				environ = append(environ, "ODRADEK_SCHEMA_REGISTRY_URL="+c.RegistryURL(t))
			} else if opts.Format = format.Name; format.Name == "avro" {
				opts.Schemas = []string{format.Schema}
			} else {
				opts.Bare = format.Schema
			}
			topic := kafkatest.Unique("generated")
			term, _, errs := console(environ...)
			if code := term.generate(t.Context(), strings.Fields(fmt.Sprintf(
				"-topic %s -replication 1 -sensors %d -records %d -seed 7 -fault-every 100 -faults spike,dropout -format %s",
				topic, count, total, format.Name))); code != exitOK {
				t.Fatalf("%s, %s: exit %d: %s", format.Name, name, code, errs)
			}
			recs, err := c.Admin().ReadAll(t.Context(), topic, true)
			if err != nil || len(recs) != total {
				t.Fatalf("%s, %s: %d records, %v", format.Name, name, len(recs), err)
			}
			m := output.ReadingMapping
			m.Fields = []string{"value", "seq"}
			dec, err := formats.NewDecoder(m, client, opts)
			if err != nil {
				t.Fatal(err)
			}
			all := map[string]*sensors.Sensor{}
			for i := range count {
				s := model.Sensor(i)
				all[sensors.Name(i)] = &s
			}
			missing := 0
			for i := range recs {
				var r schemas.Reading
				if err := dec.Decode(t.Context(), recs[i].Key, recs[i].Value, recs[i].Time, nil, &r); err != nil {
					t.Fatalf("%s, %s: %v", format.Name, name, err)
				}
				step := int64(r.Values[1])
				v, ok := all[string(recs[i].Key)].At(step)
				if !ok {
					v = math.NaN()
					missing++
				}
				if at := time.Date(2026, 1, 1, 0, 0, int(step), 0, time.UTC).UnixMicro(); r.Time != at || !bytes.Equal(r.Key, recs[i].Key) {
					t.Fatalf("%s, %s: %s step %d is at %d, want %s at %d", format.Name, name, r.Key, step, r.Time, recs[i].Key, at)
				}
				if r.Values[0] != v && (ok || r.Values[0] == r.Values[0]) {
					t.Fatalf("%s, %s: %s step %d is %v, want %v", format.Name, name, r.Key, step, r.Values[0], v)
				}
			}
			if missing == 0 {
				t.Errorf("%s, %s: no reading without a value", format.Name, name)
			}
		}
	}
}

// TestGenerateNamesItsFormat: generate prints the format that it writes and the settings that read it, and writes JSON where no
// registry is configured, unless a format is given.
func TestGenerateNamesItsFormat(t *testing.T) {
	c := kafkatest.Open(t, kafkatest.KindFake)
	url := "ODRADEK_SCHEMA_REGISTRY_URL=" + c.RegistryURL(t)
	for _, tt := range []struct {
		environ, args string
		prefix        string // of each record
		want          []string
	}{
		{"", "", "{", []string{"JSON, because no schema registry is configured", "ODRADEK_FORMAT=json ODRADEK_KEY_FIELD=sensor"}},
		{"", "-format json", "{", []string{": JSON; a worker reads it with ODRADEK_FORMAT=json"}},
		{"", "-format avro", "\xc3\x01", []string{"Avro in single-object encoding, because no schema registry", "ODRADEK_SCHEMA_FILE"}},
		{"", "-format protobuf", "\n", []string{"Protobuf without framing, because no schema registry", "ODRADEK_SCHEMA_FILE"}},
		{"", "-stream machines", "{", []string{"JSON, as -stream machines always is", "ODRADEK_KEY_FIELD=fleet"}},
		{url, "", "\x00", []string{"Avro with the id of its schema in the registry", "with ODRADEK_KEY_FIELD=sensor"}},
		{url, "-format json", "\x00", []string{"JSON with the id of its schema in the registry"}},
		{url, "-stream regions", "{", []string{"JSON, as -stream regions always is", "ODRADEK_FORMAT=json ODRADEK_KEY_FIELD=region"}},
	} {
		topic := kafkatest.Unique("generated")
		environ := []string{"ODRADEK_KAFKA_BROKERS=" + strings.Join(c.Brokers, ",")}
		if tt.environ != "" {
			environ = append(environ, tt.environ)
		}
		term, _, errs := console(environ...)
		if code := term.generate(t.Context(), append([]string{"-topic", topic, "-partitions", "1", "-replication", "1", "-records", "20"},
			strings.Fields(tt.args)...)); code != exitOK {
			t.Fatalf("%s %s: exit %d: %s", tt.environ, tt.args, code, errs)
		}
		for _, want := range append(tt.want, "topic "+topic) {
			if !strings.Contains(errs.String(), want) {
				t.Errorf("%s %s: does not say %q: %s", tt.environ, tt.args, want, errs)
			}
		}
		recs, err := c.Admin().ReadAll(t.Context(), topic, true)
		must(t, err)
		if len(recs) != 20 || !strings.HasPrefix(string(recs[0].Value), tt.prefix) {
			t.Errorf("%s %s: %d records, the first %q, want %q first", tt.environ, tt.args, len(recs), recs[0].Value, tt.prefix)
		}
	}
}

// TestGenerateStreams: the records and labels of machines and of regions are their models', without a schema.
func TestGenerateStreams(t *testing.T) {
	c := kafkatest.Open(t, kafkatest.KindFake)
	for name, stream := range map[string]sensors.Stream{
		"machines -sensors 2": &sensors.Vectors{Seed: 7, Fleets: 2, Machines: 20, OutlierEvery: 250},
		"regions":             &sensors.Spots{Seed: 7, Regions: 2, Columns: 10, Rows: 8, SpotEvery: 12},
	} {
		topic := kafkatest.Unique("generated")
		term, _, errs := console("ODRADEK_KAFKA_BROKERS=" + strings.Join(c.Brokers, ","))
		if code := term.generate(t.Context(), strings.Fields(fmt.Sprintf(
			"-stream %s -topic %s -replication 1 -records 6000 -seed 7 -labels-topic %s-labels", name, topic, topic))); code != exitOK {
			t.Fatalf("%s: exit %d: %s", name, code, errs)
		}
		recs, err := c.Admin().ReadAll(t.Context(), topic, true)
		must(t, err)
		keys, got := stream.Keys(), map[string]bool{}
		for i := range recs {
			got[string(recs[i].Value)] = true
		}
		start, labels := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), 0
		for i := range int64(6000) {
			series, step := int(i)%len(keys), i/int64(len(keys))
			want, _ := stream.Append(nil, series, step, start.Add(time.Duration(step)*time.Second).UnixMicro())
			if !got[string(want)] {
				t.Fatalf("%s: record %d is missing: %s", name, i, want)
			}
			if l, ok := stream.Label(series, step); ok && (step == l.ToSeq || step == 2999) {
				labels++
			}
		}
		labelled, err := c.Admin().ReadAll(t.Context(), topic+"-labels", true)
		if err != nil || len(recs) != 6000 || len(labelled) != labels || labels < 10 {
			t.Errorf("%s: %d records, %d labels, want %d: %v", name, len(recs), len(labelled), labels, err)
		}
	}
}

// At a rate the records come at that rate, with event times that fit it, and
// the end of the context ends the run with everything sent.
func TestGenerateAtARate(t *testing.T) {
	c := kafkatest.Open(t, kafkatest.KindFake)
	topic := kafkatest.Unique("rate")
	term, _, errs := console("ODRADEK_KAFKA_BROKERS=" + strings.Join(c.Brokers, ","))
	ctx, cancel := context.WithTimeout(context.Background(), 1500*time.Millisecond)
	defer cancel()
	before := time.Now()
	if code := term.generate(ctx, strings.Fields("-topic "+topic+" -replication 1 -sensors 10 -rate 2000 -format avro")); code != exitOK {
		t.Fatalf("exit %d: %s", code, errs)
	}
	took := time.Since(before)
	recs, err := c.Admin().ReadAll(context.Background(), topic, true)
	if most := int(2000*took.Seconds()) + 500; err != nil || len(recs) == 0 || len(recs) > most {
		t.Errorf("%d records in %v, at most %d are right: %v", len(recs), took, most, err)
	}
	dec, err := formats.NewDecoder(output.ReadingMapping, nil, formats.Options{Schemas: []string{output.ReadingSchema}})
	if err != nil {
		t.Fatal(err)
	}
	var r schemas.Reading
	for i := range recs {
		if err := dec.Decode(context.Background(), recs[i].Key, recs[i].Value, recs[i].Time, nil, &r); err != nil {
			t.Fatal(err)
		}
		if d := time.UnixMicro(r.Time).Sub(before); d < -time.Second || d > took+time.Second {
			t.Fatalf("event time is %v after the start", d)
		}
	}
	var n int
	_, last, _ := strings.Cut(errs.String(), "\n") // the first line has the format
	fmt.Sscan(last, &n)
	if n != len(recs) {
		t.Errorf("it says %d records, the topic has %d", n, len(recs))
	}
}

// TestGenerateOutage: brokers that cannot say what became of a batch do not end generate, and each record is in the topic once.
func TestGenerateOutage(t *testing.T) {
	c := kafkatest.Fake(t, kafkatest.FakeOptions{})
	topic := c.Topic(t, "outage", 1)
	h := c.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.UnknownServerError, Count: 8})
	defer h.Remove()
	term, _, errs := console("ODRADEK_KAFKA_BROKERS=" + strings.Join(c.Brokers, ","))
	if code := term.generate(t.Context(), strings.Fields("-topic "+topic+" -sensors 10 -records 1000")); code != exitOK {
		t.Fatalf("exit %d: %s", code, errs)
	}
	recs, err := c.Admin().ReadAll(t.Context(), topic, true)
	if err != nil || len(recs) != 1000 || h.Hits() < 8 {
		t.Errorf("%d records after %d faults: %v", len(recs), h.Hits(), err)
	}
}

// TestGenerateEndsInAnOutage: generate that is told to stop does not wait for brokers that are away.
func TestGenerateEndsInAnOutage(t *testing.T) {
	c := kafkatest.Fake(t, kafkatest.FakeOptions{})
	topic := c.Topic(t, "outage", 1)
	defer c.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.UnknownServerError, Count: -1}).Remove()
	term, _, errs := console("ODRADEK_KAFKA_BROKERS=" + strings.Join(c.Brokers, ","))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if code := term.generate(ctx, strings.Fields("-topic "+topic+" -sensors 10 -rate 1000")); code != exitFailed {
		t.Fatalf("exit %d: %s", code, errs)
	}
}
