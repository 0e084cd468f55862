package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"odradek/detectors"
	"odradek/detectors/seedtest"
	"odradek/processor/anomaly"
	"odradek/processor/state/changelog"
	"odradek/processor/state/rules"
)

// kindTest is a kind that acts on the state in its order: it moves the largest
// event time to its content, as an idle partition's advance would. What moves
// with the watermark beside held samples is not in it.
const kindTest Kind = rules.NumKinds - 1

func init() {
	kinds[kindTest] = rules.KindSpec{Name: "test", Acts: true}
	actions[kindTest] = func(s *State, d *rules.Decision) {
		s.maxTime = max(s.maxTime, int64(binary.BigEndian.Uint64(d.Content)))
	}
}

// decided is a decision as the tests remember it.
type decided struct {
	kind    Kind
	subject []byte
	content []byte
	offset  int64
}

// make makes the decision in an undisturbed fold. A decision that a schema is missing is one for each
// record that is a dead letter: no state of the package is asked.
func (d *decided) make(s *State, dead map[int64]bool) {
	switch d.kind {
	case Eviction:
		s.evict(s.Keys.Get(d.subject), d.offset, anomaly.Evicted)
	case MissingSchema:
		dead[d.offset] = true
	case Thresholds:
		makeRuling(s, d)
	case Advance:
		s.Decide(Advance, nil, d.content, d.offset)
	default:
		s.Decide(d.kind, d.subject, d.content, d.offset)
	}
}

// subjectOf returns what stands for the schema of a sample.
func subjectOf(key []byte) []byte {
	if len(key) == 0 {
		return []byte("none")
	}
	return []byte{key[0] % 4}
}

// decide makes random decisions before a sample and reports whether it is
// a dead letter.
func (rn *run) decide(sm *Sample) bool {
	decide := func(k Kind, subject, content []byte) {
		rn.cycle.decided = append(rn.cycle.decided, decided{k, bytes.Clone(subject), content, sm.Offset})
	}
	subject := subjectOf(sm.Key)
	for rn.r.IntN(rn.decides) == 0 {
		switch rn.r.IntN(6) {
		case 5:
			content := randomLearned(rn.r, rn.w.cfg).Encode()
			rn.s.Decide(Learned, nil, content, sm.Offset)
			decide(Learned, nil, content)
		case 4:
			content := randomMutes(rn.r, rn.w.cfg, sm.Time).Encode()
			rn.s.Decide(Mutes, nil, content, sm.Offset)
			decide(Mutes, nil, content)
		case 3: // the topic grows
			rn.grown++
			content := []byte{byte(rn.grown)}
			rn.s.Decide(Grown, nil, content, sm.Offset)
			decide(Grown, nil, content)
		case 0:
			if rn.s.Keys.Len() == 0 {
				continue
			}
			rn.s.evictOldest(sm.Offset)
			unlogged := rn.s.decisions.Unlogged()
			decide(Eviction, unlogged[len(unlogged)-1].Subject, nil)
		case 1: // the registry gets a schema, or loses it
			rn.absent[string(subject)] = !rn.absent[string(subject)]
		case 2:
			if r := &rn.w.cfg.Reading; rn.w.cfg.TTL > 0 || rn.w.cfg.Silence > 0 || r.Every > 0 || r.BySeries || rn.s.maxTime == NoTime ||
				rn.changes {
				// It does not release what it reaches: a live fold does so before the next sample enters, a replay after it.
				continue
			}
			content := binary.BigEndian.AppendUint64(nil, uint64(rn.s.maxTime+int64(rn.r.IntN(300))))
			rn.s.Decide(kindTest, nil, content, sm.Offset)
			decide(kindTest, nil, content)
		}
	}
	absent, standing := rn.absent[string(subject)], rn.s.Standing(MissingSchema, subject, sm.Offset) != nil
	if absent != standing {
		var content []byte
		if absent {
			content = []byte("no such schema")
		}
		rn.s.Decide(MissingSchema, subject, content, sm.Offset)
		rn.missing++
	}
	if absent {
		rn.s.Standing(MissingSchema, subject, sm.Offset)
		decide(MissingSchema, subject, nil)
	}
	return absent
}

