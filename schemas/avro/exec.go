package avro

import (
	"encoding/binary"
	"fmt"
	"math"

	"odradek/schemas"
)

// exec runs the program from pc on the record's bytes from pos. It ends at
// opEnd or opReturn with the position after what it read, or where the bytes
// do not fit the schema, with the instruction that found it.
//
// It is the hot loop: one load, one jump through a table and the bounds checks
// for each instruction; strings alias buf, nothing is allocated. Only frequent
// instructions are here, and nothing but pos and pc lives from one to the next:
// with all of them in one function the compiler spilled six registers for each,
// which cost a tenth. Most of the remaining time is the dependency of each field's position
// on the end of the field before.
func (p *projection) exec(buf []byte, pos, pc int, out *schemas.Reading) (next, at int, st status) {
	for {
		in := &p.code[pc]
		switch in.op {
		case opEnd, opReturn:
			return pos, pc, statusOK
		case opSkipFixed:
			if pos += int(in.n); pos > len(buf) {
				return pos, pc, statusTruncated
			}
		case opSkipText:
			for range in.n {
				var size int
				if uint(pos) < uint(len(buf)) && buf[pos]&0x81 == 0 { // one byte, not negative
					size = int(buf[pos] >> 1)
					pos++
					if size > len(buf)-pos {
						return pos, pc, statusTruncated
					}
				} else {
					var st status
					if size, pos, st = length(buf, pos); st != statusOK {
						return pos, pc, st
					}
				}
				pos += size
			}
		case opSkipLong:
			for range in.n {
				if len(buf)-pos >= 8 {
					if _, n := gather(binary.LittleEndian.Uint64(buf[pos:])); n <= 8 {
						pos += n
						continue
					}
				}
				var st status
				if _, pos, st = varint(buf, pos); st != statusOK {
					return pos, pc, st
				}
			}
		case opDouble:
			if len(buf)-pos < 8 {
				return pos, pc, statusTruncated
			}
			f := math.Float64frombits(binary.LittleEndian.Uint64(buf[pos:]))
			pos += 8
			if math.Float64bits(f)&schemas.InfiniteBits == schemas.InfiniteBits {
				f = schemas.Finite(f, in.sink, out)
			}
			out.Values[in.slot] = f
		case opNullDouble:
			if len(buf)-pos < 9 || buf[pos]&0xfd != 0 || buf[pos]>>1 == in.at {
				var st status
				if pos, st = p.rare(buf, pos, in, out); st != statusOK {
					return pos, pc, st
				}
				break
			}
			f := math.Float64frombits(binary.LittleEndian.Uint64(buf[pos+1:]))
			pos += 9
			if math.Float64bits(f)&schemas.InfiniteBits == schemas.InfiniteBits {
				f = schemas.Finite(f, in.sink, out)
			}
			out.Values[in.slot] = f
		case opKeyText:
			var size int
			if uint(pos) < uint(len(buf)) && buf[pos]&0x81 == 0 {
				size = int(buf[pos] >> 1)
				pos++
				if size > len(buf)-pos {
					return pos, pc, statusTruncated
				}
			} else {
				var st status
				if size, pos, st = length(buf, pos); st != statusOK {
					return pos, pc, st
				}
			}
			out.Key = buf[pos : pos+size : pos+size]
			pos += size
		case opTimeLong:
			var v uint64
			n := 9
			if len(buf)-pos >= 8 {
				v, n = gather(binary.LittleEndian.Uint64(buf[pos:]))
			}
			if n <= 8 {
				pos += n
			} else {
				var st status
				if v, pos, st = varint(buf, pos); st != statusOK {
					return pos, pc, st
				}
			}
			k := &p.clocks[in.ref]
			t := unzigzag(v)
			if t < k.Low || t > k.High {
				out.Fail(in.sink, schemas.FaultTimeRange)
				break
			}
			out.Time = t * k.Multiply
		case opJump:
			pc = int(in.n)
			continue
		case opUnion:
			i, next, st := index(buf, pos, int(in.n))
			if st != statusOK {
				return next, pc, st
			}
			pos, pc = next, int(p.jumps[int(in.ref)+i])
			continue
		case opMap:
			var at int
			var st status
			m := &p.maps[in.ref]
			if pos, at, st = p.entries(buf, pos, pc, m, out); st != statusOK {
				return pos, at, st
			}
			pc = int(m.end)
			continue
		case opRows:
			var at int
			var st status
			r := &p.rows[in.ref]
			if pos, at, st = p.eachRecord(buf, pos, pc, r, out); st != statusOK {
				return pos, at, st
			}
			pc = int(r.end)
			continue
		default:
			var st status
			if pos, st = p.rare(buf, pos, in, out); st != statusOK {
				return pos, pc, st
			}
		}
		pc++
	}
}

