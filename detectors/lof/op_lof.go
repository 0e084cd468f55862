package lof

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
	"odradek/detectors/vec"
)

// This file is op lof: the local outlier factor, in a window and against a summary of what
// came before. The method is package detectors/lof.

// Op is the local outlier factor of a sample, or of a run of samples, among the samples
// of a window and a summary of what has left it.
const Op detectors.Op = 2

// floors are the words of lof.Floor.
var floors = []string{Resolution: "resolution", Added: "added", None: "none"}

var spec = detectors.Spec{
	Name: "lof", Elem: detectors.F32, Wide: wide,
	Finds: "unlike the last {window} readings",
	Help: "Finds samples where the data are sparser than around their neighbours, in series with clusters of " +
		"different density. The score is the local outlier factor: about 1 inside a cluster, larger outside.",
	Params: []detectors.Param{
		{Name: detectors.WindowParam, Type: detectors.Int, Default: 50, Min: 2, Max: MaxWindow,
			Help: "Points to compare with, at least 2K; times K 67108864 at most.", Example: "500"},
		{Name: "K", Type: detectors.Int, Default: 20, Min: 1, Max: MaxK, Word: 1,
			Help: "Neighbours to compare with, at most WINDOW/2.", Example: "30"},
		{Name: "POINTS", Type: detectors.Int, Word: 2}, // the window, 0 with TUMBLING: all of X
		{Name: "EMBED", Type: detectors.Int, Default: 1, Min: 1, Max: 1024, Word: 3,
			Help: "Successive samples of a point: 1 scores single samples, more their course.", Example: "16"},
		{Name: "ZNORM", Type: detectors.Bool, Default: false, Word: 4,
			Help: "Bring each point to mean 0 and deviation 1, so that only its shape counts. EMBED must be at least " +
				"3."},
		{Name: "MIN_POINTS", Type: detectors.Int, Default: 0, Max: MaxWindow,
			Help: "Points before the first score; 0: WINDOW.", Example: "100"},
		{Name: detectors.TumblingParam, Type: detectors.Bool, Default: false,
			Help: "Score windows one after the other, with STRIDE=WINDOW."},
		{Name: "BINS", Type: detectors.Int, Default: 0, Max: 1024,
			Help: "Cells a field of a summary of the samples that have left the window, so that a return to an earlier " +
				"state is no outlier. Needs EMBED=1; 0: none.", Example: "32"},
		{Name: "DECAY", Type: detectors.Float, Default: 0.9, Min: 0.000001, Max: 0.999999,
			Help: "Share of a bin's weight that is left after a window of samples elsewhere.", Example: "0.99", Expert: true},
		{Name: "MAX_BINS", Type: detectors.Int, Default: 256, Min: 1, Max: 4096,
			Help: "Most bins of a series' summary; each takes 16 bytes a field and 24 more.", Example: "512", Expert: true},
		{Name: "ALPHA", Type: detectors.Float, Default: 0.0, Max: 1e30, Word: 6,
			Help: "Density of a bin with C samples is ALPHA log C, as in the paper; 0 scales it to the densities in the " +
				"window.", Example: "0.5", Expert: true},
		{Name: "FLOOR", Type: detectors.Choice, Default: "resolution", Choices: floors, Word: 5,
			Help: "Least distance of equal points: resolution is the smallest step of values in the window; added adds " +
				"1e-10 to mean distances, as scikit-learn; none is 0, as ELKI."},
	},
	New: func(v detectors.Values) (detectors.Detector, error) {
		return New(OpParams{Window: v.Int(detectors.WindowParam), K: v.Int("K"), Embed: v.Int("EMBED"), ZNorm: v.Bool("ZNORM"),
			Warmup: v.Int(
				"MIN_POINTS",
			), Tumbling: v.Bool(detectors.TumblingParam), Floor: Floor(v.Choice("FLOOR", floors)), Cells: v.Int("BINS"),
			Decay: v.Float("DECAY"), MaxBins: v.Int("MAX_BINS"),
			Alpha: v.Float("ALPHA")})
	},
	Score: score, CPU: opCPU, Cost: cost, Compare: compare, Cases: cases,
}

