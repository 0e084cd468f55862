package keystate

import (
	"slices"

	"odradek/detectors/threshold"
	"odradek/processor/keystate/decisions"
	"odradek/processor/keystate/series"
	"odradek/processor/keystate/tasks"
)

// Which scores enter a key's history depends on the threshold that judged them, and a
// user may change a threshold without losing state. So the thresholds in force are
// decisions of the kind Thresholds, a standing one for each detector's name. With the first live
// sample after a start or a restore, and whenever a decision of another owner takes effect
// after it, the owner decides for the thresholds of its configuration that differ from those in force.
// A replay judges by the threshold that was in force at the sample or, for one that was held, when it was
// released.
//
// Offsets below a partition's first decision were judged by a version that made none. It added
// every score, and judged bounded scores like all others; a replay does the same, by the
// rule of that first decision or, before it is made, of the configuration.
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

// at returns the rule in force for the sample at offset next, without the decisions at next.
func (r *rules) at(d *series.Setup, next int64) *threshold.Rule {
	first := d.Threshold
	for at := r.decisions.Latest(Thresholds, []byte(d.Name)); at != nil; at = at.Before() {
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
func (r *rules) force(d *decisions.Decision) {
	rule := d.Value.(*threshold.Rule)
	for _, det := range r.dets {
		if det.Judged && det.Name == string(d.Subject) {
			det.Ruled = rule
			if r.tasks.Empty() {
				det.Rule = rule
			} else {
				r.tasks.Defer(func() { det.Rule = rule })
			}
		}
	}
	r.findMissing()
}

// findMissing sets missing if a configured threshold is not in force.
func (r *rules) findMissing() {
	r.missing = slices.ContainsFunc(r.dets, (*series.Setup).Unruled)
}

// rebuild derives the rules in force for the next sample.
func (r *rules) rebuild(next int64) {
	for _, d := range r.dets {
		if d.Judged {
			d.Rule = r.at(d, next)
			d.Ruled = d.Rule
		}
	}
	r.findMissing()
}

// decide decides, at the offset of a live sample, for the configured thresholds.
func (r *rules) decide(offset int64) {
	for _, det := range r.dets {
		if det.Unruled() {
			d := &decisions.Decision{
				Kind: Thresholds, Subject: []byte(det.Name), Content: decisions.EncodeRule(det.Threshold), Offset: offset, Value: det.Threshold,
			}
			r.decisions.Add(d)
			r.force(d)
		}
	}
}
