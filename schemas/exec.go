package schemas

import (
	"encoding/binary"
	"math"
)

// exec runs the program from pc on the record's bytes from pos. It ends at
// opEnd or opReturn with the position behind what it read, or where the bytes
// do not fit the schema, with the instruction that found it.
//
// It is the hot loop: one load, one jump through a table and the bounds checks
// for each instruction; strings alias buf, nothing is allocated.
func (p *projection) exec(buf []byte, pos, pc int, out *Reading) (next, at int, st status) {
	code := p.code
	values := out.Values
	for {
		in := &code[pc]
		pc++
		switch in.op {
		case opEnd, opReturn:
			return pos, pc - 1, statusOK
		case opJump:
			pc = int(in.n)

		case opSkipFixed:
			if pos += int(in.n); pos > len(buf) {
				return pos, pc - 1, statusTruncated
			}
		case opSkipText:
			for range in.n {
				var size int
				if uint(pos) < uint(len(buf)) && buf[pos]&0x81 == 0 { // one byte, not negative
					size = int(buf[pos] >> 1)
					pos++
					if size > len(buf)-pos {
						return pos, pc - 1, statusTruncated
					}
				} else if size, pos, st = length(buf, pos); st != statusOK {
					return pos, pc - 1, st
				}
				pos += size
			}
		case opSkipLong:
			for range in.n {
				if uint(pos) < uint(len(buf)) && buf[pos] < 0x80 {
					pos++
				} else if _, pos, st = varint(buf, pos); st != statusOK {
					return pos, pc - 1, st
				}
			}
		case opSkipNullText, opSkipNullLong, opSkipNullFixed:
			if uint(pos) >= uint(len(buf)) {
				return pos, pc - 1, statusTruncated
			}
			branch := buf[pos] >> 1
			if buf[pos]&0xfd == 0 { // 0 or 2
				pos++
			} else { // out of range, or longer than needed
				var i int
				if i, pos, st = index(buf, pos, 2); st != statusOK {
					return pos, pc - 1, st
				}
				branch = uint8(i)
			}
			if branch == in.at {
				continue
			}
			switch in.op {
			case opSkipNullText:
				var size int
				size, pos, st = length(buf, pos)
				pos += size
			case opSkipNullLong:
				_, pos, st = varint(buf, pos)
			default:
				if pos += int(in.n); pos > len(buf) {
					st = statusTruncated
				}
			}
			if st != statusOK {
				return pos, pc - 1, st
			}
		case opSkipNode:
			if pos, st = skip(buf, pos, p.nodes[in.ref], 0, false); st != statusOK {
				return pos, pc - 1, st
			}

		case opDouble:
			if len(buf)-pos < 8 {
				return pos, pc - 1, statusTruncated
			}
			f := math.Float64frombits(binary.LittleEndian.Uint64(buf[pos:]))
			pos += 8
			values[in.slot] = f
			if math.Float64bits(f)&infiniteBits == infiniteBits {
				values[in.slot] = finite(f, in.sink, out)
			}
		case opFloat:
			if len(buf)-pos < 4 {
				return pos, pc - 1, statusTruncated
			}
			f := float64(math.Float32frombits(binary.LittleEndian.Uint32(buf[pos:])))
			pos += 4
			values[in.slot] = f
			if math.Float64bits(f)&infiniteBits == infiniteBits {
				values[in.slot] = finite(f, in.sink, out)
			}
		case opLong:
			var v uint64
			if v, pos, st = varint(buf, pos); st != statusOK {
				return pos, pc - 1, st
			}
			values[in.slot] = float64(unzigzag(v))
		case opNullDouble, opNullFloat, opNullLong:
			if uint(pos) >= uint(len(buf)) {
				return pos, pc - 1, statusTruncated
			}
			branch := buf[pos] >> 1
			if buf[pos]&0xfd == 0 { // 0 or 2
				pos++
			} else { // out of range, or longer than needed
				var i int
				if i, pos, st = index(buf, pos, 2); st != statusOK {
					return pos, pc - 1, st
				}
				branch = uint8(i)
			}
			if branch == in.at {
				values[in.slot] = math.NaN()
				continue
			}
			var f float64
			switch in.op {
			case opNullDouble:
				if len(buf)-pos < 8 {
					return pos, pc - 1, statusTruncated
				}
				f = math.Float64frombits(binary.LittleEndian.Uint64(buf[pos:]))
				pos += 8
			case opNullFloat:
				if len(buf)-pos < 4 {
					return pos, pc - 1, statusTruncated
				}
				f = float64(math.Float32frombits(binary.LittleEndian.Uint32(buf[pos:])))
				pos += 4
			default:
				var v uint64
				if v, pos, st = varint(buf, pos); st != statusOK {
					return pos, pc - 1, st
				}
				f = float64(unzigzag(v))
			}
			values[in.slot] = f
			if math.Float64bits(f)&infiniteBits == infiniteBits {
				values[in.slot] = finite(f, in.sink, out)
			}
		case opNumber:
			if values[in.slot], pos, st = number(buf, pos, p.nodes[in.ref], in.sink, out); st != statusOK {
				return pos, pc - 1, st
			}
		case opNumbers:
			if pos, st = numbers(buf, pos, p.nodes[in.ref], in.sink, values[in.slot:in.slot+in.n], out); st != statusOK {
				return pos, pc - 1, st
			}
		case opMissing:
			for i := range values[in.slot : in.slot+in.n] {
				values[int(in.slot)+i] = math.NaN()
			}

		case opKeyText:
			var size int
			if uint(pos) < uint(len(buf)) && buf[pos]&0x81 == 0 {
				size = int(buf[pos] >> 1)
				pos++
				if size > len(buf)-pos {
					return pos, pc - 1, statusTruncated
				}
			} else if size, pos, st = length(buf, pos); st != statusOK {
				return pos, pc - 1, st
			}
			out.Key = buf[pos : pos+size : pos+size]
			pos += size
		case opKeyPart:
			if pos, st = keyPart(buf, pos, p.nodes[in.ref], in.sink, &out.parts[in.slot], out); st != statusOK {
				return pos, pc - 1, st
			}
		case opTimeLong:
			var v uint64
			if v, pos, st = varint(buf, pos); st != statusOK {
				return pos, pc - 1, st
			}
			k := &p.clocks[in.ref]
			t := unzigzag(v)
			if t < k.low || t > k.high {
				out.fail(in.sink, faultTimeRange)
				continue
			}
			out.Time = t * k.multiply
		case opTime:
			if pos, st = moment(buf, pos, p.nodes[in.ref], p.layout.unit, in.sink, out); st != statusOK {
				return pos, pc - 1, st
			}

		case opUnion:
			var i int
			if i, pos, st = index(buf, pos, int(in.n)); st != statusOK {
				return pos, pc - 1, st
			}
			pc = int(p.jumps[int(in.ref)+i])
		case opMap:
			m := &p.maps[in.ref]
			if pos, at, st = p.entries(buf, pos, pc-1, m, out); st != statusOK {
				return pos, at, st
			}
			pc = int(m.end)
		case opForget:
			if s := &p.layout.sinks[in.sink]; s.role == roleTime {
				out.Time = noTime
			} else {
				out.Key = nil
				out.parts[s.slot] = part{}
			}
		case opFail:
			out.fail(in.sink, fault(in.n))
			if s := &p.layout.sinks[in.sink]; s.role == roleKey {
				out.Key = nil
				out.parts[s.slot] = part{}
			}
		case opSave:
			out.saved[in.slot] = pos
		case opRestore:
			pos = out.saved[in.slot]
		default:
			panic("schemas: unknown instruction")
		}
	}
}

// entries goes through a map and runs the program of each key that is wanted.
// A wanted key that comes twice is refused; other keys are not compared.
func (p *projection) entries(buf []byte, pos, pc int, m *mapWalk, out *Reading) (next, at int, st status) {
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
			at := 0
			if pos, at, st = p.exec(buf, pos, int(m.pcs[wanted]), out); st != statusOK {
				return pos, at, st
			}
		}
		if end >= 0 && pos != end {
			return pos, pc, statusBlock
		}
	}
}
