package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/influxdata/line-protocol/v2/lineprotocol"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"odradek/detectors/seedtest"
	"odradek/processor/kafkatest"
)

// encodedFormats encode the readings of a machine as agents do, with the settings that read them.
var encodedFormats = map[string]struct {
	settings []string
	encode   func(t *testing.T, machine string, readings []batchReading) []byte
	absent   bool   // a reading without a value is left out; else it is a missing sample
	broken   []byte // a record that ends in the middle of its third reading
	reason   string // what its dead letter says
}{
	"influx": {
		settings: []string{"FORMAT=influx", "READINGS_FIELD=@value", "KEY_FIELD=tags.machine+tags.sensor", "TIME_FIELD=timestamp",
			"VALUE_FIELDS=fields.value"},
		encode: encodeLines,
		absent: true,
		broken: []byte("m,machine=a,sensor=b value=1\n# a comment\nm,machine=a,sensor=b value=1\nm,machine=a,sen"),
		reason: "line 4, byte 16: a tag is expected",
	},
	"otlp in Protobuf": {
		settings: otlpSettings,
		encode: func(t *testing.T, machine string, readings []batchReading) []byte {
			b, err := proto.Marshal(encodePoints(machine, readings))
			must(t, err)
			return b
		},
		broken: []byte("\n\x05\x12\x03\x12\x01\x2a"),
		reason: "the record ends too early, after reading 0",
	},
	"otlp in JSON": {
		settings: otlpSettings,
		encode: func(t *testing.T, machine string, readings []batchReading) []byte {
			b, err := protojson.Marshal(encodePoints(machine, readings))
			must(t, err)
			return b
		},
		broken: []byte(`{"resourceMetrics":[{"resource":{"attributes":[{"key":"machine","value":{"stringValue":"a"}}]},
			"scopeMetrics":[{"metrics":[{"gauge":{"dataPoints":[{"asInt":"1"},{"asInt":"x"}]}}]}]}]}`),
		reason: "not OTLP after reading 1: a number is expected",
	},
}

var otlpSettings = []string{"FORMAT=otlp", "READINGS_FIELD=@value", "KEY_FIELD=resource.machine+attributes.sensor", "TIME_FIELD=time",
	"VALUE_FIELDS=value"}

// encodePoints encodes readings as data points of a gauge.
func encodePoints(machine string, readings []batchReading) *metrics.MetricsData {
	text := func(name, v string) []*common.KeyValue {
		return []*common.KeyValue{{Key: name, Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: v}}}}
	}
	gauge := &metrics.Gauge{}
	for _, r := range readings {
		p := &metrics.NumberDataPoint{Attributes: text("sensor", r.sensor), TimeUnixNano: uint64(r.at.UnixNano())}
		if v, err := strconv.ParseFloat(r.value, 64); err == nil {
			p.Value = &metrics.NumberDataPoint_AsDouble{AsDouble: v}
		} else {
			p.Flags = uint32(metrics.DataPointFlags_DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK)
		}
		gauge.DataPoints = append(gauge.DataPoints, p)
	}
	return &metrics.MetricsData{ResourceMetrics: []*metrics.ResourceMetrics{{
		Resource:     &resource.Resource{Attributes: text("machine", machine)},
		ScopeMetrics: []*metrics.ScopeMetrics{{Metrics: []*metrics.Metric{{Name: "readings", Data: &metrics.Metric_Gauge{Gauge: gauge}}}}}}}}
}

// encodeLines encodes readings in the line protocol, with lines between them that no value is mapped to.
func encodeLines(t *testing.T, machine string, readings []batchReading) []byte {
	var e lineprotocol.Encoder
	for i, r := range readings {
		e.StartLine("readings")
		e.AddTag("machine", machine)
		e.AddTag("sensor", r.sensor)
		e.AddField("status", lineprotocol.MustNewValue("running, \"well\"\n"))
		if v, err := strconv.ParseFloat(r.value, 64); err == nil {
			e.AddField("value", lineprotocol.MustNewValue(v))
		}
		e.EndLine(r.at)
		if i%3 == 0 {
			e.StartLine("status")
			e.AddField("uptime", lineprotocol.MustNewValue(int64(i)))
			e.EndLine(r.at)
		}
	}
	must(t, e.Err())
	return append([]byte("# of an agent\n"), e.Bytes()...)
}

