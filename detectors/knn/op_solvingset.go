package knn

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"sync"

	"odradek/detectors"
	"odradek/detectors/vec"
)

// This file is op solvingset: the weight of a point among a reference set that is mined from
// the series' own past, and again after a number of rows. The method is package detectors/knn.

// OpSolvingSet is the weight of a sample, or of a run of samples, among a solving set of the samples before it,
// as a share of the weight of the last outlier among these.
const OpSolvingSet detectors.Op = 11

var setSpec = detectors.Spec{
	Name: "solvingset", Elem: detectors.F64,
	Finds: "unlike the readings before",
	Help: "Finds what knn finds, with a small model of the window: a solving set, mined again every MINE_EVERY " +
		"samples. The score is the sum of the distances to the nearest points of the set, divided by the sum " +
		"of the last of TOP outliers: above 1 is unusual.",
	Params: []detectors.Param{
		{Name: detectors.WindowParam, Type: detectors.Int, Default: 1024, Min: 2, Max: MaxSolvingSetWindow, Word: 1,
			Help: "Points to mine the set from, at least 2K.", Example: "4096"},
		{Name: "K", Type: detectors.Int, Default: 10, Min: 1, Max: MaxK, Word: 2,
			Help: "Nearest points whose distances are summed, at most WINDOW/2. WINDOW times K is 67108864 at most.", Example: "5"},
		{Name: "EMBED", Type: detectors.Int, Min: 1, Max: setMaxEmbed, Word: 3, Derive: setEmbedding,
			Derived: "16, or what makes 64 values of FIELDS",
			Help:    "Successive samples of a point: 1 scores single samples, more their course.", Example: "8"},
		{Name: "ZNORM", Type: detectors.Bool, Default: false, Word: 4,
			Help: "Bring each value's course in a point to mean 0 and deviation 1, so that only its shape counts."},
		{Name: "TOP", Type: detectors.Int, Default: 5, Min: 1, Max: 10000, Word: 5,
			Help: "Points of the window that are outliers, less than a quarter of it.", Example: "10"},
		{Name: "MODEL_POINTS", Type: detectors.Int, Default: 256, Min: 1, Max: maxModel, Word: 6,
			Help: "Most points of the set, at least 2K; times EMBED 65536 at most. A value takes 4 bytes of state.", Example: "512"},
		{Name: "MINE_EVERY", Type: detectors.Int, Min: 1, Max: MaxSolvingSetWindow,
			Derive:  func(v detectors.Values, _ int) any { return max(1, v.Int(detectors.WindowParam)/4) },
			Derived: "WINDOW/4",
			Help:    "Samples of a series from one set to the next.", Example: "1024"},
		{Name: "MIN_POINTS", Type: detectors.Int, Default: 0, Max: MaxSolvingSetWindow, Word: 8,
			Help: "Points before the first score, at least 2K; 0: 256, but at least 2K and at most WINDOW.", Example: "512"},
		{Name: "MINE_INTERVAL", Type: detectors.Time, Default: detectors.Micros(0), Max: maxTime,
			Help: "Event time from one set to the next, in place of MINE_EVERY. 0: off.", Example: "24h"},
		{Name: "MAX_AGE", Type: detectors.Time, Default: detectors.Micros(0), Max: maxTime, Word: 7,
			Help: "Age of samples to leave out of a set, except the last MIN_POINTS. 0: none.", Example: "168h"},
		{Name: "TIMED", Type: detectors.Bool, Word: 9}, // rows begin with their times
	},
	Defaults: []detectors.Default{
		{Name: "THRESHOLD", Value: func(detectors.Values) string { return "fixed:1" }, Words: "fixed:1, the cut"},
		{Name: "CLOSE_AFTER", Value: func(v detectors.Values) string { return strconv.Itoa(max(8, 4*v.Int("EMBED"))) },
			Words: "4 times EMBED, at least 8"},
	},
	New: func(v detectors.Values) (detectors.Detector, error) {
		return NewSolvingSet(
			SolvingSetParams{
				Window:       v.Int(detectors.WindowParam),
				K:            v.Int("K"),
				Embed:        v.Int("EMBED"),
				ZNorm:        v.Bool("ZNORM"),
				Top:          v.Int("TOP"),
				ModelPoints:  v.Int("MODEL_POINTS"),
				MineEvery:    v.Int("MINE_EVERY"),
				MinPoints:    v.Int("MIN_POINTS"),
				MineInterval: v.Micros("MINE_INTERVAL"),
				MaxAge:       v.Micros("MAX_AGE"),
			},
		)
	},
	Score: scoreSet, CPU: setCPU, Cost: setCost, Compare: compareSet, Cases: setCases,
}

func init() { detectors.Register(OpSolvingSet, &setSpec) }

