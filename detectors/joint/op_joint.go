package joint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"

	"odradek/detectors"
)

// This file is op joint: how unusual the values of a sample are together. The method is package detectors/joint.

// Op scores how far a sample of several values, and the means of the last few, are from those before.
const Op detectors.Op = 15

var spec = detectors.Spec{
	Name: "joint", Elem: detectors.F64,
	Finds: "values that do not go together, now or in the mean of the last {window} readings",
	Help: "Finds samples of several values that do not go together as before, also where each value alone is usual. The score is the " +
		"distance from the mean by the fields' variances and correlations (Mahalanobis), in usual distances; of the sample, and of " +
		"the means of the last WINDOW/4 and WINDOW samples. Fields need no common unit.",
	Params: []detectors.Param{
		{Name: detectors.WindowParam, Type: detectors.Int, Default: 32, Min: 8, Max: 4096, Word: 1,
			Help: "Samples of the longest mean.", Example: "64"},
		{Name: "GUARD", Type: detectors.Int, Default: 256, Min: 8, Max: 1 << 16, Word: 2,
			Help: "Samples after which one is learnt, at least WINDOW, so that a fault does not become usual at once. Each takes 12 bytes of " +
				"state.", Example: "512"},
		{Name: "MEMORY", Type: detectors.Int, Default: 10000, Min: 64, Max: 1 << 24, Word: 3,
			Help: "Samples after which a sample's weight has fallen to a third.", Example: "30000"},
	},
	Defaults: []detectors.Default{{Name: "HISTORY", Value: func(detectors.Values) string { return "2048" }, Words: "2048"}},
	New: func(v detectors.Values) (detectors.Detector, error) {
		return New(OpParams{Window: v.Int(detectors.WindowParam), Guard: v.Int("GUARD"), Memory: v.Int("MEMORY")})
	},
	Score: define, CPU: cpu, Cost: cost, Compare: compare, Cases: cases,
}

func init() { detectors.Register(Op, &spec) }

// OpParams are the parameters of the op, see Params.
type OpParams struct{ Window, Guard, Memory int }

type detector struct {
	detectors.Steady
	params detectors.Words
	p      Params
}

// New returns the detector of the op: package joint has the definition.
//
// The carry is the state of the series (Params.Words). Detail has two float32s for each value of each fresh row: expected less
// actual, and its standardised distance from what the others lead to expect. Rows are float64 and not centred; a value that is NaN is
// missing. A score covers the rows of the longest mean.
//
// The error names every fault of the parameters.
func New(p OpParams) (detectors.Detector, error) {
	var faults []error
	if p.Window < 8 || p.Window > 4096 {
		faults = append(faults, fmt.Errorf("window is %d samples, use 8 to 4096", p.Window))
	}
	if p.Guard < max(8, p.Window) || p.Guard > 1<<16 {
		faults = append(faults, fmt.Errorf("guard is %d samples, use %d to %d: at least the window", p.Guard, max(8, p.Window), 1<<16))
	}
	if p.Memory < 64 || p.Memory > 1<<24 {
		faults = append(faults, fmt.Errorf("memory is %d samples, use 64 to %d", p.Memory, 1<<24))
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("joint: %w", errors.Join(faults...))
	}
	d := &detector{detectors.Steady{Least: p.Window, From: p.Window - 1}, make(detectors.Words, 3), Params(p)}
	d.params.SetInt(0, p.Window)
	d.params.SetInt(1, p.Guard)
	d.params.SetInt(2, p.Memory)
	return d, nil
}

func (d *detector) Op() detectors.Op        { return Op }
func (d *detector) Params() detectors.Words { return d.params }
func (d *detector) Window() int             { return d.p.Rows() }

// Incomplete marks the detector as one that leaves out missing values.
func (d *detector) Incomplete() {}

// Left returns how many rows have no score yet.
func (d *detector) Left(carry detectors.Words) int {
	if len(carry) == 0 {
		carry = make(detectors.Words, d.p.Words(1))
	}
	return d.p.Left(carry, d.p.dim(len(carry)))
}

// dim returns the number of fields of a state of so many words.
func (p *Params) dim(words int) int {
	dim := 1
	for p.Words(dim) < words {
		dim++
	}
	return dim
}

