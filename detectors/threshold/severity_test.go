package threshold

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestBands(t *testing.T) {
	for _, c := range []struct {
		spreads float64
		want    string
	}{{-1, "info"}, {0, "info"}, {0.9, "info"}, {1.1, "minor"}, {3, "minor"}, {3.3, "major"}, {9, "major"}, {10, "critical"},
		{1e300, "critical"}, {math.Inf(1), "critical"}} {
		if got := Band(severity(c.spreads)); got != c.want {
			t.Errorf("%v spreads over the threshold: %s, want %s", c.spreads, got, c.want)
		}
	}
}

// TestSeverityOfRecurringFaults requires that the same fault has the same severity each time, up to the
// variation of a history's spread, and so the same band unless it is close to the end of one, also when
// earlier ones have entered the history.
func TestSeverityOfRecurringFaults(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 9))
	ordinary := []struct {
		name string
		next func() float64
	}{
		{"normal", func() float64 { return 100 + rnd.NormFloat64() }},
		{"half normal", func() float64 { return math.Abs(rnd.NormFloat64()) }},
		{"exponential", rnd.ExpFloat64},
		{"log-normal", func() float64 { return math.Exp(rnd.NormFloat64() / 2) }},
	}
	threshold := func(k Kind, v float64, history int) Params {
		r := New(k, v)
		r.History = max(r.History, history)
		return r
	}
	list := []Params{threshold(Conformal, 0.001, 512), threshold(Conformal, 0.01, 512), threshold(Conformal, 0.02, 1024),
		threshold(Quantile, 0.995, 512),
		threshold(MAD, 6, 512), threshold(Mean, 4, 512), threshold(Fixed, 8, 512)}
	for _, o := range ordinary {
		name, next := o.name, o.next
		for _, r := range list {
			if name == "normal" && r.Kind == Mean || name == "normal" && r.Kind == Fixed {
				continue // below the level
			}
			// How far the fault is above the median, in spreads; how many there are, and how
			// many scores apart.
			for _, c := range []struct {
				height  float64
				n, each int
			}{{40, 3, 100}, {30, 380, 30}, {7, 100, 150}} {
				state := make([]float32, r.Size())
				for range 1024 {
					r.Judge(state, float32(next()))
				}
				n := min(Count(state), r.History)
				all := r.scores(state, n)
				median := r.median(&all)
				fault := median + c.height*0.7803041*(float64(all.at(quantileIndex(0.9, n)))-median)
				bands, first, alarms, low, high := map[string]int{}, "", 0, 100, 0
				for i := range c.n {
					// Each a grain higher, so that one after another exceeds a history of them.
					v := r.Judge(state, float32(fault*(1+1e-6*float64(i))))
					if v.Exceeds {
						if alarms++; first == "" {
							first = Band(v.Severity)
						}
						bands[Band(v.Severity)]++
						low, high = min(low, int(v.Severity)), max(high, int(v.Severity))
					}
					for range c.each - 1 {
						r.Judge(state, float32(next()))
					}
				}
				t.Logf("%-12s %-15v %3v spreads high every %3d: %3d over, severities %d to %d, %v", name, r, c.height, c.each, alarms, low, high, bands)
				if c.height < 10 { // most of it lies below the threshold, and the rest varies the more
					if alarms > 0 && high-low > 20 && (r.Kind == Conformal || r.Kind == Quantile) {
						t.Errorf("%s scores, %v, a fault %v spreads high: severities %d to %d", name, r, c.height, low, high)
					}
					continue
				}
				if alarms == 0 || alarms > 0 && high-low > 12 || len(bands) != 1 {
					t.Errorf("%s scores, %v, a fault %v spreads high every %d: the first is %s, of %d in all %d are not: %v", name, r, c.height, c.each,
						first, alarms, alarms-bands[first], bands)
				}
			}
		}
	}
}

// TestSeverityOfAConstantsSteps requires that the first step of a constant series, whose scores are all 0, is minor,
// whether it is the smallest or a large one, that equal ones which recur are not critical, and that one which is much
// larger than those before it is.
func TestSeverityOfAConstantsSteps(t *testing.T) {
	for _, r := range []Params{New(Conformal, 0.002), New(Conformal, 0.01), New(Quantile, 0.99), New(MAD, 6), New(Mean, 3)} {
		for _, step := range []float32{1e-40, 1e-7, 1, 1e30} {
			r.Decluster = 4
			state := make([]float32, r.Size())
			zeros := func(n int) {
				for range n {
					if v := r.Judge(state, 0); v.Exceeds {
						t.Fatalf("%v: 0 exceeds: %+v", r, v)
					}
				}
			}
			zeros(2000)
			if v := r.Judge(state, step); !v.Exceeds || v.Severity != minor {
				t.Errorf("%v: the first score, %v, of a constant: %+v", r, step, v)
			}
			for range 2 {
				zeros(300)
				if v := r.Judge(state, step); v.Severity >= critical && r.Kind != Mean {
					t.Errorf("%v: %v, again: %+v", r, step, v)
				}
			}
			zeros(300)
			if v := r.Judge(state, 1000*step); !v.Exceeds || v.Severity < critical {
				t.Errorf("%v: a thousand times %v: %+v", r, step, v)
			}
		}
	}
}
