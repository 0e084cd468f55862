package ar

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"odradek/detectors"
)

// This file is op ar: the distance of a sample from an online autoregressive prediction. The method is package detectors/ar.

// Op scores how far a sample is from the value predicted from those just before it.
const Op detectors.Op = 8

var spec = detectors.Spec{
	Name: "ar", Elem: detectors.F64,
	Finds: "unlike what the readings just before lead to expect",
	Help: "Finds readings that the readings just before do not predict, in series that depend on their past, " +
		"such as motors and flows. A linear prediction is learnt online; the score is the deviation from it " +
		"in usual deviations, of several fields the largest.",
	Params: []detectors.Param{
		{Name: "ORDER", Type: detectors.Int, Default: 16, Min: 1, Max: MaxOrder, Word: 1,
			Help: "Samples to predict the next one from. A field takes 4*(8+2*ORDER+ORDER*(ORDER-1)/2) bytes of state.", Example: "32"},
		{Name: "MEMORY", Type: detectors.Int, Default: 5000, Min: 2, Max: 1 << 24, Word: 2,
			Help: "Samples after which a sample's weight has fallen to a third.", Example: "20000"},
		{Name: "NOVELTY", Type: detectors.Bool, Default: false, Word: 3,
			Help: "Score how unusual the ORDER samples before are, instead of the deviation from the prediction."},
		{Name: "MIN_POINTS", Type: detectors.Int, Default: 0, Max: 1 << 24, Word: 4,
			Help: "Samples to learn from before the first score; 0: 8 times ORDER.", Example: "500"},
	},
	Defaults: []detectors.Default{{Name: "HISTORY", Value: func(detectors.Values) string { return "1024" }, Words: "1024"}},
	New: func(v detectors.Values) (detectors.Detector, error) {
		return New(OpParams{Order: v.Int("ORDER"), Memory: v.Int("MEMORY"), Novelty: v.Bool("NOVELTY"), MinPoints: v.Int("MIN_POINTS")})
	},
	Score: score, CPU: cpu, Cost: cost, Compare: compare, Cases: cases,
}

func init() { detectors.Register(Op, &spec) }

// OpParams are the parameters of the op; 0 means the default where there is one.
type OpParams struct {
	Order     int  // samples that the next one is predicted from
	Memory    int  // samples, see ar.Params
	Novelty   bool // the score is the novelty instead of the innovation
	MinPoints int  // samples learnt before the first score, default 8*Order
}

type detector struct {
	detectors.Steady
	params detectors.Words
	p      OpParams
}

// The parameters of a task.
const (
	paramOrder = iota
	paramMemory
	paramNovelty
	paramMinPoints
)

// New returns the detector of the op: package ar has the definition. Each value of a row is
// predicted on its own; the row's score is the largest of theirs, and NaN if none has one.
// A score is NaN as long as fewer than MinPoints samples are learnt.
//
// The carry is the state of each value's series (ar.Params.Words). Detail has two
// float32s for each value of each fresh row: expected less actual, and the value's score.
// Rows are float64 and not centred. An innovation covers its own row, a novelty the
// Order rows before.
//
// The error names every fault of the parameters.
func New(p OpParams) (detectors.Detector, error) {
	var faults []error
	if p.Order < 1 || p.Order > MaxOrder {
		faults = append(faults, fmt.Errorf("order is %d, use 1 to %d", p.Order, MaxOrder))
	}
	if p.Memory < 2 || p.Memory > 1<<24 {
		faults = append(faults, fmt.Errorf("memory is %d samples, use 2 to %d", p.Memory, 1<<24))
	}
	if p.MinPoints < 0 || p.MinPoints > max(2, p.Memory) {
		faults = append(faults, fmt.Errorf("%d samples before a score: use 0 for the default, or up to the memory of %d", p.MinPoints, p.Memory))
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("ar: %w", errors.Join(faults...))
	}
	p.MinPoints = cmp.Or(p.MinPoints, min(8*p.Order, p.Memory))
	d := &detector{detectors.Steady{Least: p.Order + 1}, make(detectors.Words, 4), p}
	if p.Novelty { // the rows before the scored one
		d.From, d.To = p.Order, 1
	}
	d.params.SetInt(paramOrder, p.Order)
	d.params.SetInt(paramMemory, p.Memory)
	d.params.SetBool(paramNovelty, p.Novelty)
	d.params.SetInt(paramMinPoints, p.MinPoints)
	return d, nil
}

