package rules

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"odradek/detectors/seedtest"
	"odradek/processor/state/changelog"
)

// acting is a kind that acts on the state.
const acting Kind = NumKinds - 1

var table = KindTable{
	KindEviction:      {Name: "eviction"},
	KindMissingSchema: {Name: "missing schema", Standing: true, Lapses: true},
	KindGrown:         {Name: "growth", Standing: true},
	acting: {Name: "test", Acts: true, Read: func(content []byte) (any, error) {
		if len(content) != 1 {
			return nil, changelog.ErrCorrupt
		}
		return content[0], nil
	}},
}

// driven is a log with the changelog that it writes to.
type driven struct {
	*DecisionLog
	records map[string]string
	steps   []step // those that can be undone
	evicted map[string]bool
}

type step struct {
	DecisionStep
	*Decision
}

func newDriven(records map[string]string) *driven {
	l := &driven{records: maps.Clone(records), evicted: map[string]bool{}}
	l.DecisionLog = NewDecisionLog(&table, func(s DecisionStep, d *Decision) { l.steps = append(l.steps, step{s, d}) })
	return l
}

// load returns the log that is restored from the changelog of dr.
func (dr *driven) load(t *testing.T, floor int64) *driven {
	again := newDriven(dr.records)
	for key, value := range dr.records {
		kind, name, suffix, err := changelog.SplitKey([]byte(key))
		if err == nil && kind == changelog.Eviction {
			err = again.LoadEviction(name, []byte(value))
		} else if err == nil {
			err = again.DecisionLog.Load(name, []byte(value), suffix[0])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	again.EndLoading(floor)
	return again
}

func (dr *driven) output(most int) *DecisionOutput {
	n := 0
	return &DecisionOutput{
		Put: func(kind byte, name, value []byte, suffix ...uint64) {
			n++
			if key := string(changelog.AppendKey(nil, kind, name, suffix...)); value == nil {
				delete(dr.records, key)
			} else {
				dr.records[key] = string(value)
			}
		},
		Evict: func(d *Decision) { dr.evicted[string(d.Subject)] = true },
		Full:  func() bool { return n >= most },
	}
}

// inForce describes the standing decisions at an offset, and asks for them.
func (dr *driven) inForce(offset int64) string {
	text := ""
	for _, k := range []Kind{KindMissingSchema, KindGrown} {
		for _, subject := range subjectNames {
			if d := dr.InForce(k, []byte(subject), offset); d != nil && len(d.Content) > 0 {
				d.Ask(offset)
				text += fmt.Sprintf("%d %s: %s\n", k, subject, d.Content)
			}
		}
	}
	return text
}

var subjectNames = []string{"a", "b", "c"}

// TestLog makes, emits, forgets and undoes decisions at random. A log that is restored from
// the changelog gives the same answers for every offset from the floor on, and acts alike,
// also where what was undone has been written to the changelog.
func TestLog(t *testing.T) {
	rng := seedtest.New(t)
	undone, forgotten := 0, 0
	for range 200 {
		l := newDriven(nil)
		l.records = map[string]string{}
		floor, committed := int64(0), int64(0)
		want := map[int64]string{}
		for cycle := range 30 {
			next := committed
			made := map[int64]string{}
			for range 1 + rng.IntN(4) {
				for range rng.IntN(3) {
					kind := []Kind{KindEviction, KindMissingSchema, KindMissingSchema, KindGrown, acting}[rng.IntN(5)]
					d := &Decision{Kind: kind, Subject: []byte(subjectNames[rng.IntN(3)]), Offset: next}
					if kind != KindEviction && (kind == acting || rng.IntN(3) > 0) {
						d.Content = []byte{byte('a' + rng.IntN(26))}
					}
					l.Add(d)
				}
				made[next] = l.inForce(next)
				next++
			}
			saved := maps.Clone(l.records)
			l.Emit(l.output(0), next)
			if len(l.Unlogged()) > 0 {
				t.Fatalf("%d decisions are not emitted", len(l.Unlogged()))
			}
			before := len(l.records)
			l.Forget(l.output(rng.IntN(5)), floor)
			forgotten += before - len(l.records)
			if rng.IntN(4) == 0 && cycle < 29 { // the cycle is undone; its records are in the changelog
				undone += len(l.steps)
				for _, s := range slices.Backward(l.steps) {
					l.Undo(s.DecisionStep, s.Decision)
				}
				l.steps = l.steps[:0]
				l.Rebuild(committed)
				// Evictions are not revoked: one in a later head of the series is ignored.
				eviction := func(key, _ string) bool { return key[0] == changelog.Eviction }
				maps.DeleteFunc(l.records, eviction)
				maps.DeleteFunc(saved, func(key, value string) bool { return !eviction(key, value) })
				maps.Copy(l.records, saved)
				continue
			}
			maps.Copy(want, made)
			l.steps, committed = l.steps[:0], next
			floor += rng.Int64N(next - floor + 1)
			again := l.load(t, floor)
			for offset := floor; offset < next; offset++ {
				if got := again.inForce(offset); got != want[offset] {
					t.Fatalf("floor %d: at %d of %d hold\n%swant\n%s", floor, offset, next, got, want[offset])
				}
				for _, subject := range subjectNames {
					a, b := l.Latest(KindEviction, []byte(subject)), again.Latest(KindEviction, []byte(subject))
					if (a != nil && a.Offset >= offset) != (b != nil && b.Offset >= offset) {
						t.Fatalf("floor %d: the eviction of %s is %v, want %v", floor, subject, b, a)
					}
				}
			}
			last := &Decision{Offset: floor}
			for d := again.Next(next); d != nil; d = again.Next(next) {
				made := l.at(d) // the decision that was written
				if d.Kind != acting || made.less(last) || d.Value.(byte) != made.Content[0] {
					t.Fatalf("%v acts behind %v", d, last)
				}
				last = made
			}
			if again.Acting() {
				t.Fatal("a decision has not acted")
			}
		}
		l.Forget(l.output(1<<30), 1<<40)
		standing := 0
		for k := range l.latest {
			standing += len(l.latest[k])
		}
		if len(l.queue) != standing || len(l.records) != standing || l.Subjects(KindEviction) != 0 {
			t.Fatalf("%d decisions and %d records are left, %d subjects", len(l.queue), len(l.records), standing)
		}
	}
	if undone == 0 || forgotten == 0 {
		t.Errorf("%d steps were undone, %d records forgotten", undone, forgotten)
	}
}

// TestLoad refuses what a newer version has written, and what is damaged.
func TestLoad(t *testing.T) {
	for _, c := range []struct {
		name, value string
		want        error
	}{
		{"", "\x09\x01", changelog.ErrCorrupt},
		{"\x02x", "\x09", changelog.ErrCorrupt},
		{"\x02x", "\x0a\x01", changelog.ErrNewer},
		{"\x02x", "\x08\x01", changelog.ErrOlder},
		{"\x01x", "\x09\x01", changelog.ErrNewer},
		{"\x09x", "\x09\x01", changelog.ErrNewer},
		{"\xffx", "\x09\x01", changelog.ErrNewer},
		{"\x0fx", "\x09\x01ab", changelog.ErrCorrupt},
	} {
		if err := NewDecisionLog(&table, nil).Load([]byte(c.name), []byte(c.value), 5); !errors.Is(err, c.want) {
			t.Errorf("%q %q: %v", c.name, c.value, err)
		}
	}
	l := NewDecisionLog(&table, nil)
	for _, value := range []string{"", "\x09", "\x00\x05", "\x09\x05\x05"} {
		if err := l.LoadEviction([]byte("x"), []byte(value)); !errors.Is(err, changelog.ErrCorrupt) {
			t.Errorf("eviction %q: %v", value, err)
		}
	}
	if err := l.Load([]byte("\x02x"), []byte("\x09\x07no"), 5); err != nil ||
		string(l.InForce(KindMissingSchema, []byte("x"), 5).Content) != "no" {
		t.Errorf("%v", err)
	}
	if err := l.Load([]byte("\x02x"), nil, 5); err != nil || l.Latest(KindMissingSchema, []byte("x")) != nil {
		t.Errorf("the decision is not deleted: %v", err)
	}
}

// TestSubjects compares the decisions of a subject with a sorted list of them.
func TestSubjects(t *testing.T) {
	rng := seedtest.New(t)
	for range 200 {
		var m DecisionLog
		var want []*Decision
		for step := range 40 {
			if len(want) > 0 && rng.IntN(3) == 0 {
				i := rng.IntN(len(want))
				m.unlink(want[i])
				want = slices.Delete(want, i, i+1)
			} else {
				d := &Decision{Kind: KindMissingSchema, Subject: []byte("s"), Offset: rng.Int64N(8), seq: uint64(step), Content: []byte{1}}
				at, _ := slices.BinarySearchFunc(want, d, func(a, b *Decision) int {
					if a.less(b) {
						return -1
					}
					return 1
				})
				var last *Decision
				if at == len(want) && at > 0 {
					last = want[at-1]
				}
				if former := m.insert(d); former != last {
					t.Fatalf("it follows %v, want %v", former, last)
				}
				want = slices.Insert(want, at, d)
			}
			var got []*Decision
			for d := m.Latest(KindMissingSchema, []byte("s")); d != nil; d = d.before {
				got = append(got, d)
			}
			slices.Reverse(got)
			if !slices.Equal(got, want) {
				t.Fatalf("%v, want %v", got, want)
			}
			for i, d := range want {
				var next *Decision
				if i+1 < len(want) {
					next = want[i+1]
				}
				if m.after(d) != next || m.overwritten(d) != (next != nil && next.Offset == d.Offset) {
					t.Fatalf("after %v comes %v, want %v", d, m.after(d), next)
				}
			}
			for offset := range int64(9) {
				var in *Decision
				for _, d := range want {
					if d.Offset <= offset {
						in = d
					}
				}
				if got := m.InForce(KindMissingSchema, []byte("s"), offset); got != in {
					t.Fatalf("at %d holds %v, want %v", offset, got, in)
				}
			}
		}
		if n := len(m.latest[KindMissingSchema]); (n == 1) != (len(want) > 0) {
			t.Fatalf("%d subjects of %d decisions", n, len(want))
		}
	}
}

// TestSchedule: a standing decision that is followed by another of its subject moves forward in the
// queue, to where that one takes effect.
func TestSchedule(t *testing.T) {
	s := DecisionLog{kinds: KindTable{KindMissingSchema: {Name: "missing schema", Standing: true}, KindEviction: {Name: "eviction"}}}
	first := &Decision{Kind: KindMissingSchema, Subject: []byte("a"), Offset: 1}
	evicted := &Decision{Kind: KindEviction, Subject: []byte("k"), Offset: 20}
	for _, d := range []*Decision{first, evicted} {
		s.link(d)
		s.enqueue(d)
	}
	if s.queue[0] != evicted || first.due != never || evicted.due != 21 {
		t.Fatalf("a decision in force is due at %d, an eviction at %d", first.due, evicted.due)
	}
	second := &Decision{Kind: KindMissingSchema, Subject: []byte("a"), Offset: 10}
	s.link(second)
	s.enqueue(second)
	if s.queue[0] != first || first.due != 11 || s.queue[2] != second {
		t.Errorf("a decision that the next one ends is due at %d", first.due)
	}
}

// TestActions: decisions act once, in the order of their offsets and of when they were made, and again
// after a rollback.
func TestActions(t *testing.T) {
	a := DecisionLog{acts: []*Decision{{Offset: 7, seq: 1}, {Offset: 3, seq: 5}, {Offset: 3, seq: 2}, {Offset: 9, seq: 3}}}
	a.EndLoading(0)
	wantNext := func(offset int64, want ...uint64) {
		t.Helper()
		for _, seq := range want {
			if d := a.Next(offset); d == nil || d.seq != seq {
				t.Fatalf("at %d acts %+v, not number %d", offset, d, seq)
			}
		}
		if d := a.Next(offset); d != nil {
			t.Fatalf("at %d acts %+v, too", offset, d)
		}
	}
	wantNext(2)
	wantNext(3, 2, 5)
	wantNext(8, 1)
	if !a.Acting() {
		t.Error("there is no decision left")
	}
	a.Rebuild(3)
	wantNext(10, 2, 5, 1, 3)
	if a.Acting() {
		t.Error("there are decisions left")
	}
}
