package series

import (
	"math"

	"odradek/detectors/vec"
)

// Window is one key's window: a ring of rows that grows in steps, the newest row before next. The slab has the times, after
// them the values row by row, floats as their bits, and last what detectors remember of fresh rows.
type Window struct {
	slab  []uint64
	cap   int32
	next  int32    // where the next row goes
	Count int64    // rows ever pushed
	Named Segments // the last head names them
	Rows  int32    // rows in the ring
	// rewound counts, modulo 2^32, the changes after which rows are others than the last ones plus new ones.
	rewound uint32
	even    *even // nil: Even was never called
}

// even is what is known of the intervals between a window's newest rows, which changes no result: each of the last rows-1 is least or
// longer, and none is longer than the multiple of it that Even was asked for.
type even struct {
	count   int64 // Window.Count when they were looked at
	least   int64
	rows    int32
	rewound uint32 // Window.rewound then
}

// Even reports whether, of the intervals between the newest n rows, none is longer than times another one, and returns a bound
// from below of them. It looks only at the rows since it was last called, where it can; times is always the same.
func (w *Window) Even(n int32, times int64) (least int64, ok bool) {
	e := w.even
	if e == nil {
		return w.lookAtIntervals(n, times)
	}
	fresh := w.Count - e.count
	if e.rewound != w.rewound || e.rows == 0 || fresh < 0 || fresh >= int64(w.Rows) || int64(e.rows)+fresh < int64(n) {
		return w.lookAtIntervals(n, times)
	}
	for last, i := w.Time(int32(fresh)), int32(fresh)-1; i >= 0; i-- {
		t := w.Time(i)
		if d := t - last; d < e.least || d > times*e.least {
			return w.lookAtIntervals(n, times)
		}
		last = t
	}
	e.count, e.rows = w.Count, min(e.rows+int32(fresh), w.Rows)
	return e.least, true
}

func (w *Window) lookAtIntervals(n int32, times int64) (least int64, ok bool) {
	a, b := w.Times(n, 0)
	most, last := int64(0), a[0]
	least = math.MaxInt64
	for _, part := range [2][]int64{a[1:], b} {
		for _, t := range part {
			d := t - last
			least, most, last = min(least, d), max(most, d), t
		}
	}
	if w.even == nil {
		w.even = new(even)
	}
	*w.even = even{}
	if least < 1 || (most-1)/times >= least {
		return 0, false
	}
	lowest := (most-1)/times + 1 // so that the next interval may be shorter than these, and longer
	*w.even = even{count: w.Count, least: lowest + (least-lowest)/2, rows: n, rewound: w.rewound}
	return w.even.least, true
}

// Sizes of the types in memory; TestSizes compares them.
const (
	windowBytes   = 72
	evenBytes     = 24
	progressBytes = 48
	levelsBytes   = 112
	levelBytes    = 80
)

// first returns the place in the ring of the oldest of the last rows rows.
func (w *Window) first(rows int32) int32 {
	from := w.next - rows
	if from < 0 {
		from += w.cap
	}
	return from
}

// Times returns the times of rows rows, oldest first, in two slices; the last of them
// is skip rows before the newest.
func (w *Window) Times(rows, skip int32) (a, b []int64) {
	ring := vec.BitsI64(w.slab[:w.cap])
	from := w.first(rows + skip)
	if over := from + rows - w.cap; over > 0 {
		return ring[from:], ring[:over]
	}
	return ring[from : from+rows], nil
}

// Time returns the time of the row that is skip rows before the newest.
func (w *Window) Time(skip int32) int64 { return int64(w.slab[w.first(1+skip)]) }

// Values is Times for the bits of the values of the last rows rows.
func (w *Window) Values(cols int, rows int32) (a, b []uint64) {
	ring := w.slab[w.cap : int(w.cap)*(1+cols)]
	from := w.first(rows)
	if over := from + rows - w.cap; over > 0 {
		return ring[int(from)*cols:], ring[:int(over)*cols]
	}
	return ring[int(from)*cols : int(from+rows)*cols], nil
}

// AppendOldest appends the row that the next push overwrites, of a full window.
func (w *Window) AppendOldest(dst []uint64, cols int) []uint64 {
	if cols == 1 {
		return w.AppendOldestValue(dst)
	}
	at := int(w.next)
	return append(append(dst, w.slab[at]), w.slab[int(w.cap)+at*cols:][:cols]...)
}

// AppendOldestValue is AppendOldest for a window of one column.
func (w *Window) AppendOldestValue(dst []uint64) []uint64 {
	return append(dst, w.slab[w.next], w.slab[w.cap+w.next])
}

// Tables returns the cells of a grid's window.
func (w *Window) Tables() Tables { return w.slab[:3*int(w.cap)] }

