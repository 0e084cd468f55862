package detectors

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
)

// Flatline counts samples without a change.
const Flatline Op = 3

var flatlineSpec = Spec{
	Name: "flatline", Elem: F64,
	Help: "samples that have not changed",
	Params: []Param{
		{Name: "AFTER", Type: Int, Default: 30, Min: 1, Max: 16000000, Stateless: true,
			Help: "samples in a row without a change that are too many. Where THRESHOLD is not set it is the one that says so."},
		{Name: "TOLERANCE", Type: Float, Default: 0.0, Max: 1e30, Word: 1,
			Help: "a value has not changed if it is within this of the value that its run began with."},
	},
	Defaults: []Default{
		{"THRESHOLD", func(v Values) string { return fmt.Sprintf("fixed:%d", v.Int("AFTER")-1) }, "what AFTER says"},
	},
	New:   func(v Values) (Detector, error) { return NewFlatline(v.Float("TOLERANCE")) },
	Score: flatlineScore, CPU: flatlineCPU, Cost: flatlineCost, Compare: flatlineCompare, Cases: flatlineCases,
}

// flatMost is the largest count of a run: whole numbers up to there are exact in
// float32.
const flatMost = 1 << 24

type flatline struct{ params Words }

// NewFlatline returns the detector of op Flatline. The score is the number of samples, up to
// and including the scored one, that have not changed. The first sample, and one that differs, score 0;
// each one after that without a change scores one more.
//
// A value has not changed if it is within tolerance of the value that its run
// began with, so that a slow drift becomes a change. With several values a
// row each has its run, and the row's score is the longest. A NaN or an infinite
// value is a change. The rows are packed as float64 and not centred. The carry has
// two numbers for each value: the length of its run, and how far the value that the
// run began with is from the last one, rounded to float32.
func NewFlatline(tolerance float64) (Detector, error) {
	if !(tolerance >= 0 && tolerance <= math.MaxFloat32) {
		return nil, fmt.Errorf("detectors: flatline: tolerance is %v, use 0 or a positive number", tolerance)
	}
	return &flatline{WordsOf([]float32{float32(tolerance)})}, nil
}

func (f *flatline) Op() Op        { return Flatline }
func (f *flatline) Params() Words { return f.params }

// Window returns 2: the scored row and the one before it.
func (f *flatline) Window() int { return 2 }

// Reach returns the scored row alone.
func (f *flatline) Reach() (from, to int) { return 0, 0 }

func (f *flatline) Size(v View) (n Outputs, ok bool) {
	if v.Fresh < 1 || v.Rows < v.Fresh {
		return Outputs{}, false
	}
	return Outputs{Scores: v.Fresh, Carry: 2 * v.Dim}, true
}

func (f *flatline) AppendFindings(dst []Finding, r Rows) []Finding {
	first := r.Len() - r.Fresh
	for i, s := range r.Scores {
		dst = append(dst, Finding{Fresh: i, From: first + i, To: first + i, Score: float64(s)})
	}
	return dst
}

// flatlineScore is the definition: value by value, one row after the other.
func flatlineScore(r Rows) {
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

// flatlineCPU goes through the rows once.
func flatlineCPU(_ context.Context, r *Rows, _ Parallel) {
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

func flatlineCost(r *Rows) int { return 10 + 4*r.Fresh*r.Dim }

// flatlineCompare: counts are equal or they are wrong, up to a rounding.
func flatlineCompare(_ *Rows, got, want Result) error {
	return errors.Join(compareScores(got.Scores, want.Scores, 0, 1e-6), compareScores(got.Next.F32(), want.Next.F32(), 0, 1e-6))
}

func flatlineCases(rng *rand.Rand) []Case {
	var cases []Case
	add := func(tolerance float64, dim int, fresh []int, values ...signal) *Case {
		d := must(NewFlatline(tolerance))
		cases = append(cases, newCase(fmt.Sprintf("tolerance %v", tolerance), d, dim, rng.IntN(3), fresh, values...))
		return &cases[len(cases)-1]
	}
	held := signal{"held", func(i, n int) float64 { return 1e9 + float64(i/7)*1e-6 }}
	add(0, 1, []int{1, 5, 16}, signals(rng)[6])
	for _, tolerance := range []float64{0, 0.05, 2} {
		for _, s := range append(signals(rng), held) {
			add(tolerance, 1, []int{1, 1, 5, 16}, s)
		}
	}
	for _, dim := range []int{2, 3, 8, 9} {
		s := append(signals(rng), held)
		rng.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
		add(rng.Float64(), dim, []int{3, 1, 40}, s...)
	}
	add(0, 1, []int{1}, signals(rng)[0]).Bench = true
	add(0, 1, []int{16}, signals(rng)[6]).Bench = true
	return cases
}
