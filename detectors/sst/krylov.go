package sst

import (
	"math"

	"odradek/detectors/vec"
)

// Lanczos on a Hankel matrix, in float64, with every new vector made orthogonal
// to all before, until the leading Ritz pairs are exact enough; at the latest
// when the basis is complete: T is then the whole matrix in another basis, which
// solves slowly converging problems densely.
const (
	exhausted = 1e-13 // of T's largest element: a beta up to it ends a Krylov space
	reduced   = 1e-6  // of T's largest element: a vector with a beta up to it is made orthogonal again
	beyond    = 4     // Ritz values beyond the r-th that are tested
	nearest   = 1e-4  // of the largest: least distance of eigenvalues in error bounds
	enough    = 1e-8  // of a score: the error allowed for too few steps
)

// krylov is a Krylov space of a Hankel matrix. A space that is used up is
// continued with another vector.
type krylov struct {
	x, y        []float64 // the matrix's 2w-1 values; w
	basis       []float64 // vectors, w apart
	w, n        int
	alpha, beta []float64
	coordinates []float64 // of the caller's vector along the basis
	energy      float64   // energy of the matrix less the energy of T: squares of all elements
	size        float64   // T's largest element
	continued   int       // steps when the space was last continued
	complete    bool      // nothing that counts is missing
	least       float64   // of the largest singular value: directions up to it do not count
	repeats     bool      // the matrix may have an eigenvalue many times, or almost: only the complete basis suffices

	h    []float64
	ritz []ritz
	d, e []float64
	z    [][]float64
	flat []float64
}

// ritz is a Ritz pair: its value, the coordinate along its vector, the length of
// its residual.
type ritz struct{ value, along, residual float64 }

// start starts with the matrix of values x.
func (k *krylov) start(x []float64) {
	k.x, k.w, k.n = x, (len(x)+1)/2, 0
	if cap(k.y) < k.w {
		k.y = make([]float64, k.w)
	}
	k.y = k.y[:k.w]
	k.alpha, k.beta, k.coordinates = k.alpha[:0], k.beta[:0], k.coordinates[:0]
	k.energy, k.size, k.continued, k.complete, k.repeats = 0, 0, 0, false, false
	for i, v := range x {
		k.energy += float64(min(i+1, len(x)-i)) * v * v
	}
	k.restart()
}

// q returns vector number i of the basis.
func (k *krylov) q(i int) []float64 { return k.basis[i*k.w : (i+1)*k.w] }

// grow makes room for another vector.
func (k *krylov) grow() []float64 {
	if need := (k.n + 1) * k.w; len(k.basis) < need {
		k.basis = append(k.basis, make([]float64, max(need, min(2*need, k.w*k.w))-len(k.basis))...)
	}
	return k.q(k.n)
}

// restart sets the next vector to a pseudo-random one, orthogonal to those before.
func (k *krylov) restart() {
	y := k.y
	for tries := uint64(0); ; tries++ {
		state := uint64(k.n)<<32 | tries<<48
		for i := range y {
			y[i] = scatter(&state)
		}
		normalise(y)
		k.orthogonal()
		k.orthogonal()
		if size := math.Sqrt(dot(y, y)); size > 1e-3 || tries > 8 {
			break
		}
	}
	normalise(y)
	copy(k.grow(), y)
	k.continued = k.n
}

// scatter returns the next number of splitmix64 (Start), from -1 to 1.
func scatter(state *uint64) float64 {
	*state += 0x9e3779b97f4a7c15
	z := *state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return float64(int64(z^z>>31)) * 0x1p-63
}

// orthogonal subtracts from y its components along the basis, and returns the component along the last
// vector.
func (k *krylov) orthogonal() float64 {
	if k.n == 0 {
		return 0
	}
	if cap(k.h) < k.n {
		k.h = make([]float64, 2*k.n+8)
	}
	h, y := k.h[:k.n], k.y
	i := 0
	for ; i+4 <= k.n; i += 4 {
		a, b, c, d := k.q(i)[:len(y)], k.q(i + 1)[:len(y)], k.q(i + 2)[:len(y)], k.q(i + 3)[:len(y)]
		var s, t, u, v float64
		for j, f := range y {
			s += a[j] * f
			t += b[j] * f
			u += c[j] * f
			v += d[j] * f
		}
		h[i], h[i+1], h[i+2], h[i+3] = s, t, u, v
	}
	for ; i < k.n; i++ {
		h[i] = dot(k.q(i), y)
	}
	for i = 0; i+4 <= k.n; i += 4 {
		a, b, c, d := k.q(i)[:len(y)], k.q(i + 1)[:len(y)], k.q(i + 2)[:len(y)], k.q(i + 3)[:len(y)]
		s, t, u, v := h[i], h[i+1], h[i+2], h[i+3]
		for j := range y {
			y[j] -= (s*a[j] + t*b[j]) + (u*c[j] + v*d[j])
		}
	}
	for ; i < k.n; i++ {
		subtract(y, h[i], k.q(i))
	}
	return h[k.n-1]
}

