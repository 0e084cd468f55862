package json

import (
	"bytes"
	std "encoding/json"
	"math"
	"slices"
	"strconv"

	"odradek/schemas"
)

// This file reads decimals as Kafka Connect's JsonConverter writes them: texts in base64, whose scale is in the schema in front of the
// record ({"schema":...,"payload":...}), or in Mapping.Decimals; and Debezium's VariableScaleDecimal, an object of a scale and such a text.

// connectType is a type in the schema that a record has in front of it.
type connectType struct {
	Name, Field   string
	Parameters    map[string]string
	Fields        []connectType
	Items, Values *connectType
}

// scales are the scales of the values of records with a schema in front; nil for what is no decimal there.
type scales struct {
	schema []byte
	bySink []*int
}

// scale returns the scale of a text in the place of a value; nil where it is no decimal.
func (w *walk) scale(sink int32) *int {
	s := &w.program.layout.Sinks[sink]
	if len(s.Segs) > 0 && s.Segs[0].Name == "payload" && s.Segs[0].Count == 0 {
		if schema := w.member("schema"); schema != nil {
			known := w.program.scales.Load()
			if known == nil || !bytes.Equal(known.schema, schema) {
				known = scalesOf(w.program.layout, schema)
				w.program.scales.Store(known)
			}
			if scale := known.bySink[sink]; scale != nil {
				return scale
			}
		}
	}
	return s.Scale
}

// member returns the value of a field of the record; nil without it.
func (w *walk) member(name string) []byte {
	if b := w.b; b[space(b, 0)] != '{' {
		return nil
	}
	m := walk{program: w.program, b: w.b, sink: -1}
	for m.pos = space(m.b, space(m.b, 0)+1); m.err == nil && m.b[m.pos] != '}'; m.pos = space(m.b, m.pos) {
		if m.b[m.pos] == ',' {
			m.pos = space(m.b, m.pos+1)
		}
		field, _ := m.text()
		m.pos = space(m.b, space(m.b, m.pos)+1) // the colon
		start := m.pos
		if m.skip(1); string(field) == name {
			return m.b[start:m.pos]
		}
	}
	return nil
}

func scalesOf(l *schemas.Layout, schema []byte) *scales {
	known := &scales{slices.Clone(schema), make([]*int, len(l.Sinks))}
	var root connectType
	if std.Unmarshal(schema, &root) != nil {
		return known
	}
	for i := range l.Sinks {
		t := &root
		for j, seg := range l.Sinks[i].Segs {
			if j > 0 {
				t = t.step(seg.Name)
			}
			if t != nil && seg.Count > 0 {
				t = t.Items
			}
			if t == nil {
				break
			}
		}
		if t == nil || t.Name != "org.apache.kafka.connect.data.Decimal" {
			continue
		}
		if scale, err := strconv.Atoi(t.Parameters["scale"]); err == nil {
			known.bySink[i] = &scale
		}
	}
	return known
}

// step returns the type of a field of a struct, or of an entry of a map.
func (t *connectType) step(name string) *connectType {
	if t.Values != nil {
		return t.Values
	}
	for i := range t.Fields {
		if t.Fields[i].Field == name {
			return &t.Fields[i]
		}
	}
	return nil
}

// decimal reads an object of a scale and a value in base64 in the place of a value. It reports whether there is one at pos.
func (w *walk) decimal(s *step, item, depth int) bool {
	if depth > maxDepth {
		return false
	}
	m := walk{program: w.program, b: w.b, pos: space(w.b, w.pos+1), sink: -1}
	scale, value := math.MinInt, []byte(nil)
	for m.b[m.pos] != '}' {
		if m.b[m.pos] == ',' {
			m.pos = space(m.b, m.pos+1)
		}
		name, _ := m.text()
		m.pos = space(m.b, space(m.b, m.pos)+1) // the colon
		switch c := m.b[m.pos]; {
		case string(name) == "scale" && scale == math.MinInt && (c == '-' || c >= '0' && c <= '9'):
			n, err := strconv.Atoi(string(m.literal()))
			if scale = n; err != nil {
				return false
			}
		case string(name) == "value" && value == nil && c == '"':
			text, escaped := m.text()
			if escaped {
				text, _ = unescape(text)
			}
			value = text
		default:
			return false
		}
		m.pos = space(m.b, m.pos)
	}
	if value == nil || scale == math.MinInt {
		return false
	}
	w.pos = m.pos + 1
	for _, i := range s.sinks {
		if w.program.layout.Sinks[i].Role == schemas.RoleValue {
			w.decimalText(value, scale, i, item)
		} else {
			w.wrongType([]int32{i}, item)
		}
	}
	return true
}

// decimalText sets the value of a decimal in base64.
func (w *walk) decimalText(text []byte, scale int, sink int32, item int) {
	v, wrong := schemas.DecimalText(text, scale)
	if wrong != schemas.FaultNone {
		w.out.Fail(sink, wrong)
	}
	w.set(sink, w.program.layout.Sinks[sink].Slot+max(item, 0), v)
}
