package knn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"odradek/detectors"
)

// This file is op topn: the points of largest weight of a window. The method is package detectors/knn.

// OpTopN scores the points of largest weight of a window by their weights, and all other points as 0.
const OpTopN detectors.Op = 13

var topnSpec = detectors.Spec{
	Name: "topn", Elem: detectors.F32, Wide: topnWide,
	Finds: "among the most unusual of the last {window} readings",
	Help: "Finds exactly the TOP most unusual points of a large window, without scores of the rest. Their " +
		"scores are the sums of the distances to their K nearest points; all other scores are 0.",
	Params: []detectors.Param{
		{Name: detectors.WindowParam, Type: detectors.Int, Default: 1024, Min: 2, Max: MaxTopNWindow,
			Help: "Points to search, at least 2K.", Example: "100000"},
		{Name: "K", Type: detectors.Int, Default: 10, Min: 1, Max: MaxK, Word: 1,
			Help: "Nearest points whose distances are summed, at most WINDOW/2. A GPU takes up to 128.", Example: "20"},
		{Name: "POINTS", Type: detectors.Int, Word: 2}, // the window, 0 with TUMBLING: the fresh ones
		{Name: "EMBED", Type: detectors.Int, Default: 1, Min: 1, Max: topnMaxEmbed, Word: 3,
			Help: "Successive samples of a point. A GPU takes at most 64 values.", Example: "8"},
		{Name: "TOP", Type: detectors.Int, Default: 10, Min: 1, Max: MaxTopNWindow, Word: 4,
			Help: "Points with a score above 0; of points with equal sums the earliest.", Example: "5"},
		{Name: detectors.TumblingParam, Type: detectors.Bool, Default: false,
			Help: "Score windows one after the other, with STRIDE=WINDOW. Otherwise a task searches the last WINDOW " +
				"points for STRIDE new samples."},
		{Name: "INCLUDE_SELF", Type: detectors.Bool, Default: false, Word: 5,
			Help: "Count a point as its own first neighbour, as the paper's figures do.", Expert: true},
	},
	Defaults: []detectors.Default{
		{Name: "THRESHOLD", Value: func(detectors.Values) string { return "fixed:0" }, Words: "fixed:0, each of TOP"},
	},
	New: func(v detectors.Values) (detectors.Detector, error) {
		return NewTopN(TopNParams{Window: v.Int(detectors.WindowParam), K: v.Int("K"), Embed: v.Int("EMBED"), Top: v.Int("TOP"),
			Tumbling: v.Bool(detectors.TumblingParam), IncludeSelf: v.Bool("INCLUDE_SELF")})
	},
	Score: scoreTopN, CPU: topnCPU, Cost: topnCost, Compare: compareTopN, Cases: topnCases,
}

func init() { detectors.Register(OpTopN, &topnSpec) }

// Limits of the op.
const (
	MaxTopNWindow = 1 << 21
	topnMaxEmbed  = 1 << 10
	topnMinPoints = 256 // before the first score, as for op knn
)

// TopNParams are the parameters of the op; 0 means the default.
type TopNParams struct {
	Window      int  // points among which the largest weights are found, at least 2K. No default
	K           int  // neighbours, default 10
	Embed       int  // successive rows that make a point, default 1
	Top         int  // points of largest weight, default 10
	Tumbling    bool // windows do not overlap: the fresh rows' points are the window
	IncludeSelf bool // a point is its own first neighbour, at distance 0
}

type topnDetector struct {
	detectors.Steady // about the rows of the scored point
	params           detectors.Words
	p                TopNParams
}

// The parameters of a task.
const (
	topnParamK = iota
	topnParamPoints
	topnParamEmbed
	topnParamTop
	topnParamSelf
	topnParamCount
)

