package backtest

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"odradek/cmd/internal/config"
	"odradek/detectors"
	"odradek/detectors/quality"
	"odradek/detectors/seedtest"
	"odradek/processor/state"
)

// How many samples are scored together is of no account.
func TestReplayGivesTheScoresOfTheDetector(t *testing.T) {
	n := 700
	s := quality.Series{Name: "s", Dim: 2}
	rnd := rand.New(rand.NewPCG(5, 1))
	for i := range n {
		s.Times = append(s.Times, int64(i)*1e6)
		s.Values = append(s.Values, rnd.NormFloat64(), rnd.NormFloat64())
	}
	s.Values[2*600] = math.NaN()
	env := []string{"ODRADEK_DETECTORS=near", "ODRADEK_DETECTOR_NEAR_OP=knn", "ODRADEK_DETECTOR_NEAR_WINDOW=40", "ODRADEK_DETECTOR_NEAR_K=1",
		"ODRADEK_DETECTOR_NEAR_MIN_POINTS=2", "ODRADEK_DETECTOR_NEAR_EMBED=1"}
	got := saidOf(t, env, &s)
	for i, score := range got[0].Scores {
		want := math.Inf(1)
		for j := max(0, i-39); j < i; j++ {
			if d := math.Hypot(s.Values[2*i]-s.Values[2*j], s.Values[2*i+1]-s.Values[2*j+1]); d < want {
				want = d
			}
		}
		switch {
		case i < 1 || i == 600:
			if score != quality.Never {
				t.Errorf("sample %d has the score %v", i, score)
			}
		case i < 600 && math.Abs(score-want) > 1e-5*(1+want):
			t.Errorf("sample %d: got %v, want %v", i, score, want)
		}
	}
	if slices.Contains(got[0].Exceeds[:64], true) {
		t.Error("a score exceeds while the threshold warms up")
	}
}

// dataSetOf returns the run of a data set with the settings of environment lines.
func dataSetOf(t testing.TB, env []string, set ...quality.Series) (*DataSet, *Config) {
	t.Helper()
	states := map[int]*state.Config{}
	for i := range set {
		s := &set[i]
		if s.Labels == nil {
			s.Labels = make([]bool, s.Len())
		}
		c, faults := config.ParseSeries(env, s.Dim)
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		var err error
		if states[s.Dim], err = c.KeystateConfig(); err != nil {
			t.Fatal(err)
		}
	}
	d := NewDataSet(set, quality.RowsFormat, "t", states)
	exec := detectors.NewCPU(2)
	t.Cleanup(func() { exec.Close() })
	return d, &Config{State: states[set[0].Dim], Executor: exec, Source: d, Plots: 5}
}

// saidOf returns what the detectors say of a series.
func saidOf(t testing.TB, env []string, s *quality.Series) (said []quality.Results) {
	t.Helper()
	d, run := dataSetOf(t, env, *s)
	d.added = func(_ int, v []quality.Results) { said = v }
	if _, err := Run(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	return said
}

// TestDataSet runs labelled series of one value and of two, one of them empty, and of
// each what it finds of the series alone, in their order.
func TestDataSet(t *testing.T) {
	rnd := seedtest.New(t)
	var set []quality.Series
	for i := range 12 {
		s := quality.Series{Name: fmt.Sprintf("folder/%d", i), Dim: 1 + i%2, Train: 100}
		n := 3000 + rnd.IntN(9000)
		if i == 4 {
			n = 0
		}
		s.Labels = make([]bool, n)
		for j := range n {
			s.Times = append(s.Times, int64(j)*1e6)
			for range s.Dim {
				v := rnd.NormFloat64()
				if j%1000 == 900 {
					v += 30
					s.Labels[j] = true
				}
				s.Values = append(s.Values, v)
			}
		}
		set = append(set, s)
	}
	env := []string{"ODRADEK_DETECTORS=level,near", "ODRADEK_DETECTOR_LEVEL_OP=zscore", "ODRADEK_DETECTOR_LEVEL_WINDOW=64",
		"ODRADEK_DETECTOR_LEVEL_THRESHOLD=conformal:0.002", "ODRADEK_DETECTOR_NEAR_OP=knn", "ODRADEK_DETECTOR_NEAR_WINDOW=64",
		"ODRADEK_DETECTOR_NEAR_EMBED=2", "ODRADEK_DETECTOR_NEAR_K=2"}
	d, run := dataSetOf(t, env, set...)
	var order []int
	d.added = func(i int, said []quality.Results) {
		order = append(order, i)
		if want := saidOf(t, env, &set[i]); !reflect.DeepEqual(said, want) {
			t.Errorf("series %d: other results than alone", i)
		}
	}
	s, err := Run(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	if len(order) != len(set) || !slices.IsSorted(order) {
		t.Errorf("the series are measured in the order %v", order)
	}
	samples, runs := 0, 0
	for i := range set {
		samples, runs = samples+set[i].Len(), runs+len(quality.Runs(set[i].Labels))
	}
	for i, m := range d.Measures() {
		together := i == len(s.Detectors)
		if m.Series != len(set) || m.Samples != samples || m.Runs != runs || m.Found < runs/2 || !together && m.AUC < 0.9 {
			t.Errorf("%+v, %+v; %d samples, %d labelled", m, m.LabelMeasures, samples, runs)
		}
		if together {
			alone := d.Measures()[:i]
			opened, found := 0, 0
			for _, a := range alone {
				opened, found = opened+a.Opened, max(found, a.Found)
			}
			if m.Detector != Together || m.Opened != opened || m.Found < found || m.Ranked != 0 {
				t.Errorf("together %+v, %+v; alone %d opened, %d found", m, m.LabelMeasures, opened, found)
			}
			continue
		}
		if a := s.Detectors[i]; a.Name != m.Detector || a.Labelled != runs || a.Found < runs/2 {
			t.Errorf("%s: the summary has %d of %d labelled ones", a.Name, a.Found, a.Labelled)
		}
	}
	if s.Rows != int64(samples) || s.Series != len(set)-1 {
		t.Errorf("%d rows of %d series", s.Rows, s.Series)
	}
	var page bytes.Buffer
	err = s.WriteReport(&page, []string{"x0", "x1"}, Report{Title: "T"})
	if err != nil || !strings.Contains(page.String(), "folder/3") {
		t.Errorf("%v; the page lacks a series", err)
	}
}
