package knn

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strconv"
	"sync"

	"odradek/detectors"
	"odradek/detectors/vec"
)

// This file is op knn: the weight of a point among its nearest neighbours, in its window or in
// a model. The method is package detectors/knn.

// Op is the sum of the distances of a sample, or of a run of samples, to the nearest of
// those before it, or of all of a window.
const Op detectors.Op = 4

var spec = detectors.Spec{
	Name: "knn", Elem: detectors.F32, Wide: wide,
	Finds: "unlike the last {window} readings",
	Help: "Finds readings, and sequences of EMBED readings, unlike earlier ones: another level, a drift, " +
		"another course. The score is the sum of the distances to the K most similar of the last WINDOW " +
		"points.",
	Params: []detectors.Param{
		{Name: detectors.WindowParam, Type: detectors.Int, Default: 1024, Min: 2, Max: MaxWindow,
			Help: "Earlier points to compare with, at least 2K.", Example: "2048"},
		{Name: "K", Type: detectors.Int, Default: 10, Min: 1, Max: MaxK, Word: 1,
			Help: "Nearest points whose distances are summed, at most WINDOW/2.", Example: "27"},
		{Name: "POINTS", Type: detectors.Int, Word: 2}, // the window, 0 with TUMBLING: all of X
		{Name: "EMBED", Type: detectors.Int, Min: 1, Max: 1024, Word: 3, Derive: embedding,
			Derived: "16, or what makes 64 values of FIELDS; 1 with TUMBLING",
			Help: "Successive samples of a point: 1 scores single samples, more their course. A GPU takes at most 64 " +
				"values.", Example: "32"},
		{Name: "MIN_POINTS", Type: detectors.Int, Default: 0, Max: MaxWindow,
			Help: "Points before the first score, at least 2K; 0: 256, but at least 2K+EMBED and at most WINDOW.", Example: "512"},
		{Name: detectors.TumblingParam, Type: detectors.Bool, Default: false,
			Help: "Score windows one after the other, each sample among all others of its window, with STRIDE=WINDOW."},
		{Name: "INCLUDE_SELF", Type: detectors.Bool, Default: false, Word: 4,
			Help: "Count a point as its own first neighbour, as the paper's figures do.", Expert: true},
		{Name: "NEIGHBOURS", Type: detectors.Bool, Word: 5},
		{Name: "ZNORM", Type: detectors.Bool, Default: false, Word: 6,
			Help: "Bring each value's course in a point to mean 0 and deviation 1, so that only its shape counts. EMBED " +
				"must be at least 3."},
	},
	// A series takes 16 KiB with its window; with 32 KiB NAB's dev streams have 67.2 instead of 60.7
	// (docs/quality.md). Where points are runs of rows, the readings of a fault are in the scores of one
	// more run, and a fault that pauses is one anomaly.
	Defaults: []detectors.Default{
		{Name: "HISTORY", Value: func(detectors.Values) string { return "1024" }, Words: "1024"},
		{Name: "CLOSE_AFTER", Value: func(v detectors.Values) string { return strconv.Itoa(max(8, 4*v.Int("EMBED"))) },
			Words: "4 times EMBED, at least 8"},
	},
	New: func(v detectors.Values) (detectors.Detector, error) {
		return New(Params{Window: v.Int(detectors.WindowParam), K: v.Int("K"), Embed: v.Int("EMBED"), MinPoints: v.Int("MIN_POINTS"),
			Tumbling: v.Bool(detectors.TumblingParam), IncludeSelf: v.Bool("INCLUDE_SELF"), ZNorm: v.Bool("ZNORM")})
	},
	NewReferred: newReferred,
	Score:       score, CPU: opCPU, Cost: cost, Compare: compare, Cases: cases,
}

func init() { detectors.Register(Op, &spec) }

// embedding is the default of EMBED: 16 samples of at most 64 values, which a kernel also takes as one
// point. Measured as the defaults above.
func embedding(v detectors.Values, dim int) any {
	if v.Bool(detectors.TumblingParam) {
		return 1
	}
	return max(1, min(16, 64/max(1, dim)))
}

