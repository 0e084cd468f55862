package season

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"odradek/detectors"
)

// This file is op band. The method is Band.

// OpBand scores how improbable a sample and the last ones are by the time of a period that the series shows.
const OpBand detectors.Op = 14

var bandSpec = detectors.Spec{
	Name: "band", Elem: detectors.F64,
	Finds: "improbable at this time, alone or with the readings before",
	Help: "Finds readings, drifts, changes of noise and missing peaks or jobs that are unusual for the time of the period that a " +
		"series shows by itself: hour, day, week or another. The score is -ln of the probability of readings as unusual, of " +
		"several fields the largest; 0 is ordinary. A field has 36 KB of state.",
	Params: []detectors.Param{
		{Name: "RATE", Type: detectors.Float, Default: 0.0003, Min: 1e-6, Max: 0.1, Word: 1,
			Help:    "Rate of false alarms per sample, the default of THRESHOLD. Samples above ln(6/RATE) are learnt at a tenth of the weight.",
			Example: "0.0001"},
		{Name: "MIN_POINTS", Type: detectors.Int, Default: 64, Min: intervals, Max: 1 << 24, Word: 2,
			Help: "Samples to learn from before the first score.", Example: "500"},
		// The rest is made from settings by who makes the detector.
		{Name: "OFFSETS", Type: detectors.Int, Word: 3},
		{Name: "TABLES", Type: detectors.Ints, Word: 4},
	},
	Defaults: []detectors.Default{
		{Name: "THRESHOLD", Value: func(v detectors.Values) string { return fmt.Sprintf("fixed:%.4g", bandThreshold(v.Float("RATE"))) },
			Words: "ln(6/RATE)"},
	},
	New: func(v detectors.Values) (detectors.Detector, error) {
		return NewBand(BandParams{Rate: v.Float("RATE"), MinPoints: v.Int("MIN_POINTS")})
	},
	Score: func(r detectors.Rows) { scoreBand(&r) }, CPU: bandCPU, Cost: bandCost, Compare: compareBand, Cases: bandCases,
}

func init() { detectors.Register(OpBand, &bandSpec) }

// bandThreshold is the score that has a rate of false alarms.
func bandThreshold(rate float64) float64 { return math.Log(6 / rate) }

// BandParams are the parameters of op band; 0 means the default.
type BandParams struct {
	Rate      float64 // of false alarms per sample, default 0.0003
	MinPoints int     // samples before the first score, default 64
	Offsets   Table   // of the zone, see Clock; nil: UTC
	Days      Table   // dates that count as another day of the week, see Clock
}

type band struct {
	detectors.Steady
	params detectors.Words
	p      BandParams
}

// The parameters of a task: the tables follow, first the one of offsets.
const (
	bandRate = iota
	bandMinPoints
	bandOffsets // words of the table
	bandTables
)

// bandDetail is the number of words of Detail for each value of a fresh row.
const bandDetail = 5

// NewBand returns the detector of op band. Each value of a row is scored on its own; the row's score is the largest of theirs, and
// NaN if none has one.
//
// The detector is detectors.Timed: a row begins with its time. The carry is the state of each value's series (BandWords). Detail has for
// each value of each fresh row expected less actual, the value's score and the usual deviation as float32s, and the period and the
// statistic as int32s. Rows are float64 and not centred.
//
// The error names every fault of the parameters.
func NewBand(p BandParams) (detectors.Detector, error) {
	var faults []error
	if p.Rate == 0 {
		p.Rate = .0003
	}
	if !(p.Rate >= 1e-6 && p.Rate <= 0.1) {
		faults = append(faults, fmt.Errorf("rate is %v false alarms per sample, use 0.000001 to 0.1", p.Rate))
	}
	if p.MinPoints == 0 {
		p.MinPoints = 64
	}
	if p.MinPoints < intervals || p.MinPoints > 1<<24 {
		faults = append(faults, fmt.Errorf("%d samples before a score, use %d to %d", p.MinPoints, intervals, 1<<24))
	}
	faults = append(faults, ascending(p.Offsets, p.Days)...)
	if len(faults) > 0 {
		return nil, fmt.Errorf("season: band: %w", errors.Join(faults...))
	}
	if p.Offsets.Len() == 0 {
		p.Offsets = Table(nil).Append(0, 0)
	}
	d := &band{detectors.Steady{Least: 1}, make(detectors.Words, bandTables), p}
	d.params.SetFloat32(bandRate, float32(p.Rate))
	d.params.SetInt(bandMinPoints, p.MinPoints)
	d.params.SetInt(bandOffsets, len(p.Offsets))
	d.params = append(append(d.params, p.Offsets...), p.Days...)
	return d, nil
}