// rare carries out the instructions that exec does not.
func (p *projection) rare(buf []byte, pos int, in *inst, out *schemas.Reading) (next int, st status) {
	switch in.op {
	case opSkipNullText, opSkipNullLong, opSkipNullFixed:
		branch, pos, st := index(buf, pos, 2)
		if st != statusOK || branch == int(in.at) {
			return pos, st
		}
		switch in.op {
		case opSkipNullText:
			size, pos, st := length(buf, pos)
			return pos + size, st
		case opSkipNullLong:
			_, pos, st = varint(buf, pos)
			return pos, st
		}
		if len(buf)-pos < int(in.n) {
			return pos, statusTruncated
		}
		return pos + int(in.n), statusOK
	case opSkipNode:
		return skip(buf, pos, p.nodes[in.ref], 0, false)

	case opFloat, opLong:
		return p.plain(buf, pos, in, in.op, out)
	case opNullDouble, opNullFloat, opNullLong:
		branch, pos, st := index(buf, pos, 2)
		if st != statusOK {
			return pos, st
		}
		if branch == int(in.at) {
			out.Values[in.slot] = math.NaN()
			return pos, statusOK
		}
		return p.plain(buf, pos, in, in.op-opNullDouble+opDouble, out)
	case opNumber:
		out.Values[in.slot], pos, st = number(buf, pos, p.nodes[in.ref], p.layout, in.sink, out)
		return pos, st
	case opNumbers:
		return numbers(buf, pos, p.nodes[in.ref], p.layout, in.sink, out.Values[in.slot:in.slot+in.n], out)
	case opMissing:
		values := out.Values[in.slot : in.slot+in.n]
		for i := range values {
			values[i] = math.NaN()
		}

	case opKeyPart:
		return keyPart(buf, pos, p.nodes[in.ref], in.sink, &out.KeyParts[in.slot], out)
	case opTime:
		return moment(buf, pos, p.nodes[in.ref], p.layout, in.sink, out)
	case opItems:
		return items(buf, pos, p.nodes[in.ref], in.sink, out)
	case opWildcard:
		return p.wildcard(buf, pos, p.nodes[in.ref], in.sink, out)
	case opOperand:
		return operand(buf, pos, p.nodes[in.ref], out.Operand(int(in.slot)))
	case opForget:
		if s := &p.layout.Sinks[in.sink]; s.Role == schemas.RoleTime {
			out.Time = schemas.NoTime
		} else {
			out.Key = nil
			out.KeyParts[s.Slot] = schemas.KeyPart{}
		}
	case opFail:
		out.Fail(in.sink, schemas.Fault(in.n))
		if s := &p.layout.Sinks[in.sink]; s.Role == schemas.RoleKey {
			out.Key = nil
			out.KeyParts[s.Slot] = schemas.KeyPart{}
		}
	case opSave:
		out.Saved[in.slot] = pos
	case opRestore:
		pos = out.Saved[in.slot]
	default:
		panic("avro: unknown instruction")
	}
	return pos, statusOK
}

// plain reads a double, a float or a long.
func (p *projection) plain(buf []byte, pos int, in *inst, kind op, out *schemas.Reading) (int, status) {
	var f float64
	switch kind {
	case opDouble:
		if len(buf)-pos < 8 {
			return pos, statusTruncated
		}
		f = math.Float64frombits(binary.LittleEndian.Uint64(buf[pos:]))
		pos += 8
	case opFloat:
		if len(buf)-pos < 4 {
			return pos, statusTruncated
		}
		f = float64(math.Float32frombits(binary.LittleEndian.Uint32(buf[pos:])))
		pos += 4
	case opLong:
		v, next, st := varint(buf, pos)
		if st != statusOK {
			return pos, st
		}
		f, pos = float64(unzigzag(v)), next
	}
	out.Values[in.slot] = schemas.Finite(f, in.sink, out)
	return pos, statusOK
}

