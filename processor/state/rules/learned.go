package rules

import (
	"cmp"
	"math"
	"slices"

	"odradek/processor/anomaly"
)

// This file has the rules that false alarms teach: anomalies like at least three that operators have labelled as
// false are marked, and no severity calls anyone.
//
// # What is alike
//
// Labels are of one kind if their anomalies have the same detector, and the same value field with the largest
// contribution, on the same side of its expected value. A rule bounds the course of an anomaly by the courses of its labels, each
// with a margin (anomaly.Bounds): the highest score, the range of the field's values, and the ratio of the two, which tell at once;
// the scores over the threshold; the most values that are held (anomaly.Range); and, once it has lasted as long as the longest of the
// labels, the least highest score, range and values held.
// Where a range is not known, the deviation from the expected value takes its place: it is that at the highest scores, which a score
// that does not know the height of a shape takes anywhere in it. A rule recognises an anomaly when that opens. As soon as one is
// beyond a bound, it is none of the kind after all.
//
// The score with which an anomaly opens says little: it is the first above the threshold, and that rises with each false
// alarm in the series' history. So the later ones of a kind open higher and higher, up to their peak, which stays the same.
//
// Scores are compared as they are, not by thresholds or severities: those follow the series' history, so that the same
// shape has another severity each time. Scores of one series compare; scores of different series need not. So labels of
// one series make a rule for that series, and a rule for all series needs labels of as many different ones whose highest scores,
// or whose ranges, are within a factor of 1.5. It bounds what has no scale: how many values are held (anomaly.Range), and the highest
// score or its ratio to the range. In a series of one of its labels, whose scores do compare, it holds only as far as that series' labels
// go by themselves. docs/quality.md has what the rules remove and what they lose. Deviations from the expected value, in place of
// ranges, removed 0.76 of NAB's planted alarms and lost 0.023 of its anomalies, when ranges removed 0.89 and lost 0.012: they do not know
// the height of a shape.
//
// A confirmed anomaly outweighs any number of false ones: no rule covers it.
//
// A series is a key of an input topic: labels of pump-1 in one topic make no rule for pump-1 of another one, and count as labels of
// another series. A label without a topic is of the series of that key in every topic.
//
// # Life
//
// Derive is a pure function of the labels and of an input topic, so all workers that have read the same labels have the same rules. The
// rules that a partition's owner finds are a decision with their whole content (decisions.go), as mutes are. They are about series
// of the partition's own topic, so they name none.

// Limits. Rules are one record of the changelog.
const (
	MaxLearned      = 500
	MaxLearnedBytes = 64 << 10 // of an encoded list
	MaxLearnedText  = 1024     // bytes of a detector's or series' name of a label; others teach nothing
	MaxLabels       = 20_000   // that Derive takes
	named           = 3        // labels that a rule names
)

// margins are how far an anomaly may be beyond the labels' anomalies.
type margins struct {
	above, below    float64 // of a score
	closer, further float64 // of a deviation, below and above; 0: any
	narrower, wider float64 // of a range, below and above
	steeper         float64 // of a score over the range
	samples         int     // scores over the threshold
}

// The margins where the ranges of the labels' values are known, and where they are not.
var (
	byRange     = margins{above: 0.3, below: 0.4, narrower: 0.15, wider: 0.25, steeper: 0.25, samples: 8}
	byDeviation = margins{above: 0.2, below: 0.25, closer: 0.4, further: 0.6, samples: 4}
)

// The margins where it is known how many values are held: factors that one more than these is within; and, of rules for all series, of
// those when the anomaly opens, and of the score or its ratio to the range.
var shapes = struct{ earlier, shorter, longer, higher float64 }{earlier: 2, shorter: 1.5, longer: 1.5, higher: 2}

// Strict divides the shares where labels are about all series, whose scores need not compare, and have no ranges.
const Strict = 2

// Alike is the largest ratio of the numbers in which labels of different series agree.
const Alike = 1.5

// Alarm is an anomaly as far as it is compared.
type Alarm struct {
	Detector string
	Series   string    // the key as text, as anomaly records have it
	Topic    string    // of a label: the input topic of the series; "": any
	Field    int       // value field with the largest contribution; -1: not known
	Side     Direction // of the expected value on which it was measured; Both: not known
	Opened   float64   // the highest score when the anomaly opened
	Peak     float64   // the highest so far

	// Deviation of the field from its expected value when it opened; 0 where that is not known, as in what follows.
	First float64

	Initial float64 // range of the field's values when it opened
	Early   int     // anomaly.Range.Held when it opened

	// Of a label.
	Samples int     // scores over the threshold, of an anomaly that has ended
	Lasted  int64   // microseconds from its opening to its end
	Apart   float64 // the deviation when it opened, or that at the highest score if it is larger
	Range   float64 // of the field's values, to its end
	Held    int     // of that range
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
	topic            string // "": the rules' topic
	all              bool
	field            int
	side             Direction
}