func (b *band) Op() detectors.Op        { return OpBand }
func (b *band) Params() detectors.Words { return b.params }
func (b *band) Window() int             { return 1 }
func (b *band) Timed()                  {}

// Direct returns the op's CPU form: to copy the state takes as long as some samples.
func (b *band) Direct() (fill func(r *detectors.Rows), inPlace bool) { return scoreBand, true }

// Left returns MinPoints less the samples seen.
func (b *band) Left(carry detectors.Words) int {
	return detectors.LeftOf(carry, BandWords, b.p.MinPoints, BandSeen)
}

// InSeason reports whether each value has a period in use.
func (b *band) InSeason(carry detectors.Words) bool {
	for at := 0; at < len(carry); at += BandWords {
		if !BandInSeason(carry[at:]) {
			return false
		}
	}
	return len(carry) > 0
}

// Size returns the scores and what else there is of a task. Dim counts the time.
func (b *band) Size(v detectors.View) (n detectors.Outputs, ok bool) {
	if n, ok = b.Steady.Size(v); ok {
		n.Carry, n.Detail = (v.Dim-1)*BandWords, bandDetail*(v.Dim-1)*v.Fresh
	}
	return n, ok
}

// bandDetailOf returns the words of Detail of a value of a fresh row.
func bandDetailOf(r *detectors.Rows, fresh, field int) detectors.Words {
	return r.Detail[bandDetail*(fresh*(r.Dim-1)+field):][:bandDetail]
}

// Explain expects what the period has. The contribution of a value is its score divided by the sum of all.
func (b *band) Explain(r detectors.Rows, fresh, _ int, expected, contribution []float64) (detectors.Location, bool) {
	row := r.X64[r.Row(fresh)*r.Dim+1:]
	if !(detectors.SharesOf(row, r.Detail.F32()[bandDetail*fresh*(r.Dim-1):], bandDetail, expected, contribution) > 0) {
		return detectors.Location{}, false
	}
	p := detectors.OneRow(r.Row(fresh))
	p.Spread = float64(bandDetailOf(&r, fresh, detectors.Largest(contribution)).Float32(2))
	return p, true
}

// Predict returns what the period in use expects, from the first score on.
func (b *band) Predict(r detectors.Rows, fresh int) (expected, spread float64) {
	w := bandDetailOf(&r, fresh, 0)
	if score := w.Float32(1); score != score {
		return math.NaN(), math.NaN()
	}
	return r.X64[r.Row(fresh)*r.Dim+1] + float64(w.Float32(0)), float64(w.Float32(2))
}

// statisticName says what a statistic is.
func statisticName(k int) string {
	switch {
	case k == ofInnovation:
		return "the innovation"
	case k >= ofMeans && k < ofSpread:
		return fmt.Sprintf("the mean of about %v differences", 1/meanWeights[k-ofMeans])
	case k >= ofSpread && k < ofBin:
		return fmt.Sprintf("the noise of about %v samples", 1/spreadWeights[k-ofSpread])
	case k == ofBin:
		return "the mean of a bin"
	case k == ofExtremes:
		return "the largest or smallest of three bins"
	case k >= ofQuiet:
		return "less noise than usual"
	}
	return "none"
}

// Describe returns the period in use, the expected value with its usual deviation, and which statistic has the score, of the field with the
// largest score.
func (b *band) Describe(r detectors.Rows, fresh int) detectors.Evidence {
	row := r.Row(fresh)
	e := detectors.Evidence{From: row, To: row, Location: detectors.OneRow(row)}
	at := -1
	for c := range r.Dim - 1 {
		if s := bandDetailOf(&r, fresh, c).Float32(1); s == s && (at < 0 || s > bandDetailOf(&r, fresh, at).Float32(1)) {
			at = c
		}
	}
	if at < 0 {
		return e
	}
	w := bandDetailOf(&r, fresh, at)
	e.Fields = detectors.OneHot(r.Dim-1, at)
	period := "none"
	if k := w.Int(3); k >= 0 {
		period = candidates[k].name
	}
	unit := float64(w.Float32(2))
	measure := func(name string, v float64) {
		e.Measures = append(e.Measures, detectors.Measure{Name: name, Field: at, Value: v})
	}
	measure("difference from the expected value, period: "+period, -float64(w.Float32(0)))
	measure("usual difference", unit)
	measure("-ln of the probability of "+statisticName(w.Int(4)), float64(w.Float32(1)))
	return e
}

