package discord

import (
	"cmp"
	"math"
	"slices"

	"odradek/detectors/vec"
)

// LeftScorer computes LeftQuery.Define for many subsequences of one series: first Load, then Lengths,
// then Scores for each row where subsequences end. It keeps memory for reuse.
//
// A score takes a product of the subsequence with each possible neighbour: Hankel products with the rows
// before it, in float64, which several lengths share. The products over the last rows, as many as the
// shortest length has, are a part of the longer ones' products; the next ones are over the rows before
// these, and so on. So all lengths together take the multiplications of the longest alone.
//
// The rows of a column are centred on one value, and the rows of the subsequences that end at a row on
// another. Where a subsequence lies so far from that center, in its deviations, that the product would lose
// digits, its product is computed with its own mean; where its neighbour lies far from the column's center,
// so are the neighbour's moments. So a step by 1e9 costs time and not digits.
//
// The moments of a subsequence are merged from the moments of its parts, of 1, 2, 4, 8 and more rows or of two
// other lengths, which subsequences share. They take some steps a row, no sum is a difference of others,
// and the steps do not depend on the rows around the subsequence: no errors accumulate along the series,
// and scores do not depend on each other.
//
// Where a score needs but the largest correlation, the products of a large window are computed in float32,
// and again only where they may be the largest.
//
// After Lengths, several goroutines may compute scores, each with its own LeftMemory.
type LeftScorer struct {
	dim, rows   int
	lengths     []int // rising
	k           int
	excludeFlat bool
	columns     []leftColumn
	sums        []float64
}

// LeftMemory is the scratch memory of a score, for reuse. The zero LeftMemory is ready.
type LeftMemory struct {
	query, rest    []float64
	products, more []float64
	most           []float64   // by length: the largest correlation
	rho, other     [][]float64 // by length and first row
	together       []int       // lengths
	alone          [1]int
	low            leftFilter
	plain          bool // tests do without the filter
	places         []int
}

// leftColumn is a column of the series.
type leftColumn struct {
	x      []float64
	y      []float64 // less center
	center float64
	// By row: equal values that end there, and the last row up to it whose value is not finite. They are
	// empty until they are needed.
	run, bad []int32
	moments  []leftMoments // by length
}

const (
	// farRatio is the least ratio of a subsequence's variance to its mean square about the column's center
	// for a usual subsequence: at that ratio variances and products lose two or three of sixteen digits.
	farRatio = 1e-5
	// farLeast is the least sum of squared deviations of a usual subsequence, well within the range of float64.
	farLeast = 1e-280
	// togetherRatio is the most that the squared distance of a subsequence's mean from the center may be, in
	// its variances, where it shares products: these lose less than a digit by it.
	togetherRatio = 20
	// mostAgain and mostAgainShare bound how many times a filter computes eight neighbours again before it is
	// given up: that takes some 50 to 100 times as long as the filter saves for a neighbour.
	mostAgain, mostAgainShare = 30, 100
	// leftTile is the number of neighbours whose products are computed at once.
	leftTile = 1024
)

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

func (l *leftColumn) load(x []float64, dim, c, rows int) {
	l.x, l.y, l.run = sized(l.x, rows), sized(l.y, rows), l.run[:0]
	last := (rows - 1) * dim
	if l.center = middle(x[c], x[last/dim/2*dim+c], x[last+c]); l.center-l.center != 0 {
		l.center = 0
	}
	if dim == 1 {
		copy(l.x, x)
	} else {
		for i := range l.x {
			l.x[i] = x[i*dim+c]
		}
	}
	for i, v := range l.x {
		l.y[i] = v - l.center
	}
}

// middle returns the median of three; any of them where some are NaN.
func middle(a, b, c float64) float64 {
	return max(min(a, b), min(max(a, b), c))
}

// Length prepares for subsequences of m rows, with Score and Neighbours; see LeftQuery.ExcludeFlat.
func (l *LeftScorer) Length(m int, excludeFlat bool) { l.prepare([]int{m}, 1, excludeFlat, true) }

