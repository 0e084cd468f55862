package schemas

import (
	"fmt"
	"slices"
	"strings"

	"odradek/schemas/expression"
)

// Problem is the reason why no record of a schema has a path.
type Problem struct {
	Class string
	Text  string
}

// Check reports the mapping's paths that a schema lacks, or has with an unsuitable type,
// each with the nearest paths that would be suitable. It returns nil where every
// record of the schema has all of them.
func (f *Format) Check(m Mapping, schema *Schema) []error {
	l, err := m.Layout()
	if err != nil {
		return []error{err}
	}
	if f.Several && m.Readings == "" {
		return []error{fmt.Errorf("schemas: readings \"\": a record in %s is an array of readings: set it to @value", f.Title)}
	}
	fields, err := f.Fields(schema)
	if err != nil {
		return []error{fmt.Errorf("schemas: not a schema of %s: %w", f.Title, err)}
	}
	faults := missing(fields, l, "")
	types := make([]expression.Type, l.operands)
	l.operandTypes(types, fields)
	if l.Item != nil {
		array := &l.Sinks[len(l.Sinks)-1]
		if fields.Find(array) != nil {
			return faults // its items are unknown
		}
		if items := fields.Items(array); items != nil {
			faults = append(faults, missing(items, l.Item, strings.TrimPrefix(array.Text+".", "@value."))...)
			l.Item.operandTypes(types, items)
		}
	}
	return append(faults, l.checkExpressions(types)...)
}

// missing returns the faults of a layout's paths in a schema. Users write these paths with the prefix under in front.
func missing(fields Fields, l *Layout, under string) (faults []error) {
	for i := range l.Sinks {
		s := &l.Sinks[i]
		p := fields.Find(s)
		if p == nil || s.optional {
			continue
		}
		hint, paths := "", fields.Paths(s.Role)
		if near := nearest(s.Text, paths, 3); len(near) > 0 {
			hint = "; nearest: " + under + strings.Join(near, ", "+under)
		} else if len(paths) > 0 {
			hint = "; the schema has " + under + strings.Join(paths[:min(5, len(paths))], ", "+under)
		}
		faults = append(faults, fmt.Errorf("schemas: %s %q: %s%s", s.Role, under+s.Text, p.Text, hint))
	}
	return faults
}

// Escape writes a field's name as a step of a path.
func Escape(name string) string {
	var path []byte
	for i := range len(name) {
		if escaped(name[i]) {
			path = append(path, '\\')
		}
		path = append(path, name[i])
	}
	return string(path)
}

// escaped reports whether a path has a backslash before a character of a name.
func escaped(c byte) bool { return c == '\\' || c == '.' || c == '[' || c == '+' }

// nearest returns the paths most similar to text: those that end in the same name
// first, then by edit distance. It leaves distant ones out.
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
		c := EditDistance(strings.ToLower(withoutCount(text)), strings.ToLower(withoutCount(p)))
		d := EditDistance(last(text), last(p))
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

// EditDistance returns the number of bytes to insert, delete or replace to make a into b
// (Levenshtein 1966; one row at a time of Wagner and Fischer's table).
func EditDistance(a, b string) int {
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
