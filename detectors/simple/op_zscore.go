package simple

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"odradek/detectors"
)

// This file is op zscore: the distance of a sample to the mean of those before it. It also
// contains the method.

// OpZScore is the distance of a sample to the mean of the samples before it, in
// their standard deviations.
const OpZScore detectors.Op = 0

var zscoreSpec = detectors.Spec{
	Name: "zscore", Elem: detectors.F32,
	Finds: "far from the mean of the last {window} readings",
	Help: "Finds readings far from the mean, in series that are noise about a level: spikes and changes of " +
		"level. The score is the distance to the mean of the samples before, in standard deviations, of " +
		"several fields the largest.",
	Params: []detectors.Param{
		{Name: detectors.WindowParam, Type: detectors.Int, Default: 50, Min: 3, Max: 1 << 24, Word: 1,
			Help: "Samples that a score reads, the scored one included.", Example: "200"},
	},
	New:   func(v detectors.Values) (detectors.Detector, error) { return NewZScore(v.Int(detectors.WindowParam)) },
	Score: scoreZScore, CPU: zscoreCPU, Cost: zscoreCost, Compare: compareZScore, Cases: zscoreCases,
}

func init() { detectors.Register(OpZScore, &zscoreSpec) }

// maxScore is the largest z-score: a sample that differs from a constant past has it.
const maxScore = 1e6

type zscore struct {
	detectors.Steady
	params detectors.Words
}

// NewZScore returns the detector of the op with the given window in rows, the
// scored one included; at least 3.
//
// The score of a value x is min(|x - mean| / sd, 1e6), mean and (population)
// standard deviation taken over the same field's values in the window-1 rows
// before it. Where sd is 0 it is 0 if x equals the mean and 1e6 if not. The score
// of a row is the largest of its values'.
//
// A NaN is a missing value, which is left out: a field has no score where x is
// missing, where fewer than half of the values before it, or fewer than two, are not
// missing, or where one of these is infinite. A row none of whose fields has a score
// scores NaN. Rows may be centred on any origin. There is no carry; each score
// covers its own sample.
func NewZScore(window int) (detectors.Detector, error) {
	if window < 3 || window > 1<<24 {
		return nil, fmt.Errorf("simple: zscore: window is %d, use 3 to %d", window, 1<<24)
	}
	return &zscore{detectors.Steady{Least: window}, detectors.Words{uint32(window)}}, nil
}

func (z *zscore) Op() detectors.Op        { return OpZScore }
func (z *zscore) Params() detectors.Words { return z.params }
func (z *zscore) Window() int             { return z.params.Int(0) }

// mostDirect is the longest window that is scored directly: a sample of one takes about half a microsecond.
const mostDirect = 512

// Direct returns the op's CPU form for short windows. Samples of long ones take several cores.
func (z *zscore) Direct() (fill func(r *detectors.Rows), inPlace bool) {
	if z.Window() > mostDirect {
		return nil, false
	}
	return directZScore, false
}

func directZScore(r *detectors.Rows) { zscoreCPU(context.Background(), r, detectors.Sequential) }

// Incomplete marks the detector as one that leaves out missing values.
func (z *zscore) Incomplete() {}

// Explain expects the mean of the values before, where there are enough of them. A value's share is its
// score divided by the sum of all scores; the row's score is the score of the value with the largest share.
func (z *zscore) Explain(r detectors.Rows, fresh, since int, expected, contribution []float64) (detectors.Location, bool) {
	n := z.Window() - 1
	row := r.Len() - r.Fresh + fresh
	sum := 0.0
	for c := range r.Dim {
		z, mean := field(r.X[(row-n)*r.Dim+c:], r.Dim, n)
		if z != z {
			z = 0
		}
		expected[c], contribution[c] = mean, z
		sum += z
	}
	if !(sum > 0) {
		return detectors.Location{}, false
	}
	for c := range contribution {
		contribution[c] /= sum
	}
	most := detectors.Largest(contribution)
	return detectors.OneReading(row, float64(r.X[row*r.Dim+most])-expected[most], contribution[most]*sum), true
}

