package detectors

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ParamType is the type of a parameter.
type ParamType uint8

// The types of parameters, in Values and in a task's parameters.
const (
	Int    ParamType = iota // int; int32 in a task
	Long                    // int64; int64 in a task, two words at an even offset
	Float                   // float64; float32 in a task
	Bool                    // bool; a word that is 0 or 1 in a task
	Floats                  // in a task only: float32s up to the end of its parameters
	Ints                    // in a task only: int32s up to the end of its parameters
	Choice                  // string, one of Param.Choices; in a task its place among them, an int32
	Text                    // string that Spec.New checks; never in a task
	Time                    // an event time, Micros or a time.Duration; in a task microseconds, like a Long
)

// Names of rows with the same meaning for every op.
const (
	// WindowParam is the window of the method, which is a setting of every detector.
	WindowParam = "WINDOW"
	// TumblingParam is a Bool: windows do not overlap, so the stride is the window.
	TumblingParam = "TUMBLING"
	// DirectionParam is an Int, an index of Directions: on which side of what is expected an anomaly is. It is a setting of
	// every detector, and a row of ops that search a side.
	DirectionParam = "DIRECTION"
	// LearntParam is a Bool: the baselines of a grid are sums of earlier counts. It follows from the setting GRID_LEARN.
	LearntParam = "LEARNT"
	// EveryParam is an Int: samples of which one is scored, so the stride is a multiple.
	EveryParam = "EVERY"
)

// Directions are the values of DirectionParam, in words.
var Directions = []string{"above", "below", "both"}

// Param is a row of an op's parameter table. From the tables come the settings of
// detectors with their checks, the op's page docs/ops/NAME.md, and the headers of package
// cuda/kernels that name the words of a task's parameters.
type Param struct {
	// Name is the setting's in upper case, such as WINDOW.
	Name string
	Type ParamType
	// Default is an int, int64, float64, bool, string or Micros, as Type says. Nil with Derive.
	Default any
	// Min and Max are the limits of a number, inclusive.
	Min, Max float64
	Choices  []string // the words of a Choice
	Values   string   // what a Text may be, in words
	// Help documents the setting on the op's page, docs/ops/NAME.md, in a sentence or two. A row without Help is no setting.
	Help string
	// Example is a value that a user may set instead of the default; "" for a Bool or a Choice, whose values are few.
	Example string
	// Expert reports that only somebody who knows the paper sets it: the page has it in a table of its own.
	Expert bool
	// Derive returns the default where it depends on other settings, which v holds,
	// and on the number of values of a row. Derived describes it in words.
	Derive  func(v Values, dim int) any
	Derived string
	// Word is 1 for the first value of a task's parameters, 2 for the next; 0 for a row that is not
	// among them. The order differs from the table's, so that a new setting moves nothing.
	Word int
	// Stateless reports that no stored state depends on the setting: fingerprints omit it.
	Stateless bool
}

// Default is an op's own default for a setting that every detector has.
type Default struct {
	Name string // of the setting in upper case
	// Value returns the default in the form of an environment variable; v holds the op's settings.
	// Words describes it in the documentation.
	Value func(v Values) string
	Words string
}

// Micros is an event time in microseconds, the default of a row of type Time.
type Micros int64

// Microseconds returns the time, by the same method as a time.Duration.
func (m Micros) Microseconds() int64 { return int64(m) }

// String returns the time in the form of a setting.
func (m Micros) String() string {
	if m%3_600_000_000 == 0 && m != 0 {
		return strconv.FormatInt(int64(m/3_600_000_000), 10) + "h"
	}
	return FormatNumber(float64(m)/1e6) + "s"
}

// Values are settings of an op by name: an int, int64, float64, bool, string or time each, as the
// row's Type says.
type Values map[string]any

// Int returns the value of a row of type Int. Int and its like panic without one.
func (v Values) Int(name string) int { return v[name].(int) }

// Long returns the value of a row of type Long.
func (v Values) Long(name string) int64 { return v[name].(int64) }

// Float returns the value of a row of type Float.
func (v Values) Float(name string) float64 { return v[name].(float64) }

// Bool returns the value of a row of type Bool.
func (v Values) Bool(name string) bool { return v[name].(bool) }

// Choice returns the place of the value of a row of type Choice among the row's choices.
func (v Values) Choice(name string, choices []string) int {
	return slices.Index(choices, v[name].(string))
}

// Micros returns the value of a row of type Time, in microseconds.
func (v Values) Micros(name string) int64 {
	return v[name].(interface{ Microseconds() int64 }).Microseconds()
}

// Format formats a limit of the row in the form of a setting.
func (p *Param) Format(limit float64) string {
	if p.Type == Time {
		return Micros(limit).String()
	}
	return FormatNumber(limit)
}

// wide reports whether the row takes two words of a task's parameters.
func (p *Param) wide() bool { return p.Type == Long || p.Type == Time }

