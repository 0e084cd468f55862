package backtest

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"odradek/cmd/internal/table"
	"odradek/processor/state"
	"odradek/schemas"
)

// TestFilesAccept: rows of a file are read as records are: values that the mapping does not take are missing, and texts are
// times in its zone or layout.
func TestFilesAccept(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		name, text string
		m          schemas.Mapping
		times      []string
		values     []float64
		troubles   int
	}{
		{"bounds", "time,v\n1,-9999\n2,3\n3,150.5\n", schemas.Mapping{Fields: []string{"v"}, Valid: []string{"v=..100"}, MissingIf: []string{"v=-9999"}},
			[]string{"1970-01-01T00:00:00.001Z", "1970-01-01T00:00:00.002Z", "1970-01-01T00:00:00.003Z"}, []float64{nan, 3, nan}, 0},
		{"zone", "time,v\n2026-01-31 08:00:00,1\n2026-01-31T08:00:00Z,2\n5,3\n", schemas.Mapping{Fields: []string{"v"}, TimeZone: "Asia/Tokyo"},
			[]string{"2026-01-30T23:00:00Z", "2026-01-31T08:00:00Z", "1970-01-01T00:00:00.005Z"}, []float64{1, 2, 3}, 0},
		{"layout", "time,v\n20260131,1\n2026-01-31,2\n", schemas.Mapping{Fields: []string{"v"}, TimeZone: "UTC", TimeLayout: "%Y%m%d"},
			[]string{"2026-01-31T00:00:00Z"}, []float64{1}, 1},
		{"condition", "time,v,quality,flag\n1,1,GOOD,3\n2,2,BAD,3\n3,3,,3\n4,4,UNCERTAIN,x\n5,5,GOOD,7.5\n", schemas.Mapping{Fields: []string{"v"},
			OnlyIf: `quality in ["GOOD", "UNCERTAIN"] && flag > 2.5 && !has(other)`},
			[]string{"1970-01-01T00:00:00.001Z", "1970-01-01T00:00:00.005Z"}, []float64{1, 5}, 2},
		{"computed", "time,v,raw\n1,1,212\n2,2,\n3,3,x\n", schemas.Mapping{Fields: []string{"c"}, Computed: []string{"c=(raw - 32.0) * 5.0 / 9.0"}},
			[]string{"1970-01-01T00:00:00.001Z", "1970-01-01T00:00:00.002Z"}, []float64{100, nan}, 1},
		{"neither", "time,v\n2026-01-31 08:00:00,-9999\n", schemas.Mapping{Fields: []string{"v"}},
			[]string{"2026-01-31T08:00:00Z"}, []float64{-9999}, 0},
	} {
		path := filepath.Join(t.TempDir(), "a.csv")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		src, err := NewFiles([]string{path}, table.Options{Mapping: c.m, Workers: 1}, nil, &state.Config{}, "in", 1)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		var times []string
		var values []float64
		err = src.Read(t.Context(), func(_ int, s *Share) error {
			for _, row := range s.Rows {
				times = append(times, time.UnixMicro(s.Batch.Times[row]).UTC().Format(time.RFC3339Nano))
				values = append(values, s.Batch.Row(int(row))...)
			}
			return nil
		})
		same := slices.EqualFunc(values, c.values, func(a, b float64) bool { return a == b || a != a && b != b })
		if err != nil || !slices.Equal(times, c.times) || !same || len(src.Troubles()) != c.troubles {
			t.Errorf("%s: %v %v, want %v %v; %q, %v", c.name, times, values, c.times, c.values, src.Troubles(), err)
		}
		if list := src.Troubles(); c.m.OnlyIf != "" && list[len(list)-1] != "2 rows for which ODRADEK_ONLY_IF is false" {
			t.Errorf("%s: left out %q", c.name, list)
		}
	}
}

// TestParquetTexts: a column of texts that write numbers is one of numbers where the mapping says so; a row of another text is
// left out, with its reason.
func TestParquetTexts(t *testing.T) {
	type row struct {
		Time  int64   `parquet:"time"`
		Plain string  `parquet:"plain"`
		Dict  *string `parquet:"dict,optional,dict"`
	}
	text := func(s string) *string { return &s }
	path := filepath.Join(t.TempDir(), "a.parquet")
	rows := []row{{1, "1.5", text("7")}, {2, "", nil}, {3, "hot", text("7")}, {4, "-2e3", text("8")}, {5, "1", text("1e999")}}
	if err := parquet.WriteFile(path, rows); err != nil {
		t.Fatal(err)
	}
	m := schemas.Mapping{Fields: []string{"plain", "dict"}, TextNumbers: true}
	src, err := NewFiles([]string{path}, table.Options{Mapping: m, Workers: 1}, nil, &state.Config{}, "in", 1)
	if err != nil {
		t.Fatal(err)
	}
	var got []float64
	err = src.Read(t.Context(), func(_ int, s *Share) error {
		for _, row := range s.Rows {
			got = append(got, s.Batch.Row(int(row))...)
		}
		return nil
	})
	nan := math.NaN()
	want := []float64{1.5, 7, nan, nan, -2000, 8}
	if err != nil || !slices.EqualFunc(got, want, func(a, b float64) bool { return a == b || a != a && b != b }) || len(src.Troubles()) != 2 {
		t.Errorf("%v, want %v; %q, %v", got, want, src.Troubles(), err)
	}
	m.TextNumbers = false
	if src, err := NewFiles([]string{path}, table.Options{Mapping: m, Workers: 1}, nil, &state.Config{}, "in", 1); err == nil {
		if err = src.Read(t.Context(), func(int, *Share) error { return nil }); err == nil {
			t.Error("a column of texts is taken without text_values")
		}
	}
}

// TestAbsentValues: a computed value that is null is no sample of its series in any kind of file, as in the stream.
func TestAbsentValues(t *testing.T) {
	for _, ending := range []string{".csv", ".avro", ".parquet"} {
		path := filepath.Join(t.TempDir(), "t"+ending)
		w, err := table.Create(path, "Row", []table.Column{{Name: "name", Kind: table.Text}, {Name: "at", Kind: table.Time},
			{Name: "value", Kind: table.Number}})
		if err != nil {
			t.Fatal(err)
		}
		names := []string{"sent_total", "temp", "temp", "skipped", "sent_total"}
		for i, name := range names {
			if err := w.Row([]table.Value{{Text: name}, {Whole: int64(i)}, {Number: float64(i)}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		fields := []string{"gauge", "counter"}
		m := schemas.Mapping{Key: "name", Time: "at", Fields: fields, OnlyIf: `name != "skipped"`, Computed: []string{
			`gauge=name.endsWith("_total") ? dyn(null) : value`, `counter=name.endsWith("_total") ? value : dyn(null)`}}
		src, err := NewFiles([]string{path}, table.Options{Mapping: m, Workers: 1}, fields, &state.Config{}, "in", 1)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		err = src.Read(t.Context(), func(_ int, s *Share) error {
			for i := range s.Batch.Len() {
				got = append(got, fmt.Sprint(string(s.Batch.Keys[s.Batch.Key[i]]), s.Batch.Row(i)))
			}
			return nil
		})
		want := []string{"sent_total/counter[0]", "temp/gauge[1]", "temp/gauge[2]", "sent_total/counter[4]"}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q: %v", ending, got, want, err)
		}
	}
}