// Describe returns the values before, and mean and deviation for the field with the largest score.
func (z *zscore) Describe(r detectors.Rows, fresh int) detectors.Evidence {
	n, row := z.Window()-1, r.Row(fresh)
	e := detectors.Evidence{
		From:     row,
		To:       row,
		Location: detectors.OneRow(row),
		Inputs: []detectors.Input{{Role: detectors.Baseline, From: row - n, To: row - 1,
			Distance: math.NaN()}},
	}
	most, at := math.NaN(), 0
	for c := range r.Dim {
		if s, _ := field(r.X[(row-n)*r.Dim+c:], r.Dim, n); s > most || most != most {
			most, at = s, c
		}
	}
	if _, mean := field(r.X[(row-n)*r.Dim+at:], r.Dim, n); most > 0 {
		off := float64(r.X[row*r.Dim+at]) - mean
		e.Fields = detectors.OneHot(r.Dim, at)
		e.Measures = []detectors.Measure{{Name: "difference from the mean", Field: at, Value: off}}
		if most < maxScore {
			e.Measures = append(e.Measures, detectors.Measure{Name: "standard deviation", Field: at, Value: math.Abs(off) / most})
		}
	}
	return e
}

// least returns the number of the n earlier values that a score needs.
func least(n int) int { return max(2, (n+1)/2) }

// scoreZScore is the definition: the values that are not missing, in two passes.
func scoreZScore(r detectors.Rows) {
	n := r.Params.Int(0) - 1
	for i := range r.Scores {
		at := r.Len() - r.Fresh + i
		score := math.NaN()
		for d := range r.Dim {
			var before []float64
			for row := at - n; row < at; row++ {
				if v := float64(r.X[row*r.Dim+d]); v == v {
					before = append(before, v)
				}
			}
			if z := defined(before, float64(r.X[at*r.Dim+d]), least(n)); !(z <= score) && z == z {
				score = z
			}
		}
		r.Scores[i] = float32(score)
	}
}

func defined(before []float64, x float64, least int) float64 {
	if len(before) < least {
		return math.NaN()
	}
	n, mean, ss := float64(len(before)), 0.0, 0.0
	for _, v := range before {
		if math.IsInf(v, 0) {
			return math.NaN()
		}
		mean += v / n
	}
	constant := true
	for _, v := range before {
		constant = constant && v == before[0]
		ss += (v - mean) * (v - mean)
	}
	switch {
	case x != x:
		return x
	case constant && x == before[0]:
		return 0
	case constant:
		return maxScore
	}
	return min(math.Abs(x-mean)/math.Sqrt(ss/n), maxScore)
}

// zscoreCPU makes one pass over differences from the window's first row x0.
// With q the sum of squares about x0 and s the sum, n*var = q - s*s/n; as x0 is
// one of the n rows, (mean-x0)^2 <= (n-1) var (Samuelson 1968), so at most a
// factor n of precision is lost, and a constant window gives exactly 0. A missing
// value makes the result NaN; only then the field is computed again without it.
func zscoreCPU(_ context.Context, r *detectors.Rows, _ detectors.Parallel) {
	n := r.Params.Int(0) - 1
	inv := 1 / float64(n)
	dim := r.Dim
	x := r.X[len(r.X)-(r.Fresh+n)*dim:]
	if dim == 1 {
		for i := range r.Scores {
			w := x[i : i+n+1]
			x0 := float64(w[0])
			var s, q float64
			for _, v := range w[:n] {
				d := float64(v) - x0
				s += d
				q += d * d
			}
			z := scoreOf(float64(w[n])-x0, s, q, inv)
			if z != z {
				z, _ = field(w, 1, n)
			}
			r.Scores[i] = float32(z)
		}
		return
	}
	for i := range r.Scores {
		score := math.NaN()
		for c := range dim {
			x0 := float64(x[i*dim+c])
			var s, q float64
			for k := i*dim + c; k < (i+n)*dim; k += dim {
				d := float64(x[k]) - x0
				s += d
				q += d * d
			}
			z := scoreOf(float64(x[(i+n)*dim+c])-x0, s, q, inv)
			if z != z {
				z, _ = field(x[i*dim+c:], dim, n)
			}
			if z > score || score != score {
				score = z
			}
		}
		r.Scores[i] = float32(score)
	}
}

