package keystate

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"odradek/detectors/threshold"
)

// This file is the reference of decisions: what the input cannot decide is decided
// once, live, by the partition's owner, and read from the changelog from then on.
// State is a fold of the partition's samples and its decisions.
//
// A decision is an offset, a kind, a subject and a content.
//
//   - It takes effect before the record at its offset, and after everything about
//     the records below. There need not be a sample at that offset, nor a record.
//   - The content is whole: it says what holds from the offset on, not what is
//     different from before, so that no decision needs an earlier one.
//   - A decision of an instant (an eviction) acts once. A standing one (a verdict)
//     holds until a later one of its kind and subject; empty content withdraws
//     it, and what holds without any decision holds again.
//
// Its life:
//
//	Decide     live, at an offset that nothing has been folded of. It is part of the
//	           open undo unit: Rollback takes it back, and what comes after is
//	           decided anew, perhaps otherwise. The next Mark has to be above its
//	           offset: a decision is a step of the log, not of an idle moment.
//	Snapshot   emits it in the cycle of that mark, with everything it brings about.
//	Load       reads it, whatever compaction has left of the log.
//	BeginReplay refuses a decision at or above the committed offset (ErrAhead),
//	           as it does a key's head: offset and changelog were read at different
//	           times. At least once, such a decision was written by a cycle whose
//	           offset was not committed; it is not decided again but takes effect
//	           when its offset is reached.
//	Fold       applies those of kinds that act on the state at their offsets, in the
//	           order in which they were made. The other kinds are asked for:
//	           evictions by Fold itself, which skips samples that an eviction
//	           has forgotten; standing ones by the caller, with Standing.
//	EndInput   applies those behind the last sample of a replay.
//	forget     deletes it from the log, in a Snapshot, once no replay can need it:
//	           the committed floor has passed what it covers (due, below).
//
// What a decision covers ends
//
//   - for one of an instant at its offset: its effect is in snapshots, or is the
//     deletion of records, once the floor is above;
//   - for a standing one where the next of its subject takes effect;
//   - for a standing one of a kind that lapses behind the last record for which it
//     was asked for. If its subject comes up again, it is decided again.
//
// To add a kind, give it a number, a row in kinds, and its meaning here.

// Kind says what a decision is about. The numbers are in changelogs and never
// change.
type Kind uint8

// The kinds. Numbers that are named in the comments are spoken for.
const (
	// Eviction: the key that is the subject is forgotten, and its samples below the
	// offset. There is no content. See evict.go.
	Eviction Kind = 1
	// Verdict: records of the schema that is the subject are condemned, because
	// the registry does not have it. The content is the reason that their dead
	// letters give. Withdrawn when the schema is there after all.
	Verdict Kind = 2
	// Grown: the input topic has been given more partitions, and keys have moved to
	// others than this one. The content is the number there is, one subject. Of a key
	// that has no sample from the offset on, what is here is a stale copy: it
	// leaves by TTL, and its anomalies close for that reason. See evict.go.
	Grown Kind = 3
	// Thresholds: scores of the detector that is the subject are judged by the
	// threshold that is the content. See thresholds.go.
	Thresholds Kind = 4
	// 5: an advance of the watermark of an idle partition.
	// 6: feedback on an anomaly.
	// 7: a calendar.

	numKinds = 16 // none is as large
)

// kind is a row of the table of kinds.
type kind struct {
	name     string
	standing bool // holds until the next one of its subject
	lapses   bool // standing, and forgotten when no record in reach was under it
	// apply does to the state what the decision says; nil where that is in what
	// the log says of keys, or where the decision is asked for. It must not
	// depend on what undo does not restore.
	apply func(s *State, d *decision)
	// read says what is wrong with a loaded decision's content; nil: nothing can be.
	read func(d *decision) error
}

var kinds = [numKinds]kind{
	Eviction:   {name: "eviction"},
	Verdict:    {name: "verdict", standing: true, lapses: true},
	Grown:      {name: "growth", standing: true},
	Thresholds: {name: "threshold", standing: true, apply: (*State).force, read: readRule},
}

// ErrNewer is in the error for changelog records that a newer version wrote.
var ErrNewer = errors.New("a newer version of the program wrote it: run that one, or reset the state")

// decision is one of them while a replay may need it.
type decision struct {
	kind    Kind
	subject []byte
	content []byte
	offset  int64
	seq     uint64          // order of those at one offset
	asked   int64           // lapses: a record below was the last under it
	due     int64           // its place in State.decisions: no later than its end
	before  *decision       // of the same kind and subject
	key     *Key            // eviction: whose changelog records are to be deleted; nil once they are
	rule    *threshold.Rule // of Thresholds: the content
}

