package output

import (
	"bytes"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/linkedin/goavro/v2"

	"odradek/detectors/seedtest"
	"odradek/schemas"
)

func randomAnomaly(r *rand.Rand) Anomaly {
	list := func() []float64 {
		if r.IntN(3) == 0 {
			return nil
		}
		l := make([]float64, r.IntN(5))
		for i := range l {
			l[i] = r.NormFloat64()
		}
		return l
	}
	number := func() float64 {
		if r.IntN(4) == 0 {
			return math.NaN()
		}
		return r.NormFloat64()
	}
	at := func() int64 { return r.Int64N(2*schemas.MaxTime) - schemas.MaxTime }
	a := Anomaly{
		Revision: uint32(r.Uint64() >> (32 + r.IntN(32))), Kind: uint8(r.IntN(3)), Key: []byte("press-7 ü")[:r.IntN(9)],
		Severity: uint8(r.IntN(101)), Band: uint8(r.IntN(4)),
		Start: at(), End: at(), PeakTime: at(), OpenedAt: at(), EventTime: at(), PeakScore: number(), Threshold: number(), Rank: number(),
		Field:   []string{"", "motor.x", "ü[3]"}[r.IntN(3)],
		Samples: uint32(r.Uint64() >> (32 + r.IntN(32))), Expected: list(), Actual: list(), Contribution: list(),
		Topic: "plant.readings", Partition: 12, Offset: int64(r.Uint64() >> (1 + r.IntN(63))),
	}
	for i := range a.ID {
		a.ID[i] = byte(r.Uint32())
	}
	if a.Kind == closeKind {
		a.Reason = uint8(r.IntN(5))
	}
	if r.IntN(2) == 0 {
		a.Region = &Region{X0: r.NormFloat64(), Y0: r.NormFloat64(), X1: r.NormFloat64(), Y1: r.NormFloat64(), ColumnFrom: r.Int32(),
			ColumnTo: r.Int32(), RowFrom: r.Int32(), RowTo: -r.Int32(), Observed: int64(r.Uint64()), Expected: r.NormFloat64(),
			Ratio: r.NormFloat64(), P: number()}
	}
	if r.IntN(2) == 0 {
		a.Group = &[16]byte{byte(r.Uint32()), 15: byte(r.Uint32())}
	}
	if r.IntN(3) > 0 {
		a.Range = r.ExpFloat64()
	}
	if r.IntN(3) > 0 {
		a.Held = r.Uint32() >> r.IntN(32)
	}
	if r.IntN(3) == 0 {
		a.Member = &Member{Name: "near", Score: r.NormFloat64(), Threshold: r.NormFloat64(), Samples: r.Uint32() >> r.IntN(32), PeakTime: at()}
	}
	if r.IntN(3) == 0 {
		a.Escalation = &Escalation{Start: at(), PeakTime: at(), Since: at()}
	}
	if r.IntN(3) > 0 {
		a.Summary = "press-7 \"bearing\" rose to 97.2, expected 72.4 ±"
	}
	if r.IntN(3) > 0 {
		a.CarriedBy, a.Spread, a.Unit = []string{"", "near"}[r.IntN(2)], float64(r.IntN(2))*r.ExpFloat64(), []string{"", "°C"}[r.IntN(2)]
	}
	a.Side = uint8(r.IntN(4))
	if r.IntN(8) > 0 {
		a.Fault = &[16]byte{byte(r.Uint32()), 15: byte(r.Uint32())}
	}
	if r.IntN(4) == 0 {
		a.Recurs = &Recurrence{Period: int64(r.Uint64() >> (1 + r.IntN(63))), Count: 3 + r.Int64N(1000), Text: "every day about 02:00, 12th time"}
	}
	if r.IntN(3) == 0 {
		a.Like = &Like{Count: r.Int64N(1000), Most: r.NormFloat64()}
		for range r.IntN(4) {
			a.Like.Labels = append(a.Like.Labels, [16]byte{byte(r.Uint32()), 15: byte(r.Uint32())})
		}
	}
	return a
}

