// Package chart draws lines, bands, points and cells over two axes as SVG. A drawing needs neither a style sheet nor another file.
package chart

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"strings"
)

// Sizes in the units of the drawing, which a page scales to its width.
const (
	width  = 1000
	left   = 90 // of the axis of Y
	right  = 20
	axis   = 40 // of the axis of X
	line   = 16 // of a text
	inside = width - left - right
)

// Point is a point of a Chart. Points whose Y is no finite number are gaps of a line.
type Point struct{ X, Y float64 }

// Style says how something is drawn.
type Style struct {
	Color   string  // as in CSS
	Opacity float64 // of an area; 0: 1
	Width   float64 // of a line
	Dashed  bool
}

// Chart is a drawing over two axes. What was added last is on top.
type Chart struct {
	Title  string // lines
	X, Y   string // labels of the axes
	Time   bool   // X is in seconds since 1970
	Height int    // with the title and both axes

	marks  []mark
	legend []mark
	extent [4]float64 // least and largest X, least and largest Y
	used   bool
}

// mark is something drawn.
type mark struct {
	draw  func(*canvas, Style)
	style Style
	name  string
	area  bool
}

// include has the axes show a point.
func (c *Chart) include(x, y float64) {
	if x-x != 0 || y-y != 0 {
		return
	}
	if !c.used {
		c.used, c.extent = true, [4]float64{x, x, y, y}
	}
	e := &c.extent
	e[0], e[1], e[2], e[3] = min(e[0], x), max(e[1], x), min(e[2], y), max(e[3], y)
}

// add adds a mark, and a line of the legend unless the name is empty.
func (c *Chart) add(name string, s Style, area bool, draw func(*canvas, Style)) {
	m := mark{draw, s, name, area}
	c.marks = append(c.marks, m)
	if name != "" {
		c.legend = append(c.legend, m)
	}
}

// Line adds a line through points in the order given.
func (c *Chart) Line(name string, points []Point, s Style) {
	for _, p := range points {
		c.include(p.X, p.Y)
	}
	c.add(name, s, false, func(v *canvas, s Style) {
		var d strings.Builder
		verb, dot := "M", ""
		for _, p := range points {
			if p.X-p.X != 0 || p.Y-p.Y != 0 {
				d.WriteString(dot)
				verb, dot = "M", ""
				continue
			}
			fmt.Fprintf(&d, "%s%.1f %.1f", verb, v.x(p.X), v.y(p.Y))
			if dot = ""; verb == "M" {
				dot = "h0" // a single point is drawn as a dot
			}
			verb = "L"
		}
		d.WriteString(dot)
		if d.Len() > 0 {
			v.printf(`<path d="%s" style="%s"/>`, d.String(), s.stroke())
		}
	})
}

// Band fills a rectangle.
func (c *Chart) Band(name string, from, to Point, s Style) {
	c.include(from.X, from.Y)
	c.include(to.X, to.Y)
	c.add(name, s, true, func(v *canvas, s Style) {
		x := v.x(from.X)
		v.printf(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" style="%s"/>`,
			x, v.y(to.Y), max(1, v.x(to.X)-x), max(1, v.y(from.Y)-v.y(to.Y)), s.fill())
	})
}

// Dot adds a point.
func (c *Chart) Dot(name string, p Point, s Style) {
	c.include(p.X, p.Y)
	c.add(name, s, true, func(v *canvas, s Style) {
		v.printf(`<circle cx="%.1f" cy="%.1f" r="4" style="%s"/>`, v.x(p.X), v.y(p.Y), s.fill())
	})
}

// Cells fills the area from 0, 0 to columns, rows with cells, row 0 at the bottom, whose colours range from blue for low to
// red for high.
func (c *Chart) Cells(columns, rows int, value func(column, row int) float64, low, high float64) {
	c.CellsIn(Point{}, Point{float64(columns), float64(rows)}, columns, rows, value, low, high)
}

// CellsIn is Cells for the area between two points.
func (c *Chart) CellsIn(from, to Point, columns, rows int, value func(column, row int) float64, low, high float64) {
	c.include(from.X, from.Y)
	c.include(to.X, to.Y)
	c.add("", Style{}, true, func(v *canvas, _ Style) {
		x, y := v.x(from.X), v.y(to.Y)
		v.printf(`<g transform="translate(%.1f %.1f) scale(%.6g %.6g)">%s</g>`, x, y, (v.x(to.X)-x)/float64(columns),
			(v.y(from.Y)-y)/float64(rows), Cells(columns, rows, value, low, high))
	})
}