// NewTopN returns the detector of the op: the weight, see package knn, of the Top points of largest weight
// among the last Window points, or among all points if there are fewer; of points with equal weights
// the first ones. Other points have the score 0. Where a value in the window is not finite, all scores are NaN.
//
// A Tumbling detector finds the largest weights among the points of a task's fresh rows.
//
// A score covers the rows of its point. It is capped at the largest float32. There is no carry. The
// error names every fault of the parameters.
func NewTopN(p TopNParams) (detectors.Detector, error) {
	for _, v := range []struct {
		value *int
		usual int
	}{{&p.K, 10}, {&p.Embed, 1}, {&p.Top, 10}} {
		if *v.value == 0 {
			*v.value = v.usual
		}
	}
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if p.K < 1 || p.K > MaxK {
		fault("k is %d, use 1 to %d", p.K, MaxK)
	}
	if p.Window < 2 || p.Window > MaxTopNWindow {
		fault("window is %d points, use 2 to %d", p.Window, MaxTopNWindow)
	} else if p.K >= 1 && p.Window < 2*p.K {
		fault("window of %d points is too small for k = %d: use at least 2k = %d, or a smaller k", p.Window, p.K, 2*p.K)
	}
	if p.Embed < 1 || p.Embed > topnMaxEmbed {
		fault("embedding is %d rows, use 1 to %d", p.Embed, topnMaxEmbed)
	}
	if p.Top < 1 || p.Top > MaxTopNWindow {
		fault("top is %d points, use 1 to %d", p.Top, MaxTopNWindow)
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("knn: topn: %w", errors.Join(faults...))
	}
	rows := min(p.Window, max(topnMinPoints, 2*p.K)) + p.Embed - 1
	if p.Tumbling {
		rows = p.Embed
	}
	d := &topnDetector{detectors.Steady{Least: rows, From: p.Embed - 1}, make(detectors.Words, topnParamCount), p}
	d.params.SetInt(topnParamK, p.K)
	d.params.SetInt(topnParamEmbed, p.Embed)
	d.params.SetInt(topnParamTop, p.Top)
	d.params.SetBool(topnParamSelf, p.IncludeSelf)
	if !p.Tumbling {
		d.params.SetInt(topnParamPoints, p.Window)
	}
	return d, nil
}

func (d *topnDetector) Op() detectors.Op        { return OpTopN }
func (d *topnDetector) Params() detectors.Words { return d.params }

func (d *topnDetector) Window() int {
	if d.p.Tumbling {
		return d.p.Embed
	}
	return d.p.Window + d.p.Embed - 1
}

// points returns the points of a task's window, one after the other, with the number of points and the
// number of values of a point. rows are r.X or r.X64.
func points[F float32 | float64](r *detectors.Rows, rows []F) (x []F, n, width int) {
	m := r.Params.Int(topnParamEmbed)
	all := r.Len() - m + 1
	n, width = min(all, max(r.Params.Int(topnParamPoints), r.Fresh)), r.Dim*m
	if m == 1 {
		return rows[(all-n)*r.Dim:], n, width
	}
	for i := all - n; i < all; i++ {
		x = append(x, rows[i*r.Dim:i*r.Dim+width]...)
	}
	return x, n, width
}

// topnWide is the Spec's Wide: the points of all levels compete for the TOP.
func topnWide(detectors.Words) detectors.Wide { return detectors.WideAll }

// topnWidePoints is points in float64, of a wide task or another.
func topnWidePoints(r *detectors.Rows) (x []float64, n, width int) {
	if r.X64 != nil {
		return points(r, r.X64)
	}
	narrow, n, width := points(r, r.X)
	x = make([]float64, len(narrow))
	for i, v := range narrow {
		x[i] = float64(v)
	}
	return x, n, width
}

// write sets the scores to the weights of the outliers among n points.
func write(r *detectors.Rows, n int, top []Outlier) {
	clear(r.Scores)
	for _, o := range top {
		if i := o.At - n + r.Fresh; i >= 0 {
			r.Scores[i] = float32(min(o.Weight, math.MaxFloat32))
		}
	}
}

// topnUndefined sets all scores to NaN.
func topnUndefined(r *detectors.Rows) {
	for i := range r.Scores {
		r.Scores[i] = float32(math.NaN())
	}
}

// scoreTopN is the definition: the weights of all points, in order.
func scoreTopN(r detectors.Rows) {
	x, n, width := topnWidePoints(&r)
	k, self := r.Params.Int(topnParamK), r.Params.Bool(topnParamSelf)
	all := make([]Outlier, n)
	for i := range all {
		w, _ := Define(x, width, 1, k, self, Query{At: i, To: n})
		if w != w {
			topnUndefined(&r)
			return
		}
		all[i] = Outlier{At: i, Weight: w}
	}
	slices.SortStableFunc(all, func(a, b Outlier) int { return cmp.Compare(b.Weight, a.Weight) })
	write(&r, n, all[:min(r.Params.Int(topnParamTop), n)])
}