func init() { detectors.Register(Op, &spec) }

// OpParams are the parameters of the op; 0 means the default. See package lof
// for what they do.
type OpParams struct {
	Window   int  // points among which a score is computed, including its own; at least 2K. No default
	K        int  // neighbours, default 20
	Embed    int  // rows that make a point, default 1
	ZNorm    bool // normalise a point's numbers to mean 0 and deviation 1; Embed must be at least 3
	Warmup   int  // points from which there is a score, default Window
	Tumbling bool // score batches of Window points among themselves; see New
	Floor    Floor
	// Cells is the number of cells per dimension of a summary of the rows that have left the
	// window (detectors.BinParams, period Window); 0: none. Embed must be 1.
	Cells   int
	Decay   float64 // of the summary, default 0.9
	MaxBins int     // of the summary, default 256
	Alpha   float64 // density of a virtual point of count C is Alpha log C; 0: scaled to the window's
}

// Limits of the op: points of a window, and the neighbours of all of them together.
const (
	MaxWindow = 1 << 20
	maxLists  = 1 << 26
)

type detector struct {
	detectors.Steady // about the rows of the scored point
	params           detectors.Words
	p                OpParams
	bins             *detectors.BinParams // for rows of one value; nil: no summary
}

// The parameters of a task.
const (
	paramK = iota
	paramPoints
	paramEmbed
	paramZNorm
	paramFloor
	paramAlpha
	paramCount
)

// New returns the detector of the op. Its error names every fault of the
// parameters.
//
// A point is a row, or Embed successive rows, with the time of the last. A task scores
// the points of its fresh rows among the last Window points
// (at least all fresh ones), so with a stride above 1 a point is
// also compared with later ones, up to the end of its task. A Tumbling detector
// reads no rows before the fresh ones but those that its first points begin
// with: with a stride of Window, which the caller has to set, windows do not
// overlap, as in the paper.
//
// Where there are fewer than K+1 points (Warmup allows it), all others are
// neighbours. A score is capped at the largest float32. There is no carry.
//
// A task's Bins holds virtual points: Dim*Embed numbers each, then the count of
// each. With Cells the detector is a Summarizer, and its caller packs them.
func New(p OpParams) (detectors.Detector, error) {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if p.K == 0 {
		p.K = 20
	}
	if p.Embed == 0 {
		p.Embed = 1
	}
	if p.Warmup == 0 {
		p.Warmup = p.Window
	}
	if err := (&Params{K: p.K, Alpha: p.Alpha}).Check(); err != nil {
		faults = append(faults, err)
	}
	switch {
	case p.Window < 2 || p.Window > MaxWindow:
		fault("window is %d points, use 2 to %d", p.Window, MaxWindow)
	case p.K < 1:
	case p.Window*p.K > maxLists:
		fault("the neighbours of %d points with k = %d take too much memory: use a window of %d, or a smaller k", p.Window, p.K, maxLists/p.K)
	case p.Window < 2*p.K:
		fault("window of %d points is too small for k = %d: use at least 2k = %d, or a smaller k", p.Window, p.K, 2*p.K)
	}
	if p.Embed < 1 || p.Embed > 1<<10 {
		fault("embedding is %d rows, use 1 to %d", p.Embed, 1<<10)
	} else if p.ZNorm && p.Embed < 3 {
		fault("points of %d rows are all alike when normalised: use an embedding of at least 3", p.Embed)
	}
	if p.Warmup < 2 || p.Warmup > max(p.Window, 2) {
		fault("warm-up is %d points, use 2 to the window", p.Warmup)
	} else if p.Tumbling && p.Warmup != p.Window {
		fault("warm-up is %d points, but tumbling windows are always whole", p.Warmup)
	}
	rows := p.Warmup + p.Embed - 1
	if p.Tumbling {
		rows = p.Embed
	}
	d := &detector{detectors.Steady{Least: rows, From: p.Embed - 1}, make(detectors.Words, paramCount), p, nil}
	if p.Cells != 0 {
		d.bins = &detectors.BinParams{Dim: 1, Cells: p.Cells, Period: max(p.Window, 1), Decay: p.Decay, Max: p.MaxBins}
		if err := d.bins.Defaults(); err != nil {
			faults = append(faults, err)
		}
		if p.Embed > 1 {
			fault("a summary is of samples, not of points of %d rows: use cells 0 or an embedding of 1", p.Embed)
		}
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("lof: %w", errors.Join(faults...))
	}
	d.params.SetInt(paramK, p.K)
	d.params.SetInt(paramEmbed, p.Embed)
	d.params.SetBool(paramZNorm, p.ZNorm)
	d.params.SetInt(paramFloor, int(p.Floor))
	d.params.SetFloat32(paramAlpha, float32(p.Alpha))
	if !p.Tumbling || p.Cells > 0 {
		d.params.SetInt(paramPoints, p.Window)
	}
	return d, nil
}

