package avro

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"odradek/schemas"
)

// TestArrayOfRecords reads a field of each record of an array, in one block or in several, with and without their sizes; an array of
// another length is malformed.
func TestArrayOfRecords(t *testing.T) {
	const schema = `{"type":"record","name":"R","fields":[{"name":"l","type":{"type":"array","items":
		{"type":"record","name":"L","fields":[{"name":"s","type":"string"},{"name":"x","type":["null","long"]}]}}},{"name":"k","type":"string"}]}`
	item := func(x int64) []byte { return AppendLong([]byte{2, 'a', 2}, x) }
	missing := []byte{2, 'a', 0}
	body := func(parts ...[]byte) []byte { return append(slices.Concat(parts...), 2, 'k') }
	l, err := schemas.Mapping{Key: "k", Fields: []string{"l[2].x"}}.Layout()
	if err != nil {
		t.Fatal(err)
	}
	p := newProjection(l, 1, schema)
	for name, c := range map[string]struct {
		body  []byte
		want  []float64
		class string
	}{
		"one block":  {body([]byte{4}, item(5), item(-6), []byte{0}), []float64{5, -6}, ""},
		"two blocks": {body([]byte{2}, item(5), []byte{2}, missing, []byte{0}), []float64{5, math.NaN()}, ""},
		"size":       {body([]byte{3, 2 * 7}, item(5), missing, []byte{0}), []float64{5, math.NaN()}, ""},
		"wrong size": {body([]byte{3, 2 * 8}, item(5), missing, []byte{0}), nil, schemas.ClassMalformed},
		"too short":  {body([]byte{2}, item(5), []byte{0}), nil, schemas.ClassMalformed},
		"none":       {body([]byte{0}), nil, schemas.ClassMalformed},
		"too long":   {body([]byte{6}, item(5), item(6), item(7), []byte{0}), nil, schemas.ClassMalformed},
	} {
		var r schemas.Reading
		err := p.Decode(nil, c.body, 1, &r)
		var e *schemas.DecodeError
		switch {
		case c.class == "" && (err != nil || !equal(r.Values, c.want) || string(r.Key) != "k"):
			t.Errorf("%s: %v %q, %v; want %v", name, r.Values, r.Key, err, c.want)
		case c.class != "" && (!errors.As(err, &e) || e.Class != c.class):
			t.Errorf("%s: %v, want %s", name, err, c.class)
		}
	}
}

// TestTooManyPaths: a mapping with more paths through one value than a program has room for is refused with words.
func TestTooManyPaths(t *testing.T) {
	var m schemas.Mapping
	for i := range 65 {
		m.Fields = append(m.Fields, fmt.Sprintf("m.k%d", i))
	}
	l, err := m.Layout()
	if err != nil {
		t.Fatal(err)
	}
	p := newProjection(l, 1, `{"type":"record","name":"R","fields":[{"name":"m","type":{"type":"map","values":"double"}}]}`)
	if p.err == nil || p.err.Class != schemas.ClassTooLarge || !strings.Contains(p.err.Error(), "too many paths") {
		t.Errorf("65 keys of a map: %v", p.err)
	}
}

// BenchmarkRows: a field of each of three records of an array.
func BenchmarkRows(b *testing.B) {
	l, err := schemas.Mapping{Fields: []string{"l[3].x"}}.Layout()
	if err != nil {
		b.Fatal(err)
	}
	p := newProjection(l, 1, `{"type":"record","name":"R","fields":[{"name":"l","type":{"type":"array","items":
		{"type":"record","name":"L","fields":[{"name":"x","type":"long"}]}}}]}`)
	body := []byte{6, 2, 4, 6, 0}
	var r schemas.Reading
	for b.Loop() {
		if err := p.Decode([]byte("k"), body, 1, &r); err != nil {
			b.Fatal(err)
		}
	}
}
