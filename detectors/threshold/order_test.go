package threshold

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"odradek/detectors/seedtest"
)

// frontOf returns all of a state, or of a front, but the order.
func (p *Params) frontOf(state []float32) []float32 {
	return append(slices.Clone(state[:p.Stored()]), p.waiting(state)...)
}

// judgeSorted is JudgeAt by a history that is sorted anew for each score. front is all of a state but the order.
func (p *Params) judgeSorted(front []float32, score float32, time int64) Judgement {
	score = max(-math.MaxFloat32, min(math.MaxFloat32, score)) + 0
	h := p.History
	ring := front[head : head+h]
	for i, n := 0, p.ending(front, score); i < n; i++ {
		count := Count(front)
		ring[count%h] = front[atLast] - float32(n-1-i)
		if p.counted(front, count, count%h, ring[count%h]); i == n-1 {
			front[atWaiting], front[atBoundKnown] = 0, 0
		}
	}
	count := Count(front)
	s := inOrder(slices.Sorted(slices.Values(ring[:min(count, h)])))
	if p.Kind == PerDay {
		p.pass(front, count, time)
	}
	v, bound := p.judgement(front, &s, count, score, true)
	if v.Threshold < front[atLow] || v.Threshold >= front[atHigh] {
		judged(front, v.Threshold)
	}
	if p.Late.Close > 0 {
		if list, taken := p.waitSorted(front, s.sorted, &v, score); taken {
			for _, x := range list {
				count := Count(front)
				ring[count%h], front[atBoundKnown] = x, 0
				p.counted(front, count, count%h, x)
			}
			return v
		}
	} else if p.waits(front, score) || !p.adds(front, v.Exceeds) || p.Span > 0 && !p.opensSlot(front, count, time) {
		return v
	}
	p.cacheBound(front, &s, ring[count%h], score, bound)
	ring[count%h] = score
	p.counted(front, count, count%h, score)
	return v
}

// waitSorted is wait by a sorted history. It returns the scores that enter.
func (p *Params) waitSorted(front, sorted []float32, v *Judgement, score float32) (list []float32, taken bool) {
	waiting, opened := p.waiting(front), p.Late.Open
	n := int(front[atWaiting])
	if n >= opened && len(sorted) > 0 {
		above := max(0, int(0.02*float64(len(sorted)+1))-1)
		v.Threshold = min(v.Threshold, sorted[len(sorted)-1-above])
		if !v.Exceeds && score > v.Threshold {
			s := inOrder(sorted)
			v.Exceeds, v.Tail = true, p.tail(&s, score)
		}
	}
	if n == 0 && !v.Exceeds {
		return nil, false
	}
	waiting[n] = score
	front[atWaiting], front[atCalm] = float32(n+1), front[atCalm]+1
	if v.Exceeds {
		front[atCalm] = 0
	}
	all, calm := waiting[:n+1], int(front[atCalm])
	distance := p.Decluster
	switch {
	case len(all) == 1024:
		distance = 0
	case n < opened && calm == 0, n >= opened && calm < p.Late.Close:
		return nil, true
	case len(all)-calm > 128:
		all = all[len(all)-calm:]
	}
	since := 1 << 30
	for _, x := range all {
		if x <= v.Threshold {
			since = 1 << 30
		} else if since++; since < distance {
			continue
		} else {
			since = 0
		}
		list = append(list, x)
	}
	clear(waiting)
	front[atWaiting], front[atCalm] = 0, 0
	return list[max(0, len(list)-p.History):], true
}

// randomThreshold returns a threshold of any kind whose states mostly have bands.
func randomThreshold(rng *rand.Rand) Params {
	for {
		kind := Fixed + Kind(rng.IntN(int(PerDay)))
		p := Params{
			Kind: kind,
			Value: [...]float64{0, 1, 1 + 2*rng.Float64(), 1 - 0.08*rng.Float64(), 1 + 5*rng.Float64(), math.Exp(-9*rng.Float64()) / 16,
				1e6 * rng.Float64()}[kind],
			History: bandLeast + rng.IntN(500), Warmup: rng.IntN(100), Decluster: rng.IntN(3) * rng.IntN(40),
			Bounded: rng.IntN(3) == 0, Runs: rng.IntN(5) == 0,
		}
		if rng.IntN(3) == 0 {
			p.Late = Late{1 + rng.IntN(3)*rng.IntN(2), 1 + rng.IntN(40)}
		}
		switch rng.IntN(10) {
		case 0:
			p.History = 32 + rng.IntN(300)
		case 1:
			p.History = 2048
		}
		if rng.IntN(2) == 0 {
			p.Margin = 1 + rng.Float64()
		}
		if rng.IntN(4) == 0 && !p.Runs && p.Late == (Late{}) {
			p.Span = int64(p.History) * (1 + rng.Int64N(20))
		}
		if p.Check() == nil {
			return p
		}
	}
}

