package scan

import "math"

// Work counts what an algorithm of the paper has done.
type Work struct {
	Rectangles int // visited
	Cells      int // read for the sums, or corners of tables
	Ratios     int // computed exactly
}

// BruteForce is BF of the paper: it adds up the cells of each rectangle.
func BruteForce(g *Grid, f Family, o Options) ([]Region, Work) {
	var w Work
	found, ratios := greedy(g, f, o, func(consider func(Rectangle, Sums), _ *Region) {
		eachRectangle(g, o, func(r Rectangle) {
			var s Sums
			for y := r.Y1; y <= r.Y2; y++ {
				for i := y*g.Cols + r.X1; i <= y*g.Cols+r.X2; i++ {
					s.Count += g.Count[i]
					s.Baseline += g.Baseline[i]
				}
			}
			w.Rectangles, w.Cells = w.Rectangles+1, w.Cells+r.Area()
			consider(r, s)
		})
	})
	w.Ratios = ratios
	return found, w
}

// DeMorgan is DM of the paper: the sums of each rectangle are differences of summed areas.
func DeMorgan(g *Grid, f Family, o Options) ([]Region, Work) {
	t := newTable(g)
	w := Work{Cells: g.Rows * g.Cols}
	found, ratios := greedy(g, f, o, func(consider func(Rectangle, Sums), _ *Region) {
		eachRectangle(g, o, func(r Rectangle) {
			w.Rectangles, w.Cells = w.Rectangles+1, w.Cells+4
			consider(r, t.sums(r))
		})
	})
	w.Ratios = ratios
	return found, w
}

// Approximate is AX of the paper with exact answers: it computes the ratio of a rectangle only
// where an upper bound of it reaches the best one so far. See the package comment.
func Approximate(g *Grid, f Family, o Options) ([]Region, Work) {
	t := newTable(g)
	w := Work{Cells: g.Rows * g.Cols}
	likelihood := func(r Rectangle) float64 {
		if r.X1 > r.X2 || r.Y1 > r.Y2 {
			return 0
		}
		s := t.sums(r)
		return f.LogLikelihood(float64(s.Count), float64(s.Baseline))
	}
	// Each part of a complement contains one corner of the grid: one table for each.
	rows, cols := g.Rows-1, g.Cols-1
	var corners [4][]float64 // by the cell of the part that is farthest from its corner
	for i := range corners {
		corners[i] = make([]float64, len(g.Count))
	}
	for y := range g.Rows {
		for x := range g.Cols {
			for i, r := range []Rectangle{{0, 0, y, x}, {0, x, y, cols}, {y, x, rows, cols}, {y, 0, rows, x}} {
				corners[i][y*g.Cols+x] = likelihood(r)
			}
		}
	}
	w.Cells += 4 * 4 * len(g.Count)
	corner := func(i, y, x int) float64 {
		if y < 0 || x < 0 || y > rows || x > cols {
			return 0
		}
		return corners[i][y*g.Cols+x]
	}
	all := likelihood(Rectangle{0, 0, rows, cols})
	found, ratios := greedy(g, f, o, func(consider func(Rectangle, Sums), best *Region) {
		eachRectangle(g, o, func(r Rectangle) {
			s := t.sums(r)
			parts := [5]float64{f.LogLikelihood(float64(s.Count), float64(s.Baseline)),
				corner(0, r.Y1-1, r.X2), corner(1, r.Y2, r.X2+1), corner(2, r.Y2+1, r.X1), corner(3, r.Y1, r.X1-1)}
			w.Rectangles, w.Cells = w.Rectangles+1, w.Cells+8
			bound, size := -all, math.Abs(all)
			for _, v := range parts {
				bound, size = bound+v, size+math.Abs(v)
			}
			const rounding = 1e-14 // of each term
			if bound+rounding*size >= best.Ratio {
				consider(r, s)
			}
		})
	})
	w.Ratios = ratios
	return found, w
}