// entries goes through a map and runs the program of each key that is wanted.
// A wanted key that comes twice is refused; other keys are not compared.
func (p *projection) entries(buf []byte, pos, pc int, m *mapWalk, out *schemas.Reading) (next, at int, st status) {
	var seen uint64
	for {
		count, end, next, st := block(buf, pos, m.node.leastItem())
		if pos = next; st != statusOK || count == 0 {
			return pos, pc, st
		}
		for range count {
			size, next, st := length(buf, pos)
			if st != statusOK {
				return next, pc, st
			}
			name := buf[next : next+size]
			pos = next + size
			wanted := -1
			for i, k := range m.keys {
				if string(name) == k {
					wanted = i
					break
				}
			}
			if wanted < 0 {
				pos, st = skip(buf, pos, m.node.items, 0, false)
				if st != statusOK {
					return pos, pc, st
				}
				continue
			}
			if seen&(1<<wanted) != 0 {
				return pos, pc, statusDuplicate
			}
			seen |= 1 << wanted
			var at int
			if pos, at, st = p.exec(buf, pos, int(m.pcs[wanted]), out); st != statusOK {
				return pos, at, st
			}
		}
		if end >= 0 && pos != end {
			return pos, pc, statusBlock
		}
	}
}

// eachRecord goes through an array of records and runs the program of each item. An array of another length fails the paths.
func (p *projection) eachRecord(buf []byte, pos, pc int, r *rowsWalk, out *schemas.Reading) (next, at int, st status) {
	i := 0
	for {
		count, end, next, st := block(buf, pos, r.node.leastItem())
		if pos = next; st != statusOK {
			return pos, pc, st
		}
		if count == 0 {
			break
		}
		for range count {
			at := pc
			if i < len(r.pcs) {
				pos, at, st = p.exec(buf, pos, int(r.pcs[i]), out)
			} else {
				pos, st = skip(buf, pos, r.node.items, 0, false)
			}
			if i++; st != statusOK {
				return pos, at, st
			}
		}
		if end >= 0 && pos != end {
			return pos, pc, statusBlock
		}
	}
	if i != len(r.pcs) {
		for _, sink := range r.sinks {
			out.Fail(sink, schemas.FaultLength)
		}
	}
	return pos, pc, statusOK
}

// Decode decodes the Avro bytes of a record.
func (p *projection) Decode(key, body []byte, timestampMs int64, out *schemas.Reading) error {
	if p.err != nil {
		return p.err
	}
	p.layout.Reset(out, p.schemaID)
	pos, at, st := p.exec(body, 0, 0, out)
	if st != statusOK || pos != len(body) {
		return p.broken(at, pos, len(body), st)
	}
	return p.layout.Finish(key, timestampMs, out)
}

// first decodes the record that body begins with. It returns the record's size in bytes,
// 0 where that is not known.
func (p *projection) first(key, body []byte, timestampMs int64, out *schemas.Reading) (n int, err error) {
	if p.err != nil {
		return 0, p.err
	}
	p.layout.Reset(out, p.schemaID)
	pos, at, st := p.exec(body, 0, 0, out)
	if st != statusOK {
		return 0, p.broken(at, pos, len(body), st)
	}
	return pos, p.layout.Finish(key, timestampMs, out)
}

// broken returns the error for bytes that do not fit the schema.
func (p *projection) broken(at, pos, size int, st status) error {
	e := &schemas.DecodeError{SchemaID: p.schemaID}
	if st == statusOK {
		e.Class, e.Err = schemas.ClassTrailingBytes, fmt.Errorf("%d bytes behind the record's end", size-pos)
		return e
	}
	e.Class, e.Err = statusErrors[st].class, statusErrors[st].err
	if at >= 0 && int(p.code[at].name) < len(p.names) && p.code[at].op != opEnd {
		e.Field = p.names[p.code[at].name]
	}
	return e
}