// randomScores returns scores of one of several shapes, each with some faults.
func randomScores(rng *rand.Rand, p *Params) func(i int) float32 {
	run, level, shape := float32(0), 1.0, rng.IntN(9)
	faults := []int{20, 200, 2000, 1 << 30}[rng.IntN(4)]
	return func(i int) float32 {
		x := 0.0
		switch shape {
		case 0:
			x = rng.Float64()
		case 1: // few values
			x = float64(rng.IntN(3)) / 4
		case 2: // falling
			x = math.Exp(-float64(i)/500) * rng.Float64()
		case 3: // mostly constant
			if x = 0.5; rng.IntN(50) == 0 {
				x = rng.Float64()
			}
		case 4: // of a door
			if x = 0; rng.IntN(1+i%40) == 0 {
				x = 1e-9 * rng.Float64()
			}
		case 5: // levels
			if rng.IntN(300) == 0 {
				level = math.Exp(rng.NormFloat64())
			}
			x = level * (1 + 0.1*rng.NormFloat64())
		case 6: // on either side of 0
			x = rng.NormFloat64()
		case 7: // constant
			x = 0.25
		case 8: // rising and falling
			x = 2 + math.Sin(float64(i)/100*level) + 0.3*rng.Float64()
		}
		if rng.IntN(faults) == 0 {
			x = x*10 + rng.Float64()
		}
		switch {
		case p.Runs:
			if run++; rng.IntN(1+int(20*level)) == 0 || rng.IntN(1000) == 0 {
				run = float32(rng.IntN(3))
			}
			return run
		case p.Bounded:
			return float32(max(0, min(1, x/2)))
		case rng.IntN(2000) == 0:
			return float32(math.Inf(1 - 2*rng.IntN(2)))
		}
		return float32(x)
	}
}

// TestOrder requires that the judgements of a state, and its front, are to the bit what a history gives that is sorted anew for each
// score, also after judgements have been undone, and the state restored or converted.
func TestOrder(t *testing.T) {
	rng := seedtest.New(t)
	bits := func(v []float32) []uint32 {
		out := make([]uint32, len(v))
		for i := range v {
			out[i] = math.Float32bits(v[i])
		}
		return out
	}
	banded := 0
	for range 30 {
		p := randomThreshold(rng)
		if p.banded() {
			banded++
		}
		state := make([]float32, p.Size())
		front := p.frontOf(state)
		next, time := randomScores(rng, &p), int64(1.7e15)
		var undo []func()
		for i := range 3 * p.History {
			x := next(i)
			time += rng.Int64N(10)
			saved, before := p.Save(nil, state, x), slices.Clone(front)
			undo = append(undo, func() {
				p.Undo(state, saved)
				front = before
			})
			want := p.judgeSorted(front, x, time)
			var got Judgement
			if rng.IntN(2) == 0 {
				got = p.JudgeAt(state, x, time, true)
			} else if got = p.JudgeAt(state, x, time, false); !got.Exceeds {
				want.Tail = 0
			}
			if got != want || !slices.Equal(bits(p.frontOf(state)), bits(front)) {
				t.Fatalf("%+v, score %d (%v):\ngot  %+v\nwant %+v, the fronts equal: %v", p, i, x, got, want, slices.Equal(p.frontOf(state), front))
			}
			switch rng.IntN(200) {
			case 0, 1:
				for range rng.IntN(min(len(undo), 200)) {
					last := len(undo) - 1
					undo[last]()
					undo = undo[:last]
				}
			case 2:
				clear(state[copy(state, front[:p.Stored()]):])
				if !p.Restore(state) {
					t.Fatalf("%+v: no state", p)
				}
				copy(p.Waiting(state), p.Waiting(front))
			case 3:
				other := randomThreshold(rng)
				if other.History = p.History; p.Span > 0 {
					other.Span = p.Span
				}
				if other.Check() != nil || !other.SameSize(&p) || other.Runs != p.Runs || other.Bounded != p.Bounded {
					break
				}
				formerly, former, before, was := p, state, slices.Clone(front), slices.Clone(state)
				p, state, front = other, other.Adopt(&p, state), other.frontOf(other.Adopt(&p, front))
				if &state[0] == &former[0] {
					was = was[:Head]
				} else if !slices.Equal(bits(former), bits(was)) {
					t.Fatal("a state has changed that another takes over from")
				}
				if formerly.late() != p.late() && state[atWaiting] != 0 {
					t.Fatal("scores wait under another threshold")
				}
				undo = append(undo, func() {
					p, state, front = formerly, former, before
					copy(state, was)
				})
			}
			if !slices.Equal(bits(p.frontOf(state)), bits(front)) {
				t.Fatalf("%+v, score %d: another front after an undo", p, i)
			}
			if rng.IntN(20) == 0 {
				requireOrder(t, &p, state)
			}
		}
	}
	if banded < 8 {
		t.Errorf("%d thresholds with bands", banded)
	}
}

