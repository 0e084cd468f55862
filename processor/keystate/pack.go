package keystate

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"odradek/detectors"
	"odradek/processor/keystate/series"
	"odradek/processor/keystate/tasks"
	"odradek/processor/keystate/undo"
)

// warm makes the row of a sample that comes too early for a score.
func (s *State) warm(k *Key, d *series.SetDetector, time, offset int64) {
	if s.restore.replaying && len(d.Feeds) == 0 {
		return
	}
	if !s.tasks.Empty() {
		s.tasks.WarmUp(k, d, time, offset)
		return
	}
	s.addWarmRow(k, d, time, offset)
}

func (s *State) addWarmRow(k *Key, d *series.SetDetector, time, offset int64) {
	r := Row{Key: k, Detector: d.Index, State: RowWarmingUp, Score: nan, Judged: nan, Threshold: nan, Offset: offset, Time: time,
		About: time, Until: time}
	if !s.restore.replaying {
		s.Rows = append(s.Rows, r)
	}
	s.feed(k, d, &r)
}

var nan = float32(math.NaN())

// due prepares for the task that the newest row has made due, and reports whether it is to be
// packed: in a replay, only if something remembers it.
func (s *State) due(k *Key, w *series.Window, d *series.SetDetector) bool {
	if d.Summary != nil {
		s.summarise(k, w, d)
	}
	return !s.restore.replaying || d.Replays
}

// SetWindowCache gives the State the executor's window cache; nil: there is none. A task
// then brings only the rows that the executor does not have. The caller closes the cache
// after the State's last use.
func (s *State) SetWindowCache(c *detectors.WindowCache) { s.tasks.SetWindowCache(c) }

// Repack packs windows that the executor has cached, and lost (detectors.ErrCacheLost),
// into b as they were when their tasks became due: Execute of b may then be tried again.
// Rows that were overwritten since are in the undo journal.
func (s *State) Repack(b *detectors.Batch) {
	b.Invalidate()
	cached := s.tasks.Cached()
	if len(cached) == 0 {
		return
	}
	overwritten := make(map[*series.Window][][]uint64, len(cached))
	for _, w := range cached {
		overwritten[w] = nil
	}
	s.journal.Open.Each(func(o *undo.Op[*Key], row []uint64) {
		if o.Kind == opRow {
			w := &o.Key.Windows[o.What]
			if rows, ok := overwritten[w]; ok {
				overwritten[w] = append(rows, row[1:])
			}
		}
	})
	s.tasks.Repack(b, overwritten)
}

// Apply takes the results of b after its execution: scores go to Rows, in the order of
// the samples, and carries to their keys. The caller resets b afterwards. Apply ignores
// tasks of other States in b.
func (s *State) Apply(b *detectors.Batch) {
	list := s.tasks.Pending()
	for i := range list {
		p := &list[i]
		switch p.Index {
		case tasks.WarmingUp:
			time, offset := s.tasks.WarmedUp(&p.Task)
			s.addWarmRow(p.Key, p.Detector, time, offset)
			continue
		case tasks.Deferred:
			s.tasks.Do(&p.Task)
			continue
		}
		d := p.Detector
		if d.Most.Carry > 0 && !p.Key.Dead {
			if m := &p.Key.Progress[d.Place]; s.tasks.Last(i, m) {
				next := b.Tasks[p.Index].Next
				s.setCarry(p.Key, d, m, b.Out[next.Off:next.Off+next.Len])
			}
		}
		if d.Followed {
			s.judgeRows(p, b)
		} else if !s.restore.replaying {
			s.addRows(p, b)
		}
		if s.cfg.Blocks && d.Blocker != nil && !s.restore.replaying {
			s.addBlock(p, b)
		}
	}
	s.tasks.Drop()
}

// setCarry sets a key's carry to that of its last task.
func (s *State) setCarry(k *Key, d *series.SetDetector, m *series.Progress, next detectors.Words) {
	if m.Unit != uint32(s.journal.Number) {
		m.Unit = uint32(s.journal.Number)
		if !s.restore.replaying {
			saveCarry(s.journal.Open, k, d.Place, m.Carry)
		}
	}
	if len(next) > cap(m.Carry) {
		s.keys.Bytes += 4 * int64(len(next)-cap(m.Carry))
		m.Carry = make(detectors.Words, len(next))
	}
	m.Carry = m.Carry[:len(next)]
	copy(m.Carry, next)
}