// setEmbedding is the default of EMBED, as for op knn.
func setEmbedding(_ detectors.Values, dim int) any { return max(1, min(16, 64/max(1, dim))) }

// Limits of the op.
const (
	MaxSolvingSetWindow = 1 << 21
	setMaxEmbed         = 1 << 10
	maxModel            = 1 << 14 // points of a model
	maxRows             = 1 << 16 // rows of a model's points together
	maxNear             = 1 << 26 // neighbours of a window's points together
	minPoints           = 256     // see knn.MinPoints
	maxTime             = 87600 * 3600e6
)

// SolvingSetParams are the parameters of the op; 0 means the default.
type SolvingSetParams struct {
	Window      int  // points from which a set is mined, at least 2K. No default
	K           int  // neighbours, default 10
	Embed       int  // successive rows that make a point, default 1
	ZNorm       bool // normalise each value's course within a point to mean 0 and deviation 1; Embed must be at least 3
	Top         int  // points of the window that are outliers, default 5, or a quarter of a smaller window than 24
	ModelPoints int  // most points of the set that are kept, default 256 or 2K
	MineEvery   int  // rows from one set to the next, default Window/4
	MinPoints   int  // points before the first score, default 256 or 2K, but not more than Window
	// MineInterval is the event time from one set to the next, in microseconds, in place of MineEvery; 0: MineEvery holds.
	MineInterval int64
	// MaxAge is the event time before the newest row, in microseconds, from which a set's points are, but for
	// the last MinPoints; 0: any.
	MaxAge int64
}

type setDetector struct {
	detectors.Steady // about the rows of the scored point
	params           detectors.Words
	p                SolvingSetParams
	set              settings
}

// timed is a detector with MineInterval or MaxAge.
type timed struct{ setDetector }

func (*timed) Timed() {}

// The parameters of a task.
const (
	paramWindow = iota
	setParamK
	setParamEmbed
	setParamZNorm
	paramTop
	paramMost
	paramMaxAge // two words
	_
	paramMinPoints
	paramTimed
	setParamCount
)

// NewSolvingSet returns the detector of the op: the weight of each point, see package knn, among the
// points of its series' model, divided by the model's cut. It is capped at the largest float32;
// where the cut is 0 it is 0 or that. A point with a value that is not finite has no score (NaN).
//
// The model is a solving set of the last Window points, or of those that are not older than MaxAge, and the weight of the
// last of Top outliers among them. It is mined before the first score from the points that end before the first fresh row,
// and after a task whose fresh rows reach a multiple of MineEvery, counted from the series' first, or whose times
// reach one of MineInterval, from all that there are then. It is the carry, so only the tasks that mine read the window. Points with
// values that are not finite, or too far from the others for float32, are left out; without any
// point, scores are NaN until a model is mined again.
//
// The search for the solving set is on one core, and what several cores search does not depend on their number, so the
// model is the same on every host, and on a device to the bit (cuda/kernels/solvingset.cu).
//
// With MineInterval or MaxAge the detector is detectors.Timed: a row begins with its time.
//
// A score covers the rows of its point. The error names every fault of the parameters.
func NewSolvingSet(p SolvingSetParams) (detectors.Detector, error) {
	for _, v := range []struct {
		value *int
		usual int
	}{{&p.K, 10}, {&p.Embed, 1}} {
		if *v.value == 0 {
			*v.value = v.usual
		}
	}
	for _, v := range []struct {
		value *int
		usual int
	}{{&p.Top, max(1, min(5, (p.Window-1)/4))}, {&p.ModelPoints, max(256, 2*p.K)}, {&p.MineEvery, max(1, p.Window/4)},
		{&p.MinPoints, min(p.Window, max(minPoints, 2*p.K))}} {
		if *v.value == 0 {
			*v.value = v.usual
		}
	}
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if p.K < 1 || p.K > MaxK {
		fault("k is %d, use 1 to %d", p.K, MaxK)
	}
	switch {
	case p.Window < 2 || p.Window > MaxSolvingSetWindow:
		fault("window is %d points, use 2 to %d", p.Window, MaxSolvingSetWindow)
	case p.K < 1:
	case p.Window < 2*p.K:
		fault("window of %d points is too small for k = %d: use at least 2k = %d, or a smaller k", p.Window, p.K, 2*p.K)
	case p.Window*p.K > maxNear:
		fault(
			"window of %d points with k = %d takes too much memory to mine: use a window of %d, or a smaller k",
			p.Window,
			p.K,
			maxNear/p.K,
		)
	}
	if p.Embed < 1 || p.Embed > setMaxEmbed {
		fault("embedding is %d rows, use 1 to %d", p.Embed, setMaxEmbed)
	} else if p.ZNorm && p.Embed < 3 {
		fault("embedding is %d rows: to normalise points they need at least 3, fewer have no shape", p.Embed)
	}
	if p.Top < 1 || p.Top > 1 && 4*p.Top >= p.Window {
		fault("%d outliers of a window of %d points, use 1 to %d", p.Top, p.Window, max(1, (p.Window-1)/4))
	}
	if p.ModelPoints < 2*p.K || p.ModelPoints > maxModel || p.ModelPoints*p.Embed > maxRows {
		fault(
			"a model of %d points of %d rows, use 2k = %d points to %d, and %d rows at most",
			p.ModelPoints,
			p.Embed,
			2*p.K,
			maxModel,
			maxRows,
		)
	}
	if p.MineEvery < 1 || p.MineEvery > MaxSolvingSetWindow {
		fault("a model every %d rows, use 1 to %d", p.MineEvery, MaxSolvingSetWindow)
	}
	if p.MinPoints < 2*p.K || p.MinPoints > p.Window {
		fault("%d points before a score are too few or too many: use 2k = %d to the window, or 0 for the default", p.MinPoints, 2*p.K)
	}
	for _, v := range []struct {
		what  string
		value int64
	}{{"a model every", p.MineInterval}, {"points from the last", p.MaxAge}} {
		if v.value < 0 || v.value > maxTime {
			fault("%s %v, use 0s to %v", v.what, detectors.Micros(v.value), detectors.Micros(maxTime))
		}
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("knn: solvingset: %w", errors.Join(faults...))
	}
	d := &setDetector{
		Steady: detectors.Steady{Least: p.MinPoints + p.Embed, From: p.Embed - 1},
		params: make(detectors.Words, setParamCount),
		p:      p,
	}
	for i, v := range map[int]int{paramWindow: p.Window, setParamK: p.K, setParamEmbed: p.Embed, paramTop: p.Top, paramMost: p.ModelPoints,
		paramMinPoints: p.MinPoints} {
		d.params.SetInt(i, v)
	}
	d.params.SetBool(setParamZNorm, p.ZNorm)
	d.params.SetBool(paramTimed, p.MineInterval > 0 || p.MaxAge > 0)
	d.params.SetInt64(paramMaxAge, p.MaxAge)
	if d.set = settingsOf(d.params); d.set.timed > 0 {
		return &timed{*d}, nil
	}
	return d, nil
}

