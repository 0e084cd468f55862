package json

import (
	"bytes"
	"math"
	"strconv"
	"unicode/utf8"

	"odradek/schemas"
	"odradek/schemas/expression"
)

// walk reads a record of valid JSON in one pass.
type walk struct {
	program *program
	b       []byte
	pos     int
	out     *schemas.Reading
	err     error // what ends the walk
	sink    int32 // the path that err is about; -1: none
}

// stop notes a fault of the record as a whole; objects and arrays check for it and end.
func (w *walk) stop(err error, sink int32) {
	if w.err == nil {
		w.err, w.sink = err, sink
	}
}

// space returns the position after white space.
func space(b []byte, pos int) int {
	for pos < len(b) && (b[pos] == ' ' || b[pos] == '\n' || b[pos] == '\t' || b[pos] == '\r') {
		pos++
	}
	return pos
}

// value reads the value at pos, which is at the step s (nil: no path leads here). item is
// the index in the array that the path has gone through, -1 before there is one.
func (w *walk) value(s *step, item, depth int) {
	if s == nil {
		w.skip(depth)
		return
	}
	start := w.pos
	switch w.b[start] {
	case '{':
		if len(s.sinks) > 0 && len(s.below) == 0 && w.decimal(s, item, depth+1) {
			return
		}
		if s.wildcard {
			if w.numbers(s.sinks[0], depth+1); len(s.below) == 0 || w.err != nil {
				return
			}
			w.pos = start
		} else {
			w.wrongType(s.sinks, item)
		}
		for i := range s.arrays {
			w.wrongType(s.arrays[i].item.all(), item)
		}
		w.object(s, item, depth+1)
	case '[':
		if s.readings {
			w.items(s.sinks[0], depth+1)
			return
		}
		w.wrongType(s.sinks, item)
		for _, next := range s.steps {
			w.wrongType(next.all(), item)
		}
		if len(s.arrays) == 0 {
			w.skip(depth)
		}
		for i := range s.arrays {
			w.pos = start
			w.array(&s.arrays[i], depth+1)
		}
	case 'n':
		w.pos += len("null")
		w.null(s.sinks, item)
		w.null(s.below, item)
	default:
		w.scalar(s, item)
		w.wrongType(s.below, item)
	}
}

// all returns the paths that end at a step or lead on from it.
func (s *step) all() []int32 { return append(s.sinks[:len(s.sinks):len(s.sinks)], s.below...) }

func (w *walk) object(s *step, item, depth int) {
	if depth > maxDepth {
		w.stop(errDeep, -1)
		return
	}
	w.pos = space(w.b, w.pos+1)
	for w.err == nil && w.b[w.pos] != '}' {
		if w.b[w.pos] == ',' {
			w.pos = space(w.b, w.pos+1)
		}
		name, escaped := w.text()
		if escaped && len(s.names) > 0 {
			name, _ = unescape(name)
		}
		w.pos = space(w.b, space(w.b, w.pos)+1) // the colon
		w.value(s.find(name), item, depth)
		w.pos = space(w.b, w.pos)
	}
	w.pos++
}

// numbers adds each number in the object at pos.
func (w *walk) numbers(sink int32, depth int) {
	if w.out.FindLeaves() {
		w.stop(errDuplicate, sink)
		return
	}
	w.leaves(sink, depth)
}

