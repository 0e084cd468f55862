package keystate

import (
	"fmt"
	"math"
	"slices"

	"odradek/processor/keystate/changelog"
	"odradek/processor/keystate/heldblock"
	"odradek/processor/keystate/series"
)

// Floor is the replay floor if the last mark is committed with everything that
// Snapshot has emitted so far.
func (s *State) Floor() Floor {
	if !s.journal.Started() {
		return Floor{MaxTime: NoTime}
	}
	f := *s.journal.Last()
	if k := s.dirty.first(); k != nil && k.since < f.Offset {
		f = s.journal.At(k.since)
	}
	f.Jumps = s.jury.Jumps()
	return f
}

// Snapshot emits changelog records for the cycle that commits the last mark: the
// decisions since the last Snapshot, deletions of what is not needed any more,
// the keys of which an anomaly has changed, and the keys that have been dirty for
// longest, until the floor is at want or maxBytes of the last kind are emitted (0: no
// limit, negative: none). At least one key is emitted if the floor is below want.
// value is nil for a deletion; both slices are valid until emit returns.
//
// It has to be called between every Mark and the commit of its cycle, because
// decisions and changes of anomalies are emitted in no other, and before anything
// else is folded. Once
// the mark is Committed it may be called again without a new one, to bring the
// floor of an idle partition to the committed offset: that cycle commits the
// same offset, and Committed and Rollback with it mean that cycle. After an
// error the cycle cannot be committed: Rollback.
func (s *State) Snapshot(want int64, maxBytes int, emit func(key, value []byte) error) error {
	if !s.journal.Started() {
		return nil
	}
	if s.restore.replaying || s.next != s.journal.Open.Start() {
		panic("keystate: Snapshot while a unit is open: Mark comes first")
	}
	if s.journal.Snapshotted() {
		panic("keystate: a second Snapshot before the first is Committed")
	}
	if s.decisions.Crowded() {
		want = math.MaxInt64
	}
	c := emitter{emit: emit}
	s.logDecisions(&c, maxBytes)
	// Not within maxBytes, and not counted: the floor has to rise all the same.
	bytes := c.bytes
	for _, k := range s.changed.list {
		if !k.dead && k.dirty && c.err == nil {
			s.snapshot(&c, k)
		}
	}
	s.changed.reset()
	c.bytes = bytes
	for maxBytes >= 0 && c.err == nil {
		k := s.dirty.first()
		if k == nil || k.since >= want || maxBytes > 0 && c.bytes >= maxBytes {
			break
		}
		s.snapshot(&c, k)
	}
	s.journal.Snapshot(s.Floor())
	if c.err != nil {
		return fmt.Errorf("keystate: snapshot: %w", c.err)
	}
	return nil
}

// emitter counts what is emitted and stops at the first error.
type emitter struct {
	emit  func(key, value []byte) error
	key   []byte
	bytes int
	err   error
}

// put emits a record. suffix are the big-endian numbers after the name.
func (c *emitter) put(kind byte, name, value []byte, suffix ...uint64) {
	if c.err != nil {
		return
	}
	c.key = changelog.AppendKey(c.key[:0], kind, name, suffix...)
	c.bytes += len(c.key) + len(value)
	c.err = c.emit(c.key, value)
}

// staleSegment is a segment of a window that is not there any more, or not in
// segments of this size; or a block of held samples that no head names.
type staleSegment struct {
	kind       byte   // changelog.Segment or changelog.Held
	window, id uint64 // or the block's name
}

// deleteFragments deletes the fragments of a head.
func (c *emitter) deleteFragments(name []byte, gen uint8, n uint16) {
	for i := range int(n) {
		c.put(changelog.Fragment, name, nil, changelog.FragmentID(gen, i))
	}
}

// deleteKey deletes everything of an evicted key but the eviction.
func (s *State) deleteKey(c *emitter, k *Key) {
	if k.inLog {
		c.put(changelog.Head, k.Name(), nil)
		c.deleteFragments(k.Name(), k.gen, k.fragments)
	}
	for i := range k.Windows {
		w, sw := &k.Windows[i], &k.Set.Windows[i]
		for first := range w.Named.All(sw.SegmentRows) {
			c.put(changelog.Segment, k.Name(), nil, sw.Fingerprint, series.SegmentID(sw.SegmentRows, first))
		}
	}
	for _, old := range s.allStale(k) {
		c.put(old.kind, k.Name(), nil, old.window, old.id)
	}
}

// snapshot emits a key: new full segments, its head, and then deletions.
func (s *State) snapshot(c *emitter, k *Key) {
	s.saveSnapshot(s.journal.Newest(), k)
	blocks := s.blocks[k]
	s.emitHeld(c, k)
	var few [8]series.Segments
	old := few[:0]
	for i := range k.Windows {
		old = append(old, k.Windows[i].Named)
		s.emitSegments(c, k, i)
	}
	// Generations are not taken back by undo: see undoSnapshot.
	fragments, gen := k.fragments, k.gen
	s.emitHead(c, k)
	c.deleteFragments(k.Name(), gen, fragments)
	for i := range k.Windows {
		w, sw := &k.Windows[i], &k.Set.Windows[i]
		for first := range old[i].All(sw.SegmentRows) {
			if first < w.Named.From {
				c.put(changelog.Segment, k.Name(), nil, sw.Fingerprint, series.SegmentID(sw.SegmentRows, first))
			}
		}
	}
	s.deleteBlocks(c, k, blocks)
	for _, seg := range s.stale[k] {
		if !s.hasSegment(k, seg) {
			c.put(seg.kind, k.Name(), nil, seg.window, seg.id)
		}
	}
	delete(s.stale, k)
	k.inLog = true
	s.dirty.clean(k)
}

