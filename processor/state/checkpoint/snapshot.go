package checkpoint

import (
	"fmt"
	"slices"

	"odradek/processor/state/changelog"
	"odradek/processor/state/series"
)

// This file writes the keys of a partition to the changelog, and tracks which records of a key
// the changelog has beside its head: the segments of held samples that the head names, and records that
// no head names any more.

// Record names a record of a key that no head names: a segment of a window that was removed or has segments of
// another size, a segment of held samples, or a fragment of a former head.
type Record struct {
	Kind   byte   // changelog.Segment, Held or Fragment
	Window uint64 // with ID the segment's name; of a fragment 0
	ID     uint64
}

// remove deletes the record.
func (r *Record) remove(c *changelog.Emitter, name []byte) {
	if r.Kind == changelog.Fragment {
		c.Put(r.Kind, name, nil, r.ID)
		return
	}
	c.Put(r.Kind, name, nil, r.Window, r.ID)
}

// HeldRecord returns the record of a segment of held samples.
func HeldRecord(name HeldName) Record { return Record{changelog.Held, name.First, name.Sum} }

// records tracks which records of keys are in the changelog beside their heads.
type records struct {
	stale        map[*series.Key][]Record
	heldSegments map[*series.Key][]HeldSegment // that the key's head names
	undone       map[string]undone             // by name; of keys whose creation was undone
}

// undone is what a key whose creation was undone may have left in the changelog: a head with fragments, and other records.
type undone struct {
	fragments  uint16
	generation uint8
	stale      []Record
}

// Writer writes keys to the changelog.
type Writer struct {
	records
	held      HeldWriter
	maxRecord int // bytes of key and value
	enc       changelog.Encoder
}

// NewWriter returns a Writer for records of at most maxRecord bytes.
func NewWriter(held HeldFormat, maxRecord int) Writer {
	return Writer{
		records: records{map[*series.Key][]Record{}, map[*series.Key][]HeldSegment{}, map[string]undone{}},
		held:    NewHeldWriter(held, maxRecord), maxRecord: maxRecord,
	}
}

// Format returns how held samples are written.
func (w *Writer) Format() *HeldFormat { return &w.held.format }

// Emit emits a key: new full segments, its head, and then deletions. asOf is the offset of the mark that
// the snapshot follows.
func (w *Writer) Emit(c *changelog.Emitter, k *series.Key, asOf int64) {
	segments := w.heldSegments[k]
	w.SetHeldSegments(k, w.held.Segments(segments, k.Held, k.LastTime, k.Born, func(name HeldName, value []byte) {
		c.Put(changelog.Held, k.Name(), value, name.First, name.Sum)
	}))
	var few [8]series.Segments
	old := few[:0]
	for i := range k.Windows {
		old = append(old, k.Windows[i].Named)
		w.emitSegments(c, k, i)
	}
	// Generations are not taken back by undo: see Undo.
	fragments, gen := k.Fragments, k.Generation
	w.emitHead(c, k, asOf)
	c.DeleteFragments(k.Name(), gen, fragments)
	for i := range k.Windows {
		win, sw := &k.Windows[i], &k.Set.Windows[i]
		for first := range old[i].All(sw.SegmentRows) {
			if first < win.Named.From {
				c.Put(changelog.Segment, k.Name(), nil, sw.Fingerprint, series.SegmentID(sw.SegmentRows, first))
			}
		}
	}
	for i := range segments { // that the head does not name any more
		if name := segments[i].Name(); !ContainsHeld(w.heldSegments[k], name) {
			c.Put(changelog.Held, k.Name(), nil, name.First, name.Sum)
		}
	}
	for _, r := range w.stale[k] {
		if !w.Named(k, r) {
			r.remove(c, k.Name())
		}
	}
	delete(w.stale, k)
	k.InLog = true
}

// Delete deletes everything of an evicted key but the eviction.
func (w *Writer) Delete(c *changelog.Emitter, k *series.Key) {
	if k.InLog {
		c.Put(changelog.Head, k.Name(), nil)
		c.DeleteFragments(k.Name(), k.Generation, k.Fragments)
	}
	for i := range k.Windows {
		win, sw := &k.Windows[i], &k.Set.Windows[i]
		for first := range win.Named.All(sw.SegmentRows) {
			c.Put(changelog.Segment, k.Name(), nil, sw.Fingerprint, series.SegmentID(sw.SegmentRows, first))
		}
	}
	for _, r := range w.Stale(k) {
		r.remove(c, k.Name())
	}
}

