package formats

import (
	"context"
	"errors"
	"strings"
	"testing"

	"odradek/schemas"
	"odradek/schemas/output"
)

func TestLooksLike(t *testing.T) {
	long := strings.Repeat("na\u00efve text, ", 20)
	for value, want := range map[string]string{
		`{"sensor":"a","value":1.5}`: "JSON", "  {\n \"a\": 1}": "JSON", "{}": "JSON", `[1,2]`: "JSON", `[{"a":1}]`: "JSON", "[-1]": "JSON",
		"\ufeff{\"a\":1}":             "JSON",
		"<?xml version=\"1.0\"?><a/>": "XML", "sensor-1,2026-01-01,1.5\n": "text", long: "text",
		long[:63] + "\u00ef" + long: "text", "{not json}": "text",
		"cpu,host=a v=1.5,s=\"x\" 17\n": "Influx line protocol, which format=influx", "cpu,host=a v=1.5.6": "text",
		"Obj\x01\x04\x16": "container file", "\x1f\x8b\x08\x00": "gzip", "\x28\xb5\x2f\xfd": "zstd",
		"\x03\x00" + strings.Repeat("u", 16) + "\x02": "Glue",
		"": "", "  ": "", "abc": "", "\x80\x01\x02\x03": "", "ab\x00cd": "", "\x02\x08abcd": "", "abcd\xff": "",
		strings.Repeat("a", 60) + "\xff" + long: "",
	} {
		got := looksLike([]byte(value))
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%q looks like %q, want %q", value, got, want)
		}
	}
}

// TestErrorSaysWhatItLooksLike: the reason of a dead letter says so, in the framing
// that is looked for as for bare records, and shows nothing of the value.
func TestErrorSaysWhatItLooksLike(t *testing.T) {
	framed, err := NewDecoder(output.ReadingMapping, nil, Options{Schemas: []string{output.ReadingSchema}})
	if err != nil {
		t.Fatal(err)
	}
	bare, err := NewDecoder(output.ReadingMapping, nil, Options{Bare: output.ReadingSchema})
	if err != nil {
		t.Fatal(err)
	}
	for name, d := range map[string]*Decoder{"framed": framed, "bare": bare} {
		var out schemas.Reading
		var e *schemas.DecodeError
		err := d.Decode(context.Background(), nil, []byte(`{"sensor":"secret-pump","value":1.5}`), 0, nil, &out)
		if !errors.As(err, &e) || !strings.Contains(err.Error(), "looks like JSON, which format=json reads") ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
		if name == "framed" && e.Class != schemas.ClassMagic {
			t.Errorf("%s: class %s", name, e.Class)
		}
	}
	var out schemas.Reading
	err = framed.Decode(context.Background(), nil, []byte("\x00\x00\x00\x00\x00\x00\x00\x00\x07\x02a"), 0, nil, &out)
	var e *schemas.DecodeError
	if !errors.As(err, &e) || e.Class != schemas.ClassUnknownSchema || e.Retry || !strings.Contains(err.Error(), "8 bytes") {
		t.Errorf("an id of 8 bytes: %v", err)
	}
}
