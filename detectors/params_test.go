package detectors

import (
	"strings"
	"testing"
)

func TestWords(t *testing.T) {
	s := Spec{Params: []Param{{Name: "A", Help: "a"}, {Name: "F", Type: Floats, Word: 5}, {Name: "B", Word: 1},
		{Name: "C", Type: Long, Word: 2}, {Name: "D", Type: Long, Word: 3}, {Name: "E", Type: Bool, Word: 4}}}
	var got []string
	for _, w := range s.Words() {
		got = append(got, w.Name+FormatNumber(float64(w.Offset)))
	}
	if want := "B0 C2 D4 E6 F7"; strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
	if s.Word("D") != 4 {
		t.Errorf("D lies at %d", s.Word("D"))
	}
}

func TestFormatNumber(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 16777216: "16777216", 0.001: "0.001", 1e-9: "1e-9", 1e30: "1e30", 1.5e-12: "1.5e-12",
		-3: "-3", 0.999999: "0.999999"} {
		if got := FormatNumber(x); got != want {
			t.Errorf("%v is written %s, want %s", x, got, want)
		}
	}
}
