package series

import (
	"errors"
	"fmt"
	"math"

	"odradek/detectors"
	"odradek/processor/events"
)

// Grid describes a window of cells: samples are events at places of a box, and the cells of the box
// count them from a time on, for Span of event time (a tumbling window). The rows of such a
// Window are the cells, row after row of the grid, of a count and a baseline, both whole; the time of
// each is that from which it counts. Window.Count is the number of cells of all windows so far.
//
// The baseline of a cell is the sum of the samples' baselines, or 1 without them. A learnt one is 1
// and the sum of the cell's counts in all earlier windows that had samples: it is in proportion to
// their mean, with one window of a count of 1 in each cell before them.
type Grid struct {
	Columns, Rows   int
	X, Y            int        // places of a sample, as indices into its values
	Count, Baseline int        // likewise; negative: there is none, and a sample counts 1
	Fields          [4]string  // names of X, Y, Count and Baseline, for people
	Box             [4]float64 // x0, y0, x1, y1: places from x0 up to x1, which is outside
	Span            int64      // microseconds of a window; windows begin at multiples of it
	Learn           int        // earlier windows that a learnt baseline needs; 0: it is not learnt
	Signed          bool       // counts may be negative
}

// MaxCount is the largest count of a sample, and the largest baseline: sums of cells up to it
// are exact in float64.
const MaxCount = 1 << 53

// Cells returns the number of cells.
func (g *Grid) Cells() int { return g.Columns * g.Rows }

// Start returns the start of the window that a time is in.
func (g *Grid) Start(time int64) int64 {
	over := time % g.Span
	if over < 0 {
		over += g.Span
	}
	return time - over
}

// Check says what is wrong with the grid of a window with these columns, of samples of dim values,
// everything at once.
func (g *Grid) Check(columns []int, dim int) error {
	var errs []error
	if g.Columns < 1 || g.Rows < 1 || g.Columns > MaxRows/g.Rows {
		errs = append(errs, fmt.Errorf("a grid of %d columns and %d rows", g.Columns, g.Rows))
	}
	if g.Span < 1 || g.Learn < 0 || g.Learn > 0 && g.Baseline >= 0 {
		errs = append(errs, fmt.Errorf("a grid over %d microseconds that learns for %d windows", g.Span, g.Learn))
	}
	if len(columns) != 2 || columns[0] != g.X || columns[1] != g.Y || max(g.Count, g.Baseline) >= dim {
		errs = append(errs, fmt.Errorf("columns %v of a grid's window, use x and y", columns))
	}
	if b := g.Box; !(b[2] > b[0] && b[3] > b[1]) || math.IsInf(b[2]-b[0], 0) || math.IsInf(b[3]-b[1], 0) {
		errs = append(errs, fmt.Errorf("a grid over the empty box %v", b))
	}
	return errors.Join(errs...)
}