// Params are the parameters of the op; 0 means the default.
type Params struct {
	Window int // points among which a score is computed, including its own; at least 2K. No default
	K      int // neighbours, default 10
	Embed  int // successive rows that make a point, default 1
	// MinPoints is the number of points, including the scored one, from which there is a score; at
	// least 2K. Default 256 (the constant MinPoints) or 2K+Embed, whichever is more, but not more than Window.
	MinPoints int
	// Tumbling scores batches of Window points among themselves, each among all
	// others; see New.
	Tumbling    bool
	IncludeSelf bool // a point is its own first neighbour, at distance 0
	ZNorm       bool // normalise each value's course within a point to mean 0 and deviation 1; Embed must be at least 3
	// Neighbours makes a task write the neighbours to its Detail: K numbers a score, nearest first.
	// They count from 0 at the oldest point of the task's X; a point has the number of its first row,
	// and a missing neighbour is detectors.NoRow.
	Neighbours bool
}

// MinPoints is how many points, by default, a window has before it has a score: more where 2K+Embed is more, fewer
// where the window is smaller (Params.MinPoints). Among few points the K nearest are far, above all before the
// series has completed a period: such scores are many times the scores of a full window, and a history that begins with
// them gives a threshold that hardly any fault exceeds.
const MinPoints = 256

// MaxWindow is the largest window of the op, in points.
const MaxWindow = 1 << 21

// maxEmbed is the largest number of rows that make a point.
const maxEmbed = 1 << 10

type detector struct {
	detectors.Steady // about the rows of the scored point
	params           detectors.Words
	p                Params
}

// The parameters of a task.
const (
	paramK = iota
	paramPoints
	paramEmbed
	paramSelf
	paramNeighbours
	paramZNorm
	paramCount
)

// New returns the detector of the op: the weight of a point, see package knn. A score
// compares its point with those before it among the last Window points, or as many as there
// are, at least MinPoints. It does not depend on later rows, so not on the stride.
//
// A Tumbling detector scores the points of a task's fresh rows among all of them,
// later ones too, and reads no rows before the fresh ones but those that its first
// point begins with: with a stride of Window, which the caller has to set, windows
// do not overlap.
//
// A score covers the rows of its point. It is capped at the largest float32. There
// is no carry. The error names every fault of the parameters.
func New(p Params) (detectors.Detector, error) {
	if p.K == 0 {
		p.K = 10
	}
	if p.Embed == 0 {
		p.Embed = 1
	}
	least := p.MinPoints
	if least == 0 {
		// 2K points that share no rows with the scored one.
		least = min(p.Window, max(MinPoints, 2*p.K+p.Embed))
	}
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if p.K < 1 || p.K > MaxK {
		fault("k is %d, use 1 to %d", p.K, MaxK)
	}
	if p.Window < 2 || p.Window > MaxWindow {
		fault("window is %d points, use 2 to %d", p.Window, MaxWindow)
	} else if p.K >= 1 && p.Window < 2*p.K {
		fault("window of %d points is too small for k = %d: use at least 2k = %d, or a smaller k", p.Window, p.K, 2*p.K)
	}
	if p.Embed < 1 || p.Embed > maxEmbed {
		fault("embedding is %d rows, use 1 to %d", p.Embed, maxEmbed)
	} else if p.ZNorm && p.Embed < 3 {
		fault("points of %d rows are all alike when normalised: use an embedding of at least 3", p.Embed)
	}
	switch {
	case p.MinPoints == 0:
	case p.Tumbling && p.MinPoints != p.Window:
		fault("%d points before a score, but tumbling windows are scored whole: leave the least number of points at 0", p.MinPoints)
	case p.MinPoints < 2*p.K || p.MinPoints > p.Window:
		fault("%d points before a score are too few or too many: use 2k = %d to the window, or 0 for the default", p.MinPoints, 2*p.K)
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("knn: %w", errors.Join(faults...))
	}
	p.MinPoints = least
	rows := p.MinPoints + p.Embed - 1
	if p.Tumbling {
		rows = p.Embed
	}
	d := &detector{detectors.Steady{Least: rows, From: p.Embed - 1}, make(detectors.Words, paramCount), p}
	d.params.SetInt(paramK, p.K)
	d.params.SetInt(paramEmbed, p.Embed)
	d.params.SetBool(paramSelf, p.IncludeSelf)
	d.params.SetBool(paramNeighbours, p.Neighbours)
	d.params.SetBool(paramZNorm, p.ZNorm)
	if !p.Tumbling {
		d.params.SetInt(paramPoints, p.Window)
	}
	return d, nil
}

