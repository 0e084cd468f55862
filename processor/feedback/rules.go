package feedback

import (
	"bytes"
	"cmp"
	"maps"
	"math"
	"slices"
	"sync"

	"odradek/processor/kafka"
	"odradek/processor/state"
	"odradek/processor/state/rules"
	"odradek/schemas/output"
)

// Anywhere is the scope of a mute without a topic.
var Anywhere = Scope{Partition: -1}

// Scope is where a series is: in an input topic, and in one of its partitions. Series of one key in two topics, or in two partitions
// of a topic, are two series.
type Scope struct {
	Topic     string // "": any
	Partition int32  // -1: any
}

// Covers reports whether a partition is in the scope.
func (s Scope) Covers(topic string, partition int32) bool {
	return (s.Topic == "" || s.Topic == topic) && (s.Partition < 0 || s.Partition == partition)
}

// ScopeOf returns the scope of a mute or a maintenance.
func ScopeOf(f *output.Feedback) Scope {
	s := Scope{f.Topic, -1}
	if f.Partition != nil {
		s.Partition = *f.Partition
	}
	return s
}

// Mute is a mute rule for the series of a scope.
type Mute struct {
	Scope
	Rule rules.MuteRule
}

// MuteOf returns the rule of a mute or a maintenance; ok is false for other feedback.
func MuteOf(f *output.Feedback) (m Mute, ok bool) {
	if f.Kind != output.FeedbackMute && f.Kind != output.FeedbackMaintenance {
		return m, false
	}
	m = Mute{ScopeOf(f), rules.MuteRule{Detector: f.Detector, Keys: f.Keys, From: math.MinInt64, To: rules.Forever,
		Direction: rules.Direction(f.Direction)}}
	if f.From != nil {
		m.Rule.From = *f.From
	}
	if f.To != nil {
		m.Rule.To = *f.To
	}
	return m, true
}

// Check returns what is wrong with a mute; "" for nothing.
func (m *Mute) Check() string {
	if len(m.Topic) > rules.MaxMuteText {
		return "a topic's name of more bytes than Kafka allows"
	}
	return m.Rule.Check()
}

func compareMutes(a, b Mute) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition), rules.Compare(a.Rule, b.Rule))
}

// InForce returns the mutes of a list that are in force: as many as one decision holds, those that end last. They are sorted.
func InForce(list []Mute) []Mute {
	size := func(mutes []Mute) int {
		rules := make(rules.MuteList, len(mutes))
		for i := range mutes {
			rules[i] = mutes[i].Rule
		}
		return len(rules.Encode())
	}
	if len(list) > rules.MaxMutes || size(list) > rules.MaxMuteBytes {
		slices.SortFunc(list, func(a, b Mute) int { return cmp.Or(cmp.Compare(b.Rule.To, a.Rule.To), compareMutes(a, b)) })
		list = list[:min(len(list), rules.MaxMutes)]
		for size(list) > rules.MaxMuteBytes {
			list = list[:len(list)-1-len(list)/16]
		}
	}
	slices.SortFunc(list, compareMutes)
	return list
}

// Rules are the mutes and the labels at one time, of which each partition takes what is about its series. Any goroutine may use them.
type Rules struct {
	mutes  []Mute        // sorted
	labels []rules.Label // sorted by anomaly
	least  int           // as of NewReader

	mu      sync.Mutex
	learned map[string][]byte // by topic: the rules that labels teach for its series, encoded
}

func (r *Rules) equal(o *Rules) bool {
	return slices.Equal(r.mutes, o.mutes) && slices.Equal(r.labels, o.labels)
}

// mutesOf returns the mutes of a partition's series, encoded.
func (r *Rules) mutesOf(tp kafka.TP) []byte {
	var list rules.MuteList
	for i := range r.mutes {
		if m := &r.mutes[i]; m.Covers(tp.Topic, tp.Partition) {
			list = append(list, m.Rule)
		}
	}
	return list.Sorted().Encode()
}

// learnedOf returns what the labels teach for the series of a topic, encoded. The first call for a topic derives it.
func (r *Rules) learnedOf(topic string) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	if content, ok := r.learned[topic]; ok {
		return content
	}
	if r.learned == nil {
		r.learned = map[string][]byte{}
	}
	r.learned[topic] = rules.Derive(topic, r.labels, r.least).Encode()
	return r.learned[topic]
}

// learnAs derives the rules of the topics that earlier Rules were asked for, so that no partition waits for it.
func (r *Rules) learnAs(old *Rules) {
	if old == nil {
		return
	}
	old.mu.Lock()
	topics := slices.Collect(maps.Keys(old.learned))
	old.mu.Unlock()
	for _, topic := range topics {
		r.learnedOf(topic)
	}
}

// Follow has the state of a partition follow the rules about its series from the record at offset on.
func (r *Rules) Follow(st *state.State, tp kafka.TP, offset int64) {
	for _, decision := range [...]struct {
		kind    state.Kind
		content []byte
	}{{state.Mutes, r.mutesOf(tp)}, {state.Learned, r.learnedOf(tp.Topic)}} {
		if !bytes.Equal(st.Standing(decision.kind, nil, offset), decision.content) {
			st.Decide(decision.kind, nil, decision.content, offset)
		}
	}
}
