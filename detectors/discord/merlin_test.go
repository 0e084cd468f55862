package discord

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"odradek/detectors"
	"odradek/detectors/seedtest"
)

// differDiscords compares discords of a length by their distances. Of equal ones others may be found,
// with the distances of the profile, and others may overlap these.
func differDiscords(got, want []Discord, p Profile, k int) bool {
	near := func(a, b float64, m int) bool {
		return math.Abs(a-b) <= 1e-6*float64(k) || math.Abs(Normalised(a, m, k)-Normalised(b, m, k)) <= 1e-9
	}
	for i, g := range got {
		if i >= len(want) || !near(g.Distance, p.Distance[g.At], g.Length) {
			return true
		}
		if w := want[i]; g.At != w.At {
			return !near(g.Distance, w.Distance, g.Length)
		}
	}
	return len(got) != len(want)
}

// defineMERLIN is the definition of MERLIN's result: the first k discords of each length.
func defineMERLIN(x []float64, l Lengths, k int, o Options) [][]Discord {
	var found [][]Discord
	for _, m := range l.All() {
		found = append(found, Define(x, m, o).Top(m, k))
	}
	return found
}

func TestMERLIN(t *testing.T) {
	rng := seedtest.New(t)
	for range 3 {
		for name, x := range nasty(rng, 150+rng.IntN(250)) {
			l := Lengths{Min: 3 + rng.IntN(20), Step: 1 + rng.IntN(4)}
			l.Max = l.Min + rng.IntN(60)
			count := 1 + rng.IntN(4)
			o := Options{ExcludeFlat: rng.IntN(2) == 0, Single: rng.IntN(2) == 0}
			if rng.IntN(3) == 0 {
				o.Exclusion = 1 + rng.IntN(l.Min)
			}
			options := func(int) Options { return o }
			got := MERLIN(x, l, count, options, detectors.Sequential)
			want := defineMERLIN(x, l, count, o)
			for i, m := range l.All() {
				if differDiscords(got[i], want[i], Define(x, m, o), 1) {
					t.Errorf("%s, %d values, %+v, %+v, m %d: got %v, want %v", name, len(x), l, o, m, got[i], want[i])
				}
			}
			if again := MERLIN(x, l, count, options, backwards); !reflect.DeepEqual(again, got) {
				t.Errorf("%s: others in parallel", name)
			}
		}
	}
}

// rangeDiscords returns the range discords of length m that search.ranges finds, in the order of their places.
func rangeDiscords(x []float64, m int, r float64, o Options, parallel detectors.Parallel) []Discord {
	if o.k() > 1 || len(x) < m {
		return Compute(x, m, o, parallel).Range(m, r)
	}
	s := search{from: lanes, exclusion: o.exclusion(m), parallel: parallel}
	s.series.load(x, m, o.ExcludeFlat)
	s.reserve()
	for i := range s.series.starts {
		s.near[i] = -1
		s.bound(i)
	}
	s.ranges(r, s.series.starts)
	var found []Discord
	for i, d := range s.d {
		if s.exact[i] && d >= r {
			found = append(found, Discord{At: i - lanes, Length: m, Distance: d, Nearest: int(s.near[i]) - lanes})
		}
	}
	return found
}

func TestRanges(t *testing.T) {
	rng := seedtest.New(t)
	for name, x := range nasty(rng, 300+rng.IntN(250)) {
		m := 3 + rng.IntN(30)
		o := Options{ExcludeFlat: rng.IntN(2) == 0, K: rng.IntN(3)}
		p := Compute(x, m, o, detectors.Sequential)
		for range 4 {
			r := 2 * math.Sqrt(float64(m)) * rng.Float64() * rng.Float64()
			if d := p.Distance[rng.IntN(len(p.Distance))]; d > 0 && rng.IntN(2) == 0 {
				r = d * (1 - 1e-7)
			}
			r = max(r, 1e-3) // the root of what roundings make of the correlation 1
			got, want := rangeDiscords(x, m, r, o, backwards), p.Range(m, r)
			same := len(got) == len(want)
			for i := 0; same && i < len(got); i++ {
				same = got[i].At == want[i].At && math.Abs(got[i].Distance-want[i].Distance) <= 1e-6*float64(o.k())
			}
			if !same {
				t.Errorf("%s, %d values, m %d, r %v, %+v: %d range discords, want %d", name, len(x), m, r, o, len(got), len(want))
			}
		}
	}
}

// TestMERLINOfRecordings compares MERLIN of a recording with whole profiles.
func TestMERLINOfRecordings(t *testing.T) {
	at := shared(t)
	x := column(t, 1, at, "data", "discords", "dev", "nprs44.txt.gz")[:9000]
	l := Lengths{Min: 120, Max: 180, Step: 4}
	got := MERLIN(x, l, 3, func(int) Options { return Options{} }, backwards)
	for i, m := range l.All() {
		p := Compute(x, m, Options{}, backwards)
		if differDiscords(got[i], p.Top(m, 3), p, 1) {
			t.Errorf("m %d: got %v, want %v", m, got[i], p.Top(m, 3))
		}
	}
}

// BenchmarkMERLIN is every length from 128 to 256 of a recording of 24,125 values.
func BenchmarkMERLIN(b *testing.B) {
	x := column(b, 1, shared(b), "data", "discords", "dev", "nprs44.txt.gz")
	for b.Loop() {
		MERLIN(x, Lengths{Min: 128, Max: 256}, 1, func(int) Options { return Options{} }, backwards)
	}
}

// BenchmarkRanges is the first discord of a random walk of 65,536 values by a good radius.
func BenchmarkRanges(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	x, v := make([]float64, 65536), 0.0
	for i := range x {
		v += rng.NormFloat64()
		x[i] = v
	}
	first := Compute(x, 128, Options{}, backwards).Top(128, 1)[0]
	for b.Loop() {
		if found := rangeDiscords(x, 128, 0.99*first.Distance, Options{}, backwards); len(found) == 0 {
			b.Fatal("none")
		}
	}
}
