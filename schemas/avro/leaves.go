package avro

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"

	"odradek/schemas"
)

// leavesOf returns the function that collects the values of a schema's records.
func leavesOf(s *schemas.Schema) (func([]byte, *schemas.Leaves) error, error) {
	root, err := parseWithReferences(s)
	if err != nil {
		return nil, fmt.Errorf("not an Avro schema: %w", err)
	}
	return func(body []byte, out *schemas.Leaves) error {
		r := leafReader{textReader{fields: NewFieldReader(body)}, out}
		r.value(root, "", 0)
		switch {
		case r.text.fields.st != statusOK:
			return fmt.Errorf("byte %d: %w", r.text.fields.pos, statusErrors[r.text.fields.st].err)
		case r.text.fields.pos != len(body) && !out.Cut:
			return fmt.Errorf("byte %d: %d bytes behind the record's end", r.text.fields.pos, len(body)-r.text.fields.pos)
		}
		return nil
	}, nil
}

// leafReader collects the values of a record.
type leafReader struct {
	text textReader
	out  *schemas.Leaves
}

func (r *leafReader) add(path string, v schemas.Leaf) {
	if r.text.fields.st == statusOK {
		r.out.Add(path, v)
	}
}

// value reads a value of a type and all in it.
func (r *leafReader) value(n *node, path string, depth int) {
	if r.text.fields.st != statusOK || r.out.Cut {
		return
	}
	if depth > maxDepth {
		r.text.fields.st = statusDeep
		return
	}
	switch n.kind {
	case kindNull:
		r.add(path, schemas.Leaf{Kind: schemas.LeafNull})
	case kindBoolean:
		b := r.text.bytes(1)
		if b != nil && b[0] > 1 {
			r.text.fields.st = statusIndex
		}
		if b != nil {
			r.add(path, schemas.Leaf{Kind: schemas.LeafBool, Int: int64(b[0]), Float: float64(b[0])})
		}
	case kindInt:
		r.integer(n, path, int64(r.text.fields.Int()))
	case kindLong:
		r.integer(n, path, r.text.fields.Long())
	case kindFloat:
		if b := r.text.bytes(4); b != nil {
			r.add(path, schemas.Leaf{Kind: schemas.LeafFloat, Float: float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))})
		}
	case kindDouble:
		r.add(path, schemas.Leaf{Kind: schemas.LeafFloat, Float: r.text.fields.Double()})
	case kindString:
		r.add(path, schemas.Leaf{Kind: schemas.LeafText, Text: string(r.text.fields.Text())})
	case kindBytes:
		r.raw(n, path, r.text.fields.Text())
	case kindFixed:
		r.raw(n, path, r.text.bytes(n.size))
	case kindEnum:
		if i := r.text.fields.Index(len(n.symbols)); r.text.fields.st == statusOK {
			r.add(path, schemas.Leaf{Kind: schemas.LeafText, Text: n.symbols[i]})
		}
	case kindUnion:
		if i := r.text.fields.Index(len(n.branches)); r.text.fields.st == statusOK {
			r.value(n.branches[i], path, depth+1)
		}
	case kindRecord:
		if n.decimal() {
			var b []byte
			var scale int32
			if b, scale, r.text.fields.pos, r.text.fields.st = scaled(r.text.fields.buf, r.text.fields.pos, n); r.text.fields.st == statusOK {
				r.decimal(path, b, int(scale))
			}
			return
		}
		r.out.Record()
		for i := range n.fields {
			r.value(n.fields[i].typ, schemas.Under(path, n.fields[i].name), depth+1)
		}
		r.out.End()
	case kindArray:
		r.out.Array(path)
		r.items(n, path, depth)
		r.out.End()
	case kindMap:
		r.out.Record()
		r.items(n, path, depth)
		r.out.End()
	}
}

// integer adds an integer, or the time that it means.
func (r *leafReader) integer(n *node, path string, v int64) {
	leaf := schemas.Leaf{Kind: schemas.LeafInt, Int: v, Float: float64(v)}
	switch n.logical {
	case logicalDate, logicalMillis, logicalMicros, logicalNanos:
		c := clockOf(n, "")
		t, ok := c.Micros(v)
		if leaf = (schemas.Leaf{Kind: schemas.LeafTime, Int: t}); !ok {
			leaf = schemas.Leaf{Kind: schemas.LeafOther}
		}
	case logicalTimeOfDay:
		leaf = schemas.Leaf{Kind: schemas.LeafOther}
	}
	r.add(path, leaf)
}

func (r *leafReader) decimal(path string, unscaled []byte, scale int) {
	leaf := schemas.Leaf{Kind: schemas.LeafOther}
	if f, fault := schemas.Decimal(unscaled, scale); fault == schemas.FaultNone {
		leaf = schemas.Leaf{Kind: schemas.LeafFloat, Float: f}
	}
	r.add(path, leaf)
}

// raw adds bytes, or the number or text that they mean.
func (r *leafReader) raw(n *node, path string, b []byte) {
	leaf := schemas.Leaf{Kind: schemas.LeafOther}
	switch n.logical {
	case logicalDecimal:
		r.decimal(path, b, n.scale)
		return
	case logicalUUID:
		leaf = schemas.Leaf{Kind: schemas.LeafText, Text: hex.EncodeToString(b)}
	}
	r.add(path, leaf)
}

// items reads the blocks of an array or of a map.
func (r *leafReader) items(n *node, path string, depth int) {
	for r.text.fields.st == statusOK && !r.out.Cut {
		count := r.text.fields.Long()
		if count < 0 { // the block's size in bytes follows
			r.text.fields.Long()
			count = -count
		}
		if count == 0 {
			return
		}
		for ; count != 0 && r.text.fields.st == statusOK && !r.out.Cut; count-- {
			at, start := path, r.text.fields.pos
			if n.kind == kindMap {
				at = schemas.Under(path, string(r.text.fields.Text()))
			} else {
				r.out.Next()
			}
			if r.value(n.items, at, depth+1); r.text.fields.pos == start { // items without content: the count could be any
				break
			}
		}
	}
}
