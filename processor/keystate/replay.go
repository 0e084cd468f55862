package keystate

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Errors of a restore.
var (
	// ErrAhead: the changelog holds state of offsets that are not committed. Another
	// member has committed since the offset was read, or offset and changelog do
	// not belong together. Read the committed offset again.
	ErrAhead = errors.New("the changelog is ahead of the committed offset")
)

// loading is what only a restore needs.
type loading struct {
	parts    map[string]map[uint64][]byte    // heads' parts whose head has not come
	staged   map[string][]staged             // by name: segments since the last head
	blocks   map[string]map[blockName][]byte // by name: those of held samples
	mismatch map[*Key][]Mismatch             // what the last head had of another configuration
	rewrite  map[*Key]struct{}               // keys to write again because of it
	broken   map[*Key]broken                 // keys whose last head is not complete
	times    []uint64
	fresh    []uint64
	bytes    int64 // of parts and segments
	leftOut  int64 // bytes of dropped keys
}

// broken is a head of which segments or parts are missing. They may come yet: a
// cycle that was cut off has written them again.
type broken struct {
	err   error
	value []byte
}

// staged is a segment that waits for the head that names it.
type staged struct {
	window, id  uint64
	born, first int64
	cols        int
	rows        []byte
}

// Load takes a record of the changelog; all of them, in the order of the log,
// into a new State. value is nil for a deletion. It keeps neither slice. Records
// that compaction has removed are not missed: it may be at work while the log is
// read, so that only the last head of a key has to be complete, and BeginReplay
// says so where it is not. Any bytes are safe; those that no Snapshot has emitted
// give ErrCorrupt.
func (s *State) Load(key, value []byte) error {
	if s.journal.started {
		return errors.New("keystate: Load into a state that has begun")
	}
	if s.load == nil {
		s.load = &loading{
			parts: map[string]map[uint64][]byte{}, staged: map[string][]staged{}, blocks: map[string]map[blockName][]byte{},
			mismatch: map[*Key][]Mismatch{}, rewrite: map[*Key]struct{}{}, broken: map[*Key]broken{},
		}
	}
	kind, name, suffix, err := splitKey(key)
	if err != nil {
		return err
	}
	switch kind {
	case recHead:
		err = s.loadHead(name, value)
	case recPart:
		err = s.loadPart(name, value, suffix[0])
	case recSegment:
		err = s.loadSegment(name, value, suffix[0], suffix[1])
	case recHeld:
		err = s.loadHeldBlock(name, value, suffix[0], suffix[1])
	case recEviction:
		err = s.decisions.loadEviction(name, value)
	case recDecision:
		err = s.decisions.load(name, value, suffix[0])
	default:
		err = fmt.Errorf("type %q: %w", kind, ErrCorrupt)
	}
	if err != nil {
		return fmt.Errorf("keystate: changelog record %c of key %s: %w", kind, Digest(name), err)
	}
	return nil
}

// loadPart keeps a part for its head.
func (s *State) loadPart(name, value []byte, i uint64) error {
	if i >= generations<<16 {
		return ErrCorrupt
	}
	p := s.load.parts[string(name)]
	s.load.bytes -= int64(len(p[i]))
	if value == nil {
		delete(p, i)
		return nil
	}
	if p == nil {
		p = map[uint64][]byte{}
		s.load.parts[string(name)] = p
	}
	p[i] = slices.Clone(value)
	s.load.bytes += int64(len(value))
	return nil
}

// assemble joins the parts of a head, each of which begins as the head does.
func (s *State) assemble(name, start []byte, parts, gen, size int) ([]byte, error) {
	p := s.load.parts[string(name)]
	var body []byte
	for i := range parts {
		id := uint64(gen)<<16 | uint64(i)
		rest, ok := bytes.CutPrefix(p[id], start)
		if !ok {
			return nil, fmt.Errorf("part %d of its head is missing or of another head: %w", i, ErrCorrupt)
		}
		body = append(body, rest...)
	}
	if len(body) != size {
		return nil, fmt.Errorf("parts of its head have %d bytes, not %d: %w", len(body), size, ErrCorrupt)
	}
	return body, nil
}

// loadSegment keeps a segment until a head names it: what a cycle wrote that was
// cut off before its head (at least once) must not get into the window.
func (s *State) loadSegment(name, value []byte, window, id uint64) error {
	if value == nil || s.drops != nil && s.drops(name) {
		return nil // heads say which segments count
	}
	d := decoder{b: value}
	d.start()
	born, first, cols := d.offset(), d.offset(), d.small()
	if d.bad || cols < 1 || cols > maxDim {
		return ErrCorrupt
	}
	list := s.load.staged[string(name)]
	s.load.bytes += int64(len(d.b)) + stagedBytes
	s.load.staged[string(name)] = append(list, staged{window, id, born, first, cols, slices.Clone(d.b)})
	return nil
}

