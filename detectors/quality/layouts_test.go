package quality

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestReadLayouts(t *testing.T) {
	format, set, err := Read("testdata/skab")
	if err != nil || format != SKABFormat || len(set) != 1 {
		t.Fatal(format, len(set), err)
	}
	s := set[0]
	if s.Name != "valve1/0" || s.Dim != 2 || s.Len() != 5 || s.Train != 5 || !s.Timed || s.Times[1]-s.Times[0] != 1e6 ||
		!math.IsNaN(s.Values[3]) || !slices.Equal(Runs(s.Labels), []Span{{2, 3}}) {
		t.Errorf("%+v", s)
	}
	format, set, err = Read("testdata/tsb")
	if err != nil || format != TSBFormat || len(set) != 1 {
		t.Fatal(format, len(set), err)
	}
	s = set[0]
	if s.Name != "001_Made_id_1_Facility_tr_2_1st_3" || s.Dim != 2 || s.Len() != 5 || s.Train != 2 || s.Timed || !math.IsNaN(s.Values[5]) ||
		!slices.Equal(Runs(s.Labels), []Span{{2, 3}}) {
		t.Errorf("%+v", s)
	}
	format, set, err = Read("testdata/exathlon")
	if err != nil || format != ExathlonFormat || len(set) != 1 {
		t.Fatal(format, len(set), err)
	}
	s = set[0]
	if s.Name != "1_2_100_3" || s.Dim != 2 || s.Len() != 8 || s.Train != 1 || !s.Timed || s.Times[0] != 1500e6 || !math.IsNaN(s.Values[3]) ||
		!slices.Equal(Runs(s.Labels), []Span{{2, 4}, {6, 6}}) {
		t.Errorf("%+v", s)
	}
}

// TestReadFaults: an error names the file, and the row if it is one's fault.
func TestReadFaults(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"x_tr_2_1.csv":       {"a,b\n1,2\n", "no column Label"},
		"y_tr_9_1.csv":       {"a,Label\n1,0\n", "a training part of 9"},
		"z_tr_0_1.csv":       {"a,Label\n1,0\nx,0\n", "row 2"},
		"s.csv":              {"datetime;a;anomaly\n9 March;1;0\n", "row 1"},
		"u.csv":              {"datetime;a;anomaly\n2020-03-09 10:14:33;much;0\n", "row 1"},
		"ground_truth.csv":   {"trace_name,root_cause_start\na,1\n", "root_cause_end"},
		"a/ground_truth.csv": {"trace_name,root_cause_start,root_cause_end,extended_effect_end\nq,,5,\n", "row 1"},
	} {
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Read(dir); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, want %q and the file", name, err, c.want)
		}
	}
}

// TestEvents: measures by anomaly of four series, by hand.
func TestEvents(t *testing.T) {
	tally := NewTally(RowsFormat, "d", 0)
	for i, c := range []struct {
		opens, exceeds []int
		closed         int
	}{
		{opens: []int{52, 80}, exceeds: []int{52, 80}, closed: 99},
		{opens: []int{40}, exceeds: []int{40, 54}, closed: 99},
		{exceeds: []int{53}}, // no anomaly opens: not found
		{opens: []int{30}, exceeds: []int{30, 55}, closed: 45}, // closed before
	} {
		s := &Series{Dim: 1, Labels: make([]bool, 100), Train: 20, Timed: i != 9}
		for k := range 100 {
			s.Times, s.Values = append(s.Times, int64(k)*3600e6), append(s.Values, float64(k%7))
			s.Labels[k] = k >= 50 && k < 60
		}
		v := NewResults(100)
		for k := range v.Scores {
			v.Scores[k] = 0
		}
		v.Opens = c.opens
		for _, k := range c.exceeds {
			v.Exceeds[k], v.Scores[k] = true, 1
		}
		if len(c.opens) > 0 {
			v.Detect(c.opens[0], c.closed)
		}
		tally.Add(s, &v)
	}
	m := tally.Result().LabelMeasures
	equal(t, "precision", m.EventPrecision, 1.0/4)
	equal(t, "recall", m.EventRecall, 2.0/4)
	equal(t, "delay", m.Delay, 3)
	equal(t, "false a sample", m.FalsePerSample, 3.0/280)
	equal(t, "false a day", *m.FalsePerDay, 3/(4*79.0/24*70/80))
	for name, at := range map[string]float64{"event_recall": m.EventRecall, "event_precision": m.EventPrecision, "vus_pr": m.Volume} {
		if i := m.Intervals[name]; !(i[0] <= at && at <= i[1] && i[0] < i[1]) {
			t.Errorf("%s %v is not within %v", name, at, i)
		}
	}
	// Of one series nothing is said, of equal series no doubt is left.
	one := NewTally(RowsFormat, "d", 0)
	v := NewResults(100)
	one.Add(&Series{Dim: 1, Times: make([]int64, 100), Values: make([]float64, 100), Labels: make([]bool, 100)}, &v)
	if m := one.Result().LabelMeasures; m.Intervals != nil || m.Delay != -1 || m.FalsePerDay != nil {
		t.Errorf("%+v", m)
	}
}
