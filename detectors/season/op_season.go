package season

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"odradek/detectors"
)

// This file is op season: the deviation of a sample from the samples of the same time of day or of week. The method is
// package detectors/season.

// Op scores how far a sample is from the level of its time of day or of week.
const Op detectors.Op = 12

var spec = detectors.Spec{
	Name: "season", Elem: detectors.F64,
	Finds: "unlike the same time in earlier periods",
	Help: "Finds readings that are unusual for their time of day or week, such as a missing peak or a load at " +
		"night. The score is the deviation from the level of earlier samples at that time, in usual " +
		"deviations, of several fields the largest.",
	Params: []detectors.Param{
		{Name: "BINS", Type: detectors.Int, Default: 0, Max: MostBins, Word: 1,
			Help: "Levels of a period, each for an equal time, 12 bytes each; 0: 96 of a day, 168 of a week.", Example: "48"},
		{Name: "MEMORY", Type: detectors.Int, Default: 100, Min: 1, Max: 1 << 16, Word: 2,
			Help: "Samples of a bin after which a sample's weight has fallen to a third.", Example: "20"},
		{Name: "MIN_POINTS", Type: detectors.Int, Default: 64, Max: 1 << 24, Word: 3,
			Help: "Samples to learn from before the first score, without the first period.", Example: "500"},
		// The rest is made from settings by who makes the detector.
		{Name: "WEEK", Type: detectors.Int, Word: 4},
		{Name: "OFFSETS", Type: detectors.Int, Word: 5},
		{Name: "TABLES", Type: detectors.Ints, Word: 6},
	},
	Defaults: []detectors.Default{{Name: "HISTORY", Value: func(detectors.Values) string { return "2048" }, Words: "2048"}},
	New: func(v detectors.Values) (detectors.Detector, error) {
		return New(OpParams{Bins: v.Int("BINS"), Memory: v.Int("MEMORY"), MinPoints: v.Int("MIN_POINTS")})
	},
	Score: func(r detectors.Rows) { score(&r) }, CPU: cpu, Cost: cost, Compare: compare, Cases: cases,
}

func init() { detectors.Register(Op, &spec) }

// OpParams are the parameters of the op; 0 means the default where there is one.
type OpParams struct {
	Week      bool  // the period is a week, not a day
	Bins      int   // of the period, default 96 of a day and 168 of a week
	Memory    int   // samples of a bin, see season.Params
	MinPoints int   // residuals learnt before the first score
	Offsets   Table // of the zone, see season.Clock; nil: UTC
	Days      Table // dates that count as another day of the week, see season.Clock
}

type detector struct {
	detectors.Steady
	params detectors.Words
	p      OpParams
}

// The parameters of a task: the tables follow, first the one of offsets.
const (
	paramBins = iota
	paramMemory
	paramMinPoints
	paramWeek
	paramOffsets // words of the table
	paramTables
)

// New returns the detector of the op: package season has the definition. Each value of a row is
// scored on its own; the row's score is the largest of theirs, and NaN if none has one.
// A score is NaN as long as fewer than MinPoints residuals are learnt.
//
// The detector is detectors.Timed: a row begins with its time. The carry is the state of each value's
// series (season.Params.Words). Detail has two float32s for each value of each fresh row: expected less
// actual, and the value's score. Rows are float64 and not centred.
//
// The error names every fault of the parameters.
func New(p OpParams) (detectors.Detector, error) {
	var faults []error
	if p.Bins == 0 {
		if p.Bins = 96; p.Week {
			p.Bins = 168
		}
	}
	if p.Bins < 0 || p.Bins > MostBins {
		faults = append(faults, fmt.Errorf("%d bins, use 1 to %d, or 0 for the default", p.Bins, MostBins))
	}
	if p.Memory < 1 || p.Memory > 1<<16 {
		faults = append(faults, fmt.Errorf("memory is %d samples of a bin, use 1 to %d", p.Memory, 1<<16))
	}
	if p.MinPoints < 0 || p.MinPoints > max(1, p.Memory)*max(1, p.Bins) {
		faults = append(faults, fmt.Errorf("%d samples before a score: use up to the %d that the memory of %d bins holds", p.MinPoints,
			max(1, p.Memory)*max(1, p.Bins), p.Bins))
	}
	if p.Days.Len() > 0 && !p.Week {
		faults = append(faults, errors.New("dates that count as another day of the week need the period of a week"))
	}
	faults = append(faults, ascending(p.Offsets, p.Days)...)
	if len(faults) > 0 {
		return nil, fmt.Errorf("season: %w", errors.Join(faults...))
	}
	if p.Offsets.Len() == 0 {
		p.Offsets = Table(nil).Append(0, 0)
	}
	d := &detector{detectors.Steady{Least: 1}, make(detectors.Words, paramTables), p}
	d.params.SetInt(paramBins, p.Bins)
	d.params.SetInt(paramMemory, p.Memory)
	d.params.SetInt(paramMinPoints, p.MinPoints)
	if p.Week {
		d.params.SetInt(paramWeek, 1)
	}
	d.params.SetInt(paramOffsets, len(p.Offsets))
	d.params = append(append(d.params, p.Offsets...), p.Days...)
	return d, nil
}