// Size returns the scores and what else there is of a task.
func (d *detector) Size(v detectors.View) (n detectors.Outputs, ok bool) {
	if n, ok = d.Steady.Size(v); ok {
		n.Carry, n.Detail = d.p.Words(v.Dim), 2*v.Dim*v.Fresh
	}
	return n, ok
}

// fieldOf returns a field of a fresh row from the task's detail.
func fieldOf(r *detectors.Rows, fresh, c int) field {
	detail := r.Detail.F32()[2*(fresh*r.Dim+c):]
	return field{Off: float64(detail[0]), Score: float64(detail[1])}
}

// Explain expects of a value what the others lead to expect of it. Shares are by the squares of the standardised distances.
func (d *detector) Explain(r detectors.Rows, fresh, since int, expected, contribution []float64) (detectors.Location, bool) {
	row, sum := r.Row(fresh), 0.0
	for c := range r.Dim {
		f := fieldOf(&r, fresh, c)
		expected[c] = r.X64[row*r.Dim+c] + f.Off
		contribution[c] = f.Score * f.Score
		sum += contribution[c]
	}
	if !(sum > 0) {
		return detectors.Location{}, false
	}
	for c := range contribution {
		contribution[c] /= sum
	}
	most := detectors.Largest(contribution)
	first := row - d.From
	squares := make([]float64, d.p.Window)
	for i := range squares {
		off := r.X64[(first+i)*r.Dim+most] - expected[most]
		squares[i] = off * off
	}
	loc, f := detectors.LocationOf(first, since, squares), fieldOf(&r, fresh, most)
	loc.Spread = math.Abs(f.Off) / f.Score
	return loc, true
}

// Describe returns how far each field is from what the others lead to expect of it.
func (d *detector) Describe(r detectors.Rows, fresh int) detectors.Evidence {
	row := r.Row(fresh)
	e := detectors.Evidence{From: row - d.From, To: row, Location: detectors.OneRow(row)}
	expected, share := make([]float64, r.Dim), make([]float64, r.Dim)
	loc, ok := d.Explain(r, fresh, 0, expected, share)
	if !ok {
		return e
	}
	most := detectors.Largest(share)
	f := fieldOf(&r, fresh, most)
	e.Location, e.Fields = loc, detectors.OneHot(r.Dim, most)
	e.Measures = []detectors.Measure{{Name: "difference from what the other fields lead to expect", Field: most, Value: -f.Off}}
	if f.Score > 0 {
		e.Measures = append(e.Measures, detectors.Measure{Name: "usual difference", Field: most, Value: math.Abs(f.Off) / f.Score})
	}
	return e
}

// define applies the definition.
func define(r detectors.Rows) {
	scoreFresh(&r, func(p *Params, row int) (float64, []field) { return defineStep(p, r.Next, r.X64, r.Dim, row) })
}

var pool = sync.Pool{New: func() any { return new(scratch) }}

func cpu(_ context.Context, r *detectors.Rows, _ detectors.Parallel) {
	m := pool.Get().(*scratch)
	scoreFresh(r, func(p *Params, row int) (float64, []field) { return m.Step(p, r.Next, r.X64, r.Dim, row), m.fields })
	pool.Put(m)
}

// scoreFresh scores and learns the fresh rows by step. A series without a state begins with the first of them.
func scoreFresh(r *detectors.Rows, step func(p *Params, row int) (float64, []field)) {
	p := &Params{Window: r.Params.Int(0), Guard: r.Params.Int(1), Memory: r.Params.Int(2)}
	if copy(r.Next, r.Carry) == 0 {
		clear(r.Next)
	}
	detail := r.Detail.F32()
	for i := range r.Scores {
		score, fields := step(p, r.Row(i))
		r.Scores[i] = float32(score)
		for c, f := range fields {
			if at := 2 * (i*r.Dim + c); len(detail) > 0 {
				detail[at], detail[at+1] = float32(f.Off), float32(f.Score)
			}
		}
	}
}

func cost(r *detectors.Rows) int {
	return 50 + len(r.Next)/4 + r.Fresh*(r.Params.Int(0)*r.Dim+2*r.Dim*r.Dim+r.Dim*r.Dim*r.Dim/8)
}

