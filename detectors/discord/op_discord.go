package discord

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"

	"odradek/detectors"
)

// This file is op discord: the distance of the newest subsequence to its nearest
// neighbour in the past. The method is package detectors/discord.

// Op is the distance of the subsequence that ends at a sample to its nearest
// neighbours in the past: left discords.
const Op detectors.Op = 7

var spec = detectors.Spec{
	Name: "discord", Elem: detectors.F64,
	Finds: "shape unlike the last {window} readings",
	Help: "Finds a shape that the window has not seen: an irregular beat, a cycle of another length, a spike " +
		"at the wrong moment. The score is the distance of the last LENGTH samples, brought to mean 0 and " +
		"deviation 1, to the most similar earlier ones (left discords).",
	Params: []detectors.Param{
		{Name: detectors.WindowParam, Type: detectors.Int, Default: 2048, Min: 6, Max: MaxWindow,
			Help: "Samples that a score reads, at least twice the longest subsequence.", Example: "4096"},
		{Name: "LENGTH", Type: detectors.Int, Default: 64, Min: minLength, Max: MaxLength,
			Help: "Samples of a subsequence, about a period or somewhat more; of several lengths the shortest.", Example: "50"},
		{Name: "MAX_LENGTH", Type: detectors.Int, Default: 0, Max: MaxLength,
			Help: "Samples of the longest subsequence; 0: LENGTH. The score is the mean over lengths.", Example: "150"},
		{Name: "LENGTHS", Type: detectors.Int, Default: 0, Max: mostLengths,
			Help: "Number of lengths from LENGTH to MAX_LENGTH, in geometric steps; 0: steps of about 1.5.", Example: "4"},
		{Name: "K", Type: detectors.Int, Default: 1, Min: 1, Max: 64, Word: 1,
			Help: "Similar subsequences to compare with. 2 finds a fault that has happened once before.", Example: "2"},
		{Name: "POINTS", Type: detectors.Int, Word: 2}, // the window
		{Name: "EXCLUDE_FLAT", Type: detectors.Bool, Default: false, Word: 3,
			Help: "Compare constant subsequences only with each other; otherwise they count as uncorrelated with " +
				"others."},
		{Name: detectors.EveryParam, Type: detectors.Int, Default: 1, Min: 1, Max: maxEvery, Word: 4,
			Help: "Score one sample of this many; STRIDE is a multiple. HISTORY and other settings that count scores " +
				"then span more samples.", Example: "16"},
		{Name: "EXACT_ABOVE", Type: detectors.Float, Default: 0.0, Max: mostExactAbove,
			Help: "Scores above this quantile of the series' scores are exact; lower ones may be too high, at most the quantile, and take " +
				"a fraction of the time; 0: all are exact. Needs K=1; a GPU leaves such detectors to the CPU.", Example: "0.9"},
		{Name: "MIN_POINTS", Type: detectors.Int, Default: 0, Max: MaxWindow,
			Help: "Samples before the first score, at least twice the longest subsequence; 0: 8 times, or WINDOW if " +
				"less.", Example: "1024"},
		{Name: "M", Type: detectors.Ints, Word: 5}, // lengths
	},
	// As for knn: a fault is in the scores of one more subsequence.
	Defaults: []detectors.Default{
		{Name: "HISTORY", Value: func(detectors.Values) string { return "1024" }, Words: "1024"},
		{Name: "CLOSE_AFTER", Value: func(v detectors.Values) string {
			every := max(1, v.Int(detectors.EveryParam))
			return strconv.Itoa((max(8, 2*max(v.Int("LENGTH"), v.Int("MAX_LENGTH"))) + every - 1) / every)
		}, Words: "the scores of twice the longest subsequence, at least 8 samples"},
	},
	New: func(v detectors.Values) (detectors.Detector, error) {
		return New(Params{Window: v.Int(detectors.WindowParam), Length: v.Int("LENGTH"), MaxLength: v.Int("MAX_LENGTH"),
			Lengths: v.Int("LENGTHS"), K: v.Int("K"), ExcludeFlat: v.Bool("EXCLUDE_FLAT"), Every: v.Int(detectors.EveryParam),
			ExactAbove: v.Float("EXACT_ABOVE"), MinPoints: v.Int("MIN_POINTS")})
	},
	Score: score, CPU: cpu, Cost: cost, Compare: compare, Cases: cases,
}