func (d *detector) Op() detectors.Op        { return Op }
func (d *detector) Params() detectors.Words { return d.params }

// Coincident returns the number of neighbours, from one more than which on equal points have no k-distance, and the window.
func (d *detector) Coincident() (most, window int) { return d.p.K + d.p.Embed - 1, d.p.Window }

func (d *detector) Window() int {
	if d.bins != nil {
		return d.p.Window + 1 // the row before has left the window, and is in the summary
	}
	if d.p.Tumbling {
		return d.p.Embed
	}
	return d.p.Window + d.p.Embed - 1
}

// Summary returns the parameters of the summary of rows of dim values.
func (d *detector) Summary(dim int) *detectors.BinParams {
	if d.bins == nil {
		return nil
	}
	b := *d.bins
	b.Dim = dim
	return &b
}

// task has a task's inputs in the form of package lof; of a wide task in float64.
type task[F float32 | float64] struct {
	p                        Params
	points, virtuals, counts []F
	dim                      int // of a point
}

// taskParams reads the parameters of the method.
func taskParams(w detectors.Words) Params {
	return Params{K: w.Int(paramK), Floor: Floor(w.Int(paramFloor)), Alpha: float64(w.Float32(paramAlpha))}
}

// newTask reads a task; points of several rows are built in memory.
func newTask(r *detectors.Rows, memory []float32) task[float32] {
	return taskOf(r, r.X, r.Bins, memory)
}

// newWideTask reads a wide task.
func newWideTask(r *detectors.Rows) task[float64] {
	return taskOf(r, r.X64, r.Bins64, nil)
}

func taskOf[F float32 | float64](r *detectors.Rows, x, bins, memory []F) (t task[F]) {
	t.p = taskParams(r.Params)
	m := r.Params.Int(paramEmbed)
	rows := r.Len()
	if points := r.Params.Int(paramPoints); points > 0 {
		rows = min(rows, max(points, r.Fresh)+m-1)
	}
	t.dim = r.Dim * m
	t.points = x[len(x)-rows*r.Dim:]
	if m > 1 {
		t.points = vec.Embed(memory, t.points, r.Dim, m, r.Params.Bool(paramZNorm))
	}
	n := len(bins) / (t.dim + 1)
	t.virtuals, t.counts = bins[:n*t.dim], bins[n*t.dim:]
	return t
}

// wide is the Spec's Wide: normalised points of any level are near each other, others only if they are of one level.
func wide(params detectors.Words) detectors.Wide {
	if params.Bool(paramZNorm) {
		return detectors.WideAll
	}
	return detectors.WideFresh
}

