package threshold

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"odradek/detectors/seedtest"
)

// Judge judges a score, with its rank, by a threshold that uses no time.
func (p *Params) Judge(state []float32, score float32) Judgement {
	return p.JudgeAt(state, score, 0, true)
}

// naive is Judge as documented, in float64, with all scores that were added. most is the highest ceiling that clear faults have, or 0
// where they have none. It returns their ceiling, too.
func naive(r Params, all []float64, score, most float64) (v Judgement, ceiling float64) {
	return naiveScaled(r, all, score, most, 0)
}

// naiveScaled is naive for scores of a scale, 0 if that is their own.
func naiveScaled(r Params, all []float64, score, most, scale float64) (v Judgement, ceiling float64) {
	ceiling = math.Inf(1)
	if math.IsNaN(score) {
		return v, ceiling
	}
	if r.Bounded {
		open := func(z float64) float64 {
			if z == 1 {
				return 25 * math.Ln2
			}
			return -math.Log1p(-z)
		}
		var opened []float64
		for _, z := range all {
			opened = append(opened, open(z))
		}
		r.Bounded = false
		fixed := r.Value
		if r.Kind == Fixed {
			r.Value = open(min(1, fixed))
		}
		v, ceiling = naiveScaled(r, opened, open(score), math.Min(most, 25*math.Ln2), open(1.0/1024))
		if !math.IsInf(ceiling, 1) {
			ceiling = -math.Expm1(-ceiling)
		}
		if !math.IsInf(float64(v.Threshold), 1) {
			v.Threshold = float32(-math.Expm1(-float64(v.Threshold)))
			if r.Kind == Fixed {
				v.Threshold = float32(fixed)
			}
			v.Exceeds = float32(score) > v.Threshold
		}
		return v, ceiling
	}
	n := min(len(all), r.History)
	hist := slices.Clone(all[len(all)-n:])
	slices.Sort(hist)
	higher := 0
	for _, x := range hist {
		if x >= score {
			higher++
		}
	}
	v.Tail = float32(float64(higher+1) / float64(n+1))
	f := naiveTail(hist)
	if higher == 0 && f != nil {
		v.Tail = float32(math.Max(1e-12, math.Min(float64(v.Tail), f.share*math.Pow(1+f.shape*(score-f.u)/f.scale, -1/f.shape))))
	}
	if len(all) < r.Warmup {
		v.Threshold = float32(math.Inf(1))
		return v, ceiling
	}
	if scale == 0 && r.Kind == Quantile && n > 0 {
		scale = hist[int(math.Ceil((1+r.Value)/2*float64(n)))-1] / 1024
	}
	med := func(x []float64) float64 {
		x = slices.Clone(x)
		slices.Sort(x)
		return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
	}
	b := math.Inf(1)
	switch {
	case r.Kind == Fixed:
		b = r.Value
	case n == 0:
	case r.Kind == Mean:
		sum := 0.0
		for _, x := range all {
			sum += x
		}
		b = r.Value * sum / float64(len(all))
	case r.Kind == Quantile:
		whole := n
		hist := naiveAboveFloor(r, hist, scale, r.Value)
		if n = len(hist); n < whole && n < 32 {
			n, b = whole, scale
			break
		}
		for _, x := range slices.Backward(hist) {
			notAbove := 0
			for _, y := range hist {
				if y <= x {
					notAbove++
				}
			}
			if float64(notAbove) >= r.Value*float64(n) {
				b = x
			}
		}
		if n = whole; r.Margin != 0 {
			b *= r.Margin
		}
	case r.Kind == MAD:
		m := med(hist)
		var d []float64
		for _, x := range hist {
			d = append(d, math.Abs(x-m))
		}
		s := med(d) / 0.6744897501960817
		for _, q := range []float64{0.9, 0.99, 1} {
			if s == 0 {
				s = (hist[int(math.Ceil(q*float64(n)))-1] - m) * map[float64]float64{0.9: 0.7803041, 0.99: 0.4298583, 1: 0.3333333}[q]
			}
		}
		b = m + r.Value*math.Max(s, math.Abs(m)/1024)
	case r.Kind == Conformal:
		if r.Value*float64(n+1) < 1 {
			if f != nil && r.Value*float64(n+1) >= 0.1 {
				b = math.Max(hist[n-1], f.u+f.scale/f.shape*(math.Pow(f.share/r.Value, f.shape)-1))
			}
			break
		}
		// The lowest score of the history above which a rank is within the rate.
		for _, x := range hist {
			above := 0
			for _, y := range hist {
				if y > x {
					above++
				}
			}
			if float64(above+1)/float64(n+1) <= r.Value {
				b = x
				break
			}
		}
	}
	if r.Kind == Conformal && n >= 32 {
		usual, spread := naiveUsual(r, hist, med(hist))
		if r.Margin != 0 && spread > 0 {
			b = math.Min(b, usual+r.Margin*(1+128/float64(n))*spread)
		} else if top := usual + 20*math.Pow(math.Max(1, 1/(r.Value*float64(n+1))), 1.0/3)*spread; r.Margin == 0 &&
			r.Value*float64(n+1) >= 0.1 && spread > 0 && top < most {
			ceiling = top
			b = math.Min(b, top)
		}
	}
	v.Threshold = float32(b)
	v.Exceeds = float32(score) > v.Threshold
	if hist = naiveAboveFloor(r, hist, scale, min(r.Value, 0.9)); v.Exceeds && n >= 32 && len(hist) < 32 {
		v.Severity = 50
	} else if v.Exceeds && n >= 32 {
		v.Severity = naiveSeverity(r, hist, med(hist), score, float64(v.Threshold))
	}
	return v, ceiling
}

