package detectors

import "math"

// Consecutive windows of a series have nearly all rows in common. A Level remembers which distances from the center have rows of
// a column that could make ChangesLevel true, and that there are values on the way to them, so that the next window costs its
// new rows and its ends. The result is that of ChangesLevel, whichever windows a Level has seen.
//
// Distances are grouped by half octaves, by the exponent and the highest bit of the fraction. Any distance two or three
// half octaves below another is more than a quarter and less than three quarters of it: on the way.

// levelAbove is the number of half octaves above the first distance that masks have bits for.
const levelAbove = 24

// Level is what full windows of a column of a series have shown of changes of level. The zero value has seen none.
type Level struct {
	count  int64 // the number in the series of the newest row read, from 1; 0: none
	center float64
	// Masks of the distances of rows that are much farther from the center than from the rows just before: bit 0 is that of half
	// octave top, and others are lower. Values are on the way to those of passed while row number between is in the window.
	// last is the newest of the rows of open, beyond that of those that have no bit.
	top          int
	open, passed uint64
	between      int64
	last, beyond int64
	tried        uint64 // of open, those that pass has not passed; it tries again when the newest row is number retry
	retry        int64
}

// ChangesLevelNext is ChangesLevel of full windows of a series, in their order; levels is for each column. The newest row is
// the count-th of the series, wide is WideAll or WideCourse, and windows have only moved on since the last call, unless levels is
// cleared.
func ChangesLevelNext(levels []Level, wide Wide, x, y []uint64, dim int, count int64, centers []float64) bool {
	rows := (len(x) + len(y)) / dim
	if rows <= levelRows {
		return ChangesLevel(wide, x, y, dim, rows, centers)
	}
	var memory [2]span
	for c, center := range centers {
		newest, oldest := spanOf(&memory[0], x, y, dim, c, rows-1-levelRows), spanOf(&memory[1], x, y, dim, c, 0)
		if wide == WideCourse && (newest.entering() || oldest.leaving()) {
			return true
		}
		first := count - int64(rows) + 1
		levels[c].read(newest, oldest, x, y, dim, c, count, center)
		if levels[c].beyond >= first && ChangesLevel(WideAll, x, y, dim, rows, centers) ||
			levels[c].open != 0 && levels[c].changes(x, y, dim, c) {
			return true
		}
	}
	return false
}

// read reads the rows of a window that are new, or at its beginning. newest and oldest are its last and its first span.
func (l *Level) read(newest, oldest *span, x, y []uint64, dim, c int, count int64, center float64) {
	rows := (len(x) + len(y)) / dim
	first := count - int64(rows) + 1
	from := max(levelRows, int(min(l.count-first+1, int64(rows))))
	if l.center != center || from == levelRows {
		*l = Level{center: center}
		from = levelRows
	}
	if l.last < first {
		l.open = 0
	}
	if l.between < first && l.passed != 0 {
		l.open, l.passed, l.last = l.open|l.passed, 0, l.count
	}
	for row := from; row < rows; row++ {
		s := newest
		if row < rows-1 {
			var memory span
			s = spanOf(&memory, x, y, dim, c, row-levelRows)
		}
		if far := math.Abs(s.at(levelRows) - center); far > 0 {
			l.add(s, levelRows, x, y, dim, c, row, far, first)
		}
	}
	l.count = count
	// The deviation of the window's first rows is of rows behind them.
	for row := (rows - 1) % levelEvery; row < levelRows; row += levelEvery {
		if far := math.Abs(oldest.at(row) - center); far > 0 {
			l.add(oldest, row, x, y, dim, c, row, far, first)
		}
	}
}

// halfOctave returns the half octave of a distance. Small ones are not of this length.
func halfOctave(d float64) int { return int(math.Float64bits(d) >> 51) }

