package table

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"odradek/schemas"
	"odradek/schemas/expression"
)

// numberKinds are the kinds of columns of numbers.
var numberKinds = []parquet.Kind{parquet.Double, parquet.Float, parquet.Int64, parquet.Int32, parquet.Boolean}

// parquetRows is the number of rows of a row group that are decoded at a time.
const parquetRows = 1 << 17

type parquetFile struct {
	f       *os.File
	o       *Options
	file    *parquet.File
	size    int64
	columns tableColumns
	key     []leaf
	time    leaf
	values  []leaf
	label   leaf
	uses    []leaf // by expressions
}

// leaf is a column of numbers or texts.
type leaf struct {
	name   string
	at     int  // index of the column; -1: none
	maxDef byte // definition level of a value that is not null
	node   parquet.Node
	unit   string            // of a time
	texts  *schemas.TimeText // of a time that is a text, where the mapping has a zone or a layout
}

func openParquet(path string, o *Options) (File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	p := &parquetFile{f: f, o: o}
	if err := p.open(); err != nil {
		f.Close()
		return nil, err
	}
	return p, nil
}

func (p *parquetFile) open() error {
	info, err := p.f.Stat()
	if err != nil {
		return err
	}
	p.size = info.Size()
	if p.file, err = parquet.OpenFile(p.f, p.size, parquet.SkipBloomFilters(true)); err != nil {
		return fmt.Errorf("this is no Parquet file, or its end is missing: %w", err)
	}
	schema := p.file.Schema()
	var have []string
	paths := map[string][]string{}
	for _, path := range schema.Columns() {
		name := strings.Join(path, ".")
		have = append(have, name)
		paths[name] = path
	}
	if p.columns, err = columnsOf(p.o, have); err != nil {
		return err
	}
	var errs []error
	find := func(name, setting string, decimals bool, kinds ...parquet.Kind) leaf {
		l := leaf{name: name, at: -1}
		if name == "" {
			return l
		}
		col, ok := schema.Lookup(paths[name]...)
		var fault string
		switch {
		case !ok:
			fault = "is no column of values"
		case col.MaxRepetitionLevel > 0:
			fault = "has a list in each row"
		default:
			l.at, l.maxDef, l.node = col.ColumnIndex, byte(col.MaxDefinitionLevel), col.Node
			fault = "is of type " + col.Node.Type().String()
			if has(kinds, col.Node.Type().Kind()) && plain(col.Node) || decimals && decimal(col.Node) != nil {
				fault = ""
			}
		}
		if fault != "" {
			errs = append(errs, fmt.Errorf("column %q %s, which %s does not take", name, fault, setting))
		}
		return l
	}
	for _, k := range p.columns.key {
		p.key = append(p.key, find(k, "ODRADEK_KEY_FIELD", false, parquet.ByteArray, parquet.FixedLenByteArray, parquet.Int64, parquet.Int32))
	}
	p.time = find(p.columns.time, "ODRADEK_TIME_FIELD", false, parquet.Int64, parquet.Int32, parquet.Double, parquet.Int96,
		parquet.ByteArray)
	p.time.unit, p.time.texts = p.o.Mapping.TimeUnit, p.o.Mapping.Texts()
	if p.time.node != nil {
		p.time.unit = timeUnit(p.time.node, p.time.unit)
	}
	kinds := numberKinds
	if p.o.Mapping.TextNumbers {
		kinds = append(slices.Clone(numberKinds), parquet.ByteArray)
	}
	for _, v := range p.columns.values {
		p.values = append(p.values, find(v, "ODRADEK_VALUE_FIELDS", true, kinds...))
	}
	for _, u := range p.columns.uses {
		texts := []parquet.Kind{parquet.ByteArray, parquet.FixedLenByteArray}
		p.uses = append(p.uses, find(u, expressionSettings, false, append(texts, numberKinds...)...))
	}
	p.label = find(p.columns.label, "-label-field", false, numberKinds...)
	return errors.Join(errs...)
}

func has(kinds []parquet.Kind, k parquet.Kind) bool {
	for _, o := range kinds {
		if o == k {
			return true
		}
	}
	return false
}

// logical returns the logical type of a column; nil for none.
func logical(n parquet.Node) format.LogicalTypeValue {
	if lt := n.Type().LogicalType(); lt != nil {
		return lt.Value
	}
	return nil
}

// decimal returns the type of a column of decimals; nil: it is of another type.
func decimal(n parquet.Node) *format.DecimalType {
	d, _ := logical(n).(*format.DecimalType)
	return d
}