// grow makes room for more rows: 8, then twice as many, or all that are needed
// where that is not much more. It returns the bytes that this added.
func (w *Window) grow(sw *SetWindow, atLeast int32) (added int64) {
	size := max(2*w.cap, 8, atLeast)
	if 4*int64(size) > 3*int64(sw.Need) {
		size = sw.Need
	}
	nc := int32(len(sw.Columns))
	var slab []uint64
	if size == sw.Need {
		slab = sw.pool.get()
	} else {
		slab = make([]uint64, int(size*(1+nc))+sw.Tail)
	}
	added = 8 * int64(len(slab)-len(w.slab))
	if w.Rows > 0 {
		a, b := w.Times(w.Rows, 0)
		times := vec.BitsI64(slab)
		copy(times[copy(times, a):], b)
		x, y := w.Values(int(nc), w.Rows)
		to := slab[size:]
		copy(to[copy(to, x):], y)
	}
	if w.slab != nil {
		copy(slab[len(slab)-sw.Tail:], w.slab[len(w.slab)-sw.Tail:])
		w.release(sw)
	}
	w.slab, w.cap, w.next = slab, size, w.Rows
	return added
}

// Reserve makes room for one more row and returns the bytes that this added.
func (w *Window) Reserve(sw *SetWindow) (added int64) {
	if w.Rows == w.cap && w.Rows < sw.Need {
		return w.grow(sw, 0)
	}
	return 0
}

// release gives the slab of a window back, if it came from the pool.
func (w *Window) release(sw *SetWindow) {
	if w.slab != nil && w.cap == sw.Need {
		sw.pool.put(w.slab)
	}
	w.slab = nil
}

// clear empties a window; what the changelog has of it stays known.
func (w *Window) clear(sw *SetWindow) {
	w.release(sw)
	*w = Window{Named: w.Named, rewound: w.rewound + 1}
}

// push moves the window on by one row, for which there has to be room (reserve), and
// returns its place in the ring; the caller writes it. A row that is overwritten must
// have been saved.
func (w *Window) push(sw *SetWindow) int32 {
	if w.Rows < sw.Need {
		w.Rows++
	}
	at := w.next
	if w.next++; w.next == w.cap {
		w.next = 0
	}
	w.Count++
	return at
}

// pushRun is push for as many of some rows as follow each other in the ring, of which there is one at least.
func (w *Window) pushRun(sw *SetWindow, most int) (n, at int) {
	at = int(w.next)
	n = min(most, int(w.cap)-at)
	if w.cap < sw.Need {
		n = min(n, int(w.cap-w.Rows))
	}
	w.Rows = min(w.Rows+int32(n), sw.Need)
	if w.next += int32(n); w.next == w.cap {
		w.next = 0
	}
	w.Count += int64(n)
	return n, at
}

// Fresh returns the offsets of the rows that wait for the detector's stride, times 2,
// plus 1 if imputed; Progress.Fresh of them count.
func (w *Window) Fresh(sw *SetWindow, d *SetDetector) []uint64 {
	at := len(w.slab) - sw.Tail + d.at
	return w.slab[at : at+d.waits]
}

// PushValue is PushRow for a value of a window of one column that is not missing.
func (w *Window) PushValue(sw *SetWindow, time int64, v float64) {
	at := w.push(sw)
	w.slab[at] = uint64(time)
	w.slab[w.cap+at] = math.Float64bits(v)
}

// PushRow appends a sample's row, for which there has to be room (reserve). Where it is
// imputed, a missing value is copied from the row before.
func (w *Window) PushRow(sw *SetWindow, time int64, values []float64, imputed bool) {
	nc := len(sw.Columns)
	at := int(w.push(sw))
	w.slab[at] = uint64(time)
	ring := w.slab[w.cap:]
	row := ring[at*nc : at*nc+nc]
	if nc == 1 && !imputed {
		row[0] = math.Float64bits(values[sw.Columns[0]])
		return
	}
	if at == 0 {
		at = int(w.cap)
	}
	last := ring[(at-1)*nc:]
	for j, c := range sw.Columns {
		switch v := values[c]; {
		case v-v == 0:
			row[j] = math.Float64bits(v)
		case imputed:
			row[j] = last[j]
		default:
			row[j] = missingValue
		}
	}
}

// windUp makes first the number of the next row: rows from there on are overwritten,
// and a gap before it empties the window.
func (w *Window) windUp(first int64) {
	if back := w.Count - first; back >= 0 && back <= int64(w.Rows) {
		if back > 0 {
			w.unpush(back)
			w.Rows -= int32(back)
		}
		return
	}
	w.Count, w.Rows, w.next = first, 0, 0
	w.rewound++
}

// unpush reverts the last n pushes, but does not restore the rows that they overwrote.
func (w *Window) unpush(n int64) {
	w.Count -= n
	w.rewound++
	if w.next -= int32(n); w.next < 0 {
		w.next += w.cap
	}
}

// RestoreRow reverts the last push, which overwrote a row.
func (w *Window) RestoreRow(row []uint64) {
	cols := len(row) - 1
	w.unpush(1)
	w.slab[w.next] = row[0]
	copy(w.slab[int(w.cap)+int(w.next)*cols:], row[1:])
}

// Missing returns how many of the window's values a sample lacks: NaN and infinite ones.
func (sw *SetWindow) Missing(values []float64) int {
	n := 0
	for _, c := range sw.Columns {
		if v := values[c]; v-v != 0 {
			n++
		}
	}
	return n
}

// missingValue stands for a missing value in a row of an incomplete window.
var missingValue = math.Float64bits(math.NaN())
