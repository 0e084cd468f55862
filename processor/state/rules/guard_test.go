package rules

import (
	"math"
	"strings"
	"testing"
)

func TestAdmits(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		name                           string
		g                              Guard
		expected, actual, contribution []float64
		want                           bool
	}{
		{"no guard", Guard{}, []float64{5}, []float64{5}, []float64{1}, true},
		{"nothing expected", Guard{Direction: Above, Least: 9}, nil, nil, nil, true},
		{"above", Guard{Direction: Above}, []float64{5}, []float64{6}, []float64{1}, true},
		{"not above", Guard{Direction: Above}, []float64{5}, []float64{4}, []float64{1}, false},
		{"equal is not above", Guard{Direction: Above}, []float64{5}, []float64{5}, []float64{1}, false},
		{"below", Guard{Direction: Below}, []float64{5}, []float64{4}, []float64{1}, true},
		{"equal is not below", Guard{Direction: Below}, []float64{5}, []float64{5}, []float64{1}, false},
		{"exactly the least", Guard{Least: 2}, []float64{5}, []float64{3}, []float64{1}, true},
		{"less", Guard{Least: 2}, []float64{5}, []float64{6.9}, []float64{1}, false},
		{"exactly the share", Guard{Share: 0.5}, []float64{-4}, []float64{-2}, []float64{1}, true},
		{"a smaller share", Guard{Share: 0.5}, []float64{-4}, []float64{-2.5}, []float64{1}, false},
		{"the share of 0", Guard{Share: 0.5}, []float64{0}, []float64{1e-9}, []float64{1}, true},
		{"both, the larger counts", Guard{Least: 1, Share: 0.5}, []float64{4}, []float64{5.5}, []float64{1}, false},
		{"the field of the largest part", Guard{Direction: Above}, []float64{0, 0}, []float64{1, -1}, []float64{0.4, 0.6}, false},
		{"the first of equal parts", Guard{Direction: Above}, []float64{0, 0}, []float64{1, -1}, []float64{0.5, 0.5}, true},
		{"a part that is not known", Guard{Direction: Above}, []float64{0, 0}, []float64{-1, 1}, []float64{nan, 0.5}, true},
		{"no part is known", Guard{Direction: Above}, []float64{0, 0}, []float64{1, -1}, []float64{nan, nan}, true},
		{"a missing value", Guard{Least: 1}, []float64{0}, []float64{nan}, []float64{1}, false},
	} {
		if got := c.g.Admits(c.expected, c.actual, c.contribution); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

func TestGates(t *testing.T) {
	names := []string{"value", "rpm"}
	for _, c := range []struct {
		gates  string
		values []float64
		want   bool
	}{
		{"value>80", []float64{80, 0}, false},
		{"value>80", []float64{80.5, 0}, true},
		{"value < -1e3,rpm>20", []float64{-1001, 21}, true},
		{"value < -1e3,rpm>20", []float64{-1001, 20}, false},
		{"rpm>0", []float64{1, math.NaN()}, false},
		{"rpm<0", []float64{1, math.NaN()}, false},
	} {
		var g Guard
		for _, s := range strings.Split(c.gates, ",") {
			gate, err := ParseGate(s, names)
			if err != nil {
				t.Fatal(err)
			}
			g.Gates = append(g.Gates, gate)
		}
		if got := g.Open(func(i int) float64 { return c.values[i] }); got != c.want {
			t.Errorf("%s of %v: %t", c.gates, c.values, got)
		}
	}
	for s, want := range map[string]string{"value": "is not a field, > or <", "load>3": "not one of the detector's fields (value, rpm)",
		"value>": `"" is not a number`, "value>NaN": "not a number", "value>=3": `"=3" is not a number`} {
		if _, err := ParseGate(s, names); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", s, err)
		}
	}
}
