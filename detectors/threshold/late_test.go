package threshold

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"odradek/detectors/seedtest"
)

// TestLateAdmission compares judgements, the scores that wait and how many have entered with the definition, for scores with ties,
// constants, missing and infinite ones, and for states that last from a few scores to more than wait.
func TestLateAdmission(t *testing.T) {
	rnd := seedtest.New(t)
	var ends [4]int // of anomalies that never opened, short, long, and of more scores than wait
	for range 4 {
		list := []Params{{Kind: Fixed, Value: 1.5}, {Kind: Mean, Value: 1.5}, {Kind: Quantile, Value: 0.9},
			{Kind: Quantile, Value: 0.9, Margin: 1.25}, {Kind: MAD, Value: 3}, {Kind: Conformal, Value: 0.02},
			{Kind: Conformal, Value: 0.004}, {Kind: Conformal, Value: 0.004, Margin: 2}}
		p := list[rnd.IntN(len(list))]
		p.History, p.Warmup, p.Decluster, p.Bounded = 32+rnd.IntN(100), rnd.IntN(30), rnd.IntN(9), rnd.IntN(4) == 0
		p.Late = Late{Open: 1 + rnd.IntN(2)*rnd.IntN(4), Close: 1 + rnd.IntN(12)}
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		all := streams(rnd, 600)
		for _, n := range []int{20, 110, 250, 1300} {
			all["a state"] = slices.Concat(all["a state"], noisy(rnd, 300, 0), noisy(rnd, n, 6))
		}
		for name, scores := range all {
			if name == "mixed" && p.Kind == Mean {
				continue // the sum of both infinities
			}
			testLate(t, &p, name, scores, &ends)
		}
	}
	if t.Logf("ends of anomalies: %v", ends); slices.Contains(ends[1:], 0) {
		t.Error("not every end")
	}
}

// noisy returns exponential noise at a level.
func noisy(rnd *rand.Rand, n int, level float64) (x []float32) {
	for range n {
		x = append(x, float32(level+rnd.ExpFloat64()/3))
	}
	return x
}

func testLate(t *testing.T, p *Params, name string, scores []float32, ends *[4]int) {
	state := make([]float32, p.Size())
	var entered, waiting []float64
	var clearFaults naiveFaults
	calm := 0
	for i, score := range scores {
		if p.Bounded && score == score {
			score = float32(1 - math.Exp(-math.Abs(float64(score))))
		}
		value := math.Max(-math.MaxFloat32, math.Min(math.MaxFloat32, float64(score)))
		rare, sure := clearFaults.rare(*p, min(len(entered), p.History))
		most := 0.0
		if rare {
			most = math.Inf(1)
		}
		want, ceiling := naive(*p, entered, value, most)
		got := p.Judge(state, score)
		if score != score {
			continue
		}
		if p.Kind == Conformal && p.Margin == 0 {
			if !sure || !math.IsInf(ceiling, 1) && near(score, float32(ceiling), 1e-5) {
				return // rounding decides
			}
			clearFaults = append(clearFaults, len(entered) >= p.Warmup && value > ceiling)
		}
		isOpen := len(waiting) >= p.Late.Open
		if isOpen && len(entered) > 0 {
			want.Threshold = min(want.Threshold, naiveLasting(entered[max(0, len(entered)-p.History):]))
			want.Exceeds = float32(value) > want.Threshold
		}
		if near(float32(value), want.Threshold, 1e-5) && float32(value) != want.Threshold && got.Exceeds != want.Exceeds {
			return // rounding decides
		}
		if !near(got.Threshold, want.Threshold, 1e-5) || got.Exceeds != want.Exceeds && float32(value) != want.Threshold {
			t.Fatalf("%+v, %s, score %d (%v), %d wait:\ngot  %+v\nwant %+v", p, name, i, score, len(waiting), got, want)
		}
		switch {
		case got.Exceeds:
			waiting, calm = append(waiting, value), 0
		case len(waiting) == 0:
			entered = append(entered, value)
		default:
			waiting, calm = append(waiting, value), calm+1
		}
		var enter []float64
		switch {
		case len(waiting) == 1024:
			enter = waiting
			ends[3]++
		case calm == 0 || isOpen && calm < p.Late.Close:
		case len(waiting)-calm <= 128:
			enter = waiting
			ends[min(1, len(waiting)/(p.Late.Open+1))]++
		default:
			enter = waiting[len(waiting)-calm:]
			ends[2]++
		}
		if enter != nil {
			run, thinned := 0, []float64(nil)
			for _, x := range enter {
				if run++; float32(x) <= got.Threshold {
					run = 0
				}
				if run == 0 || len(waiting) == 1024 || p.Decluster == 0 || (run-1)%p.Decluster == 0 {
					thinned = append(thinned, x)
				}
			}
			entered = append(entered, thinned[max(0, len(thinned)-p.History):]...)
			waiting, calm = nil, 0
		}
		if !slices.EqualFunc(p.Waiting(state), waiting, func(a float32, b float64) bool { return a == float32(b) }) {
			t.Fatalf("%+v, %s, score %d: %v wait, want %v", p, name, i, p.Waiting(state), waiting)
		}
	}
	n, h := min(len(entered), p.History), p.History
	for i := len(entered) - n; i < len(entered); i++ {
		if at := Count(state) - len(entered) + i; at < 0 || state[head+at%h] != float32(entered[i]) {
			t.Fatalf("%+v, %s: the history has other scores than the last %d of %d", p, name, n, len(entered))
		}
	}
}