// bit returns the bit of a distance; 0: it has none.
func (l *Level) bit(far float64) uint64 {
	at := halfOctave(far)
	if l.top == 0 {
		l.top = at + levelAbove
	}
	if at < 2*levelAbove {
		return 0
	}
	return 1 << uint(l.top-at)
}

// way returns the distances that a value with this distance is on the way to.
func (l *Level) way(d float64) uint64 {
	if at := l.top - halfOctave(d) - 2; at >= 0 {
		return 3 << uint(at) >> 1
	}
	return 0
}

// add adds the row at a place of a span if it is much farther from the center than from the rows just before. row is its place in
// the window.
func (l *Level) add(s *span, at int, x, y []uint64, dim, c, row int, far float64, first int64) {
	bit := l.bit(far)
	switch {
	case bit&l.passed != 0, !(far <= math.MaxFloat64):
	case at == levelRows && row > levelRows && bit&^l.open != 0 && s.stuck(): // as the row before, which has been read
	case !s.leads(at, x, y, dim, c, row, far, levelTimes((len(x)+len(y))/dim)):
	case bit == 0:
		l.beyond = max(l.beyond, first+int64(row))
	default:
		l.open, l.last = l.open|bit, max(l.last, first+int64(row))
	}
}

// stuck reports whether the four rows before the last one have its value. Then its deviation is no smaller than that of the row
// before.
func (s *span) stuck() bool {
	return s.at(6) == s.at(7) && s.at(5) == s.at(7) && s.at(4) == s.at(7) && s.at(3) == s.at(7)
}

// changes reports whether ChangesLevel is true for one of the distances of open.
func (l *Level) changes(x, y []uint64, dim, c int) bool {
	rows := (len(x) + len(y)) / dim
	if l.open&^l.tried != 0 || l.count >= l.retry {
		l.pass(x, y, dim, c)
		l.tried, l.retry = l.open, l.count+int64(rows/4)
	}
	var found ways
	for i := 0; i < sampled && l.open&^found.enough() != 0; i++ {
		found.add(l.way(math.Abs(valueOf(x, y, sampleOf(i, rows)*dim+c) - l.center)))
	}
	open := l.open &^ found.enough()
	if open == 0 {
		return false
	}
	k := course{x, y, dim, c, l.center, levelTimes(rows), 0, 0}
	for row := rows - 1; row >= 0; row -= levelEvery {
		if far := math.Abs(valueOf(x, y, row*dim+c) - l.center); l.bit(far)&open != 0 && k.changes(row, far) {
			return true
		}
	}
	return false
}

// pass moves to passed what has values on the way in runs of levelGap rows: a row of each is one that ChangesLevel looks at, in
// this window and in the next ones.
func (l *Level) pass(x, y []uint64, dim, c int) {
	rows := (len(x) + len(y)) / dim
	gap, passed, oldest := levelGap(rows), uint64(0), rows
	var found ways
	for row := rows - gap; row >= 0 && passed != l.open; row -= gap {
		run := l.open
		for i := row; i < row+gap && run != 0; i++ {
			run &= l.way(math.Abs(valueOf(x, y, i*dim+c) - l.center))
		}
		if found.add(run); found.enough() != passed {
			passed, oldest = found.enough(), row
		}
	}
	if passed == 0 {
		return
	}
	if between := l.count - int64(rows-1-oldest); l.passed == 0 || between < l.between {
		l.between = between
	}
	l.passed, l.open = l.passed|passed, l.open&^passed
}

// ways counts values on the way to distances: the i-th mask has the distances with more than i.
type ways [between + 1]uint64

func (w *ways) add(to uint64) {
	for i := between; i > 0; i-- {
		w[i] |= w[i-1] & to
	}
	w[0] |= to
}

// enough returns the distances with so many values on the way that there is no change of level.
func (w *ways) enough() uint64 { return w[between] }

// levelGap returns a number of consecutive rows of a window of which ChangesLevel looks at one at least.
func levelGap(rows int) int { return rows/75 + 1 }