func (d *setDetector) Op() detectors.Op        { return OpSolvingSet }
func (d *setDetector) Params() detectors.Words { return d.params }

// Window returns the rows of the model's points and the scored row.
func (d *setDetector) Window() int { return d.p.Window + d.p.Embed }

// Size returns the scores and the next model.
func (d *setDetector) Size(v detectors.View) (n detectors.Outputs, ok bool) {
	if n, ok = d.Steady.Size(v); ok {
		n.Carry = d.set.words(v.Dim - d.set.timed)
	}
	return n, ok
}

// Reads returns the whole window where a model is mined, and else the rows of the scored points.
func (d *setDetector) Reads(t detectors.Position) int {
	every, from, to := int64(d.p.MineEvery), t.Count-int64(t.Fresh), t.Count
	if d.p.MineInterval > 0 {
		every, from, to = d.p.MineInterval, t.Before, t.Newest
	}
	if !t.Carried || multiple(to, every) != multiple(from, every) {
		return d.Window() + t.Fresh - 1
	}
	return d.p.Embed + t.Fresh - 1
}

// multiple returns the number of the last multiple of every up to v.
func multiple(v, every int64) int64 {
	if v < 0 {
		v -= every - 1
	}
	return v / every
}

// settings are the parameters of a task.
type settings struct {
	window, k, embed, top, most, least int
	znorm                              bool
	timed                              int // numbers of a row before its values: 1 for its time, or 0
	maxAge                             float64
}

func settingsOf(w detectors.Words) settings {
	s := settings{
		window: w.Int(paramWindow),
		k:      w.Int(setParamK),
		embed:  w.Int(setParamEmbed),
		top:    w.Int(paramTop),
		most:   w.Int(paramMost),
		least:  w.Int(paramMinPoints),
		znorm:  w.Bool(setParamZNorm),
		maxAge: float64(w.Int64(paramMaxAge)),
	}
	if w.Bool(paramTimed) {
		s.timed = 1
	}
	return s
}

// split returns the values of rows of dim numbers without their times, in memory of m where they have some, and the
// first row that points of a model may have.
func (s *settings) split(m *setMemory, rows []float64, dim int) (values []float64, oldest int) {
	if s.timed == 0 {
		return rows, 0
	}
	m.values = m.values[:0]
	for row := range slices.Chunk(rows, dim) {
		m.values = append(m.values, row[1:]...)
	}
	if n := len(rows) / dim; s.maxAge > 0 && n > 0 {
		since := rows[len(rows)-dim] - s.maxAge
		oldest = max(0, min(sort.Search(n, func(i int) bool { return rows[i*dim] >= since }), n-(s.least+s.embed-1)))
	}
	return m.values, oldest
}