// TestDecisions: with random decisions of every kind, at random offsets, the
// state after aborts and crashes is as after one undisturbed fold of the same
// samples and the decisions that were committed.
func TestDecisions(t *testing.T) {
	r := seedtest.New(t)
	aborts, crashes, made, missing, silent := 0, 0, [rules.NumKinds]int{}, 0, 0
	var modes [2]int // anomalies that a change of the mode has ended, live and in shadow
	all := func() bool {
		return made[Eviction] > 0 && made[MissingSchema] > 0 && made[kindTest] > 0 && made[Grown] > 0 && made[Mutes] > 0 &&
			made[Learned] > 0 && made[Advance] > 0 && silent > 0 && aborts > 0 && crashes > 0 && missing > 0 && made[Thresholds] > 0
	}
	for round := 0; round < 40 || round < 400 && !all(); round++ {
		cfg := randomConfig(r)
		if r.IntN(2) == 0 {
			cfg.TTL, cfg.Silence = 0, 0
		}
		w := newWorldOf(t, r, cfg, 200+r.IntN(600))
		x := newRun(t, rand.New(rand.NewPCG(r.Uint64(), 5)), w)
		clear(w.state)
		x.decides = 5 + r.IntN(40)
		x.mandatory = r.IntN(4) == 0
		x.idles = r.IntN(5)
		x.changes = r.IntN(2) == 0
		x.all(5)
		x.check("end", x.s)
		s := w.fold(w.end)
		compareRows(t, x.rows, flatten(s.Rows))
		compareEvents(t, x.events, flattenEvents(s.Events))
		if x.counts != s.Tally.Counts {
			t.Fatalf("counted %v, undisturbed %v", x.counts, s.Tally.Counts)
		}
		n := checkModes(t, x.events)
		modes[0], modes[1] = modes[0]+n[0], modes[1]+n[1]
		aborts, crashes, missing = aborts+x.aborts, crashes+x.crashes, missing+x.missing
		silent += x.silent
		for _, d := range w.decided {
			made[d.kind]++
		}
	}
	t.Logf("%d evictions, %d missing schemas on %d samples, %d of the test's kind, %d advances with %d silences, "+
		"%d rulings that ended %d anomalies; %d aborts, %d crashes",
		made[Eviction], missing, made[MissingSchema], made[kindTest], made[Advance], silent, made[Thresholds], modes, aborts, crashes)
	if !all() {
		t.Error("something did not happen")
	}
}

// steps drives a state of one key a sample at a time and keeps the changelog.
type steps struct {
	t   *testing.T
	s   *State
	b   *detectors.Batch
	log []record
}

func newSteps(t *testing.T) *steps {
	x := &steps{t: t, s: New(one(&fake{window: 4, least: 2}, 1)), b: &detectors.Batch{}}
	x.s.Mark(0)
	return x
}

// cycle folds a sample at offset unless it is a dead letter, commits and snapshots all
// if want is.
func (s *steps) cycle(offset int64, fold, all bool) {
	if fold {
		s.s.Fold(&Sample{Key: []byte("k"), Time: offset, Offset: offset, Values: []float64{1}}, s.b)
	}
	execute(s.b)
	s.s.Apply(s.b)
	s.b.Reset()
	s.s.Rows = s.s.Rows[:0]
	s.s.Mark(offset + 1)
	want := int64(0)
	if all {
		want = offset + 1
	}
	if err := s.s.Snapshot(want, 0, func(k, v []byte) error {
		s.log = append(s.log, record{bytes.Clone(k), bytes.Clone(v)})
		return nil
	}); err != nil {
		s.t.Fatal(err)
	}
	s.s.Committed(offset + 1)
}