// ascending returns the faults of the order of tables.
func ascending(tables ...Table) (faults []error) {
	for _, t := range tables {
		for i := 1; i < t.Len(); i++ {
			before, _ := t.At(i - 1)
			if at, _ := t.At(i); at <= before {
				faults = append(faults, fmt.Errorf("%d stands after %d in a table: the order is ascending", at, before))
			}
		}
	}
	return faults
}

func (d *detector) Op() detectors.Op        { return Op }
func (d *detector) Params() detectors.Words { return d.params }
func (d *detector) Window() int             { return 1 }
func (d *detector) Timed()                  {}

// Direct returns the op's CPU form.
func (d *detector) Direct() (fill func(r *detectors.Rows), inPlace bool) { return score, true }

// Left returns MinPoints less the residuals learnt. The first period, whose samples have no score either, has no number of samples.
func (d *detector) Left(carry detectors.Words) int {
	p := Params{Bins: d.p.Bins}
	return detectors.LeftOf(carry, p.Words(), d.p.MinPoints, Learnt)
}

// Size returns the scores and what else there is of a task. Dim counts the time.
func (d *detector) Size(v detectors.View) (n detectors.Outputs, ok bool) {
	if n, ok = d.Steady.Size(v); ok {
		p := Params{Bins: d.p.Bins}
		n.Carry, n.Detail = (v.Dim-1)*p.Words(), 2*(v.Dim-1)*v.Fresh
	}
	return n, ok
}

// Explain expects the level of the row's bin. The contribution of a value is its score divided by the sum of all.
func (d *detector) Explain(r detectors.Rows, fresh, since int, expected, contribution []float64) (detectors.Location, bool) {
	dim := r.Dim - 1
	row := r.X64[(r.Len()-r.Fresh+fresh)*r.Dim+1:]
	detail := r.Detail.F32()[2*fresh*dim:]
	sum := detectors.SharesOf(row, detail, 2, expected, contribution)
	if !(sum > 0) {
		return detectors.Location{}, false
	}
	most := detectors.Largest(contribution)
	return detectors.OneReading(r.Row(fresh), row[most]-expected[most], contribution[most]*sum), true
}

// Predict returns the level of the row's bin.
func (d *detector) Predict(r detectors.Rows, fresh int) (expected, spread float64) {
	detail := r.Detail.F32()[2*fresh:]
	return detectors.Predicted(r.X64[r.Row(fresh)*r.Dim+1], float64(detail[0]), float64(detail[1]))
}

// Describe returns the bin of the row, and how far off its level the field with the largest score is.
func (d *detector) Describe(r detectors.Rows, fresh int) detectors.Evidence {
	row, dim := r.Row(fresh), r.Dim-1
	tables, offsets := Table(r.Params[paramTables:]), r.Params.Int(paramOffsets)
	clock := &Clock{Week: d.p.Week, Bins: d.p.Bins, Offsets: tables[:offsets], Days: tables[offsets:]}
	name := "local time of day at the bin's begin, hours"
	hours := 24.0
	if d.p.Week {
		name, hours = "local time at the bin's begin, hours from Sunday 0:00", 168
	}
	bin := clock.Bin(int64(r.X64[row*r.Dim]))
	e := detectors.Evidence{From: row, To: row, Location: detectors.OneRow(row), Measures: []detectors.Measure{
		{Name: name, Field: detectors.AllFields, Value: hours * float64(bin) / float64(d.p.Bins)}}}
	detail := r.Detail.F32()[2*fresh*dim:]
	at := -1
	for c := range dim {
		if s := detail[2*c+1]; s == s && (at < 0 || s > detail[2*at+1]) {
			at = c
		}
	}
	if at < 0 {
		return e
	}
	off, score := -float64(detail[2*at]), float64(detail[2*at+1])
	e.Fields = detectors.OneHot(dim, at)
	e.Measures = append(e.Measures, detectors.Measure{Name: "difference from the bin's level", Field: at, Value: off})
	if score > 0 {
		e.Measures = append(e.Measures, detectors.Measure{Name: "usual difference", Field: at, Value: math.Abs(off) / score})
	}
	return e
}

func cpu(_ context.Context, r *detectors.Rows, _ detectors.Parallel) { score(r) }