func (d *detector) Op() detectors.Op        { return Op }
func (d *detector) Params() detectors.Words { return d.params }

func (d *detector) Window() int {
	if d.p.Tumbling {
		return d.p.Embed
	}
	return d.p.Window + d.p.Embed - 1
}

// Size returns the scores and the neighbours.
func (d *detector) Size(v detectors.View) (n detectors.Outputs, ok bool) {
	if n, ok = d.Steady.Size(v); ok {
		if d.p.Neighbours {
			n.Detail = v.Fresh * d.p.K
		}
	}
	return n, ok
}

// Explain expects the mean of the nearest points. A value's share is its share of the squared distances to them.
func (d *detector) Explain(r detectors.Rows, fresh, since int, expected, contribution []float64) (detectors.Location, bool) {
	r, origin := r.Near(fresh)
	p, ok := d.explain(r, fresh, since, expected, contribution)
	for c, v := range origin {
		expected[c] += v
	}
	if p.HasNewest && len(origin) > 0 {
		p.Newest += origin[detectors.Largest(contribution)]
	}
	return p, ok
}

// explain is Explain for rows of float32.
func (d *detector) explain(r detectors.Rows, fresh, since int, expected, contribution []float64) (detectors.Location, bool) {
	m := d.p.Embed
	q := query(&r, fresh)
	if hasNonFinite(r.X[q.From*r.Dim:(q.To+m-1)*r.Dim]) || hasNonFinite(r.X[q.At*r.Dim:(q.At+m)*r.Dim]) {
		return detectors.Location{}, false
	}
	if d.p.ZNorm {
		return explain(vec.Embed(nil, r.X, r.Dim, m, true), m*r.Dim, &r, d.p, q, fresh, since, expected, contribution)
	}
	p, ok := explain(r.X, r.Dim, &r, d.p, q, fresh, since, expected, contribution)
	p.HasNewest = ok
	return p, ok
}

// Describe returns the nearest points and their distances, whose sum is the score.
func (d *detector) Describe(r detectors.Rows, fresh int) detectors.Evidence {
	r, _ = r.Near(fresh)
	m, row := d.p.Embed, r.Row(fresh)
	e := detectors.Evidence{From: row - m + 1, To: row}
	e.Location, e.Fields = shares(d, r, fresh)
	x, step := r.X, r.Dim
	if d.p.ZNorm {
		x, step = vec.Embed(nil, r.X, r.Dim, m, true), m*r.Dim
	}
	q := query(&r, fresh)
	at := x[q.At*step:][:m*r.Dim]
	for _, i := range nearest(x, step, at, d.others(), q) {
		e.Inputs = append(e.Inputs, detectors.Input{Role: detectors.Neighbour, From: i, To: i + m - 1, Distance: distance(at, x[i*step:])})
	}
	return e
}

// others returns the number of neighbours that are not the point itself.
func (d *detector) others() int {
	if d.p.IncludeSelf {
		return d.p.K - 1
	}
	return d.p.K
}

// distance returns the distance of the point at from the one that begins x.
func distance(at, x []float32) float64 {
	square := 0.0
	for c, v := range at {
		e := float64(v) - float64(x[c])
		square += float64(e * e)
	}
	return math.Sqrt(square)
}

// shares returns the location of a score and the fields' shares in it; the last row, and nil, where d does not explain it.
func shares(d detectors.Explainer, r detectors.Rows, fresh int) (detectors.Location, []float64) {
	expected, shares := make([]float64, r.Dim), make([]float64, r.Dim)
	p, ok := d.Explain(r, fresh, 0, expected, shares)
	if !ok {
		return detectors.OneRow(r.Row(fresh)), nil
	}
	return p, shares
}