func (d *detector) Op() detectors.Op        { return Op }
func (d *detector) Params() detectors.Words { return d.params }
func (d *detector) Window() int             { return d.p.Order + 1 }

// Span returns the rows of a prediction, and the predicted one.
func (d *detector) Span() int { return d.p.Order + 1 }

// Left returns MinPoints less the rows learnt: each row is learnt when it is scored.
func (d *detector) Left(carry detectors.Words) int {
	p := Params{Order: d.p.Order}
	return detectors.LeftOf(carry, p.Words(), d.p.MinPoints, Learnt)
}

// Size returns the scores and the other outputs of a task.
func (d *detector) Size(v detectors.View) (n detectors.Outputs, ok bool) {
	if n, ok = d.Steady.Size(v); ok {
		p := Params{Order: d.p.Order}
		n.Carry, n.Detail = v.Dim*p.Words(), 2*v.Dim*v.Fresh
	}
	return n, ok
}

// Explain expects the predicted value. The contribution of a value is its score divided by the
// sum of all. Of a novelty, whose samples are those before, it expects the median of each value among them.
func (d *detector) Explain(r detectors.Rows, fresh, since int, expected, contribution []float64) (detectors.Location, bool) {
	row := r.X64[(r.Len()-r.Fresh+fresh)*r.Dim:]
	detail := r.Detail.F32()[2*fresh*r.Dim:]
	sum := detectors.SharesOf(row, detail, 2, expected, contribution)
	if !(sum > 0) {
		return detectors.Location{}, false
	}
	if d.p.Novelty {
		return d.novel(&r, fresh, expected, detectors.Largest(contribution)), true
	}
	most := detectors.Largest(contribution)
	return detectors.OneReading(r.Row(fresh), row[most]-expected[most], contribution[most]*sum), true
}

// Predict returns the predicted value; of a novelty nothing.
func (d *detector) Predict(r detectors.Rows, fresh int) (expected, spread float64) {
	if d.p.Novelty {
		return math.NaN(), math.NaN()
	}
	detail := r.Detail.F32()[2*fresh:]
	return detectors.Predicted(r.X64[r.Row(fresh)*r.Dim], float64(detail[0]), float64(detail[1]))
}

// novel returns which of the samples before a fresh row are farthest from their median in a field, and sets expected to the medians.
func (d *detector) novel(r *detectors.Rows, fresh int, expected []float64, field int) detectors.Location {
	first := r.Row(fresh) - d.p.Order
	values, squares := make([]float64, d.p.Order), make([]float64, d.p.Order)
	for c := range expected {
		for i := range values {
			values[i] = r.X64[(first+i)*r.Dim+c]
		}
		slices.Sort(values)
		expected[c] = values[len(values)/2]
	}
	for i := range squares {
		off := r.X64[(first+i)*r.Dim+field] - expected[field]
		squares[i] = off * off
	}
	return detectors.LocationOf(first, 0, squares)
}

