package rules

import "testing"

// TestActions: decisions act once, in the order of their offsets and of when they were made, and again
// after a rollback.
func TestActions(t *testing.T) {
	a := actions{list: []*Decision{{Offset: 7, seq: 1}, {Offset: 3, seq: 5}, {Offset: 3, seq: 2}, {Offset: 9, seq: 3}}}
	a.order()
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
	a.rewind(3)
	wantNext(10, 2, 5, 1, 3)
	if a.Acting() {
		t.Error("there are decisions left")
	}
}
