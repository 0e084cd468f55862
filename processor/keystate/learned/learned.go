// Package learned has the rules that false alarms teach: anomalies like at least three that operators have labelled as
// false are marked, and no severity calls anyone.
//
// # What is alike
//
// Labels are of one kind if their anomalies have the same detector, the same value field with the largest
// contribution, on the same side of its expected value, and scores of the same shape: the highest when the anomaly opened, and
// the highest of all. A rule spans its labels' scores, with a margin. It recognises an anomaly when that opens,
// by the first score; when a later score is above the labels' highest, the anomaly is none of the kind after all.
//
// Scores are compared as they are, not by thresholds or severities: those follow the series' history, so that the same
// shape has another severity each time. Scores of one series compare; those of different series need not. So labels of
// one series make a rule for that series, and a rule for all series needs labels of as many different ones with
// scores within a factor of 1.5. docs/quality.md has what the rules remove and what they lose, and what else was tried.
//
// A confirmed anomaly outweighs any number of false ones: no rule covers it.
//
// # Life
//
// Derive is a pure function of the labels, so all workers that have read the same labels have the same rules. The
// rules that a partition's owner finds are a decision with their whole content (package decisions), as mutes are.
package learned

import (
	"cmp"
	"math"
	"slices"

	"odradek/processor/keystate/guard"
)

// Limits. Rules are one record of the changelog.
const (
	MaxRules  = 500
	MaxBytes  = 64 << 10 // of an encoded list
	MaxText   = 1024     // bytes of a detector's or series' name of a label; others teach nothing
	MaxLabels = 20_000   // that Derive takes
	named     = 3        // labels that a rule names
)

// Margin is the share of a score by which another may be beyond those of the labels.
const Margin = 0.15

// Alike is the largest ratio of the scores of labels of different series.
const Alike = 1.5

// Alarm is an anomaly as far as it is compared.
type Alarm struct {
	Detector string
	Series   string          // the key as text, as anomaly records have it
	Field    int             // value field with the largest contribution; -1: not known
	Side     guard.Direction // of the expected value on which it was measured; Both: not known
	Opened   float64         // the highest score when the anomaly opened
	Peak     float64         // the highest so far
}

// Label says whether an anomaly was a fault.
type Label struct {
	Anomaly [16]byte // its id
	Fault   bool     // confirmed; else a false alarm
	Alarm
}

// kind is what labels of a rule have in common besides their scores. Rules for all series have none.
type kind struct {
	detector, series string
	all              bool
	field            int
	side             guard.Direction
}

