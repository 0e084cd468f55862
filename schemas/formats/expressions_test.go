package formats

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linkedin/goavro/v2"
	"google.golang.org/protobuf/encoding/protowire"

	"odradek/detectors/seedtest"
	"odradek/schemas"
)

// machineRecord is a record with a field of each type that expressions take.
type machineRecord struct {
	quality string // "": null
	code    int64
	raw     float64 // NaN: null
	ok      bool
	line    string // "": null, in site
	site    bool   // whether there is one
	tag     string // "": the map has none
	at      int64  // milliseconds
}

const machineAvro = `{"type":"record","name":"Machine","fields":[
	{"name":"code","type":"int"},
	{"name":"quality","type":["null",{"type":"enum","name":"Quality","symbols":["GOOD","UNCERTAIN","BAD"]}]},
	{"name":"site","type":["null",{"type":"record","name":"Site","fields":[{"name":"line","type":["null","string"]}]}]},
	{"name":"raw","type":["null","double"]},
	{"name":"tags","type":{"type":"map","values":"string"}},
	{"name":"at","type":{"type":"long","logicalType":"timestamp-millis"}},
	{"name":"ok","type":"boolean"}]}`

const machineProto = `syntax = "proto3"; import "google/protobuf/timestamp.proto";
	message Machine { int32 code = 1; optional Quality quality = 2; Site site = 3; optional double raw = 4; map<string, string> tags = 5;
		google.protobuf.Timestamp at = 6; bool ok = 7; }
	message Site { optional string line = 1; }
	enum Quality { GOOD = 0; UNCERTAIN = 1; BAD = 2; }`

var qualities = []string{"GOOD", "UNCERTAIN", "BAD", ""}

func newMachineRecord(rng *rand.Rand) machineRecord {
	r := machineRecord{quality: qualities[rng.IntN(4)], code: rng.Int64N(5), raw: float64(rng.IntN(400)) / 2, ok: rng.IntN(2) == 0,
		site: rng.IntN(4) > 0, at: 1_700_000_000_000 + rng.Int64N(1e9)}
	if rng.IntN(4) == 0 {
		r.raw = math.NaN()
	}
	if r.site && rng.IntN(3) > 0 {
		r.line = string(rune('a' + rng.IntN(3)))
	}
	if rng.IntN(3) > 0 {
		r.tag = string(rune('x' + rng.IntN(3)))
	}
	return r
}

// machineEncoders write a machineRecord in each format, without framing.
func machineEncoders(t testing.TB) map[string]func(r *machineRecord) []byte {
	codec, err := goavro.NewCodec(machineAvro)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]func(r *machineRecord) []byte{
		"avro": func(r *machineRecord) []byte {
			m := map[string]any{"code": r.code, "quality": nil, "site": nil, "raw": nil, "tags": map[string]any{},
				"at": time.UnixMilli(r.at).UTC(), "ok": r.ok}
			if r.quality != "" {
				m["quality"] = goavro.Union("Quality", r.quality)
			}
			if r.site {
				s := map[string]any{"line": nil}
				if r.line != "" {
					s["line"] = goavro.Union("string", r.line)
				}
				m["site"] = goavro.Union("Site", s)
			}
			if r.raw == r.raw {
				m["raw"] = goavro.Union("double", r.raw)
			}
			if r.tag != "" {
				m["tags"] = map[string]any{"other": "o", "a-b": r.tag}
			}
			b, err := codec.BinaryFromNative(nil, m)
			if err != nil {
				t.Fatal(err)
			}
			return b
		},
		"json": func(r *machineRecord) []byte {
			m := map[string]any{"code": r.code, "quality": nil, "site": nil, "raw": nil, "tags": map[string]any{}, "at": r.at, "ok": r.ok}
			if r.quality != "" {
				m["quality"] = r.quality
			}
			if r.site {
				s := map[string]any{"line": nil}
				if r.line != "" {
					s["line"] = r.line
				}
				m["site"] = s
			}
			if r.raw == r.raw {
				m["raw"] = r.raw
			}
			if r.tag != "" {
				m["tags"] = map[string]any{"other": "o", "a-b": r.tag}
			}
			b, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			return b
		},
		"protobuf": func(r *machineRecord) []byte {
			text := func(b []byte, n protowire.Number, s []byte) []byte {
				return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), s)
			}
			long := func(b []byte, n protowire.Number, v int64) []byte {
				return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), uint64(v))
			}
			var b []byte
			if r.code != 0 {
				b = long(b, 1, r.code)
			}
			if r.quality != "" {
				b = long(b, 2, int64(slices.Index(qualities, r.quality)))
			}
			if r.site {
				var s []byte
				if r.line != "" {
					s = text(s, 1, []byte(r.line))
				}
				b = text(b, 3, s)
			}
			if r.raw == r.raw {
				b = protowire.AppendFixed64(protowire.AppendTag(b, 4, protowire.Fixed64Type), math.Float64bits(r.raw))
			}
			if r.tag != "" {
				b = text(text(b, 5, text(text(nil, 1, []byte("other")), 2, []byte("o"))), 5, text(text(nil, 1, []byte("a-b")), 2, []byte(r.tag)))
			}
			b = text(b, 6, long(long(nil, 1, r.at/1000), 2, r.at%1000*1e6))
			if r.ok {
				b = long(b, 7, 1)
			}
			return b
		},
	}
}

