package avro

import (
	"encoding/binary"
	"math"

	"odradek/schemas"
	"odradek/schemas/expression"
)

// operand reads a value that an expression uses. One that no expression can use, such as a record, is missing.
func operand(buf []byte, pos int, n *node, v *expression.Operand) (next int, st status) {
	start := pos
	switch n.kind {
	case kindNull:
		v.Kind = expression.Null
		return pos, statusOK
	case kindUnion:
		i, next, st := index(buf, pos, len(n.branches))
		if st != statusOK {
			return next, st
		}
		return operand(buf, next, n.branches[i], v)
	}
	if pos, st = skip(buf, pos, n, 0, false); st != statusOK {
		return pos, st
	}
	r := FieldReader{buf: buf[start:pos]} // a value that is as its type says
	switch n.kind {
	case kindBoolean:
		v.Kind, v.Num = expression.Bool, int64(buf[start])
	case kindInt, kindLong:
		v.Kind, v.Num = expression.Int, r.Long()
		if c := n.logical; c == logicalDate || c == logicalMillis || c == logicalMicros || c == logicalNanos {
			k := clockOf(n, "")
			var ok bool
			if v.Num, ok = k.Micros(v.Num); ok {
				v.Kind = expression.Time
			} else {
				v.Kind = expression.Unknown
			}
		}
	case kindFloat:
		v.Kind, v.Float = expression.Double, float64(math.Float32frombits(binary.LittleEndian.Uint32(r.buf)))
	case kindDouble:
		v.Kind, v.Float = expression.Double, math.Float64frombits(binary.LittleEndian.Uint64(r.buf))
	case kindString:
		v.Kind, v.Text = expression.Text, r.Text()
	case kindEnum:
		v.Kind, v.Text = expression.Text, n.symbolText[r.Index(len(n.symbols))]
	case kindBytes, kindFixed:
		b := r.buf
		if n.kind == kindBytes {
			b = r.Text()
		}
		v.Kind, v.Text = expression.Bytes, b
		switch n.logical {
		case logicalDecimal:
			var wrong schemas.Fault
			if v.Float, wrong = schemas.Decimal(b, n.scale); wrong == schemas.FaultNone {
				v.Kind = expression.Double
			} else {
				v.Kind = expression.Unknown
			}
		case logicalUUID:
			v.Kind, v.Text = expression.Text, schemas.AppendUUID(nil, b)
		}
	}
	return pos, statusOK
}

// Type implements schemas.Typed.
func (n *node) Type(s *schemas.Sink) expression.Type { return typeAt(n, s.Segs) }

// typeAt returns the type of the values at a path, in those branches of unions that have it.
func typeAt(n *node, segs []schemas.Segment) (t expression.Type) {
	switch {
	case n.kind == kindUnion:
		for _, b := range n.branches {
			if b.kind == kindNull {
				t.Nullable = true
				continue
			}
			switch branch := typeAt(b, segs); {
			case t.Kind == expression.Unknown:
				t.Kind, t.Nullable = branch.Kind, t.Nullable || branch.Nullable
			case branch.Kind != t.Kind:
				return expression.Type{} // the record decides
			}
		}
	case len(segs) == 0:
		t.Kind = n.operandKind()
	case n.kind == kindMap:
		t = typeAt(n.items, segs[1:])
	case n.kind == kindRecord:
		if i := n.fieldIndex(segs[0].Name); i >= 0 {
			t = typeAt(n.fields[i].typ, segs[1:])
		}
	}
	return t
}

func (n *node) operandKind() expression.Kind {
	switch n.logical {
	case logicalDate, logicalMillis, logicalMicros, logicalNanos:
		return expression.Time
	case logicalDecimal:
		return expression.Double
	case logicalUUID:
		return expression.Text
	}
	switch n.kind {
	case kindNull:
		return expression.Null
	case kindBoolean:
		return expression.Bool
	case kindInt, kindLong:
		return expression.Int
	case kindFloat, kindDouble:
		return expression.Double
	case kindString, kindEnum:
		return expression.Text
	case kindBytes, kindFixed:
		return expression.Bytes
	}
	return expression.Unknown
}
