package table

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"odradek/schemas"
)

// csvRows is the number of rows of a batch of a CSV file.
const csvRows = 1 << 14

// csvFile is a CSV file, compressed by gzip or not, whose first line names the columns.
type csvFile struct {
	f        *os.File
	position counter   // in f
	in       io.Reader // f, decompressed
	r        *csv.Reader
	o        *Options
	size     int64    // bytes of f
	head     []string // the names of the columns
	columns  tableColumns
	key      []int // indices of the columns of the series key
	time     int   // index of the column; -1: the row number stands for the time
	values   []int // indices of the columns
	label    int   // index of the column; -1: there is none
	uses     []int // indices of the columns that expressions use; -1: there is none
	texts    *schemas.TimeText
	unit     string // of times that are numbers
}

// guess finds the unit of times from the first one that can be read, where none is set.
func (c *csvFile) guess(first string) {
	if c.unit != "auto" && c.unit != "" {
		return
	}
	unit := guessUnit(first)
	if _, err := parseTime(first, "ms", c.texts); unit == "" && err != nil {
		return
	}
	if c.unit = "ms"; unit == "" || unit == "ms" || c.texts.HasLayout() {
		return
	}
	if c.unit = unit; c.o.Note != nil {
		c.o.Note(fmt.Sprintf("column %s: numbers such as %s are taken for times in %s; ODRADEK_TIME_UNIT names another unit", c.columns.time,
			first, unit))
	}
}

// counter counts the bytes read through it.
type counter struct {
	io.Reader
	n int64
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.n += int64(n)
	return n, err
}

func openCSV(path string, o *Options) (File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	c := &csvFile{f: f, o: o, time: -1, label: -1, texts: o.Mapping.Texts(), unit: o.Mapping.TimeUnit}
	if err := c.open(path); err != nil {
		f.Close()
		return nil, err
	}
	return c, nil
}

// WithoutMark returns the text of a CSV file without a byte order mark, and an error where it is not in UTF-8.
func WithoutMark(r io.Reader) (io.Reader, error) {
	text := bufio.NewReader(r)
	first, err := text.Peek(3)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, err
	case bytes.HasPrefix(first, []byte("\ufeff")):
		_, err := text.Discard(3)
		return text, err
	case bytes.HasPrefix(first, []byte("\xff\xfe")), bytes.HasPrefix(first, []byte("\xfe\xff")), bytes.IndexByte(first, 0) >= 0:
		return nil, errors.New("the text is in UTF-16: write the file in UTF-8")
	}
	return text, nil
}

var errEmpty = errors.New("the file is empty: its first line has to name the columns")

// cutOff says of an end that comes too early that the compressed file lacks its own.
func cutOff(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the end of the compressed file is missing: %w", err)
	}
	return err
}

func (c *csvFile) open(path string) error {
	info, err := c.f.Stat()
	if err != nil {
		return err
	}
	c.size = info.Size()
	c.position = counter{Reader: c.f}
	c.in = &c.position
	if hasEnding(path, ".gz") {
		switch c.in, err = gzip.NewReader(&c.position); {
		case errors.Is(err, io.EOF):
			return errEmpty
		case err != nil:
			return fmt.Errorf("this is no file compressed by gzip: %w", err)
		}
	}
	if c.in, err = WithoutMark(c.in); err != nil {
		return cutOff(err)
	}
	c.r = csv.NewReader(c.in)
	c.r.ReuseRecord = true
	c.r.FieldsPerRecord = -1
	head, err := c.r.Read()
	if errors.Is(err, io.EOF) {
		return errEmpty
	}
	if err != nil {
		return cutOff(err)
	}
	head = slices.Clone(head)
	for i := range head {
		head[i] = strings.TrimSpace(head[i])
	}
	c.head = head
	if c.columns, err = columnsOf(c.o, head); err != nil {
		return err
	}
	for _, k := range c.columns.key {
		c.key = append(c.key, slices.Index(head, k))
	}
	if c.columns.time != "" {
		c.time = slices.Index(head, c.columns.time)
	}
	for _, v := range c.columns.values {
		c.values = append(c.values, slices.Index(head, v))
	}
	for _, u := range c.columns.uses {
		c.uses = append(c.uses, slices.Index(head, u))
	}
	if c.columns.label != "" {
		c.label = slices.Index(head, c.columns.label)
	}
	return nil
}

func (c *csvFile) Rows() int64    { return -1 }
func (c *csvFile) Bytes() int64   { return c.size }
func (c *csvFile) Labelled() bool { return c.label >= 0 }
func (c *csvFile) Close() error   { return c.f.Close() }