// allStale are the records of an evicted key, but for its windows' segments, that
// are in the log beside its head.
func (s *State) allStale(k *Key) []staleSegment {
	return appendBlocks(slices.Clone(s.stale[k]), s.blocks[k])
}

// hasSegment reports whether the key's head names the segment: it may have been
// stale and become good again.
func (s *State) hasSegment(k *Key, seg staleSegment) bool {
	if seg.kind == changelog.Held {
		return heldblock.Contains(s.blocks[k], heldblock.Name{First: seg.window, Sum: seg.id})
	}
	for i := range k.Windows {
		w, sw := &k.Windows[i], &k.Set.Windows[i]
		if sw.Fingerprint == seg.window {
			first := int64(seg.id & (1<<56 - 1))
			return sw.SegmentRows > 0 && seg.id == series.SegmentID(sw.SegmentRows, first) && w.Named.Has(sw.SegmentRows, first)
		}
	}
	return false
}

// emitSegments emits the segments of the i-th window that have become full and has its head
// name them.
func (s *State) emitSegments(c *emitter, k *Key, i int) {
	w, sw := &k.Windows[i], &k.Set.Windows[i]
	live, full := w.Full(sw)
	for first := range full.All(sw.SegmentRows) {
		s.enc.Reset()
		k.EncodeSegment(&s.enc.Encoder, i, first, first&^(sw.SegmentRows-1)+sw.SegmentRows)
		c.put(changelog.Segment, k.Name(), s.enc.B, sw.Fingerprint, series.SegmentID(sw.SegmentRows, first))
	}
	w.Named = live
}

// emitHead emits the head, in fragments first if it is too large for one record.
func (s *State) emitHead(c *emitter, k *Key) {
	asOf := s.journal.Last().Offset
	s.enc.Reset()
	k.fragments = 0
	s.enc.headStart(k, asOf)
	start := len(s.enc.B)
	s.enc.head(s, k)
	limit := max(s.cfg.maxRecord()-len(k.Name())-64, 256)
	if len(s.enc.B) <= limit {
		c.put(changelog.Head, k.Name(), s.enc.B)
		return
	}
	body := append([]byte(nil), s.enc.B[start:]...)
	n := (len(body) + limit - 1) / limit
	if n > changelog.MaxFragments {
		c.err = fmt.Errorf("keystate: the state of key %s has %d bytes, more than %d records of %d", Digest(k.Name()), len(body),
			changelog.MaxFragments, limit)
		return
	}
	k.fragments, k.gen = uint16(n), (k.gen+1)%changelog.Generations
	for i := range n {
		s.enc.Reset()
		s.enc.headStart(k, asOf)
		s.enc.B = append(s.enc.B, body[i*limit:min((i+1)*limit, len(body))]...)
		c.put(changelog.Fragment, k.Name(), s.enc.B, changelog.FragmentID(k.gen, i))
	}
	s.enc.Reset()
	s.enc.headStart(k, asOf)
	s.enc.Uint(uint64(len(body)))
	c.put(changelog.Head, k.Name(), s.enc.B)
}

// saveSnapshot pushes what a snapshot of the key changes.
func (s *State) saveSnapshot(u *unit, k *Key) {
	from := len(u.Words)
	u.Words = append(u.Words, uint64(k.since))
	for i := range k.Windows {
		u.Words = append(u.Words, uint64(k.Windows[i].Named.From), uint64(k.Windows[i].Named.To))
	}
	u.PushValues(opSnapshot, k, 0, len(u.Words)-from, s.stale[k], s.blocks[k])
}

// undoSnapshot forgets that the key was snapshotted. The records may be in the
// changelog all the same: at least once, or where a commit's outcome is not known
// and the offset does not tell (a snapshot without new input). So the key stays
// one whose head and fragments have to be deleted, and no segment is relied on.
func (s *State) undoSnapshot(k *Key, w []uint64, stale []staleSegment, blocks []heldblock.Block) {
	more := appendBlocks(s.allStale(k), blocks)
	delete(s.blocks, k)
	stale = slices.Clone(stale)
	for _, seg := range more {
		if !slices.Contains(stale, seg) {
			stale = append(stale, seg)
		}
	}
	k.dirty, k.since = true, int64(w[0])
	for i := range k.Windows {
		win, sw := &k.Windows[i], &k.Set.Windows[i]
		for _, g := range []series.Segments{{From: int64(w[1+2*i]), To: int64(w[2+2*i])}, win.Named} {
			for first := range g.All(sw.SegmentRows) {
				seg := staleSegment{changelog.Segment, sw.Fingerprint, series.SegmentID(sw.SegmentRows, first)}
				if !slices.Contains(stale, seg) {
					stale = append(stale, seg)
				}
			}
		}
		win.Named = series.Segments{}
	}
	if len(stale) > 0 {
		s.stale[k] = stale
	}
}