func topnCPU(ctx context.Context, r *detectors.Rows, parallel detectors.Parallel) {
	if r.X64 != nil {
		topnCPUWide(ctx, r)
		return
	}
	x, n, width := points(r, r.X)
	if !Finite(x) || n == 1 && !r.Params.Bool(topnParamSelf) {
		topnUndefined(r)
		return
	}
	tree := NewTree(x, width, parallel)
	if ctx.Err() != nil {
		return // parts of the tree are missing
	}
	write(r, n, tree.Top(TopParams{N: r.Params.Int(topnParamTop), K: r.Params.Int(topnParamK), Self: r.Params.Bool(topnParamSelf)}, parallel))
}

// topnCPUWide is the CPU form of a wide task, by the paper's algorithm with a solving set, in float64.
func topnCPUWide(ctx context.Context, r *detectors.Rows) {
	x, n, width := points(r, r.X64)
	if n == 1 && !r.Params.Bool(topnParamSelf) {
		topnUndefined(r)
		return
	}
	i := slices.IndexFunc(Algorithms, func(a Algorithm) bool { return a.Name == "SolvingSet" })
	top, err := Algorithms[i].Find(x, width, TopParams{N: r.Params.Int(topnParamTop), K: r.Params.Int(topnParamK),
		Self: r.Params.Bool(topnParamSelf), Stop: func() bool { return ctx.Err() != nil }})
	if err != nil { // a value is not finite
		topnUndefined(r)
		return
	}
	write(r, n, top.Outliers)
}

func topnCost(r *detectors.Rows) int {
	n, width := r.Len(), r.Dim*r.Params.Int(topnParamEmbed)
	if points := r.Params.Int(topnParamPoints); points > 0 {
		n = min(n, max(points, r.Fresh))
	}
	return n * (300 + 30*width + 10*r.Params.Int(topnParamK))
}

// compareTopN requires the points of the definition.
func compareTopN(_ *detectors.Rows, got, want detectors.Result) error {
	return detectors.CompareScores(got.Scores, want.Scores, 0, 1e-6)
}

// Explain expects the mean of the nearest points. A value contributes its share of the squared distances to them.
func (d *topnDetector) Explain(r detectors.Rows, fresh, since int, expected, contribution []float64) (detectors.Location, bool) {
	r, origin := r.Near(fresh)
	p, ok := d.explain(r, fresh, since, expected, contribution)
	for c, v := range origin {
		expected[c] += v
	}
	return p, ok
}

// explain is Explain for rows of float32.
func (d *topnDetector) explain(r detectors.Rows, fresh, since int, expected, contribution []float64) (detectors.Location, bool) {
	x, at, near := d.nearest(&r, fresh)
	mean, squares := make([]float64, len(at)), make([]float64, len(at))
	for _, i := range near {
		for c, v := range at {
			other := float64(x[i*len(at)+c])
			e := float64(v) - other
			squares[c] += e * e
			mean[c] += other / float64(len(near))
		}
	}
	if r.Scores[fresh] == 0 {
		return detectors.Location{}, false
	}
	return detectors.Deviation(r.Row(fresh), since, len(near), mean, squares, expected, contribution)
}

// nearest returns the points of the window, the point of a fresh row, and the numbers of its neighbours, none where a value
// is not finite.
func (d *topnDetector) nearest(r *detectors.Rows, fresh int) (x, at []float32, near []int) {
	x, n, width := points(r, r.X)
	own := n - r.Fresh + fresh
	wide, _, _ := topnWidePoints(r)
	_, near = Define(wide, width, 1, d.p.K, d.p.IncludeSelf, Query{At: own, To: n})
	if len(near) > 0 && d.p.IncludeSelf {
		near = near[1:]
	}
	return x, x[own*width : (own+1)*width], near
}