// Forget forgets the records of a key that is deleted, or read again.
func (rs *records) Forget(k *series.Key) {
	delete(rs.stale, k)
	delete(rs.heldSegments, k)
}

// Uncreate notes that a key's creation is undone, after its snapshots were undone. Its records may be in the changelog all the
// same (see Undo): the next key of its name, or the one whose eviction is undone next, takes them over with Inherit.
func (rs *records) Uncreate(k *series.Key) {
	if k.InLog {
		rs.undone[string(k.Name())] = undone{k.Fragments, k.Generation, rs.Stale(k)}
	}
	rs.Forget(k)
}

// Inherit makes a key answer for the records of one of its name whose creation was undone. The key's next snapshot
// deletes them, and its next generations of fragments overwrite neither's: until its head is written, the
// changelog needs the fragments of the head before, whichever of the two wrote it.
func (rs *records) Inherit(k *series.Key) {
	u, ok := rs.undone[string(k.Name())]
	if !ok {
		return
	}
	delete(rs.undone, string(k.Name()))
	k.InLog = true
	fragments, generation := k.Fragments, k.Generation
	if ahead(u.generation, generation) > ahead(generation, u.generation) { // count on from the undone one
		k.Fragments, k.Generation = u.fragments, u.generation
	} else {
		fragments, generation = u.fragments, u.generation
	}
	for i := range int(fragments) {
		u.stale = append(u.stale, Record{Kind: changelog.Fragment, ID: changelog.FragmentID(generation, i)})
	}
	rs.AddStale(k, u.stale...)
}

// ahead returns how many generations there are from one to the next occurrence of another.
func ahead(from, to uint8) uint8 { return (to - from) % changelog.Generations }

// Stale returns the records of a key, but for its windows' segments, that are in the log beside its head.
func (rs *records) Stale(k *series.Key) []Record {
	return appendHeld(slices.Clone(rs.stale[k]), rs.heldSegments[k])
}

// AddStale adds records that the key's next snapshot, or its Delete, deletes.
func (rs *records) AddStale(k *series.Key, more ...Record) {
	if len(more) > 0 {
		rs.stale[k] = append(rs.stale[k], more...)
	}
}

// SetHeldSegments sets the segments that the key's head names.
func (rs *records) SetHeldSegments(k *series.Key, segments []HeldSegment) {
	if len(segments) == 0 {
		delete(rs.heldSegments, k)
	} else {
		rs.heldSegments[k] = segments
	}
}

// DropHeldFrom takes the samples behind offset out of their segments, because one of that
// offset is held from now on. The next head names segments that have it.
func (rs *records) DropHeldFrom(k *series.Key, offset int64) {
	before, rest := SplitHeld(rs.heldSegments[k], offset)
	if len(rest) == 0 {
		return
	}
	rs.stale[k] = appendHeld(slices.Clone(rs.stale[k]), rest)
	rs.SetHeldSegments(k, before)
}

// appendHeld appends the records of segments to dst.
func appendHeld(dst []Record, segments []HeldSegment) []Record {
	for i := range segments {
		dst = append(dst, HeldRecord(segments[i].Name()))
	}
	return dst
}

// Named reports whether the key's head names the record: it may have been
// stale and become good again.
func (rs *records) Named(k *series.Key, r Record) bool {
	switch r.Kind {
	case changelog.Fragment:
		return r.ID < changelog.FragmentID(k.Generation, int(k.Fragments)) && r.ID >= changelog.FragmentID(k.Generation, 0)
	case changelog.Held:
		return ContainsHeld(rs.heldSegments[k], HeldName{First: r.Window, Sum: r.ID})
	}
	for i := range k.Windows {
		win, sw := &k.Windows[i], &k.Set.Windows[i]
		if sw.Fingerprint == r.Window {
			first := int64(r.ID & (1<<56 - 1))
			return sw.SegmentRows > 0 && r.ID == series.SegmentID(sw.SegmentRows, first) && win.Named.Has(sw.SegmentRows, first)
		}
	}
	return false
}

