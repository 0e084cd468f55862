package keystate

import (
	"fmt"
	"math"
	"slices"

	"odradek/detectors/threshold"
	"odradek/processor/keystate/changelog"
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

// The kinds. Numbers that are named in the comments are reserved.
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

// decision is one of them while a replay may need it.
type decision struct {
	kind    Kind
	subject []byte
	content []byte
	offset  int64
	seq     uint64          // order of those at one offset
	asked   int64           // lapses: a record below was the last under it
	due     int64           // its place in decisionLog.queue: no later than its end
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
	if s.restore.replaying || s.journal.started && offset < s.next {
		panic(fmt.Sprintf("keystate: decision of kind %d at %d during replay, or behind %d, which is folded", k, offset, s.next-1))
	}
	if !s.journal.started {
		s.begin(Floor{Offset: offset, MaxTime: NoTime})
		s.journal.implicit = true
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
	s.decisions.add(d)
	s.journal.cur.saveDecision(opDecide, d)
}

// Standing is the content of the decision that holds for a subject at offset, nil
// if none does. Ask for every record that it may concern: a verdict that
// is not asked for lapses.
func (s *State) Standing(k Kind, subject []byte, offset int64) []byte {
	d := s.decisions.inForce(k, subject, offset)
	if d == nil || len(d.content) == 0 {
		return nil
	}
	d.asked = max(d.asked, offset+1)
	return d.content
}

// Decisions is the number of subjects with a decision of a kind that a replay may
// need.
func (s *State) Decisions(k Kind) int { return len(s.decisions.subjects[k]) }

// logDecisions emits what was decided before the last mark.
func (s *State) logDecisions(c *emitter, u *unit) {
	l := &s.decisions
	for _, d := range l.leftover {
		s.logDecision(c, d)
		s.deleteKey(c, d.key)
		u.saveDecision(opLeftover, d)
	}
	l.leftover = l.leftover[:0]
	for _, d := range l.revoked {
		if at := l.at(d); at == nil {
			c.putDecision(d, nil)
		}
		u.saveDecision(opRevoke, d)
	}
	l.revoked = l.revoked[:0]
	for _, d := range l.relog {
		s.logDecision(c, d)
		u.saveDecision(opRelog, d)
	}
	l.relog = l.relog[:0]
	n := 0
	for ; n < len(l.unlogged) && l.unlogged[n].offset < s.journal.cur.start; n++ {
		d := l.unlogged[n]
		s.logDecision(c, d)
		if d.kind == Eviction {
			s.deleteKey(c, d.key)
		}
		u.saveDecision(opLogged, d)
		l.enqueue(d)
	}
	l.unlogged = slices.Delete(l.unlogged, 0, n)
}

// logDecision emits a decision.
func (s *State) logDecision(c *emitter, d *decision) {
	s.enc.Reset()
	s.enc.Byte(version)
	if d.kind == Eviction {
		s.enc.Uint(uint64(d.offset))
	} else {
		s.enc.Uint(d.seq)
		s.enc.B = append(s.enc.B, d.content...)
	}
	c.putDecision(d, s.enc.B)
}

// putDecision emits a decision's record, or deletes it.
func (c *emitter) putDecision(d *decision, value []byte) {
	if d.kind == Eviction {
		c.put(changelog.Eviction, d.subject, value)
		return
	}
	c.name = append(append(c.name[:0], byte(d.kind)), d.subject...)
	c.put(changelog.Decision, c.name, value, uint64(d.offset))
}

// forget deletes decisions from the log that no replay can need.
func (s *State) forget(c *emitter, u *unit, maxBytes int) {
	l, n := &s.decisions, 0
	for n < len(l.queue) && c.err == nil {
		d := l.queue[n]
		if d.due > s.journal.committed || maxBytes > 0 && c.bytes >= maxBytes {
			break
		}
		if l.end(d) > s.journal.committed { // it was asked for since
			l.queue = slices.Delete(l.queue, n, n+1)
			l.enqueue(d)
			continue
		}
		overwritten := l.overwritten(d)
		if l.unlink(d); !overwritten {
			c.putDecision(d, nil)
		}
		u.saveDecision(opForget, d)
		n++
	}
	l.queue = slices.Delete(l.queue, 0, n)
}

// saveDecision pushes what has become of a decision.
func (u *unit) saveDecision(kind opKind, d *decision) {
	u.decisions = append(u.decisions, d)
	u.add(kind, nil, 0, 0)
}

// applyDecisions applies the loaded decisions that take effect up to the record
// at offset.
func (s *State) applyDecisions(offset int64) {
	for d := s.decisions.next(offset); d != nil; d = s.decisions.next(offset) {
		kinds[d.kind].apply(s, d)
	}
}
