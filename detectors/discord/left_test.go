package discord

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"odradek/detectors/seedtest"
)

// leftSignals returns series of n rows, usual and difficult ones.
func leftSignals(rng *rand.Rand, n int) map[string][]float64 {
	walk := 0.0
	series := func(f func(i int) float64) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = f(i)
		}
		return x
	}
	at := rng.IntN(n)
	return map[string][]float64{
		"noise":         series(func(int) float64 { return rng.NormFloat64() }),
		"walk":          series(func(int) float64 { walk += rng.NormFloat64(); return walk }),
		"tone":          series(func(i int) float64 { return math.Sin(float64(i) * 0.3) }),
		"period":        series(func(i int) float64 { return float64(i % 7 * (i % 7)) }),
		"tied":          series(func(int) float64 { return float64(rng.IntN(3)) }),
		"constant":      series(func(int) float64 { return 0.1 }),
		"level":         series(func(i int) float64 { return float64(i / (n/2 + 1)) }),
		"rests":         series(func(i int) float64 { return rng.NormFloat64() * float64(i/20%2) }),
		"step of 1e9":   series(func(i int) float64 { return 1e9*float64(i/(n/2+1)) + rng.NormFloat64() }),
		"far from zero": series(func(int) float64 { return 1e9 + 0.001*rng.NormFloat64() }),
		"spikes": series(func(int) float64 {
			if rng.IntN(25) == 0 {
				return 1e9 * rng.NormFloat64()
			}
			return rng.NormFloat64()
		}),
		"tiny": series(func(int) float64 { return 1e-30 * rng.NormFloat64() }),
		"huge": series(func(int) float64 { return 1e30 * rng.NormFloat64() }),
		"one not a number": series(func(i int) float64 {
			if i == at {
				return math.NaN()
			}
			return rng.NormFloat64()
		}),
		"one infinite": series(func(i int) float64 {
			if i == at {
				return math.Inf(-1)
			}
			return rng.NormFloat64()
		}),
		"not a number": series(func(int) float64 { return math.NaN() }),
	}
}

// leftNear reports whether a score is the definition's: the correlation of a copy is exact to 1e-15,
// and its root to 1e-7.
func leftNear(got, want float64) bool {
	return got == want || got != got && want != want || math.Abs(got-want) <= 1e-6*want+2e-7
}

// samePlaces reports whether neighbours are the definition's, up to the first one whose correlation is the
// other's but for roundings, which decide next to the limit of two numbers in float32 whether they are ties.
func samePlaces(x []float64, dim int, q LeftQuery, got, want []int) bool {
	apart := func(at int) (sum float64) {
		for c := range dim {
			sum += dissimilarity(x, dim, c, at, q.At, q.M, q.ExcludeFlat)
		}
		return sum / float64(dim)
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return math.Abs(apart(got[i])-apart(want[i])) < 1e-7
		}
	}
	return len(got) == len(want)
}

// TestLeft compares the fast form with the definition: rows of one value and of several, one neighbour
// and more, both flat rules, and lengths around the sizes of vectors.
func TestLeft(t *testing.T) {
	rng := seedtest.New(t)
	var l LeftScorer
	var w LeftMemory
	scored := 0
	for name, x := range leftSignals(rng, 150) {
		other := leftSignals(rng, 150)
		for _, m := range []int{3, 4, 5, 8, 13, 32, 50} {
			for _, dim := range []int{1, 2} {
				rows := x
				if dim == 2 {
					rows = nil
					for i, v := range other[[]string{"noise", "tied", "rests", name}[rng.IntN(4)]] {
						rows = append(rows, x[i], v)
					}
				}
				exclude := rng.IntN(2) == 0
				l.Load(rows, dim)
				l.Length(m, exclude)
				for range 6 {
					q := LeftQuery{M: m, K: 1 + rng.IntN(3), From: rng.IntN(20), At: rng.IntN(150 - m + 1), ExcludeFlat: exclude}
					want, places := q.define(rows, dim)
					got, at := l.Neighbours(&w, q.From, q.At, q.K)
					if !samePlaces(rows, dim, q, at, places) || slices.Equal(at, places) && !leftNear(got, want) {
						t.Errorf("%s, dim %d, %+v: %v at %v, the definition gives %v at %v", name, dim, q, got, at, want, places)
					}
					if want == want {
						scored++
					}
				}
			}
		}
	}
	if scored < 500 {
		t.Errorf("%d subsequences have a score", scored)
	}
}

// TestLeftAlone requires that a score has the same bits regardless of what else was computed with the same
// memory.
func TestLeftAlone(t *testing.T) {
	rng := seedtest.New(t)
	var used LeftScorer
	var w LeftMemory
	for name, x := range leftSignals(rng, 90) {
		used.Load(x, 1)
		used.Length(7, false)
		for range 5 {
			from, at, k := rng.IntN(10), 30+rng.IntN(50), 1+rng.IntN(2)
			var fresh LeftScorer
			fresh.Load(x, 1)
			fresh.Length(7, false)
			a, b := used.Score(&w, from, at, k), fresh.Score(&LeftMemory{}, from, at, k)
			if math.Float64bits(a) != math.Float64bits(b) && (a == a || b == b) {
				t.Errorf("%s: %v with used memory, %v with new", name, a, b)
			}
		}
	}
}

