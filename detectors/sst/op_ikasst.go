package sst

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"odradek/detectors"
)

// This file is op ikasst: change scores by an implicit Krylov approximation. The method is
// package detectors/sst.

// OpIKA is the change score by the implicit Krylov approximation of the singular
// spectrum transformation.
const OpIKA detectors.Op = 1

var ikaSpec = detectors.Spec{
	Name: "ikasst", Elem: detectors.F32, Bounded: true, Wide: Wide,
	Finds: "its course has changed",
	Help: "Finds the moment when a series begins to behave differently, such as another frequency or mode. It " +
		"compares the subspaces of the samples before and after (singular spectrum transformation), by a " +
		"Krylov approximation: cheaper than svdsst. Scores lie between 0 and 1.",
	Params: []detectors.Param{
		{Name: detectors.WindowParam, Type: detectors.Int, Default: 50, Min: 2, Max: 4096, Word: 1,
			Help: "Length w of a subsequence; a score reads 2w-1+GAMMA samples.", Example: "80"},
		{Name: "RANK", Type: detectors.Int, Default: 3, Min: 1, Max: 31, Word: 2,
			Help: "Directions of the past to compare with (r in the paper).", Example: "5"},
		{Name: "KRYLOV", Type: detectors.Int, Default: 0, Max: 32, Word: 3,
			Help: "Dimension of the Krylov subspace (k), at least r+1; 0: 2r for even r, 2r-1 for odd, 32 at most.", Example: "8", Expert: true},
		{Name: "GAMMA", Type: detectors.Int, Default: 0, Max: 65536, Word: 4,
			Help: "Samples from the past to the present; 0: 2w-1+8, so that 8 samples lie between.", Example: "60"},
		{Name: "POWER_STEPS", Type: detectors.Int, Default: 2, Min: 1, Max: 100, Word: 5,
			Help: "Steps of the power method for a score.", Example: "4", Expert: true},
		{Name: "EPSILON", Type: detectors.Float, Default: 1e-3, Min: 1e-9, Max: 1, Word: 6,
			Help:    "Share of the fixed start vector in the next score's start, so that it can leave a stale direction.",
			Example: "0.01", Expert: true},
		{Name: "A0", Type: detectors.Floats, Word: 7},
	},
	New: func(v detectors.Values) (detectors.Detector, error) {
		return NewIKA(IKAOpParams{Window: v.Int(detectors.WindowParam), Rank: v.Int("RANK"), Krylov: v.Int("KRYLOV"), Gamma: v.Int("GAMMA"),
			PowerSteps: v.Int("POWER_STEPS"), Epsilon: v.Float("EPSILON")})
	},
	Score: scoreIKA, CPU: ikaCPU, Cost: ikaCost, Compare: compareIKA, Cases: ikaCases,
}

func init() { detectors.Register(OpIKA, &ikaSpec) }

// IKAOpParams are the parameters of the op; 0 means the default. See
// package sst for what they do.
type IKAOpParams struct {
	Window     int     // w; a score reads 2w-1+gamma rows. No default
	Rank       int     // r, default 3
	Krylov     int     // k, default 2r for even r, 2r-1 for odd r, at least r+1
	Gamma      int     // default 2w-1+8
	PowerSteps int     // p, default 2
	Epsilon    float64 // default 1e-3
	Seed       uint32  // of a0
}

type ikaDetector struct {
	detectors.Steady
	params detectors.Words
	sst    Params
}

// header is the number of parameters before a0.
const header = 6

