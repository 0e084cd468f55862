package avro

import (
	"errors"
	"fmt"

	"odradek/schemas"
)

// A projection reads the mapped fields of one writer schema straight from a
// record's bytes. It is a flat program: one instruction for each field that is
// read, one for each run of fields that is skipped, jumps for unions that a
// path goes through. What is after the last mapped field is skipped in the
// same way, because a record that is cut off or too long is not to be trusted
// in its front part either.
//
// A projection is immutable and shared by all decoders.
type projection struct {
	layout   *schemas.Layout
	schemaID int32
	code     []inst
	nodes    []*node // operands of inst.ref
	clocks   []schemas.Clock
	jumps    []int32 // of opUnion: one program counter for each branch
	maps     []mapWalk
	rows     []rowsWalk
	names    []string // inst.name: path of the field that an instruction is about

	items *node                // of the array of readings, in a layout with one
	err   *schemas.DecodeError // set: no record of this schema can be read
}

type inst struct {
	op   op
	at   uint8 // which branch of a union of two is null
	slot int32 // index in Values, part of the key, or place of a saved position
	n    int32 // bytes, fields, values, branches, or the target of a jump
	ref  int32 // index in nodes, clocks, jumps, maps or rows
	sink int32 // index in layout.sinks
	name int32
}

// mapWalk is the part of a path that goes through a map.
type mapWalk struct {
	node *node // the map
	keys []string
	pcs  []int32 // program for the value of each key, up to its opReturn
	end  int32   // the first instruction after the map
}

// rowsWalk is the part of paths that goes through an array of records.
type rowsWalk struct {
	node  *node   // the array
	sinks []int32 // of the paths
	pcs   []int32 // program for each item, up to its opReturn
	end   int32   // the first instruction after the array
}

type op uint8

const (
	opEnd op = iota
	opReturn
	opJump
	// Skips. opSkipFixed n bytes; the others n fields in a row.
	opSkipFixed
	opSkipText
	opSkipLong
	opSkipNullText  // union of null and string or bytes
	opSkipNullLong  // union of null and long
	opSkipNullFixed // union of null and n bytes
	opSkipNode
	// Values, in their frequent types; opNumber and opNumbers take any.
	opDouble
	opFloat
	opLong
	opNullDouble
	opNullFloat
	opNullLong
	opNumber
	opNumbers
	opMissing // n missing values
	// Key and time. opKeyText is a key of one string; opKeyPart takes any part.
	opKeyText
	opKeyPart
	opTimeLong
	opTime
	// Structure.
	opUnion
	opMap
	opRows
	opItems    // the array of readings
	opWildcard // each number in a record or a map
	opOperand
	opForget // key or time that a map may not have
	opFail   // n is the fault
	opSave
	opRestore
)

// maxCode limits a program. A schema beyond it is refused.
const maxCode = 1 << 14

var (
	errTooLarge = errors.New("too large a schema, or too many paths through one value of it")
	errArrays   = errors.New("a union of records whose arrays of readings have different items")
)

// newProjection compiles a schema without references.
func newProjection(l *schemas.Layout, schemaID int32, schemaJSON string) *projection {
	return compile(l, &schemas.Schema{ID: schemaID, Text: schemaJSON})
}

// compile compiles a schema. It always returns a projection: where the
// schema or the mapping's paths in it are at fault, one that returns that error for every
// record.
func compile(l *schemas.Layout, schema *schemas.Schema) *projection {
	root, err := parseWithReferences(schema)
	if err != nil {
		p := &projection{layout: l, schemaID: schema.ID}
		p.refuse(schemas.ClassUnknownSchema, "", fmt.Errorf("not an Avro schema: %w", err))
		return p
	}
	return compileNode(l, schema.ID, root)
}

// compileBatch returns the program of a schema for any layout, also one with an array of readings.
func compileBatch(l *schemas.Layout, schema *schemas.Schema) schemas.Program {
	p := compile(l, schema)
	if l.Item == nil || p.err != nil {
		return p
	}
	return schemas.NewBatch(l, schema.ID, p, compileNode(l.Item, schema.ID, p.items))
}

// compileNode compiles values of type root.
func compileNode(l *schemas.Layout, schemaID int32, root *node) *projection {
	p := &projection{layout: l, schemaID: schemaID}
	for i := range l.Sinks {
		s := &l.Sinks[i]
		if bad := root.Find(s); bad != nil && s.Role != schemas.RoleOperand { // an expression may do without
			p.refuse(bad.Class, s.Text, fmt.Errorf("%s %s", s.Role, bad.Text))
			return p
		}
	}
	c := compiler{projection: p}
	var wants []want
	for i := range l.Sinks {
		wants = append(wants, want{sink: int32(i), segs: l.Sinks[i].Segs, item: -1})
	}
	err := c.value(root, wants, "", 0)
	if err == nil {
		c.emit(inst{op: opEnd})
		return p
	}
	p.refuse(schemas.ClassTooLarge, "", err)
	return p
}

