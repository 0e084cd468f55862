package avro

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/linkedin/goavro/v2"

	"odradek/schemas"
	"odradek/schemas/schematest"
)

// decode encodes a native record with goavro and decodes it as id 7.
func decode(t *testing.T, schema string, m schemas.Mapping, native any) (schemas.Reading, error) {
	t.Helper()
	codec, err := goavro.NewCodec(schema)
	if err != nil {
		t.Fatal(err)
	}
	b, err := codec.BinaryFromNative([]byte{0, 0, 0, 0, 7}, native)
	if err != nil {
		t.Fatal(err)
	}
	return decodeBytes(t, schema, m, b)
}

func decodeBytes(t *testing.T, schema string, m schemas.Mapping, value []byte) (schemas.Reading, error) {
	t.Helper()
	var r schemas.Reading
	err := testDecoder(t, schema, m).Decode(context.Background(), []byte("kafka-key"), value, 1767225600000, nil, &r)
	return r, err
}

func record(fields string) string {
	return `{"type":"record","name":"R","namespace":"acme","fields":[` + fields + `]}`
}

// wantClass checks an error's class and field and returns its text.
func wantClass(t *testing.T, err error, class, field string) {
	t.Helper()
	var e *schemas.DecodeError
	if !errors.As(err, &e) || e.Class != class || e.Field != field {
		t.Errorf("error %v, want class %s, field %q", err, class, field)
	}
}

// The examples of the Avro specification ("Binary Encoding").
func TestSpecificationExamples(t *testing.T) {
	b, _ := hex.DecodeString("0000000007" + "3606666f6f")
	schema := record(`{"name":"a","type":"long"},{"name":"b","type":"string"}`)
	r, err := decodeBytes(t, schema, schemas.Mapping{Key: "b", Fields: []string{"a"}}, b)
	if err != nil || string(r.Key) != "foo" || r.Values[0] != 27 {
		t.Errorf("%q %v %v", r.Key, r.Values, err)
	}
	b, _ = hex.DecodeString("0000000007" + "04063600")
	r, err = decodeBytes(t, record(`{"name":"a","type":{"type":"array","items":"long"}}`), schemas.Mapping{Fields: []string{"a[2]"}}, b)
	if err != nil || r.Values[0] != 3 || r.Values[1] != 27 {
		t.Errorf("%v %v", r.Values, err)
	}
	for _, c := range []struct {
		v   int64
		hex string
	}{{0, "00"}, {-1, "01"}, {1, "02"}, {-2, "03"}, {2, "04"}, {-64, "7f"}, {64, "8001"}} {
		b, _ := hex.DecodeString(c.hex)
		if v, n, st := varint(b, 0); st != statusOK || n != len(b) || unzigzag(v) != c.v || !bytes.Equal(AppendLong(nil, c.v), b) {
			t.Errorf("%d: %d %d %d", c.v, unzigzag(v), n, st)
		}
	}
}

func TestVarint(t *testing.T) {
	for shift := range 64 {
		for _, v := range []int64{1 << shift, 1<<shift - 1, -1 << shift, math.MaxInt64, math.MinInt64} {
			b := AppendLong(nil, v)
			var put [binary.MaxVarintLen64]byte
			if n := PutLong(put[:], v); !bytes.Equal(put[:n], b) || !bytes.Equal(binary.AppendVarint(nil, v), b) {
				t.Fatalf("%d: % x, % x", v, put[:n], b)
			}
			for pad := range 10 {
				got, n, st := varint(append(b[:len(b):len(b)], make([]byte, pad)...), 0)
				if st != statusOK || n != len(b) || unzigzag(got) != v {
					t.Fatalf("%d + %d bytes: %d, %d, %d", v, pad, unzigzag(got), n, st)
				}
			}
			for front := range 12 { // read at the end of a longer buffer
				long := append(bytes.Repeat([]byte{0xff}, front), b...)
				if got, n, st := varint(long, front); st != statusOK || n != len(long) || unzigzag(got) != v {
					t.Fatalf("%d behind %d bytes: %d, %d, %d", v, front, unzigzag(got), n, st)
				}
				for cut := range len(b) {
					if _, _, st := varint(long[:front+cut], front); st != statusTruncated {
						t.Fatalf("%d behind %d bytes cut to %d: %d", v, front, cut, st)
					}
				}
			}
		}
	}
	if _, _, st := varint(bytes.Repeat([]byte{0x80}, 20), 0); st != statusOverflow {
		t.Error("20 bytes:", st)
	}
	if _, _, st := varint(append(bytes.Repeat([]byte{0xff}, 9), 2), 0); st != statusOverflow {
		t.Error("65 bits:", st)
	}
}

