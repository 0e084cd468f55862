package keystate

import (
	"fmt"
	"iter"
	"math"
	"math/bits"
	"slices"

	"odradek/processor/keystate/changelog"
)

// Floor is the replay floor if the last mark is committed with everything that
// Snapshot has emitted so far.
func (s *State) Floor() Floor {
	if !s.journal.started {
		return Floor{MaxTime: NoTime}
	}
	f := *s.journal.last()
	if k := s.dirty.first(); k != nil && k.since < f.Offset {
		f = s.journal.markAt(k.since)
	}
	f.Jumps = s.jury.jumps
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
	if !s.journal.started {
		return nil
	}
	if s.restore.replaying || s.next != s.journal.cur.start {
		panic("keystate: Snapshot while a unit is open: Mark comes first")
	}
	u := s.journal.newest()
	if u.snapped || u == s.journal.cur && u.prefix > u.final {
		panic("keystate: a second Snapshot before the first is Committed")
	}
	if s.decisions.crowded() {
		want = math.MaxInt64
	}
	c := emitter{emit: emit}
	s.logDecisions(&c, u)
	s.forget(&c, u, maxBytes)
	// Not within maxBytes, and not counted: the floor has to rise all the same.
	bytes := c.bytes
	for _, k := range s.changed.list {
		if !k.dead && k.dirty && c.err == nil {
			s.snapshot(&c, u, k)
		}
	}
	s.changed.reset()
	c.bytes = bytes
	for maxBytes >= 0 && c.err == nil {
		k := s.dirty.first()
		if k == nil || k.since >= want || maxBytes > 0 && c.bytes >= maxBytes {
			break
		}
		s.snapshot(&c, u, k)
	}
	u.floor = s.Floor()
	if u == s.journal.cur {
		u.prefix, u.prefixFloor = len(u.ops), u.floor.Offset
	} else {
		u.snapped = true
	}
	if c.err != nil {
		return fmt.Errorf("keystate: snapshot: %w", c.err)
	}
	return nil
}

// emitter counts what is emitted and stops at the first error.
type emitter struct {
	emit  func(key, value []byte) error
	key   []byte
	name  []byte
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

// segmentID names the segment of seg rows that begins with row first, and says
// all about its content: segments of different sizes, or of which the beginning
// was not there any more, are different segments.
func segmentID(seg, first int64) uint64 {
	return uint64(bits.TrailingZeros64(uint64(seg)))<<56 | uint64(first)
}

// deleteParts deletes the parts of a head.
func (c *emitter) deleteParts(name []byte, gen uint8, parts uint16) {
	for i := range uint64(parts) {
		c.put(changelog.Part, name, nil, uint64(gen)<<16|i)
	}
}

// deleteKey deletes everything of an evicted key but the eviction.
func (s *State) deleteKey(c *emitter, k *Key) {
	if k.inLog {
		c.put(changelog.Head, k.name, nil)
		c.deleteParts(k.name, k.gen, k.parts)
	}
	for i := range k.wins {
		w, sw := &k.wins[i], &k.set.wins[i]
		for first := range w.segs.all(sw.seg) {
			c.put(changelog.Segment, k.name, nil, s.cfg.Windows[sw.index].Fingerprint, segmentID(sw.seg, first))
		}
	}
	for _, old := range s.allStale(k) {
		c.put(old.kind, k.name, nil, old.window, old.id)
	}
}

// snapshot emits a key: new full segments, its head, and then deletions.
func (s *State) snapshot(c *emitter, u *unit, k *Key) {
	s.saveSnapshot(u, k)
	blocks := s.blocks[k]
	s.emitHeld(c, k)
	var few [8]segments
	old := few[:0]
	for i := range k.wins {
		w, sw := &k.wins[i], &k.set.wins[i]
		old = append(old, w.segs)
		w.segs = s.emitSegments(c, k, sw, w)
	}
	// Each head has parts of its own, so that it stays whole until the next is
	// there. Generations are not taken back by undo: see undoSnapshot.
	parts, gen := k.parts, k.gen
	s.emitHead(c, k)
	c.deleteParts(k.name, gen, parts)
	for i := range k.wins {
		w, sw := &k.wins[i], &k.set.wins[i]
		for first := range old[i].all(sw.seg) {
			if first < w.segs.from {
				c.put(changelog.Segment, k.name, nil, s.cfg.Windows[sw.index].Fingerprint, segmentID(sw.seg, first))
			}
		}
	}
	s.deleteBlocks(c, k, blocks)
	for _, seg := range s.stale[k] {
		if !s.hasSegment(k, seg) {
			c.put(seg.kind, k.name, nil, seg.window, seg.id)
		}
	}
	delete(s.stale, k)
	k.inLog = true
	s.dirty.clean(k)
}

// allStale are the records of an evicted key, but for its windows' segments, that
// are in the log beside its head.
func (s *State) allStale(k *Key) []staleSegment {
	all := slices.Clone(s.stale[k])
	for _, b := range s.blocks[k] {
		all = append(all, staleSegment{changelog.Held, uint64(b.first), b.sum})
	}
	return all
}

// hasSegment reports whether the key's head names the segment: it may have been
// stale and become good again.
func (s *State) hasSegment(k *Key, seg staleSegment) bool {
	if seg.kind == changelog.Held {
		return s.hasBlock(k, int64(seg.window), seg.id)
	}
	for i := range k.wins {
		w, sw := &k.wins[i], &k.set.wins[i]
		if s.cfg.Windows[sw.index].Fingerprint == seg.window {
			first := int64(seg.id & (1<<56 - 1))
			return sw.seg > 0 && seg.id == segmentID(sw.seg, first) && w.segs.has(sw.seg, first)
		}
	}
	return false
}

// segments are those of a window that the key's head names: rows from to to.
// They begin at multiples of their size, but for the first, which may begin
// later: where the window had moved on when it was written.
type segments struct{ from, to int64 }

// all are the first rows of the segments.
func (g segments) all(seg int64) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		for first := g.from; first < g.to && yield(first); {
			first = first&^(seg-1) + seg
		}
	}
}