func (s Style) stroke() string {
	dashes := ""
	if s.Dashed {
		dashes = ";stroke-dasharray:6 4"
	}
	return fmt.Sprintf("fill:none;stroke:%s;stroke-width:%g;stroke-linejoin:round;stroke-linecap:round%s", s.Color, s.Width, dashes)
}

func (s Style) fill() string {
	return fmt.Sprintf("fill:%s;fill-opacity:%g", s.Color, cmp.Or(s.Opacity, 1))
}

// SVG draws charts one below the other, with their axes aligned, as an SVG element; no charts are an empty text.
func SVG(charts []*Chart) string {
	if len(charts) == 0 {
		return ""
	}
	total := 0
	for _, c := range charts {
		total += c.Height
	}
	v := &canvas{}
	v.printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" font-family="system-ui, sans-serif" font-size="12" fill="#1b1f24">`,
		width, total)
	for _, c := range charts {
		c.draw(v)
		v.top += float64(c.Height)
	}
	v.printf("</svg>")
	return v.String()
}

// canvas is where a Chart is drawn.
type canvas struct {
	strings.Builder
	top          float64 // of the chart
	from, to     Point   // what the axes show
	upper, lower float64 // edges of the area between the axes
}

func (c *canvas) printf(format string, args ...any) { fmt.Fprintf(c, format, args...) }

func (c *canvas) x(x float64) float64 { return left + inside*(x-c.from.X)/(c.to.X-c.from.X) }
func (c *canvas) y(y float64) float64 {
	return c.lower - (c.lower-c.upper)*(y-c.from.Y)/(c.to.Y-c.from.Y)
}

// text writes a text with its anchor at a place.
func (c *canvas) text(x, y float64, attributes, text string) {
	c.printf(`<text x="%.1f" y="%.1f"%s>%s</text>`, x, y, attributes, html.EscapeString(text))
}

const grid = `<path d="M%.1f %.1fL%.1f %.1f" style="stroke:#d8dde3"/>`

func (c *Chart) draw(v *canvas) {
	if !c.used {
		c.include(0, 0)
		c.include(1, 1)
	}
	v.from, v.to = Point{c.extent[0], c.extent[2]}, Point{c.extent[1], c.extent[3]}
	widen(&v.from.X, &v.to.X)
	widen(&v.from.Y, &v.to.Y)
	v.upper, v.lower = v.top+8, v.top+float64(c.Height-axis)
	for title := range strings.Lines(c.Title) {
		v.text(left, v.upper+line-4, ` font-size="13" font-weight="600"`, strings.TrimSuffix(title, "\n"))
		v.upper += line + 2
	}
	if len(c.legend) > 0 {
		v.upper += line
	}
	if c.Time {
		c.timeTicks(v)
	} else {
		for _, t := range ticks(v.from.X, v.to.X, 10) {
			v.printf(grid, v.x(t.at), v.upper, v.x(t.at), v.lower)
			v.text(v.x(t.at), v.lower+line-2, ` text-anchor="middle"`, t.text)
		}
	}
	for _, t := range ticks(v.from.Y, v.to.Y, max(2, int(v.lower-v.upper)/32)) {
		v.printf(grid, float64(left), v.y(t.at), float64(width-right), v.y(t.at))
		v.text(left-6, v.y(t.at)+4, ` text-anchor="end"`, t.text)
	}
	v.text(left+inside/2, v.lower+2*line, ` text-anchor="middle"`, c.X)
	v.text(0, 0, fmt.Sprintf(` text-anchor="middle" transform="translate(14 %.1f) rotate(-90)"`, (v.upper+v.lower)/2), c.Y)
	for _, m := range c.marks {
		m.draw(v, m.style)
	}
	c.drawLegend(v)
}

// drawLegend draws the legend in one line above the area.
func (c *Chart) drawLegend(v *canvas) {
	x, y := float64(left), v.upper-line/2
	for _, m := range c.legend {
		if m.area {
			v.printf(`<rect x="%.1f" y="%.1f" width="16" height="10" style="%s"/>`, x, y-6, m.style.fill())
		} else {
			v.printf(`<path d="M%.1f %.1fh16" style="%s"/>`, x, y-1, m.style.stroke())
		}
		v.text(x+22, y+3, "", m.name)
		x += 44 + 7*float64(len(m.name))
	}
}

// widen sets equal bounds of an axis apart.
func widen(low, high *float64) {
	if *high-*low <= max(math.Abs(*low), math.Abs(*high))*1e-14 {
		room := max(1e-6, math.Abs(*low)*1e-6)
		*low, *high = *low-room, *high+room
	}
}