func init() { detectors.Register(Op, &spec) }

// Limits of the op.
const (
	MaxWindow   = 1 << 20 // samples
	MaxLength   = 1 << 15 // of a subsequence, in samples
	minLength   = 3       // two normalised values are always alike
	mostLengths = 16
	maxEvery    = 1 << 12

	mostExactAbove = 0.99
)

// Params are the parameters of the op; 0 means the default.
type Params struct {
	Window int // rows that a score reads, its subsequence included; at least twice the longest subsequence. No default
	// Length is the length of a subsequence, of the shortest if there are several. No default.
	Length      int
	MaxLength   int  // of the longest, default Length
	Lengths     int  // number of lengths from Length to MaxLength, a factor apart; default: one of 1.5 or less
	K           int  // neighbours, default 1
	ExcludeFlat bool // flat subsequences are compared with each other alone
	// Every is the number of fresh rows from one that is scored to the next, counted back from a task's newest; default 1.
	Every int
	// ExactAbove is the quantile of the series' scores, in (0, 0.99], above which a score is exact; 0: all are. Not with K above 1.
	ExactAbove float64
	// MinPoints is the number of rows from which there is a score, the scored
	// subsequence's included: at least twice the longest subsequence. Default 8 times that, but
	// not more than Window.
	MinPoints int
}

// lengths returns the subsequences' lengths, rising, for parameters without faults.
func (p *Params) lengths() []int {
	ratio := float64(p.MaxLength) / float64(p.Length)
	n := p.Lengths
	if n == 0 {
		n = min(mostLengths, 1+int(math.Ceil(math.Log(ratio)/math.Log(1.5)-1e-9)))
	}
	var all []int
	for i := range n {
		exponent := 0.0
		if n > 1 {
			exponent = float64(i) / float64(n-1)
		}
		all = append(all, int(math.Round(float64(p.Length)*math.Pow(ratio, exponent))))
	}
	return slices.Compact(all)
}

type detector struct {
	params  detectors.Words
	p       Params
	lengths []int
}

// The parameters of a task; the lengths are after them, and after these ExactAbove, a float32, where it is set.
const (
	paramK = iota
	paramPoints
	paramExclude
	paramEvery
	paramHeader
)

