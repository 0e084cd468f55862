package formats

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"odradek/detectors/seedtest"
	"odradek/schemas"
	"odradek/schemas/avro"
)

// wildcardNames are names of fields, also some that a path escapes.
var wildcardNames = []string{"a", "b", "c.d", "e/f", "g[1]", `h\i`, "j+k", "ö", "id", "at"}

// tree returns an object of numbers, other values, and objects of these.
func tree(rng *rand.Rand, depth int) map[string]any {
	m := map[string]any{}
	for _, name := range wildcardNames {
		switch rng.IntN(9) {
		case 0, 1, 2:
			m[name] = math.Round(rng.NormFloat64()*1e6) / 1e3
		case 3:
			m[name] = []any{"text", true, []any{1.5, 2.0}, nil, "", "7.5"}[rng.IntN(6)]
		case 4:
			if depth < 3 {
				m[name] = tree(rng, depth+1)
			}
		}
	}
	return m
}

// flatten is the plain reference: the numbers below a path, and how many values are neither numbers nor null.
func flatten(m map[string]any, path string, apart []string, takes func(path string) bool, texts bool, out map[string]float64) (left int) {
	for name, v := range m {
		at := strings.ReplaceAll(schemas.Under(path, name), "/", "%2F")
		if inner, ok := v.(map[string]any); ok && !slices.Contains(apart, at) {
			left += flatten(inner, at, apart, takes, texts, out)
			continue
		}
		if slices.Contains(apart, at) || takes != nil && !takes(at) {
			continue
		}
		switch v := v.(type) {
		case float64:
			out[at] = v
		case string:
			switch {
			case texts && v == "7.5":
				out[at] = 7.5
			case !texts || v != "":
				left++
			}
		case nil:
		default:
			left++
		}
	}
	return left
}

// samplesOf returns the samples of a record by the part of the series key after the reading's.
func samplesOf(t *testing.T, m schemas.Mapping, r *schemas.Reading) map[string]float64 {
	t.Helper()
	got := map[string]float64{}
	s := schemas.NewSplitter(m.Fields)
	n := s.Samples(r)
	for i := range n {
		key, at, values := s.Sample(r, i)
		name, ok := strings.CutPrefix(string(key), "k/")
		if _, twice := got[name]; !ok || twice || at != 5_000 || len(values) != 1 || strings.Contains(name, "/") {
			t.Fatalf("sample %q at %d: %v", key, at, values)
		}
		got[name] = values[0]
	}
	if len(got) != n {
		t.Fatalf("%d samples of %d series", n, len(got))
	}
	return got
}

// TestWildcard: each number below a path is a sample of a series of its own, whichever fields the records before had, as a plain
// walk through the record finds them.
func TestWildcard(t *testing.T) {
	rng := seedtest.New(t)
	type mapped struct {
		schemas.Mapping
		prefix string
		apart  []string
		takes  func(path string) bool
		dec    *Decoder
		r      schemas.Reading
	}
	var list []*mapped
	for _, texts := range []bool{false, true} {
		list = append(list,
			&mapped{Mapping: schemas.Mapping{Fields: []string{"m.x.*"}, TextNumbers: texts}, prefix: "m.x"},
			&mapped{Mapping: schemas.Mapping{Fields: []string{"*"}, TextNumbers: texts}, apart: []string{"id", "at"}})
	}
	for field, pattern := range map[string]string{ // some with a "*" before the end
		"m.x.*.b": `m\.x\.@\.b`, "m.x.*.*": `m\.x\.@\..+`, `m.*.c\.d`: `m\.@\.c\\\.d`, "*.x.*.a": `@\.x\.@\.a`, "*.a": `@\.a`,
		"*.*.*":     `@\.@\..+`,
		"m.*.*.*.b": `m\.@\.@\.@\.b`,
	} {
		expression := regexp.MustCompile("^" + strings.ReplaceAll(pattern, "@", `([^.\\]|\\.)+`) + "$")
		for _, texts := range []bool{false, true} {
			list = append(list, &mapped{Mapping: schemas.Mapping{Fields: []string{field}, TextNumbers: texts}, apart: []string{"id", "at"},
				takes: expression.MatchString})
		}
	}
	for _, m := range list {
		m.Key, m.Time = "id", "at"
		m.dec = wildcardDecoder(t, m.Mapping, Options{Format: "json"})
	}
	for range 600 {
		inner := tree(rng, 0)
		record := map[string]any{"id": "k", "at": 5.0, "m": map[string]any{"x": inner, "y": 3.0}}
		text, err := json.Marshal(record)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range list {
			from := record
			if m.prefix != "" {
				from = inner
			}
			want := map[string]float64{}
			left := flatten(from, m.prefix, m.apart, m.takes, m.TextNumbers, want)
			if err := m.dec.Decode(t.Context(), nil, text, 7, nil, &m.r); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if got := samplesOf(t, m.Mapping, &m.r); !maps.Equal(got, want) || len(m.r.Rejected) != left {
				t.Fatalf("%s of %s: %v, %d left out, want %v, %d", m.Fields[0], text, got, len(m.r.Rejected), want, left)
			}
			if (m.r.Skipped == schemas.SkippedUnmapped) != (len(want) == 0) {
				t.Fatalf("%s of %s: skipped as %q", m.Fields[0], text, m.r.Skipped)
			}
			for name := range want {
				if !schemas.WildcardHas(m.Fields[0], name) {
					t.Fatalf("%s has no %s", m.Fields[0], name)
				}
			}
		}
	}
}

