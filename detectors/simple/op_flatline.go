package simple

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"odradek/detectors"
)

// This file is op flatline: the number of samples for which a sensor has not changed. It also
// contains the method.

// OpFlatline counts samples without a change.
const OpFlatline detectors.Op = 3

var flatlineSpec = detectors.Spec{
	Name: "flatline", Elem: detectors.F64, Runs: true,
	Finds: "unchanged for {score} readings",
	Help:  "Finds a sensor that is stuck: the score is the number of consecutive samples without a change.",
	Params: []detectors.Param{
		{Name: "AFTER", Type: detectors.Int, Default: 30, Min: 1, Max: 16000000, Stateless: true,
			Help: "Consecutive samples without a change that are an anomaly, the default of THRESHOLD.", Example: "120"},
		{Name: "TOLERANCE", Type: detectors.Float, Default: 0.0, Max: 1e30, Word: 1,
			Help: "A value within this of the first of its run has not changed.", Example: "0.05"},
	},
	Defaults: []detectors.Default{
		{Name: "THRESHOLD", Value: func(v detectors.Values) string { return fmt.Sprintf("fixed:%d", v.Int("AFTER")-1) },
			Words: "what AFTER says"},
	},
	New:   func(v detectors.Values) (detectors.Detector, error) { return NewFlatline(v.Float("TOLERANCE")) },
	Score: scoreFlatline, CPU: flatlineCPU, Cost: flatlineCost, Compare: compareFlatline, Cases: flatlineCases,
}

func init() { detectors.Register(OpFlatline, &flatlineSpec) }

// flatMost is the largest count of a run: whole numbers up to there are exact in
// float32.
const flatMost = 1 << 24

type flatline struct {
	detectors.Steady
	params detectors.Words
}

// NewFlatline returns the detector of the op. The score is the number of samples, up to
// and including the scored one, that have not changed. The first sample, and one that differs, score 0;
// each one after that without a change scores one more.
//
// A value has not changed if it is within tolerance of the first value of its run, so that a slow drift
// becomes a change. With several values a row, each has its own run, and the row's score is the
// longest. A NaN or an infinite value is a change. The rows are packed as float64 and not centred. The
// carry has two numbers for each value: the length of its run, and the difference of the run's first
// value and the last one, rounded to float32.
func NewFlatline(tolerance float64) (detectors.Detector, error) {
	if !(tolerance >= 0 && tolerance <= math.MaxFloat32) {
		return nil, fmt.Errorf("simple: flatline: tolerance is %v, use 0 or a positive number", tolerance)
	}
	return &flatline{detectors.Steady{Least: 1}, detectors.WordsOf([]float32{float32(tolerance)})}, nil
}

func (f *flatline) Op() detectors.Op        { return OpFlatline }
func (f *flatline) Params() detectors.Words { return f.params }

// Window returns 2: the scored row and the one before it.
func (f *flatline) Window() int { return 2 }

// Direct returns the op's CPU form. Locate reads the carry.
func (f *flatline) Direct() (fill func(r *detectors.Rows), inPlace bool) {
	return directFlatline, false
}

func directFlatline(r *detectors.Rows) { flatlineCPU(context.Background(), r, detectors.Sequential) }

// Size returns the scores and the carry.
func (f *flatline) Size(v detectors.View) (n detectors.Outputs, ok bool) {
	if n, ok = f.Steady.Size(v); ok {
		n.Carry = 2 * v.Dim
	}
	return n, ok
}

// Locate returns the scored row, whose value the run has.
func (f *flatline) Locate(r detectors.Rows, fresh int, contribution []float64) (p detectors.Location, ok bool) {
	e := f.Describe(r, fresh)
	copy(contribution, e.Fields)
	return e.Location, true
}

// Describe returns the longest run, which may begin before the rows of the task.
func (f *flatline) Describe(r detectors.Rows, fresh int) detectors.Evidence {
	row, t := r.Row(fresh), r.Until(fresh)
	scoreFlatline(t)
	e := detectors.Evidence{From: row, To: row, Location: detectors.OneRow(row)}
	at := 0
	for c := range r.Dim {
		run := t.Next.Float32(2 * c)
		e.Measures = append(e.Measures, detectors.Measure{Name: "samples without a change", Field: c, Value: float64(run)})
		if run > t.Next.Float32(2*at) {
			at = c
		}
	}
	run := int(t.Next.Float32(2 * at))
	e.Fields = detectors.OneHot(r.Dim, at)
	e.Inputs = []detectors.Input{{Role: detectors.Run, From: row - run, To: row, Distance: math.NaN()}}
	return e
}

