package series

import (
	"slices"

	"odradek/detectors"
	"odradek/detectors/ensemble"
	"odradek/detectors/threshold"
	"odradek/processor/anomaly"
	"odradek/processor/state/rules"
)

// Setup is a DetectorConfig with what follows from it: the sizes of its tasks, the state that it
// has of a series, and the thresholds in force.
type Setup struct {
	DetectorConfig
	Index int32
	Op    detectors.Op
	Elem  detectors.Elem
	Grid  *Grid // of its window; nil: none
	Dim   int
	Width int   // values of a row of X: Dim, and the time of a detectors.Timed
	Fresh int32 // fresh rows of a task: the stride
	Full  int32 // rows of a task on a full window
	// See Steady.
	Steady   bool
	Every    int // the number of fresh rows of which one is scored, 1 without a Spaced
	From, To int
	Reads    int32             // successive rows that a score of a Steady is of; one that spans a gap says nothing
	MinRows  int32             // rows of the window from which on a sample is one of a task's fresh rows; 0: never
	Learner  detectors.Learner // a score that is NaN says that it is still learning; nil: it scores the first row
	Learnt   int64             // rows ever at which a sample has a score
	// Outputs of a task on a full window, and the most of any.
	Size, Most detectors.Outputs
	Params     detectors.Words
	Wide       detectors.Wide // the rows of a full window where a change of level makes a task wide

	// The reading in force has no such detector, or not on this window, or no such window: they take no samples yet. An
	// ensemble's hold for the score that Apply judges next.
	Absent, WindowAbsent bool
	// The reading in force has the detector, or its window, for other series than the configuration: these report those that
	// it does not read yet. nil: none.
	Unread, WindowUnread func(key []byte) bool

	Judged           bool                // has a threshold
	ThresholdInForce *threshold.Params   // in force for the score that Apply judges next
	Alarm            *rules.RulingAlarm  // in force for it, too
	Ruling           *rules.Ruling       // in force for the sample that Fold takes next
	Decided          bool                // Ruled is a decision; otherwise it is only what scores of earlier samples are judged by
	former           []*threshold.Params // of other histories
	Combined         *ensemble.Params    // of an ensemble; nil: it is none
	Gated            []string            // the names of an ensemble's members, by number; nil: it has no gates
	Seasonal         detectors.Seasonal  // of the gates of ensembles; nil: it is of none
	Carriers         []anomaly.Term      // the members of an ensemble that sums, by number; nil: none of them knows the reading of a score
	Explain          detectors.Explainer
	Predict          detectors.Predictor // nil: none, or of several values
	Locate           detectors.Locator
	Blocker          detectors.Blocker
	Valued           bool                 // its tasks' values are queued: a finding may say what was expected, or a guard asks for them
	HasScoreState    bool                 // a series has a ScoreState of it
	Followed         bool                 // its scores are more than rows: they are judged, or change a ScoreState
	Replays          bool                 // a state depends on the results of each task, so a replay scores it again
	Summary          *detectors.BinParams // of what leaves its window; nil: none
}

// Skips reports whether the detector takes no samples of a key yet, under the reading in force.
func (d *Setup) Skips(key []byte) bool { return d.Absent || d.Unread != nil && d.Unread(key) }

// Ended reports whether the detector does not score the newest of a window's samples any more. fresh is the number of those that
// wait for the stride.
func (d *Setup) Ended(count int64, fresh int32) bool {
	return d.Until > 0 && count > d.Until && fresh == 0
}