// setMemory is scratch.
type setMemory struct {
	scorer  Scorer
	rows    []float64 // of fresh points, one after the other
	values  []float64 // of rows that begin with their times
	points  []float32
	wide    []float64 // of a wide model, in place of points
	weights []float64
	search  WideScorer
}

var setPool = sync.Pool{New: func() any { return new(setMemory) }}

func setCPU(ctx context.Context, r *detectors.Rows, parallel detectors.Parallel) {
	m := setPool.Get().(*setMemory)
	defer setPool.Put(m)
	scoreFresh(r, m, func() bool { return ctx.Err() != nil }, parallel, func(points []float32, wide []float64, width, n, k int) []float64 {
		m.weights = slices.Grow(m.weights[:0], r.Fresh)[:r.Fresh]
		if wide != nil {
			for i := range m.weights {
				m.weights[i], _ = m.search.Weight(wide, width, 1, k, false, Query{At: n + i, To: n})
			}
			return m.weights
		}
		m.scorer.Load(points, width, 1)
		m.scorer.Weights(m.weights, k, false, func(i int) Query { return Query{At: n + i, To: n} }, nil)
		return m.weights
	})
}

// scoreSet is the definition of the weights. Both forms take the model of New's text, because its set is
// the result of an algorithm.
func scoreSet(r detectors.Rows) {
	scoreFresh(&r, new(setMemory), nil, detectors.Sequential, func(points []float32, x []float64, width, n, k int) []float64 {
		weights := make([]float64, r.Fresh)
		for _, v := range points {
			x = append(x, float64(v))
		}
		for i := range weights {
			weights[i], _ = Define(x, width, 1, k, false, Query{At: n + i, To: n})
		}
		return weights
	})
}

// scoreFresh scores a task's fresh rows and mines a model where it is due. weigh returns the weights of
// the last Fresh of points among the first n; points is nil where the model is wide, and else wide.
func scoreFresh(r *detectors.Rows, m *setMemory, stop func() bool, parallel detectors.Parallel,
	weigh func(points []float32, wide []float64, width, n, k int) []float64) {
	s := settingsOf(r.Params)
	dim := r.Dim - s.timed
	width := s.embed * dim
	first := r.Len() - r.Fresh // fresh row
	if copy(r.Next, r.Carry) == 0 {
		before, oldest := s.split(m, r.X64[:first*r.Dim], r.Dim)
		s.mine(r.Next, before[oldest*dim:], dim, stop, parallel)
	}
	model := read(r.Next, dim, width)
	values, oldest := s.split(m, r.X64, r.Dim)
	m.rows = vec.Embed(m.rows[:0], values[(first-s.embed+1)*dim:], dim, s.embed, s.znorm)
	m.points, m.wide = append(m.points[:0], model.points...), nil
	n := r.Next.Int(modelPoints)
	if model.wide != nil {
		m.wide = append(model.wide, m.rows...)
	} else {
		for i, v := range m.rows {
			m.points = append(m.points, float32(v-model.origin.Float64(2*(i%dim))))
		}
	}
	for i, w := range weigh(m.points, m.wide, width, n, s.k) {
		r.Scores[i] = float32(min(w/model.cut, math.MaxFloat32))
		switch {
		case w == 0:
			r.Scores[i] = 0
		case model.cut == 0 && w > 0:
			r.Scores[i] = math.MaxFloat32
		}
	}
	if len(r.Carry) > 0 && r.Len() > s.embed+r.Fresh-1 {
		s.mine(r.Next, values[oldest*dim:], dim, stop, parallel)
	}
}

func setCost(r *detectors.Rows) int {
	s := settingsOf(r.Params)
	width := s.embed * (r.Dim - s.timed)
	c := r.Fresh * (500 + s.most*(8+2*width)/100)
	if len(r.Carry) > 0 && r.Carry.Bool(modelWide) {
		c = r.Fresh * (500 + s.most*(6+width)/2)
	}
	if n := min(r.Len(), s.window); len(r.Carry) == 0 || r.Len() > s.embed+r.Fresh-1 {
		c += n * (s.most*(2+width)/2 + 20*s.k)
	}
	return c
}

// compareSet requires the same model.
func compareSet(_ *detectors.Rows, got, want detectors.Result) error {
	if len(got.Next) != len(want.Next) {
		return fmt.Errorf("knn: a model of %d words where the definition gives %d", len(got.Next), len(want.Next))
	}
	for i, w := range want.Next {
		if g := got.Next[i]; g != w {
			return fmt.Errorf("knn: word %d of the model is %#x, the definition gives %#x", i, g, w)
		}
	}
	return detectors.CompareScores(got.Scores, want.Scores, 0, 1e-6)
}
