package table

import (
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"odradek/schemas"
	"odradek/schemas/avro"
)

// Numbers are columns of numbers of a file, in memory.
type Numbers struct {
	Path  string
	Names []string  // of the columns
	X     []float64 // a value for each column, row after row; NaN where a row has no finite number
	// LeftOut says of each column that was not asked for by name why it is not read.
	LeftOut []string

	flag string
	rows []int64 // by row of X, the row of the file, from 0; nil: they are the same
	have []string
}

// NumberOptions say what to read.
type NumberOptions struct {
	Columns []string // by name, in this order; none: all columns of numbers but one of times
	// Memory is the number of bytes that the rows may take, at RowBytes each; 0: there is no limit.
	Memory   int64
	RowBytes func(columns int) int64 // nil: 8 bytes a column
	Workers  int                     // goroutines that decode; 0: one
	Progress *Progress               // nil: nobody looks
	Flag     string                  // of the command, that names columns; "": -columns
}

// firstRows is the number of rows of a CSV file by which columns of numbers are known from others.
const firstRows = 1000

// column is a column of a file.
type column struct {
	name string
	why  string // it holds no numbers; "": it does
}

// ReadNumbers reads columns of numbers. An error names the file, the column and the row, and what can be done.
func ReadNumbers(ctx context.Context, path string, o NumberOptions) (*Numbers, error) {
	columns, err := columnsOnce(path)
	if err != nil {
		return nil, fmt.Errorf("table: %s: %w", path, err)
	}
	n := &Numbers{Path: path, flag: cmp.Or(o.Flag, "-columns")}
	if err := n.choose(columns, o.Columns); err != nil {
		return nil, fmt.Errorf("table: %s: %w", path, err)
	}
	f, err := Open(path, Options{Mapping: schemas.Mapping{Fields: n.Names}, Plain: true, Workers: o.Workers})
	if err != nil {
		return nil, err
	}
	err = n.read(ctx, f, &o)
	return n, errors.Join(err, f.Close())
}

// choose sets the names of the columns to be read.
func (n *Numbers) choose(columns []column, asked []string) error {
	for _, c := range columns {
		switch {
		case c.why == "":
			n.have = append(n.have, c.name)
		case len(asked) == 0:
			n.LeftOut = append(n.LeftOut, fmt.Sprintf("column %s: %s", c.name, c.why))
		}
	}
	if len(asked) == 0 {
		for _, name := range n.have {
			if name == "time" || name == "timestamp" {
				n.LeftOut = append(n.LeftOut, fmt.Sprintf("column %s: it names a time; %s takes it", name, n.flag))
				continue
			}
			n.Names = append(n.Names, name)
		}
		if len(n.Names) == 0 {
			return fmt.Errorf("there is no column of numbers: %s", strings.Join(n.LeftOut, "; "))
		}
		return nil
	}
	var errs []error
	for i, name := range asked {
		at := slices.IndexFunc(columns, func(c column) bool { return c.name == name })
		switch {
		case slices.Contains(asked[:i], name):
			errs = append(errs, fmt.Errorf("column %q is named twice", name))
		case at < 0:
			errs = append(errs, fmt.Errorf("there is no column %q; %s", name, n.numbers()))
		case columns[at].why != "":
			errs = append(errs, fmt.Errorf("column %q: %s; %s", name, columns[at].why, n.numbers()))
		}
	}
	n.Names = slices.Clone(asked)
	return errors.Join(errs...)
}

// numbers names the columns of numbers that a file has.
func (n *Numbers) numbers() string {
	if len(n.have) == 0 {
		return "the file has no column of numbers"
	}
	return "columns of numbers are " + strings.Join(n.have, ", ")
}

