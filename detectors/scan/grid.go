package scan

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
)

// MaxTotal is the largest sum of the absolute counts of a grid, and of its baselines, so that
// sums of cells are exact in float64.
const MaxTotal = 1 << 53

// MaxCells is the largest number of cells of a grid.
const MaxCells = 1 << 24

// Grid has a count and a baseline for each cell, row after row: row y and column x
// are at y*Cols+x.
type Grid struct {
	Rows, Cols      int
	Count, Baseline []int64
}

// faultsNamed is the most cells that an error of Check names.
const faultsNamed = 8

// Check returns an error for a grid that the family f excludes: it names the fault of the shape, or the
// first faulty cells.
func (g *Grid) Check(f Family) error {
	if g.Rows < 1 || g.Cols < 1 || g.Rows > MaxCells/g.Cols {
		return fmt.Errorf("scan: a grid of %d x %d cells, use at least 1 x 1 and at most %d cells", g.Rows, g.Cols, MaxCells)
	}
	if n := g.Rows * g.Cols; len(g.Count) != n || len(g.Baseline) != n {
		return fmt.Errorf("scan: %d counts and %d baselines for %d x %d cells", len(g.Count), len(g.Baseline), g.Rows, g.Cols)
	}
	var faults []error
	var count, baseline uint64
	for i, c := range g.Count {
		err := checkCell(f, c, g.Baseline[i])
		count, baseline = count+magnitude(c), baseline+magnitude(g.Baseline[i])
		if err == nil && (count > MaxTotal || baseline > MaxTotal) {
			return errors.New("scan: counts or baselines sum up to more than 2^53: use a coarser unit")
		}
		if err != nil && len(faults) < faultsNamed {
			faults = append(faults, fmt.Errorf("scan: cell (y %d, x %d): %w", i/g.Cols, i%g.Cols, err))
		}
		if count, baseline = min(count, MaxTotal+1), min(baseline, MaxTotal+1); len(faults) == faultsNamed {
			break
		}
	}
	return errors.Join(faults...)
}

func magnitude(v int64) uint64 {
	if v < 0 {
		return -uint64(v)
	}
	return uint64(v)
}

func checkCell(f Family, c, b int64) error {
	switch {
	case b < 0:
		return fmt.Errorf("the baseline %d is negative", b)
	case b == 0 && c != 0:
		return fmt.Errorf("the count %d has a baseline of 0", c)
	case b == 0:
		return nil
	}
	return f.Check(c, b)
}

// total returns the sums of all cells.
func (g *Grid) total() Sums {
	var s Sums
	for i, c := range g.Count {
		s.Count += c
		s.Baseline += g.Baseline[i]
	}
	return s
}

// Sums are the sums of the cells of a rectangle, or of a grid.
type Sums struct{ Count, Baseline int64 }

// excess returns by how much the count exceeds the expected one, b*total.Count/total.Baseline; less than 0 where it falls
// short. The difference of the products is exact, and so is its sign: proportional rectangles
// have 0. Two roundings follow.
func (s Sums) excess(total Sums) float64 {
	hi, lo := product(s.Count, total.Baseline)
	h, l := product(s.Baseline, total.Count)
	lo, borrow := bits.Sub64(lo, l, 0)
	hi -= h + int64(borrow)
	if hi == 0 && lo == 0 {
		return 0
	}
	if hi < 0 {
		lo, borrow = bits.Sub64(0, lo, 0)
		hi = -hi - int64(borrow)
		return -(float64(hi)*(1<<64) + float64(lo)) / float64(total.Baseline)
	}
	return (float64(hi)*(1<<64) + float64(lo)) / float64(total.Baseline)
}

// product returns a*b in 128 bits.
func product(a, b int64) (hi int64, lo uint64) {
	h, lo := bits.Mul64(uint64(a), uint64(b))
	return int64(h) - a>>63&b - b>>63&a, lo
}

