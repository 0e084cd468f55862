package state

import (
	"fmt"
	"slices"
	"strconv"

	"odradek/processor/state/changelog"
	"odradek/processor/state/rules"
)

// Kind says what a decision is about; see package rules.
type Kind = rules.Kind

// The kinds of decisions; see package rules. The State makes decisions of Eviction, Thresholds and Reading by itself, and of
// Advance by DecideAdvance; its caller makes the others by Decide.
const (
	Eviction      = rules.KindEviction      // a key is forgotten: keys.go
	MissingSchema = rules.KindMissingSchema // the registry has no such schema
	Grown         = rules.KindGrown         // the topic has more partitions: sweeps close the anomalies of keys that have moved
	Thresholds    = rules.KindThresholds    // how the scores of a detector are judged
	Learned       = rules.KindLearned       // the rules that labels have taught
	Mutes         = rules.KindMutes         // the mute rules
	Advance       = rules.KindAdvance       // the watermark of an idle partition rises: advance.go
	Reading       = rules.KindReading       // how records are read: readings.go
)

var kinds = rules.KindTable{
	Eviction:      {Name: "eviction"},
	MissingSchema: {Name: "missing schema", Standing: true, Lapses: true},
	Grown:         {Name: "growth", Standing: true},
	Thresholds: {
		Name: "threshold", Standing: true, Acts: true,
		Read: func(content []byte) (any, error) { return rules.DecodeRuling(content) },
	},
	Advance: {Name: "advance", Acts: true, Read: decodeAdvance},
	Learned: {
		Name:     "learned rules",
		Standing: true,
		Acts:     true,
		Read:     func(content []byte) (any, error) { return rules.DecodeLearned(content) },
	},
	Reading: {Name: "reading", Standing: true, Acts: true, Read: func(content []byte) (any, error) { return rules.DecodeReading(content) }},
	Mutes:   {Name: "mutes", Standing: true, Acts: true, Read: func(content []byte) (any, error) { return rules.DecodeMutes(content) }},
}

// actions has a function for each kind of decision that changes the state when it takes effect. The others
// are looked up where they matter: evictions by admit, which skips samples that an eviction
// has forgotten; standing decisions by the caller, with Standing.
var actions = [rules.NumKinds]func(*State, *rules.Decision){
	Advance: func(s *State, d *rules.Decision) {
		if d.Offset > s.next {
			s.pass(d.Offset)
		}
		s.newest = d.Offset
		s.advance(d.Value.(int64), d.Offset)
		s.route()
	},
	Reading:    func(s *State, d *rules.Decision) { s.forceReading(d) },
	Thresholds: func(s *State, d *rules.Decision) { s.Rulings.Force(d) },
	Learned:    func(s *State, d *rules.Decision) { s.learned.Force(d) },
	Mutes: func(s *State, d *rules.Decision) {
		s.mutes.Force(d)
		s.silences.watch.Reset()
		s.planSilences()
	},
}

// act applies a decision of a kind that changes the state.
func (s *State) act(d *rules.Decision) {
	s.newest = d.Offset
	actions[d.Kind](s, d)
}

// Decide makes a decision, which takes effect before the record at offset; nothing of that record
// may have been folded. It retains neither slice. The next Mark has to be above
// the offset, because a decision belongs to a record of the log. The exception is an advance
// (DecideAdvance), which is made while the partition is idle and needs no record.
func (s *State) Decide(k Kind, subject, content []byte, offset int64) {
	if k == Eviction || k == Thresholds || k == Reading || kinds[k].Name == "" {
		panic(fmt.Sprintf("state: kind %d is not the caller's to decide", k))
	}
	offset = s.first(offset)
	s.mustDecide("decision of kind "+strconv.Itoa(int(k)), offset)
	if !s.journal.Started() {
		s.firstMark(Floor{Offset: offset, MaxTime: NoTime}, true)
		s.route()
	}
	d := &rules.Decision{Kind: k, Subject: slices.Clone(subject), Content: slices.Clone(content), Offset: offset}
	if read := kinds[k].Read; read != nil {
		var err error
		if d.Value, err = read(d.Content); err != nil {
			panic(fmt.Sprintf("state: decision of kind %d with content that cannot be read: %v", k, err))
		}
	}
	s.decisions.Add(d)
	if kinds[k].Acts {
		s.act(d)
	}
}

// Standing returns the content of the decision that holds for a subject at offset, nil
// if none does. Call it for every record that the decision may concern: a missing schema that
// no record refers to any more lapses.
func (s *State) Standing(k Kind, subject []byte, offset int64) []byte {
	offset = s.first(offset)
	d := s.decisions.InForce(k, subject, offset)
	if d == nil || len(d.Content) == 0 {
		return nil
	}
	d.Ask(offset)
	return d.Content
}

// Subjects returns the number of subjects with a decision of a kind that a replay may
// need.
func (s *State) Subjects(k Kind) int { return s.decisions.Subjects(k) }

// emitDecisions emits what was decided before the last mark, and deletes decisions that no
// replay can need until maxBytes are emitted.
func (s *State) emitDecisions(c *changelog.Emitter, maxBytes int) {
	out := &rules.DecisionOutput{
		Put:   c.Put,
		Evict: func(d *rules.Decision) { s.records.Delete(c, d.Value.(*Key)) },
		Full:  func() bool { return c.Err != nil || maxBytes > 0 && c.Bytes >= maxBytes },
	}
	s.decisions.Emit(out, s.journal.Open.Start()+1) // with an advance
	floor := s.journal.At(s.journal.Committed())
	s.decisions.Forget(out, floor.From()) // a replay reads the suspects below the floor, too
}

// saveDecision records a step of a decision in the unit whose mark Snapshot follows, or in the
// open one.
func (s *State) saveDecision(step rules.DecisionStep, d *rules.Decision) {
	u := s.journal.Open
	if step != rules.Made {
		u = s.journal.Newest()
	}
	u.PushValues(opDecision, nil, int(step), 0, d)
}