// undone is the offset of a decision that was taken back.
const undone = math.MaxInt64

// never is the due of what nothing has superseded.
const never = math.MaxInt64

// Decide makes a decision: it takes effect before the record at offset, of which
// nothing may have been folded. It keeps neither slice.
func (s *State) Decide(k Kind, subject, content []byte, offset int64) {
	if k == Eviction || k == Thresholds || kinds[k].name == "" {
		panic(fmt.Sprintf("keystate: kind %d is not the caller's to decide", k))
	}
	if s.replaying || s.started && offset < s.next {
		panic(fmt.Sprintf("keystate: decision of kind %d at %d during replay, or behind %d, which is folded", k, offset, s.next-1))
	}
	if !s.started {
		s.begin(Floor{Offset: offset, MaxTime: NoTime})
		s.implicit = true
		s.route()
	}
	d := &decision{kind: k, subject: slices.Clone(subject), content: slices.Clone(content), offset: offset}
	s.decide(d)
	if apply := kinds[k].apply; apply != nil {
		apply(s, d)
	}
}

// decide makes a decision part of the open unit.
func (s *State) decide(d *decision) {
	s.decisionSeq++
	d.seq = s.decisionSeq
	s.link(d)
	s.unlogged = append(s.unlogged, d)
	s.cur.saveDecision(opDecide, d)
}

// Standing is the content of the decision that holds for a subject at offset, nil
// if none does. Ask for every record that it may concern: a verdict that
// is not asked for lapses.
func (s *State) Standing(k Kind, subject []byte, offset int64) []byte {
	d := s.decided[k][string(subject)]
	for d != nil && d.offset > offset {
		d = d.before
	}
	if d == nil || len(d.content) == 0 {
		return nil
	}
	d.asked = max(d.asked, offset+1)
	return d.content
}

// Decisions is the number of subjects with a decision of a kind that a replay may
// need.
func (s *State) Decisions(k Kind) int { return len(s.decided[k]) }

// link puts a decision among those of its subject, by offset.
func (s *State) link(d *decision) {
	m := s.decided[d.kind]
	if m == nil {
		m = map[string]*decision{}
		s.decided[d.kind] = m
	}
	at := m[string(d.subject)]
	if at == nil || !d.less(at) {
		d.before = at
		m[string(d.subject)] = d
		if at != nil {
			s.requeue(at)
		}
		return
	}
	for at.before != nil && d.less(at.before) {
		at = at.before
	}
	d.before, at.before = at.before, d
}

// unlink is the opposite of link.
func (s *State) unlink(d *decision) {
	m := s.decided[d.kind]
	at := m[string(d.subject)]
	switch {
	case at == d && d.before == nil:
		delete(m, string(d.subject))
	case at == d:
		m[string(d.subject)] = d.before
	default:
		for at.before != d {
			at = at.before
		}
		at.before = d.before
	}
	d.before = nil
}

// less is the order of decisions.
func (d *decision) less(e *decision) bool {
	return d.offset < e.offset || d.offset == e.offset && d.seq < e.seq
}

// after is the next decision of the subject.
func (s *State) after(d *decision) (next *decision) {
	for at := s.decided[d.kind][string(d.subject)]; at != nil && at != d; at = at.before {
		next = at
	}
	return next
}

// end is the floor from which on no replay needs the decision.
func (s *State) end(d *decision) int64 {
	switch row := &kinds[d.kind]; {
	case !row.standing || row.lapses && d.asked <= d.offset:
		return d.offset + 1
	case row.lapses:
		// Never later than the next one: what that withdrew must not come back
		// because the withdrawal is forgotten first.
		return min(d.asked, s.superseded(d))
	}
	return s.superseded(d)
}

// superseded is the floor from which on no replay needs the decision because of
// the next one of its subject.
func (s *State) superseded(d *decision) int64 {
	if next := s.after(d); next != nil {
		return next.offset + 1
	}
	return never
}

// enqueue puts a decision where forget finds it.
func (s *State) enqueue(d *decision) {
	d.due = s.end(d)
	i := len(s.decisions)
	for i > 0 && byDue(d, s.decisions[i-1]) < 0 { // most come last
		i--
	}
	s.decisions = slices.Insert(s.decisions, i, d)
}

