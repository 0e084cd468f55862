package state

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"odradek/detectors/seedtest"
	"odradek/processor/state/checkpoint"
)

const (
	opWord  undoKind = iota                // a word of a key was replaced
	opValue          = undoReleased | iota // the text of a key was replaced, and a word
	opFloat          = undoFloats | iota
)

// fields are a key's.
type fields struct {
	word  uint64
	float float32
	text  string
}

// owner is a state of a few keys.
type owner struct {
	journal
	keys     map[uint32]fields
	total    int // is restored with a unit
	released map[string]int
	renewed  int
}

func newOwner() *owner {
	s := &owner{keys: map[uint32]fields{}, released: map[string]int{}}
	s.journal = newJournal(undoOwner{
		Save:    func() atMark { return atMark{heldN: s.total} },
		Restore: func(saved atMark) { s.total = saved.heldN },
		Revert: func(o *undoOp, with *undoOperands) {
			f := s.keys[o.Key.Tag]
			switch o.Kind {
			case opWord:
				f.word = with.Words[0]
			case opFloat:
				f.float = with.Floats[0]
			case opValue:
				f.word, f.text = with.Words[0], with.Values[0].(string)
			}
			s.keys[o.Key.Tag] = f
		},
		Release: func(o *undoOp, values []any) {
			if o.Kind == opValue {
				s.released[values[0].(string)]++
			}
		},
		Renew: func() { s.renewed++ },
	})
	return s
}

// change changes something and returns the text that it has replaced.
func (o *owner) change(rng *rand.Rand) {
	k, u := rng.Uint32N(4), o.Open
	f := o.keys[k]
	switch rng.IntN(3) {
	case 0:
		u.Words = append(u.Words, f.word)
		u.Push(opWord, &Key{Tag: k}, 0, 1)
		f.word = rng.Uint64()
	case 1:
		u.Floats = append(u.Floats, f.float)
		u.Push(opFloat, &Key{Tag: k}, 0, 1)
		f.float = rng.Float32()
	case 2:
		o.pushText(u, k, f)
		f.word, f.text = rng.Uint64(), strconv.Itoa(rng.Int())
	}
	o.keys[k] = f
	o.total++
}

func (o *owner) pushText(u *unit, k uint32, f fields) {
	u.Words = append(u.Words, f.word)
	u.PushValues(opValue, &Key{Tag: k}, 0, 1, f.text)
}

// TestLog makes random changes, marks, snapshots, commits and rollbacks, and compares the
// state with copies of it at the marks.
func TestLog(t *testing.T) {
	rng := seedtest.New(t)
	rollbacks, snapshots := 0, 0
	for range 300 {
		s := newOwner()
		type copied struct {
			keys  map[uint32]fields
			total int
		}
		at := map[int64]copied{}
		next := int64(10)
		s.Init(checkpoint.Floor{Offset: next}, false)
		marks := []int64{next} // those that can be gone back to
		keep := func(o int64) { at[o] = copied{maps.Clone(s.keys), s.total} }
		keep(next)
		for range 60 {
			for range rng.IntN(5) {
				s.change(rng)
			}
			switch rng.IntN(4) {
			case 0, 1:
				next += 1 + rng.Int64N(3)
				s.Mark(checkpoint.Floor{Offset: next})
				s.SetFloor(checkpoint.Floor{Offset: marks[0]})
				marks = append(marks, next)
				keep(next)
				if s.Open.Start() != next || s.Last().Offset != next || s.At(next).Offset != next {
					t.Fatalf("the last mark is %d, want %d", s.Last().Offset, next)
				}
				if rng.IntN(2) == 0 { // the snapshot of a mark changes what is not restored by value
					if s.Snapshotted() {
						t.Fatal("a new mark has a snapshot")
					}
					s.Snapshot(checkpoint.Floor{Offset: marks[rng.IntN(len(marks))]})
					if !s.Snapshotted() {
						t.Fatal("the mark has no snapshot")
					}
				}
			case 2:
				i := rng.IntN(len(marks))
				committed := s.Committed()
				s.Commit(marks[i])
				if marks = marks[i:]; s.Committed() < committed && i == 0 {
					t.Fatalf("the committed floor goes back from %d to %d", committed, s.Committed())
				}
			case 3:
				to := marks[rng.IntN(len(marks))]
				if rng.IntN(5) == 0 {
					if err := s.Check(to + 1); err == nil && !slices.Contains(marks, to+1) {
						t.Fatalf("there is a mark at %d", to+1)
					}
				}
				if err := s.Check(to); err != nil {
					t.Fatal(err)
				}
				if got := s.Rollback(to); got != to {
					t.Fatalf("back at %d, want %d", got, to)
				}
				rollbacks++
				if s.total != at[to].total {
					t.Fatalf("at %d: %d, want %d", to, s.total, at[to].total)
				}
				for k, f := range s.keys {
					if f != at[to].keys[k] {
						t.Fatalf("at %d: key %d is %v, want %v", to, k, f, at[to].keys[k])
					}
				}
				marks, next = marks[:slices.Index(marks, to)+1], to
				if s.Last().Offset > to {
					t.Fatalf("the last mark is %d, want %d", s.Last().Offset, to)
				}
			}
			if s.Snapshotted() {
				snapshots++
			}
		}
	}
	if rollbacks == 0 || snapshots == 0 {
		t.Errorf("%d rollbacks, %d snapshots", rollbacks, snapshots)
	}
}

