package keystate

import (
	"odradek/processor/keystate/decisions"
	"odradek/processor/keystate/mute"
	"odradek/processor/keystate/tasks"
)

// mutes holds the mute rules in force. They are a decision of the partition's owner, as thresholds are: a replay
// mutes by the rules that were in force at the sample or, for one that was held, when it was released.
type mutes struct {
	decisions *decisions.Log
	tasks     *tasks.Queue[*Key]
	folded    mute.List // for the sample that Fold takes next
	judged    mute.List // for the score that Apply judges next
}

// force puts the rules of a decision in force.
func (m *mutes) force(d *decisions.Decision) {
	list := d.Value.(mute.List)
	if m.folded = list; m.tasks.Empty() {
		m.judged = list
		return
	}
	m.tasks.Defer(func() { m.judged = list })
}

// rebuild derives the rules in force for the next sample.
func (m *mutes) rebuild(next int64) {
	m.folded = nil
	if d := m.decisions.InForce(Mutes, nil, next-1); d != nil {
		m.folded = d.Value.(mute.List)
	}
	m.judged = m.folded
}
