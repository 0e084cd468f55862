package sst

import "math"

// Anatomy is what a change score was computed from.
type Anatomy struct {
	Score    float64
	Strength []float64 // shares of the past's directions in its energy, the strongest first
	Weight   []float64 // squares of the present's components along them
	Count    int       // directions that explain the present: the score is 1 less the sum of their weights
	// Rows are the shares of the 2w-1 values of the present in what the past's directions leave of it; nil: unknown.
	Rows []float64
}

// largestAnatomy is the largest w for which Dissect says which values of the present differ: it takes w^3 steps.
const largestAnatomy = 512

// Dissect returns the anatomy of the definition's score of the newest value of x, with feedback a of the score before.
func Dissect(p *Params, x, a []float64) Anatomy {
	x = x[len(x)-p.Reads():]
	m := read(p, x)
	score, s := m.score(p, append([]float64(nil), a...), times)
	trace := 0.0
	for i, row := range m.past {
		trace += row[i]
	}
	an := Anatomy{Score: score, Weight: s.Weight, Count: s.Count}
	for _, v := range s.Ritz {
		an.Strength = append(an.Strength, v/trace)
	}
	if m.bad || m.noPast || m.noCurrent || p.Window > largestAnatomy {
		return an
	}
	past, current := centred(p.Window, p.Gamma, x)
	_, _, vectors := singular(past)
	an.Rows = divide(current, vectors[:min(p.Rank, len(vectors))])
	return an
}

// DissectSVD returns the anatomy of the definition's score of the newest value of x.
func DissectSVD(p *SVDParams, x []float64) Anatomy {
	x = x[len(x)-p.Reads():]
	score, d := defineSVD(p, x)
	an := Anatomy{Score: score, Count: d.Count}
	if len(d.Past) == 0 {
		return an
	}
	energy := 0.0
	for _, v := range d.Past {
		energy += v * v
	}
	for i, v := range d.Past {
		an.Strength, an.Weight = append(an.Strength, v*v/energy), append(an.Weight, d.Weight[i])
	}
	_, current := centred(p.Window, p.Gamma, x)
	an.Rows = divide(current, d.PastLeft[:d.Count])
	return an
}

// centred returns the trajectory matrices of what a score reads.
func centred(w, gamma int, x []float64) (past, current [][]float64) {
	before, now := x[:2*w-1], x[gamma:]
	mean := 0.0
	for i := range before {
		mean += before[i] + now[i]
	}
	mean /= float64(2 * len(before))
	return trajectory(before, mean), trajectory(now, mean)
}

// divide returns the share of each value of the present in what the past's directions leave of its trajectory matrix: the sum of
// the squares on the value's antidiagonal, over the sum of all squares. Values at the ends are in few subsequences, and count for as
// little in the score. The score is of the present's leading direction alone; this shows where in time the present differs from the past.
func divide(current [][]float64, basis [][]float64) []float64 {
	w := len(current)
	rows := make([]float64, 2*w-1)
	for j := range w {
		rest := append([]float64(nil), current[j]...) // a column: the matrix is symmetric
		for _, u := range basis {
			subtract(rest, dot(rest, u), u)
		}
		for i, v := range rest {
			rows[i+j] += v * v
		}
	}
	sum := 0.0
	for _, v := range rows {
		sum += v
	}
	if !(sum > 0) || math.IsInf(sum, 1) {
		return nil
	}
	for t := range rows {
		rows[t] /= sum
	}
	return rows
}
