package formats

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/linkedin/goavro/v2"
	"google.golang.org/protobuf/encoding/protowire"

	"odradek/detectors/seedtest"
	"odradek/schemas"
)

// point is a reading of a plantRecord; a NaN is written as null.
type point struct {
	sensor string
	at     int64 // milliseconds
	v      float64
	accel  [2]float64
}

// plantRecord is a record with an array of readings.
type plantRecord struct {
	machine string
	at      int64
	ambient float64
	points  []point
	none    bool // null in the place of the array
}

func newPlantRecord(rng *rand.Rand) plantRecord {
	r := plantRecord{machine: fmt.Sprint("press-", rng.IntN(5)), at: 1_700_000_000_000 + rng.Int64N(1000), ambient: rng.NormFloat64(),
		none: rng.IntN(10) == 0}
	if !r.none {
		for range rng.IntN(6) {
			p := point{fmt.Sprint("s", rng.IntN(3)), r.at + rng.Int64N(100) - 50, rng.NormFloat64(), [2]float64{rng.Float64(), rng.Float64()}}
			if rng.IntN(5) == 0 {
				p.v = math.NaN()
			}
			r.points = append(r.points, p)
		}
	}
	return r
}

const plantAvro = `{"type":"record","name":"Plant","fields":[{"name":"machine","type":"string"},
	{"name":"data","type":["null",{"type":"record","name":"Data","fields":[
		{"name":"note","type":["null","string"]},
		{"name":"points","type":["null",{"type":"array","items":{"type":"record","name":"Point","fields":[
			{"name":"sensor","type":"string"},{"name":"at","type":"long"},{"name":"v","type":["null","double"]},
			{"name":"accel","type":{"type":"array","items":"double"}}]}}]}]}]},
	{"name":"ambient","type":"double"},{"name":"at","type":"long"}]}`

const plantProto = `syntax = "proto3"; message Plant { string machine = 1; Data data = 2; double ambient = 3; int64 at = 4;
	message Data { repeated Point points = 2; }
	message Point { string sensor = 1; int64 at = 2; optional double v = 3; repeated double accel = 4; } }`

// plantEncoders write a plantRecord in each format, without framing.
func plantEncoders(t testing.TB) map[string]func(r *plantRecord) []byte {
	codec, err := goavro.NewCodec(plantAvro)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]func(r *plantRecord) []byte{
		"avro": func(r *plantRecord) []byte {
			var points any
			if !r.none {
				list := []any{}
				for _, p := range r.points {
					var v any
					if p.v == p.v {
						v = goavro.Union("double", p.v)
					}
					list = append(list, map[string]any{"sensor": p.sensor, "at": p.at, "v": v, "accel": []any{p.accel[0], p.accel[1]}})
				}
				points = goavro.Union("array", list)
			}
			b, err := codec.BinaryFromNative(nil, map[string]any{"machine": r.machine, "ambient": r.ambient, "at": r.at,
				"data": goavro.Union("Data", map[string]any{"note": nil, "points": points})})
			if err != nil {
				t.Fatal(err)
			}
			return b
		},
		"json": func(r *plantRecord) []byte {
			var points any
			if !r.none {
				list := []any{}
				for _, p := range r.points {
					m := map[string]any{"sensor": p.sensor, "at": p.at, "accel": p.accel, "v": nil}
					if p.v == p.v {
						m["v"] = p.v
					}
					list = append(list, m)
				}
				points = list
			}
			b, err := json.Marshal(map[string]any{"machine": r.machine, "at": r.at, "ambient": r.ambient, "data": map[string]any{"points": points}})
			if err != nil {
				t.Fatal(err)
			}
			return b
		},
		"protobuf": func(r *plantRecord) []byte {
			double := func(b []byte, n protowire.Number, v float64) []byte {
				return protowire.AppendFixed64(protowire.AppendTag(b, n, protowire.Fixed64Type), math.Float64bits(v))
			}
			text := func(b []byte, n protowire.Number, s []byte) []byte {
				return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), s)
			}
			long := func(b []byte, n protowire.Number, v int64) []byte {
				return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), uint64(v))
			}
			b := text(nil, 1, []byte(r.machine))
			for i, p := range r.points { // the message data in two parts, which a reader merges
				item := long(text(nil, 1, []byte(p.sensor)), 2, p.at)
				if p.v == p.v {
					item = double(item, 3, p.v)
				}
				item = double(double(item, 4, p.accel[0]), 4, p.accel[1])
				b = text(b, 2, text(nil, 2, item))
				if i == 0 {
					b = double(b, 3, r.ambient)
				}
			}
			return long(double(b, 3, r.ambient), 4, r.at)
		},
	}
}

