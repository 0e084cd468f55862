package state

import (
	"slices"

	"odradek/processor/state/checkpoint"
)

// A suspect (leapvotes.go) is folded in the turn of the sample whose vote decides it: after that sample, unless
// that is a suspect itself, and in order of time and offset. Its rows, scores and events have the offset of its own
// record. Everything that needs an order in the log (how far a snapshot goes, what an eviction has forgotten, which key was
// used least recently) has the offset of the turn, so that a replay comes to the same result. A record of several
// samples is judged by the latest time of any of them and is one suspect: its samples are held together, are accepted
// or refused together, and do not vote on each other. No key is evicted in the turn in which it had a sample, or refused one as
// late or as a duplicate: a replay begins without the keys that are evicted, and would accept that sample.

// voters is the number of samples that vote on a suspect, and the most suspects that are held at once.
const voters = checkpoint.Voters

// suspect is a sample that waits for the votes.
type suspect = leapSuspect[attached]

// attached is a sample with the record that Attach was given.
type attached struct {
	Sample
	record any
}

// SuspectCounts are the samples that were held as suspects since New, and how many of them were accepted, less what
// was rolled back. Counts[Rejected] has how many were rejected.
type SuspectCounts struct{ Held, Accepted int64 }

// Refusal is a suspect that was not folded: it is Rejected, or Late where its key had a later sample.
type Refusal struct {
	Offset, Time int64
	Max          int64 // the partition's largest event time; NoTime without one
	Outcome      Outcome
	Key          []byte
	Record       any // from Attach
}

func (sm *Sample) clone() Sample {
	c := *sm
	c.Key, c.Values = slices.Clone(sm.Key), slices.Clone(sm.Values)
	return c
}

// Suspects holds the samples of a partition that may be leaps of event time until the votes decide.
type Suspects struct {
	// Counts are the samples that were held as suspects.
	Counts SuspectCounts
	// Refused are suspects that were not folded, in the order of the samples that
	// decided it. The caller empties it as it does Rows; Rollback does, too.
	Refused []Refusal
	// Lost is how many suspects of the floor the replay did not find.
	Lost int

	votes leapVotes[attached]
	bits  uint8 // Config.SampleBits
}

// newSuspects returns the suspects of a new State.
func newSuspects(bits uint8) Suspects {
	return Suspects{
		votes: newLeapVotes(0, bits, func(a attached) attached { return attached{a.clone(), a.record} }),
		bits:  bits,
	}
}

// Len returns the number of samples that are held as suspects; State.Held includes them.
func (s *Suspects) Len() (n int) {
	for _, u := range s.votes.List() {
		n += 1 + len(u.More)
	}
	return n
}

// Has reports whether samples of the record at offset are held as a suspect.
func (s *Suspects) Has(offset int64) bool { return s.votes.Find(first(s.bits, offset)) != nil }

// Attach adds record to a suspect, for the Refusal. It has to follow the Fold or the Recall of the record's samples.
func (s *Suspects) Attach(offset int64, record any) {
	if u := s.votes.Find(first(s.bits, offset)); u != nil {
		u.Sample.record = record
		for i := range u.More {
			u.More[i].record = record
		}
	}
}

// Recall takes a sample of the input below the floor of BeginReplay, before the first that goes to Fold, from
// Floor.From on: suspects that were held at the floor are held again. The others are ignored.
func (s *State) Recall(sm *Sample) {
	if !s.replaying || sm.Offset >= s.next {
		panic("state: Recall of a sample that is not below the floor of a replay")
	}
	sm = s.readings.without(sm, s.lostSince(sm.Offset+1))
	s.Suspects.votes.Recall(sm.Time+sm.Ahead, sm.Offset, attached{Sample: *sm})
}

// initVotes sets the suspects that are undecided at the floor where the state begins.
func (s *Suspects) initVotes(f Floor) { s.votes.Init(f) }

// vote counts the vote of sm on each suspect, and calls accepted with the samples whose turn it is. It
// reports whether sm is a suspect from now on.
func (s *State) vote(sm *Sample, accepted func(*attached)) (held bool) {
	held = s.Suspects.votes.Join(sm.Offset, attached{Sample: *sm}) || s.judgeSuspect(sm, accepted)
	if held {
		s.Suspects.Counts.Held++
	}
	return held
}

// judgeSuspect is vote where the sample is of a record of its own.
func (s *State) judgeSuspect(sm *Sample, accepted func(*attached)) (held bool) {
	return s.Suspects.votes.Vote(sm.Time+sm.Ahead, sm.Offset, attached{Sample: *sm}, s.maxTime, func(u *suspect) {
		if u.Offset != sm.Offset {
			s.Suspects.Counts.Accepted += int64(1 + len(u.More))
		}
		accepted(&u.Sample)
		for i := range u.More {
			accepted(&u.More[i])
		}
	}, func(u *suspect) {
		s.refuse(&u.Sample, Rejected)
		for i := range u.More {
			s.refuse(&u.More[i], Rejected)
		}
	})
}

// refuse reports a suspect that is not folded to the caller (Refused).
func (s *State) refuse(a *attached, out Outcome) {
	if out == Rejected { // others are counted where they are judged
		s.countSample(Rejected, a.Offset)
	}
	if s.withholds(a.Offset) {
		return
	}
	s.Suspects.Refused = append(s.Suspects.Refused, Refusal{a.Offset, a.Time, s.maxTime, out, a.Key, a.record})
}

// replay prepares for the sample of a replay at offset.
func (s *Suspects) replay(offset int64) { s.Lost += s.votes.Replay(offset) }

// endReplay ends a replay.
func (s *Suspects) endReplay() { s.Lost += s.votes.EndReplay() }

// suspectsFloor returns the floor of a mark at offset, without Jump.
func (s *State) suspectsFloor(offset int64) Floor {
	return Floor{Offset: offset, MaxTime: s.maxTime, Suspects: s.Suspects.votes.Held()}
}