// score is the definition.
func score(r detectors.Rows) {
	if r.X64 != nil {
		t := newWideTask(&r)
		for i, s := range Define(&t.p, t.points, t.dim, r.Fresh, t.virtuals, t.counts) {
			r.Scores[i] = float32(min(s, math.MaxFloat32))
		}
		return
	}
	t := newTask(&r, nil)
	wide := func(x []float32) []float64 {
		y := make([]float64, len(x))
		for i, v := range x {
			y[i] = float64(v)
		}
		return y
	}
	for i, s := range Define(&t.p, wide(t.points), t.dim, r.Fresh, wide(t.virtuals), wide(t.counts)) {
		r.Scores[i] = float32(min(s, math.MaxFloat32))
	}
}

// memory is the scratch memory of the CPU form.
type memory struct {
	scorer Scorer
	points []float32
	wide   WideScorer
}

var pool = sync.Pool{New: func() any { return new(memory) }}

// chunkCost is the approximate cost in nanoseconds of one call of f in a long task.
const chunkCost = 500_000

func opCPU(ctx context.Context, r *detectors.Rows, parallel detectors.Parallel) {
	m := pool.Get().(*memory)
	defer pool.Put(m)
	if r.X64 != nil {
		t := newWideTask(r)
		each := max(len(t.points)/t.dim*chunkCost/cost(r), 1)
		m.wide.Score(&t.p, r.Scores, t.points, t.dim, t.virtuals, t.counts, each, parallel, func() bool { return ctx.Err() != nil })
		for i, s := range r.Scores {
			r.Scores[i] = min(s, math.MaxFloat32)
		}
		return
	}
	t := newTask(r, m.points[:0])
	if t.dim > r.Dim {
		m.points = t.points
	}
	if cost := cost(r); cost < detectors.LongTask {
		m.scorer.Score(&t.p, r.Scores, t.points, t.dim, t.virtuals, t.counts)
	} else {
		// A chunk has whole pairs, which are searched together.
		each := max(len(t.points)/t.dim*chunkCost/cost, 1) * 2
		m.scorer.ScoreParallel(&t.p, r.Scores, t.points, t.dim, t.virtuals, t.counts, each, parallel,
			func() bool { return ctx.Err() != nil })
	}
	for i, s := range r.Scores {
		r.Scores[i] = min(s, math.MaxFloat32)
	}
}

func cost(r *detectors.Rows) int {
	k, m := r.Params.Int(paramK), r.Params.Int(paramEmbed)
	n := r.Len()
	if points := r.Params.Int(paramPoints); points > 0 {
		n = min(n, points)
	}
	n += (len(r.Bins) + len(r.Bins64)) / (r.Dim*m + 1)
	if r.X64 != nil {
		searched := min(n, r.Fresh*4*(k+1))
		if len(r.Bins64) > 0 {
			searched = n
		}
		return n*(100+r.Fresh*k) + searched*n*(4+r.Dim*m)*min(1, r.Dim*m-1)
	}
	if r.Dim*m == 1 && len(r.Bins) == 0 {
		if r.Fresh == 1 {
			return min(16*n+70*k, n+200*k+2000)
		}
		return n * (30 + 3*k/2)
	}
	searched := min(n, r.Fresh*8*(k+1))
	if len(r.Bins) > 0 {
		searched = n
	}
	return n*r.Dim*m + searched*(200+n*(10+3*r.Dim*m)/100)
}

// compare allows the rounding of a float32 result; a different neighbour exceeds it.
func compare(_ *detectors.Rows, got, want detectors.Result) error {
	return errors.Join(detectors.CompareScores(got.Scores, want.Scores, 1e-6, 1e-6), detectors.CompareScores(got.Next.F32(), want.Next.F32(),
		0, 0))
}

