package table

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/linkedin/goavro/v2"
	"github.com/parquet-go/parquet-go"

	"odradek/detectors/seedtest"
	"odradek/schemas"
)

// row is a row as a file has it and as it is read again.
type row struct {
	site  string
	unit  int64
	time  int64
	a     float64
	b     float64
	label bool
	fault bool // no key
}

func (r *row) key() string {
	return strings.NewReplacer("/", `\/`).Replace(r.site) + "/" + strconv.FormatInt(r.unit, 10)
}

func makeRows(rnd *rand.Rand, n int) []row {
	rows := make([]row, n)
	at := int64(1_700_000_000_000_000)
	for i := range rows {
		at += 1000 * rnd.Int64N(5000)
		rows[i] = row{site: fmt.Sprintf("s/%d", rnd.IntN(7)), unit: rnd.Int64N(5), time: at, a: rnd.NormFloat64(), b: rnd.NormFloat64(),
			label: rnd.IntN(9) == 0, fault: rnd.IntN(50) == 0}
		if rnd.IntN(20) == 0 {
			rows[i].b = math.NaN()
		}
	}
	return rows
}

var testOptions = Options{Mapping: schemas.Mapping{Key: "site+unit", Time: "at", Fields: []string{"b", "a"}, TimeUnit: "ms"},
	Label:   "label",
	Workers: 3}

