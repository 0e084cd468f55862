// Package table reads rows of files, of recorded samples or of numbers alone, and writes tables of results: CSV, Apache Parquet
// and Avro object container files.
//
// A file is read as Batches in the order of its rows. Several goroutines decode batches ahead; Parquet is decoded by columns, a
// part of a row group at a time.
package table

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"odradek/schemas"
)

// Options define how the rows of a file become samples.
type Options struct {
	// Mapping names the columns as it names the fields of a record. A column that is
	// nested has its names joined by dots. Where Key is "" or "@key", which a file does
	// not have, the column "key" is taken, and without one, or with "@partition", the file's name
	// is the key of all its rows. Where Time is "" or "@timestamp", the column "timestamp" or "time"
	// is taken, and without one row n is n seconds after the epoch.
	Mapping schemas.Mapping
	Plain   bool   // rows are numbers alone: neither key nor time, and a field is a column's name
	Label   string // column that is not 0 or false in rows labelled as anomalous; "": none
	Name    string // of the series of a file without a key column
	Workers int    // goroutines that decode, 1 at least
	// LeftOut takes each row of a CSV file that is no sample, by its number from 1, and why: filtered is of a condition that does
	// not hold, which has no other reason. nil: nothing does.
	LeftOut func(row int64, filtered bool, why string)
	// Note takes what was assumed of a CSV file; nil: nothing does.
	Note func(text string)
}

// Batch is a run of rows of a file. It is read only, and its memory is used again
// after the last Release.
type Batch struct {
	Keys   [][]byte  // series keys that the rows name; no two are equal
	Key    []uint32  // by row, index of Keys
	Times  []int64   // by row, microseconds since the epoch
	Width  int       // values a row
	Values []float64 // Width a row, NaN where missing
	Absent []bool    // Width a row: the row has no such value, which is not a missing one; empty: each row has all
	Labels []bool    // by row, anomalous; nil without labels

	Bad      int64    // rows left out because they have no key or no time, or cannot be read
	Why      []string // of the first of them: row, column and reason
	Filtered int64    // rows left out by the mapping's condition
	Bytes    int64    // of the file, up to the end of the batch

	leftOut func(row int64, filtered bool, why string) // Options.LeftOut
	users   atomic.Int32
	pool    *sync.Pool
}

// Len returns the number of rows.
func (b *Batch) Len() int { return len(b.Times) }

// Row returns the values of row i.
func (b *Batch) Row(i int) []float64 { return b.Values[i*b.Width : (i+1)*b.Width] }

// RowAbsent returns which values row i does not have; empty: it has all.
func (b *Batch) RowAbsent(i int) []bool {
	if len(b.Absent) == 0 {
		return nil
	}
	return b.Absent[i*b.Width : (i+1)*b.Width]
}

// Retain announces n more users, each of which calls Release.
func (b *Batch) Retain(n int) { b.users.Add(int32(n)) }

// Release ends one user's use of the batch.
func (b *Batch) Release() {
	if b.users.Add(-1) == 0 && b.pool != nil {
		b.pool.Put(b)
	}
}

// maxWhy is the number of bad rows of a batch with an explanation.
const maxWhy = 3

func (b *Batch) bad(row int64, column string, err error) {
	if b.Bad++; len(b.Why) < maxWhy {
		b.Why = append(b.Why, fmt.Sprintf("row %d, column %s: %v", row, column, err))
	}
	if b.leftOut != nil {
		b.leftOut(row, false, fmt.Sprintf("column %s: %v", column, err))
	}
}

// filter leaves a row out for which the mapping's condition is false.
func (b *Batch) filter(row int64) {
	b.Filtered++
	if b.leftOut != nil {
		b.leftOut(row, true, "")
	}
}

// reset empties the batch for rows rows of width values.
func (b *Batch) reset(rows, width int, labels bool) {
	b.Keys, b.Key = b.Keys[:0], slices.Grow(b.Key[:0], rows)[:rows]
	b.Times = slices.Grow(b.Times[:0], rows)[:rows]
	b.Width, b.Values = width, slices.Grow(b.Values[:0], rows*width)[:rows*width]
	b.Absent, b.Labels = b.Absent[:0], b.Labels[:0]
	if labels {
		b.Labels = slices.Grow(b.Labels, rows)[:rows]
	}
	b.Bad, b.Why, b.Filtered, b.Bytes = 0, nil, 0, 0
	b.users.Store(1)
}

// drop leaves the rows out whose key or time is missing.
func (b *Batch) drop(missing []bool) {
	n := 0
	for i := range b.Times {
		if missing[i] {
			continue
		}
		if n != i {
			b.Key[n], b.Times[n] = b.Key[i], b.Times[i]
			copy(b.Row(n), b.Row(i))
			copy(b.RowAbsent(n), b.RowAbsent(i))
			if len(b.Labels) > 0 {
				b.Labels[n] = b.Labels[i]
			}
		}
		n++
	}
	b.cut(n)
}

