package table

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"

	"odradek/schemas/avro"
)

// Kind is the type of a column that is written.
type Kind uint8

// The kinds of columns. A Time is microseconds since the epoch; a Number that is NaN is
// null.
const (
	Text Kind = iota
	Time
	Whole
	Number
	Truth
)

// Column is a column of a written table. A column with few distinct texts is marked as such.
type Column struct {
	Name string
	Kind Kind
	Few  bool
}

// Value is a value of a row, in the field of its column's kind.
type Value struct {
	Text   string
	Whole  int64 // also of a Time
	Number float64
	Truth  bool
}

// Writer writes a table. It is not safe for concurrent use.
type Writer struct {
	path    string
	f       *os.File
	columns []Column
	form    form
}

// form is a format of rows.
type form interface {
	row(values []Value) error
	close() error
}

// Create makes a file and writes in the format that the ending of its name says: .csv,
// .parquet or .avro. An existing file is overwritten.
func Create(path, name string, columns []Column) (*Writer, error) {
	if !hasEnding(path, ".csv", ".parquet", ".avro") {
		return nil, fmt.Errorf("table: %s: the name of a table has to end with .csv, .parquet or .avro", path)
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("table: %w", err)
	}
	w := &Writer{path: path, f: f, columns: columns}
	out := bufio.NewWriterSize(f, 1<<18)
	switch {
	case hasEnding(path, ".csv"):
		w.form = newCSVForm(out, columns)
	case hasEnding(path, ".avro"):
		w.form, err = newAvroForm(out, name, columns)
	default:
		w.form = newParquetForm(out, name, columns)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("table: %s: %w", path, err)
	}
	return w, nil
}

// Row writes a row, with a value for each column.
func (w *Writer) Row(values []Value) error {
	if err := w.form.row(values); err != nil {
		return fmt.Errorf("table: write %s: %w", w.path, err)
	}
	return nil
}

// Close writes the remaining rows and closes the file.
func (w *Writer) Close() error {
	if err := errors.Join(w.form.close(), w.f.Close()); err != nil {
		return fmt.Errorf("table: write %s: %w", w.path, err)
	}
	return nil
}

type csvForm struct {
	out     *bufio.Writer
	columns []Column
	line    []byte
}

func newCSVForm(out *bufio.Writer, columns []Column) *csvForm {
	c := &csvForm{out: out, columns: columns}
	for i := range columns {
		if i > 0 {
			c.line = append(c.line, ',')
		}
		c.line = append(c.line, columns[i].Name...)
	}
	c.line = append(c.line, '\n')
	return c
}

func (c *csvForm) row(values []Value) error {
	for i := range values {
		if i > 0 {
			c.line = append(c.line, ',')
		}
		v := &values[i]
		switch c.columns[i].Kind {
		case Text:
			c.line = appendCSV(c.line, v.Text)
		case Time:
			c.line = time.UnixMicro(v.Whole).UTC().AppendFormat(c.line, time.RFC3339Nano)
		case Whole:
			c.line = strconv.AppendInt(c.line, v.Whole, 10)
		case Number:
			if v.Number == v.Number {
				c.line = strconv.AppendFloat(c.line, v.Number, 'g', -1, 64)
			}
		case Truth:
			c.line = strconv.AppendBool(c.line, v.Truth)
		}
	}
	c.line = append(c.line, '\n')
	_, err := c.out.Write(c.line)
	c.line = c.line[:0]
	return err
}

func (c *csvForm) close() error {
	_, err := c.out.Write(c.line) // the first line, of a table without rows
	return errors.Join(err, c.out.Flush())
}

func appendCSV(dst []byte, s string) []byte {
	if !strings.ContainsAny(s, "\",\n\r") && (s == "" || s[0] != ' ') {
		return append(dst, s...)
	}
	dst = append(dst, '"')
	dst = append(dst, strings.ReplaceAll(s, `"`, `""`)...)
	return append(dst, '"')
}

type avroForm struct {
	out     *bufio.Writer
	w       *avro.ContainerWriter
	columns []Column
}

