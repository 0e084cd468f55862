package schemas

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"odradek/schemas/expression"
)

// This file has what expressions over a record's fields decide: whether the record is taken at all (Mapping.OnlyIf), and values
// that are computed (Mapping.Computed). The fields that an expression uses are sinks of their own, which programs read as they
// read keys, times and values, in their place in the record.

// computed is a value that is computed.
type computed struct {
	text        string // as configured
	expression  *expression.Expression
	slot, field int // in Values, and in Mapping.Fields
	accept      *acceptance
}

// computedValues parses Computed, without the expressions themselves.
func (m Mapping) computedValues() (byName map[string]*computed, faults []error) {
	for _, text := range m.Computed {
		name, _, ok := strings.Cut(text, "=")
		name = strings.TrimSpace(name)
		switch {
		case !ok || name == "" || strings.ContainsAny(name, "[]/+") || strings.HasPrefix(name, "@"):
			faults = append(faults, fmt.Errorf("schemas: compute %q is not NAME=EXPRESSION", text))
		case !slices.Contains(m.Fields, name):
			faults = append(faults, fmt.Errorf("schemas: compute %q: %q is none of the mapped fields %s: name it there, too", text, name,
				strings.Join(m.Fields, ", ")))
		case byName[name] != nil:
			faults = append(faults, fmt.Errorf("schemas: compute %q: %q is named twice", text, name))
		default:
			if byName == nil {
				byName = map[string]*computed{}
			}
			byName[name] = &computed{text: text}
		}
	}
	return byName, faults
}

// expressions compiles the expressions of a mapping and adds the paths that they use to l.
func (m Mapping) expressions(l *Layout) error {
	l.extra = l.wildcard != nil || l.screens || l.Key != nil || m.OnlyIf != "" || l.computed != nil
	var faults []error
	if m.OnlyIf != "" {
		if e, err := expression.Condition(m.OnlyIf); err != nil {
			faults = expressionFaults("only if", m.OnlyIf, err)
		} else {
			l.onlyIf = e
			l.operandsOf(e)
		}
	}
	for i := range l.computed {
		c := &l.computed[i]
		_, text, _ := strings.Cut(c.text, "=")
		e, err := expression.Value(strings.TrimSpace(text))
		if err != nil {
			faults = append(faults, expressionFaults("compute", c.text, err)...)
			continue
		}
		c.expression = e
		l.operandsOf(e)
	}
	return errors.Join(faults...)
}

// expressionFaults returns what is wrong with an expression, a fault for each line of err.
func expressionFaults(setting, text string, err error) (faults []error) {
	if err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			faults = append(faults, fmt.Errorf("schemas: %s %q: %s", setting, text, line))
		}
	}
	return faults
}

// operandsOf adds the paths of an expression to l.
func (l *Layout) operandsOf(e *expression.Expression) {
	var at []int
	for i := range e.Paths {
		p := &e.Paths[i]
		l.Sinks = append(l.Sinks, Sink{Role: RoleOperand, Text: p.String(), Segs: segments(p), Slot: l.operands, optional: p.Optional})
		at = append(at, l.operands)
		l.operands++
	}
	e.Bind(at)
}

// uses reports whether an expression uses a field of an array.
func uses(e *expression.Expression, array []Segment) bool {
	for i := range e.Paths {
		if common(segments(&e.Paths[i]), array) == len(array) {
			return true
		}
	}
	return false
}

func segments(p *expression.Path) (segs []Segment) {
	for _, name := range p.Names {
		segs = append(segs, Segment{Name: name})
	}
	return segs
}

// holds reports whether OnlyIf holds. If not, it skips the record, or returns why that is not known.
func (l *Layout) holds(out *Reading) (bool, error) {
	holds, err := l.onlyIf.Holds(&out.Operands)
	if err != nil {
		return false, &DecodeError{Class: ClassExpression, SchemaID: out.Schema, Err: fmt.Errorf("only_if %s: %w", l.onlyIf.Text, err)}
	}
	if !holds {
		out.filter()
	}
	return holds, nil
}

// filter skips a record for which OnlyIf is false, or is for each of its readings.
func (r *Reading) filter() {
	schema := r.Schema
	r.Skip(SkippedFiltered)
	r.Schema = schema
}

// compute sets the values that are computed. One that is null is a field that the record does not have: where each field is a
// series, only the values of a record that its series have are samples.
func (l *Layout) compute(out *Reading) error {
	own := len(out.absent) > 0 // a format whose readings have fields of their own
	if !own {
		out.absent = append(out.absent, make([]bool, l.Width)...)
	}
	for i := range l.computed {
		c := &l.computed[i]
		if own {
			if out.absent[c.slot] = !c.expression.Has(&out.Operands); out.absent[c.slot] {
				continue
			}
		}
		v, null, err := c.expression.Number(&out.Operands)
		if err != nil {
			name, _, _ := strings.Cut(c.text, "=")
			return &DecodeError{Class: ClassExpression, Field: strings.TrimSpace(name), SchemaID: out.Schema,
				Err: fmt.Errorf("compute %s: %w", c.text, err)}
		}
		if v != v {
			v = math.NaN() // the one NaN
		} else if c.accept != nil && !c.accept.takes(v) {
			v = math.NaN()
			out.Rejected = append(out.Rejected, c.field)
		}
		out.Values[c.slot] = v
		out.absent[c.slot] = null
	}
	return nil
}

