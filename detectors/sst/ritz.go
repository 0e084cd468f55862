package sst

import (
	"math"

	"odradek/detectors/vec"
)

// deflation is the size of a subdiagonal element, relative to its neighbours on the diagonal, up to
// which it counts as 0: well below the error of float32 in T.
const deflation = 0x1p-40

// tridiagonals are the matrices T of up to eight scores, which solve replaces by their
// eigenvalues, unordered, and the first components of their
// eigenvectors. A T of fewer than n rows is filled up with 0, which adds an
// eigenvector whose first component is 0.
type tridiagonals struct {
	n       int                           // rows
	d, e, z [MaxKrylov][vec.Lanes]float64 // diagonal, subdiagonal, first components
}

// solve is implicit QL (Golub and Welsch, Calculation of Gauss quadrature
// rules, 1969: of the eigenvectors it takes the first components only) on the
// first count matrices. They go in step, because a rotation is a chain of a
// square root and two quotients, as slow for one matrix as for several: 5 rows
// take 0.75 us alone, 0.3 us each among eight.
func (t *tridiagonals) solve(count int) {
	const mask = vec.Lanes - 1
	d, e, z := t.d[:t.n], t.e[:t.n], t.z[:t.n]
	clear(z)
	z[0] = [vec.Lanes]float64{1, 1, 1, 1, 1, 1, 1, 1}
	e[t.n-1] = [vec.Lanes]float64{}
	for l := range d[1:] {
		for range 60 {
			var active, end [vec.Lanes]int
			var g, p, sin, cos [vec.Lanes]float64
			n, from := 0, l
			for k := range count {
				k := k & mask
				m := l
				for m < t.n-1 && math.Abs(e[m][k]) > deflation*(math.Abs(d[m][k])+math.Abs(d[m+1][k])) {
					m++
				}
				if m == l {
					continue
				}
				// Wilkinson's shift: the eigenvalue of the leading two rows
				// that is closer to the first.
				h := (d[l+1][k] - d[l][k]) / (2 * e[l][k])
				j := n & mask
				g[j] = d[m][k] - d[l][k] + e[l][k]/(h+math.Copysign(math.Sqrt(h*h+1), h))
				sin[j], cos[j] = 1, 1
				active[j], end[j] = k, m
				from = max(from, m)
				n++
			}
			if n == 0 {
				break
			}
			for i := from - 1; i >= l; i-- {
				di, dj, ei, ej, zi, zj := &d[i], &d[i+1], &e[i], &e[i+1], &z[i], &z[i+1]
				for j, k := range active[:n] {
					if i >= end[j] {
						continue
					}
					k := k & mask
					f, b := sin[j]*ei[k], cos[j]*ei[k]
					r := math.Sqrt(f*f + g[j]*g[j])
					ej[k] = r
					s, c := 0.0, 1.0
					if r != 0 {
						s, c = f/r, g[j]/r
					}
					x := dj[k] - p[j]
					r = (di[k]-x)*s + 2*c*b
					p[j] = s * r
					dj[k] = x + p[j]
					g[j] = c*r - b
					zi[k], zj[k] = c*zi[k]-s*zj[k], s*zi[k]+c*zj[k]
					sin[j], cos[j] = s, c
				}
			}
			for j, k := range active[:n] {
				d[l][k] -= p[j]
				e[l][k] = g[j]
				e[end[j]][k] = 0
			}
		}
	}
}

// outside returns the score of matrix k, solved: 1 less the squares of the first components of the
// eigenvalues above floor.
func (t *tridiagonals) outside(k, rank int, floor float64) float32 {
	score, places, last := 1.0, float64(rank), math.Inf(1)
	var taken [MaxKrylov]bool
	for places > 0 {
		top, value, weight := 0, floor, 0.0
		for i := range t.n {
			w := t.z[i][k] * t.z[i][k]
			if v := t.d[i][k]; v > value && w > 0 && !taken[i] {
				top, value, weight = i, v, w
			}
		}
		if weight == 0 {
			break
		}
		takes := min(1, (last-value)/(apart*value)) * min(1, weight/faint)
		score -= min(1, places/takes) * weight
		places, last, taken[top] = places-takes, value, true
	}
	return float32(min(max(score, 0), 1))
}
