package learned

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"odradek/detectors/seedtest"
	"odradek/processor/keystate/guard"
)

func label(id int, series string, opened, peak float64) Label {
	return Label{Anomaly: [16]byte{byte(id >> 8), byte(id)},
		Alarm: Alarm{Detector: "d", Series: series, Side: guard.Above, Opened: opened, Peak: peak}}
}

func fault(id int, series string, opened, peak float64) Label {
	l := label(id, series, opened, peak)
	l.Fault = true
	return l
}

func TestDerive(t *testing.T) {
	a := func(opened, peak float64) []Label {
		return []Label{label(1, "a", opened, peak), label(2, "a", opened+1, peak), label(3, "a", opened+2, peak)}
	}
	many := slices.Concat[[]Label]
	rng := seedtest.New(t)
	for _, c := range []struct {
		name   string
		labels []Label
		want   string // the rules: series, "*" for all, then from, to and most
	}{
		{"none", nil, ""},
		{"two", a(10, 20)[:2], ""},
		{"three", a(10, 20), "a 8.5 13.8 23"},
		{"negative scores", a(-10, -5), "a -11.5 -6.8 -4.25"},
		{"three of two series", []Label{label(1, "a", 10, 20), label(2, "a", 11, 20), label(3, "b", 12, 20)}, ""},
		{"three series", []Label{label(1, "a", 10, 20), label(2, "b", 11, 20), label(3, "c", 12, 20)}, "* 8.5 13.8 23"},
		{"three series, unlike", []Label{label(1, "a", 10, 20), label(2, "b", 11, 20), label(3, "c", 21, 22)}, ""},
		{"three series, unlike peaks", []Label{label(1, "a", 10, 20), label(2, "b", 11, 41), label(3, "c", 12, 20)}, ""},
		{"another unlike before them", []Label{label(9, "x", 1, 2), label(1, "a", 10, 20), label(2, "b", 11, 20), label(3, "c", 12, 20)}, "* 8.5 13.8 23"},
		{"other sides", many(a(10, 20)[:2], []Label{func() Label { l := label(3, "a", 11, 20); l.Side = guard.Below; return l }()}), ""},
		{"other fields", many(a(10, 20)[:2], []Label{func() Label { l := label(3, "a", 11, 20); l.Field = 1; return l }()}), ""},
		{"confirmed among them", many(a(10, 20), []Label{fault(4, "a", 11, 15)}), ""},
		{"confirmed, opens lower", many(a(10, 20), []Label{fault(4, "a", 9, 15)}), "a 9.000000000000002 13.8 23"},
		{"confirmed, opens higher", many(a(10, 20), []Label{fault(4, "a", 13, 15)}), "a 8.5 12.999999999999998 23"},
		{"confirmed, has a higher peak", many(a(10, 20), []Label{fault(4, "a", 11, 22)}), "a 8.5 13.8 21.999999999999996"},
		{"confirmed, far", many(a(10, 20), []Label{fault(4, "a", 11, 100)}), "a 8.5 13.8 23"},
		{"confirmed, of another series", many(a(10, 20), []Label{fault(4, "b", 11, 15)}), "a 8.5 13.8 23"},
		{"confirmed, of any series", []Label{label(1, "a", 10, 20), label(2, "b", 11, 20), label(3, "c", 12, 20), fault(4, "z", 11, 15)}, ""},
		{"no numbers", []Label{label(1, "a", math.NaN(), 20), label(2, "a", 1, math.Inf(1)), label(3, "a", 30, 20)}, ""},
	} {
		for range 10 {
			got := ""
			rng.Shuffle(len(c.labels), func(i, j int) { c.labels[i], c.labels[j] = c.labels[j], c.labels[i] })
			for i, r := range Derive(c.labels, 3) {
				if i > 0 {
					got += ", "
				}
				name := r.Series
				if r.All {
					name = "*"
				}
				got += fmt.Sprint(name, " ", r.From, " ", r.To, " ", r.Most)
			}
			if got != c.want {
				t.Errorf("%s: %q, want %q", c.name, got, c.want)
				break
			}
		}
	}
	if Derive(a(10, 20), 0) != nil {
		t.Error("rules without labels")
	}
	if got := Derive(a(10, 20)[:2], 2); len(got) != 1 || got[0].Count != 2 || !slices.Equal(got[0].Labels, [][16]byte{{0, 1}, {0, 2}}) {
		t.Errorf("rules of two labels: %+v", got)
	}
}

