package output

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linkedin/goavro/v2"

	"odradek/detectors/seedtest"
	"odradek/schemas/avro"
)

var runKeys = [][]byte{[]byte("press-7/bearing-a"), []byte("ü\"\\\n\t\x01</>"), {0xff, 0, 1}, {0xfe}, nil}

// randomRun draws n scores: any bits of a float, steps of either sign that overflow at times, and warming-up rows.
func randomRun(r *rand.Rand, n int) []RunScore {
	run := make([]RunScore, n)
	time, offset := r.Int64()>>r.IntN(63), r.Int64()>>r.IntN(63)
	for i := range run {
		s := &run[i]
		switch r.IntN(4) {
		case 0: // as a stream has them
			time, offset = time+r.Int64N(1e6), offset+r.Int64N(100)
		case 1:
			time, offset = time-r.Int64N(1e6), offset-r.Int64N(100)
		case 2:
			time, offset = int64(r.Uint64()), int64(r.Uint64())
		}
		s.EventTime, s.ScoreTime, s.Offset = time, time-r.Int64()>>r.IntN(63), offset
		s.State = ScoreState(r.IntN(3))
		switch r.IntN(3) {
		case 0:
			s.Score = math.Float32frombits(r.Uint32())
		case 1:
			s.Score = float32(r.NormFloat64())
		case 2:
			s.Score, s.Remaining = float32(math.NaN()), int32(r.Uint32()>>(1+r.IntN(31)))
		}
	}
	if r.IntN(2) == 0 {
		for i := range run {
			run[i].Prediction = randomPrediction(r)
		}
	}
	return run
}

// single returns the score of a run as the decoder reads it from a record of its own.
func single(t *testing.T, id int32, key []byte, detector string, s *RunScore, numbered bool, bits uint8) Score {
	t.Helper()
	e := NewScoreEncoder(id, "plant.readings", 12, []string{detector})
	if numbered {
		e.Number(bits)
	}
	want, err := DecodeScores(nil, e.Append(nil, key, s.EventTime, s.ScoreTime, 0, float64(s.Score), s.State, s.Offset, s.Remaining,
		s.Prediction))
	if err != nil || len(want) != 1 {
		t.Fatal(want, err)
	}
	return want[0]
}

func sameScores(a, b []Score) bool {
	return slices.EqualFunc(a, b, func(a, b Score) bool {
		if !equal([]float64{a.Score}, []float64{b.Score}) {
			return false
		}
		a.Score, b.Score = 0, 0
		return reflect.DeepEqual(a, b)
	})
}

// TestRunsAreTheirScores: the scores of a run are, to the bit, the scores of as many records of one score, in each framing and in
// JSON, with and without numbers of samples.
func TestRunsAreTheirScores(t *testing.T) {
	r := seedtest.New(t)
	names := []string{"vibration", "", "ü"}
	for range 400 {
		id := []int32{7, SingleObject, JSON}[r.IntN(3)]
		numbered, bits := r.IntN(2) == 0, uint8(0)
		e := NewScoreEncoder(id, "plant.readings", 12, names)
		if numbered {
			bits = uint8(r.IntN(2) * 20)
			e.Number(bits)
		}
		e.Runs()
		var all []byte
		for range 3 {
			key, detector := runKeys[r.IntN(len(runKeys))], r.IntN(3)
			run := randomRun(r, 1+r.IntN(MaxRun))
			start := len(all)
			all = e.AppendRun(all, key, detector, run)
			b := all[start:]
			var want []Score
			for i := range run {
				want = append(want, single(t, id, key, names[detector], &run[i], numbered, bits))
			}
			before := Score{Detector: "one that was there"}
			got, err := DecodeScores([]Score{before}, b)
			if err != nil || !sameScores(got[:1], []Score{before}) || !sameScores(got[1:], want) {
				t.Fatalf("framing %d, %d scores: %v\n%+v\nwant\n%+v", id, len(run), err, got[1:], want)
			}
			if id == JSON {
				continue
			}
			for _, cut := range []int{0, 1, r.IntN(len(b)), len(b) - 1} {
				if got, err := DecodeScores(nil, b[:cut]); err == nil || len(got) > 0 {
					t.Fatalf("%d of %d bytes are read as %+v", cut, len(b), got)
				}
			}
			if got, err := DecodeScores(nil, append(slices.Clone(b), 7)); err == nil || len(got) > 0 {
				t.Fatalf("a byte more is read as %+v", got)
			}
			if _, err := DecodeScore(b); err == nil {
				t.Fatal("a run is read as one score")
			}
		}
	}
}

