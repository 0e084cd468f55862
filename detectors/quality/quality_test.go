package quality

import (
	"math"
	"slices"
	"testing"

	"odradek/detectors/seedtest"
)

func equal(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9 {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// TestScaledSigmoid compares with the values that NAB's documentation of its scoring function gives.
func TestScaledSigmoid(t *testing.T) {
	f := func(y, want float64) {
		t.Helper()
		if got := scaledSigmoid(y); math.Abs(got-want) > 5e-6 {
			t.Errorf("at %v: got %v, want %v", y, got, want)
		}
	}
	f(-1, 0.98661)
	f(-0.5, 0.84828)
	f(0, 0)
	f(1, -0.98661)
	f(3, -1)
	f(100, -1)
}

func TestProbation(t *testing.T) {
	for n, want := range map[int]int{0: 0, 100: 15, 4032: 604, 4999: 749, 5000: 750, 22695: 750} {
		if got := Probation(n); got != want {
			t.Errorf("%d samples: got %d, want %d", n, got, want)
		}
	}
}

// detections returns a series of n samples with the score 1 at some and none elsewhere.
func detections(n int, windows []Span, at ...int) Scored {
	s := Scored{Scores: slices.Repeat([]float64{Never}, n), Windows: windows}
	for _, i := range at {
		s.Scores[i] = 1
	}
	return s
}

func TestNABRules(t *testing.T) {
	w := []Span{{40, 49}}
	raw := func(p int, want float64, windows []Span, at ...int) {
		t.Helper()
		equal(t, Profiles[p].Name, NABAt(Profiles[p], []Scored{detections(100, windows, at...)}, 0.5).Raw, want)
	}
	sigma := func(y float64) float64 { return 2/(1+math.Exp(5*y)) - 1 }
	raw(0, -1, w)                       // missed
	raw(2, -2, w)                       // and where that is worse
	raw(0, 1, w, 40)                    // at once
	raw(0, 1, w, 40, 43, 49)            // only the first counts
	raw(0, -0.11, nil, 60)              // false, without a window
	raw(0, -0.22, nil, 60, 61)          //
	raw(1, -0.44, nil, 60, 61)          // dearer
	raw(0, 0, nil, 3, 14)               // in the probation
	raw(0, -1-0.11, w, 20)              // before the first window
	raw(0, sigma(-.1)/sigma(-1), w, 49) // the last sample of the window is at -1/10
	raw(0, -1+0.11*sigma(1.0/9), w, 50) // just behind it
	raw(0, -1+0.11*sigma(9.0/9), w, 58) //
	raw(0, -1-0.11, w, 49+27)           // three lengths behind it

	// By hand: two windows of ten, one found at its fourth sample, one missed, and one
	// false alarm three samples behind the first: sigma(-0.7)/sigma(-1) - 1 +
	// 0.11*sigma(3/9) = 0.9414 / 0.9866 * ... normalised from -2 to 2.
	two := []Scored{detections(100, []Span{{40, 49}, {80, 89}}, 43, 52)}
	want := 0.941375544/0.986614298 - 1 + 0.11*-0.682218
	got := NABAt(Profiles[0], two, 0.5)
	if math.Abs(got.Raw-want) > 1e-5 || math.Abs(got.Score-100*(want+2)/4) > 1e-3 || got.Windows != 2 || got.Found != 1 || got.False != 1 {
		t.Errorf("by hand %v: %+v", want, got)
	}
}

func TestNABOfKnownDetectors(t *testing.T) {
	rnd := seedtest.New(t)
	var perfect, null, random []Scored
	for range 20 {
		n := 1000 + rnd.IntN(4000)
		var windows []Span
		for from := Probation(n) + rnd.IntN(300); from < n-n/12 && len(windows) < 2; from += n / 3 {
			windows = append(windows, Span{from, from + n/12})
		}
		p, r := detections(n, windows), detections(n, windows)
		for _, w := range windows {
			p.Scores[w.From] = 0.75
		}
		for i := range r.Scores {
			r.Scores[i] = rnd.Float64()
		}
		perfect, random = append(perfect, p), append(random, r)
		null = append(null, Scored{Scores: slices.Repeat([]float64{0.5}, n), Windows: windows})
	}
	for _, p := range Profiles {
		equal(t, "perfect", NAB(p, perfect).Score, 100)
		equal(t, "perfect's threshold", NAB(p, perfect).Threshold, 0.75)
		equal(t, "null", NAB(p, null).Score, 0)
		if s := NAB(p, random).Score; s <= 0 || s >= 90 {
			t.Errorf("random: %v", s)
		}
		// The best threshold is no worse than any other.
		best := NAB(p, random)
		for range 20 {
			if at := NABAt(p, random, rnd.Float64()); at.Raw > best.Raw+1e-9 {
				t.Errorf("%s: %v at %v is better than %v at %v", p.Name, at.Raw, at.Threshold, best.Raw, best.Threshold)
			}
		}
		equal(t, "again at the best", NABAt(p, random, best.Threshold).Raw, best.Raw)
	}
}

func TestRank(t *testing.T) {
	f := func(auc, ap float64, scores []float64, labels ...bool) {
		t.Helper()
		r, ok := RankOf(scores, labels)
		if !ok || math.Abs(r.AUC-auc) > 1e-12 || math.Abs(r.AP-ap) > 1e-12 {
			t.Errorf("%v %v: %+v", scores, labels, r)
		}
	}
	// scikit-learn's documentation: roc_auc_score 0.75, average_precision_score 0.83.
	f(0.75, 1.0/2+1.0/2*2/3, []float64{0.1, 0.4, 0.35, 0.8}, false, false, true, true)
	f(1, 1, []float64{1, 2, 3}, false, false, true)
	f(0.5, 1.0/3, []float64{1, 1, 1}, false, true, false)
	f(0.25, 1.0/3, []float64{Never, 2, Never}, true, false, false)
	if _, ok := RankOf([]float64{1, 2}, []bool{true, true}); ok {
		t.Error("one class has a rank")
	}
	rnd := seedtest.New(t)
	scores, labels := make([]float64, 200), make([]bool, 200)
	for i := range scores {
		scores[i], labels[i] = float64(rnd.IntN(30)), rnd.IntN(4) == 0
	}
	pairs, won := 0.0, 0.0
	for i := range scores {
		for j := range scores {
			if labels[i] && !labels[j] {
				pairs++
				if scores[i] > scores[j] {
					won++
				} else if scores[i] == scores[j] {
					won += 0.5
				}
			}
		}
	}
	r, _ := RankOf(scores, labels)
	equal(t, "AUC by pairs", r.AUC, won/pairs)
}

func TestAdjust(t *testing.T) {
	labels := []bool{false, true, true, true, false, true, true}
	detected := []bool{true, false, false, true, false, false, false}
	if got := Adjust(detected, labels); !slices.Equal(got, []bool{true, true, true, true, false, false, false}) {
		t.Error(got)
	}
	var c Confusion
	for i, d := range detected {
		c.Add(d, labels[i])
	}
	if (c != Confusion{TP: 1, FP: 1, FN: 4, TN: 1}) {
		t.Errorf("%+v", c)
	}
	equal(t, "F1", c.F1(), 2*0.5*0.2/0.7)
}

func TestChange(t *testing.T) {
	// One annotator, a change at 50 of 100: nothing found covers half by half.
	none := ChangeOf([][]int{{50}}, nil, 100)
	equal(t, "covering of nothing", none.Covering, 0.5)
	equal(t, "precision of nothing", none.Precision, 1)
	equal(t, "recall of nothing", none.Recall, 0.5)
	equal(t, "F1 of nothing", none.F1, 2.0/3)
	exact := ChangeOf([][]int{{50}}, []int{50}, 100)
	equal(t, "covering", exact.Covering, 1)
	equal(t, "F1", exact.F1, 1)
	near := ChangeOf([][]int{{50}, {}}, []int{45, 56}, 100)
	equal(t, "precision within 5", near.Precision, 2.0/3)
	equal(t, "recall within 5", near.Recall, 1)
	// By hand: segments [0,45) [45,56) [56,100); the first annotator's halves have
	// Jaccard 45/50 and 44/50, the second's whole 45/100.
	equal(t, "covering of two", near.Covering, ((0.5*0.9+0.5*0.88)+0.45)/2)
	both := ChangeOf([][]int{{50, 52}}, []int{51}, 100)
	equal(t, "a found point counts once", both.Recall, 2.0/3)
}

// TestUCRRule: a place is right up to max(length, 100) samples from the anomaly.
func TestUCRRule(t *testing.T) {
	for _, c := range []struct{ length, least, most int }{{1, 900, 1100}, {100, 900, 1199}, {150, 850, 1299}} {
		s := Series{Labels: make([]bool, 2000)}
		for i := range c.length {
			s.Labels[1000+i] = true
		}
		for place, want := range map[int]bool{c.least - 1: false, c.least: true, c.most: true, c.most + 1: false} {
			if s.UCRFinds(place) != want {
				t.Errorf("anomaly of %d samples: a place %d samples behind its first is right: %t", c.length, place-1000, !want)
			}
		}
	}
}

func TestRead(t *testing.T) {
	format, set, err := Read("testdata/nab")
	if err != nil || format != NABFormat || len(set) != 2 {
		t.Fatal(format, len(set), err)
	}
	s := set[1]
	if s.Name != "made/steps" || s.Len() != 40 || len(s.Windows) != 1 || s.Windows[0] != (Span{20, 25}) || !s.Labels[20] || s.Labels[26] ||
		s.Train != 6 || s.Times[1]-s.Times[0] != 300e6 {
		t.Errorf("%+v", s)
	}
	format, set, err = Read("testdata/tcpd")
	if err != nil || format != TCPDFormat || len(set) != 1 || set[0].Len() != 6 || len(set[0].Changes) != 2 || !math.IsNaN(set[0].Values[2]) ||
		set[0].Labels != nil {
		t.Errorf("%s %+v %v", format, set, err)
	}
	format, set, err = Read("testdata/rows")
	if err != nil || format != RowsFormat || len(set) != 1 || set[0].Dim != 2 || set[0].Train != 3 || set[0].Len() != 7 ||
		!slices.Equal(Runs(set[0].Labels), []Span{{4, 5}}) {
		t.Errorf("%s %+v %v", format, set, err)
	}
	format, set, err = Read("testdata/ucr")
	if err != nil || format != UCRFormat || len(set) != 1 || set[0].Name != "001_UCR_Anomaly_made_3_5_6" || set[0].Train != 3 ||
		!slices.Equal(set[0].Values, []float64{1.5, 2, 3, 4, 5, 6, 7, 8}) || !slices.Equal(Runs(set[0].Labels), []Span{{5, 6}}) {
		t.Errorf("%s %+v %v", format, set, err)
	}
	if _, _, err := Read("testdata/nab/data/made"); err == nil {
		t.Error("a folder without labels is read")
	}
	if _, _, err := Read("testdata/none"); err == nil {
		t.Error("a folder that is not there is read")
	}
}
