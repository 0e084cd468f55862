package avro

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"odradek/schemas"
)

// kind is an Avro type.
type kind uint8

const (
	kindNull kind = iota
	kindBoolean
	kindInt
	kindLong
	kindFloat
	kindDouble
	kindBytes
	kindString
	kindFixed
	kindEnum
	kindRecord
	kindArray
	kindMap
	kindUnion
)

var kindNames = [...]string{
	"null", "boolean", "int", "long", "float", "double", "bytes", "string",
	"fixed", "enum", "record", "array", "map", "union",
}

func (k kind) String() string { return kindNames[k] }

// logical is a logical type that changes how a value is read. The local forms
// of a timestamp read as the plain ones: the zone is unknown, UTC is assumed.
type logical uint8

const (
	logicalNone logical = iota
	logicalDecimal
	logicalUUID
	logicalDate
	logicalTimeOfDay
	logicalMillis
	logicalMicros
	logicalNanos
	logicalDuration
)

// node is one type of a writer's schema. Nodes of named types are shared by
// all places that refer to them, so that a schema may be a cyclic graph; once
// parseSchema has returned it nothing changes a node.
type node struct {
	kind        kind
	logical     logical
	logicalName string   // as written; kept for inlining references
	name        string   // full name of a record, an enum or a fixed
	precision   int      // decimal
	scale       int      // decimal
	size        int      // fixed
	symbols     []string // enum
	symbolText  [][]byte // the same, for keys; never written to
	fields      []field  // record
	items       *node    // items of an array, values of a map
	branches    []*node  // union

	constant int // encoded size in bytes where it never varies, else -1
	least    int // least encoded size in bytes
	measured bool
	busy     bool // being measured: met again, it contains itself
}

type field struct {
	name     string
	aliases  []string
	typ      *node
	optional bool // has a default
	fallback any  // the default, as encoding/json reads it
}

// Limits of a schema. They keep a hostile registry from exhausting the worker,
// real schemas stay far below.
const (
	maxSchemaBytes = 8 << 20
	maxSchemaDepth = 256
	maxFixedSize   = 16 << 20
)

type schemaParser struct {
	names map[string]*node // by full name
	all   []*node
}

// parseSchema reads a schema, or with references several: they come first,
// each after those that it uses, and define the names that text refers to.
func parseSchema(text string, references ...string) (*node, error) {
	p := &schemaParser{names: map[string]*node{}}
	for _, r := range references {
		if _, err := p.text(r); err != nil {
			return nil, fmt.Errorf("avro: reference: %w", err)
		}
	}
	root, err := p.text(text)
	if err != nil {
		return nil, err
	}
	for _, n := range p.all {
		if err := n.measure(0); err != nil {
			return nil, err
		}
	}
	return root, nil
}

// parseWithReferences parses a schema of the registry with the schemas that it refers to.
func parseWithReferences(s *schemas.Schema) (*node, error) {
	var texts []string
	for _, r := range s.References {
		texts = append(texts, r.Text)
	}
	return parseSchema(s.Text, texts...)
}

func (p *schemaParser) text(text string) (*node, error) {
	if len(text) > maxSchemaBytes {
		return nil, fmt.Errorf("%d bytes of schema, %d at most", len(text), maxSchemaBytes)
	}
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		// A bare name, as "string" without its quotes, is what some registries return.
		if _, ok := primitive(strings.TrimSpace(text)); !ok {
			return nil, fmt.Errorf("not JSON: %w", err)
		}
		v = strings.TrimSpace(text)
	}
	return p.parse(v, "", 0)
}

func primitive(name string) (kind, bool) {
	for k := kindNull; k <= kindString; k++ {
		if kindNames[k] == name {
			return k, true
		}
	}
	return 0, false
}

func (p *schemaParser) add(n *node) *node {
	p.all = append(p.all, n)
	return n
}

func (p *schemaParser) parse(v any, space string, depth int) (*node, error) {
	if depth > maxSchemaDepth {
		return nil, fmt.Errorf("nested deeper than %d", maxSchemaDepth)
	}
	switch v := v.(type) {
	case string:
		if k, ok := primitive(v); ok {
			return p.add(&node{kind: k}), nil
		}
		return p.lookup(v, space)
	case []any:
		return p.union(v, space, depth)
	case map[string]any:
		return p.object(v, space, depth)
	}
	return nil, fmt.Errorf("a type is a name, an object or a list, not %v", v)
}

func (p *schemaParser) lookup(name, space string) (*node, error) {
	if space != "" && !strings.Contains(name, ".") {
		if n, ok := p.names[space+"."+name]; ok {
			return n, nil
		}
	}
	if n, ok := p.names[name]; ok {
		return n, nil
	}
	return nil, fmt.Errorf("type %q is not defined", name)
}