// naiveAboveFloor returns the scores of a sorted history above least, or all of them where less than a share q is up to least.
func naiveAboveFloor(r Params, hist []float64, least, q float64) (others []float64) {
	tiny := 0
	for _, x := range hist {
		if x > least {
			others = append(others, x)
		} else {
			tiny++
		}
	}
	if r.Kind != Quantile || r.Margin == 0 || len(hist) == 0 || hist[0] < 0 || float64(tiny) < q*float64(len(hist)) {
		return hist
	}
	return others
}

// naiveFaults are the scores of a stream that are clear faults.
type naiveFaults []bool

// rare returns whether clear faults are rare after the scores so far, of which n are in the history. sure is false where rounding may
// decide.
func (f naiveFaults) rare(r Params, n int) (rare, sure bool) {
	h := float64(r.History)
	rows, scores := 0.0, 0.0
	last := -1 << 30
	for i, isClear := range f {
		if isClear {
			weight := math.Pow(1-1/h, float64(len(f)-1-i))
			scores += weight
			if i-last > max(2, r.Decluster)+1 {
				rows += weight
			}
			last = i
		}
	}
	mostRows, mostScores := math.Max(3, 2*r.Value*h), math.Min(h, float64(n)+scores)/10
	sure = scores == 0 || math.Abs(rows-mostRows) > 1e-4 && math.Abs(scores-mostScores) > 1e-4
	return rows <= mostRows && scores <= mostScores, sure
}

// naiveSeverity returns 50 for a score one spread above the bound of an exponential tail of the
// history, and 33.3 for each power of ten.
func naiveSeverity(r Params, hist []float64, median, score, bound float64) uint8 {
	usual, spread := naiveUsual(r, hist, median)
	if r.Kind == Conformal || r.Kind == Quantile {
		bound = math.Min(bound, usual)
	}
	if score <= bound {
		return 0
	}
	if spread == 0 { // nothing but zeros
		return 50
	}
	return uint8(math.Max(0, math.Min(100, math.Round(50+100*math.Log10((score-bound)/spread)/3))))
}

// naiveUsual returns the bound of an exponential tail of a history, and its spread.
func naiveUsual(r Params, hist []float64, median float64) (usual, spread float64) {
	n := float64(len(hist))
	quantile := func(q float64) float64 { return hist[int(math.Ceil(q*n))-1] }
	spread = (quantile(0.9) - median) / 1.2815516
	if spread == 0 {
		spread = (quantile(0.99) - median) / 2.3263479
	}
	if spread == 0 {
		spread = (quantile(1) - median) / 3
	}
	spread = math.Max(spread, math.Abs(median)/1024)
	p := r.Value
	if r.Kind == Quantile {
		p = 1 - p
	}
	usual = median + 1.2815516*spread*math.Log(0.5/p)/math.Log(5)
	if r.Kind == Quantile && r.Margin != 0 {
		usual *= r.Margin
	}
	return usual, spread
}

