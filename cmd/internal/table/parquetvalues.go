package table

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding"

	"odradek/schemas"
)

var (
	errRange = errors.New("the time is beyond the range of times")
	errText  = errors.New("the text is no number")
)

// numberAt returns a function that gives the i-th value as a number.
func (l *leaf) numberAt(v *encoding.Values, kind parquet.Kind, unsigned bool) (func(i int) float64, error) {
	if d := decimal(l.node); d != nil {
		return decimalAt(v, kind, int(d.Scale))
	}
	return numberAt(v, kind, unsigned)
}

// decimalAt returns a function that gives the i-th value of a column of decimals.
func decimalAt(v *encoding.Values, kind parquet.Kind, scale int) (func(i int) float64, error) {
	var unscaled func(i int) []byte // big endian
	var b [8]byte
	switch kind {
	case parquet.Int32:
		x := v.Int32()
		unscaled = func(i int) []byte { return binary.BigEndian.AppendUint64(b[:0], uint64(x[i])) }
	case parquet.Int64:
		x := v.Int64()
		unscaled = func(i int) []byte { return binary.BigEndian.AppendUint64(b[:0], uint64(x[i])) }
	case parquet.FixedLenByteArray:
		data, size := v.FixedLenByteArray()
		unscaled = func(i int) []byte { return data[i*size : (i+1)*size] }
	case parquet.ByteArray:
		data, offsets := v.ByteArray()
		unscaled = func(i int) []byte { return data[offsets[i]:offsets[i+1]] }
	default:
		return nil, fmt.Errorf("values of kind %s are no decimals", kind)
	}
	return func(i int) float64 {
		f, _ := schemas.Decimal(unscaled(i), scale) // NaN where it has too many bytes
		return f
	}, nil
}

// numberAt returns a function that gives the i-th value as a number.
func numberAt(v *encoding.Values, kind parquet.Kind, unsigned bool) (func(i int) float64, error) {
	switch kind {
	case parquet.Double:
		x := v.Double()
		return func(i int) float64 { return x[i] }, nil
	case parquet.Float:
		x := v.Float()
		return func(i int) float64 { return float64(x[i]) }, nil
	case parquet.Int64:
		x := v.Int64()
		if unsigned {
			return func(i int) float64 { return float64(uint64(x[i])) }, nil
		}
		return func(i int) float64 { return float64(x[i]) }, nil
	case parquet.Int32:
		x := v.Int32()
		if unsigned {
			return func(i int) float64 { return float64(uint32(x[i])) }, nil
		}
		return func(i int) float64 { return float64(x[i]) }, nil
	}
	return nil, fmt.Errorf("values of kind %s are not numbers", kind)
}

// readBooleans writes the first rows of a page as 0 and 1 to every width-th place of
// dst. It goes value by value: the bits of a page that begins inside of another one are
// not at the beginning of a byte.
func readBooleans(page parquet.Page, dst []float64, width, rows int) error {
	r := page.Values()
	buf := make([]parquet.Value, 256)
	for row := 0; row < rows; {
		n, err := r.ReadValues(buf)
		for _, v := range buf[:min(n, rows-row)] {
			x := math.NaN()
			if !v.IsNull() {
				if x = 0; v.Boolean() {
					x = 1
				}
			}
			dst[row*width] = x
			row++
		}
		if err != nil && (!errors.Is(err, io.EOF) || row < rows) {
			return err
		}
	}
	return nil
}

// julianDay is the Julian day of 1 January 1970.
const julianDay = 2_440_588