func (p *projection) refuse(class, field string, err error) {
	p.err = &schemas.DecodeError{Class: class, Field: field, SchemaID: p.schemaID, Err: err}
}

// want is a sink whose path leads on from the node being compiled.
type want struct {
	sink  int32
	segs  []schemas.Segment
	count int // > 0: the node has to be an array of that length
	item  int // of the array of records that the path goes through; -1: it goes through none yet
}

// place returns where the values of a want are.
func (c *compiler) place(w want) (slot, n int32) {
	s := &c.projection.layout.Sinks[w.sink]
	if w.item < 0 {
		return int32(s.Slot), int32(s.N)
	}
	return int32(s.Slot + w.item), 1
}

// missing emits the code for values that are not there.
func (c *compiler) missing(w want) {
	slot, n := c.place(w)
	c.emit(inst{op: opMissing, slot: slot, n: n})
}

type compiler struct {
	projection *projection
	saves      int // places of saved positions in use
	sealed     int // jumps lead to here: nothing behind is merged with what is before
}

func (c *compiler) emit(in inst) int {
	c.projection.code = append(c.projection.code, in)
	return len(c.projection.code) - 1
}

func (c *compiler) node(n *node) int32 {
	c.projection.nodes = append(c.projection.nodes, n)
	return int32(len(c.projection.nodes) - 1)
}

func (c *compiler) name(path string) int32 {
	if n := len(c.projection.names); n > 0 && c.projection.names[n-1] == path {
		return int32(n - 1)
	}
	c.projection.names = append(c.projection.names, path)
	return int32(len(c.projection.names) - 1)
}

// value emits the code for one value of type n, called path in messages.
func (c *compiler) value(n *node, wants []want, path string, depth int) error {
	if len(c.projection.code) > maxCode || depth > maxDepth {
		return errTooLarge
	}
	if len(wants) == 0 {
		c.skip(n, path, depth)
		return nil
	}
	// One value that is read in several ways is read several times.
	passes := passesOf(n, wants)
	slot := int32(c.saves)
	if len(passes) > 1 {
		if c.saves == schemas.MaxSaves {
			return errTooLarge
		}
		c.saves++
		defer func() { c.saves-- }()
		c.emit(inst{op: opSave, slot: slot})
	}
	for i, pass := range passes {
		if i > 0 {
			c.emit(inst{op: opRestore, slot: slot})
		}
		if err := c.pass(n, pass, path, depth); err != nil {
			return err
		}
	}
	return nil
}

// passesOf groups what is wanted of a value by how it is read: each path that ends here, and those that lead on by the length
// of the array that they want.
func passesOf(n *node, wants []want) (passes [][]want) {
	for _, w := range wants {
		at := len(passes)
		if len(w.segs) > 0 {
			for i, p := range passes {
				if len(p[0].segs) > 0 && (p[0].count == w.count || n.kind == kindUnion || n.kind == kindNull) {
					at = i
				}
			}
		}
		if at == len(passes) {
			passes = append(passes, nil)
		}
		passes[at] = append(passes[at], w)
	}
	return passes
}

// pass emits the code for one reading of a value.
func (c *compiler) pass(n *node, wants []want, path string, depth int) error {
	count := wants[0].count
	switch {
	case len(wants[0].segs) == 0:
		return c.leaf(n, wants[0], path)
	case n.kind == kindUnion:
		return c.union(n, wants, path, depth)
	case n.kind == kindNull:
		for _, w := range wants {
			c.absent(w, path)
		}
		return nil
	case n.kind == kindRecord && count == 0:
		return c.record(n, wants, path, depth)
	case n.kind == kindMap && count == 0:
		return c.entries(n, wants, path, depth)
	case n.kind == kindArray && count > 0:
		return c.records(n, wants, path, depth)
	}
	for _, w := range wants {
		c.wrongType(w, path)
	}
	c.skip(n, path, depth)
	return nil
}

// records emits the code for an array of records, one program for each of its items.
func (c *compiler) records(n *node, wants []want, path string, depth int) error {
	ref := len(c.projection.rows)
	c.projection.rows = append(c.projection.rows, rowsWalk{})
	r := rowsWalk{node: n}
	for _, w := range wants {
		r.sinks = append(r.sinks, w.sink)
	}
	c.emit(inst{op: opRows, ref: int32(ref), name: c.name(path)})
	for i := range wants[0].count {
		r.pcs = append(r.pcs, int32(len(c.projection.code)))
		inner := make([]want, len(wants))
		for j, w := range wants {
			inner[j] = want{sink: w.sink, segs: w.segs, item: i}
		}
		if err := c.value(n.items, inner, path, depth+1); err != nil {
			return err
		}
		c.emit(inst{op: opReturn})
	}
	r.end = int32(len(c.projection.code))
	c.projection.rows[ref] = r
	return nil
}