func TestValueTypes(t *testing.T) {
	nan := math.NaN()
	cases := []struct {
		typ    string
		native any
		want   float64
		class  string
	}{
		{`"int"`, 7, 7, ""},
		{`"long"`, int64(-1) << 40, -1 << 40, ""},
		{`"float"`, float32(1.5), 1.5, ""},
		{`"double"`, 0.1, 0.1, ""},
		{`"boolean"`, true, 1, ""},
		{`"boolean"`, false, 0, ""},
		{`"null"`, nil, nan, ""},
		{`"double"`, nan, nan, ""},
		{`"double"`, math.Inf(1), 0, schemas.ClassInfinite},
		{`"float"`, float32(math.Inf(-1)), 0, schemas.ClassInfinite},
		{`["null","double"]`, nil, nan, ""},
		{`["double","null"]`, nil, nan, ""},
		{`["double","null"]`, goavro.Union("double", 2.5), 2.5, ""},
		{`["null","long"]`, goavro.Union("long", 9), 9, ""},
		{`["null","float"]`, goavro.Union("float", 9), 9, ""},
		{`["null","float"]`, goavro.Union("float", float32(math.Inf(1))), 0, schemas.ClassInfinite},
		{`["null","int"]`, goavro.Union("int", 9), 9, ""},
		{`["string","double","null","int"]`, goavro.Union("int", 4), 4, ""},
		{`["string","double","null","int"]`, nil, nan, ""},
		{`["string","double","null","int"]`, goavro.Union("string", "4"), 0, schemas.ClassBadType},
		{`{"type":"bytes","logicalType":"decimal","precision":10,"scale":3}`, big.NewRat(-12345, 1000), -12.345, ""},
		{`{"type":"bytes","logicalType":"decimal","precision":40,"scale":0}`,
			new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), 100)), 0x1p100, ""},
		{`{"type":"fixed","name":"D","size":9,"logicalType":"decimal","precision":20,"scale":2}`, big.NewRat(12345, 100), 123.45, ""},
		{`["null",{"type":"bytes","logicalType":"decimal","precision":10,"scale":1}]`, goavro.Union("bytes.decimal", big.NewRat(5, 10)), 0.5, ""},
		// Not numbers, which shows without any record.
		{`"string"`, "4", 0, schemas.ClassBadType},
		{`"bytes"`, []byte{4}, 0, schemas.ClassBadType},
		{`["null","string"]`, nil, 0, schemas.ClassBadType},
		{`{"type":"enum","name":"E","symbols":["A"]}`, "A", 0, schemas.ClassBadType},
		{`{"type":"array","items":"double"}`, []any{1.0}, 0, schemas.ClassBadType},
		{`{"type":"record","name":"S","fields":[]}`, map[string]any{}, 0, schemas.ClassBadType},
	}
	for _, c := range cases {
		for _, more := range []bool{false, true} { // last field, or not
			fields, native := `{"name":"v","type":`+c.typ+`}`, map[string]any{"v": c.native}
			if more {
				fields, native["w"] = fields+`,{"name":"w","type":"string"}`, "more"
			}
			r, err := decode(t, record(fields), schemas.Mapping{Fields: []string{"v"}}, native)
			if c.class != "" {
				wantClass(t, err, c.class, "v")
				continue
			}
			if err != nil || !equal(r.Values, []float64{c.want}) || string(r.Key) != "kafka-key" || r.Time != 1767225600000000 || r.Schema != 7 {
				t.Errorf("%s of %v: %+v, %v", c.typ, c.native, r.Values, err)
			}
		}
	}
}

