package season

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"odradek/detectors"
	"odradek/detectors/seedtest"
)

// banded scores a series of values at equal intervals, and returns what is found by sample.
func banded(b *Band, every time.Duration, x []float64) []BandScore {
	var s bandState
	s.open(make([]uint32, BandWords))
	scores := make([]BandScore, len(x))
	start := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC) // a Monday
	for i, v := range x {
		scores[i] = b.score(&s, start.Add(time.Duration(i)*every).UnixMicro(), v)
	}
	return scores
}

// openings returns the samples above the threshold that follow on gap ordinary ones.
func openings(b *Band, scores []BandScore, gap int) (at []int) {
	last := -gap - 1
	for i, sc := range scores {
		if sc.Score > b.Threshold {
			if i-last > gap {
				at = append(at, i)
			}
			last = i
		}
	}
	return at
}

func newBand() *Band { return &Band{Threshold: bandThreshold(.0003), MinPoints: 64} }

// TestBandPeriods: the period that a series has comes into use, and none in noise and in a random walk.
func TestBandPeriods(t *testing.T) {
	rng := seedtest.New(t)
	walk := 0.0
	for name, c := range map[string]struct {
		every  time.Duration
		n      int
		period int
		at     func(i int) float64
	}{
		"hour": {time.Minute, 60 * 30, candidateHour, func(i int) float64 { return float64(i % 60 / 20) }},
		"day":  {10 * time.Minute, 144 * 6, candidateDay, func(i int) float64 { return 2 * math.Sin(2*math.Pi*float64(i)/144) }},
		"working": {30 * time.Minute, 48 * 21, candidateWorking, func(i int) float64 {
			if i/48%7 >= 5 {
				return 0
			}
			return 3 * math.Sin(2*math.Pi*float64(i)/48)
		}},
		"week": {time.Hour, 24 * 7 * 6, candidateWeek, func(i int) float64 {
			return float64(i/24*5%7) * math.Sin(2*math.Pi*float64(i)/24)
		}},
		"found": {time.Second, 3000, candidateFound, func(i int) float64 { return 2 * math.Sin(2*math.Pi*float64(i)/87.5) }},
		"noise": {time.Minute, 6000, -1, func(int) float64 { return 0 }},
		"walk":  {time.Minute, 6000, -1, func(int) float64 { walk += rng.NormFloat64(); return walk }},
	} {
		x := make([]float64, c.n)
		for i := range x {
			x[i] = 1e6 + c.at(i) + .2*rng.NormFloat64()
		}
		scores := banded(newBand(), c.every, x)
		last := scores[len(scores)-1]
		if last.Period != c.period {
			t.Errorf("%s: candidate %d is in use, want %d", name, last.Period, c.period)
		}
		if want := 1e6 + c.at(c.n-1); c.period >= 0 && math.Abs(last.Expected-want) > .5 {
			t.Errorf("%s: %v is expected, want about %v", name, last.Expected, want)
		}
	}
}

// TestBandPeriodOf: the period of the autocorrelation is the series' own, fractions included, and there is none in noise.
func TestBandPeriodOf(t *testing.T) {
	rng := seedtest.New(t)
	for _, want := range []float64{7, 12.5, 48, 87.3, 200, 0} {
		var found [9]float64 // of as many draws: the noise moves a long period, which the samples hold five times
		for draw := range found {
			samples := make([]uint32, searched)
			for i := range samples {
				v := .3 * rng.NormFloat64()
				if want > 0 {
					v += math.Sin(2*math.Pi*float64(i)/want) + .5*math.Cos(4*math.Pi*float64(i)/want)
				}
				samples[i] = math.Float32bits(float32(v))
			}
			found[draw] = periodOf(samples)
		}
		slices.Sort(found[:])
		least, got, most := found[0], found[len(found)/2], found[len(found)-1]
		off := func(p float64) bool { return math.Abs(p-want) > .01*want && math.Abs(p-want) > .05*want*want/200 }
		if off(got) || want < 200 && (off(least) || off(most)) || least < .9*want || most > 1.1*want {
			t.Errorf("periods from %v to %v, half of them up to %v, want %v", least, most, got, want)
		}
	}
}

// TestBandTail: of exponentially distributed values, -ln of the probability to be above v is v, and so is about the score.
func TestBandTail(t *testing.T) {
	rng := seedtest.New(t)
	for range 5 {
		s := newTail
		for range 60_000 {
			s.score(ofInnovation, rng.ExpFloat64(), 1, true)
		}
		if math.Abs(s.from-math.Log(50)) > .3 {
			t.Errorf("the tail begins at %v, the quantile is %v", s.from, math.Log(50))
		}
		for _, v := range []float64{5, 7, 9} {
			if got := s.score(ofInnovation, v, 1, false); math.Abs(got-v) > .2*v {
				t.Errorf("a value of probability exp(-%v) scores %v", v, got)
			}
		}
	}
}