func (n *Numbers) read(ctx context.Context, f File, o *NumberOptions) error {
	width, most := len(n.Names), int64(math.MaxInt64)
	rowBytes := int64(8 * width)
	if o.RowBytes != nil {
		rowBytes = o.RowBytes(width)
	}
	if o.Memory > 0 {
		most = o.Memory / rowBytes
	}
	tooMany := func(rows string) error {
		return fmt.Errorf("table: %s: %s take more than %d MiB, at %d bytes a row: name fewer columns with %s, allow more with -memory, "+
			"or take fewer rows", n.Path, rows, o.Memory>>20, rowBytes, n.flag)
	}
	rows := f.Rows()
	if rows > most {
		return tooMany(fmt.Sprintf("%d rows", rows))
	}
	if rows > 0 {
		n.X = make([]float64, 0, rows*int64(width))
	}
	if o.Progress != nil {
		o.Progress.Total.Store(f.Bytes())
	}
	return f.Read(ctx, func(b *Batch) error {
		defer b.Release()
		if b.Bad > 0 {
			return fmt.Errorf("table: %s: %s: correct it, or name other columns with %s; %s", n.Path, b.Why[0], n.flag, n.numbers())
		}
		if len(n.X)+len(b.Values) > cap(n.X) && b.Bytes > 0 { // as many more rows as the rest of the file has, about
			all := float64(len(n.X)+len(b.Values)) * max(1, float64(f.Bytes())/float64(b.Bytes))
			n.X = slices.Grow(n.X, int(min(all*1.02, float64(most)*float64(width)))-len(n.X)+len(b.Values))
		}
		n.X = append(n.X, b.Values...)
		if int64(n.Rows()) > most {
			return tooMany(fmt.Sprintf("more than %d rows", most))
		}
		if o.Progress != nil {
			o.Progress.Rows.Add(int64(b.Len()))
			o.Progress.Done.Store(b.Bytes)
		}
		for i, v := range n.X[len(n.X)-len(b.Values):] {
			if math.IsInf(v, 0) {
				n.X[len(n.X)-len(b.Values)+i] = math.NaN()
			}
		}
		return nil
	})
}

// Rows returns the number of rows.
func (n *Numbers) Rows() int { return len(n.X) / len(n.Names) }

// Row returns the values of row i.
func (n *Numbers) Row(i int) []float64 { return n.X[i*len(n.Names) : (i+1)*len(n.Names)] }

// Number returns the number of row i in the file: the first row has 1.
func (n *Numbers) Number(i int) int64 {
	if n.rows == nil {
		return int64(i) + 1
	}
	return n.rows[i] + 1
}

// Complete returns an error that names the first row and column without a finite number; nil if all rows are complete.
func (n *Numbers) Complete() error {
	width, missing, column := len(n.Names), 0, 0
	first := int64(-1)
	for i := range n.Rows() {
		if c := slices.IndexFunc(n.Row(i), math.IsNaN); c >= 0 {
			if missing++; first < 0 {
				first, column = n.Number(i), c
			}
		}
	}
	if missing == 0 {
		return nil
	}
	what := "name other columns with " + n.flag
	if width == 1 {
		what = "fill it in"
	}
	return fmt.Errorf("table: %s: row %d, column %s has no finite number, as %d of %d rows: -missing skip leaves these rows out, or %s",
		n.Path, first, n.Names[column], missing, n.Rows(), what)
}

// Skip leaves out the rows without a finite number in some column, and returns how many these are.
func (n *Numbers) Skip() (left int) {
	width, all := len(n.Names), n.Rows()
	kept := 0
	for i := range all {
		row := n.Row(i)
		if slices.ContainsFunc(row, math.IsNaN) {
			if n.rows == nil {
				n.rows = make([]int64, 0, all)
				for k := range kept {
					n.rows = append(n.rows, int64(k))
				}
			}
			continue
		}
		if kept < i {
			copy(n.X[kept*width:], row)
			n.rows = append(n.rows, int64(i))
		}
		kept++
	}
	n.X = n.X[:kept*width]
	return all - kept
}

// columnsOnce lists the columns of a file. Columns of one name cannot be told apart, and are no columns of numbers.
func columnsOnce(path string) ([]column, error) {
	list, err := columnsIn(path)
	seen := map[string]int{}
	for _, c := range list {
		seen[c.name]++
	}
	for i, c := range list {
		if seen[c.name] > 1 && c.name != "" {
			list[i].why = fmt.Sprintf("%d columns have this name: rename them", seen[c.name])
		}
	}
	return list, err
}

// columnsIn lists the columns of a file. The columns of a CSV file are known by its first rows.
func columnsIn(path string) ([]column, error) {
	switch {
	case hasEnding(path, ".csv", ".csv.gz"):
		return csvColumns(path)
	case hasEnding(path, ".parquet"):
		return parquetColumns(path)
	case hasEnding(path, ".avro"):
		return avroColumns(path)
	}
	return nil, fmt.Errorf("the name ends with none of %s", strings.Join(Endings, ", "))
}

