package quality

import (
	"math"
	"math/rand/v2"
)

// SyntheticFormat is the format of the data sets that Synthetic returns.
const SyntheticFormat = "synthetic"

// The series of a kind of Synthetic, and their samples.
const (
	syntheticSeries  = 20
	syntheticSamples = 6000
)

// syntheticKinds draw a sample each, given its place and the one before. All are without anomalies.
var syntheticKinds = []struct {
	Name string
	next func(rng *rand.Rand, i int, last float64) float64
}{
	{"independent, normal", func(rng *rand.Rand, _ int, _ float64) float64 { return rng.NormFloat64() }},
	{"independent, Student's t3", func(rng *rand.Rand, _ int, _ float64) float64 {
		sum := 0.0
		for range 3 {
			v := rng.NormFloat64()
			sum += v * v
		}
		return rng.NormFloat64() / math.Sqrt(sum/3)
	}},
	{"AR(0.99)", func(rng *rand.Rand, _ int, last float64) float64 {
		return 0.99*last + math.Sqrt(1-0.99*0.99)*rng.NormFloat64()
	}},
	{"trend, 4 deviations in 1,000", func(rng *rand.Rand, i int, _ float64) float64 {
		return 0.004*float64(i) + rng.NormFloat64()
	}},
	{"changes of level by 3, each 1,000", func(rng *rand.Rand, i int, _ float64) float64 {
		return 3*float64(i/1000%2) + rng.NormFloat64()
	}},
}

// Synthetic returns series without anomalies, a set for each kind and always the same, with a sample
// a minute.
func Synthetic() (kinds []string, sets [][]Series) {
	for k, kind := range syntheticKinds {
		rng := rand.New(rand.NewPCG(uint64(k), 1))
		set := make([]Series, syntheticSeries)
		for i := range set {
			s := &set[i]
			*s = Series{Name: string(rune('a' + i)), Dim: 1, Timed: true, Labels: make([]bool, syntheticSamples)}
			last := 0.0
			for at := range syntheticSamples {
				last = kind.next(rng, at, last)
				s.Times, s.Values = append(s.Times, int64(at)*60e6), append(s.Values, last)
			}
		}
		kinds, sets = append(kinds, kind.Name), append(sets, set)
	}
	return kinds, sets
}
