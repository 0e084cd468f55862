package keystate

import "math"

// win is one key's window: a ring of rows that grows in steps. The slab holds
// the times, after them the values row by row, floats as their bits, and last
// what detectors remember of fresh rows.
type win struct {
	slab  []uint64
	count int64 // rows ever pushed
	segs  segments
	rows  int32 // rows there, the newest before pos
	cap   int32
	pos   int32 // where the next row goes
}

// Sizes for State.Bytes; TestSizes compares them.
const (
	keyBytes  = 176 + 32 + 8 // with its slot in the table
	winBytes  = 64
	markBytes = 48
	// slotBytes is a window's SlotRef, where the executor has a window cache.
	slotBytes = 32
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
		// more than 512 KiB, unless one ring is. Pieces are whole pages: of up to
		// that many rings, take the number that leaves least of the last page.
		best, least := 1, 1.0
		for n, most := 1, min(max(1, p.given), max(1, 64<<10/p.words)); n <= most; n++ {
			pages := float64(n*p.words) / 1024
			if lost := math.Ceil(pages)/pages - 1; lost <= least {
				best, least = n, lost
			}
		}
		p.piece = make([]uint64, best*p.words)
	}
	p.given++
	s := p.piece[:p.words:p.words]
	p.piece = p.piece[p.words:]
	return s
}

func (p *slots) put(s []uint64) { p.free = append(p.free, s) }

// grow makes room for more rows: 8, then twice as many, or all that are needed
// where that is not much more.
func (s *State) grow(sw *keyWindow, w *win, atLeast int32) {
	size := max(2*w.cap, 8, atLeast)
	if 4*int64(size) > 3*int64(sw.need) {
		size = sw.need
	}
	nc := int32(len(sw.cols))
	var slab []uint64
	if size == sw.need {
		slab = sw.pool.get()
	} else {
		slab = make([]uint64, int(size*(1+nc))+sw.tail)
	}
	s.bytes += 8 * int64(len(slab)-len(w.slab))
	if w.rows > 0 {
		a, b := w.times(w.rows, 0)
		copy(slab[copy(slab, a):], b)
		a, b = w.values(int(nc), w.rows)
		to := slab[size:]
		copy(to[copy(to, a):], b)
	}
	if w.slab != nil {
		copy(slab[len(slab)-sw.tail:], w.slab[len(w.slab)-sw.tail:])
		s.freeRing(sw, w)
	}
	w.slab, w.cap, w.pos = slab, size, w.rows
}

// freeRing gives the slab of a window back, if it came from the pool.
func (s *State) freeRing(sw *keyWindow, w *win) {
	if w.slab != nil && w.cap == sw.need {
		sw.pool.put(w.slab)
	}
	w.slab = nil
}

// clear empties a window; what the changelog has of it stays known.
func (s *State) clearWin(sw *keyWindow, w *win) {
	s.bytes -= 8 * int64(len(w.slab))
	s.freeRing(sw, w)
	*w = win{segs: w.segs}
}

// push moves the window on by one row and returns its place in the ring; the
// caller writes it. A row that is overwritten must have been saved.
func (s *State) push(sw *keyWindow, w *win) int32 {
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

// fresh are the offsets of the rows that wait for the detector's stride, times 2,
// plus 1 if imputed; mark.n of them count.
func (w *win) fresh(sw *keyWindow, d *keyDetector) []uint64 {
	at := len(w.slab) - sw.tail + d.at
	return w.slab[at : at+int(d.stride)-1]
}

// first is the place in the ring of the oldest of the last rows rows.
func (w *win) first(rows int32) int32 {
	from := w.pos - rows
	if from < 0 {
		from += w.cap
	}
	return from
}

// times returns the times of rows rows, oldest first, in two runs; the last of them
// is skip rows before the newest.
func (w *win) times(rows, skip int32) (a, b []uint64) {
	ring := w.slab[:w.cap]
	from := w.first(rows + skip)
	if over := from + rows - w.cap; over > 0 {
		return ring[from:], ring[:over]
	}
	return ring[from : from+rows], nil
}

// values is times for the values of the last rows rows.
func (w *win) values(cols int, rows int32) (a, b []uint64) {
	ring := w.slab[w.cap : int(w.cap)*(1+cols)]
	from := w.first(rows)
	if over := from + rows - w.cap; over > 0 {
		return ring[int(from)*cols:], ring[:int(over)*cols]
	}
	return ring[int(from)*cols : int(from+rows)*cols], nil
}
