package keystate

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"odradek/processor/keystate/changelog"
)

// Load reads a record of the changelog into a new State; call it for all records, in the
// order of the log. value is nil for a deletion. Load retains neither slice. Compaction may
// have removed records, and may go on while the log is read, so only the last head of a key
// has to be complete; BeginReplay reports one that is not. Any bytes are safe; those that no
// Snapshot has emitted give ErrCorrupt.
func (s *State) Load(key, value []byte) error {
	if s.journal.started {
		return errors.New("keystate: Load into a state that has begun")
	}
	if s.restore.load == nil {
		s.restore.load = newLoading()
	}
	kind, name, suffix, err := changelog.SplitKey(key)
	if err != nil {
		return err
	}
	switch kind {
	case changelog.Head:
		err = s.loadHead(name, value)
	case changelog.Part:
		err = s.restore.load.addPart(name, value, suffix[0])
	case changelog.Segment:
		err = s.loadSegment(name, value, suffix[0], suffix[1])
	case changelog.Held:
		err = s.restore.load.addHeldBlock(name, value, suffix[0], suffix[1])
	case changelog.Eviction:
		err = s.decisions.loadEviction(name, value)
	case changelog.Decision:
		err = s.decisions.load(name, value, suffix[0])
	default:
		err = fmt.Errorf("type %q: %w", kind, ErrCorrupt)
	}
	if err != nil {
		return fmt.Errorf("keystate: changelog record %c of key %s: %w", kind, Digest(name), err)
	}
	return nil
}

// loadSegment keeps a segment until a head names it: segments of a cycle that was
// cut off before its head (at least once) must not get into the window.
func (s *State) loadSegment(name, value []byte, window, id uint64) error {
	if value == nil || s.restore.drops != nil && s.restore.drops(name) {
		return nil // the heads name the segments that count
	}
	d := newDecoder(value)
	d.Start()
	born, first, cols := d.Offset(), d.Offset(), d.Small()
	if d.Bad || cols < 1 || cols > maxDim {
		return ErrCorrupt
	}
	list := s.restore.load.staged[string(name)]
	s.restore.load.bytes += int64(len(d.B)) + stagedBytes
	s.restore.load.staged[string(name)] = append(list, staged{window, id, born, first, cols, slices.Clone(d.B)})
	return nil
}

// takeSegments appends the rows of the segments that a head names to their
// window, unless an earlier head has done so.
func (s *State) takeSegments(k *Key, sw *keyWindow, w *win, list []staged, seg int64, segs segments) error {
	fp := s.cfg.Windows[sw.index].Fingerprint
	for i := range list {
		g := &list[i]
		if g.window != fp || g.born != k.born || g.cols != len(sw.cols) || !segs.has(seg, g.first) || g.id != segmentID(seg, g.first) {
			continue
		}
		if i+1 < len(list) && list[i+1].window == g.window && list[i+1].id == g.id {
			continue // written again
		}
		end := g.first&^(seg-1) + seg
		if end <= w.count && g.first >= w.count-int64(w.rows) {
			continue // they are there
		}
		w.windUp(g.first)
		d := newDecoder(g.rows)
		if s.loadRows(&d, sw, w); d.Bad || len(d.B) > 0 || w.count != end {
			return ErrCorrupt
		}
	}
	return nil
}

// windUp makes first the number of the next row: rows from there on are overwritten,
// and a gap before it empties the window.
func (w *win) windUp(first int64) {
	if back := w.count - first; back >= 0 && back <= int64(w.rows) {
		if back > 0 {
			w.unpush(back)
			w.rows -= int32(back)
		}
		return
	}
	w.count, w.rows, w.pos = first, 0, 0
}

// loadRows appends rows to a window.
func (s *State) loadRows(d *decoder, sw *keyWindow, w *win) {
	nc := len(sw.cols)
	times := d.Times(s.restore.load.times[:0], nc)
	s.restore.load.times = times
	if len(times) == 0 {
		return
	}
	// A window that does not begin with the key's first row was full once.
	if size := min(w.count+int64(len(times)), int64(sw.need)); size > int64(w.cap) {
		s.grow(sw, w, int32(size))
	}
	b := d.B
	for _, t := range times {
		at := int(s.push(sw, w))
		w.slab[at] = t
		row := w.slab[int(w.cap)+at*nc:][:nc]
		for j := range row {
			row[j] = binary.LittleEndian.Uint64(b[8*j:])
		}
		b = b[8*nc:]
	}
	d.B = b
}

