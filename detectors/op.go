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

// Spec is one row of the op table: all that an executor and its tests know of
// an op. Score and CPU fill Scores, Next and Detail of the rows and write nothing else.
type Spec struct {
	Name string
	Help string // what docs/configuration.md says of the op, after its name
	// Params are the op's settings and what the parameters of its tasks hold.
	Params []Param
	// Defaults are those of settings of every detector that are not the usual ones.
	Defaults []Default
	// New returns the detector of settings: a value for each row of Params that is a
	// setting, within the row's limits. The error names every fault.
	New func(Values) (Detector, error)
	// Version counts how often the scores of the op have changed: state of another
	// version is none of this one's.
	Version int
	Elem    Elem
	// Bounded says that scores lie in [0, 1].
	Bounded bool
	// Score is the definition: float64, boring and slow.
	Score func(Rows)
	// CPU is the fast form. Its result depends on the rows alone, to the bit, and not
	// on what p does. A form that takes long shares its work by p, and returns early
	// once ctx is done: what it leaves is then undefined.
	CPU func(ctx context.Context, r *Rows, p Parallel)
	// Cost is the rough time of a task's CPU form in nanoseconds, for splitting
	// and ordering work; it never changes a result.
	Cost func(*Rows) int
	// Compare is the op's own notion of equal: nil where got is an acceptable
	// result of another implementation for which the definition says want.
	Compare func(r *Rows, got, want Result) error
	// Cases are inputs for tests and benchmarks: small, degenerate, tied, large.
	Cases func(*rand.Rand) []Case
}

// Result is what a task leaves.
type Result struct {
	Scores []float32
	Next   Words
	Detail Words
}

// Case is one key's series and the chain of tasks to run on it.
type Case struct {
	Name     string
	Detector Detector
	Dim      int
	Rows     []float64 // the series, Dim values a row, oldest first
	// Fresh are the fresh rows of each task of the chain; the last task ends at
	// the last row. Each task's X are the last Window()+fresh-1 rows, or as many
	// as there are.
	Fresh []int
	Bins  []float32
	Bench bool // also a benchmark
}

// Shape is a load for a benchmark: many tasks of one detector, of equal size. Results
// refer to it by its name.
type Shape struct {
	Name   string // less the op's
	Unit   string // of a rate: what a fresh row is, a second
	Values Values // the settings that are not the defaults
	Dim    int
	Fresh  int
	Chain  int // consecutive tasks of a key in a batch; 0 for 1
	Tasks  int // of all batches together
}

// specs is the op table. Numbers of ops go into tasks, never into anything stored.
var specs = [...]Spec{
	ZScore:   zscoreSpec,
	IKASST:   ikasstSpec,
	LOF:      lofSpec,
	Flatline: flatlineSpec,
	KNN:      knnSpec,
	SVDSST:   svdsstSpec,
	Discords: discordsSpec,
	Discord:  discordSpec,
}

// shapes are apart from specs, so that the linker leaves them out of a program that
// measures nothing.
var shapes = [opCount]func() []Shape{
	IKASST:   ikasstShapes,
	LOF:      lofShapes,
	KNN:      knnShapes,
	SVDSST:   svdsstShapes,
	Discords: discordsShapes,
	Discord:  discordShapes,
}

// Shapes are what benchmarks measure of an op on a device. An op without has its cases
// with Bench.
func Shapes(op Op) []Shape {
	if shapes[op] == nil {
		return nil
	}
	return shapes[op]()
}

// opCount is the number of ops.
const opCount = Op(len(specs))

// Spec is the op's row of the table.
func (o Op) Spec() *Spec { return &specs[o] }

// Elem is the element type of the op's X.
func (o Op) Elem() Elem { return specs[o].Elem }

// String is the op's name in configuration and metrics.
func (o Op) String() string {
	if o < opCount {
		return specs[o].Name
	}
	return fmt.Sprintf("op(%d)", uint32(o))
}

// Ops lists the ops in the order of their numbers.
func Ops() []Op {
	ops := make([]Op, 0, opCount)
	for o := range opCount {
		if specs[o].CPU != nil {
			ops = append(ops, o)
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

// ErrOpen is in the error of Spec.Compare where a result is further from the
// definition's than the op's tolerance goes, and roundings move the definition itself
// as far: it leaves the result open. There are few such results, or the definition is
// at fault; whoever compares counts them.
var ErrOpen = errors.New("detectors: the definition leaves the score open")

// compareScores accepts scores that differ by at most abs + rel*|want|; NaN
// equals NaN only.
func compareScores(got, want []float32, abs, rel float64) error {
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