func bandCPU(_ context.Context, r *detectors.Rows, _ detectors.Parallel) { scoreBand(r) }

// scoreBand scores and learns the fresh rows, value by value.
func scoreBand(r *detectors.Rows) {
	tables, offsets := Table(r.Params[bandTables:]), r.Params.Int(bandOffsets)
	b := &Band{Threshold: bandThreshold(float64(r.Params.Float32(bandRate))), MinPoints: r.Params.Int(bandMinPoints),
		Clock: Clock{Offsets: tables[:offsets], Days: tables[offsets:]}}
	if copy(r.Next, r.Carry) == 0 {
		clear(r.Next)
	}
	for i := range r.Scores {
		r.Scores[i] = float32(math.NaN())
	}
	var s bandState
	for c := range r.Dim - 1 {
		s.open(r.Next[c*BandWords:][:BandWords])
		for i := range r.Scores {
			row := r.X64[r.Row(i)*r.Dim:]
			x := row[1+c]
			early := int(s.seen) < b.MinPoints
			sc := b.score(&s, int64(row[0]), x)
			score := float32(sc.Score)
			if early {
				score = float32(math.NaN())
			}
			if len(r.Detail) > 0 {
				w := bandDetailOf(r, i, c)
				w.SetFloat32(0, float32(sc.Expected-x))
				w.SetFloat32(1, score)
				w.SetFloat32(2, float32(sc.Unit))
				w.SetInt(3, sc.Period)
				w.SetInt(4, sc.Statistic)
			}
			if score > r.Scores[i] || r.Scores[i] != r.Scores[i] {
				r.Scores[i] = score
			}
		}
		s.close()
	}
}

func bandCost(r *detectors.Rows) int {
	return 50 + len(r.Next)/4 + (r.Dim-1)*(1000+1500*r.Fresh)
}

// compareBand requires equal bits of the state: choices of a period depend on the last one.
func compareBand(_ *detectors.Rows, got, want detectors.Result) error {
	if len(got.Next) != len(want.Next) || len(got.Detail) != len(want.Detail) {
		return fmt.Errorf("season: band: %d words of state and %d of detail where the definition leaves %d and %d",
			len(got.Next), len(got.Detail), len(want.Next), len(want.Detail))
	}
	faults := []error{detectors.CompareScores(got.Scores, want.Scores, 1e-6, 1e-5)}
	for name, words := range map[string][2]detectors.Words{"state": {got.Next, want.Next}, "detail": {got.Detail, want.Detail}} {
		for i, w := range words[1] {
			if g := words[0][i]; g != w {
				faults = append(faults, fmt.Errorf("season: band: word %d of the %s is %#x, the definition has %#x", i, name, g, w))
				break
			}
		}
	}
	return errors.Join(faults...)
}

// bandCases have a sample each 700 seconds or so.
func bandCases(rng *rand.Rand) []detectors.Case {
	var cases []detectors.Case
	summer := Table(nil).Append(-1e9, 3600).Append(1_700_000_000, 7200).Append(1_700_300_000, -3600)
	holidays := Table(nil).Append(19677, 0).Append(19679, 6)
	times := detectors.Signal{Name: "time", At: func(i, n int) float64 {
		at := 1_699_999_000e6 + float64(i)*700e6 + float64(rng.Int64N(20e6))
		if i > n/2 {
			at += 9000e6 // a gap
		}
		return at
	}}
	add := func(p BandParams, dim int, fresh []int, values ...detectors.Signal) *detectors.Case {
		d := detectors.Must(NewBand(p))
		timed := []detectors.Signal{times}
		for c := range dim {
			timed = append(timed, values[c%len(values)])
		}
		cases = append(cases, detectors.NewCase(fmt.Sprintf("rate %v", p.Rate), d, dim+1, rng.IntN(3), fresh, timed...))
		return &cases[len(cases)-1]
	}
	for _, s := range detectors.Signals(rng) {
		p := BandParams{Rate: 1e-5 + 0.01*rng.Float64(), MinPoints: 32 + rng.IntN(32)}
		if rng.IntN(2) == 0 {
			p.Offsets, p.Days = summer, holidays
		}
		add(p, 1, []int{300, 1, 1, 5, 16, 100, 700}, s)
	}
	for _, dim := range []int{2, 5} {
		s := detectors.Signals(rng)
		rng.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
		add(BandParams{Offsets: summer}, dim, []int{3, 1, 100, 16}, s...)
	}
	for _, fresh := range []int{1, 16} {
		add(BandParams{Offsets: summer}, 1, []int{fresh}, detectors.Signals(rng)[2]).Bench = true
	}
	return cases
}
