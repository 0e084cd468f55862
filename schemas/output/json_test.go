package output

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/linkedin/goavro/v2"

	"odradek/detectors/seedtest"
)

// goavroJSON converts plain JSON with goavro, which knows nothing of the encoders.
func goavroJSON(t *testing.T, schema string) (toAvro func(text []byte) []byte) {
	t.Helper()
	codec, err := goavro.NewCodecForStandardJSONFull(schema)
	if err != nil {
		t.Fatal(err)
	}
	return func(text []byte) []byte {
		native, rest, err := codec.NativeFromTextual(text)
		if err != nil || len(rest) > 0 {
			t.Fatalf("%s: %v, %q is left", text, err, rest)
		}
		b, err := codec.BinaryFromNative(nil, native)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return b
	}
}

// The JSON of a score is the Avro of the same score, for goavro and back by DecodeScore.
func TestScoreJSON(t *testing.T) {
	toAvro := goavroJSON(t, ScoreSchema)
	r := seedtest.New(t)
	names := []string{"vibration", "level"}
	plain := NewScoreEncoder(JSON, "plant.readings", 12, names)
	framed := NewScoreEncoder(7, "plant.readings", 12, names)
	keys := [][]byte{[]byte("press-7/bearing-a"), []byte("ü\"\\\n\t\x01</>"), {0xff, 0, 1}, nil}
	for range 2000 {
		key, state := keys[r.IntN(len(keys))], ScoreState(r.IntN(3))
		score := r.NormFloat64() * math.Pow(10, float64(r.IntN(60)-30))
		remaining := int32(0)
		if state == WarmingUp {
			score, remaining = math.NaN(), int32(r.Uint32()>>(1+r.IntN(31)))
		}
		at, offset, detector := r.Int64N(4e15)-2e15, int64(r.Uint64()>>(1+r.IntN(63))), r.IntN(2)
		p := randomPrediction(r)
		text := plain.Append([]byte("before"), key, at, at-1, detector, score, state, offset, remaining, p)[len("before"):]
		want := framed.Append(nil, key, at, at-1, detector, score, state, offset, remaining, p)
		if got := toAvro(text); !bytes.Equal(got, want[5:]) {
			t.Fatalf("%s is\n%x, want\n%x", text, got, want[5:])
		}
		s, err := DecodeScore(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		i := 0
		if s.Detector == names[1] {
			i = 1
		}
		if got := framed.Append(nil, s.Key, s.EventTime, s.ScoreTime, i, s.Score, s.State, s.Offset, s.Remaining,
			s.Prediction); !bytes.Equal(got, want) {
			t.Fatalf("%s is read as %+v", text, s)
		}
	}
	for _, inf := range []float64{math.Inf(1), math.Inf(-1)} {
		text := plain.Append(nil, nil, 0, 0, 0, inf, Scored, 0, 0, Prediction{})
		if s, err := DecodeScore(text); err != nil || s.Score != inf || !bytes.Contains(text, []byte(`Infinity"`)) {
			t.Errorf("%s: %+v %v", text, s, err)
		}
	}
	buf := make([]byte, 0, 1024)
	if n := testing.AllocsPerRun(100, func() { buf = plain.Append(buf[:0], keys[0], 1, 2, 1, 3.25, Scored, 4, 0, Prediction{}) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// The JSON of an anomaly is the Avro of the same anomaly, whichever of its fields are null.
func TestAnomalyJSON(t *testing.T) {
	toAvro := goavroJSON(t, AnomalySchema)
	r := seedtest.New(t)
	plain, framed := NewAnomalyEncoder(JSON, "plant", 3), NewAnomalyEncoder(7, "plant", 3)
	list := func() []float64 {
		if r.IntN(3) == 0 {
			return nil
		}
		l := make([]float64, r.IntN(5))
		for i := range l {
			if l[i] = r.NormFloat64() * 1e9; r.IntN(4) == 0 {
				l[i] = math.NaN()
			}
		}
		return l
	}
	for range 2000 {
		a := Anomaly{ID: [16]byte{0, 1, 0xfe, byte(r.IntN(256))}, Revision: uint32(1 + r.IntN(9)), Kind: uint8(r.IntN(3)),
			Key: []byte("line-3/s\x7f"), Detector: "level", Severity: uint8(r.IntN(101)), Band: uint8(r.IntN(4)),
			Start: r.Int64N(2e15), End: -1, PeakTime: 5, OpenedAt: 6, EventTime: 7, PeakScore: r.NormFloat64(),
			Threshold: math.NaN(), Rank: r.Float64(), Samples: 17, Expected: list(), Actual: list(),
			Contribution: list(), Offset: r.Int64N(1 << 40), Topic: "plant", Partition: 3}
		if a.Kind == closeKind {
			a.Reason = uint8(r.IntN(len(CloseReasons)))
		}
		if r.IntN(2) == 0 {
			a.Field = "accel[2]"
		}
		if r.IntN(2) == 0 {
			a.Region = &Region{X0: -1.5, X1: 1e-9, ColumnTo: 4, RowFrom: -2, Observed: 1 << 40, Expected: 0.25, Ratio: 1e300, P: math.NaN()}
		}
		if r.IntN(2) == 0 {
			a.Group = &[16]byte{9}
		}
		text, want := plain.Append(nil, &a), framed.Append(nil, &a)
		if got := toAvro(text); !bytes.Equal(got, want[5:]) {
			t.Fatalf("%s is\n%x, want\n%x", text, got, want[5:])
		}
		back, err := DecodeAnomaly(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got := framed.Append(nil, &back); !bytes.Equal(got, want) {
			t.Fatalf("%s is read as %+v", text, back)
		}
	}
}

// A record of feedback may be written by hand: what it leaves out has the schema's default.
func TestFeedbackJSON(t *testing.T) {
	from := int64(-5)
	f := Feedback{ID: "a", Kind: FeedbackMute, Keys: "p*", From: &from, Direction: 2, Author: "me", Reason: "\"", WrittenAt: 3}
	text := f.Append(nil, JSON)
	back, err := DecodeFeedback(text)
	if err != nil || !bytes.Equal(back.Append(nil, 1), f.Append(nil, 1)) {
		t.Fatalf("%s: %+v, %v", text, back, err)
	}
	const anomaly = `"anomaly": "6e1f", "kind": "false_alarm"`
	back, err = DecodeFeedback([]byte(`{` + anomaly + `, "id": "x", "written_at": 17}`))
	if err != nil || back.Anomaly != "6e1f" || back.Kind != FeedbackFalseAlarm || back.Author != "" ||
		back.From != nil || back.WrittenAt != 17 {
		t.Errorf("%+v, %v", back, err)
	}
	for _, c := range [][2]string{
		{`{` + anomaly + `, "id": "x"}`, "written_at: it is missing"},
		{`{` + anomaly + `, "id": "x", "written_at": 1, "wen": 2}`, `"wen" is no field of io.odradek.Feedback`},
		{`{` + anomaly + `, "id": "x", "written_at": 1.5}`, `written_at: "1.5" is no long`},
		{`{` + anomaly + `, "id": 4, "written_at": 1}`, `id: "4" is no string`},
		{`{"id": "x", "kind": "mut"}`, `kind: "mut" is none of`},
		{`{` + anomaly + `, "id": "x", "written_at": 1} {}`, "bytes behind"},
		{`{` + anomaly, "not JSON"},
	} {
		if _, err := DecodeFeedback([]byte(c[0])); err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s: %v, want %q", c[0], err, c[1])
		}
	}
}

// The examples of docs/outputs.md are records as they are written.
func TestJSONExamples(t *testing.T) {
	page, err := os.ReadFile("../../docs/outputs.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(page), "```json\n")[1:]
	if len(blocks) != 3 {
		t.Fatalf("%d examples", len(blocks))
	}
	for i, again := range []func([]byte) ([]byte, error){
		func(b []byte) ([]byte, error) {
			s, err := DecodeScore(b)
			return NewScoreEncoder(JSON, s.Topic, s.Partition, []string{s.Detector}).Append(nil, s.Key, s.EventTime, s.ScoreTime, 0, s.Score,
				s.State, s.Offset, s.Remaining, s.Prediction), err
		},
		func(b []byte) ([]byte, error) {
			a, err := DecodeAnomaly(b)
			return NewAnomalyEncoder(JSON, a.Topic, a.Partition).Append(nil, &a), err
		},
		func(b []byte) ([]byte, error) {
			list, err := DecodeScores(nil, b)
			var run []RunScore
			for _, s := range list {
				run = append(run, RunScore{s.EventTime, s.ScoreTime, s.Offset, float32(s.Score), s.Remaining, s.State, s.Prediction})
			}
			return NewScoreEncoder(JSON, list[0].Topic, list[0].Partition, []string{list[0].Detector}).Runs().
				AppendRun(nil, list[0].Key, 0, run), err
		},
	} {
		text, _, _ := strings.Cut(blocks[i], "```")
		var want bytes.Buffer
		if err := json.Compact(&want, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := again(want.Bytes()); err != nil || !bytes.Equal(got, want.Bytes()) {
			t.Errorf("the page has\n%s\nthe worker writes\n%s\n%v", want.Bytes(), got, err)
		}
	}
}

// The record in README has fields of the anomaly in docs/outputs.md, with their values.
func TestReadmeExample(t *testing.T) {
	example := func(page string, index int) (fields map[string]any) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		blocks := strings.Split(string(text), "```json\n")
		if len(blocks) <= index {
			t.Fatalf("%s has %d examples", page, len(blocks)-1)
		}
		block, _, _ := strings.Cut(blocks[index], "```")
		if err := json.Unmarshal([]byte(block), &fields); err != nil {
			t.Fatal(page, err)
		}
		return fields
	}
	whole, short := example("../../docs/outputs.md", 2), example("../../README.md", 1)
	if len(short) < 10 {
		t.Errorf("README has %d fields", len(short))
	}
	for name, value := range short {
		if want, ok := whole[name]; !ok || !reflect.DeepEqual(value, want) {
			t.Errorf("README has %s: %v, docs/outputs.md %v", name, value, want)
		}
	}
}

func BenchmarkScoreAppendJSON(b *testing.B) {
	e := NewScoreEncoder(JSON, "sensor-readings", 3, []string{"vibration", "level"})
	key := []byte("press-7/bearing-a")
	buf := make([]byte, 0, 4096)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		buf = e.Append(buf[:0], key, 1767225600000000+int64(i), 1767225600000000, i&1, 1.0625478982925416, Scored, int64(i), 0, Prediction{})
	}
	b.SetBytes(int64(len(buf)))
}

func FuzzJSON(f *testing.F) {
	f.Add(NewScoreEncoder(JSON, "t", 0, []string{"d"}).Append(nil, []byte("k"), 1, 2, 0, 0.5, Scored, 7, 0, Prediction{}))
	f.Add((&Feedback{ID: "a", Anomaly: "b", Kind: FeedbackConfirm}).Append(nil, JSON))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, s := range []*compiled{compiledScore, compiledAnomaly, compiledFeedback} {
			record, err := s.json.Binary(nil, b)
			if err != nil {
				continue
			}
			text, err := s.json.Append(nil, record)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := s.json.Binary(nil, text); err != nil || !bytes.Equal(again, record) {
				t.Fatalf("%s\n%s\n%x\n%x\n%v", b, text, record, again, err)
			}
		}
	})
}