// naiveLasting returns the lowest score of a history above which at most 2 % are, or the highest.
func naiveLasting(hist []float64) float32 {
	hist = slices.Sorted(slices.Values(hist))
	for _, x := range hist {
		above := 0
		for _, y := range hist {
			if y > x {
				above++
			}
		}
		if float64(above+1)/float64(len(hist)+1) <= 0.02 {
			return float32(x)
		}
	}
	return float32(hist[len(hist)-1])
}

// TestLastingState: a change of level for 300 scores at 6 spreads exceeds from its first score to its last, and none after it; without
// late admission it soon does not exceed. The threshold is not said to have risen, and a level that stays is soon usual.
func TestLastingState(t *testing.T) {
	rnd := seedtest.New(t)
	const begins, lasts = 2000, 300
	for _, p := range []Params{{Kind: Conformal, Value: 0.0025}, {Kind: Quantile, Value: 0.98, Margin: 1.1}, {Kind: MAD, Value: 4},
		{Kind: Mean, Value: 1.8}, {Kind: PerDay, Value: 3}} {
		p.History, p.Warmup, p.Decluster = 1024, 256, 8
		score := func(i, until int) float32 {
			x := 10 + rnd.NormFloat64()
			if i >= begins && i < until {
				x += 10
			}
			return float32(x)
		}
		run := func(p Params, until int) (inside, after, risen int) {
			state := make([]float32, p.Size())
			for i := range 6000 {
				x := score(i, until)
				saved := p.Save(nil, state, x)
				v := p.JudgeAt(state, x, int64(i+1)*60e6, true)
				switch {
				case i >= begins && i < begins+lasts && v.Exceeds:
					inside++
				case i >= begins+lasts+64 && v.Exceeds:
					after++
				}
				if i > begins && Risen(saved, state) > 0 {
					risen++
				}
			}
			return inside, after, risen
		}
		late := p
		late.Late = Late{1, 16}
		inside, after, risen := run(late, begins+lasts)
		if inside < lasts-2 || after > 60 || risen > 0 {
			t.Errorf("%v: of %d scores %d exceed, of those after them %d; %d rises", p, lasts, inside, after, risen)
		}
		if direct, _, _ := run(p, begins+lasts); p.Kind != Mean && p.Kind != MAD && direct > lasts*2/3 {
			t.Errorf("%v, without: of %d scores %d exceed", p, lasts, direct)
		} else {
			t.Logf("%v: %d scores exceed, without late admission %d; after them %d", p, inside, direct, after)
		}
		if _, after, _ := run(late, 6000); after > mostWaits {
			t.Errorf("%v: of 3,636 scores of a level that stays %d exceed", p, after)
		}
	}
}

// TestLateIsNoRise: the lower threshold while an anomaly is open does not make the usual one after it a risen one.
func TestLateIsNoRise(t *testing.T) {
	p := New(Fixed, 100)
	p.Late = Late{1, 4}
	state := make([]float32, p.Size())
	low := float32(100)
	for i := range 1000 {
		score := float32(i % 7)
		if i == 500 {
			score = 200
		}
		saved := p.Save(nil, state, score)
		low = min(low, p.Judge(state, score).Threshold)
		if from := Risen(saved, state); from > 0 {
			t.Errorf("score %d: the threshold has risen from %v", i, from)
		}
	}
	if low > 10 {
		t.Errorf("the lowest threshold is %v", low)
	}
}

// TestLeastOfAnAnomaly: no threshold is below what Least says of it before, while scores wait or not.
func TestLeastOfAnAnomaly(t *testing.T) {
	rnd := seedtest.New(t)
	open := 0
	for range 40 {
		p := randomThreshold(rnd)
		if p.Kind == PerDay || p.Runs || p.Span > 0 {
			continue // the rate of PerDay changes with the score
		}
		p.Late = Late{1 + rnd.IntN(2), 1 + rnd.IntN(40)}
		state := make([]float32, p.Size())
		next := randomScores(rnd, &p)
		for i := range 2000 {
			score := next(i)
			least := p.Least(state)
			if p.isOpen(state) {
				open++
			}
			if v := p.Judge(state, score); v.Threshold < least {
				t.Fatalf("%+v, score %d: threshold %v, least %v, %d wait", p, i, v.Threshold, least, len(p.Waiting(state)))
			}
		}
	}
	if open < 1000 {
		t.Errorf("%d scores while an anomaly is open", open)
	}
}