func csvColumns(path string) (list []column, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	c := &csvFile{f: f, o: &Options{Plain: true}, time: -1, label: -1}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := c.open(path); err != nil {
		return nil, err
	}
	numbers := 0
	for _, name := range c.head {
		if _, err := parseNumber(name); err == nil && name != "" {
			numbers++
		}
		list = append(list, column{name: name})
	}
	if numbers == len(list) {
		return nil, errors.New("the first line has numbers: put a line with the names of the columns before it")
	}
	texts, seen := make([]int, len(list)), make([]bool, len(list))
	var broken *csv.ParseError
	row := 1
	for ; row <= firstRows; row++ {
		rec, err := c.r.Read()
		if errors.As(err, &broken) {
			continue // reading says which row it is
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, cutOff(err)
		}
		for i := range list {
			text := field(rec, i)
			v, err := parseNumber(text)
			seen[i] = seen[i] || err == nil && v == v
			if err != nil {
				if texts[i]++; texts[i] == 1 {
					list[i].why = fmt.Sprintf("row %d has the text %q", row, text)
				}
			}
		}
	}
	for i := range list {
		switch {
		case list[i].name == "":
			list[i].why = "it has no name"
		case seen[i] && 10*texts[i] < row: // a column of numbers with a few texts, which reading refuses by row
			list[i].why = ""
		case row == 1:
			list[i].why = "the file has no row"
		case !seen[i] && list[i].why == "":
			list[i].why = fmt.Sprintf("the first %d rows have no number in it", row-1)
		}
	}
	if len(list) == 1 && list[0].why != "" && strings.ContainsAny(list[0].name, ";\t") {
		list[0].why += "; separate columns by commas"
	}
	return list, nil
}

func parquetColumns(path string) (list []column, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	file, err := parquet.OpenFile(f, info.Size(), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, fmt.Errorf("this is no Parquet file, or its end is missing: %w", err)
	}
	schema := file.Schema()
	for _, path := range schema.Columns() {
		c := column{name: strings.Join(path, ".")}
		leaf, ok := schema.Lookup(path...)
		switch {
		case !ok:
			c.why = "it has no values"
		case leaf.MaxRepetitionLevel > 0:
			c.why = "it has a list in each row"
		case (!has(numberKinds, leaf.Node.Type().Kind()) || !plain(leaf.Node)) && decimal(leaf.Node) == nil:
			c.why = "it is of type " + leaf.Node.Type().String()
		default:
			switch logical(leaf.Node).(type) {
			case *format.TimestampType, *format.DateType, *format.TimeType:
				c.why = "it has times, of type " + leaf.Node.Type().String()
			}
		}
		list = append(list, c)
	}
	return list, nil
}

func avroColumns(path string) (list []column, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r, err := avro.NewContainerReader(f)
	if err != nil {
		return nil, err
	}
	var schema struct {
		Fields []struct {
			Name string `json:"name"`
			Type any    `json:"type"`
		} `json:"fields"`
	}
	if err := json.Unmarshal([]byte(r.Schema), &schema); err != nil {
		return nil, err
	}
	for _, field := range schema.Fields {
		name := field.Name
		c := column{name: name}
		if isTime(field.Type) {
			c.why = "it has times"
		} else if _, err := avro.NewRunDecoder(schemas.Mapping{Key: "@key", Time: "@timestamp", Fields: []string{name}}, r.Schema); err != nil {
			c.why = "it has no numbers"
		}
		list = append(list, c)
	}
	return list, nil
}

// isTime reports whether an Avro type is a time or a union with one.
func isTime(schema any) bool {
	switch s := schema.(type) {
	case []any:
		return slices.ContainsFunc(s, isTime)
	case map[string]any:
		logical, _ := s["logicalType"].(string)
		return strings.HasPrefix(logical, "time") || strings.HasPrefix(logical, "local-time") || logical == "date" || isTime(s["type"])
	}
	return false
}

// NumberColumns returns the names of the columns of numbers of a file. That there is none is an error, which says why.
func NumberColumns(path string) ([]string, error) {
	columns, err := columnsOnce(path)
	if err != nil {
		return nil, fmt.Errorf("table: %s: %w", path, err)
	}
	var n Numbers
	if err := n.choose(columns, nil); err != nil && len(n.have) == 0 {
		return nil, fmt.Errorf("table: %s: %w", path, err)
	}
	return n.have, nil
}