func naiveTail(hist []float64) *tail {
	n := len(hist)
	if n < 32 {
		return nil
	}
	k := max(8, n/16)
	f := &tail{u: hist[n-k-1], share: float64(k+1) / float64(n+1)}
	a0, a1 := 0.0, 0.0
	for i := 1; i <= k; i++ {
		e := hist[n-k+i-1] - f.u
		a0 += e / float64(k)
		a1 += e * (1 - (float64(i)-0.35)/float64(k)) / float64(k)
	}
	f.shape = 1 / float64(k)
	if a0 > 2*a1 {
		f.shape = math.Max(f.shape, math.Min(0.9, 2-a0/(a0-2*a1)))
	}
	f.scale = math.Max(math.Max(a0*(1-f.shape), math.Abs(hist[n-1])/1024), math.SmallestNonzeroFloat32)
	f.shape += (1 + f.shape) / math.Sqrt(float64(k)) // a standard error
	return f
}

func near(a, b float32, rel float64) bool {
	return a == b || math.Abs(float64(a)-float64(b)) <= rel*math.Max(math.Abs(float64(a)), math.Abs(float64(b)))
}

// streams returns sequences of scores that are hard for order statistics.
func streams(rnd *rand.Rand, n int) map[string][]float32 {
	s := map[string][]float32{}
	add := func(name string, f func(i int) float64) {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(f(i))
		}
		s[name] = x
	}
	add("normal", func(int) float64 { return rnd.NormFloat64() })
	add("heavy", func(int) float64 { return math.Pow(rnd.Float64(), -1.5) })
	add("faults", func(i int) float64 {
		if i%40 == 39 || i > n/2 && i%7 == 0 {
			return 100 + rnd.Float64()
		}
		return rnd.Float64()
	})
	add("long faults", func(i int) float64 {
		if i%150 > 110 {
			return 100 + rnd.Float64()
		}
		return rnd.Float64()
	})
	add("ties", func(int) float64 { return float64(rnd.IntN(4)) })
	add("constant", func(int) float64 { return 1.25 })
	add("zero", func(int) float64 { return 0 })
	add("nearly constant", func(i int) float64 { return float64(i / 97 % 2) })
	add("rising", func(i int) float64 { return float64(i) })
	add("falling", func(i int) float64 { return -float64(i) })
	add("signed zero", func(i int) float64 { return math.Copysign(0, float64(i%2)-0.5) })
	add("mixed", func(i int) float64 {
		switch rnd.IntN(20) {
		case 0:
			return math.NaN()
		case 1:
			return math.Inf(1)
		case 2:
			return math.Inf(-1)
		}
		return math.Round(rnd.ExpFloat64()*4) / 4
	})
	return s
}