// TestLike: an anomaly is like the labelled ones as long as its highest score is within theirs.
func TestLike(t *testing.T) {
	l := Derive([]Label{label(1, "a", 10, 20), label(2, "a", 11, 20), label(3, "a", 12, 20)}, 3)
	for _, c := range []struct {
		name string
		a    func(*Alarm)
		want bool
	}{
		{"like", func(*Alarm) {}, true},
		{"opens lower", func(a *Alarm) { a.Opened = 8.4 }, false},
		{"opens higher", func(a *Alarm) { a.Opened = 13.9 }, false},
		{"at the margin", func(a *Alarm) { a.Opened, a.Peak = 13.7, 22.9 }, true},
		{"grows beyond", func(a *Alarm) { a.Peak = 23.1 }, false},
		{"no score", func(a *Alarm) { a.Opened = math.NaN() }, false},
		{"another detector", func(a *Alarm) { a.Detector = "e" }, false},
		{"another series", func(a *Alarm) { a.Series = "b" }, false},
		{"the other side", func(a *Alarm) { a.Side = guard.Below }, false},
		{"no side", func(a *Alarm) { a.Side = guard.Both }, false},
		{"another field", func(a *Alarm) { a.Field = 1 }, false},
	} {
		a := label(0, "a", 11, 18).Alarm
		c.a(&a)
		if got := l.Like(&a) != nil; got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

func randomLabels(rng *rand.Rand, n int) (list []Label) {
	for i := range n {
		l := label(i, string(rune('a'+rng.IntN(5))), 10+10*rng.Float64(), 20+10*rng.Float64())
		l.Field, l.Side, l.Fault = rng.IntN(3)-1, guard.Direction(rng.IntN(3)), rng.IntN(12) == 0
		list = append(list, l)
	}
	return list
}

// TestRandom: whatever the labels, no rule covers a confirmed anomaly, each covers all false alarms between its bounds, and
// the order of the labels does not matter.
func TestRandom(t *testing.T) {
	rng := seedtest.New(t)
	rules := 0
	for range 500 {
		labels := randomLabels(rng, rng.IntN(40))
		least := 1 + rng.IntN(4)
		l := Derive(labels, least)
		rules += len(l)
		for i := range labels {
			if r := l.Like(&labels[i].Alarm); r != nil && labels[i].Fault {
				t.Fatalf("%+v covers the confirmed %+v", r, labels[i])
			}
		}
		for i := range l {
			n := 0
			for k := range labels {
				if !labels[k].Fault && l[i:i+1].Like(&labels[k].Alarm) != nil {
					n++
				}
			}
			if n < l[i].Count || l[i].Count < least {
				t.Fatalf("%+v covers %d labels, of at least %d", l[i], n, least)
			}
		}
		other := slices.Clone(labels)
		rng.Shuffle(len(other), func(i, j int) { other[i], other[j] = other[j], other[i] })
		if !bytes.Equal(Derive(other, least).Encode(), l.Encode()) {
			t.Fatal("another order makes other rules")
		}
		got, err := Decode(l.Encode())
		if err != nil || !reflect.DeepEqual(got, l) {
			t.Fatalf("%+v %v, want %+v", got, err, l)
		}
	}
	if rules < 100 {
		t.Errorf("%d rules", rules)
	}
}

// TestFlood: of more rules than a decision holds, those of the most labels remain, the same in any order.
func TestFlood(t *testing.T) {
	rng := seedtest.New(t)
	var labels []Label
	for i := range MaxLabels {
		labels = append(labels, label(i, fmt.Sprint(i%(MaxLabels/4)), 10, 20))
	}
	for i := range 5 {
		labels[i] = label(i, "most", 10, 20)
	}
	l := Derive(labels, 3)
	rng.Shuffle(len(labels), func(i, j int) { labels[i], labels[j] = labels[j], labels[i] })
	if len(l) == 0 || len(l) > MaxRules || len(l.Encode()) > MaxBytes || !bytes.Equal(Derive(labels, 3).Encode(), l.Encode()) {
		t.Errorf("%d rules of %d bytes", len(l), len(l.Encode()))
	}
	if !slices.ContainsFunc(l, func(r Rule) bool { return r.All && r.Count == MaxLabels }) ||
		!slices.ContainsFunc(l, func(r Rule) bool { return r.Series == "most" && r.Count == 5 }) {
		t.Error("the rules of the most labels are left out")
	}
}

func TestSideOf(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		expected, actual, contribution []float64
		field                          int
		side                           guard.Direction
	}{
		{nil, nil, nil, -1, guard.Both},
		{[]float64{1, 2}, []float64{2, 1}, []float64{0.6, 0.4}, 0, guard.Above},
		{[]float64{1, 2}, []float64{2, 1}, []float64{nan, 0.4}, 1, guard.Below},
		{[]float64{1}, []float64{nan}, []float64{1}, 0, guard.Both},
		{nil, nil, []float64{0.2, 0.8}, 1, guard.Both},
	} {
		if field, side := SideOf(c.expected, c.actual, c.contribution); field != c.field || side != c.side {
			t.Errorf("%v: field %d, side %d", c, field, side)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(Derive([]Label{label(1, "a", 10, 20), label(2, "a", 11, 20), label(3, "a", 12, 20)}, 3).Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if l, err := Decode(b); err == nil && len(l) > 0 {
			if again, err := Decode(l.Encode()); err != nil || len(again) != len(l) {
				t.Fatal(err)
			}
		}
	})
}