// plain reports whether the physical type determines the values, or nearly so.
func plain(n parquet.Node) bool {
	switch logical(n).(type) {
	case *format.DecimalType, *format.Float16Type:
		return false
	}
	return true
}

// timeUnit returns the unit of a column of times: its logical type's, or else the one set.
func timeUnit(n parquet.Node, set string) string {
	switch lt := logical(n).(type) {
	case *format.DateType:
		return "day"
	case *format.TimestampType:
		switch lt.Unit.Value.(type) {
		case *format.MilliSeconds:
			return "ms"
		case *format.MicroSeconds:
			return "us"
		}
		return "ns"
	}
	return set
}

func (p *parquetFile) Rows() int64    { return p.file.NumRows() }
func (p *parquetFile) Bytes() int64   { return p.size }
func (p *parquetFile) Labelled() bool { return p.label.at >= 0 }
func (p *parquetFile) Close() error   { return p.f.Close() }

// parquetJob is a part of a row group.
type parquetJob struct {
	group parquet.RowGroup
	from  int64 // in the group
	rows  int
	row   int64 // rows of the file before it
}

func (p *parquetFile) Read(ctx context.Context, emit func(*Batch) error) error {
	pool := &sync.Pool{New: func() any { return new(Batch) }}
	groups := p.file.RowGroups()
	at, from, row := 0, int64(0), int64(0)
	next := func() (j parquetJob, more bool, err error) {
		for at < len(groups) && from >= groups[at].NumRows() {
			at, from = at+1, 0
		}
		if at == len(groups) {
			return j, false, nil
		}
		g := groups[at]
		// Parts of about the same size, so that no group ends with a part of a few rows.
		parts := (g.NumRows() + parquetRows - 1) / parquetRows
		n := min((g.NumRows()+parts-1)/parts, g.NumRows()-from)
		j = parquetJob{group: g, from: from, rows: int(n), row: row}
		from += n
		row += n
		return j, true, nil
	}
	work := func(j parquetJob) (*Batch, error) {
		b := pool.Get().(*Batch)
		b.pool = pool
		err := p.decode(b, &j)
		b.Bytes = int64(float64(p.size) * float64(j.row+int64(j.rows)) / float64(max(1, p.file.NumRows())))
		return b, err
	}
	if err := inOrder(ctx, p.o.Workers, next, work, emit); err != nil {
		return fmt.Errorf("table: %s: %w", p.f.Name(), err)
	}
	return nil
}

func (p *parquetFile) decode(b *Batch, j *parquetJob) (err error) {
	defer func() { // the library panics on some damaged files
		if r := recover(); r != nil {
			err = fmt.Errorf("rows %d to %d cannot be decoded: %v", j.row+1, j.row+int64(j.rows), r)
		}
	}()
	b.reset(j.rows, len(p.values), p.label.at >= 0)
	missing := make([]bool, j.rows)
	bad := func(row int, column string, err error) {
		if !missing[row] {
			missing[row] = true
			b.bad(j.row+int64(row)+1, column, err)
		}
	}
	if err := p.evaluate(b, j, missing, bad); err != nil {
		return err
	}
	if err := p.decodeKeys(b, j, bad); err != nil {
		return err
	}
	if err := p.decodeTimes(b, j, bad); err != nil {
		return err
	}
	for c := range p.values {
		if p.values[c].at < 0 { // it is computed
			continue
		}
		if err := decodeNumbers(j, &p.values[c], b.Values[c:], b.Width, bad); err != nil {
			return err
		}
	}
	if p.label.at >= 0 {
		labels := make([]float64, j.rows)
		if err := decodeNumbers(j, &p.label, labels, 1, bad); err != nil {
			return err
		}
		for i, v := range labels {
			b.Labels[i] = v == v && v != 0
		}
	}
	if b.Bad > 0 || len(p.uses) > 0 {
		b.drop(missing)
	}
	return nil
}

// eachPage calls see with each page of the job's rows, and the range of these rows that the page has.
func (j *parquetJob) eachPage(l *leaf, see func(page parquet.Page, from, to int) error) error {
	pages := j.group.ColumnChunks()[l.at].Pages()
	defer pages.Close()
	if j.from > 0 {
		if err := pages.SeekToRow(j.from); err != nil {
			return fmt.Errorf("column %s: %w", l.name, err)
		}
	}
	for at := 0; at < j.rows; {
		page, err := pages.ReadPage()
		if errors.Is(err, io.EOF) && page == nil {
			return fmt.Errorf("column %s ends %d rows early", l.name, j.rows-at)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("column %s: %w", l.name, err)
		}
		n := int(page.NumRows())
		n = min(n, j.rows-at)
		err = see(page, at, at+n)
		parquet.Release(page)
		if err != nil {
			return fmt.Errorf("column %s: %w", l.name, err)
		}
		at += n
	}
	return nil
}

