package backtest

import (
	"math"
	"slices"
	"testing"

	"odradek/detectors/quality"
	"odradek/processor/anomaly"
	"odradek/processor/state"
	"odradek/processor/state/rules"
)

func alarm(series, at int, opened, peak float64, planted bool, fault int) *Alarm {
	name := string(rune('a' + series))
	return &Alarm{Alarm: rules.Alarm{Detector: "d", Series: name, Opened: opened, Peak: peak},
		series: series, at: at, planted: planted, fault: fault}
}

// TestMeasures: what is removed and lost, counted by hand.
func TestMeasures(t *testing.T) {
	l := NewLog(make([]quality.Series, 5), make([][]quality.Span, 5), nil)
	for i := range l.runs {
		l.runs[i] = []quality.Span{{From: 6, To: 7}, {From: 8, To: 9}, {From: 0, To: 0}, {From: 20, To: 30}}
	}
	late := alarm(0, 20, 10, 20, false, 3) // its score outgrows theirs within the anomaly
	late.course = []step{{at: 30, Course: anomaly.Course{Peak: 30, Samples: 9}}}
	later := alarm(0, 5, 10, 20, true, -1) // likewise: it calls someone, if later
	later.course = []step{{at: 99, Course: anomaly.Course{Peak: 20, Samples: 9}}, {at: 100, Course: anomaly.Course{Peak: 30, Samples: 10}}}
	toolate := alarm(0, 6, 10, 20, false, 0)
	toolate.course = []step{{at: 8, Course: anomaly.Course{Peak: 30, Samples: 9}}}
	l.alarms = []*Alarm{
		// The first three teach scores up to 24.
		alarm(0, 1, 10, 20, true, -1), alarm(0, 2, 11, 20, true, -1), alarm(0, 3, 10, 20, true, -1),
		alarm(0, 4, 23, 23, true, -1), alarm(0, 5, 25, 26, true, -1), later, // one of three later ones is removed
		toolate, alarm(0, 7, 10, 20, false, 0), // of one labelled anomaly: lost
		alarm(0, 8, 10, 20, false, 1), alarm(0, 9, 30, 40, false, 1), // still found by the second
		alarm(0, 0, 10, 20, false, 2), late, // before there was a rule; found, if later
		alarm(1, 1, 10, 20, true, -1), alarm(1, 2, 10, 20, true, -1), alarm(1, 3, 10, 20, true, -1), // no more of them: no rule
		alarm(1, 9, 10, 20, false, 0), alarm(2, 5, 10, 20, false, -1),
	}
	m := l.Own(3, true)
	if m.Rules != 1 || m.Removed != (LessonShare{1, 3}) || m.Lost != (LessonShare{1, 5}) {
		t.Errorf("%d rules, removed %v, lost %v", m.Rules, m.Removed, m.Lost)
	}
	if m := l.Own(3, false); m.Rules != 0 || m.Removed.Of != 0 || m.Lost != (LessonShare{0, 5}) {
		t.Errorf("%d rules of nothing, removed %v, lost %v", m.Rules, m.Removed, m.Lost)
	}
	if other, drawn := l.Others(3, 1); drawn != 0 || other.Rules != 0 {
		t.Errorf("%d draws from two series, %d rules", drawn, other.Rules)
	}
	l.alarms = append(l.alarms, alarm(2, 1, 10, 20, true, -1), alarm(3, 1, 10, 20, true, -1))
	other, drawn := l.Others(3, 1)
	if drawn != draws || other.Rules == 0 || other.Removed.Of == 0 || other.Removed.Count == 0 || other.Lost.Of != 5*other.Rules {
		t.Errorf("%d draws: %d rules, removed %v, lost %v", drawn, other.Rules, other.Removed, other.Lost)
	}
	removed, lost := m.Intervals()
	if removed[0] > 0.33 || removed[1] < 0.33 || lost[0] > 0.2 || lost[1] < 0.2 {
		t.Errorf("intervals %v, %v", removed, lost)
	}
}

