package backtest

import (
	"cmp"
	"encoding/binary"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"odradek/detectors/quality"
	"odradek/processor/anomaly"
	"odradek/processor/state"
	"odradek/processor/state/rules"
)

// Alarm is an anomaly that a detector has opened after the training part of a series.
type Alarm struct {
	rules.Alarm
	series  int
	at      int // sample that opened it
	fault   int // of the labelled anomalies of the series, that it opened in; -1: none
	planted bool

	course      []step
	since, over uint32  // scores over the threshold, until it opened and so far
	far         float64 // the largest deviation so far; infinite: not known
}

// step is how an alarm has gone until a score over the threshold, after the one that opened it, and the score's sample.
type step struct {
	at int
	anomaly.Course
}

// Log collects the anomalies of a run over a labelled data set, to measure what an operator's labels teach the worker. An operator
// labels an anomaly as a false alarm; from enough such labels the worker derives rules (package rules), which remove later
// anomalies that resemble the labelled ones. Own and Others simulate the operator and count what the rules remove.
//
// Here an alarm is an anomaly that opens after the training part of a series. It finds a labelled anomaly of the data set if
// it opens within one; otherwise it is a false alarm: a planted one if it opens in an event that Plant has added. False alarms
// of the same detector, field and side (above or below the expected value) are of one kind. The parameter least of Own and
// Others is the number of labels from which rules are derived.
type Log struct {
	set   []quality.Series
	first []int // of each series, the first one with which it has its labels in common
	runs  [][]quality.Span
	spans [][]quality.Span

	mu     sync.Mutex
	alarms []*Alarm
	open   map[[16]byte]*Alarm
}

// NewLog returns an empty Log of a data set with planted events. Series with the same number in originals have their labels in
// common, as fields of one machine; nil: none have.
func NewLog(set []quality.Series, spans [][]quality.Span, originals []int) *Log {
	l := &Log{set: set, spans: spans, open: map[[16]byte]*Alarm{}}
	for i := range set {
		first := i
		if originals != nil {
			first = slices.Index(originals, originals[i])
		}
		l.first = append(l.first, first)
		l.runs = append(l.runs, quality.Runs(set[i].Labels))
	}
	return l
}

// Record takes a change of an anomaly of a series, which has an update for each sample. Any goroutine may call it.
func (l *Log) Record(series int, e *state.EventRow) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := &e.Change.Anomaly
	if e.Change.Kind != anomaly.Open {
		if alarm := l.open[a.ID]; alarm != nil {
			alarm.follow(&e.Change)
		}
		return
	}
	at := int(e.Change.Offset)
	if at < l.set[series].Train {
		return
	}
	alarm := &Alarm{series: series, at: at, fault: -1}
	for i, r := range l.runs[series] {
		if at >= r.From && at <= r.To {
			alarm.fault = i
		}
	}
	for _, p := range l.spans[series] {
		if at >= p.From && at <= p.To+echo {
			alarm.planted = true
		}
	}
	own := a.Own()
	alarm.Detector, alarm.Series = anomaly.ScorerName(e.Name, own.Member), l.set[series].Name
	alarm.Field, alarm.Side = rules.SideOf(a.Side, a.Expected, a.Actual, a.Contribution)
	alarm.Opened, alarm.Peak = float64(own.Score), float64(own.Score)
	alarm.since, alarm.over, alarm.far = own.Samples, a.Samples, a.Deviation(alarm.Field)
	if !math.IsInf(alarm.far, 0) {
		alarm.First, alarm.Apart = alarm.far, alarm.far
	}
	alarm.Initial, alarm.Range = a.Range.Width(), a.Range.Width()
	alarm.Early, alarm.Held = heldOf(a), heldOf(a)
	l.alarms = append(l.alarms, alarm)
	l.open[a.ID] = alarm
}