// New returns the detector of the op, as discord.LeftQuery defines it. The
// score of a row is the score of the subsequence that ends there. It is compared with those that end before
// it begins and lie in the last Window rows up to it: the score is the mean of its distances to the K
// nearest, divided by sqrt(2m). So it is 0 for a copy, 1 where all correlations are 0, and sqrt(2) at most,
// regardless of the length.
//
// With several lengths the score is the mean of theirs, since there is one threshold for
// all; they are in Detail, a float32 for each score and length. A score is NaN where
// one of the lengths has none: with a value that is not finite in the subsequence, or
// where no earlier subsequence can be compared with it. It covers the rows of the longest subsequence.
//
// There is no carry without ExactAbove: a score depends on the rows of its window alone. With it, the carry is a floor, and a score
// at most the floor may be anything from there down to the exact score.
//
// The error names every fault of the parameters.
func New(p Params) (detectors.Detector, error) {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	p.MaxLength, p.K, p.Every = cmp.Or(p.MaxLength, p.Length), cmp.Or(p.K, 1), cmp.Or(p.Every, 1)
	if p.Length < minLength || p.Length > MaxLength {
		fault("subsequences of %d samples: use %d to %d", p.Length, minLength, MaxLength)
	}
	if p.MaxLength < p.Length || p.MaxLength > MaxLength {
		fault("the longest subsequence is of %d samples, use the shortest's %d to %d", p.MaxLength, p.Length, MaxLength)
	}
	if p.Lengths < 0 || p.Lengths > mostLengths || p.Lengths > 1 && p.MaxLength == p.Length ||
		p.Lengths == 1 && p.MaxLength > p.Length {
		fault("%d lengths from %d to %d samples: use 2 to %d, or 0 for the default, and 1 only where the longest is the shortest", p.Lengths,
			p.Length, p.MaxLength, mostLengths)
	}
	if p.Window < 2 || p.Window > MaxWindow {
		fault("window is %d samples, use 6 to %d", p.Window, MaxWindow)
	} else if p.Window < 2*p.MaxLength {
		fault("window of %d samples is too small for subsequences of %d: use at least twice as many, %d, or a smaller subsequence", p.Window,
			p.MaxLength, 2*p.MaxLength)
	}
	if p.K < 1 || p.K > 64 {
		fault("k is %d, use 1 to 64", p.K)
	}
	if p.Every < 1 || p.Every > maxEvery {
		fault("a score every %d samples, use 1 to %d", p.Every, maxEvery)
	}
	if !(p.ExactAbove >= 0 && p.ExactAbove <= mostExactAbove) {
		fault("exact above the quantile %v, use 0 to %v", p.ExactAbove, mostExactAbove)
	} else if p.ExactAbove > 0 && p.K > 1 {
		fault("exact above the quantile %v with k = %d: use k = 1, or 0 for exact scores", p.ExactAbove, p.K)
	}
	if p.MinPoints == 0 {
		p.MinPoints = min(p.Window, 8*p.MaxLength)
	} else if p.MinPoints < 2*p.MaxLength || p.MinPoints > p.Window {
		fault("%d samples before a score are too few or too many: use twice the longest subsequence, %d, to the window, or 0 for the default",
			p.MinPoints, 2*p.MaxLength)
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("discord: %w", errors.Join(faults...))
	}
	d := &detector{make(detectors.Words, paramHeader), p, p.lengths()}
	d.params.SetInt(paramK, p.K)
	d.params.SetInt(paramPoints, p.Window)
	d.params.SetBool(paramExclude, p.ExcludeFlat)
	d.params.SetInt(paramEvery, p.Every)
	for _, m := range d.lengths {
		d.params = append(d.params, uint32(m))
	}
	if p.ExactAbove > 0 {
		d.params = append(d.params, math.Float32bits(float32(p.ExactAbove)))
	}
	return d, nil
}

func (d *detector) Op() detectors.Op        { return Op }
func (d *detector) Params() detectors.Words { return d.params }
func (d *detector) Window() int             { return d.p.Window }

// Reach returns the rows of the longest subsequence.
func (d *detector) Reach() (from, to int) { return d.p.MaxLength - 1, 0 }

// Every returns the number of fresh rows of which one is scored.
func (d *detector) Every() int { return d.p.Every }

func (d *detector) Size(v detectors.View) (n detectors.Outputs, ok bool) {
	if v.Fresh < 1 || v.Rows-v.Fresh+1 < d.p.MinPoints {
		return detectors.Outputs{}, false
	}
	n.Scores = (v.Fresh-1)/d.p.Every + 1
	if len(d.lengths) > 1 {
		n.Detail = n.Scores * len(d.lengths)
	}
	if d.p.ExactAbove > 0 {
		n.Carry = floorWords
	}
	return n, true
}

// AppendFindings sets Length to the length with the highest score.
func (d *detector) AppendFindings(dst []detectors.Finding, r detectors.Rows) []detectors.Finding {
	for i, s := range r.Scores {
		to := scored(&r, i)
		dst = append(dst, detectors.Finding{Fresh: to - r.Len() + r.Fresh, From: to - d.p.MaxLength + 1, To: to, Score: float64(s),
			Length: d.highest(&r, i)})
	}
	return dst
}

// scored returns the row of score i.
func scored(r *detectors.Rows, i int) int {
	return r.Len() - 1 - (len(r.Scores)-1-i)*r.Params.Int(paramEvery)
}

// scoreOf returns which score belongs to a fresh row.
func scoreOf(r *detectors.Rows, fresh int) int {
	return len(r.Scores) - 1 - (r.Fresh-1-fresh)/r.Params.Int(paramEvery)
}