// NewSetup derives the setup of the detector at index in the configuration, on a window of
// dim columns. MinRows is 0 if it never scores, or would make tasks that are refused.
func NewSetup(index int, c *DetectorConfig, dim int) *Setup {
	op := c.Detector.Op()
	d := &Setup{
		DetectorConfig: *c, Index: int32(index), Op: op, Elem: op.Elem(), Dim: dim, Width: dim, Fresh: int32(c.Stride),
		Full: int32(detectors.TaskRows(c.Detector, c.Stride)), Params: c.Detector.Params(), Every: c.every(),
	}
	if _, timed := c.Detector.(detectors.Timed); timed {
		d.Width++
	}
	if z, ok := c.Detector.(detectors.Summarizer); ok {
		d.Summary = z.Summary(dim)
	}
	if m, ok := c.Detector.(detectors.Modelled); ok {
		d.Wide = m.Wide()
	} else if wide := op.Spec().Wide; wide != nil {
		if d.Wide = wide(d.Params); d.Wide == detectors.WideFresh && d.Summary != nil {
			d.Wide = detectors.WideAll // the densities of all rows set the summary's densities
		}
	}
	d.Blocker, _ = c.Detector.(detectors.Blocker)
	if r, ok := c.Detector.(Steady); ok && d.Blocker == nil { // a block is about all rows of X
		d.Steady = true
		d.From, d.To = r.Reach()
		d.Reads = int32(d.From) + 1
		if z, ok := c.Detector.(detectors.Spanning); ok {
			d.Reads = max(d.Reads, int32(z.Span()))
		}
	}
	// The first task has a stride of fresh rows, of which the first may have none before it.
	for rows := d.Fresh; rows <= d.Full && d.MinRows == 0; rows++ {
		if _, ok := c.Detector.Size(detectors.View{Dim: d.Width, Rows: int(rows), Fresh: c.Stride}); ok {
			d.MinRows = rows - d.Fresh + 1
		}
	}
	if d.MinRows == 0 {
		return d
	}
	d.Learnt = int64(d.MinRows)
	if z, ok := c.Detector.(detectors.Learner); ok {
		d.Learner = z
		d.Learnt += int64(z.Left(nil))
	}
	if d.Dim == 1 {
		d.Predict, _ = d.Detector.(detectors.Predictor)
	}
	if d.judge(); d.Judged {
		d.Explain, _ = d.Detector.(detectors.Explainer)
		d.Locate, _ = d.Detector.(detectors.Locator)
		d.Valued = d.Valued || d.Events != nil && (d.Explain != nil || d.Locate != nil || !d.Steady)
	}
	for rows := d.MinRows + d.Fresh - 1; rows <= d.Full; rows++ {
		size, ok := c.Detector.Size(detectors.View{Dim: d.Width, Rows: int(rows), Fresh: c.Stride})
		if !ok {
			d.MinRows = 0 // would make tasks that are refused
			return d
		}
		d.Size = size
		d.Most.Scores, d.Most.Carry = max(d.Most.Scores, size.Scores), max(d.Most.Carry, size.Carry)
		d.Most.Detail = max(d.Most.Detail, size.Detail)
	}
	d.HasScoreState = d.Smooth.Size() > 0
	d.Followed = d.Judged || d.HasScoreState
	d.Replays = d.Followed || d.Most.Carry > 0
	return d
}

// levelsBytes returns the memory of a series' levels.
func (d *Setup) levelsBytes() int {
	switch {
	case d.Wide != detectors.WideAll && d.Wide != detectors.WideCourse:
		return 0
	case d.Dim > 1:
		return levelsBytes + d.Dim*levelBytes
	}
	return levelsBytes
}

// newEnsemble derives the setup of the ensemble at index in the configuration, and has its members
// feed it. Neighbouring scores are about the same samples as far as the scores of any member.
func newEnsemble(index int, c *DetectorConfig, setups []*Setup) *Setup {
	d := &Setup{DetectorConfig: *c, Index: int32(index), Dim: len(c.Ensemble.Members), HasScoreState: true, Followed: true}
	for _, i := range c.Ensemble.Members {
		m := setups[i]
		m.Followed, m.Replays = true, true
		d.From = max(d.From, m.From+m.smoothed())
		if c.Ensemble.Gates != nil {
			d.Gated = append(d.Gated, m.Name)
		}
	}
	for _, g := range c.Ensemble.Gates {
		m := setups[g.Detector]
		m.Followed, m.Replays = true, true
		m.Seasonal, _ = m.Detector.(detectors.Seasonal)
	}
	d.Combined = c.Ensemble.Combination(func(i int) *DetectorConfig { return &setups[i].DetectorConfig })
	if d.judge(); d.Judged && d.Events != nil && !c.Ensemble.Any {
		d.carry(setups)
	}
	return d
}

// carry has the members that know the reading of a score say so.
func (d *Setup) carry(setups []*Setup) {
	known := false
	terms := make([]anomaly.Term, d.Dim)
	for k, i := range d.Ensemble.Members {
		m := setups[i]
		m.Explain, _ = m.Detector.(detectors.Explainer)
		m.Locate, _ = m.Detector.(detectors.Locator)
		if m.Explain != nil || m.Locate != nil || !m.Steady {
			m.Valued, known = true, true
		}
		terms[k] = anomaly.Term{Member: m.Name, Lagged: d.Combined.Lags != nil && d.Combined.Lags[k] > 0, Ahead: m.Every > 1}
	}
	if known {
		d.Carriers = terms
	}
}

// judge sets up how scores are judged.
func (d *Setup) judge() {
	if d.Judged = d.Threshold != nil && d.Threshold.Size() > 0; d.Judged {
		d.Threshold = d.configured()
		d.Follow(d.Configured(), false)
		d.ThresholdInForce, d.Alarm = d.InForce()
	}
}