// explain is Explain for points that begin at every step-th number of x: the rows' points, or normalised ones.
func explain(
	x []float32, step int, r *detectors.Rows, p Params, q Query, fresh, since int, expected, contribution []float64,
) (detectors.Location, bool) {
	dim := r.Dim
	at := x[q.At*step : q.At*step+p.Embed*dim]
	points := nearest(x, step, at, p.K, q)
	mean, squares := make([]float64, len(at)), make([]float64, len(at))
	for _, i := range points {
		for c, v := range at {
			e := float64(v) - float64(x[i*step+c])
			squares[c] += e * e
			mean[c] += float64(x[i*step+c]) / float64(len(points))
		}
	}
	row := r.Row(fresh)
	if p.ZNorm {
		rows := make([]float64, len(at))
		for i, v := range r.X[(row-p.Embed+1)*dim : (row+1)*dim] {
			rows[i] = float64(v)
		}
		return detectors.DeviationOfShape(row, since, rows, mean, squares, expected, contribution)
	}
	loc, ok := detectors.Deviation(row, since, len(points), mean, squares, expected, contribution)
	if ok {
		loc.Newest = mean[len(mean)-dim+detectors.Largest(contribution)]
	}
	return loc, ok
}

// nearest returns the k points of q nearest to at, the nearest first, of equal ones the
// first. Points begin at every step-th number of x.
func nearest(x []float32, step int, at []float32, k int, q Query) []int {
	if k == 0 {
		return nil
	}
	points, squares := make([]int, 0, k+1), make([]float64, 0, k+1)
	for i := q.From; i < q.To; i++ {
		full := len(points) == k
		if full && i+4 <= q.To && (q.At < i || q.At >= i+4) && fourFarther(x[i*step:], step, at, squares[k-1]) {
			i += 3
			continue
		}
		if i == q.At {
			continue
		}
		square := 0.0
		for c, v := range x[i*step : i*step+len(at)] {
			e := float64(at[c]) - float64(v)
			if square += e * e; full && c&7 == 7 && square >= squares[k-1] {
				break // sums of squares only grow
			}
		}
		if full && square >= squares[k-1] {
			continue
		}
		// Behind all that are as near.
		to := sort.Search(len(squares), func(n int) bool { return squares[n] > square })
		points, squares = slices.Insert(points, to, i), slices.Insert(squares, to, square)
		if len(points) > k {
			points, squares = points[:k], squares[:k]
		}
	}
	return points
}

// fourFarther reports whether it is seen that none of four successive points of x is nearer to at than the root of least. The sums
// of their squares do not wait for each other.
func fourFarther(x []float32, step int, at []float32, least float64) bool {
	n := len(at)
	p, q, r, s := x[:n], x[step:][:n], x[2*step:][:n], x[3*step:][:n]
	var a, b, c, d float64
	for i, v := range at {
		v := float64(v)
		e, f, g, h := v-float64(p[i]), v-float64(q[i]), v-float64(r[i]), v-float64(s[i])
		a += e * e
		b += f * f
		c += g * g
		d += h * h
		if i&7 == 7 && a >= least && b >= least && c >= least && d >= least {
			return true
		}
	}
	return a >= least && b >= least && c >= least && d >= least
}

// query returns the query of fresh row i: its point among the ones before it in its
// window, or among all; with a model the point that against appends, among the model's.
func query(r *detectors.Rows, i int) Query {
	if len(r.Model) > 0 {
		n := r.Model.Int(paramModelPoints)
		return Query{At: n + i, To: n}
	}
	m, points := r.Params.Int(paramEmbed), r.Params.Int(paramPoints)
	at := r.Len() - r.Fresh + i + 1 - m
	if points == 0 {
		return Query{At: at, To: r.Len() - m + 1}
	}
	return Query{At: at, From: max(0, at+1-points), To: max(0, at)}
}

// setNeighbours writes count neighbours of fresh row i to Detail.
func setNeighbours(r *detectors.Rows, i, count int, number func(a int) int) {
	k := r.Params.Int(paramK)
	near := r.Detail[i*k : (i+1)*k]
	for a := range near {
		near[a] = detectors.NoRow
		if a < count {
			near[a] = uint32(number(a))
		}
	}
}