func machineDecoder(format string, m schemas.Mapping) (*Decoder, error) {
	return NewDecoder(m, nil, Options{Format: format, Bare: map[string]string{"avro": machineAvro, "protobuf": machineProto}[format]})
}

// TestOnlyIf: in every format a condition takes the records that the same predicate in Go takes, and is an error where the
// predicate lacks a field or has null in the place of a number.
func TestOnlyIf(t *testing.T) {
	rng := seedtest.New(t)
	const fails = 2
	is := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	for _, c := range []struct {
		text    string
		formats string // "": all
		want    func(r *machineRecord) int
	}{
		{`quality in ["GOOD", "UNCERTAIN"]`, "", func(r *machineRecord) int { return is(r.quality == "GOOD" || r.quality == "UNCERTAIN") }},
		{`quality == null || quality != "BAD"`, "", func(r *machineRecord) int { return is(r.quality != "BAD") }},
		{`has(quality) && !ok`, "", func(r *machineRecord) int { return is(r.quality != "" && !r.ok) }},
		{`code in [1, 3]`, "", func(r *machineRecord) int { return is(r.code == 1 || r.code == 3) }},
		{`code >= 2 && code != 4 ? ok : !ok`, "", func(r *machineRecord) int { return is((r.code == 2 || r.code == 3) == r.ok) }},
		{`raw > 100.0`, "", func(r *machineRecord) int {
			if r.raw != r.raw {
				return fails
			}
			return is(r.raw > 100)
		}},
		{`has(raw) && raw * 2.0 > 100.0`, "", func(r *machineRecord) int { return is(r.raw > 50) }},
		{`raw > 100.0 || ok`, "", func(r *machineRecord) int {
			if r.raw != r.raw && !r.ok {
				return fails
			}
			return is(r.raw > 100 || r.ok)
		}},
		{`site.line == "a"`, "", func(r *machineRecord) int { return is(r.line == "a") }},
		{`has(site.line) && site.line < "c"`, "", func(r *machineRecord) int { return is(r.line == "a" || r.line == "b") }},
		{`tags["a-b"] == "x"`, "avro json", func(r *machineRecord) int {
			if r.tag == "" {
				return fails
			}
			return is(r.tag == "x")
		}},
		{`has(tags["a-b"]) && tags["a-b"].matches("[xy]")`, "", func(r *machineRecord) int { return is(r.tag == "x" || r.tag == "y") }},
		{`10 / code > 4`, "avro protobuf", func(r *machineRecord) int {
			if r.code == 0 {
				return fails
			}
			return is(10/r.code > 4)
		}},
		{`at < timestamp("2023-11-20T00:00:00.5Z")`, "avro protobuf", func(r *machineRecord) int { return is(r.at < 1_700_438_400_500) }},
	} {
		m := schemas.Mapping{Time: "at", Fields: []string{"raw"}, OnlyIf: c.text}
		for format, encode := range machineEncoders(t) {
			if c.formats != "" && !strings.Contains(c.formats, format) {
				continue
			}
			d, err := machineDecoder(format, m)
			if err != nil {
				t.Fatalf("%s, %s: %v", c.text, format, err)
			}
			m.OnlyIf = ""
			all, err := machineDecoder(format, m)
			if err != nil {
				t.Fatal(err)
			}
			m.OnlyIf = c.text
			var got, want schemas.Reading
			counts := [3]int{}
			for range 300 {
				rec := newMachineRecord(rng)
				b := encode(&rec)
				err := d.Decode(t.Context(), []byte("k"), b, 5000, nil, &got)
				if err := all.Decode(t.Context(), []byte("k"), b, 5000, nil, &want); err != nil {
					t.Fatal(err)
				}
				expected := c.want(&rec)
				counts[expected]++
				var de *schemas.DecodeError
				switch {
				case expected == fails:
					if !errors.As(err, &de) || de.Class != schemas.ClassExpression || !strings.Contains(err.Error(), c.text) {
						t.Fatalf("%s, %s of %+v: %v, not an error of the expression", c.text, format, rec, err)
					}
				case err != nil:
					t.Fatalf("%s, %s of %+v: %v", c.text, format, rec, err)
				case expected == 0 && (got.Skipped != schemas.SkippedFiltered || got.Len() != 0):
					t.Fatalf("%s, %s of %+v: is taken", c.text, format, rec)
				case expected == 1 && (got.Skipped != schemas.NotSkipped || got.Time != want.Time || string(got.Key) != "k" ||
					math.Float64bits(got.Values[0]) != math.Float64bits(want.Values[0])):
					t.Fatalf("%s, %s of %+v: %+v, want %+v", c.text, format, rec, got, want)
				}
			}
			if counts[0] == 0 || counts[1] == 0 {
				t.Errorf("%s: %v records are left out, taken and faulty", c.text, counts)
			}
		}
	}
}

