package rules

import (
	"odradek/processor/keystate/decisions"
	"odradek/processor/keystate/learned"
	"odradek/processor/keystate/mute"
)

// Standing holds the rules in force of one kind that an operator decides on. They are a decision of the partition's owner, as rulings are:
// a replay judges by the rules that were in force at the sample or, for one that was held, when it was released.
type Standing[L any] struct {
	Folded L // for the sample that is folded next
	Judged L // for the score that is judged next

	kind      decisions.Kind
	decisions *decisions.Log
	tasks     Queue
}

// Mutes holds the mute rules in force.
type Mutes = Standing[mute.List]

// Learned holds the rules in force that labels have taught.
type Learned = Standing[learned.List]

// NewMutes returns the mute rules of a state.
func NewMutes(log *decisions.Log, q Queue) Mutes {
	return Mutes{kind: decisions.Mutes, decisions: log, tasks: q}
}

// NewLearned returns the learned rules of a state.
func NewLearned(log *decisions.Log, q Queue) Learned {
	return Learned{kind: decisions.Learned, decisions: log, tasks: q}
}

// Force puts the rules of a decision in force.
func (s *Standing[L]) Force(d *decisions.Decision) {
	list := d.Value.(L)
	if s.Folded = list; s.tasks.Empty() {
		s.Judged = list
		return
	}
	s.tasks.Defer(func() { s.Judged = list })
}

// Rebuild derives the rules in force for the next sample.
func (s *Standing[L]) Rebuild(next int64) {
	var none L
	s.Folded = none
	if d := s.decisions.InForce(s.kind, nil, next-1); d != nil {
		s.Folded = d.Value.(L)
	}
	s.Judged = s.Folded
}