// takeSegments takes the rows of the segments that a head names into their
// window, as far as an earlier head has not brought them.
func (s *State) takeSegments(k *Key, sw *shapeWin, w *win, list []staged, seg int64, segs segments) error {
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
		d := decoder{b: g.rows}
		if s.loadRows(&d, sw, w); d.bad || len(d.b) > 0 || w.count != end {
			return ErrCorrupt
		}
	}
	return nil
}

// windUp makes first the number of the next row: rows from there on are written
// again, and a gap before it empties the window.
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
func (s *State) loadRows(d *decoder, sw *shapeWin, w *win) {
	nc := len(sw.cols)
	times := d.times(s.load.times[:0], nc)
	s.load.times = times
	if len(times) == 0 {
		return
	}
	// A window that does not begin with the key's first row was full once.
	if size := min(w.count+int64(len(times)), int64(sw.need)); size > int64(w.cap) {
		s.grow(sw, w, int32(size))
	}
	b := d.b
	for _, t := range times {
		at := int(s.push(sw, w))
		w.slab[at] = t
		row := w.slab[int(w.cap)+at*nc:][:nc]
		for j := range row {
			row[j] = binary.LittleEndian.Uint64(b[8*j:])
		}
		b = b[8*nc:]
	}
	d.b = b
}

// loadHead makes a key what the head says.
func (s *State) loadHead(name, value []byte) error {
	if value == nil {
		if k := s.keys.get(name); k != nil {
			s.unload(k)
		}
		s.unstage(name)
		delete(s.load.blocks, string(name))
		return nil
	}
	d := decoder{b: value}
	v := d.startHead()
	full := v != version
	parts, asOf, born := d.small(), d.offset(), d.offset()
	gen := parts % generations
	parts /= generations
	if d.bad || parts > math.MaxUint16 {
		return ErrCorrupt
	}
	if parts > 0 {
		start := value[:len(value)-len(d.b)]
		size := d.small()
		if d.bad {
			return ErrCorrupt
		}
		body, err := s.assemble(name, start, parts, gen, size)
		if err != nil {
			k := s.loadKey(name, born)
			if k == nil && full {
				k = s.loadNoShape(name, born)
			}
			if k != nil {
				s.load.broken[k] = broken{err, slices.Clone(value)}
				k.asOf, k.parts, k.gen, k.inLog = asOf, uint16(parts), uint8(gen), true
			}
			return nil
		}
		d.b = body
	}
	k := s.loadKey(name, born)
	if k == nil {
		if !full {
			return nil
		}
		k = s.loadNoShape(name, born)
	}
	list := s.load.staged[string(name)]
	slices.SortStableFunc(list, func(a, b staged) int {
		return cmp.Or(cmp.Compare(a.window, b.window), cmp.Compare(a.id, b.id))
	})
	delete(s.load.broken, k)
	delete(s.load.mismatch, k)
	delete(s.load.rewrite, k)
	delete(s.stale, k)
	delete(s.blocks, k)
	before := s.bytes - s.keySize(k)
	if k.dropped {
		s.load.leftOut -= s.keySize(k)
	}
	k.asOf, k.parts, k.gen, k.inLog = asOf, uint16(parts), uint8(gen), true
	k.held = nil
	k.lastOffset, k.lastTime = d.int(), d.int()
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
			alerts = d.byte() != 0
		}
		if v == versionHeld {
			summaries = d.byte() != 0
		}
		if alerts {
			s.loadAlerts(&d, k)
		}
		if summaries {
			s.loadSummaries(&d, k)
		}
		if d.bad || len(d.b) > 0 {
			err = ErrCorrupt
		}
		if d.newer {
			err = ErrNewer
		}
	}
	if err == nil && s.drops != nil && s.drops(name) {
		s.strip(k)
		s.load.leftOut += s.keySize(k)
	}
	s.bytes = before + s.keySize(k)
	if k.shape == noShape && !s.keepNoShape(k) {
		return err
	}
	if b, ok := s.load.broken[k]; ok {
		s.load.broken[k] = broken{b.err, slices.Clone(value)}
	} else {
		s.unstage(name)
		s.forgetParts(name)
	}
	return err
}

// loadKey finds or makes a key; nil if no detector looks at it any more.
func (s *State) loadKey(name []byte, born int64) *Key {
	k := s.keys.get(name)
	if k == nil {
		sh := s.shapeFor(name)
		if sh == nil {
			return nil
		}
		k = s.newKey(name, sh)
		k.born = born
		s.insert(k)
	}
	if k.born != born { // another life of the key
		for i := range k.wins {
			s.clearWin(&k.shape.wins[i], &k.wins[i])
		}
		k.born = born
	}
	return k
}

