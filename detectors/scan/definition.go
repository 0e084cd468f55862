package scan

import "slices"

// Define returns the most anomalous regions of a grid that has passed [Grid.Check], by the
// definition, the first one first; fewer than Top where no others are anomalous.
func Define(g *Grid, f Family, o Options) []Region {
	found, _ := DeMorgan(g, f, o)
	return found
}

// eachRectangle calls do for each rectangle within the limits, those from one first corner
// together, by rows and then columns.
func eachRectangle(g *Grid, o Options, do func(Rectangle)) {
	_, rows, cols := o.limits(g)
	for y1 := range g.Rows {
		for x1 := range g.Cols {
			for y2 := y1; y2 < min(g.Rows, y1+rows); y2++ {
				for x2 := x1; x2 < min(g.Cols, x1+cols); x2++ {
					do(Rectangle{y1, x1, y2, x2})
				}
			}
		}
	}
}

// greedy finds region after region. A pass calls consider with the rectangles that may be the
// region; best is the best region of the pass so far. It returns the number of ratios that were
// computed.
func greedy(g *Grid, f Family, o Options, pass func(consider func(Rectangle, Sums), best *Region)) (found []Region, ratios int) {
	top, _, _ := o.limits(g)
	total := g.total()
	for len(found) < top {
		var best Region
		pass(func(r Rectangle, s Sums) {
			if slices.ContainsFunc(found, func(other Region) bool { return other.Overlaps(r) }) {
				return
			}
			ratios++
			if c := (Region{Rectangle: r, Sums: s, Ratio: ratio(f, o.Direction, s, total)}); c.Ratio > 0 && c.Beats(&best) {
				best = c
			}
		}, &best)
		if best.Ratio == 0 {
			break
		}
		best.Expected = total.expected(float64(best.Baseline))
		found = append(found, best)
	}
	return found, ratios
}