// Describe returns the samples that the prediction is made from, and what the field with the largest score is off by.
func (d *detector) Describe(r detectors.Rows, fresh int) detectors.Evidence {
	row := r.Row(fresh)
	e := detectors.Evidence{From: row - d.From, To: row - d.To}
	if !d.p.Novelty {
		e.Inputs = []detectors.Input{{Role: detectors.Baseline, From: row - d.p.Order, To: row - 1, Distance: math.NaN()}}
	}
	detail := r.Detail.F32()[2*fresh*r.Dim:]
	at := -1
	for c := range r.Dim {
		if s := detail[2*c+1]; s == s && (at < 0 || s > detail[2*at+1]) {
			at = c
		}
	}
	if at < 0 {
		return e
	}
	off, score := -float64(detail[2*at]), float64(detail[2*at+1])
	e.Fields = detectors.OneHot(r.Dim, at)
	e.Location, _ = d.Explain(r, fresh, 0, make([]float64, r.Dim), make([]float64, r.Dim))
	e.Measures = []detectors.Measure{{Name: "innovation (measured less predicted)", Field: at, Value: off}}
	if !d.p.Novelty && score > 0 {
		e.Measures = append(e.Measures, detectors.Measure{Name: "usual innovation (root mean square)", Field: at, Value: math.Abs(off) / score})
	}
	return e
}

// score applies the definition, value by value.
func score(r detectors.Rows) {
	scoreFresh(&r, func(s *State, p *Params, x []float64) Score { return s.Define(p, x) }, new(scratch))
}

var pool = sync.Pool{New: func() any { return new(scratch) }}

func cpu(_ context.Context, r *detectors.Rows, _ detectors.Parallel) {
	m := pool.Get().(*scratch)
	scoreFresh(r, (*State).Step, m)
	pool.Put(m)
}

type scratch struct {
	state State
	x     []float64
}

// scoreFresh scores and learns the fresh rows by step, value by value.
func scoreFresh(r *detectors.Rows, step func(*State, *Params, []float64) Score, m *scratch) {
	p := &Params{Order: r.Params.Int(paramOrder), Memory: r.Params.Int(paramMemory)}
	n := p.Words()
	detail := r.Detail.F32()
	for c := range r.Dim {
		m.x = m.x[:0]
		for i := r.Len() - r.Fresh - p.Order; i < r.Len(); i++ {
			m.x = append(m.x, r.X64[i*r.Dim+c])
		}
		if len(r.Carry) > 0 {
			m.state.Load(p, r.Carry[c*n:(c+1)*n])
		} else {
			m.state.Init(p, m.x[:p.Order])
		}
		for i := range r.Scores {
			warm := m.state.Learnt() < r.Params.Int(paramMinPoints)
			sc := step(&m.state, p, m.x[i:i+p.Order+1])
			score := float32(sc.Innovation)
			if r.Params.Bool(paramNovelty) {
				score = float32(sc.Novelty)
			}
			if warm {
				score = float32(math.NaN())
			}
			if at := 2 * (i*r.Dim + c); len(detail) > 0 {
				detail[at], detail[at+1] = float32(sc.Off), score
			}
			if c == 0 || score > r.Scores[i] || r.Scores[i] != r.Scores[i] {
				r.Scores[i] = score
			}
		}
		m.state.Store(r.Next[c*n : (c+1)*n])
	}
}

func cost(r *detectors.Rows) int {
	p := r.Params.Int(paramOrder)
	return 20 + r.Dim*(p*p+r.Fresh*(40+2*p*p))
}

