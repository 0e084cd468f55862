package series

import (
	"errors"
	"fmt"
	"math"

	"odradek/detectors"
	"odradek/processor/anomaly"
)

// Grid describes a window of cells: samples are events at places of a box, and the cells of the box
// count them. A window covers Span of event time and ends with a stride in which it has samples: windows overlap
// where Stride is less than Span. The rows of such a Window are one table for each stride of Span: the cells, row after
// row of the grid, of a count and a baseline, both whole; the time of each is that from which its table counts. The
// tables make a ring by time. Window.Count grows by the number of cells with each table, the first time by the cells of
// all tables.
//
// The baseline of a cell is the sum of the samples' baselines, or 1 without them. A learnt one is 1
// and the sum of the cell's counts in all strides before the window that had samples: it is in proportion to
// their mean, with one stride of a count of 1 in each cell before them. Where no baselines come with samples, a
// table has as baselines the baselines of the tables whose place it took, with the counts of these if baselines are learnt.
type Grid struct {
	Columns, Rows   int
	X, Y            int        // places of a sample, as indices into its values
	Count, Baseline int        // likewise; negative: there is none, and a sample counts 1
	Fields          [4]string  // names of X, Y, Count and Baseline, for people
	Box             [4]float64 // x0, y0, x1, y1: places from x0 up to x1, which is outside
	Span            int64      // microseconds of a window
	Stride          int64      // from a window to the next, of which Span is a multiple; windows begin at multiples of it. 0: Span
	Learn           int        // strides before the window that a learnt baseline needs; 0: it is not learnt
	Signed          bool       // counts may be negative
}

// MaxCount is the largest count of a sample, and the largest baseline: sums of cells up to it
// are exact in float64.
const MaxCount = 1 << 53

// Cells returns the number of cells.
func (g *Grid) Cells() int { return g.Columns * g.Rows }

// stride returns the microseconds of a stride.
func (g *Grid) stride() int64 {
	if g.Stride == 0 {
		return g.Span
	}
	return g.Stride
}

// Tables returns the number of strides of a window.
func (g *Grid) Tables() int { return int(g.Span / g.stride()) }

// Start returns the start of the stride that a time is in.
func (g *Grid) Start(time int64) int64 {
	over := time % g.stride()
	if over < 0 {
		over += g.stride()
	}
	return time - over
}

// End returns the end of the stride that begins at start.
func (g *Grid) End(start int64) int64 { return start + g.stride() }

// windowStart returns the start of the window whose last stride begins at start.
func (g *Grid) windowStart(start int64) int64 { return g.End(start) - g.Span }

// place returns the index of a stride's table among the Window's tables.
func (g *Grid) place(start int64) int {
	n := int64(g.Tables())
	return int((start/g.stride()%n + n) % n)
}

// Check returns all faults of the grid of a window with these columns, of samples of dim values.
func (g *Grid) Check(columns []int, dim int) error {
	var errs []error
	if g.Columns < 1 || g.Rows < 1 || g.Columns > MaxRows/g.Rows {
		errs = append(errs, fmt.Errorf("a grid of %d columns and %d rows", g.Columns, g.Rows))
	}
	if g.Span < 1 || g.Learn < 0 || g.Learn > 0 && g.Baseline >= 0 {
		errs = append(errs, fmt.Errorf("a grid over %d microseconds that learns for %d windows", g.Span, g.Learn))
	} else if g.Stride < 0 || g.Span%g.stride() != 0 || len(errs) == 0 && g.Span/g.stride() > int64(MaxRows/g.Cells()) {
		errs = append(errs, fmt.Errorf("windows of %d microseconds every %d, of %d cells", g.Span, g.Stride, g.Cells()))
	}
	if len(columns) != 2 || columns[0] != g.X || columns[1] != g.Y || max(g.Count, g.Baseline) >= dim {
		errs = append(errs, fmt.Errorf("columns %v of a grid's window, use x and y", columns))
	}
	if b := g.Box; !(b[2] > b[0] && b[3] > b[1]) || math.IsInf(b[2]-b[0], 0) || math.IsInf(b[3]-b[1], 0) {
		errs = append(errs, fmt.Errorf("a grid over the empty box %v", b))
	}
	return errors.Join(errs...)
}

// The classes of a PlaceError, which are classes of dead letters.
const (
	OutsideGrid = "outside_grid"
	BadCount    = "bad_count"
)

// PlaceError says why a grid cannot count a sample.
type PlaceError struct {
	Class string // OutsideGrid or BadCount
	Field string
	Value float64
	Why   string
}

func (e *PlaceError) Error() string { return fmt.Sprintf("%v is %s", e.Value, e.Why) }

