package avro

import (
	"fmt"
	"slices"
	"strings"

	"odradek/schemas"
)

// resolve looks for a sink's path in a schema, without any data. It is nil if
// at least one way through the schema's unions leads to a value that suits;
// which way a record takes is seen when it is decoded.
func resolve(s *schemas.Sink, root *node) *schemas.Problem {
	return find(s, root, s.Segs, 0)
}

// find goes on with segs at n, which must be an array of that length if count > 0.
func find(s *schemas.Sink, n *node, segs []schemas.Segment, count int) *schemas.Problem {
	if n.kind == kindUnion {
		var first *schemas.Problem
		for _, b := range n.branches {
			if b.kind == kindNull {
				continue
			}
			p := find(s, b, segs, count)
			if p == nil {
				return nil
			}
			// The branch that came further has more to say.
			if first == nil || first.Class == schemas.ClassMissingField && p.Class == schemas.ClassBadType {
				first = p
			}
		}
		if first == nil {
			return suitable(s, &node{kind: kindNull})
		}
		return first
	}
	if count > 0 {
		if n.kind != kindArray {
			return &schemas.Problem{Class: schemas.ClassBadType, Text: fmt.Sprintf("is %s, not an array", n.title())}
		}
		return find(s, n.items, segs, 0)
	}
	if len(segs) == 0 {
		return suitable(s, n)
	}
	switch n.kind {
	case kindRecord:
		i := n.fieldIndex(segs[0].Name)
		if i < 0 {
			return &schemas.Problem{Class: schemas.ClassMissingField, Text: fmt.Sprintf("record %s has no field %q", n.name, segs[0].Name)}
		}
		return find(s, n.fields[i].typ, segs[1:], segs[0].Count)
	case kindMap:
		return find(s, n.items, segs[1:], segs[0].Count)
	}
	return &schemas.Problem{Class: schemas.ClassMissingField, Text: fmt.Sprintf("%s has no field %q", n.title(), segs[0].Name)}
}

func suitable(s *schemas.Sink, n *node) *schemas.Problem {
	switch {
	case n.suits(s.Role):
		return nil
	case s.Role == schemas.RoleValue && n.kind == kindArray:
		return &schemas.Problem{Class: schemas.ClassBadType, Text: fmt.Sprintf("is an array: give its length, as %s[3]", s.Text)}
	case s.Role == schemas.RoleValue:
		return &schemas.Problem{Class: schemas.ClassBadType, Text: fmt.Sprintf("is %s, not a number", n.title())}
	case s.Role == schemas.RoleTime:
		return &schemas.Problem{Class: schemas.ClassBadType, Text: fmt.Sprintf("is %s, not a time", n.title())}
	}
	return &schemas.Problem{Class: schemas.ClassBadType, Text: fmt.Sprintf("is %s, which cannot be a series key", n.title())}
}

// suits reports whether a value of a type can be read in a role. A union suits
// as a whole where a branch does; a null is a value that is always missing.
func (n *node) suits(r schemas.Role) bool {
	switch n.kind {
	case kindUnion:
		return slices.ContainsFunc(n.branches, func(b *node) bool { return b.kind != kindNull && b.suits(r) })
	case kindNull:
		return r == schemas.RoleValue
	case kindInt, kindLong:
		return r != schemas.RoleTime || n.logical != logicalTimeOfDay
	case kindFloat, kindDouble:
		return r != schemas.RoleKey
	case kindBoolean:
		return r == schemas.RoleValue
	case kindString:
		return r != schemas.RoleValue
	case kindBytes, kindFixed:
		if n.logical == logicalDecimal {
			return r == schemas.RoleValue
		}
		return r == schemas.RoleKey
	case kindEnum:
		return r == schemas.RoleKey
	}
	return false
}

// Check tells which of the mapping's paths a schema does not have, or has in a
// type that cannot be read so, each with the nearest paths that would do. It
// is nil where every record of the schema has all of them.
func Check(m schemas.Mapping, schema *schemas.Schema) []error {
	l, err := m.Layout()
	if err != nil {
		return []error{err}
	}
	root, err := parseWithReferences(schema)
	if err != nil {
		return []error{fmt.Errorf("schemas: not an Avro schema: %w", err)}
	}
	var faults []error
	for i := range l.Sinks {
		s := &l.Sinks[i]
		p := resolve(s, root)
		if p == nil {
			continue
		}
		hint, paths := "", root.paths(s.Role)
		if near := schemas.Nearest(s.Text, paths, 3); len(near) > 0 {
			hint = "; nearest: " + strings.Join(near, ", ")
		} else if len(paths) > 0 {
			hint = "; the schema has " + strings.Join(paths[:min(5, len(paths))], ", ")
		}
		faults = append(faults, fmt.Errorf("schemas: %s %q: %s%s", s.Role, s.Text, p.Text, hint))
	}
	return faults
}

// Paths lists the paths of a schema that can be fields of a mapping, in the
// schema's order: numbers, arrays of numbers as "accel[]" (the length is for
// the user to give) and numbers in maps as "tags.*".
func Paths(schemaJSON string) ([]string, error) {
	root, err := parseSchema(schemaJSON)
	if err != nil {
		return nil, fmt.Errorf("schemas: not an Avro schema: %w", err)
	}
	return root.paths(schemas.RoleValue), nil
}

// maxPaths bounds the list of a schema whose types refer to each other much.
const maxPaths = 4096

// paths lists the paths that suit a role; for the time those first that say
// they are one.
func (n *node) paths(r schemas.Role) []string {
	var out []string
	stamped := 0
	open := map[*node]bool{} // records on the way: a recursive one is not entered again
	add := func(p string) {
		if len(out) < maxPaths && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	var walk func(n *node, path string, array bool)
	walk = func(n *node, path string, array bool) {
		if len(out) >= maxPaths {
			return
		}
		join := func(name string) string {
			if path == "" {
				return name
			}
			return path + "." + name
		}
		switch n.kind {
		case kindRecord:
			if open[n] {
				return
			}
			open[n] = true
			for i := range n.fields {
				walk(n.fields[i].typ, join(schemas.Escape(n.fields[i].name)), array)
			}
			delete(open, n)
		case kindUnion:
			for _, b := range n.branches {
				if b.kind != kindNull {
					walk(b, path, array)
				}
			}
		case kindMap:
			walk(n.items, join("*"), array)
		case kindArray:
			if r == schemas.RoleValue && !array && path != "" && !strings.HasSuffix(path, "*") {
				walk(n.items, path+"[]", true)
			}
		default:
			if n.kind == kindNull || !n.suits(r) {
				return
			}
			if path == "" {
				path = "@value"
			}
			before := len(out)
			add(path)
			if r == schemas.RoleTime && len(out) > before && n.logical >= logicalDate {
				out = slices.Insert(out[:before], stamped, path)
				stamped++
			}
		}
	}
	walk(n, "", false)
	return out
}