// TestOnlyIfFirst: a record for which the condition is false is left out, also without a key, a time or values; one that is
// cut off is broken all the same.
func TestOnlyIfFirst(t *testing.T) {
	d, err := NewDecoder(schemas.Mapping{Key: "id", Time: "at", Fields: []string{"v"}, OnlyIf: `type == "data" && x.y > 1.0`}, nil,
		Options{Format: "json"})
	if err != nil {
		t.Fatal(err)
	}
	var r schemas.Reading
	for value, want := range map[string]string{
		`{"type":"birth"}`:                                  "filtered",
		`{"type":"birth","v":"x","at":[1],"id":{}}`:         "filtered",
		`{"type":null,"v":1,"at":2,"id":"a"}`:               "filtered",
		`{"type":{"a":1},"v":1,"at":2,"id":"a"}`:            "expression",
		`{"v":1,"at":2,"id":"a"}`:                           "expression",
		`{"type":"data","v":1,"at":2,"id":"a"}`:             "expression",
		`{"type":"data","x":1,"v":1,"at":2,"id":"a"}`:       "expression",
		`{"type":"data","x":{"y":"2"},"v":1}`:               "expression",
		`{"type":"d\u0061ta","x":{"y":2},"v":1,"at":2}`:     "missing_key",
		`{"type":"data","x":{"y":2},"at":2,"id":"a"}`:       "missing_field",
		`{"type":"data","x":{"y":2},"v":1,"at":2,"id":"a"}`: "",
		`{"type":"birth","type":"data"}`:                    "malformed",
		`{"type":"birth"`:                                   "truncated",
	} {
		err := d.Decode(t.Context(), nil, []byte(value), 0, nil, &r)
		got := r.Skipped.String()
		var de *schemas.DecodeError
		if errors.As(err, &de) {
			got = de.Class
		}
		if got != want {
			t.Errorf("%s: %q (%v), want %q", value, got, err, want)
		}
	}
}

