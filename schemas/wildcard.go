package schemas

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// A field that ends with "*", as "metrics.*", stands for each number below the path in front of it, at any depth: a leaf. A "*"
// before the end stands for one name: of "metrics.*.value" the leaves are the numbers value of all objects in metrics. Which
// leaves there are is in each record, and each is a sample of the series that has the leaf's path in its key (Splitter). A
// program that reads the place of such a field calls Reading.Enter and Exit around each name on the way, and AddLeaf or
// LeaveOut for each value.

// wildcard is what a layout knows of such a field.
type wildcard struct {
	prefix   []byte   // path in front of the "*", as Under writes it; empty: the record
	apart    [][]byte // paths of leaves that are the key or the time
	rest     []string // of the field after prefix, "*" for one name, or at the end for one or more; nil: any path
	fromText bool
	field    *Sink // as in Layout.columns
}

const anyName = "*"

// wildcardOf returns the path in front of the first "*" of a field, the parts from there on, and whether it has one.
func wildcardOf(field string) (prefix string, rest []string, ok bool) {
	parts := split(field, '.')
	i := slices.Index(parts, anyName)
	switch {
	case i < 0:
		return "", nil, false
	case i == 0:
		return "@value", parts, true
	}
	return strings.Join(parts[:i], "."), parts[i:], true
}

// matches reports whether a path, as appendName writes it, is one that the parts of a field stand for.
func matches(rest []string, path []byte) bool {
	for i, part := range rest {
		if len(path) == 0 {
			return false
		}
		if part == anyName && i == len(rest)-1 {
			return true
		}
		end := 0
		for end < len(path) && path[end] != '.' {
			if path[end] == '\\' {
				end++
			}
			end++
		}
		if part != anyName && part != string(path[:end]) {
			return false
		}
		path = path[min(end+1, len(path)):]
	}
	return len(path) == 0
}

// IsWildcard reports whether a field stands for each number below a path.
func IsWildcard(field string) bool {
	_, _, ok := wildcardOf(field)
	return ok
}

// WildcardHas reports whether a field is such a one, and a leaf of it may have that path.
func WildcardHas(field, leaf string) bool {
	prefix, rest, ok := wildcardOf(field)
	if prefix != "@value" {
		below, in := strings.CutPrefix(leaf, prefix+".")
		if !in {
			return false
		}
		leaf = below
	}
	return ok && matches(rest, []byte(leaf))
}

// wildcardField has the layout know its field that stands for each number below a path, if it has one. It returns what is wrong.
func (m Mapping) wildcardField(l *Layout) (faults []error) {
	i := slices.IndexFunc(m.Fields, IsWildcard)
	if i < 0 || len(l.columns) != len(m.Fields) {
		return nil
	}
	if len(m.Fields) > 1 {
		return []error{fmt.Errorf("schemas: field %q is each number below a path: it stands alone, without %s", m.Fields[i],
			strings.Join(slices.Delete(slices.Clone(m.Fields), i, i+1), ", "))}
	}
	s := &l.columns[0]
	if counted(s.Segs) > 0 || s.Scale != nil {
		return []error{fmt.Errorf("schemas: field %q is each number below a path: it has no array in it, and no DECIMALS", s.Text)}
	}
	l.wildcard = &wildcard{prefix: pathOf(s.Segs), fromText: m.TextNumbers, field: s}
	if _, rest, _ := wildcardOf(s.Text); len(rest) > 1 {
		for _, part := range rest {
			if part != anyName {
				segs, err := parsePath(part)
				if err != nil || counted(segs) > 0 {
					return []error{fmt.Errorf("schemas: field %q: after a * there are names of fields, and no array", s.Text)}
				}
				part = string(pathOf(segs))
			}
			l.wildcard.rest = append(l.wildcard.rest, part)
		}
	}
	for j := range l.Sinks {
		if c := &l.Sinks[j]; c.Role == RoleKey || c.Role == RoleTime {
			l.wildcard.apart = append(l.wildcard.apart, pathOf(c.Segs))
		}
	}
	return nil
}

// pathOf writes the names of a path.
func pathOf(segs []Segment) (path []byte) {
	for i := range segs {
		path = appendName(path, []byte(segs[i].Name))
	}
	return path
}

// appendName appends a name to a path, as Under does; a '/' in it, which ends the reading's key in a series' key, as %2F.
func appendName(path, name []byte) []byte {
	if len(path) > 0 {
		path = append(path, '.')
	}
	for _, c := range name {
		switch {
		case c == '/':
			path = append(path, "%2F"...)
		case escaped(c):
			path = append(path, '\\', c)
		default:
			path = append(path, c)
		}
	}
	return path
}

// leaves are the leaves of a record.
type leaves struct {
	path   []byte // where the program is
	found  bool   // the record has the place of the field
	over   bool   // a reading has more than maxWidth, or than maxNames
	names  []byte // one behind the other
	ends   []int  // of the names
	values []float64
	until  []int // of several readings: how many leaves there are up to the end of each
	// known are names without a repetition, the names of a reading before. seen helps to find one.
	known  []byte
	bounds []int
	seen   map[string]struct{}
}

