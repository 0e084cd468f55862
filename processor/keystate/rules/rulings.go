// Package rules holds what a partition's scores are judged by: the rulings of its detectors (package ruling), the mute
// rules (package mute) and the learned rules (package learned) in force. All are standing decisions (package decisions).
package rules

import (
	"slices"

	"odradek/processor/keystate/decisions"
	"odradek/processor/keystate/ruling"
	"odradek/processor/keystate/series"
)

// Queue holds the tasks that wait for their scores.
type Queue interface {
	Empty() bool
	// Defer calls a function after the results of the tasks that are in the queue.
	Defer(do func())
}

// Rulings holds the rulings in force of the detectors. Package ruling says why they are decisions, and when one
// is made.
type Rulings struct {
	// Missing: a configured ruling is not yet in force.
	Missing bool

	dets      []*series.Setup
	decisions *decisions.Log
	tasks     Queue
	turn      func() int64
	changed   func()
}

// NewRulings returns the rulings of a state's detectors. turn returns the offset of the newest sample; changed is called
// when another ruling is to be in force.
func NewRulings(dets []*series.Setup, log *decisions.Log, q Queue, turn func() int64, changed func()) Rulings {
	return Rulings{dets: dets, decisions: log, tasks: q, turn: turn, changed: changed}
}

// at returns the ruling in force for the sample at offset next, without the decisions at next.
func (r *Rulings) at(d *series.Setup, next int64) *ruling.Ruling {
	first := d.Configured()
	for at := r.decisions.Latest(decisions.Thresholds, []byte(d.Name)); at != nil; at = at.Before() {
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

// Force puts the ruling of a decision in force.
func (r *Rulings) Force(d *decisions.Decision) {
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

// findMissing sets Missing if a configured ruling is not in force.
func (r *Rulings) findMissing() {
	r.Missing = slices.ContainsFunc(r.dets, (*series.Setup).Unruled)
}

// Rebuild derives the rulings in force for the next sample.
func (r *Rulings) Rebuild(next int64) {
	for _, d := range r.dets {
		if d.Judged {
			d.Follow(r.at(d, next))
			d.Rule, d.Alarm = d.InForce()
		}
	}
	r.findMissing()
}

// Decide decides, at the offset of a live sample, for the configured rulings.
func (r *Rulings) Decide(offset int64) {
	for _, det := range r.dets {
		if det.Unruled() {
			rule := det.Configured()
			d := &decisions.Decision{
				Kind: decisions.Thresholds, Subject: []byte(det.Name), Content: rule.Encode(), Offset: offset, Value: rule,
			}
			r.decisions.Add(d)
			r.Force(d)
		}
	}
}

// OtherwiseJudged returns the detectors for which the decision in force is not what the configuration says, so that the
// next live sample has another one made. Those without a decision so far are not among them.
func (r *Rulings) OtherwiseJudged() (names []string) {
	for _, det := range r.dets {
		if det.Unruled() && r.decisions.InForce(decisions.Thresholds, []byte(det.Name), r.turn()) != nil {
			names = append(names, det.Name)
		}
	}
	return names
}

// Reconfigure has the scores judged by the thresholds, guards and rules of anomalies of another configuration of
// the same detectors, from the next live sample on. Where it differs otherwise, the state does not follow it. It may be
// called between two samples, also while the state replays.
func (r *Rulings) Reconfigure(list []series.DetectorConfig) {
	for i, det := range r.dets {
		det.Reconfigure(&list[i])
	}
	r.findMissing()
	r.changed()
}