// field is the score of the last of n+1 values that lie dim apart, and the mean
// of those before it, without those that are missing; NaN where there is none.
func field(x []float32, dim, n int) (z, mean float64) {
	var x0, s, q float64
	m := 0
	for i := range n {
		v := float64(x[i*dim])
		if v != v {
			continue
		}
		if m == 0 {
			x0 = v
		}
		m++
		s += v - x0
		q += (v - x0) * (v - x0)
	}
	if m < least(n) {
		return math.NaN(), math.NaN()
	}
	inv := 1 / float64(m)
	return scoreOf(float64(x[n*dim])-x0, s, q, inv), x0 + s*inv
}

// scoreOf is the score of a value d from x0, for n = 1/inv rows before it
// whose differences from x0 have sum s and sum of squares q.
func scoreOf(d, s, q, inv float64) float64 {
	if q == 0 && d == 0 {
		return 0
	}
	mean := s * inv
	d -= mean
	z := math.Sqrt(d * d / (q*inv - mean*mean)) // +Inf for q = 0
	if z > maxScore {
		return maxScore
	}
	return z
}

func zscoreCost(r *detectors.Rows) int { return 10 + r.Fresh*(6+(r.Params.Int(0)-1)*r.Dim) }

func compareZScore(_ *detectors.Rows, got, want detectors.Result) error {
	return errors.Join(
		detectors.CompareScores(got.Scores, want.Scores, 1e-6, 1e-5),
		detectors.CompareScores(got.Next.F32(), want.Next.F32(),
			0, 0),
	)
}

func zscoreCases(rng *rand.Rand) []detectors.Case {
	var cases []detectors.Case
	add := func(window, dim int, fresh []int, values ...detectors.Signal) *detectors.Case {
		cases = append(
			cases,
			detectors.NewCase(fmt.Sprintf("window %d", window), detectors.Must(NewZScore(window)), dim, rng.IntN(3), fresh, values...),
		)
		return &cases[len(cases)-1]
	}
	for _, s := range detectors.Signals(rng) {
		add(8, 1, []int{1, 1, 5, 16}, s)
	}
	for _, window := range []int{3, 4, 5, 7, 9, 16, 17, 64, 1000} {
		s := detectors.Signals(rng)
		add(window, 1, []int{1, 7, 1}, s[rng.IntN(len(s))])
	}
	for _, dim := range []int{2, 3, 8, 9} {
		s := detectors.Signals(rng)
		rng.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
		add(8, dim, []int{3, 1}, s...)
	}
	missing := func(s detectors.Signal, share float64) detectors.Signal {
		return detectors.Signal{Name: fmt.Sprintf("%s, %v missing", s.Name, share), At: func(i, n int) float64 {
			if v := s.At(i, n); rng.Float64() >= share {
				return v
			}
			return math.NaN()
		}}
	}
	for _, share := range []float64{0.1, 0.5, 0.9} {
		s := detectors.Signals(rng)
		add(9, 1, []int{5, 16}, missing(s[rng.IntN(len(s))], share))
		add(8, 3, []int{1, 16}, missing(s[0], share), s[2], missing(s[4], share))
	}
	add(8, 1, []int{1}, detectors.Signals(rng)[0]).Bench = true
	add(8, 1, []int{16}, detectors.Signals(rng)[0]).Bench = true
	add(256, 1, []int{16}, detectors.Signals(rng)[0]).Bench = true
	return cases
}
