package output

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/linkedin/goavro/v2"

	"odradek/detectors/seedtest"
	"odradek/schemas"
	"odradek/schemas/avro"
	"odradek/schemas/formats"
)

func BenchmarkScoreAppend(b *testing.B) {
	e := NewScoreEncoder(12, "sensor-readings", 3, []string{"vibration", "level"})
	key := []byte("press-7/bearing-a")
	buf := make([]byte, 0, 4096)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		buf = e.Append(buf[:0], key, 1767225600000000+int64(i), 1767225600000000, i&1, 1.25, Scored, int64(i), 0, Prediction{})
	}
	b.SetBytes(int64(len(buf)))
}

func BenchmarkReadingAppend(b *testing.B) {
	e := NewReadingEncoder(12, "oslo-north", "m/s2")
	key := []byte("press-7/bearing-a")
	buf := make([]byte, 0, 4096)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		buf = e.Append(buf[:0], key, 1767225600000000+int64(i), 1.25, int64(i))
	}
	b.SetBytes(int64(len(buf)))
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

// isUnion reports whether goavro has read a number, or null.
func isUnion(native any, known bool, v float64) bool {
	union, ok := native.(map[string]any)
	return ok == known && (!known || union["double"] == v)
}

// Scores are read by goavro, which knows nothing of the encoder.
func TestScoreEncoder(t *testing.T) {
	codec, err := goavro.NewCodec(ScoreSchema)
	if err != nil {
		t.Fatal(err)
	}
	r := seedtest.New(t)
	names := []string{"vibration", "level", "ü"}
	for id := int32(-1); id < 2; id++ {
		e := NewScoreEncoder(id, "plant.readings", 12, names)
		var all []byte
		for range 2000 {
			key := []byte("press-7")[:r.IntN(8)]
			event := r.Int64N(2*schemas.MaxTime) - schemas.MaxTime
			lag := r.Int64N(1e9)
			detector := r.IntN(3)
			state := ScoreState(r.IntN(3))
			score := r.NormFloat64()
			remaining := int32(0)
			if state == WarmingUp {
				score, remaining = math.NaN(), int32(r.Uint32()>>(1+r.IntN(31)))
			}
			offset := int64(r.Uint64() >> (1 + r.IntN(63)))
			p := randomPrediction(r)
			start := len(all)
			all = e.Append(all, key, event, event-lag, detector, score, state, offset, remaining, p)
			b := all[start:]
			var native any
			var rest []byte
			if id < 0 {
				crc, _ := avro.Fingerprint(ScoreSchema)
				if b[0] != 0xc3 || b[1] != 1 || crc != compiledScore.fingerprint {
					t.Fatalf("% x", b[:10])
				}
				native, rest, err = codec.NativeFromBinary(b[10:])
			} else {
				if !bytes.Equal(b[:5], []byte{0, 0, 0, 0, byte(id)}) {
					t.Fatalf("% x", b[:5])
				}
				native, rest, err = codec.NativeFromBinary(b[5:])
			}
			if err != nil || len(rest) != 0 {
				t.Fatal(err, rest)
			}
			m := native.(map[string]any)
			src := m["source"].(map[string]any)
			union, _ := m["score"].(map[string]any)
			wantScore, _ := union["double"].(float64)
			left, _ := m["remaining"].(map[string]any)
			wantLeft, _ := left["int"].(int32)
			if m["series_key"] != string(key) || m["event_time"].(time.Time).UnixMicro() != event ||
				m["score_time"].(time.Time).UnixMicro() != event-lag ||
				m["detector"] != names[detector] || m["state"] != state.String() || (m["score"] == nil) != (score != score) ||
				score == score && wantScore != score ||
				src["topic"] != "plant.readings" || src["partition"] != int32(12) || src["offset"] != offset ||
				(left == nil) != (remaining == 0) || wantLeft != remaining || !isUnion(m["expected"], p.Predicted, p.Expected) ||
				!isUnion(m["spread"], p.Spread > 0, p.Spread) {
				t.Fatal(native)
			}
			s, err := DecodeScore(b)
			if err != nil || !bytes.Equal(s.Key, key) || s.EventTime != event || s.ScoreTime != event-lag ||
				s.Detector != names[detector] || s.State != state ||
				!equal([]float64{s.Score}, []float64{score}) || s.Topic != "plant.readings" || s.Partition != 12 || s.Offset != offset ||
				s.Remaining != remaining || s.Prediction != p {
				t.Fatal(s, err)
			}
			for cut := range len(b) {
				if s, err := DecodeScore(b[:cut]); err == nil {
					t.Fatal(cut, s)
				}
			}
			if _, err := DecodeScore(append(b[:len(b):len(b)], 7)); err == nil {
				t.Fatal("a byte more")
			}
		}
		buf, key := make([]byte, 0, 256), []byte("press-7")
		if n := testing.AllocsPerRun(100, func() { buf = e.Append(buf[:0], key, 1, 2, 1, 3, Scored, 4, 0, Prediction{}) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
	e := NewScoreEncoder(1, "t", 0, names)
	b := e.Append(nil, []byte{0xff, 0, 1}, 0, 0, 0, 0, Scored, 0, 0, Prediction{})
	if s, err := DecodeScore(b); err != nil || string(s.Key) != "0xff0001" {
		t.Errorf("%q %v", s.Key, err)
	}
	if NewScoreEncoder(-1, "t", 0, nil).head[2] == 0 {
		t.Error("no fingerprint")
	}
	if _, err := DecodeScore([]byte{0xc3, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9}); err == nil {
		t.Error("another schema")
	}
}

// Every field of the published schemas says what it is.
func TestSchemasAreDocumented(t *testing.T) {
	for _, text := range []string{ScoreSchema, AnomalySchema, ReadingSchema} {
		var walk func(v any)
		walk = func(v any) {
			switch v := v.(type) {
			case map[string]any:
				if _, named := v["name"]; named && v["doc"] == nil {
					t.Errorf("%v has no doc", v["name"])
				}
				for _, inner := range v {
					walk(inner)
				}
			case []any:
				for _, inner := range v {
					walk(inner)
				}
			}
		}
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		walk(v)
	}
}

func TestReadingEncoder(t *testing.T) {
	codec, err := goavro.NewCodec(ReadingSchema)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []int32{-1, 3} {
		e := NewReadingEncoder(id, "oslo", "m/s2")
		for _, v := range []float64{2.5, math.NaN()} {
			b := e.Append(nil, []byte("press-7"), -1500, v, 42)
			skip := 5
			if id < 0 {
				skip = 10
			}
			native, rest, err := codec.NativeFromBinary(b[skip:])
			if err != nil || len(rest) != 0 {
				t.Fatal(err, rest)
			}
			m := native.(map[string]any)
			site := m["site"].(map[string]any)
			if m["sensor"] != "press-7" || m["time"].(time.Time).UnixMilli() != -2 || m["seq"] != int64(42) || site["plant"] != "oslo" ||
				site["unit"] != "m/s2" ||
				v != v && m["value"] != nil || v == v && m["value"].(map[string]any)["double"] != v {
				t.Error(native)
			}
			d, err := formats.NewDecoder(ReadingMapping, nil, formats.Options{Schemas: []string{ReadingSchema}})
			if err != nil {
				t.Fatal(err)
			}
			var r schemas.Reading
			if id < 0 {
				if err := d.Decode(t.Context(), nil, b, 0, nil, &r); err != nil || string(r.Key) != "press-7" || r.Time != -2000 ||
					!equal(r.Values, []float64{v}) {
					t.Error(r, err)
				}
			}
		}
	}
}

func FuzzDecodeScore(f *testing.F) {
	f.Add(NewScoreEncoder(1, "topic", 3, []string{"d"}).Append(nil, []byte("key"), 1e15, 1e15, 0, 0.5, Scored, 7, 0, Prediction{}))
	f.Add(NewScoreEncoder(-1, "", 0, []string{""}).Append(nil, nil, -1, 0, 0, math.NaN(), WarmingUp, -1, 5, Prediction{}))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := DecodeScore(b)
		if err != nil {
			return
		}
		id := int32(-1)
		if b[0] == 0 {
			id = int32(b[1])<<24 | int32(b[2])<<16 | int32(b[3])<<8 | int32(b[4])
			if id < 0 {
				return
			}
		}
		again := NewScoreEncoder(id, s.Topic, s.Partition, []string{s.Detector}).Append(nil, s.Key, s.EventTime, s.ScoreTime, 0,
			s.Score, s.State, s.Offset, s.Remaining, s.Prediction)
		back, err := DecodeScore(again)
		if err != nil || back.EventTime != s.EventTime || back.ScoreTime != s.ScoreTime || back.Offset != s.Offset || back.Topic != s.Topic ||
			back.State != s.State || back.Predicted != s.Predicted {
			t.Fatal(s, back, err)
		}
	})
}