func plantDecoder(t testing.TB, format string, m schemas.Mapping) (*Decoder, error) {
	t.Helper()
	return NewDecoder(m, nil, Options{Format: format, Bare: map[string]string{"avro": plantAvro, "protobuf": plantProto}[format]})
}

// TestReadings: every format reads the same readings from an array, wherever key, time and values are.
func TestReadings(t *testing.T) {
	rng := seedtest.New(t)
	mappings := []schemas.Mapping{
		{Key: "machine", Time: "data.points.at", Fields: []string{"data.points.v"}},
		{Key: "data.points.sensor", Time: "at", Fields: []string{"data.points.v", "ambient"}},
		{Key: "data.points.sensor+machine", Time: "data.points.at", Fields: []string{"ambient", "data.points.accel[2]", "data.points.v"}},
		{Key: "machine+data.points.sensor+@key", Fields: []string{"data.points.v"}},
		{Time: "data.points.at", Fields: []string{"data.points.v"}},
		{Key: "@partition", Time: "data.points.at", Fields: []string{"data.points.v"}},
		{Key: "@partition+data.points.sensor", Time: "data.points.at", Fields: []string{"data.points.v"}},
	}
	for _, m := range mappings {
		m.Readings = "data.points"
		decoders := map[string]*Decoder{}
		encode := plantEncoders(t)
		for format := range encode {
			d, err := plantDecoder(t, format, m)
			if err != nil {
				t.Fatal(err)
			}
			decoders[format] = d
		}
		var r schemas.Reading
		for range 300 {
			rec := newPlantRecord(rng)
			const stamp = 5000
			r.Partition = rng.Int32N(40)
			for format, d := range decoders {
				if err := d.Decode(t.Context(), []byte("raw"), encode[format](&rec), stamp, nil, &r); err != nil {
					t.Fatalf("%s: %v", format, err)
				}
				if r.Len() != len(rec.points) {
					t.Fatalf("%s: %d readings, want %d", format, r.Len(), len(rec.points))
				}
				latest := int64(math.MinInt64)
				for i, p := range rec.points {
					var parts []string
					for _, path := range strings.Split(m.Key, "+") {
						switch path {
						case "machine":
							parts = append(parts, rec.machine)
						case "data.points.sensor":
							parts = append(parts, p.sensor)
						case "@partition":
							parts = append(parts, strconv.Itoa(int(r.Partition)))
						default:
							parts = append(parts, "raw")
						}
					}
					at := map[string]int64{"at": rec.at * 1000, "data.points.at": p.at * 1000, "": stamp * 1000}[m.Time]
					latest = max(latest, at)
					var values []float64
					for _, path := range m.Fields {
						switch path {
						case "ambient":
							values = append(values, rec.ambient)
						case "data.points.accel[2]":
							values = append(values, p.accel[:]...)
						default:
							values = append(values, p.v)
						}
					}
					key, time, got := r.At(i)
					if string(key) != strings.Join(parts, "/") || time != at ||
						!slices.EqualFunc(got, values, func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) || a != a && b != b }) {
						t.Fatalf("%s: reading %d is %q at %d: %v; want %v at %d: %v", format, i, key, time, got, parts, at, values)
					}
					if i == 0 && !bytes.Equal(r.Key, key) {
						t.Fatalf("%s: key %q of the record, %q of its first reading", format, r.Key, key)
					}
				}
				if len(rec.points) > 0 && r.Time != latest {
					t.Fatalf("%s: time %d, the latest is %d", format, r.Time, latest)
				}
			}
		}
	}
}