// TestOnlyIfReadings: a record with an array of readings is left out as a whole, and its readings have what they had.
func TestOnlyIfReadings(t *testing.T) {
	rng := seedtest.New(t)
	m := schemas.Mapping{Key: "data.points.sensor+machine", Time: "data.points.at", Fields: []string{"data.points.v", "ambient"},
		Readings: "data.points",
		OnlyIf:   `ambient > 0.0 && machine != "press-1"`}
	plain := m
	plain.OnlyIf = ""
	for format, encode := range plantEncoders(t) {
		d, err := plantDecoder(t, format, m)
		if err != nil {
			t.Fatal(err)
		}
		all, err := plantDecoder(t, format, plain)
		if err != nil {
			t.Fatal(err)
		}
		var got, want schemas.Reading
		for range 300 {
			rec := newPlantRecord(rng)
			b := encode(&rec)
			if err := errors.Join(d.Decode(t.Context(), nil, b, 0, nil, &got), all.Decode(t.Context(), nil, b, 0, nil, &want)); err != nil {
				t.Fatal(err)
			}
			n := want.Len()
			if rec.ambient <= 0 || rec.machine == "press-1" {
				n = 0
			}
			if got.Len() != n || (got.Skipped == schemas.SkippedFiltered) != (rec.ambient <= 0 || rec.machine == "press-1") {
				t.Fatalf("%s: %d readings of %+v, want %d", format, got.Len(), rec, n)
			}
			for i := range n {
				k, at, v := got.At(i)
				k2, at2, v2 := want.At(i)
				if !bytes.Equal(k, k2) || at != at2 || v[1] != v2[1] {
					t.Fatalf("%s: reading %d is %s %d %v, want %s %d %v", format, i, k, at, v, k2, at2, v2)
				}
			}
		}
	}
}

// TestOnlyIfItems: a condition with a field of the array leaves readings out.
func TestOnlyIfItems(t *testing.T) {
	rng := seedtest.New(t)
	m := schemas.Mapping{Key: "machine", Time: "data.points.at", Fields: []string{"ambient", "data.points.at"}, Readings: "data.points",
		OnlyIf: `data.points.sensor != "s1" && (ambient > 0.0 || has(data.points.v))`}
	for format, encode := range plantEncoders(t) {
		d, err := plantDecoder(t, format, m)
		if err != nil {
			t.Fatal(err)
		}
		var r schemas.Reading
		for range 300 {
			rec := newPlantRecord(rng)
			if err := d.Decode(t.Context(), nil, encode(&rec), 0, nil, &r); err != nil {
				t.Fatal(err)
			}
			var got, want []float64
			for i := range r.Len() {
				_, _, v := r.At(i)
				got = append(got, v[1])
			}
			for _, p := range rec.points {
				if p.sensor != "s1" && (rec.ambient > 0 || p.v == p.v) {
					want = append(want, float64(p.at))
				}
			}
			if !slices.Equal(got, want) || (r.Skipped == schemas.SkippedFiltered) != (len(want) == 0 && len(rec.points) > 0) {
				t.Fatalf("%s: %v of %+v, want %v (skipped: %q)", format, got, rec, want, r.Skipped)
			}
		}
	}
}

// TestExpressionsOfLines: measurement, tags and fields of the line protocol are what expressions use; a line that lacks the fields of
// a computed value has none.
func TestExpressionsOfLines(t *testing.T) {
	m := schemas.Mapping{Key: "tags.host", Fields: []string{"fields.idle", "busy", "fields.load"}, Readings: "@value",
		Computed: []string{"busy = 100.0 - fields.idle"},
		OnlyIf:   `name == "cpu" && tags.host != "b" && (!has(fields.state) || fields.state == "o\"k") && (!has(fields.n) || fields.n > 2)`}
	d, err := NewDecoder(m, nil, Options{Format: "influx"})
	if err != nil {
		t.Fatal(err)
	}
	lines := "cpu,host=a idle=20,state=\"o\\\"k\" 1\ncpu,host=b idle=30 2\nmem,host=a idle=40 3\ncpu,host=c state=\"o\\\"k\" 4\n" +
		"cpu,host=d idle=50,n=2i 5\ncpu,host=e idle=60,n=3i 6\ncpu,host=f idle=70,state=\"bad\" 7\ncpu,host=g load=3 8"
	var r schemas.Reading
	if err := d.Decode(t.Context(), nil, []byte(lines), 0, nil, &r); err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range r.Len() {
		key, _, v := r.At(i)
		got = append(got, fmt.Sprint(string(key), v))
	}
	if want := []string{"a[20 80 NaN]", "e[60 40 NaN]", "g[NaN NaN 3]"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if err := d.Decode(t.Context(), nil, []byte("mem,host=a idle=40 3"), 0, nil, &r); err != nil || r.Skipped != schemas.SkippedFiltered {
		t.Error(r.Skipped, err)
	}
}

// TestOnlyIfFaults: what a condition asks of a schema that it cannot give is named at the start.
func TestOnlyIfFaults(t *testing.T) {
	for _, c := range []struct{ text, formats, want string }{
		{`qualty == "GOOD"`, "avro protobuf", `field of an expression "qualty": `},
		{`qualty == "GOOD"`, "avro protobuf", "nearest: quality"},
		{`has(qualty) && qualty == "GOOD"`, "avro protobuf", ""},
		{`qualty == "GOOD"`, "json", ""},
		{`quality == 1`, "avro protobuf", `only if "quality == 1": column 9: found no matching overload for '==' applied to '(string or null, int)'`},
		{`code == "1"`, "avro protobuf", `column 6: found no matching overload for '==' applied to '(int, string)'`},
		{`raw - 32 > 0.0`, "avro protobuf", `column 5: found no matching overload for '-' applied to '(double or null, int)'; write 32.0`},
		{`site == null`, "avro protobuf", "not a text, number, Boolean or time"},
		{`at > 5`, "avro protobuf", `'(timestamp, int)'`},
		{`code`, "avro protobuf", "it is of type int, not true or false"},
		{`raw`, "json", ""},
		{`code +`, "avro json protobuf", "column 7: Syntax error"},
		{`tags["a-b"] == "x" && site.line == "a" && ok`, "avro json protobuf", ""},
	} {
		for _, format := range strings.Fields(c.formats) {
			_, err := machineDecoder(format, schemas.Mapping{Fields: []string{"raw"}, OnlyIf: c.text})
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%s, %s: %v, want %q", c.text, format, err, c.want)
			}
		}
	}
}

