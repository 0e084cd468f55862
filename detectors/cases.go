package detectors

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// signal is a series of n rows by name: what the ops' cases are made of.
type signal struct {
	name string
	at   func(i, n int) float64
}

// signals are usual and nasty series. Some remember, so each is used once.
func signals(rng *rand.Rand) []signal {
	turn := func(i, n int, a, b float64) float64 {
		if i < n/2 {
			return a
		}
		return b
	}
	walk := 0.0
	burst := rng.IntN(1 << 20)
	return []signal{
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

// newCase lays a chain of tasks over as many rows as the first of them needs
// and extra more, with a signal for each value of a row.
func newCase(what string, d Detector, dim, extra int, fresh []int, values ...signal) Case {
	n := d.Window() - 1 + extra
	for _, f := range fresh {
		n += f
	}
	c := Case{Name: fmt.Sprintf("%s, dim %d, fresh %v", what, dim, fresh), Detector: d, Dim: dim, Fresh: fresh, Rows: make([]float64, n*dim)}
	for v := range dim {
		s := values[v%len(values)]
		c.Name += ", " + s.name
		for i := range n {
			c.Rows[i*dim+v] = s.at(i, n)
		}
	}
	return c
}

func must(d Detector, err error) Detector {
	if err != nil {
		panic(err)
	}
	return d
}

func zscoreCases(rng *rand.Rand) []Case {
	var cases []Case
	add := func(window, dim int, fresh []int, values ...signal) *Case {
		cases = append(cases, newCase(fmt.Sprintf("window %d", window), must(NewZScore(window)), dim, rng.IntN(3), fresh, values...))
		return &cases[len(cases)-1]
	}
	for _, s := range signals(rng) {
		add(8, 1, []int{1, 1, 5, 16}, s)
	}
	for _, window := range []int{3, 4, 5, 7, 9, 16, 17, 64, 1000} {
		s := signals(rng)
		add(window, 1, []int{1, 7, 1}, s[rng.IntN(len(s))])
	}
	for _, dim := range []int{2, 3, 8, 9} {
		s := signals(rng)
		rng.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
		add(8, dim, []int{3, 1}, s...)
	}
	missing := func(s signal, share float64) signal {
		return signal{fmt.Sprintf("%s, %v missing", s.name, share), func(i, n int) float64 {
			if v := s.at(i, n); rng.Float64() >= share {
				return v
			}
			return math.NaN()
		}}
	}
	for _, share := range []float64{0.1, 0.5, 0.9} {
		s := signals(rng)
		add(9, 1, []int{5, 16}, missing(s[rng.IntN(len(s))], share))
		add(8, 3, []int{1, 16}, missing(s[0], share), s[2], missing(s[4], share))
	}
	add(8, 1, []int{1}, signals(rng)[0]).Bench = true
	add(8, 1, []int{16}, signals(rng)[0]).Bench = true
	add(256, 1, []int{16}, signals(rng)[0]).Bench = true
	return cases
}

func ikasstCases(rng *rand.Rand) []Case {
	var cases []Case
	add := func(p IKASSTParams, dim int, fresh []int, values ...signal) *Case {
		p.Seed = rng.Uint32()
		d := must(NewIKASST(p))
		sp := ikasstParams(d.Params())
		what := fmt.Sprintf("w=%d r=%d k=%d gamma=%d p=%d", sp.Window, sp.Rank, sp.Krylov, sp.Gamma, sp.Steps)
		cases = append(cases, newCase(what, d, dim, rng.IntN(3), fresh, values...))
		return &cases[len(cases)-1]
	}
	for _, s := range signals(rng) {
		add(IKASSTParams{Window: 20}, 1, []int{16, 1, 9}, s)
	}
	// Lengths of a task around those of a group of lanes and of a run.
	for _, fresh := range []int{1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 15, 16, 17, 20, 33} {
		add(IKASSTParams{Window: 16, Rank: 2}, 1, []int{fresh}, signals(rng)[rng.IntN(3)])
	}
	// The smallest, and sizes around those of the vector kernels' blocks.
	add(IKASSTParams{Window: 2, Rank: 1}, 1, []int{16, 3}, signals(rng)[0])
	add(IKASSTParams{Window: 3, Rank: 2}, 1, []int{16, 3}, signals(rng)[0])
	add(IKASSTParams{Window: 4, Rank: 3}, 1, []int{16, 3}, signals(rng)[1])
	for _, w := range []int{5, 7, 8, 9, 15, 17, 31, 33, 64, 65} {
		add(IKASSTParams{Window: w, Rank: 1 + rng.IntN(3), Gamma: 1 + rng.IntN(3*w), PowerSteps: 1 + rng.IntN(5)}, 1, []int{8, 2},
			signals(rng)[rng.IntN(3)])
	}
	add(IKASSTParams{Window: 40, Rank: 12}, 1, []int{9}, signals(rng)[0])
	add(IKASSTParams{Window: 40, Rank: 3, Krylov: 32}, 1, []int{9}, signals(rng)[2])
	for _, dim := range []int{2, 3, 5} {
		s := signals(rng)
		rng.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
		add(IKASSTParams{Window: 12}, dim, []int{8, 1}, s...)
	}
	add(IKASSTParams{Window: 100}, 1, []int{1}, signals(rng)[2]).Bench = true
	add(IKASSTParams{Window: 100}, 1, []int{16}, signals(rng)[2]).Bench = true
	add(IKASSTParams{Window: 320, Rank: 3}, 1, []int{8}, signals(rng)[0]).Bench = true
	return cases
}

func lofCases(rng *rand.Rand) []Case {
	var cases []Case
	add := func(p LOFParams, dim int, fresh []int, values ...signal) *Case {
		cases = append(cases, newCase(fmt.Sprintf("%+v", p), must(NewLOF(p)), dim, rng.IntN(3), fresh, values...))
		return &cases[len(cases)-1]
	}
	// bins adds virtual points of the size of the case's values.
	bins := func(c *Case, n int) {
		embed := int(c.Detector.Params()[lofEmbed])
		for range n * embed * c.Dim {
			c.Bins = append(c.Bins, float32(rng.NormFloat64()))
		}
		for range n {
			c.Bins = append(c.Bins, 50*rng.Float32())
		}
		c.Name += fmt.Sprintf(", %d virtual", n)
	}
	for _, s := range signals(rng) {
		add(LOFParams{Window: 40, K: 6}, 1, []int{1, 1, 5, 40}, s)
	}
	for _, s := range signals(rng) {
		add(LOFParams{Window: 30, K: 5, Strict: true}, 1, []int{3, 1}, s)
		add(LOFParams{Window: 25, K: 4, Embed: 5}, 1, []int{2, 1}, s)
	}
	for _, s := range signals(rng) {
		add(LOFParams{Window: 25, K: 4, Embed: 6, ZNorm: true}, 1, []int{2, 1}, s)
		bins(add(LOFParams{Window: 25, K: 4, Alpha: rng.Float64() * float64(rng.IntN(2))}, 1, []int{2, 1}, s), 1+rng.IntN(30))
	}
	// The smallest; fewer points than neighbours; more fresh rows than the window.
	add(LOFParams{Window: 2, K: 1}, 1, []int{1, 2}, signals(rng)[0])
	add(LOFParams{Window: 2, K: 1, Warmup: 2, Embed: 3, ZNorm: true}, 2, []int{1, 2}, signals(rng)[1])
	c := add(LOFParams{Window: 60, K: 30, Warmup: 2}, 2, []int{1, 1, 3}, signals(rng)[0])
	c.Rows = c.Rows[len(c.Rows)-c.Dim*(6+rng.IntN(30)):]
	add(LOFParams{Window: 10, K: 5}, 1, []int{25, 1}, signals(rng)[7])
	add(LOFParams{Window: 20, K: 5, Tumbling: true}, 2, []int{20, 20, 1, 3}, signals(rng)[0])
	bins(add(LOFParams{Window: 20, K: 5, Tumbling: true, Embed: 4}, 1, []int{20, 20}, signals(rng)[1]), 9)
	bins(add(LOFParams{Window: 20, K: 5, Tumbling: true, Cells: 9}, 2, []int{20, 20}, signals(rng)[0]), 12)
	bins(add(LOFParams{Window: 33, K: 5, Cells: 10, Warmup: 12}, 1, []int{1, 4, 1}, signals(rng)[1]), 15)
	// Sizes around those of the vector kernels' groups.
	for _, n := range []int{31, 32, 33, 63, 64, 65, 127, 128, 129, 200, 257} {
		s := signals(rng)
		add(LOFParams{Window: n, K: 1 + rng.IntN(n/2)}, 1+rng.IntN(3), []int{1, 1 + rng.IntN(n), 1}, s[rng.IntN(len(s))])
	}
	for _, dim := range []int{2, 3, 8, 9} {
		s := signals(rng)[:14] // finite
		rng.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
		add(LOFParams{Window: 70, K: 9, Embed: 1 + rng.IntN(3)}, dim, []int{3, 1}, s...)
	}
	add(LOFParams{Window: 150, K: 12}, 3, []int{1, 150}, signals(rng)[7])
	add(LOFParams{Window: 300, K: 110}, 2, []int{2}, signals(rng)[0])
	bins(add(LOFParams{Window: 100, K: 10}, 4, []int{1, 100}, signals(rng)[0]), 200)
	add(LOFParams{Window: 1024, K: 20}, 8, []int{1}, signals(rng)[0]).Bench = true
	add(LOFParams{Window: 1024, K: 20, Tumbling: true}, 8, []int{1024}, signals(rng)[0]).Bench = true
	add(LOFParams{Window: 64, K: 10}, 1, []int{1}, signals(rng)[0]).Bench = true
	return cases
}

func knnCases(rng *rand.Rand) []Case {
	var cases []Case
	add := func(p KNNParams, dim, extra int, fresh []int, values ...signal) *Case {
		cases = append(cases, newCase(fmt.Sprintf("%+v", p), must(NewKNN(p)), dim, extra, fresh, values...))
		return &cases[len(cases)-1]
	}
	flip := func() bool { return rng.IntN(2) == 0 }
	for _, s := range signals(rng) {
		add(KNNParams{Window: 24, K: 3, Embed: 4, Neighbours: flip(), IncludeSelf: flip()}, 1, rng.IntN(3), []int{1, 1, 5, 16}, s)
	}
	for _, s := range signals(rng) {
		add(KNNParams{Window: 40, K: 1 + rng.IntN(9), Tumbling: true, Neighbours: flip(), IncludeSelf: flip()}, 1, 0, []int{40, 3, 90}, s)
		add(KNNParams{Window: 40, K: 1 + rng.IntN(9), Tumbling: true, Neighbours: true, Embed: 1 + rng.IntN(6)}, 1+rng.IntN(2), 0, []int{40}, s)
	}
	for _, dim := range []int{2, 3, 8} {
		s := signals(rng)
		rng.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
		add(KNNParams{Window: 16, K: 1 + rng.IntN(8), Embed: 1 + rng.IntN(4)}, dim, 0, []int{3, 1}, s...)
		s = signals(rng)[:14] // finite
		rng.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
		add(KNNParams{Window: 70, K: 1 + rng.IntN(20), Tumbling: true, Embed: 1 + rng.IntN(3), Neighbours: flip()}, dim, 0, []int{130, 1}, s...)
	}
	// The smallest; windows that are not full yet; as many neighbours as points, and more.
	add(KNNParams{Window: 2, K: 1, Embed: 1}, 1, 0, []int{1, 9}, signals(rng)[0])
	add(KNNParams{Window: 2, K: 1, Tumbling: true, IncludeSelf: true, Neighbours: true}, 2, 0, []int{1, 2, 3}, signals(rng)[0])
	for _, missing := range []int{1, 20, 50} {
		add(KNNParams{Window: 64, K: 5, Embed: 7, MinPoints: 10}, 1, -missing, []int{1, 4}, signals(rng)[rng.IntN(3)])
	}
	// A start: the first task has just the points that a score needs.
	add(KNNParams{Window: 600, K: 5, Embed: 7, Neighbours: flip()}, 1, KNNMinPoints-600, []int{1, 4, 17}, signals(rng)[rng.IntN(3)])
	add(KNNParams{Window: 90, K: 12, Embed: 2, MinPoints: 24, IncludeSelf: flip()}, 3, 24-90, []int{3, 1}, signals(rng)[rng.IntN(3)])
	add(KNNParams{Window: 90, K: 12, MinPoints: 90}, 1, 0, []int{1, 2}, signals(rng)[rng.IntN(14)])
	for _, n := range []int{1, 2, 19, 20, 21, 22} {
		add(KNNParams{Window: 40, K: 20, Tumbling: true, IncludeSelf: flip(), Neighbours: true}, 2, 0, []int{n}, signals(rng)[rng.IntN(3)*7/2])
	}
	// Sizes around those of groups of points and of places.
	for _, n := range []int{31, 32, 33, 63, 64, 65, 127, 128, 129, 200, 257} {
		s := signals(rng)
		add(KNNParams{Window: n, K: 1 + rng.IntN(n/2), Tumbling: true, Neighbours: flip()}, 1+rng.IntN(3), 0, []int{n}, s[rng.IntN(len(s))])
		add(KNNParams{Window: n, K: 1 + rng.IntN(n/2), Neighbours: flip()}, 1+rng.IntN(3), 0, []int{2}, s[rng.IntN(2)+3])
	}
	add(KNNParams{Window: 400, K: 150, Tumbling: true, Neighbours: true}, 3, 0, []int{330}, signals(rng)[7])
	add(KNNParams{Window: 600, K: 40, Tumbling: true, Neighbours: flip()}, 20, 0, []int{600}, signals(rng)[rng.IntN(14)])
	add(KNNParams{Window: 3000, K: 12, Tumbling: true}, 2, 0, []int{2100}, signals(rng)[rng.IntN(2)])
	add(KNNParams{Window: 1024, K: 10, Embed: 19}, 1, 0, []int{1}, signals(rng)[0]).Bench = true
	add(KNNParams{Window: 256, K: 10, Embed: 1}, 8, 0, []int{16}, signals(rng)[0]).Bench = true
	add(KNNParams{Window: 1024, K: 20, Tumbling: true}, 8, 0, []int{1024}, signals(rng)[0]).Bench = true
	return cases
}

// flatSpectrum has a period of which all tones are as loud, but for noise.
func flatSpectrum(rng *rand.Rand, period int, noise float64) signal {
	shape := make([]float64, period)
	for f := 1; f <= period/2; f++ {
		phase := 2 * math.Pi * rng.Float64()
		for i := range shape {
			shape[i] += math.Sin(2*math.Pi*float64(f*i)/float64(period) + phase)
		}
	}
	return signal{fmt.Sprintf("flat spectrum of period %d, noise %g", period, noise), func(i, n int) float64 {
		return shape[i%period] + noise*rng.NormFloat64()
	}}
}

// fading has tones of which each is a tenth as loud as the one before, and no noise.
func fading(rng *rand.Rand) signal {
	turn := 0.4 + 0.1*rng.Float64()
	return signal{"fading tones", func(i, n int) float64 {
		sum, loud := 0.0, 1.0
		for f := range 6 {
			sum += loud * math.Sin(turn*float64((1+f)*i))
			loud /= 10
		}
		return sum
	}}
}

func svdsstCases(rng *rand.Rand) []Case {
	const coarse = 0.0032 // with which float32 tells which directions of a past of low rank count
	var cases []Case
	add := func(p SVDSSTParams, dim int, fresh []int, values ...signal) *Case {
		cases = append(cases, newCase(fmt.Sprintf("%+v", p), must(NewSVDSST(p)), dim, rng.IntN(3), fresh, values...))
		return &cases[len(cases)-1]
	}
	for _, s := range signals(rng) {
		add(SVDSSTParams{Window: 20}, 1, []int{8, 1, 3}, s)
		add(SVDSSTParams{Window: 31, Rank: 6, Negligible: coarse}, 1, []int{4}, s)
	}
	for _, fresh := range []int{1, 2, 7, 16, 17} {
		add(SVDSSTParams{Window: 12, Rank: 2}, 1, []int{fresh}, signals(rng)[rng.IntN(3)])
	}
	add(SVDSSTParams{Window: 2, Rank: 1}, 1, []int{16, 3}, signals(rng)[0])
	add(SVDSSTParams{Window: 3, Rank: 2}, 1, []int{16, 3}, signals(rng)[0])
	add(SVDSSTParams{Window: 4, Rank: 3}, 1, []int{16, 3}, signals(rng)[1])
	// Around the sizes that kernels are made for.
	for _, w := range []int{5, 17, 32, 33, 63, 64, 65, 100, 128, 129} {
		add(SVDSSTParams{Window: w, Rank: 1 + rng.IntN(min(w-1, 16)), Gamma: 1 + rng.IntN(3*w)}, 1, []int{3, 2}, signals(rng)[rng.IntN(3)])
	}
	// Singular values that are equal but for what is small, many times.
	for _, p := range []SVDSSTParams{{Window: 11, Rank: 1}, {Window: 34, Rank: 15}, {Window: 61, Rank: 12}} {
		for _, noise := range []float64{0, 1e-8, 1e-6, 1e-4} {
			add(p, 1, []int{2}, flatSpectrum(rng, p.Window/(1+rng.IntN(2)), noise))
		}
	}
	// Directions of a past that fades, decade by decade, and a bound above most.
	for _, negligible := range []float64{0, 1e-4, 0.01} {
		add(SVDSSTParams{Window: 24, Rank: 5, Negligible: negligible}, 1, []int{3}, fading(rng))
	}
	add(SVDSSTParams{Window: 40, Rank: 16}, 1, []int{4}, signals(rng)[0])
	add(SVDSSTParams{Window: 40, Rank: 30}, 1, []int{2}, signals(rng)[2])
	for _, dim := range []int{2, 5} {
		s := signals(rng)
		rng.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
		add(SVDSSTParams{Window: 12, Negligible: coarse}, dim, []int{8, 1}, s...)
	}
	add(SVDSSTParams{Window: 100}, 1, []int{1}, signals(rng)[2]).Bench = true
	add(SVDSSTParams{Window: 100, Rank: 12}, 1, []int{2}, signals(rng)[0]).Bench = true
	add(SVDSSTParams{Window: 320, Rank: 12}, 1, []int{1}, signals(rng)[2]).Bench = true
	return cases
}