// Explain expects the mean of the neighbours. A value's share is its share of the squared distances to them.
func (d *detector) Explain(r detectors.Rows, fresh, since int, expected, contribution []float64) (detectors.Location, bool) {
	r, origin := nearRow(&r, fresh)
	p, ok := d.explain(r, fresh, since, expected, contribution)
	for c, v := range origin {
		expected[c] += v
	}
	return p, ok
}

// nearRow is Rows.Near with virtual points.
func nearRow(r *detectors.Rows, fresh int) (near detectors.Rows, origin []float64) {
	near, origin = r.Near(fresh)
	if len(r.Bins64) == 0 {
		return near, origin
	}
	t := newWideTask(r)
	near.Bins64 = nil
	for i, v := range t.virtuals {
		near.Bins = append(near.Bins, float32(v-origin[i%r.Dim]))
	}
	for _, v := range t.counts {
		near.Bins = append(near.Bins, float32(v))
	}
	return near, origin
}

// explain is Explain for rows of float32.
func (d *detector) explain(r detectors.Rows, fresh, since int, expected, contribution []float64) (detectors.Location, bool) {
	t := newTask(&r, nil)
	n := len(t.points) / t.dim
	at := n - r.Fresh + fresh
	var s Scorer
	neighbours := s.Neighbours(&t.p, t.points, t.dim, t.virtuals, at)
	point := t.points[at*t.dim:][:t.dim]
	mean, squares := make([]float64, t.dim), make([]float64, t.dim)
	for _, o := range neighbours {
		other := t.virtuals
		if o < n {
			other = t.points[o*t.dim:]
		} else {
			other = other[(o-n)*t.dim:]
		}
		for c, v := range point {
			e := float64(v) - float64(other[c])
			squares[c] += e * e
			mean[c] += float64(other[c]) / float64(len(neighbours))
		}
	}
	row := r.Row(fresh)
	if d.p.ZNorm {
		rows := make([]float64, t.dim)
		for i, v := range r.X[(row-d.p.Embed+1)*r.Dim : (row+1)*r.Dim] {
			rows[i] = float64(v)
		}
		return detectors.DeviationOfShape(row, since, rows, mean, squares, expected, contribution)
	}
	return detectors.Deviation(row, since, len(neighbours), mean, squares, expected, contribution)
}

// Describe returns the neighbours with their distances, and the densities whose ratio is the score.
func (d *detector) Describe(r detectors.Rows, fresh int) detectors.Evidence {
	if r.X64 != nil {
		t, s := newWideTask(&r), WideScorer{}
		return describe(d, &r, fresh, &t, s.Neighbours(&t.p, t.points, t.dim, t.virtuals))
	}
	t, s := newTask(&r, nil), Scorer{}
	return describe(d, &r, fresh, &t, func(i int) []int { return s.Neighbours(&t.p, t.points, t.dim, t.virtuals, i) })
}