// addRows makes the rows of a task: one for each fresh sample, without a score where
// nothing was found.
func (s *State) addRows(p *pending, b *detectors.Batch) {
	d := p.Detector
	t := &b.Tasks[p.Index]
	times, words := s.tasks.Times(&p.Task)
	if p.Steady {
		fresh, about, until := tasks.RowTimes(d, times)
		scores := b.Out[t.Scores.Off:][:len(words)].F32()
		for i, word := range words {
			s.Rows = append(s.Rows, Row{})
			r := &s.Rows[len(s.Rows)-1]
			r.Key, r.Detector, r.State = p.Key, d.Index, stateOf(d, word, scores[i])
			r.Score, r.Judged, r.Threshold = scores[i], scores[i], nan
			r.Offset, r.Time = int64(word>>1), int64(fresh[i])
			r.About, r.Until = int64(about[i]), int64(until[i])
		}
		return
	}
	fresh := times[len(times)-len(words):]
	s.finds = d.Detector.AppendFindings(s.finds[:0], b.Rows(int(p.Index)))
	finds := highest(s.finds)
	for i, word := range words {
		r := Row{
			Key: p.Key, Detector: d.Index, State: RowState(word&1) * RowImputed, Score: nan, Judged: nan, Threshold: nan,
			Offset: int64(word >> 1), Time: int64(fresh[i]), About: int64(fresh[i]), Until: int64(fresh[i]),
		}
		if len(finds) > 0 && finds[0].Fresh == i {
			r.setFinding(&finds[0], times)
			r.Judged = r.Score
			finds = finds[1:]
		}
		r.inGrid(d)
		s.Rows = append(s.Rows, r)
	}
}

// stateOf returns the state of a row of a steady detector, from the word of its sample and its score.
func stateOf(d *series.SetDetector, word uint64, score float32) RowState {
	if d.Learns && score != score {
		return RowWarmingUp
	}
	return RowState(word&1) * RowImputed
}

// setFinding sets the score of a finding and the times that it is about.
func (r *Row) setFinding(f *detectors.Finding, times []uint64) {
	r.Score, r.About, r.Until = float32(f.Score), int64(times[f.From]), int64(times[f.To])
}

// inGrid sets the times of a row of a grid, whose rows have that of the window's start: the score is
// about the window, and has its last microsecond.
func (r *Row) inGrid(d *series.SetDetector) {
	if d.Grid != nil {
		r.Until = r.About + d.Grid.Span - 1
		r.Time = r.Until
	}
}

// addBlock hands out the block of a task, if its detector made one.
func (s *State) addBlock(p *pending, b *detectors.Batch) {
	media, data := p.Detector.Blocker.Block(b.Rows(int(p.Index)))
	if data == nil {
		return
	}
	if len(data) > detectors.MaxBlock {
		panic(fmt.Sprintf("keystate: detector %s made a block of %d bytes, more than %d", p.Detector.Name, len(data), detectors.MaxBlock))
	}
	times, words := s.tasks.Times(&p.Task)
	s.Blocks = append(s.Blocks, BlockRow{
		Key: p.Key, Detector: p.Detector.Index, Offset: int64(words[len(words)-1] >> 1),
		About: int64(times[0]), Until: int64(times[len(times)-1]), MediaType: media, Data: data,
	})
}

// highest reduces the findings to one of each fresh row, in their order: that with the highest
// score, the first of equal ones. Consumers know a score by its sample and its detector,
// so a sample has one score of a detector, however many lengths or ranks the method has.
func highest(f []detectors.Finding) []detectors.Finding {
	slices.SortStableFunc(f, func(a, b detectors.Finding) int {
		return cmp.Or(cmp.Compare(a.Fresh, b.Fresh), cmp.Compare(b.Score, a.Score))
	})
	return slices.CompactFunc(f, func(a, b detectors.Finding) bool { return a.Fresh == b.Fresh })
}