// Place returns the cell of a sample, its count and its baseline. ok is false where one of its values is
// missing. A sample outside the box, or that counts no whole number, has a PlaceError.
func (g *Grid) Place(values []float64) (cell int, count, baseline float64, ok bool, err *PlaceError) {
	count, baseline = 1, 0
	for i, column := range [...]int{g.X, g.Y, g.Count, g.Baseline} {
		if column < 0 {
			continue
		}
		v := values[column]
		if v-v != 0 {
			return 0, 0, 0, false, nil
		}
		fault := func(class, why string, args ...any) (int, float64, float64, bool, *PlaceError) {
			return 0, 0, 0, false, &PlaceError{class, g.Fields[i], v, fmt.Sprintf(why, args...)}
		}
		if i < 2 {
			at, inside := axis(v, g.Box[i], g.Box[i+2], [...]int{g.Columns, g.Rows}[i])
			if !inside {
				return fault(OutsideGrid, "outside the grid, which is from %v up to %v", g.Box[i], g.Box[i+2])
			}
			cell += at * [...]int{1, g.Columns}[i]
			continue
		}
		switch {
		case v != math.Trunc(v) || math.Abs(v) > MaxCount:
			return fault(BadCount, "not a whole number up to 2^53")
		case v < 0 && (i == 3 || !g.Signed):
			return fault(BadCount, "less than 0")
		}
		if i == 2 {
			count = v
		} else {
			baseline = v
		}
	}
	return cell, count, baseline, true, nil
}

// axis returns the cell of a place on an axis of n cells from lo up to hi.
func axis(v, lo, hi float64, n int) (cell int, ok bool) {
	if v < lo || v >= hi {
		return 0, false
	}
	return min(n-1, int((v-lo)/(hi-lo)*float64(n))), true
}

// Corner returns the place of the lower corner of a cell.
func (g *Grid) Corner(column, row int) (x, y float64) {
	at := func(i, n int, lo, hi float64) float64 {
		if i == n {
			return hi
		}
		return lo + (hi-lo)*float64(i)/float64(n)
	}
	return at(column, g.Columns, g.Box[0], g.Box[2]), at(row, g.Rows, g.Box[1], g.Box[3])
}

// Region returns a region of the grid with its corners, of a detector whose windows are no grid with the corners
// of its cells; nil for nil.
func (s *Setup) Region(r *detectors.Region) *anomaly.Region {
	if r == nil {
		return nil
	}
	e := &anomaly.Region{
		ColumnFrom: int32(r.From[1]), ColumnTo: int32(r.To[1]), RowFrom: int32(r.From[0]), RowTo: int32(r.To[0]),
		X0: float64(r.From[1]), Y0: float64(r.From[0]), X1: float64(r.To[1] + 1), Y1: float64(r.To[0] + 1),
		Observed: r.Observed, Expected: r.Expected, Ratio: r.Ratio, P: r.P,
	}
	if g := s.Grid; g != nil {
		e.X0, e.Y0 = g.Corner(r.From[1], r.From[0])
		e.X1, e.Y1 = g.Corner(r.To[1]+1, r.To[0]+1)
	}
	return e
}

// GridOpen reports whether the i-th window, of a grid, has samples in its newest stride, and returns the
// start of that: of the next stride at the earliest, where it has none, and the least time before the first.
func (s *Series) GridOpen(i int) (start int64, open bool) {
	w, sw := &s.Windows[i], &s.Set.Windows[i]
	if w.Rows == 0 {
		return minTime, false
	}
	if start = w.Tables().newest(sw.Grid); s.Progress[sw.Detectors[0].Place].Fresh == 0 {
		return sw.Grid.End(start), false
	}
	return start, true
}

// joinStride has all detectors of the i-th window, of a grid, score the stride that is open when it ends, also those that
// did not read the series when its samples came: they are in the tables of the window. word is the offset of the last one.
func (s *Series) joinStride(i int, word uint64) {
	w, sw := &s.Windows[i], &s.Set.Windows[i]
	if w.Rows == 0 {
		return
	}
	for j := range sw.Detectors {
		d := &sw.Detectors[j]
		s.Progress[d.Place].Fresh = 1
		w.Fresh(sw, d)[0] = word
	}
}

// ClosesAt reports whether one of the series' grids has a window that ends at a time.
func (s *Series) ClosesAt(end int64) bool {
	for i := range s.Windows {
		if g := s.Set.Windows[i].Grid; g != nil {
			if start, open := s.GridOpen(i); open && g.End(start) == end {
				return true
			}
		}
	}
	return false
}

