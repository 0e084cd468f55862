package cycle

import (
	"strings"
	"testing"
)

// TestDeadLetters: the bound holds in each window, a refused dead letter counts for nothing, and the next window begins
// with the record after the last one of the window.
func TestDeadLetters(t *testing.T) {
	l := DeadLetterLimit{Most: 2, Of: 4}
	var w LetterWindow
	for i, dead := range []bool{true, false, true} {
		if dead && !l.Admit(&w, 1) {
			t.Fatalf("record %d is refused at %+v", i, w)
		} else if !dead {
			l.Pass(&w)
		}
	}
	if !l.Full(w) || l.Admit(&w, 1) || w != (LetterWindow{Dead: 2, Records: 3}) {
		t.Errorf("a third dead letter: %+v", w)
	}
	l.Pass(&w)
	if l.Full(w) || !l.Admit(&w, 2) || w != (LetterWindow{Dead: 2, Records: 2}) {
		t.Errorf("two dead letters in the next window: %+v", w)
	}
	w = LetterWindow{Dead: 1, Records: 1}
	if l.Admit(&w, 2) || w.Records != 1 {
		t.Errorf("two dead letters where there is room for one: %+v", w)
	}
	if none := (DeadLetterLimit{Most: 0, Of: 1}); !none.Full(LetterWindow{}) || (DeadLetterLimit{}).Full(LetterWindow{Dead: 9, Records: 9}) {
		t.Error("a bound of none allows a dead letter, or no bound refuses one")
	}
}

func TestLetterWindowInMetadata(t *testing.T) {
	for _, w := range []LetterWindow{{}, {Dead: 3, Records: 412}} {
		for _, metadata := range []string{"forwarded", "1;7;-;log=ab"} {
			if got := LetterWindowOf(w.AppendTo(metadata)); got != w {
				t.Errorf("%q has %+v, want %+v", w.AppendTo(metadata), got, w)
			}
		}
	}
	for _, bad := range []string{"", "1;7;-", "1;7;-;dead_letters=x/y", "1;7;-;dead_letters=-3/5", "1;7;-;dead_letters=3"} {
		if got := LetterWindowOf(bad); got != (LetterWindow{}) {
			t.Errorf("%q has %+v", bad, got)
		}
	}
}

func TestParseDeadLetters(t *testing.T) {
	for text, want := range map[string]DeadLetterLimit{
		"off": {}, "0.5/1000": {Most: 500, Of: 1000}, "0/1": {Most: 0, Of: 1}, "0.07/100": {Most: 7, Of: 100}, "0.999/10": {Most: 9, Of: 10},
		".01/50": {Most: 0, Of: 50},
	} {
		if got, err := ParseDeadLetterLimit(text); got != want || err != nil {
			t.Errorf("%s is %+v, %v; want %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"0.5": "not a share", "50%/1000": "not a share", "1/100": "the share 1", "-0.1/100": "the share -0.1", "NaN/100": "the share NaN",
		"0.5/0": "a window of 0", "0.5/1e3": "not a share", "": "not a share",
	} {
		if _, err := ParseDeadLetterLimit(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
