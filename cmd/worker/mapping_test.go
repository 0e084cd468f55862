package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/linkedin/goavro/v2"

	"odradek/cmd/internal/why"
	"odradek/detectors/seedtest"
	"odradek/processor/kafkatest"
)

// wideSchema is the Avro schema of records of machines with all their sensors.
const wideSchema = `{"type":"record","name":"Machine","fields":[{"name":"machine","type":"string"},
 {"name":"at","type":{"type":"long","logicalType":"timestamp-millis"}},{"name":"sensors","type":{"type":"record","name":"Sensors","fields":[
 {"name":"temperature","type":["null","double"]},{"name":"vibration","type":["null","double"]},
 {"name":"load","type":["null","double"]},{"name":"speed","type":["null","double"]}]}}]}`

// wideAvro encodes wide records with goavro.
type wideAvro struct {
	codec *goavro.Codec
	id    uint32
}

func newWideAvro(t *testing.T, url, topic string) *wideAvro {
	t.Helper()
	codec, err := goavro.NewCodec(wideSchema)
	must(t, err)
	return &wideAvro{codec, register(t, url, topic+"-value", wideSchema)}
}

// record encodes what wideRecord writes as JSON.
func (w *wideAvro) record(t *testing.T, topic string, machine int, at time.Time, values []string) kafkatest.Record {
	t.Helper()
	sensors := map[string]any{}
	for i, text := range values {
		sensors[wideFields[i]] = nil
		if v, err := strconv.ParseFloat(text, 64); err == nil {
			sensors[wideFields[i]] = goavro.Union("double", v)
		}
	}
	key := fmt.Sprint("machine-", machine)
	b, err := w.codec.BinaryFromNative(binary.BigEndian.AppendUint32([]byte{0}, w.id),
		map[string]any{"machine": key, "at": at, "sensors": sensors})
	must(t, err)
	return kafkatest.Record{Topic: topic, Partition: int32(machine % 2), Key: []byte(key), Value: b}
}

// The settings of the two topics of TestMappings: what each has alone, and what is the same for both.
var (
	wideOfTwo = []string{
		"FORMAT=avro", "KEY_FIELD=machine", "TIME_FIELD=at", "LATENESS=3s", "DUPLICATES=drop", "MAX_JUMP=0s",
		"SERIES_FIELDS=sensors.temperature,sensors.vibration,sensors.load,sensors.speed", "DETECTORS=level,rest",
	}
	jsonOfTwo = []string{
		"FORMAT=json", "KEY_FIELD=site+device", "TIME_FIELD=ts", "TIME_UNIT=s", "VALUE_FIELDS=x,y", "MISSING=hold", "MAX_JUMP=0s", "TTL=20m",
		"DETECTORS=level,near,rest",
	}
	ofBoth = []string{
		"DETECTOR_LEVEL_OP=zscore", "DETECTOR_LEVEL_WINDOW=12", "DETECTOR_LEVEL_THRESHOLD=fixed:4", "DETECTOR_REST_OP=flatline",
		"DETECTOR_REST_WINDOW=6", "DETECTOR_REST_STRIDE=2", "DETECTOR_REST_KEYS=*/sensors.speed,*-1", "DETECTOR_NEAR_OP=knn",
		"DETECTOR_NEAR_WINDOW=32", "DETECTOR_NEAR_STRIDE=4",
	}
)

// jsonRecord is a reading of a device in JSON, with a time in seconds.
func jsonRecord(topic string, rng *rand.Rand, n int) kafkatest.Record {
	device := rng.IntN(5)
	x := fmt.Sprint(rng.NormFloat64())
	switch rng.IntN(30) {
	case 0:
		x = "null"
	case 1:
		x = fmt.Sprint(20 + rng.NormFloat64())
	case 2:
		x = `"?"` // a dead letter
	}
	return kafkatest.Record{Topic: topic, Partition: int32(device % 2), Key: fmt.Append(nil, "device-", device),
		Value: fmt.Appendf(nil, `{"site":"north","device":"d-%d","ts":%d,"x":%s,"y":%v}`, device, 1_700_000_000+n, x, rng.NormFloat64())}
}