// TestSnapshotWithoutMark: a snapshot of a mark that is committed belongs to the open unit.
// Once it is committed, it is not undone with what follows; before, it is.
func TestSnapshotWithoutMark(t *testing.T) {
	for _, commit := range []bool{false, true} {
		s := newOwner()
		s.Init(checkpoint.Floor{Offset: 5}, false)
		s.Mark(checkpoint.Floor{Offset: 9})
		s.Commit(9)
		if s.Committed() != 0 {
			t.Fatalf("the floor is %d, none was set", s.Committed())
		}
		s.keys[1] = fields{text: "before", word: 1}
		s.pushText(s.Open, 1, s.keys[1])
		s.keys[1] = fields{text: "snapshotted", word: 2}
		s.Snapshot(checkpoint.Floor{Offset: 7})
		if !s.Snapshotted() {
			t.Fatal("there is no snapshot")
		}
		if commit {
			s.Commit(9)
			s.Commit(9)
			if s.Snapshotted() || s.Committed() != 7 || s.released["before"] != 1 {
				t.Errorf("committed %d, released %v", s.Committed(), s.released)
			}
		}
		s.pushText(s.Open, 1, s.keys[1])
		s.keys[1] = fields{text: "after", word: 3}
		if !slices.Equal(s.Open.Words, []uint64{1, 2}) {
			t.Errorf("words %v", s.Open.Words)
		}
		want := fields{text: "before", word: 1}
		if commit {
			want = fields{text: "snapshotted", word: 2}
		}
		if s.Rollback(9); s.keys[1] != want {
			t.Errorf("committed %v: %v", commit, s.keys[1])
		}
	}
}

// TestRelease: an operation is released once, when its unit is committed.
func TestRelease(t *testing.T) {
	s := newOwner()
	s.Init(checkpoint.Floor{Offset: 0}, false)
	for i := range 3 {
		s.pushText(s.Open, 1, fields{text: strconv.Itoa(i)})
		s.Mark(checkpoint.Floor{Offset: int64(i + 1)})
		s.SetFloor(checkpoint.Floor{Offset: int64(i)})
	}
	if s.Commit(2); !maps.Equal(s.released, map[string]int{"0": 1, "1": 1}) || s.Committed() != 1 || len(s.marks) != 3 {
		t.Errorf("released %v, floor %d, marks %v", s.released, s.Committed(), s.marks)
	}
	if err := s.Check(1); err == nil {
		t.Error("a committed unit can be undone")
	}
	s.Commit(3)
	s.pushText(s.Open, 1, fields{text: "of a snapshot"})
	s.Snapshot(checkpoint.Floor{Offset: 3})
	s.Commit(3)
	s.Mark(checkpoint.Floor{Offset: 4})
	if s.Commit(4); s.released["of a snapshot"] != 1 {
		t.Errorf("released %v", s.released)
	}
}

// TestImplicit: a first mark that a sample has made is undone by a rollback to before it.
func TestImplicit(t *testing.T) {
	s := newOwner()
	s.Init(checkpoint.Floor{Offset: 7}, true)
	s.total = 5
	if err := s.Check(3); err != nil {
		t.Error(err)
	}
	if s.Rollback(3); s.Started() || s.total != 0 {
		t.Errorf("started: %v, total %d", s.Started(), s.total)
	}
	s.Init(checkpoint.Floor{Offset: 7}, false)
	if err := s.Check(3); err == nil || s.Check(7) != nil {
		t.Error("a mark that was made can be undone")
	}
}

// TestUndoReplay: the marks of a replay are floors, but nothing can be undone to them.
func TestUndoReplay(t *testing.T) {
	s := newOwner()
	s.Init(checkpoint.Floor{Offset: 1}, false)
	s.Number = 1<<32 - 2
	s.Pass(checkpoint.Floor{Offset: 4})
	s.Pass(checkpoint.Floor{Offset: 6})
	s.EndReplay(checkpoint.Floor{Offset: 8})
	if s.renewed != 1 || uint32(s.Number) == 0 {
		t.Errorf("unit %d, renewed %d times", s.Number, s.renewed)
	}
	if s.At(4).Offset != 4 || s.At(8).Offset != 8 || s.Check(6) == nil || s.Check(8) != nil {
		t.Errorf("marks %v", s.marks)
	}
}
