package avro

import (
	"encoding/binary"
	"math"
	"math/big"

	"odradek/schemas"
)

// This file reads single values in each role, from bytes at hand. The
// interpreter has short forms of the frequent cases; all else comes here.

var powersOfTen = [...]float64{
	1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
	1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
}

// decimal returns the number unscaled / 10^scale nearest to a decimal's bytes, big
// endian and two's complement. Where both parts are exact in float64 one
// division rounds correctly; otherwise math/big does, which allocates.
func decimal(b []byte, scale int) (float64, schemas.Fault) {
	if len(b) > maxDecimalBytes {
		return math.NaN(), schemas.FaultDecimal
	}
	if len(b) <= 8 && scale < len(powersOfTen) {
		var v uint64
		if len(b) > 0 && b[0] >= 0x80 {
			v = math.MaxUint64
		}
		for _, c := range b {
			v = v<<8 | uint64(c)
		}
		if i := int64(v); i >= -1<<53 && i <= 1<<53 {
			return float64(i) / powersOfTen[scale], schemas.FaultNone
		}
	}
	if scale > 4096 {
		return math.NaN(), schemas.FaultDecimal
	}
	n := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0] >= 0x80 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	d := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)
	f, _ := new(big.Rat).SetFrac(n, d).Float64()
	if math.IsInf(f, 0) {
		return math.NaN(), schemas.FaultInfinite
	}
	return f, schemas.FaultNone
}

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
		f, wrong := decimal(buf[start:pos], n.scale)
		if wrong != schemas.FaultNone {
			out.Fail(sink, wrong)
		}
		return f, pos, statusOK
	}
	out.Fail(sink, schemas.FaultValueType)
	pos, st = skip(buf, pos, n, 0, false)
	return math.NaN(), pos, st
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
			*p = schemas.KeyPart{Kind: schemas.PartText, Text: buf[next : next+size]}
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
		*p = schemas.KeyPart{Kind: schemas.PartText, Text: buf[start:pos]}
		if n.logical == logicalUUID {
			p.Kind = schemas.PartUUID
		}
		return pos, statusOK
	case kindEnum:
		i, next, st := index(buf, pos, len(n.symbols))
		if st == statusOK {
			*p = schemas.KeyPart{Kind: schemas.PartText, Text: n.symbolText[i]}
		}
		return next, st
	case kindInt:
		i, next, st := integer32(buf, pos)
		*p = schemas.KeyPart{Kind: schemas.PartNumber, Num: int64(i)}
		return next, st
	case kindLong:
		v, next, st := varint(buf, pos)
		*p = schemas.KeyPart{Kind: schemas.PartNumber, Num: unzigzag(v)}
		return next, st
	}
	out.Fail(sink, schemas.FaultKeyType)
	return skip(buf, pos, n, 0, false)
}
