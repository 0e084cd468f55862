package discord

import (
	"math"
	"reflect"
	"testing"
)

var nan = math.NaN()

// same compares numbers of which some are NaN.
func same(got, want []float64, tolerance float64) bool {
	if len(got) != len(want) {
		return false
	}
	for i, w := range want {
		if g := got[i]; !(math.Abs(g-w) <= tolerance) && (g == g || w == w) {
			return false
		}
	}
	return true
}

func TestDefinition(t *testing.T) {
	// A rise by 1 is, z-normalised, -1 1, and a fall 1 -1: opposites are 2*sqrt(2) apart.
	far, half := 2*math.Sqrt2, 2. // half: a flat one and another, sqrt(2m)
	for _, c := range []struct {
		name    string
		x       []float64
		m       int
		o       Options
		d       []float64
		nearest []int
		left    []float64 // of LeftQuery.Define, as distances; nil where it does not define them
	}{
		{"a fall among rises", []float64{0, 1, 2, 4, 3, 7, 9, 9.5}, 2, Options{},
			[]float64{0, 0, 0, far, 0, 0, 0}, []int{2, 4, 0, 0, 0, 0, 0}, []float64{nan, nan, 0, far, 0, 0, 0}},
		{"its twin", []float64{0, 1, 2, 1, 2, 3, 2, 3}, 2, Options{},
			[]float64{0, 0, 0, 0, 0, 0, 0}, []int{3, 3, 5, 0, 0, 2, 0}, []float64{nan, nan, far, 0, 0, 0, 0}},
		{"two neighbours hide no twins", []float64{0, 1, 2, 1, 2, 3, 2, 3}, 2, Options{K: 2},
			[]float64{0, 0, far, 0, 0, far, 0}, []int{3, 3, 5, 0, 0, 2, 0}, []float64{nan, nan, 2 * far, 0, far, far, 0}},
		{"flat", []float64{5, 5, 5, 5, 6}, 2, Options{},
			[]float64{0, half, 0, half}, []int{2, 3, 0, 0}, []float64{nan, nan, 0, half}},
		{"flat excluded", []float64{5, 5, 5, 5, 6}, 2, Options{ExcludeFlat: true},
			[]float64{0, nan, 0, nan}, []int{2, -1, 0, -1}, []float64{nan, nan, 0, nan}},
		{"not a number", []float64{0, 1, nan, 0, 1, 0, 1, math.Inf(1)}, 2, Options{},
			[]float64{0, nan, nan, 0, far, 0, nan}, []int{3, -1, -1, 0, 0, 0, -1}, []float64{nan, nan, nan, 0, far, 0, nan}},
		{"exclusion", []float64{0, 1, 2, 0}, 2, Options{Exclusion: 1},
			[]float64{0, 0, far}, []int{1, 0, 0}, nil},
		{"no neighbour", []float64{0, 1, 3}, 2, Options{}, []float64{nan, nan}, []int{-1, -1}, []float64{nan, nan}},
		{"too short", []float64{0, 1, 3}, 4, Options{}, []float64{}, []int{}, []float64{}},
		{"a level far from zero", []float64{1e9, 1e9 + 1e-3, 1e9 + 2e-3, 1e9 + 1e-3, 1e9 + 3e-3}, 2, Options{},
			[]float64{0, 0, far, 0}, []int{3, 3, 0, 0}, []float64{nan, nan, far, 0}},
		{"a tiny scale", []float64{0, 1e-200, 3e-200, 1e-200, 2e-200}, 2, Options{},
			[]float64{0, 0, far, 0}, []int{3, 3, 0, 0}, nil},
	} {
		p := Define(c.x, c.m, c.o)
		if !same(p.Distance, c.d, 1e-7) || !reflect.DeepEqual(p.Nearest, c.nearest) {
			t.Errorf("%s: got %v, want %v and %v", c.name, p, c.d, c.nearest)
		}
		if c.left == nil {
			continue
		}
		left := make([]float64, len(c.d))
		for i := range left {
			q := LeftQuery{M: c.m, K: c.o.k(), At: i, ExcludeFlat: c.o.ExcludeFlat}
			left[i] = q.Define(c.x, 1) * math.Sqrt(float64(2*c.m)) * float64(c.o.k()) // of a mean over the neighbours
		}
		if !same(left, c.left, 1e-7) {
			t.Errorf("%s: the left profile is %v, want %v", c.name, left, c.left)
		}
	}
}

func TestTop(t *testing.T) {
	p := Profile{[]float64{3, 5, 4, nan, 5, 1, 5}, []int{9, 9, 9, -1, 9, 9, 8}}
	at := func(d []Discord) (at []int) {
		for _, d := range d {
			at = append(at, d.At)
		}
		return at
	}
	for _, c := range []struct {
		name string
		got  []Discord
		want []int
	}{
		{"equal ones, the first first", p.Top(2, 9), []int{1, 4, 6}},
		{"none that overlaps", p.Top(3, 9), []int{1, 4}},
		{"two", p.Top(1, 2), []int{1, 4}},
		{"all", p.Top(1, 9), []int{1, 4, 6, 2, 0, 5}},
		{"range", p.Range(2, 4), []int{1, 2, 4, 6}},
		{"none", Profile{}.Top(3, 4), nil},
	} {
		if got := at(c.got); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
	if d := p.Top(2, 3)[2]; d != (Discord{6, 2, 5, 8}) {
		t.Errorf("the third is %v", d)
	}
}