// TestFields: fields are series, of which constant ones are left out; they find a labelled anomaly together, and lose it together.
func TestFields(t *testing.T) {
	nan := math.NaN()
	set := []quality.Series{
		{Name: "m", Dim: 3, Times: make([]int64, 3), Values: []float64{1, 5, nan, 2, 5, 7, 3, 5, nan}, Train: 1,
			Labels: []bool{false, true, false}},
		{Name: "n", Dim: 1, Times: make([]int64, 2), Values: []float64{1, 2}, Labels: []bool{true, false}},
	}
	fields, originals := Fields(set)
	var names []string
	for i := range fields {
		names = append(names, fields[i].Name)
	}
	if !slices.Equal(names, []string{"m/0", "m/2", "n/0"}) || !slices.Equal(originals, []int{0, 0, 1}) {
		t.Fatalf("fields %v of %v", names, originals)
	}
	if f := &fields[0]; !slices.Equal(f.Values, []float64{1, 2, 3}) || f.Dim != 1 || f.Train != 1 || !slices.Equal(f.Labels, set[0].Labels) {
		t.Errorf("field %+v", f)
	}
	l := NewLog(fields, make([][]quality.Span, 3), originals)
	l.alarms = []*Alarm{alarm(0, 1, 1, 1, false, 0), alarm(1, 1, 2, 2, false, 0), alarm(2, 0, 3, 3, false, 0)}
	for _, c := range []struct {
		below       float64 // alarms that are removed
		lost, alone int
	}{{0, 0, 0}, {1.5, 0, 1}, {2.5, 1, 2}, {3.5, 2, 3}} {
		by := make([]Measures, 3)
		l.lose(by, func(a *Alarm, until int) bool { return a.Opened < c.below && until == l.runs[a.series][0].To })
		var m Measures
		m.sum(by)
		if m.Lost != (LessonShare{c.lost, 2}) || m.Alone != (LessonShare{c.alone, 3}) {
			t.Errorf("below %v: lost %v, alone %v", c.below, m.Lost, m.Alone)
		}
	}
}

// TestTake: the course of an anomaly, and what a label says of it, from its changes: one for each sample.
func TestTake(t *testing.T) {
	l := NewLog([]quality.Series{{Name: "a", Dim: 1, Times: make([]int64, 50), Labels: make([]bool, 50)}}, make([][]quality.Span, 1), nil)
	change := func(kind anomaly.Kind, at int64, score float32, samples uint32, deviation, width float64) {
		l.Record(0, &state.EventRow{Name: "d", Change: anomaly.Change{Kind: kind, Time: 100 * at, Offset: at, Anomaly: anomaly.Anomaly{
			ID: [16]byte{1}, OpenedAt: 1000, PeakTime: 1100, End: 1300, PeakScore: score, Samples: samples,
			Expected: []float64{1}, Actual: []float64{1 + deviation}, Contribution: []float64{1},
			Range: &anomaly.Range{Low: 1, High: 1 + width, Held: uint32(2 * width)},
		}}})
	}
	change(anomaly.Open, 10, 5, 2, 3, 4)
	change(anomaly.Update, 11, 7, 3, 4, 5) // over the threshold
	change(anomaly.Update, 12, 7, 3, 4, 5) // not
	change(anomaly.Update, 13, 9, 4, 2, 8)
	change(anomaly.Close, 14, 9, 4, 2, 8)
	want := rules.Alarm{Detector: "d", Series: "a", Side: rules.Above, Opened: 5, Peak: 9, Samples: 4, Lasted: 300, First: 3, Apart: 3,
		Initial: 4, Range: 8, Early: 8, Held: 16}
	course := []step{{11, anomaly.Course{Peak: 7, Samples: 3, Since: 2, Elapsed: 100, Deviation: 3, Range: 5, Held: 10}},
		{13, anomaly.Course{Peak: 9, Samples: 4, Since: 2, Elapsed: 300, Deviation: 4, Range: 8, Held: 16}}}
	if a := l.alarms[0]; a.Alarm != want || !slices.Equal(a.course, course) || a.at != 10 {
		t.Errorf("%+v, want %+v with the course %+v", a, want, course)
	}
}

// TestPlant: events are the same each time, away from labels and from each other, and change copies alone.
func TestPlant(t *testing.T) {
	s := quality.Series{Name: "s", Dim: 2, Times: make([]int64, 6000), Values: make([]float64, 12000), Labels: make([]bool, 6000)}
	for i := range s.Values {
		s.Values[i] = math.Sin(float64(i))
	}
	for i := 3000; i < 3100; i++ {
		s.Labels[i] = true
	}
	before := slices.Clone(s.Values)
	for i := range 2 * len(Shapes) {
		shape, vary := i/2, i%2 > 0
		set, spans := Plant([]quality.Series{s}, shape, 7, vary)
		again, _ := Plant([]quality.Series{s}, shape, 7, vary)
		if !slices.Equal(s.Values, before) || !slices.Equal(set[0].Values, again[0].Values) || len(spans[0]) < 5 {
			t.Errorf("%s: %d events", Shapes[shape].Name, len(spans[0]))
		}
		changed := 0
		for i := range s.Times {
			if slices.Equal(set[0].Row(i), s.Row(i)) {
				continue
			}
			changed++
			if !slices.ContainsFunc(spans[0], func(p quality.Span) bool { return i >= p.From && i <= p.To }) || i > 2900 && i < 3200 {
				t.Errorf("%s: sample %d is changed", Shapes[shape].Name, i)
			}
		}
		if changed < len(spans[0]) {
			t.Errorf("%s: %d samples are changed", Shapes[shape].Name, changed)
		}
		lengths := map[int]bool{}
		for _, p := range spans[0] {
			lengths[p.To-p.From] = true
		}
		if (len(lengths) > 1) != (vary && Shapes[shape].samples > 2) { // a spike of 2 samples has little room
			t.Errorf("%s: %d lengths", Shapes[shape].Name, len(lengths))
		}
	}
}
