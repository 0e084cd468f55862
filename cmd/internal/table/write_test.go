package table

import (
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"odradek/detectors/seedtest"
	"odradek/schemas"
)

// TestWrite writes a table in each format and reads it again.
func TestWrite(t *testing.T) {
	rnd := seedtest.New(t)
	columns := []Column{{"key", Text, true}, {"at", Time, false}, {"n", Whole, false}, {"x", Number, false}, {"yes", Truth, false}}
	for _, ending := range []string{".csv", ".avro", ".parquet"} {
		rows := make([][]Value, 5000)
		path := filepath.Join(t.TempDir(), "t"+ending)
		w, err := Create(path, "Row", columns)
		if err != nil {
			t.Fatal(err)
		}
		for i := range rows {
			x := rnd.NormFloat64()
			if rnd.IntN(10) == 0 {
				x = math.NaN()
			}
			rows[i] = []Value{{Text: fmt.Sprintf("s,%d \"", rnd.IntN(20))}, {Whole: 1e15 + rnd.Int64N(1e12)}, {Whole: rnd.Int64N(1000) - 500},
				{Number: x},
				{Truth: rnd.IntN(2) == 0}}
			if err := w.Row(rows[i]); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		f, err := Open(path, Options{Mapping: schemas.Mapping{Time: "at", Fields: []string{"n", "x"}}, Label: "yes"})
		if ending == ".avro" { // a boolean is no number there
			f, err = Open(path, Options{Mapping: schemas.Mapping{Time: "at", Fields: []string{"n", "x"}}})
		}
		if err != nil {
			t.Fatal(err)
		}
		at := 0
		err = f.Read(t.Context(), func(b *Batch) error {
			defer b.Release()
			for i := range b.Len() {
				r, v := rows[at], b.Row(i)
				if string(b.Keys[b.Key[i]]) != r[0].Text || b.Times[i] != r[1].Whole || v[0] != float64(r[2].Whole) ||
					math.Float64bits(v[1]) != math.Float64bits(r[3].Number) && (v[1] == v[1] || r[3].Number == r[3].Number) ||
					f.Labelled() && b.Labels[i] != r[4].Truth {
					return fmt.Errorf("row %d is %s %d %v, want %+v", at, b.Keys[b.Key[i]], b.Times[i], v, r)
				}
				at++
			}
			return nil
		})
		if err != nil || at != len(rows) {
			t.Errorf("%s: %d rows of %d, %v", ending, at, len(rows), err)
		}
		f.Close()
	}
	if _, err := Create(filepath.Join(t.TempDir(), "t.txt"), "Row", columns); err == nil {
		t.Error("a table of no format is no fault")
	}
}
