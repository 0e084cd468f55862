package state

import (
	"odradek/detectors"
	"odradek/processor/state/series"
)

// This file scores the tasks of a detectors.Direct: at once, in a batch of the queue's own, which no executor gets. Their scores
// are judged at once, too, unless a task of this State waits for its scores: then they queue behind it, so that the order of rows
// does not depend on the batches. The scores are the same either way, because a task depends on its rows and its carry alone.

// pack packs a task that has become due, or scores it.
func (s *State) pack(k *Key, i int, d *series.SetDetector, word uint64, b *detectors.Batch) {
	q := &s.tasks
	p := &q.packer.detectors[d.Index]
	if p.direct == nil {
		q.Pack(k, i, d, word, b)
		return
	}
	alone := q.Empty()
	if alone && p.plain != nil {
		s.scorePlain(k, &k.Windows[i], p, word)
		return
	}
	q.Pack(k, i, d, word, &q.direct)
	t := &q.pending[len(q.pending)-1]
	t.Direct = true
	q.direct.Resolve(int(t.Index), &q.rows)
	if p.inPlace {
		m := &k.Progress[d.Place]
		first := len(m.Carry) == 0
		s.changeCarry(k, d, m, d.Most.Carry)
		if q.rows.Next = m.Carry; !first {
			q.rows.Carry = m.Carry
		}
	}
	p.direct(&q.rows)
	if p.inPlace { // later tasks change it
		if d.Learner != nil {
			t.left = int32(d.Learner.Left(q.rows.Next))
		}
		t.InSeason = d.Seasonal != nil && d.Seasonal.InSeason(q.rows.Next)
	}
	if alone {
		s.Apply(nil)
	}
}

// scorePlain makes the row of a plain task that waits for nothing.
func (s *State) scorePlain(k *Key, w *series.Window, p *packing, word uint64) {
	q, r := &s.tasks, p.plain
	x, y := w.Values(1, min(w.Rows, p.Full))
	n := len(x) + len(y)
	if cap(q.narrowed) < n {
		q.narrowed = make([]float32, p.Full)
	}
	r.X = q.narrowed[:n]
	p.narrow(r.X, x, y, w.Count)
	p.direct(r)
	offset := int64(word >> 1)
	if s.withholds(offset) {
		return
	}
	s.Rows = append(s.Rows, Row{})
	row, at := &s.Rows[len(s.Rows)-1], k.LastTime
	row.Key, row.Detector, row.State = k, p.Index, RowState(word&1)*RowImputed
	row.Score, row.Judged, row.Threshold = r.Scores[0], r.Scores[0], nan
	row.Offset, row.Time, row.About, row.Until = offset, at, at, at
	row.Behind = s.behind(offset)
}