// expectRows reads a file and compares it with the rows that were written.
func expectRows(t *testing.T, path string, o Options, want []row) {
	t.Helper()
	f, err := Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want = slices.DeleteFunc(slices.Clone(want), func(r row) bool { return r.fault })
	bad, at, last := int64(0), 0, int64(0)
	err = f.Read(t.Context(), func(b *Batch) error {
		defer b.Release()
		bad += b.Bad
		if b.Bytes < last || b.Bytes > f.Bytes() {
			t.Errorf("a batch ends at byte %d, the one before at %d, of %d", b.Bytes, last, f.Bytes())
		}
		last = b.Bytes
		for i := range b.Len() {
			if at == len(want) {
				return fmt.Errorf("more than %d rows", at)
			}
			w, v := &want[at], b.Row(i)
			same := func(x, y float64) bool { return x == y || x != x && y != y }
			if string(b.Keys[b.Key[i]]) != w.key() || b.Times[i] != w.time || !same(v[0], w.b) || !same(v[1], w.a) || b.Labels[i] != w.label {
				return fmt.Errorf("row %d is %s %d %v %v, want %+v", at, b.Keys[b.Key[i]], b.Times[i], v, b.Labels[i], *w)
			}
			at++
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if at != len(want) {
		t.Errorf("%s: %d rows, want %d", path, at, len(want))
	}
	if n := f.Rows(); n >= 0 && n != int64(at)+bad {
		t.Errorf("%s: said to have %d rows, read %d and %d bad ones", path, n, at, bad)
	}
}

func TestReadCSV(t *testing.T) {
	rows := makeRows(seedtest.New(t), 40_000)
	var b bytes.Buffer
	b.WriteString("\ufeff\"at\", a,b ,site,unit,label,other\n")
	for i := range rows {
		r := &rows[i]
		site, value := r.site, strconv.FormatFloat(r.b, 'g', -1, 64)
		if r.fault {
			site = ""
		}
		if r.b != r.b {
			value = []string{"", "NaN", "null"}[i%3]
		}
		at := strconv.FormatInt(r.time/1000, 10)
		if i%2 == 0 {
			at = time.UnixMicro(r.time).UTC().Format([]string{time.RFC3339Nano, "2006-01-02 15:04:05.999999"}[i/2%2])
		}
		fmt.Fprintf(&b, "%s,%v,%s,%q,%d,%d,x\n", at, r.a, value, site, r.unit, map[bool]int{true: 1}[r.label])
	}
	path := filepath.Join(t.TempDir(), "rows.csv")
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	expectRows(t, path, testOptions, rows)
}

// avroRowSchema has more fields than are read, and a union for what may be missing.
const avroRowSchema = `{"type":"record","name":"Row","fields":[{"name":"x","type":"string"},{"name":"site","type":["null","string"]},
	{"name":"unit","type":"long"},{"name":"at","type":"long"},{"name":"a","type":"double"},{"name":"b","type":["null","double"]},
	{"name":"label","type":"int"},{"name":"y","type":{"type":"array","items":"long"}}]}`

// TestReadAvro reads files that goavro has written, with each of its codecs.
func TestReadAvro(t *testing.T) {
	rnd := seedtest.New(t)
	for _, codec := range []string{goavro.CompressionNullLabel, goavro.CompressionDeflateLabel, goavro.CompressionSnappyLabel} {
		rows := makeRows(rnd, 5000)
		path := filepath.Join(t.TempDir(), "rows.avro")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		w, err := goavro.NewOCFWriter(goavro.OCFConfig{W: f, Schema: avroRowSchema, CompressionName: codec})
		if err != nil {
			t.Fatal(err)
		}
		for from := 0; from < len(rows); {
			n := min(1+rnd.IntN(900), len(rows)-from)
			var list []any
			for _, r := range rows[from : from+n] {
				site, value := goavro.Union("string", r.site), goavro.Union("double", r.b)
				if r.fault {
					site = nil
				}
				if r.b != r.b {
					value = nil
				}
				label := 0
				if r.label {
					label = 1
				}
				list = append(list, map[string]any{"x": "text", "site": site, "unit": r.unit, "at": r.time / 1000, "a": r.a, "b": value,
					"label": label, "y": []any{int64(1), int64(2)}})
			}
			if err := w.Append(list); err != nil {
				t.Fatal(err)
			}
			from += n
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		expectRows(t, path, testOptions, rows)
		// Cut off, it ends with an error that says so, and no earlier than it must.
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		cut := filepath.Join(t.TempDir(), "cut.avro")
		if err := os.WriteFile(cut, whole[:len(whole)-3], 0o644); err != nil {
			t.Fatal(err)
		}
		c, err := Open(cut, testOptions)
		if err != nil {
			t.Fatal(err)
		}
		err = c.Read(t.Context(), func(b *Batch) error { b.Release(); return nil })
		if err == nil || !strings.Contains(err.Error(), "unexpected EOF") {
			t.Errorf("%s, cut off: %v", codec, err)
		}
		c.Close()
	}
}

type parquetRow struct {
	Site  *string  `parquet:"site,optional,dict"`
	Unit  int64    `parquet:"unit"`
	At    int64    `parquet:"at,timestamp(microsecond)"`
	A     float64  `parquet:"a"`
	B     *float64 `parquet:"b,optional"`
	Label bool     `parquet:"label"`
}

// TestReadParquet reads several row groups, each in several parts and pages: with
// dictionaries, without, optional and not.
func TestReadParquet(t *testing.T) {
	rnd := seedtest.New(t)
	rows := makeRows(rnd, 3*parquetRows/2)
	path := filepath.Join(t.TempDir(), "rows.parquet")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := parquet.NewGenericWriter[parquetRow](f, parquet.MaxRowsPerRowGroup(int64(parquetRows+parquetRows/7)), parquet.PageBufferSize(1<<14),
		parquet.Compression(&parquet.Zstd))
	for i := range rows {
		r := &rows[i]
		p := parquetRow{&r.site, r.unit, r.time, r.a, &r.b, r.label}
		if r.fault {
			p.Site = nil
		}
		if r.b != r.b {
			p.B = nil
		}
		if _, err := w.Write([]parquetRow{p}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f.Close()
	expectRows(t, path, testOptions, rows)
}

// TestReadDecimals reads columns of decimals in each of Parquet's types, with a dictionary and without, which pyarrow has written.
func TestReadDecimals(t *testing.T) {
	want := []float64{1.25, -3.5, math.NaN(), 9999999.99, 0.01, 1.25}
	for _, name := range []string{"int32", "int64", "fixed", "plain"} {
		f, err := Open(filepath.Join("testdata", "decimals-"+name+".parquet"), Options{Mapping: schemas.Mapping{Fields: []string{"value"}}})
		if err != nil {
			t.Fatal(err)
		}
		var got []float64
		err = f.Read(t.Context(), func(b *Batch) error {
			got = append(got, b.Values...)
			b.Release()
			return nil
		})
		if err != nil || !slices.EqualFunc(got, want, func(a, b float64) bool { return a == b || a != a && b != b }) {
			t.Errorf("%s: %v, %v, want %v", name, got, err, want)
		}
		f.Close()
	}
}

// TestOpenNamesWhatIsWrong holds the faults of files and mappings.
func TestOpenNamesWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct{ path, want string }{
		{file("a.csv", "t,v\n1,2\n"), `no column "b" (ODRADEK_VALUE_FIELDS); the file has t, v`},
		{file("b.csv", ""), "the file is empty"},
		{file("g.csv", "\xff\xfet\x00,\x00v\x00"), "the text is in UTF-16: write the file in UTF-8"},
		{file("h.csv", "\xfe\xff\x00t\x00,\x00v"), "the text is in UTF-16"},
		{file("i.csv", "t\x00,\x00v\x00"), "the text is in UTF-16"},
		{file("c.txt", "x"), "the name ends with none of"},
		{file("d.avro", "Obj"), "not an Avro object container file"},
		{file("e.parquet", "PAR1"), "e.parquet: this is no Parquet file, or its end is missing"},
		{filepath.Join(dir, "none.csv"), "no such file"},
	} {
		_, err := Open(c.path, testOptions)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.path, err, c.want)
		}
	}
	wild := testOptions
	wild.Mapping.Fields = []string{"*"}
	if _, err := Open(file("f.csv", "t,v\n1,2\n"), wild); err == nil || !strings.Contains(err.Error(), `"*" is for records`) {
		t.Error(err)
	}
	if _, err := List([]string{t.TempDir()}); err == nil {
		t.Error("an empty folder is no fault")
	}
}

// FuzzContainer holds that a damaged container file gives an error or fewer rows, and
// neither a panic nor much memory.
func FuzzContainer(f *testing.F) {
	var b bytes.Buffer
	w, err := goavro.NewOCFWriter(goavro.OCFConfig{W: &b, Schema: `{"type":"record","name":"R","fields":[{"name":"value","type":"double"}]}`})
	if err != nil {
		f.Fatal(err)
	}
	if err := w.Append([]any{map[string]any{"value": 1.0}, map[string]any{"value": 2.0}}); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add(binary.AppendVarint(bytes.Clone(b.Bytes()), 1<<40))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "x.avro")
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		a, err := Open(path, Options{Mapping: schemas.Mapping{Fields: []string{"value"}}})
		if err != nil {
			return
		}
		defer a.Close()
		_ = a.Read(context.Background(), func(b *Batch) error { b.Release(); return nil })
	})
}