// sameAnomaly holds NaN equal to NaN.
func sameAnomaly(a, b Anomaly) bool {
	numbers := equal([]float64{a.PeakScore, a.Threshold, a.Rank, a.Range, a.Spread},
		[]float64{b.PeakScore, b.Threshold, b.Rank, b.Range, b.Spread})
	for _, n := range []*Anomaly{&a, &b} {
		n.PeakScore, n.Threshold, n.Rank, n.Range, n.Spread = 0, 0, 0, 0, 0
	}
	if a.Region != nil && b.Region != nil {
		x, y := *a.Region, *b.Region
		fields := func(r *Region) []*float64 {
			return []*float64{&r.X0, &r.Y0, &r.X1, &r.Y1, &r.Expected, &r.Ratio, &r.P}
		}
		for i, v := range fields(&x) {
			w := fields(&y)[i]
			numbers = numbers && equal([]float64{*v}, []float64{*w})
			*v, *w = 0, 0
		}
		a.Region, b.Region = &x, &y
	}
	if a.Like != nil && b.Like != nil {
		x, y := *a.Like, *b.Like
		numbers = numbers && equal([]float64{x.Most}, []float64{y.Most})
		x.Most, y.Most = 0, 0
		a.Like, b.Like = &x, &y
	}
	key := bytes.Equal(a.Key, b.Key)
	a.Key, b.Key = nil, nil
	bits := func(l []float64) (out []uint64) {
		for _, v := range l {
			if v == v {
				out = append(out, math.Float64bits(v))
			} else {
				out = append(out, math.Float64bits(math.NaN()))
			}
		}
		return out
	}
	for _, l := range [][2]*[]float64{{&a.Expected, &b.Expected}, {&a.Actual, &b.Actual}, {&a.Contribution, &b.Contribution}} {
		numbers = numbers && (*l[0] == nil) == (*l[1] == nil) && slices.Equal(bits(*l[0]), bits(*l[1]))
		*l[0], *l[1] = nil, nil
	}
	return numbers && key && reflect.DeepEqual(a, b)
}