// beginLeaves forgets the leaves of the reading before.
func (r *Reading) beginLeaves(l *Layout) {
	if r.leaves == nil {
		r.leaves = &leaves{}
	}
	v := r.leaves
	v.path = append(v.path[:0], l.wildcard.prefix...)
	v.found, v.over = false, false
	v.names, v.ends, v.values, v.until = v.names[:0], v.ends[:0], v.values[:0], v.until[:0]
}

// FindLeaves notes that the record has the place of the field that stands for each number below it. It reports whether that was
// known.
func (r *Reading) FindLeaves() (before bool) {
	before, r.leaves.found = r.leaves.found, true
	return before
}

// HasLeaves reports whether the record has that place.
func (r *Reading) HasLeaves() bool { return r.leaves != nil && r.leaves.found }

// Enter goes on to a name. Exit with the result goes back.
func (r *Reading) Enter(name []byte) (back int) {
	back = len(r.leaves.path)
	r.leaves.path = appendName(r.leaves.path, name)
	return back
}

// Exit goes back to where Enter was called.
func (r *Reading) Exit(back int) { r.leaves.path = r.leaves.path[:back] }

// apart reports whether the present place is the key's or the time's, or none that the field stands for.
func (l *Layout) apart(r *Reading) bool {
	if w := l.wildcard; w.rest != nil {
		path := r.leaves.path[len(w.prefix):]
		if len(w.prefix) > 0 && len(path) > 0 {
			path = path[1:] // the dot
		}
		if !matches(w.rest, path) {
			return true
		}
	}
	return slices.ContainsFunc(l.wildcard.apart, func(path []byte) bool { return bytes.Equal(path, r.leaves.path) })
}

// AddLeaf adds the number at the present place, NaN where it is missing.
func (l *Layout) AddLeaf(v float64, sink int32, r *Reading) {
	if l.apart(r) {
		return
	}
	if v = Finite(v, sink, r); l.wildcard.field.accept != nil && !l.wildcard.field.accept.takes(v) {
		v = math.NaN()
		r.Rejected = append(r.Rejected, l.wildcard.field.field)
	}
	s := r.leaves
	if len(s.ends) == maxWidth || len(s.names)+len(s.path) > maxNames {
		s.over = true
		return
	}
	s.names = append(s.names, s.path...)
	s.ends, s.values = append(s.ends, len(s.names)), append(s.values, v)
}

// AddTextLeaf adds the number that the text at the present place writes, where texts are read, or leaves the text out.
func (l *Layout) AddTextLeaf(text []byte, sink int32, r *Reading) {
	if l.wildcard.fromText {
		if v, wrong := TextNumber(text); wrong != FaultText {
			if v == v { // else it is as one that is not there
				l.AddLeaf(v, sink, r)
			}
			return
		}
	}
	l.LeaveOut(r)
}

// LeaveOut counts the value at the present place, which is no number.
func (l *Layout) LeaveOut(r *Reading) {
	if !l.apart(r) {
		r.Rejected = append(r.Rejected, l.wildcard.field.field)
	}
}

// maxNames bounds the bytes of the paths of a record's leaves.
const maxNames = 16 << 20

var errLeaves = fmt.Errorf("more than %d numbers in a reading, or than %d bytes in their paths", maxWidth, maxNames)

// finishLeaves checks the leaves of a reading.
func (l *Layout) finishLeaves(r *Reading) error {
	s := r.leaves
	fail := func(class, field string, err error) error {
		return &DecodeError{Class: class, Field: field, SchemaID: r.Schema, Err: err}
	}
	if s.over {
		return fail(ClassTooLarge, l.wildcard.field.Text, errLeaves)
	}
	if twice := s.repeated(); twice != "" {
		return fail(ClassMalformed, twice, errors.New("the record has the field twice"))
	}
	if len(s.ends) == 0 && l.Item == nil && r.record == nil {
		r.leaveEmpty()
	}
	return nil
}

// leaveEmpty leaves a record out that has no leaves.
func (r *Reading) leaveEmpty() { r.Key, r.Time, r.Skipped = nil, NoTime, SkippedUnmapped }

// repeated returns a name that comes twice; "": there is none. Most records have the names of the one before.
func (l *leaves) repeated() string {
	if slices.Equal(l.ends, l.bounds) && bytes.Equal(l.names, l.known) {
		return ""
	}
	if l.seen == nil {
		l.seen = map[string]struct{}{}
	}
	clear(l.seen)
	for i := range l.ends {
		name := string(l.name(i))
		if _, twice := l.seen[name]; twice {
			return name
		}
		l.seen[name] = struct{}{}
	}
	l.known, l.bounds = append(l.known[:0], l.names...), append(l.bounds[:0], l.ends...)
	return ""
}

func (l *leaves) name(i int) []byte {
	from := 0
	if i > 0 {
		from = l.ends[i-1]
	}
	return l.names[from:l.ends[i]]
}

// add adds the leaves of the next of several readings.
func (l *leaves) add(next *leaves) {
	base := len(l.names)
	l.names, l.values = append(l.names, next.names...), append(l.values, next.values...)
	for _, end := range next.ends {
		l.ends = append(l.ends, base+end)
	}
	l.until = append(l.until, len(l.ends))
}

// longest returns the most bytes of a name.
func (l *leaves) longest() (most int) {
	for i := range l.ends {
		most = max(most, len(l.name(i)))
	}
	return most
}