func (c *compiler) record(n *node, wants []want, path string, depth int) error {
	inner := make([][]want, len(n.fields))
	for _, w := range wants {
		i := n.fieldIndex(w.segs[0].Name)
		if i < 0 { // in this branch of a union; resolve found another that has it
			c.fault(w, schemas.FaultBranch, path)
			continue
		}
		inner[i] = append(inner[i], want{sink: w.sink, segs: w.segs[1:], count: w.segs[0].Count, item: w.item})
	}
	for i := range n.fields {
		if err := c.value(n.fields[i].typ, inner[i], under(path, n.fields[i].name), depth+1); err != nil {
			return err
		}
	}
	return nil
}

func under(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func (c *compiler) union(n *node, wants []want, path string, depth int) error {
	table := len(c.projection.jumps)
	c.projection.jumps = append(c.projection.jumps, make([]int32, len(n.branches))...)
	c.emit(inst{op: opUnion, n: int32(len(n.branches)), ref: int32(table), name: c.name(path)})
	var exits []int
	for i, b := range n.branches {
		c.projection.jumps[table+i] = int32(len(c.projection.code))
		if err := c.value(b, wants, path, depth+1); err != nil {
			return err
		}
		if i < len(n.branches)-1 {
			exits = append(exits, c.emit(inst{op: opJump}))
		}
	}
	for _, pc := range exits {
		c.projection.code[pc].n = int32(len(c.projection.code))
	}
	c.sealed = len(c.projection.code)
	return nil
}

func (c *compiler) entries(n *node, wants []want, path string, depth int) error {
	m := mapWalk{node: n}
	var inner [][]want
	for _, w := range wants {
		switch s := &c.projection.layout.Sinks[w.sink]; s.Role {
		case schemas.RoleValue:
			c.missing(w)
		case schemas.RoleReadings, schemas.RoleOperand: // without its entry there are none
		default:
			c.emit(inst{op: opForget, sink: w.sink})
		}
		i := 0
		for i < len(m.keys) && m.keys[i] != w.segs[0].Name {
			i++
		}
		if i == len(m.keys) {
			m.keys = append(m.keys, w.segs[0].Name)
			inner = append(inner, nil)
		}
		inner[i] = append(inner[i], want{sink: w.sink, segs: w.segs[1:], count: w.segs[0].Count, item: w.item})
	}
	if len(m.keys) > 64 {
		return errTooLarge
	}
	ref := len(c.projection.maps)
	c.projection.maps = append(c.projection.maps, mapWalk{})
	c.emit(inst{op: opMap, ref: int32(ref), name: c.name(path)})
	for i, key := range m.keys {
		m.pcs = append(m.pcs, int32(len(c.projection.code)))
		if err := c.value(n.items, inner[i], under(path, key), depth+1); err != nil {
			return err
		}
		c.emit(inst{op: opReturn})
	}
	m.end = int32(len(c.projection.code))
	c.projection.maps[ref] = m
	return nil
}

// absent emits the code for a null on the way of a path.
func (c *compiler) absent(w want, path string) {
	s := &c.projection.layout.Sinks[w.sink]
	switch s.Role {
	case schemas.RoleValue:
		c.missing(w)
	case schemas.RoleKey:
		c.emit(inst{op: opFail, n: int32(schemas.FaultKeyNull), sink: w.sink, name: c.name(path)})
	case schemas.RoleTime:
		c.emit(inst{op: opFail, n: int32(schemas.FaultTimeNull), sink: w.sink, name: c.name(path)})
	case schemas.RoleOperand:
		c.emit(inst{op: opOperand, slot: int32(s.Slot), ref: c.node(&node{kind: kindNull})})
	}
}

// typeFault returns the fault of a value whose type does not suit its role.
var typeFault = [...]schemas.Fault{
	schemas.RoleKey: schemas.FaultKeyType, schemas.RoleTime: schemas.FaultTimeType, schemas.RoleValue: schemas.FaultValueType,
	schemas.RoleReadings: schemas.FaultReadings, schemas.RoleOperand: schemas.FaultNone,
}

func (c *compiler) wrongType(w want, path string) {
	c.fault(w, typeFault[c.projection.layout.Sinks[w.sink].Role], path)
}

// fault emits the code for a fault that the types of a branch make. A value is missing, too: in an item of an array of readings
// that may be all (Reading.Fail).
func (c *compiler) fault(w want, f schemas.Fault, path string) {
	switch c.projection.layout.Sinks[w.sink].Role {
	case schemas.RoleOperand: // it stays missing
		return
	case schemas.RoleValue:
		c.missing(w)
	}
	c.emit(inst{op: opFail, n: int32(f), sink: w.sink, name: c.name(path)})
}

// leaf emits the reading of one value.
func (c *compiler) leaf(n *node, w want, path string) error {
	s := &c.projection.layout.Sinks[w.sink]
	in := inst{slot: int32(s.Slot), sink: w.sink, name: c.name(path)}
	inner, null := n.optional()
	switch s.Role {
	case schemas.RoleKey:
		in.op = opKeyPart
		if c.projection.layout.KeyParts == 1 && (n.kind == kindString || n.kind == kindBytes && n.logical == logicalNone) {
			in.op = opKeyText
		}
	case schemas.RoleTime:
		in.op = opTime
		if n.kind == kindLong && n.logical != logicalTimeOfDay {
			if k := clockOf(n, c.projection.layout.Unit); k.Divide == 1 {
				in.op, in.ref = opTimeLong, int32(len(c.projection.clocks))
				c.projection.clocks = append(c.projection.clocks, k)
			}
		}
	case schemas.RoleOperand:
		in.op = opOperand
	case schemas.RoleReadings:
		in.op = opItems
		if a := n.array(); a != nil {
			if c.projection.items != nil && c.projection.items != a.items {
				return errArrays
			}
			c.projection.items = a.items
		}
	case schemas.RoleValue:
		in.op = opNumber
		in.slot, in.n = c.place(w)
		if s.Wildcard {
			in.op = opWildcard
			break
		}
		if w.count > 0 {
			in.op = opNumbers
			break
		}
		switch n.kind {
		case kindDouble:
			in.op = opDouble
		case kindFloat:
			in.op = opFloat
		case kindLong:
			in.op = opLong
		case kindUnion:
			in.at = uint8(max(null, 0))
			switch {
			case inner == nil:
			case inner.kind == kindDouble:
				in.op = opNullDouble
			case inner.kind == kindFloat:
				in.op = opNullFloat
			case inner.kind == kindLong:
				in.op = opNullLong
			}
		}
	}
	switch in.op {
	case opNumber, opNumbers, opKeyPart, opTime, opItems, opOperand, opWildcard:
		in.ref = c.node(n)
	}
	c.emit(in)
	return nil
}

// array returns the array that a type is, or has as a branch; nil without one.
func (n *node) array() *node {
	if n.kind == kindArray {
		return n
	}
	if n.kind == kindUnion {
		for _, b := range n.branches {
			if b.kind == kindArray {
				return b
			}
		}
	}
	return nil
}

// optional returns the other type of a union of null and one other type, and the index
// of null; nil for anything else.
func (n *node) optional() (inner *node, null int) {
	if n.kind != kindUnion || len(n.branches) != 2 {
		return nil, -1
	}
	for i, b := range n.branches {
		if b.kind == kindNull && n.branches[1-i].kind != kindNull {
			return n.branches[1-i], i
		}
	}
	return nil, -1
}

// skip emits the skipping of one value, merged with the instruction before
// where that skips the same.
func (c *compiler) skip(n *node, path string, depth int) {
	if n.kind == kindRecord && len(c.projection.code) < maxCode/2 && depth < maxDepth/4 {
		for i := range n.fields {
			c.skip(n.fields[i].typ, under(path, n.fields[i].name), depth+1)
		}
		return
	}
	in := inst{n: 1, name: c.name(path)}
	inner, null := n.optional()
	in.at = uint8(max(null, 0))
	switch n.kind {
	case kindNull:
		return
	case kindFloat, kindDouble, kindFixed:
		in.op, in.n = opSkipFixed, int32(n.constant)
	case kindBytes, kindString:
		in.op = opSkipText
	case kindLong:
		in.op = opSkipLong
	case kindUnion:
		switch {
		case inner == nil:
			in.op = opSkipNode
		case inner.kind == kindString || inner.kind == kindBytes:
			in.op = opSkipNullText
		case inner.kind == kindLong:
			in.op = opSkipNullLong
		case inner.kind == kindDouble || inner.kind == kindFloat || inner.kind == kindFixed:
			in.op, in.n = opSkipNullFixed, int32(inner.constant)
		default:
			in.op = opSkipNode
		}
	default:
		in.op = opSkipNode
	}
	if last := len(c.projection.code) - 1; last >= c.sealed && c.projection.code[last].op == in.op && c.projection.code[last].at == in.at {
		switch in.op {
		case opSkipFixed:
			if c.projection.code[last].n < 1<<28 {
				c.projection.code[last].n += in.n
				return
			}
		case opSkipText, opSkipLong:
			c.projection.code[last].n++
			return
		}
	}
	if in.op == opSkipNode {
		in.ref = c.node(n)
	}
	c.emit(in)
}
