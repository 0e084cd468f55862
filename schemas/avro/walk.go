package avro

import (
	"errors"
	"fmt"
	"math"

	"github.com/linkedin/goavro/v2"

	"odradek/schemas"
)

// walker reads the schemas that the projection does not take: paths through
// arrays of records, one value mapped both as a whole and in parts in
// different ways, programs beyond the size limit. goavro decodes the whole
// record and the paths are followed through its maps, about 40 times slower
// and with the same results.
//
// goavro allocates what a count in the bytes demands and recurses as deep as
// they demand, so it only decodes records that skip has checked.
type walker struct {
	layout *schemas.Layout
	root   *node
	codec  *goavro.Codec
	names  map[*node]string // what goavro calls a named type
}

func newWalker(l *schemas.Layout, root *node) (*walker, error) {
	w := &schemaWriter{form: formPlain, seen: map[*node]string{}}
	w.write(root)
	if root.holdsEmptyItems(map[*node]bool{}) {
		return nil, errors.New("the schema has an array of items that take no bytes, beside a path that needs the general decoder")
	}
	codec, err := goavro.NewCodec(string(w.out))
	if err != nil {
		return nil, fmt.Errorf("the general decoder does not take this schema: %w", err)
	}
	return &walker{layout: l, root: root, codec: codec, names: w.seen}, nil
}

// holdsEmptyItems finds arrays whose count says nothing about their bytes: a
// few bytes could demand any amount of memory.
func (n *node) holdsEmptyItems(seen map[*node]bool) bool {
	if seen[n] {
		return false
	}
	seen[n] = true
	switch n.kind {
	case kindArray:
		return n.items.least == 0 || n.items.holdsEmptyItems(seen)
	case kindMap:
		return n.items.holdsEmptyItems(seen)
	case kindUnion:
		for _, b := range n.branches {
			if b.holdsEmptyItems(seen) {
				return true
			}
		}
	case kindRecord:
		for i := range n.fields {
			if n.fields[i].typ.holdsEmptyItems(seen) {
				return true
			}
		}
	}
	return false
}

// read decodes one record into out. The returned position is where the record
// ends, or where it stops to fit the schema.
func (w *walker) read(body []byte, out *schemas.Reading) (int, status) {
	pos, st := skip(body, 0, w.root, 0, true)
	if st != statusOK || pos != len(body) {
		return pos, st
	}
	native, _, err := w.codec.NativeFromBinary(body)
	if err != nil {
		// The only records that skip accepts and goavro refuses have a map with a key twice.
		return pos, statusDuplicate
	}
	for i := range w.layout.Sinks {
		s := &w.layout.Sinks[i]
		for j := range s.N {
			out.Values[s.Slot+j] = math.NaN()
		}
		w.follow(w.root, native, s.Segs, 0, 0, int32(i), out)
	}
	return pos, statusOK
}

// follow goes along a path. item is which element of the path's array it is in.
func (w *walker) follow(n *node, v any, segs []schemas.Segment, count, item int, sink int32, out *schemas.Reading) {
	s := &w.layout.Sinks[sink]
	if n.kind == kindUnion {
		n, v = w.branch(n, v)
		w.follow(n, v, segs, count, item, sink, out)
		return
	}
	if n.kind == kindNull {
		switch s.Role {
		case schemas.RoleKey:
			out.Fail(sink, schemas.FaultKeyNull)
		case schemas.RoleTime:
			out.Fail(sink, schemas.FaultTimeNull)
		}
		return // a value is NaN already
	}
	if count > 0 && n.kind == kindArray {
		items := v.([]any)
		if len(items) != count {
			out.Fail(sink, schemas.FaultLength)
			return
		}
		for i := range items {
			w.follow(n.items, items[i], segs, 0, i, sink, out)
		}
		return
	}
	if len(segs) == 0 && count == 0 {
		w.leaf(n, v, item, sink, out)
		return
	}
	if count == 0 && n.kind == kindRecord {
		i := n.fieldIndex(segs[0].Name)
		if i < 0 {
			out.Fail(sink, schemas.FaultBranch)
			return
		}
		w.follow(n.fields[i].typ, v.(map[string]any)[plainName('f', i)], segs[1:], segs[0].Count, item, sink, out)
		return
	}
	if count == 0 && n.kind == kindMap {
		if inner, ok := v.(map[string]any)[segs[0].Name]; ok {
			w.follow(n.items, inner, segs[1:], segs[0].Count, item, sink, out)
		}
		return
	}
	out.Fail(sink, typeFault[s.Role])
}

// branch returns the type and the value of a union.
func (w *walker) branch(n *node, v any) (*node, any) {
	wrapped, _ := v.(map[string]any)
	for _, b := range n.branches {
		if v == nil && b.kind == kindNull {
			return b, nil
		}
		name, ok := w.names[b]
		if !ok {
			name = b.kind.String()
		}
		if inner, ok := wrapped[name]; ok {
			return b, inner
		}
	}
	panic("avro: a union without the branch that goavro read from it")
}

func (w *walker) leaf(n *node, v any, item int, sink int32, out *schemas.Reading) {
	s := &w.layout.Sinks[sink]
	if !n.suits(s.Role) {
		out.Fail(sink, typeFault[s.Role])
		return
	}
	switch s.Role {
	case schemas.RoleValue:
		var f float64
		switch v := v.(type) {
		case bool:
			if v {
				f = 1
			}
		case int32:
			f = float64(v)
		case int64:
			f = float64(v)
		case float32:
			f = schemas.Finite(float64(v), sink, out)
		case float64:
			f = schemas.Finite(v, sink, out)
		case []byte:
			var wrong schemas.Fault
			if f, wrong = decimal(v, n.scale); wrong != schemas.FaultNone {
				out.Fail(sink, wrong)
			}
		}
		out.Values[s.Slot+item] = f
	case schemas.RoleTime:
		c := clockOf(n, w.layout.Unit)
		ok, wrong := false, schemas.FaultTimeRange
		switch v := v.(type) {
		case int32:
			out.Time, ok = c.Micros(int64(v))
		case int64:
			out.Time, ok = c.Micros(v)
		case float32:
			out.Time, ok = c.MicrosOf(float64(v))
		case float64:
			out.Time, ok = c.MicrosOf(v)
		case string:
			out.Time, wrong = schemas.MicrosText([]byte(v))
			ok = wrong == schemas.FaultNone
		}
		if !ok {
			out.Fail(sink, wrong)
		}
	case schemas.RoleKey:
		p := &out.Parts[s.Slot]
		switch v := v.(type) {
		case string:
			*p = schemas.Part{Kind: schemas.PartText, Text: []byte(v)}
			if n.kind == kindEnum {
				p.Text = w.symbol(n, v)
			}
		case []byte:
			*p = schemas.Part{Kind: schemas.PartText, Text: v}
			if n.logical == logicalUUID && n.kind == kindFixed {
				p.Kind = schemas.PartUUID
			}
		case int32:
			*p = schemas.Part{Kind: schemas.PartNumber, Num: int64(v)}
		case int64:
			*p = schemas.Part{Kind: schemas.PartNumber, Num: v}
		}
	}
}

func (w *walker) symbol(n *node, plain string) []byte {
	for i := range n.symbols {
		if plainName('s', i) == plain {
			return n.symbolText[i]
		}
	}
	panic("avro: an enum without the symbol that goavro read from it")
}
