package keystate

import (
	"slices"

	"odradek/processor/keystate/decisions"
	"odradek/processor/keystate/ruling"
	"odradek/processor/keystate/series"
	"odradek/processor/keystate/tasks"
)

// Which scores enter a key's history depends on the threshold that judged them; which
// anomalies are open, and how soon others open, depends on guards and rules of anomalies. A user may
// change these without losing state, also while the worker runs (Reconfigure). So the rulings in force are
// decisions of the kind Thresholds, a standing one for each detector's name. With the first live
// sample after a start, a restore or a change, and whenever a decision of another owner takes effect
// after it, the owner decides for the rulings of its configuration that differ from those in force.
// A replay judges by the ruling that was in force at the sample or, for one that was held, when it was
// released.
//
// Offsets below a partition's first decision were judged by a version that made none. It added
// every score, and judged bounded scores like all others; a replay does the same, by the
// rule of that first decision or, before it is made, of the configuration. A decision of a version that
// decided on thresholds alone leaves the rest to the configuration.
//
// When a rule changes, a key's history is converted with the key's next score (Alert.Rule names the
// rule that it was made by), so that keys without another sample cost nothing. A rule with
// another number of scores begins with an empty history.
//
// A detector that is removed leaves its decision in the changelog. If it is configured again,
// its keys use it again, with the histories that they still have.

// rules holds the rules in force of the detectors.
type rules struct {
	dets      []*series.Setup
	decisions *decisions.Log
	tasks     *tasks.Queue[*Key]
	missing   bool // a configured threshold is not yet in force
}

// at returns the ruling in force for the sample at offset next, without the decisions at next.
func (r *rules) at(d *series.Setup, next int64) *ruling.Ruling {
	first := d.Configured()
	for at := r.decisions.Latest(Thresholds, []byte(d.Name)); at != nil; at = at.Before() {
		rule := at.Value.(*ruling.Ruling)
		if at.Offset < next {
			return rule
		}
		first = rule
	}
	all := *first.Threshold
	all.Decluster, all.Bounded = 0, false
	return &ruling.Ruling{Threshold: &all, Alarm: first.Alarm}
}

// force puts the ruling of a decision in force.
func (r *rules) force(d *decisions.Decision) {
	for _, det := range r.dets {
		if !det.Judged || det.Name != string(d.Subject) {
			continue
		}
		det.Follow(d.Value.(*ruling.Ruling))
		rule, alarm := det.InForce()
		if r.tasks.Empty() {
			det.Rule, det.Alarm = rule, alarm
		} else {
			r.tasks.Defer(func() { det.Rule, det.Alarm = rule, alarm })
		}
	}
	r.findMissing()
}

// findMissing sets missing if a configured ruling is not in force.
func (r *rules) findMissing() {
	r.missing = slices.ContainsFunc(r.dets, (*series.Setup).Unruled)
}

// rebuild derives the rulings in force for the next sample.
func (r *rules) rebuild(next int64) {
	for _, d := range r.dets {
		if d.Judged {
			d.Follow(r.at(d, next))
			d.Rule, d.Alarm = d.InForce()
		}
	}
	r.findMissing()
}

// decide decides, at the offset of a live sample, for the configured rulings.
func (r *rules) decide(offset int64) {
	for _, det := range r.dets {
		if det.Unruled() {
			rule := det.Configured()
			d := &decisions.Decision{
				Kind: Thresholds, Subject: []byte(det.Name), Content: rule.Encode(), Offset: offset, Value: rule,
			}
			r.decisions.Add(d)
			r.force(d)
		}
	}
}

// OtherwiseJudged returns the detectors for which the decision in force is not what the configuration says, so that the
// next live sample has another one made. Those without a decision so far are not among them.
func (s *State) OtherwiseJudged() (names []string) {
	for _, det := range s.dets {
		if det.Unruled() && s.Decisions.log.InForce(Thresholds, []byte(det.Name), s.next-1) != nil {
			names = append(names, det.Name)
		}
	}
	return names
}

// Reconfigure has the scores judged by the thresholds, guards and rules of anomalies of another configuration of
// the same detectors, from the next live sample on. Where it differs otherwise, the state does not follow it. It may be
// called between two samples, also while the state replays.
func (s *State) Reconfigure(list []series.DetectorConfig) {
	for i, det := range s.dets {
		det.Reconfigure(&list[i])
	}
	s.rules.findMissing()
	s.route()
}