// TestReadingsBare: the record itself is an array, or the items are numbers.
func TestReadingsBare(t *testing.T) {
	for _, c := range []struct {
		m              schemas.Mapping
		schema, record string
		body           []byte
		want           string
	}{
		{schemas.Mapping{Readings: "@value", Key: "k", Time: "at", Fields: []string{"v"}}, "",
			` [ {"k":"a","at":1,"v":2} , {"v":3,"at":4,"k":7} ] `, nil, "a 1000 [2];7 4000 [3];"},
		{schemas.Mapping{Readings: "v", Key: "k", Fields: []string{"v"}}, "", `{"v":[1,null,true],"k":"x"}`, nil,
			"x 9000 [1];x 9000 [NaN];x 9000 [1];"},
		{schemas.Mapping{Readings: "v", Key: "k", Fields: []string{"v"}},
			record(`{"name":"k","type":"string"},{"name":"v","type":{"type":"array","items":"int"}}`), "",
			[]byte{2, 'x', 4, 2, 4, 1, 2, 6, 0}, "x 9000 [1];x 9000 [2];x 9000 [3];"}, // a block with its size at the end
		{schemas.Mapping{Readings: "m.points", Key: "@key", Fields: []string{"m.points"}},
			record(`{"name":"m","type":{"type":"map","values":{"type":"array","items":"int"}}}`), "", []byte{2, 2, 'x', 2, 2, 0, 0}, ""},
	} {
		format := "json"
		if c.schema != "" {
			format = "avro"
		} else {
			c.body = []byte(c.record)
		}
		d, err := NewDecoder(c.m, nil, Options{Format: format, Bare: c.schema})
		if err != nil {
			t.Fatal(err)
		}
		var r schemas.Reading
		if err := d.Decode(t.Context(), []byte("raw"), c.body, 9, nil, &r); err != nil {
			t.Errorf("%+v: %v", c.m, err)
			continue
		}
		got := ""
		for i := range r.Len() {
			k, at, v := r.At(i)
			got += fmt.Sprint(string(k), " ", at, " ", v, ";")
		}
		if got != c.want {
			t.Errorf("%+v: %s, want %s", c.m, got, c.want)
		}
	}
}

// TestBadReadings: the fault of a record names the reading that has it, and the first one of a record is told.
func TestBadReadings(t *testing.T) {
	m := schemas.Mapping{Key: "machine", Time: "points.at", Fields: []string{"points.v"}, Readings: "points"}
	d, err := NewDecoder(m, nil, Options{Format: "json"})
	if err != nil {
		t.Fatal(err)
	}
	var r schemas.Reading
	decode := func(text string) error { return d.Decode(t.Context(), nil, []byte(text), 5, nil, &r) }
	for text, want := range map[string][2]string{
		`{"machine":"a","points":[{"at":1,"v":"x"},{"at":1,"v":1e999}]}`:     {schemas.ClassInfinite, "points[1].v"},
		`{"machine":"a","points":[{"at":1,"w":1},{"at":1,"x":1}]}`:           {schemas.ClassMissingField, "points[0].v"},
		`{"machine":"a","points":[{"v":2},{"at":1,"v":"x"}]}`:                {schemas.ClassBadTime, "points[0].at"},
		`{"machine":"a","points":[{"at":1,"v":1e999}]}`:                      {schemas.ClassInfinite, "points[0].v"},
		`{"machine":"a","points":[{"at":1,"w":1}]}`:                          {schemas.ClassMissingField, "points[0].v"},
		`{"machine":"a","points":[{"at":1,"v":1},null]}`:                     {schemas.ClassBadTime, "points[1].at"},
		`{"machine":"a","points":[{"at":1,"v":1,"v":2}]}`:                    {schemas.ClassMalformed, "points[0].v"},
		`{"machine":"a","points":[{"at":1,"v":1}],"points":[]}`:              {schemas.ClassMalformed, "points"},
		`{"machine":null,"points":[{"at":1,"v":"x"}]}`:                       {schemas.ClassMissingKey, "machine"},
		`{"points":[{"at":1,"v":1}]}`:                                        {schemas.ClassMissingKey, "machine"},
		`{"machine":"a"}`:                                                    {schemas.ClassMissingField, "points"},
		`{"machine":"a","points":{"at":1,"v":1}}`:                            {schemas.ClassBadType, "points"},
		`{"machine":"a","points":7}`:                                         {schemas.ClassBadType, "points"},
		`{"machine":"a","points":[{"at":1,"v":1}`:                            {schemas.ClassTruncated, ""},
		`{"machine":"a","points":[` + strings.Repeat("1,", 65536) + `1]}`:    {schemas.ClassTooLarge, "points"},
		`{"machine":"a","points":[` + strings.Repeat("[", 70) + "]}"[:0]:     {schemas.ClassTruncated, ""},
		`{"machine":"a","points":[{"at":1,"v":1,"x":` + nested(63) + `}]}`:   {schemas.ClassTooLarge, ""},
		`{"machine":"a","points":[{"at":1e30,"v":1,"x":` + nested(9) + `}]}`: {schemas.ClassBadTime, "points[0].at"},
	} {
		wantClass(t, decode(text), want[0], want[1])
	}
	for _, text := range []string{`{"machine":"a","points":[]}`, `{"machine":"a","points":null}`} {
		if err := decode(text); err != nil || r.Len() != 0 || string(r.Key) != "a" {
			t.Errorf("%s: %d readings, %v", text, r.Len(), err)
		}
	}
	if err := decode(`{"machine":"a","points":[` + strings.Repeat(`{"at":1,"v":null},`, 65535) + `{"at":2,"v":1}]}`); err != nil ||
		r.Len() != schemas.MaxReadings || r.Time != 2000 {
		t.Errorf("%d readings: %v", r.Len(), err)
	}
	many := m
	many.Fields = []string{"points.v[1000]"}
	d, err = NewDecoder(many, nil, Options{Format: "json"})
	if err != nil {
		t.Fatal(err)
	}
	wantClass(t, decode(`{"machine":"a","points":[`+strings.Repeat("{},", 1048)+`{}]}`), schemas.ClassTooLarge, "points")
}