// Anomalies are read by goavro, which knows nothing of the encoder.
func TestAnomalyEncoder(t *testing.T) {
	codec, err := goavro.NewCodec(AnomalySchema)
	if err != nil {
		t.Fatal(err)
	}
	r := seedtest.New(t)
	names := []string{"vibration", "level", "ü", "silence"}
	for id := int32(-1); id < 2; id++ {
		e := NewAnomalyEncoder(id, "plant.readings", 12)
		for range 1000 {
			a := randomAnomaly(r)
			a.Detector = names[r.IntN(4)]
			b := e.Append(nil, &a)
			skip := 5
			if id < 0 {
				skip = 10
			}
			native, rest, err := codec.NativeFromBinary(b[skip:])
			if err != nil || len(rest) != 0 {
				t.Fatal(err, rest)
			}
			m := native.(map[string]any)
			want := map[string]any{
				"id": hex.EncodeToString(a.ID[:]), "revision": int64(a.Revision), "kind": AnomalyKinds[a.Kind], "reason": nil,
				"series_key": string(a.Key), "detector": a.Detector, "severity": int32(a.Severity), "band": SeverityBands[a.Band],
				"start": a.Start, "end": a.End, "peak_time": a.PeakTime, "opened_at": a.OpenedAt, "event_time": a.EventTime,
				"peak_score": nil, "threshold": nil, "rank": nil, "field": nil, "samples": int64(a.Samples), "expected": nil,
				"actual": nil, "contribution": nil,
				"source": map[string]any{"topic": "plant.readings", "partition": int32(12), "offset": a.Offset}, "region": nil, "group": nil,
				"like": nil, "range": nil, "held": nil, "member": nil,
				"escalation": nil, "summary": a.Summary, "carried_by": nil, "spread": nil, "unit": nil, "side": nil, "fault": nil,
				"recurs": nil,
			}
			for name, text := range map[string]string{"carried_by": a.CarriedBy, "unit": a.Unit} {
				if text != "" {
					want[name] = goavro.Union("string", text)
				}
			}
			if a.Spread > 0 {
				want["spread"] = goavro.Union("double", a.Spread)
			}
			if a.Side > 0 {
				want["side"] = goavro.Union("io.odradek.Side", Sides[a.Side-1])
			}
			if v := a.Recurs; v != nil {
				want["recurs"] = goavro.Union("io.odradek.Recurrence", map[string]any{"period": v.Period, "count": v.Count, "text": v.Text})
			}
			if v := a.Escalation; v != nil {
				want["escalation"] = goavro.Union("io.odradek.Escalation", map[string]any{"start": v.Start, "peak_time": v.PeakTime, "since": v.Since})
			}
			if v := a.Member; v != nil {
				member := map[string]any{"name": v.Name, "score": v.Score, "threshold": v.Threshold, "samples": int64(v.Samples),
					"peak_time": v.PeakTime}
				want["member"] = goavro.Union("io.odradek.Member", member)
			}
			if a.Held > 0 {
				want["held"] = goavro.Union("long", int64(a.Held))
			}
			if a.Range > 0 {
				want["range"] = goavro.Union("double", a.Range)
			}
			if l := a.Like; l != nil {
				ids := []any{}
				for _, id := range l.Labels {
					ids = append(ids, hex.EncodeToString(id[:]))
				}
				want["like"] = goavro.Union("io.odradek.Like", map[string]any{"count": l.Count, "labels": ids, "most": l.Most})
			}
			for name, id := range map[string]*[16]byte{"group": a.Group, "fault": a.Fault} {
				if id != nil {
					want[name] = goavro.Union("string", hex.EncodeToString(id[:]))
				}
			}
			if g := a.Region; g != nil {
				region := map[string]any{"x0": g.X0, "y0": g.Y0, "x1": g.X1, "y1": g.Y1, "column_from": g.ColumnFrom, "column_to": g.ColumnTo,
					"row_from": g.RowFrom, "row_to": g.RowTo, "observed": g.Observed, "expected": g.Expected, "llr": g.Ratio, "p": nil}
				if g.P == g.P {
					region["p"] = goavro.Union("double", g.P)
				}
				want["region"] = goavro.Union("io.odradek.Region", region)
			}
			if a.Kind == closeKind {
				want["reason"] = goavro.Union("io.odradek.CloseReason", CloseReasons[a.Reason])
			}
			for name, v := range map[string]float64{"peak_score": a.PeakScore, "threshold": a.Threshold, "rank": a.Rank} {
				if v == v {
					want[name] = goavro.Union("double", v)
				}
			}
			if a.Field != "" {
				want["field"] = goavro.Union("string", a.Field)
			}
			for name, l := range map[string][]float64{"expected": a.Expected, "actual": a.Actual, "contribution": a.Contribution} {
				if l != nil {
					items := []any{}
					for _, v := range l {
						items = append(items, v)
					}
					want[name] = goavro.Union("array", items)
				}
			}
			for name, v := range m {
				if at, ok := v.(time.Time); ok {
					m[name] = at.UnixMicro()
				}
			}
			if !reflect.DeepEqual(m, want) {
				t.Fatalf("%v\nwant %v", m, want)
			}
			back, err := DecodeAnomaly(b)
			if err != nil || !sameAnomaly(a, back) {
				t.Fatalf("%+v\n%+v %v", a, back, err)
			}
			for cut := range len(b) {
				if a, err := DecodeAnomaly(b[:cut]); err == nil {
					t.Fatal(cut, a)
				}
			}
			if _, err := DecodeAnomaly(append(b[:len(b):len(b)], 7)); err == nil {
				t.Fatal("a byte more")
			}
			texts := len(a.Key) + len(a.Detector) + len(a.Field) + len(a.Summary) + len(a.CarriedBy) + len(a.Unit) + 60 + a.Member.room() +
				a.Recurs.room()
			if n := len(b); n > e.room+texts+8*(len(a.Expected)+len(a.Actual)+len(a.Contribution)) {
				t.Fatalf("%d bytes, more than the encoder makes room for", n)
			}
		}
		a, buf := randomAnomaly(r), make([]byte, 0, 1024)
		if n := testing.AllocsPerRun(100, func() { buf = e.Append(buf[:0], &a) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
	a := randomAnomaly(r)
	a.Key = []byte{0xff, 0, 1}
	if a, err := DecodeAnomaly(NewAnomalyEncoder(1, "t", 0).Append(nil, &a)); err != nil || string(a.Key) != "0xff0001" {
		t.Errorf("%q %v", a.Key, err)
	}
	if _, err := DecodeAnomaly(NewScoreEncoder(-1, "t", 0, names).Append(nil, nil, 0, 0, 0, 0, Scored, 0, 0, Prediction{})); err == nil {
		t.Error("a score is read as an anomaly")
	}
}

func FuzzDecodeAnomaly(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, id := range []int32{-1, 7} {
		for range 4 {
			a := randomAnomaly(r)
			f.Add(NewAnomalyEncoder(id, "topic", 3).Append(nil, &a))
			f.Add(NewAnomalyEncoder(id, "topic", 3).Number().Append(nil, &a))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := DecodeAnomaly(b)
		if err != nil {
			return
		}
		again := NewAnomalyEncoder(-1, a.Topic, a.Partition).Number().Append(nil, &a)
		back, err := DecodeAnomaly(again)
		if a.Kind != closeKind {
			a.Reason = 0 // a reason that no close has is not written
		}
		if a.Range == 0 {
			a.Range = 0 // -0 is written as null, too
		}
		if a.Spread == 0 {
			a.Spread = 0
		}
		back.Key, a.Key = nil, nil // bytes that are not text are written otherwise
		if err != nil || !sameAnomaly(a, back) {
			t.Fatal(a, back, err)
		}
	})
}