// score scores and learns the fresh rows, value by value.
func score(r *detectors.Rows) {
	p := &Params{Bins: r.Params.Int(paramBins), Memory: r.Params.Int(paramMemory)}
	tables, offsets := Table(r.Params[paramTables:]), r.Params.Int(paramOffsets)
	clock := &Clock{Week: r.Params.Int(paramWeek) != 0, Bins: p.Bins, Offsets: tables[:offsets], Days: tables[offsets:]}
	dim, n := r.Dim-1, p.Words()
	if copy(r.Next, r.Carry) == 0 {
		clear(r.Next)
	}
	detail := r.Detail.F32()
	for i := range r.Scores {
		row := r.X64[(r.Len()-r.Fresh+i)*r.Dim:][:r.Dim]
		bin := clock.Bin(int64(row[0]))
		most := float32(math.NaN())
		for c, x := range row[1:] {
			state := r.Next[c*n:][:n]
			warm := Learnt(state) < r.Params.Int(paramMinPoints)
			sc := Step(p, state, bin, x)
			value := float32(sc.Deviation)
			if warm {
				value = float32(math.NaN())
			}
			if at := 2 * (i*dim + c); len(detail) > 0 {
				detail[at], detail[at+1] = float32(sc.Expected-x), value
			}
			if value > most || most != most {
				most = value
			}
		}
		r.Scores[i] = most
	}
}

func cost(r *detectors.Rows) int {
	return 50 + len(r.Next)/4 + r.Fresh*(20+30*(r.Dim-1))
}

// compare requires equal numbers up to roundings: 1e-5 of a score and of an expected value, and 1e-9 of a level.
func compare(r *detectors.Rows, got, want detectors.Result) error {
	faults := []error{detectors.CompareScores(got.Scores, want.Scores, 1e-6, 1e-5)}
	if len(got.Next) != len(want.Next) || len(got.Detail) != len(want.Detail) {
		return errors.Join(append(faults, fmt.Errorf("season: %d words of state and %d of detail where the definition leaves %d and %d",
			len(got.Next), len(got.Detail), len(want.Next), len(want.Detail)))...)
	}
	faults = append(faults, detectors.CompareScores(got.Detail.F32(), want.Detail.F32(), 1e-6, 1e-5))
	p := Params{Bins: r.Params.Int(paramBins), Memory: r.Params.Int(paramMemory)}
	for c := range r.Dim - 1 {
		if err := p.Compare(got.Next[c*p.Words():][:p.Words()], want.Next[c*p.Words():][:p.Words()], 1e-9); err != nil {
			faults = append(faults, fmt.Errorf("season: value %d: %w", c, err))
		}
	}
	return errors.Join(faults...)
}

// cases have a sample each 7,000 seconds or so, so that a week passes in 86 rows.
func cases(rng *rand.Rand) []detectors.Case {
	var cases []detectors.Case
	summer := Table(nil).Append(-1e9, 3600).Append(1_700_000_000, 7200).Append(1_700_300_000, -3600)
	holidays := Table(nil).Append(19677, 0).Append(19679, 6)
	times := detectors.Signal{Name: "time", At: func(i, _ int) float64 {
		return 1_699_999_000e6 + float64(i)*7e9 + float64(rng.Int64N(2e9))
	}}
	add := func(p OpParams, dim int, fresh []int, values ...detectors.Signal) *detectors.Case {
		p.Memory = cmp.Or(p.Memory, 100)
		if p.Offsets != nil && p.Week {
			p.Days = holidays
		}
		d := detectors.Must(New(p))
		timed := []detectors.Signal{times}
		for c := range dim {
			timed = append(timed, values[c%len(values)])
		}
		c := detectors.NewCase(fmt.Sprintf("bins %d, memory %d, week %v", p.Bins, p.Memory, p.Week), d, dim+1, rng.IntN(3), fresh, timed...)
		cases = append(cases, c)
		return &cases[len(cases)-1]
	}
	add(OpParams{Bins: 1}, 1, []int{30, 1, 16}, detectors.Signals(rng)[0])
	for _, s := range detectors.Signals(rng) {
		p := OpParams{Bins: 1 + rng.IntN(9), Memory: 1 + rng.IntN(5), MinPoints: rng.IntN(2), Week: rng.IntN(2) == 0}
		if rng.IntN(2) == 0 {
			p.Offsets = summer
		}
		add(p, 1, []int{30, 1, 1, 5, 16, 100}, s)
	}
	for _, dim := range []int{2, 3, 8, 9} {
		s := detectors.Signals(rng)
		rng.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
		add(OpParams{Bins: 5, Offsets: summer, Week: dim%2 == 0}, dim, []int{3, 1, 40, 16}, s...)
	}
	for _, fresh := range []int{1, 16} {
		add(OpParams{Offsets: summer}, 1, []int{fresh}, detectors.Signals(rng)[2]).Bench = true
	}
	add(OpParams{Bins: MostBins, Week: true, Offsets: summer}, 1, []int{16}, detectors.Signals(rng)[1])
	return cases
}
