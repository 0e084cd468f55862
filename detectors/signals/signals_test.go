package signals

import (
	"math"
	"testing"

	"odradek/detectors"
	"odradek/detectors/seedtest"
)

// window is a detector of which only the window is asked.
type window struct{ detectors.Detector }

func (window) Window() int { return 50 }

// TestAll: signals have names of their own and differ, and are numbers but where their names say otherwise.
func TestAll(t *testing.T) {
	const n = 200
	seen := map[string]bool{}
	for _, s := range All(seedtest.New(t)) {
		if s.Name == "" || seen[s.Name] {
			t.Errorf("the name %q is used twice", s.Name)
		}
		seen[s.Name] = true
		missing := 0
		for i := range n {
			if v := s.At(i, n); math.IsNaN(v) {
				missing++
			} else if math.IsInf(v, 0) {
				t.Errorf("%s: row %d is %v", s.Name, i, v)
			}
		}
		want := map[string]int{"one not a number": 1, "not a number": n}[s.Name]
		if missing != want {
			t.Errorf("%s: %d rows are missing, want %d", s.Name, missing, want)
		}
	}
}

// TestCase: a chain has as many rows as its first task needs, and behind them the others' rows and the extra ones.
func TestCase(t *testing.T) {
	row := Signal{"row", func(i, _ int) float64 { return float64(i) }}
	c := Case("chain", window{}, 2, 3, []int{1, 4}, row)
	if rows := len(c.Rows) / c.Dim; rows != 49+3+5 || c.Rows[2*(rows-1)+1] != float64(rows-1) {
		t.Errorf("%d rows, the last %v", rows, c.Rows[len(c.Rows)-1])
	}
}