func (k kind) compare(o kind) int {
	return cmp.Or(cmp.Compare(k.detector, o.detector), cmp.Compare(btoi(k.all), btoi(o.all)), cmp.Compare(k.series, o.series),
		cmp.Compare(k.field, o.field), cmp.Compare(k.side, o.side))
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Rule recognises the anomalies of a kind.
type Rule struct {
	Detector string
	Series   string
	All      bool // it is about all series, and Series is empty
	Field    int
	Side     guard.Direction
	From, To float64    // the least and the highest score with which one opens
	Most     float64    // the highest score of one
	Count    int        // labels
	Labels   [][16]byte // the ids of the first of them, at most three
}

// List holds the rules in force.
type List []Rule

// Like returns the rule that an anomaly is like, by its score so far; nil: none.
func (l List) Like(a *Alarm) *Rule {
	for i := range l {
		if r := &l[i]; r.covers(a) {
			return r
		}
	}
	return nil
}

func (r *Rule) covers(a *Alarm) bool {
	return r.Detector == a.Detector && (r.All || r.Series == a.Series) && r.Field == a.Field && r.Side == a.Side &&
		a.Opened >= r.From && a.Opened <= r.To && a.Peak <= r.Most
}

// sound reports whether a label can teach anything.
func (l *Label) sound() bool {
	return l.Detector != "" && len(l.Detector) <= MaxText && len(l.Series) <= MaxText && !math.IsInf(l.Opened, 0) && !math.IsInf(l.Peak, 0) &&
		l.Opened <= l.Peak && l.Side <= guard.Below && l.Field >= -1
}

// Derive returns the rules that the labels teach, in an order of their own. A rule needs at least as many false alarms
// as least says; 0: there are no rules. Of several labels of one anomaly only one should be given. The order of the labels does not
// matter.
func Derive(labels []Label, least int) List {
	if least < 1 {
		return nil
	}
	of := map[kind][]*Label{}
	faults := map[kind][]*Label{} // by what they have in common but the series
	for i := range labels {
		one := kind{detector: labels[i].Detector, series: labels[i].Series, field: labels[i].Field, side: labels[i].Side}
		every := one
		every.series, every.all = "", true
		switch l := &labels[i]; {
		case !l.sound():
		case l.Fault:
			faults[every] = append(faults[every], l)
		default:
			of[one], of[every] = append(of[one], l), append(of[every], l)
		}
	}
	byScore := func(a, b *Label) int {
		return cmp.Or(cmp.Compare(a.Opened, b.Opened), cmp.Compare(a.Peak, b.Peak), slices.Compare(a.Anomaly[:], b.Anomaly[:]))
	}
	for _, group := range faults {
		slices.SortFunc(group, byScore)
	}
	var list List
	for k, group := range of {
		every := k
		every.series, every.all = "", true
		confirmed := faults[every]
		slices.SortFunc(group, byScore)
		if !k.all {
			if r, ok := span(k, group, least, confirmed); ok {
				list = append(list, r)
			}
			continue
		}
		for len(group) >= least {
			n := near(group)
			if r, ok := span(k, group[:n], least, confirmed); ok && different(group[:n]) >= least {
				list = append(list, r)
			}
			group = group[n:]
		}
	}
	slices.SortFunc(list, func(a, b Rule) int {
		return cmp.Or(a.kind().compare(b.kind()), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	return list.bounded()
}

func (r *Rule) kind() kind { return kind{r.Detector, r.Series, r.All, r.Field, r.Side} }

// span returns the rule that spans the labels, in the order of their first scores; ok is false where they are too few,
// or a confirmed anomaly lies among them.
func span(k kind, group []*Label, least int, faults []*Label) (r Rule, ok bool) {
	if len(group) < least {
		return r, false
	}
	r = Rule{Detector: k.detector, Series: k.series, All: k.all, Field: k.field, Side: k.side, Count: len(group)}
	low, high, peak := group[0].Opened, group[len(group)-1].Opened, group[0].Peak
	for _, l := range group {
		peak = max(peak, l.Peak)
	}
	r.From, r.To, r.Most = low-Margin*math.Abs(low), high+Margin*math.Abs(high), peak+Margin*math.Abs(peak)
	for _, l := range group[:min(len(group), named)] {
		r.Labels = append(r.Labels, l.Anomaly)
	}
	for _, f := range faults {
		if !r.covers(&f.Alarm) {
			continue
		}
		// The margin ends before it; if it lies among the labels, they teach nothing.
		switch {
		case f.Opened < low:
			r.From = math.Nextafter(f.Opened, high)
		case f.Opened > high:
			r.To = math.Nextafter(f.Opened, low)
		case f.Peak > peak:
			r.Most = math.Nextafter(f.Peak, peak)
		default:
			return r, false
		}
	}
	return r, true
}

// near returns the number of labels at the front whose scores are within a factor of Alike of each other, at least 1.
func near(group []*Label) int {
	within := func(low, high float64) bool {
		return low == high || low > 0 && high <= Alike*low || high < 0 && low >= Alike*high
	}
	low, high := group[0].Peak, group[0].Peak
	for i, l := range group {
		low, high = min(low, l.Peak), max(high, l.Peak)
		if !within(group[0].Opened, l.Opened) || !within(low, high) {
			return max(i, 1)
		}
	}
	return len(group)
}

// different returns the number of series of the labels.
func different(group []*Label) int {
	names := map[string]bool{}
	for _, l := range group {
		names[l.Series] = true
	}
	return len(names)
}

// bounded returns as many rules as one decision holds: those of the most labels.
func (l List) bounded() List {
	if len(l) <= MaxRules && len(l.Encode()) <= MaxBytes {
		return l
	}
	order := slices.Clone(l)
	slices.SortStableFunc(order, func(a, b Rule) int { return cmp.Compare(b.Count, a.Count) })
	order = order[:min(len(order), MaxRules)]
	for len(order.Encode()) > MaxBytes {
		order = order[:len(order)-1-len(order)/16]
	}
	least := order[len(order)-1]
	ties := 0
	for i := range order {
		if order[i].Count == least.Count {
			ties++
		}
	}
	var kept List
	for i := range l {
		switch {
		case l[i].Count > least.Count:
			kept = append(kept, l[i])
		case l[i].Count == least.Count && ties > 0:
			ties--
			kept = append(kept, l[i])
		}
	}
	return kept
}

// SideOf returns the field with the largest contribution to a score and the side of the expected value on which it was
// measured; -1 and Both where the detector does not say.
func SideOf(expected, actual, contribution []float64) (field int, side guard.Direction) {
	field = -1
	for i, c := range contribution {
		if c == c && (field < 0 || c > contribution[field]) {
			field = i
		}
	}
	if field < 0 || field >= len(expected) || field >= len(actual) {
		return field, guard.Both
	}
	switch e, a := expected[field], actual[field]; {
	case a > e:
		side = guard.Above
	case a < e:
		side = guard.Below
	}
	return field, side
}