// highest returns the length with the highest of score i.
func (d *detector) highest(r *detectors.Rows, i int) int {
	n := len(d.lengths)
	best := 0
	for a := 1; a < n; a++ {
		if r.Detail.Float32(i*n+a) > r.Detail.Float32(i*n+best) {
			best = a
		}
	}
	return d.lengths[best]
}

// query returns the query of score i with length m.
func query(r *detectors.Rows, i, m int) LeftQuery {
	end := scored(r, i) + 1
	return LeftQuery{M: m, K: r.Params.Int(paramK), From: max(0, end-r.Params.Int(paramPoints)), At: end - m,
		ExcludeFlat: r.Params.Bool(paramExclude)}
}

// Explain expects the shape of the nearest subsequence, at the level and the scale of the rows that fit it. A value's share is
// its share of the squared distance.
func (d *detector) Explain(r detectors.Rows, fresh, since int, expected, contribution []float64) (detectors.Location, bool) {
	i := scoreOf(&r, fresh)
	m := d.highest(&r, i)
	q := query(&r, i, m)
	memory := pool.Get().(*memory)
	defer pool.Put(memory)
	memory.left.Load(r.X64, r.Dim)
	memory.left.Length(m, q.ExcludeFlat)
	score, places := memory.left.Neighbours(&memory.own.left, q.From, q.At, 1)
	if !(score > 0) {
		return detectors.Location{}, false
	}
	off, ok := memory.left.Explain(expected, contribution, places[0], q.At, since)
	loc := detectors.LocationOf(q.At, since, off)
	if loc.HasNewest = ok; ok {
		loc.Newest = memory.left.newest(detectors.Largest(contribution), places[0], q.At)
	}
	return loc, ok
}

// Describe returns the nearest subsequences in the past, with the distances that the score is the mean of, 0 to the root of 2. Of
// several lengths, it takes the length with the highest score.
func (d *detector) Describe(r detectors.Rows, fresh int) detectors.Evidence {
	i := scoreOf(&r, fresh)
	m := d.highest(&r, i)
	q := query(&r, i, m)
	memory := pool.Get().(*memory)
	defer pool.Put(memory)
	memory.left.Load(r.X64, r.Dim)
	memory.left.Length(m, q.ExcludeFlat)
	e := detectors.Evidence{From: q.At, To: q.At + m - 1, Location: detectors.OneRow(q.At + m - 1)}
	_, found := memory.left.Neighbours(&memory.own.left, q.From, q.At, q.K)
	places, before := slices.Clone(found), 0.0
	for k, at := range places {
		sum := memory.left.Score(&memory.own.left, q.From, q.At, k+1) * float64(k+1)
		e.Inputs = append(e.Inputs, detectors.Input{Role: detectors.Neighbour, From: at, To: at + m - 1, Distance: sum - before})
		before = sum
	}
	e.Measures = []detectors.Measure{{Name: "samples of a subsequence", Field: detectors.AllFields, Value: float64(m)}}
	for a, length := range d.lengths {
		if len(d.lengths) > 1 {
			e.Measures = append(e.Measures, detectors.Measure{Name: fmt.Sprintf("score of length %d", length), Field: detectors.AllFields,
				Value: float64(r.Detail.Float32(i*len(d.lengths) + a))})
		}
	}
	expected, shares := make([]float64, r.Dim), make([]float64, r.Dim)
	if len(places) > 0 {
		if off, ok := memory.left.Explain(expected, shares, places[0], q.At, 0); ok {
			e.Location, e.Fields = detectors.LocationOf(q.At, 0, off), shares
		}
	}
	return e
}

// lengths returns the lengths of a task.
func lengths(r *detectors.Rows) detectors.Words {
	if len(r.Next) > 0 {
		return r.Params[paramHeader : len(r.Params)-1]
	}
	return r.Params[paramHeader:]
}

// setOutputs sets the outputs of score i and length a; lengths ascend between calls.
func setOutputs(r *detectors.Rows, i, a, lengths int, score float64, sum *float64) {
	if a == 0 {
		*sum = 0
	}
	if *sum += score; lengths > 1 {
		r.Detail.SetFloat32(i*lengths+a, float32(score))
	}
	if a == lengths-1 {
		r.Scores[i] = float32(*sum / float64(lengths))
	}
}