func score(r detectors.Rows) {
	if r.X64 != nil {
		x, dim, m, ok := widePoints(nil, &r)
		if !ok {
			undefined(&r)
			return
		}
		setWeights(&r, func(q Query) (float64, []int) {
			return Define(x, dim, m, r.Params.Int(paramK), r.Params.Bool(paramSelf), q)
		}, 0, len(r.Scores))
		return
	}
	rows, dim, m := r.X, r.Dim, r.Params.Int(paramEmbed)
	if len(r.Model) > 0 {
		var ok bool
		if rows, dim, ok = against(nil, &r); !ok {
			undefined(&r)
			return
		}
		m = 1
	} else if r.Params.Bool(paramZNorm) {
		rows, dim, m = vec.Embed(nil, rows, dim, m, true), dim*m, 1
	}
	x := make([]float64, len(rows))
	for i, v := range rows {
		x[i] = float64(v)
	}
	k, self := r.Params.Int(paramK), r.Params.Bool(paramSelf)
	setWeights(&r, func(q Query) (float64, []int) { return Define(x, dim, m, k, self, q) }, 0, len(r.Scores))
}

// setWeights sets scores and neighbours of the fresh rows from one to another.
func setWeights(r *detectors.Rows, weight func(q Query) (w float64, neighbours []int), from, to int) {
	for i := from; i < to; i++ {
		w, near := weight(query(r, i))
		r.Scores[i] = float32(min(w, math.MaxFloat32))
		if r.Params.Bool(paramNeighbours) {
			setNeighbours(r, i, len(near), func(a int) int { return near[a] })
		}
	}
}

// wide is the Spec's Wide: normalised points of any level are near each other, others only if they are of one level.
func wide(params detectors.Words) detectors.Wide {
	if params.Bool(paramZNorm) {
		return detectors.WideAll
	}
	return detectors.WideFresh
}

// widePoints returns the rows of a wide task, with their number of values and the number of rows of a point; or its
// points as its rows where they are normalised or compared with a model's, in memory. It returns false where the model does
// not fit the rows.
func widePoints(memory []float64, r *detectors.Rows) (x []float64, dim, m int, ok bool) {
	m = r.Params.Int(paramEmbed)
	switch {
	case len(r.Model) > 0:
		x, dim, ok = againstWide(memory, r)
		return x, dim, 1, ok
	case r.Params.Bool(paramZNorm):
		return vec.Embed(memory, r.X64, r.Dim, m, true), r.Dim * m, 1, true
	}
	return r.X64, r.Dim, m, true
}

// cpuWide is the CPU form of a wide task.
func cpuWide(r *detectors.Rows, parallel detectors.Parallel) {
	memory := pool.Get().(*memory)
	defer pool.Put(memory)
	x, dim, m, ok := widePoints(memory.wide[:0], r)
	if !ok {
		undefined(r)
		return
	}
	if len(r.Model) > 0 || r.Params.Bool(paramZNorm) {
		memory.wide = x
	}
	k, self := r.Params.Int(paramK), r.Params.Bool(paramSelf)
	each := len(r.Scores)
	if cost := cost(r); cost >= detectors.LongTask {
		each = max(each*chunkCost/cost, 1)
	}
	parallel((len(r.Scores)+each-1)/each, func(n int) {
		var s WideScorer
		weight := func(q Query) (float64, []int) { return s.Weight(x, dim, m, k, self, q) }
		setWeights(r, weight, n*each, min((n+1)*each, len(r.Scores)))
	})
}

type memory struct {
	scorer  Scorer
	line    Line
	weights []float64
	against []float32 // a model's points, and those to score; or all, normalised
	wide    []float64 // against of wide tasks
}

// searchers is separate from pool: its scratch memory contains no points.
var (
	pool      = sync.Pool{New: func() any { return new(memory) }}
	searchers = sync.Pool{New: func() any { return new(Scorer) }}
)

// chunkCost is the approximate cost in nanoseconds of one call of f in a long task.
const chunkCost = 500_000

