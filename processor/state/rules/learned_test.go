package rules

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"odradek/detectors/seedtest"
	"odradek/processor/anomaly"
)

func label(id int, series string, opened, peak float64) Label {
	return Label{Anomaly: [16]byte{byte(id >> 8), byte(id)},
		Alarm: Alarm{Detector: "d", Series: series, Side: Above, Opened: opened, Peak: peak}}
}

func fault(id int, series string, opened, peak float64) Label {
	l := label(id, series, opened, peak)
	l.Fault = true
	return l
}

// gone returns a label of an anomaly that has ended, with the numbers of its course.
func gone(l Label, samples int, lasted int64, first, apart float64) Label {
	l.Samples, l.Lasted, l.First, l.Apart = samples, lasted, first, apart
	return l
}

// ranging returns a label of an anomaly whose values had a range when it opened, and another in the end.
func ranging(l Label, initial, width float64) Label {
	l.Initial, l.Range = initial, width
	return l
}

// holding returns a label of an anomaly with so many values held when it opened, and in the end.
func holding(l Label, early, held int) Label {
	l.Early, l.Held = early, held
	return l
}

func TestDerive(t *testing.T) {
	a := func(opened, peak float64) []Label {
		return []Label{label(1, "a", opened, peak), label(2, "a", opened+1, peak), label(3, "a", opened+2, peak+1)}
	}
	whole := []Label{gone(label(1, "a", 10, 20), 32, 70, 5, 6), gone(label(2, "a", 11, 20), 30, 90, 4, 8),
		gone(label(3, "a", 12, 20), 28, 10, 10, 10)}
	ranges := []Label{ranging(whole[0], 4, 8), ranging(whole[1], 2, 4), ranging(whole[2], 5, 5)}
	const ofRanges = "a 12 26, samples 40, after 90, ranges 1.7, 3.4 to 10, steep 6.875"
	inSeries := func(l Label, series string) Label { l.Series = series; return l }
	but := func(labels []Label, more ...Label) []Label { return append(slices.Clone(labels), more...) }
	shapes := func(peak, width float64) []Label { // scores within a factor of 1.5, ranges or not
		return []Label{holding(ranging(gone(label(1, "a", 10, 20), 32, 70, 5, 6), 1, 2), 3, 8),
			holding(ranging(label(2, "b", 1, peak), 1, width), 4, 10),
			holding(ranging(label(3, "c", 10, 20), 1, 2), 7, 7)}
	}
	rng := seedtest.New(t)
	for _, c := range []struct {
		name   string
		labels []Label
		want   string // the rules: series, "*" for all, then least and most, and the other bounds where there are any
	}{
		{"none", nil, ""},
		{"two", a(10, 20)[:2], ""},
		{"three", a(10, 20), "a 15 25.2"},
		{"their courses", whole, "a 15 24, samples 36, after 90, first 2.4 apart 3.5999999999999996 to 16"},
		{"the course of one is not known", but(whole[:2], label(3, "a", 12, 20)), "a 15 24, samples 36, after 90"},
		{"negative scores", a(-10, -5), "a -6.25 -3.2"},
		{"ranges", ranges, ofRanges},
		{"ranges and negative scores", []Label{ranging(label(1, "a", -9, -5), 1, 2), ranging(label(2, "a", -9, -5), 1, 2),
			ranging(label(3, "a", -9, -4), 1, 2)}, "a -7 -2.8, ranges 0.85, 1.7 to 2.5"},
		{"the range of one is not known", but(ranges[:2], whole[2]), "a 15 24, samples 36, after 90, first 2.4 apart 3.5999999999999996 to 16"},
		{"confirmed, its ranges are theirs", but(ranges, ranging(gone(fault(4, "a", 11, 20), 30, 70, 5, 6), 3, 5)), ""},
		{"confirmed, opens narrower", but(ranges, ranging(gone(fault(4, "a", 11, 20), 30, 70, 5, 6), 1.8, 5)),
			"a 12 26, samples 40, after 90, ranges 1.8000000000000003, 3.4 to 10, steep 6.875"},
		{"confirmed, is wider", but(ranges, ranging(gone(fault(4, "a", 11, 20), 30, 70, 5, 6), 3, 9)),
			"a 12 26, samples 40, after 90, ranges 1.7, 3.4 to 8.999999999999998, steep 6.875"},
		{"confirmed, is narrower", but(ranges, ranging(gone(fault(4, "a", 11, 20), 30, 70, 5, 6), 3, 3.5)),
			"a 12 26, samples 40, after 90, ranges 1.7, 3.5000000000000004 to 10, steep 6.875"},
		{"confirmed, its range is not known", but(ranges, gone(fault(4, "a", 11, 20), 30, 70, 5, 6)), ofRanges},
		{"three series, scores and ranges alike", []Label{ranging(label(1, "a", 1, 20), 1, 2), ranging(label(2, "b", 1, 20), 1, 2),
			ranging(label(3, "c", 1, 20), 1, 2)}, "* 12 26, ranges 0.85, 1.7 to 2.5, steep 12.5"},
		{"three series, ranges alike", []Label{ranging(label(1, "a", 1, 10), 1, 2), ranging(label(2, "b", 1, 20), 1, 2),
			ranging(label(3, "c", 1, 20), 1, 2)}, "* -Inf +Inf, ranges 0.85, 1.7 to 2.5"},
		{"three series, scores alike", []Label{ranging(label(1, "a", 1, 20), 1, 2), ranging(label(2, "b", 1, 20), 1, 2),
			ranging(label(3, "c", 1, 20), 1, 20)}, "* 12 26"},
		{"three series, nothing alike", []Label{ranging(label(1, "a", 1, 10), 1, 2), ranging(label(2, "b", 1, 20), 1, 4),
			ranging(label(3, "c", 1, 20), 1, 2)}, ""},
		{"some alike in scores, others in ranges", []Label{ranging(label(1, "a", 1, 10), 1, 2), ranging(label(2, "b", 1, 20), 1, 2),
			ranging(label(3, "c", 1, 20), 1, 2), ranging(label(4, "d", 1, 20), 1, 20)}, "* -Inf +Inf, ranges 0.85, 1.7 to 2.5; * 12 26"},
		{"shapes, scores alike", shapes(25, 8), "* -Inf 50, after 70, held 2, 5 to 15"},
		{"shapes, scores alike, ratios more so", shapes(25, 2.4), "* -Inf +Inf, after 70, steep 20.833333333333336, held 2, 5 to 15"},
		{"shapes, ranges alike", shapes(50, 3), "* -Inf +Inf, after 70, steep 33.333333333333336, held 2, 5 to 15"},
		{"shapes, nothing alike", shapes(50, 4), ""},
		{"the shape of one is not known", but(shapes(25, 8)[:2], ranging(label(3, "c", 10, 20), 1, 2)), "* 12 32.5, samples 40, after 70"},
		{"shapes of negative scores", []Label{holding(ranging(label(1, "a", -9, -5), 1, 2), 5, 8),
			holding(ranging(label(2, "b", -9, -5), 1, 2), 5, 8),
			holding(ranging(label(3, "c", -9, -4), 1, 2), 5, 8)}, "* -Inf 0, held 3, 6 to 12"},
		{"confirmed, opens with less held", but(shapes(25, 8), holding(ranging(fault(4, "z", 10, 20), 1, 2), 2, 9)),
			"* -Inf 50, after 70, held 3, 5 to 15"},
		{"confirmed, holds longer", but(shapes(25, 8), holding(ranging(fault(4, "z", 10, 20), 1, 2), 4, 12)),
			"* -Inf 50, after 70, held 2, 5 to 11"},
		{"confirmed, holds less long", but(shapes(25, 8), holding(ranging(fault(4, "z", 10, 20), 1, 2), 4, 6)),
			"* -Inf 50, after 70, held 2, 7 to 15"},
		{"confirmed, opens higher", but(shapes(25, 8), holding(ranging(fault(4, "z", 17, 20), 1, 2), 4, 9)),
			"* -Inf 50, to 16.999999999999996, after 70, held 2, 5 to 15"},
		{"confirmed, is of their shape", but(shapes(25, 8), holding(ranging(fault(4, "z", 10, 20), 1, 2), 4, 9)), ""},
		{"shapes of one series", func() []Label {
			l := shapes(25, 8)
			l[1].Series, l[2].Series = "a", "a"
			return l
		}(), "a 12 32.5, samples 40, after 70, ranges 0.85, 1.7 to 10, steep 12.5, held 0, 5 to 15"},
		{"shapes of one series, confirmed, holds less long", func() []Label {
			l := but(shapes(25, 8), holding(ranging(fault(4, "a", 10, 20), 1, 3), 4, 6))
			l[1].Series, l[2].Series = "a", "a"
			return l
		}(), "a 12 32.5, samples 40, after 70, ranges 0.85, 1.7 to 10, steep 12.5, held 0, 7 to 15"},
		{"three series of two", []Label{ranging(label(1, "a", 9, 10), 1, 2), inSeries(ranging(label(2, "b", 9, 20), 1, 2), "a"),
			ranging(label(3, "c", 9, 20), 1, 2)}, ""},
		{"three of two series", []Label{label(1, "a", 10, 20), label(2, "a", 11, 20), label(3, "b", 12, 20)}, ""},
		{"three series", []Label{label(1, "a", 10, 20), label(2, "b", 11, 20), label(3, "c", 17, 30)}, "* 17.5 33"},
		{"three series, unlike", []Label{label(1, "a", 10, 20), label(2, "b", 11, 20), label(3, "c", 12, 31)}, ""},
		{"another unlike before them", []Label{label(9, "x", 1, 2), label(1, "a", 10, 20), label(2, "b", 11, 20), label(3, "c", 12, 20)}, "* 17.5 22"},
		{"other sides", but(a(10, 20)[:2], func() Label { l := label(3, "a", 11, 20); l.Side = Below; return l }()), ""},
		{"other fields", but(a(10, 20)[:2], func() Label { l := label(3, "a", 11, 20); l.Field = 1; return l }()), ""},
		{"confirmed among them", but(a(10, 20), fault(4, "a", 11, 20)), ""},
		{"confirmed, opens lower", but(a(10, 20), fault(4, "a", 9, 20)), "a 15 25.2, from 9.000000000000002"},
		{"confirmed, opens higher", but(a(10, 20), fault(4, "a", 13, 20)), "a 15 25.2, to 12.999999999999998"},
		{"confirmed, has a higher peak", but(a(10, 20), fault(4, "a", 11, 22)), "a 15 21.999999999999996"},
		{"confirmed, has a lower peak", but(a(10, 20), fault(4, "a", 11, 16)), "a 16.000000000000004 25.2"},
		{"confirmed, lasts longer", but(whole, gone(fault(4, "a", 11, 20), 34, 70, 5, 6)), "a 15 24, samples 33, after 90, first 2.4 apart 3.5999999999999996 to 16"},
		{"confirmed, is nearer", but(whole, gone(fault(4, "a", 11, 20), 30, 70, 5, 5)), "a 15 24, samples 36, after 90, first 2.4 apart 5.000000000000001 to 16"},
		{"confirmed, is farther", but(whole, gone(fault(4, "a", 11, 20), 30, 70, 5, 12)), "a 15 24, samples 36, after 90, first 2.4 apart 3.5999999999999996 to 11.999999999999998"},
		{"three series, with courses", func() []Label { l := slices.Clone(whole); l[1].Series, l[2].Series = "b", "c"; return l }(),
			"* 17.5 22, samples 36, after 90, first 3.2 apart 4.800000000000001 to 13"},
		{"confirmed, nothing is known of its course", but(whole, fault(4, "a", 11, 20)), ""},
		{"confirmed, its course is theirs", but(whole, gone(fault(4, "a", 11, 20), 30, 70, 5, 6)), ""},
		{"confirmed, far", but(a(10, 20), fault(4, "a", 11, 100), fault(5, "a", 11, 14)), "a 15 25.2"},
		{"confirmed, of another series", but(a(10, 20), fault(4, "b", 11, 20)), "a 15 25.2"},
		{"confirmed, of any series", []Label{label(1, "a", 10, 20), label(2, "b", 11, 20), label(3, "c", 12, 20), fault(4, "z", 11, 20)}, ""},
		{"no numbers", []Label{label(1, "a", math.NaN(), 20), label(2, "a", 1, math.Inf(1)), label(3, "a", 30, 20), gone(label(4, "a", 10, 20), -1, 0, 0, 0),
			gone(label(5, "a", 10, 20), 1, 0, math.NaN(), 1), gone(label(6, "a", 10, 20), 1, 0, 2, 1), ranging(label(7, "a", 10, 20), 2, 1),
			ranging(label(8, "a", 10, 20), 1, math.Inf(1)), holding(label(9, "a", 10, 20), 2, 1), holding(label(10, "a", 10, 20), -1, 1)}, ""},
	} {
		for range 10 {
			got := ""
			rng.Shuffle(len(c.labels), func(i, j int) { c.labels[i], c.labels[j] = c.labels[j], c.labels[i] })
			for _, r := range Derive("", c.labels, 3) {
				switch {
				case r.All && !r.every(): // TestNarrow has these
					continue
				case got != "":
					got += "; "
				}
				got += text(&r)
			}
			if got != c.want {
				t.Errorf("%s: %q, want %q", c.name, got, c.want)
				break
			}
		}
	}
	if Derive("", a(10, 20), 0) != nil {
		t.Error("rules without labels")
	}
	if got := Derive("", a(10, 20)[:2], 2); len(got) != 1 || got[0].Count != 2 || !slices.Equal(got[0].Labels, [][16]byte{{0, 1}, {0, 2}}) {
		t.Errorf("rules of two labels: %+v", got)
	}
}

