package schemas

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Not every number of a record is a reading: a sensor that is disconnected sends -9999, a fault of its bus makes 1e9 of a
// temperature. This file makes such values missing ones, which enter no window: values outside of the bounds of their field
// (Mapping.Valid), and numbers that stand for no reading (Mapping.MissingIf).

// acceptance says which values of a field are taken.
type acceptance struct {
	min, max float64
	absent   []float64 // numbers that stand for no reading
}

// takes reports whether a value is taken. A number of absent is compared as it is, and as the float32 that a record may have in
// its place: 6553.6 is 6553.60009765625 there. NaN, which is missing already, is taken.
func (a *acceptance) takes(v float64) bool {
	if v < a.min || v > a.max {
		return false
	}
	for _, x := range a.absent {
		if v == x || v == float64(float32(x)) {
			return false
		}
	}
	return true
}

// screen makes each value of out missing that its field does not take, and notes the field in out.Rejected. It looks at the fields
// of this layout: of a record with an array of readings, the record and each item have one of their own.
func (l *Layout) screen(out *Reading) { screen(l.Sinks, out) }

func screen(sinks []Sink, out *Reading) {
	for i := range sinks {
		s := &sinks[i]
		if s.accept == nil {
			continue
		}
		for j := s.Slot; j < s.Slot+s.N; j++ {
			if !s.accept.takes(out.Values[j]) {
				out.Values[j] = math.NaN()
				out.Rejected = append(out.Rejected, s.field)
			}
		}
	}
}

// Screen returns the function that makes a reading's values missing that the mapping does not take, for rows that no
// Program has read; nil where it takes all.
func (m Mapping) Screen() func(values []float64) {
	l, err := m.paths()
	if err != nil || !l.screens {
		return nil
	}
	var row Reading
	return func(values []float64) {
		row.Values, row.Rejected = values, row.Rejected[:0]
		screen(l.columns, &row)
	}
}

// acceptances parses Valid and MissingIf.
func (m Mapping) acceptances() (byField []*acceptance, faults []error) {
	byField = make([]*acceptance, len(m.Fields))
	valid := func(i int, text string) bool {
		a := acceptOf(byField, i)
		low, high, ok := strings.Cut(text, "..")
		if !ok || low == "" && high == "" || low != "" && !number(low, &a.min) || high != "" && !number(high, &a.max) {
			return false
		}
		return a.min <= a.max
	}
	absent := func(i int, text string) bool {
		a := acceptOf(byField, i)
		for _, t := range strings.Split(text, "|") {
			var x float64
			if !number(t, &x) {
				return false
			}
			a.absent = append(a.absent, x)
		}
		return true
	}
	faults = m.byField("valid", "FIELD=MIN..MAX, of which one may be left out, with MIN at most MAX", m.Valid, valid)
	return byField, append(faults, m.byField("missing if", "FIELD=NUMBER|NUMBER|...", m.MissingIf, absent)...)
}

// scales parses Decimals.
func (m Mapping) scales() (byField []*int, faults []error) {
	byField = make([]*int, len(m.Fields))
	return byField, m.byField("decimals", "FIELD=DIGITS, the digits after the point", m.Decimals, func(i int, text string) bool {
		scale, err := strconv.Atoi(text)
		byField[i] = &scale
		return err == nil && max(scale, -scale) <= maxDecimalScale
	})
}

// byField parses a list of entries FIELD=TEXT. Fields are named as in Fields, an array with or without its count.
func (m Mapping) byField(what, entries string, list []string, parse func(field int, text string) bool) (faults []error) {
	seen := map[int]bool{}
	for _, entry := range list {
		name, text, ok := strings.Cut(entry, "=")
		name, text = strings.TrimSpace(name), strings.TrimSpace(text)
		i := slices.IndexFunc(m.Fields, func(f string) bool { return f == name || withoutCount(f) == name })
		switch {
		case ok && i < 0:
			faults = append(faults, fmt.Errorf("schemas: %s %q: %q is none of the mapped fields %s", what, entry, name,
				strings.Join(m.Fields, ", ")))
		case ok && seen[i]:
			faults = append(faults, fmt.Errorf("schemas: %s %q: field %q is named twice", what, entry, name))
		case !ok || !parse(i, text):
			faults = append(faults, fmt.Errorf("schemas: %s %q is not %s", what, entry, entries))
		default:
			seen[i] = true
		}
	}
	return faults
}

func acceptOf(byField []*acceptance, i int) *acceptance {
	if byField[i] == nil {
		byField[i] = &acceptance{min: math.Inf(-1), max: math.Inf(1)}
	}
	return byField[i]
}

// number reads a finite number.
func number(text string, x *float64) bool {
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	*x = v
	return err == nil && !math.IsInf(v, 0) && v == v
}