func newAvroForm(out *bufio.Writer, name string, columns []Column) (*avroForm, error) {
	types := map[Kind]any{
		Text: "string", Time: map[string]string{"type": "long", "logicalType": "timestamp-micros"}, Whole: "long",
		Number: []string{"null", "double"}, Truth: "boolean",
	}
	var fields []map[string]any
	for _, c := range columns {
		fields = append(fields, map[string]any{"name": c.Name, "type": types[c.Kind]})
	}
	schema, err := json.Marshal(map[string]any{"type": "record", "name": name, "namespace": "io.odradek", "fields": fields})
	if err != nil {
		return nil, err
	}
	w, err := avro.NewContainerWriter(out, string(schema))
	return &avroForm{out, w, columns}, err
}

func (a *avroForm) row(values []Value) error {
	return a.w.Append(func(dst []byte) []byte {
		for i := range values {
			v := &values[i]
			switch a.columns[i].Kind {
			case Text:
				dst = avro.AppendText(dst, v.Text)
			case Time, Whole:
				dst = avro.AppendLong(dst, v.Whole)
			case Number:
				dst = avro.AppendOptional(dst, v.Number)
			case Truth:
				dst = avro.AppendBool(dst, v.Truth)
			}
		}
		return dst
	})
}

func (a *avroForm) close() error { return errors.Join(a.w.Flush(), a.out.Flush()) }

type parquetForm struct {
	out     *bufio.Writer
	w       *parquet.GenericWriter[any]
	columns []Column
	at      []int // place of each column in the schema, which orders them by name
	rows    []parquet.Row
}

// parquetBatch is the number of rows passed to the library at a time, parquetGroup the number of rows of a
// row group.
const (
	parquetBatch = 1024
	parquetGroup = 1 << 20
)

func newParquetForm(out io.Writer, name string, columns []Column) *parquetForm {
	group := parquet.Group{}
	for _, c := range columns {
		var n parquet.Node
		switch c.Kind {
		case Text:
			if n = parquet.String(); c.Few {
				n = parquet.Encoded(n, &parquet.RLEDictionary)
			}
		case Time:
			n = parquet.Encoded(parquet.Timestamp(parquet.Microsecond), &parquet.DeltaBinaryPacked)
		case Whole:
			n = parquet.Encoded(parquet.Int(64), &parquet.DeltaBinaryPacked)
		case Number:
			n = parquet.Optional(parquet.Leaf(parquet.DoubleType))
		case Truth:
			n = parquet.Leaf(parquet.BooleanType)
		}
		group[c.Name] = n
	}
	schema := parquet.NewSchema(name, group)
	buffered, ok := out.(*bufio.Writer)
	if !ok {
		buffered = bufio.NewWriter(out)
	}
	p := &parquetForm{out: buffered, columns: columns,
		w: parquet.NewGenericWriter[any](buffered, schema, parquet.Compression(&parquet.Zstd), parquet.MaxRowsPerRowGroup(parquetGroup))}
	for _, c := range columns {
		leaf, _ := schema.Lookup(c.Name)
		p.at = append(p.at, leaf.ColumnIndex)
	}
	return p
}

func (p *parquetForm) row(values []Value) error {
	row := make(parquet.Row, len(values))
	for i := range values {
		v, at := &values[i], p.at[i]
		switch p.columns[i].Kind {
		case Text:
			row[at] = parquet.ByteArrayValue([]byte(v.Text)).Level(0, 0, at)
		case Time, Whole:
			row[at] = parquet.Int64Value(v.Whole).Level(0, 0, at)
		case Number:
			if v.Number == v.Number {
				row[at] = parquet.DoubleValue(v.Number).Level(0, 1, at)
			} else {
				row[at] = parquet.NullValue().Level(0, 0, at)
			}
		case Truth:
			row[at] = parquet.BooleanValue(v.Truth).Level(0, 0, at)
		}
	}
	if p.rows = append(p.rows, row); len(p.rows) < parquetBatch {
		return nil
	}
	return p.flush()
}

func (p *parquetForm) flush() error {
	_, err := p.w.WriteRows(p.rows)
	p.rows = p.rows[:0]
	return err
}

func (p *parquetForm) close() error { return errors.Join(p.flush(), p.w.Close(), p.out.Flush()) }