// spread calls put for the rows from..to of a page, with the index of their value among
// those that are not null, or -1.
func (l *leaf) spread(page parquet.Page, from, to int, put func(row, value int)) {
	levels := page.DefinitionLevels()
	if l.maxDef == 0 || page.NumNulls() == 0 || len(levels) == 0 {
		for i := from; i < to; i++ {
			put(i, i-from)
		}
		return
	}
	n := 0
	for i := from; i < to; i++ {
		if levels[i-from] != l.maxDef {
			put(i, -1)
			continue
		}
		put(i, n)
		n++
	}
}

// dense reports whether each row of the page has a value.
func (l *leaf) dense(page parquet.Page) bool {
	return l.maxDef == 0 || page.NumNulls() == 0 || len(page.DefinitionLevels()) == 0
}

// decodeNumbers writes a column of numbers, or of texts that write some, to every width-th place of dst.
func decodeNumbers(j *parquetJob, l *leaf, dst []float64, width int, bad func(int, string, error)) error {
	unsigned := false
	if lt, ok := logical(l.node).(*format.IntType); ok {
		unsigned = !lt.IsSigned
	}
	kind := l.node.Type().Kind()
	return j.eachPage(l, func(page parquet.Page, from, to int) error {
		if kind == parquet.Boolean {
			return readBooleans(page, dst[from*width:], width, to-from)
		}
		values := page.Data()
		if kind == parquet.ByteArray && decimal(l.node) == nil {
			index := []int32(nil)
			if d := page.Dictionary(); d != nil {
				index, values = values.Int32(), d.Page().Data()
			}
			data, offsets := values.ByteArray()
			l.spread(page, from, to, func(row, i int) {
				if dst[row*width] = math.NaN(); i < 0 {
					return
				}
				if index != nil {
					i = int(index[i])
				}
				v, wrong := schemas.TextNumber(data[offsets[i]:offsets[i+1]])
				if dst[row*width] = v; wrong != schemas.FaultNone {
					bad(row, l.name, errText)
				}
			})
			return nil
		}
		if d := page.Dictionary(); d != nil {
			table, index := d.Page().Data(), values.Int32()
			at, err := l.numberAt(&table, kind, unsigned)
			if err != nil {
				return err
			}
			l.spread(page, from, to, func(row, i int) {
				if dst[row*width] = math.NaN(); i >= 0 {
					dst[row*width] = at(int(index[i]))
				}
			})
			return nil
		}
		if kind == parquet.Double && width == 1 && l.dense(page) {
			copy(dst[from:to], values.Double())
			return nil
		}
		at, err := l.numberAt(&values, kind, unsigned)
		if err != nil {
			return err
		}
		l.spread(page, from, to, func(row, i int) {
			if dst[row*width] = math.NaN(); i >= 0 {
				dst[row*width] = at(i)
			}
		})
		return nil
	})
}

// evaluate marks the rows as missing for which the condition of the mapping is false, or cannot be evaluated, and computes values.
func (p *parquetFile) evaluate(b *Batch, j *parquetJob, missing []bool, bad func(int, string, error)) error {
	if p.columns.rows == nil {
		return nil
	}
	b.mayLack()
	expressions := p.columns.rows.Clone()
	set := make([]func(row int, o *expression.Operand), len(p.uses))
	for i := range p.uses {
		if p.uses[i].at < 0 {
			continue
		}
		var err error
		if set[i], err = operands(j, &p.uses[i]); err != nil {
			return err
		}
	}
	for row := range j.rows {
		for i, f := range set {
			if f != nil {
				f(row, &expressions.Operands.List[i])
			}
		}
		holds, err := expressions.Holds()
		if holds {
			err = expressions.Compute(b.Row(row), b.RowAbsent(row))
		}
		if err != nil {
			bad(row, strings.Join(p.columns.uses, "+"), err)
		} else if !holds {
			b.filter(j.row + int64(row) + 1)
			missing[row] = true
		}
	}
	return nil
}

