package discord

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"odradek/detectors"
	"odradek/detectors/seedtest"
)

func TestRangedDiscords(t *testing.T) {
	rng := seedtest.New(t)
	found, cut := 0, 0
	check := func(name string, x []float64, q RangeQuery) {
		t.Helper()
		var got, want []Ranged
		Ranges(x, &q, backwards, func(r Ranged) bool { got = append(got, r); return true })
		DefineRanges(x, &q, func(r Ranged) bool { want = append(want, r); return true })
		if len(got) != len(want) {
			t.Fatalf("%s: %d lengths, want %d", name, len(got), len(want))
		}
		for i, w := range want {
			o := q.Options(w.Length)
			if err := compareRanged(got[i], w, max(1, o.K), func() Profile { return Define(x, w.Length, o) }); err != nil {
				t.Errorf("%s, %d values, %+v, %+v: %v", name, len(x), q.Lengths, o, err)
			}
			found += w.Count
			if len(w.Found) < w.Count {
				cut++
			}
		}
		var again []Ranged
		Ranges(x, &q, detectors.Sequential, func(r Ranged) bool { again = append(again, r); return true })
		for i := range again {
			if !reflect.DeepEqual(again[i].Found, got[i].Found) {
				t.Errorf("%s: others in parallel", name)
			}
		}
	}
	for name, x := range nasty(rng, 120+rng.IntN(200)) {
		q := RangeQuery{Lengths: Lengths{Min: 3 + rng.IntN(20), Step: 1 + rng.IntN(4)}, Top: rng.IntN(4), Radius: Auto}
		q.Lengths.Max = min(q.Lengths.Min+rng.IntN(50), len(x)/2)
		if slices.Contains([]string{"tied", "square", "flat stretches"}, name) {
			q.Top = min(q.Top, 1) // of equally far ones another may be the first, and others overlap it, so that the Top-th is at another distance
		}
		if rng.IntN(2) == 0 {
			p := Define(x, q.Lengths.Min, Options{})
			q.Radius = max(1e-3, p.Distance[rng.IntN(len(p.Distance))]) // one that is there, or NaN
			if q.Radius != q.Radius || rng.IntN(2) == 0 {
				q.Radius = 0.01 + 2*math.Sqrt(float64(q.Lengths.Min))*rng.Float64()
			}
		}
		if rng.IntN(2) == 0 {
			q.Most = 1 + rng.IntN(20)
		}
		o := Options{ExcludeFlat: rng.IntN(2) == 0, Single: rng.IntN(2) == 0}
		if rng.IntN(3) == 0 {
			o.Exclusion = 1 + rng.IntN(q.Lengths.Min)
		}
		if rng.IntN(4) == 0 {
			o.K = 1 + rng.IntN(3)
		}
		q.Options = func(int) Options { return o }
		check(name, x, q)
	}
	for _, n := range []int{0, 2, 5, 6, 40, 41} { // up to half of the series and beyond
		x := make([]float64, n)
		for i := range x {
			x[i] = rng.NormFloat64()
		}
		for _, r := range []float64{Auto, 1} {
			check("short", x, RangeQuery{Lengths: Lengths{Min: 3, Max: n/2 + 2}, Radius: r, Options: func(int) Options { return Options{} }})
		}
	}
	if found < 100 || cut == 0 {
		t.Errorf("only %d range discords, %d lengths with more than are kept", found, cut)
	}
}

// TestRadii compares the radii of the first lengths with MERLIN's rule by hand.
func TestRadii(t *testing.T) {
	a := radii{q: &RangeQuery{Radius: Auto, Options: func(int) Options { return Options{} }}}
	at := func(d float64) []Discord { return []Discord{{Distance: d}} }
	nan := math.NaN()
	for i, c := range []struct{ reach, want float64 }{
		{5, 4},                         // of length 16: 8, halved
		{6, 0.99 * 5},                  // 1 % less than the last
		{5.85, 0.99 * 6 * 0.99 * 0.99}, // and 1 % less, until it is at most the distance
		{5.8, 0.99 * 5.85},             //
		{5.8, 0.99 * 5.8},              //
		{5.6, 0},                       // the mean less two deviations, see below
		{0, nan},                       // equal subsequences are no discords
		{-1, nan},                      // nor is there any
		{100, 50},                      // at least the half
	} {
		first := at(c.reach)
		if c.reach < 0 {
			first = nil
		}
		if i == 5 { // of 5, 6, 5.85, 5.8 and 5.8
			c.want = 5.69 - 2*math.Sqrt((0.69*0.69+0.31*0.31+0.16*0.16+2*0.11*0.11)/5)
		}
		if got := a.next(16, first); !(math.Abs(got-c.want) < 1e-9) && (got == got || c.want == c.want) {
			t.Errorf("radius %d is %v, want %v", i, got, c.want)
		}
	}
	a.last = []float64{5, 5.1, 5, 5.1, 5}
	if got, want := a.next(16, at(4.9)), 5.04-3*math.Sqrt(0.0024); math.Abs(got-want) > 1e-9 {
		t.Errorf("a radius that is too large falls to %v, want %v", got, want)
	}
}

func TestRangedStops(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	x := make([]float64, 200)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	q := RangeQuery{Lengths: Lengths{Min: 5, Max: 20}, Radius: Auto, Options: func(int) Options { return Options{} }}
	calls := 0
	Ranges(x, &q, detectors.Sequential, func(Ranged) bool { calls++; return calls < 3 })
	if calls != 3 {
		t.Errorf("%d lengths after it was told to stop at 3", calls)
	}
}

// TestRangedOfStumpy compares range discords with those in the matrix profiles of stumpy, whose exclusion was set so that
// |i-j| is at least m.
func TestRangedOfStumpy(t *testing.T) {
	x, seed := make([]float64, 600), uint32(1)
	for i := range x {
		seed = (seed*1103515245 + 12345) % (1 << 31)
		period := 40.0
		if i >= 300 && i < 330 {
			period = 20
		}
		x[i] = math.Sin(2*math.Pi*float64(i)/period) + 0.1*(float64(seed)/(1<<31)-0.5)
	}
	text, err := os.ReadFile("testdata/ranged_stumpy.txt")
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var m int
		var r float64
		if _, err := fmt.Sscan(line, &m, &r); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		var want []Discord
		for _, field := range strings.Fields(line)[2:] {
			d := Discord{Length: m}
			if _, err := fmt.Sscanf(field, "%d:%g", &d.At, &d.Distance); err != nil {
				t.Fatalf("%q: %v", field, err)
			}
			want = append(want, d)
		}
		// As the first length, and as one that follows others.
		for _, l := range []Lengths{{Min: m, Max: m}, {Min: max(3, m-9), Max: m, Step: min(9, m-3)}} {
			q := RangeQuery{Lengths: l, Radius: r, Options: func(int) Options { return Options{} }}
			Ranges(x, &q, detectors.Sequential, func(got Ranged) bool {
				if got.Length == m {
					slices.SortFunc(got.Found, func(a, b Discord) int { return a.At - b.At })
					sameDiscords(t, fmt.Sprintf("m %d, r %v", m, r), got.Found, want)
					compared += len(want)
				}
				return true
			})
		}
	}
	if compared < 500 {
		t.Errorf("only %d range discords compared", compared)
	}
}