// leaves adds each number in an object, and in the objects in it.
func (w *walk) leaves(sink int32, depth int) {
	if depth > maxDepth {
		w.stop(errDeep, -1)
		return
	}
	w.pos = space(w.b, w.pos+1)
	for w.err == nil && w.b[w.pos] != '}' {
		if w.b[w.pos] == ',' {
			w.pos = space(w.b, w.pos+1)
		}
		name, escaped := w.text()
		if escaped {
			var ok bool
			if name, ok = unescape(name); !ok {
				w.stop(errSurrogate, sink)
				return
			}
		}
		w.pos = space(w.b, space(w.b, w.pos)+1) // the colon
		back := w.out.Enter(name)
		switch w.b[w.pos] {
		case '{':
			w.leaves(sink, depth+1)
		case '"':
			raw, escaped := w.text()
			if escaped {
				raw, _ = unescape(raw)
			}
			w.program.layout.AddTextLeaf(raw, sink, w.out)
		case '[', 't', 'f':
			w.skip(depth)
			w.program.layout.LeaveOut(w.out)
		case 'n':
			w.pos += len("null")
		default:
			v, _ := strconv.ParseFloat(string(w.literal()), 64) // out of range is infinite
			w.program.layout.AddLeaf(v, sink, w.out)
		}
		w.out.Exit(back)
		w.pos = space(w.b, w.pos)
	}
	w.pos++
}

func (w *walk) array(a *array, depth int) {
	if depth > maxDepth {
		w.stop(errDeep, -1)
		return
	}
	w.pos = space(w.b, w.pos+1)
	n := 0
	for ; w.err == nil && w.b[w.pos] != ']'; n++ {
		if w.b[w.pos] == ',' {
			w.pos = space(w.b, w.pos+1)
		}
		if n < a.count {
			w.value(a.item, n, depth)
		} else {
			w.skip(depth)
		}
		w.pos = space(w.b, w.pos)
	}
	w.pos++
	if n != a.count && w.err == nil {
		for _, sink := range a.item.all() {
			w.out.Fail(sink, schemas.FaultLength)
		}
	}
}

// items adds the items of the array of readings.
func (w *walk) items(sink int32, depth int) {
	if depth > maxDepth {
		w.stop(errDeep, -1)
		return
	}
	if w.out.FoundItems() {
		w.stop(errDuplicate, sink)
		return
	}
	w.pos = space(w.b, w.pos+1)
	for w.err == nil && w.b[w.pos] != ']' {
		if w.b[w.pos] == ',' {
			w.pos = space(w.b, w.pos+1)
		}
		start := w.pos
		w.skip(depth)
		w.out.AddItem(w.b[start:w.pos:w.pos])
		w.pos = space(w.b, w.pos)
	}
	w.pos++
}

// skip skips one value.
func (w *walk) skip(depth int) {
	for open := 0; ; {
		switch w.b[w.pos] {
		case '{', '[':
			if open++; depth+open > maxDepth {
				w.stop(errDeep, -1)
				return
			}
			w.pos++
		case '}', ']':
			open--
			w.pos++
		case '"':
			w.text()
		case ' ', '\n', '\t', '\r', ',', ':':
			w.pos++
			continue
		default:
			w.literal()
		}
		if open == 0 {
			return
		}
	}
}

// text reads a string and returns what is between its quotes, and whether it has
// escapes.
func (w *walk) text() (raw []byte, escaped bool) {
	start := w.pos + 1
	for i := start; ; i++ {
		n := bytes.IndexByte(w.b[i:], '"')
		if !escaped && bytes.IndexByte(w.b[i:i+n], '\\') >= 0 {
			escaped = true
		}
		i += n
		if escaped && odd(w.b[start:i]) {
			continue // an escaped quote
		}
		w.pos = i + 1
		return w.b[start:i:i], escaped
	}
}

// odd reports whether b ends with an odd number of backslashes.
func odd(b []byte) bool {
	n := 0
	for n < len(b) && b[len(b)-1-n] == '\\' {
		n++
	}
	return n&1 == 1
}

// literal reads a number, true, false or null.
func (w *walk) literal() []byte {
	start := w.pos
	for w.pos < len(w.b) {
		switch w.b[w.pos] {
		case ',', ']', '}', ' ', '\n', '\t', '\r':
			return w.b[start:w.pos:w.pos]
		}
		w.pos++
	}
	return w.b[start:]
}