func opCPU(ctx context.Context, r *detectors.Rows, parallel detectors.Parallel) {
	if r.X64 != nil {
		cpuWide(r, parallel)
		return
	}
	m := pool.Get().(*memory)
	defer pool.Put(m)
	if onLine(r) {
		m.line.Weights(r.Scores, r.X, r.Params.Int(paramK), r.Params.Bool(paramSelf))
		for i, w := range r.Scores {
			r.Scores[i] = min(w, math.MaxFloat32)
		}
		return
	}
	if byTree(r) && Finite(r.X) {
		tree := NewTree(r.X, r.Dim, parallel)
		if ctx.Err() != nil {
			return // parts of the tree are missing
		}
		tree.Weights(r.Scores, r.Params.Int(paramK), r.Params.Bool(paramSelf), parallel)
		for i, w := range r.Scores {
			r.Scores[i] = min(w, math.MaxFloat32)
		}
		return
	}
	if len(r.Model) > 0 {
		x, width, ok := against(m.against[:0], r)
		if m.against = x; !ok {
			undefined(r)
			return
		}
		m.scorer.Load(x, width, 1)
	} else if embed := r.Params.Int(paramEmbed); r.Params.Bool(paramZNorm) {
		m.against = vec.Embed(m.against[:0], r.X, r.Dim, embed, true)
		m.scorer.Load(m.against, r.Dim*embed, 1)
	} else {
		m.scorer.Load(r.X, r.Dim, embed)
	}
	m.weights = slices.Grow(m.weights[:0], len(r.Scores))[:len(r.Scores)]
	cost := cost(r)
	if cost < detectors.LongTask {
		weights(r, &m.scorer, m.weights, 0)
	} else {
		// A chunk has whole pairs, which are searched together.
		each := max(len(m.weights)*chunkCost/cost, 1) * 2
		parallel((len(m.weights)+each-1)/each, func(k int) {
			s := searchers.Get().(*Scorer)
			s.Share(&m.scorer)
			weights(r, s, m.weights[k*each:min((k+1)*each, len(m.weights))], k*each)
			searchers.Put(s)
		})
		if ctx.Err() != nil {
			return
		}
	}
	for i, w := range m.weights {
		r.Scores[i] = float32(min(w, math.MaxFloat32))
	}
}

// onLine reports whether package knn finds the weights by sorting: points of one value,
// each among all others.
func onLine(r *detectors.Rows) bool {
	return r.Dim*r.Params.Int(paramEmbed) == 1 && r.Params.Int(paramPoints) == 0 && !r.Params.Bool(paramNeighbours) && 16*r.Fresh >= r.Len()
}

// byTree reports whether the weights are found by a tree: of many points of few values that
// are all among all.
func byTree(r *detectors.Rows) bool {
	return r.Params.Int(paramEmbed) == 1 && r.Dim <= 4 && r.Params.Int(paramPoints) == 0 && !r.Params.Bool(paramNeighbours) &&
		r.Fresh == r.Len() && r.Fresh >= 4096
}

// weights sets weights to the weights of the fresh rows from first on.
func weights(r *detectors.Rows, s *Scorer, weights []float64, first int) {
	self := r.Params.Bool(paramSelf)
	query := func(i int) Query { return query(r, first+i) }
	var found func(int, []Neighbour)
	if r.Params.Bool(paramNeighbours) {
		found = func(i int, near []Neighbour) {
			own := 0
			if self && weights[i] == weights[i] {
				own = 1
			}
			setNeighbours(r, first+i, own+len(near), func(a int) int {
				if a < own {
					return query(i).At
				}
				return int(near[a-own].At)
			})
		}
	}
	s.Weights(weights, r.Params.Int(paramK), self, query, found)
}

func hasNonFinite(x []float32) bool {
	for _, v := range x {
		if v-v != 0 {
			return true
		}
	}
	return false
}

func cost(r *detectors.Rows) int {
	n, width := r.Len(), r.Dim*r.Params.Int(paramEmbed)
	if r.X64 != nil {
		if m, ok := readModel(r.Model); ok {
			n += m.n
		}
		return r.Fresh * (500 + n*(6+width))
	}
	if onLine(r) {
		return 16*n + r.Fresh*(5+r.Params.Int(paramK)/2)
	}
	if byTree(r) {
		return n * (600 + 400*r.Dim + 20*r.Params.Int(paramK))
	}
	m, ok := readModel(r.Model)
	if ok {
		n = m.n + r.Fresh
	}
	load := n * (1 + width)
	if r.Params.Bool(paramZNorm) {
		load *= 4
	}
	if points := r.Params.Int(paramPoints); points > 0 && !ok {
		n = min(n, points)
	}
	return load/2 + r.Fresh*(400+n*(8+2*width)/100)
}

