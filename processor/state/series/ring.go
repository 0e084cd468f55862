package series

// ring holds the rows of a window, the newest before next. The slab has the times, after
// them the values row by row, floats as their bits, and last what detectors remember of
// fresh rows.
type ring struct {
	slab []uint64
	cap  int32
	next int32 // where the next row goes
}

// first returns the place in the ring of the oldest of the last rows rows.
func (r *ring) first(rows int32) int32 {
	from := r.next - rows
	if from < 0 {
		from += r.cap
	}
	return from
}

// Times returns the times of rows rows, oldest first, in two slices; the last of them
// is skip rows before the newest.
func (r *ring) Times(rows, skip int32) (a, b []uint64) {
	ring := r.slab[:r.cap]
	from := r.first(rows + skip)
	if over := from + rows - r.cap; over > 0 {
		return ring[from:], ring[:over]
	}
	return ring[from : from+rows], nil
}

// Time returns the time of the row that is skip rows before the newest.
func (r *ring) Time(skip int32) uint64 { return r.slab[r.first(1+skip)] }

// Values is Times for the values of the last rows rows.
func (r *ring) Values(cols int, rows int32) (a, b []uint64) {
	ring := r.slab[r.cap : int(r.cap)*(1+cols)]
	from := r.first(rows)
	if over := from + rows - r.cap; over > 0 {
		return ring[int(from)*cols:], ring[:int(over)*cols]
	}
	return ring[int(from)*cols : int(from+rows)*cols], nil
}

// AppendOldest appends the row that the next push overwrites, of a full window.
func (r *ring) AppendOldest(dst []uint64, cols int) []uint64 {
	if cols == 1 {
		return r.AppendOldestValue(dst)
	}
	at := int(r.next)
	return append(append(dst, r.slab[at]), r.slab[int(r.cap)+at*cols:][:cols]...)
}

// AppendOldestValue is AppendOldest for a window of one column.
func (r *ring) AppendOldestValue(dst []uint64) []uint64 {
	return append(dst, r.slab[r.next], r.slab[r.cap+r.next])
}

// back moves next back by n rows.
func (r *ring) back(n int64) {
	if r.next -= int32(n); r.next < 0 {
		r.next += r.cap
	}
}

// Tables returns the cells of a grid's window.
func (r *ring) Tables() Tables { return r.slab[:3*int(r.cap)] }