// Describe returns the nearest points and their distances, whose sum is the score if the point is among the TOP.
func (d *topnDetector) Describe(r detectors.Rows, fresh int) detectors.Evidence {
	r, _ = r.Near(fresh)
	m, row := d.p.Embed, r.Row(fresh)
	e := detectors.Evidence{From: row - m + 1, To: row, Location: detectors.OneRow(row)}
	x, at, found := d.nearest(&r, fresh)
	first := r.Len() - m + 1 - len(x)/len(at) // point of the window
	for _, i := range found {
		square := 0.0
		for c, v := range at {
			d := float64(v) - float64(x[i*len(at)+c])
			square += d * d
		}
		near := detectors.Input{Role: detectors.Neighbour, From: first + i, To: first + i + m - 1, Distance: math.Sqrt(square)}
		e.Inputs = append(e.Inputs, near)
	}
	expected, shares := make([]float64, r.Dim), make([]float64, r.Dim)
	if p, ok := d.Explain(r, fresh, 0, expected, shares); ok {
		e.Location, e.Fields = p, shares
	}
	return e
}

func topnCases(rng *rand.Rand) []detectors.Case {
	var cases []detectors.Case
	add := func(p TopNParams, dim int, fresh []int, values ...detectors.Signal) *detectors.Case {
		cases = append(cases, detectors.NewCase(fmt.Sprintf("%+v", p), detectors.Must(NewTopN(p)), dim, 0, fresh, values...))
		return &cases[len(cases)-1]
	}
	flip := func() bool { return rng.IntN(2) == 0 }
	for _, s := range detectors.Signals(rng) { // all of the window first
		add(TopNParams{Window: 40, K: 2 + rng.IntN(9), Top: 40, Tumbling: true, IncludeSelf: flip()}, 1, []int{40, 3, 90}, s)
	}
	for _, s := range detectors.Signals(rng) {
		add(TopNParams{Window: 60, K: 2 + rng.IntN(9), Top: 1 + rng.IntN(9), IncludeSelf: flip()}, 1, []int{1, 30, 7}, s)
		add(TopNParams{Window: 80, K: 2 + rng.IntN(9), Top: 1 + rng.IntN(9), Tumbling: true, Embed: 1 + rng.IntN(6)}, 1+rng.IntN(2), []int{80}, s)
	}
	for _, dim := range []int{2, 3, 7, 8, 11, 16} {
		s := detectors.Signals(rng)[:14] // finite
		rng.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
		add(TopNParams{Window: 70, K: 2 + rng.IntN(20), Top: 1 + rng.IntN(5), Tumbling: true, Embed: 1 + rng.IntN(3)}, dim, []int{130, 1}, s...)
	}
	for _, n := range []int{1, 2, 19, 20, 21, 22, 31, 32, 33, 63, 64, 65, 257} {
		s := detectors.Signals(rng)
		add(TopNParams{Window: 40, K: 20, Top: 1 + rng.IntN(4), Tumbling: true, IncludeSelf: flip()}, 1+rng.IntN(3), []int{n}, s[rng.IntN(14)])
	}
	add(TopNParams{Window: 300, K: 150, Top: 3, Tumbling: true}, 3, []int{300}, detectors.Signals(rng)[7]).CPU = true
	add(TopNParams{Window: 1500, K: 12, Top: 10, Tumbling: true}, 2, []int{1500}, detectors.Signals(rng)[rng.IntN(2)])
	add(TopNParams{Window: 1024, K: 10, Top: 10}, 2, []int{1}, detectors.Signals(rng)[0]).Bench = true
	return cases
}

// TopNShapes returns the shapes that benchmarks measure: the largest weights of large sets.
func TopNShapes() []detectors.Shape {
	shape := func(n, dim, k int) detectors.Shape {
		return detectors.Shape{
			Name: fmt.Sprintf("N=%d d=%d k=%d, top 10", n, dim, k), Unit: "points/s", Dim: dim, Fresh: n, Tasks: 1,
			Values: detectors.Values{detectors.WindowParam: n, "K": k, "TOP": 10, detectors.TumblingParam: true},
		}
	}
	return []detectors.Shape{shape(1000000, 2, 10), shape(1000000, 2, 50), shape(286048, 10, 10), shape(286048, 10, 50),
		shape(567498, 3, 10), shape(567498, 3, 50)}
}