// TestBandChart: the usual distance of a chart of independent values is Roberts' (1959), sqrt(w/(2-w)), with any prior.
func TestBandChart(t *testing.T) {
	rng := seedtest.New(t)
	for _, weight := range []float64{1. / 4, 1. / 16, 1. / 64} {
		var c chart
		sum, n := 0.0, 0.0
		want := math.Sqrt(weight / (2 - weight))
		for i := range 40_000 {
			c.mean += weight * (rng.NormFloat64() - c.mean)
			v := c.distance(c.mean, weight, want, true)
			if i > 2000 {
				sum += v * v
				n++
			}
		}
		if rms := math.Sqrt(sum / n); math.Abs(rms-1) > .15 {
			t.Errorf("weight %v: distances of %v usual ones", weight, rms)
		}
	}
}

// TestBandBins: the level of a bin is the mean of its samples, where no difference is gross: each hour has another value every second day.
func TestBandBins(t *testing.T) {
	rng := seedtest.New(t)
	const every, n = time.Hour, 24 * 20
	x := make([]float64, n)
	want, first := make([]float64, 24), rng.Perm(24)
	for i := range x {
		x[i] = 10*math.Sin(2*math.Pi*float64(i)/24) + float64((i/24+first[i%24])%2)
		if i >= intervals {
			k := float64((i-intervals)/24 + 1)
			want[i%24] += (x[i] - x[0] - want[i%24]) / k
		}
	}
	var s bandState
	s.open(make([]uint32, BandWords))
	b := newBand()
	b.Threshold = math.Inf(1)
	for i, v := range x {
		b.score(&s, int64(i)*int64(every/time.Microsecond), v)
	}
	for i := range 24 {
		if got := s.profiles[candidateDay].bin(i).level; math.Abs(got-want[i]) > .01 {
			t.Errorf("hour %d: level %v, want %v", i, got, want[i])
		}
	}
}

// TestBandFaults: a nightly job is ordinary from its third night on, and one that is missing, or comes at another time, is found; so are
// a missing peak, a drift, less noise, a counter that stands still, and a fault at sample 100. Each series is ordinary elsewhere.
func TestBandFaults(t *testing.T) {
	rng := seedtest.New(t)
	noise := func(int) float64 { return rng.NormFloat64() }
	daily := func(i int) float64 { return 20*math.Sin(2*math.Pi*float64(i)/288) + rng.NormFloat64() }
	count := 0.0
	for name, c := range map[string]struct {
		n, from, to int // of the fault
		within      int // samples after its begin in which it is found
		ignored     int // samples at the begin
		at          func(i int) float64
	}{
		"missing job": {288 * 20, 288*15 + 24, 288*15 + 30, 40, 288 * 3, func(i int) float64 {
			if i%288 >= 24 && i%288 < 30 && i/288 != 15 {
				return 30 + noise(i)
			}
			return daily(i) / 5
		}},
		"job at noon": {288 * 20, 288*15 + 144, 288*15 + 150, 3, 288 * 3, func(i int) float64 {
			if i%288 >= 24 && i%288 < 30 || i >= 288*15+144 && i < 288*15+150 {
				return 30 + noise(i)
			}
			return daily(i) / 5
		}},
		"missing peak": {288 * 14, 288 * 10, 288*10 + 110, 60, 288, func(i int) float64 {
			if i/288 == 10 && i%288 < 144 {
				return noise(i)
			}
			return daily(i)
		}},
		"drift": {6000, 4000, 6000, 1000, 100, func(i int) float64 { return noise(i) + max(0, float64(i-4000))*.004 }},
		"calm": {6000, 4000, 4600, 400, 100, func(i int) float64 {
			if i >= 4000 && i < 4600 {
				return .2 * noise(i)
			}
			return noise(i)
		}},
		"counter": {3000, 2000, 2100, 60, 200, func(i int) float64 {
			if i < 2000 || i >= 2100 {
				count += 50 + 3*noise(i)
			}
			if i%700 == 0 {
				count = 50 + 3*noise(i)
			}
			return count
		}},
		"early": {300, 100, 120, 3, 64, func(i int) float64 {
			if i >= 100 && i < 120 {
				return 12 + noise(i)
			}
			return noise(i)
		}},
	} {
		x := make([]float64, c.n)
		for i := range x {
			x[i] = c.at(i)
		}
		b := newBand()
		at := openings(b, banded(b, 5*time.Minute, x), 100)
		found, others := -1, 0
		for _, o := range at {
			switch {
			case o >= c.from && o <= c.from+c.within:
				found = o - c.from
			case o > c.ignored && o < c.from:
				others++
			}
		}
		t.Logf("%s: found after %d samples; all %v, fault at %d", name, found, at, c.from)
		if found < 0 || others > 3 {
			t.Errorf("%s: found at %d samples, %d others in %d", name, found, others, c.from)
		}
	}
}

