package detectors

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
)

// Op is an index into the op table: a batched function of rows of numbers.
type Op uint32

// Elem is the element type of an op's X.
type Elem uint8

// The element types of X.
const (
	F32 Elem = iota
	F64
	I64
)

// Wide says in which rows of a window a change of level makes an op's task wide.
type Wide uint8

// The values of Wide.
const (
	NotWide    Wide = iota // in none: scores are relative to the deviation of the whole window
	WideFresh              // in the fresh rows, whose points and those near them have the scores
	WideAll                // in all rows: a point of each level has a part in a score
	WideCourse             // in all rows, also where there are one to three of another level: they have a part in the course of the window
	WideSet                // as WideCourse, but not in rows that are nearer to the center than half of the others: of sets of any size
	AlwaysWide             // of any window: the model that tasks compare with has points of float64
)

// Spec is one row of the op table: everything that an executor and its tests need to know about an op.
// Score and CPU fill Scores, Next and Detail of the rows and write nothing else.
type Spec struct {
	Name string
	// Help says in two or three sentences what the op finds and what its score is, for the op's page. The first is also
	// its line in docs/configuration.md.
	Help string
	// Finds says for people what a high score means: {window} stands for the samples that a score reads, {score} and {threshold} for
	// these. "" says the score alone.
	Finds string
	// Params are the op's settings and the layout of its tasks' parameters.
	Params []Param
	// Defaults are the op's defaults for settings that every detector has.
	Defaults []Default
	// New returns the detector of settings: a value for each row of Params that is a
	// setting, within the row's limits. The error names every fault.
	New func(Values) (Detector, error)
	// NewReferred returns the detector that judges rows by a reference set instead of the rows before
	// them: rows of dim values each, NaN where one is missing, without the setting WINDOW. With
	// outliers above 0 it keeps what determines that number of outliers of the set (Modelled.Cut). Nil:
	// the op takes no reference set.
	NewReferred func(v Values, dim int, rows []float64, outliers int) (Modelled, error)
	// Version counts the changes of the op's scores: state of another version is
	// refused.
	Version int
	Elem    Elem
	// Wide says, of the parameters of an op of float32, in which rows of a window a change of level (ChangesLevel) makes a
	// task wide. Its Score and CPU take rows of float64 too, in X64. Nil: NotWide.
	Wide func(params Words) Wide
	// Bounded reports that scores lie in [0, 1].
	Bounded bool
	// Runs reports that a score counts the samples of a run: one more than the last, until the run ends.
	Runs bool
	// Score is the definition: simple, in float64, without regard for speed.
	Score func(Rows)
	// CPU is the fast form. Its result depends on the rows alone, to the bit, and not on the order in
	// which p runs its calls. A slow form distributes its work by p, and returns early once ctx is
	// done; its outputs are then undefined.
	CPU func(ctx context.Context, r *Rows, p Parallel)
	// Cost estimates the time of a task's CPU form in nanoseconds, for splitting and ordering work; it
	// never changes a result.
	Cost func(*Rows) int
	// Compare returns nil if got, of another implementation, is within the op's tolerance
	// of want, the definition's result.
	Compare func(r *Rows, got, want Result) error
	// Cases are inputs for tests and benchmarks: small, degenerate, tied, large.
	Cases func(*rand.Rand) []Case
}

// Result has the outputs of a task.
type Result struct {
	Scores []float32
	Next   Words
	Detail Words
}

// Case is one key's series and the chain of tasks to run on it.
type Case struct {
	Name     string
	Detector Detector
	Dim      int       // of a Timed, with the time
	Rows     []float64 // the series, Dim values a row, oldest first
	// Fresh are the fresh rows of each task of the chain; the last task ends at
	// the last row. Each task's X are the last TaskRows rows, or as many as there are.
	Fresh []int
	Bins  []float32
	Bench bool // also a benchmark
	CPU   bool // kernels need not take all of its tasks
}

// Shape gives the dimensions of a benchmark: many tasks of one detector, of equal size. Results
// refer to it by its name.
type Shape struct {
	Name   string // without the op's
	Unit   string // of the rate: fresh rows a second, with the op's noun
	Values Values // the settings without the defaults
	Dim    int
	Fresh  int
	Chain  int // consecutive tasks of a key in a batch; 0 for 1
	Tasks  int // of all batches together
	// Reference is the number of points of the reference set that all tasks compare with; 0: none.
	Reference int
}

// specs is the op table, by number. Only tasks contain op numbers, not stored data.
var specs []*Spec

// Register adds an op to the table. Each package of a method calls it in its initialisation for each op,
// with a distinct number, so the table contains the op of any [Detector]. Register panics if the number
// or the name is taken.
func Register(op Op, s *Spec) {
	if _, ok := OpByName(s.Name); ok || op < Op(len(specs)) && specs[op] != nil {
		panic(fmt.Sprintf("detectors: op %d, %s, is in the table already", uint32(op), s.Name))
	}
	for Op(len(specs)) <= op {
		specs = append(specs, nil)
	}
	specs[op] = s
}

// Spec returns the op's row of the table.
func (o Op) Spec() *Spec { return specs[o] }

// Elem returns the element type of the op's X.
func (o Op) Elem() Elem { return specs[o].Elem }

// String returns the op's name in configuration and metrics.
func (o Op) String() string {
	if o < Op(len(specs)) && specs[o] != nil {
		return specs[o].Name
	}
	return fmt.Sprintf("op(%d)", uint32(o))
}

// Ops lists the program's ops in the order of their numbers. A program that imports detectors/ops has
// all of them.
func Ops() []Op {
	ops := make([]Op, 0, len(specs))
	for o, s := range specs {
		if s != nil {
			ops = append(ops, Op(o))
		}
	}
	return ops
}

// OpByName finds an op by its name.
func OpByName(name string) (Op, bool) {
	for _, o := range Ops() {
		if specs[o].Name == name {
			return o, true
		}
	}
	return 0, false
}

// ErrOpen reports that a result differs from the definition's by more than the op's
// tolerance, but rounding moves the definition itself as far. Callers of Spec.Compare count
// such results: they have to be rare.
var ErrOpen = errors.New("detectors: the definition leaves the score open")

// CompareScores accepts scores that differ by at most abs + rel*|want|; NaN
// equals NaN only.
func CompareScores(got, want []float32, abs, rel float64) error {
	if len(got) != len(want) {
		return fmt.Errorf("detectors: %d numbers where the definition gives %d", len(got), len(want))
	}
	for i, w := range want {
		g, w := float64(got[i]), float64(w)
		if g == w || g != g && w != w {
			continue
		}
		if d := math.Abs(g - w); !(d <= abs+rel*math.Abs(w)) {
			return fmt.Errorf("detectors: number %d is %v, the definition gives %v (difference %.3g, allowed %.3g)", i, g, w, d, abs+rel*math.Abs(w))
		}
	}
	return nil
}