// BenchmarkOnlyIf is a record of Avro with and without a condition.
func BenchmarkOnlyIf(b *testing.B) {
	for _, text := range []string{"", `quality in ["GOOD", "UNCERTAIN"]`, `code < 10`} {
		b.Run(text, func(b *testing.B) {
			d, err := machineDecoder("avro", schemas.Mapping{Time: "at", Fields: []string{"raw"}, OnlyIf: text})
			if err != nil {
				b.Fatal(err)
			}
			rec := machineRecord{quality: "UNCERTAIN", raw: 3, at: 1_700_000_000_000}
			encoded := machineEncoders(b)["avro"](&rec)
			var r schemas.Reading
			b.ReportAllocs()
			for b.Loop() {
				if err := d.Decode(b.Context(), []byte("k"), encoded, 5000, nil, &r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestComputed: in every format a computed value is the one that Go computes of the record's fields, missing where a field that it
// needs is null, and screened by its name; what cannot be computed is an error with the expression.
func TestComputed(t *testing.T) {
	rng := seedtest.New(t)
	const fails = -12345
	nan := math.NaN()
	for _, c := range []struct {
		text    string
		formats string // "": all
		want    func(r *machineRecord) float64
	}{
		{`(raw - 32.0) * 5.0 / 9.0`, "", func(r *machineRecord) float64 { return (r.raw - 32) * 5 / 9 }},
		{`has(raw) ? raw : -1.0`, "", func(r *machineRecord) float64 {
			if r.raw != r.raw {
				return -1
			}
			return r.raw
		}},
		{`code`, "", func(r *machineRecord) float64 { return float64(r.code) }},
		{`double(code) * raw`, "", func(r *machineRecord) float64 { return float64(r.code) * r.raw }},
		{`100 / code`, "avro protobuf", func(r *machineRecord) float64 {
			if r.code == 0 {
				return fails
			}
			return float64(100 / r.code)
		}},
		{`1.0 / double(code)`, "", func(r *machineRecord) float64 {
			if r.code == 0 {
				return fails
			}
			return 1 / float64(r.code)
		}},
		{`quality == "BAD"`, "", func(r *machineRecord) float64 {
			if r.quality == "BAD" {
				return 1
			}
			return 0
		}},
		{`size(tags["a-b"])`, "avro json", func(r *machineRecord) float64 {
			if r.tag == "" {
				return fails
			}
			return 1
		}},
		{`math.greatest(raw, 100.0)`, "", func(r *machineRecord) float64 { return max(r.raw, 100) }},
	} {
		m := schemas.Mapping{Fields: []string{"x", "code"}, Computed: []string{"x=" + c.text}, Valid: []string{"x=-1000..150"}}
		for format, encode := range machineEncoders(t) {
			if c.formats != "" && !strings.Contains(c.formats, format) {
				continue
			}
			d, err := machineDecoder(format, m)
			if err != nil {
				t.Fatalf("%s, %s: %v", c.text, format, err)
			}
			var got schemas.Reading
			for range 300 {
				rec := newMachineRecord(rng)
				err := d.Decode(t.Context(), []byte("k"), encode(&rec), 5000, nil, &got)
				want := c.want(&rec)
				if want == fails {
					wantClass(t, err, schemas.ClassExpression, "x")
					if err == nil || !strings.Contains(err.Error(), "compute x="+c.text+": ") {
						t.Fatal(err)
					}
					continue
				}
				rejected := 0
				if want > 150 {
					want, rejected = nan, 1
				}
				if err != nil || len(got.Values) != 2 || got.Values[0] != want && (got.Values[0] == got.Values[0] || want == want) ||
					got.Values[1] != float64(rec.code) || len(got.Rejected) != rejected {
					t.Fatalf("%s, %s of %+v: %v, rejected %v, %v; want %v", c.text, format, rec, got.Values, got.Rejected, err, want)
				}
			}
		}
	}
}

// TestComputedReadings: each reading of an array has the value computed of its own fields and of the record's.
func TestComputedReadings(t *testing.T) {
	rng := seedtest.New(t)
	m := schemas.Mapping{Key: "machine", Time: "data.points.at", Fields: []string{"data.points.v", "above", "warm"}, Readings: "data.points",
		Computed: []string{"above = has(data.points.v) ? data.points.v - ambient : 0.0", "warm=ambient > 0.0"}, OnlyIf: `machine != "press-1"`}
	for format, encode := range plantEncoders(t) {
		d, err := plantDecoder(t, format, m)
		if err != nil {
			t.Fatal(err)
		}
		var r schemas.Reading
		for range 300 {
			rec := newPlantRecord(rng)
			if err := d.Decode(t.Context(), nil, encode(&rec), 0, nil, &r); err != nil {
				t.Fatal(err)
			}
			if rec.machine == "press-1" {
				rec.points = nil
			}
			if r.Len() != len(rec.points) {
				t.Fatalf("%s: %d readings, want %d", format, r.Len(), len(rec.points))
			}
			for i, p := range rec.points {
				above, warm := p.v-rec.ambient, 0.0
				if p.v != p.v {
					above = 0
				}
				if rec.ambient > 0 {
					warm = 1
				}
				if _, _, v := r.At(i); v[1] != above || v[2] != warm {
					t.Fatalf("%s: reading %d of %+v is %v", format, i, rec, v)
				}
			}
		}
	}
	m.Computed[0] = "above=data.points.sensor - ambient"
	if _, err := plantDecoder(t, "avro", m); err == nil || !strings.Contains(err.Error(),
		`compute "above=data.points.sensor - ambient": column 20: found no matching overload for '-' applied to '(string, double)'`) {
		t.Error(err)
	}
}

// TestComputedFaults: what is no computed value is a fault of the mapping, and so are types that the schema has otherwise.
func TestComputedFaults(t *testing.T) {
	for _, c := range []struct{ computed, want string }{
		{"x", `compute "x" is not NAME=EXPRESSION`},
		{"=raw", "is not NAME=EXPRESSION"},
		{"x[2]=raw", "is not NAME=EXPRESSION"},
		{"y=raw", `"y" is none of the mapped fields x, code: name it there, too`},
		{"x=raw;x=raw", `"x" is named twice`},
		{"x=", "column 1: Syntax error"},
		{"x=raw - 32", `compute "x=raw - 32": column 5: found no matching overload for '-' applied to '(double or null, int)'; write 32.0`},
		{"x=quality", "it is of type string or null, not a number"},
		{"x=rw * 2.0", `field of an expression "rw": record Machine has no field "rw"`},
		{"x=raw * 2.0", ""},
		{"code=double(code) / 2.0", `field "x": record Machine has no field "x"`},
	} {
		_, err := machineDecoder("avro", schemas.Mapping{Fields: []string{"x", "code"}, Computed: strings.Split(c.computed, ";")})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.computed, err, c.want)
		}
	}
	m := schemas.Mapping{Fields: []string{"a", "b[2]", "x"}, Computed: []string{"x=a*2.0"}}
	if columns, err := m.Columns([]string{"x", "a"}); err != nil || !slices.Equal(columns, []int{3, 0}) || m.Width() != 4 ||
		!slices.Equal(m.ColumnNames([]int{3, 2}), []string{"x", "b[1]"}) {
		t.Error(columns, m.Width(), m.ColumnNames([]int{3, 2}), err)
	}
}
