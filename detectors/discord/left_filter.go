package discord

import (
	"math"

	"odradek/detectors/vec"
)

// LeftFiltered is the number of neighbours above which a score of one neighbour, in one column, takes some
// half the time for each: all but the first tile are filtered.
const LeftFiltered = 4 * leftTile

// leftFilter computes products in float32, in half the time, and again in float64 those whose correlation
// may be the largest, given the error of the first. So the largest has the bits that it has without it.
type leftFilter struct {
	query, products, more []float32
	margins               []vec.Margin // by length

	x      []float32 // the rows of a tile, from row first on, less center
	first  int
	center float64
	mean   []float64 // means of these
	rose   int       // the first of eight neighbours that have raised the largest correlation of the longest length
}

// margin returns what the products of m rows in float32 may be off, as sums of parts spans, for a query
// whose squares have the sum square.
//
// With u = 2^-24, the numbers of both factors are rounded once, by u of them, and each of the m+parts sums
// once: by Cauchy's inequality, the product with rows x is off by e = g*|query|*|x| at most, g being
// (m+parts+2)u and a little, and by another e0 where numbers are below the normal ones.
//
// The largest correlation belongs to the largest c*|c|/squares, c being the product less mean*rest, and
// squares the sum of the squared deviations of x. For any d, (c+e)^2 <= (1+d)c^2 + (1+1/d)e^2, and where
// |c| > e, (|c|-e)^2 >= (1-d)c^2 - (1/d-1)e^2: so c*|c| without the error is at most
// c*|c| + d*c^2 + (1+1/d)e^2. And |x|^2 is squares + m*mean^2. Some hundredths more are for e0 and for the
// roundings in float64.
func margin(rest, square float64, m, parts int) vec.Margin {
	g := 1.01 * float64(m+parts+2) * 0x1p-24
	g /= 1 - g
	d := 2 * g
	e := 1.05 * (1 + 1/d) * g * g * square
	e0 := float64(m) * 0x1p-140 * (2 + math.Sqrt(square*float64(m)))
	return vec.Margin{Rest: rest, Relative: d, Square: e, Mean: e * float64(m), Least: 200 * (1 + 1/d) * e0 * e0}
}

// narrow sets f.x to the rows from first to end-1, less a center of their own: what a product may be off grows with the distance from it.
func (f *leftFilter) narrow(t *leftColumn, first, end int) {
	y := t.y[first:end]
	if f.first, f.center = first, y[len(y)/2]; f.center-f.center != 0 {
		f.center = 0
	}
	f.x = sized(f.x, len(y))
	for i, v := range y {
		f.x[i] = float32(v - f.center)
	}
}

// load takes a query, as multiply has prepared it, and returns false for one that is not in the range of float32.
func (f *leftFilter) load(t *leftColumn, w *LeftMemory, lengths []int) bool {
	longest := len(w.query)
	f.query, f.margins = sized(f.query, longest), sized(f.margins, len(lengths))
	f.products, f.more, f.mean = sized(f.products, 2*leftTile), sized(f.more, 2*leftTile), sized(f.mean, 2*leftTile)
	vec.Round(f.query, w.query)
	square, behind := 0.0, longest
	for k, a := range lengths {
		m := t.moments[a].m
		for _, q := range w.query[longest-m : behind] {
			square += q * q
		}
		behind = longest - m
		if !(square > 1e-40 && square < 1e40) {
			return false
		}
		f.margins[k] = margin(w.rest[k], square, m, len(lengths))
	}
	return true
}

// filter raises w.most by size neighbours from number at on, of n from row from on, as multiply does. It
// returns how many times it computed eight of them again.
func (l *leftColumn) filter(w *LeftMemory, from, at, size, n int, lengths []int) (again int) {
	f, longest := &w.low, len(w.query)
	shortest := l.moments[lengths[0]].m
	behind := longest
	f.narrow(l, max(from, from+at+shortest-longest), from+at+size-1+shortest)
	for k, a := range lengths {
		o := &l.moments[a]
		i, j, row := o.among(at, size, n, shortest, from)
		if i >= j {
			break
		}
		p := f.products[i-at : j-at]
		span := f.query[longest-o.m : behind]
		behind = longest - o.m
		sums, more := p, []float32(nil)
		if k > 0 {
			more = f.more[:len(p)]
			sums = more
		}
		vec.Hankel(sums, f.x[row-f.first:row-f.first+len(p)+len(span)-1], span)
		mean, squares, low := o.mean[row:row+len(p)], o.inv[row:row+len(p)], f.mean[:len(p)]
		for i, v := range mean {
			low[i] = v - f.center
		}
		for g := 0; ; g += 8 {
			if g = vec.Candidate(p, more, low, squares, g, &f.margins[k], w.most[a]); g >= len(p) {
				break
			}
			again++
			end := min(g+8, len(p))
			exact := w.products[:end-g]
			l.exact(w, exact, from+i+g+shortest, lengths[:k+1])
			before := w.most[a]
			if w.most[a] = vec.Largest(exact, nil, mean[g:end], squares[g:end], w.rest[k], before); w.most[a] > before && k == len(lengths)-1 {
				f.rose = i + g
			}
		}
	}
	return again
}

// exact sets products to the products of the last of lengths with subsequences, the first of which ends before row
// end, as multiply computes them.
func (l *leftColumn) exact(w *LeftMemory, products []float64, end int, lengths []int) {
	longest := len(w.query)
	behind := longest
	for k, a := range lengths {
		m := l.moments[a].m
		span := w.query[longest-m : behind]
		behind = longest - m
		sums := products
		if k > 0 {
			sums = w.more[:len(products)]
		}
		vec.Hankel64(sums, l.y[end-m:end-m+len(products)+len(span)-1], span)
		if k > 0 {
			vec.Add64(products, products, sums)
		}
	}
}
