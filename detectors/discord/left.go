package discord

import (
	"math"
	"slices"

	"odradek/detectors/vec"
)

// LeftScorer computes LeftQuery.Define for many subsequences of one series and length: first Load, then
// Length, then Score for each. It keeps memory for reuse.
//
// A score takes m multiplications for each possible neighbour, all of them in one Hankel
// product of the subsequence with the rows before it, in float64. The rows of a column are
// centred on one value. Where a subsequence lies so far from that center, in its deviations,
// that the product would lose digits, mean, deviation and product are computed again with
// its own mean, so that a step by 1e9 costs time and not digits. Scores do not depend on
// each other: there is no recurrence whose errors could accumulate.
//
// After Length, several goroutines may compute scores, each with its own LeftMemory.
type LeftScorer struct {
	dim, rows, m int
	excludeFlat  bool
	columns      []leftColumn
	ones, square []float64
}

// LeftMemory is the scratch memory of a score, for reuse. The zero LeftMemory is ready.
type LeftMemory struct {
	query, rho []float64
	places     []int
}

// leftColumn is a column of the series.
type leftColumn struct {
	x []float64
	y []float64 // less the column's center
	// Arrays by the first row of a subsequence:
	mean []float64 // of y; for kind far, of x less the first value
	inv  []float64 // 1/(sigma*sqrt(m)); NaN: no distances
	kind []uint8
	odd  []int32 // those of kind far, in order
	run  []int32 // by row: equal values that end there
}

// Kinds of subsequences.
const (
	leftUsual uint8 = iota
	leftFar         // from the center
	leftFlat
)

// farRatio is the least ratio of a subsequence's variance to its mean square about the column's center
// for a usual subsequence: at that ratio the variance loses five of sixteen digits, and a product half
// of these.
const farRatio = 1e-5

// Load takes a series of dim values a row. It keeps no reference to x.
func (l *LeftScorer) Load(x []float64, dim int) {
	l.dim, l.rows = dim, len(x)/dim
	for len(l.columns) < dim {
		l.columns = append(l.columns, leftColumn{})
	}
	for c := range dim {
		l.columns[c].load(x, dim, c, l.rows)
	}
}

func (t *leftColumn) load(x []float64, dim, c, rows int) {
	t.x, t.y, t.run = sized(t.x, rows), sized(t.y, rows), sized(t.run, rows)
	center, run := 0.0, int32(0)
	last := (rows - 1) * dim
	if v := middle(x[c], x[last/dim/2*dim+c], x[last+c]); v-v == 0 {
		center = v
	}
	before := math.NaN()
	for i := range rows {
		v := x[i*dim+c]
		if v == before {
			run++
		} else {
			run = 1
		}
		before = v
		t.x[i], t.y[i], t.run[i] = v, v-center, run
	}
}

// middle returns the median of three; any of them where some are NaN.
func middle(a, b, c float64) float64 {
	return max(min(a, b), min(max(a, b), c))
}

// Length prepares for subsequences of m rows; see LeftQuery.ExcludeFlat.
func (l *LeftScorer) Length(m int, excludeFlat bool) {
	l.m, l.excludeFlat = m, excludeFlat
	n := l.rows - m + 1
	if n < 1 {
		return
	}
	for len(l.ones) < m {
		l.ones = append(l.ones, 1)
	}
	for c := range l.columns[:l.dim] {
		t := &l.columns[c]
		l.square = sized(l.square, l.rows)
		for i, v := range t.y {
			l.square[i] = float64(v * v)
		}
		t.mean, t.inv, t.kind = sized(t.mean, n), sized(t.inv, n), sized(t.kind, n)
		vec.Hankel64(t.mean, t.y, l.ones[:m])
		vec.Hankel64(t.inv, l.square, l.ones[:m])
		t.odd = t.odd[:0]
		for i, sum := range t.mean {
			mean := sum / float64(m)
			square := t.inv[i] // their sum about the center
			about := square - float64(mean*sum)
			t.mean[i], t.kind[i] = mean, leftUsual
			switch {
			case t.run[i+m-1] >= int32(m):
				t.kind[i] = leftFlat
				t.inv[i] = t.y[i] - t.y[i] // NaN of an infinity
			case about > farRatio*square:
				t.inv[i] = 1 / math.Sqrt(about)
			default:
				t.far(i, m)
			}
			if !(t.inv[i] < math.Inf(1)) {
				t.inv[i] = math.NaN()
			}
		}
	}
}

// far computes the moments of subsequence i about its own mean.
func (t *leftColumn) far(i, m int) {
	x := t.x[i : i+m]
	mean, square := 0.0, 0.0
	for _, v := range x {
		mean += v - x[0]
	}
	mean /= float64(m)
	for _, v := range x {
		e := v - x[0] - mean
		square += float64(e * e)
	}
	t.mean[i], t.inv[i], t.kind[i] = mean, 1/math.Sqrt(square), leftFar
	if t.inv[i] < math.Inf(1) {
		t.odd = append(t.odd, int32(i))
	}
}

// Score computes LeftQuery.Define of a subsequence, with the length and the flat rule of Length.
func (l *LeftScorer) Score(w *LeftMemory, from, at, k int) float64 {
	score, _ := l.neighbours(w, from, at, k, false)
	return score
}