func score(r detectors.Rows) {
	lengths := lengths(&r)
	for i := range r.Scores {
		sum := 0.0
		for a, m := range lengths {
			setOutputs(&r, i, a, len(lengths), query(&r, i, int(m)).Define(r.X64, r.Dim), &sum)
		}
	}
	if len(r.Next) > 0 {
		f := floorOf(&r)
		for _, s := range r.Scores {
			f.add(s)
		}
		f.write(&r)
	}
}

type memory struct {
	left    LeftScorer
	search  leftSearch
	own     workspace
	sums    []float64
	lengths []int
}

// workspace is the memory of one goroutine that computes scores.
type workspace struct {
	left   LeftMemory
	scores []float64 // by length
}

// searchers is separate from pool: its scratch memory contains no series.
var (
	pool      = sync.Pool{New: func() any { return new(memory) }}
	searchers = sync.Pool{New: func() any { return new(workspace) }}
)

// chunkCost is the approximate cost in nanoseconds of one call of f in a long task.
const chunkCost = 500_000

// mostPrepared is the number of subsequences of all lengths, for a window, that are prepared at once: at 16 bytes each.
const mostPrepared = 1 << 22

func cpu(ctx context.Context, r *detectors.Rows, parallel detectors.Parallel) {
	m := pool.Get().(*memory)
	defer pool.Put(m)
	if len(r.Next) > 0 {
		m.aboveFloor(ctx, r)
		return
	}
	m.exact(ctx, r, 0, len(r.Scores), false, parallel)
}

// exact computes the scores from number from to to-1. It returns whether m.left is prepared for all lengths: the next call for the task
// need not do so again.
func (m *memory) exact(ctx context.Context, r *detectors.Rows, from, to int, prepared bool, parallel detectors.Parallel) bool {
	if !prepared {
		m.left.Load(r.X64, r.Dim)
	}
	m.sums = slices.Grow(m.sums[:0], to)[:to]
	all := lengths(r)
	cost := exactCost(r)
	// The division of the lengths depends on the parameters alone.
	together := max(1, mostPrepared/(r.Dim*r.Params.Int(paramPoints)))
	for first := 0; first < len(all); first += together {
		m.intsOf(all[first:min(first+together, len(all))])
		if !prepared {
			m.left.Lengths(m.lengths, r.Params.Int(paramK), r.Params.Bool(paramExclude))
		}
		score := func(w *workspace, from, to int) {
			w.sized(len(m.lengths))
			for i := from; i < to && ctx.Err() == nil; i++ {
				q := query(r, i, m.lengths[0])
				m.left.Scores(&w.left, w.scores, q.From, q.At+q.M)
				for a, score := range w.scores {
					setOutputs(r, i, first+a, len(all), score, &m.sums[i])
				}
			}
		}
		if cost < detectors.LongTask {
			score(&m.own, from, to)
			continue
		}
		each := max(1, len(r.Scores)*chunkCost/cost)
		parallel((to-from+each-1)/each, func(k int) {
			w := searchers.Get().(*workspace)
			score(w, from+k*each, min(from+(k+1)*each, to))
			searchers.Put(w)
		})
		if ctx.Err() != nil {
			return false
		}
	}
	return together >= len(all)
}

// intsOf sets m.lengths.
func (m *memory) intsOf(lengths detectors.Words) {
	m.lengths = m.lengths[:0]
	for _, length := range lengths {
		m.lengths = append(m.lengths, int(length))
	}
}

func (w *workspace) sized(lengths int) { w.scores = slices.Grow(w.scores[:0], lengths)[:lengths] }

// exactCost is as measured, but for subsequences that are computed alone because they lie far from others.
func exactCost(r *detectors.Rows) int {
	lengths := lengths(r)
	points := min(r.Len(), r.Params.Int(paramPoints))
	row, speed := 1+len(lengths), 36 // of a row, in ns, and products a ns
	if r.Dim > 1 || r.Params.Int(paramK) > 1 {
		row += len(lengths) // for roots
	} else if points > LeftFiltered {
		speed = 58
	}
	longest := int(lengths[len(lengths)-1])
	return r.Dim * (r.Len()*row + len(r.Scores)*points*(longest+8*len(lengths)+12)/speed)
}