// unload forgets a key while loading.
func (s *State) unload(k *Key) {
	s.bytes -= k.held.Bytes()
	k.held = nil
	if k.dropped {
		s.load.leftOut -= s.keySize(k)
	}
	s.remove(k)
	for i := range k.wins {
		s.freeRing(&k.shape.wins[i], &k.wins[i])
	}
	delete(s.load.mismatch, k)
	delete(s.load.rewrite, k)
	delete(s.load.broken, k)
	delete(s.stale, k)
	delete(s.blocks, k)
}

// maxSegments bounds the segments of a window: a fault in the rest of a head
// must not ask for endless deletions.
const maxSegments = 1 << 17

func (s *State) loadWindows(d *decoder, k *Key, list []staged) error {
	seen := make([]bool, 0, 8)
	for range k.wins {
		seen = append(seen, false)
	}
	for range d.len(13) {
		fp, cols, seg := d.bits(), d.small(), int64(d.small())
		count, rows := d.offset(), d.offset()
		if d.bad || cols < 1 || cols > maxDim || seg&(seg-1) != 0 || rows > count || rows > maxRows {
			return ErrCorrupt
		}
		tail := count - rows
		var segs segments
		if seg > 0 {
			part := d.offset()
			start, to := tail&^(seg-1), count&^(seg-1)
			if part >= seg || (to-start)/seg > maxSegments {
				return ErrCorrupt
			}
			if tail = max(tail, to); start < to {
				segs = segments{start + part, to}
			}
		}
		at := slices.IndexFunc(k.shape.wins, func(sw shapeWin) bool {
			return s.cfg.Windows[sw.index].Fingerprint == fp && len(sw.cols) == cols
		})
		if at < 0 || seen[at] || k.shape.wins[at].seg != seg {
			for first := range segs.all(seg) {
				s.stale[k] = append(s.stale[k], staleSegment{recSegment, fp, segmentID(seg, first)})
			}
			s.load.rewrite[k] = struct{}{}
		}
		if at < 0 || seen[at] {
			s.skipWindow(d, cols)
			continue
		}
		seen[at] = true
		w, sw := &k.wins[at], &k.shape.wins[at]
		if err := s.takeSegments(k, sw, w, list, seg, segs); err != nil {
			return err
		}
		w.windUp(tail)
		s.loadRows(d, sw, w)
		rows = min(rows, int64(sw.need))
		if d.bad || w.count != count {
			return ErrCorrupt
		}
		if int64(w.rows) < rows {
			s.load.broken[k] = broken{err: fmt.Errorf("rows %d to %d of its window are missing: %w", count-rows, count-int64(w.rows), ErrCorrupt)}
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
			s.clearWin(&k.shape.wins[i], w)
			w.segs = segments{}
		}
	}
	return nil
}

// skipWindow reads over the rest of a window that is not there any more.
func (s *State) skipWindow(d *decoder, cols int) {
	times := d.times(s.load.times[:0], cols)
	s.load.times = times
	d.skip(8 * cols * len(times))
}

func (s *State) loadMarks(d *decoder, k *Key) {
	for i := range k.marks {
		m := &k.marks[i]
		m.n, m.carry = 0, m.carry[:0]
	}
	for range d.len(26) {
		name, fp, window := d.bits(), d.bits(), d.bits()
		fresh, word := s.load.fresh[:0], int64(0)
		for range d.len(1) {
			word += d.int()
			fresh = append(fresh, uint64(word))
		}
		s.load.fresh = fresh
		carry := d.words()
		if d.bad {
			return
		}
		for i := range k.shape.wins {
			for j := range k.shape.wins[i].dets {
				det := &k.shape.wins[i].dets[j]
				if nameHash(det.Name) != name {
					continue
				}
				switch {
				case s.cfg.Windows[det.Window].Fingerprint != window:
					s.mismatched(k, Mismatch{Detector: det.Name, Fields: true, Window: window, Params: fp})
				case det.Fingerprint != fp:
					s.mismatched(k, Mismatch{Detector: det.Name, Window: window, Params: fp})
				case len(fresh) >= int(det.stride) || len(carry) > det.most.Carry ||
					len(fresh) > 0 && k.wins[i].rows == 0 && s.load.broken[k].err == nil:
					d.fail()
				default:
					m := &k.marks[det.mark]
					m.carry = carry
					if m.n = int32(len(fresh)); m.n > 0 && k.wins[i].slab != nil {
						copy(k.wins[i].fresh(&k.shape.wins[i], det), fresh)
					}
				}
			}
		}
	}
}

