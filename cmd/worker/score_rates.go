package main

import (
	"fmt"
	"io"

	"odradek/cmd/worker/config"
	"odradek/cmd/worker/quality"
	"odradek/detectors/threshold"
)

// rateMeasures hold the false-alarm rate that a conformal threshold was asked for
// against what came of it: the share of unlabelled samples whose score exceeded, among
// the first scores of each series after the warm-up, while its history is short, and
// among the later ones. A run of scores that exceed counts in Runs once.
type rateMeasures struct {
	Asked float64   `json:"asked"`
	First rateShare `json:"first_256"`
	After rateShare `json:"after"`
}

type rateShare struct {
	Judged  int `json:"judged"`
	Exceeds int `json:"exceed"`
	Runs    int `json:"runs"`
}

// firstScores are the scores of a series of which First tells.
const firstScores = 256

// times says how often the rate came true, by scores and by runs of them.
func (s *rateShare) times(rate float64) (scores, runs float64) {
	if s.Judged == 0 {
		return 0, 0
	}
	expected := rate * float64(s.Judged)
	return float64(s.Exceeds) / expected, float64(s.Runs) / expected
}

// ratesOf begins the measures of a detector; nil where its threshold is no rate.
func ratesOf(d *config.DetectorSettings) *rateMeasures {
	if r, err := threshold.Parse(d.Alarm.Threshold); err == nil && r.Kind == threshold.Conformal {
		return &rateMeasures{Asked: r.Value}
	}
	return nil
}

// add counts a series of which the first warmup scores were not judged.
func (m *rateMeasures) add(s *quality.Series, r *replayed, warmup int) {
	scores, running := 0, false
	for i, score := range r.scores {
		if score == quality.Never {
			continue
		}
		if scores++; scores <= warmup || s.Labels[i] {
			running = r.exceeds[i]
			continue
		}
		part := &m.After
		if scores <= firstScores {
			part = &m.First
		}
		part.Judged++
		if r.exceeds[i] {
			part.Exceeds++
			if !running {
				part.Runs++
			}
		}
		running = r.exceeds[i]
	}
}

func (m *rateMeasures) print(w io.Writer) {
	first, firstRuns := m.First.times(m.Asked)
	after, afterRuns := m.After.times(m.Asked)
	fmt.Fprintf(w, "  false alarms\t%.2f times the rate of %v in the first %d scores of a series, %.2f times after; counting runs %.2f and %.2f\n",
		first, m.Asked, firstScores, after, firstRuns, afterRuns)
}