// cost counts of a task with ExactAbove its share of exact scores, and the first tile of the others.
func cost(r *detectors.Rows) int {
	c := exactCost(r)
	if len(r.Next) == 0 {
		return c
	}
	lengths := lengths(r)
	longest := int(lengths[len(lengths)-1])
	return int(float64(c)*(1-floorOf(r).share)) + len(r.Scores)*min(leftTile, r.Len())*(1+len(lengths)+longest/36)
}

// compare allows 1e-6 and a millionth: a correlation is exact to some 1e-15, and the
// score of a copy, the square root of its difference from 1, to some 1e-7.
//
// With ExactAbove, scores that are at most the floor are as good as each other. A score as near to the floor as roundings leaves open on
// which side it is, and with it the floors that follow.
func compare(r *detectors.Rows, got, want detectors.Result) error {
	const tol = 1e-6
	if len(r.Next) > 0 {
		return compareAboveFloor(r, got, want, tol)
	}
	return errors.Join(detectors.CompareScores(got.Scores, want.Scores, tol, tol), detectors.CompareScores(got.Detail.F32(), want.Detail.F32(),
		tol, tol))
}

func cases(rng *rand.Rand) []detectors.Case {
	var cases []detectors.Case
	add := func(p Params, dim, extra int, fresh []int, values ...detectors.Signal) *detectors.Case {
		cases = append(cases, detectors.NewCase(fmt.Sprintf("%+v", p), detectors.Must(New(p)), dim, extra, fresh, values...))
		return &cases[len(cases)-1]
	}
	flip := func() bool { return rng.IntN(2) == 0 }
	for _, s := range detectors.Signals(rng) {
		add(Params{Window: 96, Length: 8, K: 1 + rng.IntN(3), ExcludeFlat: flip()}, 1, rng.IntN(3), []int{1, 1, 5, 16}, s)
	}
	for _, s := range detectors.Signals(rng) {
		p := Params{Window: 80, Length: 5, MaxLength: 30, Lengths: 2 + rng.IntN(3), K: 1 + rng.IntN(2), ExcludeFlat: flip()}
		add(p, 1, 0, []int{3, 1}, s)
	}
	for _, dim := range []int{2, 3, 5} {
		s := detectors.Signals(rng)
		rng.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
		add(Params{Window: 64, Length: 6, K: 1 + rng.IntN(3), ExcludeFlat: flip()}, dim, 0, []int{3, 1}, s...)
		s = detectors.Signals(rng)[:14] // finite
		rng.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
		add(Params{Window: 70, Length: 4, MaxLength: 20, ExcludeFlat: flip()}, dim, 0, []int{17, 1}, s...)
	}
	// Steps of 1e9, rests, and a window that is one period long.
	step := detectors.Signal{Name: "step of 1e9", At: func(i, n int) float64 { return 1e9*float64(i*3/n) + rng.NormFloat64() }}
	rest := detectors.Signal{Name: "rests", At: func(i, _ int) float64 { return rng.NormFloat64() * float64(i/40%2) }}
	period := detectors.Signal{Name: "period", At: func(i, _ int) float64 { return float64(i % 90 * (i % 13)) }}
	for _, s := range []detectors.Signal{step, rest, period} {
		add(Params{Window: 90, Length: 16, K: 1 + rng.IntN(2), ExcludeFlat: flip()}, 1, 30, []int{1, 16, 4}, s)
	}
	// The smallest; windows that are not full yet; one pair only; lengths around the sizes of
	// vectors and warps.
	add(Params{Window: 6, Length: 3}, 1, 0, []int{1, 9}, detectors.Signals(rng)[0])
	add(Params{Window: 40, Length: 20, K: 3}, 2, 0, []int{1, 5}, detectors.Signals(rng)[rng.IntN(3)])
	for _, missing := range []int{1, 60, 120} {
		add(Params{Window: 160, Length: 9, MinPoints: 20}, 1, -missing, []int{1, 4}, detectors.Signals(rng)[rng.IntN(3)])
	}
	for _, m := range []int{7, 15, 16, 17, 31, 33, 63, 65, 100} {
		p := Params{Window: 2*m + 1 + rng.IntN(200), Length: m, K: 1 + rng.IntN(2)}
		add(p, 1, 0, []int{1 + rng.IntN(20)}, detectors.Signals(rng)[rng.IntN(3)])
	}
	add(Params{Window: 700, Length: 257, MinPoints: 700}, 1, 0, []int{1, 3}, detectors.Signals(rng)[1])
	// A score every few rows: of parts of that, and of more rows than a block of the kernel scores at once.
	for _, every := range []int{2, 3, 16, 40} {
		s := detectors.Signals(rng)
		rng.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
		add(Params{Window: 120, Length: 7, K: 1 + rng.IntN(2), Every: every, ExcludeFlat: flip()}, 1, rng.IntN(3), []int{1, 16, 5, 33}, s...)
		add(Params{Window: 130, Length: 5, MaxLength: 20, Lengths: 3, Every: every}, 1, 0, []int{80, 1, 7}, s[:4]...)
		add(Params{Window: 90, Length: 6, Every: every, ExcludeFlat: flip()}, 2, 0, []int{16, 2}, s...)
	}
	// Exact above a quantile: chains with and without a floor, of several fields, and of tasks with several scores.
	for _, s := range detectors.Signals(rng) {
		p := Params{Window: 200 + rng.IntN(200), Length: 4, MaxLength: 10, Lengths: 1 + 2*rng.IntN(2), MinPoints: 80}
		if p.Lengths == 1 {
			p.MaxLength = p.Length
		}
		p.Every, p.ExcludeFlat, p.ExactAbove = 1+rng.IntN(3), flip(), 0.5+0.4*rng.Float64()
		add(p, 1, -rng.IntN(100), []int{31 * p.Every, 1, 64, 2, 17}, s).CPU = true
	}
	for range 3 {
		s := detectors.Signals(rng)
		rng.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
		add(Params{Window: 150, Length: 6, ExactAbove: 0.9, ExcludeFlat: flip()}, 2, 0, []int{16, 25, 2, 40}, s...).CPU = true
	}
	add(Params{Window: 2048, Length: 64}, 1, 0, []int{1}, detectors.Signals(rng)[2]).Bench = true
	add(Params{Window: 2048, Length: 64}, 1, 0, []int{16}, detectors.Signals(rng)[2]).Bench = true
	add(Params{Window: 1024, Length: 32, MaxLength: 128, Lengths: 3, K: 2}, 1, 0, []int{1}, detectors.Signals(rng)[0]).Bench = true
	return cases
}

