package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/linkedin/goavro/v2"

	"odradek/cmd/internal/config"
	"odradek/detectors/seedtest"
	"odradek/processor/kafkatest"
)

// TestBadInput: everything that cannot be read goes to the dead-letter topic byte
// for byte, says why, and stops nothing.
func TestBadInput(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *kafkatest.Cluster) {
		rng := seedtest.New(t)
		ctx := context.Background()
		input := c.Topic(t, "in", 2)
		m := newMeasurements(t, c.RegistryURL(t), input)
		good := func(n int) []kafkatest.Record { return walk(t, m, input, rng, 5, n) }

		head := func(id uint32) []byte { return binary.BigEndian.AppendUint32([]byte{0}, id) }
		body := m.record(t, input, "s", time.UnixMilli(1772323200000), 1).Value[5:]
		other, err := goavro.NewCodec(`{"type":"record","name":"Other","fields":[{"name":"sensor","type":"string"}]}`)
		if err != nil {
			t.Fatal(err)
		}
		otherID := register(t, c.RegistryURL(t), input+"-other-value", other.Schema())
		otherBody, _ := other.BinaryFromNative(nil, map[string]any{"sensor": "s"})
		changed, err := goavro.NewCodec(strings.Replace(sensorSchema, `["null","double"]`, `["null","string"]`, 1))
		if err != nil {
			t.Fatal(err)
		}
		changedID := register(t, c.RegistryURL(t), input+"-changed-value", changed.Schema())
		changedBody, err := changed.BinaryFromNative(nil, map[string]any{"sensor": "s", "site": map[string]any{"hall": 1, "line": nil},
			"time": time.UnixMilli(1772323200000), "value": goavro.Union("string", "warm"), "unit": nil})
		if err != nil {
			t.Fatal(err)
		}
		random := make([]byte, 200)
		for i := range random {
			random[i] = byte(rng.Uint32())
		}
		random[0] = 7
		year9999 := m.record(t, input, "s", time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), 1).Value
		longString := append(head(m.id), binary.AppendUvarint(nil, 1<<40)...) // length of sensor, zigzag of 2^39

		type bad struct {
			name, class string
			value       []byte
		}
		bads := []bad{
			{"tombstone", "tombstone", nil},
			{"empty", "truncated", []byte{}},
			{"truncated", "truncated", append(head(m.id), body[:len(body)-3]...)},
			{"trailing", "trailing_bytes", append(append(head(m.id), body...), 1, 2, 3)},
			{"random", "magic", random},
			{"magic", "magic", append([]byte{9}, head(m.id)[1:]...)},
			{"unknown id", "unknown_schema", append(head(999999), body...)},
			{"no field", "missing_field", append(head(otherID), otherBody...)},
			{"changed type", "bad_type", append(head(changedID), changedBody...)},
			{"no key", "missing_key", m.record(t, input, "", time.UnixMilli(1772323200000), 1).Value},
			{"infinite", "infinite_value", m.record(t, input, "s", time.UnixMilli(1772323200000), math.Inf(1)).Value},
			{"year 9999", "", year9999},
			{"gigantic length", "", longString},
			{"JSON", "magic", []byte(`{"sensor":"s","value":1.5}`)},
		}
		recs := good(300)
		sent := map[string]bad{}
		for i, b := range bads {
			key := fmt.Sprintf("bad-%d", i)
			sent[key] = b
			recs = append(recs, kafkatest.Record{Topic: input, Partition: int32(i % 2), Key: []byte(key), Value: b.value,
				Headers: []kafkatest.Header{{Key: "trace", Value: []byte{0, 1, 255}}, {Key: "none"}}})
			recs = append(recs, good(5)...)
		}
		acked, err := c.ProduceAcked(ctx, recs)
		if err != nil {
			t.Fatal(err)
		}
		f := newFleet(t, c, input, input+"-g", "SCHEMA_REGISTRY_GRACE=500ms")
		w := f.start("w")
		w.waitReady(t)
		f.waitDone()
		w.waitCounted(t, nil)
		if err := c.Admin().WaitStable(ctx, f.group+"-dlq"); err != nil {
			t.Fatal(err)
		}
		dead, err := c.Admin().ReadAll(ctx, f.group+"-dlq", true)
		if err != nil {
			t.Fatal(err)
		}
		if len(dead) != len(bads) {
			t.Errorf("%d dead letters, want %d", len(dead), len(bads))
		}
		at := map[string]kafkatest.Record{}
		for _, r := range acked {
			at[string(r.Key)] = r
		}
		for i := range dead {
			d := &dead[i]
			b, ok := sent[string(d.Key)]
			if !ok {
				t.Errorf("dead letter with key %q was never bad", d.Key)
				continue
			}
			src := at[string(d.Key)]
			if !bytes.Equal(d.Value, b.value) || (d.Value == nil) != (b.value == nil) {
				t.Errorf("%s: dead letter is not the record byte for byte", b.name)
			}
			head := func(name string) string {
				v, ok := d.Header(name)
				if !ok {
					t.Errorf("%s: dead letter has no header %s", b.name, name)
				}
				return string(v)
			}
			if head("trace") != "\x00\x01\xff" {
				t.Errorf("%s: the record's own header is lost", b.name)
			}
			if p, o := head("__streams.errors.partition"), head("__streams.errors.offset"); head("__streams.errors.topic") != input ||
				p != fmt.Sprint(src.Partition) || o != fmt.Sprint(src.Offset) {
				t.Errorf("%s: dead letter says it is %s/%s, it is %d/%d", b.name, p, o, src.Partition, src.Offset)
			}
			if class := head("odradek.error.class"); b.class != "" && class != b.class {
				t.Errorf("%s: class %s, want %s (%s)", b.name, class, b.class, head("__streams.errors.message"))
			}
			text := head("__streams.errors.message")
			if b.name == "JSON" && !strings.Contains(text, "it looks like JSON, which format=json reads") {
				t.Errorf("%s: the reason does not say so: %s", b.name, text)
			}
			t.Logf("%s: %s", b.name, text)
		}
		if code := w.drain(t); code != exitOK {
			t.Errorf("drain ended with %d", code)
		}
	})
}

