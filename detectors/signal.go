package detectors

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// Signal is a series of n rows with a name, an input of the ops' cases.
type Signal struct {
	Name string
	At   func(i, n int) float64
}

// Signals returns ordinary and difficult series. Some have state, so each is used once.
func Signals(rng *rand.Rand) []Signal {
	turn := func(i, n int, a, b float64) float64 {
		if i < n/2 {
			return a
		}
		return b
	}
	walk := 0.0
	burst := rng.IntN(1 << 20)
	return []Signal{
		{"noise", func(int, int) float64 { return rng.NormFloat64() }},
		{"walk", func(int, int) float64 { walk += rng.NormFloat64(); return walk }},
		{"tones", func(i, n int) float64 {
			return math.Sin(float64(i)*turn(i, n, 0.3, 0.5)) + 0.1*rng.NormFloat64()
		}},
		{"pure tone", func(i, n int) float64 { return math.Sin(float64(i) * turn(i, n, 0.3, 0.5)) }},
		{"step", func(i, n int) float64 { return turn(i, n, 0, 5) + 0.2*rng.NormFloat64() }},
		{"level", func(i, n int) float64 { return turn(i, n, 1, 2) }},
		{"constant", func(int, int) float64 { return 0.1 }},
		{"tied", func(int, int) float64 { return float64(rng.IntN(3)) }},
		{"square", func(i, n int) float64 { return float64(i / 5 % 2) }},
		{"drift", func(i, n int) float64 { return float64(i) }},
		{"far from zero", func(int, int) float64 { return 1e9 + 0.001*rng.NormFloat64() }},
		{"huge", func(int, int) float64 { return 1e30 * rng.NormFloat64() }},
		{"tiny", func(int, int) float64 { return 1e-30 * rng.NormFloat64() }},
		{"spikes", func(i, n int) float64 {
			if rng.IntN(25) == 0 {
				return 1e9 * rng.NormFloat64()
			}
			return rng.NormFloat64()
		}},
		{"spike at the end", func(i, n int) float64 {
			if i > n-1-burst%8 {
				return 1e6
			}
			return rng.NormFloat64()
		}},
		{"one not a number", func(i, n int) float64 {
			if i == burst%n {
				return math.NaN()
			}
			return rng.NormFloat64()
		}},
		{"not a number", func(int, int) float64 { return math.NaN() }},
	}
}

// NewCase lays a chain of tasks over as many rows as the first of them needs
// and extra more, with a signal for each value of a row.
func NewCase(what string, d Detector, dim, extra int, fresh []int, values ...Signal) Case {
	n := d.Window() - 1 + extra
	for _, f := range fresh {
		n += f
	}
	c := Case{Name: fmt.Sprintf("%s, dim %d, fresh %v", what, dim, fresh), Detector: d, Dim: dim, Fresh: fresh,
		Rows: make([]float64, n*dim)}
	for v := range dim {
		s := values[v%len(values)]
		c.Name += ", " + s.Name
		for i := range n {
			c.Rows[i*dim+v] = s.At(i, n)
		}
	}
	return c
}