// Two fields that goavro cannot take in one schema.
func TestDecimalWithoutScale(t *testing.T) {
	schema := record(`{"name":"a","type":{"type":"bytes","logicalType":"decimal","precision":4}},{"name":"b","type":{"type":"bytes","logicalType":"decimal","precision":4}}`)
	r, err := decodeBytes(t, schema, schemas.Mapping{Fields: []string{"b", "a"}}, []byte{0, 0, 0, 0, 7, 2, 0xff, 4, 1, 0})
	if err != nil || !equal(r.Values, []float64{256, -1}) {
		t.Error(r.Values, err)
	}
	_, err = decodeBytes(t, schema, schemas.Mapping{Fields: []string{"a"}}, append([]byte{0, 0, 0, 0, 7, 0x80, 8}, make([]byte, 513)...))
	wantClass(t, err, schemas.ClassTooLarge, "a")
}

func TestTimes(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)
	us := at.UnixMicro()
	cases := []struct {
		typ, unit string
		native    any
		want      int64
		class     string
	}{
		{`{"type":"long","logicalType":"timestamp-millis"}`, "s", at, us / 1000 * 1000, ""},
		{`{"type":"long","logicalType":"timestamp-micros"}`, "", at, us, ""},
		{`{"type":"long","logicalType":"timestamp-nanos"}`, "", at.UnixNano() + 999, us, ""},
		{`{"type":"long","logicalType":"timestamp-nanos"}`, "", int64(-1), -1, ""},
		{`{"type":"long","logicalType":"local-timestamp-millis"}`, "", at.UnixMilli(), us / 1000 * 1000, ""},
		{`{"type":"long","logicalType":"local-timestamp-micros"}`, "", us, us, ""},
		{`{"type":"int","logicalType":"date"}`, "", at, time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC).UnixMicro(), ""},
		{`"long"`, "", at.UnixMilli(), us / 1000 * 1000, ""},
		{`"long"`, "auto", at.UnixMilli(), us / 1000 * 1000, ""},
		{`"long"`, "s", at.Unix(), us / 1e6 * 1e6, ""},
		{`"long"`, "us", us, us, ""},
		{`"long"`, "ns", at.UnixNano(), us, ""},
		{`"int"`, "s", int32(at.Unix()), us / 1e6 * 1e6, ""},
		{`"double"`, "s", float64(us) / 1e6, us, ""},
		{`"string"`, "", "2026-01-02T04:04:05.678901+01:00", us, ""},
		{`["null","string"]`, "", goavro.Union("string", "2026-01-02T03:04:05.678901Z"), us, ""},
		{`["null","long"]`, "us", goavro.Union("long", us), us, ""},
		{`["null","long"]`, "", nil, 0, schemas.ClassBadTime},
		{`["boolean","long"]`, "", goavro.Union("boolean", true), 0, schemas.ClassBadType},
		{`"string"`, "", "yesterday", 0, schemas.ClassBadTime},
		{`"string"`, "", "9999-01-01T00:00:00Z", 0, schemas.ClassBadTime},
		{`"string"`, "", "9998-12-31T23:59:59.999999Z", schemas.MaxTime, ""},
		{`"string"`, "", "0001-01-01T00:00:00Z", schemas.MinTime, ""},
		{`"string"`, "", "0000-12-31T23:59:59Z", 0, schemas.ClassBadTime},
		{`"long"`, "s", int64(253370764799), 253370764799_000_000, ""},
		{`"long"`, "s", int64(253370764800), 0, schemas.ClassBadTime}, // the first second of 9999
		{`"long"`, "ms", int64(math.MaxInt64), 0, schemas.ClassBadTime},
		{`"long"`, "us", int64(schemas.MinTime), schemas.MinTime, ""},
		{`"long"`, "us", int64(schemas.MinTime - 1), 0, schemas.ClassBadTime},
		{`"long"`, "ns", int64(math.MaxInt64), math.MaxInt64 / 1000, ""},
		{`"double"`, "s", math.NaN(), 0, schemas.ClassBadTime},
		{`"double"`, "s", 1e300, 0, schemas.ClassBadTime},
		{`{"type":"long","logicalType":"time-micros"}`, "", time.Second, 0, schemas.ClassBadType},
		{`"boolean"`, "", true, 0, schemas.ClassBadType},
	}
	for _, c := range cases {
		r, err := decode(t, record(`{"name":"v","type":"int"},{"name":"ts","type":`+c.typ+`}`),
			schemas.Mapping{Time: "ts", TimeUnit: c.unit, Fields: []string{"v"}}, map[string]any{"v": 1, "ts": c.native})
		if c.class != "" {
			wantClass(t, err, c.class, "ts")
		} else if err != nil || r.Time != c.want {
			t.Errorf("%s in %q of %v: %d, want %d, %v", c.typ, c.unit, c.native, r.Time, c.want, err)
		}
	}
	// A logical type beside the field's name is taken as it is meant.
	r, err := decode(t, record(`{"name":"ts","type":"long","logicalType":"timestamp-micros"}`), schemas.Mapping{Time: "ts", Fields: []string{"ts"}},
		map[string]any{"ts": at})
	if err != nil || r.Time != us || r.Values[0] != float64(us) {
		t.Error(r, err)
	}
	var out schemas.Reading
	for ms, class := range map[int64]string{-1: schemas.ClassBadTime, math.MaxInt64: schemas.ClassBadTime} {
		d := testDecoder(t, record(`{"name":"v","type":"int"}`), schemas.Mapping{Fields: []string{"v"}})
		err := d.Decode(context.Background(), []byte("k"), []byte{0, 0, 0, 0, 7, 2}, ms, nil, &out)
		wantClass(t, err, class, "@timestamp")
	}
}

