package detectors

import (
	"math"
	"testing"

	"odradek/detectors/seedtest"
)

// window is a detector of which only the window is asked.
type window struct{ Detector }

func (window) Window() int { return 50 }

// TestSignals: signals have names of their own and differ, and are numbers but where their names say otherwise.
func TestSignals(t *testing.T) {
	const n = 200
	seen := map[string]bool{}
	for _, s := range Signals(seedtest.New(t)) {
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

// TestNewCase: a chain has as many rows as its first task needs, and behind them the others' rows and the extra ones.
func TestNewCase(t *testing.T) {
	row := Signal{"row", func(i, _ int) float64 { return float64(i) }}
	c := NewCase("chain", window{}, 2, 3, []int{1, 4}, row)
	if rows := len(c.Rows) / c.Dim; rows != 49+3+5 || c.Rows[2*(rows-1)+1] != float64(rows-1) {
		t.Errorf("%d rows, the last %v", rows, c.Rows[len(c.Rows)-1])
	}
}
