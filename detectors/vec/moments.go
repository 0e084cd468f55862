package vec

import (
	"math"
	"unsafe"
)

// The functions of this file have the same bits in assembly and in Go: they round each product and
// each sum. So a result does not depend on its place among others.

// Add64 sets dst[i] to x[i]+y[i]. dst may be x or y.
func Add64(dst, x, y []float64) {
	same(len(dst), len(x))
	same(len(dst), len(y))
	at := 0
	if hasAVX2 && len(dst) >= 4 {
		at = len(dst) &^ 3
		add64AVX2(&dst[0], &x[0], &y[0], at)
	}
	add64Go(dst[at:], x[at:], y[at:])
}

func add64Go(dst, x, y []float64) {
	for i, v := range x {
		dst[i] = v + y[i]
	}
}

// Merge takes the sums of two sets of numbers, and the sums of their squared differences from the set's
// mean. It sets sum and square to what both sets have together. For sets of n1 and n2 numbers a is
// sqrt(n2/(n1*(n1+n2))) and b sqrt(n1/(n2*(n1+n2))). Squares are added up, and none subtracted, so that a
// large mean costs them few digits. sum may be s1, square q1, and s2 and q2 later parts of these.
func Merge(sum, square, s1, q1, s2, q2 []float64, a, b float64) {
	n := len(sum)
	for _, x := range [][]float64{square, s1, q1, s2, q2} {
		same(len(x), n)
	}
	at := 0
	if hasAVX2 && n >= 4 {
		at = n &^ 3
		mergeAVX2(&sum[0], &square[0], &s1[0], &q1[0], &s2[0], &q2[0], at, a, b)
	}
	mergeGo(sum[at:], square[at:], s1[at:], q1[at:], s2[at:], q2[at:], a, b)
}

func mergeGo(sum, square, s1, q1, s2, q2 []float64, a, b float64) {
	for i, v := range s1 {
		d := float64(a*v) - float64(b*s2[i])
		sum[i], square[i] = v+s2[i], q1[i]+q2[i]+float64(d*d)
	}
}

// Deviations takes the sums of sets of 1/inverse numbers, and the sums of their squared differences from
// the set's mean. It sets sums to the means and, with roots, squares to 1/sqrt(squares[i]). Where
// squares[i] is not above least, or not above the part ratio of the sum of the numbers' squares, or is NaN,
// it becomes NaN; Deviations returns whether there is such a place.
func Deviations(sums, squares []float64, inverse, ratio, least float64, roots bool) bool {
	same(len(sums), len(squares))
	at, odd := 0, false
	if hasAVX2 && len(sums) >= 4 {
		at = len(sums) &^ 3
		odd = deviationsAVX2(&sums[0], &squares[0], at, inverse, ratio, least, roots) != 0
	}
	return deviationsGo(sums[at:], squares[at:], inverse, ratio, least, roots) || odd
}

func deviationsGo(sums, squares []float64, inverse, ratio, least float64, roots bool) (odd bool) {
	for i, sum := range sums {
		mean, d := float64(sum*inverse), squares[i]
		sums[i] = mean
		switch {
		case !(d > least && d > float64(ratio*(d+float64(mean*sum)))):
			squares[i], odd = math.NaN(), true
		case roots:
			squares[i] = 1 / math.Sqrt(d)
		}
	}
	return odd
}

// Largest adds more[i] to p[i], unless more is nil, and returns the largest of least and the
// c*|c|/squares[i], c being p[i]-mean[i]*rest, without the NaN.
func Largest(p, more, mean, squares []float64, rest, least float64) float64 {
	n := len(p)
	same(len(mean), n)
	same(len(squares), n)
	var add *float64
	if more != nil {
		same(len(more), n)
	}
	at := 0
	if hasAVX2 && n >= 8 {
		at = n &^ 7
		if more != nil {
			add = &more[0]
		}
		least = largestAVX2(&p[0], add, &mean[0], &squares[0], at, rest, least)
	}
	if more != nil {
		more = more[at:]
	}
	return largestGo(p[at:], more, mean[at:], squares[at:], rest, least)
}

