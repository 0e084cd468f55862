package detectors

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

	"odradek/detectors/discord"
)

// Discord is the distance of the subsequence that ends at a sample to its nearest
// neighbours in the past: left discords.
const Discord Op = 7

var discordSpec = Spec{
	Name: "discord", Elem: F64,
	Help: "left discords, how unlike the shape of any subsequence of samples before it that of the last samples is",
	Params: []Param{
		{Name: WindowParam, Type: Int, Default: 2048, Min: 6, Max: DiscordMaxWindow,
			Help: "samples that a score reads, those of its subsequence included; at least twice the longest subsequence"},
		{Name: "LENGTH", Type: Int, Default: 64, Min: discordMinLength, Max: DiscordMaxLength,
			Help: "samples of a subsequence, the shortest where there are several lengths. As long as what repeats itself, or somewhat longer."},
		{Name: "MAX_LENGTH", Type: Int, Default: 0, Max: DiscordMaxLength,
			Help: "samples of the longest subsequence; 0 means LENGTH. The score of several lengths is the mean of theirs; for separate " +
				"scores use a detector for each."},
		{Name: "LENGTHS", Type: Int, Default: 0, Max: discordMostLengths,
			Help: "number of lengths from LENGTH to MAX_LENGTH, each longer than the one before by the same factor; 0 makes the factor 1.5, or a " +
				"little less."},
		{Name: "K", Type: Int, Default: 1, Min: 1, Max: 64, Word: 1,
			Help: "nearest subsequences that a subsequence is compared with, none of which overlaps another. With 2 a fault that has " +
				"happened before is found once more."},
		{Name: "POINTS", Type: Int, Word: 2}, // the window
		{Name: "EXCLUDE_FLAT", Type: Bool, Default: false, Word: 3,
			Help: "compare subsequences whose values are all equal with each other alone. Otherwise they are as unlike all others as two " +
				"subsequences without correlation."},
		{Name: "MIN_POINTS", Type: Int, Default: 0, Max: DiscordMaxWindow,
			Help: "samples before the first score, from twice the longest subsequence to WINDOW; 0 means 8 times the longest " +
				"subsequence, or WINDOW if that is less. The first subsequences have few before them, and are unlike all of them."},
		{Name: "M", Type: Ints, Word: 4}, // lengths
	},
	// As measured in docs/quality.md for knn: a fault is in the scores of one more subsequence.
	Defaults: []Default{
		{"HISTORY", func(Values) string { return "1024" }, "1024"},
		{"CLOSE_AFTER", func(v Values) string { return strconv.Itoa(max(8, 2*max(v.Int("LENGTH"), v.Int("MAX_LENGTH")))) },
			"twice the longest subsequence, at least 8"},
	},
	New: func(v Values) (Detector, error) {
		return NewDiscord(DiscordParams{Window: v.Int(WindowParam), Length: v.Int("LENGTH"), MaxLength: v.Int("MAX_LENGTH"),
			Lengths: v.Int("LENGTHS"), K: v.Int("K"), ExcludeFlat: v.Bool("EXCLUDE_FLAT"), MinPoints: v.Int("MIN_POINTS")})
	},
	Score: discordScore, CPU: discordCPU, Cost: discordCost, Compare: discordCompare, Cases: discordCases,
}

// Limits of op Discord.
const (
	DiscordMaxWindow   = 1 << 20 // samples
	DiscordMaxLength   = 1 << 15 // of a subsequence, in samples
	discordMinLength   = 3       // two values are all alike when normalised
	discordMostLengths = 16
)

// DiscordParams are the parameters of op Discord; 0 means the default.
type DiscordParams struct {
	Window int // rows that a score reads, its subsequence included; at least twice the longest subsequence. No default
	// Length is that of a subsequence, of the shortest if there are several. No default.
	Length      int
	MaxLength   int  // of the longest, default Length
	Lengths     int  // how many from Length to MaxLength, a factor apart; default: one of 1.5 or less
	K           int  // neighbours, default 1
	ExcludeFlat bool // flat subsequences are compared with each other alone
	// MinPoints is the number of rows from which there is a score, those of the scored
	// subsequence included: at least twice the longest subsequence. Default 8 times that, but
	// not more than Window.
	MinPoints int
}

