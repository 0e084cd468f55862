package metrics

import (
	"cmp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Outcome counts the records of a topic since the worker's start by outcome. Counts of dead letters by reason count a
// record again that is read again after a rollback.
type Outcome struct {
	Topic    string
	Consumed int64   // records
	Samples  int64   // of them; a record that cannot be read counts as one
	Shares   []Share // those that are not 0, the largest first
}

// Share is the samples of one outcome; of dead letters, and of forwarded and skipped ones, the records; or the values or intervals of a
// field.
type Share struct {
	Name    string
	Records int64
}

// Outcomes returns the outcomes of the records by topic.
func (m *Metrics) Outcomes() []Outcome {
	topics := map[string]*Outcome{}
	outcome := func(topic string) *Outcome {
		if topics[topic] == nil {
			topics[topic] = &Outcome{Topic: topic}
		}
		return topics[topic]
	}
	for topic, n := range sums(m.consumed, "") {
		outcome(topic[0]).Consumed, outcome(topic[0]).Samples = n, n
	}
	for topic, n := range sums(m.further, "") {
		outcome(topic[0]).Samples += n
	}
	for _, c := range []struct {
		name  string
		count *prometheus.CounterVec
		label string
	}{{"scored", m.scored, ""}, {"warming up", m.warmingUp, ""}, {"missing", m.missing, ""}, {"filtered", m.filtered, ""},
		{"late", m.late, ""}, {"duplicate", m.duplicate, ""}, {"aggregated", m.aggregated, ""}, {"forwarded", m.forwarded, ""},
		{"skipped: ", m.skipped, "reason"}, {"dead: ", m.decodeErrors, "reason"}, {"rejected values: ", m.rejected, "field"},
		{"resets: ", m.resets, "field"}, {"closed intervals: ", m.intervals, "field"}, {"empty intervals: ", m.emptyIntervals, "field"}} {
		for topic, n := range sums(c.count, c.label) {
			if n > 0 {
				o := outcome(topic[0])
				o.Shares = append(o.Shares, Share{c.name + topic[1], n})
			}
		}
	}
	var list []Outcome
	for _, o := range topics {
		slices.SortFunc(o.Shares, func(a, b Share) int { return cmp.Or(cmp.Compare(b.Records, a.Records), cmp.Compare(a.Name, b.Name)) })
		list = append(list, *o)
	}
	slices.SortFunc(list, func(a, b Outcome) int { return cmp.Compare(a.Topic, b.Topic) })
	return list
}

// sums adds a counter up by the labels topic and, if it is not empty, another one.
func sums(c *prometheus.CounterVec, label string) map[[2]string]int64 {
	all := make(chan prometheus.Metric)
	go func() {
		c.Collect(all)
		close(all)
	}()
	out := map[[2]string]int64{}
	for metric := range all {
		var v dto.Metric
		if metric.Write(&v) != nil {
			continue
		}
		var key [2]string
		for _, l := range v.GetLabel() {
			switch l.GetName() {
			case "topic":
				key[0] = l.GetValue()
			case label:
				key[1] = l.GetValue()
			}
		}
		out[key] += int64(v.GetCounter().GetValue())
	}
	return out
}