// text returns a rule as the cases of TestDerive have it.
func text(r *LearnedRule) string {
	name := r.Series
	if r.All {
		name = "*"
	}
	s := fmt.Sprint(name, " ", r.Least, " ", r.Most)
	if !math.IsInf(r.From, -1) {
		s += fmt.Sprint(", from ", r.From)
	}
	if !math.IsInf(r.To, 1) {
		s += fmt.Sprint(", to ", r.To)
	}
	if r.Samples > 0 {
		s += fmt.Sprint(", samples ", r.Samples)
	}
	if r.After > 0 {
		s += fmt.Sprint(", after ", r.After)
	}
	if r.First > 0 {
		s += fmt.Sprint(", first ", r.First, " apart ", r.Apart, " to ", r.Far)
	}
	if r.Wide > 0 {
		s += fmt.Sprint(", ranges ", r.Initial, ", ", r.Narrow, " to ", r.Wide)
	}
	if r.Steep > 0 {
		s += fmt.Sprint(", steep ", r.Steep)
	}
	if r.Long > 0 {
		s += fmt.Sprint(", held ", r.Early, ", ", r.Short, " to ", r.Long)
	}
	return s
}

// TestLike: an anomaly is like the labelled ones as long as its highest score is within theirs.
func TestLike(t *testing.T) {
	l := Derive("", []Label{label(1, "a", 10, 20), label(2, "a", 11, 20), label(3, "a", 12, 20)}, 3)
	for _, c := range []struct {
		name string
		a    func(*Alarm)
		want bool
	}{
		{"like", func(*Alarm) {}, true},
		{"opens lower", func(a *Alarm) { a.Opened = 2 }, true},
		{"opens higher", func(a *Alarm) { a.Opened, a.Peak = 23, 23 }, true},
		{"at the margin", func(a *Alarm) { a.Opened, a.Peak = 13.7, 23.9 }, true},
		{"grows beyond", func(a *Alarm) { a.Peak = 24.1 }, false},
		{"far", func(a *Alarm) { a.First = 1e9 }, true},
		{"no score", func(a *Alarm) { a.Opened = math.NaN() }, false},
		{"another detector", func(a *Alarm) { a.Detector = "e" }, false},
		{"another series", func(a *Alarm) { a.Series = "b" }, false},
		{"the other side", func(a *Alarm) { a.Side = Below }, false},
		{"no side", func(a *Alarm) { a.Side = BothDirections }, false},
		{"another field", func(a *Alarm) { a.Field = 1 }, false},
	} {
		a := label(0, "a", 11, 18).Alarm
		c.a(&a)
		if got := l.Like(&a) != nil; got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

// TestFar: an anomaly that opens farther from what was expected than the labelled ones is none of the kind.
func TestFar(t *testing.T) {
	l := Derive("", []Label{gone(label(1, "a", 10, 20), 9, 9, 5, 5), gone(label(2, "a", 10, 20), 9, 9, 4, 10),
		gone(label(3, "a", 10, 20), 9, 9, 5, 5)}, 3)
	for deviation, want := range map[float64]bool{0: true, 1: true, 15.9: true, 16.1: false} {
		a := label(0, "a", 11, 18).Alarm
		if a.First = deviation; (l.Like(&a) != nil) != want {
			t.Errorf("deviation %v: want %t", deviation, want)
		}
	}
}

// TestInitial: an anomaly that opens with a range that is none of the labels', or with one that is not known, is none of the kind, nor
// is one whose score is too high for its range.
func TestInitial(t *testing.T) {
	ranged := func(id int) Label { return ranging(label(id, "a", 10, 20), 4, 8) }
	l := Derive("", []Label{ranged(1), ranged(2), ranged(3)}, 3)
	for _, c := range []struct {
		width, score float64
		want         bool
	}{{4, 11, true}, {0, 11, false}, {3.3, 10, false}, {3.5, 10, true}, {9.9, 11, true}, {10.1, 11, false}, {4, 12.6, false},
		{4, 12.4, true}} {
		a := label(0, "a", c.score, c.score).Alarm
		if a.Initial = c.width; (l.Like(&a) != nil) != c.want {
			t.Errorf("range %v, score %v: want %t", c.width, c.score, c.want)
		}
	}
}

// TestHeld: an anomaly that opens with less values held than a rule of a shape has, or more, or with a number that is not known, is none
// of the kind; how high its values are does not matter.
func TestHeld(t *testing.T) {
	held := func(id int, series string, width float64) Label {
		return holding(ranging(label(id, series, 10, 20), width, 2*width), 4, 8)
	}
	l := Derive("", []Label{held(1, "a", 1), held(2, "b", 10), held(3, "c", 1e5)}, 3)
	for early, want := range map[int]bool{0: false, 1: false, 2: true, 4: true, 12: true, 13: false} {
		a := ranging(label(0, "z", 11, 11), 1e-9, 1e-9).Alarm
		if a.Early = early; (l.Like(&a) != nil) != want {
			t.Errorf("%d held: want %t", early, want)
		}
	}
}

// TestUnknownHeld: a confirmed anomaly among the labels takes their rule away also where it is not known how many of its values are held.
func TestUnknownHeld(t *testing.T) {
	like := func(id, held int) Label { return holding(ranging(label(id, "a", 10, 20), 1, 2), held, held) }
	labels := []Label{like(1, 4), like(2, 4), like(3, 0)}
	if len(Derive("", labels[:2], 2)) != 1 {
		t.Fatal("two labels of one series make no rule")
	}
	labels[2].Fault = true
	if l := Derive("", labels, 2); l.Like(&labels[2].Alarm) != nil {
		t.Errorf("%+v covers a confirmed anomaly", l)
	}
}

// TestNarrow: in a series of one of its labels a rule for all series holds as far as that label's own scores go, and not at all where a
// confirmed anomaly of that series is like it.
func TestNarrow(t *testing.T) {
	held := func(id int, series string, peak, width float64) Label {
		return holding(ranging(label(id, series, peak, peak), width, width), 4, 8)
	}
	labels := []Label{held(1, "a", 10, 1), held(2, "b", 11, 10), held(3, "c", 14, 1e5)}
	for _, c := range []struct {
		series      string
		peak, width float64
		want        string
	}{
		{"z", 27, 1e-3, "*"}, {"z", 29, 1, ""}, {"z", 1, 1, "*"}, {"", 27, 1, "*"},
		{"a", 12.9, 1.2, "*a"}, {"a", 13.1, 1.2, ""}, {"a", 10, 0.8, ""}, {"a", 10, 1.3, ""}, {"a", 10, 1e5, ""},
		{"c", 17.4, 1e5, "*c"}, {"c", 17.6, 1e5, ""}, {"c", 10, 1, ""},
	} {
		for _, more := range [][]Label{nil, {held(4, "a", 12, 1.2)}} { // another one of a series
			l := Derive("", append(slices.Clone(labels), more...), 3)
			a := held(0, c.series, c.peak, c.width).Alarm
			got := ""
			if r := l.Like(&a); r != nil {
				if got = "*" + r.Series; !r.All {
					got = r.Series
				}
			}
			if got != c.want && (more == nil || c.series != "a") {
				t.Errorf("%s, score %v, range %v: like the labels of %q, want %q", c.series, c.peak, c.width, got, c.want)
			}
		}
	}
	a := held(0, "a", 10, 1).Alarm
	if Derive("", labels, 3).Like(&a) == nil {
		t.Error("a label is not like itself")
	}
	confirmed := held(5, "a", 10.5, 1.1) // the rule for all series ends before it, so the label's own rule would have to
	confirmed.Fault, confirmed.Held, confirmed.Early = true, 40, 4
	l := Derive("", append(slices.Clone(labels), confirmed), 3)
	if l.Like(&a) == nil {
		t.Error("a confirmed anomaly of another shape takes the rule away")
	}
	other := held(6, "a", 30, 1.1) // beyond the rule for all series
	other.Opened, other.Fault = 10, true
	for _, r := range Derive("", append(slices.Clone(labels), other), 3) {
		if r.keeps(&other.Alarm) {
			t.Errorf("%+v covers a confirmed anomaly", r)
		}
	}
}

func randomLabels(rng *rand.Rand, n int) (list []Label) {
	for i := range n {
		l := label(i, string(rune('a'+rng.IntN(5))), 10+10*rng.Float64(), 20+10*rng.Float64())
		l.Field, l.Side, l.Fault = rng.IntN(3)-1, Direction(rng.IntN(3)), rng.IntN(12) == 0
		if rng.IntN(3) > 0 {
			l = gone(l, 20+rng.IntN(20), rng.Int64N(100), 1+rng.Float64(), 2+rng.Float64())
		}
		if rng.IntN(5) > 0 {
			l = ranging(l, 1+rng.Float64(), 2+rng.Float64())
		}
		if rng.IntN(5) > 0 {
			l.Early = 1 + rng.IntN(8)
			l.Held = l.Early + rng.IntN(8)
		}
		list = append(list, l)
	}
	return list
}

// TestRandom: regardless of the labels, no rule covers a confirmed anomaly to its end, each covers all false alarms between its bounds, and
// the order of the labels does not matter.
func TestRandom(t *testing.T) {
	rng := seedtest.New(t)
	rules := 0
	for range 500 {
		labels := randomLabels(rng, rng.IntN(40))
		least := 1 + rng.IntN(4)
		l := Derive("", labels, least)
		rules += len(l)
		for i := range labels {
			for k := range l {
				if labels[i].Fault && l[k].keeps(&labels[i].Alarm) {
					t.Fatalf("%+v covers the confirmed %+v", l[k], labels[i])
				}
			}
		}
		for i := range l {
			n := 0
			for k := range labels {
				if labels[k].Fault || !l[i].covers(&labels[k].Alarm) {
					continue
				}
				n++
				if l[i].All && !slices.ContainsFunc(l, func(r LearnedRule) bool {
					return r.every() && slices.Equal(r.Labels, l[i].Labels) && r.covers(&labels[k].Alarm)
				}) {
					t.Fatalf("%+v covers %+v, which no rule for all series does", l[i], labels[k])
				}
			}
			narrow := l[i].All && !l[i].every()
			if !narrow && n < l[i].Count || l[i].Count < least {
				t.Fatalf("%+v covers %d labels, of at least %d", l[i], n, least)
			}
		}
		other := slices.Clone(labels)
		rng.Shuffle(len(other), func(i, j int) { other[i], other[j] = other[j], other[i] })
		if !bytes.Equal(Derive("", other, least).Encode(), l.Encode()) {
			t.Fatal("another order makes other rules")
		}
		got, err := DecodeLearned(l.Encode())
		if err != nil || !reflect.DeepEqual(got, l) {
			t.Fatalf("%+v %v, want %+v", got, err, l)
		}
	}
	if rules < 100 {
		t.Errorf("%d rules", rules)
	}
}

// TestFlood: of more rules than a decision holds, the ones with the most labels remain, the same in any order.
func TestFlood(t *testing.T) {
	rng := seedtest.New(t)
	var labels []Label
	for i := range MaxLabels {
		labels = append(labels, label(i, fmt.Sprint(i%(MaxLabels/4)), 10, 20))
	}
	for i := range 5 {
		labels[i] = label(i, "most", 10, 20)
	}
	l := Derive("", labels, 3)
	rng.Shuffle(len(labels), func(i, j int) { labels[i], labels[j] = labels[j], labels[i] })
	if len(l) == 0 || len(l) > MaxLearned || len(l.Encode()) > MaxLearnedBytes || !bytes.Equal(Derive("", labels, 3).Encode(), l.Encode()) {
		t.Errorf("%d rules of %d bytes", len(l), len(l.Encode()))
	}
	if !slices.ContainsFunc(l, func(r LearnedRule) bool { return r.All && r.Count == MaxLabels }) ||
		!slices.ContainsFunc(l, func(r LearnedRule) bool { return r.Series == "most" && r.Count == 5 }) {
		t.Error("the rules of the most labels are left out")
	}
}

func TestSideOf(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		newest                         anomaly.Side
		expected, actual, contribution []float64
		field                          int
		side                           Direction
	}{
		{anomaly.Below, []float64{1, 2}, []float64{2, 1}, []float64{0.6, 0.4}, 0, Below},
		{anomaly.Above, []float64{1, 2}, []float64{2, 1}, []float64{0.4, 0.6}, 1, Above},
		{anomaly.Neither, []float64{1, 2}, []float64{2, 1}, []float64{0.4, 0.6}, 1, BothDirections},
		{0, nil, nil, nil, -1, BothDirections},
		{0, []float64{1, 2}, []float64{2, 1}, []float64{0.6, 0.4}, 0, Above},
		{0, []float64{1, 2}, []float64{2, 1}, []float64{nan, 0.4}, 1, Below},
		{0, []float64{1}, []float64{nan}, []float64{1}, 0, BothDirections},
		{0, nil, nil, []float64{0.2, 0.8}, 1, BothDirections},
	} {
		if field, side := SideOf(c.newest, c.expected, c.actual, c.contribution); field != c.field || side != c.side {
			t.Errorf("%v: field %d, side %d", c, field, side)
		}
	}
}

func FuzzDecodeLearned(f *testing.F) {
	f.Add(Derive("", []Label{label(1, "a", 10, 20), label(2, "a", 11, 20), label(3, "a", 12, 20)}, 3).Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if l, err := DecodeLearned(b); err == nil && len(l) > 0 {
			if again, err := DecodeLearned(l.Encode()); err != nil || len(again) != len(l) {
				t.Fatal(err)
			}
		}
	})
}

