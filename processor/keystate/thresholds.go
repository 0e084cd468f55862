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

// rules holds the rules in force of the detectors.
type rules struct {
	dets      []*series.Setup
	decisions *decisions.Log
	tasks     *tasks.Queue[*Key]
	missing   bool // a configured threshold is not yet in force
}

// at is the rule in force before what is decided at offset next.
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

// findMissing looks for configured thresholds that are not in force.
func (r *rules) findMissing() {
	r.missing = slices.ContainsFunc(r.dets, (*series.Setup).Unruled)
}

// rebuild makes the rules in force what they are for the next sample.
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
