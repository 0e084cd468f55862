package rules

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// This file decides which scores above their threshold can be anomalies: scores of
// samples that deviate in the right direction, by enough, and under the conditions that an operator knows.
//
// A guard has no state. A score that it does not admit is ordinary: it is published unchanged,
// and counts towards closing an open anomaly.

// Direction says on which side of what was expected a value has to be.
type Direction uint8

// The directions.
const (
	BothDirections Direction = iota
	Above
	Below
)

// directionNames are the settings' words, by Direction.
var directionNames = [...]string{"both", "above", "below"}

// ParseDirection reads the word of a direction; "" is both.
func ParseDirection(s string) (Direction, error) {
	for d, name := range directionNames {
		if cmp.Or(s, "both") == name {
			return Direction(d), nil
		}
	}
	return 0, fmt.Errorf("no direction %q, use one of %s", s, strings.Join(directionNames[:], ", "))
}

// Gate is a condition on a value of the sample.
type Gate struct {
	Field int // of the detector
	Below bool
	Bound float64
}

// open reports whether a value fulfils the condition; a missing one, NaN, does not.
func (g *Gate) open(value float64) bool {
	if g.Below {
		return value < g.Bound
	}
	return value > g.Bound
}

// ParseGate reads a condition such as value>80 or rpm<20. names are the names of the detector's fields.
func ParseGate(s string, names []string) (g Gate, err error) {
	i := strings.IndexAny(s, "<>")
	if i < 0 {
		return g, fmt.Errorf("%q is not a field, > or <, and a number, like value>80", s)
	}
	name, bound := strings.TrimSpace(s[:i]), strings.TrimSpace(s[i+1:])
	g.Below = s[i] == '<'
	if g.Bound, err = strconv.ParseFloat(bound, 64); err != nil || math.IsNaN(g.Bound) || math.IsInf(g.Bound, 0) {
		return g, fmt.Errorf("%q: %q is not a number", s, bound)
	}
	for g.Field = range names {
		if names[g.Field] == name {
			return g, nil
		}
	}
	return g, fmt.Errorf("%q: %q is not one of the detector's fields (%s)", s, name, strings.Join(names, ", "))
}

// Guard is the conditions of a detector's anomalies; the zero value admits all.
type Guard struct {
	Direction Direction
	Least     float64 // deviation from what was expected, in the field's unit
	Share     float64 // the same as a share of the expected value's magnitude
	Gates     []Gate  // all of them
}

// Check returns the faults of a guard.
func (g *Guard) Check() error {
	var faults []error
	if !(g.Least >= 0) || math.IsInf(g.Least, 0) {
		faults = append(faults, fmt.Errorf("rules: a least deviation of %v", g.Least))
	}
	if !(g.Share >= 0) || math.IsInf(g.Share, 0) {
		faults = append(faults, fmt.Errorf("rules: a least deviation of %v times the expected value", g.Share))
	}
	return errors.Join(faults...)
}

// Deviates reports whether the guard needs the expected values.
func (g *Guard) Deviates() bool { return g.Direction != BothDirections || g.Least > 0 || g.Share > 0 }

// Empty reports whether the guard admits all.
func (g *Guard) Empty() bool { return !g.Deviates() && len(g.Gates) == 0 }

// Open reports whether a sample of these values fulfils the conditions.
func (g *Guard) Open(values func(field int) float64) bool {
	for i := range g.Gates {
		if !g.Gates[i].open(values(g.Gates[i].Field)) {
			return false
		}
	}
	return true
}

// Admits reports whether a sample deviates enough, and in the right direction. It compares the value
// with the largest contribution to the score, the first of equal ones. Without expected values it
// admits the sample.
func (g *Guard) Admits(expected, actual, contribution []float64) bool {
	if !g.Deviates() || len(expected) == 0 {
		return true
	}
	at := 0
	for i, c := range contribution {
		if most := contribution[at]; c > most || c == c && most != most {
			at = i
		}
	}
	by := actual[at] - expected[at]
	switch g.Direction {
	case Above:
		if !(by > 0) {
			return false
		}
	case Below:
		if !(by < 0) {
			return false
		}
	}
	return math.Abs(by) >= max(g.Least, g.Share*math.Abs(expected[at]))
}