// TestEncodedReadings: the readings of records that an agent's encoder has written have the scores that records of JSON have, one
// for each reading, although workers are killed, join and leave; a broken record is a dead letter that says where it is broken.
func TestEncodedReadings(t *testing.T) {
	ownBrokers(t)
	c := kafkatest.Open(t, kafkatest.KindFake)
	detection := slices.DeleteFunc(singleSettings(), func(s string) bool {
		name, _, _ := strings.Cut(s, "=")
		return slices.Contains([]string{"FORMAT", "KEY_FIELD", "TIME_FIELD", "VALUE_FIELDS"}, name)
	})
	for name, format := range encodedFormats {
		t.Run(name, func(t *testing.T) {
			ownBrokers(t)
			input, single := c.Topic(t, "in", 2), c.Topic(t, "single", 2)
			settings := append(append(slices.Clone(detection), format.settings...), "MAX_JUMP=0s")
			f := newFleet(t, c, input, input+"-g", settings...)
			source := newBatchInput(seedtest.New(t))
			dead := 0
			produce := func() {
				var recs, each []kafkatest.Record
				for range 200 {
					machine, readings := source.next()
					rec := batchRecord(input, machine, readings)
					for _, r := range readings {
						if r.value == "null" && format.absent {
							continue
						}
						each = append(each, kafkatest.Record{Topic: single, Partition: rec.Partition, Key: rec.Key,
							Value: fmt.Appendf(nil, `{"machine":%q,%s}`, rec.Key, r.fields())})
					}
					rec.Value = format.encode(t, string(rec.Key), readings)
					recs = append(recs, rec)
				}
				dead++
				recs = append(recs, kafkatest.Record{Topic: input, Value: format.broken})
				_, err := c.ProduceAcked(t.Context(), recs)
				must(t, err)
				_, err = c.ProduceAcked(t.Context(), each)
				must(t, err)
			}
			got := f.killJoinLeave(produce)
			still, offsets := undisturbedFleet(t, c, input, append(settings, "COMMIT_INTERVAL=300ms")...)
			compare(t, "undisturbed", original(t, still, offsets), got)
			alone, _ := undisturbedFleet(t, c, single, append(singleSettings(), "MAX_JUMP=0s")...)
			want, _ := alone.scores()
			if a, b := byTime(want), byTime(got); len(a) < 3000 || len(a) != len(want) {
				t.Errorf("%d scores, %d of series and times that are no other's", len(want), len(a))
			} else {
				compare(t, "single", a, b)
			}
			letters, err := c.Admin().ReadAll(t.Context(), f.group+"-dlq", true)
			must(t, err)
			if len(letters) != dead {
				t.Errorf("%d dead letters, want %d", len(letters), dead)
			}
			for i := range letters {
				text, _ := letters[i].Header("__streams.errors.message")
				if !strings.Contains(string(text), input+"/0 at offset ") || !strings.Contains(string(text), format.reason) {
					t.Errorf("a dead letter says %q, want %q", text, format.reason)
				}
			}
		})
	}
}

// line writes a record of the fields that Telegraf's JSON has in the line protocol.
func (r plantRecord) line() []byte {
	var e lineprotocol.Encoder
	for _, part := range []string{"name", "tags", "fields", "timestamp"} {
		for _, f := range r {
			inner, _ := f.value.(plantRecord)
			switch {
			case f.name != part:
			case part == "name":
				e.StartLine(f.value.(string))
			case part == "timestamp":
				e.EndLine(time.Unix(0, f.value.(int64)))
			}
			for _, v := range inner {
				if f.name == part && part == "tags" {
					e.AddTag(v.name, v.value.(string))
				} else if f.name == part {
					e.AddField(v.name, lineprotocol.MustNewValue(v.value))
				}
			}
		}
	}
	return e.Bytes()
}
