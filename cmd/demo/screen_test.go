package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hinshun/vt10x"

	"odradek/detectors/seedtest"
)

// TestScreen: after each frame an emulator shows its lines, cut to the terminal, and nothing else, regardless of the size that the
// terminal had before and of what another program has written to it meanwhile.
func TestScreen(t *testing.T) {
	rng := seedtest.New(t)
	columns, rows := 80, 24
	emulator := vt10x.New(vt10x.WithSize(columns, rows))
	s := &screen{out: emulator, size: func() (int, int) { return columns, rows }}
	for n := range 200 {
		if rng.IntN(3) > 0 {
			columns, rows = 1+rng.IntN(220), 1+rng.IntN(60)
			emulator.Resize(columns, rows)
			if got, want := s.resized(), n > 0 && s.drawn != [2]int{columns, rows}; got != want {
				t.Fatalf("resized: %v, want %v", got, want)
			}
		}
		if rng.IntN(4) == 0 {
			fmt.Fprintf(emulator, "%s\r\n", strings.Repeat("log ", rng.IntN(100)))
		}
		lines := make([]string, rng.IntN(80))
		for i := range lines {
			lines[i] = strings.Repeat(string(rune('a'+rng.IntN(26))), rng.IntN(300))
		}
		s.draw(func(c, r int) []string {
			if c != columns || r != rows {
				t.Errorf("a frame of %d x %d, want %d x %d", c, r, columns, rows)
			}
			return lines
		})
		for y := range rows {
			want := ""
			if y < len(lines) {
				want = cut(lines[y], columns)
			}
			var got strings.Builder
			for x := range columns {
				got.WriteRune(emulator.Cell(x, y).Char)
			}
			if text := strings.TrimRight(got.String(), " \x00"); text != want {
				t.Fatalf("frame %d, %d x %d, line %d is %q, want %q", n, columns, rows, y, text, want)
			}
		}
	}
}

// TestScreenEnds: what was on the terminal before is there again, and nothing is drawn after.
func TestScreenEnds(t *testing.T) {
	emulator := vt10x.New(vt10x.WithSize(80, 24))
	emulator.Write([]byte("$ demo\r\n"))
	s := &screen{out: emulator, size: func() (int, int) { return 80, 24 }}
	s.draw(func(int, int) []string { return []string{"a frame"} })
	if emulator.CursorVisible() || !strings.HasPrefix(emulator.String(), "a frame ") {
		t.Errorf("the screen has %q", emulator.String())
	}
	s.close()
	s.draw(func(int, int) []string { t.Error("a frame after the end"); return nil })
	if first := strings.SplitN(emulator.String(), "\n", 2)[0]; strings.TrimSpace(first) != "$ demo" || !emulator.CursorVisible() {
		t.Errorf("at the end the first line is %q", first)
	}
}

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		line string
		n    int
		want string
	}{
		{"one two three", 20, "one two three"}, {"one two three", 13, "one two three"}, {"one two three", 12, "one two|  three"},
		{"one two three", 7, "one two|  three"}, {"one two three", 5, "one|  two|  three"}, {"unbreakable word", 5, "unbreakable word"}, {"", 3, ""},
	} {
		if got := strings.Join(wrap(c.line, c.n, "  "), "|"); got != c.want {
			t.Errorf("%q in %d columns is %q, want %q", c.line, c.n, got, c.want)
		}
	}
}

// TestFrame: a frame of any size has at most as many lines as rows, and only lines of the table may be longer than the
// terminal.
func TestFrame(t *testing.T) {
	o := &demoOptions{sensors: 60, rate: 3000, seed: 1}
	v := &demoView{
		o:       o,
		began:   time.Now(),
		streams: demoStreams(o, time.Now()),
		addrs:   []string{"127.0.0.1:9464", "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"},
	}
	for columns := 1; columns < 230; columns++ {
		for _, rows := range []int{1, 2, 10, 24, 60} {
			lines := v.frame(columns, rows)
			if len(lines) > rows {
				t.Fatalf("%d lines in %d rows", len(lines), rows)
			}
			if rows == 60 && columns >= 80 {
				for _, line := range lines {
					if len(line) > columns && !strings.Contains(line, "records/s") {
						t.Errorf("%d columns: %q", columns, line)
					}
				}
			}
		}
	}
}

// TestHeld: what workers write while the screen is shown is there afterwards, the end of it where it is long.
func TestHeld(t *testing.T) {
	var out bytes.Buffer
	h := &held{w: &out, hold: true}
	for i := range 10_000 {
		fmt.Fprintf(h, "line %d\n", i)
	}
	if out.Len() > 0 {
		t.Fatal("it was written at once")
	}
	h.release()
	fmt.Fprintln(h, "after")
	if text := out.String(); !strings.HasPrefix(text, "line ") || !strings.HasSuffix(text, "line 9999\nafter\n") || out.Len() > heldBytes+6 ||
		out.Len() < heldBytes/2 {
		t.Errorf("%d bytes: %.50q", out.Len(), text)
	}
}
