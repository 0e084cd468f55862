package season

import (
	"math"
	"slices"
	"testing"
	"time"
	_ "time/tzdata"

	"odradek/detectors/seedtest"
)

// define scores a series by the definition: each sample from all samples before it, with the
// weights that a mean decayed after a number of samples has.
func define(p *Params, bins []int, x []float64) (scores []Score) {
	learnt, squares, step, last := map[int][]float64{}, []float64(nil), 0.0, math.NaN()
	mean := func(v []float64, memory int) float64 {
		sum := 0.0
		for i := range v {
			w := 1 / math.Min(float64(i+1), float64(memory))
			for k := i + 1; k < len(v); k++ {
				w *= 1 - 1/math.Min(float64(k+1), float64(memory))
			}
			sum += w * v[i]
		}
		return sum
	}
	for i, v := range x {
		b := bins[i]
		if math.IsNaN(v) || math.Abs(v) >= 1e150 {
			scores = append(scores, Score{math.NaN(), math.NaN()})
			continue
		}
		if d := math.Abs(v - last); d > 0 && (step == 0 || d < step) {
			step = d
		}
		last = v
		if len(learnt[b]) == 0 {
			learnt[b] = []float64{v}
			scores = append(scores, Score{math.NaN(), math.NaN()})
			continue
		}
		level := mean(learnt[b], p.Memory)
		r, s := v-level, math.Sqrt(mean(squares, p.Memory*p.Bins))
		if len(squares) == 0 {
			s = math.Abs(r)
		}
		s = math.Max(s, step/3)
		sc := Score{0, level}
		if s > 0 {
			sc.Deviation = math.Min(1e6, math.Abs(r)/s)
			if math.Abs(r) > 3*s {
				r = math.Copysign(3*s, r)
			}
		}
		squares = append(squares, r*r)
		learnt[b] = append(learnt[b], level+r)
		scores = append(scores, sc)
	}
	return scores
}

// TestStepIsTheDefinition: each score is that from all samples before it.
func TestStepIsTheDefinition(t *testing.T) {
	rng := seedtest.New(t)
	for range 20 {
		p := &Params{Bins: 1 + rng.IntN(8), Memory: 1 + rng.IntN(12)}
		state := make([]uint32, p.Words())
		var bins []int
		var x []float64
		tied := rng.IntN(3) == 0
		for i := range 200 {
			bins = append(bins, i%p.Bins)
			v := 100 + 10*float64(i%p.Bins) + rng.NormFloat64()
			if tied {
				v = 100 + float64(rng.IntN(2)*(i%p.Bins))
			}
			switch rng.IntN(30) {
			case 0:
				v = math.NaN()
			case 1:
				v = 1e200
			case 2:
				v *= 50
			}
			if tied && i < 2 {
				v = 100 + float64(i) // so that there is a step, and a residual that is 0 but for rounding scores 0
			}
			x = append(x, v)
		}
		for i, want := range define(p, bins, x) {
			got := Step(p, state, bins[i], x[i])
			for k, v := range [][2]float64{{got.Deviation, want.Deviation}, {got.Expected, want.Expected}} {
				if d := math.Abs(v[0] - v[1]); !(d <= 1e-6*(1+math.Abs(v[1]))) && (v[0] == v[0] || v[1] == v[1]) {
					t.Fatalf("%+v, sample %d: number %d is %v, the definition gives %v", p, i, k, v[0], v[1])
				}
			}
		}
	}
}

// TestSeasonalNaive: with a memory of one sample and nothing clipped, the expected value equals the value a
// period before.
func TestSeasonalNaive(t *testing.T) {
	rng := seedtest.New(t)
	p := &Params{Bins: 7, Memory: 1}
	state := make([]uint32, p.Words())
	var x []float64
	for i := range 70 {
		x = append(x, math.Sin(float64(i))+1e-3*float64(rng.IntN(3)))
		sc := Step(p, state, i%7, x[i])
		if sc.Deviation > clip {
			t.Skip("clipped")
		}
		if i >= 7 && math.Abs(sc.Expected-x[i-7]) > 1e-12 {
			t.Fatalf("sample %d: expected %v, a period before was %v", i, sc.Expected, x[i-7])
		}
	}
}

