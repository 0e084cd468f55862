// Package learned has the rules that false alarms teach: anomalies like at least three that operators have labelled as
// false are marked, and no severity calls anyone.
//
// # What is alike
//
// Labels are of one kind if their anomalies have the same detector, and the same value field with the largest
// contribution, on the same side of its expected value. A rule bounds the course of an anomaly by those of its labels, each
// with a margin (events.Bounds): the highest score, which tells at once; the scores over the threshold; the deviation from the expected
// value, above, and soon after it opened, below; and, when the labels' scores were at their highest, or half-way there, the least highest
// score and deviation. It recognises an anomaly when that opens. As soon as one is beyond a bound, it is none of the kind
// after all.
//
// The score with which an anomaly opens says little: it is the first above the threshold, and that rises with each false
// alarm in the series' history. So the later ones of a kind open higher and higher, up to their peak, which stays the same.
//
// Scores are compared as they are, not by thresholds or severities: those follow the series' history, so that the same
// shape has another severity each time. Scores of one series compare; those of different series need not. So labels of
// one series make a rule for that series, and a rule for all series needs labels of as many different ones whose highest scores
// are within a factor of 1.5. docs/quality.md has what the rules remove and what they lose, and what else was tried.
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

	"odradek/processor/events"
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

// How far an anomaly may be beyond those of the labels.
const (
	Margin  = 0.2  // of a score, above
	Below   = 0.25 // of a score, below
	Nearer  = 0.4  // of a deviation, below
	Farther = 0.6  // of a deviation, above
	Samples = 4    // scores over the threshold
)

// Strict divides these shares where labels are about all series, whose scores need not compare.
const Strict = 2

// Alike is the largest ratio of the highest scores of labels of different series.
const Alike = 1.5

// Alarm is an anomaly as far as it is compared.
type Alarm struct {
	Detector string
	Series   string          // the key as text, as anomaly records have it
	Field    int             // value field with the largest contribution; -1: not known
	Side     guard.Direction // of the expected value on which it was measured; Both: not known
	Opened   float64         // the highest score when the anomaly opened
	Peak     float64         // the highest so far

	// Deviation of the field from its expected value when it opened; 0 where that is not known, as in what follows.
	First float64

	// Of a label.
	Samples int     // scores over the threshold, of an anomaly that has ended
	Rise    int64   // microseconds from its opening to the highest score
	Apart   float64 // the deviation when it opened, or that at the highest score if it is larger
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
	From, To float64 // the least and the highest score with which one opens
	events.Bounds
	Count  int        // labels
	Labels [][16]byte // the ids of the first of them, at most three
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

// covers reports whether an anomaly that has gone as far as a says is of the kind.
func (r *Rule) covers(a *Alarm) bool {
	return r.Detector == a.Detector && (r.All || r.Series == a.Series) && r.Field == a.Field && r.Side == a.Side &&
		a.Opened >= r.From && a.Opened <= r.To && a.Peak <= r.Most && (r.Far == 0 || a.First <= r.Far)
}

// keeps reports whether an anomaly that was as a says to its end is of the kind to its end.
func (r *Rule) keeps(a *Alarm) bool {
	return r.covers(a) && (r.Samples == 0 || a.Samples <= int(r.Samples)) && a.Peak >= r.Least &&
		(a.First == 0 || a.Apart >= max(r.First, r.Apart) && (r.Far == 0 || a.Apart <= r.Far))
}

// sound reports whether a label can teach anything.
func (l *Label) sound() bool {
	return l.Detector != "" && len(l.Detector) <= MaxText && len(l.Series) <= MaxText && !math.IsInf(l.Opened, 0) && !math.IsInf(l.Peak, 0) &&
		l.Opened <= l.Peak && l.Side <= guard.Below && l.Field >= -1 && l.Samples >= 0 && l.Samples < 1<<31 && l.Rise >= 0 &&
		l.First >= 0 && l.First <= l.Apart && !math.IsInf(l.Apart, 1)
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
		return cmp.Or(cmp.Compare(a.Peak, b.Peak), cmp.Compare(a.Opened, b.Opened), slices.Compare(a.Anomaly[:], b.Anomaly[:]))
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
		return cmp.Or(a.kind().compare(b.kind()), cmp.Compare(a.Least, b.Least), cmp.Compare(a.Most, b.Most))
	})
	return list.bounded()
}

func (r *Rule) kind() kind { return kind{r.Detector, r.Series, r.All, r.Field, r.Side} }

// span returns the rule that bounds the labels, in the order of their highest scores; ok is false where they are too few,
// or a confirmed anomaly lies among them.
func span(k kind, group []*Label, least int, faults []*Label) (r Rule, ok bool) {
	if len(group) < least {
		return r, false
	}
	low, high := *group[0], *group[0] // the least and the highest of each number
	for _, l := range group {
		low.Opened, high.Opened = min(low.Opened, l.Opened), max(high.Opened, l.Opened)
		low.Peak, high.Peak = min(low.Peak, l.Peak), max(high.Peak, l.Peak)
		low.First, low.Apart = min(low.First, l.First), min(low.Apart, l.Apart)
		high.Samples, high.Rise, high.Apart = max(high.Samples, l.Samples), max(high.Rise, l.Rise), max(high.Apart, l.Apart)
	}
	part := 1.0
	if k.all {
		part = 1.0 / Strict
	}
	r = Rule{Detector: k.detector, Series: k.series, All: k.all, Field: k.field, Side: k.side, Count: len(group),
		From: math.Inf(-1), To: math.Inf(1),
		Bounds: events.Bounds{
			Most: high.Peak + part*Margin*math.Abs(high.Peak), Least: low.Peak - part*Below*math.Abs(low.Peak), After: high.Rise / 2,
			First: (1 - part*Nearer) * low.First, Apart: (1 - part*Nearer) * low.Apart,
		}}
	if low.First > 0 {
		r.Far = (1 + part*Farther) * high.Apart
	}
	if high.Samples > 0 {
		r.Samples = uint32(high.Samples + Samples)
	}
	for _, l := range group[:min(len(group), named)] {
		r.Labels = append(r.Labels, l.Anomaly)
	}
	for _, f := range faults {
		if !r.keeps(&f.Alarm) {
			continue
		}
		// A bound ends before it; if it lies among the labels, they teach nothing. First those that tell at once.
		switch {
		case f.Opened < low.Opened:
			r.From = math.Nextafter(f.Opened, math.Inf(1))
		case f.Opened > high.Opened:
			r.To = math.Nextafter(f.Opened, math.Inf(-1))
		case f.Peak > high.Peak:
			r.Most = math.Nextafter(f.Peak, math.Inf(-1))
		case f.Peak < low.Peak:
			r.Least = math.Nextafter(f.Peak, math.Inf(1))
		case high.Samples > 0 && f.Samples > high.Samples:
			r.Samples = uint32(f.Samples - 1)
		case f.First > 0 && f.Apart < low.Apart:
			r.Apart = math.Nextafter(f.Apart, math.Inf(1))
		case f.First > 0 && low.First > 0 && f.Apart > high.Apart:
			r.Far = math.Nextafter(f.Apart, 0)
		default:
			return r, false
		}
	}
	return r, true
}

// near returns the number of labels at the front whose highest scores are within a factor of Alike of each other, at least 1.
func near(group []*Label) int {
	low := group[0].Peak
	for i, l := range group {
		if high := l.Peak; low != high && !(low > 0 && high <= Alike*low) && !(high < 0 && low >= Alike*high) {
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