// PlaceError is the reason why a sample is no event of a grid.
type PlaceError struct {
	Class string // of a dead letter
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
				return fault("outside_grid", "outside the grid, which is from %v up to %v", g.Box[i], g.Box[i+2])
			}
			cell += at * [...]int{1, g.Columns}[i]
			continue
		}
		switch {
		case v != math.Trunc(v) || math.Abs(v) > MaxCount:
			return fault("bad_count", "not a whole number up to 2^53")
		case v < 0 && (i == 3 || !g.Signed):
			return fault("bad_count", "less than 0")
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

// Region returns a region of the grid with its corners, of a detector whose windows are no grid with those
// of its cells; nil for nil.
func (d *Setup) Region(r *detectors.Region) *events.Region {
	if r == nil {
		return nil
	}
	e := &events.Region{
		ColumnFrom: int32(r.From[1]), ColumnTo: int32(r.To[1]), RowFrom: int32(r.From[0]), RowTo: int32(r.To[0]),
		X0: float64(r.From[1]), Y0: float64(r.From[0]), X1: float64(r.To[1] + 1), Y1: float64(r.To[0] + 1),
		Observed: r.Observed, Expected: r.Expected, Ratio: r.Ratio, P: r.P,
	}
	if g := d.Grid; g != nil {
		e.X0, e.Y0 = g.Corner(r.From[1], r.From[0])
		e.X1, e.Y1 = g.Corner(r.To[1]+1, r.To[0]+1)
	}
	return e
}

// GridOpen reports whether the i-th window, of a grid, has samples since its start, and returns the
// start: of the next window at the earliest, where it has none, and the least time before the first.
func (k *Series) GridOpen(i int) (start int64, open bool) {
	w, sw := &k.Windows[i], &k.Set.Windows[i]
	if w.Rows == 0 {
		return minTime, false
	}
	if start = int64(w.slab[0]); k.Progress[sw.Detectors[0].Place].Fresh == 0 {
		return start + sw.Grid.Span, false
	}
	return start, true
}

// ClosesAt reports whether one of the series' grids has a window that ends at a time.
func (k *Series) ClosesAt(end int64) bool {
	for i := range k.Windows {
		if g := k.Set.Windows[i].Grid; g != nil {
			if start, open := k.GridOpen(i); open && start+g.Span == end {
				return true
			}
		}
	}
	return false
}

// Closed reports whether the watermark has closed the window of a grid that a time is in.
func (set *Set) Closed(time, watermark int64) bool {
	if set == nil || watermark <= time {
		return false
	}
	for i := range set.Windows {
		if g := set.Windows[i].Grid; g != nil && g.Start(time)+g.Span <= watermark {
			return true
		}
	}
	return false
}

// OpenGrid begins the grid's next window at start, and returns the bytes that this added.
// Rows that are there must have been saved (Table.Append).
func (w *Window) OpenGrid(sw *SetWindow, start int64) (added int64) {
	n := int32(sw.Grid.Cells())
	if w.slab == nil {
		added = w.grow(sw, n)
	}
	first := w.Rows == 0
	w.Count, w.Rows, w.next = w.Count+int64(n), n, 0
	table := w.Table()
	for i := range int(n) {
		table[i] = uint64(start)
		cell := table.cell(i)
		baseline := 1.0
		switch {
		case sw.Grid.Baseline >= 0:
			baseline = 0
		case sw.Grid.Learn > 0 && !first:
			baseline = math.Float64frombits(cell[0]) + math.Float64frombits(cell[1])
		}
		cell[0], cell[1] = 0, math.Float64bits(baseline)
	}
	return added
}

// Table returns the cells of a grid's window.
func (w *Window) Table() Table { return w.slab[:3*int(w.cap)] }

// Learned reports whether the window that is open has as many before it as its baseline needs.
func (w *Window) Learned(g *Grid) bool { return w.Count/int64(g.Cells())-1 >= int64(g.Learn) }

// Table is the content of a grid's window: the start of each of its cells, which is the window's, and
// behind all of them the count and the baseline of each, floats as their bits.
type Table []uint64

// cell returns the count and the baseline of a cell.
func (t Table) cell(i int) []uint64 { return t[len(t)/3+2*i:][:2:2] }

// Append appends all cells, for Restore.
func (t Table) Append(dst []uint64) []uint64 { return append(dst, t...) }

// Restore is the opposite of Append.
func (t Table) Restore(words []uint64) { copy(t, words) }

// AppendCell appends what AddCell changes.
func (t Table) AppendCell(dst []uint64, cell int) []uint64 {
	return append(append(dst, uint64(cell)), t.cell(cell)...)
}

// RestoreCell is the opposite of AppendCell.
func (t Table) RestoreCell(words []uint64) { copy(t.cell(int(words[0])), words[1:]) }

// AddCell adds to the count and the baseline of a cell.
func (t Table) AddCell(cell int, count, baseline float64) {
	c := t.cell(cell)
	c[0] = math.Float64bits(math.Float64frombits(c[0]) + count)
	c[1] = math.Float64bits(math.Float64frombits(c[1]) + baseline)
}