// TestScoreRunSchema: goavro, which knows nothing of the encoder, reads runs by the schema, from Avro and from JSON.
func TestScoreRunSchema(t *testing.T) {
	codec, err := goavro.NewCodec(ScoreRunSchema)
	if err != nil {
		t.Fatal(err)
	}
	toAvro := goavroJSON(t, ScoreRunSchema)
	r := seedtest.New(t)
	for range 300 {
		numbered := r.IntN(2) == 0
		encoder := func(id int32) *ScoreEncoder {
			e := NewScoreEncoder(id, "in", 3, []string{"level"})
			if numbered {
				e.Number(20)
			}
			return e.Runs()
		}
		run := randomRun(r, 1+r.IntN(MaxRun))
		b := encoder(7).AppendRun(nil, []byte("k"), 0, run)
		if got := toAvro(encoder(JSON).AppendRun(nil, []byte("k"), 0, run)); !bytes.Equal(got, b[5:]) {
			t.Fatalf("the JSON is\n%x, want\n%x", got, b[5:])
		}
		native, rest, err := codec.NativeFromBinary(b[5:])
		if err != nil || len(rest) > 0 {
			t.Fatal(err, rest)
		}
		want, err := DecodeScores(nil, b)
		if err != nil {
			t.Fatal(err)
		}
		m := native.(map[string]any)
		source := m["source"].(map[string]any)
		if m["series_key"] != "k" || m["detector"] != "level" || source["topic"] != "in" || source["partition"] != int32(3) ||
			m["version"] != int32(-1) {
			t.Fatal(native)
		}
		offset, at := source["offset"].(int64), m["event_time"].(time.Time)
		for i, item := range m["scores"].([]any) {
			s, w := item.(map[string]any), want[i]
			offset += s["offset_delta"].(int64)
			lag := s["event_time_delta"].(int64)
			if i == 0 && (at.UnixMicro() != w.EventTime || lag != 0) {
				t.Fatal(at, lag, w.EventTime)
			}
			if i > 0 && lag != w.EventTime-want[i-1].EventTime {
				t.Fatal(lag, w, want[i-1])
			}
			union, _ := s["score"].(map[string]any)
			score, ok := union["float"].(float32)
			left, _ := s["remaining"].(map[string]any)
			remaining, _ := left["int"].(int32)
			if offset != w.Offset || s["score_time_lag"] != w.EventTime-w.ScoreTime || s["state"] != w.State.String() ||
				ok == math.IsNaN(w.Score) || ok && float64(score) != w.Score || remaining != w.Remaining {
				t.Fatal(i, s, w)
			}
			if numbers, ok := m["samples"].(map[string]any); ok != numbered ||
				ok && numbers["array"].([]any)[i] != *w.Sample {
				t.Fatal(i, m["samples"], w)
			}
		}
	}
}

// TestHostileRuns: what is no run of the worker is an error that says so.
func TestHostileRuns(t *testing.T) {
	e := NewScoreEncoder(7, "in", 3, []string{"level"}).Number(20).Runs()
	good := e.AppendRun(nil, []byte("k"), 0, make([]RunScore, 2))
	if len(good) != 49 {
		t.Fatalf("%d bytes: %x", len(good), good)
	}
	with := func(at int, b ...byte) []byte { return slices.Concat(good[:at], b, good[at+1:]) }
	for _, c := range []struct {
		b    []byte
		want string
	}{
		{nil, "no known framing"}, {good[:5], "ends too early"},
		{with(5, 3), "version -2"},
		{with(20, 0x7f), "ends too early"},
		{with(20, avro.AppendLong(nil, math.MaxInt64)...), "ends too early"},
		{with(20, avro.AppendLong(nil, math.MinInt64)...), "ends too early"},
		{with(20, 0), "bytes behind"},
		{with(len(good)-6, 2), "2 scores and numbers of 1 samples"},
		{append(good[:len(good)-2:len(good)-2], 2, 2, 0, 0, 0), "2 scores and predictions of 1 samples"},
		{append(good[:len(good)-2:len(good)-2], 2, 6, 0, 0, 0, 0, 0), "2 scores and predictions of more samples"},
		{[]byte(`{"version": -1}`), "missing"},
	} {
		if got, err := DecodeScores(nil, c.b); err == nil || !strings.Contains(err.Error(), c.want) || len(got) > 0 {
			t.Errorf("%x: %+v, %v, want %q", c.b, got, err, c.want)
		}
	}
	// Another writer may cut the array into blocks, with or without their sizes.
	items := good[21 : len(good)-8]
	blocks := slices.Concat(good[:20], []byte{1, byte(len(items))}, items[:len(items)/2], []byte{2}, items[len(items)/2:], good[len(good)-8:])
	want, err := DecodeScores(nil, good)
	if err != nil || len(want) != 2 {
		t.Fatal(want, err)
	}
	if got, err := DecodeScores(nil, blocks); err != nil || !sameScores(got, want) {
		t.Errorf("%x: %+v, %v", blocks, got, err)
	}
}

