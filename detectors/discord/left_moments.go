package discord

import (
	"math"

	"odradek/detectors/vec"
)

// leftMoments are the moments of the subsequences of m rows, by their first row.
//
// A subsequence is usual, flat, far from the column's center, or without distances.
type leftMoments struct {
	m    int
	mean []float64 // of y
	// Of usual ones 1/(sigma*sqrt(m)) or, without roots, m*sigma*sigma. Of flat ones that are compared with
	// others 0 or +Inf. Of others NaN.
	inv   []float64
	roots bool
	flat  []int32
	far   []leftFar
	// The earlier lengths, by place, whose sum is m, and whether m is one of these; -1 for none.
	first, second int
	wide          bool
}

// usual returns 1/(sigma*sqrt(m)) of a usual subsequence.
func (l *leftMoments) usual(at int) (inv float64, ok bool) {
	if inv = l.inv[at]; !l.roots {
		inv = 1 / math.Sqrt(inv)
	}
	return inv, inv > 0
}

// leftFar has the moments of a subsequence about its own mean.
type leftFar struct {
	at   int32
	mean float64 // of x less the first value
	inv  float64
}

// sumsOfLengths finds lengths that are the sum of two earlier ones.
func sumsOfLengths(all []leftMoments) {
	for a := range all {
		o := &all[a]
		o.first, o.second, o.wide = -1, -1, false
		for b := range all[:a] {
			for c := range all[b:a] {
				if all[b].m+all[b+c].m == o.m {
					o.first, o.second = b, b+c
				}
			}
		}
		if o.first >= 0 {
			all[o.first].wide, all[o.second].wide = true, true
		}
	}
}

// prepare computes the moments of the subsequences that begin in a tile of rows. sums is scratch memory.
func (l *leftColumn) prepare(from, tile int, sums []float64, excludeFlat bool) {
	longest, highest := l.moments[len(l.moments)-1].m, 1
	// part returns sums and squares over the rows of subsequences. A wide one has the sums of the tile's rows at its end
	// as well, which the next tile computes again.
	part := func(o *leftMoments) (mean, inv []float64) {
		n := tile
		if o.wide {
			n += longest - o.m
		}
		i, j := min(from, len(o.mean)), min(from+n, len(o.mean))
		return o.mean[i:j], o.inv[i:j]
	}
	for a := range l.moments {
		if l.moments[a].first < 0 {
			highest = l.moments[a].m
		}
	}
	s := l.y[from:min(from+tile+longest-1, len(l.y))] // sums over h rows
	squares := sums[len(sums)/2:][:len(s)]            // the sums of their squared differences from their mean
	clear(squares)
	for h := 1; h <= highest; h *= 2 {
		for a := range l.moments {
			o := &l.moments[a]
			mean, inv := part(o)
			if o.first >= 0 || o.m&h == 0 || len(mean) == 0 {
				continue
			}
			before := o.m & (h - 1) // rows that the sums so far are over
			s, squares := s[before:][:len(mean)], squares[before:][:len(mean)]
			if before == 0 {
				copy(mean, s)
				copy(inv, squares)
			} else {
				merge(mean, inv, mean, inv, s, squares, before, h)
			}
		}
		if n := len(s) - h; n > 0 && 2*h <= highest {
			merge(sums[:n], squares[:n], s[:n], squares[:n], s[h:], squares[h:], h, h)
			s, squares = sums[:n], squares[:n]
		}
	}
	for a := range l.moments {
		if o := &l.moments[a]; o.first >= 0 {
			p, q := &l.moments[o.first], &l.moments[o.second]
			if mean, inv := part(o); len(mean) > 0 {
				i, j, n := from, from+p.m, len(mean)
				merge(mean, inv, p.mean[i:i+n], p.inv[i:i+n], q.mean[j:j+n], q.inv[j:j+n], p.m, q.m)
			}
		}
	}
	for a := range l.moments {
		o := &l.moments[a]
		mean, inv := part(o)
		mean, inv = mean[:min(tile, len(mean))], inv[:min(tile, len(inv))]
		if vec.Deviations(mean, inv, 1/float64(o.m), farRatio, farLeast, o.roots) {
			l.unusual(o, from, from+len(mean), excludeFlat)
		}
	}
}

// merge merges the moments of subsequences of n1 and n2 rows.
func merge(sum, square, s1, q1, s2, q2 []float64, n1, n2 int) {
	a, b := float64(n1), float64(n2)
	vec.Merge(sum, square, s1, q1, s2, q2, math.Sqrt(b/(a*(a+b))), math.Sqrt(a/(b*(a+b))))
}

// unusual completes the moments of those subsequences, of the ones at rows from to to-1, whose inv is NaN.
func (l *leftColumn) unusual(o *leftMoments, from, to int, excludeFlat bool) {
	l.runs()
	for i := from; i < to; i++ {
		if o.inv[i] == o.inv[i] {
			continue
		}
		switch last := i + o.m - 1; {
		case l.bad[last] >= int32(i):
		case l.run[last] >= int32(o.m):
			if o.flat = append(o.flat, int32(i)); excludeFlat {
				continue
			}
			if o.inv[i] = math.Inf(1); o.roots {
				o.inv[i] = 0
			}
		default:
			if f := farMoments(l.x[i : i+o.m]); f.inv > 0 && f.inv < math.Inf(1) {
				f.at = int32(i)
				o.far = append(o.far, f)
			}
		}
	}
}

func (l *leftColumn) runs() {
	if len(l.run) > 0 {
		return
	}
	l.run, l.bad = sized(l.run, len(l.x)), sized(l.bad, len(l.x))
	before, run, bad := math.NaN(), int32(0), int32(-1)
	for i, v := range l.x {
		if v == before {
			run++
		} else {
			run = 1
		}
		if v-v != 0 {
			bad = int32(i)
		}
		before, l.run[i], l.bad[i] = v, run, bad
	}
}

// farMoments returns the moments of x about its own mean.
func farMoments(x []float64) (f leftFar) {
	first, square := x[0], 0.0
	for _, v := range x {
		f.mean += v - first
	}
	f.mean /= float64(len(x))
	for _, v := range x {
		e := v - first - f.mean
		square += float64(e * e)
	}
	f.inv = 1 / math.Sqrt(square)
	return f
}

// product returns the product of a query with x, whose moments f has.
func (f *leftFar) product(x, query []float64) float64 {
	first := x[0]
	var a, b, c, d float64 // sums that do not wait for each other
	for ; len(query) >= 4 && len(x) >= 4; query, x = query[4:], x[4:] {
		a += float64((x[0] - first - f.mean) * query[0])
		b += float64((x[1] - first - f.mean) * query[1])
		c += float64((x[2] - first - f.mean) * query[2])
		d += float64((x[3] - first - f.mean) * query[3])
	}
	for i, q := range query {
		a += float64((x[i] - first - f.mean) * q)
	}
	return (a + b) + (c + d)
}
