package detectors

import "math"

// ChangesLevel reads a whole window. Consecutive windows of a series have nearly all rows in common, so ChangesLevelNext reads
// the new rows of a window and its ends, and a Level remembers what earlier windows have shown of a column. The result is the
// one of ChangesLevel, regardless of the windows that a Level has seen.
//
// ChangesLevel is true if a row leads, that is, it is much farther from the center than from the rows just before it
// (span.leads), and at most a few values of the window are in between: more than a quarter and less than three quarters of its
// distance from the center (course.isContinuous). A Level remembers at which distances rows lead, and for which of these
// distances the window has enough values in between.
//
// Distances are grouped by half octaves: by the exponent of the number and the highest bit of its fraction. A distance that is two
// or three half octaves smaller than another one is always in between.

// levelAbove is the number of half octaves above the first distance that masks have bits for.
const levelAbove = 24

// Level is what full windows of a column of a series have shown of changes of level. The zero value has seen none.
type Level struct {
	count  int64 // the number in the series of the newest row read, from 1; 0: none
	center float64
	// Masks of the half octaves at which rows lead: bit 0 is half octave top, bit 1 the next smaller one, and so on. For the bits of
	// passed the window has enough values in between, as long as it has row number between. For the bits of open that is not known.
	top          int
	open, passed uint64
	between      int64
	last         int64  // the number of the newest row of open
	beyond       int64  // the number of the newest row that leads at a distance without a bit
	tried        uint64 // half octaves of open for which pass has not found enough values in between
	retry        int64  // pass tries these again when the newest row has this number
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

// way returns the mask of the half octaves for whose distances a value at distance d is in between.
func (l *Level) way(d float64) uint64 {
	if at := l.top - halfOctave(d) - 2; at >= 0 {
		return 3 << uint(at) >> 1
	}
	return 0
}

// add notes that the row at a place of a span leads, if it does. row is its place in the window, far its distance from the center.
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

// stuck reports whether the four rows before the last one have its value. Then its deviation is no smaller than the deviation of
// the row before.
func (s *span) stuck() bool {
	return s.at(6) == s.at(7) && s.at(5) == s.at(7) && s.at(4) == s.at(7) && s.at(3) == s.at(7)
}

// changes reports whether a row that leads at a half octave of open makes ChangesLevel true.
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

// pass moves half octaves from open to passed if the window has enough runs of levelGap successive rows that are all in between:
// ChangesLevel looks at a row of each run, in this window and in the next ones.
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

// ways counts, for each half octave, the values in between: the i-th mask has the half octaves with more than i of them.
type ways [between + 1]uint64

func (w *ways) add(to uint64) {
	for i := between; i > 0; i-- {
		w[i] |= w[i-1] & to
	}
	w[0] |= to
}

// enough returns the half octaves with so many values in between that there is no change of level.
func (w *ways) enough() uint64 { return w[between] }

// levelGap returns a number of consecutive rows of a window of which ChangesLevel looks at one at least.
func levelGap(rows int) int { return rows/75 + 1 }
