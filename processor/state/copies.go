package state

import (
	"slices"

	"odradek/detectors/vec"
	"odradek/processor/state/series"
)

// copies holds what Apply reads of windows, which is copied when tasks are packed, because the rings are
// overwritten before the scores come.
type copies struct {
	fresh   []freshRow
	covered []covered // of the fresh rows of a steady task whose scores are about earlier rows, too
	times   []int64   // of the rows of X; of a steady task that is Valued of the rows whose values are copied
	columns []column  // of a task that is Valued
	values  []float64 // likewise, row by row
	warm    []warmRow
}

// freshRow is a row that a task scores.
type freshRow struct {
	Time, Offset int64    // of its sample
	State        RowState // with a score: RowScored or RowImputed
}

// covered are the times of the first and the last sample that a score is about.
type covered struct{ About, Until int64 }

// column is what a column of X was centred on, 0 if it was not, and what it was divided by.
type column struct{ Center, Scale float64 }

// warmRow is a row without a score that waits behind tasks: its sample, and how many samples remain until the first with a score.
type warmRow struct {
	Time, Offset int64
	Remaining    int32
}

// len returns the number of rows, times and values.
func (c *copies) len() int { return len(c.fresh) + len(c.times) + len(c.values) }

func (c *copies) reset() {
	c.fresh, c.covered, c.times, c.columns, c.values, c.warm = c.fresh[:0], c.covered[:0], c.times[:0], c.columns[:0], c.values[:0], c.warm[:0]
}

// add copies what Apply reads of a task of rows rows of the i-th window, the newest of which has the offset and the imputed bit of word.
// p has packed it.
func (c *copies) add(e *pendingTask, i int, word uint64, rows int32, p *packer) {
	k, d := e.Key, e.Detector
	w := &k.Windows[i]
	e.place = uint32(len(c.fresh))
	switch {
	case d.Grid != nil:
		c.fresh = append(c.fresh, freshOf(p.windowStart, word))
		e.times, e.timed = uint32(len(c.times)), rows
		for range rows {
			c.times = append(c.times, p.windowStart)
		}
	case d.Fresh == 1:
		c.fresh = append(c.fresh, freshOf(k.LastTime, word))
	default:
		c.addFresh(w, w.Fresh(&k.Set.Windows[i], d)[:d.Fresh-1], word)
	}
	if d.Grid == nil && !e.Steady {
		c.addTimes(e, w, rows)
	}
	if e.Steady && d.From > 0 {
		c.addCovered(e, w)
	}
	if e.Valued {
		c.addValues(e, w, rows, p)
	}
}

// freshOf returns a fresh row from its time and its word (series.Window.Fresh).
func freshOf(time int64, word uint64) freshRow {
	return freshRow{time, int64(word >> 1), RowState(word&1) * RowImputed}
}

// addFresh copies the fresh rows of a task of several: those that have waited, and the newest one.
func (c *copies) addFresh(w *series.Window, waited []uint64, word uint64) {
	n := len(waited)
	c.fresh = slices.Grow(c.fresh, n+1)
	fresh := c.fresh[len(c.fresh):][:n+1]
	for i, word := range waited {
		fresh[i] = freshOf(0, word)
	}
	fresh[n] = freshOf(0, word)
	a, b := w.Times(int32(n)+1, 0)
	for i, time := range a {
		fresh[i].Time = time
	}
	for i, time := range b {
		fresh[len(a)+i].Time = time
	}
	c.fresh = c.fresh[:len(c.fresh)+n+1]
}

// addTimes copies the times of the newest rows.
func (c *copies) addTimes(e *pendingTask, w *series.Window, rows int32) {
	e.times, e.timed = uint32(len(c.times)), rows
	x, y := w.Times(rows, 0)
	c.times = append(append(c.times, x...), y...)
}

// addCovered copies which times the scores of a steady task's fresh rows are about.
func (c *copies) addCovered(e *pendingTask, w *series.Window) {
	d := e.Detector
	e.covered = uint32(len(c.covered))
	for back := d.Fresh - 1; back >= 0; back-- {
		c.covered = append(c.covered, covered{w.Time(back + int32(d.From)), w.Time(back + int32(d.To))})
	}
}

// addValues copies what explains a finding: the columns of X and, of the newest rows, the values and the times. rows is the number of
// rows of X.
func (c *copies) addValues(e *pendingTask, w *series.Window, rows int32, p *packer) {
	d := e.Detector
	e.columns, e.values = uint32(len(c.columns)), uint32(len(c.values))
	for i := range d.Dim {
		x := column{Scale: 1}
		if len(p.centers) > 0 {
			x.Center = p.centers[i]
		}
		if d.Scale {
			x.Scale = p.scales[i]
		}
		c.columns = append(c.columns, x)
	}
	switch e.copied = d.Fresh; {
	case d.Explain == nil && d.Locate == nil:
	case e.Steady:
		e.copied = min(w.Rows, d.Fresh+int32(d.From))
	default:
		e.copied = rows
	}
	x, y := w.Values(d.Dim, e.copied)
	c.values = append(append(c.values, vec.BitsF64(x)...), vec.BitsF64(y)...)
	if e.Steady && d.Grid == nil {
		c.addTimes(e, w, e.copied)
	}
}

// Fresh returns the fresh rows of a task.
func (c *copies) Fresh(t *pendingTask) []freshRow { return c.fresh[t.place:][:t.Detector.Fresh] }

// Covered returns the times of the first and the last sample that the score of the i-th fresh row of a steady task is about.
func (c *copies) Covered(t *pendingTask, i int) (about, until int64) {
	if t.Detector.From == 0 {
		time := c.fresh[int(t.place)+i].Time
		return time, time
	}
	v := &c.covered[int(t.covered)+i]
	return v.About, v.Until
}

// Times returns the times of the rows of X of a task that is not steady.
func (c *copies) Times(t *pendingTask) []int64 { return c.times[t.times:][:t.timed] }

// Columns returns the columns of X of a task that is Valued.
func (c *copies) Columns(t *pendingTask) []column { return c.columns[t.columns:][:t.Detector.Dim] }

// Values returns the values of the i-th fresh row of such a task.
func (c *copies) Values(t *pendingTask, i int) []float64 {
	d := t.Detector
	return c.values[int(t.values)+(int(t.copied-d.Fresh)+i)*d.Dim:][:d.Dim]
}

// Row returns time and values of the row of such a task that is the given number of rows before the newest,
// or of the oldest that is copied; not of a grid's.
func (c *copies) Row(t *pendingTask, back int) (time int64, values []float64) {
	back = min(back, int(t.copied)-1)
	at := int(t.values) + (int(t.copied)-1-back)*t.Detector.Dim
	return c.times[int(t.times)+int(t.timed)-1-back], c.values[at:][:t.Detector.Dim]
}

// Since returns how many rows before the newest the first of them is that is not before a time.
func (c *copies) Since(t *pendingTask, time int64) (back int) {
	for back = int(t.copied) - 1; back > 0; back-- {
		if at, _ := c.Row(t, back); at >= time {
			break
		}
	}
	return back
}