// TestMappings: two topics of other shapes, Avro records of many sensors and JSON readings, have in one group, whose
// workers are killed, join and leave, the scores that each has in a group of its own.
func TestMappings(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *kafkatest.Cluster) {
		rng := seedtest.New(t)
		wide, plain := c.Topic(t, "wide", 2), c.Topic(t, "plain", 2)
		settings := append([]string{"TOPICS=" + plain + "," + wide, "MAPPING_LINE_1_TOPICS=" + wide}, ofBoth...)
		settings = append(settings, jsonOfTwo...)
		for _, s := range wideOfTwo {
			settings = append(settings, "MAPPING_LINE_1_"+s)
		}
		// TTL is of the other topic.
		settings = append(settings, "MAPPING_LINE_1_TTL=0s", "MAPPING_LINE_1_MISSING=skip")
		f := newFleet(t, c, plain, plain+"-g", settings...)
		f.several, f.also = true, []string{wide}
		avro, source, n := newWideAvro(t, c.RegistryURL(t), wide), newWideInput(rng), 0
		produce := func() {
			var recs []kafkatest.Record
			for range 500 {
				machine, at, values := source.next()
				recs = append(recs, avro.record(t, wide, machine, at, values), jsonRecord(plain, rng, n))
				n++
			}
			_, err := c.ProduceAcked(context.Background(), recs)
			must(t, err)
		}
		got := f.killJoinLeave(produce)
		ofTopic := func(topic string) map[scoreID]scored {
			some := maps.Clone(got)
			maps.DeleteFunc(some, func(id scoreID, _ scored) bool { return id.topic != topic })
			return some
		}
		for topic, own := range map[string][]string{wide: wideOfTwo, plain: jsonOfTwo} {
			still, offsets := undisturbedFleet(t, c, topic, slices.Concat(own, ofBoth, []string{"VALUE_FIELDS=" + valueFields(own)})...)
			still.several = true
			want := original(t, still, offsets)
			if len(want) < 2000 {
				t.Errorf("%d scores of %s", len(want), topic)
			}
			compare(t, topic, want, ofTopic(topic))
		}
		dead, err := c.Admin().ReadAll(context.Background(), f.group+"-dlq", true)
		must(t, err)
		if len(dead) == 0 {
			t.Error("no dead letter of the JSON readings")
		}
		for i := range dead {
			for _, h := range dead[i].Headers {
				if h.Key == "odradek.source.topic" && string(h.Value) != plain {
					t.Fatalf("a dead letter of %s: %v", h.Value, dead[i].Headers)
				}
			}
		}
		f.otherCommandsByTopic(wide, plain)
	})
}

// otherCommandsByTopic holds that check, why, backtest and dlq read each topic by its own mapping.
func (f *fleet) otherCommandsByTopic(wide, plain string) {
	t := f.t
	t.Helper()
	code, out := runCheck(t, f.settings())
	out = strings.Join(strings.Fields(out), " ")
	for _, want := range []string{"ok subject " + wide + "-value version 1 has all mapped fields; a record is 4 samples",
		"ok records of " + wide + " 50", " records of " + plain + " ", "ok stored state 4 partitions can continue", "read by mapping LINE_1"} {
		if !strings.Contains(out, want) {
			t.Errorf("check: exit %d, no %q in\n%s", code, want, out)
		}
	}
	explained := map[string]int{}
	for _, list := range publishedAnomalies(t, f.c, f.group+"-anomalies") {
		for i := range list {
			if explained[list[i].Topic+list[i].Detector]++; explained[list[i].Topic+list[i].Detector] > 2 {
				continue
			}
			r, code, errs := runWhy(t, f.settings(), idOf(&list[i]))
			if code != exitOK || r.Verdict != why.Equal || !r.Reproduced {
				t.Errorf("why of %s in %s: exit %d, %s, reproduced %v: %v %s", list[i].Detector, list[i].Topic, code, r.Verdict, r.Reproduced,
					r.Notes, errs)
			}
		}
	}
	if explained[wide+"level"] == 0 || explained[plain+"level"] == 0 {
		t.Errorf("explained %v", explained)
	}
	run := func(command func(terminal, context.Context, []string) int, args ...string) (int, string) {
		term, out, errs := console(f.settings()...)
		return command(term, t.Context(), args), out.String() + errs.String()
	}
	backtest := []string{"-report", "", "-scores", t.TempDir() + "/s.csv", "-quiet", "-in-topic"}
	for _, topic := range []string{plain, wide} {
		code, said := run(terminal.backtest, append(backtest, topic, "-published", f.group+"-anomalies")...)
		var published, found int
		for line := range strings.Lines(said) {
			_, _ = fmt.Sscanf(line, "level: %d published by level: %d of them found", &published, &found)
		}
		if code != exitOK || published == 0 || found != published {
			t.Errorf("backtest of %s: exit %d: %s", topic, code, said)
		}
	}
	code, said := run(terminal.dlq, "redrive", "-dry-run")
	if code != exitOK || !strings.Contains(said, "left, would be a dead letter again") || !strings.Contains(said, "would send nothing") {
		t.Errorf("dlq: exit %d: %s", code, said)
	}
}

func valueFields(settings []string) string {
	for _, s := range settings {
		if v, ok := strings.CutPrefix(s, "VALUE_FIELDS="); ok {
			return v
		}
	}
	return "value"
}
