package output

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/linkedin/goavro/v2"
)

// TestNumberedSchemas: a numbered schema is the one without numbers and one field more, which has a default, so that a reader of
// either reads the records of both.
func TestNumberedSchemas(t *testing.T) {
	for plain, numbered := range map[string]string{ScoreSchema: NumberedScoreSchema, AnomalySchema: NumberedAnomalySchema} {
		var a, b map[string]any
		if err := json.Unmarshal([]byte(plain), &a); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(numbered), &b); err != nil {
			t.Fatal(err)
		}
		fields := b["fields"].([]any)
		last := fields[len(fields)-1].(map[string]any)
		if value, ok := last["default"]; last["name"] != "sample" || !ok || value != nil {
			t.Errorf("the last field is %v", last)
		}
		if b["fields"] = fields[:len(fields)-1]; !reflect.DeepEqual(a, b) {
			t.Errorf("%v\nis not\n%v", b, a)
		}
	}
}

// TestNumbered: goavro reads the numbers of samples, from Avro and from JSON, as do the decoders.
func TestNumbered(t *testing.T) {
	codec, err := goavro.NewCodec(NumberedScoreSchema)
	if err != nil {
		t.Fatal(err)
	}
	anomalies, err := goavro.NewCodec(NumberedAnomalySchema)
	if err != nil {
		t.Fatal(err)
	}
	fromJSON, anomalyFromJSON := goavroJSON(t, NumberedScoreSchema), goavroJSON(t, NumberedAnomalySchema)
	names := []string{"level"}
	sample := func(codec *goavro.Codec, b []byte) any {
		t.Helper()
		native, rest, err := codec.NativeFromBinary(b)
		if err != nil || len(rest) > 0 {
			t.Fatal(err, rest)
		}
		m := native.(map[string]any)
		if offset := m["source"].(map[string]any)["offset"]; offset != int64(41) {
			t.Errorf("offset %v", offset)
		}
		if u, ok := m["sample"].(map[string]any); ok {
			return u["int"]
		}
		return nil
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		bits   uint8
		offset int64
		want   any
	}{{0, 41, nil}, {20, 41<<20 | 7, int32(7)}, {20, 41 << 20, int32(0)}, {20, 41<<20 | (1<<20 - 1), int32(1<<20 - 1)}} {
		encode := func(id int32) []byte {
			return NewScoreEncoder(id, "in", 3, names).Number(c.bits).Append(nil, []byte("k"), 1, 2, 0, math.NaN(), WarmingUp, c.offset, 5,
				Prediction{})
		}
		a := randomAnomaly(rng)
		a.Offset, a.Sample = 41, nil
		if n, ok := c.want.(int32); ok {
			a.Sample = &n
		}
		anomaly := func(id int32) []byte { return NewAnomalyEncoder(id, "in", 3).Number().Append(nil, &a) }
		if got := sample(codec, encode(7)[5:]); got != c.want {
			t.Errorf("sample %v, want %v", got, c.want)
		}
		if got := sample(codec, fromJSON(encode(JSON))); got != c.want {
			t.Errorf("sample %v in JSON, want %v", got, c.want)
		}
		if got := sample(anomalies, anomaly(7)[5:]); got != c.want {
			t.Errorf("sample %v of an anomaly, want %v", got, c.want)
		}
		if got := sample(anomalies, anomalyFromJSON(anomaly(JSON))); got != c.want {
			t.Errorf("sample %v of an anomaly in JSON, want %v", got, c.want)
		}
		for _, id := range []int32{7, SingleObject, JSON} {
			s, err := DecodeScore(encode(id))
			if err != nil || s.Offset != 41 || s.Remaining != 5 || !reflect.DeepEqual(s.Sample, a.Sample) {
				t.Errorf("%d: %+v, %v", id, s, err)
			}
			back, err := DecodeAnomaly(anomaly(id))
			if err != nil || back.Offset != 41 || !reflect.DeepEqual(back.Sample, a.Sample) {
				t.Errorf("%d: %+v, %v", id, back, err)
			}
		}
	}
}