func (c *csvFile) Read(ctx context.Context, emit func(*Batch) error) error {
	pool := &sync.Pool{New: func() any { return new(Batch) }}
	for row, more := int64(0), true; more; {
		if err := ctx.Err(); err != nil {
			return err
		}
		b := pool.Get().(*Batch)
		b.pool, b.leftOut = pool, c.o.LeftOut
		b.reset(csvRows, len(c.values), c.label >= 0)
		if c.columns.rows != nil {
			b.mayLack()
		}
		var err error
		if row, more, err = c.fill(b, row); err != nil {
			return fmt.Errorf("table: %s: %w", c.f.Name(), err)
		}
		b.Bytes = c.position.n
		if b.Len() == 0 && b.Bad == 0 && b.Filtered == 0 {
			continue
		}
		if err := emit(b); err != nil {
			return err
		}
	}
	return nil
}

// fill reads rows into the batch; row is the number of those before it. It returns the number of rows read so far, and
// whether there may be more.
func (c *csvFile) fill(b *Batch, row int64) (rows int64, more bool, err error) {
	index := map[string]uint32{}
	var parts [][]byte
	var text []byte
	n := 0
	more = true
	for n < csvRows && b.Bad < csvRows && b.Filtered < csvRows {
		rec, err := c.r.Read()
		var broken *csv.ParseError
		switch {
		case errors.Is(err, io.EOF):
			more = false
		case errors.As(err, &broken):
			row++
			b.bad(row, "1", err)
			continue
		case err != nil:
			return row, false, cutOff(err)
		}
		if !more {
			break
		}
		row++
		if at := c.beyond(rec); at > 0 {
			b.bad(row, strconv.Itoa(at+1), fmt.Errorf("%q is beyond the columns that the first line names; a comma in a number needs quotes",
				rec[at]))
			continue
		}
		if rows := c.columns.rows; rows != nil {
			for i, u := range c.uses {
				if u >= 0 {
					rows.SetText(i, field(rec, u))
				}
			}
			holds, err := rows.Holds()
			if err != nil {
				b.bad(row, strings.Join(c.columns.uses, "+"), err)
				continue
			}
			if !holds {
				b.filter(row)
				continue
			}
		}
		text = text[:0]
		if len(c.key) == 0 {
			text = append(text, c.o.Name...)
		} else {
			parts = parts[:0]
			for _, k := range c.key {
				if f := field(rec, k); f != "" {
					parts = append(parts, []byte(f))
				}
			}
			if len(parts) < len(c.key) {
				b.bad(row, strings.Join(c.columns.key, "+"), errors.New("the series key is empty"))
				continue
			}
			text = joinKey(text, parts)
		}
		if len(text) > maxKey {
			b.bad(row, strings.Join(c.columns.key, "+"), fmt.Errorf("the series key has %d bytes, %d at most", len(text), maxKey))
			continue
		}
		t := (row - 1) * 1e6
		if c.time >= 0 {
			c.guess(field(rec, c.time))
			if t, err = parseTime(field(rec, c.time), c.unit, c.texts); err != nil {
				b.bad(row, c.columns.time, err)
				continue
			}
		}
		bad := false
		for j, v := range c.values {
			if v < 0 {
				continue
			}
			x, err := parseNumber(field(rec, v))
			if err != nil {
				b.bad(row, c.columns.values[j], err)
				bad = true
				break
			}
			b.Values[n*b.Width+j] = x
		}
		if rows := c.columns.rows; rows != nil && !bad {
			if err := rows.Compute(b.Row(n), b.RowAbsent(n)); err != nil {
				b.bad(row, strings.Join(c.columns.uses, "+"), err)
				bad = true
			}
		}
		if bad {
			continue
		}
		if c.label >= 0 {
			b.Labels[n] = parseLabel(field(rec, c.label))
		}
		at, ok := index[string(text)]
		if !ok {
			at = uint32(len(b.Keys))
			b.Keys = append(b.Keys, slices.Clone(text))
			index[string(text)] = at
		}
		b.Key[n], b.Times[n] = at, t
		n++
	}
	b.cut(n)
	return row, more, nil
}

// beyond returns the index of the first field of a plain table's row that has a text and no name; 0: there is none.
func (c *csvFile) beyond(rec []string) int {
	for i := len(c.head); c.o.Plain && i < len(rec); i++ {
		if field(rec, i) != "" {
			return i
		}
	}
	return 0
}

// field returns a row's field, trimmed; empty where the row is too short.
func field(rec []string, i int) string {
	if i >= len(rec) {
		return ""
	}
	return strings.TrimSpace(rec[i])
}

// parseNumber reads a value; an empty one, null and NaN are missing.
func parseNumber(s string) (float64, error) {
	switch s {
	case "", "null", "NULL", "NaN", "nan":
		return math.NaN(), nil
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number", s)
	}
	return v, nil
}

// parseLabel reads a label: true unless it is empty, zero, null, NaN, or no in words.
func parseLabel(s string) bool {
	switch strings.ToLower(s) {
	case "", "0", "0.0", "false", "no", "null", "nan":
		return false
	}
	return true
}
