package threshold

import "slices"

// The scores of an op that counts the samples of a run are 0, 1, 2 and so on, until the run ends. If they were added while the run
// lasts, a long run would soon be what is usual, and an anomaly of it would end before the run does. With Runs the scores of a run
// wait, and are added when it has ended: with the first score that is not one above the last, before that one is judged. Of a run
// longer than the history the last History scores are added. They all are: Decluster means nothing.

// mostWaiting is the largest number of scores that wait.
const mostWaiting = MaxHistory

// ending returns how many scores of a run are added before a score is judged.
func (p *Params) ending(state []float32, score float32) int {
	if !p.Runs || len(state) == 0 || state[atWaiting] == 0 || score == state[atLast]+1 {
		return 0
	}
	return min(p.History, int(state[atWaiting]))
}

// fewScores is the number of scores up to which each is sorted in by itself.
const fewScores = 16

// addRun adds the last n scores of the run that has ended.
func (p *Params) addRun(state []float32, n int) {
	last := state[atLast]
	p.addAll(state, n, func(i int) float32 { return last - float32(n-1-i) })
	state[atWaiting] = 0
}

// addAll adds n scores, at most History.
func (p *Params) addAll(state []float32, n int, score func(i int) float32) {
	h := p.History
	ring := state[head : head+h]
	for i := range n {
		score, count := score(i), Count(state)
		at := count % h
		if s := p.scores(state, min(count, h)); n <= fewScores && s.n < h {
			s.add(score)
		} else if n <= fewScores {
			s.exchange(ring[at], score)
		}
		ring[at] = score
		p.counted(state, count, at, score)
	}
	if n > fewScores {
		p.sort(state)
	}
	state[atBoundKnown] = 0
}

// sort makes the part of a state behind its front from the ring.
func (p *Params) sort(state []float32) {
	n := min(Count(state), p.History)
	if p.banded() {
		s := p.scores(state, n)
		s.reset()
		return
	}
	sorted := state[p.Stored():][:p.History]
	clear(sorted[copy(sorted, state[head:head+n]):])
	slices.Sort(sorted[:n])
}

// waits reports whether a score waits for the end of its run.
func (p *Params) waits(state []float32, score float32) bool {
	if !p.Runs {
		state[atWaiting] = 0 // of another threshold
		return false
	}
	state[atWaiting], state[atLast] = min(state[atWaiting]+1, mostWaiting), score
	return true
}
