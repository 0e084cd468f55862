package schemas

import "testing"

func TestLevenshtein(t *testing.T) {
	for _, c := range []struct {
		a, b string
		d    int
	}{{"", "", 0}, {"", "abc", 3}, {"kitten", "sitting", 3}, {"flaw", "lawn", 2}, {"same", "same", 0}} {
		if d := EditDistance(c.a, c.b); d != c.d {
			t.Errorf("%q %q: %d, want %d", c.a, c.b, d, c.d)
		}
		if d := EditDistance(c.b, c.a); d != c.d {
			t.Errorf("%q %q: %d, want %d", c.b, c.a, d, c.d)
		}
	}
}
