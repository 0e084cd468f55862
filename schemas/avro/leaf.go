package avro

import (
	"encoding/binary"
	"math"

	"odradek/schemas"
)

// This file reads single values in each role, from bytes at hand. The
// interpreter has short forms of the frequent cases; all else comes here.

// number reads a value of a type that suits roleValue in at least one branch:
// NaN where it is null, and where the branch in hand is not a number.
func number(buf []byte, pos int, n *node, l *schemas.Layout, sink int32, out *schemas.Reading) (float64, int, status) {
	var st status
	switch n.kind {
	case kindNull:
		return math.NaN(), pos, statusOK
	case kindUnion:
		i, next, st := index(buf, pos, len(n.branches))
		if st != statusOK {
			return 0, next, st
		}
		return number(buf, next, n.branches[i], l, sink, out)
	case kindBoolean:
		pos, st = skip(buf, pos, n, 0, false)
		if st != statusOK {
			return 0, pos, st
		}
		return float64(buf[pos-1]), pos, statusOK
	case kindInt:
		i, next, st := integer32(buf, pos)
		return float64(i), next, st
	case kindLong:
		v, next, st := varint(buf, pos)
		return float64(unzigzag(v)), next, st
	case kindFloat:
		if len(buf)-pos < 4 {
			return 0, pos, statusTruncated
		}
		f := float64(math.Float32frombits(binary.LittleEndian.Uint32(buf[pos:])))
		return schemas.Finite(f, sink, out), pos + 4, statusOK
	case kindDouble:
		if len(buf)-pos < 8 {
			return 0, pos, statusTruncated
		}
		f := math.Float64frombits(binary.LittleEndian.Uint64(buf[pos:]))
		return schemas.Finite(f, sink, out), pos + 8, statusOK
	case kindString:
		size, next, st := length(buf, pos)
		if st != statusOK {
			return 0, next, st
		}
		return l.Text(buf[next:next+size], sink, out), next + size, statusOK
	case kindBytes, kindFixed:
		if n.logical != logicalDecimal {
			break
		}
		start := pos
		if n.kind == kindBytes {
			size, next, st := length(buf, pos)
			if st != statusOK {
				return 0, next, st
			}
			start, pos = next, next+size
		} else if pos, st = skip(buf, pos, n, 0, false); st != statusOK {
			return 0, pos, st
		}
		f, wrong := schemas.Decimal(buf[start:pos], n.scale)
		if wrong != schemas.FaultNone {
			out.Fail(sink, wrong)
		}
		return f, pos, statusOK
	case kindRecord:
		if !n.decimal() {
			break
		}
		b, scale, next, st := scaled(buf, pos, n)
		if st != statusOK {
			return 0, next, st
		}
		f, wrong := schemas.Decimal(b, int(scale))
		if wrong != schemas.FaultNone {
			out.Fail(sink, wrong)
		}
		return f, next, statusOK
	}
	out.Fail(sink, schemas.FaultValueType)
	pos, st = skip(buf, pos, n, 0, false)
	return math.NaN(), pos, st
}

// scaled reads a decimal that has its scale beside it (node.decimal).
func scaled(buf []byte, pos int, n *node) (unscaled []byte, scale int32, next int, st status) {
	for i := range n.fields {
		if n.fields[i].typ.kind == kindInt {
			scale, pos, st = integer32(buf, pos)
		} else {
			var size int
			size, pos, st = length(buf, pos)
			if st == statusOK {
				unscaled, pos = buf[pos:pos+size], pos+size
			}
		}
		if st != statusOK {
			return nil, 0, pos, st
		}
	}
	return unscaled, scale, pos, statusOK
}

// numbers reads an array of want.n numbers into values.
func numbers(buf []byte, pos int, n *node, l *schemas.Layout, sink int32, values []float64, out *schemas.Reading) (int, status) {
	switch n.kind {
	case kindUnion:
		i, next, st := index(buf, pos, len(n.branches))
		if st != statusOK {
			return next, st
		}
		return numbers(buf, next, n.branches[i], l, sink, values, out)
	case kindArray:
	default:
		for i := range values {
			values[i] = math.NaN()
		}
		if n.kind != kindNull {
			out.Fail(sink, schemas.FaultValueType)
		}
		return skip(buf, pos, n, 0, false)
	}
	have := 0
	for {
		count, end, next, st := block(buf, pos, n.items.least)
		if pos = next; st != statusOK {
			return pos, st
		}
		if count == 0 {
			break
		}
		for range count {
			var f float64
			if have == len(values) {
				// One more than wanted: the rest only has to be well-formed.
				have++
				out.Fail(sink, schemas.FaultLength)
			}
			if have > len(values) {
				if n.items.least == 0 {
					break
				}
				if pos, st = skip(buf, pos, n.items, 0, false); st != statusOK {
					return pos, st
				}
				continue
			}
			if f, pos, st = number(buf, pos, n.items, l, sink, out); st != statusOK {
				return pos, st
			}
			values[have] = f
			have++
		}
		if end >= 0 && pos != end {
			return pos, statusBlock
		}
	}
	if have < len(values) {
		out.Fail(sink, schemas.FaultLength)
	}
	return pos, statusOK
}