// describe is Describe of a task, whose points have the neighbours by which they are scored.
func describe[F float32 | float64](d *detector, r *detectors.Rows, fresh int, t *task[F], neighbours func(i int) []int) detectors.Evidence {
	n, row := len(t.points)/t.dim, r.Row(fresh)
	first := r.Len() - n - d.p.Embed + 1 // row of the first point
	at := n - r.Fresh + fresh
	e := detectors.Evidence{From: row - d.p.Embed + 1, To: row, Location: detectors.OneRow(row)}
	all := append(slices.Clone(t.points), t.virtuals...)
	apart := func(i, j int) float64 {
		square := 0.0
		for c, v := range all[i*t.dim:][:t.dim] {
			d := float64(v) - float64(all[j*t.dim+c])
			square += float64(d * d)
		}
		return math.Sqrt(square)
	}
	lists := map[int][]int{}
	near := func(i int) []int {
		if _, ok := lists[i]; !ok {
			lists[i] = neighbours(i)
			slices.SortStableFunc(lists[i], func(a, b int) int { return cmp.Compare(apart(i, a), apart(i, b)) })
		}
		return lists[i]
	}
	mine := near(at)
	ofPoints := true // and of no summary
	for _, o := range mine {
		in := detectors.Input{Role: detectors.Neighbour, From: first + o, To: first + o + d.p.Embed - 1, Distance: apart(at, o)}
		if o >= n {
			ofPoints = false
			in.Role, in.From, in.To, in.Number = detectors.Summary, detectors.Outside, detectors.Outside, o-n
		}
		e.Inputs = append(e.Inputs, in)
	}
	if len(mine) == 0 {
		return e
	}
	density := func(i int) float64 { // local reachability density
		sum := 0.0
		for _, o := range near(i) {
			reach := near(o)
			sum += max(apart(i, o), apart(o, reach[len(reach)-1]))
		}
		return t.p.Density(sum, len(near(i)), func() float64 { return ResolutionOf(t.points, t.dim) })
	}
	e.Measures = []detectors.Measure{{Name: "k-distance", Field: detectors.AllFields, Value: apart(at, mine[len(mine)-1])}}
	if own := density(at); ofPoints && len(t.virtuals) == 0 && own < math.Inf(1) &&
		!slices.ContainsFunc(mine, func(o int) bool { return math.IsInf(density(o), 1) }) {
		sum := 0.0
		for _, o := range mine {
			sum += density(o)
		}
		e.Measures = append(e.Measures, detectors.Measure{Name: "local reachability density", Field: detectors.AllFields, Value: own},
			detectors.Measure{Name: "mean density of the neighbours", Field: detectors.AllFields, Value: sum / float64(len(mine))})
	}
	expected, shares := make([]float64, r.Dim), make([]float64, r.Dim)
	if p, ok := d.Explain(*r, fresh, 0, expected, shares); ok {
		e.Location, e.Fields = p, shares
	}
	return e
}

