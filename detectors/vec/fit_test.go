package vec

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"odradek/detectors/seedtest"
)

// TestFit requires the line of most pairs, regardless of the values of the others.
func TestFit(t *testing.T) {
	rng := seedtest.New(t)
	for range 500 {
		n := 20 + rng.IntN(100)
		x, y, got := make([]float64, n), make([]float64, n), make([]float64, n)
		level, slope := 1e3*rng.NormFloat64(), rng.Float64()*5
		if rng.IntN(8) == 0 {
			slope = 0
		}
		for i := range x {
			x[i] = rng.NormFloat64()
			y[i] = level + slope*x[i]
		}
		want := append([]float64(nil), y...)
		known := 0
		switch rng.IntN(5) {
		case 4: // most of them, after those that are known
			known = n/3 + 1
			for i := known; i < n; i++ {
				y[i] = 7 * x[i] * rng.Float64()
			}
		case 0: // a spike
			y[rng.IntN(n)] += 1e6 * rng.NormFloat64()
		case 1: // a step
			for i := n - n/4; i < n; i++ {
				y[i] += 50 + 10*slope
			}
		case 2: // missing ones
			y[rng.IntN(n)], x[rng.IntN(n)] = math.NaN(), math.NaN()
		}
		Fit(got, y, x, known)
		for i := range got {
			if x[i] == x[i] && !(math.Abs(got[i]-want[i]) <= 1e-6*(1+math.Abs(want[i]))) {
				t.Fatalf("%v at %v, want %v", got[i], x[i], want[i])
			}
		}
	}
	got := make([]float64, 3)
	if Fit(got, []float64{3, 2, 1}, []float64{1, 2, 3}, 0); got[0] != got[2] {
		t.Errorf("a falling line: %v", got)
	}
	if Fit(got, []float64{5, 5, 5}, []float64{1, 1, 1}, 0); got[0] != 5 {
		t.Errorf("equal pairs: %v", got)
	}
}

// TestFitIsItsDefinition compares Fit, which selects the nearest pairs, with steps that sort all of them: to the bit, also where many
// pairs are equally far, not finite or missing.
func TestFitIsItsDefinition(t *testing.T) {
	rng := seedtest.New(t)
	for range 2000 {
		n := rng.IntN(150)
		x, y, got, want := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
		levels, odd := 1+rng.IntN(8), []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e300}
		for i := range n {
			x[i], y[i] = rng.NormFloat64(), rng.NormFloat64()*50
			if levels < 5 {
				x[i], y[i] = float64(rng.IntN(levels)), float64(rng.IntN(levels))
			}
			if levels%2 == 0 && rng.IntN(20) == 0 {
				y[i] = odd[rng.IntN(len(odd))]
			}
		}
		known := rng.IntN(n + 1)
		Fit(got, y, x, known)
		defineFit(want, y, x, known)
		for i := range want {
			if math.Float64bits(got[i]) != math.Float64bits(want[i]) && (got[i] == got[i] || want[i] == want[i]) {
				t.Fatalf("%d pairs, the first %d known: %v at %d, by the definition %v", n, known, got[i], i, want[i])
			}
		}
	}
}

// defineFit is Fit with sorted pairs.
func defineFit(dst, y, x []float64, known int) {
	var pairs []int
	for i := range y {
		if i == known && 3*len(pairs) >= len(y) {
			break
		}
		if y[i] == y[i] && x[i] == x[i] {
			pairs = append(pairs, i)
		}
	}
	half := (len(pairs) + 1) / 2
	level, slope, least := math.NaN(), 0.0, math.Inf(1)
	for _, initial := range [][]int{pairs[:half], pairs[len(pairs)-half:], pairs} {
		apart := make([]float64, len(y))
		l, s := line(y, x, initial)
		var kept []int
		for range 16 {
			for _, i := range pairs {
				apart[i] = math.Abs(y[i] - (l + s*x[i]))
			}
			nearest := slices.Clone(pairs)
			slices.SortStableFunc(nearest, func(a, b int) int { return cmp.Compare(apart[a], apart[b]) })
			nearest = nearest[:(3*len(pairs)+4)/5]
			slices.Sort(nearest)
			if slices.Equal(nearest, kept) {
				break
			}
			l, s = line(y, x, nearest)
			kept = nearest
		}
		sum := 0.0
		for _, i := range kept {
			e := y[i] - (l + s*x[i])
			sum += float64(e * e)
		}
		if sum < least {
			level, slope, least = l, s, sum
		}
	}
	for i := range dst {
		dst[i] = level + slope*x[i]
	}
}

func BenchmarkFit(b *testing.B) {
	for name, fit := range map[string]func(dst, y, x []float64, known int){"fast": Fit, "sorted": defineFit} {
		b.Run(name, func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 1))
			x, y, dst := make([]float64, 200), make([]float64, 200), make([]float64, 200)
			for i := range x {
				x[i] = rng.NormFloat64()
				y[i] = 3*x[i] + rng.NormFloat64()
			}
			for b.Loop() {
				fit(dst, y, x, 0)
			}
		})
	}
}
