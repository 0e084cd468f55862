package avro

import (
	"slices"
	"strings"
	"testing"

	"github.com/linkedin/goavro/v2"

	"odradek/detectors/seedtest"
	"odradek/schemas"
)

const textSchema = `{"type":"record","name":"R","fields":[
	{"name":"s","type":"string"},{"name":"t","type":{"type":"long","logicalType":"timestamp-millis"}},
	{"name":"v","type":["null","double"]},{"name":"n","type":["null","double"]},{"name":"on","type":"boolean"},
	{"name":"i","type":"int"},{"name":"f","type":"float"},{"name":"b","type":"bytes"},
	{"name":"x","type":{"type":"fixed","name":"X","size":2}},{"name":"e","type":{"type":"enum","name":"E","symbols":["A","B"]}},
	{"name":"a","type":{"type":"array","items":{"type":"record","name":"P","fields":[{"name":"q","type":"long"}]}}},
	{"name":"m","type":{"type":"map","values":"int"}},{"name":"none","type":{"type":"array","items":"int"}},
	{"name":"nulls","type":{"type":"array","items":{"type":"record","name":"O","fields":[]}}}]}`

// TestText compares with what goavro has written, and cuts it off everywhere.
func TestText(t *testing.T) {
	codec, err := goavro.NewCodec(strings.ReplaceAll(textSchema, `{"type":"long","logicalType":"timestamp-millis"}`, `"long"`))
	if err != nil {
		t.Fatal(err)
	}
	empty := map[string]any{}
	body, err := codec.BinaryFromNative(nil, map[string]any{"s": "pump \x1b", "t": int64(1_700_000_000_123), "v": goavro.Union("double", 1.5),
		"n":  nil,
		"on": true, "i": int32(-3), "f": float32(0.25), "b": []byte{1, 0xff}, "x": []byte{0, 16}, "e": "B",
		"a": []any{map[string]any{"q": int64(7)}, map[string]any{"q": int64(8)}}, "m": map[string]any{"50%d": int32(9)}, "none": []any{},
		"nulls": []any{empty, empty, empty}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{`s = "pump \x1b"`, "t = 1700000000123 (2023-11-14T22:13:20.123Z)", "v = 1.5", "n = null", "on = true", "i = -3",
		"f = 0.25", "b = 0x01ff", "x = 0x0010", "e = B", "a[0].q = 7", "a[1].q = 8", `m["50%d"] = 9`, "none = array without items",
		"nulls = array of 3 items without content"}
	s := &schemas.Schema{Text: textSchema}
	got, err := Text(s, body)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v\n%s", err, strings.Join(got, "\n"))
	}
	for n := range body {
		got, err := Text(s, body[:n])
		if err == nil {
			t.Errorf("%d bytes of %d are complete", n, len(body))
		}
		if !slices.Equal(got, want[:len(got)]) {
			t.Errorf("%d bytes: %q", n, got)
		}
	}
	rng := seedtest.New(t)
	for range 2000 { // neither panics nor is long
		b := slices.Clone(body)
		for range 1 + rng.IntN(4) {
			b[rng.IntN(len(b))] = byte(rng.IntN(256))
		}
		if lines, _ := Text(s, b); len(lines) > maxTextLines {
			t.Fatalf("%d lines of %x", len(lines), b)
		}
	}
}
