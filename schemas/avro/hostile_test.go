package avro

import (
	"bytes"
	"context"
	"errors"
	"math"
	"runtime"
	"testing"
	"time"

	"odradek/schemas"
	"odradek/schemas/schematest"
)

// Hostile bytes: an error, no crash, and no memory on their word.
func TestHostileBytes(t *testing.T) {
	list := record(`{"name":"k","type":"string"},{"name":"a","type":{"type":"array","items":"double"}},{"name":"n","type":{"type":"array","items":"null"}},{"name":"m","type":{"type":"map","values":"string"}},{"name":"self","type":["null","R"]}`)
	m := schemas.Mapping{Key: "k", Fields: []string{"a[3]"}}
	rows := schemas.Mapping{Key: "k", Fields: []string{"a[3]", "self.a[3]", "l[2].x"}}
	rowsSchema := record(`{"name":"k","type":"string"},{"name":"a","type":{"type":"array","items":"double"}},{"name":"self","type":["null","R"]},{"name":"l","type":{"type":"array","items":{"type":"record","name":"L","fields":[{"name":"x","type":"int"}]}}}`)
	huge := AppendLong(nil, math.MaxInt64)
	minus := AppendLong(nil, math.MinInt64)
	k := []byte{2, 'k'}
	deep := func(n int) []byte {
		var b []byte
		for range n {
			b = append(b, 2, 'k', 0, 0, 0, 2)
		}
		return append(b, 2, 'k', 0, 0, 0, 0)
	}
	blocks := append([]byte{2, 'k', 0}, bytes.Repeat(AppendLong(nil, maxEmptyItems), 200_000)...)
	cases := []struct {
		name   string
		bytes  []byte
		class  string
		schema string
		m      schemas.Mapping
	}{
		{"empty", nil, schemas.ClassTruncated, list, m},
		{"string of 2^62", huge, schemas.ClassTruncated, list, m},
		{"string of negative length", []byte{1}, schemas.ClassMalformed, list, m},
		{"array of 2^63-1", cat(k, huge), schemas.ClassTruncated, list, m},
		{"array of -2^63", cat(k, minus, []byte{0}), schemas.ClassMalformed, list, m},
		{"array block of 2^62 bytes", cat(k, []byte{1}, huge), schemas.ClassTruncated, list, m},
		{"array block larger than its bytes", cat(k, []byte{9, 2, 0}), schemas.ClassTruncated, list, m},
		{"array block smaller than its size", cat(k, []byte{1, 18}, make([]byte, 9), []byte{0, 0, 0, 0}), schemas.ClassMalformed, list, m},
		{"nulls without end", cat(k, []byte{0}, huge), schemas.ClassTooLarge, list, m},
		{"blocks of nulls", blocks, schemas.ClassTruncated, list, m},
		{"map of 2^63-1", cat(k, []byte{0, 0}, huge), schemas.ClassTruncated, list, m},
		{"map key of 2^62", cat(k, []byte{0, 0, 2}, huge), schemas.ClassTruncated, list, m},
		{"union index 2", cat(k, []byte{0, 0, 0, 4}), schemas.ClassMalformed, list, m},
		{"union index -1", cat(k, []byte{0, 0, 0, 1}), schemas.ClassMalformed, list, m},
		{"20 levels, wrong length", deep(20), schemas.ClassMalformed, list, m},
		{"10,000 levels", deep(10_000), schemas.ClassTooLarge, list, m},
		{"one byte more", cat(k, make([]byte, 5)), schemas.ClassTrailingBytes, list, m},
		{"rows: array of 2^63-1", cat(k, huge), schemas.ClassTruncated, rowsSchema, rows},
		{"rows: 2^31 items in a block of no bytes", cat(k, AppendLong(nil, -1<<31), []byte{0}), schemas.ClassTruncated, rowsSchema, rows},
		{"rows: 10,000 levels", bytes.Repeat([]byte{2, 'k', 0, 2}, 10_000), schemas.ClassTooLarge, rowsSchema, rows},
	}
	for _, c := range cases {
		d := testDecoder(t, c.schema, c.m)
		value := cat([]byte{0, 0, 0, 0, 7}, c.bytes)
		var r schemas.Reading
		r.Values = make([]float64, 16)
		var before, after runtime.MemStats
		start := time.Now()
		runtime.ReadMemStats(&before)
		err := d.Decode(context.Background(), nil, value, 1, nil, &r)
		runtime.ReadMemStats(&after)
		var e *schemas.DecodeError
		if !errors.As(err, &e) || e.Class != c.class {
			t.Errorf("%s: %v, want %s", c.name, err, c.class)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 16<<10 {
			t.Errorf("%s: %d bytes allocated", c.name, n)
		}
		if d := time.Since(start); d > time.Second {
			t.Errorf("%s: %v", c.name, d)
		}
	}
}

func cat(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// Every cut of a good record is truncated, every longer one has trailing bytes.
func TestCuts(t *testing.T) {
	value := schematest.SensorRecords(t)[3]
	d := testDecoder(t, schematest.SensorSchema, schematest.SensorMapping)
	var r schemas.Reading
	for n := 5; n < len(value); n++ {
		err := d.Decode(context.Background(), nil, value[:n:n], 0, nil, &r)
		var e *schemas.DecodeError
		if !errors.As(err, &e) || e.Class != schemas.ClassTruncated {
			t.Errorf("%d of %d bytes: %v", n, len(value), err)
		}
	}
	err := d.Decode(context.Background(), nil, append(value[:len(value):len(value)], 0), 0, nil, &r)
	wantClass(t, err, schemas.ClassTrailingBytes, "")
}
