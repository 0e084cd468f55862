package threshold

import (
	"testing"

	"odradek/detectors/seedtest"
)

// TestScoresOfRuns compares judgements with the definition: the history is of the scores up to the last end of a run, the last History of
// each. It requires that the threshold does not move within a run.
func TestScoresOfRuns(t *testing.T) {
	rnd := seedtest.New(t)
	for range 30 {
		for _, r := range []Params{{Kind: Quantile, Value: 0.95, Margin: 2}, {Kind: MAD, Value: 3}, {Kind: Conformal, Value: 0.01},
			{Kind: Fixed, Value: 9}} {
			r.History, r.Warmup, r.Runs = 32+rnd.IntN(60), 10, true
			var all, run []float64
			var bound float32
			state := make([]float32, r.Size())
			longest := 1 + rnd.IntN(40)
			var faults naiveFaults
			for i := range 500 {
				switch {
				case len(run) > 0 && (i < 250 || i > 400) && rnd.IntN(longest) == 0:
					first := float64(rnd.IntN(2) * rnd.IntN(5))
					if first == run[len(run)-1]+1 {
						first = 0
					}
					all, run = append(all, run[max(0, len(run)-r.History):]...), []float64{first}
				case len(run) > 0:
					run = append(run, run[len(run)-1]+1)
				default:
					run = append(run, 0)
				}
				score := run[len(run)-1]
				rare, sure := faults.rare(r, min(len(all), r.History))
				if !sure {
					break
				}
				most := 0.0
				if rare {
					most = 1e30
				}
				got := r.Judge(state, float32(score))
				want, ceiling := naive(r, all, score, most)
				faults = append(faults, r.Kind == Conformal && len(all) >= r.Warmup && score > ceiling)
				if !near(got.Threshold, want.Threshold, 1e-5) || got.Exceeds != want.Exceeds || Count(state) != len(all) {
					t.Fatalf("%v history %d, score %d (%v), %d added: got %+v, want %+v of %d", r, r.History, i, score, Count(state), got, want, len(all))
				}
				if r.Kind != Conformal && len(run) > 1 && got.Threshold != bound {
					t.Fatalf("%v: the threshold moves from %v to %v within a run", r, bound, got.Threshold)
				}
				bound = got.Threshold
			}
		}
	}
}
