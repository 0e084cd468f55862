package state

import (
	"odradek/processor/state/rules"
)

// standing holds the rules in force of one kind that an operator decides on. They are a decision of the partition's owner, as rulings are:
// a replay judges by the rules that were in force at the sample or, for one that was held, when it was released.
type standing[L any] struct {
	Folded L // for the sample that is folded next
	Judged L // for the score that is judged next

	kind      rules.Kind
	decisions *rules.DecisionLog
	tasks     rulingQueue
}

// muteRules holds the mute rules in force.
type muteRules = standing[rules.MuteList]

// learnedRules holds the rules in force that labels have taught.
type learnedRules = standing[rules.LearnedList]

// newMuteRules returns the mute rules of a state.
func newMuteRules(log *rules.DecisionLog, q rulingQueue) muteRules {
	return muteRules{kind: rules.KindMutes, decisions: log, tasks: q}
}

// newLearnedRules returns the learned rules of a state.
func newLearnedRules(log *rules.DecisionLog, q rulingQueue) learnedRules {
	return learnedRules{kind: rules.KindLearned, decisions: log, tasks: q}
}

// Force puts the rules of a decision in force.
func (s *standing[L]) Force(d *rules.Decision) {
	list := d.Value.(L)
	s.Folded = list
	s.tasks.After(func() { s.Judged = list })
}

// Rebuild derives the rules in force for the next sample.
func (s *standing[L]) Rebuild(next int64) {
	var none L
	s.Folded = none
	if d := s.decisions.InForce(s.kind, nil, next-1); d != nil {
		s.Folded = d.Value.(L)
	}
	s.Judged = s.Folded
}