// lengths returns the subsequences' lengths, rising, for parameters without faults.
func (p *DiscordParams) lengths() []int {
	ratio := float64(p.MaxLength) / float64(p.Length)
	n := p.Lengths
	if n == 0 {
		n = min(discordMostLengths, 1+int(math.Ceil(math.Log(ratio)/math.Log(1.5)-1e-9)))
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

type discordDetector struct {
	params  Words
	p       DiscordParams
	lengths []int
}

// The parameters of a task; the lengths are behind them.
const (
	discordK = iota
	discordPoints
	discordExclude
	discordHeader
)

// NewDiscord returns the detector of op Discord, as discord.LeftQuery defines it. The
// score of a row is that of the subsequence that ends there, among those that end before
// it begins and lie in the last Window rows up to it: the mean over the K nearest of
// their distances divided by sqrt(2m). So it is 0 for a copy, 1 where all correlations are
// 0, and sqrt(2) at most, whatever the length.
//
// With several lengths the score is the mean of theirs, since there is one threshold for
// all; they are in Detail, a float32 for each fresh row and length. A score is NaN where
// one of the lengths has none: with a value that is not finite in the subsequence, or
// where no earlier subsequence can be compared with it. There is no carry: a score depends on
// the rows of its window alone. It covers the rows of the longest subsequence.
//
// The error names every fault of the parameters.
func NewDiscord(p DiscordParams) (Detector, error) {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	p.MaxLength, p.K = cmp.Or(p.MaxLength, p.Length), cmp.Or(p.K, 1)
	if p.Length < discordMinLength || p.Length > DiscordMaxLength {
		fault("subsequences of %d samples: use %d to %d", p.Length, discordMinLength, DiscordMaxLength)
	}
	if p.MaxLength < p.Length || p.MaxLength > DiscordMaxLength {
		fault("the longest subsequence is of %d samples, use the shortest's %d to %d", p.MaxLength, p.Length, DiscordMaxLength)
	}
	if p.Lengths < 0 || p.Lengths > discordMostLengths || p.Lengths > 1 && p.MaxLength == p.Length ||
		p.Lengths == 1 && p.MaxLength > p.Length {
		fault("%d lengths from %d to %d samples: use 2 to %d, or 0 for the default, and 1 only where the longest is the shortest", p.Lengths,
			p.Length, p.MaxLength, discordMostLengths)
	}
	if p.Window < 2 || p.Window > DiscordMaxWindow {
		fault("window is %d samples, use 6 to %d", p.Window, DiscordMaxWindow)
	} else if p.Window < 2*p.MaxLength {
		fault("window of %d samples is too small for subsequences of %d: use at least twice as many, %d, or a smaller subsequence", p.Window,
			p.MaxLength, 2*p.MaxLength)
	}
	if p.K < 1 || p.K > 64 {
		fault("k is %d, use 1 to 64", p.K)
	}
	if p.MinPoints == 0 {
		p.MinPoints = min(p.Window, 8*p.MaxLength)
	} else if p.MinPoints < 2*p.MaxLength || p.MinPoints > p.Window {
		fault("%d samples before a score are too few or too many: use twice the longest subsequence, %d, to the window, or 0 for the default",
			p.MinPoints, 2*p.MaxLength)
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("detectors: discord: %w", errors.Join(faults...))
	}
	d := &discordDetector{make(Words, discordHeader), p, p.lengths()}
	d.params.SetInt(discordK, p.K)
	d.params.SetInt(discordPoints, p.Window)
	d.params.SetBool(discordExclude, p.ExcludeFlat)
	for _, m := range d.lengths {
		d.params = append(d.params, uint32(m))
	}
	return d, nil
}

func (d *discordDetector) Op() Op        { return Discord }
func (d *discordDetector) Params() Words { return d.params }
func (d *discordDetector) Window() int   { return d.p.Window }

// Reach returns the rows of the longest subsequence.
func (d *discordDetector) Reach() (from, to int) { return d.p.MaxLength - 1, 0 }

func (d *discordDetector) Size(v View) (n Outputs, ok bool) {
	if v.Fresh < 1 || v.Rows-v.Fresh+1 < d.p.MinPoints {
		return Outputs{}, false
	}
	n.Scores = v.Fresh
	if len(d.lengths) > 1 {
		n.Detail = v.Fresh * len(d.lengths)
	}
	return n, true
}

// AppendFindings sets Length to the length with the highest score.
func (d *discordDetector) AppendFindings(dst []Finding, r Rows) []Finding {
	first := r.Len() - r.Fresh
	for i, s := range r.Scores {
		dst = append(dst, Finding{Fresh: i, From: first + i - d.p.MaxLength + 1, To: first + i, Score: float64(s), Length: d.highest(&r, i)})
	}
	return dst
}

// highest returns the length with the highest score of fresh row i.
func (d *discordDetector) highest(r *Rows, i int) int {
	n := len(d.lengths)
	best := 0
	for a := 1; a < n; a++ {
		if r.Detail.Float32(i*n+a) > r.Detail.Float32(i*n+best) {
			best = a
		}
	}
	return d.lengths[best]
}

// discordQuery returns the query of fresh row i with length m.
func discordQuery(r *Rows, i, m int) discord.LeftQuery {
	end := r.Len() - r.Fresh + i + 1
	return discord.LeftQuery{M: m, K: r.Params.Int(discordK), From: max(0, end-r.Params.Int(discordPoints)), At: end - m,
		ExcludeFlat: r.Params.Bool(discordExclude)}
}

// Explain expects the last row of the nearest subsequence, brought to the mean and the
// deviation of the row's own. A value's share is that in the squared distance to it.
func (d *discordDetector) Explain(r Rows, fresh int, expected, contribution []float64) bool {
	m := d.highest(&r, fresh)
	q := discordQuery(&r, fresh, m)
	memory := discordPool.Get().(*discordMemory)
	defer discordPool.Put(memory)
	memory.left.Load(r.X64, r.Dim)
	memory.left.Length(m, q.ExcludeFlat)
	score, places := memory.left.Neighbours(&memory.own, q.From, q.At, 1)
	return score > 0 && memory.left.Explain(expected, contribution, places[0], q.At)
}

// discordLengths returns the lengths of a task.
func discordLengths(r *Rows) Words { return r.Params[discordHeader:] }

// discordSetOutputs sets the outputs of fresh row i and length a; calls go by rising length.
func discordSetOutputs(r *Rows, i, a, lengths int, score float64, sum *float64) {
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

func discordScore(r Rows) {
	lengths := discordLengths(&r)
	for i := range r.Scores {
		sum := 0.0
		for a, m := range lengths {
			discordSetOutputs(&r, i, a, len(lengths), discordQuery(&r, i, int(m)).Define(r.X64, r.Dim), &sum)
		}
	}
}

type discordMemory struct {
	left discord.Left
	own  discord.LeftMemory
	sums []float64
}

// discordSharers is separate from discordPool: its scratch has no series of its own.
var (
	discordPool    = sync.Pool{New: func() any { return new(discordMemory) }}
	discordSharers = sync.Pool{New: func() any { return new(discord.LeftMemory) }}
)

// discordShare is the approximate cost in nanoseconds of one call of f in a long task.
const discordShare = 500_000

func discordCPU(ctx context.Context, r *Rows, parallel Parallel) {
	m := discordPool.Get().(*discordMemory)
	defer discordPool.Put(m)
	m.left.Load(r.X64, r.Dim)
	m.sums = slices.Grow(m.sums[:0], r.Fresh)[:r.Fresh]
	lengths := discordLengths(r)
	cost := discordCost(r)
	for a, length := range lengths {
		m.left.Length(int(length), r.Params.Bool(discordExclude))
		score := func(w *discord.LeftMemory, from, to int) {
			for i := from; i < to && ctx.Err() == nil; i++ {
				q := discordQuery(r, i, int(length))
				discordSetOutputs(r, i, a, len(lengths), m.left.Score(w, q.From, q.At, q.K), &m.sums[i])
			}
		}
		if cost < longTask {
			score(&m.own, 0, r.Fresh)
			continue
		}
		each := max(1, r.Fresh*discordShare/cost)
		parallel((r.Fresh+each-1)/each, func(k int) {
			w := discordSharers.Get().(*discord.LeftMemory)
			score(w, k*each, min((k+1)*each, r.Fresh))
			discordSharers.Put(w)
		})
		if ctx.Err() != nil {
			return
		}
	}
}

func discordCost(r *Rows) int {
	cost, n := 0, r.Len()
	points := min(n, r.Params.Int(discordPoints))
	for _, m := range discordLengths(r) {
		cost += n*(20+int(m)/5) + r.Fresh*points*(10+int(m)/8)/2
	}
	return r.Dim * cost
}

// discordCompare allows 1e-6 and a millionth: a correlation is exact to some 1e-15, and the
// score of a copy, the square root of its difference from 1, to some 1e-7.
func discordCompare(_ *Rows, got, want Result) error {
	const tol = 1e-6
	return errors.Join(compareScores(got.Scores, want.Scores, tol, tol), compareScores(got.Detail.F32(), want.Detail.F32(), tol, tol))
}

func discordCases(rng *rand.Rand) []Case {
	var cases []Case
	add := func(p DiscordParams, dim, extra int, fresh []int, values ...signal) *Case {
		cases = append(cases, newCase(fmt.Sprintf("%+v", p), must(NewDiscord(p)), dim, extra, fresh, values...))
		return &cases[len(cases)-1]
	}
	flip := func() bool { return rng.IntN(2) == 0 }
	for _, s := range signals(rng) {
		add(DiscordParams{Window: 96, Length: 8, K: 1 + rng.IntN(3), ExcludeFlat: flip()}, 1, rng.IntN(3), []int{1, 1, 5, 16}, s)
	}
	for _, s := range signals(rng) {
		p := DiscordParams{Window: 80, Length: 5, MaxLength: 30, Lengths: 2 + rng.IntN(3), K: 1 + rng.IntN(2), ExcludeFlat: flip()}
		add(p, 1, 0, []int{3, 1}, s)
	}
	for _, dim := range []int{2, 3, 5} {
		s := signals(rng)
		rng.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
		add(DiscordParams{Window: 64, Length: 6, K: 1 + rng.IntN(3), ExcludeFlat: flip()}, dim, 0, []int{3, 1}, s...)
		s = signals(rng)[:14] // finite
		rng.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
		add(DiscordParams{Window: 70, Length: 4, MaxLength: 20, ExcludeFlat: flip()}, dim, 0, []int{17, 1}, s...)
	}
	// Steps of 1e9, rests, and a window that is one period long.
	step := signal{"step of 1e9", func(i, n int) float64 { return 1e9*float64(i*3/n) + rng.NormFloat64() }}
	rest := signal{"rests", func(i, _ int) float64 { return rng.NormFloat64() * float64(i/40%2) }}
	period := signal{"period", func(i, _ int) float64 { return float64(i % 90 * (i % 13)) }}
	for _, s := range []signal{step, rest, period} {
		add(DiscordParams{Window: 90, Length: 16, K: 1 + rng.IntN(2), ExcludeFlat: flip()}, 1, 30, []int{1, 16, 4}, s)
	}
	// The smallest; windows that are not full yet; one pair only; lengths around those of
	// vectors and warps.
	add(DiscordParams{Window: 6, Length: 3}, 1, 0, []int{1, 9}, signals(rng)[0])
	add(DiscordParams{Window: 40, Length: 20, K: 3}, 2, 0, []int{1, 5}, signals(rng)[rng.IntN(3)])
	for _, missing := range []int{1, 60, 120} {
		add(DiscordParams{Window: 160, Length: 9, MinPoints: 20}, 1, -missing, []int{1, 4}, signals(rng)[rng.IntN(3)])
	}
	for _, m := range []int{7, 15, 16, 17, 31, 33, 63, 65, 100} {
		p := DiscordParams{Window: 2*m + 1 + rng.IntN(200), Length: m, K: 1 + rng.IntN(2)}
		add(p, 1, 0, []int{1 + rng.IntN(20)}, signals(rng)[rng.IntN(3)])
	}
	add(DiscordParams{Window: 700, Length: 257, MinPoints: 700}, 1, 0, []int{1, 3}, signals(rng)[1])
	add(DiscordParams{Window: 2048, Length: 64}, 1, 0, []int{1}, signals(rng)[2]).Bench = true
	add(DiscordParams{Window: 2048, Length: 64}, 1, 0, []int{16}, signals(rng)[2]).Bench = true
	add(DiscordParams{Window: 1024, Length: 32, MaxLength: 128, Lengths: 3, K: 2}, 1, 0, []int{1}, signals(rng)[0]).Bench = true
	return cases
}

// discordShapes score a sample or 16 of a key in a batch, at once or one after the other.
func discordShapes() []Shape {
	shape := func(fresh, chain, tasks int) Shape {
		const window, m = 2048, 64
		s := Shape{
			Name: fmt.Sprintf("window=%d m=%d, %d fresh", window, m, fresh), Unit: "scores/s", Dim: 1, Fresh: fresh, Chain: chain, Tasks: tasks,
			Values: Values{WindowParam: window, "LENGTH": m},
		}
		if chain > 0 {
			s.Name += fmt.Sprintf(", %d tasks a key", chain)
		}
		return s
	}
	return []Shape{shape(1, 0, 1<<13), shape(1, 16, 1<<17), shape(16, 0, 1<<13)}
}
