package discord

import (
	"math"
	"math/rand/v2"
	"testing"

	"odradek/detectors/seedtest"
	"odradek/detectors/vec"
)

// pieces returns n numbers of stretches: noise, a walk, a tone, plateaus with hardly any noise, flat ones,
// spikes, steps by up to 1e9, and now and then a NaN or an infinity.
func pieces(rng *rand.Rand, n int) []float64 {
	scales := []float64{1, 1, 1, 100, 1e4, 1e9}
	x := make([]float64, n)
	level, most := 0.0, 1+rng.IntN(len(scales)) // of the scales
	for at := 0; at < n; {
		scale := scales[rng.IntN(most)]
		if rng.IntN(2) == 0 {
			level += scale * rng.NormFloat64()
		}
		kind, width := rng.IntN(8), math.Exp(-6*rng.Float64())
		for end := min(n, at+1+rng.IntN(120)); at < end; at++ {
			switch kind {
			case 0, 1:
				x[at] = level + rng.NormFloat64()
			case 2:
				level += rng.NormFloat64()
				x[at] = level
			case 3, 4:
				x[at] = level + math.Sin(0.2*float64(at))
			case 5: // plateau
				x[at] = level + width*rng.NormFloat64()
			case 6: // flat
				x[at] = level
			case 7:
				x[at] = level + rng.NormFloat64()
				if rng.IntN(20) == 0 {
					x[at] += scale * rng.NormFloat64()
				}
			}
			if n > 1000 && rng.IntN(n) == 0 {
				x[at] = []float64{math.NaN(), math.Inf(1)}[rng.IntN(2)]
			}
		}
	}
	if rng.IntN(2) == 0 { // a copy of the newest rows, scaled and moved, and perhaps with a step
		m := n / (3 + rng.IntN(10))
		newest := x[n-m:]
		if rng.IntN(2) == 0 {
			step := scales[rng.IntN(most)] * rng.NormFloat64()
			for i := range rng.IntN(m) {
				newest[i] += step
			}
		}
		to, scale, move := rng.IntN(n-2*m), math.Exp(rng.NormFloat64()), scales[rng.IntN(most)]*rng.NormFloat64()
		for i, v := range newest {
			x[to+i] = scale*v + move
		}
	}
	return x
}

// TestLeftLengths compares the scores of several lengths together with the definition of each: on pieces of
// all kinds, with lengths and numbers of rows around the limits of blocks.
func TestLeftLengths(t *testing.T) {
	rng := seedtest.New(t)
	var l LeftScorer
	var w LeftMemory
	scored, alone, far := 0, 0, 0
	for range 150 {
		lengths := []int{3 + rng.IntN(30)}
		for range rng.IntN(4) {
			m := lengths[len(lengths)-1]
			lengths = append(lengths, m+1+rng.IntN(2*m))
			if rng.IntN(3) == 0 {
				lengths[len(lengths)-1] = 2 * m
			}
		}
		longest := lengths[len(lengths)-1]
		rows := 2*longest + 1 + rng.IntN(300)
		switch rng.IntN(6) {
		case 0:
			rows = 2*longest + leftTile*(1+rng.IntN(3)) - 3 + rng.IntN(7)
		case 1:
			rows = 2*lengths[0] + leftTile*(1+rng.IntN(3)) - 3 + rng.IntN(7)
		}
		dim := 1 + rng.IntN(4)/3
		x := make([]float64, rows*dim)
		for c := range dim {
			for i, v := range pieces(rng, rows) {
				x[i*dim+c] = v
			}
		}
		exclude := rng.IntN(2) == 0
		l.Load(x, dim)
		k := max(1, rng.IntN(6)-2)
		l.Lengths(lengths, k, exclude)
		for _, m := range l.columns[0].moments {
			far += len(m.far)
		}
		scores := make([]float64, len(lengths))
		for range 3 {
			from, end := rng.IntN(20), rows-rng.IntN(30)
			if rng.IntN(10) == 0 {
				end = 2*lengths[0] + rng.IntN(rows-2*lengths[0])
			}
			end = max(end, longest)
			l.Scores(&w, scores, from, end)
			alone += len(lengths) - len(w.together)
			for a, m := range lengths {
				q := LeftQuery{M: m, K: k, From: from, At: end - m, ExcludeFlat: exclude}
				want := q.Define(x, dim)
				// Far from the center, copies have correlations that are exact to 1e-13 or so.
				if !leftNear(scores[a], want) && !(math.Abs(scores[a]-want) < 1e-6) {
					t.Errorf("%d rows of %d, lengths %v, %+v: %v, the definition gives %v", rows, dim, lengths, q, scores[a], want)
				}
				if want == want {
					scored++
				}
			}
		}
	}
	t.Logf("%d scores, %d of them not together with others, %d subsequences far from the center", scored, alone, far)
	if scored < 500 || alone < 50 || far < 1000 {
		t.Error("too few")
	}
}

