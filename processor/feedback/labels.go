package feedback

import (
	"cmp"
	"encoding/hex"
	"maps"
	"math"
	"slices"

	"odradek/processor/anomaly"
	"odradek/processor/state/rules"
	"odradek/schemas/output"
)

// timedLabel is a label with the time at which it was written.
type timedLabel struct {
	label rules.Label
	at    int64
}

// LabelOf returns the label that a record is; ok is false for other feedback, and for a label that does not say what its anomaly was
// like.
func LabelOf(f *output.Feedback) (l rules.Label, ok bool) {
	if f.Alarm == nil || f.Kind != output.FeedbackConfirm && f.Kind != output.FeedbackFalseAlarm {
		return l, false
	}
	id, err := hex.DecodeString(f.Anomaly)
	if err != nil || len(id) != len(l.Anomaly) {
		return l, false
	}
	a := f.Alarm
	return rules.Label{
		Anomaly: [16]byte(id), Fault: f.Kind == output.FeedbackConfirm,
		Alarm: rules.Alarm{
			Detector: a.Detector, Series: a.Series, Topic: a.Topic, Field: int(a.Field), Side: rules.Direction(a.Side),
			Opened: a.Opened, Peak: a.Peak,
			Samples: int(a.Samples), Lasted: a.Lasted, First: a.First, Apart: a.Apart,
			Initial: a.Initial, Range: a.Range, Early: int(a.Early), Held: int(a.Held),
		},
	}, true
}

// AlarmOf returns what a label says of its anomaly, from the record that opened the anomaly and from its last one; nil where the
// first is not known, or the last has no score.
func AlarmOf(opened, last *output.Anomaly) *output.Alarm {
	if opened == nil || opened.Revision != 1 || !(ownOf(last).Score >= ownOf(opened).Score) {
		return nil
	}
	field, side := rules.SideOf(anomaly.Side(opened.Side), opened.Expected, opened.Actual, opened.Contribution)
	own := ownOf(opened)
	a := &output.Alarm{
		Detector: anomaly.ScorerName(opened.Detector, own.Name),
		Series:   rules.SeriesOf(opened.Key),
		Topic:    opened.Topic,
		Field:    int32(field),
		Side:     uint8(side),
		Opened:   own.Score,
		First:    deviationOf(opened, field),
		Initial:  opened.Range,
		Early:    int64(opened.Held),
	}
	until := Until(a, last)
	return &until
}

// Until returns what a label says of an anomaly from what its first record says, and from its last record.
func Until(opening *output.Alarm, last *output.Anomaly) output.Alarm {
	a, own := *opening, ownOf(last)
	a.Peak, a.Lasted = own.Score, max(0, last.End-last.OpenedAt)
	a.Range, a.Held = max(a.Initial, last.Range), max(a.Early, int64(last.Held))
	if a.First > 0 {
		a.Apart = max(a.First, deviationOf(last, int(a.Field)))
	}
	if output.AnomalyKinds[last.Kind] == "close" {
		a.Samples = int64(own.Samples)
	}
	return a
}

// ownOf returns what the scores of an anomaly say: of an ensemble of any, the scores of the member that it speaks for.
func ownOf(a *output.Anomaly) output.Member {
	if a.Member != nil {
		return *a.Member
	}
	return output.Member{Score: a.PeakScore, PeakTime: a.PeakTime, Samples: a.Samples}
}

// deviationOf returns how far a value field was measured from what was expected; 0 where that is not known.
func deviationOf(a *output.Anomaly, field int) float64 {
	if d := anomaly.DeviationOf(a.Expected, a.Actual, field); !math.IsInf(d, 0) {
		return d
	}
	return 0
}

// TopicRules are the rules that labels teach for the series of one input topic.
type TopicRules struct {
	Topic string // "": of any topic that no label names
	Rules rules.LearnedList
}

// Learn returns the rules that the labels among the records teach, each record with its key: for each topic that a label names, and
// where labels name none, for the other topics.
func Learn(records map[string]output.Feedback, least int) (all []TopicRules) {
	labels := map[string]timedLabel{}
	for id, f := range records {
		if l, ok := LabelOf(&f); ok {
			labels[id] = timedLabel{l, f.WrittenAt}
		}
	}
	list := valid(labels)
	topics := map[string]bool{}
	for i := range list {
		topics[list[i].Topic] = true
	}
	for _, topic := range slices.Sorted(maps.Keys(topics)) {
		all = append(all, TopicRules{topic, rules.Derive(topic, list, least)})
	}
	return all
}

// valid returns the labels that count, by anomaly: the newest, and of several of an anomaly its newest.
func valid(labels map[string]timedLabel) []rules.Label {
	byAnomaly := map[[16]byte]string{} // the record's key
	for id, l := range newest(labels, rules.MaxLabels) {
		if have, ok := byAnomaly[l.label.Anomaly]; !ok || order(labels, id, have) < 0 {
			byAnomaly[l.label.Anomaly] = id
		}
	}
	list := make([]rules.Label, 0, len(byAnomaly))
	for _, id := range byAnomaly {
		list = append(list, labels[id].label)
	}
	slices.SortFunc(list, func(a, b rules.Label) int { return slices.Compare(a.Anomaly[:], b.Anomaly[:]) })
	return list
}

// newest returns at most n labels, the newest.
func newest(labels map[string]timedLabel, n int) map[string]timedLabel {
	if len(labels) <= n {
		return labels
	}
	ids := slices.SortedFunc(maps.Keys(labels), func(a, b string) int { return order(labels, a, b) })
	kept := make(map[string]timedLabel, n)
	for _, id := range ids[:n] {
		kept[id] = labels[id]
	}
	return kept
}

// order compares two labels, the newer one first.
func order(labels map[string]timedLabel, a, b string) int {
	return cmp.Or(cmp.Compare(labels[b].at, labels[a].at), cmp.Compare(a, b))
}
