package keystate

import (
	"slices"

	"odradek/processor/keystate/decisions"
	"odradek/processor/keystate/ruling"
	"odradek/processor/keystate/series"
	"odradek/processor/keystate/tasks"
)

// Rules holds the rulings in force of the detectors. Package ruling says why they are decisions, and when one
// is made.
type Rules struct {
	dets      []*series.Setup
	decisions *decisions.Log
	tasks     *tasks.Queue[*Key]
	position  *position
	changed   func() // another ruling is to be in force
	missing   bool   // a configured ruling is not yet in force
}

// at returns the ruling in force for the sample at offset next, without the decisions at next.
func (r *Rules) at(d *series.Setup, next int64) *ruling.Ruling {
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
func (r *Rules) force(d *decisions.Decision) {
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
func (r *Rules) findMissing() {
	r.missing = slices.ContainsFunc(r.dets, (*series.Setup).Unruled)
}

// rebuild derives the rulings in force for the next sample.
func (r *Rules) rebuild(next int64) {
	for _, d := range r.dets {
		if d.Judged {
			d.Follow(r.at(d, next))
			d.Rule, d.Alarm = d.InForce()
		}
	}
	r.findMissing()
}

// decide decides, at the offset of a live sample, for the configured rulings.
func (r *Rules) decide(offset int64) {
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
func (r *Rules) OtherwiseJudged() (names []string) {
	for _, det := range r.dets {
		if det.Unruled() && r.decisions.InForce(Thresholds, []byte(det.Name), r.position.turn()) != nil {
			names = append(names, det.Name)
		}
	}
	return names
}

// Reconfigure has the scores judged by the thresholds, guards and rules of anomalies of another configuration of
// the same detectors, from the next live sample on. Where it differs otherwise, the state does not follow it. It may be
// called between two samples, also while the state replays.
func (r *Rules) Reconfigure(list []series.DetectorConfig) {
	for i, det := range r.dets {
		det.Reconfigure(&list[i])
	}
	r.findMissing()
	r.changed()
}