// step adds a row to T and a vector to the basis, unless it is complete, and records the coordinate of
// mu, if there is one, along the row's vector.
func (k *krylov) step(mu []float64) {
	q := k.q(k.n)
	if mu != nil {
		k.coordinates = append(k.coordinates, dot(q, mu))
	}
	vec.Hankel64(k.y, k.x, q)
	// First without the components along the last two vectors: the remaining deviations of the basis
	// from orthogonality scale with what is subtracted.
	alpha := dot(q, k.y)
	subtract(k.y, alpha, q)
	if k.n > 0 && k.beta[k.n-1] != 0 {
		subtract(k.y, k.beta[k.n-1], k.q(k.n-1))
	}
	k.n++
	alpha += k.orthogonal()
	beta := math.Sqrt(dot(k.y, k.y))
	if beta <= reduced*k.size {
		alpha += k.orthogonal()
		beta = math.Sqrt(dot(k.y, k.y))
	}
	k.size = max(k.size, math.Abs(alpha), beta)
	k.energy -= alpha * alpha
	k.alpha, k.beta = append(k.alpha, alpha), append(k.beta, 0)
	if k.n == k.w {
		k.complete = true
		return
	}
	if beta > exhausted*k.size {
		k.energy -= 2 * beta * beta
		k.beta[k.n-1] = beta
		next := k.grow()
		for i, v := range k.y {
			next[i] = v / beta
		}
		return
	}
	k.complete = k.energy <= k.least*k.least*k.size*k.size
	if !k.complete {
		k.restart()
	}
}

// pairs finds the Ritz pairs, by falling absolute value.
func (k *krylov) pairs() {
	n := k.n
	k.d, k.e = append(k.d[:0], k.alpha...), append(k.e[:0], k.beta...)
	if cap(k.flat) < 2*n {
		k.flat, k.z, k.ritz = make([]float64, 4*n), make([][]float64, 2*n), make([]ritz, 2*n)
	}
	z, flat := k.z[:n], k.flat[:2*n]
	for i := range z {
		z[i] = flat[2*i : 2*i+2]
		z[i][0], z[i][1] = 0, 0
		if i < len(k.coordinates) {
			z[i][0] = k.coordinates[i]
		}
	}
	last := k.beta[n-1]
	z[n-1][1] = 1
	implicitQL(k.d, k.e, z)
	k.ritz = k.ritz[:n]
	for i, v := range k.d {
		k.ritz[i] = ritz{v, z[i][0], math.Abs(last * z[i][1])}
	}
	order(k.d, k.ritz)
}

// doubt returns the number of the first rank Ritz values that count, and a bound on the error of a
// score from the pairs' coordinates: in first order by the errors of the leading vectors, in second
// order by the exchange across the bound through these.
func (k *krylov) doubt(rank int) (counts int, doubt float64) {
	rank = min(rank, k.n)
	size := math.Abs(k.ritz[0].value)
	for counts < rank && math.Abs(k.ritz[counts].value) > k.least*size {
		counts++
	}
	if k.complete {
		return counts, 0
	}
	end := rank + beyond
	if k.n < end || k.n-k.continued < end {
		return counts, 1
	}
	// An eigenvalue may be as far from a value as its residual, so another one may count instead.
	bound := k.least * size
	if counts == rank {
		bound = math.Abs(k.ritz[counts-1].value)
	}
	for _, p := range k.ritz[counts:end] {
		if p.residual > openPast*size && math.Abs(p.value)+p.residual > bound {
			return counts, 1
		}
	}
	floor := nearest * size
	rest := math.Abs(k.ritz[end-1].value)
	for i, p := range k.ritz[:rank] {
		if i > counts && math.Abs(p.value) < k.least/2*size {
			break
		}
		gap := max(math.Abs(p.value)-rest, floor)
		doubt += 2 * math.Abs(p.along) * p.residual / gap
		for _, q := range k.ritz[max(counts, i+1):end] {
			doubt += 2 * math.Abs(p.along*q.along) * p.residual * q.residual / (gap * max(math.Abs(p.value-q.value), floor*floor/size))
		}
	}
	return counts, doubt
}

// leading sets mu to the vector of the first Ritz pair, a unit vector.
func (k *krylov) leading(mu []float64) {
	s := twisted(k.alpha, k.beta, k.ritz[0].value)
	clear(mu)
	for i, v := range s {
		subtract(mu, -v, k.q(i))
	}
	normalise(mu)
}

// twisted returns an eigenvector of the tridiagonal matrix of diagonal d and
// subdiagonal e for the eigenvalue t: of the factorisations that meet in a row,
// one from above and one from below, it takes the row where they meet best
// (Dhillon and Parlett, Orthogonal eigenvectors and relative gaps, 2003).
func twisted(d, e []float64, t float64) []float64 {
	n := len(d)
	up, down, z := make([]float64, n), make([]float64, n), make([]float64, n)
	pivot := func(p float64) float64 {
		if math.Abs(p) < 1e-290 {
			return 1e-290
		}
		return p
	}
	// up[i] is e[i] over the pivot of row i from above, down[i] e[i] over the pivot of row i+1
	// from below.
	for i := range n - 1 {
		p := d[i] - t
		if i > 0 {
			p -= e[i-1] * up[i-1]
		}
		up[i] = e[i] / pivot(p)
	}
	for i := n - 2; i >= 0; i-- {
		p := d[i+1] - t
		if i+2 < n {
			p -= e[i+1] * down[i+1]
		}
		down[i] = e[i] / pivot(p)
	}
	row, least := 0, math.Inf(1)
	for i := range n {
		g := d[i] - t
		if i > 0 {
			g -= e[i-1] * up[i-1]
		}
		if i < n-1 {
			g -= e[i] * down[i]
		}
		if math.Abs(g) < least {
			row, least = i, math.Abs(g)
		}
	}
	z[row] = 1
	for i := row - 1; i >= 0; i-- {
		z[i] = -up[i] * z[i+1]
	}
	for i := row + 1; i < n; i++ {
		z[i] = -down[i-1] * z[i-1]
	}
	normalise(z)
	return z
}
