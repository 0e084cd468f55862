package otlp

import (
	"bytes"
	"fmt"
	"math"
	"strings"

	"odradek/schemas"
)

// fields are the fields of any reading.
type fields struct{}

// Find implements schemas.Fields.
func (fields) Find(s *schemas.Sink) *schemas.Problem {
	if len(s.Segs) == 0 && s.Role == schemas.RoleReadings {
		return nil
	}
	first := ""
	for i, seg := range s.Segs {
		if seg.Count > 0 {
			return &schemas.Problem{Class: schemas.ClassBadType, Text: "is no array"}
		}
		if i == 0 {
			first = seg.Name
		}
	}
	_, part := fixedLevels[first]
	switch {
	case (s.Role == schemas.RoleKey || s.Role == schemas.RoleOperand) &&
		(len(s.Segs) == 1 && part || len(s.Segs) == 2 && (first == pathResource || first == pathAttributes)),
		s.Role == schemas.RoleTime && len(s.Segs) == 1 && first == pathTime,
		s.Role == schemas.RoleValue && len(s.Segs) == 1 && (first == pathValue || first == pathGauge || first == pathCounter),
		s.Role == schemas.RoleOperand && len(s.Segs) == 1 && (first == pathValue || first == pathTime):
		return nil
	}
	return &schemas.Problem{Class: schemas.ClassMissingField, Text: [...]string{
		schemas.RoleKey:      `is none of name, unit, type, scope, resource.NAME and attributes.NAME (a dot in the name as \.)`,
		schemas.RoleTime:     "is not time",
		schemas.RoleValue:    "is none of value, gauge and counter",
		schemas.RoleReadings: "is not @value, the data points of a record",
		schemas.RoleOperand:  "is none of name, unit, type, scope, value, time, resource.NAME and attributes.NAME",
	}[s.Role]}
}

// Paths implements schemas.Fields: what Find says lists them all.
func (fields) Paths(schemas.Role) []string { return nil }

// Items implements schemas.Fields.
func (f fields) Items(*schemas.Sink) schemas.Fields { return f }

// leaves lists the readings of a record.
func leaves(body []byte, out *schemas.Leaves) error {
	w := walk{program: &program{}, list: out}
	out.Array("")
	defer out.End()
	return w.record(body)
}

// listed lists a reading.
func (w *walk) listed(time uint64, v float64) error {
	out := w.list
	w.n++
	out.Next()
	out.Record()
	defer out.End()
	for i := range w.leafs {
		for _, l := range w.leafs[i] {
			x := schemas.Leaf{Kind: schemas.LeafText, Text: string(l.part.Text)}
			switch l.part.Kind {
			case schemas.KeyNumber:
				x = schemas.Leaf{Kind: schemas.LeafInt, Int: l.part.Num, Float: float64(l.part.Num)}
			case schemas.KeyNone:
				x.Kind = schemas.LeafOther
			case schemas.KeyEmpty:
				x.Kind = schemas.LeafNull
			}
			out.Add(l.path, x)
		}
	}
	value := schemas.Leaf{Kind: schemas.LeafFloat, Float: v}
	if v != v || math.IsInf(v, 0) {
		value = schemas.Leaf{Kind: schemas.LeafNull}
	}
	if w.counter {
		out.Add(pathCounter, value)
	} else {
		out.Add(pathGauge, value)
	}
	if time > 0 && time <= math.MaxInt64 {
		t, _ := schemas.ClockNanos.Micros(int64(time))
		out.Add(pathTime, schemas.Leaf{Kind: schemas.LeafTime, Int: t})
	}
	return nil
}

// mostLeaves bounds what like and text look at.
const mostLeaves = 10_000

// like reports whether a value has a data point of a metric with a name.
func like(value []byte) bool {
	if !bytes.HasPrefix(value, []byte(`{"resourceMetrics"`)) && (len(value) == 0 || value[0] != '\n') {
		return false
	}
	out := schemas.Leaves{Most: mostLeaves}
	err := leaves(value, &out)
	for i := range out.List {
		if l := &out.List[i]; l.Path == pathName && l.Kind == schemas.LeafText {
			return err == nil
		}
	}
	return false
}

// text returns a line for each value of each reading.
func text(_ *schemas.Schema, body []byte) (lines []string, err error) {
	out := schemas.Leaves{Most: mostLeaves}
	err = leaves(body, &out)
	for i := range out.List {
		switch l := &out.List[i]; l.Kind {
		case schemas.LeafText:
			lines = append(lines, fmt.Sprintf("[%d].%s: %s", l.Item, l.Path, strings.ToValidUTF8(l.Text, "\uFFFD")))
		case schemas.LeafFloat:
			lines = append(lines, fmt.Sprintf("[%d].%s: %v", l.Item, l.Path, l.Float))
		case schemas.LeafInt, schemas.LeafTime:
			lines = append(lines, fmt.Sprintf("[%d].%s: %d", l.Item, l.Path, l.Int))
		}
	}
	return lines, err
}
