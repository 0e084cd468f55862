package sst

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"

	"odradek/detectors"
)

// This file is op svdsst: change scores by exact singular vectors. The method is package
// detectors/sst.

// OpSVD is the change score by the singular spectrum transformation with exact
// singular vectors.
const OpSVD detectors.Op = 5

var svdSpec = detectors.Spec{
	Name: "svdsst", Elem: detectors.F32, Bounded: true, Wide: Wide,
	Finds: "its course has changed",
	Help: "Finds the moment when a series begins to behave differently, such as another frequency or mode. It " +
		"compares the subspaces of the samples before and after (singular spectrum transformation) by exact " +
		"singular vectors: costly, and best on a GPU. Scores lie between 0 and 1.",
	Params: []detectors.Param{
		{Name: detectors.WindowParam, Type: detectors.Int, Default: 50, Min: 2, Max: MaxSVDWindow, Word: 1,
			Help: "Length w of a subsequence; a score reads 2w-1+GAMMA samples.", Example: "80"},
		{Name: "RANK", Type: detectors.Int, Default: 3, Min: 1, Max: 1023, Word: 2,
			Help: "Directions of the past to compare with (r in the paper).", Example: "5"},
		{Name: "GAMMA", Type: detectors.Int, Default: 0, Max: 65536, Word: 3,
			Help: "Samples from the past to the present; 0: 2w-1+8, so that 8 samples lie between.", Example: "60"},
		{Name: "NEGLIGIBLE", Type: detectors.Float, Default: 1e-6, Min: LeastNegligible, Max: 0.5, Word: 4,
			Help: "Directions of the past up to this share of its largest singular value are left out. With 0.0032, " +
				"float32's resolution, fewer scores take float64.", Example: "0.0032", Expert: true},
	},
	New: func(v detectors.Values) (detectors.Detector, error) {
		return NewSVD(
			SVDOpParams{
				Window:     v.Int(detectors.WindowParam),
				Rank:       v.Int("RANK"),
				Gamma:      v.Int("GAMMA"),
				Negligible: v.Float("NEGLIGIBLE"),
			},
		)
	},
	Score: definitionSVD, CPU: svdCPU, Cost: svdCost, Compare: compareSVD, Cases: svdCases,
}

func init() { detectors.Register(OpSVD, &svdSpec) }

// SVDOpParams are the parameters of the op; 0 means the default. See
// sst.SVDParams for what they do.
type SVDOpParams struct {
	Window int // w; a score reads 2w-1+gamma rows. No default
	Rank   int // r, default 3
	Gamma  int // default 2w-1+8
	// Negligible is the share of the past's largest singular value up to which
	// directions do not count, default 1e-6.
	Negligible float64
}

type svdDetector struct {
	detectors.Steady
	params detectors.Words
	sst    SVDParams
}

// NewSVD returns the detector of the op. Its error names every fault of the
// parameters.
//
// Each value of a row is a separate series; the row's score is the largest of theirs. It covers the
// same rows as a score of IKASST with the same window and gamma. There is no carry.
func NewSVD(p SVDOpParams) (detectors.Detector, error) {
	sp := SVDParams(p)
	if err := sp.Defaults(); err != nil {
		return nil, fmt.Errorf("sst: svdsst: %w", err)
	}
	params := detectors.Words{uint32(sp.Window), uint32(sp.Rank), uint32(sp.Gamma), math.Float32bits(float32(sp.Negligible))}
	from, to := sp.About(0)
	return &svdDetector{detectors.Steady{Least: sp.Reads(), From: -from, To: -to}, params, sp}, nil
}

// svdParams reads a task's parameters.
func svdParams(p detectors.Words) SVDParams {
	return SVDParams{Window: int(p[0]), Rank: int(p[1]), Gamma: int(p[2]), Negligible: float64(p.Float32(3))}
}

func (d *svdDetector) Op() detectors.Op        { return OpSVD }
func (d *svdDetector) Params() detectors.Words { return d.params }
func (d *svdDetector) Window() int             { return d.sst.Reads() }
func (d *svdDetector) Span() int               { return d.sst.Reads() }

// define calls f with the definition's scores of each column.
func define(r *detectors.Rows, f func(p *SVDParams, scores []float64, decompositions []SVD)) {
	p := svdParams(r.Params)
	for c := range r.Dim {
		x := Column(r, c)
		scores, decompositions := DefineSVD(&p, x, r.Fresh)
		f(&p, scores, decompositions)
	}
}

