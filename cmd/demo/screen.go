package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// screen draws frames over each other on the alternate screen of a terminal, whose own is as before at the end. Each line is
// addressed by its number and as long as the terminal is wide: nothing wraps or scrolls, regardless of what was there before.
type screen struct {
	out  io.Writer
	size func() (columns, rows int)

	mu    sync.Mutex
	shown bool
	ended bool
	drawn [2]int // columns and rows of the last frame
}

const (
	enterScreen = "\x1b[?1049h\x1b[?25l" // alternate screen, no cursor
	leaveScreen = "\x1b[?25h\x1b[?1049l"
)

// newScreen returns the screen of w; nil where w is no terminal that can address lines.
func newScreen(w io.Writer) *screen {
	if !isTerminal(w) || os.Getenv("TERM") == "dumb" {
		return nil
	}
	fd := int(w.(*os.File).Fd())
	return &screen{out: w, size: func() (int, int) {
		columns, rows, err := term.GetSize(fd)
		if err != nil || columns < 1 || rows < 1 {
			return 80, 24
		}
		return columns, rows
	}}
}

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// resized reports whether the terminal has another size than the last frame.
func (s *screen) resized() bool {
	columns, rows := s.size()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown && s.drawn != [2]int{columns, rows}
}

// draw shows the lines that frame returns for a size, as many and as much of each as fit.
func (s *screen) draw(frame func(columns, rows int) []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	columns, rows := s.size()
	lines := frame(columns, rows)
	var b bytes.Buffer
	if !s.shown {
		b.WriteString(enterScreen)
	}
	if s.drawn != [2]int{columns, rows} {
		b.WriteString("\x1b[2J")
	}
	for row := range rows {
		line := ""
		if row < len(lines) {
			line = cut(lines[row], columns)
		}
		fmt.Fprintf(&b, "\x1b[%d;1H%-*s", row+1, columns, line)
	}
	s.shown, s.drawn = true, [2]int{columns, rows}
	_, _ = s.out.Write(b.Bytes())
}

// close shows what was there before the first frame, and ends the drawing.
func (s *screen) close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shown {
		_, _ = io.WriteString(s.out, leaveScreen)
	}
	s.shown, s.ended = false, true
}

// cut returns a line of at most the given number of characters; the last one stands for what is left out.
func cut(line string, columns int) string {
	runes := []rune(line)
	if len(runes) <= columns {
		return line
	}
	return string(runes[:columns-1]) + "…"
}

// wrap breaks a line at spaces into lines of at most the given number of characters, the later ones indented. A longer word
// stays whole.
func wrap(line string, columns int, indent string) (lines []string) {
	for len([]rune(line)) > columns {
		at := strings.LastIndex(string([]rune(line)[:columns+1]), " ")
		if at <= len(indent) {
			break
		}
		lines, line = append(lines, line[:at]), indent+line[at+1:]
	}
	return append(lines, line)
}

// heldBytes is how much of the end of what is written a held writer keeps.
const heldBytes = 64 << 10

// held keeps what is written while a screen is shown on the terminal that w is, too, and writes it afterwards.
type held struct {
	w io.Writer

	mu   sync.Mutex
	hold bool
	kept []byte
}

func (h *held) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.hold {
		return h.w.Write(p)
	}
	if h.kept = append(h.kept, p...); len(h.kept) > heldBytes {
		h.kept = h.kept[len(h.kept)-heldBytes:]
		h.kept = h.kept[bytes.IndexByte(h.kept, '\n')+1:]
	}
	return len(p), nil
}

// release writes what was kept, and from now on everything at once.
func (h *held) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.hold = false; len(h.kept) > 0 {
		_, _ = h.w.Write(h.kept)
		h.kept = nil
	}
}
