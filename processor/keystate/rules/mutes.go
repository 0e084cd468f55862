package rules

import (
	"odradek/processor/keystate/decisions"
	"odradek/processor/keystate/mute"
)

// Mutes holds the mute rules in force. They are a decision of the partition's owner, as rulings are: a replay
// mutes by the rules that were in force at the sample or, for one that was held, when it was released.
type Mutes struct {
	Folded mute.List // for the sample that is folded next
	Judged mute.List // for the score that is judged next

	decisions *decisions.Log
	tasks     Queue
}

// NewMutes returns the mute rules of a state.
func NewMutes(log *decisions.Log, q Queue) Mutes { return Mutes{decisions: log, tasks: q} }

// Force puts the rules of a decision in force.
func (m *Mutes) Force(d *decisions.Decision) {
	list := d.Value.(mute.List)
	if m.Folded = list; m.tasks.Empty() {
		m.Judged = list
		return
	}
	m.tasks.Defer(func() { m.Judged = list })
}

// Rebuild derives the rules in force for the next sample.
func (m *Mutes) Rebuild(next int64) {
	m.Folded = nil
	if d := m.decisions.InForce(decisions.Mutes, nil, next-1); d != nil {
		m.Folded = d.Value.(mute.List)
	}
	m.Judged = m.Folded
}
