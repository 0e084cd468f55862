package schemas

import (
	"fmt"
	"slices"
	"strings"
)

// problem says why a path cannot be read from any record of a schema.
type problem struct {
	class string
	text  string
}

// resolve looks for a sink's path in a schema, without any data. It is nil if
// at least one way through the schema's unions leads to a value that suits;
// which way a record takes is seen when it is decoded.
func resolve(s *sink, root *node) *problem {
	return find(s, root, s.segs, 0)
}

// find goes on with segs at n, which must be an array of that length if count > 0.
func find(s *sink, n *node, segs []segment, count int) *problem {
	if n.kind == kindUnion {
		var first *problem
		for _, b := range n.branches {
			if b.kind == kindNull {
				continue
			}
			p := find(s, b, segs, count)
			if p == nil {
				return nil
			}
			// The branch that came further has more to say.
			if first == nil || first.class == ClassMissingField && p.class == ClassBadType {
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
			return &problem{ClassBadType, fmt.Sprintf("is %s, not an array", n.title())}
		}
		return find(s, n.items, segs, 0)
	}
	if len(segs) == 0 {
		return suitable(s, n)
	}
	switch n.kind {
	case kindRecord:
		i := n.fieldIndex(segs[0].name)
		if i < 0 {
			return &problem{ClassMissingField, fmt.Sprintf("record %s has no field %q", n.name, segs[0].name)}
		}
		return find(s, n.fields[i].typ, segs[1:], segs[0].count)
	case kindMap:
		return find(s, n.items, segs[1:], segs[0].count)
	}
	return &problem{ClassMissingField, fmt.Sprintf("%s has no field %q", n.title(), segs[0].name)}
}

func suitable(s *sink, n *node) *problem {
	switch {
	case n.suits(s.role):
		return nil
	case s.role == roleValue && n.kind == kindArray:
		return &problem{ClassBadType, fmt.Sprintf("is an array: give its length, as %s[3]", s.text)}
	case s.role == roleValue:
		return &problem{ClassBadType, fmt.Sprintf("is %s, not a number", n.title())}
	case s.role == roleTime:
		return &problem{ClassBadType, fmt.Sprintf("is %s, not a time", n.title())}
	}
	return &problem{ClassBadType, fmt.Sprintf("is %s, which cannot be a series key", n.title())}
}

// suits reports whether a value of a type can be read in a role. A union suits
// as a whole where a branch does; a null is a value that is always missing.
func (n *node) suits(r role) bool {
	switch n.kind {
	case kindUnion:
		return slices.ContainsFunc(n.branches, func(b *node) bool { return b.kind != kindNull && b.suits(r) })
	case kindNull:
		return r == roleValue
	case kindInt, kindLong:
		return r != roleTime || n.logical != logicalTimeOfDay
	case kindFloat, kindDouble:
		return r != roleKey
	case kindBoolean:
		return r == roleValue
	case kindString:
		return r != roleValue
	case kindBytes, kindFixed:
		if n.logical == logicalDecimal {
			return r == roleValue
		}
		return r == roleKey
	case kindEnum:
		return r == roleKey
	}
	return false
}

// Check tells which of the mapping's paths a schema does not have, or has in a
// type that cannot be read so, each with the nearest paths that would do. It
// is nil where every record of the schema has all of them.
func Check(m Mapping, schema *Schema) []error {
	l, err := m.layout()
	if err != nil {
		return []error{err}
	}
	root, err := parseWithReferences(schema)
	if err != nil {
		return []error{fmt.Errorf("schemas: not an Avro schema: %w", err)}
	}
	var faults []error
	for i := range l.sinks {
		s := &l.sinks[i]
		p := resolve(s, root)
		if p == nil {
			continue
		}
		hint, paths := "", root.paths(s.role)
		if near := nearest(s.text, paths, 3); len(near) > 0 {
			hint = "; nearest: " + strings.Join(near, ", ")
		} else if len(paths) > 0 {
			hint = "; the schema has " + strings.Join(paths[:min(5, len(paths))], ", ")
		}
		faults = append(faults, fmt.Errorf("schemas: %s %q: %s%s", s.role, s.text, p.text, hint))
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
	return root.paths(roleValue), nil
}

// maxPaths bounds the list of a schema whose types refer to each other much.
const maxPaths = 4096

// paths lists the paths that suit a role; for the time those first that say
// they are one.
func (n *node) paths(r role) []string {
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
				walk(n.fields[i].typ, join(escape(n.fields[i].name)), array)
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
			if r == roleValue && !array && path != "" && !strings.HasSuffix(path, "*") {
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
			if r == roleTime && len(out) > before && n.logical >= logicalDate {
				out = slices.Insert(out[:before], stamped, path)
				stamped++
			}
		}
	}
	walk(n, "", false)
	return out
}

func escape(name string) string {
	return strings.NewReplacer(`\`, `\\`, `.`, `\.`, `[`, `\[`, `+`, `\+`).Replace(name)
}

// nearest picks the paths most like text: a path that ends in the same name
// first, then by edit distance, far ones not at all.
func nearest(text string, paths []string, most int) []string {
	type candidate struct {
		path string
		cost int
	}
	last := func(p string) string {
		p = withoutCount(p)
		return strings.ToLower(p[strings.LastIndexByte(p, '.')+1:])
	}
	var list []candidate
	for _, p := range paths {
		c := distance(strings.ToLower(withoutCount(text)), strings.ToLower(withoutCount(p)))
		d := distance(last(text), last(p))
		if d <= len(last(text))/3 {
			c = min(c, d+1)
		}
		if a, b := last(text), last(p); len(a) > 2 && strings.HasPrefix(b, a) || len(b) > 2 && strings.HasPrefix(a, b) {
			c = min(c, 2)
		}
		if c < len(text) && c <= max(2, len(text)/2) {
			list = append(list, candidate{p, c})
		}
	}
	slices.SortStableFunc(list, func(a, b candidate) int { return a.cost - b.cost })
	var out []string
	for _, c := range list[:min(most, len(list))] {
		out = append(out, c.path)
	}
	return out
}

// distance is Levenshtein's, on bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