// loadHead sets a key to the content of a head.
func (s *State) loadHead(name, value []byte) error {
	if value == nil {
		if k := s.keys.get(name); k != nil {
			s.unload(k)
		}
		s.restore.load.unstage(name)
		delete(s.restore.load.blocks, string(name))
		return nil
	}
	d := newDecoder(value)
	v := d.startHead()
	full := v != version
	parts, asOf, born := d.Small(), d.Offset(), d.Offset()
	gen := parts % generations
	parts /= generations
	if d.Bad || parts > math.MaxUint16 {
		return ErrCorrupt
	}
	if parts > 0 {
		start := value[:len(value)-len(d.B)]
		size := d.Small()
		if d.Bad {
			return ErrCorrupt
		}
		body, err := s.restore.load.assemble(name, start, parts, gen, size)
		if err != nil {
			k := s.loadKey(name, born)
			if k == nil && full {
				k = s.loadUnread(name, born)
			}
			if k != nil {
				s.restore.load.broken[k] = broken{err, slices.Clone(value)}
				k.asOf, k.parts, k.gen, k.inLog = asOf, uint16(parts), uint8(gen), true
			}
			return nil
		}
		d.B = body
	}
	k := s.loadKey(name, born)
	if k == nil {
		if !full {
			return nil
		}
		k = s.loadUnread(name, born)
	}
	list := s.restore.load.staged[string(name)]
	slices.SortStableFunc(list, func(a, b staged) int {
		return cmp.Or(cmp.Compare(a.window, b.window), cmp.Compare(a.id, b.id))
	})
	delete(s.restore.load.broken, k)
	delete(s.restore.load.mismatch, k)
	delete(s.restore.load.rewrite, k)
	delete(s.stale, k)
	delete(s.blocks, k)
	before := s.bytes - k.size()
	if k.dropped {
		s.restore.load.leftOut -= k.size()
	}
	k.asOf, k.parts, k.gen, k.inLog = asOf, uint16(parts), uint8(gen), true
	k.held = nil
	k.lastOffset, k.lastTime = d.Int(), d.Int()
	err := s.loadWindows(&d, k, list)
	if err == nil {
		s.loadMarks(&d, k)
		alerts, summaries := v == versionAlerts, v == versionSummaries
		if v == versionHeld {
			s.loadHeldSamples(&d, k)
		} else {
			s.loadHeld(&d, k)
		}
		s.clearAlerts(k)
		if v == versionHeld || v == versionSummaries {
			alerts = d.Byte() != 0
		}
		if v == versionHeld {
			summaries = d.Byte() != 0
		}
		if alerts {
			s.loadAlerts(&d, k)
		}
		if summaries {
			s.loadSummaries(&d, k)
		}
		if d.Bad || len(d.B) > 0 {
			err = ErrCorrupt
		}
		if d.Newer {
			err = ErrNewer
		}
	}
	if err == nil && s.restore.drops != nil && s.restore.drops(name) {
		s.strip(k)
		s.restore.load.leftOut += k.size()
	}
	s.bytes = before + k.size()
	if k.set == emptySet && !s.keepUnread(k) {
		return err
	}
	if b, ok := s.restore.load.broken[k]; ok {
		s.restore.load.broken[k] = broken{b.err, slices.Clone(value)}
	} else {
		s.restore.load.unstage(name)
		s.restore.load.forgetParts(name)
	}
	return err
}

// loadKey finds or makes a key; nil if no detector reads it any more.
func (s *State) loadKey(name []byte, born int64) *Key {
	k := s.keys.get(name)
	if k == nil {
		set := s.setFor(name)
		if set == nil {
			return nil
		}
		k = newKey(name, set)
		k.born = born
		s.insert(k)
	}
	if k.born != born { // another life of the key
		for i := range k.wins {
			s.clearWin(&k.set.wins[i], &k.wins[i])
		}
		k.born = born
	}
	return k
}

// unload removes a key while loading.
func (s *State) unload(k *Key) {
	s.bytes -= k.held.Bytes()
	k.held = nil
	if k.dropped {
		s.restore.load.leftOut -= k.size()
	}
	s.remove(k)
	for i := range k.wins {
		s.freeRing(&k.set.wins[i], &k.wins[i])
	}
	delete(s.restore.load.mismatch, k)
	delete(s.restore.load.rewrite, k)
	delete(s.restore.load.broken, k)
	delete(s.stale, k)
	delete(s.blocks, k)
}