// byDue is the order in which decisions are forgotten.
func byDue(a, b *decision) int {
	return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.offset, b.offset), cmp.Compare(a.seq, b.seq),
		cmp.Compare(string(a.subject), string(b.subject)))
}

// requeue looks again at a decision that another one of its subject now follows.
func (s *State) requeue(d *decision) {
	if s.end(d) >= d.due {
		return // forget finds it and looks again
	}
	if i := slices.Index(s.decisions, d); i >= 0 {
		s.decisions = slices.Delete(s.decisions, i, i+1)
		s.enqueue(d)
	}
}

// maxDecisions is how many decisions of one kind wait for the floor before
// Snapshot brings it up as if want were the last mark.
const maxDecisions = 10_000

// crowded reports whether the floor has to rise so that decisions can be
// forgotten: they come as fast as records of unknown schemas do.
func (s *State) crowded() bool { return len(s.decided[Verdict]) > maxDecisions }

// logDecisions emits what was decided before the last mark.
func (s *State) logDecisions(c *emitter, u *unit) {
	for _, d := range s.leftover {
		s.logDecision(c, d)
		s.deleteKey(c, d.key)
		u.saveDecision(opLeftover, d)
	}
	s.leftover = s.leftover[:0]
	for _, d := range s.revoked {
		if at := s.at(d); at == nil {
			c.putDecision(d, nil)
		}
		u.saveDecision(opRevoke, d)
	}
	s.revoked = s.revoked[:0]
	for _, d := range s.relog {
		s.logDecision(c, d)
		u.saveDecision(opRelog, d)
	}
	s.relog = s.relog[:0]
	n := 0
	for ; n < len(s.unlogged) && s.unlogged[n].offset < s.cur.start; n++ {
		d := s.unlogged[n]
		s.logDecision(c, d)
		if d.kind == Eviction {
			s.deleteKey(c, d.key)
		}
		u.saveDecision(opLogged, d)
		s.enqueue(d)
	}
	s.unlogged = slices.Delete(s.unlogged, 0, n)
}

// logDecision emits a decision.
func (s *State) logDecision(c *emitter, d *decision) {
	s.enc.reset()
	s.enc.byte(version)
	if d.kind == Eviction {
		s.enc.uint(uint64(d.offset))
	} else {
		s.enc.uint(d.seq)
		s.enc.b = append(s.enc.b, d.content...)
	}
	c.putDecision(d, s.enc.b)
}

// putDecision emits a decision's record, or deletes it.
func (c *emitter) putDecision(d *decision, value []byte) {
	if d.kind == Eviction {
		c.put(recEviction, d.subject, value)
		return
	}
	c.name = append(append(c.name[:0], byte(d.kind)), d.subject...)
	c.put(recDecision, c.name, value, uint64(d.offset))
}

// forget deletes decisions from the log that no replay can need.
func (s *State) forget(c *emitter, u *unit, maxBytes int) {
	n := 0
	for n < len(s.decisions) && c.err == nil {
		d := s.decisions[n]
		if d.due > s.committed || maxBytes > 0 && c.bytes >= maxBytes {
			break
		}
		if s.end(d) > s.committed { // it was asked for since
			s.decisions = slices.Delete(s.decisions, n, n+1)
			s.enqueue(d)
			continue
		}
		shared := s.shared(d)
		if s.unlink(d); !shared {
			c.putDecision(d, nil)
		}
		u.saveDecision(opForget, d)
		n++
	}
	s.decisions = slices.Delete(s.decisions, 0, n)
}

// shared reports whether a later decision has taken the place of a decision's
// record: one eviction of a key is in the log, and one decision at an offset.
func (s *State) shared(d *decision) bool {
	next := s.after(d)
	return next != nil && (d.kind == Eviction || next.offset == d.offset)
}

// saveDecision pushes what has become of a decision.
func (u *unit) saveDecision(kind opKind, d *decision) {
	u.decisions = append(u.decisions, d)
	u.add(kind, nil, 0, 0)
}

// undoDecision takes that back. What belongs in State.decisions is put in order
// by rebuild.
func (s *State) undoDecision(kind opKind, d *decision) {
	switch kind {
	case opDecide:
		s.unlink(d)
		d.offset = undone // rebuild drops it
	case opLogged:
		// Its record may be in the log all the same, at least once.
		if d.kind != Eviction {
			s.revoked = append(s.revoked, &decision{kind: d.kind, subject: d.subject, offset: d.offset})
		}
	case opRevoke:
		s.revoked = append(s.revoked, d)
	case opLeftover:
		s.leftover = append(s.leftover, d)
	case opRelog:
		s.relog = append(s.relog, d)
	case opForget:
		s.link(d)
		s.decisions = append(s.decisions, d)
		// Its record may be deleted all the same, where no new offset tells.
		if !s.shared(d) {
			s.relog = append(s.relog, d)
		}
	}
}

