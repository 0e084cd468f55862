package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"odradek/detectors/seedtest"
	"odradek/processor/kafkatest"
)

// The same readings as JSON and as Protobuf: of other schemas than the worker's own,
// with more fields than are read.
const (
	sensorJSONSchema = `{"$schema":"http://json-schema.org/draft-07/schema#","title":"Measurement","type":"object","properties":{
 "sensor":{"type":"string"},"site":{"type":"object","properties":{"hall":{"type":"integer"}}},
 "time":{"type":"integer"},"value":{"type":["number","null"]}}}`
	sensorProto = `syntax = "proto3";
package plant;
message Header { int32 version = 1; }
message Measurement {
  string sensor = 1;
  message Site { int32 hall = 1; }
  Site site = 2;
  int64 time = 3;
  optional double value = 4;
}`
)

// reading is what a record of any format says.
type reading struct {
	Sensor string         `json:"sensor"`
	Site   map[string]int `json:"site"`
	Time   int64          `json:"time"` // milliseconds
	Value  *float64       `json:"value"`
}

func (r *reading) json(t *testing.T, framing []byte) []byte {
	t.Helper()
	b, err := json.Marshal(r)
	must(t, err)
	return append(framing[:len(framing):len(framing)], b...)
}

// proto returns a Measurement, the second message of its schema: index 1 in an array of one.
func (r *reading) proto(framing []byte) []byte {
	b := append(framing[:len(framing):len(framing)], 2, 2)
	b = protowire.AppendString(protowire.AppendTag(b, 1, protowire.BytesType), r.Sensor)
	site := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(r.Site["hall"]))
	b = protowire.AppendBytes(protowire.AppendTag(b, 2, protowire.BytesType), site)
	b = protowire.AppendVarint(protowire.AppendTag(b, 3, protowire.VarintType), uint64(r.Time))
	if r.Value != nil {
		b = protowire.AppendFixed64(protowire.AppendTag(b, 4, protowire.Fixed64Type), math.Float64bits(*r.Value))
	}
	return b
}

// TestFormats: the same readings in topics of each format have the same scores, and a
// record that its format cannot read is a dead letter at its own coordinates.
func TestFormats(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *kafkatest.Cluster) {
		rng := seedtest.New(t)
		url := c.RegistryURL(t)
		readings := make([]reading, 600)
		for i := range readings {
			v := math.Sin(float64(i)/40) + 0.1*rng.NormFloat64()
			readings[i] = reading{fmt.Sprintf("sensor-%d", rng.IntN(4)), map[string]int{"hall": 3}, 1772323200000 + 1000*int64(i), &v}
			if rng.IntN(50) == 0 {
				readings[i].Value = nil
			}
		}
		var want map[scoreID]scored
		for _, format := range []struct{ name, kind, schema, setting string }{
			{"avro", "", sensorSchema, "auto"},
			{"json", "JSON", sensorJSONSchema, "auto"},
			{"protobuf", "PROTOBUF", sensorProto, "auto"},
			{"bare json", "", "", "json"},
		} {
			input := c.Topic(t, "in", 2)
			var framing []byte
			var avro *measurements
			switch {
			case format.name == "avro":
				avro = newMeasurements(t, url, input)
			case format.schema != "":
				framing = binary.BigEndian.AppendUint32([]byte{0}, registerAs(t, url, input+"-value", format.kind, format.schema))
			}
			encode := func(r *reading) kafkatest.Record {
				switch {
				case avro != nil:
					v := math.NaN()
					if r.Value != nil {
						v = *r.Value
					}
					return avro.record(t, input, r.Sensor, time.UnixMilli(r.Time), v)
				case format.kind == "PROTOBUF":
					return kafkatest.Record{Topic: input, Key: []byte(r.Sensor), Value: r.proto(framing)}
				}
				return kafkatest.Record{Topic: input, Key: []byte(r.Sensor), Value: r.json(t, framing)}
			}
			var recs []kafkatest.Record
			for i := range readings {
				rec := encode(&readings[i])
				rec.Partition = int32(readings[i].Sensor[len("sensor-")]) % 2
				if recs = append(recs, rec); i == 300 {
					rec.Key, rec.Value = []byte("cut"), rec.Value[:len(rec.Value)-4]
					recs = append(recs, rec)
				}
			}
			_, err := c.ProduceAcked(context.Background(), recs)
			must(t, err)
			f := newFleet(t, c, input, input+"-g", "FORMAT="+format.setting, "MISSING=hold")
			w := f.start("w")
			w.waitReady(t)
			f.waitDone()
			w.waitCounted(t, nil)
			if code := w.drain(t); code != exitOK {
				t.Errorf("%s: drain ended with %d", format.name, code)
			}
			dead, err := c.Admin().ReadAll(context.Background(), f.group+"-dlq", true)
			must(t, err)
			if len(dead) != 1 || string(dead[0].Key) != "cut" {
				t.Errorf("%s: %d dead letters, want the one that was cut", format.name, len(dead))
			}
			scores, doubled := f.scores()
			if len(doubled) > 0 {
				t.Errorf("%s: %d scores doubled", format.name, len(doubled))
			}
			got := make(map[scoreID]scored, len(scores))
			for id, s := range scores {
				id.topic = ""
				got[id] = s
			}
			if want == nil {
				if want = got; len(want) < 600 {
					t.Fatalf("only %d scores", len(want))
				}
				continue
			}
			compare(t, format.name, want, got)
		}
	})
}