// TestBandMissingJob: a job that comes at another minute of a quarter of an hour each night is ordinary there, and found by the largest
// sample of three bins where it is missing.
func TestBandMissingJob(t *testing.T) {
	rng := seedtest.New(t)
	const days, missing = 16, 13
	x := make([]float64, 1440*days)
	for i := range x {
		x[i] = 20*math.Sin(2*math.Pi*float64(i)/1440) + rng.NormFloat64()
	}
	for d := range days {
		if at := 1440*d + 121 + rng.IntN(9); d != missing {
			for i := range 4 {
				x[at+i] += 30
			}
		}
	}
	b := newBand()
	scores := banded(b, time.Minute, x)
	found := false
	for i, sc := range scores {
		if sc.Score > b.Threshold && i >= 1440*10 && i%1440 >= 120 && i%1440 < 200 {
			if i/1440 < missing {
				t.Errorf("sample %d, of the job of day %d, scores %v", i, i/1440, sc.Score)
			}
			found = found || i/1440 == missing && sc.Statistic == ofExtremes
		}
	}
	if !found {
		t.Error("the missing job is not found")
	}
}

// TestBandDegenerate: a value that is no number or huge has no score and is not learnt; a constant scores 0, and its first step, however
// small, is above the threshold; a scale of 1e-30 or 1e30 changes no score.
func TestBandDegenerate(t *testing.T) {
	rng := seedtest.New(t)
	b := newBand()
	var s bandState
	s.open(make([]uint32, BandWords))
	for i := range 1000 {
		if sc := b.score(&s, int64(i)*60e6, 7); sc.Score > 0 {
			t.Fatalf("sample %d of a constant scores %v", i, sc.Score)
		}
	}
	s.close()
	before := slices.Clone(s.words)
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e150} {
		sc := b.score(&s, 1000*60e6, v)
		if s.close(); sc.Score == sc.Score || !slices.Equal(s.words, before) {
			t.Errorf("%v scores %v, or is learnt", v, sc.Score)
		}
	}
	x := make([]float64, 3000)
	for i := range x {
		x[i] = math.Sin(float64(i)/20) + rng.NormFloat64()
	}
	want := banded(b, time.Minute, x)
	for _, scale := range []float64{0x1p-100, 1, 0x1p100} {
		var s bandState
		s.open(make([]uint32, BandWords))
		for i := range 1000 {
			b.score(&s, int64(i)*60e6, 7*scale)
		}
		if sc := b.score(&s, 1000*60e6, 7.25*scale); !(sc.Score > b.Threshold) {
			t.Errorf("times %v: the first step of a constant scores %v", scale, sc.Score)
		}
		scaled := make([]float64, len(x))
		for i, v := range x {
			scaled[i] = scale * v
		}
		for i, sc := range banded(b, time.Minute, scaled) {
			if sc.Score != want[i].Score && sc.Score == sc.Score {
				t.Fatalf("times %v: sample %d scores %v, want %v", scale, i, sc.Score, want[i].Score)
			}
		}
	}
}

// TestBandTasks: however a series is cut into tasks, scores and carry are the same to the bit.
func TestBandTasks(t *testing.T) {
	rng := seedtest.New(t)
	d := detectors.Must(NewBand(BandParams{Rate: .01}))
	const n, dim = 2500, 2
	x := make([]float64, 0, n*(dim+1))
	at := wednesday
	for i := range n {
		at += 600e6
		if rng.IntN(400) == 0 {
			at += 9000e6 * rng.Float64()
		}
		v := [2]float64{3*math.Sin(2*math.Pi*float64(i)/144) + rng.NormFloat64(), float64(rng.IntN(3))}
		if rng.IntN(300) == 0 {
			v[rng.IntN(2)] = 50
		}
		x = append(x, at, v[0], v[1])
	}
	score := func(next func() int) (scores []float32, carry detectors.Words) {
		for from := 0; from < n; {
			fresh := min(next(), n-from)
			r := detectors.Rows{Dim: dim + 1, Fresh: fresh, Params: d.Params(), X64: x[from*(dim+1) : (from+fresh)*(dim+1)], Carry: carry}
			size, _ := d.Size(detectors.View{Dim: r.Dim, Rows: fresh, Fresh: fresh})
			r.Scores, r.Next, r.Detail = make([]float32, fresh), make(detectors.Words, size.Carry), make(detectors.Words, size.Detail)
			bandCPU(t.Context(), &r, detectors.Sequential)
			scores, carry = append(scores, r.Scores...), r.Next
			from += fresh
		}
		return scores, carry
	}
	want, carry := score(func() int { return n })
	for _, next := range []func() int{func() int { return 1 }, func() int { return 1 + rng.IntN(40) }} {
		got, c := score(next)
		if !slices.Equal(c, carry) {
			t.Error("another carry")
		}
		for i := range want {
			if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
				t.Fatalf("sample %d scores %v, in one task %v", i, got[i], want[i])
			}
		}
	}
}