// rebuildDecisions makes the queues of decisions what they are at s.next.
func (s *State) rebuildDecisions() {
	gone := func(d *decision) bool { return d.offset == undone }
	s.unlogged = slices.DeleteFunc(s.unlogged, gone)
	s.decisions = slices.DeleteFunc(s.decisions, gone)
	s.relog = slices.DeleteFunc(s.relog, gone)
	for _, d := range s.decisions {
		d.due = s.end(d)
	}
	slices.SortFunc(s.decisions, byDue)
	s.applied = 0
	for s.applied < len(s.toApply) && s.toApply[s.applied].offset < s.next {
		s.applied++
	}
}

// loadDecision takes a decision from the changelog. name is its kind and subject.
func (s *State) loadDecision(name, value []byte, offset uint64) error {
	if len(name) == 0 || offset > 1<<62 {
		return ErrCorrupt
	}
	d := &decision{kind: Kind(name[0]), subject: slices.Clone(name[1:]), offset: int64(offset)}
	if old := s.at(d); old != nil {
		s.unlink(old)
	}
	if value == nil {
		return nil
	}
	if d.kind == Eviction || d.kind >= numKinds || kinds[d.kind].name == "" {
		return fmt.Errorf("a decision of kind %d: %w", d.kind, ErrNewer)
	}
	dec := decoder{b: value}
	if v := dec.byte(); v > version {
		return fmt.Errorf("a decision of format %d: %w", v, ErrNewer)
	}
	d.seq = dec.uint()
	d.content = slices.Clone(dec.b)
	if dec.bad {
		return ErrCorrupt
	}
	if read := kinds[d.kind].read; read != nil {
		if err := read(d); err != nil {
			return err
		}
	}
	s.link(d)
	return nil
}

// loadEviction takes an eviction, of which the log has one for each key.
func (s *State) loadEviction(name, value []byte) error {
	if old := s.decided[Eviction][string(name)]; old != nil {
		s.unlink(old)
	}
	if value == nil {
		return nil
	}
	d := decoder{b: value}
	d.start()
	offset := d.offset()
	if d.bad || len(d.b) > 0 {
		return ErrCorrupt
	}
	s.link(&decision{kind: Eviction, subject: slices.Clone(name), offset: offset})
	return nil
}

// at is the decision of the same kind, subject and offset.
func (s *State) at(d *decision) *decision {
	for e := s.latest(d.kind, d.subject); e != nil; e = e.before {
		if e.offset == d.offset {
			return e
		}
	}
	return nil
}

// latest is the last decision about a subject.
func (s *State) latest(k Kind, subject []byte) *decision {
	if k >= numKinds {
		return nil
	}
	return s.decided[k][string(subject)]
}

// beginDecisions ends loading for decisions and returns the largest offset.
func (s *State) beginDecisions(f Floor, committed int64, ahead bool) (top int64, err error) {
	top = math.MinInt64
	for k := range s.decided {
		for _, d := range s.decided[k] {
			for ; d != nil; d = d.before {
				if top = max(top, d.offset); d.offset >= committed && !ahead {
					return 0, fmt.Errorf("keystate: %s at offset %d, the committed offset is %d: %w", kinds[k].name, d.offset, committed, ErrAhead)
				}
				d.due = s.end(d)
				s.decisionSeq = max(s.decisionSeq, d.seq)
				s.decisions = append(s.decisions, d)
				if kinds[k].apply != nil && d.offset >= f.Offset {
					s.toApply = append(s.toApply, d)
				}
			}
		}
	}
	slices.SortFunc(s.decisions, byDue)
	slices.SortFunc(s.toApply, func(a, b *decision) int {
		return cmp.Or(cmp.Compare(a.offset, b.offset), cmp.Compare(a.seq, b.seq))
	})
	return top, nil
}

// applyDecisions applies the loaded decisions that take effect up to the record
// at offset.
func (s *State) applyDecisions(offset int64) {
	for s.applied < len(s.toApply) && s.toApply[s.applied].offset <= offset {
		d := s.toApply[s.applied]
		s.applied++
		kinds[d.kind].apply(s, d)
	}
}
