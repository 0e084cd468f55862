package toy

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"odradek/detectors"
)

// Op is the difference between a sample and the one LAG samples before it, in float64.
const Op detectors.Op = 0

var spec = detectors.Spec{
	Name: "toy", Elem: detectors.F64,
	Help: "Finds changes of a sample against an earlier one.",
	Params: []detectors.Param{
		{Name: "LAG", Type: detectors.Int, Default: 4, Min: 1, Max: 1000, Word: 1, Help: "Samples from one to the other.", Example: "8"},
		{Name: "SCALE", Type: detectors.Float, Default: 2.5, Min: 1e-6, Max: 1e6, Word: 2, Help: "Factor of the changes.", Example: "2"},
		{Name: "COUNT_FROM", Type: detectors.Long, Default: int64(1) << 40, Min: 0, Max: 1 << 48, Word: 3,
			Help: "The first number of the count in the carry.", Example: "7"},
	},
	New: func(v detectors.Values) (detectors.Detector, error) {
		return newToy(v.Int("LAG"), v.Float("SCALE"), v.Long("COUNT_FROM"))
	},
	Score: toyScore, CPU: func(_ context.Context, r *detectors.Rows, _ detectors.Parallel) { toyScore(*r) },
	Cost: func(r *detectors.Rows) int { return 10 * r.Fresh * r.Dim },
	Compare: func(_ *detectors.Rows, got, want detectors.Result) error {
		if !slices.Equal(got.Next, want.Next) {
			return fmt.Errorf("detectors: carry %v, want %v", got.Next, want.Next)
		}
		return detectors.CompareScores(got.Scores, want.Scores, 0, 1e-6)
	},
	Cases: toyCases,
}

func init() { detectors.Register(Op, &spec) }

type toy struct {
	lag    int
	params detectors.Words
}

func newToy(lag int, scale float64, from int64) (detectors.Detector, error) {
	if lag < 1 {
		return nil, fmt.Errorf("detectors: toy: lag is %d, use at least 1", lag)
	}
	p := make(detectors.Words, 4)
	p[0], p[1] = uint32(lag), math.Float32bits(float32(scale))
	p.SetInt64(2, from)
	return &toy{lag, p}, nil
}

func (d *toy) Op() detectors.Op        { return Op }
func (d *toy) Params() detectors.Words { return d.params }
func (d *toy) Window() int             { return d.lag + 1 }

func (d *toy) Size(v detectors.View) (n detectors.Outputs, ok bool) {
	return detectors.Outputs{Scores: v.Fresh, Carry: 5}, v.Fresh >= 1 && v.Rows-v.Fresh >= d.lag
}

func (d *toy) AppendFindings(dst []detectors.Finding, r detectors.Rows) []detectors.Finding {
	first := r.Len() - r.Fresh
	for i, s := range r.Scores {
		dst = append(dst, detectors.Finding{Fresh: i, From: first + i - d.lag, To: first + i, Score: float64(s)})
	}
	return dst
}

// Describe returns the sample that a fresh one is compared with.
func (d *toy) Describe(r detectors.Rows, fresh int) detectors.Evidence {
	row := r.Row(fresh)
	return detectors.Evidence{From: row, To: row, Inputs: []detectors.Input{
		{Role: detectors.Baseline, From: row - d.lag, To: row - d.lag, Distance: math.NaN()}}}
}

// toyScore is the definition. The carry has a word of each kind: a count of rows, an
// int64; the newest row's first value, a float64; a count of tasks, a uint32.
func toyScore(r detectors.Rows) {
	lag, scale, count, tasks := int(r.Params[0]), float64(r.Params.Float32(1)), r.Params.Int64(2), uint32(0)
	if len(r.Carry) > 0 {
		count, tasks = r.Carry.Int64(0), r.Carry[4]
	}
	for i := range r.Scores {
		at, most := r.Len()-r.Fresh+i, 0.0
		for c := range r.Dim {
			d := math.Abs(r.X64[at*r.Dim+c] - r.X64[(at-lag)*r.Dim+c])
			if d > most || d != d {
				most = d
			}
			if most != most {
				break
			}
		}
		r.Scores[i] = float32(most * scale)
	}
	r.Next.SetInt64(0, count+int64(r.Fresh))
	r.Next.SetFloat64(2, r.X64[len(r.X64)-r.Dim])
	r.Next[4] = tasks + 1
}

func toyCases(rng *rand.Rand) []detectors.Case {
	var cases []detectors.Case
	for _, s := range detectors.Signals(rng) {
		lag, dim := 1+rng.IntN(40), 1+rng.IntN(3)
		d := detectors.Must(newToy(lag, 0.5+rng.Float64(), rng.Int64N(1<<62)))
		cases = append(cases, detectors.NewCase(fmt.Sprint("lag ", lag), d, dim, rng.IntN(3), []int{1, 1, 7, 40}, s))
	}
	return cases
}