// TestLeftCases requires scores that follow from the text of the definition.
func TestLeftCases(t *testing.T) {
	score := func(x []float64, q LeftQuery) float64 {
		var l LeftScorer
		var w LeftMemory
		l.Load(x, 1)
		l.Length(q.M, q.ExcludeFlat)
		got, want := l.Score(&w, q.From, q.At, q.K), q.Define(x, 1)
		if !leftNear(got, want) {
			t.Errorf("%v %+v: %v, the definition gives %v", x, q, got, want)
		}
		return want
	}
	for name, c := range map[string]struct {
		x    []float64
		q    LeftQuery
		want float64
	}{
		"a copy, scaled and moved": {[]float64{1, 2, 4, 30, 50, 90}, LeftQuery{M: 3, K: 1, At: 3}, 0},
		"the opposite":             {[]float64{1, 2, 3, 3, 2, 1}, LeftQuery{M: 3, K: 1, At: 3}, math.Sqrt2},
		"uncorrelated":             {[]float64{1, 0, 1, 5, 6, 7}, LeftQuery{M: 3, K: 1, At: 3}, 1},
		"flat and flat":            {[]float64{1, 1, 1, 5, 5, 5}, LeftQuery{M: 3, K: 1, At: 3}, 0},
		"flat and another":         {[]float64{1, 2, 3, 5, 5, 5}, LeftQuery{M: 3, K: 1, At: 3}, 1},
		"another and flat":         {[]float64{5, 5, 5, 1, 2, 3}, LeftQuery{M: 3, K: 1, At: 3}, 1},
		"flat ones left out":       {[]float64{5, 5, 5, 1, 2, 3}, LeftQuery{M: 3, K: 1, At: 3, ExcludeFlat: true}, math.NaN()},
		"not a number":             {[]float64{1, 2, math.NaN(), 1, 2, 3}, LeftQuery{M: 3, K: 1, At: 3}, math.NaN()},
		"none ends before":         {[]float64{1, 2, 3, 4, 6}, LeftQuery{M: 3, K: 1, At: 2}, math.NaN()},
		"a copy and its opposite":  {[]float64{1, 2, 4, -1, -2, -4, 1, 2, 4}, LeftQuery{M: 3, K: 2, At: 6}, math.Sqrt2 / 2},
		"fewer than K":             {[]float64{1, 2, 3, 3, 2, 1}, LeftQuery{M: 3, K: 5, At: 3}, math.Sqrt2},
		"before From":              {[]float64{1, 2, 3, 3, 2, 1, 1, 2, 3}, LeftQuery{M: 3, K: 1, From: 3, At: 6}, math.Sqrt2},
	} {
		if got := score(c.x, c.q); !leftNear(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestLeftReference compares with left discords that an independent program found in
// series of the UCR archive: the highest score of the test part, its place and distance.
func TestLeftReference(t *testing.T) {
	at := shared(t)
	checked := 0
	for line := range strings.Lines(unzip(t, at, "reference", "ucr_discord_reference_dev.txt.gz")) {
		v := strings.Fields(line)
		if len(v) < 12 || v[0] == "file" {
			continue
		}
		number := func(i int) int {
			n, err := strconv.Atoi(v[i])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		// The others are longer, up to 99,000 samples: hours.
		if n, m := number(3), number(7); n <= 6700 && m <= 100 {
			checked++
			leftReference(t, filepath.Join(at, "data", "ucr", "dev", v[0]), number(4), m, number(10), v[11])
		}
	}
	if checked == 0 {
		t.Error("no series")
	}
}

func leftReference(t *testing.T, file string, train, m, place int, distance string) {
	want, err := strconv.ParseFloat(distance, 64)
	if err != nil {
		t.Fatal(err)
	}
	var x []float64
	for _, w := range strings.Fields(unzip(t, file)) {
		v, err := strconv.ParseFloat(w, 64)
		if err != nil {
			t.Fatal(err)
		}
		x = append(x, v)
	}
	var l LeftScorer
	var w LeftMemory
	l.Load(x, 1)
	l.Length(m, false)
	best, at := -1.0, 0
	for i := train; i+m <= len(x); i++ {
		if s := l.Score(&w, 0, i, 1); s > best {
			best, at = s, i
		}
	}
	if best *= math.Sqrt(2 * float64(m)); at != place || math.Abs(best-want) > 1e-6*want {
		t.Errorf("%s, length %d: %v at %d, want %v at %d", filepath.Base(file), m, best, at, want, place)
	}
}

func BenchmarkLeft(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, m := range []int{32, 64, 256} {
		x := make([]float64, 2048)
		for i := range x {
			x[i] = rng.NormFloat64()
		}
		var l LeftScorer
		var w LeftMemory
		b.Run(fmt.Sprintf("window=2048/m=%d", m), func(b *testing.B) {
			for b.Loop() {
				l.Load(x, 1)
				l.Length(m, false)
				l.Score(&w, 0, len(x)-m, 1)
			}
		})
		b.Run(fmt.Sprintf("window=2048/m=%d/another", m), func(b *testing.B) {
			for b.Loop() {
				l.Score(&w, 0, len(x)-m, 1)
			}
		})
	}
}
