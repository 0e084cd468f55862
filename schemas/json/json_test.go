package json

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"

	std "encoding/json"

	"odradek/schemas"
)

func compile(tb testing.TB, m schemas.Mapping) schemas.Program {
	tb.Helper()
	l, err := m.Layout()
	if err != nil {
		tb.Fatal(err)
	}
	return Format.Compile(l, &schemas.Schema{ID: 7, Type: Format.Type})
}

func decode(tb testing.TB, m schemas.Mapping, text string) (schemas.Reading, error) {
	tb.Helper()
	var r schemas.Reading
	err := compile(tb, m).Decode([]byte("kafka-key"), []byte(text), 1767225600000, &r)
	return r, err
}

func equal(a, b []float64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] && !(a[i] != a[i] && b[i] != b[i]) {
			return false
		}
	}
	return true
}

func wantClass(t *testing.T, what string, err error, class, field string) {
	t.Helper()
	var e *schemas.DecodeError
	if !errors.As(err, &e) || e.Class != class || e.Field != field || e.SchemaID != 7 {
		t.Errorf("%s: error %v, want class %s, field %q", what, err, class, field)
	}
}

func TestValues(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		fields, text string
		want         []float64
		class, field string
	}{
		{"v", `{"v":1.5}`, []float64{1.5}, "", ""},
		{"v", " {\n\t\"x\" : [ {\"v\":9} , \"]}\" ] , \"v\" : -2e3 }\r\n", []float64{-2000}, "", ""},
		{"v w", `{"w":true,"v":false}`, []float64{0, 1}, "", ""},
		{"v w", `{"w":2}`, []float64{nan, 2}, "", ""},
		{"v", `{"v":null}`, []float64{nan}, "", ""},
		{"v", `{}`, nil, schemas.ClassMissingField, "v"},
		{"v w", `{"V":1}`, nil, schemas.ClassMissingField, "v"},
		{"v", `[]`, nil, schemas.ClassBadType, "v"},
		{"v", `"v"`, nil, schemas.ClassBadType, "v"},
		{"v", `{"v":"1.5"}`, nil, schemas.ClassBadType, "v"},
		{"v", `{"v":{}}`, nil, schemas.ClassBadType, "v"},
		{"v", `{"v":[1]}`, nil, schemas.ClassBadType, "v"},
		{"v", `{"v":1e400}`, nil, schemas.ClassInfinite, "v"},
		{"v", `{"v":1e-400}`, []float64{0}, "", ""},
		{"v", `{"v":0.1000000000000000055511151231257827021181583404541015625}`, []float64{0.1}, "", ""},
		{"v", `{"v":1,"v":1}`, nil, schemas.ClassMalformed, "v"},
		{"v", `{"v":1,"\u0076":1}`, nil, schemas.ClassMalformed, "v"},
		{"v", `{"x":1,"x":1,"v":3}`, []float64{3}, "", ""},
		{"a.v b", `{"a":{"v":1},"b":2,"a":{"v":1}}`, nil, schemas.ClassMalformed, "a.v"},
		{"a.b.c", `{"a":{"b":{"c":4,"d":[[[]]]}}}`, []float64{4}, "", ""},
		{"a.b.c", `{"a":{"b":3}}`, nil, schemas.ClassBadType, "a.b.c"},
		{"a.b.c", `{"a":null}`, []float64{nan}, "", ""},
		{`a\.b`, `{"a.b":5}`, []float64{5}, "", ""},
		{"ü", `{"\u00fc":5}`, []float64{5}, "", ""},
		{"q", `{"\\\"":"\\\\\"","q":6}`, []float64{6}, "", ""},
		{"@value", `4.5`, []float64{4.5}, "", ""},
		{"@value", `null`, []float64{nan}, "", ""},
		{"x[3]", `{"x":[1,null,3]}`, []float64{1, nan, 3}, "", ""},
		{"x[3]", `{"x":[1,2]}`, nil, schemas.ClassMalformed, "x[3]"},
		{"x[3]", `{"x":[1,2,3,4]}`, nil, schemas.ClassMalformed, "x[3]"},
		{"x[3]", `{"x":[1,"2",3]}`, nil, schemas.ClassBadType, "x[3]"},
		{"x[3]", `{"x":null}`, []float64{nan, nan, nan}, "", ""},
		{"x[3] v", `{"v":1}`, []float64{nan, nan, nan, 1}, "", ""},
		{"x[3]", `{"x":7}`, nil, schemas.ClassBadType, "x[3]"},
		{"c[2].l c[2].m.n", `{"c":[{"l":1,"m":{"n":3}},{"m":{"n":4},"l":2}]}`, []float64{1, 2, 3, 4}, "", ""},
		{"c[2].l", `{"c":[{"l":1},null]}`, []float64{1, nan}, "", ""},
		{"c[2].l", `{"c":[{"l":1},{}]}`, []float64{1, nan}, "", ""},
		{"c[2].l", `{"c":[{"l":1,"l":2},{}]}`, nil, schemas.ClassMalformed, "c[2].l"},
		{"c[2].l", `{"c":[{"l":1},{"l":2}],"c":null}`, nil, schemas.ClassMalformed, "c[2].l"},
		// No JSON at all.
		{"v", `{"v":NaN}`, nil, schemas.ClassMalformed, ""},
		{"v", `{"v":-Infinity}`, nil, schemas.ClassMalformed, ""},
		{"v", `{"v":01}`, nil, schemas.ClassMalformed, ""},
		{"v", `{'v':1}`, nil, schemas.ClassMalformed, ""},
		{"v", "\ufeff{\"v\":1}", nil, schemas.ClassMalformed, ""},
		{"v", `{"v":1}{"v":2}`, nil, schemas.ClassTrailingBytes, ""},
		{"v", `{"v":1}x`, nil, schemas.ClassTrailingBytes, ""},
		{"v", ``, nil, schemas.ClassTruncated, ""},
		{"v", `  `, nil, schemas.ClassTruncated, ""},
		{"v", `{"v":1`, nil, schemas.ClassTruncated, ""},
		{"v", `{"v":"\u12`, nil, schemas.ClassTruncated, ""},
		{"v", strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000), nil, schemas.ClassTooLarge, ""},
		{"v", `{"x":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `,"v":1}`, nil, schemas.ClassTooLarge, ""},
		{"v", `{"x":` + strings.Repeat("[", 63) + strings.Repeat("]", 63) + `,"v":1}`, []float64{1}, "", ""},
		{"v", strings.Repeat(`{"v":`, 65) + "1" + strings.Repeat("}", 65), nil, schemas.ClassTooLarge, ""},
	} {
		r, err := decode(t, schemas.Mapping{Fields: strings.Fields(c.fields)}, c.text)
		what := c.fields + " of " + c.text[:min(len(c.text), 80)]
		if c.class != "" {
			wantClass(t, what, err, c.class, c.field)
		} else if err != nil || !equal(r.Values, c.want) || string(r.Key) != "kafka-key" || r.Time != 1767225600000000 || r.Schema != 7 {
			t.Errorf("%s: %v %q %d %v, want %v", what, r.Values, r.Key, r.Time, err, c.want)
		}
	}
}

func TestKeysAndTimes(t *testing.T) {
	m := schemas.Mapping{Key: "k", Time: "t", TimeUnit: "s", Fields: []string{"v"}}
	for _, c := range []struct {
		key, time    string
		wantKey      string
		wantTime     int64
		class, field string
	}{
		{`"press/7"`, `5`, "press/7", 5e6, "", ""},
		{`"a\u00fc\n\"\\\/\ud83d\ude00"`, `5.25`, "aü\n\"\\/\U0001f600", 5.25e6, "", ""},
		{`42`, `"1970-01-01T00:00:05Z"`, "42", 5e6, "", ""},
		{`-0`, `5e0`, "0", 5e6, "", ""},
		{`123456789012345678901234567890`, `"1970-01-01T00:00:05\u005a"`, "123456789012345678901234567890", 5e6, "", ""},
		{`1.0`, `5`, "", 0, schemas.ClassBadType, "k"},
		{`true`, `5`, "", 0, schemas.ClassBadType, "k"},
		{`{}`, `5`, "", 0, schemas.ClassBadType, "k"},
		{`null`, `5`, "", 0, schemas.ClassMissingKey, "k"},
		{`""`, `5`, "", 0, schemas.ClassMissingKey, "k"},
		{`"\ud800"`, `5`, "", 0, schemas.ClassMalformed, "k"},
		{`"\ud800\u0041"`, `5`, "", 0, schemas.ClassMalformed, "k"},
		{`"\udc00\ud800"`, `5`, "", 0, schemas.ClassMalformed, "k"},
		{`"a","k":"b"`, `5`, "", 0, schemas.ClassMalformed, "k"},
		{`"` + strings.Repeat("k", schemas.MaxKeyBytes+1) + `"`, `5`, "", 0, schemas.ClassTooLarge, "k"},
		{`"a"`, `null`, "", 0, schemas.ClassBadTime, "t"},
		{`"a"`, `"yesterday"`, "", 0, schemas.ClassBadTime, "t"},
		{`"a"`, `253370764800`, "", 0, schemas.ClassBadTime, "t"},
		{`"a"`, `99999999999999999999`, "", 0, schemas.ClassBadTime, "t"},
		{`"a"`, `1e400`, "", 0, schemas.ClassBadTime, "t"},
		{`"a"`, `true`, "", 0, schemas.ClassBadType, "t"},
		{`"a"`, `[5]`, "", 0, schemas.ClassBadType, "t"},
		{`"a"`, `5,"t":5`, "", 0, schemas.ClassMalformed, "t"},
	} {
		text := `{"v":1,"k":` + c.key + `,"t":` + c.time + `}`
		r, err := decode(t, m, text)
		if c.class != "" {
			wantClass(t, text[:min(len(text), 80)], err, c.class, c.field)
		} else if err != nil || string(r.Key) != c.wantKey || r.Time != c.wantTime {
			t.Errorf("%s: %q %d %v", text, r.Key, r.Time, err)
		}
	}
	_, err := decode(t, m, `{"v":1,"t":5}`)
	wantClass(t, "no key", err, schemas.ClassMissingKey, "k")
	_, err = decode(t, m, `{"v":1,"k":"a"}`)
	wantClass(t, "no time", err, schemas.ClassBadTime, "t")
	r, err := decode(t, schemas.Mapping{Key: "a.b+@key+c", Fields: []string{"v"}}, `{"c":3,"v":1,"a":{"b":"x/y"}}`)
	if err != nil || string(r.Key) != `x\/y/kafka-key/3` {
		t.Errorf("%q %v", r.Key, err)
	}
}

// An error shows where a record is broken and nothing of what is in it.
func TestErrorsKeepSecrets(t *testing.T) {
	for _, text := range []string{`{"password":secret}`, `secret`, `{"v":"secret"}`, `{"v":1}secret`, `{"v":{"secret":1}}`} {
		if _, err := decode(t, schemas.Mapping{Fields: []string{"v"}}, text); err == nil || strings.Contains(err.Error(), "secret") ||
			strings.Contains(err.Error(), "'s'") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestManyFields(t *testing.T) {
	var m schemas.Mapping
	doc := map[string]any{}
	var want []float64
	for i := range 300 {
		name := strings.Repeat("f", i+1)
		m.Fields = append(m.Fields, name)
		doc[name] = i
		want = append(want, float64(i))
	}
	text, _ := std.Marshal(doc)
	if r, err := decode(t, m, string(text)); err != nil || !equal(r.Values, want) {
		t.Error(r.Values, err)
	}
}

func TestNothingStays(t *testing.T) {
	p := compile(t, schemas.Mapping{Key: "k", Time: "t", Fields: []string{"v", "x[2]"}})
	var r schemas.Reading
	for range 2 {
		if err := p.Decode(nil, []byte(`{"k":"a","t":1,"v":1,"x":[1,2]}`), 0, &r); err != nil || !equal(r.Values, []float64{1, 1, 2}) {
			t.Fatal(r, err)
		}
		if err := p.Decode(nil, []byte(`{"k":"b","t":2,"v":2}`), 0, &r); err != nil || string(r.Key) != "b" || r.Time != 2000 ||
			!equal(r.Values, []float64{2, math.NaN(), math.NaN()}) {
			t.Fatal(r, err)
		}
		if err := p.Decode(nil, []byte(`{"t":2,"v":2}`), 0, &r); err == nil {
			t.Fatal(r)
		}
	}
}

var benchMapping = schemas.Mapping{Key: "sensor", Time: "ts", Fields: []string{"value"}}

const benchRecord = `{"sensor":"press-7/bearing-a","ts":1767225600000,"value":20.642857142857142,"site":{"plant":"oslo-north"},"seq":1000000}`

func TestDecodeDoesNotAllocate(t *testing.T) {
	p := compile(t, benchMapping)
	var r schemas.Reading
	b := []byte(benchRecord)
	if n := testing.AllocsPerRun(1000, func() {
		if err := p.Decode(nil, b, 5, &r); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkDecode compares the walk with encoding/json and a struct of just the mapped
// fields, and with maps.
func BenchmarkDecode(b *testing.B) {
	text := []byte(benchRecord)
	b.Run("walk", func(b *testing.B) {
		p := compile(b, benchMapping)
		var r schemas.Reading
		b.ReportAllocs()
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			if err := p.Decode(nil, text, 0, &r); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("struct", func(b *testing.B) {
		var v struct {
			Sensor string
			TS     int64
			Value  *float64
		}
		b.ReportAllocs()
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			if err := std.Unmarshal(text, &v); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("maps", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			var v map[string]any
			if err := std.Unmarshal(text, &v); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// member is a field of an object as the oracle reads it.
type member struct {
	name  string
	value any
}

// parse reads a value with encoding/json's tokens: objects as []member, arrays as []any,
// numbers as std.Number. depth is how deep it is nested.
func parse(d *std.Decoder) (v any, depth int) {
	token, err := d.Token()
	if err != nil {
		panic(err)
	}
	switch token {
	case std.Delim('{'):
		object := []member{}
		for d.More() {
			name, _ := d.Token()
			inner, n := parse(d)
			depth = max(depth, n)
			object = append(object, member{name.(string), inner})
		}
		_, _ = d.Token()
		return object, depth + 1
	case std.Delim('['):
		list := []any{}
		for d.More() {
			inner, n := parse(d)
			depth = max(depth, n)
			list = append(list, inner)
		}
		_, _ = d.Token()
		return list, depth + 1
	}
	return token, 0
}

// follow gives the ends of a path: nil for what is not there and for null, errors for what
// cannot be followed. twice is set where a name on the path comes twice.
func follow(v any, segs []schemas.Segment, count int, twice *bool) []any {
	none := make([]any, max(1, count))
	if count == 0 && len(segs) > 0 {
		none = make([]any, max(1, total(segs)))
	}
	if v == nil {
		return none
	}
	if count > 0 {
		list, ok := v.([]any)
		if !ok {
			none[0] = errors.New("type")
			return none
		}
		if len(list) != count {
			none[0] = errors.New("length")
		}
		for i := range min(count, len(list)) {
			end := follow(list[i], segs, 0, twice)[0]
			if none[0] == nil || i > 0 {
				none[i] = end
			} else if _, bad := none[0].(error); !bad {
				none[0] = end
			}
		}
		return none
	}
	if len(segs) == 0 {
		return []any{v}
	}
	object, ok := v.([]member)
	if !ok {
		none[0] = errors.New("type")
		return none
	}
	found, ends := 0, none
	for _, f := range object {
		if f.name == segs[0].Name {
			found++
			ends = follow(f.value, segs[1:], segs[0].Count, twice)
		}
	}
	if found > 1 {
		*twice = true
	}
	return ends
}

// decimalObject returns the number of an object of a scale and a value in base64.
func decimalObject(object []member) (f float64, ok bool) {
	if len(object) != 2 {
		return 0, false
	}
	if object[0].name == "value" {
		object[0], object[1] = object[1], object[0]
	}
	scale, ok1 := object[0].value.(std.Number)
	text, ok2 := object[1].value.(string)
	n, err := strconv.Atoi(scale.String())
	if !ok1 || !ok2 || err != nil || object[0].name != "scale" || object[1].name != "value" {
		return 0, false
	}
	f, wrong := schemas.DecimalText([]byte(text), n)
	return f, wrong == schemas.FaultNone
}

func total(segs []schemas.Segment) int {
	for _, s := range segs {
		if s.Count > 0 {
			return s.Count
		}
	}
	return 0
}

// FuzzDecode compares the walk with encoding/json's own view of the same bytes.
func FuzzDecode(f *testing.F) {
	mappings := []schemas.Mapping{
		benchMapping,
		{Fields: []string{"v"}},
		{Key: "a.k+b", Time: "t", TimeUnit: "us", Fields: []string{"v", "a.v", "x[2]", "c[2].l", "a.x[1]"}},
		{Key: "@key", Fields: []string{"@value"}},
	}
	var programs []schemas.Program
	var layouts []*schemas.Layout
	for _, m := range mappings {
		l, err := m.Layout()
		if err != nil {
			f.Fatal(err)
		}
		layouts = append(layouts, l)
		programs = append(programs, compile(f, m))
	}
	f.Add(byte(0), []byte(benchRecord))
	f.Add(byte(1), []byte(`{"v":1e999}`))
	f.Add(byte(2), []byte(`{"a":{"k":"x","v":true,"x":[3]},"b":7,"t":"2026-01-02T03:04:05Z","v":null,"x":[1,2],"c":[{"l":1},{"l":-0.5e-3}]}`))
	f.Add(byte(2), []byte(`{"a":{"\u006b":"\ud83d\ude00","v":1},"b":"\\","t":5,"v":2,"x":[1,[{}]],"c":null,"v":2}`))
	f.Add(byte(3), []byte(" 12 "))
	f.Add(byte(1), []byte(`{"v":{"scale":1,"value":"DA=="}}`))
	f.Add(byte(1), []byte(`{"v":{"value":"DA==","scale":-2}}`))
	f.Fuzz(func(t *testing.T, which byte, b []byte) {
		i := int(which) % len(programs)
		var r schemas.Reading
		err := programs[i].Decode([]byte("key"), b, 1, &r)
		var e *schemas.DecodeError
		if err != nil && (!errors.As(err, &e) || e.Class == "" || e.Err == nil) {
			t.Fatal(err)
		}
		if !std.Valid(b) {
			if e == nil || e.Class != schemas.ClassMalformed && e.Class != schemas.ClassTruncated && e.Class != schemas.ClassTrailingBytes &&
				e.Class != schemas.ClassTooLarge || e.Field != "" {
				t.Fatalf("not JSON: %v", err)
			}
			return
		}
		d := std.NewDecoder(bytes.NewReader(b))
		d.UseNumber()
		doc, depth := parse(d)
		if (depth > maxDepth) != (e != nil && e.Class == schemas.ClassTooLarge && e.Field == "") {
			t.Fatalf("depth %d: %v", depth, err)
		}
		if depth > maxDepth || bytes.Contains(b, []byte(`\ud`)) || bytes.Contains(b, []byte(`\uD`)) {
			return // half a pair is U+FFFD to encoding/json
		}
		twice, bad, given := false, false, false
		var want []float64
		for j := range layouts[i].Sinks {
			s := &layouts[i].Sinks[j]
			for _, v := range follow(doc, s.Segs, 0, &twice) {
				switch v := v.(type) {
				case []member:
					f, ok := decimalObject(v)
					bad = bad || !ok || s.Role != schemas.RoleValue
					want = append(want, f)
				case error, []any:
					bad = true
					want = append(want, 0)
				case nil:
					if s.Role != schemas.RoleValue {
						bad = true
					} else {
						want = append(want, math.NaN())
					}
				case bool:
					given = true
					switch {
					case s.Role != schemas.RoleValue:
						bad = true
					case v:
						want = append(want, 1)
					default:
						want = append(want, 0)
					}
				case std.Number:
					given = true
					if s.Role == schemas.RoleValue {
						f, ferr := v.Float64()
						bad = bad || ferr != nil
						want = append(want, f)
					} else if s.Role == schemas.RoleKey && strings.ContainsAny(v.String(), ".eE") {
						bad = true
					}
				case string:
					bad = bad || s.Role == schemas.RoleValue || s.Role == schemas.RoleKey && v == ""
				}
			}
		}
		switch {
		case twice:
		case bad && err == nil:
			t.Fatalf("%s\naccepted as %v", b, r.Values)
		case bad:
		case e != nil && (e.Class == schemas.ClassMissingField || e.Class == schemas.ClassBadTime || e.Class == schemas.ClassTooLarge):
			if e.Class == schemas.ClassMissingField && given && len(want) == 1 && want[0] == want[0] {
				t.Fatalf("%s\n%v", b, err)
			}
		case err != nil || !equal(r.Values, want):
			t.Fatalf("%s\n%v, %v, want %v", b, r.Values, err, want)
		}
	})
}