// TestRowsOfAPartition: with @partition as the key all rows of a file are one series, even if it has a column "key".
// @partition beside other parts of a key is a fault.
func TestRowsOfAPartition(t *testing.T) {
	dir := t.TempDir()
	csv := filepath.Join(dir, "fleet.csv")
	if err := os.WriteFile(csv, []byte("key,time,v\na,1,5\nb,2,6\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	container := filepath.Join(dir, "fleet.avro")
	var b bytes.Buffer
	w, err := goavro.NewOCFWriter(goavro.OCFConfig{W: &b, Schema: `{"type":"record","name":"r","fields":[{"name":"key","type":"string"},
		{"name":"time","type":"long"},{"name":"v","type":"double"}]}`})
	if err != nil {
		t.Fatal(err)
	}
	err = w.Append([]map[string]any{{"key": "a", "time": int64(1), "v": 5.0}, {"key": "b", "time": int64(2), "v": 6.0}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(container, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	o := Options{Mapping: schemas.Mapping{Key: "@partition", Fields: []string{"v"}}, Name: "fleet", Workers: 1}
	for _, path := range []string{csv, container} {
		f, err := Open(path, o)
		if err != nil {
			t.Fatal(err)
		}
		rows := 0
		err = f.Read(t.Context(), func(b *Batch) error {
			defer b.Release()
			for i := range b.Len() {
				if got := string(b.Keys[b.Key[i]]); got != "fleet" {
					t.Errorf("%s: row %d is of series %q", path, rows, got)
				}
				rows++
			}
			return nil
		})
		if f.Close(); err != nil || rows != 2 {
			t.Errorf("%s: %d rows, %v", path, rows, err)
		}
	}
	o.Mapping.Key = "@partition+key"
	if _, err := Open(csv, o); err == nil || !strings.Contains(err.Error(), "@partition belongs to a Kafka record") {
		t.Error(err)
	}
}

// TestExpressions: in each kind of file the condition takes the rows that the same predicate in Go takes, and values are
// computed.
func TestExpressions(t *testing.T) {
	rnd := seedtest.New(t)
	columns := []Column{{"key", Text, true}, {"at", Time, false}, {"n", Whole, false}, {"x", Number, false}, {"yes", Truth, false}}
	for _, ending := range []string{".csv", ".avro", ".parquet"} {
		path := filepath.Join(t.TempDir(), "t"+ending)
		w, err := Create(path, "Row", columns)
		if err != nil {
			t.Fatal(err)
		}
		var want []float64
		for range 3000 {
			key, n, x, yes := string(rune('a'+rnd.IntN(4))), rnd.Int64N(10), rnd.NormFloat64(), rnd.IntN(2) == 0
			if rnd.IntN(5) == 0 {
				x = math.NaN()
			}
			if err := w.Row([]Value{{Text: key}, {Whole: 1e15}, {Whole: n}, {Number: x}, {Truth: yes}}); err != nil {
				t.Fatal(err)
			}
			if (key == "a" || key == "c") && n >= 3 && yes || x > 1 {
				odd := 0.0
				if yes {
					odd = 1
				}
				want = append(want, float64(n), 2*float64(n)+odd)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		f, err := Open(path, Options{Workers: 2, Mapping: schemas.Mapping{Time: "at", Fields: []string{"n", "twice"},
			Computed: []string{"twice = 2.0 * double(n) + (yes ? 1.0 : 0.0)"},
			OnlyIf:   `key in ["a", "c"] && n >= 3 && yes || has(x) && x > 1.0 && x < 1.0 / 0.0`}})
		if err != nil {
			t.Fatal(err)
		}
		var got []float64
		err = f.Read(t.Context(), func(b *Batch) error {
			defer b.Release()
			got = append(got, b.Values...)
			if b.Bad > 0 {
				t.Error(b.Why)
			}
			return nil
		})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %d rows, want %d: %v", ending, len(got), len(want), err)
		}
		f.Close()
	}
}
