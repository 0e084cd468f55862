package output

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"testing"

	"github.com/linkedin/goavro/v2"

	"odradek/detectors/seedtest"
	"odradek/schemas/avro"
)

// TestSchemasEvolve: a reader with the schema of before reads what is written
// now, and a reader with the present one what was written before: what was there is as
// it was, and what is new has a default.
func TestSchemasEvolve(t *testing.T) {
	has := evolved(t, "testdata/anomaly_1.avsc", AnomalySchema)
	for _, name := range []string{"expected", "actual", "contribution"} {
		if want := []any{"null", map[string]any{"type": "array", "items": "double"}}; !reflect.DeepEqual(has[name]["type"], want) {
			t.Errorf("field %s is of %v, want %v", name, has[name]["type"], want)
		}
	}
	if has := evolved(t, "testdata/score_1.avsc", ScoreSchema); !reflect.DeepEqual(has["remaining"]["type"], []any{"null", "int"}) {
		t.Errorf("field remaining is of %v", has["remaining"]["type"])
	}
}

// evolved compares a schema with the earlier one in a file, and returns its fields.
func evolved(t *testing.T, file, schema string) (has map[string]map[string]any) {
	t.Helper()
	type record struct {
		Name, Namespace string
		Fields          []map[string]any
	}
	read := func(text []byte) (r record, fields map[string]map[string]any) {
		if err := json.Unmarshal(text, &r); err != nil {
			t.Fatal(err)
		}
		fields = map[string]map[string]any{}
		for _, f := range r.Fields {
			fields[f["name"].(string)] = f
		}
		return r, fields
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, had := read(text)
	now, has := read([]byte(schema))
	if before.Name != now.Name || before.Namespace != now.Namespace {
		t.Errorf("%s.%s was %s.%s", now.Namespace, now.Name, before.Namespace, before.Name)
	}
	for name, was := range had {
		is, ok := has[name]
		if !ok {
			t.Errorf("field %s is gone", name)
			continue
		}
		was["doc"], is["doc"] = nil, nil
		if !reflect.DeepEqual(was, is) {
			t.Errorf("field %s is %v and was %v", name, is, was)
		}
	}
	for name, is := range has {
		if _, ok := had[name]; ok {
			continue
		}
		if _, ok := is["default"]; !ok {
			t.Errorf("field %s is new and has no default", name)
		}
	}
	return has
}

// TestScoreEvolves: goavro reads a score of now with the schema of before, up to the fields that are new, and the schema of now
// reads one of before, in which those have their defaults; so does DecodeScore.
func TestScoreEvolves(t *testing.T) {
	text, err := os.ReadFile("testdata/score_1.avsc")
	if err != nil {
		t.Fatal(err)
	}
	before, err := goavro.NewCodecForStandardJSONFull(string(text))
	if err != nil {
		t.Fatal(err)
	}
	now, err := goavro.NewCodecForStandardJSONFull(ScoreSchema)
	if err != nil {
		t.Fatal(err)
	}
	rng := seedtest.New(t)
	e := NewScoreEncoder(7, "plant", 3, []string{"level"})
	for range 500 {
		score, state, remaining, field := math.NaN(), WarmingUp, 1+int32(rng.Uint32()>>(1+rng.IntN(30))), []byte{0}
		p := randomPrediction(rng)
		if rng.IntN(2) == 0 {
			score, state, remaining = rng.NormFloat64(), Scored, 0
		} else {
			field = avro.AppendLong([]byte{2}, int64(remaining))
		}
		field = appendUnion(appendUnion(field, p.Predicted, p.Expected), p.Predicted && p.Spread > 0, p.Spread)
		b := e.Append(nil, []byte("k"), rng.Int64N(1e15), rng.Int64N(1e15), 0, score, state, rng.Int64N(1e9), remaining, p)[5:]
		old, rest, err := before.NativeFromBinary(b)
		if err != nil || !bytes.Equal(rest, field) {
			t.Fatalf("%x is left, want %x: %v", rest, field, err)
		}
		text, err := before.TextualFromNative(nil, old)
		if err != nil {
			t.Fatal(err)
		}
		native, _, err := now.NativeFromTextual(text)
		if err != nil || native.(map[string]any)["remaining"] != nil {
			t.Fatalf("%s is read as %v: %v", text, native, err)
		}
		again, err := now.BinaryFromNative(nil, native)
		if want := append(b[:len(b)-len(field):len(b)-len(field)], 0, 0, 0); err != nil || !bytes.Equal(again, want) {
			t.Fatalf("%x of the record of before, want %x: %v", again, want, err)
		}
		avroOld := append([]byte{0, 0, 0, 0, 7}, b[:len(b)-len(field)]...)
		for _, b := range [][]byte{avroOld, text} {
			if s, err := DecodeScore(b); err != nil || s.Remaining != 0 || s.State != state || s.Sample != nil || s.Predicted {
				t.Fatalf("%x is read as %+v: %v", b, s, err)
			}
		}
	}
}

// randomPrediction returns one of what an encoder may be given.
func randomPrediction(rng *rand.Rand) (p Prediction) {
	if p.Predicted = rng.IntN(2) == 0; p.Predicted {
		p.Expected = rng.NormFloat64() * 1e3
		if rng.IntN(3) > 0 {
			p.Spread = float64(float32(rng.ExpFloat64()))
		}
	}
	return p
}

// appendUnion appends a number as a union of Avro.
func appendUnion(b []byte, known bool, v float64) []byte {
	if !known {
		return append(b, 0)
	}
	return binary.LittleEndian.AppendUint64(append(b, 2), math.Float64bits(v))
}
