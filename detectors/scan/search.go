package scan

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"odradek/detectors"
	"odradek/detectors/vec"
)

// Search returns the result of [Define], to the bit, in time that grows as the rows squared times the
// columns, as long as few rectangles are close to the most anomalous ones. For each strip of rows, the
// largest sum of count - slope*baseline over a run of columns, for each of the filter's [lines], shows
// whether any of the strip's rectangles can be better than the best one so far. Only then the ratios of
// its rectangles above the line are computed, from exact sums, as by the definition.
func Search(g *Grid, f Family, o Options, parallel detectors.Parallel) []Region {
	s := newScanner(g, f, o)
	top, _, _ := o.limits(g)
	var found []Region
	for len(found) < top {
		best := s.best(found, nil, math.Inf(1), parallel)
		if best.Ratio == 0 {
			break
		}
		best.Expected = s.total.expected(float64(best.Baseline))
		found = append(found, best)
	}
	return found
}

// scanner is a grid with the sums that the fast form needs.
type scanner struct {
	grid              *Grid
	f                 Family
	total             Sums
	direction         Direction
	rows, cols        int     // of the largest rectangle
	least, most       float64 // the baselines of rectangles, other than 0
	magnitude         float64 // the sum of the absolute counts
	proportional      bool    // no cell has another rate than the grid
	table             table
	counts, baselines []float64 // of the cells of a column above a row
	empty             []bool    // the row has no baseline
}

func newScanner(g *Grid, f Family, o Options) *scanner {
	_, rows, cols := o.limits(g)
	s := &scanner{grid: g, f: f, total: g.total(), direction: o.Direction, rows: rows, cols: cols, proportional: true, table: newTable(g),
		counts: make([]float64, (g.Rows+1)*g.Cols), baselines: make([]float64, (g.Rows+1)*g.Cols), empty: make([]bool, g.Rows)}
	least := int64(math.MaxInt64)
	for i, b := range g.Baseline {
		if b > 0 {
			least = min(least, b)
		}
		s.magnitude += math.Abs(float64(g.Count[i]))
		s.proportional = s.proportional && (Sums{g.Count[i], b}).excess(s.total) == 0
	}
	s.least = float64(least)
	for y := 0; y+rows <= g.Rows; y++ {
		for x := 0; x+cols <= g.Cols; x++ {
			s.most = max(s.most, float64(s.table.sums(Rectangle{y, x, y + rows - 1, x + cols - 1}).Baseline))
		}
	}
	for y := range g.Rows {
		s.empty[y] = s.table.sums(Rectangle{y, 0, y, g.Cols - 1}).Baseline == 0
	}
	sumColumns(s.counts, g.Count, g.Cols)
	sumColumns(s.baselines, g.Baseline, g.Cols)
	return s
}

// twin returns a scanner for other counts of the same baselines and total, with its own memory.
func (s *scanner) twin() *scanner {
	t := *s
	t.grid = &Grid{s.grid.Rows, s.grid.Cols, make([]int64, len(s.grid.Count)), s.grid.Baseline}
	t.table.sum = make([]Sums, len(s.table.sum))
	t.counts = make([]float64, len(s.counts))
	return &t
}

// count computes the sums of the twin's counts.
func (s *scanner) count() {
	s.table.fill(s.grid)
	sumColumns(s.counts, s.grid.Count, s.grid.Cols)
	s.proportional = false // not known
}

// sumColumns sets each row of dst but the first to the sums of the cells of a column above it.
func sumColumns(dst []float64, cells []int64, cols int) {
	for i, v := range cells {
		dst[cols+i] = dst[i] + float64(v)
	}
}

// pass looks for one region.
type pass struct {
	*scanner
	found  []Region // it overlaps none of these
	enough float64  // a ratio that ends the pass
	done   atomic.Bool
	bar    atomic.Uint64           // the bits of best.Ratio
	lines  []atomic.Pointer[lines] // by side of the direction
	mu     sync.Mutex
	best   Region
}

// filters returns the filters of a level for the sides of the direction.
func (s *scanner) filters(level float64) (list []*lines) {
	for _, side := range s.direction.sides() {
		list = append(list, s.newLines(side, level))
	}
	return list
}

// best returns the first region that overlaps none of those found. With filters, regions below
// their level may be missing. A region of the ratio enough or more ends the search and is returned.
func (s *scanner) best(found []Region, filters []*lines, enough float64, parallel detectors.Parallel) Region {
	if s.proportional {
		return Region{}
	}
	p := &pass{scanner: s, found: found, enough: enough}
	if filters == nil {
		p.seed()
		filters = p.filters(p.best.Ratio)
	}
	p.lines = make([]atomic.Pointer[lines], len(filters))
	for i, l := range filters {
		p.lines[i].Store(l)
	}
	parallel(s.grid.Rows, p.searchFrom)
	return p.best
}

