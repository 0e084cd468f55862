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
func (s *Setup) Skips(key []byte) bool { return s.Absent || s.Unread != nil && s.Unread(key) }

// Ended reports whether the detector does not score the newest of a window's samples any more. fresh is the number of those that
// wait for the stride.
func (s *Setup) Ended(count int64, fresh int32) bool {
	return s.Until > 0 && count > s.Until && fresh == 0
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
func (s *Setup) levelsBytes() int {
	switch {
	case s.Wide != detectors.WideAll && s.Wide != detectors.WideCourse:
		return 0
	case s.Dim > 1:
		return levelsBytes + s.Dim*levelBytes
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
func (s *Setup) carry(setups []*Setup) {
	known := false
	terms := make([]anomaly.Term, s.Dim)
	for k, i := range s.Ensemble.Members {
		m := setups[i]
		m.Explain, _ = m.Detector.(detectors.Explainer)
		m.Locate, _ = m.Detector.(detectors.Locator)
		if m.Explain != nil || m.Locate != nil || !m.Steady {
			m.Valued, known = true, true
		}
		terms[k] = anomaly.Term{Member: m.Name, Lagged: s.Combined.Lags != nil && s.Combined.Lags[k] > 0, Ahead: m.Every > 1}
	}
	if known {
		s.Carriers = terms
	}
}

// judge sets up how scores are judged.
func (s *Setup) judge() {
	if s.Judged = s.Threshold != nil && s.Threshold.Size() > 0; s.Judged {
		s.Threshold = s.configured()
		s.Follow(s.Configured(), false)
		s.ThresholdInForce, s.Alarm = s.InForce()
	}
}

// Combination returns the parameters of an ensemble, given the configuration of each of its members.
func (e *Ensemble) Combination(config func(member int) *DetectorConfig) *ensemble.Params {
	p := &ensemble.Params{Members: len(e.Members), Max: e.Max, Any: e.Any, Memory: e.Memory, MinPoints: e.MinPoints, Span: 1,
		Weights: e.Weights, OnlyWith: e.OnlyWith}
	for _, g := range e.Gates {
		p.Gates, p.Span = append(p.Gates, g.Above), max(p.Span, config(g.Detector).Stride)
	}
	middles, most := make([]int, len(e.Members)), 0 // in half rows before the newest
	every := make([]int, len(e.Members))
	for k, i := range e.Members {
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
	if !e.Any && slices.Max(every) > 1 {
		p.Every = every
	}
	if e.Align {
		for k, middle := range middles {
			p.Lags = append(p.Lags, (most-middle)/2/every[k])
		}
	}
	return p
}

// Scores returns the number of scores of a steady task.
func (s *Setup) Scores() int { return (int(s.Fresh)-1)/s.Every + 1 }

// Scored returns which score of a steady task belongs to a fresh row; false where the row has none.
func (s *Setup) Scored(row int) (score int, ok bool) {
	if s.Every == 1 {
		return row, true
	}
	back := int(s.Fresh) - 1 - row
	return s.Scores() - 1 - back/s.Every, back%s.Every == 0
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
func (s *Setup) configured() *threshold.Params {
	r := *s.DetectorConfig.Threshold
	if r.Decluster == 0 {
		r.Decluster = (s.From + 1 + s.smoothed() + s.every() - 1) / s.every()
	}
	return &r
}

// Configured returns the ruling that the detector is to have.
func (s *Setup) Configured() *rules.Ruling {
	return &rules.Ruling{Threshold: s.Threshold, Alarm: rules.RulingAlarm{MaxP: s.MaxP, Guard: s.Guard, Events: s.Events, Shadow: s.Shadow}}
}

// RulingDiffers reports whether the detector's configured ruling is not in force.
func (s *Setup) RulingDiffers() bool {
	return s.Judged && !(s.Decided && s.Ruling.Equal(s.Configured()))
}

// Reconfigure gives the detector the threshold, the guard, the policy of anomalies and the mode of another configuration. It
// does not change whether its scores are judged, or make anomalies.
func (s *Setup) Reconfigure(c *DetectorConfig) {
	if s.Judged && c.Threshold != nil {
		s.DetectorConfig.Threshold, s.MaxP, s.Guard, s.Shadow = c.Threshold, c.MaxP, c.Guard, c.Shadow
		s.Threshold = s.configured()
		if s.Events != nil && c.Events != nil {
			s.Events = c.Events
		}
	}
}

// Follow puts a ruling in force for the next sample. decided says whether it is a decision.
func (s *Setup) Follow(r *rules.Ruling, decided bool) {
	s.Ruling, s.Decided = r, decided
	_, a := s.InForce()
	s.Valued = s.Valued || a.Guard != nil // for good: tasks are queued
}

// InForce returns what Ruled means for this detector: it makes no anomalies where the configuration has none, and has
// no guard that its fields do not fit, of a configuration before.
func (s *Setup) InForce() (*threshold.Params, *rules.RulingAlarm) {
	a := &s.Ruling.Alarm
	fits := a.Guard == nil || s.Combined == nil && s.Grid == nil &&
		!slices.ContainsFunc(a.Guard.Gates, func(g rules.Gate) bool { return g.Field >= s.Dim })
	if fits && (a.Events == nil) == (s.Events == nil) {
		return s.Ruling.Threshold, a
	}
	fitted := *a
	if !fits {
		fitted.Guard = nil
	}
	if s.Events == nil || a.Events == nil {
		fitted.Events = nil
	}
	return s.Ruling.Threshold, &fitted
}

// thresholdLike returns a threshold of the kind, the value and the span of want whose states have the form of one in a head, with so
// many numbers of a history; nil if there is none.
func (s *Setup) thresholdLike(want threshold.Params, history int) *threshold.Params {
	want.Bounded = s.Threshold.Bounded // of the op, which is the same
	if want.History = history; want.Span > 0 {
		want.History-- // the history is spread over time, and has one number more
	}
	if s.Threshold.Like(&want) {
		return s.Threshold
	}
	for _, r := range s.former {
		if r.Like(&want) {
			return r
		}
	}
	if !want.Sound() {
		return nil
	}
	r := &want
	s.former = append(s.former, r)
	return r
}
