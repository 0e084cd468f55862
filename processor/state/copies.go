package state

import (
	"math"

	"odradek/detectors"
	"odradek/processor/state/series"
)

// copies holds the rows that are copied from windows when tasks are packed, because the rings are
// overwritten before the scores come.
type copies struct {
	words []uint64 // see Task
}

// addTimes copies the times of the given number of rows, the last of which is skip rows
// before the newest.
func (c *copies) addTimes(w *series.Window, rows, skip int32) {
	x, y := w.Times(rows, skip)
	c.words = append(append(c.words, x...), y...)
}

// addValues copies what explains a finding: the centers of X's columns, 0 where they have
// none, the values of the newest rows, of a detector with Scale the columns' scales, and the rows' times.
func (c *copies) addValues(w *series.Window, d *series.SetDetector, rows int32, centers, scales []float64) {
	for i := range d.Dim {
		center := 0.0
		if len(centers) > 0 {
			center = centers[i]
		}
		c.words = append(c.words, math.Float64bits(center))
	}
	x, y := w.Values(d.Dim, rows)
	c.words = append(append(c.words, x...), y...)
	if d.Scale {
		for _, s := range scales {
			c.words = append(c.words, math.Float64bits(s))
		}
	}
	if d.Grid == nil {
		c.addTimes(w, rows, 0)
	}
}

// Times returns the times of a task, and the words of its fresh rows: twice the offset,
// plus 1 if a value was imputed.
func (c *copies) Times(t *scoringTask) (times, words []uint64) {
	end := int(t.at) + int(t.times)
	return c.words[t.at:end], c.words[end:][:t.Detector.Fresh]
}

// Values returns the bits of the centers of X's columns, and of the values of the i-th fresh
// row, of a task that is Valued.
func (c *copies) Values(t *scoringTask, i int) (centers, row []uint64) {
	d := t.Detector
	values := c.values(t)
	return values[:d.Dim], values[(1+int(t.copied-d.Fresh)+i)*d.Dim:][:d.Dim]
}

// Row returns the time and the bits of the values of the row of such a task that is the given number of rows before the newest,
// or of the oldest that the queue has; not of a grid's.
func (c *copies) Row(t *scoringTask, back int) (time int64, row []uint64) {
	d := t.Detector
	values, i := c.values(t), int(t.copied)-1-min(back, int(t.copied)-1)
	times := values[(1+int(t.copied))*d.Dim:]
	if d.Scale {
		times = times[d.Dim:]
	}
	return int64(times[i]), values[(1+i)*d.Dim:][:d.Dim]
}

// Since returns how many rows before the newest the first of them is that is not before a time.
func (c *copies) Since(t *scoringTask, time int64) (back int) {
	for back = int(t.copied) - 1; back > 0; back-- {
		if at, _ := c.Row(t, back); at >= time {
			break
		}
	}
	return back
}

func (c *copies) values(t *scoringTask) []uint64 {
	return c.words[int(t.at)+int(t.times)+int(t.Detector.Fresh):]
}

// Scale returns the scale of a column of X of such a task; 1 without Scale.
func (c *copies) Scale(t *scoringTask, column int) float64 {
	d := t.Detector
	if !d.Scale {
		return 1
	}
	return math.Float64frombits(c.values(t)[(1+int(t.copied))*d.Dim+column])
}

// WarmedUp returns time and offset of a WarmingUp entry, and how many samples remain until the first with a score.
func (c *copies) WarmedUp(t *scoringTask) (time, offset int64, remaining int32) {
	return int64(c.words[t.at]), int64(c.words[t.at+1]), int32(c.words[t.at+2])
}

// Remaining returns how many samples, at the least, come after the i-th fresh row of a steady task of a Learner, which has no
// score, until the first that has one.
func (t *scoringTask) Remaining(b *detectors.Batch, scores []float32, i int) int32 {
	for j, s := range scores[i+1:] {
		if s == s {
			return int32(j) + 1
		}
	}
	next := b.Tasks[t.Index].Next
	return int32(t.Detector.Learner.Left(b.Out[next.Off:][:next.Len]) + len(scores) - i)
}

// rowTimes splits the times that copies has of a steady task (detectors.Steady: one score for each fresh row) into the
// times of its fresh rows, and of the first and the last sample that each row's score is about.
func rowTimes(d *series.SetDetector, times []uint64) (fresh, about, until []uint64) {
	n := d.Fresh
	if d.From == 0 {
		return times, times, times
	}
	return times[:n], times[n : 2*n], times[2*n:]
}
