package state

import (
	"testing"

	"odradek/processor/state/checkpoint"
)

// TestMarks: the marks from the committed floor on are there, and one is always left.
func TestMarks(t *testing.T) {
	s := newOwner()
	check := func(what string, want ...int64) {
		t.Helper()
		same := len(s.marks) == len(want)
		for i := range s.marks {
			same = same && s.marks[i].Offset == want[i]
		}
		if !same {
			t.Errorf("%s: marks %v, not %v", what, s.marks, want)
		}
	}
	mark := func(at, floor int64) {
		s.Mark(checkpoint.Floor{Offset: at, MaxTime: 2 * at})
		s.SetFloor(checkpoint.Floor{Offset: floor})
	}
	s.Init(checkpoint.Floor{Offset: 10}, false)
	mark(20, 20)
	mark(30, 25)
	mark(40, 40)
	s.Commit(20)
	check("committed at a mark", 20, 30, 40)
	if f := s.At(30); f.MaxTime != 60 {
		t.Errorf("the mark at 30 is %v", f)
	}
	s.Commit(30)
	check("committed between marks", 30, 40)
	s.Rollback(30)
	check("rolled back", 30)
	mark(50, 100)
	s.Commit(50)
	check("committed past the last", 50)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("there is no mark at 51")
			}
		}()
		mark(60, 60)
		s.At(51)
	}()
}

// TestUnits: a unit that is recycled is opened again, empty.
func TestUnits(t *testing.T) {
	s := newOwner()
	s.Init(checkpoint.Floor{Offset: 5}, false)
	first := s.Open
	s.pushText(first, 1, fields{text: "changed"})
	s.Mark(checkpoint.Floor{Offset: 9})
	if at, mark := s.find(5); at != 0 || mark != 5 {
		t.Errorf("to go back to 5, unit %d is the first and the mark %d", at, mark)
	}
	if at, mark := s.find(9); at != 1 || mark != 9 {
		t.Errorf("to go back to 9, unit %d is the first and the mark %d", at, mark)
	}
	if s.Newest() != first {
		t.Error("the unit that ends at the last mark is not the newest")
	}
	s.Commit(9)
	s.total = 3
	s.Mark(checkpoint.Floor{Offset: 12})
	if s.Open != first || len(first.ops) > 0 || len(first.Words) > 0 || first.saved.heldN != 3 || first.Start() != 12 {
		t.Errorf("a recycled unit is opened as %+v", s.Open)
	}
}
