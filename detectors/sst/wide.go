package sst

import "odradek/detectors/vec"

// ScoreWide sets scores to the scores of the last len(scores) values of x, as Define has them. a is the feedback, replaced by the next.
// A product with H1 H1' or H2 H2' is two with the Hankel matrix, so a score takes 2(p+k) w*w multiply-adds of float64.
func ScoreWide(p *Params, scores []float32, x []float64, a []float32) {
	feedback := make([]float64, len(a))
	for i, v := range a {
		feedback[i] = float64(v)
	}
	for i := range scores {
		newest := len(x) - len(scores) + i
		s, _ := readWide(p, x[newest+1-p.Reads():newest+1]).score(p, feedback, timesWide)
		scores[i] = float32(s)
	}
	for i, v := range feedback {
		a[i] = float32(v)
	}
}

// readWide is read with the values of each Hankel matrix as the one row of its square.
func readWide(p *Params, x []float64) (m matrices) {
	past, current := x[:2*p.Window-1], x[p.Gamma:]
	mean := 0.0
	for i := range past {
		mean += past[i] + current[i]
	}
	mean /= float64(2 * len(past))
	h1, h2 := make([]float64, len(past)), make([]float64, len(past))
	for _, v := range x {
		m.bad = m.bad || v-v != 0
	}
	m.noPast, m.noCurrent = !centreF64(h1, past, mean), !centreF64(h2, current, mean)
	m.past, m.current = [][]float64{h1}, [][]float64{h2}
	for i, v := range h1 {
		m.floor += negligible * float64(min(i+1, len(h1)-i)) * v * v
	}
	return m
}

// timesWide is times for a matrix of readWide.
func timesWide(m [][]float64, v []float64) []float64 {
	half, y := make([]float64, len(v)), make([]float64, len(v))
	vec.Hankel64(half, m[0], v)
	vec.Hankel64(y, m[0], half)
	return y
}