// TestRekey: the record key is not the series key, so a series' records lie in
// several partitions; through the internal topic every series has one window.
func TestRekey(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *kafkatest.Cluster) {
		rng := seedtest.New(t)
		input := c.Topic(t, "in", 4)
		m := newMeasurements(t, c.RegistryURL(t), input)
		recs := walk(t, m, input, rng, 3, 1500)
		series := map[string]int{}
		for i := range recs {
			series[string(recs[i].Key)]++
			recs[i].Partition, recs[i].Key = int32(rng.IntN(4)), nil // any partition
		}
		if _, err := c.ProduceAcked(context.Background(), recs); err != nil {
			t.Fatal(err)
		}
		f := newFleet(t, c, input, input+"-g", "REKEY=true", "MISSING=hold", "LATENESS=10000s", "DETECTORS=level")
		w := f.start("w")
		w.waitReady(t)
		f.waitDone()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := c.Admin().WaitCommitted(ctx, f.group, f.group+"-rekey"); err != nil {
			t.Fatal(err)
		}
		w.kill()
		w = f.start("again")
		w.waitReady(t)
		// Later records move the watermark past all that is held.
		flush := make([]kafkatest.Record, 0, 64)
		for i := range 64 {
			r := m.record(t, input, fmt.Sprintf("flush-%d", i), time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC), 1)
			r.Partition, r.Key = int32(i%4), nil
			flush = append(flush, r)
		}
		if _, err := c.ProduceAcked(context.Background(), flush); err != nil {
			t.Fatal(err)
		}
		f.waitDone()
		if err := c.Admin().WaitCommitted(ctx, f.group, f.group+"-rekey"); err != nil {
			t.Fatal(err)
		}
		got, doubled := f.scores()
		if len(doubled) > 0 {
			t.Errorf("%d scores doubled", len(doubled))
		}
		backtestOfRekey(t, f, got)
		warming, all := map[string]int{}, map[string]int{}
		for _, s := range got {
			all[s.key]++
			if s.state == "warming_up" {
				warming[s.key]++
			}
		}
		for name, n := range series {
			if all[name] < n-5 || all[name] > n { // a series that begins with missing values has none to hold
				t.Errorf("%s: %d scores for %d records", name, all[name], n)
			}
			if warming[name] != 15 {
				t.Errorf("%s: warmed up %d samples, want one window's 15: its records are not in one place", name, warming[name])
			}
		}
		w.drain(t)
	})
}

// backtestOfRekey holds that a backtest of the internal topic has the worker's scores, and
// that one of its input is refused, where each partition has a part of a series.
func backtestOfRekey(t *testing.T, f *fleet, live map[scoreID]scored) {
	t.Helper()
	var env []string
	for _, kv := range f.settings() {
		if strings.HasPrefix(kv, config.Prefix) {
			env = append(env, kv)
		}
	}
	scores := filepath.Join(t.TempDir(), "scores.csv")
	run := func(topic string) (int, string) {
		var out, errs bytes.Buffer
		code := terminal{&out, &errs, env}.backtest(t.Context(), []string{"-in-topic", topic, "-report", "", "-scores", scores, "-quiet"})
		return code, errs.String()
	}
	if code, text := run(f.input); code == exitOK || !strings.Contains(text, "give -in-topic "+f.group+"-rekey") {
		t.Errorf("exit %d, %q: want the internal topic named", code, text)
	}
	if code, text := run(f.group + "-rekey"); code != exitOK {
		t.Fatalf("exit %d, %s", code, text)
	}
	type moment struct {
		series string
		at     int64
	}
	want := map[moment][]string{}
	for _, s := range live {
		at := moment{s.key, s.eventTime}
		want[at] = append(want[at], strconv.FormatUint(s.bits, 16)+s.state)
	}
	rows := tableRows(t, scores)
	for _, r := range rows {
		v := math.NaN()
		if r["score"] != "" {
			var err error
			v, err = strconv.ParseFloat(r["score"], 64)
			must(t, err)
		}
		at := moment{r["series_key"], timeOf(t, r["event_time"])}
		i := slices.Index(want[at], strconv.FormatUint(math.Float64bits(v), 16)+r["state"])
		if i < 0 {
			t.Fatalf("%v: %s, the worker has %v", at, r["score"], want[at])
		}
		want[at] = slices.Delete(want[at], i, i+1)
	}
	if len(rows) != len(live) || len(rows) < 1000 {
		t.Errorf("%d scores, the worker has %d", len(rows), len(live))
	}
}
