package keystate

import (
	"bytes"
	"cmp"
	"slices"

	"odradek/processor/keystate/floor"
	"odradek/processor/keystate/suspects"
)

// A suspect (package suspects) is folded with the sample that decides it, the turn: after that
// sample, if it is none itself, and in order of time and offset. Its rows, scores
// and events have the offset of its own record. All else that asks for an order in
// the log (how far a snapshot goes, what an eviction has forgotten, which key was
// used least recently) has the offset of the turn, by which replay comes to the
// same. No key is evicted in the turn in which it had a sample.

// jurors is the number of samples that vote on a suspect, and the most suspects
// that are held at once.
const jurors = floor.Jurors

// suspect is a sample that waits for the votes.
type suspect = suspects.Suspect[attached]

// attached is a sample with the record that Attach has brought.
type attached struct {
	Sample
	record any
}

// SuspectCounts are the samples that were held as suspects since New, and those of
// them that were accepted, less what was rolled back. Counts[Rejected] has those
// that were rejected.
type SuspectCounts struct{ Held, Accepted int64 }

// Refusal is a suspect that was not folded: it is Rejected, or Late where its key
// had a later sample.
type Refusal struct {
	Offset, Time int64
	Max          int64 // the partition's largest event time; NoTime without one
	Outcome      Outcome
	Key          []byte
	Record       any // from Attach
}

// turn is a sample whose turn has come.
type turn struct {
	attached
	out Outcome // of admit
}

// detach copies the sample of a turn that outlives its Fold.
func (t *turn) detach() { t.Sample = t.Sample.clone() }

func (sm *Sample) clone() Sample {
	c := *sm
	c.Key, c.Values = slices.Clone(sm.Key), slices.Clone(sm.Values)
	return c
}

// weigh counts the vote of sm on each suspect and puts the samples whose turn it
// is, judged, into s.line. It reports whether sm is a suspect from now on.
func (s *State) weigh(sm *Sample) (held bool) {
	held = s.jury.Vote(sm.Time, sm.Offset, attached{Sample: *sm}, s.maxTime, func(u *suspect) {
		s.line = append(s.line, turn{attached: u.Sample})
		if u.Offset != sm.Offset && !s.journal.Replaying {
			s.Suspects.Accepted++
		}
	}, func(u *suspect) { s.refuse(&u.Sample, Rejected) })
	if held && !s.journal.Replaying {
		s.Suspects.Held++
	}
	slices.SortFunc(s.line, func(a, b turn) int { return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Offset, b.Offset)) })
	for i := range s.line {
		t := &s.line[i]
		t.out = s.admit(&t.Sample)
		if t.out != Held && t.out != Scored {
			continue
		}
		same := func(o turn) bool { return o.Time == t.Time && bytes.Equal(o.Key, t.Key) }
		if s.cfg.DropDuplicates && slices.ContainsFunc(s.line[:i], same) {
			t.out = Duplicate
		}
	}
	return held
}

// refuse reports a suspect that is not folded to the caller (Refused).
func (s *State) refuse(a *attached, out Outcome) {
	if s.journal.Replaying {
		return
	}
	if out == Rejected { // others are counted where they are judged
		s.Counts[Rejected]++
	}
	s.Refused = append(s.Refused, Refusal{a.Offset, a.Time, s.maxTime, out, a.Key, a.record})
}

// beginSuspects sets the suspects that are undecided at the floor where the state begins.
func (s *State) beginSuspects(f Floor) {
	jumps := Jumps{Now: s.cfg.MaxJump}
	if s.journal.Replaying {
		jumps = f.Jumps
	}
	s.jury.Begin(f, jumps, s.cfg.MaxJump)
}

// Recall takes a sample of the input below the floor of BeginReplay, before
// the first that goes to Fold, from Floor.From on: suspects that were held at the
// floor are held again. The others are ignored.
func (s *State) Recall(sm *Sample) {
	if !s.journal.Replaying || sm.Offset >= s.next {
		panic("keystate: Recall of a sample that is not below the floor of a replay")
	}
	s.jury.Recall(sm.Time, sm.Offset, attached{Sample: *sm})
}

// Suspect reports whether the sample at offset is held as a suspect.
func (s *State) Suspect(offset int64) bool { return s.jury.Find(offset) != nil }

// Attach adds record to a suspect, for the Refusal. It has to follow the Fold or
// the Recall of that sample.
func (s *State) Attach(offset int64, record any) {
	if u := s.jury.Find(offset); u != nil {
		u.Sample.record = record
	}
}

// HeldSuspects returns the number of samples that are held as suspects; Held includes
// them.
func (s *State) HeldSuspects() int { return len(s.jury.List()) }

// floorAt returns the floor of a mark at offset, without Jumps.
func (s *State) floorAt(offset int64) Floor {
	return Floor{Offset: offset, MaxTime: s.maxTime, Suspects: s.jury.Marks()}
}