// follow takes a later change of the alarm's anomaly: what a label would say of it, and its course.
func (a *Alarm) follow(c *anomaly.Change) {
	now, own := &c.Anomaly, c.Anomaly.Own()
	if now.Samples > a.over {
		a.over = now.Samples
		a.course = append(a.course, step{int(c.Offset), anomaly.Course{Peak: float64(own.Score), Samples: own.Samples, Since: a.since,
			Elapsed: c.Time - now.OpenedAt, Deviation: a.far, Range: now.Range.Width(), Held: uint32(heldOf(now))}})
	}
	far := now.Deviation(a.Field)
	a.far = max(a.far, far)
	a.Peak, a.Lasted = float64(own.Score), max(0, now.End-now.OpenedAt)
	a.Range, a.Held = max(a.Initial, now.Range.Width()), max(a.Early, heldOf(now))
	if a.First > 0 && !math.IsInf(far, 0) {
		a.Apart = max(a.First, far)
	}
	if c.Kind == anomaly.Close {
		a.Samples = int(own.Samples)
	}
}

func heldOf(a *anomaly.Anomaly) int {
	if a.Range == nil {
		return 0
	}
	return int(a.Range.Held)
}

// marked reports whether the rules mark an alarm when it opens, and until a sample.
func (a *Alarm) marked(rules rules.LearnedList, until int) bool {
	opening := a.Alarm
	opening.Peak = a.Opened
	r := rules.Like(&opening)
	return r != nil && !slices.ContainsFunc(a.course, func(s step) bool { return s.at <= until && !r.Within(&s.Course) })
}

// end is after all samples.
const end = math.MaxInt

// sorted returns the alarms by series and time.
func (l *Log) sorted() []*Alarm {
	slices.SortFunc(l.alarms, func(a, b *Alarm) int {
		return cmp.Or(cmp.Compare(a.series, b.series), cmp.Compare(a.at, b.at), cmp.Compare(a.Detector, b.Detector))
	})
	return l.alarms
}

// LessonShare is a part of a number.
type LessonShare struct{ Count, Of int }

func (s *LessonShare) add(yes bool) {
	s.Of++
	if yes {
		s.Count++
	}
}

func (s *LessonShare) plus(o LessonShare) { s.Count, s.Of = s.Count+o.Count, s.Of+o.Of }

// Measures count what the rules from labels do: the desired effect is Removed, the undesired one Lost.
type Measures struct {
	Rules   int         // rules derived; of Others, draws from which some were
	Removed LessonShare // false alarms that the rules remove, as a share of the unlabelled ones of labelled kinds
	Lost    LessonShare // labelled anomalies of the data set that are not found any more, of those found without rules
	Alone   LessonShare // as Lost, but counted for each series: with Lost, one of several series with the same labels is enough

	by []Measures // of each series
}

// kind is what the labels of a simulated operator have in common.
type kind struct {
	series   int // -1: any
	detector string
	field    int
	side     rules.Direction
}

// Own measures labels that serve the series in which they are given. In each series, and for each kind with more than least false
// alarms there, the operator labels the first least of them; the rules from these hold in that series after the last label.
// Removed counts the later false alarms of the kind in that series, and Lost the labelled anomalies of all series, with all
// rules in force together. With planted the operator labels planted false alarms only, otherwise the other ones only.
func (l *Log) Own(least int, planted bool) Measures {
	kinds := map[kind][]*Alarm{}
	for _, a := range l.sorted() {
		if a.fault < 0 && a.planted == planted {
			k := kind{a.series, a.Detector, a.Field, a.Side}
			kinds[k] = append(kinds[k], a)
		}
	}
	ruleList := make([][]taught, len(l.set))
	m := Measures{by: make([]Measures, len(l.set))}
	for k, alarms := range kinds {
		if len(alarms) <= least {
			continue
		}
		s := &m.by[k.series]
		list := rules.Derive("", labels(alarms[:least]), least)
		s.Rules += len(list)
		ruleList[k.series] = append(ruleList[k.series], taught{list, alarms[least-1].at})
		for _, a := range alarms[least:] {
			s.Removed.add(a.marked(list, end))
		}
	}
	l.lose(m.by, func(a *Alarm, until int) bool {
		return slices.ContainsFunc(ruleList[a.series], func(t taught) bool { return a.at > t.after && a.marked(t.list, until) })
	})
	m.sum(m.by)
	return m
}

// taught are rules that hold in a series after a sample.
type taught struct {
	list  rules.LearnedList
	after int
}

// draws is the number of draws of Others for a kind. The comment of Others has it, too.
const draws = 60