// emitSegments emits the segments of the i-th window that have become full and has its head
// name them.
func (w *Writer) emitSegments(c *changelog.Emitter, k *series.Key, i int) {
	win, sw := &k.Windows[i], &k.Set.Windows[i]
	live, full := win.Full(sw)
	for first := range full.All(sw.SegmentRows) {
		w.enc.Reset()
		series.Writer{Encoder: &w.enc}.Segment(&k.Series, i, first, first&^(sw.SegmentRows-1)+sw.SegmentRows)
		c.Put(changelog.Segment, k.Name(), w.enc.B, sw.Fingerprint, series.SegmentID(sw.SegmentRows, first))
	}
	win.Named = live
}

// emitHead emits the head, in fragments first if it is too large for one record.
func (w *Writer) emitHead(c *changelog.Emitter, k *series.Key, asOf int64) {
	e := &w.enc
	e.Reset()
	k.Fragments = 0
	appendStart(e, k, asOf)
	start := len(e.B)
	w.appendBody(k)
	limit := max(w.maxRecord-len(k.Name())-64, 256)
	if len(e.B) <= limit {
		c.Put(changelog.Head, k.Name(), e.B)
		return
	}
	body := append([]byte(nil), e.B[start:]...)
	n := (len(body) + limit - 1) / limit
	if n > changelog.MaxFragments {
		c.Err = fmt.Errorf("checkpoint: the state of key %s has %d bytes, more than %d records of %d", changelog.Digest(k.Name()), len(body),
			changelog.MaxFragments, limit)
		return
	}
	k.Fragments, k.Generation = uint16(n), (k.Generation+1)%changelog.Generations
	for i := range n {
		e.Reset()
		appendStart(e, k, asOf)
		e.B = append(e.B, body[i*limit:min((i+1)*limit, len(body))]...)
		c.Put(changelog.Fragment, k.Name(), e.B, changelog.FragmentID(k.Generation, i))
	}
	e.Reset()
	appendStart(e, k, asOf)
	e.Uint(uint64(len(body)))
	c.Put(changelog.Head, k.Name(), e.B)
}

// AppendUndo appends to dst the numbers that Undo needs of a key that is to be emitted, and returns
// its records, for Undo, too.
func (w *Writer) AppendUndo(dst []uint64, k *series.Key) ([]uint64, []Record, []HeldSegment) {
	since, _ := k.Dirty()
	dst = append(dst, uint64(since), changelog.FragmentID(k.Generation, int(k.Fragments)))
	for i := range k.Windows {
		dst = append(dst, uint64(k.Windows[i].Named.From), uint64(k.Windows[i].Named.To))
	}
	return dst, w.stale[k], w.heldSegments[k]
}

// Undo reverts Emit. The records may be in the
// changelog nevertheless: at least once, or where a commit's outcome is not known
// and the offset does not tell (a snapshot without new input). So an eviction of the key still deletes
// its head and fragments, the fragments of the head before too, and the next snapshot writes all segments again.
func (w *Writer) Undo(k *series.Key, words []uint64, stale []Record, segments []HeldSegment) {
	more := appendHeld(w.Stale(k), segments)
	delete(w.heldSegments, k)
	stale = slices.Clone(stale)
	for _, r := range more {
		if !slices.Contains(stale, r) {
			stale = append(stale, r)
		}
	}
	k.SetDirty(int64(words[0]))
	for i := range words[1] & changelog.MaxFragments {
		if r := (Record{Kind: changelog.Fragment, ID: words[1]&^changelog.MaxFragments | i}); !w.Named(k, r) && !slices.Contains(stale, r) {
			stale = append(stale, r)
		}
	}
	words = words[2:]
	for i := range k.Windows {
		win, sw := &k.Windows[i], &k.Set.Windows[i]
		for _, g := range []series.Segments{{From: int64(words[2*i]), To: int64(words[2*i+1])}, win.Named} {
			for first := range g.All(sw.SegmentRows) {
				r := Record{changelog.Segment, sw.Fingerprint, series.SegmentID(sw.SegmentRows, first)}
				if !slices.Contains(stale, r) {
					stale = append(stale, r)
				}
			}
		}
		win.Named = series.Segments{}
	}
	if len(stale) > 0 {
		w.stale[k] = stale
	}
}
