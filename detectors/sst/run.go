package sst

import (
	"math"

	"odradek/detectors/vec"
)

// gram is the Gram matrix of a run's lagged vectors and the memory of Lanczos
// on eight of its submatrices side by side.
//
// With y the run's values less an origin, element (a, b) is the sum over l < w of y[a+l]*y[b+l], and C
// of the score with number i is the submatrix of rows and columns i to i+w-1, corrected for the score's
// own mean: with d the mean less the origin, S the vector of sums of y[a+l] and 1 the vector of ones,
//
//	C = Gram - d (S 1' + 1 S') + w d^2 1 1'
//
// Along a diagonal, element (a+1, b+1) is element (a, b) + y[a+w]*y[b+w] -
// y[a]*y[b]. The sums slide in float64, as differences of large numbers; then
// they are rounded.
//
// In a lane, vectors of a score with number i begin at row i of the matrix, and
// the rows before and after are 0. Lanes that are not used are 0 throughout.
type gram struct {
	floats  []float32 // all float32 arrays
	doubles []float64 // all float64
	w, k    int       // sizes of the present layout; 0: none

	y       []float64    // the run's values less the origin, scaled
	head    []float64    // row 0 of the matrix
	rows    [2][]float64 // a row, and the next
	m       []float32    // the matrix
	stride  int          // floats from row to row
	sums    []float32    // S
	traces  []float64    // sums of the first elements of the diagonal
	totals  []float64    // and of S
	basis   []float32    // k lane arrays
	r       []float32    // a lane array
	origin  float64
	scale   float64
	refused bool // the run's values do not allow a shared matrix
}

// Where float64 sums, once slid, and the correction for the mean stay exact
// enough: the largest value of the run is below spread times the largest of any
// score's own past, and w times a mean's distance to the origin below shift
// times it. Otherwise each score is computed alone.
const (
	spread = 16
	shift  = 8
)

// lanes is Lanczos and the scores of n values from number at on, side by side.
// It returns false if the run's values do not allow it.
func (s *Scorer) lanes(p *Params, scores, x []float32, at, n int) bool {
	g, w := &s.gram, p.Window
	if at == 0 {
		g.refused = w > maxGram || !s.build(p, x[:2*w-2+len(scores)], len(scores))
	}
	if g.refused {
		return false
	}
	size := w + n - 1
	rows := size * vec.Lanes
	q := func(i int) []float32 { return g.basis[i*len(g.r) : i*len(g.r)+rows] }
	r := g.r[:rows]
	m, sums := g.m[at*g.stride+at:], g.sums[at:at+size]

	first := q(0)
	clear(first)
	var offset [vec.Lanes]float32 // d
	for l := range n {
		offset[l] = float32((s.mean[at+l] - g.origin) * g.scale)
		for i, v := range s.mu[(at+l)*w : (at+l+1)*w] {
			first[(l+i)*vec.Lanes+l] = v
		}
	}
	var alpha, beta [vec.Lanes]float32
	t := &s.t
	var limit [vec.Lanes]float64
	var ended [vec.Lanes]bool
	var h, ones, inverse [vec.Lanes]float32
	for k := 0; ; k++ {
		vec.LaneMul(r, m, g.stride, q(k))
		vec.LaneMoments(&h, &ones, sums, q(k))
		var byOnes [vec.Lanes]float32
		for l, d := range offset {
			byOnes[l] = -d * (h[l] - float32(w)*d*ones[l])
			h[l] = -d * ones[l]
		}
		vec.LaneShift(r, &h, &byOnes, sums)
		clip(r, w, n)

		vec.LaneDot(&alpha, q(k), r)
		h = negative(alpha)
		vec.LaneAxpy(&h, q(k), r)
		if k > 0 {
			h = negative(beta)
			vec.LaneAxpy(&h, q(k-1), r)
		}
		for i := range k + 1 {
			vec.LaneDot(&h, q(i), r)
			h = negative(h)
			vec.LaneAxpy(&h, q(i), r)
		}
		var squares [vec.Lanes]float32
		vec.LaneDot(&squares, r, r)
		live := false
		t.d[k], t.e[k] = [vec.Lanes]float64{}, [vec.Lanes]float64{}
		for l := range n {
			inverse[l], beta[l] = 0, 0
			if ended[l] {
				continue
			}
			t.d[k][l] = float64(alpha[l])
			limit[l] = max(limit[l], breakdown*math.Abs(t.d[k][l]))
			b := math.Sqrt(float64(squares[l]))
			if b <= limit[l] {
				ended[l] = true
				continue
			}
			t.e[k][l] = b
			limit[l] = max(limit[l], breakdown*b)
			beta[l], inverse[l] = float32(b), float32(1/b)
			live = true
		}
		t.n = k + 1
		if t.n == p.Krylov || !live {
			break
		}
		vec.LaneScale(q(k+1), &inverse, r)
	}
	t.solve(n)
	for l := range n {
		scores[at+l] = t.outside(l, p.Rank, negligible*g.trace(at+l, float64(offset[l])))
	}
	return true
}