// Lengths prepares for subsequences of several lengths, which rise, and k neighbours, with Scores.
func (l *LeftScorer) Lengths(lengths []int, k int, excludeFlat bool) {
	l.prepare(lengths, k, excludeFlat, k > 1 || l.dim > 1)
}

// prepare takes roots only where all correlations are needed: they take as much time as the other moments.
func (l *LeftScorer) prepare(lengths []int, k int, excludeFlat, roots bool) {
	l.lengths, l.k, l.excludeFlat = append(l.lengths[:0], lengths...), k, excludeFlat
	longest := lengths[len(lengths)-1]
	tile := max(2*leftTile, 4*longest)
	l.sums = sized(l.sums, 2*(tile+longest))
	for c := range l.columns[:l.dim] {
		t := &l.columns[c]
		t.moments = slices.Grow(t.moments[:0], len(lengths))[:len(lengths)]
		for a, m := range lengths {
			o := &t.moments[a]
			n := max(0, l.rows-m+1)
			o.m, o.roots, o.mean, o.inv = m, roots, sized(o.mean, n), sized(o.inv, n)
			o.flat, o.far = o.flat[:0], o.far[:0]
		}
		sumsOfLengths(t.moments)
		for at := 0; at+lengths[0] <= l.rows; at += tile {
			t.prepare(at, tile, l.sums, excludeFlat)
		}
	}
}

// Scores sets each of scores to LeftQuery.Define of the subsequence of that length that ends before row
// end, with the neighbours and the flat rule of Lengths.
func (l *LeftScorer) Scores(w *LeftMemory, scores []float64, from, end int) {
	l.correlate(w, from, end, l.k > 1)
	for a := range scores {
		scores[a], _ = l.nearest(w, a, from, l.k, l.k > 1)
	}
}

// Score computes LeftQuery.Define of a subsequence, with the length and the flat rule of Length.
func (l *LeftScorer) Score(w *LeftMemory, from, at, k int) float64 {
	l.correlate(w, from, at+l.lengths[0], k > 1)
	score, _ := l.nearest(w, 0, from, k, k > 1)
	return score
}

// Neighbours is Score with the first rows of the neighbours, nearest first. They are
// valid until the next use of w.
func (l *LeftScorer) Neighbours(w *LeftMemory, from, at, k int) (score float64, places []int) {
	l.correlate(w, from, at+l.lengths[0], true)
	return l.nearest(w, 0, from, k, true)
}

// nearest returns the score of length a, with the places of the neighbours where correlate has kept the
// correlations.
func (l *LeftScorer) nearest(w *LeftMemory, a, from, k int, kept bool) (float64, []int) {
	w.places = w.places[:0]
	best := w.most[a]
	if l.dim > 1 {
		best = vec.Most64(w.rho[a])
	}
	if !kept {
		if math.IsInf(best, -1) {
			return math.NaN(), nil
		}
		return math.Sqrt(max(0, 1-best)), nil
	}
	rho, m, sum := w.rho[a], l.lengths[a], 0.0
	for !math.IsInf(best, -1) {
		sum += math.Sqrt(max(0, 1-best))
		place := tied(rho, best)
		w.places = append(w.places, from+place)
		if len(w.places) == k {
			break
		}
		for i := max(0, place-m+1); i < min(len(rho), place+m); i++ {
			rho[i] = math.Inf(-1)
		}
		best = vec.Most64(rho)
	}
	if len(w.places) == 0 {
		return math.NaN(), nil
	}
	return sum / float64(len(w.places)), w.places
}

// tied returns the first place of a number that is the same as best in float32.
func tied(rho []float64, best float64) int {
	least := best - math.Abs(best)*0x1p-22 - 0x1p-148 // below all of these
	for i, r := range rho {
		if !(r < least) && float32(r) == float32(best) {
			return i
		}
	}
	panic("discord: the largest correlation is none of them")
}

