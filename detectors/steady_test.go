package detectors

import "testing"

// TestSteady compares the scores of views, and what they are about, with counts of rows by hand.
func TestSteady(t *testing.T) {
	s := Steady{Least: 3, From: 2, To: 1}
	for _, c := range []struct{ rows, fresh, scores int }{{2, 1, 0}, {3, 1, 1}, {3, 2, 0}, {4, 2, 2}, {9, 0, 0}} {
		if n, ok := s.Size(View{Dim: 2, Rows: c.rows, Fresh: c.fresh}); n.Scores != c.scores || ok != (c.scores > 0) {
			t.Errorf("%d rows, %d of them fresh: %+v, %v, want %d scores", c.rows, c.fresh, n, ok, c.scores)
		}
	}
	if from, to := s.Reach(); from != 2 || to != 1 {
		t.Errorf("it reaches from %d to %d", from, to)
	}
	r := Rows{Dim: 2, Fresh: 2, X: make([]float32, 2*5), Scores: []float32{7, 8}}
	got := s.AppendFindings(nil, r)
	if len(got) != 2 || got[0].Fresh != 0 || got[0].From != 1 || got[0].To != 2 || got[0].Score != 7 ||
		got[1].Fresh != 1 || got[1].From != 2 || got[1].To != 3 || got[1].Score != 8 {
		t.Errorf("findings %+v", got)
	}
}
