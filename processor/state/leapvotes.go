package state

import (
	"slices"

	"odradek/processor/state/checkpoint"
)

// This file decides which leaps of event time are accepted, so that one bad clock does not
// move the watermark of a partition.
//
// A sample whose time is more than a limit, the largest jump, past the partition's largest
// one, and every sample of a partition that has no largest one yet, is a suspect: it is held,
// moves nothing, and the next checkpoint.Voters samples of the partition, of any key, vote on
// it. A vote is for it if its own time is not earlier than the suspect's less the largest
// jump. The majority accepts or rejects it; it is accepted, too, as soon as the largest time
// has come within the jump of it. A suspect votes like any other sample, so a partition that
// was quiet for a week accepts the third sample after.

// leapSuspect is a sample that waits for the votes.
type leapSuspect[S any] struct {
	Offset, Time int64
	Sample       S
	More         []S // the samples after it of the same record
	votes, agree uint8
}

// Votes returns the number of votes on the suspect, and how many of them are for it.
func (u *leapSuspect[S]) Votes() (votes, agree uint8) { return u.votes, u.agree }

// leapVotes holds the suspects of a partition and takes the votes on them.
type leapVotes[S any] struct {
	clone    func(S) S
	bits     uint8           // of an offset, that number the samples of a record
	jump     int64           // of the reading in force
	repaired checkpoint.Jump // of a repair
	limit
	list   []leapSuspect[S]         // in order of offset; replaced, never changed in place
	recall []checkpoint.HeldSuspect // suspects of the floor that Recall has not found yet
}

// newLeapVotes returns leapVotes without suspects, where jump microseconds are the largest jump (0: any).
// The last bits of an offset number the samples of a record. clone copies the sample of a suspect, which
// outlives the call that brings it.
func newLeapVotes[S any](jump int64, bits uint8, clone func(S) S) leapVotes[S] {
	j := leapVotes[S]{clone: clone, bits: bits}
	j.SetJump(jump)
	return j
}

// SetJump sets the largest jump in microseconds (0: any) of the reading in force.
func (j *leapVotes[S]) SetJump(jump int64) {
	j.jump = jump
	j.set(jump)
}

// Init sets the suspects that are undecided at the floor where the state begins.
func (j *leapVotes[S]) Init(f checkpoint.Floor) {
	j.list, j.recall, j.repaired = nil, slices.Clone(f.Suspects), f.Jump
}

// Replay prepares for the sample of a replay at offset: it is judged as when live, or, below the offset up to
// which the watermark was repaired, as the repair says. It returns the number of suspects of the floor that the input does
// not have any more.
func (j *leapVotes[S]) Replay(offset int64) (lost int) {
	if j.set(j.jump); offset < j.repaired.Until {
		j.set(j.repaired.Most)
	}
	return j.lost()
}

// EndReplay ends a replay. It returns the number of suspects of the floor that the input does not have any more.
func (j *leapVotes[S]) EndReplay() (lost int) {
	j.set(j.jump)
	return j.lost()
}

func (j *leapVotes[S]) lost() int {
	n := len(j.recall)
	j.recall = nil
	return n
}

// Repaired returns the largest jump of a repair in the form that a floor has.
func (j *leapVotes[S]) Repaired() checkpoint.Jump { return j.repaired }

// Join holds a sample with the suspect of its record, and reports whether there is one. A record has one
// clock: it is one suspect, and its samples do not vote on each other.
func (j *leapVotes[S]) Join(offset int64, sample S) bool {
	n := len(j.list)
	if n == 0 || j.list[n-1].Offset >= offset || !j.same(j.list[n-1].Offset, offset) {
		return false
	}
	j.list = slices.Clone(j.list) // List has handed out the old one
	u := &j.list[n-1]
	u.More = append(u.More, j.clone(sample))
	return true
}

// same reports whether two samples are of one record.
func (j *leapVotes[S]) same(a, b int64) bool { return a>>j.bits == b>>j.bits }

// Vote counts the vote of a sample on each suspect; of a record, the first sample votes. It calls accepted with those that
// are accepted and with the sample, if it is none, and rejected with those that are rejected; held reports whether the sample is a
// suspect from now on. top is the partition's largest time.
func (j *leapVotes[S]) Vote(time, offset int64, sample S, top int64, accepted, rejected func(*leapSuspect[S])) (held bool) {
	list := make([]leapSuspect[S], 0, len(j.list)+1) // List has handed out the old one
	accept := func(u *leapSuspect[S]) {
		accepted(u)
		top = max(top, u.Time)
	}
	voting := offset&(1<<j.bits-1) == 0
	for _, u := range j.list {
		if voting {
			u.votes++
		}
		if voting && time >= timeBefore(u.Time, j.most) {
			u.agree++
		}
		if u.agree > checkpoint.Voters/2 {
			accept(&u)
		} else {
			list = append(list, u)
		}
	}
	list = append(list, leapSuspect[S]{Offset: offset, Time: time, Sample: sample})
	for n := len(list) + 1; len(list) < n; {
		n = len(list)
		list = slices.DeleteFunc(list, func(u leapSuspect[S]) bool {
			if j.Beyond(u.Time, top) {
				return false
			}
			accept(&u)
			return true
		})
	}
	list = slices.DeleteFunc(list, func(u leapSuspect[S]) bool {
		if u.votes-u.agree <= checkpoint.Voters/2 {
			return false
		}
		rejected(&u)
		return true
	})
	if n := len(list); n > 0 && list[n-1].Offset == offset {
		held = true
		list[n-1].Sample = j.clone(sample)
	}
	j.list = list
	return held
}

// Recall restores a suspect of the floor, and the samples after it of its record; it ignores others.
func (j *leapVotes[S]) Recall(time, offset int64, sample S) {
	i := slices.IndexFunc(j.recall, func(m checkpoint.HeldSuspect) bool { return m.Offset == offset })
	if i < 0 {
		j.Join(offset, sample)
		return
	}
	m := j.recall[i]
	j.list = append(j.list, leapSuspect[S]{Offset: offset, Time: time, Sample: j.clone(sample), votes: m.Votes, agree: m.Agree})
	j.recall = slices.Delete(j.recall, i, i+1)
}

// List returns the suspects in order of offset. It does not change; Restore takes it back.
func (j *leapVotes[S]) List() []leapSuspect[S] { return j.list }

// Restore sets the suspects to those that List has returned.
func (j *leapVotes[S]) Restore(list []leapSuspect[S]) { j.list = list }

// Find returns the suspect of the record that the sample at offset is of; nil without one.
func (j *leapVotes[S]) Find(offset int64) *leapSuspect[S] {
	for i := range j.list {
		if j.same(j.list[i].Offset, offset) {
			return &j.list[i]
		}
	}
	return nil
}

// Held returns the suspects as a floor stores them.
func (j *leapVotes[S]) Held() (held []checkpoint.HeldSuspect) {
	for i := range j.list {
		u := &j.list[i]
		held = append(held, checkpoint.HeldSuspect{Offset: u.Offset, Votes: u.votes, Agree: u.agree})
	}
	return held
}
