package lessons

import (
	"math"
	"slices"
	"testing"

	"odradek/cmd/worker/quality"
	"odradek/processor/keystate/learned"
)

func alarm(series, at int, opened, peak float64, planted bool, fault int) *Alarm {
	name := string(rune('a' + series))
	return &Alarm{Alarm: learned.Alarm{Detector: "d", Series: name, Opened: opened, Peak: peak},
		series: series, at: at, planted: planted, fault: fault}
}

// TestMeasures: what is removed and lost, counted by hand.
func TestMeasures(t *testing.T) {
	l := NewLog(make([]quality.Series, 5), make([][]quality.Span, 5))
	l.alarms = []*Alarm{
		// The first three teach 8.5 to 12.65, up to 23.
		alarm(0, 1, 10, 20, true, -1), alarm(0, 2, 11, 20, true, -1), alarm(0, 3, 10, 20, true, -1),
		alarm(0, 4, 12, 22, true, -1), alarm(0, 5, 9, 24, true, -1), // one of two later ones is removed
		alarm(0, 6, 10, 20, false, 0), alarm(0, 7, 10, 20, false, 0), // of one labelled anomaly: lost
		alarm(0, 8, 10, 20, false, 1), alarm(0, 9, 30, 40, false, 1), // still found by the second
		alarm(0, 0, 10, 20, false, 2),                                                               // before there was a rule
		alarm(1, 1, 10, 20, true, -1), alarm(1, 2, 10, 20, true, -1), alarm(1, 3, 10, 20, true, -1), // no more of them: no rule
		alarm(1, 9, 10, 20, false, 0), alarm(2, 5, 10, 20, false, -1),
	}
	m := l.Own(3, true)
	if m.Rules != 1 || m.Removed != (Share{1, 2}) || m.Lost != (Share{1, 4}) {
		t.Errorf("%d rules, removed %v, lost %v", m.Rules, m.Removed, m.Lost)
	}
	if m := l.Own(3, false); m.Rules != 0 || m.Removed.Of != 0 || m.Lost != (Share{0, 4}) {
		t.Errorf("%d rules of nothing, removed %v, lost %v", m.Rules, m.Removed, m.Lost)
	}
	if other, drawn := l.Others(3, 1); drawn != 0 || other.Rules != 0 {
		t.Errorf("%d draws from two series, %d rules", drawn, other.Rules)
	}
	l.alarms = append(l.alarms, alarm(2, 1, 10, 20, true, -1), alarm(3, 1, 10, 20, true, -1))
	other, drawn := l.Others(3, 1)
	if drawn != draws || other.Rules == 0 || other.Removed.Of == 0 || other.Removed.Part == 0 || other.Lost.Of != 4*other.Rules {
		t.Errorf("%d draws: %d rules, removed %v, lost %v", drawn, other.Rules, other.Removed, other.Lost)
	}
	removed, lost := m.Intervals()
	if removed[0] > 0.5 || removed[1] < 0.5 || lost[0] > 0.25 || lost[1] < 0.25 {
		t.Errorf("intervals %v, %v", removed, lost)
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
	for shape := range Shapes {
		set, spans := Plant([]quality.Series{s}, shape, 7)
		again, _ := Plant([]quality.Series{s}, shape, 7)
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
	}
}