func largestGo(p, more, mean, squares []float64, rest, least float64) float64 {
	for i, v := range p {
		if more != nil {
			v += more[i]
			p[i] = v
		}
		c := v - float64(mean[i]*rest)
		if r := float64(c*math.Abs(c)) / squares[i]; r > least {
			least = r
		}
	}
	return least
}

// Margin has the constants of Candidate.
type Margin struct{ Rest, Relative, Square, Mean, Least float64 }

// Candidate adds more[i] to p[i], unless more is nil, eight places at a time, from place from on, which is a
// multiple of 8. It returns the first place of the first eight any of which has a number in squares and
//
//	c*|c| + Relative*c*c + Square*squares[i] + Mean*mean[i]*mean[i] + Least, c being p[i]-mean[i]*Rest,
//
// is not below least*squares[i] there; len(p) if there are none.
func Candidate(p, more []float32, mean, squares []float64, from int, m *Margin, least float64) int {
	n := len(p)
	same(len(mean), n)
	same(len(squares), n)
	var add *float32
	if more != nil {
		same(len(more), n)
		add = unsafe.SliceData(more)
	}
	if whole := n &^ 7; hasAVX2 && from < whole {
		if from = candidateAVX2(&p[0], add, &mean[0], &squares[0], from, whole, m, least); from < whole {
			return from
		}
	}
	return candidateGo(p, more, mean, squares, from, m, least)
}

func candidateGo(p, more []float32, mean, squares []float64, from int, m *Margin, least float64) int {
	for ; from < len(p); from += 8 {
		found := false
		for i := from; i < min(from+8, len(p)); i++ {
			if more != nil {
				p[i] += more[i]
			}
			c, s := float64(p[i])-mean[i]*m.Rest, squares[i]
			above := c*math.Abs(c) + m.Relative*c*c + (m.Square-least)*s + m.Mean*mean[i]*mean[i] + m.Least
			found = found || !(above < 0) && s == s
		}
		if found {
			return from
		}
	}
	return len(p)
}

// Correlate adds more[i] to p[i], unless more is nil, and returns the largest of the
// (p[i]-mean[i]*rest)*inv[i]*scale, without the NaN, and -Inf if there is none. Unless rho is nil, it sets
// rho to them.
func Correlate(rho, p, more, mean, inv []float64, rest, scale float64) float64 {
	n := len(p)
	same(len(mean), n)
	same(len(inv), n)
	var to, add *float64
	if rho != nil {
		same(len(rho), n)
	}
	if more != nil {
		same(len(more), n)
	}
	at, most := 0, math.Inf(-1)
	if hasAVX2 && n >= 4 {
		at = n &^ 3
		if rho != nil {
			to = &rho[0]
		}
		if more != nil {
			add = &more[0]
		}
		most = correlateAVX2(to, &p[0], add, &mean[0], &inv[0], at, rest, scale)
	}
	if at < n {
		if rho != nil {
			rho = rho[at:]
		}
		if more != nil {
			more = more[at:]
		}
		if v := correlateGo(rho, p[at:], more, mean[at:], inv[at:], rest, scale); v > most {
			most = v
		}
	}
	return most
}

func correlateGo(rho, p, more, mean, inv []float64, rest, scale float64) float64 {
	most := math.Inf(-1)
	for i, v := range p {
		if more != nil {
			v += more[i]
			p[i] = v
		}
		v = float64(float64((v-float64(mean[i]*rest))*inv[i]) * scale)
		if rho != nil {
			rho[i] = v
		}
		if v > most {
			most = v
		}
	}
	return most
}

// Most64 returns the largest of x without the NaN, -Inf if there is none.
func Most64(x []float64) float64 {
	at, most := 0, math.Inf(-1)
	if hasAVX2 && len(x) >= 4 {
		at = len(x) &^ 3
		most = most64AVX2(&x[0], at)
	}
	if v := most64Go(x[at:]); v > most {
		return v
	}
	return most
}

func most64Go(x []float64) float64 {
	most := math.Inf(-1)
	for _, v := range x {
		if v > most {
			most = v
		}
	}
	return most
}