func wildcardDecoder(t *testing.T, m schemas.Mapping, o Options) *Decoder {
	t.Helper()
	d, err := NewDecoder(m, nil, o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestWildcardAvro: the same of a map, and of a record with records and maps in it.
func TestWildcardAvro(t *testing.T) {
	rng := seedtest.New(t)
	const number = `["null","double","string","boolean","long"]`
	schema := `{"type":"record","name":"R","fields":[{"name":"id","type":"string"},{"name":"at","type":"long"},
		{"name":"m","type":{"type":"map","values":` + number + `}},
		{"name":"p","type":{"type":"record","name":"P","fields":[{"name":"f","type":"float"},{"name":"u","type":` + number + `},
			{"name":"when","type":{"type":"long","logicalType":"timestamp-millis"}},
			{"name":"in","type":["null",{"type":"map","values":["int","string"]}]}]}}]}`
	decoderOf := func(field string) (schemas.Mapping, *Decoder) {
		m := schemas.Mapping{Key: "id", Time: "at", Fields: []string{field}}
		return m, wildcardDecoder(t, m, Options{Format: "avro", Bare: schema})
	}
	union := func(b []byte, path string, want map[string]float64) ([]byte, int) {
		v := rng.NormFloat64()
		switch i := rng.IntN(5); i {
		case 0:
			return append(b, 0), 0
		case 1:
			want[path] = v
			return append(append(b, 2), binary.LittleEndian.AppendUint64(nil, math.Float64bits(v))...), 0
		case 2:
			return avro.AppendText(append(b, 4), "x"), 1
		case 3:
			return avro.AppendBool(append(b, 6), true), 1
		default:
			want[path] = math.Trunc(v * 100)
			return avro.AppendLong(append(b, 8), int64(v*100)), 0
		}
	}
	mm, dm := decoderOf("m.*")
	mp, dp := decoderOf("p.*")
	ma, da := decoderOf("*")
	mi, di := decoderOf("p.*.i")
	var r schemas.Reading
	for range 600 {
		inMap, inRecord, deep := map[string]float64{}, map[string]float64{}, map[string]float64{}
		leftMap, leftRecord, n := 0, 1, 0
		body := avro.AppendLong(avro.AppendText(nil, "k"), 5)
		for _, name := range wildcardNames {
			if rng.IntN(3) == 0 {
				continue
			}
			if body = avro.AppendText(avro.AppendLong(body, 1), name); n >= 0 { // blocks of one entry
				body, n = union(body, strings.ReplaceAll(schemas.Under("m", name), "/", "%2F"), inMap)
				leftMap += n
			}
		}
		body = append(body, 0)
		f := float32(rng.NormFloat64())
		inRecord["p.f"] = float64(f)
		body = append(body, binary.LittleEndian.AppendUint32(nil, math.Float32bits(f))...)
		body, n = union(body, "p.u", inRecord)
		leftRecord += n
		body = avro.AppendLong(body, 1_700_000_000_000) // a time is no value
		if rng.IntN(2) == 0 {
			body = append(body, 0)
		} else {
			body = append(avro.AppendLong(avro.AppendText(avro.AppendLong(append(body, 2), 1), "i"), 0), 2*9, 0)
			inRecord["p.in.i"], deep["p.in.i"] = 9, 9
		}
		all := maps.Clone(inMap)
		maps.Copy(all, inRecord)
		for _, c := range []struct {
			m    schemas.Mapping
			d    *Decoder
			want map[string]float64
			left int
		}{{mi, di, deep, 0}, {mm, dm, inMap, leftMap}, {mp, dp, inRecord, leftRecord}, {ma, da, all, leftMap + leftRecord}} {
			if err := c.d.Decode(t.Context(), nil, body, 7, nil, &r); err != nil {
				t.Fatalf("%s: %v", c.m.Fields[0], err)
			}
			if got := samplesOf(t, c.m, &r); !maps.Equal(got, c.want) || len(r.Rejected) != c.left {
				t.Fatalf("%s: %v, %d left out, want %v, %d", c.m.Fields[0], got, len(r.Rejected), c.want, c.left)
			}
		}
	}
}

// TestWildcardFaults: what a record may not be.
func TestWildcardFaults(t *testing.T) {
	m := schemas.Mapping{Key: "id", Time: "at", Fields: []string{"m.*"}, Valid: []string{"m.*=..3"}}
	d := wildcardDecoder(t, m, Options{Format: "json"})
	var wide strings.Builder
	for i := range 65537 {
		fmt.Fprintf(&wide, `,"x%d":1`, i)
	}
	deep := strings.Repeat(`{"x":`, 70) + "1" + strings.Repeat("}", 70)
	var r schemas.Reading
	for text, want := range map[string]string{
		`{"id":"k","at":5}`:                                 `missing_field: field "m.*"`,
		`{"id":"k","at":5,"m":3}`:                           `bad_type: field "m.*"`,
		`{"id":"k","at":5,"m":[1]}`:                         `bad_type: field "m.*"`,
		`{"id":"k","at":5,"m":{"x":1e999}}`:                 `infinite_value: field "m.*"`,
		`{"id":"k","at":5,"m":{"x":1,"x":2}}`:               `malformed: field "m.x"`,
		`{"id":"k","at":5,"m":{"x":1},"m":{}}`:              `malformed: field "m.*"`,
		`{"id":"k","at":5,"m":{"x":1,"\ud800":2}}`:          `malformed: field "m.*"`,
		`{"id":"k","m":{"x":1}}`:                            `bad_time: field "at"`,
		`{"id":"k","at":5,"m":{` + wide.String()[1:] + `}}`: `too_large: field "m.*"`,
		`{"id":"k","at":5,"m":` + deep + `}`:                `too_large: `,
	} {
		if err := d.Decode(t.Context(), nil, []byte(text), 7, nil, &r); err == nil || !strings.HasPrefix(err.Error(), "schemas: "+want) {
			t.Errorf("%.60s: %v, want %s", text, err, want)
		}
	}
	if err := d.Decode(t.Context(), nil, []byte(`{"id":"k","at":5,"m":{"x":1,"y":4}}`), 7, nil, &r); err != nil || len(r.Rejected) != 1 {
		t.Fatal(err, r.Rejected)
	}
	if got := samplesOf(t, m, &r); got["m.x"] != 1 || !math.IsNaN(got["m.y"]) {
		t.Errorf("samples %v", got)
	}
	for _, fields := range [][]string{{"m.*", "x"}, {"m[2].*"}, {"@x.*"}, {"m.*.x[2]"}, {"m.*."}} {
		if err := (schemas.Mapping{Fields: fields}).Validate(); err == nil {
			t.Errorf("%v is taken", fields)
		}
	}
	if err := (schemas.Mapping{Fields: []string{`m.\*`}}).Validate(); err != nil || schemas.IsWildcard(`m.\*`) {
		t.Error("a field that is called * is taken for a wildcard")
	}
}

// TestWildcardOfReadings: a "*" before the end, below an array of readings.
func TestWildcardOfReadings(t *testing.T) {
	m := schemas.Mapping{Key: "id", Time: "points.at", Fields: []string{"points.*.value"}, Readings: "points"}
	d := wildcardDecoder(t, m, Options{Format: "json"})
	var r schemas.Reading
	text := `{"id":"k","points":[{"at":1,"a":{"value":2,"unit":"C"},"b":{"value":3,"x":{"value":9}}},{"at":2,"a":{"value":4},"value":7}]}`
	if err := d.Decode(t.Context(), nil, []byte(text), 7, nil, &r); err != nil || len(r.Rejected) != 0 {
		t.Fatal(err, r.Rejected)
	}
	s := schemas.NewSplitter(m.Fields)
	var got []string
	for i := range s.Samples(&r) {
		key, at, values := s.Sample(&r, i)
		got = append(got, fmt.Sprintf("%s at %d: %v", key, at/1000, values[0]))
	}
	want := []string{"k/points.a.value at 1: 2", "k/points.b.value at 1: 3", "k/points.a.value at 2: 4"}
	if !slices.Equal(got, want) {
		t.Errorf("samples %q, want %q", got, want)
	}
}
