package simple

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"odradek/detectors"
)

// This file is op value: the reading itself as the score, for limits of a sensor and for scores
// that another program has computed. It also contains the method.

// OpValue scores a sample by its own value.
const OpValue detectors.Op = 10

var valueSpec = detectors.Spec{
	Name: "value", Elem: detectors.F64,
	Finds: "beyond its limit, {threshold}",
	Help: "Finds values beyond a limit, such as a data sheet's, or judges the score of another program. " +
		"The score is the value itself, of several fields the largest.",
	Params: []detectors.Param{
		{Name: detectors.WindowParam, Type: detectors.Int, Default: 1, Min: 1, Max: 1 << 16, Word: 2,
			Help: "Samples that the other program computed a score from.", Example: "16"},
		{Name: "BELOW", Type: detectors.Bool, Default: false, Word: 1,
			Help: "The score is the smallest value, negated: a lower limit of 5 is THRESHOLD=fixed:-5."},
	},
	New: func(v detectors.Values) (detectors.Detector, error) {
		return NewValue(v.Int(detectors.WindowParam), v.Bool("BELOW"))
	},
	Score: func(r detectors.Rows) { scoreValue(&r) }, CPU: valueCPU, Cost: valueCost, Compare: compareValue, Cases: valueCases,
}

func init() { detectors.Register(OpValue, &valueSpec) }

type value struct {
	detectors.Steady
	params detectors.Words
}

// NewValue returns the detector of the op, whose scores cover window rows, 1 to 65,536. The score of a row
// is the largest of its values, or with below the largest of their negatives, rounded to float32; a
// larger number becomes the largest float32. A NaN is a missing value; a row of missing values scores
// NaN. There is no carry.
func NewValue(window int, below bool) (detectors.Detector, error) {
	if window < 1 || window > 1<<16 {
		return nil, fmt.Errorf("simple: value: window is %d, use 1 to %d", window, 1<<16)
	}
	words := detectors.Words{0, uint32(window)}
	if below {
		words[0] = 1
	}
	return &value{detectors.Steady{Least: window, From: window - 1}, words}, nil
}

func (v *value) Op() detectors.Op        { return OpValue }
func (v *value) Params() detectors.Words { return v.params }
func (v *value) Window() int             { return v.Least }

// Direct returns the op's definition, which is its CPU form.
func (v *value) Direct() (fill func(r *detectors.Rows), inPlace bool) { return scoreValue, false }

// Incomplete marks the detector as one that leaves out missing values.
func (v *value) Incomplete() {}

// Locate returns the scored row: a score of another program is about all that it covers, to the same degree.
func (v *value) Locate(r detectors.Rows, fresh int, contribution []float64) (p detectors.Location, ok bool) {
	e := v.Describe(r, fresh)
	copy(contribution, e.Fields)
	return e.Location, e.Fields != nil
}

// Describe returns the value with the largest score.
func (v *value) Describe(r detectors.Rows, fresh int) detectors.Evidence {
	row := r.Row(fresh)
	e := detectors.Evidence{From: row - v.Least + 1, To: row, Location: detectors.Location{Row: row, From: row - v.Least + 1, To: row}}
	most, at := math.NaN(), 0
	for c, x := range r.X64[row*r.Dim:][:r.Dim] {
		if r.Params[0] != 0 {
			x = -x
		}
		if x > most || most != most {
			most, at = x, c
		}
	}
	if most == most {
		e.Fields = detectors.OneHot(r.Dim, at)
		e.Measures = []detectors.Measure{{Name: "value", Field: at, Value: r.X64[row*r.Dim+at]}}
	}
	return e
}

// scoreValue is the definition.
func scoreValue(r *detectors.Rows) {
	first := r.Len() - r.Fresh
	for i := range r.Scores {
		most := math.NaN()
		for c := range r.Dim {
			x := r.X64[(first+i)*r.Dim+c]
			if r.Params[0] != 0 {
				x = -x
			}
			if x > most || most != most {
				most = x
			}
		}
		r.Scores[i] = float32(max(-math.MaxFloat32, min(most, math.MaxFloat32)))
	}
}

func valueCPU(_ context.Context, r *detectors.Rows, _ detectors.Parallel) { scoreValue(r) }

func valueCost(r *detectors.Rows) int { return 10 + 2*r.Fresh*r.Dim }

// compareValue requires equal values, up to a rounding.
func compareValue(_ *detectors.Rows, got, want detectors.Result) error {
	return errors.Join(detectors.CompareScores(got.Scores, want.Scores, 0, 1e-6),
		detectors.CompareScores(got.Next.F32(), want.Next.F32(), 0, 0))
}

func valueCases(rng *rand.Rand) []detectors.Case {
	var cases []detectors.Case
	for _, below := range []bool{false, true} {
		name := "above"
		if below {
			name = "below"
		}
		for _, s := range detectors.Signals(rng) {
			cases = append(cases, detectors.NewCase(name, detectors.Must(NewValue(1, below)), 1, rng.IntN(3), []int{1, 1, 5, 16}, s))
		}
		for _, dim := range []int{2, 3, 9} {
			s := detectors.Signals(rng)
			rng.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
			d := detectors.Must(NewValue(1+rng.IntN(20), below))
			cases = append(cases, detectors.NewCase(name, d, dim, rng.IntN(3), []int{3, 1, 40}, s...))
		}
	}
	cases[0].Bench = true
	return cases
}