// TestTopics: labels of one key in several topics are of as many series. Each topic has the rules about its own, which narrow one for all
// series there and not elsewhere.
func TestTopics(t *testing.T) {
	inTopic := func(i int, topic string, opened, peak float64) Label {
		l := label(i, "pump-1", opened, peak)
		l.Topic = topic
		return l
	}
	labels := []Label{inTopic(1, "a", 10, 20), inTopic(2, "b", 11, 22), inTopic(3, "c", 10, 24)}
	like := func(topic, series string, peak float64) bool {
		a := labels[0].Alarm
		a.Topic, a.Series, a.Peak = "", series, peak
		return Derive(topic, labels, 3).Like(&a) != nil
	}
	if !like("d", "pump-1", 22) || !like("a", "pump-2", 22) || !like("a", "pump-1", 22) {
		t.Error("three series of three topics make no rule for all series")
	}
	if l := Derive("a", labels, 3); slices.ContainsFunc(l, func(r LearnedRule) bool { return r.Series != "" && r.Most > 24 }) || len(l) < 2 {
		t.Errorf("in the series of a label the rule for all is not within what its topic's label makes: %+v", l)
	}
	if l := Derive("d", labels, 3); len(l) != 1 || l[0].Series != "" {
		t.Errorf("a topic without labels has rules for one series: %+v", l)
	}
	if l := Derive("a", labels[:1], 1); len(l) == 0 || l[0].Series != "pump-1" {
		t.Errorf("%+v", l)
	}
	if l := Derive("b", labels[:1], 1); slices.ContainsFunc(l, func(r LearnedRule) bool { return r.Series != "" }) {
		t.Errorf("a label of another topic makes a rule for one series: %+v", l)
	}
}