// Neighbours is Score with the first rows of the neighbours, nearest first. They are
// valid until the next use of w.
func (l *LeftScorer) Neighbours(w *LeftMemory, from, at, k int) (score float64, places []int) {
	return l.neighbours(w, from, at, k, true)
}

func (l *LeftScorer) neighbours(w *LeftMemory, from, at, k int, places bool) (float64, []int) {
	n := at - l.m - from + 1
	w.places = w.places[:0]
	if n < 1 {
		return math.NaN(), nil
	}
	w.rho = sized(w.rho, n*min(l.dim, 2))
	rho := w.rho[:n]
	l.columns[0].correlate(rho, from, at, l, w)
	for c := 1; c < l.dim; c++ {
		other := w.rho[n:]
		l.columns[c].correlate(other, from, at, l, w)
		for i, r := range other {
			rho[i] += r
		}
	}
	if l.dim > 1 {
		for i := range rho {
			rho[i] /= float64(l.dim)
		}
	}
	sum := 0.0
	for len(w.places) < k {
		best := math.Inf(-1)
		for _, r := range rho {
			if r > best {
				best = r
			}
		}
		if math.IsInf(best, -1) {
			break
		}
		sum += math.Sqrt(max(0, 1-best))
		if k == 1 && !places {
			return sum, nil
		}
		place := 0
		for float32(rho[place]) != float32(best) {
			place++
		}
		w.places = append(w.places, from+place)
		for i := max(0, place-l.m+1); i < min(n, place+l.m); i++ {
			rho[i] = math.Inf(-1)
		}
	}
	if len(w.places) == 0 {
		return math.NaN(), nil
	}
	return sum / float64(len(w.places)), w.places
}

// correlate sets rho to the correlations of the subsequences from row from on with that
// from row at on; -inf or NaN for those that have none.
func (t *leftColumn) correlate(rho []float64, from, at int, l *LeftScorer, w *LeftMemory) {
	m := l.m
	kinds, invs, means := t.kind[from:from+len(rho)], t.inv[from:from+len(rho)], t.mean[from:from+len(rho)]
	none := math.NaN()
	switch {
	case t.inv[at] != t.inv[at]:
		for i := range rho {
			rho[i] = none
		}
		return
	case t.kind[at] == leftFlat:
		for i, kind := range kinds {
			switch {
			case invs[i] != invs[i]:
				rho[i] = none
			case kind == leftFlat:
				rho[i] = 1
			case l.excludeFlat:
				rho[i] = none
			default:
				rho[i] = 0
			}
		}
		return
	}
	w.query = sized(w.query, m)
	values, first := t.y[at:at+m], 0.0
	if t.kind[at] == leftFar {
		values, first = t.x[at:at+m], t.x[at]
	}
	rest := 0.0
	for i, v := range values {
		w.query[i] = (v - first - t.mean[at]) * t.inv[at]
		rest += w.query[i]
	}
	vec.Hankel64(rho, t.y[from:from+len(rho)+m-1], w.query)
	for i, r := range rho {
		rho[i] = (r - float64(means[i]*rest)) * invs[i]
	}
	odd, _ := slices.BinarySearch(t.odd, int32(from))
	for _, k := range t.odd[odd:] {
		i := int(k) - from
		if i >= len(rho) {
			break
		}
		x, sum := t.x[k:int(k)+m], 0.0
		for j, q := range w.query {
			sum += float64((x[j] - x[0] - means[i]) * q)
		}
		rho[i] = sum * invs[i]
	}
	// Flat subsequences have inv 0, and so rho 0, if their values are finite.
	if l.excludeFlat {
		for i, kind := range kinds {
			if kind == leftFlat {
				rho[i] = none
			}
		}
	}
}

func sized[T any](s []T, n int) []T { return slices.Grow(s[:0], n)[:n] }

// Explain sets expected to the last row that the subsequence at row at would have with the
// shape of the one at row from, on the scale of the series, and contribution to each value's
// share in their squared distance; the shares sum up to 1. Both have a number for each
// value. It returns false where the two cannot be compared, or are the same.
func (l *LeftScorer) Explain(expected, contribution []float64, from, at int) bool {
	m, total := l.m, 0.0
	for c := range l.columns[:l.dim] {
		t := &l.columns[c]
		here, there := t.x[at:at+m], t.x[from:from+m]
		meanHere, sigmaHere, flatHere := moments(here, 1, 0, 0, m)
		meanThere, sigmaThere, flatThere := moments(there, 1, 0, 0, m)
		expected[c], contribution[c] = here[0]+meanHere, 0
		switch {
		case flatHere && flatThere:
			continue
		case flatHere || flatThere:
			contribution[c] = 2 * float64(m)
		default:
			for i, v := range there {
				z := (v - there[0] - meanThere) / sigmaThere
				e := (here[i]-here[0]-meanHere)/sigmaHere - z
				contribution[c] += float64(e * e)
				if i == m-1 {
					expected[c] += z * sigmaHere
				}
			}
		}
		total += contribution[c]
	}
	if !(total > 0 && total < math.Inf(1)) {
		return false
	}
	for c := range contribution {
		contribution[c] /= total
	}
	return true
}