// TestLeftPlace requires that a score has the same bits wherever its window is among the rows that were loaded, if the
// column's center is the same.
func TestLeftPlace(t *testing.T) {
	rng := seedtest.New(t)
	var long, short LeftScorer
	var w LeftMemory
	for range 100 {
		lengths := []int{5 + rng.IntN(10), 20 + rng.IntN(5), 50 + rng.IntN(10)}
		before := rng.IntN(2500)
		x := pieces(rng, before+rng.IntN(1500)+200)
		last := len(x) - 1
		for _, i := range []int{0, before, last / 2, before + (last-before)/2, last} {
			x[i] = 0.5
		}
		end := len(x) - before - rng.IntN(40)
		long.Load(x, 1)
		short.Load(x[before:], 1)
		for k := 1; k <= 2; k++ {
			long.Lengths(lengths, k, false)
			short.Lengths(lengths, k, false)
			a, b := make([]float64, 3), make([]float64, 3)
			long.Scores(&w, a, before, before+end)
			short.Scores(&w, b, 0, end)
			for i := range a {
				if math.Float64bits(a[i]) != math.Float64bits(b[i]) && (a[i] == a[i] || b[i] == b[i]) {
					t.Errorf("length %d of row %d: %v with %d rows before the window, %v without", lengths[i], end, a[i], before, b[i])
				}
			}
		}
	}
}

// TestLeftFilter requires the same bits with and without the filter: on pieces of all kinds, on tones with
// many subsequences that are almost the nearest, on any scale and far from zero.
func TestLeftFilter(t *testing.T) {
	rng := seedtest.New(t)
	var l LeftScorer
	plain := LeftMemory{plain: true}
	var w LeftMemory
	for range 40 {
		rows := LeftFiltered + 100 + rng.IntN(3*leftTile)
		var x []float64
		if rng.IntN(2) == 0 {
			x = pieces(rng, rows)
		} else {
			turn, noise := 0.01+rng.Float64(), math.Exp(-20*rng.Float64())
			level, scale := 300*rng.Float64(), math.Pow(10, 60*rng.Float64()-30)
			for i := range rows {
				x = append(x, scale*(math.Sin(turn*float64(i))+noise*rng.NormFloat64()+level*float64(i/3000)))
			}
		}
		m := 3 + rng.IntN(40)
		lengths := []int{m, m + 1 + rng.IntN(m), 2*m + 1 + rng.IntN(2*m)}[rng.IntN(3):]
		l.Load(x, 1)
		l.Lengths(lengths, 1, rng.IntN(2) == 0)
		got, want := make([]float64, len(lengths)), make([]float64, len(lengths))
		for range 5 {
			from, end := rng.IntN(20), rows-rng.IntN(60)
			l.Scores(&w, got, from, end)
			l.Scores(&plain, want, from, end)
			for a, m := range lengths {
				if math.Float64bits(got[a]) != math.Float64bits(want[a]) && (got[a] == got[a] || want[a] == want[a]) {
					t.Errorf("length %d of %v, row %d: %v with the filter, %v without", m, lengths, end, got[a], want[a])
				}
			}
		}
	}
}

// TestLeftMargin requires that products in float32 are off by less than the margin takes them to be.
func TestLeftMargin(t *testing.T) {
	rng := seedtest.New(t)
	most := 0.0
	for range 2000 {
		m := 3 + rng.IntN(300)
		level := math.Exp(6*rng.Float64()) * rng.NormFloat64()
		scale := math.Pow(10, 40*rng.Float64()-20)
		products, query32, x32 := make([]float32, 8), make([]float32, m), make([]float32, m+7)
		exact, query, x := make([]float64, 8), make([]float64, m), make([]float64, m+7)
		square := 0.0
		for i := range query {
			query[i] = rng.NormFloat64()
			if rng.IntN(3) == 0 {
				query[i] = 1 / float64(m) // all roundings in one direction
			}
			square += query[i] * query[i]
			query32[i] = float32(query[i])
		}
		for i := range x {
			x[i] = scale * (rng.NormFloat64() + level)
			x32[i] = float32(x[i])
		}
		vec.Hankel(products, x32, query32)
		vec.Hankel64(exact, x, query)
		g := margin(0, square, m, 1)
		for i, p := range products {
			norm := 0.0
			for _, v := range x[i : i+m] {
				norm += v * v
			}
			// The margin of c*|c| without its part of c*c is (1+1/d)*e*e.
			off := (float64(p) - exact[i]) * (float64(p) - exact[i]) * (1 + 1/g.Relative) / (g.Square*norm + g.Least)
			most = max(most, off)
		}
	}
	if t.Logf("the largest error is %v of the margin's", math.Sqrt(most)); !(most < 1) || most < 1e-3 {
		t.Error("the margin is too small, or far too large")
	}
}