// correlate computes the correlations of the subsequences that end before row end with those before them,
// from row from on: with one column the largest of each length, in w.most, and with several columns, or
// keep, all of them, in w.rho; -inf or NaN for those that have none.
func (l *LeftScorer) correlate(w *LeftMemory, from, end int, keep bool) {
	all := len(l.lengths)
	for len(w.rho) < all {
		w.rho, w.other = append(w.rho, nil), append(w.other, nil)
	}
	w.most = sized(w.most, all)
	keep = keep || l.dim > 1
	for a, m := range l.lengths {
		n := max(0, end-2*m-from+1)
		if w.most[a] = math.Inf(-1); keep {
			w.rho[a] = sized(w.rho[a], n)
		}
		if l.dim > 1 {
			w.other[a] = sized(w.other[a], n)
		}
	}
	to := w.rho
	if !keep {
		to = nil
	}
	for c := range l.columns[:l.dim] {
		l.columns[c].correlate(w, to, from, end, l.excludeFlat)
		for a := range l.lengths {
			if c > 0 {
				vec.Add64(w.rho[a], w.rho[a], w.other[a])
			}
			if c > 0 && c == l.dim-1 {
				for i := range w.rho[a] {
					w.rho[a][i] /= float64(l.dim)
				}
			}
		}
		to = w.other
	}
}

// correlate sets w.most and, unless it is nil, to, for each length.
func (l *leftColumn) correlate(w *LeftMemory, to [][]float64, from, end int, excludeFlat bool) {
	w.together = w.together[:0]
	for a := range l.moments {
		o := &l.moments[a]
		at, n := end-o.m, end-2*o.m-from+1
		if n < 1 {
			break
		}
		if _, usual := o.usual(at); usual {
			w.together = append(w.together, a)
		} else if i, far := slices.BinarySearchFunc(o.far, int32(at), compareFar); far {
			w.alone[0] = a
			l.multiply(w, to, from, end, w.alone[:], l.x, l.x[at], o.far[i].mean, o.far[i].inv)
		} else {
			var rho []float64
			if to != nil {
				rho = to[a]
			}
			_, flat := slices.BinarySearch(o.flat, int32(at))
			w.most[a] = o.correlateFlat(rho, from, n, flat, excludeFlat)
		}
	}
	if len(w.together) == 0 {
		return
	}
	mean := func(a int) float64 { return l.moments[a].mean[end-l.moments[a].m] }
	inv := func(a int) float64 { inv, _ := l.moments[a].usual(end - l.moments[a].m); return inv }
	// On a slope, the means of all lengths are nearer to that between the first and the last.
	center := (mean(w.together[0]) + mean(w.together[len(w.together)-1])) / 2
	near := w.together[:0]
	for _, a := range w.together {
		if d := (mean(a) - center) * inv(a); float64(l.moments[a].m)*d*d <= togetherRatio {
			near = append(near, a)
		} else {
			w.alone[0] = a
			l.multiply(w, to, from, end, w.alone[:], l.y, 0, mean(a), inv(a))
		}
	}
	w.together = near
	if len(near) == 1 {
		center = mean(near[0])
	}
	if len(near) > 0 {
		l.multiply(w, to, from, end, near, l.y, 0, center, inv(near[len(near)-1]))
	}
}

func compareFar(f leftFar, at int32) int { return cmp.Compare(f.at, at) }

// correlateFlat returns the largest correlation of a flat subsequence, or without flat of one that has no
// distances, with the n subsequences from row from on. It sets rho, unless it is nil, to all of them.
func (l *leftMoments) correlateFlat(rho []float64, from, n int, flat, excludeFlat bool) float64 {
	for i := range rho {
		rho[i] = math.NaN()
	}
	if !flat {
		return math.Inf(-1)
	}
	most := math.Inf(-1)
	set := func(i int, r float64) {
		most = max(most, r)
		if rho != nil {
			rho[i] = r
		}
	}
	if !excludeFlat {
		for i, inv := range l.inv[from : from+n] {
			if inv == inv {
				if set(i, 0); rho == nil {
					break
				}
			}
		}
		for _, f := range l.farFrom(from, n) {
			set(int(f.at)-from, 0)
		}
	}
	for at, _ := slices.BinarySearch(l.flat, int32(from)); at < len(l.flat) && int(l.flat[at]) < from+n; at++ {
		if set(int(l.flat[at])-from, 1); rho == nil {
			break
		}
	}
	return most
}

