package knn

import (
	"fmt"
	"math"
	"math/rand/v2"

	"odradek/detectors"
)

func setCases(rng *rand.Rand) []detectors.Case {
	var cases []detectors.Case
	add := func(p SolvingSetParams, dim, extra int, fresh []int, values ...detectors.Signal) *detectors.Case {
		cases = append(cases, detectors.NewCase(fmt.Sprintf("%+v", p), detectors.Must(NewSolvingSet(p)), dim, extra, fresh, values...))
		c := &cases[len(cases)-1]
		c.CPU = true // tasks that mine no set
		return c
	}
	// Chains of tasks of which some mine and others do not; models of all of the set, and of some.
	for _, s := range detectors.Signals(rng) {
		add(SolvingSetParams{Window: 60, K: 3, Embed: 4, Top: 2, MineEvery: 7}, 1, rng.IntN(3), []int{1, 1, 5, 1, 1, 1, 16, 2}, s)
	}
	for _, s := range detectors.Signals(rng) {
		p := SolvingSetParams{
			Window:      60,
			K:           1 + rng.IntN(5),
			Embed:       3 + rng.IntN(5),
			ZNorm:       true,
			Top:         1 + rng.IntN(3),
			ModelPoints: 10,
			MineEvery:   5,
		}
		add(p, 1, 0, []int{2, 2, 2, 9}, s)
	}
	for _, dim := range []int{2, 3, 8} {
		s := detectors.Signals(rng)
		rng.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
		add(
			SolvingSetParams{
				Window:      50,
				K:           1 + rng.IntN(8),
				Embed:       1 + rng.IntN(4),
				Top:         1 + rng.IntN(10),
				ModelPoints: 16 + rng.IntN(40),
				MineEvery:   4,
			},
			dim,
			0,
			[]int{3, 1, 1, 1, 1},
			s...)
	}
	// By event time: rows begin with their times, and several may be equal.
	for _, s := range detectors.Signals(rng) {
		p := SolvingSetParams{Window: 60, K: 1 + rng.IntN(3), Embed: 1 + rng.IntN(4), Top: 2, MinPoints: 8}
		p.MineInterval, p.MaxAge = 10e6, int64(rng.IntN(60))*1e6
		if p.Embed > 2 {
			p.ZNorm = rng.IntN(2) == 0
		}
		at := 1.7e15
		time := detectors.Signal{Name: "time", At: func(int, int) float64 {
			at += float64(rng.IntN(3)) * rng.ExpFloat64() * 1e6
			return math.Floor(at)
		}}
		add(p, 2+rng.IntN(2), 0, []int{1, 1, 5, 1, 1, 2, 16, 2}, time, s)
	}
	// The smallest; windows that are not full yet; a point every row that mines.
	add(SolvingSetParams{Window: 2, K: 1, MineEvery: 1}, 1, 0, []int{1, 9, 1}, detectors.Signals(rng)[0])
	for _, missing := range []int{1, 20, 50} {
		add(SolvingSetParams{Window: 64, K: 5, Embed: 7, MinPoints: 10}, 1, -missing, []int{1, 4, 30}, detectors.Signals(rng)[rng.IntN(3)])
	}
	add(SolvingSetParams{Window: 700, K: 20, Top: 7, MineEvery: 50}, 2, 0, []int{1, 130}, detectors.Signals(rng)[rng.IntN(14)])
	add(SolvingSetParams{Window: 1024, Embed: 16, MineEvery: 1 << 20}, 1, 0, []int{1, 1, 1, 1}, detectors.Signals(rng)[2]).Bench = true
	return cases
}