// TestBandClock: a load by local time is ordinary when the clock changes, and a calendar's holiday is a Sunday.
func TestBandClock(t *testing.T) {
	rng := seedtest.New(t)
	const every = 15 * time.Minute
	start := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	change := start.Add(40 * 24 * time.Hour)
	holiday := start.Add(44 * 24 * time.Hour) // a Wednesday
	offsets := Table(nil).Append(0, 3600).Append(change.Unix(), 7200)
	days := Table(nil).Append(holiday.Unix()/day, 0)
	for _, known := range []bool{true, false} {
		b := newBand()
		if known {
			b.Clock = Clock{Offsets: offsets, Days: days}
		}
		var s bandState
		s.open(make([]uint32, BandWords))
		above := 0
		for i := range 60 * 96 {
			at := start.Add(time.Duration(i) * every)
			local := at.Add(time.Hour)
			if !at.Before(change) {
				local = local.Add(time.Hour)
			}
			v := rng.NormFloat64()
			free := local.Weekday() == time.Saturday || local.Weekday() == time.Sunday || local.YearDay() == holiday.YearDay()
			if h := local.Hour(); h >= 8 && h < 18 && !free {
				v += 20
			}
			if sc := b.score(&s, at.UnixMicro(), v); i > 39*96 && sc.Score > b.Threshold {
				above++
			}
		}
		if known && above > 6 || !known && above < 20 {
			t.Errorf("clock known %v: %d samples above the threshold around a change of the clock and a holiday", known, above)
		}
	}
}

func TestNewBandNamesEveryFault(t *testing.T) {
	_, err := NewBand(BandParams{Rate: .5, MinPoints: 5, Days: Table(nil).Append(2, 0).Append(1, 0)})
	for _, want := range []string{"rate is 0.5", "5 samples", "1 stands after 2"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not mention %q", err, want)
		}
	}
}

// TestBandExplains: the expected value of a missing peak is the peak, and the part names its deviation.
func TestBandExplains(t *testing.T) {
	d := detectors.Must(NewBand(BandParams{})).(detectors.Explainer)
	rng := rand.New(rand.NewPCG(1, 2))
	var x []float64
	const n = 24*20 + 13
	for i := range n {
		v := rng.NormFloat64()
		if i%24 >= 9 && i%24 < 17 && i != n-1 {
			v += 40
		}
		x = append(x, wednesday+float64(i)*hour, v, rng.NormFloat64())
	}
	r := detectors.Rows{Dim: 3, Fresh: n, Params: d.Params(), X64: x}
	size, _ := d.Size(detectors.View{Dim: 3, Rows: n, Fresh: n})
	r.Scores, r.Next, r.Detail = make([]float32, n), make(detectors.Words, size.Carry), make(detectors.Words, size.Detail)
	bandCPU(t.Context(), &r, detectors.Sequential)
	expected, share := make([]float64, 2), make([]float64, 2)
	p, ok := d.Explain(r, n-1, 0, expected, share)
	if !ok || math.Abs(expected[0]-40) > 3 || share[0] < .9 || p.Row != n-1 || p.Spread < .5 || p.Spread > 4 {
		t.Errorf("a missing peak of 40: %v, expected %v, shares %v, %+v, score %v", ok, expected, share, p, r.Scores[n-1])
	}
}

func BenchmarkBand(b *testing.B) {
	m := newBand()
	var s bandState
	s.open(make([]uint32, BandWords))
	rng := rand.New(rand.NewPCG(1, 2))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		m.score(&s, 1_700_000_000e6+int64(i)*60e6, 5*math.Sin(float64(i)/229)+rng.NormFloat64())
	}
}