// BeginReplay ends loading. f is the floor in the metadata of the committed
// offset. The input from f.From to f.Offset follows through Recall, that to
// committed through Fold, then EndReplay. With ahead (at least once) the changelog may be ahead of the
// offset: what a key's state has already is then not folded again, and counted
// as Duplicate. The state cannot be used after an error.
func (s *State) BeginReplay(f Floor, committed int64, ahead bool) error {
	if s.journal.started {
		return errors.New("keystate: replay into a state that has begun")
	}
	if f.Offset > committed {
		return fmt.Errorf("keystate: the replay floor %d is above the committed offset %d: %w", f.Offset, committed, ErrAhead)
	}
	if s.load == nil {
		s.load = &loading{} // nothing was loaded; its maps are not written any more
	}
	for k, b := range s.load.broken {
		if err := s.loadHead(k.name, b.value); err != nil {
			return fmt.Errorf("keystate: changelog record H of key %s: %w", Digest(k.name), err)
		}
	}
	var drop []*Key
	var differ mismatches
	top := int64(math.MinInt64)
	for k := range s.keys.all {
		if d := s.decisions.latest(Eviction, k.name); !k.inLog || d != nil && k.asOf <= d.offset {
			if drop = append(drop, k); k.inLog {
				// An eviction that was cut off before it had deleted the key.
				d.key = k
				s.decisions.leftover = append(s.decisions.leftover, d)
			}
			continue
		}
		if top = max(top, k.asOf); k.asOf > committed && !ahead {
			return fmt.Errorf("keystate: key %s is at offset %d, the committed offset is %d: %w", Digest(k.name), k.asOf, committed, ErrAhead)
		}
		if b, ok := s.load.broken[k]; ok {
			return fmt.Errorf("keystate: key %s: %w", Digest(k.name), b.err)
		}
		differ.add(k, s.load.mismatch[k])
	}
	if err := differ.err(); err != nil && !s.cfg.KeepMismatched {
		return err
	}
	s.Mismatched = differ.list()
	last, err := s.decisions.begin(f, committed, ahead)
	if err != nil {
		return err
	}
	top = max(top, last)
	for _, k := range drop {
		stale := s.allStale(k)
		if s.unload(k); k.inLog && len(stale) > 0 {
			s.stale[k] = stale
		}
	}
	slices.SortFunc(s.decisions.leftover, func(a, b *decision) int { return cmp.Compare(a.offset, b.offset) })
	s.replaying, s.replayEnd = true, committed
	if top > committed {
		s.ahead = top
	}
	s.begin(f)
	for k := range s.load.rewrite {
		s.markDirty(k)
	}
	s.load, s.drops = nil, nil
	s.findDropped()
	s.rebuild() // finds what is silent or orphaned, too
	for k := range s.keys.all {
		s.held.N += k.held.Len()
	}
	s.route()
	return nil
}

// Replaying reports whether BeginReplay has been called and EndReplay not.
func (s *State) Replaying() bool { return s.replaying }

// replayStride is the number of samples between two marks of a replay. They let
// the floor rise as soon as the keys that were dirty first are snapshotted.
var replayStride = 4096 // changed by tests

// replayStep sees each sample of a replay before it is folded.
func (s *State) replayStep(sm *Sample) {
	if sm.Offset >= s.replayEnd {
		panic(fmt.Sprintf("keystate: replay of offset %d, the committed offset is %d", sm.Offset, s.replayEnd))
	}
	s.LostSuspects += s.jury.lost()
	s.jury.setJump(s.jury.jumps.at(sm.Offset))
	if s.replayed++; s.replayed%replayStride == 0 {
		s.journal.marks = append(s.journal.marks, s.floorAt(sm.Offset))
		s.journal.next(&s.keys)
	}
}

// EndInput says that a replay has folded all of the input: it applies the decisions
// behind the last sample. Fits has to be asked once more after it.
func (s *State) EndInput() { s.applyDecisions(s.replayEnd - 1) }

// EndReplay ends the replay; the state is that of the committed offset, which
// is the first mark. EndInput comes before it. All tasks must have been applied, and Fits been true.
func (s *State) EndReplay() {
	if !s.replaying || len(s.tasks.pend) > 0 || s.waiting || len(s.line) > 0 {
		panic("keystate: EndReplay before BeginReplay, with tasks that are not applied, or before Fits was true")
	}
	s.EndInput()
	s.replaying = false
	s.LostSuspects += s.jury.lost()
	if s.jury.jumps.Now != s.cfg.MaxJump {
		s.jury.jumps = Jumps{Now: s.cfg.MaxJump, From: s.replayEnd, Before: s.jury.jumps.Now}
	}
	s.jury.setJump(s.cfg.MaxJump)
	s.next, s.journal.base = s.replayEnd, s.replayEnd
	if last := s.journal.marks[len(s.journal.marks)-1]; last.Offset < s.replayEnd {
		s.journal.marks = append(s.journal.marks, s.floorAt(s.replayEnd))
	}
	s.newUnit(s.replayEnd)
	s.rebuildRules()
	s.evictor.oldest, s.silence.built = NoTime, false
	s.planSweep()
	s.route()
}
