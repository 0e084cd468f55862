package quality

// RateMeasures compare the configured false-alarm rate of a conformal threshold with the
// realised one: the share of unlabelled samples whose score exceeded, among
// the first scores of each series after the warm-up, while its history is short, and
// among the later ones. A run of scores that exceed counts in Runs once.
type RateMeasures struct {
	Asked float64   `json:"asked"`
	First RateShare `json:"first_256"`
	After RateShare `json:"after"`
}

// RateShare counts scores of a part of the series.
type RateShare struct {
	Judged  int `json:"judged"`
	Exceeds int `json:"exceed"`
	Runs    int `json:"runs"`
}

// FirstScores is the number of scores of a series that count as its first ones.
const FirstScores = 256

// Times returns how many times as often as rate says a score exceeded, counting scores
// and counting runs of them; 0 where none was judged.
func (s *RateShare) Times(rate float64) (scores, runs float64) {
	if s.Judged == 0 {
		return 0, 0
	}
	expected := rate * float64(s.Judged)
	return float64(s.Exceeds) / expected, float64(s.Runs) / expected
}

// add counts the scores of a series; its first warmup scores were not judged.
func (m *RateMeasures) add(s *Series, r *Verdicts, warmup int) {
	scores, running := 0, false
	for i, score := range r.Scores {
		if score == Never {
			continue
		}
		if scores++; scores <= warmup || s.Labels[i] {
			running = r.Exceeds[i]
			continue
		}
		rate := &m.After
		if scores <= FirstScores {
			rate = &m.First
		}
		rate.Judged++
		if r.Exceeds[i] {
			rate.Exceeds++
			if !running {
				rate.Runs++
			}
		}
		running = r.Exceeds[i]
	}
}