func nested(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }

// TestReadingsCheck: a mapping's faults are told with the paths that a schema has in their place.
func TestReadingsCheck(t *testing.T) {
	m := schemas.Mapping{Key: "machin", Time: "data.points.att", Fields: []string{"data.points.w", "data.points.v"}, Readings: "data.points"}
	jsonSchema := `{"properties":{"machine":{"type":"string"},"data":{"type":"object","properties":{"points":{"type":"array","items":
		{"type":"object","properties":{"sensor":{"type":"string"},"at":{"type":"integer"},"v":{"type":"number"}}}}}}}}`
	for format, schema := range map[string]string{"avro": plantAvro, "protobuf": plantProto, "json": jsonSchema} {
		text := fmt.Sprint(CheckFile(format, m, schema))
		for _, want := range []string{`key "machin"`, "nearest: machine", `time "data.points.att"`, "nearest: data.points.at",
			`field "data.points.w"`} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %s does not have %s", format, text, want)
			}
		}
		if strings.Contains(text, `"data.points.v"`) {
			t.Errorf("%s: %s", format, text)
		}
		other := m
		other.Readings, other.Fields, other.Time = "data.point", []string{"data.point.v"}, ""
		if text := fmt.Sprint(CheckFile(format, other, schema)); !strings.Contains(text, `readings "data.point"`) ||
			!strings.Contains(text, "nearest: data.points") {
			t.Errorf("%s: %s", format, text)
		}
		other.Readings, other.Fields = "machine", []string{"machine.v"}
		if text := fmt.Sprint(CheckFile(format, other, schema)); !strings.Contains(text, `readings "machine": is `) {
			t.Errorf("%s: %s", format, text)
		}
	}
	for _, c := range []struct {
		m    schemas.Mapping
		want string
	}{
		{schemas.Mapping{Readings: "p[3]", Fields: []string{"p.v"}}, "leave out the [3]"},
		{schemas.Mapping{Readings: "p", Fields: []string{"p[3].v"}}, "leave out the [3]"},
		{schemas.Mapping{Readings: "p", Fields: []string{"v"}}, "no value is in the array: name one as p.value"},
		{schemas.Mapping{Readings: "p..q", Fields: []string{"v"}}, "empty step"},
	} {
		if err := c.m.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %s", c.m, err, c.want)
		}
	}
}