// operands returns what sets an operand to a column's value in a row.
func operands(j *parquetJob, l *leaf) (func(row int, o *expression.Operand), error) {
	kind := l.node.Type().Kind()
	if kind == parquet.ByteArray || kind == parquet.FixedLenByteArray {
		rows := make([]uint32, j.rows)
		texts, err := decodeTexts(j, l, rows)
		return func(row int, o *expression.Operand) {
			if o.Kind = expression.Null; rows[row] != math.MaxUint32 {
				o.Kind, o.Text = expression.Text, texts[rows[row]]
			}
		}, err
	}
	numbers := make([]float64, j.rows)
	err := decodeNumbers(j, l, numbers, 1, nil)
	return func(row int, o *expression.Operand) {
		v := numbers[row]
		switch o.Num, o.Float = int64(v), v; {
		case v != v:
			o.Kind = expression.Null
		case kind == parquet.Boolean:
			o.Kind = expression.Bool
		case kind == parquet.Int32 || kind == parquet.Int64:
			o.Kind = expression.Int
		default:
			o.Kind = expression.Double
		}
	}, err
}

func (p *parquetFile) decodeTimes(b *Batch, j *parquetJob, bad func(int, string, error)) error {
	l := &p.time
	if l.at < 0 {
		for i := range b.Times {
			b.Times[i] = (j.row + int64(i)) * 1e6
		}
		return nil
	}
	kind := l.node.Type().Kind()
	return j.eachPage(l, func(page parquet.Page, from, to int) error {
		values := page.Data()
		if kind == parquet.Int64 && page.Dictionary() == nil && l.dense(page) && (l.unit == "ms" || l.unit == "us" || l.unit == "auto" ||
			l.unit == "") {
			for i, v := range values.Int64()[:to-from] {
				t, ok := micros(v, l.unit)
				if b.Times[from+i] = t; !ok {
					bad(from+i, l.name, errRange)
				}
			}
			return nil
		}
		index := []int32(nil)
		if d := page.Dictionary(); d != nil {
			index, values = values.Int32(), d.Page().Data()
		}
		at, err := timeAt(&values, kind, l.unit, l.texts)
		if err != nil {
			return err
		}
		l.spread(page, from, to, func(row, i int) {
			if i < 0 {
				bad(row, l.name, errors.New("the time is null"))
				return
			}
			if index != nil {
				i = int(index[i])
			}
			t, err := at(i)
			if b.Times[row] = t; err != nil {
				bad(row, l.name, err)
			}
		})
		return nil
	})
}

// decodeKeys writes the keys of the rows, joined from their parts.
func (p *parquetFile) decodeKeys(b *Batch, j *parquetJob, bad func(int, string, error)) error {
	if len(p.key) == 0 {
		b.Keys = append(b.Keys, []byte(p.o.Name))
		clear(b.Key)
		return nil
	}
	name := strings.Join(p.columns.key, "+")
	const none = math.MaxUint32
	rows := b.Key
	texts := make([][][]byte, len(p.key)) // by part and index
	var joined map[uint64]uint32
	var tuples [][]uint32
	for part := range p.key {
		if part > 0 {
			rows = make([]uint32, j.rows)
		}
		var err error
		if texts[part], err = decodeTexts(j, &p.key[part], rows); err != nil {
			return err
		}
		if part == 0 {
			if len(p.key) > 1 {
				for i := range texts[0] {
					tuples = append(tuples, []uint32{uint32(i)})
				}
			}
			continue
		}
		joined = map[uint64]uint32{}
		var next [][]uint32
		for i, k := range rows {
			if k == none || b.Key[i] == none {
				b.Key[i] = none
				continue
			}
			id := uint64(b.Key[i])<<32 | uint64(k)
			at, ok := joined[id]
			if !ok {
				at = uint32(len(next))
				joined[id] = at
				next = append(next, append(append([]uint32(nil), tuples[b.Key[i]]...), k))
			}
			b.Key[i] = at
		}
		tuples = next
	}
	if len(p.key) == 1 {
		b.Keys = append(b.Keys, texts[0]...)
	} else {
		parts := make([][]byte, len(p.key))
		for _, t := range tuples {
			for i, at := range t {
				parts[i] = texts[i][at]
			}
			b.Keys = append(b.Keys, joinKey(nil, parts))
		}
	}
	long := make([]bool, len(b.Keys))
	tooLong := false
	for i, k := range b.Keys {
		long[i] = len(k) > maxKey || len(k) == 0
		tooLong = tooLong || long[i]
	}
	for i, k := range b.Key {
		switch {
		case k == none:
			bad(i, name, errors.New("the series key is null"))
		case tooLong && long[k]:
			bad(i, name, fmt.Errorf("the series key has %d bytes, use 1 to %d", len(b.Keys[k]), maxKey))
		}
	}
	return nil
}