// compare allows an error of 1e-4 and 3e-4 of a score, of 1e-3 of a field, and what float32 rounds of a state.
func compare(r *detectors.Rows, got, want detectors.Result) error {
	faults := []error{detectors.CompareScores(got.Scores, want.Scores, 1e-4, 3e-4)}
	if len(got.Next) != len(want.Next) || len(got.Detail) != len(want.Detail) {
		return errors.Join(append(faults, fmt.Errorf("joint: %d words of state and %d of detail where the definition leaves %d and %d",
			len(got.Next), len(got.Detail), len(want.Next), len(want.Detail)))...)
	}
	p := &Params{Window: r.Params.Int(0), Guard: r.Params.Int(1), Memory: r.Params.Int(2)}
	for i := range headerWords {
		if got.Next[i] != want.Next[i] {
			faults = append(faults, fmt.Errorf("joint: word %d of the state is %d, want %d", i, got.Next[i], want.Next[i]))
		}
	}
	gd, wd := got.Detail.F32(), want.Detail.F32()
	for i := 0; i < len(wd); i += 2 {
		c := p.at(want.Next, 0, r.Dim)
		j, abs, rel := i/2%r.Dim, 1e-3, 1e-3
		if s := want.Scores[i/2/r.Dim]; s != s {
			abs, rel = 0, 0
		}
		faults = append(faults, detectors.CompareScores(gd[i:i+1], wd[i:i+1], abs/10*(c.high(j)-c.low(j)), rel),
			detectors.CompareScores(gd[i+1:i+2], wd[i+1:i+2], abs, rel))
	}
	for i := range scales {
		g, w := p.at(got.Next, i, r.Dim), p.at(want.Next, i, r.Dim)
		for j := range wordUsual {
			if g.words[j] != w.words[j] {
				faults = append(faults, fmt.Errorf("joint: word %d of width %d is %d, want %d", j, i, g.words[j], w.words[j]))
			}
		}
		for j := range r.Dim {
			if g.low(j) != w.low(j) || g.high(j) != w.high(j) {
				faults = append(faults, fmt.Errorf("joint: field %d of width %d is %v to %v, want %v to %v", j, i, g.low(j), g.high(j),
					w.low(j), w.high(j)))
			}
		}
		faults = append(faults, detectors.CompareScores(g.mean, w.mean, 1e-5, 1e-5), detectors.CompareScores(g.c, w.c, 1e-6, 1e-4),
			detectors.CompareScores(g.past, w.past, 1e-4, 3e-4), detectors.CompareScores(g.inner, w.inner, 1e-4, 1e-3))
	}
	return errors.Join(faults...)
}

func cases(rng *rand.Rand) []detectors.Case {
	var cases []detectors.Case
	add := func(p OpParams, dim int, fresh []int, values ...detectors.Signal) *detectors.Case {
		p = OpParams{cmp.Or(p.Window, 8), cmp.Or(p.Guard, 8), cmp.Or(p.Memory, 1000)}
		cases = append(cases, detectors.NewCase(fmt.Sprintf("%+v", p), detectors.Must(New(p)), dim, rng.IntN(3), fresh, values...))
		return &cases[len(cases)-1]
	}
	for _, s := range detectors.Signals(rng) {
		add(OpParams{Guard: 8 + rng.IntN(9), Memory: 64 + rng.IntN(200)}, 1, []int{140, 1, 1, 5, 16, 40}, s)
	}
	for _, dim := range []int{2, 3, 8, 9} {
		for range 3 {
			s := detectors.Signals(rng)
			rng.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
			add(OpParams{Guard: 16}, dim, []int{120, 1, 40, 16}, s...)
		}
	}
	noise := detectors.Signals(rng)[0]
	add(OpParams{Window: 32, Guard: 256}, 4, []int{500, 1, 60}, noise)
	for _, shape := range [][2]int{{3, 1}, {8, 1}, {8, 16}, {40, 1}} { // fields, fresh rows
		add(OpParams{Window: 32, Guard: 256, Memory: 10000}, shape[0], []int{shape[1]}, noise).Bench = true
	}
	return cases
}