func TestJudgeAgreesWithTheDefinition(t *testing.T) {
	rnd := seedtest.New(t)
	list := []Params{
		{Kind: Fixed, Value: 1.5}, {Kind: Fixed, Value: -1}, {Kind: Mean, Value: 1.5},
		{Kind: Quantile, Value: 0.9}, {Kind: Quantile, Value: 0.995, Margin: 1.25},
		{Kind: Quantile, Value: 0.6, Margin: 1.5}, {Kind: MAD, Value: 3}, {Kind: Conformal, Value: 0.1},
		{Kind: Conformal, Value: 0.02}, {Kind: Conformal, Value: 0.001},
		{Kind: Conformal, Value: 0.0008, Margin: 2},
	}
	faults, often := 0, 0 // clear faults, and scores where they are not rare
	for _, r := range list {
		r.History = 32 + rnd.IntN(80)
		if r.Kind == Conformal {
			r.History = max(r.History, least(r.Value))
		}
		r.Bounded = rnd.IntN(2) == 0 && r.Value != 0.02
		r.Warmup = []int{0, 10, 64}[rnd.IntN(3)]
		if r.Decluster = []int{0, 1, 2, 7}[rnd.IntN(4)]; r.Value == 0.02 {
			r.Decluster = 7 // a fault is in few of the history's scores
		}
		if err := r.Check(); err != nil {
			t.Fatal(err)
		}
	next:
		for name, x := range streams(rnd, 400) {
			state := make([]float32, r.Size())
			var all []float64
			run := 0 // of scores that exceed
			var clearFaults naiveFaults
			for i, s := range x {
				if r.Bounded && s == s {
					s = float32(1 - math.Exp(-math.Abs(float64(s))))
				}
				value := math.Max(-math.MaxFloat32, math.Min(math.MaxFloat32, float64(s)))
				most := 0.0
				rare, sure := clearFaults.rare(r, min(len(all), r.History))
				if rare {
					most = math.Inf(1)
				}
				got := r.Judge(state, s)
				want, ceiling := naive(r, all, value, most)
				if r.Kind == Conformal && r.Margin == 0 && s == s {
					if !sure || !math.IsInf(ceiling, 1) && near(s, float32(ceiling), 1e-5) {
						continue next // rounding decides
					}
					if clearFaults = append(clearFaults, len(all) >= r.Warmup && value > ceiling); clearFaults[len(clearFaults)-1] {
						faults++
					}
					if !rare {
						often++
					}
				}
				ok := near(got.Threshold, want.Threshold, 1e-5) && near(got.Tail, want.Tail, 1e-4) &&
					(got.Exceeds == want.Exceeds && max(got.Severity, want.Severity)-min(got.Severity, want.Severity) <= 1 ||
						near(s, want.Threshold, 1e-5))
				if !ok && !(name == "mixed" && r.Kind == Mean) { // the sum of both infinities
					t.Fatalf("%v history %d warm-up %d, %s, score %d (%v):\ngot  %+v\nwant %+v", r, r.History, r.Warmup, name, i, s, got, want)
				}
				switch {
				case s != s:
					continue
				case got.Exceeds:
					run++
				default:
					run = 0
				}
				if run == 0 || r.Decluster == 0 || (run-1)%r.Decluster == 0 {
					all = append(all, math.Max(-math.MaxFloat32, math.Min(math.MaxFloat32, float64(s))))
				}
			}
			if Count(state) != len(all) {
				t.Fatalf("count %d, want %d", Count(state), len(all))
			}
		}
	}
	if t.Logf("%d clear faults, %d scores where they are not rare", faults, often); faults == 0 {
		t.Error("no clear faults")
	}
}

func TestAScoreOfTheHistoryIsNoAnomaly(t *testing.T) {
	for _, r := range []Params{New(Quantile, 0.995), New(MAD, 3), New(Conformal, 0.001), New(Conformal, 0.01)} {
		for _, c := range []float32{0, 1, -3, 1e-30, math.MaxFloat32} {
			state := make([]float32, r.Size())
			for i := range 2000 {
				if v := r.Judge(state, c); v.Exceeds || v.Severity != 0 {
					t.Fatalf("%v: constant %v, score %d: %+v", r, c, i, v)
				}
			}
			if c < 0 || c == math.MaxFloat32 {
				continue
			}
			before := slices.Clone(state)
			v := r.Judge(state, c+1+c)
			if !v.Exceeds || c > 0 && v.Severity < critical || c == 0 && v.Severity != minor {
				t.Errorf("%v: constant %v, then %v: %+v", r, c, c+1+c, v)
			}
			if v := r.Judge(before, math.Nextafter32(c, 1e30)); v.Exceeds && c != 0 && r.Kind != Quantile && r.Value != 0.01 {
				t.Errorf("%v: constant %v, then the next number: %+v", r, c, v)
			}
		}
	}
}

// TestFalseAlarmRateOfExchangeableScores compares the rates of scores that exceed with the threshold's.
// Rates below 1/513 come from the extrapolated tail with its margin: bounded tails give none, heavy
// ones less than the rate.
func TestFalseAlarmRateOfExchangeableScores(t *testing.T) {
	rnd := seedtest.New(t)
	dists := map[string]func() float64{
		"uniform":     rnd.Float64,
		"normal":      rnd.NormFloat64,
		"exponential": rnd.ExpFloat64,
		"log-normal":  func() float64 { return math.Exp(rnd.NormFloat64()) },
		"pareto 3":    func() float64 { return math.Pow(rnd.Float64(), -1.0/3) },
	}
	const n = 400_000
	for name, dist := range dists {
		for _, c := range []struct{ rate, low, high float64 }{{0.05, 0.9, 1.1}, {0.01, 0.8, 1.2}, {0.002, 0.4, 1.5},
			{0.001, 0, 1}, {0.0001, 0, 1.5}} {
			r := New(Conformal, c.rate)
			state := make([]float32, r.Size())
			alarms := 0
			for range n {
				if r.Judge(state, float32(dist())).Exceeds {
					alarms++
				}
			}
			got := float64(alarms) / n
			t.Logf("%-12s rate %-7v measured %.6f (%.2f)", name, c.rate, got, got/c.rate)
			if got < c.low*c.rate || got > c.high*c.rate {
				t.Errorf("%s: rate %v gave %v", name, c.rate, got)
			}
		}
	}
}

