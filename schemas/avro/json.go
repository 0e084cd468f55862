package avro

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// JSON converts records of one schema between Avro's binary encoding and plain JSON, without loss: a record is an
// object with the schema's fields in its order, an enum the name of its symbol, and a union the value of its branch,
// without the name of the branch that Avro's own JSON encoding has. A float is written as the double of its value. A double
// that JSON has no number for is null (NaN), "Infinity" or "-Infinity". A timestamp is its long. Several goroutines may use a JSON.
type JSON struct{ root *node }

// NewJSON returns the converter of a schema. It takes records of booleans, ints, longs, floats, doubles, strings, enums, arrays
// and other records, and unions of one of these with null.
func NewJSON(schema string) (*JSON, error) {
	root, err := parseSchema(schema)
	if err != nil {
		return nil, fmt.Errorf("avro: %w", err)
	}
	if err := convertible(root, 0); err != nil {
		return nil, fmt.Errorf("avro: no plain JSON: %w", err)
	}
	return &JSON{root}, nil
}

// maxJSONDepth bounds the nesting of a schema for JSON.
const maxJSONDepth = 16

func convertible(n *node, depth int) error {
	if depth > maxJSONDepth {
		return fmt.Errorf("nested deeper than %d", maxJSONDepth)
	}
	switch n.kind {
	case kindBoolean, kindInt, kindLong, kindFloat, kindDouble, kindString, kindEnum:
		return nil
	case kindArray:
		return convertible(n.items, depth+1)
	case kindRecord:
		for i := range n.fields {
			if err := convertible(n.fields[i].typ, depth+1); err != nil {
				return fmt.Errorf("%s: %w", n.fields[i].name, err)
			}
		}
		return nil
	case kindUnion:
		if inner, _ := n.optional(); inner != nil && inner.kind != kindUnion {
			return convertible(inner, depth+1)
		}
	}
	return fmt.Errorf("a %s has none", n.kind)
}

// Append appends the JSON of a record in Avro's binary encoding.
func (j *JSON) Append(dst, record []byte) ([]byte, error) {
	r := FieldReader{buf: record}
	dst = appendJSON(dst, &r, j.root)
	if err := r.End(); err != nil {
		return dst, fmt.Errorf("avro: %w", err)
	}
	return dst, nil
}

func appendJSON(dst []byte, r *FieldReader, n *node) []byte {
	switch n.kind {
	case kindBoolean:
		return strconv.AppendBool(dst, r.bool())
	case kindInt:
		return strconv.AppendInt(dst, int64(r.Int()), 10)
	case kindLong:
		return strconv.AppendInt(dst, r.Long(), 10)
	case kindFloat:
		return appendNumber(dst, float64(r.Float()))
	case kindDouble:
		return appendNumber(dst, r.Double())
	case kindString:
		return appendString(dst, r.Text())
	case kindEnum:
		return appendString(dst, n.symbolText[r.Index(len(n.symbols))])
	case kindUnion:
		inner, null := n.optional()
		if r.Index(2) == null || r.st != statusOK {
			return append(dst, "null"...)
		}
		return appendJSON(dst, r, inner)
	case kindArray:
		dst = append(dst, '[')
		for n, first := n.items, true; ; {
			count := r.Block()
			if count == 0 {
				return append(dst, ']')
			}
			for ; count > 0 && r.st == statusOK; count-- {
				if !first {
					dst = append(dst, ',')
				}
				first = false
				dst = appendJSON(dst, r, n)
			}
		}
	case kindRecord:
		dst = append(dst, '{')
		for i := range n.fields {
			f := &n.fields[i]
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, '"')
			dst = append(dst, f.name...)
			dst = append(dst, '"', ':')
			dst = appendJSON(dst, r, f.typ)
		}
		return append(dst, '}')
	}
	panic("avro: JSON of a " + n.kind.String())
}

// Block reads the number of an array's elements that follow without another number; 0 at its end.
func (r *FieldReader) Block() int64 {
	if r.st != statusOK {
		return 0
	}
	count := r.Long()
	if count < 0 { // the block's size in bytes follows
		count = -count
		r.Long()
	}
	if r.st == statusOK && (count < 0 || count > int64(len(r.buf)-r.pos)) {
		r.st = statusTruncated
	}
	if r.st != statusOK {
		return 0
	}
	return count
}

func (r *FieldReader) bool() bool {
	if r.st == statusOK && r.pos >= len(r.buf) {
		r.st = statusTruncated
	}
	if r.st != statusOK {
		return false
	}
	r.pos++
	return r.buf[r.pos-1] != 0
}

// appendNumber appends the shortest text that reads as v again.
func appendNumber(dst []byte, v float64) []byte {
	switch {
	case v != v:
		return append(dst, "null"...)
	case math.IsInf(v, 0):
		if v < 0 {
			return append(dst, `"-Infinity"`...)
		}
		return append(dst, `"Infinity"`...)
	}
	if a := math.Abs(v); a != 0 && (a < 1e-6 || a >= 1e21) {
		return strconv.AppendFloat(dst, v, 'e', -1, 64)
	}
	return strconv.AppendFloat(dst, v, 'f', -1, 64)
}