// NewIKA returns the detector of the op. Its error names every fault of the
// parameters.
//
// Each value of a row is a separate series, with a feedback vector each (the carry, Window numbers a
// value, initially a0); the row's score is the largest of theirs. A score covers the rows between its
// past and its current trajectories (sst.Params.About), long before the scored row.
func NewIKA(p IKAOpParams) (detectors.Detector, error) {
	sp := Params{Window: p.Window, Rank: p.Rank, Krylov: p.Krylov, Gamma: p.Gamma, Steps: p.PowerSteps, Epsilon: p.Epsilon}
	if err := sp.Defaults(); err != nil {
		return nil, fmt.Errorf("sst: ikasst: %w", err)
	}
	sp.A0 = Start(p.Seed, sp.Window)
	params := make(detectors.Words, header, header+len(sp.A0))
	for i, v := range []int{sp.Window, sp.Rank, sp.Krylov, sp.Gamma, sp.Steps} {
		params.SetInt(i, v)
	}
	params.SetFloat32(header-1, float32(sp.Epsilon))
	from, to := sp.About(0)
	return &ikaDetector{detectors.Steady{Least: sp.Reads(), From: -from, To: -to}, append(params, detectors.WordsOf(sp.A0)...), sp}, nil
}

// ikaParams reads a task's parameters.
func ikaParams(w detectors.Words) Params {
	return Params{
		Window: w.Int(0), Rank: w.Int(1), Krylov: w.Int(2), Gamma: w.Int(3), Steps: w.Int(4),
		Epsilon: float64(w.Float32(5)), A0: w[header:].F32(),
	}
}

func (d *ikaDetector) Op() detectors.Op        { return OpIKA }
func (d *ikaDetector) Params() detectors.Words { return d.params }
func (d *ikaDetector) Window() int             { return d.sst.Reads() }
func (d *ikaDetector) Span() int               { return d.sst.Reads() }

// Size returns the scores and the next feedback.
func (d *ikaDetector) Size(v detectors.View) (n detectors.Outputs, ok bool) {
	if n, ok = d.Steady.Size(v); ok {
		n.Carry = v.Dim * d.sst.Window
	}
	return n, ok
}

// columns calls f with each column's series and feedback, in float64.
func columns(r *detectors.Rows, p *Params, f func(c int, x, a []float64)) {
	for c := range r.Dim {
		x, a := column(r, p, c)
		f(c, x, a)
	}
}

// column returns the series and the feedback of column c, in float64.
func column(r *detectors.Rows, p *Params, c int) (x, a []float64) {
	x, a = Column(r, c), make([]float64, p.Window)
	for i := range a {
		a[i] = float64(p.A0[i])
		if len(r.Carry) > 0 {
			a[i] = float64(r.Carry.Float32(c*p.Window + i))
		}
	}
	return x, a
}

// scoreIKA is the definition.
func scoreIKA(r detectors.Rows) {
	p := ikaParams(r.Params)
	columns(&r, &p, func(c int, x, a []float64) {
		scores, _ := Define(&p, x, r.Fresh, a)
		for i, s := range scores {
			if c == 0 {
				r.Scores[i] = float32(s)
			}
			r.Scores[i] = max(r.Scores[i], float32(s))
		}
		for i, v := range a {
			r.Next.SetFloat32(c*p.Window+i, float32(v))
		}
	})
}

// Locate returns the last row that the score covers, the first after the change. The field is known where there is but one.
func (d *ikaDetector) Locate(r detectors.Rows, fresh int, contribution []float64) (p detectors.Location, ok bool) {
	return Locate(&d.Steady, &r, fresh, contribution)
}

// Describe returns past and present of the field with the largest score, and the directions of the past.
func (d *ikaDetector) Describe(r detectors.Rows, fresh int) detectors.Evidence {
	t := r.Until(fresh)
	c := Compared{Steady: d.Steady, Window: d.sst.Window, Gamma: d.sst.Gamma}
	return c.Describe(&r, fresh, func(field int) Anatomy {
		x, a := column(&t, &d.sst, field)
		if fresh > 0 { // the feedback of the scores before
			Define(&d.sst, x[:len(x)-1], fresh, a)
		}
		return Dissect(&d.sst, x, a)
	})
}

// ikaMemory is the scratch memory of the CPU form.
type ikaMemory struct {
	scorer         Scorer
	column, scores []float32
}

var ikaPool = sync.Pool{New: func() any { return new(ikaMemory) }}