// Setting reports whether the row is a setting, and not in the parameters of a task only.
func (p *Param) Setting() bool { return p.Help != "" }

// FormatNumber formats a limit or a default for people: 1048576, 0.001, 1e-9.
func FormatNumber(x float64) string {
	if x == float64(int64(x)) && x < 1e15 && x > -1e15 {
		return strconv.FormatInt(int64(x), 10)
	}
	return strings.NewReplacer("e-0", "e-", "e+0", "e", "e+", "e").Replace(strconv.FormatFloat(x, 'g', -1, 64))
}

// check returns an error for a value that the row does not take.
func (p *Param) check(value any) error {
	var x float64
	var ok bool
	switch value := value.(type) {
	case int:
		ok, x = p.Type == Int, float64(value)
	case int64:
		ok, x = p.Type == Long, float64(value)
	case float64:
		ok, x = p.Type == Float, value
	case interface{ Microseconds() int64 }:
		ok, x = p.Type == Time, float64(value.Microseconds())
	case bool:
		if p.Type == Bool {
			return nil
		}
	case string:
		if p.Type == Text || slices.Contains(p.Choices, value) {
			return nil
		}
		return fmt.Errorf("%s is %q, use one of %s", p.Name, value, strings.Join(p.Choices, ", "))
	}
	switch {
	case !ok:
		return fmt.Errorf("%s has a value of type %T, which is not the parameter's", p.Name, value)
	case !(x >= p.Min):
		return fmt.Errorf("%s is %v, use at least %s", p.Name, value, p.Format(p.Min))
	case !(x <= p.Max):
		return fmt.Errorf("%s is %v, use at most %s", p.Name, value, p.Format(p.Max))
	}
	return nil
}

// Build returns the detector of an op with the settings in v, and the defaults of
// those that v does not have, of rows of dim values. The error names every fault.
func (s *Spec) Build(v Values, dim int) (Detector, error) {
	all, err := s.complete(v, dim)
	if err != nil {
		return nil, err
	}
	return s.New(all)
}

// BuildReferred is Build for the detector that judges rows by a reference set.
func (s *Spec) BuildReferred(v Values, dim int, rows []float64) (Modelled, error) {
	all, err := s.complete(v, dim)
	if err != nil {
		return nil, err
	}
	return s.NewReferred(all, dim, rows, 0)
}

// Check returns every fault of the settings in v, each alone: its type, its limits, its choices. New may be called with
// settings that have none.
func (s *Spec) Check(v Values) error { return s.joined(s.faults(v)) }

func (s *Spec) faults(v Values) (faults []error) {
	for i := range s.Params {
		p := &s.Params[i]
		if given, ok := v[p.Name]; ok && p.Setting() {
			if err := p.check(given); err != nil {
				faults = append(faults, err)
			}
		}
	}
	return faults
}

func (s *Spec) joined(faults []error) error {
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("detectors: %s: %w", s.Name, errors.Join(faults...))
}

// complete returns v with the defaults of the settings that it lacks.
func (s *Spec) complete(v Values, dim int) (Values, error) {
	faults := s.faults(v)
	all := Values{}
	for i := range s.Params {
		p := &s.Params[i]
		if given, ok := v[p.Name]; ok && p.Setting() {
			all[p.Name] = given
		} else if p.Setting() && p.Derive == nil {
			all[p.Name] = p.Default
		}
	}
	for name := range v {
		if _, ok := all[name]; !ok {
			faults = append(faults, fmt.Errorf("there is no parameter %s", name))
		}
	}
	if err := s.joined(faults); err != nil {
		return nil, err
	}
	s.Derive(all, dim)
	return all, nil
}

// Derive sets the defaults that depend on other settings where v lacks them, for rows of
// dim values.
func (s *Spec) Derive(v Values, dim int) {
	for i := range s.Params {
		if p := &s.Params[i]; p.Derive != nil {
			if _, ok := v[p.Name]; !ok {
				v[p.Name] = p.Derive(v, dim)
			}
		}
	}
}

// Word is a value of a task's parameters and its offset.
type Word struct {
	*Param
	Offset int // in words
}

// Words lists the values of a task's parameters, in their order.
func (s *Spec) Words() []Word {
	var words []Word
	for i := range s.Params {
		if p := &s.Params[i]; p.Word > 0 {
			words = append(words, Word{Param: p})
		}
	}
	slices.SortFunc(words, func(a, b Word) int { return a.Param.Word - b.Param.Word })
	at := 0
	for i := range words {
		w := &words[i]
		if w.wide() {
			at += at % 2
		}
		w.Offset = at
		at++
		if w.wide() {
			at++
		}
	}
	return words
}

// Word returns the offset of a task's parameter, by its name, in words. It panics for an unknown name:
// it is intended for package variables.
func (s *Spec) Word(name string) int {
	for _, w := range s.Words() {
		if w.Name == name {
			return w.Offset
		}
	}
	panic(fmt.Sprintf("detectors: the parameters of a task of %s do not have %s", s.Name, name))
}
