package table

import (
	"bytes"
	"compress/gzip"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"odradek/detectors/seedtest"
)

// TestReadNumbers: each format gives the numbers that were written, of the columns of numbers alone, and rows keep their numbers.
func TestReadNumbers(t *testing.T) {
	rnd := seedtest.New(t)
	columns := []Column{{"key", Text, true}, {"at", Time, false}, {"n", Whole, false}, {"x", Number, false}, {"time", Whole, false}}
	for _, ending := range []string{".csv", ".avro", ".parquet"} {
		path := filepath.Join(t.TempDir(), "t"+ending)
		w, err := Create(path, "Row", columns)
		if err != nil {
			t.Fatal(err)
		}
		var want []float64
		var complete []int64 // numbers of the rows without a missing value
		for i := range int64(csvRows + 2000) {
			n, x := rnd.Int64N(1000), rnd.NormFloat64()
			if rnd.IntN(9) == 0 {
				x = math.NaN()
			} else {
				complete = append(complete, i+1)
			}
			want = append(want, x, float64(n))
			if err := w.Row([]Value{{Text: "pump"}, {Whole: 1e15}, {Whole: n}, {Number: x}, {Whole: i}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		p := new(Progress)
		got, err := ReadNumbers(t.Context(), path, NumberOptions{Columns: []string{"x", "n"}, Workers: 3, Progress: p})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(got.X, want, func(a, b float64) bool { return a == b || a != a && b != b }) {
			t.Errorf("%s: other numbers than were written", ending)
		}
		if p.Rows.Load() != int64(got.Rows()) || p.Done.Load() != p.Total.Load() {
			t.Errorf("%s: progress %d rows, %d of %d", ending, p.Rows.Load(), p.Done.Load(), p.Total.Load())
		}
		if err := got.Complete(); err == nil || !strings.Contains(err.Error(), "column x has no finite number, as ") {
			t.Errorf("%s: %v", ending, err)
		}
		if left := got.Skip(); left+len(complete) != len(want)/2 || got.Complete() != nil || got.Rows() != len(complete) {
			t.Errorf("%s: %d rows left out, %d kept", ending, left, got.Rows())
		}
		for i, n := range complete {
			if got.Number(i) != n || got.Row(i)[0] != want[2*(n-1)] {
				t.Fatalf("%s: row %d has the number %d, want %d", ending, i, got.Number(i), n)
			}
		}
		all, err := ReadNumbers(t.Context(), path, NumberOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(all.Names, []string{"n", "x"}) || !strings.Contains(strings.Join(all.LeftOut, "; "), "column time: it names a time") {
			t.Errorf("%s: columns %q, left out %q", ending, all.Names, all.LeftOut)
		}
		_, err = ReadNumbers(t.Context(), path, NumberOptions{Memory: 100_000, RowBytes: func(columns int) int64 { return 50 * int64(columns) }})
		if err == nil || !strings.Contains(err.Error(), "allow more with -memory") {
			t.Errorf("%s: %v", ending, err)
		}
	}
}

// compressed returns the text compressed by gzip.
func compressed(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(text))
	if err = errors.Join(err, w.Close()); err != nil {
		panic(err)
	}
	return b.String()
}

// TestNumbersSay: what is wrong with a file is said by column and row, with what can be done.
func TestNumbersSay(t *testing.T) {
	for _, c := range []struct {
		name, text, columns, want string
	}{
		{"a.csv", "x,y\n1,2\n3,four\n5,6\n7,8\n9,1\n2,3\n4,5\n6,7\n8,9\n1,2\n3,4\n", "",
			`row 2, column y: "four" is not a number: correct it, or name other columns with -columns; columns of numbers are x, y`},
		{"a.csv", "x,name\n1,pump\n3,valve\n", "name", `column "name": row 1 has the text "pump"; columns of numbers are x`},
		{"a.csv", "x,name\n1,pump\n3,valve\n", "z", `there is no column "z"; columns of numbers are x`},
		{"a.csv", "x,name\n1,pump\n3,valve\n", "x,x", `column "x" is named twice`},
		{"a.csv", "name\npump\nvalve\n", "", `there is no column of numbers: column name: row 1 has the text "pump"`},
		{"a.csv", "x,y\n1,\n3,\n", "y", `column "y": the first 2 rows have no number in it`},
		{"a.csv", "x,y\n", "", "there is no column of numbers: column x: the file has no row"},
		{"a.csv", "1,2\n3,4\n", "", "the first line has numbers: put a line with the names of the columns before it"},
		{"a.csv", "x;y\n1;2\n", "", `row 1 has the text "1;2"; separate columns by commas`},
		{"a.csv", "", "", "the file is empty"},
		{"a.csv", "x,y\n1,2\n1,\"2\n", "", "row 2, column 1:"},
		{"a.csv", "a,a\n1,2\n3,4\n", "", "there is no column of numbers: column a: 2 columns have this name: rename them"},
		{"a.csv", "a,b,a\n1,2,3\n3,4,5\n", "a", `column "a": 2 columns have this name: rename them; columns of numbers are b`},
		{"a.csv", "x\n1,5\n2,5\n", "", `row 1, column 2: "5" is beyond the columns that the first line names; a comma in a number needs quotes`},
		{"a.csv.gz", "", "", "the file is empty"},
		{"a.csv.gz", "x\n1\n", "", "this is no file compressed by gzip"},
		{"a.csv.gz", compressed("x\n1\n2\n")[:14], "", "the end of the compressed file is missing"},
		{"a.csv.gz", compressed("x\n" + strings.Repeat("1.25\n7.5\n", 50_000))[:300], "", "the end of the compressed file is missing"},
		{"a.txt", "x\n1\n", "", "the name ends with none of .csv"},
		{"a.parquet", "x\n1\n", "", "this is no Parquet file"},
	} {
		path := filepath.Join(t.TempDir(), c.name)
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		var o NumberOptions
		if c.columns != "" {
			o.Columns = strings.Split(c.columns, ",")
		}
		if _, err := ReadNumbers(t.Context(), path, o); err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.HasPrefix(err.Error(), "table: "+path) {
			t.Errorf("%q: %v, want %s", c.text, err, c.want)
		}
	}
	path := filepath.Join(t.TempDir(), "a.csv")
	if err := os.WriteFile(path, []byte("x\n1\nInf\n3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	n, err := ReadNumbers(t.Context(), path, NumberOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Complete(); err == nil || !strings.Contains(err.Error(), "row 2, column x has no finite number, as 1 of 3 rows") {
		t.Error(err)
	}
}