// trace returns the trace of the C of the score with number i, whose mean is d above the
// origin.
func (g *gram) trace(i int, d float64) float64 {
	w := float64(g.w)
	return g.traces[i+g.w] - g.traces[i] - 2*d*(g.totals[i+g.w]-g.totals[i]) + w*w*d*d
}

// clip clears the rows of each lane outside of its score's w.
func clip(r []float32, w, n int) {
	for i := range n - 1 {
		clear(r[i*vec.Lanes+i+1 : (i+1)*vec.Lanes])
		clear(r[(w+i)*vec.Lanes : (w+i)*vec.Lanes+i+1])
	}
}

func negative(h [vec.Lanes]float32) [vec.Lanes]float32 {
	for l := range h {
		h[l] = -h[l]
	}
	return h
}

// build makes the matrix of a run of n scores on the values of their pasts. It
// returns false if a score is by rule, or float64 is not precise enough.
func (s *Scorer) build(p *Params, x []float32, n int) bool {
	g, w := &s.gram, p.Window
	g.reserve(w, p.Krylov)
	g.origin = 0
	for i := range n {
		if !s.defined[i] {
			return false
		}
		g.origin += s.mean[i] / float64(n)
	}
	y := g.y[:len(x)]
	for i, v := range x {
		y[i] = float64(v) - g.origin
	}
	if !g.allows(y, w, n, s.mean[:n]) {
		return false
	}
	size := w + n - 1
	head := g.head[:size]
	vec.Hankel64(head, y[:size+w-1], y[:w])
	sum := 0.0
	for _, v := range y[:w] {
		sum += v
	}
	row := g.rows[0][:size]
	copy(row, head)
	for i, v := range row {
		g.m[i] = float32(v)
	}
	g.sums[0] = float32(sum)
	g.traces[0], g.totals[0] = 0, 0
	g.traces[1], g.totals[1] = row[0], sum
	for a := 1; a < size; a++ {
		next := g.rows[a&1][:size]
		low := g.m[a*g.stride : a*g.stride+size]
		vec.Slide(next[1:], low[1:], row[:size-1], y[w:w+size-1], y[:size-1], y[a+w-1], y[a-1])
		next[0] = head[a]
		low[0] = float32(head[a])
		row = next
		sum += y[a+w-1] - y[a-1]
		g.sums[a] = float32(sum)
		g.traces[a+1], g.totals[a+1] = g.traces[a]+row[a], g.totals[a]+sum
	}
	return true
}

// allows checks the conditions for a shared matrix, and scales y by a power of
// two. The values that all scores' pasts have in common stand for each.
func (g *gram) allows(y []float64, w, n int, means []float64) bool {
	if n > 2*w-1 {
		return false
	}
	low, high := y[n-1], y[n-1]
	for _, v := range y[n-1 : 2*w-1] {
		low, high = min(low, v), max(high, v)
	}
	own := (high - low) / 2 // at least: of the distance to any mean
	peak := max(high, -low)
	for _, v := range y[:n-1] {
		peak = max(peak, math.Abs(v))
	}
	for _, v := range y[2*w-1:] {
		peak = max(peak, math.Abs(v))
	}
	if !(peak <= spread*own) {
		return false
	}
	for _, mean := range means {
		if float64(w)*math.Abs(mean-g.origin) > shift*own {
			return false
		}
	}
	g.scale = 1
	if peak < 0x1p-3 || peak > 0x1p12 {
		g.scale = math.Ldexp(1, -math.Ilogb(peak))
		for i := range y {
			y[i] *= g.scale
		}
	}
	return true
}

func (g *gram) reserve(w, k int) {
	if g.w == w && g.k == k {
		return
	}
	g.w, g.k = w, k
	size := w + maxRun - 1
	g.stride = (size+15)&^15 | 16 // an odd number of cache lines
	var l layout
	l.add(&g.m, size*g.stride)
	l.add(&g.sums, size)
	l.add(&g.r, (w+vec.Lanes-1)*vec.Lanes)
	l.add(&g.basis, k*(w+vec.Lanes-1)*vec.Lanes)
	l.cut(&g.floats)
	if n := 6*size + w + 2; len(g.doubles) < n {
		g.doubles = make([]float64, n)
	}
	d := g.doubles
	g.y, d = d[:size+w-1], d[size+w-1:]
	g.head, g.rows[0], g.rows[1] = d[:size], d[size:2*size], d[2*size:3*size]
	d = d[3*size:]
	g.traces, g.totals = d[:size+1], d[size+1:2*size+2]
}