func (g segments) has(seg, first int64) bool {
	return first == g.from && first < g.to || first > g.from && first < g.to && first&(seg-1) == 0
}

// emitSegments emits the segments that have become full and returns those that
// the head is to name.
func (s *State) emitSegments(c *emitter, k *Key, sw *keyWindow, w *win) segments {
	if sw.seg == 0 {
		return segments{}
	}
	live := w.count - int64(w.rows)
	start, to := live&^(sw.seg-1), w.count&^(sw.seg-1)
	g, todo := segments{start, to}, segments{w.segs.to, to}
	switch {
	case start == to:
		return segments{to, to}
	case w.segs.to <= start: // nothing that there is has been written
		g.from, todo.from = live, live
	case w.segs.from > start:
		g.from = w.segs.from
	}
	for first := range todo.all(sw.seg) {
		s.enc.Reset()
		s.enc.segment(k, sw, w, first, first&^(sw.seg-1)+sw.seg)
		c.put(changelog.Segment, k.name, s.enc.B, s.cfg.Windows[sw.index].Fingerprint, segmentID(sw.seg, first))
	}
	return g
}

// emitHead emits the head, in parts first if it is too large for one record.
func (s *State) emitHead(c *emitter, k *Key) {
	asOf := s.journal.last().Offset
	s.enc.Reset()
	k.parts = 0
	s.enc.headStart(k, asOf)
	start := len(s.enc.B)
	s.enc.head(s, k)
	limit := max(s.maxRecord()-len(k.name)-64, 256)
	if len(s.enc.B) <= limit {
		c.put(changelog.Head, k.name, s.enc.B)
		return
	}
	body := append([]byte(nil), s.enc.B[start:]...)
	parts := (len(body) + limit - 1) / limit
	if parts > math.MaxUint16 {
		c.err = fmt.Errorf("keystate: the state of key %s has %d bytes, more than %d records of %d", Digest(k.name), len(body),
			math.MaxUint16, limit)
		return
	}
	k.parts, k.gen = uint16(parts), (k.gen+1)%generations
	for i := range parts {
		s.enc.Reset()
		s.enc.headStart(k, asOf)
		s.enc.B = append(s.enc.B, body[i*limit:min((i+1)*limit, len(body))]...)
		c.put(changelog.Part, k.name, s.enc.B, uint64(k.gen)<<16|uint64(i))
	}
	s.enc.Reset()
	s.enc.headStart(k, asOf)
	s.enc.Uint(uint64(len(body)))
	c.put(changelog.Head, k.name, s.enc.B)
}

// generations of the parts of heads: those in the log, and those of cycles that
// were cut off or undone since.
const generations = 16

// saveSnapshot pushes what a snapshot of the key changes.
func (s *State) saveSnapshot(u *unit, k *Key) {
	stale := uint64(0)
	old := s.stale[k]
	if len(old) > 0 {
		stale = 1
		u.stale = append(u.stale, old)
	}
	if blocks := s.blocks[k]; len(blocks) > 0 {
		stale |= 2
		u.blocks = append(u.blocks, blocks)
	}
	from := len(u.words)
	u.words = append(u.words, stale, uint64(k.since))
	for i := range k.wins {
		u.words = append(u.words, uint64(k.wins[i].segs.from), uint64(k.wins[i].segs.to))
	}
	u.add(opSnapshot, k, 0, len(u.words)-from)
}

// undoSnapshot forgets that the key was snapshotted. The records may be in the
// changelog all the same: at least once, or where a commit's outcome is not known
// and the offset does not tell (a snapshot without new input). So the key stays
// one whose head and parts have to be deleted, and no segment is relied on.
func (s *State) undoSnapshot(k *Key, w []uint64, u *unit) {
	var stale []staleSegment
	if w[0]&1 != 0 {
		stale = pop(&u.stale, 1)[0]
	}
	more := s.allStale(k)
	if w[0]&2 != 0 {
		s.blocks[k] = pop(&u.blocks, 1)[0]
		more = append(more, s.allStale(k)[len(s.stale[k]):]...)
	}
	delete(s.blocks, k)
	stale = slices.Clone(stale)
	for _, seg := range more {
		if !slices.Contains(stale, seg) {
			stale = append(stale, seg)
		}
	}
	k.dirty, k.since = true, int64(w[1])
	for i := range k.wins {
		win, sw := &k.wins[i], &k.set.wins[i]
		for _, g := range []segments{{int64(w[2+2*i]), int64(w[3+2*i])}, win.segs} {
			for first := range g.all(sw.seg) {
				seg := staleSegment{changelog.Segment, s.cfg.Windows[sw.index].Fingerprint, segmentID(sw.seg, first)}
				if !slices.Contains(stale, seg) {
					stale = append(stale, seg)
				}
			}
		}
		win.segs = segments{}
	}
	if len(stale) > 0 {
		s.stale[k] = stale
	}
}