// null notes that paths lead to null: a missing value, a fault of a key or a time.
func (w *walk) null(sinks []int32, item int) {
	for _, i := range sinks {
		switch s := &w.program.layout.Sinks[i]; s.Role {
		case schemas.RoleKey:
			w.out.Fail(i, schemas.FaultKeyNull)
		case schemas.RoleTime:
			w.out.Fail(i, schemas.FaultTimeNull)
		case schemas.RoleReadings:
			if w.out.FoundItems() {
				w.stop(errDuplicate, i)
			}
		case schemas.RoleOperand:
			w.operand(i, expression.Operand{Kind: expression.Null})
		default:
			w.missing(i, item)
		}
	}
}

// missing sets the values of a path to NaN: all of them before its array is reached.
func (w *walk) missing(sink int32, item int) {
	s := &w.program.layout.Sinks[sink]
	from, n := s.Slot, s.N
	if item >= 0 {
		from, n = s.Slot+item, 1
	}
	for i := from; i < from+n; i++ {
		w.set(sink, i, math.NaN())
	}
}

// set stores a value of the reading, which must not have been set before.
func (w *walk) set(sink int32, i int, v float64) {
	if w.out.Met(i) {
		w.stop(errDuplicate, sink)
		return
	}
	w.out.Values[i] = v
}

// wrongType notes that paths lead to a value of a type that they cannot be read from.
func (w *walk) wrongType(sinks []int32, item int) {
	for _, i := range sinks {
		s := &w.program.layout.Sinks[i]
		if s.Role == schemas.RoleOperand {
			continue // it stays missing
		}
		w.out.Fail(i, [...]schemas.Fault{schemas.RoleKey: schemas.FaultKeyType, schemas.RoleTime: schemas.FaultTimeType,
			schemas.RoleValue: schemas.FaultValueType, schemas.RoleReadings: schemas.FaultReadings}[s.Role])
		switch s.Role {
		case schemas.RoleValue:
			w.missing(i, item)
		case schemas.RoleReadings:
			w.out.FoundItems()
		}
	}
}

// scalar reads a string, a number, true or false in every role it has.
func (w *walk) scalar(s *step, item int) {
	if s.readings || s.wildcard {
		w.wrongType(s.sinks, item)
	}
	if s.wildcard {
		w.skip(0)
		return
	}
	if w.b[w.pos] == '"' {
		raw, escaped := w.text()
		for _, i := range s.sinks {
			w.string(raw, escaped, i, item)
		}
		return
	}
	text := w.literal()
	for _, i := range s.sinks {
		sink := &w.program.layout.Sinks[i]
		switch sink.Role {
		case schemas.RoleValue:
			w.set(i, sink.Slot+max(item, 0), w.number(text, i))
		case schemas.RoleTime:
			w.time(text, i)
		case schemas.RoleOperand:
			switch text[0] {
			case 't':
				w.operand(i, expression.Operand{Kind: expression.Bool, Num: 1})
			case 'f':
				w.operand(i, expression.Operand{Kind: expression.Bool})
			default:
				f, _ := strconv.ParseFloat(string(text), 64)
				w.operand(i, expression.Operand{Kind: expression.Double, Float: f})
			}
		case schemas.RoleKey:
			if text[0] == 't' || text[0] == 'f' || !whole(text) {
				w.out.Fail(i, schemas.FaultKeyType)
				break
			}
			if string(text) == "-0" {
				text = text[1:]
			}
			w.keyPart(text, i)
		}
	}
}

func (w *walk) string(raw []byte, escaped bool, sink int32, item int) {
	s := &w.program.layout.Sinks[sink]
	switch s.Role {
	case schemas.RoleValue:
		if escaped {
			raw, _ = unescape(raw)
		}
		if scale := w.scale(sink); scale != nil {
			w.decimalText(raw, *scale, sink, item)
			return
		}
		w.set(sink, s.Slot+max(item, 0), w.program.layout.Text(raw, sink, w.out))
	case schemas.RoleTime:
		if escaped {
			raw, _ = unescape(raw)
		}
		t, wrong := w.program.layout.Texts.Micros(raw)
		w.moment(t, wrong, sink)
	case schemas.RoleKey:
		if escaped {
			var ok bool
			if raw, ok = unescape(raw); !ok {
				w.stop(errSurrogate, sink)
				return
			}
		}
		w.keyPart(raw, sink)
	case schemas.RoleOperand:
		if escaped {
			raw, _ = unescape(raw)
		}
		w.operand(sink, expression.Operand{Kind: expression.Text, Text: raw})
	}
}