// TestMissingPeak: a day without its peak is far from what is expected, and a constant series
// scores 0 and its first step, however small or large, 3.
func TestMissingPeak(t *testing.T) {
	rng := seedtest.New(t)
	p := &Params{Bins: 24, Memory: 10}
	state := make([]uint32, p.Words())
	for i := range 24 * 30 {
		x := rng.NormFloat64()
		if i%24 == 12 {
			x += 50
		}
		if i == 24*29+12 {
			x = 0
		}
		sc := Step(p, state, i%24, x)
		if i == 24*29+12 && !(sc.Deviation > 20 && math.Abs(sc.Expected-50) < 3) {
			t.Errorf("a missing peak of 50 scores %+v", sc)
		}
	}
	for _, next := range []float64{math.Nextafter(7, 8), 7.5, -1e9} {
		state := make([]uint32, p.Words())
		for i := range 24 * 9 {
			if sc := Step(p, state, i%24, 7); i >= 24 && (sc.Deviation != 0 || sc.Expected != 7) {
				t.Fatalf("sample %d of a constant scores %+v", i, sc)
			}
		}
		if sc := Step(p, state, 0, next); math.Abs(sc.Deviation-3) > 1e-12 {
			t.Errorf("a constant's first step, to %v, scores %+v", next, sc)
		}
	}
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e150} {
		before := slices.Clone(state)
		if sc := Step(p, state, 0, x); sc.Deviation == sc.Deviation || sc.Expected == sc.Expected || !slices.Equal(before, state) {
			t.Errorf("%v scores %+v, or is learnt", x, sc)
		}
	}
}

// TestClock compares bins with the local time of Go's time package and the IANA's zones, near
// changes of the clock and elsewhere.
func TestClock(t *testing.T) {
	rng := seedtest.New(t)
	for _, name := range []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia"} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		var changes Table
		at := time.Date(1960, 1, 1, 0, 0, 0, 0, time.UTC)
		first := at.Unix()
		for at.Year() < 2030 {
			_, offset := at.In(zone).Zone()
			changes = changes.Append(at.Unix(), int32(offset))
			_, end := at.In(zone).ZoneBounds()
			if end.IsZero() {
				break
			}
			at = end
		}
		quarters := Clock{Week: true, Bins: 672, Offsets: changes}
		hours := Clock{Bins: 24, Offsets: changes}
		for i := range 2000 {
			u := first + rng.Int64N(69*365*day)
			if i%2 == 0 {
				u, _ = changes.At(rng.IntN(changes.Len()))
				u += rng.Int64N(7200)
			}
			l := time.Unix(u, 0).In(zone)
			micros := u*1e6 + rng.Int64N(1e6)
			if got, want := quarters.Bin(micros), (int(l.Weekday())*24+l.Hour())*4+l.Minute()/15; got != want {
				t.Fatalf("%s, %v: bin %d of the week, want %d", name, l, got, want)
			}
			if got := hours.Bin(micros); got != l.Hour() {
				t.Fatalf("%s, %v: hour %d", name, l, got)
			}
		}
	}
	c := Clock{Week: true, Bins: 7, Days: Table(nil).Append(0, 0).Append(3, 2)}
	if got := [5]int{c.Bin(-1), c.Bin(0), c.Bin(day * 1e6), c.Bin(2 * day * 1e6), c.Bin(3 * day * 1e6)}; got != [5]int{3, 0, 5, 6, 2} {
		t.Errorf("bins %v around a Thursday that counts as a Sunday and a Sunday that counts as a Tuesday", got)
	}
	odd := Clock{Bins: 7}
	if got := [3]int{odd.Bin(0), odd.Bin(day*1e6 - 1), odd.Bin(-1)}; got != [3]int{0, 6, 6} {
		t.Errorf("bins %v of a day of 7", got)
	}
}

func BenchmarkStep(b *testing.B) {
	p := &Params{Bins: 168, Memory: 10}
	c := Clock{Week: true, Bins: 168}
	for i := range int64(260) {
		c.Offsets = c.Offsets.Append(i*182*day, int32(i%2*3600))
	}
	state := make([]uint32, p.Words())
	for i := 0; b.Loop(); i++ {
		Step(p, state, c.Bin(1_600_000_000_000_000+int64(i)*300_000_000), float64(i%17))
	}
}