func (p *schemaParser) union(v []any, space string, depth int) (*node, error) {
	n := p.add(&node{kind: kindUnion})
	for _, b := range v {
		c, err := p.parse(b, space, depth+1)
		if err != nil {
			return nil, err
		}
		if c.kind == kindUnion {
			return nil, errors.New("a union directly inside a union")
		}
		n.branches = append(n.branches, c)
	}
	if len(n.branches) == 0 {
		return nil, errors.New("a union without branches")
	}
	return n, nil
}

func (p *schemaParser) object(v map[string]any, space string, depth int) (*node, error) {
	t, ok := v["type"].(string)
	if !ok {
		if v["type"] == nil {
			return nil, errors.New(`an object without "type"`)
		}
		return p.parse(v["type"], space, depth+1)
	}
	var n *node
	var err error
	switch t {
	case "record", "error":
		return p.record(v, space, depth)
	case "enum":
		n = p.add(&node{kind: kindEnum})
		if _, err = p.define(n, v, space); err != nil {
			return nil, err
		}
		symbols, _ := v["symbols"].([]any)
		for _, s := range symbols {
			s, ok := s.(string)
			if !ok {
				return nil, fmt.Errorf("enum %s: a symbol is not a string", n.name)
			}
			n.symbols = append(n.symbols, s)
			n.symbolText = append(n.symbolText, []byte(s))
		}
		if len(n.symbols) == 0 {
			return nil, fmt.Errorf("enum %s: no symbols", n.name)
		}
		return n, nil
	case "fixed":
		n = p.add(&node{kind: kindFixed})
		if _, err = p.define(n, v, space); err != nil {
			return nil, err
		}
		size, ok := integer(v["size"])
		if !ok || size < 0 || size > maxFixedSize {
			return nil, fmt.Errorf("fixed %s: size %v", n.name, v["size"])
		}
		n.size = size
	case "array", "map":
		n = p.add(&node{kind: kindArray})
		what := "items"
		if t == "map" {
			n.kind, what = kindMap, "values"
		}
		if n.items, err = p.parse(v[what], space, depth+1); err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		return n, nil
	default:
		k, ok := primitive(t)
		if !ok {
			return p.lookup(t, space)
		}
		n = p.add(&node{kind: k})
	}
	n.setLogical(v)
	return n, nil
}

// define gives a named type its full name and makes it known under it. It
// returns the namespace of what the type encloses.
func (p *schemaParser) define(n *node, v map[string]any, space string) (string, error) {
	name, _ := v["name"].(string)
	if name == "" {
		return "", fmt.Errorf("a %s without a name", n.kind)
	}
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		space = name[:i]
	} else {
		if s, ok := v["namespace"].(string); ok {
			space = s
		}
		if space != "" {
			name = space + "." + name
		}
	}
	if _, ok := p.names[name]; ok {
		return "", fmt.Errorf("type %q is defined twice", name)
	}
	n.name = name
	p.names[name] = n
	return space, nil
}

func (p *schemaParser) record(v map[string]any, space string, depth int) (*node, error) {
	n := p.add(&node{kind: kindRecord})
	space, err := p.define(n, v, space)
	if err != nil {
		return nil, err
	}
	fields, ok := v["fields"].([]any)
	if !ok {
		return nil, fmt.Errorf("record %s: no list of fields", n.name)
	}
	seen := map[string]bool{}
	for _, f := range fields {
		f, ok := f.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("record %s: a field is not an object", n.name)
		}
		name, _ := f["name"].(string)
		if name == "" || seen[name] {
			return nil, fmt.Errorf("record %s: field name %q is empty or used twice", n.name, name)
		}
		seen[name] = true
		typ, err := p.fieldType(f, space, depth)
		if err != nil {
			return nil, fmt.Errorf("record %s: field %q: %w", n.name, name, err)
		}
		fallback, optional := f["default"]
		n.fields = append(n.fields, field{name: name, aliases: texts(f["aliases"]), typ: typ, optional: optional, fallback: fallback})
	}
	return n, nil
}

// fieldType returns the type of a record's field. A logical type written beside the
// field's name instead of inside its type is a common mistake: the
// specification ignores it, goavro and this package take it as it is meant.
func (p *schemaParser) fieldType(f map[string]any, space string, depth int) (*node, error) {
	if t, ok := f["type"].(string); ok {
		if k, ok := primitive(t); ok {
			n := p.add(&node{kind: k})
			n.setLogical(f)
			return n, nil
		}
		switch t {
		case "array", "map", "enum", "fixed", "record": // {"name":"a","type":"array","items":"int"}
			return p.object(f, space, depth+1)
		}
	}
	if f["type"] == nil {
		return nil, errors.New("no type")
	}
	return p.parse(f["type"], space, depth+1)
}

