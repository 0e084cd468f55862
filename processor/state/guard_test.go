package state

import (
	"testing"

	"odradek/detectors"
	"odradek/processor/state/rules"
)

// expecting is level, which expects the row before.
type expecting struct{ level }

func (expecting) Explain(r detectors.Rows, fresh, _ int, expected, contribution []float64) (detectors.Location, bool) {
	expected[0], contribution[0] = float64(r.X[max(0, r.Len()-r.Fresh+fresh-1)]), 1
	return detectors.OneRow(r.Row(fresh)), true
}

// TestGuard: a score that a guard turns away is published with its threshold, opens nothing, and
// closes what is open.
func TestGuard(t *testing.T) {
	for _, c := range []struct {
		name    string
		g       *rules.Guard
		samples string
		want    []string
	}{
		{"none", nil, "a 1 0,a 2 30", []string{"a/high(0) open recovered@2#1 r1"}},
		{"above", &rules.Guard{Direction: rules.Above}, "a 1 0,a 2 30", []string{"a/high(0) open recovered@2#1 r1"}},
		{"below", &rules.Guard{Direction: rules.Below}, "a 1 0,a 2 30", nil},
		{"enough", &rules.Guard{Least: 30}, "a 1 0,a 2 30", []string{"a/high(0) open recovered@2#1 r1"}},
		{"too little", &rules.Guard{Least: 30.5}, "a 1 0,a 2 30", nil},
		{"share", &rules.Guard{Share: 0.5}, "a 1 100,a 2 130", nil},
		{"gate", &rules.Guard{Gates: []rules.Gate{{Bound: 80}}}, "a 1 0,a 2 30,a 3 81", []string{"a/high(0) open recovered@3#2 r1"}},
		{"closes", &rules.Guard{Gates: []rules.Gate{{Bound: 80, Below: true}}}, "a 1 0,a 2 30,a 3 90,a 4 110,a 5 140",
			[]string{"a/high(0) open recovered@2#1 r1", "a/high(0) close recovered@4#3 r2"}},
	} {
		cfg := watched()
		cfg.Detectors[0].Detector, cfg.Detectors[0].Guard = expecting{level{plain(2)}}, c.g
		x := newRig(t, cfg)
		x.fold(c.samples)
		t.Log(c.name)
		x.want(c.want...)
		rows := x.s.Rows
		last := rows[len(rows)-1]
		if last.Score < 30 || last.Threshold != 10 || last.Exceeds != (len(c.want) == 1) {
			t.Errorf("row %+v", last)
		}
	}
}
