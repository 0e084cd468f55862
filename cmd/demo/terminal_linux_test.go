package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hinshun/vt10x"
	"golang.org/x/sys/unix"
)

// pictures is a folder for a picture of the demo's screen, as README has it.
var pictures = flag.String("pictures", "", "folder for pictures of the screen")

// emulated is a pseudo-terminal and an emulator that shows what is written to it.
type emulated struct {
	*os.File // the program's side
	master   *os.File

	mu    sync.Mutex
	shown vt10x.Terminal
	all   bytes.Buffer
	done  chan struct{}
}

func newEmulated(t *testing.T, columns, rows int) *emulated {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	e := &emulated{File: slave, master: master, shown: vt10x.New(vt10x.WithSize(columns, rows)), done: make(chan struct{})}
	e.resize(t, columns, rows)
	go func() {
		defer close(e.done)
		buf := make([]byte, 1<<16)
		for {
			n, err := master.Read(buf)
			e.mu.Lock()
			e.all.Write(buf[:n])
			_, _ = e.shown.Write(buf[:n])
			e.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return e
}

func (e *emulated) resize(t *testing.T, columns, rows int) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.shown.Resize(columns, rows)
	if err := unix.IoctlSetWinsize(int(e.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(columns), Row: uint16(rows)}); err != nil {
		t.Fatal(err)
	}
}

// lines returns what is on the screen, without spaces at the ends.
func (e *emulated) lines() (lines []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	columns, rows := e.shown.Size()
	for y := range rows {
		var line strings.Builder
		for x := range columns {
			c := e.shown.Cell(x, y).Char
			if c == 0 {
				c = ' '
			}
			line.WriteRune(c)
		}
		lines = append(lines, strings.TrimRight(line.String(), " "))
	}
	return lines
}

// close ends the program's side and returns all that was written to it.
func (e *emulated) close() string {
	e.File.Close()
	<-e.done
	e.master.Close()
	return e.all.String()
}

// until waits until what is on the screen is right, or a minute has passed, and returns it.
func (e *emulated) until(t *testing.T, what string, right func(lines []string) bool) []string {
	t.Helper()
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		lines := e.lines()
		if right(lines) {
			return lines
		}
		if time.Now().After(end) {
			t.Fatalf("%s: the screen has\n%s", what, strings.Join(lines, "\n"))
		}
	}
}

// TestDemoOnATerminal: on terminals of three sizes, between which it is resized, the screen has one title, in its first
// line, the whole table of faults, and in the rows that remain an anomaly each; nothing wraps. At the end the terminal has
// what a program without a screen would have printed.
func TestDemoOnATerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	e := newEmulated(t, 80, 24)
	term := terminal{e.File, e.File, os.Environ()}
	ended := make(chan int, 1)
	worker := workerBinary(t)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	go func() {
		ended <- term.demo(ctx, []string{"-worker", worker, "-for", "0", "-http", "127.0.0.1:0", "-rate", "6000", "-sensors", "50"})
	}()
	const title = "Odradek demo: 50 sensors, machines, regions; 4 workers of 3 groups, exactly once"
	for _, size := range [][2]int{{80, 24}, {120, 40}, {220, 60}, {80, 24}, {40, 10}, {100, 34}} {
		columns, rows := size[0], size[1]
		e.resize(t, columns, rows)
		lines := e.until(t, fmt.Sprintf("%d x %d", columns, rows), func(lines []string) bool {
			return lines[0] == cut(title, columns) &&
				(columns < 80 || lines[rows-1] != "" && strings.Contains(strings.Join(lines, "\n"), "\n      hot_spot"))
		})
		screen := strings.Join(lines, "\n")
		if strings.Count(screen, "Odradek demo") != 1 || !strings.Contains(lines[1], "anomalies, ") {
			t.Errorf("%d x %d:\n%s", columns, rows, screen)
		}
		if columns < 80 {
			continue
		}
		head := 0
		for i, line := range lines {
			if strings.HasPrefix(line, "opened") {
				head = i
			}
		}
		for _, line := range lines[head+1:] {
			if head == 0 || !strings.Contains(line, "planted: ") && !strings.Contains(line, "false") {
				t.Errorf("%d x %d: %q stands where an anomaly should:\n%s", columns, rows, line, screen)
			}
		}
	}
	if *pictures != "" {
		lines := e.until(t, "the picture", func(lines []string) bool {
			return strings.Contains(strings.Join(lines, "\n"), "hot spots move: in 3") // of about 40 windows
		})
		if err := os.WriteFile(filepath.Join(*pictures, "demo.svg"), svgOf(lines, 100), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	interrupt()
	if code := <-ended; code != exitOK {
		t.Fatalf("exit %d: %s", code, e.close())
	}
	all := e.close()
	if _, after, ok := strings.Cut(all, leaveScreen); !ok || strings.Contains(after, "\x1b") ||
		!strings.Contains(after, "of the faults that were planted and over") ||
		!strings.Contains(after, `{"seconds":`) ||
		strings.Count(all, enterScreen) != 1 {
		t.Errorf("after the screen: %q", after)
	}
}

// svgOf draws the lines of a screen.
func svgOf(lines []string, columns int) []byte {
	const wide, tall, edge = 7.22, 15.0, 10.0
	var b bytes.Buffer
	width, height := 2*edge+wide*float64(columns), 2*edge+tall*float64(len(lines))
	fmt.Fprintf(
		&b,
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" role="img" aria-label="the demo on a terminal">`+
			"\n<rect width=\"100%%\" height=\"100%%\" rx=\"6\" fill=\"#16181d\"/>\n"+
			"<g font-family=\"ui-monospace,SFMono-Regular,Menlo,Consolas,DejaVu Sans Mono,monospace\" font-size=\"12\" "+
			"fill=\"#d7dae0\" xml:space=\"preserve\" style=\"white-space:pre\">\n",
		width,
		height,
		width,
		height,
	)
	for i, line := range lines {
		if line != "" {
			fmt.Fprintf(
				&b,
				"<text x=\"%.0f\" y=\"%.0f\" textLength=\"%.1f\" lengthAdjust=\"spacingAndGlyphs\">%s</text>\n",
				edge,
				edge+tall*(float64(i)+0.8),
				wide*float64(len([]rune(line))),
				html.EscapeString(line),
			)
		}
	}
	b.WriteString("</g>\n</svg>\n")
	return b.Bytes()
}
