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
func (l *leapSuspect[S]) Votes() (votes, agree uint8) { return l.votes, l.agree }

// leapVotes holds the suspects of a partition and takes the votes on them.
type leapVotes[S any] struct {
	clone    func(S) S
	bits     uint8                    // of an offset, that number the samples of a record
	jump     int64                    // of the reading in force
	repaired checkpoint.Jump          // of a repair
	most     int64                    // the largest jump that samples are judged by, in microseconds; 0: any
	list     []leapSuspect[S]         // in order of offset; replaced, never changed in place
	recall   []checkpoint.HeldSuspect // suspects of the floor that Recall has not found yet
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
func (l *leapVotes[S]) SetJump(jump int64) {
	l.jump, l.most = jump, jump
}

// Judging reports whether samples can be suspects at all.
func (l *leapVotes[S]) Judging() bool { return l.most > 0 }

// Beyond reports whether a sample of that time is a suspect where top is the
// largest one.
func (l *leapVotes[S]) Beyond(time, top int64) bool {
	switch {
	case l.most == 0:
		return false
	case top == noTime:
		return true
	}
	return time > top && uint64(time)-uint64(top) > uint64(l.most)
}

// Init sets the suspects that are undecided at the floor where the state begins.
func (l *leapVotes[S]) Init(f checkpoint.Floor) {
	l.list, l.recall, l.repaired = nil, slices.Clone(f.Suspects), f.Jump
}

// Replay prepares for the sample of a replay at offset: it is judged as when live, or, below the offset up to
// which the watermark was repaired, as the repair says. It returns the number of suspects of the floor that the input does
// not have any more.
func (l *leapVotes[S]) Replay(offset int64) (lost int) {
	if l.most = l.jump; offset < l.repaired.Until {
		l.most = l.repaired.Most
	}
	return l.lost()
}

// EndReplay ends a replay. It returns the number of suspects of the floor that the input does not have any more.
func (l *leapVotes[S]) EndReplay() (lost int) {
	l.most = l.jump
	return l.lost()
}

func (l *leapVotes[S]) lost() int {
	n := len(l.recall)
	l.recall = nil
	return n
}

// Repaired returns the largest jump of a repair in the form that a floor has.
func (l *leapVotes[S]) Repaired() checkpoint.Jump { return l.repaired }

// Join holds a sample with the suspect of its record, and reports whether there is one. A record has one
// clock: it is one suspect, and its samples do not vote on each other.
func (l *leapVotes[S]) Join(offset int64, sample S) bool {
	n := len(l.list)
	if n == 0 || l.list[n-1].Offset >= offset || !l.same(l.list[n-1].Offset, offset) {
		return false
	}
	l.list = slices.Clone(l.list) // List has handed out the old one
	u := &l.list[n-1]
	u.More = append(u.More, l.clone(sample))
	return true
}

// same reports whether two samples are of one record.
func (l *leapVotes[S]) same(a, b int64) bool { return a>>l.bits == b>>l.bits }

// Vote counts the vote of a sample on each suspect; of a record, the first sample votes. It calls accepted with those that
// are accepted and with the sample, if it is none, and rejected with those that are rejected; held reports whether the sample is a
// suspect from now on. top is the partition's largest time.
func (l *leapVotes[S]) Vote(time, offset int64, sample S, top int64, accepted, rejected func(*leapSuspect[S])) (held bool) {
	list := make([]leapSuspect[S], 0, len(l.list)+1) // List has handed out the old one
	accept := func(u *leapSuspect[S]) {
		accepted(u)
		top = max(top, u.Time)
	}
	voting := offset&(1<<l.bits-1) == 0
	for _, u := range l.list {
		if voting {
			u.votes++
		}
		if voting && time >= timeBefore(u.Time, l.most) {
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
			if l.Beyond(u.Time, top) {
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
		list[n-1].Sample = l.clone(sample)
	}
	l.list = list
	return held
}

// Recall restores a suspect of the floor, and the samples after it of its record; it ignores others.
func (l *leapVotes[S]) Recall(time, offset int64, sample S) {
	i := slices.IndexFunc(l.recall, func(m checkpoint.HeldSuspect) bool { return m.Offset == offset })
	if i < 0 {
		l.Join(offset, sample)
		return
	}
	m := l.recall[i]
	l.list = append(l.list, leapSuspect[S]{Offset: offset, Time: time, Sample: l.clone(sample), votes: m.Votes, agree: m.Agree})
	l.recall = slices.Delete(l.recall, i, i+1)
}

// List returns the suspects in order of offset. It does not change; Restore takes it back.
func (l *leapVotes[S]) List() []leapSuspect[S] { return l.list }

// Restore sets the suspects to those that List has returned.
func (l *leapVotes[S]) Restore(list []leapSuspect[S]) { l.list = list }

// Find returns the suspect of the record that the sample at offset is of; nil without one.
func (l *leapVotes[S]) Find(offset int64) *leapSuspect[S] {
	for i := range l.list {
		if l.same(l.list[i].Offset, offset) {
			return &l.list[i]
		}
	}
	return nil
}

// Held returns the suspects as a floor stores them.
func (l *leapVotes[S]) Held() (held []checkpoint.HeldSuspect) {
	for i := range l.list {
		u := &l.list[i]
		held = append(held, checkpoint.HeldSuspect{Offset: u.Offset, Votes: u.votes, Agree: u.agree})
	}
	return held
}