func ikaCPU(_ context.Context, r *detectors.Rows, _ detectors.Parallel) {
	p := ikaParams(r.Params)
	m := ikaPool.Get().(*ikaMemory)
	defer ikaPool.Put(m)
	next := r.Next.F32()
	if copy(r.Next, r.Carry) == 0 {
		for c := range r.Dim {
			copy(next[c*p.Window:], p.A0)
		}
	}
	score := func(scores []float32, c int) {
		a := next[c*p.Window : (c+1)*p.Window]
		if r.X64 != nil {
			ScoreWide(&p, scores, Column(r, c), a)
		} else {
			m.scorer.Score(&p, scores, m.series(r, c), a)
		}
	}
	score(r.Scores, 0)
	for c := 1; c < r.Dim; c++ {
		m.scores = append(m.scores[:0], r.Scores...)
		score(m.scores, c)
		for i, s := range m.scores {
			r.Scores[i] = max(r.Scores[i], s)
		}
	}
}

// series returns column c of X.
func (m *ikaMemory) series(r *detectors.Rows, c int) []float32 {
	if r.Dim == 1 {
		return r.X
	}
	m.column = m.column[:0]
	for i := c; i < len(r.X); i += r.Dim {
		m.column = append(m.column, r.X[i])
	}
	return m.column
}

func ikaCost(r *detectors.Rows) int {
	p := ikaParams(r.Params)
	if r.X64 != nil {
		return r.Dim * r.Fresh * (4000 + p.Window*p.Window*(2*p.Steps+2*p.Krylov)/4)
	}
	return r.Dim * r.Fresh * (1000 + p.Window*p.Window*(2*p.Steps+p.Krylov)/30)
}

// compareIKA allows 1e-6 and, where the definition itself moves further when its products are inexact
// (sst.Spread), three times that, but no more than 0.01 of a score or a carry. It returns ErrOpen where
// that inexactness explains every larger difference.
func compareIKA(r *detectors.Rows, got, want detectors.Result) error {
	const tol = 1e-6
	err := errors.Join(detectors.CompareScores(got.Scores, want.Scores, tol, 0), detectors.CompareScores(got.Next.F32(), want.Next.F32(), tol,
		0))
	if len(got.Scores) != len(want.Scores) || len(got.Next) != len(want.Next) {
		return err
	}
	// A difference beyond the spread of a few random errors may lie within the spread of more.
	for _, n := range []int{FewErrors, ManyErrors} {
		if err != nil {
			err = within(r, got, want, tol, n)
		}
	}
	return err
}

// within compares results, given a spread of n random errors.
func within(r *detectors.Rows, got, want detectors.Result, tol float64, n int) error {
	const ceiling = 0.01
	p := ikaParams(r.Params)
	var faults []error
	open := 0
	compare := func(what string, i int, got, want []float32, spread float64) {
		err := detectors.CompareScores(got, want, tol+min(3*spread, ceiling), 0)
		if err == nil {
			return
		}
		if detectors.CompareScores(got, want, tol+3*spread, 0) == nil {
			open++
		}
		faults = append(faults, fmt.Errorf("%s %d: %w", what, i, err))
	}
	scores := make([]float64, r.Fresh)
	columns(r, &p, func(c int, x, a []float64) {
		column, next := Spread(&p, x, r.Fresh, a, n, rand.New(rand.NewPCG(uint64(c), uint64(len(x)))))
		for i, s := range column {
			scores[i] = max(scores[i], s)
		}
		for i, s := range next {
			k := c*p.Window + i
			compare("carry", k, got.Next[k:k+1].F32(), want.Next[k:k+1].F32(), s)
		}
	})
	for i, s := range scores {
		compare("score", i, got.Scores[i:i+1], want.Scores[i:i+1], s)
	}
	if open > 0 && open == len(faults) {
		faults = append(faults, detectors.ErrOpen)
	}
	return errors.Join(faults...)
}

