package avro

import "odradek/schemas"

// wildcard adds each number in a value that a path leads to: a record or a map, at least in one branch.
func (p *projection) wildcard(buf []byte, pos int, n *node, sink int32, out *schemas.Reading) (int, status) {
	switch {
	case n.kind == kindUnion:
		i, next, st := index(buf, pos, len(n.branches))
		if st != statusOK {
			return next, st
		}
		return p.wildcard(buf, next, n.branches[i], sink, out)
	case n.kind == kindRecord && !n.decimal(), n.kind == kindMap:
		out.FindLeaves()
		return p.leaves(buf, pos, n, sink, 0, out)
	case n.kind != kindNull:
		out.Fail(sink, schemas.FaultValueType)
	}
	return skip(buf, pos, n, 0, false)
}

// leaves adds the number that a value is, or each number in it. A time is no number here.
func (p *projection) leaves(buf []byte, pos int, n *node, sink int32, depth int, out *schemas.Reading) (int, status) {
	if depth > maxDepth {
		return pos, statusDeep
	}
	switch n.kind {
	case kindNull:
		return pos, statusOK
	case kindUnion:
		i, next, st := index(buf, pos, len(n.branches))
		if st != statusOK {
			return next, st
		}
		return p.leaves(buf, next, n.branches[i], sink, depth+1, out)
	case kindRecord:
		if n.decimal() {
			break
		}
		for i := range n.fields {
			back := out.Enter([]byte(n.fields[i].name))
			var st status
			if pos, st = p.leaves(buf, pos, n.fields[i].typ, sink, depth+1, out); st != statusOK {
				return pos, st
			}
			out.Exit(back)
		}
		return pos, statusOK
	case kindMap:
		return p.eachEntry(buf, pos, n, sink, depth, out)
	case kindString:
		size, next, st := length(buf, pos)
		if st == statusOK {
			p.layout.AddTextLeaf(buf[next:next+size], sink, out)
		}
		return next + size, st
	}
	if n.kind == kindBoolean || n.logical >= logicalDate || !n.suits(schemas.RoleValue) {
		p.layout.LeaveOut(out)
		return skip(buf, pos, n, 0, false)
	}
	v, pos, st := number(buf, pos, n, p.layout, sink, out)
	if st == statusOK {
		p.layout.AddLeaf(v, sink, out)
	}
	return pos, st
}

// eachEntry adds each number in a map.
func (p *projection) eachEntry(buf []byte, pos int, n *node, sink int32, depth int, out *schemas.Reading) (int, status) {
	for {
		count, end, next, st := block(buf, pos, n.leastItem())
		if pos = next; st != statusOK || count == 0 {
			return pos, st
		}
		for range count {
			size, next, st := length(buf, pos)
			if st != statusOK {
				return next, st
			}
			back := out.Enter(buf[next : next+size])
			if pos, st = p.leaves(buf, next+size, n.items, sink, depth+1, out); st != statusOK {
				return pos, st
			}
			out.Exit(back)
		}
		if end >= 0 && pos != end {
			return pos, statusBlock
		}
	}
}