func cases(rng *rand.Rand) []detectors.Case {
	var cases []detectors.Case
	add := func(p OpParams, dim int, fresh []int, values ...detectors.Signal) *detectors.Case {
		cases = append(cases, detectors.NewCase(fmt.Sprintf("%+v", p), detectors.Must(New(p)), dim, rng.IntN(3), fresh, values...))
		return &cases[len(cases)-1]
	}
	// bins adds virtual points of the size of the case's values.
	bins := func(c *detectors.Case, n int) {
		embed := c.Detector.Params().Int(paramEmbed)
		for range n * embed * c.Dim {
			c.Bins = append(c.Bins, float32(rng.NormFloat64()))
		}
		for range n {
			c.Bins = append(c.Bins, 50*rng.Float32())
		}
		c.Name += fmt.Sprintf(", %d virtual", n)
	}
	for _, s := range detectors.Signals(rng) {
		add(OpParams{Window: 40, K: 6}, 1, []int{1, 1, 5, 40}, s)
	}
	for _, s := range detectors.Signals(rng) {
		add(OpParams{Window: 30, K: 5, Floor: None}, 1, []int{3, 1}, s)
		add(OpParams{Window: 30, K: 5, Floor: Added}, 1, []int{3, 1}, s)
		add(OpParams{Window: 25, K: 4, Embed: 5}, 1, []int{2, 1}, s)
	}
	for _, s := range detectors.Signals(rng) {
		add(OpParams{Window: 25, K: 4, Embed: 6, ZNorm: true}, 1, []int{2, 1}, s)
		bins(add(OpParams{Window: 25, K: 4, Alpha: rng.Float64() * float64(rng.IntN(2))}, 1, []int{2, 1}, s), 1+rng.IntN(30))
	}
	// The smallest; fewer points than neighbours; more fresh rows than the window.
	add(OpParams{Window: 2, K: 1}, 1, []int{1, 2}, detectors.Signals(rng)[0])
	add(OpParams{Window: 2, K: 1, Warmup: 2, Embed: 3, ZNorm: true}, 2, []int{1, 2}, detectors.Signals(rng)[1])
	c := add(OpParams{Window: 60, K: 30, Warmup: 2}, 2, []int{1, 1, 3}, detectors.Signals(rng)[0])
	c.Rows = c.Rows[len(c.Rows)-c.Dim*(6+rng.IntN(30)):]
	add(OpParams{Window: 10, K: 5}, 1, []int{25, 1}, detectors.Signals(rng)[7])
	add(OpParams{Window: 20, K: 5, Tumbling: true}, 2, []int{20, 20, 1, 3}, detectors.Signals(rng)[0])
	bins(add(OpParams{Window: 20, K: 5, Tumbling: true, Embed: 4}, 1, []int{20, 20}, detectors.Signals(rng)[1]), 9)
	bins(add(OpParams{Window: 20, K: 5, Tumbling: true, Cells: 9}, 2, []int{20, 20}, detectors.Signals(rng)[0]), 12)
	bins(add(OpParams{Window: 33, K: 5, Cells: 10, Warmup: 12}, 1, []int{1, 4, 1}, detectors.Signals(rng)[1]), 15)
	// Sizes around the sizes of the vector kernels' groups.
	for _, n := range []int{31, 32, 33, 63, 64, 65, 127, 128, 129, 200, 257} {
		s := detectors.Signals(rng)
		add(OpParams{Window: n, K: 1 + rng.IntN(n/2)}, 1+rng.IntN(3), []int{1, 1 + rng.IntN(n), 1}, s[rng.IntN(len(s))])
	}
	for _, dim := range []int{2, 3, 8, 9} {
		s := detectors.Signals(rng)[:14] // finite
		rng.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
		add(OpParams{Window: 70, K: 9, Embed: 1 + rng.IntN(3)}, dim, []int{3, 1}, s...)
	}
	add(OpParams{Window: 150, K: 12}, 3, []int{1, 150}, detectors.Signals(rng)[7])
	add(OpParams{Window: 300, K: 110}, 2, []int{2}, detectors.Signals(rng)[0])
	bins(add(OpParams{Window: 100, K: 10}, 4, []int{1, 100}, detectors.Signals(rng)[0]), 200)
	add(OpParams{Window: 1024, K: 20}, 8, []int{1}, detectors.Signals(rng)[0]).Bench = true
	add(OpParams{Window: 1024, K: 20, Tumbling: true}, 8, []int{1024}, detectors.Signals(rng)[0]).Bench = true
	add(OpParams{Window: 64, K: 10}, 1, []int{1}, detectors.Signals(rng)[0]).Bench = true
	add(OpParams{Window: 1024, K: 20}, 1, []int{1}, detectors.Signals(rng)[2]).Bench = true
	add(OpParams{Window: 1024, K: 20, Tumbling: true}, 1, []int{1024}, detectors.Signals(rng)[2]).Bench = true
	return cases
}

// Shapes are windows that are scored when they are full, and one of each sample.
func Shapes() []detectors.Shape {
	shape := func(n, dim, fresh, tasks int) detectors.Shape {
		const k = 20
		s := detectors.Shape{
			Name: fmt.Sprintf("N=%d d=%d k=%d", n, dim, k), Unit: "points/s", Dim: dim, Fresh: fresh, Tasks: tasks,
			Values: detectors.Values{detectors.WindowParam: n, "K": k, detectors.TumblingParam: fresh == n},
		}
		if fresh == 1 {
			s.Name, s.Unit = s.Name+", stride 1", "records/s"
		}
		return s
	}
	chained := shape(1024, 1, 1, 1<<15)
	chained.Name, chained.Chain = chained.Name+", 16 tasks a key", 16
	return []detectors.Shape{
		shape(1024, 8, 1024, 1<<11), shape(4096, 8, 4096, 1<<9), shape(1024, 8, 1, 1<<12),
		shape(1024, 1, 1024, 1<<14), shape(1024, 1, 1, 1<<15), chained, shape(100000, 16, 100000, 1),
	}
}
