package keystate

import "math"

// win is one key's window: a ring of rows that grows in steps. The slab holds
// the origin (a value a column), the times, and the values row by row; floats
// are kept as their bits.
type win struct {
	slab  []uint64
	count int64 // rows ever pushed
	// Segments [segFrom, segTo) of the changelog, in rows, both multiples of the
	// segment size.
	segFrom, segTo int64
	rows           int32 // rows there, the newest before pos
	cap            int32
	pos            int32 // where the next row goes; count % cap once the ring is full-grown
	origin         bool  // the origin is set
}

// Sizes for State.Bytes, from unsafe.Sizeof.
const (
	keyBytes  = 208 + 32 // with its slot in the table
	winBytes  = 64
	markBytes = 64
)

// slots hands out rings of the final size from large pieces of memory: an
// allocation each would be rounded up by up to an eighth.
type slots struct {
	words int
	piece []uint64
	free  [][]uint64
	given int
}

func (p *slots) get() []uint64 {
	if n := len(p.free); n > 0 {
		s := p.free[n-1]
		p.free = p.free[:n-1]
		return s
	}
	if len(p.piece) < p.words {
		// The first pieces are small, for partitions of few keys; no piece is
		// more than 512 KiB, unless one ring is.
		n := min(max(1, p.given), max(1, 64<<10/p.words))
		p.piece = make([]uint64, n*p.words)
	}
	p.given++
	s := p.piece[:p.words:p.words]
	p.piece = p.piece[p.words:]
	return s
}

func (p *slots) put(s []uint64) { p.free = append(p.free, s) }

// grow makes room for more rows: 8, then twice as many, or all that are needed
// where that is not much more. It also places the rows where pos wraps to 0 when
// count is a multiple of the final size.
func (s *State) grow(sw *shapeWin, w *win, atLeast int32) {
	size := max(2*w.cap, 8, atLeast)
	if 4*int64(size) > 3*int64(sw.need) {
		size = sw.need
	}
	nc := int32(len(sw.cols))
	var slab []uint64
	if size == sw.need {
		slab = sw.pool.get()
	} else {
		slab = make([]uint64, nc+size*(1+nc))
	}
	s.bytes += 8 * int64(len(slab)-len(w.slab))
	to := int32(0)
	if size == sw.need {
		to = int32((w.count - int64(w.rows)) % int64(size))
	}
	if w.slab != nil {
		copy(slab[:nc], w.slab[:nc])
		from := w.pos - w.rows
		if from < 0 {
			from += w.cap
		}
		for range w.rows {
			slab[nc+to] = w.slab[nc+from]
			copy(slab[nc+size+to*nc:][:nc], w.slab[nc+w.cap+from*nc:][:nc])
			if to++; to == size {
				to = 0
			}
			if from++; from == w.cap {
				from = 0
			}
		}
		s.freeRing(sw, w)
	}
	w.slab, w.cap, w.pos = slab, size, to
}

// freeRing gives the slab of a window back, if it came from the pool.
func (s *State) freeRing(sw *shapeWin, w *win) {
	if w.slab != nil && w.cap == sw.need {
		sw.pool.put(w.slab)
	}
	w.slab = nil
}

// clear empties a window; what the changelog has of it stays known.
func (s *State) clearWin(sw *shapeWin, w *win) {
	s.bytes -= 8 * int64(len(w.slab))
	s.freeRing(sw, w)
	*w = win{segFrom: w.segFrom, segTo: w.segTo}
}

// push moves the window on by one row and returns its place in the ring; the
// caller writes it. A row that is overwritten must have been saved.
func (s *State) push(sw *shapeWin, w *win) int32 {
	if w.rows < sw.need {
		if w.rows == w.cap {
			s.grow(sw, w, 0)
		}
		w.rows++
	}
	at := w.pos
	if w.pos++; w.pos == w.cap {
		w.pos = 0
	}
	w.count++
	return at
}

// first is the place in the ring of the oldest of the last rows rows.
func (w *win) first(rows int32) int32 {
	from := w.pos - rows
	if from < 0 {
		from += w.cap
	}
	return from
}

// times returns the times of the last rows rows, oldest first, in two runs.
func (w *win) times(cols int, rows int32) (a, b []uint64) {
	ring := w.slab[cols : cols+int(w.cap)]
	from := w.first(rows)
	if over := from + rows - w.cap; over > 0 {
		return ring[from:], ring[:over]
	}
	return ring[from : from+rows], nil
}

// values is times for the values.
func (w *win) values(cols int, rows int32) (a, b []uint64) {
	ring := w.slab[cols+int(w.cap):]
	from := w.first(rows)
	if over := from + rows - w.cap; over > 0 {
		return ring[int(from)*cols:], ring[:int(over)*cols]
	}
	return ring[int(from)*cols : int(from+rows)*cols], nil
}

// center moves the origin to the mean of the rows. The sum runs from the oldest
// row to the newest, wherever they lie.
func (w *win) center(cols int) {
	a, b := w.values(cols, w.rows)
	for c := range cols {
		sum := 0.0
		for i := c; i < len(a); i += cols {
			sum += math.Float64frombits(a[i])
		}
		for i := c; i < len(b); i += cols {
			sum += math.Float64frombits(b[i])
		}
		m := sum / float64(w.rows)
		if m-m != 0 { // the sum of huge values
			m = math.Float64frombits(a[c])
		}
		w.slab[c] = math.Float64bits(m)
	}
	w.origin = true
}