// scoreFlatline is the definition: value by value, one row after the other.
func scoreFlatline(r detectors.Rows) {
	tolerance := float64(r.Params.Float32(0))
	first := r.Len() - r.Fresh
	for i := range r.Scores {
		r.Scores[i] = 0
	}
	for c := range r.Dim {
		run, away := 0.0, 0.0
		if len(r.Carry) > 0 {
			run, away = float64(r.Carry.Float32(2*c)), float64(r.Carry.Float32(2*c+1))
		}
		for i := range r.Fresh {
			row := first + i
			same := false
			if row > 0 {
				// From the last row to this one, and from the run's beginning.
				away = float64(float32(away + (r.X64[(row-1)*r.Dim+c] - r.X64[row*r.Dim+c])))
				same = math.Abs(away) <= tolerance
			}
			if same {
				run = min(run+1, flatMost)
			} else {
				run, away = 0, 0
			}
			r.Scores[i] = max(r.Scores[i], float32(run))
		}
		r.Next.SetFloat32(2*c, float32(run))
		r.Next.SetFloat32(2*c+1, float32(away))
	}
}

// flatlineCPU makes one pass over the rows.
func flatlineCPU(_ context.Context, r *detectors.Rows, _ detectors.Parallel) {
	tolerance, dim := r.Params.Float32(0), r.Dim
	next, x := r.Next.F32(), r.X64
	if copy(r.Next, r.Carry) == 0 {
		clear(next)
	}
	at := len(x) - r.Fresh*dim
	for i := range r.Scores {
		longest := float32(0)
		for c := range dim {
			run, away := next[2*c], float32(math.Inf(1))
			if at >= dim {
				away = float32(float64(next[2*c+1]) + (x[at-dim] - x[at]))
			}
			if away <= tolerance && away >= -tolerance {
				if run < flatMost {
					run++
				}
			} else {
				run, away = 0, 0
			}
			next[2*c], next[2*c+1] = run, away
			longest = max(longest, run)
			at++
		}
		r.Scores[i] = longest
	}
}

func flatlineCost(r *detectors.Rows) int { return 10 + 4*r.Fresh*r.Dim }

// compareFlatline requires equal counts, up to a rounding.
func compareFlatline(_ *detectors.Rows, got, want detectors.Result) error {
	return errors.Join(detectors.CompareScores(got.Scores, want.Scores, 0, 1e-6), detectors.CompareScores(got.Next.F32(), want.Next.F32(), 0,
		1e-6))
}

func flatlineCases(rng *rand.Rand) []detectors.Case {
	var cases []detectors.Case
	add := func(tolerance float64, dim int, fresh []int, values ...detectors.Signal) *detectors.Case {
		d := detectors.Must(NewFlatline(tolerance))
		cases = append(cases, detectors.NewCase(fmt.Sprintf("tolerance %v", tolerance), d, dim, rng.IntN(3), fresh, values...))
		return &cases[len(cases)-1]
	}
	held := detectors.Signal{Name: "held", At: func(i, n int) float64 { return 1e9 + float64(i/7)*1e-6 }}
	add(0, 1, []int{1, 5, 16}, detectors.Signals(rng)[6])
	for _, tolerance := range []float64{0, 0.05, 2} {
		for _, s := range append(detectors.Signals(rng), held) {
			add(tolerance, 1, []int{1, 1, 5, 16}, s)
		}
	}
	for _, dim := range []int{2, 3, 8, 9} {
		s := append(detectors.Signals(rng), held)
		rng.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
		add(rng.Float64(), dim, []int{3, 1, 40}, s...)
	}
	add(0, 1, []int{1}, detectors.Signals(rng)[0]).Bench = true
	add(0, 1, []int{16}, detectors.Signals(rng)[6]).Bench = true
	return cases
}