// expected returns the count of a baseline b at the rate of the grid, whose sums s are.
func (s Sums) expected(b float64) float64 { return b / float64(s.Baseline) * float64(s.Count) }

// Rectangle has the cells of rows Y1 to Y2 and columns X1 to X2, inclusive.
type Rectangle struct{ Y1, X1, Y2, X2 int }

// Area returns the number of cells.
func (r Rectangle) Area() int { return (r.Y2 - r.Y1 + 1) * (r.X2 - r.X1 + 1) }

// Overlaps reports whether the rectangles share a cell.
func (r Rectangle) Overlaps(o Rectangle) bool {
	return r.Y1 <= o.Y2 && o.Y1 <= r.Y2 && r.X1 <= o.X2 && o.X1 <= r.X2
}

// compare orders rectangles of equal ratio.
func (r Rectangle) compare(o Rectangle) int {
	return cmp.Or(cmp.Compare(r.Area(), o.Area()), cmp.Compare(r.Y1, o.Y1), cmp.Compare(r.X1, o.X1), cmp.Compare(r.Y2, o.Y2),
		cmp.Compare(r.X2, o.X2))
}

// Region is a rectangle with its counts and ratio.
type Region struct {
	Rectangle
	Sums
	Expected float64 // the count expected from the baseline
	Ratio    float64 // the log-likelihood ratio
}

// Beats reports whether a region comes before another.
func (r *Region) Beats(o *Region) bool {
	return r.Ratio > o.Ratio || r.Ratio == o.Ratio && r.compare(o.Rectangle) < 0
}

// Direction says which rectangles are anomalous: those whose counts are above what is expected, below it, or both.
type Direction uint8

// The directions.
const (
	Above Direction = iota
	Below
	Both
)

// sides returns the signs of the excesses of anomalous rectangles.
func (d Direction) sides() []side {
	switch d {
	case Above:
		return []side{above}
	case Below:
		return []side{below}
	}
	return []side{above, below}
}

// side is the sign of an excess.
type side float64

const (
	above side = 1
	below side = -1
)

// Options are the limits of a search; the zero value asks for the rectangle that is most anomalous of all above what is expected.
type Options struct {
	Top              int // regions; 0 is 1
	MaxRows, MaxCols int // the largest rectangle; 0 is the grid's
	Direction        Direction
}

func (o Options) limits(g *Grid) (top, rows, cols int) {
	top, rows, cols = max(1, o.Top), g.Rows, g.Cols
	if o.MaxRows > 0 {
		rows = min(rows, o.MaxRows)
	}
	if o.MaxCols > 0 {
		cols = min(cols, o.MaxCols)
	}
	return top, rows, cols
}

// table are summed areas: the counts and baselines of the cells above and left of a corner.
type table struct {
	stride int
	sum    []Sums
}

func newTable(g *Grid) table {
	t := table{g.Cols + 1, make([]Sums, (g.Rows+1)*(g.Cols+1))}
	t.fill(g)
	return t
}

// fill computes the sums of a grid of the table's shape.
func (t *table) fill(g *Grid) {
	for y := range g.Rows {
		var row Sums
		for x := range g.Cols {
			row.Count += g.Count[y*g.Cols+x]
			row.Baseline += g.Baseline[y*g.Cols+x]
			above := t.sum[y*t.stride+x+1]
			t.sum[(y+1)*t.stride+x+1] = Sums{above.Count + row.Count, above.Baseline + row.Baseline}
		}
	}
}

// sums returns the sums of a rectangle.
func (t *table) sums(r Rectangle) Sums {
	a, b := t.sum[r.Y1*t.stride:], t.sum[(r.Y2+1)*t.stride:]
	return Sums{
		b[r.X2+1].Count - b[r.X1].Count - a[r.X2+1].Count + a[r.X1].Count,
		b[r.X2+1].Baseline - b[r.X1].Baseline - a[r.X2+1].Baseline + a[r.X1].Baseline,
	}
}
