package avro

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"odradek/schemas"
)

// Find looks for a sink's path in a schema, without any data. It returns nil if at least one
// way through the schema's unions leads to a value that suits; which way a record takes is
// known when it is decoded.
func (n *node) Find(s *schemas.Sink) *schemas.Problem { return find(s, n, s.Segs, 0) }

// find follows segs from n on, which must be an array of that length if count > 0.
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
			// The error of the branch that matched more steps is more useful.
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

// Items implements schemas.Fields.
func (n *node) Items(s *schemas.Sink) schemas.Fields {
	if a := itemsAt(n, s.Segs); a != nil {
		return a
	}
	return nil
}

// itemsAt returns the items of the array that the path segs leads to; nil without one.
func itemsAt(n *node, segs []schemas.Segment) *node {
	switch {
	case n.kind == kindUnion:
		for _, b := range n.branches {
			if items := itemsAt(b, segs); items != nil {
				return items
			}
		}
	case len(segs) == 0 && n.kind == kindArray:
		return n.items
	case len(segs) == 0:
	case n.kind == kindMap:
		return itemsAt(n.items, segs[1:])
	case n.kind == kindRecord:
		if i := n.fieldIndex(segs[0].Name); i >= 0 {
			return itemsAt(n.fields[i].typ, segs[1:])
		}
	}
	return nil
}

func suitable(s *schemas.Sink, n *node) *schemas.Problem {
	switch {
	case s.Wildcard && (n.kind == kindRecord && !n.decimal() || n.kind == kindMap):
		return nil
	case s.Wildcard:
		return &schemas.Problem{Class: schemas.ClassBadType, Text: fmt.Sprintf("leads to %s, not to a record or a map", n.title())}
	case n.suits(s.Role), s.FromText && n.kind == kindString:
		return nil
	case s.Role == schemas.RoleOperand:
		return &schemas.Problem{Class: schemas.ClassBadType, Text: fmt.Sprintf("is %s, not a text, number, Boolean or time", n.title())}
	case s.Role == schemas.RoleReadings:
		return &schemas.Problem{Class: schemas.ClassBadType, Text: fmt.Sprintf("is %s, not an array", n.title())}
	case s.Role == schemas.RoleValue && n.kind == kindArray:
		return &schemas.Problem{Class: schemas.ClassBadType, Text: fmt.Sprintf("is an array: give its length, as %s[3]", s.Text)}
	case s.Role == schemas.RoleValue:
		hint := ""
		if n.kind == kindString {
			hint = schemas.TextHint
		}
		return &schemas.Problem{Class: schemas.ClassBadType, Text: fmt.Sprintf("is %s, not a number%s", n.title(), hint)}
	case s.Role == schemas.RoleTime:
		return &schemas.Problem{Class: schemas.ClassBadType, Text: fmt.Sprintf("is %s, not a time", n.title())}
	}
	return &schemas.Problem{Class: schemas.ClassBadType, Text: fmt.Sprintf("is %s, which cannot be a series key", n.title())}
}

// suits reports whether a value of a type can be read in a role. A union suits
// as a whole where a branch does; a null is a value that is always missing.
func (n *node) suits(r schemas.Role) bool {
	if r == schemas.RoleReadings && n.kind != kindUnion {
		return n.kind == kindArray
	}
	if r == schemas.RoleOperand && n.kind != kindUnion {
		return n.kind != kindRecord && n.kind != kindArray && n.kind != kindMap && n.logical != logicalDuration
	}
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
	case kindRecord:
		return r == schemas.RoleValue && n.decimal()
	}
	return false
}

// decimal reports whether a record is a decimal with its scale beside it: Debezium's io.debezium.data.VariableScaleDecimal.
func (n *node) decimal() bool {
	if !strings.HasSuffix(n.name, "VariableScaleDecimal") || len(n.fields) != 2 {
		return false
	}
	scale, value := n.fieldIndex("scale"), n.fieldIndex("value")
	return scale >= 0 && value >= 0 && n.fields[scale].typ.kind == kindInt && n.fields[value].typ.kind == kindBytes
}

// maxPaths bounds the list of a schema with many references between its types.
const maxPaths = 4096

// Paths lists the paths that suit a role, in the schema's order: arrays of numbers as
// "accel[]" (the user adds the length) and numbers in maps as "tags.*"; for the
// time those with a logical type of a time come first.
func (n *node) Paths(r schemas.Role) []string {
	var out []string
	stamped := 0
	open := map[*node]bool{} // the records around the current one: a recursive one is not entered again
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
		kind := n.kind
		if kind == kindRecord && n.suits(r) {
			kind = kindBytes // one value
		}
		switch kind {
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
			if r == schemas.RoleReadings && !array {
				add(cmp.Or(path, "@value"))
			}
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
