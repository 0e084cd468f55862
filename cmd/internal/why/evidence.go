package why

import (
	"context"
	"math"
	"slices"

	"odradek/detectors"
	"odradek/detectors/threshold"
	"odradek/processor/state"
	"odradek/processor/state/series"
)

// explainer takes the evidence of a score from a fold.
type explainer struct {
	c       *Config
	anomaly *found
	s       *source
	samples []sample // that are folded
	first   int64    // offset of the first record
	folded  *folded
	reads   func(detector int) bool
	offsets bool            // the samples have their own offsets
	real    map[int64]int64 // without them, the offset of each
	task    detectors.Rows  // of the detector's own score
	fresh   int
	smooth  bool
	judged  Number // the detector's own score, as it was judged
}

// narrow restricts ex to the scores of an aligned window, whose rows are given, instead of the scores of all samples that were read.
func (ex *explainer) narrow(w *aligned, rows []state.Row, detector int) {
	n := len(w.samples)
	ex.real = make(map[int64]int64, n)
	for k := w.filler; k < n; k++ {
		ex.real[w.samples[k].offset] = rows[w.end-n+k].Offset
	}
	ex.samples, ex.first, ex.folded, ex.offsets = w.samples, ex.c.State.Record(w.samples[0].offset), w.folded, false
	ex.reads = func(d int) bool { return d == detector }
}

// place returns the sample's offset in the log.
func (ex *explainer) place(offset int64) int64 {
	if !ex.offsets {
		return ex.real[offset]
	}
	return offset
}

// explain folds the samples once more, and takes what the score of the sample at offset was computed from, and where the
// detector is an ensemble, what its members' scores were.
func (ex *explainer) explain(ctx context.Context, detector int, offset int64) (*Explanation, error) {
	seen := map[int]*Explanation{}
	var terms, shares []float64
	var turnedAway uint64
	watch := func(w *state.Watched) {
		if w.Offset != offset {
			return
		}
		d := int(w.Detector)
		seen[d] = ex.describe(d, w)
		if d == detector {
			terms, shares, turnedAway = w.Terms, w.Shares, w.TurnedAway
			ex.judged = Number(w.Judged)
			if c := &ex.c.State.Detectors[d]; c.Ensemble == nil {
				ex.task, ex.fresh, ex.smooth = clone(&w.Task), w.Fresh, c.Smooth > 1
			}
		}
	}
	state := ex.c.foldConfig(ex.anomaly.key, ex.reads, watch)
	if !ex.offsets {
		inOrder(state)
	}
	if _, err := ex.c.fold(ctx, state, ex.s, ex.samples, ex.first); err != nil {
		return nil, err
	}
	e := seen[detector]
	if e == nil {
		return nil, nil
	}
	if ensemble := ex.c.State.Detectors[detector].Ensemble; ensemble != nil {
		e.any, e.max = ensemble.Any, ensemble.Max
		for k, i := range ensemble.Members {
			m := Member{Detector: ex.c.State.Detectors[i].Name, Score: none, Share: none, Term: Number(terms[k]), Of: seen[i],
				TurnedAway: turnedAway>>k&1 != 0}
			if m.Of != nil {
				m.Score = m.Of.Judged
			} else if ensemble.Any {
				m.Term = none
			}
			if shares != nil {
				m.Share = Number(shares[k])
			}
			e.Members = append(e.Members, m)
		}
	}
	return e, nil
}

// clone copies a task's outputs and its inputs.
func clone(r *detectors.Rows) detectors.Rows {
	c := *r
	c.X, c.X64, c.XI = slices.Clone(r.X), slices.Clone(r.X64), slices.Clone(r.XI)
	c.Bins, c.Bins64 = slices.Clone(r.Bins), slices.Clone(r.Bins64)
	c.Carry, c.Scores, c.Next, c.Detail = slices.Clone(r.Carry), slices.Clone(r.Scores), slices.Clone(r.Next), slices.Clone(r.Detail)
	return c
}

// describe returns the explanation of a watched score.
func (ex *explainer) describe(detector int, w *state.Watched) *Explanation {
	d := &ex.c.State.Detectors[detector]
	e := &Explanation{Detector: d.Name, Op: opName(d), Settings: ex.c.Settings(detector), Fields: d.Fields, Score: Number(w.Score),
		Judged: Number(w.Judged), Threshold: Number(threshold.Published(w.Threshold)), Rank: positive(w.Rank),
		From: at(w.About), Until: at(w.Until),
		Expected: numbers(w.Expected), Actual: numbers(w.Actual), Contribution: numbers(w.Contribution),
		Sample: Sample{Offset: ex.c.State.Record(ex.place(w.Offset)), Time: at(w.Time)}, Scored: [2]int{-1, -1}}
	if w.Deviation != nil {
		reading := at(w.Deviation.At)
		e.Reading = &reading
	}
	if own := ex.valuesAt(w.Offset); own != nil {
		e.Sample.Values = numbers(own)
	}
	if d.Ensemble != nil {
		return e
	}
	for i, f := range d.Fields {
		if unit := ex.c.State.UnitOf(ex.anomaly.key, f); unit != "" {
			if e.Units == nil {
				e.Units = make([]string, len(d.Fields))
			}
			e.Units[i] = unit
		}
	}
	y, ok := d.Detector.(detectors.Describer)
	if !ok {
		return e
	}
	v := y.Describe(w.Task, w.Fresh)
	grid := ex.c.State.Windows[d.Window].Grid
	if grid == nil {
		ex.addWindow(e, d, w, &v)
	}
	if e.Contribution == nil {
		e.Contribution = numbers(v.Fields)
	}
	for _, m := range v.Measures {
		field := ""
		if m.Field >= 0 && m.Field < len(d.Fields) && grid == nil { // a grid's are its cells'
			field = d.Fields[m.Field]
		}
		e.Measures = append(e.Measures, Measure{m.Name, field, Number(m.Value)})
	}
	for _, r := range v.Directions {
		e.Directions = append(e.Directions, Direction{Number(r.Strength), Number(r.Weight), r.Counts})
	}
	for _, r := range v.Regions {
		e.Regions = append(e.Regions, Region{Columns: [2]int{r.From[1], r.To[1]}, Rows: [2]int{r.From[0], r.To[0]}, Observed: r.Observed,
			Expected: Number(r.Expected), Ratio: Number(r.Ratio), P: Number(r.P)})
	}
	if p := d.Detector.Params(); len(v.Regions) > 0 && p.Int(0) > 0 {
		e.Cells = cells(&w.Task, p.Int(0), d.Detector.Window())
	}
	return e
}