func texts(v any) []string {
	var out []string
	list, _ := v.([]any)
	for _, s := range list {
		if s, ok := s.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

func integer(v any) (int, bool) {
	f, ok := v.(float64)
	i := int(f)
	return i, ok && float64(i) == f
}

// setLogical reads a logical type. One that is unknown or does not fit its
// type is ignored, as the specification demands.
func (n *node) setLogical(v map[string]any) {
	name, _ := v["logicalType"].(string)
	l := logicalNone
	switch name {
	case "decimal":
		precision, ok1 := integer(v["precision"])
		scale, ok2 := integer(v["scale"])
		if v["scale"] == nil {
			scale, ok2 = 0, true
		}
		if (n.kind == kindBytes || n.kind == kindFixed) && ok1 && ok2 && precision > 0 && scale >= 0 && scale <= precision {
			l, n.precision, n.scale = logicalDecimal, precision, scale
		}
	case "uuid":
		if n.kind == kindString || n.kind == kindFixed && n.size == 16 {
			l = logicalUUID
		}
	case "date":
		if n.kind == kindInt {
			l = logicalDate
		}
	case "time-millis":
		if n.kind == kindInt {
			l = logicalTimeOfDay
		}
	case "time-micros":
		if n.kind == kindLong {
			l = logicalTimeOfDay
		}
	case "timestamp-millis", "local-timestamp-millis":
		if n.kind == kindLong {
			l = logicalMillis
		}
	case "timestamp-micros", "local-timestamp-micros":
		if n.kind == kindLong {
			l = logicalMicros
		}
	case "timestamp-nanos", "local-timestamp-nanos":
		if n.kind == kindLong {
			l = logicalNanos
		}
	case "duration":
		if n.kind == kindFixed && n.size == 12 {
			l = logicalDuration
		}
	}
	if l != logicalNone {
		n.logical, n.logicalName = l, name
	}
}

// measure fills constant and least. Only a record's fields are followed: what
// stands after a union, an array or a map is at least one byte away. A record
// met again on that way would be of infinite size.
func (n *node) measure(depth int) error {
	if n.measured {
		return nil
	}
	if n.busy || depth > maxSchemaDepth {
		return fmt.Errorf("record %s contains itself without an end", n.name)
	}
	n.busy = true
	n.constant, n.least = -1, 1
	switch n.kind {
	case kindNull:
		n.constant, n.least = 0, 0
	case kindBoolean:
		n.constant = 1
	case kindFloat:
		n.constant, n.least = 4, 4
	case kindDouble:
		n.constant, n.least = 8, 8
	case kindFixed:
		n.constant, n.least = n.size, n.size
	case kindRecord:
		n.constant, n.least = 0, 0
		for i := range n.fields {
			t := n.fields[i].typ
			if err := t.measure(depth + 1); err != nil {
				return err
			}
			// Sums are held below any length of a message: beyond it all are the same.
			n.least = min(n.least+t.least, 1<<40)
			if t.constant < 0 || n.constant < 0 || n.constant+t.constant > 1<<40 {
				n.constant = -1
			} else {
				n.constant += t.constant
			}
		}
	}
	n.busy, n.measured = false, true
	return nil
}

// fieldIndex finds a field by its name, or else by an alias: the name it had
// in an earlier version of the schema. -1 if there is none.
func (n *node) fieldIndex(name string) int {
	for i := range n.fields {
		if n.fields[i].name == name {
			return i
		}
	}
	for i := range n.fields {
		for _, a := range n.fields[i].aliases {
			if a == name {
				return i
			}
		}
	}
	return -1
}

// title names a type for a message to a person.
func (n *node) title() string {
	switch n.kind {
	case kindUnion:
		names := make([]string, len(n.branches))
		for i, b := range n.branches {
			names[i] = b.title()
		}
		return "a union of " + strings.Join(names, ", ")
	case kindRecord, kindEnum, kindFixed:
		return n.kind.String() + " " + n.name
	}
	if n.logical != logicalNone {
		return n.kind.String() + " (" + n.logicalName + ")"
	}
	return n.kind.String()
}

// CannotBegin reports whether no record of a schema begins with a byte that writes a negative number, since the
// first that is written is a text, an enum, a union or a Boolean. A schema that cannot be read does not say so.
func CannotBegin(text string) bool {
	n, err := parseSchema(text)
	return err == nil && cannotBegin(n, 0)
}

func cannotBegin(n *node, depth int) bool {
	switch n.kind {
	case kindString, kindBytes, kindEnum, kindUnion, kindBoolean:
		return true
	case kindRecord:
		for i := range n.fields {
			f := n.fields[i].typ
			if f.constant == 0 {
				continue // is not written
			}
			return depth < maxSchemaDepth && cannotBegin(f, depth+1)
		}
	}
	return false
}