// compare requires the definition's neighbours.
func compare(_ *detectors.Rows, got, want detectors.Result) error {
	if len(got.Detail) != len(want.Detail) {
		return fmt.Errorf("knn: %d neighbours where the definition gives %d", len(got.Detail), len(want.Detail))
	}
	for i, w := range want.Detail {
		if g := got.Detail[i]; g != w {
			return fmt.Errorf("knn: neighbour %d is %d, the definition gives %d", i, g, w)
		}
	}
	return detectors.CompareScores(got.Scores, want.Scores, 0, 1e-6)
}

func cases(rng *rand.Rand) []detectors.Case {
	var cases []detectors.Case
	add := func(p Params, dim, extra int, fresh []int, values ...detectors.Signal) *detectors.Case {
		cases = append(cases, detectors.NewCase(fmt.Sprintf("%+v", p), detectors.Must(New(p)), dim, extra, fresh, values...))
		return &cases[len(cases)-1]
	}
	flip := func() bool { return rng.IntN(2) == 0 }
	for _, s := range detectors.Signals(rng) {
		add(Params{Window: 24, K: 3, Embed: 4, Neighbours: flip(), IncludeSelf: flip()}, 1, rng.IntN(3), []int{1, 1, 5, 16}, s)
	}
	for _, s := range detectors.Signals(rng) {
		add(Params{Window: 40, K: 1 + rng.IntN(9), Tumbling: true, Neighbours: flip(), IncludeSelf: flip()}, 1, 0, []int{40, 3, 90}, s)
		add(Params{Window: 40, K: 1 + rng.IntN(9), Tumbling: true, Neighbours: true, Embed: 1 + rng.IntN(6)}, 1+rng.IntN(2), 0, []int{40}, s)
	}
	for _, s := range detectors.Signals(rng) {
		p := Params{Window: 24, K: 3, Embed: 3 + rng.IntN(4), ZNorm: true, Tumbling: flip(), Neighbours: flip(), IncludeSelf: flip()}
		add(p, 1+rng.IntN(2), 0, []int{24, 1, 1, 5}, s)
	}
	for _, dim := range []int{2, 3, 8} {
		s := detectors.Signals(rng)
		rng.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
		add(Params{Window: 16, K: 1 + rng.IntN(8), Embed: 1 + rng.IntN(4)}, dim, 0, []int{3, 1}, s...)
		s = detectors.Signals(rng)[:14] // finite
		rng.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
		add(Params{Window: 70, K: 1 + rng.IntN(20), Tumbling: true, Embed: 1 + rng.IntN(3), Neighbours: flip()}, dim, 0, []int{130, 1}, s...)
	}
	// The smallest; windows that are not full yet; as many neighbours as points, and more.
	add(Params{Window: 2, K: 1, Embed: 1}, 1, 0, []int{1, 9}, detectors.Signals(rng)[0])
	add(Params{Window: 2, K: 1, Tumbling: true, IncludeSelf: true, Neighbours: true}, 2, 0, []int{1, 2, 3}, detectors.Signals(rng)[0])
	for _, missing := range []int{1, 20, 50} {
		add(Params{Window: 64, K: 5, Embed: 7, MinPoints: 10}, 1, -missing, []int{1, 4}, detectors.Signals(rng)[rng.IntN(3)])
	}
	// A start: the first task has just the points that a score needs.
	add(Params{Window: 600, K: 5, Embed: 7, Neighbours: flip()}, 1, MinPoints-600, []int{1, 4, 17}, detectors.Signals(rng)[rng.IntN(3)])
	add(Params{Window: 90, K: 12, Embed: 2, MinPoints: 24, IncludeSelf: flip()}, 3, 24-90, []int{3, 1}, detectors.Signals(rng)[rng.IntN(3)])
	add(Params{Window: 90, K: 12, MinPoints: 90}, 1, 0, []int{1, 2}, detectors.Signals(rng)[rng.IntN(14)])
	for _, n := range []int{1, 2, 19, 20, 21, 22} {
		add(Params{Window: 40, K: 20, Tumbling: true, IncludeSelf: flip(), Neighbours: true}, 2, 0, []int{n},
			detectors.Signals(rng)[rng.IntN(3)*7/2])
	}
	// Sizes around the sizes of groups of points and of places.
	for _, n := range []int{31, 32, 33, 63, 64, 65, 127, 128, 129, 200, 257} {
		s := detectors.Signals(rng)
		add(Params{Window: n, K: 1 + rng.IntN(n/2), Tumbling: true, Neighbours: flip()}, 1+rng.IntN(3), 0, []int{n}, s[rng.IntN(len(s))])
		add(Params{Window: n, K: 1 + rng.IntN(n/2), Neighbours: flip()}, 1+rng.IntN(3), 0, []int{2}, s[rng.IntN(2)+3])
	}
	add(Params{Window: 400, K: 150, Tumbling: true, Neighbours: true}, 3, 0, []int{330}, detectors.Signals(rng)[7])
	add(Params{Window: 600, K: 40, Tumbling: true, Neighbours: flip()}, 20, 0, []int{600}, detectors.Signals(rng)[rng.IntN(14)])
	add(Params{Window: 3000, K: 12, Tumbling: true}, 2, 0, []int{2100}, detectors.Signals(rng)[rng.IntN(2)])
	add(Params{Window: 4200, K: 12, Tumbling: true, IncludeSelf: flip()}, 2, 0, []int{4200}, detectors.Signals(rng)[rng.IntN(14)])
	cases = append(cases, modelCases(rng)...)
	add(Params{Window: 1024, K: 10, Embed: 19}, 1, 0, []int{1}, detectors.Signals(rng)[0]).Bench = true
	add(Params{Window: 256, K: 10, Embed: 1}, 8, 0, []int{16}, detectors.Signals(rng)[0]).Bench = true
	add(Params{Window: 1024, K: 20, Tumbling: true}, 8, 0, []int{1024}, detectors.Signals(rng)[0]).Bench = true
	add(Params{Window: 1024, K: 20}, 1, 0, []int{1}, detectors.Signals(rng)[2]).Bench = true
	add(Params{Window: 1024, K: 20, Tumbling: true}, 1, 0, []int{1024}, detectors.Signals(rng)[2]).Bench = true
	return cases
}