func TestKeys(t *testing.T) {
	uuid := "6f9619ff-8b86-d011-b42d-00cf4fc964ff"
	raw, _ := hex.DecodeString(strings.ReplaceAll(uuid, "-", ""))
	cases := []struct {
		typ    string
		native any
		want   string
		class  string
	}{
		{`"string"`, "press", "press", ""},
		{`"bytes"`, []byte{0, 255}, "\x00\xff", ""},
		{`"int"`, -5, "-5", ""},
		{`"long"`, int64(1) << 50, "1125899906842624", ""},
		{`{"type":"enum","name":"E","symbols":["LEFT","RIGHT"]}`, "RIGHT", "RIGHT", ""},
		{`{"type":"fixed","name":"F","size":3}`, []byte("abc"), "abc", ""},
		{`{"type":"fixed","name":"F","size":16,"logicalType":"uuid"}`, raw, uuid, ""},
		{`{"type":"string","logicalType":"uuid"}`, uuid, uuid, ""},
		{`["null","string"]`, goavro.Union("string", "a/b"), "a/b", ""},
		{`["int","string"]`, goavro.Union("int", 3), "3", ""},
		{`["double","string"]`, goavro.Union("double", 3), "", schemas.ClassBadType},
		{`["null","string"]`, nil, "", schemas.ClassMissingKey},
		{`"string"`, "", "", schemas.ClassMissingKey},
		{`"string"`, strings.Repeat("k", schemas.MaxKeyBytes+1), "", schemas.ClassTooLarge},
		{`"double"`, 1.0, "", schemas.ClassBadType},
		{`{"type":"bytes","logicalType":"decimal","precision":4,"scale":0}`, big.NewRat(1, 1), "", schemas.ClassBadType},
	}
	for _, c := range cases {
		schema, native := record(`{"name":"k","type":`+c.typ+`},{"name":"s","type":"string"},{"name":"v","type":"int"}`),
			map[string]any{"k": c.native, "s": `x/\`, "v": 1}
		r, err := decode(t, schema, schemas.Mapping{Key: "k", Fields: []string{"v"}}, native)
		if c.class != "" {
			wantClass(t, err, c.class, "k")
			continue
		}
		if err != nil || string(r.Key) != c.want {
			t.Errorf("%s: %q, %v", c.typ, r.Key, err)
		}
		r, err = decode(t, schema, schemas.Mapping{Key: "s+k+@key", Fields: []string{"v"}}, native)
		if want := `x\/\\/` + strings.ReplaceAll(c.want, "/", `\/`) + "/kafka-key"; err != nil || string(r.Key) != want {
			t.Errorf("%s: %q, want %q, %v", c.typ, r.Key, want, err)
		}
	}
	var r schemas.Reading
	for _, m := range []schemas.Mapping{{Fields: []string{"v"}}, {Key: "@key", Fields: []string{"v"}}} {
		err := testDecoder(t, record(`{"name":"v","type":"int"}`), m).Decode(context.Background(), nil, []byte{0, 0, 0, 0, 7, 2}, 5, nil, &r)
		wantClass(t, err, schemas.ClassMissingKey, "@key")
	}
}

// A reading keeps nothing of the record before it, regardless of its schema.
func TestNothingStays(t *testing.T) {
	ctx := context.Background()
	m := schemas.Mapping{Key: "tags.k", Time: "tags2.t", Fields: []string{"vals.x", "vals.y"}}
	schema := record(`{"name":"tags","type":{"type":"map","values":"string"}},{"name":"tags2","type":{"type":"map","values":"long"}},{"name":"vals","type":{"type":"map","values":"double"}}`)
	d := testDecoder(t, schema, m)
	codec, _ := goavro.NewCodec(schema)
	enc := func(tags, tags2, vals map[string]any) []byte {
		b, err := codec.BinaryFromNative([]byte{0, 0, 0, 0, 7}, map[string]any{"tags": tags, "tags2": tags2, "vals": vals})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	var r schemas.Reading
	full := enc(map[string]any{"k": "a", "other": "b"}, map[string]any{"t": 5, "u": 6}, map[string]any{"x": 1.0, "y": 2.0, "z": 3.0})
	if err := d.Decode(ctx, nil, full, 0, nil, &r); err != nil || string(r.Key) != "a" || r.Time != 5000 || !equal(r.Values, []float64{1, 2}) {
		t.Fatal(r, err)
	}
	if err := d.Decode(ctx, nil, enc(map[string]any{"k": "a"}, map[string]any{"t": 5}, nil), 0, nil, &r); err != nil ||
		!equal(r.Values, []float64{math.NaN(), math.NaN()}) {
		t.Error(r.Values, err)
	}
	wantClass(t, d.Decode(ctx, nil, enc(nil, map[string]any{"t": 5}, nil), 0, nil, &r), schemas.ClassMissingKey, "tags.k")
	wantClass(t, d.Decode(ctx, nil, enc(map[string]any{"k": "a"}, nil, nil), 0, nil, &r), schemas.ClassBadTime, "tags2.t")
	if err := d.Decode(ctx, nil, full, 0, nil, &r); err != nil {
		t.Error(err)
	}
	twice := []byte{0, 0, 0, 0, 7, 4, 2, 'k', 2, 'a', 2, 'k', 2, 'b', 0, 0, 0}
	wantClass(t, d.Decode(ctx, nil, twice, 0, nil, &r), schemas.ClassMalformed, "tags")
}

func TestShapes(t *testing.T) {
	nan := math.NaN()
	inner := `{"type":"record","name":"In","fields":[{"name":"x","type":["null","double"]},{"name":"name","type":"string"}]}`
	schema := record(`{"name":"p","type":["null",` + inner + `]},
		{"name":"accel","type":["null",{"type":"array","items":["null","float","string"]}]},
		{"name":"q","type":"In"},
		{"name":"next","type":["null","R"]},
		{"name":"chan","type":{"type":"array","items":"In"}},
		{"name":"tail","type":{"type":"map","values":{"type":"array","items":"boolean"}},"aliases":["rest"]}`)
	in := func(x any, name string) map[string]any {
		if f, ok := x.(float64); ok {
			x = goavro.Union("double", f)
		}
		return map[string]any{"x": x, "name": name}
	}
	rec := func(next any) map[string]any {
		return map[string]any{
			"p":     goavro.Union("acme.In", in(1.5, "pp")),
			"accel": goavro.Union("array", []any{goavro.Union("float", 1.0), nil, goavro.Union("float", 3.0)}),
			"q":     in(nil, "qq"), "next": next,
			"chan": []any{in(7.0, "c1"), in(8.0, "c2")},
			"tail": map[string]any{"a": []any{true, false}},
		}
	}
	full := rec(goavro.Union("acme.R", rec(nil)))
	m := schemas.Mapping{Key: "p.name+q.name", Fields: []string{"p.x", "accel[3]", "q.x", "next.p.x", "next.next.p.x"}}
	r, err := decode(t, schema, m, full)
	if err != nil || string(r.Key) != "pp/qq" || !equal(r.Values, []float64{1.5, 1, nan, 3, nan, 1.5, nan}) {
		t.Error(string(r.Key), r.Values, err)
	}
	r, err = decode(t, schema, schemas.Mapping{Fields: []string{"chan[2].x", "tail.a[2]", "rest.b[1]"}}, full)
	if err != nil || !equal(r.Values, []float64{7, 8, 1, 0, nan}) {
		t.Error(r.Values, err)
	}
	_, err = decode(t, schema, schemas.Mapping{Fields: []string{"accel[2]"}}, full)
	wantClass(t, err, schemas.ClassMalformed, "accel[2]")
	_, err = decode(t, schema, schemas.Mapping{Fields: []string{"accel[4]"}}, full)
	wantClass(t, err, schemas.ClassMalformed, "accel[4]")
	_, err = decode(t, schema, schemas.Mapping{Fields: []string{"chan[3].x"}}, full)
	wantClass(t, err, schemas.ClassMalformed, "chan[3].x")
	full["accel"] = nil
	r, err = decode(t, schema, m, full)
	if err != nil || !equal(r.Values[1:4], []float64{nan, nan, nan}) {
		t.Error(r.Values, err)
	}
	full["accel"] = goavro.Union("array", []any{goavro.Union("string", "1"), nil, nil})
	_, err = decode(t, schema, m, full)
	wantClass(t, err, schemas.ClassBadType, "accel[3]")
	full["p"] = nil
	_, err = decode(t, schema, m, full)
	wantClass(t, err, schemas.ClassMissingKey, "p.name")

	// A topic of several record types, and one of bare numbers.
	union := `[` + record(`{"name":"v","type":"double"}`) + `,{"type":"record","name":"Other","fields":[{"name":"w","type":"double"}]}]`
	r, err = decode(t, union, schemas.Mapping{Fields: []string{"v"}}, goavro.Union("acme.R", map[string]any{"v": 2.0}))
	if err != nil || r.Values[0] != 2 {
		t.Error(r.Values, err)
	}
	_, err = decode(t, union, schemas.Mapping{Fields: []string{"v"}}, goavro.Union("Other", map[string]any{"w": 2.0}))
	wantClass(t, err, schemas.ClassMissingField, "v")
	r, err = decode(t, `"double"`, schemas.Mapping{Fields: []string{"@value"}}, 4.5)
	if err != nil || r.Values[0] != 4.5 {
		t.Error(r.Values, err)
	}
}

func TestMissingField(t *testing.T) {
	schema := record(`{"name":"v","type":"double"},{"name":"k","type":"string"},{"name":"t","type":"long"}`)
	native := map[string]any{"v": 1.0, "k": "a", "t": 5}
	for field, m := range map[string]schemas.Mapping{
		"w":   {Fields: []string{"v", "w"}},
		"key": {Key: "k+key", Fields: []string{"v"}},
		"ts":  {Time: "ts", Fields: []string{"v"}},
		"v.x": {Fields: []string{"v.x"}},
	} {
		_, err := decode(t, schema, m, native)
		wantClass(t, err, schemas.ClassMissingField, field)
	}
}

func TestDecodeDoesNotAllocate(t *testing.T) {
	records := schematest.SensorRecords(t)
	for _, m := range []schemas.Mapping{
		schematest.SensorMapping,
		{Fields: []string{"value", "seq"}},
		{Key: "site.plant+sensor+@key", Time: "ts", Fields: []string{"value"}},
	} {
		d := testDecoder(t, schematest.SensorSchema, m)
		var r schemas.Reading
		i, key := 0, []byte("key")
		n := testing.AllocsPerRun(1000, func() {
			if err := d.Decode(context.Background(), key, records[i&255], 5, nil, &r); err != nil {
				t.Fatal(err)
			}
			i++
		})
		if n != 0 {
			t.Errorf("%+v: %v allocations", m, n)
		}
	}
}