// seed finds a good region, so that the filter is good: among rectangles of sizes that are
// powers of two, half of their size apart, the ones with the largest squared deviation in units
// of its variance.
func (p *pass) seed() {
	rate := float64(p.total.Count) / float64(p.total.Baseline)
	all, most := float64(p.total.Baseline), 0.0
	for h := 1; h <= p.rows; h *= 2 {
		for w := 1; w <= p.cols; w *= 2 {
			for y := 0; y+h <= p.grid.Rows; y += max(1, h/2) {
				for x := 0; x+w <= p.grid.Cols; x += max(1, w/2) {
					r := Rectangle{y, x, y + h - 1, x + w - 1}
					s := p.table.sums(r)
					b := float64(s.Baseline)
					d := float64(s.Count) - rate*b
					switch p.direction {
					case Below:
						d = -d
					case Both:
						d = math.Abs(d)
					}
					if variance := b * (all - b); d > 0 && d*d > most*variance && !p.excluded(r) {
						most = d * d / variance
						p.consider(r)
					}
				}
			}
		}
	}
}

func (p *pass) excluded(r Rectangle) bool {
	return slices.ContainsFunc(p.found, func(o Region) bool { return o.Overlaps(r) })
}

// consider takes a rectangle if it is better than the best one so far.
func (p *pass) consider(r Rectangle) {
	s := p.table.sums(r)
	c := Region{Rectangle: r, Sums: s, Ratio: ratio(p.f, p.direction, s, p.total)}
	if !(c.Ratio > 0) || c.Ratio < math.Float64frombits(p.bar.Load()) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.Beats(&p.best) {
		p.best = c
		p.bar.Store(math.Float64bits(c.Ratio))
		p.done.Store(c.Ratio >= p.enough)
	}
}

// tighten replaces a side's filter once the best region has become so much better that it pays.
func (p *pass) tighten(i int) *lines {
	l, best := p.lines[i].Load(), math.Float64frombits(p.bar.Load())
	if best > l.level*(1+1.0/128) {
		l = p.newLines(l.side, best)
		p.lines[i].Store(l)
	}
	return l
}

// never is a count that keeps a column out of every run.
const never = -1e300

// searchFrom searches the rectangles whose first row is y.
func (p *pass) searchFrom(y int) {
	if p.empty[y] { // a rectangle without this row has the same sums, and is smaller
		return
	}
	for i := range p.lines {
		p.searchSide(y, i)
	}
}

// searchSide searches the rectangles whose first row is y for those on the i-th side of the direction.
func (p *pass) searchSide(y, i int) {
	s := strip{pass: p, y1: y}
	over := p.columnsAbove(y)
	var most [vec.RunLines]float64
	var mask []float64
	for s.y2 = y; s.y2 < min(p.grid.Rows, y+p.rows) && !p.done.Load(); s.y2++ {
		if p.empty[s.y2] {
			continue
		}
		l := p.tighten(i)
		under := p.columnsAbove(s.y2 + 1)
		s.baseline, s.lessBaseline = under.baseline, over.baseline
		s.count, s.lessCount = under.count, over.count
		if l.side == below {
			s.count, s.lessCount = over.count, under.count
		}
		mask = s.mask(mask)
		// A run of up to cols columns lies within one of twice as many, of which one begins
		// at each multiple of cols.
		for from, end := 0, 0; end < p.grid.Cols; from += p.cols {
			end = min(p.grid.Cols, from+2*p.cols)
			vec.MaxRuns(&most, &l.slope, s.count[from:end], s.lessCount[from:end], s.baseline[from:end], s.lessBaseline[from:end])
			for k, sum := range most {
				if sum > l.offset[k] {
					s.examine(from, end, l.slope[k], l.offset[k])
				}
			}
		}
	}
}

// columns are sums of each column, above a row.
type columns struct{ count, baseline []float64 }

// columnsAbove returns the sums of each column above row y.
func (s *scanner) columnsAbove(y int) columns {
	from, end := y*s.grid.Cols, (y+1)*s.grid.Cols
	return columns{s.counts[from:end], s.baselines[from:end]}
}

// strip is the rows from y1 to y2. The sums of its columns, whose sign is the side's for counts, are count - lessCount and
// baseline - lessBaseline.
type strip struct {
	*pass
	y1, y2                                   int
	count, lessCount, baseline, lessBaseline []float64
}

// mask excludes the columns of the regions found from all runs, in memory that it returns.
func (s *strip) mask(memory []float64) []float64 {
	masked := false
	for _, r := range s.found {
		if r.Y1 > s.y2 || s.y1 > r.Y2 {
			continue
		}
		if !masked {
			memory = append(memory[:0], s.count...)
			s.count, masked = memory, true
		}
		for x := r.X1; x <= r.X2; x++ {
			memory[x] = never
		}
	}
	return memory
}

// examine considers the rectangles that lie above a line: of the strip's rows, and of up to cols
// columns among those given.
func (s *strip) examine(from, end int, slope, offset float64) {
	value := func(x int) float64 {
		return s.count[x] - s.lessCount[x] - slope*(s.baseline[x]-s.lessBaseline[x])
	}
	run := 0.0
	for x2 := from; x2 < end; x2++ {
		if run = max(run, 0) + value(x2); run <= offset {
			continue
		}
		sum := 0.0
		for x1 := x2; x1 >= max(from, x2-s.cols+1); x1-- {
			if sum += value(x1); sum > offset {
				s.consider(Rectangle{s.y1, x1, s.y2, x2})
			}
		}
	}
}