// TestReadingsUnion: an array of readings in several branches of a union has the same items in all of them.
func TestReadingsUnion(t *testing.T) {
	schema := record(`{"name":"u","type":[{"type":"record","name":"A","fields":[{"name":"p","type":{"type":"array","items":"int"}}]},
		{"type":"record","name":"B","fields":[{"name":"p","type":{"type":"array","items":"double"}}]}]}`)
	d, err := NewDecoder(schemas.Mapping{Readings: "u.p", Fields: []string{"u.p"}}, nil, Options{Bare: schema})
	if err != nil {
		t.Fatal(err)
	}
	var r schemas.Reading
	wantClass(t, d.Decode(t.Context(), []byte("k"), []byte{0, 2, 2, 0}, 5, nil, &r), schemas.ClassTooLarge, "")
}

// TestReadingsAllocateNothing: neither does a record of readings in Avro, once the decoder has seen one.
func TestReadingsAllocateNothing(t *testing.T) {
	rec := plantRecord{machine: "a", at: 1, points: make([]point, 50)}
	body := plantEncoders(t)["avro"](&rec)
	m := schemas.Mapping{Key: "machine", Time: "data.points.at", Fields: []string{"data.points.v"}, Readings: "data.points"}
	d, err := plantDecoder(t, "avro", m)
	if err != nil {
		t.Fatal(err)
	}
	var r schemas.Reading
	if n := testing.AllocsPerRun(100, func() {
		if err := d.Decode(t.Context(), nil, body, 0, nil, &r); err != nil || r.Len() != 50 {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations a record", n)
	}
}

// BenchmarkReadings reads records of 50 readings each; its time is per record.
func BenchmarkReadings(b *testing.B) {
	rec := plantRecord{machine: "press-1", at: 1_700_000_000_000, points: make([]point, 50)}
	for i := range rec.points {
		rec.points[i] = point{sensor: "s", at: rec.at + int64(i), v: float64(i) / 7}
	}
	for format, encode := range plantEncoders(b) {
		b.Run(format, func(b *testing.B) {
			body := encode(&rec)
			d, err := plantDecoder(b, format, schemas.Mapping{Key: "machine", Time: "data.points.at", Fields: []string{"data.points.v"},
				Readings: "data.points"})
			if err != nil {
				b.Fatal(err)
			}
			var r schemas.Reading
			b.ReportAllocs()
			for b.Loop() {
				if err := d.Decode(b.Context(), nil, body, 0, nil, &r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// FuzzReadings gives arbitrary bytes to the decoders of records with an array of readings.
func FuzzReadings(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 2))
	m := schemas.Mapping{Key: "machine+data.points.sensor", Time: "data.points.at",
		Fields: []string{"data.points.v", "data.points.accel[2]", "ambient"}, Readings: "data.points"}
	var ds []*Decoder
	for i, format := range withSchemas() {
		d, err := plantDecoder(f, format, m)
		if err != nil {
			f.Fatal(err)
		}
		ds = append(ds, d)
		for range 4 {
			rec := newPlantRecord(rng)
			f.Add(byte(i), plantEncoders(f)[format](&rec))
		}
	}
	f.Fuzz(func(t *testing.T, which byte, value []byte) {
		d := ds[int(which)%len(ds)].Clone()
		var r schemas.Reading
		if err := d.Decode(t.Context(), []byte("key"), value, 5, nil, &r); err != nil {
			return
		}
		if r.Len() > schemas.MaxReadings {
			t.Fatal(r.Len())
		}
		latest := int64(math.MinInt64)
		for i := range r.Len() {
			key, at, values := r.At(i)
			if latest = max(latest, at); len(key) == 0 || len(values) != d.Width() || at < schemas.MinTime || at > schemas.MaxTime {
				t.Fatal(key, at, values)
			}
			for _, v := range values {
				if math.IsInf(v, 0) {
					t.Fatal(values)
				}
			}
		}
		if r.Len() > 0 && r.Time != latest {
			t.Fatal(r.Time, latest)
		}
	})
}