// operand sets what an expression uses, which must not have been set before.
func (w *walk) operand(sink int32, v expression.Operand) {
	o := w.out.Operand(w.program.layout.Sinks[sink].Slot)
	if o.Kind != expression.Unknown {
		w.stop(errDuplicate, sink)
		return
	}
	o.Set(v)
}

func (w *walk) keyPart(text []byte, sink int32) {
	p := &w.out.KeyParts[w.program.layout.Sinks[sink].Slot]
	if p.Kind != schemas.KeyNone {
		w.stop(errDuplicate, sink)
		return
	}
	*p = schemas.KeyPart{Kind: schemas.KeyText, Text: text}
}

// whole reports whether a number is written without a fraction and an exponent.
func whole(text []byte) bool { return !bytes.ContainsAny(text, ".eE") }

// number returns the value of a number, true or false.
func (w *walk) number(text []byte, sink int32) float64 {
	switch text[0] {
	case 't':
		return 1
	case 'f':
		return 0
	}
	f, _ := strconv.ParseFloat(string(text), 64) // out of range is infinite
	return schemas.Finite(f, sink, w.out)
}

func (w *walk) time(text []byte, sink int32) {
	if text[0] == 't' || text[0] == 'f' {
		w.out.Fail(sink, schemas.FaultTimeType)
		return
	}
	var t int64
	ok := false
	if whole(text) {
		v, err := strconv.ParseInt(string(text), 10, 64)
		if err == nil {
			t, ok = w.program.clock.Micros(v)
		}
	} else {
		f, _ := strconv.ParseFloat(string(text), 64)
		t, ok = w.program.clock.MicrosOf(f)
	}
	wrong := schemas.FaultNone
	if !ok {
		t, wrong = schemas.NoTime, schemas.FaultTimeRange
	}
	w.moment(t, wrong, sink)
}

func (w *walk) moment(t int64, wrong schemas.Fault, sink int32) {
	if w.out.Time != schemas.NoTime {
		w.stop(errDuplicate, sink)
		return
	}
	if w.out.Time = t; wrong != schemas.FaultNone {
		w.out.Fail(sink, wrong)
	}
}

// unescape returns the text of a string with escapes; ok is false where it has half of a
// surrogate pair, which is no text: two such keys would become the same one.
func unescape(raw []byte) (text []byte, ok bool) {
	ok = true
	text = make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			text = append(text, raw[i])
			continue
		}
		i++
		switch c := raw[i]; c {
		case 'b':
			text = append(text, '\b')
		case 'f':
			text = append(text, '\f')
		case 'n':
			text = append(text, '\n')
		case 'r':
			text = append(text, '\r')
		case 't':
			text = append(text, '\t')
		case 'u':
			r := hex4(raw[i+1:])
			i += 4
			if r >= 0xd800 && r < 0xe000 {
				low := rune(0)
				if r < 0xdc00 && len(raw)-i > 6 && raw[i+1] == '\\' && raw[i+2] == 'u' {
					low = hex4(raw[i+3:])
				}
				if low < 0xdc00 || low > 0xdfff {
					ok = false
					text = append(text, "\ufffd"...)
					continue
				}
				i += 6
				r = (r-0xd800)<<10 + low - 0xdc00 + 0x10000
			}
			text = utf8.AppendRune(text, r)
		default: // the quote, / and the backslash
			text = append(text, c)
		}
	}
	return text, ok
}

// hex4 returns the value of four hexadecimal digits.
func hex4(b []byte) rune {
	v, _ := strconv.ParseUint(string(b[:4]), 16, 32)
	return rune(v)
}
