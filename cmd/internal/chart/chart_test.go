package chart

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
)

// parse requires that a drawing is well-formed XML, and returns its texts.
func parse(t *testing.T, svg string) (texts string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		switch token, err := d.Token(); {
		case errors.Is(err, io.EOF):
			return texts
		case err != nil:
			t.Fatalf("%v:\n%s", err, svg)
		default:
			if text, ok := token.(xml.CharData); ok {
				texts += string(text) + "\n"
			}
		}
	}
}

func TestSVG(t *testing.T) {
	c := &Chart{Title: "near of <b> & \"c\"\nsecond line", X: "sample", Y: "°C", Height: 200}
	c.Band("scored", Point{1, 0}, Point{2, 10}, Style{Color: "red", Opacity: 0.3})
	c.Line("value", []Point{{0, 0}, {1, math.NaN()}, {2, 10}, {3, 5}}, Style{Color: "blue", Width: 1, Dashed: true})
	c.Line("", []Point{{math.Inf(1), 1e9}, {0, math.Inf(-1)}}, Style{Color: "blue", Width: 1})
	c.Dot("expected", Point{2, 8}, Style{Color: "green"})
	svg := SVG([]*Chart{c, {Time: true, Height: 100}})
	texts := parse(t, svg)
	for _, want := range []string{
		"near of <b> & \"c\"", "second line", "sample", "°C", "scored", "value", "expected", "10", "1970-01-01",
	} {
		if !strings.Contains(texts, want+"\n") {
			t.Errorf("no text %q in\n%s", want, texts)
		}
	}
	for name, want := range map[string]string{
		"point before a gap, and the line after it": `d="M90.0 160.0h0M683.3 60.0L980.0 110.0"`,
		"band":        `<rect x="386.7" y="60.0" width="296.7" height="100.0" style="fill:red;fill-opacity:0.3"/>`,
		"dashed line": `stroke-dasharray`, "both heights": `viewBox="0 0 1000 300"`,
	} {
		if !strings.Contains(svg, want) {
			t.Errorf("%s: no %s in\n%s", name, want, svg)
		}
	}
	for _, bad := range []string{"NaN", "Inf"} {
		if strings.Contains(svg, bad) {
			t.Errorf("%s in\n%s", bad, svg)
		}
	}
}

func TestCells(t *testing.T) {
	values := [][]float64{{0, 0, math.NaN(), 4}, {4, 4, 4, 2}} // row 0 is the lowest
	got := Cells(4, 2, func(column, row int) float64 { return values[row][column] }, 0, 4)
	want := `<g shape-rendering="crispEdges"><path d="M0 1h2v1H0z" style="fill:#3b4cc0"/><path d="M3 0h1v1H3z" style="fill:#dcdada"/>` +
		`<path d="M3 1h1v1H3zM0 0h3v1H0z" style="fill:#b40426"/></g>`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := Cells(1, 1, func(int, int) float64 { return 3 }, 3, 3); !strings.Contains(got, "#3b4cc0") {
		t.Errorf("cells of one value: %s", got)
	}
	c := &Chart{Height: 300}
	c.Cells(4, 2, func(column, row int) float64 { return values[row][column] }, 0, 4)
	parse(t, SVG([]*Chart{c}))
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		want      string
	}{
		{0, 10, "0 2 4 6 8 10"},
		{-0.3, 0.31, "-0.2 0.0 0.2"},
		{20.4, 20.9, "20.4 20.5 20.6 20.7 20.8 20.9"},
		{3e7, 3.4e7, "3e+07 3.1e+07 3.2e+07 3.3e+07 3.4e+07"},
		{1e-8, 4e-8, "1e-08 2e-08 3e-08 4e-08"},
	} {
		var texts []string
		for _, k := range ticks(c.low, c.high, 5) {
			texts = append(texts, k.text)
		}
		if got := strings.Join(texts, " "); got != c.want {
			t.Errorf("ticks of %v to %v: %s, want %s", c.low, c.high, got, c.want)
		}
	}
	for length, want := range map[float64]float64{0.4: 0.05, 30: 5, 700: 120, 86400: 3 * 3600, 30 * 86400: 5 * 86400} {
		if got := timeStep(length, 8); math.Abs(got-want) > want*1e-9 {
			t.Errorf("times of %v s are %v s apart, want %v", length, got, want)
		}
	}
}