// stored returns the number of decisions that the changelog has, but for the one on how records are read.
func (s *steps) stored() (n int) {
	for _, r := range compact(s.log, s.log, false) {
		if r.key[0] == changelog.Decision && Kind(r.key[1]) != Reading {
			n++
		}
	}
	return n
}

// TestMissingSchemaLapses: a decision is kept while a replay may meet a record that it
// makes a dead letter, and not for longer; its withdrawal holds for what comes after.
func TestMissingSchemaLapses(t *testing.T) {
	x := newSteps(t)
	id := []byte("id-7")
	x.cycle(0, true, false)
	if x.s.Standing(MissingSchema, id, 1) != nil {
		t.Fatal("a decision that nobody made")
	}
	x.s.Decide(MissingSchema, id, []byte("no such schema"), 1)
	if string(x.s.Standing(MissingSchema, id, 1)) != "no such schema" || x.s.Standing(MissingSchema, id, 0) != nil {
		t.Fatal("the decision is not in force from its offset on")
	}
	x.cycle(1, false, false)
	for o := int64(2); o < 6; o++ { // one more that it condemns
		x.s.Standing(MissingSchema, id, o)
		x.cycle(o, false, false)
	}
	if x.stored() != 1 {
		t.Fatalf("%d decisions in the log", x.stored())
	}
	x.s.Decide(MissingSchema, id, nil, 6) // it is there now
	if x.s.Standing(MissingSchema, id, 6) != nil || x.s.Standing(MissingSchema, id, 5) == nil {
		t.Fatal("the withdrawal does not hold from its offset on")
	}
	x.cycle(6, true, false)
	if x.stored() != 2 {
		t.Fatalf("%d decisions in the log", x.stored())
	}
	again, err := replayed(x.log, Floor{MaxTime: NoTime}, 7)
	if err != nil {
		t.Fatal(err)
	}
	for o, want := range []bool{false, true, true, true, true, true, false, false} {
		if got := again.Standing(MissingSchema, id, int64(o)) != nil; got != want {
			t.Errorf("restored: dead letter at %d is %v", o, got)
		}
	}
	x.cycle(7, true, true) // the floor passes
	x.cycle(8, true, true)
	x.cycle(9, true, true)
	if x.stored() != 0 || x.s.Subjects(MissingSchema) != 0 {
		t.Errorf("%d decisions left in the log, %d remembered", x.stored(), x.s.Subjects(MissingSchema))
	}
}

func replayed(log []record, f Floor, committed int64) (*State, error) {
	s := New(one(&fake{window: 4, least: 2}, 1))
	for _, r := range log {
		if err := s.Load(r.key, r.value); err != nil {
			return nil, err
		}
	}
	return s, s.BeginReplay(f, committed, false)
}

// TestDecisionsOfOthers: what a newer version decided is refused, not dropped; a
// decision above the committed offset is of a commit that has not been seen.
func TestDecisionsOfOthers(t *testing.T) {
	key := func(k Kind) []byte { return changelog.AppendKey(nil, changelog.Decision, []byte{byte(k), 'x'}, 5) }
	for _, k := range []Kind{0, Eviction, 7, 10, rules.NumKinds, 255} {
		err := New(one(&fake{window: 4, least: 2}, 1)).Load(key(k), []byte{changelog.Version, 1})
		if !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), "newer version") {
			t.Errorf("kind %d: %v", k, err)
		}
		if err := New(one(&fake{window: 4, least: 2}, 1)).Load(key(k), nil); err != nil {
			t.Errorf("deletion of kind %d: %v", k, err)
		}
	}
	if err := New(one(&fake{window: 4, least: 2}, 1)).Load(key(MissingSchema), []byte{changelog.Version + 1, 1}); !errors.Is(err, ErrNewer) {
		t.Errorf("format: %v", err)
	}
	if err := New(one(&fake{window: 4, least: 2}, 1)).Load(key(MissingSchema), []byte{changelog.Version}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("cut off: %v", err)
	}
	log := []record{{key(MissingSchema), []byte{changelog.Version, 1, 'n', 'o'}}}
	if _, err := replayed(log, Floor{MaxTime: NoTime}, 5); !errors.Is(err, ErrAhead) {
		t.Errorf("decision at the committed offset: %v", err)
	}
	if s, err := replayed(log, Floor{MaxTime: NoTime}, 6); err != nil || string(s.Standing(MissingSchema, []byte("x"), 5)) != "no" {
		t.Errorf("decision below the committed offset: %v", err)
	}
}