// cells returns the counts of the last n cells of a task, in rows of the given number of columns.
func cells(r *detectors.Rows, columns, n int) *Cells {
	c := &Cells{Columns: columns}
	for i := max(0, r.Len()-n) * r.Dim; i < len(r.XI); i += r.Dim {
		c.Counts = append(c.Counts, r.XI[i])
		if r.Dim > 1 {
			c.Baselines = append(c.Baselines, r.XI[i+1])
		}
	}
	return c
}

// valuesAt returns the values of the series' folded sample at an offset; nil: there is none.
func (ex *explainer) valuesAt(offset int64) []float64 {
	i, ok := slices.BinarySearchFunc(ex.samples, offset, func(s sample, o int64) int { return int(max(-1, min(1, s.offset-o))) })
	if !ok {
		return nil
	}
	return ex.samples[i].values
}

// addWindow adds the samples of a task's rows, and which of them the evidence names. The detector's rows say which samples
// were in its window, in order: each has one.
func (ex *explainer) addWindow(e *Explanation, d *series.DetectorConfig, w *state.Watched, v *detectors.Evidence) {
	rows := ex.folded.rows[w.Detector]
	i := slices.IndexFunc(rows, func(r state.Row) bool { return r.Offset == w.Offset })
	if i < 0 {
		return
	}
	newest := i + w.Task.Fresh - 1 - w.Fresh
	oldest := newest + 1 - w.Task.Len() // of X, among rows
	if newest >= len(rows) {
		return
	}
	columns := ex.c.State.Windows[d.Window].Columns
	sampleAt := func(row int) *Sample { // of X
		k := oldest + row
		if k < 0 || k >= len(rows) {
			return nil
		}
		s := &Sample{Offset: ex.c.State.Record(ex.place(rows[k].Offset)), Time: at(rows[k].Time)}
		values := ex.valuesAt(rows[k].Offset)
		for _, c := range columns {
			if values == nil {
				s.Values = append(s.Values, none)
				continue
			}
			s.Values = append(s.Values, Number(values[c]))
		}
		return s
	}
	for row := range w.Task.Len() {
		if s := sampleAt(row); s != nil {
			e.Window = append(e.Window, *s)
		}
	}
	lost := w.Task.Len() - len(e.Window)
	e.Scored = [2]int{v.From - lost, v.To - lost}
	if own := sampleAt(w.Task.Row(w.Fresh)); own != nil && e.Actual == nil {
		e.Actual = own.Values
	}
	e.Rows, e.RowsFrom = numbers(v.Rows), v.RowsFrom-lost
	for _, p := range v.Inputs {
		in := Input{Role: p.Role, Number: p.Number, Distance: Number(p.Distance), From: -1, To: -1}
		if p.From != detectors.Outside {
			in.From, in.To = p.From-lost, p.To-lost
			in.First, in.Last = sampleAt(p.From), sampleAt(p.To)
		}
		e.Inputs = append(e.Inputs, in)
	}
}

// ensembleTolerance is how far a recomputed score of an ensemble may be from the published one: a sum of logarithms of ratios, or the
// highest, that are as exact as the members' scores; of any, as a share of the ratio.
const ensembleTolerance = 1e-2

// within reports whether the published score is equal to the recomputed one by the op's own comparison.
func (ex *explainer) within(d *series.DetectorConfig, published Number) bool {
	if !published.known() || !ex.judged.known() {
		return false
	}
	if d.Ensemble != nil {
		tolerance := ensembleTolerance
		if d.Ensemble.Any {
			tolerance *= max(1, float64(published))
		}
		return math.Abs(float64(ex.judged-published)) <= tolerance
	}
	if _, steady := d.Detector.(series.Steady); ex.smooth || !steady {
		return math.Abs(float64(ex.judged-published)) <= 1e-5*max(1, math.Abs(float64(published)))
	}
	r := &ex.task
	got := detectors.Result{Scores: slices.Clone(r.Scores), Next: r.Next, Detail: r.Detail}
	got.Scores[ex.fresh] = float32(published)
	return d.Detector.Op().Spec().Compare(r, got, detectors.Result{Scores: r.Scores, Next: r.Next, Detail: r.Detail}) == nil
}
