package state

import (
	"testing"

	"odradek/processor/state/checkpoint"
)

// TestMarks: the marks from the committed floor on are there, and one is always left.
func TestMarks(t *testing.T) {
	var m marks
	m.reset(checkpoint.Floor{Offset: 10})
	for _, at := range []int64{20, 30, 40} {
		m.add(checkpoint.Floor{Offset: at, MaxTime: 2 * at})
	}
	check := func(what string, want ...int64) {
		t.Helper()
		same := len(m.list) == len(want)
		for i := range m.list {
			same = same && m.list[i].Offset == want[i]
		}
		if !same {
			t.Errorf("%s: marks %v, not %v", what, m.list, want)
		}
	}
	m.commit(20)
	check("committed at a mark", 20, 30, 40)
	if f := m.At(30); f.MaxTime != 60 {
		t.Errorf("the mark at 30 is %v", f)
	}
	m.commit(25)
	check("committed between marks", 30, 40)
	m.cut(35)
	check("rolled back to below a mark", 30)
	m.cut(5)
	check("rolled back to before the first", 30)
	m.commit(100)
	check("committed past the last", 30)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("there is no mark at 31")
			}
		}()
		m.add(checkpoint.Floor{Offset: 40})
		m.At(31)
	}()
}

// TestUnits: a unit that is recycled is opened again, empty.
func TestUnits(t *testing.T) {
	var u units[int, string]
	u.open(5, "saved")
	first := u.Open
	first.Push(0, 1, 0, 0)
	u.end(9)
	u.open(9, "more")
	if at, mark := u.find(5, 5); at != 0 || mark != 5 {
		t.Errorf("to go back to 5, unit %d is the first and the mark %d", at, mark)
	}
	if at, mark := u.find(9, 5); at != 1 || mark != 9 {
		t.Errorf("to go back to 9, unit %d is the first and the mark %d", at, mark)
	}
	if u.Newest() != first {
		t.Error("the unit that ends at the last mark is not the newest")
	}
	u.ended = u.ended[:0]
	u.recycle(first)
	u.open(12, "again")
	if u.Open != first || len(first.ops) > 0 || first.saved != "again" || first.Start() != 12 {
		t.Errorf("a recycled unit is opened as %+v", u.Open)
	}
}