// items adds the items of the array of readings; null is an array of none.
func items(buf []byte, pos int, n *node, sink int32, out *schemas.Reading) (int, status) {
	switch n.kind {
	case kindNull:
		return pos, statusOK
	case kindUnion:
		i, next, st := index(buf, pos, len(n.branches))
		if st != statusOK {
			return next, st
		}
		return items(buf, next, n.branches[i], sink, out)
	case kindArray:
	default:
		out.Fail(sink, schemas.FaultReadings)
		return skip(buf, pos, n, 0, false)
	}
	for {
		count, end, next, st := block(buf, pos, n.items.least)
		if pos = next; st != statusOK || count == 0 {
			return pos, st
		}
		for range count {
			start := pos
			if pos, st = skip(buf, pos, n.items, 0, false); st != statusOK {
				return pos, st
			}
			out.AddItem(buf[start:pos:pos])
		}
		if end >= 0 && pos != end {
			return pos, statusBlock
		}
	}
}

// clockOf returns the unit of a type's times: its logical type's, or the mapping's.
func clockOf(n *node, unit string) schemas.Clock {
	switch n.logical {
	case logicalDate:
		return schemas.ClockDays
	case logicalMillis:
		return schemas.ClockMillis
	case logicalMicros:
		return schemas.ClockMicros
	case logicalNanos:
		return schemas.ClockNanos
	}
	return schemas.ClockIn(unit)
}

// moment reads a value of a type that suits roleTime in at least one branch
// into out.Time.
func moment(buf []byte, pos int, n *node, l *schemas.Layout, sink int32, out *schemas.Reading) (int, status) {
	c := clockOf(n, l.Unit)
	var ok bool
	switch n.kind {
	case kindNull:
		out.Fail(sink, schemas.FaultTimeNull)
		return pos, statusOK
	case kindUnion:
		i, next, st := index(buf, pos, len(n.branches))
		if st != statusOK {
			return next, st
		}
		return moment(buf, next, n.branches[i], l, sink, out)
	case kindInt, kindLong:
		if n.logical == logicalTimeOfDay {
			break
		}
		var v uint64
		var st status
		if n.kind == kindLong {
			v, pos, st = varint(buf, pos)
		} else {
			var i int32
			i, pos, st = integer32(buf, pos)
			v = uint64(i)<<1 ^ uint64(int64(i)>>63)
		}
		if st != statusOK {
			return pos, st
		}
		if out.Time, ok = c.Micros(unzigzag(v)); !ok {
			out.Fail(sink, schemas.FaultTimeRange)
		}
		return pos, statusOK
	case kindFloat, kindDouble:
		if len(buf)-pos < n.constant {
			return pos, statusTruncated
		}
		var f float64
		if n.kind == kindDouble {
			f = math.Float64frombits(binary.LittleEndian.Uint64(buf[pos:]))
		} else {
			f = float64(math.Float32frombits(binary.LittleEndian.Uint32(buf[pos:])))
		}
		if out.Time, ok = c.MicrosOf(f); !ok {
			out.Fail(sink, schemas.FaultTimeRange)
		}
		return pos + n.constant, statusOK
	case kindString:
		size, next, st := length(buf, pos)
		if st != statusOK {
			return next, st
		}
		t, wrong := l.Texts.Micros(buf[next : next+size])
		out.Time = t
		if wrong != schemas.FaultNone {
			out.Fail(sink, wrong)
		}
		return next + size, statusOK
	}
	out.Fail(sink, schemas.FaultTimeType)
	return skip(buf, pos, n, 0, false)
}

// keyPart reads a value of a type that suits roleKey in at least one branch.
func keyPart(buf []byte, pos int, n *node, sink int32, p *schemas.KeyPart, out *schemas.Reading) (int, status) {
	*p = schemas.KeyPart{}
	var st status
	switch n.kind {
	case kindNull:
		out.Fail(sink, schemas.FaultKeyNull)
		return pos, statusOK
	case kindUnion:
		i, next, st := index(buf, pos, len(n.branches))
		if st != statusOK {
			return next, st
		}
		return keyPart(buf, next, n.branches[i], sink, p, out)
	case kindString, kindBytes:
		if n.logical == logicalDecimal {
			break
		}
		size, next, st := length(buf, pos)
		if st == statusOK {
			*p = schemas.KeyPart{Kind: schemas.KeyText, Text: buf[next : next+size]}
		}
		return next + size, st
	case kindFixed:
		if n.logical == logicalDecimal {
			break
		}
		start := pos
		if pos, st = skip(buf, pos, n, 0, false); st != statusOK {
			return pos, st
		}
		*p = schemas.KeyPart{Kind: schemas.KeyText, Text: buf[start:pos]}
		if n.logical == logicalUUID {
			p.Kind = schemas.KeyUUID
		}
		return pos, statusOK
	case kindEnum:
		i, next, st := index(buf, pos, len(n.symbols))
		if st == statusOK {
			*p = schemas.KeyPart{Kind: schemas.KeyText, Text: n.symbolText[i]}
		}
		return next, st
	case kindInt:
		i, next, st := integer32(buf, pos)
		*p = schemas.KeyPart{Kind: schemas.KeyNumber, Num: int64(i)}
		return next, st
	case kindLong:
		v, next, st := varint(buf, pos)
		*p = schemas.KeyPart{Kind: schemas.KeyNumber, Num: unzigzag(v)}
		return next, st
	}
	out.Fail(sink, schemas.FaultKeyType)
	return skip(buf, pos, n, 0, false)
}