// Shapes score a sample or 16 of a key in a batch, at once or one after the other; and one sample of 32 with three lengths and a large
// window, where the rate counts samples, not scores.
func Shapes() []detectors.Shape {
	shape := func(fresh, chain, tasks int) detectors.Shape {
		const window, m = 2048, 64
		s := detectors.Shape{
			Name: fmt.Sprintf("window=%d m=%d, %d fresh", window, m, fresh), Unit: "scores/s", Dim: 1, Fresh: fresh, Chain: chain, Tasks: tasks,
			Values: detectors.Values{detectors.WindowParam: window, "LENGTH": m, "MAX_LENGTH": m, "LENGTHS": 1, "EVERY": 1, "EXACT_ABOVE": 0.0},
		}
		if chain > 0 {
			s.Name += fmt.Sprintf(", %d tasks a key", chain)
		}
		return s
	}
	return []detectors.Shape{shape(1, 0, 1<<13), shape(1, 16, 1<<17), shape(16, 0, 1<<13), {
		Name: "window=20000 m=50,100,200, one of 32 scored, 32 fresh", Unit: "samples/s", Dim: 1, Fresh: 32, Tasks: 1 << 9,
		Values: detectors.Values{detectors.WindowParam: 20000, "LENGTH": 50, "MAX_LENGTH": 200, "LENGTHS": 3, "EVERY": 32, "EXACT_ABOVE": 0.0},
	}}
}
