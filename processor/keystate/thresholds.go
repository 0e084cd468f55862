package keystate

import (
	"slices"

	"odradek/detectors/threshold"
	"odradek/processor/keystate/decisions"
	"odradek/processor/keystate/series"
)

// Which scores enter a key's history depends on the threshold that judged them, and a
// user may change a threshold without losing state. So the thresholds in force are
// decisions: Thresholds, a standing one for each detector's name. With the first live
// sample after a start or a restore, and whenever another one's decision takes effect
// behind it, the owner decides for its configuration where what is in force differs.
// A replay judges by what was in force at the sample, or where samples wait for their
// turn, at the turn.
//
// Below a partition's first decision, a version that made none has judged. It added
// every score, and judged bounded ones as any others; a replay does the same, by the
// rule of that first decision, or before it is made, of the configuration.
//
// A history stays as the rule has left it that judged its key's last score (Alert.Rule)
// until the next one: what a changed rule asks for is then done in the key's turn,
// and costs nothing for keys without another sample. A rule with another number
// of scores begins anew.
//
// A detector that is removed leaves its decision in the changelog. If it comes back,
// its keys use it again, with what they still remember.

// ruleAt is the rule in force before what is decided at offset next.
func (s *State) ruleAt(d *series.Setup, next int64) *threshold.Rule {
	first := d.Threshold
	for at := s.decisions.Latest(Thresholds, []byte(d.Name)); at != nil; at = at.Before() {
		rule := at.Value.(*threshold.Rule)
		if at.Offset < next {
			return rule
		}
		first = rule
	}
	all := *first
	all.Decluster, all.Bounded = 0, false
	return &all
}

// force puts the rule of a decision in force.
func (s *State) force(d *decisions.Decision) {
	rule := d.Value.(*threshold.Rule)
	for _, det := range s.dets {
		if det.Judged && det.Name == string(d.Subject) {
			det.Ruled = rule
			if s.tasks.Empty() {
				det.Rule = rule
			} else {
				s.tasks.Defer(func() { det.Rule = rule })
			}
		}
	}
	s.findUnruled()
}

// findUnruled looks for configured thresholds that are not in force.
func (s *State) findUnruled() {
	s.unruled = slices.ContainsFunc(s.dets, (*series.Setup).Unruled)
}

// rebuildRules makes the rules in force what they are for the next sample.
func (s *State) rebuildRules() {
	for _, d := range s.dets {
		if d.Judged {
			d.Rule = s.ruleAt(d, s.next)
			d.Ruled = d.Rule
		}
	}
	s.findUnruled()
}

// decideRules decides, at the offset of a live sample, for the configured thresholds.
func (s *State) decideRules(offset int64) {
	for _, det := range s.dets {
		if det.Unruled() {
			d := &decisions.Decision{
				Kind: Thresholds, Subject: []byte(det.Name), Content: decisions.EncodeRule(det.Threshold), Offset: offset, Value: det.Threshold,
			}
			s.decisions.Add(d)
			s.force(d)
		}
	}
}

// follow makes a key's history one of the rule in force.
func (s *State) follow(k *Key, d *series.SetDetector, a *series.Alert) {
	old := a.Rule
	if a.Rule = d.Rule; old.Like(d.Rule) {
		return
	}
	same := old.History == d.Rule.History
	if !s.restore.replaying {
		was := &formerRule{old, a.History}
		if same {
			was.history = slices.Clone(a.History[:threshold.Head])
		}
		s.journal.Open.PushValues(opRule, k, d.Alert, 0, was)
	}
	if same {
		d.Rule.Adopt(a.History)
		return
	}
	s.setHistory(k, a, make([]float32, d.Rule.Size()))
}

// formerRule is what undo needs of a history that was made one of another rule.
type formerRule struct {
	rule    *threshold.Rule
	history []float32 // or its head, if it has stayed as long
}

// undoRule takes back that a history was made one of another rule.
func (s *State) undoRule(k *Key, a *series.Alert, was *formerRule) {
	if a.Rule = was.rule; len(was.history) == threshold.Head {
		copy(a.History, was.history)
		return
	}
	s.setHistory(k, a, was.history)
}

func (s *State) setHistory(k *Key, a *series.Alert, history []float32) {
	if !k.Dead {
		s.keys.Bytes += 4 * int64(cap(history)-cap(a.History))
	}
	a.History = history
}
