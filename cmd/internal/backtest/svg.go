package backtest

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"
)

// A panel is drawn in the SVG's own units, which the page scales to its width. Lines are not scaled, and the page draws the text.
const (
	panelWidth  = 1000
	valueHeight = 120
	scoreHeight = 64
)

// Panel is one plot of a series.
type Panel struct {
	Title    string
	Score    bool
	Top, Low string // labels of its upper and its lower edge
	SVG      template.HTML
}

// panels draws a series: its fields, then the scores of each detector.
func (s *seriesTrack) panels(fields, detectors []string) []Panel {
	p, buckets, x := s.plot, s.buckets(), s.x
	var list []Panel
	for c := range p.dim {
		lo, hi := p.lo[c*p.n:][:buckets], p.hi[c*p.n:][:buckets]
		low, top, ok := extent(lo, hi)
		if !ok {
			continue
		}
		var b strings.Builder
		open(&b, valueHeight, "values of "+fields[c])
		for _, l := range s.labels {
			band(&b, "label", x(l.From), x(l.To), valueHeight)
		}
		for d := range s.dets {
			for _, a := range s.dets[d].spans {
				band(&b, "anomaly", x(a.From), x(a.To), valueHeight)
			}
		}
		envelope(&b, "value", lo, hi, low, top, valueHeight)
		b.WriteString("</svg>")
		list = append(list, Panel{fields[c], false, edge(p.base[c]+top, top-low), edge(p.base[c]+low, top-low), drawn(&b)})
	}
	for d := range s.dets {
		scores, bounds := p.top[d*p.n:][:buckets], p.bound[d*p.n:][:buckets]
		_, top, ok := extent(scores, bounds)
		if !ok {
			continue
		}
		low, _, _ := extent(scores, scores)
		low = min(0, low)
		// One score of a million would hide the others.
		if _, most, ok := extent(bounds, bounds); ok && top > 4*most && most > low {
			top = low + 4*(most-low)
		}
		if top <= low {
			top = low + 1
		}
		var b strings.Builder
		open(&b, scoreHeight, "scores of "+detectors[d])
		for _, a := range s.dets[d].spans {
			band(&b, "anomaly", x(a.From), x(a.To), scoreHeight)
		}
		line(&b, "score", scores, low, top, scoreHeight)
		line(&b, "bound", bounds, low, top, scoreHeight)
		b.WriteString("</svg>")
		list = append(list, Panel{"score of " + detectors[d], true, number(top), number(low), drawn(&b)})
	}
	return list
}

// buckets returns the number of the plot's buckets that the series covers.
func (s *seriesTrack) buckets() int {
	return max(1, min(int((s.last-s.plot.start)>>s.plot.width)+1, s.plot.n))
}

// x returns the position of an event time in a panel.
func (s *seriesTrack) x(t int64) float64 {
	return panelWidth * min(1, max(0, float64(t-s.plot.start)/float64(int64(s.buckets())<<s.plot.width)))
}

// drawn returns a finished drawing. Its only input are numbers, and names that open has
// escaped.
func drawn(b *strings.Builder) template.HTML {
	return template.HTML(b.String()) //nolint:gosec // see above
}

func open(b *strings.Builder, height int, title string) {
	fmt.Fprintf(b, `<svg viewBox="0 0 %d %d" preserveAspectRatio="none" role="img" aria-label="%s">`, panelWidth, height, template.HTMLEscapeString(title))
}

// band draws an interval of time over the whole height, at least wide enough to be seen.
func band(b *strings.Builder, class string, from, to float64, height int) {
	w := max(2, to-from)
	fmt.Fprintf(b, `<rect class="%s" x="%.1f" y="0" width="%.1f" height="%d"/>`, class, min(from, panelWidth-w), w, height)
}

// extent returns the lowest and the highest number, a little apart where both are the same.
func extent(lo, hi []float32) (low, top float64, ok bool) {
	low, top = math.Inf(1), math.Inf(-1)
	for i := range lo {
		if v := float64(lo[i]); v-v == 0 {
			low = min(low, v)
		}
		if v := float64(hi[i]); v-v == 0 {
			top = max(top, v)
		}
	}
	if low > top && !math.IsInf(top, -1) {
		low = top
	}
	if math.IsInf(low, 1) || math.IsInf(top, -1) {
		return 0, 0, false
	}
	if low == top {
		room := max(1e-9, math.Abs(low)*1e-3)
		low, top = low-room, top+room
	}
	return low, top, true
}

func y(v float32, low, top float64, height int) float64 {
	return float64(height) * min(1, max(0, (top-float64(v))/(top-low)))
}

// envelope draws the lowest and the highest value of each bucket as one line up and down.
func envelope(b *strings.Builder, class string, lo, hi []float32, low, top float64, height int) {
	fmt.Fprintf(b, `<path class="%s" d="`, class)
	step, gap := panelWidth/float64(len(lo)), true
	for i := range lo {
		if lo[i] != lo[i] {
			gap = true
			continue
		}
		verb := "L"
		if gap {
			verb, gap = "M", false
		}
		at := step * (float64(i) + 0.5)
		fmt.Fprintf(b, "%s%.1f %.1f", verb, at, y(hi[i], low, top, height))
		if bottom := y(lo[i], low, top, height); hi[i] != lo[i] {
			fmt.Fprintf(b, "V%.1f", bottom)
		}
	}
	b.WriteString(`"/>`)
}

// line draws one number a bucket, with dots on runs that are too short to be seen as a line.
func line(b *strings.Builder, class string, v []float32, low, top float64, height int) {
	envelope(b, class, v, v, low, top, height)
	const short = 3
	step, dots := panelWidth/float64(len(v)), ""
	for from := 0; from < len(v); from++ {
		to := from
		for to < len(v) && v[to] == v[to] {
			to++
		}
		for i := from; i < to && to-from <= short; i++ {
			dots += fmt.Sprintf("M%.1f %.1fh0", step*(float64(i)+0.5), y(v[i], low, top, height))
		}
		from = to
	}
	if dots != "" {
		fmt.Fprintf(b, `<path class="%s dot" d="%s"/>`, class, dots)
	}
}

// edge rounds a number for an axis to the digits of single precision.
func edge(v, extent float64) string {
	if grain := extent * 1e-6; grain > 0 {
		v = math.Round(v/grain) * grain
	}
	return number(v)
}

// number writes a number in a few digits.
func number(v float64) string {
	v += 0 // of -0
	if a := math.Abs(v); a != 0 && (a >= 1e7 || a < 1e-4) {
		return strconv.FormatFloat(v, 'e', 3, 64)
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

func moment(us int64) string { return time.UnixMicro(us).UTC().Format("2006-01-02 15:04:05") }
