package keystate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"odradek/processor/keystate/changelog"
	"odradek/processor/keystate/series"
)

// Load reads a record of the changelog into a new State; call it for all records, in the
// order of the log. value is nil for a deletion. Load retains neither slice. Compaction may
// have removed records, and may go on while the log is read, so only the last head of a key
// has to be complete; BeginReplay reports one that is not. Any bytes are safe; those that no
// Snapshot has emitted give ErrCorrupt.
func (s *State) Load(key, value []byte) error {
	if s.journal.Started() {
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
	case changelog.Fragment:
		err = s.restore.load.fragments.Add(name, value, suffix[0])
	case changelog.Segment:
		err = s.loadSegment(name, value, suffix[0], suffix[1])
	case changelog.Held:
		err = s.restore.load.addHeldBlock(name, value, suffix[0], suffix[1])
	case changelog.Eviction:
		err = s.decisions.LoadEviction(name, value)
	case changelog.Decision:
		err = s.decisions.Load(name, value, suffix[0])
	default:
		err = fmt.Errorf("type %q: %w", kind, ErrCorrupt)
	}
	if err != nil {
		return fmt.Errorf("keystate: changelog record %c of key %s: %w", kind, Digest(name), err)
	}
	return nil
}

// loadSegment stages a segment until a head names it: segments of a cycle that was
// cut off before its head (at least once) must not get into the window.
func (s *State) loadSegment(name, value []byte, window, id uint64) error {
	if value == nil || s.restore.drops != nil && s.restore.drops(name) {
		return nil // the heads name the segments that count
	}
	g, err := series.ReadSegment(value, series.SegmentName{Window: window, ID: id})
	if err != nil {
		return err
	}
	s.restore.load.bytes += g.Size()
	s.restore.load.staged[string(name)] = append(s.restore.load.staged[string(name)], g)
	return nil
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
	fragments, asOf, born := d.Small(), d.Offset(), d.Offset()
	gen := uint8(fragments % changelog.Generations)
	fragments /= changelog.Generations
	if d.Bad || fragments > changelog.MaxFragments {
		return ErrCorrupt
	}
	if fragments > 0 {
		start := value[:len(value)-len(d.B)]
		size := d.Small()
		if d.Bad {
			return ErrCorrupt
		}
		body, err := s.restore.load.fragments.Join(name, start, gen, fragments, size)
		if err != nil {
			k := s.loadKey(name, born)
			if k == nil && full {
				k = s.loadUnread(name, born)
			}
			if k != nil {
				s.restore.load.broken[k] = broken{err, slices.Clone(value)}
				k.asOf, k.fragments, k.gen, k.inLog = asOf, uint16(fragments), gen, true
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
	slices.SortStableFunc(list, func(a, b series.StoredSegment) int {
		return cmp.Or(cmp.Compare(a.Window, b.Window), cmp.Compare(a.ID, b.ID))
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
	k.asOf, k.fragments, k.gen, k.inLog = asOf, uint16(fragments), gen, true
	k.held = nil
	h := &s.restore.load.head
	h.Silence = s.cfg.Silence > 0
	h.Start(d.B)
	err := h.Rows(&k.Series, list)
	if err == nil {
		h.Progress(&k.Series)
		s.takeFindings(k, h)
		d.Decoder = h.Decoder
		alerts, summaries := v == versionAlerts, v == versionSummaries
		if v != versionTraces || d.Byte() != 0 {
			s.loadHeld(&d, k, v >= versionHeld)
		}
		k.Alerts.Clear()
		if v >= versionSummaries {
			alerts = d.Byte() != 0
		}
		if v >= versionHeld {
			summaries = d.Byte() != 0
		}
		h.Decoder = d.Decoder
		if alerts {
			h.Alerts(&k.Series)
		}
		if summaries {
			h.Summaries(&k.Series)
		}
		if v == versionTraces {
			h.Differences = nil
			h.Traces(&k.Series)
			s.takeDifferences(k, h)
		}
		d.Decoder = h.Decoder
		if h.Rewrite {
			s.restore.load.rewrite[k] = struct{}{}
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
	if k.Set == series.None && !s.keepUnread(k) {
		return err
	}
	if b, ok := s.restore.load.broken[k]; ok {
		s.restore.load.broken[k] = broken{b.err, slices.Clone(value)}
	} else {
		s.restore.load.unstage(name)
		s.restore.load.fragments.Forget(name)
	}
	return err
}

// takeFindings notes what the reader has found of a key's rows and progress.
func (s *State) takeFindings(k *Key, h *series.Reader) {
	for _, name := range h.Stale {
		s.stale[k] = append(s.stale[k], staleSegment{changelog.Segment, name.Window, name.ID})
	}
	s.takeDifferences(k, h)
	if h.Missing != nil {
		s.restore.load.broken[k] = broken{err: h.Missing}
	}
}

// takeDifferences notes what another configuration has made of a key's state.
func (s *State) takeDifferences(k *Key, h *series.Reader) {
	for _, f := range h.Differences {
		s.restore.load.mismatched(k, Mismatch{Detector: f.Detector, Fields: f.Fields, Window: f.Window, Params: f.Params})
	}
}

// loadKey finds or makes a key; nil if no detector reads it any more.
func (s *State) loadKey(name []byte, born int64) *Key {
	k := s.keys.get(name)
	if k == nil {
		set := s.sets.For(name)
		if set == nil {
			return nil
		}
		k = newKey(name, set)
		k.Born = born
		s.insert(k)
	}
	if k.Born != born { // another life of the key
		before := k.size()
		k.Clear()
		s.bytes += k.size() - before
		k.Born = born
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
	k.Release()
	delete(s.restore.load.mismatch, k)
	delete(s.restore.load.rewrite, k)
	delete(s.restore.load.broken, k)
	delete(s.stale, k)
	delete(s.blocks, k)
}

// startHead is start for a head: the version.
func (d *decoder) startHead() byte {
	v := d.Byte()
	if v != version && v != versionAlerts && v != versionSummaries && v != versionHeld && v != versionTraces {
		d.Fail()
	}
	return v
}

// loadUnread makes a key that no detector reads: its open anomalies have to be
// closed.
func (s *State) loadUnread(name []byte, born int64) *Key {
	k := newKey(name, series.None)
	k.Born = born
	s.insert(k)
	return k
}

// keepUnread reports whether a key that no detector reads has anomalies to close, and
// removes it if not.
func (s *State) keepUnread(k *Key) bool {
	s.bytes -= k.held.Bytes()
	k.held = nil
	delete(s.restore.load.mismatch, k)
	if k.Alerts != nil && len(k.Alerts.Orphans) > 0 {
		return true
	}
	s.unload(k)
	return false
}
