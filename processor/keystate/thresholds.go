package keystate

import (
	"fmt"
	"math"
	"slices"

	"odradek/detectors/threshold"
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
// A history stays as the rule has left it that judged its key's last score (alert.rule)
// until the next one: what a changed rule asks for is then done in the key's turn,
// and costs nothing for keys that are not heard of again. A rule with another number
// of scores begins anew.
//
// A detector that is removed leaves its decision in the changelog. If it comes back,
// what its keys still remember goes on under it.

// ruleFormat is the first byte of a decision's content: see appendRule.
const ruleFormat = 1

// appendRule is the content of a decision: format, kind, value, margin, history,
// warm-up, distance of added scores, whether scores are bounded.
func appendRule(r *threshold.Rule) []byte {
	var e encoder
	e.Byte(ruleFormat)
	e.Byte(byte(r.Kind))
	e.Bits(math.Float64bits(r.Value))
	e.Bits(math.Float64bits(r.Margin))
	e.Uint(uint64(r.History))
	e.Uint(uint64(r.Warmup))
	e.Uint(uint64(r.Decluster))
	bounded := byte(0)
	if r.Bounded {
		bounded = 1
	}
	e.Byte(bounded)
	return e.B
}

// readRule reads the content of a decision that was loaded.
func readRule(d *decision) error {
	dec := newDecoder(d.content)
	switch v := dec.Byte(); {
	case v > ruleFormat:
		return fmt.Errorf("a threshold of format %d: %w", v, ErrNewer)
	case v < ruleFormat:
		return ErrCorrupt
	}
	r := &threshold.Rule{
		Kind: threshold.Kind(dec.Byte()), Value: floatOf(dec.Bits()), Margin: floatOf(dec.Bits()),
		History: dec.Small(), Warmup: dec.Small(), Decluster: dec.Small(), Bounded: dec.Byte() == 1,
	}
	if dec.Bad || len(dec.B) > 0 || !r.Sound() {
		return ErrCorrupt
	}
	d.rule = r
	return nil
}

// ruling is a change of the rule in force that waits for the tasks before it.
type ruling struct {
	det  *detector
	rule *threshold.Rule
}

// configured is the threshold that a detector is to have: neighbouring scores that
// are about the same samples are one event in the history.
func (d *detector) configured() *threshold.Rule {
	r := *d.DetectorConfig.Threshold
	if r.Decluster == 0 {
		r.Decluster = d.from + 1
	}
	return &r
}

// ruleAt is the rule in force before what is decided at offset next.
func (s *State) ruleAt(d *detector, next int64) *threshold.Rule {
	first := d.Threshold
	for at := s.decisions.latest(Thresholds, []byte(d.Name)); at != nil; at = at.before {
		if at.offset < next {
			return at.rule
		}
		first = at.rule
	}
	all := *first
	all.Decluster, all.Bounded = 0, false
	return &all
}

// force puts the rule of a decision in force.
func (s *State) force(d *decision) {
	for _, det := range s.dets {
		if det.judged && det.Name == string(d.subject) {
			det.ruled = d.rule
			if len(s.tasks.pend) == 0 {
				det.rule = d.rule
			} else {
				s.tasks.pend = append(s.tasks.pend, pending{task: pendingRule, at: uint32(len(s.tasks.rulings))})
				s.tasks.rulings = append(s.tasks.rulings, ruling{det, d.rule})
			}
		}
	}
	s.findUnruled()
}

// findUnruled looks for configured thresholds that are not in force.
func (s *State) findUnruled() {
	s.unruled = slices.ContainsFunc(s.dets, (*detector).unruled)
}

// unruled reports whether the detector's configured threshold is not in force.
func (d *detector) unruled() bool { return d.judged && *d.ruled != *d.Threshold }

// rebuildRules makes the rules in force what they are for the next sample.
func (s *State) rebuildRules() {
	for _, d := range s.dets {
		if d.judged {
			d.rule = s.ruleAt(d, s.next)
			d.ruled = d.rule
		}
	}
	s.findUnruled()
}

// decideRules decides, at the offset of a live sample, for the configured thresholds.
func (s *State) decideRules(offset int64) {
	for _, det := range s.dets {
		if det.unruled() {
			d := &decision{kind: Thresholds, subject: []byte(det.Name), content: appendRule(det.Threshold), offset: offset, rule: det.Threshold}
			s.decide(d)
			s.force(d)
		}
	}
}

// follow makes a key's history one of the rule in force.
func (s *State) follow(k *Key, d *keyDetector, a *alert) {
	old := a.rule
	if a.rule = d.rule; old.Like(d.rule) {
		return
	}
	same := old.History == d.rule.History
	if !s.restore.replaying {
		was := formerRule{old, a.history}
		if same {
			was.history = slices.Clone(a.history[:threshold.Head])
		}
		s.journal.cur.rules = append(s.journal.cur.rules, was)
		s.journal.cur.add(opRule, k, d.alert, 0)
	}
	if same {
		d.rule.Adopt(a.history)
		return
	}
	s.setHistory(k, a, make([]float32, d.rule.Size()))
}

// formerRule is what undo needs of a history that was made one of another rule.
type formerRule struct {
	rule    *threshold.Rule
	history []float32 // or its head, if it has stayed as long
}

// undoRule takes back that a history was made one of another rule.
func (s *State) undoRule(k *Key, a *alert, was formerRule) {
	if a.rule = was.rule; len(was.history) == threshold.Head {
		copy(a.history, was.history)
		return
	}
	s.setHistory(k, a, was.history)
}

func (s *State) setHistory(k *Key, a *alert, history []float32) {
	if !k.dead {
		s.bytes += 4 * int64(cap(history)-cap(a.history))
	}
	a.history = history
}

// ruleLike is a rule whose histories are as one in a head is; nil if there is none.
func (s *State) ruleLike(d *detector, kind threshold.Kind, value float64, history int) *threshold.Rule {
	want := threshold.Rule{Kind: kind, Value: value, History: history}
	if d.Threshold.Like(&want) {
		return d.Threshold
	}
	for _, r := range d.former {
		if r.Like(&want) {
			return r
		}
	}
	if !want.Sound() {
		return nil
	}
	r := &want
	d.former = append(d.former, r)
	return r
}
