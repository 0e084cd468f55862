package keystate

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	"odradek/processor/keystate/floor"
)

// One bad clock must not move the watermark. A sample whose time is more than
// Config.MaxJump past the partition's largest one, and every sample of a partition
// that has no largest one yet, is a suspect: it is held, moves nothing, and the next
// jurors samples of the partition, of whichever key, vote on it. A vote is for it
// if its own time is not earlier than the suspect's less MaxJump. The majority
// accepts or rejects it; it is accepted, too, as soon as the largest time has come
// within MaxJump of it. A suspect votes like any other sample, so a partition that
// was quiet for a week goes on with the third sample after.
//
// A suspect is folded with the sample that decides it, the turn: after that
// sample, if it is none itself, and in order of time and offset. Its rows, scores
// and events have the offset of its own record. All else that asks for an order in
// the log (how far a snapshot goes, what an eviction has forgotten, which key was
// used least recently) has the offset of the turn, by which replay comes to the
// same. No key is evicted in the turn in which it had a sample.

// jurors is the number of samples that vote on a suspect, and the most suspects
// that are held at once.
const jurors = floor.Jurors

// suspect is a sample that waits for the votes.
type suspect struct {
	Sample           // with memory of its own
	record       any // see Attach
	votes, agree uint8
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

// jury holds the suspects of a partition and takes the votes on them.
type jury struct {
	jumps  Jumps
	jump   int64         // the largest jump in force
	reach  uint64        // the same; without one, the largest number
	list   []suspect     // in order of offset; replaced, never changed in place
	recall []SuspectMark // those of the floor that Recall has not found yet
}

// setJump sets the largest jump that samples are judged by.
func (j *jury) setJump(jump int64) {
	j.jump, j.reach = jump, math.MaxUint64
	if jump > 0 {
		j.reach = uint64(jump)
	}
}

// begin sets the suspects that are undecided at the floor where the state begins.
func (j *jury) begin(f Floor, jumps Jumps, now int64) {
	j.list, j.recall = nil, slices.Clone(f.Suspects)
	j.jumps = jumps
	j.setJump(now)
}

// beyond reports whether a sample of that time is a suspect where top is the
// largest one.
func (j *jury) beyond(time, top int64) bool {
	switch {
	case j.jump == 0:
		return false
	case top == NoTime:
		return true
	}
	return time > top && uint64(time)-uint64(top) > j.reach
}

// vote counts the vote of sm on each suspect. It calls take for those that are accepted
// and for sm, if it is none, and refuse for those that are rejected; held reports
// whether sm is a suspect from now on.
func (j *jury) vote(sm *Sample, top int64, take, refuse func(*suspect)) (held bool) {
	list := make([]suspect, 0, len(j.list)+1) // units refer to the old one
	accept := func(u *suspect) {
		take(u)
		top = max(top, u.Time)
	}
	for _, u := range j.list {
		u.votes++
		if sm.Time >= minus(u.Time, j.jump) {
			u.agree++
		}
		if u.agree > jurors/2 {
			accept(&u)
		} else {
			list = append(list, u)
		}
	}
	list = append(list, suspect{Sample: *sm})
	for n := len(list) + 1; len(list) < n; {
		n = len(list)
		list = slices.DeleteFunc(list, func(u suspect) bool {
			if j.beyond(u.Time, top) {
				return false
			}
			accept(&u)
			return true
		})
	}
	list = slices.DeleteFunc(list, func(u suspect) bool {
		if u.votes-u.agree <= jurors/2 {
			return false
		}
		refuse(&u)
		return true
	})
	if n := len(list); n > 0 && list[n-1].Offset == sm.Offset {
		held = true
		list[n-1].Sample = sm.clone()
	}
	j.list = list
	return held
}

// recallSample restores a suspect of the floor; it ignores other samples.
func (j *jury) recallSample(sm *Sample) {
	i := slices.IndexFunc(j.recall, func(m SuspectMark) bool { return m.Offset == sm.Offset })
	if i < 0 {
		return
	}
	j.list = append(j.list, suspect{Sample: sm.clone(), votes: j.recall[i].Votes, agree: j.recall[i].Agree})
	j.recall = slices.Delete(j.recall, i, i+1)
}

// lost returns the number of suspects of the floor that the input does not have any more.
func (j *jury) lost() int {
	n := len(j.recall)
	j.recall = nil
	return n
}

// find returns the suspect at offset; nil without one.
func (j *jury) find(offset int64) *suspect {
	for i := range j.list {
		if j.list[i].Offset == offset {
			return &j.list[i]
		}
	}
	return nil
}

// marks returns the suspects in the form that a floor has.
func (j *jury) marks() (marks []SuspectMark) {
	for i := range j.list {
		u := &j.list[i]
		marks = append(marks, SuspectMark{Offset: u.Offset, Votes: u.votes, Agree: u.agree})
	}
	return marks
}

// turn is a sample whose turn has come.
type turn struct {
	Sample
	record any
	out    Outcome // of judge
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
	held = s.jury.vote(sm, s.maxTime, func(u *suspect) {
		s.line = append(s.line, turn{Sample: u.Sample, record: u.record})
		if u.Offset != sm.Offset && !s.restore.replaying {
			s.Suspects.Accepted++
		}
	}, func(u *suspect) { s.refuse(&u.Sample, u.record, Rejected) })
	if held && !s.restore.replaying {
		s.Suspects.Held++
	}
	slices.SortFunc(s.line, func(a, b turn) int { return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Offset, b.Offset)) })
	for i := range s.line {
		t := &s.line[i]
		t.out = s.judge(&t.Sample)
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
func (s *State) refuse(sm *Sample, record any, out Outcome) {
	if s.restore.replaying {
		return
	}
	if out == Rejected { // others are counted where they are judged
		s.Counts[Rejected]++
	}
	s.Refused = append(s.Refused, Refusal{sm.Offset, sm.Time, s.maxTime, out, sm.Key, record})
}

// beginSuspects sets the suspects that are undecided at the floor where the state begins.
func (s *State) beginSuspects(f Floor) {
	jumps := Jumps{Now: s.cfg.MaxJump}
	if s.restore.replaying {
		jumps = f.Jumps
	}
	s.jury.begin(f, jumps, s.cfg.MaxJump)
}

// Recall takes a sample of the input below the floor of BeginReplay, before
// the first that goes to Fold, from Floor.From on: suspects that were held at the
// floor are held again. The others are ignored.
func (s *State) Recall(sm *Sample) {
	if !s.restore.replaying || sm.Offset >= s.next {
		panic("keystate: Recall of a sample that is not below the floor of a replay")
	}
	s.jury.recallSample(sm)
}

// Suspect reports whether the sample at offset is held as a suspect.
func (s *State) Suspect(offset int64) bool { return s.jury.find(offset) != nil }

// Attach keeps record with a suspect, for the Refusal. It has to follow the Fold or
// the Recall of that sample.
func (s *State) Attach(offset int64, record any) {
	if u := s.jury.find(offset); u != nil {
		u.record = record
	}
}

// HeldSuspects returns the number of samples that are held as suspects; Held includes
// them.
func (s *State) HeldSuspects() int { return len(s.jury.list) }

// floorAt returns the floor of a mark at offset, without Jumps.
func (s *State) floorAt(offset int64) Floor {
	return Floor{Offset: offset, MaxTime: s.maxTime, Suspects: s.jury.marks()}
}