// TestRunSize holds the bytes of a score: a series of 10 Hz whose every score is published.
func TestRunSize(t *testing.T) {
	e := NewScoreEncoder(7, "sensor-readings", 3, []string{"vibration"}).Runs()
	run := make([]RunScore, MaxRun)
	for i := range run {
		run[i] = RunScore{EventTime: 1767225600000000 + int64(i)*100_000, ScoreTime: 1767225600000000 + int64(i)*100_000,
			Offset: 1e6 + int64(i)*40, Score: 1.25}
	}
	one := len(e.AppendRun(nil, []byte("press-7/bearing-a"), 0, run[:1]))
	all := len(e.AppendRun(nil, []byte("press-7/bearing-a"), 0, run))
	alone := len(NewScoreEncoder(7, "sensor-readings", 3, []string{"vibration"}).Append(nil, []byte("press-7/bearing-a"),
		run[0].EventTime, run[0].ScoreTime, 0, 1.25, Scored, run[0].Offset, 0, Prediction{}))
	if one > alone+6 || all > 14*MaxRun {
		t.Errorf("a run of one takes %d bytes, a single score %d; a run of %d takes %d", one, alone, MaxRun, all)
	}
	buf, key := make([]byte, 0, 8192), []byte("press-7")
	if n := testing.AllocsPerRun(100, func() { buf = e.AppendRun(buf[:0], key, 0, run) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestRunSchemaSaysWhatScoresSay: fields that runs have in common with single scores have the same types.
func TestRunSchemaSaysWhatScoresSay(t *testing.T) {
	fields := func(schema string) map[string]any {
		var v struct{ Fields []map[string]any }
		if err := json.Unmarshal([]byte(schema), &v); err != nil {
			t.Fatal(err)
		}
		m := map[string]any{}
		for _, f := range v.Fields {
			m[f["name"].(string)] = f["type"]
		}
		return m
	}
	score, run := fields(ScoreSchema), fields(ScoreRunSchema)
	for _, name := range []string{"series_key", "detector", "source", "event_time"} {
		if !reflect.DeepEqual(score[name], run[name]) {
			t.Errorf("%s is %v in a run and %v in a score", name, run[name], score[name])
		}
	}
}

func BenchmarkRunAppend(b *testing.B) {
	e := NewScoreEncoder(12, "sensor-readings", 3, []string{"vibration", "level"}).Runs()
	run := make([]RunScore, 16)
	for i := range run {
		run[i] = RunScore{EventTime: 1767225600000000 + int64(i)*100_000, ScoreTime: 1767225600000000, Offset: int64(i) * 40, Score: 1.25}
	}
	buf, key := make([]byte, 0, 4096), []byte("press-7/bearing-a")
	b.ReportAllocs()
	for b.Loop() {
		buf = e.AppendRun(buf[:0], key, 1, run)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/16, "ns/score")
}

// FuzzDecodeScores: any bytes are scores or an error. What is read can be written and read again.
func FuzzDecodeScores(f *testing.F) {
	for _, id := range []int32{1, SingleObject, JSON} {
		e := NewScoreEncoder(id, "topic", 3, []string{"d"})
		f.Add(e.Append(nil, []byte("key"), 1e15, 1e15, 0, 0.5, Scored, 7, 0, Prediction{}))
		f.Add(NewScoreEncoder(id, "topic", 3, []string{"d"}).Number(20).Runs().AppendRun(nil, []byte("key"), 0,
			[]RunScore{{1, 2, 7 << 20, 0.5, 0, Scored, Prediction{}}, {3, 2, 9<<20 | 5, float32(math.NaN()), 4, WarmingUp, Prediction{}}}))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := DecodeScores(nil, b)
		if err != nil {
			if len(list) > 0 {
				t.Fatalf("%d scores and %v", len(list), err)
			}
			return
		}
		for len(list) > 0 {
			part := list[:min(len(list), MaxRun)]
			list = list[len(part):]
			run := make([]RunScore, len(part))
			for i, s := range part {
				if float64(float32(s.Score)) != s.Score { // from a record of one score, of another program
					return
				}
				run[i] = RunScore{s.EventTime, s.ScoreTime, s.Offset, float32(s.Score), max(0, s.Remaining), s.State, s.Prediction}
				part[i].Remaining, part[i].Sample = run[i].Remaining, nil
				part[i].Key = []byte(KeyText(s.Key))
			}
			again := NewScoreEncoder(SingleObject, part[0].Topic, part[0].Partition, []string{part[0].Detector}).Runs().
				AppendRun(nil, part[0].Key, 0, run)
			if back, err := DecodeScores(nil, again); err != nil || !sameScores(back, part) {
				t.Fatalf("%+v\nis read again as\n%+v\n%v", part, back, err)
			}
		}
	})
}