// definitionSVD is the definition.
func definitionSVD(r detectors.Rows) {
	clear(r.Scores)
	define(&r, func(_ *SVDParams, scores []float64, _ []SVD) {
		for i, s := range scores {
			r.Scores[i] = max(r.Scores[i], float32(s))
		}
	})
}

// Locate returns the last row that the score covers, the first after the change. The field is known where there is but one.
func (d *svdDetector) Locate(r detectors.Rows, fresh int, contribution []float64) (p detectors.Location, ok bool) {
	return Locate(&d.Steady, &r, fresh, contribution)
}

// Describe returns past and present of the field with the largest score, and the directions of the past.
func (d *svdDetector) Describe(r detectors.Rows, fresh int) detectors.Evidence {
	row := r.Row(fresh)
	c := Compared{Steady: d.Steady, Window: d.sst.Window, Gamma: d.sst.Gamma}
	return c.Describe(&r, fresh, func(field int) Anatomy {
		return DissectSVD(&d.sst, Column(&r, field)[:row+1])
	})
}

// svdMemory is the scratch memory of the CPU form.
type svdMemory struct {
	scorer         SVDScorer
	column, scores []float32
}

var svdPool = sync.Pool{New: func() any { return new(svdMemory) }}

func svdCPU(_ context.Context, r *detectors.Rows, _ detectors.Parallel) {
	p := svdParams(r.Params)
	m := svdPool.Get().(*svdMemory)
	defer svdPool.Put(m)
	if r.X64 != nil {
		clear(r.Scores)
		m.scores = append(m.scores[:0], r.Scores...)
		for c := range r.Dim {
			m.scorer.ScoreWide(&p, m.scores, Column(r, c))
			for i, s := range m.scores {
				r.Scores[i] = max(r.Scores[i], s)
			}
		}
		return
	}
	if r.Dim == 1 {
		m.scorer.Score(&p, r.Scores, r.X)
		return
	}
	clear(r.Scores)
	for c := range r.Dim {
		m.column = m.column[:0]
		for i := c; i < len(r.X); i += r.Dim {
			m.column = append(m.column, r.X[i])
		}
		m.scores = append(m.scores[:0], r.Scores...)
		m.scorer.Score(&p, m.scores, m.column)
		for i, s := range m.scores {
			r.Scores[i] = max(r.Scores[i], s)
		}
	}
}

func svdCost(r *detectors.Rows) int {
	p := svdParams(r.Params)
	return r.Dim * r.Fresh * (50_000 + 15*p.Window*p.Window)
}

// compareSVD allows 1e-5 and, for a score that rounding decides, its whole range
// (sst.SVDRange).
func compareSVD(r *detectors.Rows, got, want detectors.Result) error {
	const tol = 1e-5
	if len(got.Next) != 0 {
		return fmt.Errorf("sst: a carry of %d numbers, svdsst leaves none", len(got.Next))
	}
	quick := detectors.CompareScores(got.Scores, want.Scores, tol, 0)
	if quick == nil || len(got.Scores) != len(want.Scores) {
		return quick
	}
	// The largest of several scores, each within a range, lies between the largest of
	// their lower ends and the largest of their upper ends.
	low, high := make([]float64, r.Fresh), make([]float64, r.Fresh)
	define(r, func(p *SVDParams, scores []float64, decompositions []SVD) {
		for i, s := range scores {
			l, h := SVDRange(p, &decompositions[i], s)
			low[i], high[i] = max(low[i], l), max(high[i], h)
		}
	})
	for i, g := range got.Scores {
		if v := float64(g); v == v && low[i]-tol <= v && v <= high[i]+tol {
			continue
		}
		if err := detectors.CompareScores(got.Scores[i:i+1], want.Scores[i:i+1], tol, 0); err != nil {
			return fmt.Errorf("score %d, from %v to %v: %w", i, low[i], high[i], err)
		}
	}
	return nil
}

// flatSpectrum has a period whose tones all have the same amplitude, up to noise.
func flatSpectrum(rng *rand.Rand, period int, noise float64) detectors.Signal {
	shape := make([]float64, period)
	for f := 1; f <= period/2; f++ {
		phase := 2 * math.Pi * rng.Float64()
		for i := range shape {
			shape[i] += math.Sin(2*math.Pi*float64(f*i)/float64(period) + phase)
		}
	}
	return detectors.Signal{Name: fmt.Sprintf("flat spectrum of period %d, noise %g", period, noise), At: func(i, n int) float64 {
		return shape[i%period] + noise*rng.NormFloat64()
	}}
}