// mayLack gives each row's values room for absent ones.
func (b *Batch) mayLack() {
	b.Absent = slices.Grow(b.Absent, len(b.Values))[:len(b.Values)]
	clear(b.Absent)
}

// cut leaves the first n rows.
func (b *Batch) cut(n int) {
	b.Key, b.Times, b.Values = b.Key[:n], b.Times[:n], b.Values[:n*b.Width]
	b.Absent, b.Labels = b.Absent[:min(len(b.Absent), n*b.Width)], b.Labels[:min(len(b.Labels), n)]
}

// File is an open file of rows.
type File interface {
	// Rows returns the number of rows, -1 if it is unknown before reading.
	Rows() int64
	// Bytes returns the size of the file.
	Bytes() int64
	// Read passes the batches of the file to emit, in order. Each has one user, which
	// emit takes over.
	Read(ctx context.Context, emit func(*Batch) error) error
	// Labelled reports whether the batches have labels.
	Labelled() bool
	Close() error
}

// Endings are the endings of the names of files that Open reads.
var Endings = []string{".csv", ".csv.gz", ".parquet", ".avro"}

// Open opens a file by the ending of its name. The error names the column that is
// missing, or has a type that holds no number, key or time, and the setting that names it.
func Open(path string, o Options) (f File, err error) {
	o.Workers = max(1, o.Workers)
	if o.Name == "" {
		o.Name = baseName(path)
	}
	switch {
	case hasEnding(path, ".csv", ".csv.gz"):
		f, err = openCSV(path, &o)
	case hasEnding(path, ".parquet"):
		f, err = openParquet(path, &o)
	case hasEnding(path, ".avro"):
		f, err = openAvro(path, &o)
	default:
		err = fmt.Errorf("the name ends with none of %s", strings.Join(Endings, ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("table: %s: %w", path, err)
	}
	return f, nil
}

func hasEnding(path string, endings ...string) bool {
	return slices.ContainsFunc(endings, func(e string) bool { return strings.HasSuffix(strings.ToLower(path), e) })
}

func baseName(path string) string {
	name := filepath.Base(path)
	for _, e := range Endings {
		if strings.HasSuffix(strings.ToLower(name), e) {
			return name[:len(name)-len(e)]
		}
	}
	return name
}

// List returns the files that the paths name, in order: a file as it is, of a folder
// all that Open reads, in the order of their names.
func List(paths []string) ([]string, error) {
	var files []string
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			return nil, fmt.Errorf("table: %w", err)
		}
		if !info.IsDir() {
			files = append(files, p)
			continue
		}
		n := len(files)
		err = filepath.WalkDir(p, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && hasEnding(path, Endings...) {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("table: %w", err)
		}
		if len(files) == n {
			return nil, fmt.Errorf("table: folder %s has no file that ends with %s", p, strings.Join(Endings, ", "))
		}
	}
	return files, nil
}

// expressionSettings are the settings that name columns in expressions.
const expressionSettings = "ODRADEK_ONLY_IF or ODRADEK_COMPUTE"

// tableColumns are the columns that a mapping names.
type tableColumns struct {
	key    []string // parts; none: the file's name
	time   string   // "": the number of the row
	values []string // "" for one that is computed
	label  string
	rows   *schemas.Rows // of expressions; nil without any
	uses   []string      // by them; "" for a column that the file lacks and may lack
}

// columnsOf finds the columns of a mapping among a file's columns. The error names every
// missing column.
func columnsOf(o *Options, have []string) (c tableColumns, err error) {
	var errs []error
	find := func(path, setting string) string {
		name := strings.ReplaceAll(path, `\`, "")
		if strings.Contains(name, "[") {
			errs = append(errs, fmt.Errorf("%s: %q is an array, which only Avro files have; name a column for each value", setting, path))
			return ""
		}
		if schemas.IsWildcard(path) {
			errs = append(errs, fmt.Errorf("%s: %q is for records; of a file with columns name each column, of %s", setting, path,
				strings.Join(have, ", ")))
			return ""
		}
		if !slices.Contains(have, name) {
			errs = append(errs, fmt.Errorf("no column %q (%s); the file has %s", name, setting, strings.Join(have, ", ")))
		}
		return name
	}
	first := func(names ...string) string {
		for _, n := range names {
			if slices.Contains(have, n) {
				return n
			}
		}
		return ""
	}
	m := &o.Mapping
	if o.Plain {
		c.values = m.Fields
		return c, nil
	}
	switch m.Key {
	case "", "@key":
		if k := first("key"); k != "" {
			c.key = []string{k}
		}
	case "@partition":
	default:
		for _, part := range strings.Split(m.Key, "+") {
			if part == "@key" || part == "@partition" || strings.HasPrefix(part, "@key.") {
				errs = append(errs, fmt.Errorf("ODRADEK_KEY_FIELD: %s belongs to a Kafka record, which a file does not have; name a column", part))
				continue
			}
			c.key = append(c.key, find(part, "ODRADEK_KEY_FIELD"))
		}
	}
	if m.Time == "" || m.Time == "@timestamp" {
		c.time = first("timestamp", "time")
	} else {
		c.time = find(m.Time, "ODRADEK_TIME_FIELD")
	}
	c.rows = m.Rows()
	for _, v := range m.Fields {
		if c.rows.Computes(v) {
			v = ""
		} else {
			v = find(v, "ODRADEK_VALUE_FIELDS")
		}
		c.values = append(c.values, v)
	}
	if c.rows != nil {
		for i, name := range c.rows.Columns {
			if c.rows.Optional[i] && !slices.Contains(have, name) {
				name = ""
			} else {
				name = find(name, expressionSettings)
			}
			c.uses = append(c.uses, name)
		}
	}
	if o.Label != "" {
		c.label = find(o.Label, "-label-field")
	}
	return c, errors.Join(errs...)
}

// maxKey is the longest series key that the worker takes, in bytes.
const maxKey = 8 << 10

// joinKey appends the parts of a series key as schemas.Mapping.Key defines it: one part as
// it is, several with '/' between them, which '\' escapes inside a part.
func joinKey(dst []byte, parts [][]byte) []byte {
	if len(parts) == 1 {
		return append(dst, parts[0]...)
	}
	for i, p := range parts {
		if i > 0 {
			dst = append(dst, '/')
		}
		for _, ch := range p {
			if ch == '/' || ch == '\\' {
				dst = append(dst, '\\')
			}
			dst = append(dst, ch)
		}
	}
	return dst
}

// units are the microseconds of a unit of time; a nanosecond is less than one.
var units = map[string]float64{"s": 1e6, "": 1e3, "auto": 1e3, "ms": 1e3, "us": 1, "ns": 1e-3}

// micros converts a number in a unit of time to microseconds.
func micros(v int64, unit string) (int64, bool) {
	switch unit {
	case "us":
		return v, true
	case "ns":
		if v < 0 && v%1000 != 0 {
			return v/1000 - 1, true
		}
		return v / 1000, true
	}
	f := int64(units[unit])
	r := v * f
	return r, r/f == v
}

// microsOf is micros for a number with a fraction.
func microsOf(v float64, unit string) (int64, bool) {
	v *= units[unit]
	return int64(math.Round(v)), math.Abs(v) < 1<<62
}

// expectedTimes are those that a number without a unit is expected to be, in microseconds: of the years 2000 to 2099.
var expectedTimes = [2]float64{946_684_800e6, 4_102_444_800e6}

// guessUnit returns the unit in which a number is a time of these years; "": in none.
func guessUnit(s string) string {
	v, err := strconv.ParseFloat(s, 64)
	for _, unit := range []string{"s", "ms", "us", "ns"} {
		if t := v * units[unit]; err == nil && t >= expectedTimes[0] && t < expectedTimes[1] {
			return unit
		}
	}
	return ""
}

// utc reads texts as the worker does, in UTC where they have no offset.
var utc = schemas.Mapping{TimeZone: "UTC"}.Texts()

// parseTime reads a time: a number in the unit, or a text. Without texts it is one that utc reads; where texts have a layout, numbers are
// of that layout, too.
func parseTime(s, unit string, texts *schemas.TimeText) (int64, error) {
	if texts.HasLayout() {
		return textTime(s, texts)
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		if t, ok := micros(n, unit); ok {
			return t, nil
		}
		return 0, fmt.Errorf("%q is beyond the range of times", s)
	}
	if texts == nil {
		if t, err := time.Parse(time.DateTime, s); err == nil { // most tables have these
			return t.UnixMicro(), nil
		}
		texts = utc
	}
	if t, err := textTime(s, texts); err == nil {
		return t, nil
	}
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		if t, ok := microsOf(f, unit); ok {
			return t, nil
		}
	}
	return 0, fmt.Errorf("%q is not a time: use RFC 3339, 2006-01-02 15:04:05 or a number (ODRADEK_TIME_UNIT)", s)
}

func textTime(s string, texts *schemas.TimeText) (int64, error) {
	t, wrong := texts.Micros([]byte(s))
	if wrong != schemas.FaultNone {
		return 0, fmt.Errorf("%q is not a time as ODRADEK_TIME_ZONE and ODRADEK_TIME_LAYOUT have it", s)
	}
	return t, nil
}