// Combination returns the parameters of an ensemble, given the configuration of each of its members.
func (c *Ensemble) Combination(config func(member int) *DetectorConfig) *ensemble.Params {
	p := &ensemble.Params{Members: len(c.Members), Max: c.Max, Any: c.Any, Memory: c.Memory, MinPoints: c.MinPoints, Span: 1,
		Weights: c.Weights, OnlyWith: c.OnlyWith}
	for _, g := range c.Gates {
		p.Gates, p.Span = append(p.Gates, g.Above), max(p.Span, config(g.Detector).Stride)
	}
	middles, most := make([]int, len(c.Members)), 0 // in half rows before the newest
	every := make([]int, len(c.Members))
	for k, i := range c.Members {
		m := config(i)
		p.Span = max(p.Span, m.Stride)
		if r, ok := m.Detector.(Steady); ok {
			from, to := r.Reach()
			middles[k] = from + to
		}
		every[k] = m.every()
		middles[k] += m.smoothed() - (every[k] - 1) // a score is for the rows before it, too
		most = max(most, middles[k])
	}
	if !c.Any && slices.Max(every) > 1 {
		p.Every = every
	}
	if c.Align {
		for k, middle := range middles {
			p.Lags = append(p.Lags, (most-middle)/2/every[k])
		}
	}
	return p
}

// Scores returns the number of scores of a steady task.
func (d *Setup) Scores() int { return (int(d.Fresh)-1)/d.Every + 1 }

// Scored returns which score of a steady task belongs to a fresh row; false where the row has none.
func (d *Setup) Scored(row int) (score int, ok bool) {
	if d.Every == 1 {
		return row, true
	}
	back := int(d.Fresh) - 1 - row
	return d.Scores() - 1 - back/d.Every, back%d.Every == 0
}

// every returns the number of rows of which one has a score, at most.
func (c *DetectorConfig) every() int {
	if s, ok := c.Detector.(Spaced); ok {
		return max(1, min(s.Every(), c.Stride))
	}
	return 1
}

// smoothed returns the rows from the first score of a mean to the last.
func (c *DetectorConfig) smoothed() int { return (max(1, int(c.Smooth)) - 1) * c.every() }

// configured returns the configured threshold of a detector: neighbouring scores that
// are about the same samples are one event in the history.
func (d *Setup) configured() *threshold.Params {
	r := *d.DetectorConfig.Threshold
	if r.Decluster == 0 {
		r.Decluster = (d.From + 1 + d.smoothed() + d.every() - 1) / d.every()
	}
	return &r
}

// Configured returns the ruling that the detector is to have.
func (d *Setup) Configured() *rules.Ruling {
	return &rules.Ruling{Threshold: d.Threshold, Alarm: rules.RulingAlarm{MaxP: d.MaxP, Guard: d.Guard, Events: d.Events, Shadow: d.Shadow}}
}

// RulingDiffers reports whether the detector's configured ruling is not in force.
func (d *Setup) RulingDiffers() bool {
	return d.Judged && !(d.Decided && d.Ruling.Equal(d.Configured()))
}

// Reconfigure gives the detector the threshold, the guard, the policy of anomalies and the mode of another configuration. It
// does not change whether its scores are judged, or make anomalies.
func (d *Setup) Reconfigure(c *DetectorConfig) {
	if d.Judged && c.Threshold != nil {
		d.DetectorConfig.Threshold, d.MaxP, d.Guard, d.Shadow = c.Threshold, c.MaxP, c.Guard, c.Shadow
		d.Threshold = d.configured()
		if d.Events != nil && c.Events != nil {
			d.Events = c.Events
		}
	}
}

// Follow puts a ruling in force for the next sample. decided says whether it is a decision.
func (d *Setup) Follow(r *rules.Ruling, decided bool) {
	d.Ruling, d.Decided = r, decided
	_, a := d.InForce()
	d.Valued = d.Valued || a.Guard != nil // for good: tasks are queued
}

// InForce returns what Ruled means for this detector: it makes no anomalies where the configuration has none, and has
// no guard that its fields do not fit, of a configuration before.
func (d *Setup) InForce() (*threshold.Params, *rules.RulingAlarm) {
	a := &d.Ruling.Alarm
	fits := a.Guard == nil || d.Combined == nil && d.Grid == nil &&
		!slices.ContainsFunc(a.Guard.Gates, func(g rules.Gate) bool { return g.Field >= d.Dim })
	if fits && (a.Events == nil) == (d.Events == nil) {
		return d.Ruling.Threshold, a
	}
	fitted := *a
	if !fits {
		fitted.Guard = nil
	}
	if d.Events == nil || a.Events == nil {
		fitted.Events = nil
	}
	return d.Ruling.Threshold, &fitted
}

// thresholdLike returns a threshold of the kind, the value and the span of want whose states have the form of one in a head, with so
// many numbers of a history; nil if there is none.
func (d *Setup) thresholdLike(want threshold.Params, history int) *threshold.Params {
	want.Bounded = d.Threshold.Bounded // of the op, which is the same
	if want.History = history; want.Span > 0 {
		want.History-- // the history is spread over time, and has one number more
	}
	if d.Threshold.Like(&want) {
		return d.Threshold
	}
	for _, r := range d.former {
		if r.Like(&want) {
			return r
		}
	}
	if !want.Sound() {
		return nil
	}
	r := &want
	d.former = append(d.former, r)
	return r
}