// compare allows an error of 1e-4 of a score and 1e-5, of 1e-5 of a word of the state and 1e-5 (weights are of the
// order of 1), and for expected values of a millionth of the series' deviation.
func compare(r *detectors.Rows, got, want detectors.Result) error {
	faults := []error{detectors.CompareScores(got.Scores, want.Scores, 1e-5, 1e-4)}
	if len(got.Next) != len(want.Next) || len(got.Detail) != len(want.Detail) {
		return errors.Join(append(faults, fmt.Errorf("ar: %d words of state and %d of detail where the definition leaves %d and %d",
			len(got.Next), len(got.Detail), len(want.Next), len(want.Detail)))...)
	}
	n := len(want.Next) / r.Dim
	for c := range r.Dim {
		g, w := got.Next[c*n:(c+1)*n], want.Next[c*n:(c+1)*n]
		faults = append(faults, detectors.CompareScores(g[Header:].F32(), w[Header:].F32(), 1e-5, 1e-5))
		if g[0] != w[0] {
			faults = append(faults, fmt.Errorf("ar: %d samples are learnt where the definition has %d", g[0], w[0]))
		}
		sigma := math.Sqrt(w.Float64(4))
		for i, abs := range []float64{1e-9 * sigma, 0, 1e-12} { // mean, variance, mean square of innovations
			if a, b := g.Float64(2+2*i), w.Float64(2+2*i); !(math.Abs(a-b) <= 1e-6*math.Abs(b)+abs) {
				faults = append(faults, fmt.Errorf("ar: word %d of the state is %v, the definition leaves %v", 2+2*i, a, b))
			}
		}
		gd, wd := got.Detail.F32(), want.Detail.F32()
		for i := 2 * c; i < len(wd); i += 2 * r.Dim {
			faults = append(faults, detectors.CompareScores(gd[i:i+1], wd[i:i+1], 1e-6*sigma, 1e-5), detectors.CompareScores(gd[i+1:i+2],
				wd[i+1:i+2], 1e-5, 1e-4))
		}
	}
	return errors.Join(faults...)
}

func cases(rng *rand.Rand) []detectors.Case {
	var cases []detectors.Case
	add := func(p OpParams, dim int, fresh []int, values ...detectors.Signal) *detectors.Case {
		cases = append(cases, detectors.NewCase(fmt.Sprintf("%+v", p), detectors.Must(New(p)), dim, rng.IntN(3), fresh, values...))
		return &cases[len(cases)-1]
	}
	flip := func() bool { return rng.IntN(2) == 0 }
	for _, s := range detectors.Signals(rng) {
		add(OpParams{Order: 6, Memory: 20 + rng.IntN(100), MinPoints: 1 + rng.IntN(20), Novelty: flip()}, 1, []int{30, 1, 1, 5, 16, 40}, s)
	}
	for _, order := range []int{1, 2, 3, 7, 8, 9} {
		s := detectors.Signals(rng)
		add(OpParams{Order: order, Memory: 2 + rng.IntN(50), MinPoints: 2}, 1, []int{1, 17, 1, 60}, s[rng.IntN(len(s))])
	}
	for _, dim := range []int{2, 3, 8, 9} {
		s := detectors.Signals(rng)
		rng.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
		add(OpParams{Order: 4, Memory: 1000, Novelty: flip()}, dim, []int{3, 1, 40, 16}, s...)
	}
	for _, shape := range [][2]int{{16, 1}, {16, 16}, {32, 1}} { // order, fresh rows
		add(OpParams{Order: shape[0], Memory: 5000, MinPoints: 1}, 1, []int{shape[1]}, detectors.Signals(rng)[2]).Bench = true
	}
	return cases
}

// Shapes score a sample or 16 of a key in a batch, at once or one after the other, with order 32 and with the default one. 56,832
// tasks of order 32 are about as many as a batch can have.
func Shapes() []detectors.Shape {
	shape := func(order, fresh, chain, tasks int) detectors.Shape {
		s := detectors.Shape{
			Name: fmt.Sprintf("order=%d, %d fresh", order, fresh), Unit: "scores/s", Dim: 1, Fresh: fresh, Chain: chain, Tasks: tasks,
			Values: detectors.Values{"ORDER": order, "MEMORY": 5000, "MIN_POINTS": 1},
		}
		if chain > 0 {
			s.Name += fmt.Sprintf(", %d tasks a key", chain)
		}
		return s
	}
	return []detectors.Shape{
		shape(32, 1, 0, 56832), shape(32, 1, 16, 56832), shape(32, 16, 0, 1<<15),
		shape(16, 1, 0, 1<<17), shape(16, 1, 16, 1<<17), shape(16, 16, 0, 1<<16),
	}
}