// farFrom returns those that begin at the n rows from row from on.
func (l *leftMoments) farFrom(from, n int) []leftFar {
	i, _ := slices.BinarySearchFunc(l.far, int32(from), compareFar)
	j, _ := slices.BinarySearchFunc(l.far, int32(from+n), compareFar)
	return l.far[i:j]
}

// multiply computes the correlations of some lengths. The values of their subsequences are centred on
// first+center and scaled by inv, the one of the longest.
func (l *leftColumn) multiply(w *LeftMemory, to [][]float64, from, end int, lengths []int, values []float64,
	first, center, inv float64) {
	l.ask(w, values, first, center, inv, end, lengths)
	shortest, longest := l.moments[lengths[0]].m, len(w.query)
	scale := func(o *leftMoments) float64 {
		if len(lengths) == 1 {
			return 1
		}
		own, _ := o.usual(end - o.m)
		return own / inv
	}
	n := end - 2*shortest - from + 1
	filter := n > LeftFiltered && !l.moments[lengths[0]].roots && !w.plain && w.low.load(l, w, lengths)
	again := 0
	// Neighbours are numbered by their last rows, from the shortest length's first neighbour on.
	for at := 0; at < n; {
		size := leftTile
		if n-at < 2*leftTile {
			size = n - at
		}
		if filter && at > 0 {
			again += l.filter(w, from, at, size, n, lengths)
			at += size
			filter = again <= mostAgain+at/mostAgainShare
			continue
		}
		l.tile(w, to, from, at, size, n, lengths, scale)
		at += size
	}
	for _, a := range lengths {
		o := &l.moments[a]
		query, scale := w.query[longest-o.m:], scale(o)
		if r := w.most[a]; !o.roots && !math.IsInf(r, -1) {
			w.most[a] = math.Copysign(math.Sqrt(math.Abs(r)), r) * scale
		}
		for _, f := range o.farFrom(from, max(0, end-2*o.m-from+1)) {
			r := f.product(l.x[f.at:int(f.at)+o.m], query) * f.inv * scale
			if r > w.most[a] { // not a NaN
				w.most[a] = r
			}
			if to != nil {
				to[a][int(f.at)-from] = r
			}
		}
	}
}

// ask sets the query of multiply.
func (l *leftColumn) ask(w *LeftMemory, values []float64, first, center, inv float64, end int, lengths []int) {
	longest := l.moments[lengths[len(lengths)-1]].m
	w.query, w.rest = sized(w.query, longest), sized(w.rest, len(lengths))
	for i, v := range values[end-longest : end] {
		w.query[i] = (v - first - center) * inv
	}
	rest, behind := 0.0, longest // behind the rows that the sum is of
	for k, a := range lengths {
		start := longest - l.moments[a].m
		sum := 0.0
		for _, q := range w.query[start:behind] {
			sum += q
		}
		rest, behind = rest+sum, start
		w.rest[k] = rest
	}
	w.products, w.more = sized(w.products, 2*leftTile), sized(w.more, 2*leftTile)
}