// Others measures labels that serve other series than those in which they are given. For each kind it makes 60 draws: in each, the
// operator labels one planted false alarm in each of least series, chosen at random by seed, and the rules from these labels
// hold in all series from the first sample on. Removed counts the planted false alarms of the kind in the series without a label,
// and Lost the labelled anomalies of all series, summed over the draws from which rules were derived. drawn is the number of
// all draws.
func (l *Log) Others(least int, seed uint64) (m Measures, drawn int) {
	kinds := map[kind][]*Alarm{}
	for _, a := range l.sorted() {
		if a.fault < 0 && a.planted {
			k := kind{-1, a.Detector, a.Field, a.Side}
			kinds[k] = append(kinds[k], a)
		}
	}
	keys := slices.SortedFunc(maps.Keys(kinds), func(a, b kind) int {
		return cmp.Or(cmp.Compare(a.detector, b.detector), cmp.Compare(a.field, b.field), cmp.Compare(a.side, b.side))
	})
	m.by = make([]Measures, len(l.set))
	rng := rand.New(rand.NewPCG(seed, 1))
	for _, k := range keys {
		for range draws {
			list := slices.Clone(kinds[k])
			rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
			chosen := map[int]bool{}
			var said []*Alarm
			for _, a := range list {
				if len(said) < least && !chosen[a.series] {
					chosen[a.series] = true
					said = append(said, a)
				}
			}
			if len(said) < least {
				break
			}
			drawn++
			rules := rules.Derive("", labels(said), least)
			if len(rules) == 0 {
				continue
			}
			m.Rules++
			for _, a := range list {
				if !chosen[a.series] {
					m.by[a.series].Removed.add(a.marked(rules, end))
				}
			}
			l.lose(m.by, func(a *Alarm, until int) bool { return a.marked(rules, until) })
		}
	}
	m.sum(m.by)
	return m, drawn
}

// labels returns false-alarm labels of alarms.
func labels(alarms []*Alarm) (list []rules.Label) {
	for i, a := range alarms {
		label := rules.Label{Alarm: a.Alarm}
		binary.BigEndian.PutUint64(label.Anomaly[:], uint64(i)+1)
		list = append(list, label)
	}
	return list
}

// lose counts, by series, the labelled anomalies in which an alarm opened, and how many of them have alarms that are all
// removed until the anomaly ends: one that stops being like false alarms within it opens another, which finds it. Series that have their
// labels in common find an anomaly together, which counts for the first of them, and each alone.
func (l *Log) lose(by []Measures, removed func(a *Alarm, until int) bool) {
	together, alone := map[[2]int]bool{}, map[[2]int]bool{} // whether it still is
	for _, a := range l.sorted() {
		if a.fault >= 0 {
			still := !removed(a, l.runs[a.series][a.fault].To)
			all, own := [2]int{l.first[a.series], a.fault}, [2]int{a.series, a.fault}
			together[all], alone[own] = together[all] || still, alone[own] || still
		}
	}
	for at, still := range together {
		by[at[0]].Lost.add(!still)
	}
	for at, still := range alone {
		by[at[0]].Alone.add(!still)
	}
}

func (m *Measures) sum(parts []Measures) {
	for i := range parts {
		o := &parts[i]
		m.Rules += o.Rules
		m.Removed.plus(o.Removed)
		m.Lost.plus(o.Lost)
		m.Alone.plus(o.Alone)
	}
}

// Add adds the measures of another run, whose series are others.
func (m *Measures) Add(o *Measures) {
	m.sum([]Measures{*o})
	m.by = append(m.by, o.by...)
}

// Intervals returns the intervals of both shares by quality.Bootstrap.
func (m *Measures) Intervals() (removed, lost quality.Interval) {
	intervals := quality.Bootstrap(len(m.by), func(pick func(int) int) map[string]float64 {
		var sum Measures
		for i := range m.by {
			sum.sum(m.by[pick(i):][:1])
		}
		return map[string]float64{"removed": sum.Removed.Ratio(), "lost": sum.Lost.Ratio()}
	})
	return intervals["removed"], intervals["lost"]
}

// Ratio returns the share, 0 of nothing.
func (s LessonShare) Ratio() float64 { return float64(s.Count) / float64(max(1, s.Of)) }