func ikaCases(rng *rand.Rand) []detectors.Case {
	var cases []detectors.Case
	add := func(p IKAOpParams, dim int, fresh []int, values ...detectors.Signal) *detectors.Case {
		p.Seed = rng.Uint32()
		d := detectors.Must(NewIKA(p))
		sp := ikaParams(d.Params())
		what := fmt.Sprintf("w=%d r=%d k=%d gamma=%d p=%d", sp.Window, sp.Rank, sp.Krylov, sp.Gamma, sp.Steps)
		cases = append(cases, detectors.NewCase(what, d, dim, rng.IntN(3), fresh, values...))
		return &cases[len(cases)-1]
	}
	for _, s := range detectors.Signals(rng) {
		add(IKAOpParams{Window: 20}, 1, []int{16, 1, 9}, s)
	}
	// Lengths of a task around the lengths of a group of lanes and of a run.
	for _, fresh := range []int{1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 15, 16, 17, 20, 33} {
		add(IKAOpParams{Window: 16, Rank: 2}, 1, []int{fresh}, detectors.Signals(rng)[rng.IntN(3)])
	}
	// The smallest, and sizes around the sizes of the vector kernels' blocks.
	add(IKAOpParams{Window: 2, Rank: 1}, 1, []int{16, 3}, detectors.Signals(rng)[0])
	add(IKAOpParams{Window: 3, Rank: 2}, 1, []int{16, 3}, detectors.Signals(rng)[0])
	add(IKAOpParams{Window: 4, Rank: 3}, 1, []int{16, 3}, detectors.Signals(rng)[1])
	for _, w := range []int{5, 7, 8, 9, 15, 17, 31, 33, 64, 65} {
		add(IKAOpParams{Window: w, Rank: 1 + rng.IntN(3), Gamma: 1 + rng.IntN(3*w), PowerSteps: 1 + rng.IntN(5)}, 1, []int{8, 2},
			detectors.Signals(rng)[rng.IntN(3)])
	}
	add(IKAOpParams{Window: 40, Rank: 12}, 1, []int{9}, detectors.Signals(rng)[0])
	add(IKAOpParams{Window: 40, Rank: 3, Krylov: 32}, 1, []int{9}, detectors.Signals(rng)[2])
	for _, dim := range []int{2, 3, 5} {
		s := detectors.Signals(rng)
		rng.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
		add(IKAOpParams{Window: 12}, dim, []int{8, 1}, s...)
	}
	add(IKAOpParams{Window: 100}, 1, []int{1}, detectors.Signals(rng)[2]).Bench = true
	add(IKAOpParams{Window: 100}, 1, []int{16}, detectors.Signals(rng)[2]).Bench = true
	add(IKAOpParams{Window: 320, Rank: 3}, 1, []int{8}, detectors.Signals(rng)[0]).Bench = true
	return cases
}

// IKAShapes are mostly windows of Ueno and Suzumura's table.
func IKAShapes() []detectors.Shape {
	shape := func(w, fresh, chain, tasks int) detectors.Shape {
		s := detectors.Shape{
			Name: fmt.Sprintf("w=%d, %d fresh", w, fresh), Unit: "scores/s", Dim: 1, Fresh: fresh, Chain: chain, Tasks: tasks,
			Values: detectors.Values{detectors.WindowParam: w, "RANK": 3, "POWER_STEPS": 2, "EPSILON": 1e-5},
		}
		if chain > 0 {
			s.Name += fmt.Sprintf(", %d tasks a key", chain)
		}
		return s
	}
	return []detectors.Shape{
		shape(100, 16, 0, 1<<16),
		shape(100, 1, 0, 1<<16),
		shape(100, 1, 16, 1<<18),
		shape(320, 16, 0, 1<<14),
		shape(20, 16, 0, 1<<16),
		shape(50, 16, 0, 1<<16),
		shape(200, 16, 0, 1<<15),
		shape(500, 16, 0, 1<<13),
		shape(1024, 16, 0, 1<<11),
	}
}