// appendString appends s as a JSON string. Bytes that are no UTF-8 become the replacement character.
func appendString(dst, s []byte) []byte {
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		size := 1
		var with string
		switch {
		case c == '"':
			with = `\"`
		case c == '\\':
			with = `\\`
		case c == '\n':
			with = `\n`
		case c < ' ':
			with = `\u00` + string("0123456789abcdef"[c>>4]) + string("0123456789abcdef"[c&15])
		default:
			var ch rune
			if ch, size = utf8.DecodeRune(s[i:]); ch != utf8.RuneError || size > 1 {
				i += size
				continue
			}
			with = "\ufffd"
		}
		dst = append(append(dst, s[from:i]...), with...)
		i += size
		from = i
	}
	return append(append(dst, s[from:]...), '"')
}

// Binary appends the Avro of a record in JSON. Members may come in any order. A member that is missing has the schema's
// default; one without a default, and one that the schema does not have, is an error that names it.
func (j *JSON) Binary(dst, text []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return dst, fmt.Errorf("avro: not JSON: %w", err)
	}
	if d.More() {
		return dst, errors.New("avro: bytes behind the JSON of the record")
	}
	dst, err := appendBinary(dst, v, j.root)
	if err != nil {
		return dst, fmt.Errorf("avro: %w", err)
	}
	return dst, nil
}

func appendBinary(dst []byte, v any, n *node) ([]byte, error) {
	wrong := func() ([]byte, error) { return dst, fmt.Errorf("%.40q is no %s", fmt.Sprint(v), n.kind) }
	switch n.kind {
	case kindBoolean:
		b, ok := v.(bool)
		if !ok {
			return wrong()
		}
		return AppendBool(dst, b), nil
	case kindInt, kindLong:
		bits := 64
		if n.kind == kindInt {
			bits = 32
		}
		number, ok := v.(json.Number)
		if f, isDefault := v.(float64); isDefault {
			number, ok = json.Number(strconv.FormatFloat(f, 'f', -1, 64)), true
		}
		i, err := strconv.ParseInt(string(number), 10, bits)
		if !ok || err != nil {
			return wrong()
		}
		return AppendLong(dst, i), nil
	case kindFloat:
		f, ok := numberOf(v)
		if !ok || math.Abs(f) > math.MaxFloat32 && !math.IsInf(f, 0) {
			return wrong()
		}
		return binary.LittleEndian.AppendUint32(dst, math.Float32bits(float32(f))), nil
	case kindDouble:
		f, ok := numberOf(v)
		if !ok {
			return wrong()
		}
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(f)), nil
	case kindString:
		s, ok := v.(string)
		if !ok {
			return wrong()
		}
		return AppendText(dst, s), nil
	case kindEnum:
		s, _ := v.(string)
		i := slices.Index(n.symbols, s)
		if i < 0 {
			return dst, fmt.Errorf("%.40q is none of %q", fmt.Sprint(v), n.symbols)
		}
		return AppendLong(dst, int64(i)), nil
	case kindUnion:
		inner, null := n.optional()
		if v == nil {
			return AppendLong(dst, int64(null)), nil
		}
		return appendBinary(AppendLong(dst, int64(1-null)), v, inner)
	case kindArray:
		list, ok := v.([]any)
		if !ok {
			return wrong()
		}
		if len(list) > 0 {
			dst = AppendLong(dst, int64(len(list)))
		}
		for i, item := range list {
			var err error
			if dst, err = appendBinary(dst, item, n.items); err != nil {
				return dst, fmt.Errorf("[%d]: %w", i, err)
			}
		}
		return append(dst, 0), nil
	case kindRecord:
		m, ok := v.(map[string]any)
		if !ok {
			return wrong()
		}
		return appendFields(dst, m, n)
	}
	panic("avro: JSON of a " + n.kind.String())
}

// appendFields appends the fields of a record.
func appendFields(dst []byte, m map[string]any, n *node) ([]byte, error) {
	known := 0
	for i := range n.fields {
		f := &n.fields[i]
		item, ok := m[f.name]
		if ok {
			known++
		} else if item = f.fallback; !f.optional {
			return dst, fmt.Errorf("%s: it is missing", f.name)
		}
		var err error
		if dst, err = appendBinary(dst, item, f.typ); err != nil {
			return dst, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	if known == len(m) {
		return dst, nil
	}
	for name := range m {
		if !slices.ContainsFunc(n.fields, func(f field) bool { return f.name == name }) {
			return dst, fmt.Errorf("%.60q is no field of %s", name, n.name)
		}
	}
	return dst, nil
}

// numberOf reads a double as appendNumber writes it.
func numberOf(v any) (float64, bool) {
	switch v := v.(type) {
	case nil:
		return math.NaN(), true
	case json.Number:
		f, err := v.Float64()
		return f, err == nil
	case float64: // a schema's default
		return v, true
	case string:
		switch v {
		case "Infinity":
			return math.Inf(1), true
		case "-Infinity":
			return math.Inf(-1), true
		}
	}
	return 0, false
}