// TestDecluster requires: of a run of scores that exceed the first and then each Decluster-th is
// added, and that each run begins again.
func TestDecluster(t *testing.T) {
	r := New(Fixed, 10)
	r.History, r.Decluster = 32, 3
	state := make([]float32, r.Size())
	for _, s := range []float32{1, 20, 21, 22, 23, 24, 25, 26, 2, 30, 31, float32(math.NaN()), 32, 33, 3} {
		r.Judge(state, s)
	}
	want := []float32{1, 20, 23, 26, 2, 30, 33, 3}
	if got := state[head : head+Count(state)]; !slices.Equal(got, want) {
		t.Errorf("added %v, want %v", got, want)
	}
}

func TestWarmup(t *testing.T) {
	r := New(Conformal, 0.01)
	state := make([]float32, r.Size())
	for i := range r.Warmup {
		v := r.Judge(state, float32(i*i*i))
		if v.Exceeds || v.Severity != 0 || !math.IsInf(float64(v.Threshold), 1) {
			t.Fatalf("score %d: %+v", i, v)
		}
	}
	if v := r.Judge(state, 1e9); !v.Exceeds || v.Severity == 0 {
		t.Errorf("after the warm-up: %+v", v)
	}
	f := New(Fixed, 2)
	if v := f.Judge(make([]float32, f.Size()), 3); !v.Exceeds || v.Threshold != 2 || v.Tail != 1 {
		t.Errorf("first score of a fixed bound: %+v", v)
	}
}

func TestCheck(t *testing.T) {
	bad := func(r Params) {
		t.Helper()
		if r.Check() == nil {
			t.Errorf("%+v passes", r)
		}
	}
	nan := math.NaN()
	for _, k := range []Kind{Fixed, Mean, Quantile, MAD, Conformal, PerDay} {
		bad(New(k, nan))
		bad(New(k, math.Inf(1)))
		bad(Params{Kind: k, Value: 0.5, History: 31})
		bad(Params{Kind: k, Value: 0.5, History: 512, Warmup: -1})
		if k != Fixed {
			bad(New(k, 0))
			bad(New(k, -1))
		}
	}
	bad(New(Quantile, 1))
	bad(New(Conformal, 1e-7))
	bad(Params{Kind: Conformal, Value: 0.0001, History: 998})
	if r := (Params{Kind: Conformal, Value: 0.0001, History: 999}); r.Check() != nil {
		t.Error(r.Check())
	}
	if r := New(Conformal, 0.0001); r.History != 999 || r.Check() != nil {
		t.Errorf("%+v: %v", r, r.Check())
	}
	if r := New(Conformal, minRate); r.Check() != nil {
		t.Errorf("%+v: %v", r, r.Check())
	}
	bad(New(Conformal, 0.6))
	bad(New(Kind(9), 1))
	bad(Params{Kind: Quantile, Value: 0.5, Margin: nan, History: 512})
	bad(Params{Kind: MAD, Value: 5, History: 512, Decluster: -1})
	if r := (Params{}); r.Check() != nil || r.Size() != 0 || r.Judge(nil, 5) != (Judgement{}) {
		t.Error("off")
	}
}

func TestParse(t *testing.T) {
	for _, s := range []string{"off", "fixed:3.5", "fixed:-1", "mean:1.5", "quantile:0.995", "quantile:0.995*1.2",
		"mad:6", "conformal:0.001", "conformal:0.001+2.5", "conformal:8e-05+2"} {
		r, err := Parse(s)
		if err != nil || r.String() != s {
			t.Errorf("%q: %v %v", s, r, err)
		}
	}
	for _, s := range []string{"", "of", "fixed", "fixed:", "fixed:x", "mad:nan", "mad:6*2", "quantile:0.9*0", "conformal:2",
		"conformal:0.001*2", "conformal:0.001+0", "conformal:0.001+-2", "quantile:0.9+2", "off:1", "fixed:3:4"} {
		if r, err := Parse(s); err == nil {
			t.Errorf("%q is read as %v", s, r)
		}
	}
}