// timeAt returns a function that gives the i-th value as a time in microseconds.
func timeAt(v *encoding.Values, kind parquet.Kind, unit string, texts *schemas.TimeText) (func(i int) (int64, error), error) {
	whole := func(n int64) (int64, error) {
		if unit == "day" {
			return n * 86_400e6, nil
		}
		t, ok := micros(n, unit)
		if !ok {
			return 0, errRange
		}
		return t, nil
	}
	switch kind {
	case parquet.Int64:
		x := v.Int64()
		return func(i int) (int64, error) { return whole(x[i]) }, nil
	case parquet.Int32:
		x := v.Int32()
		return func(i int) (int64, error) { return whole(int64(x[i])) }, nil
	case parquet.Double:
		x := v.Double()
		return func(i int) (int64, error) {
			if t, ok := microsOf(x[i], unit); ok {
				return t, nil
			}
			return 0, errRange
		}, nil
	case parquet.Int96: // nanoseconds of the day, Julian day
		x := v.Int96()
		return func(i int) (int64, error) {
			nanos := int64(uint64(x[i][0]) | uint64(x[i][1])<<32)
			return (int64(x[i][2])-julianDay)*86_400e6 + nanos/1000, nil
		}, nil
	case parquet.ByteArray:
		data, offsets := v.ByteArray()
		return func(i int) (int64, error) { return parseTime(string(data[offsets[i]:offsets[i+1]]), unit, texts) }, nil
	}
	return nil, fmt.Errorf("values of kind %s are not times", kind)
}

// textAt returns a function that appends the text of the i-th value to a slice.
func textAt(v *encoding.Values, kind parquet.Kind) (func(dst []byte, i int) []byte, error) {
	switch kind {
	case parquet.ByteArray:
		data, offsets := v.ByteArray()
		return func(dst []byte, i int) []byte { return append(dst, data[offsets[i]:offsets[i+1]]...) }, nil
	case parquet.FixedLenByteArray:
		data, size := v.FixedLenByteArray()
		return func(dst []byte, i int) []byte { return append(dst, data[i*size:(i+1)*size]...) }, nil
	case parquet.Int64:
		x := v.Int64()
		return func(dst []byte, i int) []byte { return strconv.AppendInt(dst, x[i], 10) }, nil
	case parquet.Int32:
		x := v.Int32()
		return func(dst []byte, i int) []byte { return strconv.AppendInt(dst, int64(x[i]), 10) }, nil
	}
	return nil, fmt.Errorf("values of kind %s cannot be keys", kind)
}

// decodeTexts writes for each row the index of its text among those it returns,
// math.MaxUint32 for null. No two texts are equal.
func decodeTexts(j *parquetJob, l *leaf, rows []uint32) (texts [][]byte, err error) {
	index := map[string]uint32{}
	intern := func(t []byte) uint32 {
		at, ok := index[string(t)]
		if !ok {
			at = uint32(len(texts))
			texts = append(texts, slices.Clone(t))
			index[string(t)] = at
		}
		return at
	}
	const none = math.MaxUint32
	var table []uint32 // of the dictionary: index of the text, none where not looked at yet
	var dictionary parquet.Dictionary
	var scratch []byte
	kind := l.node.Type().Kind()
	err = j.eachPage(l, func(page parquet.Page, from, to int) error {
		values := page.Data()
		d := page.Dictionary()
		if d == nil {
			text, err := textAt(&values, kind)
			if err != nil {
				return err
			}
			last := uint32(none)
			l.spread(page, from, to, func(row, i int) {
				if rows[row] = none; i < 0 {
					return
				}
				scratch = text(scratch[:0], i)
				if last == none || !bytes.Equal(texts[last], scratch) {
					last = intern(scratch)
				}
				rows[row] = last
			})
			return nil
		}
		entries := d.Page().Data()
		text, err := textAt(&entries, kind)
		if err != nil {
			return err
		}
		if dictionary != d {
			dictionary, table = d, slices.Repeat([]uint32{none}, d.Len())
		}
		ids := values.Int32()
		l.spread(page, from, to, func(row, i int) {
			if rows[row] = none; i < 0 {
				return
			}
			at := &table[ids[i]]
			if *at == none {
				scratch = text(scratch[:0], int(ids[i]))
				*at = intern(scratch)
			}
			rows[row] = *at
		})
		return nil
	})
	return texts, err
}