// tile is multiply for size neighbours from number at on, of n from row from on.
func (l *leftColumn) tile(w *LeftMemory, to [][]float64, from, at, size, n int, lengths []int, scale func(o *leftMoments) float64) {
	shortest, longest := l.moments[lengths[0]].m, len(w.query)
	behind := longest
	for k, a := range lengths {
		o := &l.moments[a]
		i, j, row := o.among(at, size, n, shortest, from)
		if i >= j {
			break
		}
		p := w.products[i-at : j-at]
		span := w.query[longest-o.m : behind]
		behind = longest - o.m
		sums, more := p, []float64(nil)
		if k > 0 {
			more = w.more[:len(p)]
			sums = more
		}
		vec.Hankel64(sums, l.y[row:row+len(p)+len(span)-1], span)
		mean, inv := o.mean[row:row+len(p)], o.inv[row:row+len(p)]
		switch {
		case !o.roots:
			w.most[a] = vec.Largest(p, more, mean, inv, w.rest[k], w.most[a])
		case to == nil:
			w.most[a] = max(w.most[a], vec.Correlate(nil, p, more, mean, inv, w.rest[k], scale(o)))
		default:
			w.most[a] = max(w.most[a], vec.Correlate(to[a][row-from:][:len(p)], p, more, mean, inv, w.rest[k], scale(o)))
		}
	}
}

// among returns which of size neighbours from number at on, of the n that the shortest length has from row from on, have this
// length, from i to j-1, and the first row of neighbour i. A longer length has fewer neighbours at both ends.
func (l *leftMoments) among(at, size, n, shortest, from int) (i, j, row int) {
	less := l.m - shortest
	i, j = max(at, less), min(at+size, n-less)
	return i, j, from + i - less
}

func sized[T any](s []T, n int) []T { return slices.Grow(s[:0], n)[:n] }

// Explain sets contribution to each value's share in the squared distance of the subsequences at the rows from and at; the shares
// sum up to 1. It returns the squares of how far the rows of the one at row at are from the shape of the other, in the value
// with the largest share, and sets expected to what they would have with this shape where they are farthest. The shape has
// the level and the scale at which it fits most rows, of as many rows before it, too (Expect). expected and
// contribution have a number for each value. Rows before row since are known to be ordinary; it sets expected in place of one from
// there on. It returns false where the two cannot be compared, or are the same.
func (l *LeftScorer) Explain(expected, contribution []float64, from, at, since int) (squares []float64, ok bool) {
	m, total := l.lengths[0], 0.0
	for c := range l.columns[:l.dim] {
		t := &l.columns[c]
		here, there := t.x[at:at+m], t.x[from:from+m]
		meanHere, sigmaHere, flatHere := moments(here, 1, 0, 0, m)
		meanThere, sigmaThere, flatThere := moments(there, 1, 0, 0, m)
		contribution[c] = 0
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
			}
		}
		total += contribution[c]
	}
	if !(total > 0 && total < math.Inf(1)) {
		return nil, false
	}
	for c := range contribution {
		contribution[c] /= total
	}
	return Expect(expected, contribution, func(c int) []float64 { return l.columns[c].x }, m, from, at, since), true
}

// newest returns what Explain sets expected to, in one value, where the last row of the subsequence at row at is the only one that
// is not known to be ordinary.
func (l *LeftScorer) newest(c, from, at int) float64 {
	m, x := l.lengths[0], l.columns[c].x
	before := min(m, from, at)
	run := make([]float64, before+m)
	vec.Fit(run, x[at-before:at+m], x[from-before:from+m], before+m-1)
	return run[before+m-1]
}

// Expect is the last part of LeftScorer.Explain, for a subsequence of m rows and given shares of the values. column returns the
// rows of a value.
func Expect(expected, contribution []float64, column func(c int) []float64, m, from, at, since int) (squares []float64) {
	most := 0
	for c, share := range contribution {
		if share > contribution[most] {
			most = c
		}
	}
	before := min(m, from, at)
	runs := make([][]float64, len(contribution))
	for c := range runs {
		x := column(c)
		run := make([]float64, before+m)
		vec.Fit(run, x[at-before:at+m], x[from-before:from+m], since-(at-before))
		runs[c] = run[before:]
	}
	squares = make([]float64, m)
	farthest := 0
	for i := range squares {
		e := column(most)[at+i] - runs[most][i]
		if squares[i] = float64(e * e); at+farthest < since || squares[i] > squares[farthest] && at+i >= since {
			farthest = i
		}
	}
	for c := range expected {
		expected[c] = runs[c][farthest]
	}
	return squares
}
