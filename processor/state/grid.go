package state

import (
	"iter"

	"odradek/detectors"
	"odradek/processor/state/rules"
	"odradek/processor/state/series"
)

// Grids has the windows of grids (series.Grid) that are open. A window of a grid covers a range of event time, which is divided
// into strides; it is open while its newest stride has samples and the watermark has not reached the end of that stride. When
// the watermark reaches it, the window closes and one task of each of its detectors becomes due: after the held samples
// before that time are folded, and before those at that time. So a sample of any key may close it, as it may release held
// samples. A stride without samples opens no window and has no task. The heap of the ends of open windows can be computed
// from the keys.
type Grids struct {
	any     bool // a window is one of a grid
	windows []gridWindow
	// other: the reading in force is not the configured one, so that other detectors may read a series than its set has.
	other bool
	ends  series.Heap[*Key] // keys by the ends of their open windows
}

// gridWindow is a window of a grid.
type gridWindow struct {
	grid        *series.Grid
	fingerprint uint64
	unread      func(key []byte) bool // reports the keys that no detector of the reading in force counts in it; nil: none
}

// newGrids returns the grids of a State without keys.
func newGrids(windows []series.WindowConfig) Grids {
	g := Grids{ends: series.Heap[*Key]{Compare: series.ByName}}
	for i := range windows {
		if w := &windows[i]; w.Grid != nil {
			g.windows = append(g.windows, gridWindow{grid: w.Grid, fingerprint: w.Fingerprint})
		}
	}
	g.any = len(g.windows) > 0
	return g
}

// follow has the grids count the series that the grids of a reading count.
func (g *Grids) follow(in *rules.Reading, configured bool) {
	g.other = !configured
	for i := range g.windows {
		w := &g.windows[i]
		w.unread = unreadBy(in, func(d *rules.DetectorReading) bool { return d.Window == w.fingerprint })
	}
}

// Any reports whether a detector counts events in a grid.
func (g *Grids) Any() bool { return g.any }

// gridsOf visits the grids that count a key's events under the reading in force.
func (s *State) gridsOf(key []byte) iter.Seq[*series.Grid] {
	return func(yield func(*series.Grid) bool) {
		if s.Grids.other {
			for i := range s.Grids.windows {
				if w := &s.Grids.windows[i]; (w.unread == nil || !w.unread(key)) && !yield(w.grid) {
					return
				}
			}
			return
		}
		set := s.sets.For(key)
		for i := 0; set != nil && i < len(set.Windows); i++ {
			if grid := set.Windows[i].Grid; grid != nil && !yield(grid) {
				return
			}
		}
	}
}

// closedIn reports whether the watermark has ended a window that a key's sample of that time would be in.
func (s *State) closedIn(key []byte, time, watermark int64) bool {
	if !s.Grids.any || watermark <= time {
		return false
	}
	for grid := range s.gridsOf(key) {
		if grid.End(grid.Start(time)) <= watermark {
			return true
		}
	}
	return false
}

// due returns a key with a window that ends first, at the watermark or before.
func (g *Grids) due(watermark int64) (k *Key, end int64, ok bool) {
	for g.ends.Len() > 0 && g.ends.First().At <= watermark {
		first := g.ends.First()
		if k := first.Value; !k.Dead && k.ClosesAt(first.At) {
			return k, first.At, true
		}
		g.ends.Pop()
	}
	return nil, 0, false
}

// opened adds the end of a key's window that has been opened.
func (g *Grids) opened(k *Key, end int64) { g.ends.Push(end, 0, k) }

// rebuildGrids finds the open windows of the keys.
func (s *State) rebuildGrids() {
	s.Grids.ends.Reset()
	for k := range s.Keys.All {
		for i := range k.Windows {
			if grid := k.Set.Windows[i].Grid; grid != nil {
				if start, open := k.GridOpen(i); open {
					s.Grids.ends.Append(grid.End(start), 0, k)
				}
			}
		}
	}
	s.Grids.ends.Order()
}

// closeGrids closes the windows of a key that end at a time.
func (s *State) closeGrids(k *Key, end int64, b *detectors.Batch) {
	if k.Unit != uint32(s.journal.Number) {
		s.touch(k)
	}
	for i := range k.Windows {
		if g := k.Set.Windows[i].Grid; g != nil {
			if start, open := k.GridOpen(i); open && g.End(start) == end {
				s.closeGrid(k, i, b)
			}
		}
	}
}

// closeGrid packs the tasks of a grid's window that ends.
func (s *State) closeGrid(k *Key, i int, b *detectors.Batch) {
	sw, w := &k.Set.Windows[i], &k.Windows[i]
	for j := range sw.Detectors {
		d := &sw.Detectors[j]
		word := w.Fresh(sw, d)[0]
		k.Progress[d.Place].Fresh = 0
		if d.Skips(k.Name()) {
			continue
		}
		if left := w.Tables().Left(sw.Grid, w.Count); left > 0 {
			start, _ := k.GridOpen(i)
			s.warm(k, d, start-1, int64(word>>1), left) // the window's last microsecond
			continue
		}
		if d.Summary != nil {
			s.foldSummary(k, w, d)
		}
		if s.packs(d) {
			s.pack(k, i, d, word, b)
		}
	}
}

// foldCell adds a sample to its cell of the i-th window. A sample that was held and is released early may
// be behind the window that is open: it closes it.
func (s *State) foldCell(k *Key, i int, time, offset int64, values []float64, b *detectors.Batch) Outcome {
	sw, w := &k.Set.Windows[i], &k.Windows[i]
	g := sw.Grid
	cell, count, baseline, ok, err := g.Place(values)
	if !ok || err != nil {
		return Missing
	}
	start, open := k.GridOpen(i)
	at := g.Start(time)
	switch {
	case at < start:
		return Late
	case open && at > start:
		s.closeGrid(k, i, b)
		open = false
	}
	if !open {
		if w.Rows > 0 {
			from := len(s.journal.Open.Words)
			s.journal.Open.Words = w.Tables().Append(s.journal.Open.Words, g, at)
			s.journal.Open.Push(opTable, k, i, len(s.journal.Open.Words)-from)
		}
		s.Keys.Bytes += g.Open(w, sw, at)
		s.Grids.opened(k, g.End(at))
	}
	row := g.Row(at, cell)
	s.journal.Open.Words = w.Tables().AppendCell(s.journal.Open.Words, row)
	s.journal.Open.Push(opCell, k, i, 3)
	w.Tables().Add(row, count, baseline)
	for j := range sw.Detectors {
		d := &sw.Detectors[j] // also one that skips the sample: it may score the stride
		w.Fresh(sw, d)[0] = uint64(offset) << 1
		k.Progress[d.Place].Fresh = 1
	}
	if w.Tables().Left(g, w.Count) > 0 {
		return WarmingUp
	}
	return Scored
}
