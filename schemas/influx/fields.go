package influx

import (
	"strconv"
	"strings"

	"odradek/schemas"
)

// fields are the fields of any line.
type fields struct{}

// Find implements schemas.Fields.
func (fields) Find(s *schemas.Sink) *schemas.Problem {
	if len(s.Segs) == 0 && s.Role == schemas.RoleReadings {
		return nil
	}
	first, named := "", len(s.Segs) == 2
	if len(s.Segs) > 0 {
		first = s.Segs[0].Name
	}
	for _, seg := range s.Segs {
		if seg.Count > 0 {
			return &schemas.Problem{Class: schemas.ClassBadType, Text: "is no array"}
		}
	}
	switch {
	case first == pathMeasurement && len(s.Segs) == 1, first == pathTags && named:
		if s.Role == schemas.RoleKey || s.Role == schemas.RoleOperand {
			return nil
		}
	case s.Wildcard:
		if first == pathFields && len(s.Segs) == 1 && strings.HasSuffix(s.Text, "fields.*") {
			return nil
		}
	case first == pathFields && named:
		if s.Role == schemas.RoleValue || s.Role == schemas.RoleOperand {
			return nil
		}
	case first == pathTimestamp && len(s.Segs) == 1:
		if s.Role == schemas.RoleTime {
			return nil
		}
	}
	return &schemas.Problem{Class: schemas.ClassMissingField, Text: [...]string{
		schemas.RoleKey:      `is neither name (the measurement) nor tags.NAME (a dot in the name as \.)`,
		schemas.RoleTime:     "is not timestamp",
		schemas.RoleValue:    `is not fields.NAME (a dot in the name as \.), nor fields.* as a series of its own each`,
		schemas.RoleReadings: "is not @value, the lines of a record",
		schemas.RoleOperand:  `is neither name, tags["NAME"] nor fields["NAME"]`,
	}[s.Role]}
}

// Paths implements schemas.Fields: what Find says lists them all.
func (fields) Paths(schemas.Role) []string { return nil }

// Items implements schemas.Fields.
func (f fields) Items(*schemas.Sink) schemas.Fields { return f }

// like reports whether the first line of a value is one of the line protocol.
func like(value []byte) bool {
	s := scan{b: value, line: 1}
	if !s.next() {
		return false
	}
	out := schemas.Leaves{Most: mostLeaves}
	s.leaves(&out)
	return s.err == nil && !out.Cut
}

// mostLeaves bounds the tags and fields of a line that like looks at.
const mostLeaves = 1000

// leaves lists the values of a record: of several lines as an array.
func leaves(body []byte, out *schemas.Leaves) error {
	s := scan{b: body, line: 1}
	lines := 0
	for s.next() && s.err == nil {
		lines++
		s.skip()
	}
	if lines != 1 {
		out.Array("")
		defer out.End()
	}
	s = scan{b: body, line: 1}
	for s.next() && !out.Cut {
		if lines != 1 {
			out.Next()
		}
		out.Record()
		s.leaves(out)
		if out.End(); s.err != nil {
			return s.err
		}
	}
	return nil
}

// skip passes over a line.
func (s *scan) skip() {
	s.measurement()
	for ok := true; ok; {
		_, _, ok = s.tag()
	}
	for more := true; more; {
		_, _, more = s.field()
	}
	s.timestamp()
}

// leaves lists the values of a line.
func (s *scan) leaves(out *schemas.Leaves) {
	name := s.measurement()
	out.Add(pathMeasurement, schemas.Leaf{Kind: schemas.LeafText, Text: string(name.text(nameEscapes))})
	for {
		name, value, ok := s.tag()
		if !ok {
			break
		}
		leaf := schemas.Leaf{Kind: schemas.LeafText, Text: string(value.text(tagEscapes))}
		out.Add(schemas.Under(pathTags, string(name.text(tagEscapes))), leaf)
	}
	for more := true; more && s.err == nil; {
		var name token
		var value []byte
		if name, value, more = s.field(); s.err != nil {
			return
		}
		leaf := schemas.Leaf{Kind: schemas.LeafOther} // a text is no value, and no part of a key
		if v, ok := number(value); ok {
			leaf.Kind, leaf.Float, leaf.Int = schemas.LeafFloat, v, int64(v)
			if c := value[0] | 0x20; c == 't' || c == 'f' {
				leaf.Kind = schemas.LeafBool
			}
		} else if value[0] != '"' {
			s.fail("the value before is no number and no Boolean")
		}
		out.Add(schemas.Under(pathFields, string(name.text(tagEscapes))), leaf)
	}
	if text := s.timestamp(); len(text) > 0 {
		if v, err := strconv.ParseInt(string(text), 10, 64); err == nil {
			out.Add(pathTimestamp, schemas.Leaf{Kind: schemas.LeafInt, Int: v, Float: float64(v)})
		}
	}
}