// Shapes are weights of all points of a window among themselves, of each sample among the ones before it, and among the points
// of a reference set.
func Shapes() []detectors.Shape {
	shape := func(n, dim, k, tasks int) detectors.Shape {
		return detectors.Shape{
			Name: fmt.Sprintf("N=%d d=%d k=%d", n, dim, k), Unit: "points/s", Dim: dim, Fresh: n, Tasks: tasks,
			Values: detectors.Values{detectors.WindowParam: n, "K": k, detectors.TumblingParam: true},
		}
	}
	stride := detectors.Shape{
		Name: "N=1024 d=1 k=20, stride 1", Unit: "records/s", Dim: 1, Fresh: 1, Tasks: 1 << 15,
		Values: detectors.Values{detectors.WindowParam: 1024, "K": 20, "EMBED": 1},
	}
	chained := stride
	chained.Name, chained.Chain = chained.Name+", 16 tasks a key", 16
	preset := detectors.Shape{ // detector near of the default preset
		Name: "N=2048 d=1 k=27 embed=32", Unit: "scores/s", Dim: 1, Fresh: 1, Tasks: 1 << 14,
		Values: detectors.Values{detectors.WindowParam: 2048, "K": 27, "EMBED": 32},
	}
	presetChained := preset
	presetChained.Name, presetChained.Chain = preset.Name+", 16 tasks a key", 16
	judged := func(n, dim, embed, fresh, tasks int) detectors.Shape {
		name := fmt.Sprintf("reference N=%d d=%d embed=%d k=10", n, dim, embed)
		if fresh == 1 {
			name += ", 1 fresh"
		}
		return detectors.Shape{
			Name: name, Unit: "points/s", Dim: dim, Fresh: fresh, Tasks: tasks, Reference: n, Values: detectors.Values{"K": 10, "EMBED": embed},
		}
	}
	return []detectors.Shape{
		judged(1024, 1, 16, 16, 1<<12), judged(1024, 1, 16, 1, 1<<15), judged(10000, 8, 1, 16, 1<<12), judged(10000, 8, 2, 16, 1<<12),
		judged(100000, 2, 1, 16, 1<<12),
		preset, presetChained,
		shape(1024, 8, 20, 8000), shape(16384, 8, 20, 16), shape(1000000, 2, 50, 1), shape(1600000, 3, 50, 1), shape(581012, 10, 50, 1),
		shape(1024, 1, 20, 1<<14), stride, chained,
	}
}