// Open begins the next stride of the grid's window at start, and returns the bytes that this added.
// The table whose place it takes must have been saved (Tables.Append).
func (g *Grid) Open(w *Window, sw *SetWindow, start int64) (added int64) {
	n := g.Cells()
	if w.slab == nil {
		added = w.grow(sw, int32(n*g.Tables()))
	}
	t := w.Tables()
	from := g.Row(start, 0)
	if w.Rows > 0 {
		w.Count += int64(n)
		for i := from; i < from+n; i++ {
			t[i] = uint64(start)
			count, baseline := t.at(i)
			switch {
			case g.Baseline >= 0:
				baseline = 0
			case g.Learn > 0:
				baseline += count
			}
			t.set(i, 0, baseline)
		}
		return added
	}
	w.Rows, w.next = int32(n*g.Tables()), 0
	w.Count += int64(w.Rows)
	for i := range int(w.Rows) {
		t[i] = uint64(start - g.Span) // no stride of the window
		t.set(i, 0, 0)
	}
	for i := from; i < from+n; i++ {
		t[i] = uint64(start)
		if g.Baseline < 0 {
			t.set(i, 0, 1)
		}
	}
	return added
}

// Tables is the content of a grid's window, of a row for each cell of each table: the start of the table's stride,
// and behind the starts of all rows the count and the baseline of each, floats as their bits.
type Tables []uint64

// Left returns how many further strides with samples, at the least, come until a window is scored, which needs as many of them
// before it as the grid's baseline learns from; 0: the newest window is scored. rows is the number of rows that the Window
// has ever had.
func (t Tables) Left(g *Grid, rows int64) int32 {
	start, within := g.windowStart(t.newest(g)), 0
	for i := 0; i < len(t)/3; i += g.Cells() {
		if int64(t[i]) >= start {
			within++
		}
	}
	strides := rows/int64(g.Cells()) - int64(g.Tables()) + 1
	if strides-int64(within) >= int64(g.Learn) {
		return 0
	}
	return int32(max(1, int64(g.Learn)+1-strides)) // after a gap the window has one stride
}

// Row returns the row of a cell in the table of the stride that begins at start.
func (g *Grid) Row(start int64, cell int) int { return g.place(start)*g.Cells() + cell }

// newest returns the start of the newest stride that has a table.
func (t Tables) newest(g *Grid) int64 {
	start := int64(t[0])
	for i := g.Cells(); i < len(t)/3; i += g.Cells() {
		start = max(start, int64(t[i]))
	}
	return start
}

// row returns the count and the baseline of a row.
func (t Tables) row(i int) []uint64 { return t[len(t)/3+2*i:][:2:2] }

func (t Tables) at(i int) (count, baseline float64) {
	r := t.row(i)
	return math.Float64frombits(r[0]), math.Float64frombits(r[1])
}

func (t Tables) set(i int, count, baseline float64) {
	r := t.row(i)
	r[0], r[1] = math.Float64bits(count), math.Float64bits(baseline)
}

// Append appends, for Restore, the table whose place is taken by the stride that begins at start.
func (t Tables) Append(dst []uint64, g *Grid, start int64) []uint64 {
	from, n := g.Row(start, 0), g.Cells()
	dst = append(append(dst, uint64(from)), t[from:from+n]...)
	return append(dst, t[len(t)/3+2*from:][:2*n]...)
}

// Restore restores what Append has appended.
func (t Tables) Restore(words []uint64) {
	from, n := int(words[0]), (len(words)-1)/3
	copy(t[from:], words[1:1+n])
	copy(t[len(t)/3+2*from:], words[1+n:])
}

// AppendCell appends what Add changes.
func (t Tables) AppendCell(dst []uint64, row int) []uint64 {
	return append(append(dst, uint64(row)), t.row(row)...)
}

// RestoreCell restores what AppendCell has appended.
func (t Tables) RestoreCell(words []uint64) { copy(t.row(int(words[0])), words[1:]) }

// Add adds to the count and the baseline of a row.
func (t Tables) Add(row int, count, baseline float64) {
	c, b := t.at(row)
	t.set(row, c+count, b+baseline)
}

// Sum adds the count and the baseline of each cell in the newest window to dst, two values a cell, and returns
// the window's start.
func (t Tables) Sum(g *Grid, dst []float64) (start int64) {
	start = g.windowStart(t.newest(g))
	for i := range len(t) / 3 {
		count, baseline := t.at(i)
		sum := dst[2*(i%g.Cells()):][:2]
		switch {
		case int64(t[i]) >= start:
			sum[0], sum[1] = sum[0]+count, sum[1]+baseline
		case g.Learn > 0:
			sum[1] += count + baseline
		case g.Baseline < 0:
			sum[1] += baseline
		}
	}
	return start
}