func (k kind) compare(o kind) int {
	return cmp.Or(cmp.Compare(k.detector, o.detector), cmp.Compare(btoi(k.all), btoi(o.all)), cmp.Compare(k.series, o.series),
		cmp.Compare(k.topic, o.topic), cmp.Compare(k.field, o.field), cmp.Compare(k.side, o.side))
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// LearnedRule recognises the anomalies of a kind.
type LearnedRule struct {
	Detector string
	Series   string
	All      bool // it is about all series; where Series is not empty, about this one in their place (Rule.within)
	Field    int
	Side     Direction
	From, To float64 // the least and the highest score with which one opens
	Initial  float64 // the least range with which one opens
	Early    uint32  // the least Held with which one opens
	anomaly.Bounds
	Count  int        // labels
	Labels [][16]byte // the ids of the first of them, at most three
}

// LearnedList holds the rules in force.
type LearnedList []LearnedRule

// Like returns the rule that an anomaly is like, by its score so far; nil: none.
func (l LearnedList) Like(a *Alarm) *LearnedRule {
	for i := range l {
		if r := &l[i]; r.covers(a) && !(r.every() && l.narrows(r, a.Series)) {
			return r
		}
	}
	return nil
}

// every reports whether the rule holds in all series but those that a narrower one is about.
func (r *LearnedRule) every() bool { return r.All && r.Series == "" }

// narrows reports whether the list has a rule that is about a series in place of one for all series.
func (l LearnedList) narrows(every *LearnedRule, series string) bool {
	if series == "" {
		return false
	}
	k := every.kind()
	k.series = series
	return slices.ContainsFunc(l, func(o LearnedRule) bool { return o.kind() == k && slices.Equal(o.Labels, every.Labels) })
}

// covers reports whether an anomaly that has gone as far as a says is of the kind.
func (r *LearnedRule) covers(a *Alarm) bool {
	return r.Detector == a.Detector && (r.every() || r.Series == a.Series) && r.Field == a.Field && r.Side == a.Side &&
		a.Opened >= r.From && a.Opened <= r.To && a.Peak <= r.Most && (r.Far == 0 || a.First <= r.Far) && a.Initial >= r.Initial &&
		a.Early >= int(r.Early) && (r.Long == 0 || a.Early <= int(r.Long)) && r.Spans(a.Initial, a.Opened)
}

// keeps reports whether an anomaly that was as a says to its end is of the kind to its end.
func (r *LearnedRule) keeps(a *Alarm) bool {
	return r.covers(a) && (r.Samples == 0 || a.Samples <= int(r.Samples)) && a.Peak >= r.Least &&
		(a.First == 0 || a.Apart >= max(r.First, r.Apart) && (r.Far == 0 || a.Apart <= r.Far)) &&
		(a.Range == 0 || a.Range >= r.Narrow && r.Spans(a.Range, a.Peak)) &&
		(a.Held == 0 || a.Held >= int(r.Short) && (r.Long == 0 || a.Held <= int(r.Long)))
}

// sound reports whether a label can teach anything.
func (l *Label) sound() bool {
	return l.Detector != "" && len(l.Detector) <= MaxLearnedText && len(l.Series) <= MaxLearnedText &&
		!math.IsInf(l.Opened, 0) && !math.IsInf(l.Peak, 0) &&
		l.Opened <= l.Peak && l.Side <= Below && l.Field >= -1 && l.Samples >= 0 && l.Samples < 1<<31 && l.Lasted >= 0 &&
		l.First >= 0 && l.First <= l.Apart && !math.IsInf(l.Apart, 1) && l.Initial >= 0 && l.Initial <= l.Range && !math.IsInf(l.Range, 1) &&
		l.Early >= 0 && l.Early <= l.Held &&
		l.Held < 1<<31
}

// Derive returns the rules that the labels teach for the series of an input topic, in an order of their own. A rule needs
// at least as many false alarms
// as least says; 0: there are no rules. Of several labels of one anomaly only one should be given. The order of the labels does not
// matter.
func Derive(topic string, labels []Label, least int) LearnedList {
	if least < 1 {
		return nil
	}
	groups := map[kind][]*Label{}
	faults := map[kind][]*Label{} // by what they have in common but the series
	for i := range labels {
		one := kind{
			detector: labels[i].Detector,
			series:   labels[i].Series,
			topic:    labels[i].Topic,
			field:    labels[i].Field,
			side:     labels[i].Side,
		}
		if one.topic == topic {
			one.topic = ""
		}
		every := one
		every.series, every.topic, every.all = "", "", true
		switch l := &labels[i]; {
		case !l.sound():
		case l.Fault:
			faults[every] = append(faults[every], l)
		default:
			groups[one], groups[every] = append(groups[one], l), append(groups[every], l)
		}
	}
	for _, group := range faults {
		slices.SortFunc(group, byScore)
	}
	var list LearnedList
	for k, group := range groups {
		every := k
		every.series, every.topic, every.all = "", "", true
		confirmed := faults[every]
		slices.SortFunc(group, byScore)
		if !k.all {
			if k.topic != "" {
				continue
			}
			if r, ok := span(k, group, least, confirmed); ok {
				list = append(list, r)
			}
			continue
		}
		for _, number := range [...]func(*Label) float64{peakOf, rangeOf} {
			slices.SortStableFunc(group, func(a, b *Label) int { return cmp.Compare(number(a), number(b)) })
			for rest := group; len(rest) >= least; {
				n := near(rest, number)
				if r, ok := span(k, rest[:n], least, confirmed); ok && seriesOf(rest[:n]) >= least && !list.has(&r) {
					list = append(list, r)
					for _, series := range namesOf(rest[:n], topic) {
						one := k
						one.series, one.all = series, false
						if labels := groups[one]; series != "" {
							own, ok := span(one, labels, 1, confirmed)
							list = append(list, r.within(series, &own, ok))
						}
					}
				}
				rest = rest[n:]
			}
		}
	}
	slices.SortStableFunc(list, func(a, b LearnedRule) int {
		return cmp.Or(a.kind().compare(b.kind()), cmp.Compare(a.Least, b.Least), cmp.Compare(a.Most, b.Most),
			cmp.Compare(a.Narrow, b.Narrow), cmp.Compare(a.Wide, b.Wide))
	})
	return list.bounded()
}

func byScore(a, b *Label) int {
	return cmp.Or(cmp.Compare(a.Peak, b.Peak), cmp.Compare(a.Opened, b.Opened), slices.Compare(a.Anomaly[:], b.Anomaly[:]))
}

func (r *LearnedRule) kind() kind {
	return kind{detector: r.Detector, series: r.Series, all: r.All, field: r.Field, side: r.Side}
}

// has reports whether a rule is in the list, apart from the labels that it names.
func (l LearnedList) has(r *LearnedRule) bool {
	return slices.ContainsFunc(l, func(o LearnedRule) bool {
		return o.kind() == r.kind() && o.Bounds == r.Bounds && o.From == r.From && o.To == r.To && o.Initial == r.Initial &&
			o.Early == r.Early
	})
}

// span returns the rule that bounds the labels; ok is false where they are too few, or a confirmed anomaly lies among them. A
// rule for all series bounds the numbers in which the labels agree.
func span(k kind, group []*Label, least int, faults []*Label) (r LearnedRule, ok bool) {
	if len(group) < least {
		return r, false
	}
	low, high := *group[0], *group[0] // the least and the highest of each number
	var steep [2]float64              // likewise, of the highest score over the range
	for i, l := range group {
		low.Opened, high.Opened = min(low.Opened, l.Opened), max(high.Opened, l.Opened)
		low.Peak, high.Peak = min(low.Peak, l.Peak), max(high.Peak, l.Peak)
		low.First, low.Apart = min(low.First, l.First), min(low.Apart, l.Apart)
		low.Initial, low.Range, high.Range = min(low.Initial, l.Initial), min(low.Range, l.Range), max(high.Range, l.Range)
		low.Early, low.Held, high.Held = min(low.Early, l.Early), min(low.Held, l.Held), max(high.Held, l.Held)
		high.Samples, high.Lasted, high.Apart = max(high.Samples, l.Samples), max(high.Lasted, l.Lasted), max(high.Apart, l.Apart)
		ratio := l.Peak / l.Range
		if l.Initial > 0 {
			ratio = max(ratio, l.Opened/l.Initial)
		}
		if i == 0 {
			steep = [2]float64{ratio, ratio}
		}
		steep[0], steep[1] = min(steep[0], ratio), max(steep[1], ratio)
	}
	by, part, ranged := byDeviation, 1.0, low.Range > 0
	shaped := k.all && ranged && low.Early > 0
	if ranged {
		by = byRange
	} else if k.all {
		part = 1.0 / Strict
	}
	r = LearnedRule{Detector: k.detector, Series: k.series, All: k.all, Field: k.field, Side: k.side, Count: len(group),
		From: math.Inf(-1), To: math.Inf(1), Bounds: anomaly.NoBounds(math.Inf(1))}
	r.After = high.Lasted
	scores, ranges := !k.all || alike(low.Peak, high.Peak), ranged && (!k.all || alike(low.Range, high.Range))
	if !scores && !ranges {
		return r, false
	}
	switch {
	case shaped:
		r.shape(&low, &high, steep)
	case scores:
		r.Most, r.Least = high.Peak+part*by.above*math.Abs(high.Peak), low.Peak-part*by.below*math.Abs(low.Peak)
	}
	if high.Samples > 0 && !shaped {
		r.Samples = uint32(high.Samples + by.samples)
	}
	switch {
	case shaped:
	case ranged:
		if ranges {
			r.Initial, r.Narrow, r.Wide = (1-by.narrower)*low.Initial, (1-by.narrower)*low.Range, (1+by.wider)*high.Range
		}
		if low.Early > 0 {
			r.holds(&low, &high)
		}
		if steep[1] > 0 && (!k.all || alike(steep[0], steep[1])) {
			r.Steep = (1 + by.steeper) * steep[1]
		}
	case low.First > 0:
		r.First, r.Apart, r.Far = (1-part*by.closer)*low.First, (1-part*by.closer)*low.Apart, (1+part*by.further)*high.Apart
	}
	first := slices.Clone(group)
	slices.SortFunc(first, byScore)
	for _, l := range first[:min(len(first), named)] {
		r.Labels = append(r.Labels, l.Anomaly)
	}
	for _, f := range faults {
		if !r.keeps(&f.Alarm) {
			continue
		}
		// A bound ends before it; if it lies among the labels, they teach nothing. First those that tell at once.
		switch {
		case shaped && f.Early < low.Early:
			r.Early = uint32(f.Early + 1)
		case shaped && f.Held > high.Held:
			r.Long = uint32(f.Held - 1)
		case shaped && f.Held < low.Held:
			r.Short = uint32(f.Held + 1)
		case f.Opened < low.Opened:
			r.From = math.Nextafter(f.Opened, math.Inf(1))
		case f.Opened > high.Opened:
			r.To = math.Nextafter(f.Opened, math.Inf(-1))
		case f.Range > 0 && ranged && f.Initial < low.Initial:
			r.Initial = math.Nextafter(f.Initial, math.Inf(1))
		case f.Range > high.Range && ranged:
			r.Wide = math.Nextafter(f.Range, 0)
		case f.Peak > high.Peak:
			r.Most = math.Nextafter(f.Peak, math.Inf(-1))
		case f.Peak < low.Peak:
			r.Least = math.Nextafter(f.Peak, math.Inf(1))
		case high.Samples > 0 && f.Samples > high.Samples:
			r.Samples = uint32(f.Samples - 1)
		case f.Range > 0 && f.Range < low.Range:
			r.Narrow = math.Nextafter(f.Range, math.Inf(1))
		case r.Long > 0 && f.Held > high.Held:
			r.Long = uint32(f.Held - 1)
		case r.Long > 0 && f.Held > 0 && f.Held < low.Held:
			r.Short = uint32(f.Held + 1)
		case !ranged && f.First > 0 && f.Apart < low.Apart:
			r.Apart = math.Nextafter(f.Apart, math.Inf(1))
		case !ranged && f.First > 0 && low.First > 0 && f.Apart > high.Apart:
			r.Far = math.Nextafter(f.Apart, 0)
		default:
			return r, false
		}
	}
	return r, true
}

// holds bounds how many values are held.
func (r *LearnedRule) holds(low, high *Label) {
	r.Short = uint32(math.Floor(float64(low.Held+1) / shapes.shorter))
	r.Long = uint32(math.Ceil(float64(high.Held+1)*shapes.longer) - 2)
}

// shape bounds what compares between series whose values and scores have other scales: how many values are held, and the highest score,
// or its ratio to the range, whichever differs less among the labels.
func (r *LearnedRule) shape(low, high *Label, steep [2]float64) {
	r.Early = uint32(math.Floor(float64(low.Early+1) / shapes.earlier))
	r.holds(low, high)
	if steep[0] > 0 && !(low.Peak > 0 && high.Peak/low.Peak <= steep[1]/steep[0]) {
		r.Steep = shapes.higher * steep[1]
	} else {
		r.Most = high.Peak + (shapes.higher-1)*math.Abs(high.Peak)
	}
}

func peakOf(l *Label) float64  { return l.Peak }
func rangeOf(l *Label) float64 { return l.Range }

// near returns the number of labels at the front that are alike in a number, at least 1.
func near(group []*Label, number func(*Label) float64) int {
	for i, l := range group {
		if !alike(number(group[0]), number(l)) {
			return i
		}
	}
	return len(group)
}

// alike reports whether the least and the highest number of labels of different series are within a factor of Alike.
func alike(low, high float64) bool {
	return low == high || low > 0 && high <= Alike*low || high < 0 && low >= Alike*high
}

// within returns the rule for all series as it holds in a series that has one of its labels: within the bounds of own, the rule that
// the labels of that series make by themselves, too. Where known is false there is no such rule, as a confirmed anomaly lies
// among the labels, and the one that is returned covers nothing.
func (r LearnedRule) within(series string, own *LearnedRule, known bool) LearnedRule {
	r.Series = series
	if !known {
		r.To = math.Inf(-1)
		return r
	}
	r.From, r.To = max(r.From, own.From), min(r.To, own.To)
	r.Initial, r.Early = max(r.Initial, own.Initial), max(r.Early, own.Early)
	r.Most, r.Least = min(r.Most, own.Most), max(r.Least, own.Least)
	r.First, r.Apart, r.Narrow, r.Short = max(
		r.First,
		own.First,
	), max(
		r.Apart,
		own.Apart,
	), max(
		r.Narrow,
		own.Narrow,
	), max(
		r.Short,
		own.Short,
	)
	r.Far, r.Wide, r.Steep = tighter(r.Far, own.Far), tighter(r.Wide, own.Wide), tighter(r.Steep, own.Steep)
	r.Samples, r.Long = tighter(r.Samples, own.Samples), tighter(r.Long, own.Long)
	return r
}

// tighter returns the lower one of two bounds above, of which 0 is none.
func tighter[T uint32 | float64](a, b T) T {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// namesOf returns the keys of those series of the labels that are in a topic, sorted.
func namesOf(group []*Label, topic string) (names []string) {
	for _, l := range group {
		if l.Topic == "" || l.Topic == topic {
			names = append(names, l.Series)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// seriesOf returns the number of different series of the labels. A label without a topic may be of the series of a label with one.
func seriesOf(group []*Label) (n int) {
	var all [][2]string // key, topic
	for _, l := range group {
		all = append(all, [2]string{l.Series, l.Topic})
	}
	slices.SortFunc(all, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	all = slices.Compact(all)
	for i, s := range all {
		if s[1] != "" || i+1 == len(all) || all[i+1][0] != s[0] {
			n++
		}
	}
	return n
}

// weight returns what a rule counts where there are too many: its labels, or nothing if it narrows one for all series.
func (r *LearnedRule) weight() int {
	if r.All && !r.every() {
		return 0
	}
	return r.Count
}

// bounded returns as many rules as one decision holds: the ones with the most labels.
func (l LearnedList) bounded() LearnedList {
	if len(l) <= MaxLearned && len(l.Encode()) <= MaxLearnedBytes {
		return l
	}
	order := slices.Clone(l)
	slices.SortStableFunc(order, func(a, b LearnedRule) int { return cmp.Compare(b.weight(), a.weight()) })
	order = order[:min(len(order), MaxLearned)]
	for len(order.Encode()) > MaxLearnedBytes {
		order = order[:len(order)-1-len(order)/16]
	}
	least := order[len(order)-1].weight()
	ties := 0
	for i := range order {
		if order[i].weight() == least {
			ties++
		}
	}
	var kept LearnedList
	for i := range l {
		switch {
		case l[i].weight() > least:
			kept = append(kept, l[i])
		case l[i].weight() == least && ties > 0:
			ties--
			kept = append(kept, l[i])
		}
	}
	return kept
}

// SideOf returns the field with the largest contribution to a score and the side of the expected value on which its newest reading was
// measured, which expected and actual say where newest is 0; -1 and Both where the detector does not say.
func SideOf(newest anomaly.Side, expected, actual, contribution []float64) (field int, side Direction) {
	field = anomaly.Largest(contribution)
	switch newest {
	case anomaly.Above:
		return field, Above
	case anomaly.Below:
		return field, Below
	case anomaly.Neither:
		return field, BothDirections
	}
	if field < 0 || field >= len(expected) || field >= len(actual) {
		return field, BothDirections
	}
	switch e, a := expected[field], actual[field]; {
	case a > e:
		side = Above
	case a < e:
		side = Below
	}
	return field, side
}
