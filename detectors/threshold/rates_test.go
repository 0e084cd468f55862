package threshold

import (
	"math"
	"testing"

	"odradek/detectors/seedtest"
)

// TestRatesOfAShortHistory checks the rates of conformal bounds while a history is short: of
// exchangeable scores no more exceed than the rate, and a rate far below the history's ranks is not
// judged at all. It logs the rates. The scores of AR(0.99) are not exchangeable:
// only their first 256 have a bound, where the margin outweighs their dependence.
func TestRatesOfAShortHistory(t *testing.T) {
	rnd := seedtest.New(t)
	const runs, length, history = 150, 1200, 1024
	level := 0.0
	dists := []struct {
		name         string
		next         func() float64
		exchangeable bool
	}{
		{"uniform", rnd.Float64, true},
		{"normal", rnd.NormFloat64, true},
		{"exponential", rnd.ExpFloat64, true},
		{"log-normal", func() float64 { return math.Exp(rnd.NormFloat64()) }, true},
		{"Pareto 3", func() float64 { return math.Pow(rnd.Float64(), -1.0/3) }, true},
		{"AR(0.99)", func() float64 {
			level = 0.99*level + math.Sqrt(1-0.99*0.99)*rnd.NormFloat64()
			return level
		}, false},
	}
	t.Logf("%-12s %-7s %10s %10s", "", "rate", "first 256", "after")
	for _, d := range dists {
		for _, rate := range []float64{0.01, 0.002, 0.001, 0.0001} {
			r := Params{Kind: Conformal, Value: rate, History: history, Warmup: DefaultWarmup}
			var judged, exceed [2]int
			for range runs {
				state := make([]float32, r.Size())
				for i := range length {
					v := r.Judge(state, float32(d.next()))
					if i < r.Warmup {
						continue
					}
					part := min(i/256, 1)
					judged[part]++
					if v.Exceeds {
						exceed[part]++
						if rate*float64(min(i, history)+1) < supported {
							t.Fatalf("%s: a score exceeds a rate of %v after %d scores", d.name, rate, i)
						}
					}
				}
			}
			var share [2]float64
			for part := range share {
				share[part] = float64(exceed[part]) / float64(judged[part]) / rate
				// Four standard deviations of the number of those that exceed.
				if most := 1 + 4/math.Sqrt(rate*float64(judged[part])); share[part] > most && (d.exchangeable || part == 0 && rate <= 0.002) {
					t.Errorf("%s: %.2f times the rate of %v, which may be %.2f (part %d)", d.name, share[part], rate, most, part)
				}
			}
			t.Logf("%-12s %-7v %10.2f %10.2f", d.name, rate, share[0], share[1])
		}
	}
}
