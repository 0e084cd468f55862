package state

import (
	"slices"

	"odradek/processor/state/rules"
	"odradek/processor/state/series"
)

// This file holds what a partition's scores are judged by: the rulings of its detectors, the mute
// rules and the learned rules in force. All are standing decisions (package rules).

// rulingQueue holds the tasks that wait for their scores.
type rulingQueue interface {
	// After calls a function after the results of the tasks that are in the queue.
	After(do func())
}

// rulings holds the rulings in force of the detectors. Package rules says why they are decisions, and when one
// is made.
type rulings struct {
	// Missing: a configured ruling is not yet in force.
	Missing bool

	dets      []*series.Setup
	decisions *rules.DecisionLog
	tasks     rulingQueue
	turn      func() int64
	changed   func()
}

// newRulings returns the rulings of a state's detectors. turn returns the offset of the newest sample; changed is called
// when another ruling is to be in force.
func newRulings(dets []*series.Setup, log *rules.DecisionLog, q rulingQueue, turn func() int64, changed func()) rulings {
	return rulings{dets: dets, decisions: log, tasks: q, turn: turn, changed: changed}
}

// at returns the ruling in force for the sample at offset next, without the decisions at next. Before the first decision it is
// the ruling of that one: no sample of these offsets was live under this detector.
func (r *rulings) at(d *series.Setup, next int64) (ruling *rules.Ruling, decided bool) {
	first := d.Configured()
	for at := r.decisions.Latest(rules.KindThresholds, []byte(d.Name)); at != nil; at = at.Before() {
		one := at.Value.(*rules.Ruling)
		if at.Offset < next {
			return one, true
		}
		first = one
	}
	return first, false
}

// Force puts the ruling of a decision in force.
func (r *rulings) Force(d *rules.Decision) {
	for _, det := range r.dets {
		if !det.Judged || det.Name != string(d.Subject) {
			continue
		}
		det.Follow(d.Value.(*rules.Ruling), true)
		params, alarm := det.InForce()
		r.tasks.After(func() { det.ThresholdInForce, det.Alarm = params, alarm })
	}
	r.findMissing()
}

// findMissing sets Missing if a configured ruling is not in force.
func (r *rulings) findMissing() {
	r.Missing = slices.ContainsFunc(r.dets, (*series.Setup).RulingDiffers)
}

// Rebuild derives the rulings in force for the next sample.
func (r *rulings) Rebuild(next int64) {
	for _, d := range r.dets {
		if d.Judged {
			d.Follow(r.at(d, next))
			d.ThresholdInForce, d.Alarm = d.InForce()
		}
	}
	r.findMissing()
}

// Decide decides, at the offset of a live sample, for the configured rulings.
func (r *rulings) Decide(offset int64) {
	for _, det := range r.dets {
		if det.RulingDiffers() {
			ruling := det.Configured()
			d := &rules.Decision{
				Kind: rules.KindThresholds, Subject: []byte(det.Name), Content: ruling.Encode(), Offset: offset, Value: ruling,
			}
			r.decisions.Add(d)
			r.Force(d)
		}
	}
}

// OtherwiseJudged returns the detectors for which the decision in force is not what the configuration says, so that the
// next live sample has another one made. Those without a decision so far are not among them.
func (r *rulings) OtherwiseJudged() (names []string) {
	for _, det := range r.dets {
		if det.RulingDiffers() && r.decisions.InForce(rules.KindThresholds, []byte(det.Name), r.turn()) != nil {
			names = append(names, det.Name)
		}
	}
	return names
}

// Reconfigure has the scores judged by the thresholds, guards and policies of anomalies of another configuration of
// the same detectors, from the next live sample on. Where it differs otherwise, the state does not follow it. It may be
// called between two samples, also while the state replays.
func (r *rulings) Reconfigure(list []series.DetectorConfig) {
	for i, det := range r.dets {
		det.Reconfigure(&list[i])
	}
	r.findMissing()
	r.changed()
}