// fading has tones each with a tenth of the amplitude of the one before, and no noise.
func fading(rng *rand.Rand) detectors.Signal {
	turn := 0.4 + 0.1*rng.Float64()
	return detectors.Signal{Name: "fading tones", At: func(i, n int) float64 {
		sum, loud := 0.0, 1.0
		for f := range 6 {
			sum += loud * math.Sin(turn*float64((1+f)*i))
			loud /= 10
		}
		return sum
	}}
}

func svdCases(rng *rand.Rand) []detectors.Case {
	const coarse = 0.0032 // with which float32 tells which directions of a past of low rank count
	var cases []detectors.Case
	add := func(p SVDOpParams, dim int, fresh []int, values ...detectors.Signal) *detectors.Case {
		cases = append(cases, detectors.NewCase(fmt.Sprintf("%+v", p), detectors.Must(NewSVD(p)), dim, rng.IntN(3), fresh, values...))
		return &cases[len(cases)-1]
	}
	for _, s := range detectors.Signals(rng) {
		add(SVDOpParams{Window: 20}, 1, []int{8, 1, 3}, s)
		add(SVDOpParams{Window: 31, Rank: 6, Negligible: coarse}, 1, []int{4}, s)
	}
	for _, fresh := range []int{1, 2, 7, 16, 17} {
		add(SVDOpParams{Window: 12, Rank: 2}, 1, []int{fresh}, detectors.Signals(rng)[rng.IntN(3)])
	}
	add(SVDOpParams{Window: 2, Rank: 1}, 1, []int{16, 3}, detectors.Signals(rng)[0])
	add(SVDOpParams{Window: 3, Rank: 2}, 1, []int{16, 3}, detectors.Signals(rng)[0])
	add(SVDOpParams{Window: 4, Rank: 3}, 1, []int{16, 3}, detectors.Signals(rng)[1])
	// Around the sizes of the kernels.
	for _, w := range []int{5, 17, 32, 33, 63, 64, 65, 100, 128, 129} {
		add(
			SVDOpParams{Window: w, Rank: 1 + rng.IntN(min(w-1, 16)), Gamma: 1 + rng.IntN(3*w)},
			1,
			[]int{3, 2},
			detectors.Signals(rng)[rng.IntN(3)],
		)
	}
	// Singular values that are equal, many times, up to small differences.
	for _, p := range []SVDOpParams{{Window: 11, Rank: 1}, {Window: 34, Rank: 15}, {Window: 61, Rank: 12}} {
		for _, noise := range []float64{0, 1e-8, 1e-6, 1e-4} {
			add(p, 1, []int{2}, flatSpectrum(rng, p.Window/(1+rng.IntN(2)), noise))
		}
	}
	// Directions of a past that fades, decade by decade, and a bound above most.
	for _, negligible := range []float64{0, 1e-4, 0.01} {
		add(SVDOpParams{Window: 24, Rank: 5, Negligible: negligible}, 1, []int{3}, fading(rng))
	}
	add(SVDOpParams{Window: 40, Rank: 16}, 1, []int{4}, detectors.Signals(rng)[0])
	add(SVDOpParams{Window: 40, Rank: 30}, 1, []int{2}, detectors.Signals(rng)[2])
	for _, dim := range []int{2, 5} {
		s := detectors.Signals(rng)
		rng.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
		add(SVDOpParams{Window: 12, Negligible: coarse}, dim, []int{8, 1}, s...)
	}
	add(SVDOpParams{Window: 100}, 1, []int{1}, detectors.Signals(rng)[2]).Bench = true
	add(SVDOpParams{Window: 100, Rank: 12}, 1, []int{2}, detectors.Signals(rng)[0]).Bench = true
	add(SVDOpParams{Window: 320, Rank: 12}, 1, []int{1}, detectors.Signals(rng)[2]).Bench = true
	return cases
}

// SVDShapes are windows of Ueno and Suzumura's table, and one of more directions.
func SVDShapes() []detectors.Shape {
	shape := func(w, rank, tasks int) detectors.Shape {
		return detectors.Shape{
			Name: fmt.Sprintf("w=%d r=%d, 16 fresh", w, rank), Unit: "scores/s", Dim: 1, Fresh: 16, Tasks: tasks,
			Values: detectors.Values{detectors.WindowParam: w, "RANK": rank},
		}
	}
	return []detectors.Shape{
		shape(320, 12, 1<<13),
		shape(20, 3, 1<<14),
		shape(50, 3, 1<<13),
		shape(100, 3, 1<<12),
		shape(200, 3, 1<<11),
		shape(320, 3, 1<<10),
		shape(500, 3, 1<<9),
	}
}