// requireOrder requires that the order of a state is its ring's.
func requireOrder(t *testing.T, p *Params, state []float32) {
	t.Helper()
	n := min(Count(state), p.History)
	s, want := p.scores(state, n), slices.Sorted(slices.Values(state[head:][:n]))
	if s.bands == nil {
		if !slices.Equal(s.sorted, want) {
			t.Fatalf("%+v: not in order", p)
		}
		return
	}
	for band := 0; band <= ofTop; band += bandStep {
		b := s.bands[band:]
		below, v := int(b[atBelow]), s.values(band)[:int(b[atLength])]
		if below+len(v) > n || !slices.Equal(v, want[below:][:len(v)]) || band == ofTop && len(v) > 0 && below+len(v) < n ||
			len(v) > 0 && (b[atLowest] != v[0] || b[atHighest] != v[len(v)-1]) {
			t.Fatalf("%+v, %d scores: band %d of %d from %d on: %v", p, n, band, len(v), below, b[:bandStep])
		}
	}
	if lower(want, 0) != int(s.bands[negative]) {
		t.Fatalf("%v scores below 0, want %d", s.bands[negative], lower(want, 0))
	}
}

// TestScoresInOrder requires that what bands say of a history is what the sorted history says, while scores are added, exchanged and
// removed.
func TestScoresInOrder(t *testing.T) {
	rng := seedtest.New(t)
	for range 40 {
		p := Params{Kind: Conformal, Value: 0.001, History: bandLeast + rng.IntN(300)}
		state := make([]float32, p.Size())
		next, n := randomScores(rng, &p), 0
		for i := range 2000 {
			s := p.scores(state, n)
			ring := state[head : head+p.History]
			x := max(-math.MaxFloat32, min(math.MaxFloat32, next(i)))
			switch at := rng.IntN(p.History); {
			case n > 0 && rng.IntN(4) == 0: // the last one
				n--
				s.remove(ring[n])
			case n < p.History:
				s.add(x)
				ring[n] = x
				n++
			default:
				s.exchange(ring[at], x)
				ring[at] = x
			}
			if n == 0 || rng.IntN(10) > 0 {
				continue
			}
			s = p.scores(state, n)
			want := inOrder(slices.Sorted(slices.Values(ring[:n])))
			k, most := rng.IntN(n), rng.IntN(n)
			if rng.IntN(2) == 0 {
				k = n - 1 - rng.IntN(min(n, 1+n/16))
			}
			y := want.sorted[most]
			if rng.IntN(4) == 0 {
				y = x
			}
			if got := s.below(y); got != want.below(y) {
				t.Fatalf("%d of %d scores are below %v, want %d", got, n, y, want.below(y))
			}
			if got := s.above(y); !slices.Equal(got.sorted, want.above(y).sorted) {
				t.Fatalf("%d of %d scores are above %v, want %d", got.n, n, y, want.above(y).n)
			}
			if got := s.at(k); got != want.at(k) {
				t.Fatalf("score %d of %d is %v, want %v", k, n, got, want.at(k))
			}
			if k := min(n, 1+rng.IntN(1+n/16)); !slices.Equal(s.top(k), want.top(k)) {
				t.Fatalf("the %d highest of %d scores are %v, want %v", k, n, s.top(k), want.top(k))
			}
			if s.hasNegative() != want.hasNegative() {
				t.Fatalf("%d scores from %v on", n, want.sorted[0])
			}
		}
	}
}

// TestFar requires that no ceiling is lower than its bound, in histories whose median is next to a gap, and moves across it.
func TestFar(t *testing.T) {
	rng := seedtest.New(t)
	bounds := 0
	for range 40 {
		p := Params{Kind: Conformal, Value: 0.001, History: bandLeast + rng.IntN(300), Bounded: rng.IntN(2) == 0}
		narrow := p
		narrow.Margin = 1 + rng.Float64()
		state := make([]float32, p.Size())
		ring, share, gap := state[head:head+p.History], 0.5, 0.1+0.5*rng.Float64()
		next := func() float32 {
			x := 0.3 * rng.Float64()
			if rng.Float64() < share {
				x = 0.3 + gap + 0.02*rng.Float64()
			}
			return float32(x)
		}
		for i := range ring {
			ring[i] = next()
		}
		state[atCount] = float32(p.History)
		if !p.Restore(state) {
			t.Fatal("no state")
		}
		for i := range 2000 {
			if rng.IntN(50) == 0 {
				share = rng.Float64()
			}
			s := p.scores(state, p.History)
			for _, p := range []*Params{&p, &narrow} {
				if rng.IntN(20) == 0 || p == &narrow && rng.IntN(20) > 0 {
					continue
				}
				ceiling := p.ceiling(state, &s, p.Value)
				if above := math.Nextafter32(ceiling, math.MaxFloat32); p.isFar(&s, above) {
					t.Fatalf("%+v: the ceiling is %v, and not below %v", p, ceiling, s.bands[far:])
				}
				if p.isFar(&s, ceiling*0.5) {
					bounds++
				}
			}
			at := i % p.History
			x := next()
			s.exchange(ring[at], x)
			ring[at] = x
		}
	}
	if bounds < 1000 {
		t.Errorf("%d bounds of ceilings", bounds)
	}
}