// TestDecisionOfAnUndoneCycle: at least once, the record of a decision that was
// taken back may be in the changelog. If it is not made again, it is deleted.
func TestDecisionOfAnUndoneCycle(t *testing.T) {
	for _, again := range []bool{false, true} {
		x := newSteps(t)
		x.cycle(0, true, false)
		x.s.Decide(MissingSchema, []byte("x"), []byte("no"), 1)
		x.s.Mark(2)
		if err := x.s.Snapshot(0, 0, func(k, v []byte) error {
			x.log = append(x.log, record{bytes.Clone(k), bytes.Clone(v)})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if err := x.s.Rollback(1); err != nil {
			t.Fatal(err)
		}
		if x.s.Standing(MissingSchema, []byte("x"), 1) != nil || x.stored() != 1 {
			t.Fatal("the decision stands after the rollback, or was not logged")
		}
		if again {
			x.s.Decide(MissingSchema, []byte("x"), []byte("no"), 1)
		}
		x.cycle(1, !again, false)
		if want := map[bool]int{true: 1}[again]; x.stored() != want {
			t.Errorf("made again %v: %d decisions in the log", again, x.stored())
		}
	}
}

// TestForgottenAndUndone: the cycle that deleted a decision may have been committed
// although it is rolled back, where it had no new offset to tell by. If the decision
// is asked for again, it has to be in the log again.
func TestForgottenAndUndone(t *testing.T) {
	x := newSteps(t)
	id := []byte("id-7")
	x.cycle(0, true, true)
	x.s.Decide(MissingSchema, id, []byte("no such schema"), 1)
	x.s.Standing(MissingSchema, id, 1)
	x.cycle(1, false, false)
	if err := x.s.Snapshot(2, 0, func(k, v []byte) error { // without new input
		x.log = append(x.log, record{bytes.Clone(k), bytes.Clone(v)})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if x.stored() != 0 {
		t.Fatalf("%d decisions in the log, it should be forgotten", x.stored())
	}
	if err := x.s.Rollback(2); err != nil {
		t.Fatal(err)
	}
	if x.s.Standing(MissingSchema, id, 2) == nil {
		t.Fatal("the decision is not in force after the rollback")
	}
	x.cycle(2, false, false)
	again, err := replayed(x.log, x.s.Floor(), 3)
	if err != nil {
		t.Fatal(err)
	}
	if again.Standing(MissingSchema, id, 2) == nil {
		t.Error("restored: the decision is not in force")
	}
}

// TestDecisionAhead: at least once, a decision may be in the changelog whose offset
// was not committed. It takes effect when its offset is reached, again after a
// rollback, and at the committed offset itself, too.
func TestDecisionAhead(t *testing.T) {
	for _, committed := range []int64{2, 5} {
		time := binary.BigEndian.AppendUint64(nil, 1000)
		s, b := New(one(&fake{window: 4, least: 2}, 1)), &detectors.Batch{}
		for _, r := range []record{
			{changelog.AppendKey(nil, changelog.Decision, []byte{byte(MissingSchema), 'x'}, 5), []byte{changelog.Version, 1, 'n', 'o'}},
			{changelog.AppendKey(nil, changelog.Decision, []byte{byte(kindTest)}, 5), append([]byte{changelog.Version, 2}, time...)},
		} {
			if err := s.Load(r.key, r.value); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.BeginReplay(Floor{MaxTime: NoTime}, committed, true); err != nil {
			t.Fatal(err)
		}
		s.EndInput(b)
		s.EndReplay()
		if s.maxTime == 1000 {
			t.Fatal("applied before its offset")
		}
		for range 2 {
			for o := committed; o < 8; o++ {
				s.Fold(&Sample{Key: []byte("k"), Time: o, Offset: o, Values: []float64{1}}, b)
				for !s.Fits(b) {
					t.Fatal("no room")
				}
				if got := s.maxTime == 1000; got != (o >= 5) {
					t.Errorf("committed %d: at %d applied is %v", committed, o, got)
				}
				if got := s.Standing(MissingSchema, []byte("x"), o) != nil; got != (o >= 5) {
					t.Errorf("committed %d: at %d the decision is in force: %v", committed, o, got)
				}
			}
			execute(b)
			s.Apply(b)
			b.Reset()
			if err := s.Rollback(committed); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestCrowdOfDecisions: missing schemas are as many as corrupt records want. They do not
// pile up for as long as a key stays dirty.
func TestCrowdOfDecisions(t *testing.T) {
	x := newSteps(t)
	x.cycle(0, true, false)
	for i := range rules.MaxMissingSchemas + 10 {
		o := int64(i + 1)
		subject := binary.BigEndian.AppendUint32(nil, uint32(i))
		x.s.Decide(MissingSchema, subject, []byte("no"), o)
		x.s.Standing(MissingSchema, subject, o)
		if i%100 == 99 {
			x.cycle(o, false, false)
		}
	}
	x.cycle(rules.MaxMissingSchemas+20, false, false)
	x.cycle(rules.MaxMissingSchemas+30, false, false)
	if n := x.s.Subjects(MissingSchema); n > 200 {
		t.Errorf("%d decisions wait", n)
	}
	if f := x.s.Floor(); f.Offset < rules.MaxMissingSchemas {
		t.Errorf("the floor is at %d", f.Offset)
	}
}

// TestAdvanceAfterFullBatch: a batch has no room for all that the last sample of a replay releases. The decision behind it takes
// effect when that sample's turn is over, as when it was live, or the sample would wait for the later watermark.
func TestAdvanceAfterFullBatch(t *testing.T) {
	cfg := one(&fake{window: 4, least: 1, carry: 1}, 1)
	cfg.Reading.Order = rules.Order{Lateness: 5, BySeries: true}
	b := &detectors.Batch{MaxTasks: 1}
	flush := func(s *State) { execute(b); s.Apply(b); b.Reset() }
	fold := func(s *State) {
		for i, time := range []int64{0, 1, 2, 3, 100} {
			for !s.Fits(b) {
				flush(s)
			}
			s.Fold(&Sample{Key: []byte("k"), Time: time, Offset: int64(i), Values: []float64{1}}, b)
		}
	}
	var log []record
	emit := func(k, v []byte) error {
		log = append(log, record{bytes.Clone(k), bytes.Clone(v)})
		return nil
	}
	end := func(s *State) {
		for !s.Fits(b) {
			flush(s)
		}
		flush(s)
	}
	live := New(cfg)
	fold(live)
	end(live)
	live.Mark(5)
	if err := live.Snapshot(0, 0, func([]byte, []byte) error { return nil }); err != nil {
		t.Fatal(err)
	}
	live.Committed(5)
	if !live.DecideAdvance(1000) {
		t.Fatal("no advance")
	}
	end(live)
	if err := live.Snapshot(0, 0, emit); err != nil { // the decision, and no head
		t.Fatal(err)
	}
	restored := New(cfg)
	for _, r := range log {
		if r.key[0] != changelog.Decision {
			continue
		}
		if err := restored.Load(r.key, r.value); err != nil {
			t.Fatal(err)
		}
	}
	if err := restored.BeginReplay(Floor{MaxTime: NoTime}, 5, false); err != nil {
		t.Fatal(err)
	}
	fold(restored)
	restored.EndInput(b)
	end(restored)
	restored.EndReplay()
	if got, want := restored.Export(nil), live.Export(nil); !bytes.Equal(got, want) {
		t.Errorf("%d samples are held, live %d", restored.Held(), live.Held())
	}
}