// maxSegments bounds the segments of a window: a damaged head must not cause
// endless deletions.
const maxSegments = 1 << 17

func (s *State) loadWindows(d *decoder, k *Key, list []staged) error {
	seen := make([]bool, 0, 8)
	for range k.wins {
		seen = append(seen, false)
	}
	for range d.Len(13) {
		fp, cols, seg := d.Bits(), d.Small(), int64(d.Small())
		count, rows := d.Offset(), d.Offset()
		if d.Bad || cols < 1 || cols > maxDim || seg&(seg-1) != 0 || rows > count || rows > maxRows {
			return ErrCorrupt
		}
		tail := count - rows
		var segs segments
		if seg > 0 {
			part := d.Offset()
			start, to := tail&^(seg-1), count&^(seg-1)
			if part >= seg || (to-start)/seg > maxSegments {
				return ErrCorrupt
			}
			if tail = max(tail, to); start < to {
				segs = segments{start + part, to}
			}
		}
		at := slices.IndexFunc(k.set.wins, func(sw keyWindow) bool {
			return s.cfg.Windows[sw.index].Fingerprint == fp && len(sw.cols) == cols
		})
		if at < 0 || seen[at] || k.set.wins[at].seg != seg {
			for first := range segs.all(seg) {
				s.stale[k] = append(s.stale[k], staleSegment{changelog.Segment, fp, segmentID(seg, first)})
			}
			s.restore.load.rewrite[k] = struct{}{}
		}
		if at < 0 || seen[at] {
			s.restore.load.skipWindow(d, cols)
			continue
		}
		seen[at] = true
		w, sw := &k.wins[at], &k.set.wins[at]
		if err := s.takeSegments(k, sw, w, list, seg, segs); err != nil {
			return err
		}
		w.windUp(tail)
		s.loadRows(d, sw, w)
		rows = min(rows, int64(sw.need))
		if d.Bad || w.count != count {
			return ErrCorrupt
		}
		if int64(w.rows) < rows {
			err := fmt.Errorf("rows %d to %d of its window are missing: %w", count-rows, count-int64(w.rows), ErrCorrupt)
			s.restore.load.broken[k] = broken{err: err}
		} else {
			w.rows = int32(rows)
		}
		if w.segs = (segments{}); sw.seg == seg {
			w.segs = segs
		}
	}
	for i, ok := range seen {
		if !ok {
			w := &k.wins[i]
			s.clearWin(&k.set.wins[i], w)
			w.segs = segments{}
		}
	}
	return nil
}

func (s *State) loadMarks(d *decoder, k *Key) {
	for i := range k.marks {
		m := &k.marks[i]
		m.n, m.carry = 0, m.carry[:0]
	}
	for range d.Len(26) {
		name, fp, window := d.Bits(), d.Bits(), d.Bits()
		fresh, word := s.restore.load.fresh[:0], int64(0)
		for range d.Len(1) {
			word += d.Int()
			fresh = append(fresh, uint64(word))
		}
		s.restore.load.fresh = fresh
		carry := d.Words()
		if d.Bad {
			return
		}
		for i := range k.set.wins {
			for j := range k.set.wins[i].dets {
				det := &k.set.wins[i].dets[j]
				if nameHash(det.Name) != name {
					continue
				}
				switch {
				case s.cfg.Windows[det.Window].Fingerprint != window:
					s.restore.load.mismatched(k, Mismatch{Detector: det.Name, Fields: true, Window: window, Params: fp})
				case det.Fingerprint != fp:
					s.restore.load.mismatched(k, Mismatch{Detector: det.Name, Window: window, Params: fp})
				case len(fresh) >= int(det.stride) || len(carry) > det.most.Carry ||
					len(fresh) > 0 && k.wins[i].rows == 0 && s.restore.load.broken[k].err == nil:
					d.Fail()
				default:
					m := &k.marks[det.mark]
					m.carry = carry
					if m.n = int32(len(fresh)); m.n > 0 && k.wins[i].slab != nil {
						copy(k.wins[i].fresh(&k.set.wins[i], det), fresh)
					}
				}
			}
		}
	}
}