// Computes reports whether values are computed.
func (l *Layout) Computes() bool { return l.computed != nil }

// Computable reports whether a value can be computed: in a format whose readings have fields of their own, a reading may lack the
// fields that all of them need.
func (l *Layout) Computable(out *Reading) bool {
	return slices.ContainsFunc(l.computed, func(c computed) bool { return c.expression.Has(&out.Operands) })
}

// Operand is a field that an expression uses, where a program writes what the record has there. It is missing before.
func (r *Reading) Operand(slot int) *expression.Operand { return &r.Operands.List[slot] }

// Rows evaluates the expressions of a mapping for rows of a table, which no Program reads. It serves one goroutine.
type Rows struct {
	// Columns are the fields that the expressions use, and Operands what the row has there. Optional says which columns a
	// table may lack.
	Columns  []string
	Optional []bool
	Operands expression.Operands
	layout   *Layout
}

// Rows returns what evaluates the expressions of a mapping; nil where it has none.
func (m Mapping) Rows() *Rows {
	l, err := m.Layout()
	if err != nil || l.onlyIf == nil && l.computed == nil {
		return nil
	}
	r := &Rows{layout: l}
	for i := range l.Sinks {
		if s := &l.Sinks[i]; s.Role == RoleOperand {
			r.Columns, r.Optional = append(r.Columns, s.Text), append(r.Optional, s.optional)
		}
	}
	return r.Clone()
}

// Clone returns another one for another goroutine.
func (r *Rows) Clone() *Rows {
	c := &Rows{Columns: r.Columns, Optional: r.Optional, layout: r.layout}
	c.Operands.Reset(len(c.Columns))
	return c
}

// Computes reports whether a field is a value that is computed; of a nil r none is.
func (r *Rows) Computes(field string) bool {
	return r != nil && slices.ContainsFunc(r.layout.computed, func(c computed) bool { return r.layout.columns[c.field].Text == field })
}

// Compute sets the computed ones of a row's values, and absent of each that is null: the row has no such value. A value that the
// mapping does not take is left to Screen.
func (r *Rows) Compute(values []float64, absent []bool) (err error) {
	for i := range r.layout.computed {
		c := &r.layout.computed[i]
		if values[c.slot], absent[c.slot], err = c.expression.Number(&r.Operands); err != nil {
			return fmt.Errorf("compute %s: %w", c.text, err)
		}
	}
	return nil
}

// Holds reports whether the row is taken.
func (r *Rows) Holds() (bool, error) {
	if r.layout.onlyIf == nil {
		return true, nil
	}
	return r.layout.onlyIf.Holds(&r.Operands)
}

// SetText sets an operand to what a text means: a number, true or false, or null where it is empty.
func (r *Rows) SetText(column int, text string) {
	o := &r.Operands.List[column]
	number, err := strconv.ParseFloat(text, 64)
	switch {
	case text == "":
		o.Kind = expression.Null
	case text == "true" || text == "false":
		o.Kind, o.Num = expression.Bool, int64(len("false")-len(text))
	case err == nil:
		o.Kind, o.Float = expression.Double, number
	default:
		o.Kind, o.Text = expression.Text, []byte(text)
	}
}

// Typed is a schema's Fields that know the types of the fields that expressions use.
type Typed interface {
	Fields
	// Type returns the type of the values at a sink's path, which Find has found; Unknown where records decide.
	Type(s *Sink) expression.Type
}

// operandTypes sets the types of the operands whose paths a layout has, as a schema's fields have them.
func (l *Layout) operandTypes(types []expression.Type, fields Fields) {
	for i := range l.Sinks {
		s := &l.Sinks[i]
		if typed, ok := fields.(Typed); ok && s.Role == RoleOperand && fields.Find(s) == nil {
			types[s.Slot] = typed.Type(s)
		}
	}
}

// checkExpressions compares the expressions of a layout with the types of their operands.
func (l *Layout) checkExpressions(types []expression.Type) (faults []error) {
	if l.onlyIf != nil {
		faults = expressionFaults("only if", l.onlyIf.Text, l.onlyIf.Check(types))
	}
	for i := range l.computed {
		c := &l.computed[i]
		faults = append(faults, expressionFaults("compute", c.text, c.expression.Check(types))...)
	}
	if l.Item != nil {
		faults = append(faults, l.Item.checkExpressions(types)...)
	}
	return faults
}
