package ensemble

import (
	"math"
	"slices"
	"testing"

	"odradek/detectors/seedtest"
)

// TestRemaining: rows that are warming up say how many samples come until the first that is not, exactly where the members
// score each sample, and otherwise at the least. Members begin at different samples, come in strides, are delayed, and score
// one sample of several.
func TestRemaining(t *testing.T) {
	rnd := seedtest.New(t)
	nan := float32(math.NaN())
	exact, bounds := 0, 0
	for world := range 400 {
		p := &Params{Members: 2 + rnd.IntN(3), Memory: 5 + rnd.IntN(20), MinPoints: 1 + rnd.IntN(5), Span: 1 + rnd.IntN(8)}
		every := slices.Repeat([]int{1}, p.Members)
		p.Max = rnd.IntN(3) == 0
		switch rnd.IntN(4) {
		case 0:
			p.Any, p.Max, p.Memory, p.MinPoints = true, false, 0, 0
		case 1:
			for m := range every {
				every[m] = 1 + rnd.IntN(p.Span)
			}
			p.Every = every
			fallthrough
		case 2:
			for range p.Members {
				p.Lags = append(p.Lags, rnd.IntN(2)*rnd.IntN(20))
			}
		}
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		const n = 400
		holes := rnd.IntN(3) == 0
		whole := !holes && slices.Max(every) == 1
		from, warmup, first := make([]int, p.Members), make([]int, p.Members), make([]int, p.Members)
		for m := range warmup {
			warmup[m] = rnd.IntN(60) // from which on rows without a score have none
			first[m] = warmup[m] + rnd.IntN(every[m])
		}
		state, terms := make([]uint64, p.Size()), make([]float64, p.Members)
		var rows []Row
		for slices.Min(from) < n {
			m := slices.Index(from, slices.Min(from)) // none waits for more than Span samples
			for steps := 1 + rnd.IntN(p.Span); steps > 0 || from[m] > warmup[m] && (from[m]-1-first[m])%every[m] != 0; steps-- {
				o := from[m]
				from[m]++
				r := &Row{Time: int64(o), Offset: int64(o), About: int64(o), Until: int64(o), Score: nan}
				switch {
				case o < warmup[m]:
					r.Remaining = int32(first[m] - o)
				case o < first[m] || (o-first[m])%every[m] != 0:
					continue
				case !holes || rnd.IntN(3) > 0:
					r.Score = float32(rnd.ExpFloat64())
				}
				p.Add(state, m, r)
				for row := (Row{}); p.Next(state, &row, terms, nil); {
					rows = append(rows, row)
				}
				if !p.Valid(state) {
					t.Fatalf("world %d: the state %x is not valid", world, state)
				}
			}
		}
		at := slices.IndexFunc(rows, func(r Row) bool { return !r.WarmingUp })
		if at < 0 || slices.ContainsFunc(rows[at:], func(r Row) bool { return r.WarmingUp || r.Remaining != 0 }) {
			t.Fatalf("world %d: no score, or one before a row without", world)
		}
		for _, r := range rows[:at] {
			if got, want := int64(r.Remaining), rows[at].Offset-r.Offset; got < 1 || got > want || whole && got != want {
				t.Fatalf("world %d: %+v, warmup %v, first %v, holes %v: %d samples before the first score remain %d", world, *p, warmup, first, holes,
					want, got)
			}
			if whole {
				exact++
			} else {
				bounds++
			}
		}
	}
	t.Logf("%d numbers, and %d bounds", exact, bounds)
}
