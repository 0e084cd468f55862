package why

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"odradek/cmd/internal/chart"
	"odradek/detectors"
)

// Heights of panels, with their axes.
const (
	panelHeight = 230
	gridHeight  = 460
)

// Limits of a drawing.
const (
	mostFields     = 3 // drawn of a sample
	mostNeighbours = 8 // marked, or laid over the scored samples
	mostMembers    = 4 // drawn of an ensemble
)

const (
	valueColor     = "#2458a6"
	scoredColor    = "#d0342c"
	deviatingColor = "#1f9d55"
	scoreColor     = "#55606e"
	boundColor     = "#b25a00"
	expectColor    = "#8a2be2"
)

var (
	scoredBand    = chart.Style{Color: scoredColor, Opacity: 0.28}
	deviatingBand = chart.Style{Color: deviatingColor, Opacity: 0.22}
	pastBand      = chart.Style{Color: valueColor, Opacity: 0.22}
)

// panels returns the charts of the report.
func (r *Report) panels() (all []*chart.Chart) {
	if e := r.Explanation; e != nil {
		all = e.appendPanels(all)
		for i := range min(len(e.Members), mostMembers) {
			if member := e.Members[i].Of; member != nil {
				all = member.appendPanels(all)
			}
		}
	}
	if len(r.History) > 0 {
		all = append(all, r.historyPanel())
	}
	if r.Silence != nil && len(r.Silence.Around) > 0 {
		for c := range min(len(r.Silence.Fields), mostFields) {
			all = append(all, r.silencePanel(c))
		}
	}
	return all
}

func (e *Explanation) appendPanels(all []*chart.Chart) []*chart.Chart {
	if len(e.Window) > 0 {
		for i, c := range e.drawnFields() {
			p := e.windowPanel(c)
			if i > 0 {
				p.Title = "" // the same as the first's
			}
			all = append(all, p)
			if from, to := e.Scored[0], e.Scored[1]; from >= 0 && to-from >= 2 && e.neighbours(to-from) > 0 {
				all = append(all, e.overlayPanel(c))
			}
		}
	}
	if len(e.Rows) > 0 {
		all = append(all, e.sharesPanel())
	}
	if e.Cells != nil && e.Cells.Columns > 1 && len(e.Cells.Counts) > e.Cells.Columns {
		all = append(all, e.gridPanel())
	}
	return all
}

// drawnFields returns the fields to draw: those with the largest shares in the score first.
func (e *Explanation) drawnFields() []int {
	order := make([]int, len(e.Fields))
	for c := range order {
		order[c] = c
	}
	if len(e.Contribution) == len(order) {
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(e.Contribution[b], e.Contribution[a]) })
	}
	return order[:min(len(order), mostFields)]
}

// neighbours counts the inputs that are as long as the scored samples, whose last is n behind their first.
func (e *Explanation) neighbours(n int) (count int) {
	for i := range e.Inputs {
		if p := &e.Inputs[i]; p.From >= 0 && p.To-p.From == n && p.To < len(e.Window) {
			count++
		}
	}
	return count
}

func (e *Explanation) seconds(i int) float64 {
	return float64(e.Window[max(0, min(len(e.Window)-1, i))].Time.UnixMicro()) / 1e6
}

// timePanel returns a chart over event time.
func timePanel(title, label string) *chart.Chart {
	return &chart.Chart{Title: title, Y: label, Time: true, Height: panelHeight}
}

// extent returns the least and the largest finite Y, 0 and 1 where there is none, and how much space to leave around them.
func extent(lists ...[]chart.Point) (low, high, room float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, points := range lists {
		for _, p := range points {
			if finite(p.Y) {
				low, high = min(low, p.Y), max(high, p.Y)
			}
		}
	}
	if !(low <= high) {
		low, high = 0, 1
	}
	return low, high, max(1e-9, (high-low)*0.05, math.Abs(high)*1e-6)
}

// windowPanel draws a field of the window, with what was scored and what it was compared with.
func (e *Explanation) windowPanel(c int) *chart.Chart {
	p := timePanel(e.title(), e.Fields[c])
	points := make([]chart.Point, len(e.Window))
	for i := range e.Window {
		points[i] = chart.Point{X: e.seconds(i), Y: float64(e.Window[i].Values[c])}
	}
	var expected []chart.Point
	own := float64(e.Sample.Time.UnixMicro()) / 1e6
	if e.Reading != nil {
		own = float64(e.Reading.UnixMicro()) / 1e6
	}
	if c < len(e.Expected) && finite(float64(e.Expected[c])) {
		expected = []chart.Point{{X: own, Y: float64(e.Expected[c])}}
	}
	low, high, room := extent(points, expected)
	low, high = low-room, high+room
	band := func(name string, from, to int, s chart.Style) {
		p.Band(name, chart.Point{X: e.seconds(from), Y: low}, chart.Point{X: e.seconds(to), Y: high}, s)
	}
	marked := map[string]bool{}
	for i := range e.Inputs {
		in := &e.Inputs[i]
		if i >= mostNeighbours || in.To < 0 || in.Last == nil {
			continue
		}
		name, fill := in.Role, deviatingBand
		if marked[name] {
			name = ""
		}
		marked[in.Role] = true
		if in.Role == detectors.Past {
			fill = pastBand
		}
		band(name, in.From, in.To, fill)
	}
	if e.Scored[1] >= 0 {
		band("scored", e.Scored[0], e.Scored[1], scoredBand)
	}
	p.Line("", points, chart.Style{Color: valueColor, Width: 1.2})
	for _, v := range expected {
		p.Dot("expected", v, chart.Style{Color: expectColor})
	}
	if c < len(e.Actual) && finite(float64(e.Actual[c])) {
		p.Dot("measured", chart.Point{X: own, Y: float64(e.Actual[c])}, chart.Style{Color: scoredColor})
	}
	return p
}

// overlayPanel draws the scored samples over the nearest neighbours.
func (e *Explanation) overlayPanel(c int) *chart.Chart {
	from, to := e.Scored[0], e.Scored[1]
	p := &chart.Chart{X: "sample", Y: e.Fields[c], Height: panelHeight}
	p.Title = fmt.Sprintf("%s: the scored samples, and the nearest %d", e.Detector, min(mostNeighbours, e.neighbours(to-from)))
	course := func(from, to int) (points []chart.Point) {
		for i := from; i <= to; i++ {
			points = append(points, chart.Point{X: float64(i - from), Y: float64(e.Window[i].Values[c])})
		}
		return points
	}
	name, drawn := "neighbours", 0
	for i := range e.Inputs {
		in := &e.Inputs[i]
		if in.From < 0 || in.To-in.From != to-from || in.To >= len(e.Window) || drawn == mostNeighbours {
			continue
		}
		p.Line(name, course(in.From, in.To), chart.Style{Color: deviatingColor, Width: 1})
		name = ""
		drawn++
	}
	p.Line("scored", course(from, to), chart.Style{Color: scoredColor, Width: 2.4})
	return p
}

// sharesPanel draws where in time the present differs from the past.
func (e *Explanation) sharesPanel() *chart.Chart {
	p := timePanel(e.Detector+": where the present differs from the past", "share, %")
	p.Height = panelHeight * 2 / 3
	var points []chart.Point
	for i, v := range e.Rows {
		if k := e.RowsFrom + i; k >= 0 && k < len(e.Window) {
			points = append(points, chart.Point{X: e.seconds(k), Y: 100 * float64(v)})
		}
	}
	p.Line("", points, chart.Style{Color: scoredColor, Width: 1.4})
	return p
}

// historyPanel draws the detector's scores and thresholds.
func (r *Report) historyPanel() *chart.Chart {
	p := timePanel("scores of "+r.Anomaly.Detector, "score")
	var scores, bounds []chart.Point
	for _, h := range r.History {
		x := float64(h.Time.UnixMicro()) / 1e6
		scores = append(scores, chart.Point{X: x, Y: float64(h.Score)})
		bounds = append(bounds, chart.Point{X: x, Y: float64(h.Threshold)})
	}
	low, high, _ := extent(scores, bounds, []chart.Point{{Y: 0}})
	start, end := r.span()
	start, end = max(start, scores[0].X), min(end, scores[len(scores)-1].X)
	p.Band("anomaly", chart.Point{X: start, Y: low}, chart.Point{X: end, Y: high * 1.05}, scoredBand)
	p.Line("score", scores, chart.Style{Color: scoreColor, Width: 1.2})
	p.Line("threshold", bounds, chart.Style{Color: boundColor, Width: 1.4, Dashed: true})
	return p
}

// span returns the seconds of event time at which the anomaly begins and ends.
func (r *Report) span() (start, end float64) {
	return float64(r.Anomaly.Start.UnixMicro()) / 1e6, float64(r.Anomaly.End.UnixMicro()) / 1e6
}

// silencePanel draws a field before and after a silence.
func (r *Report) silencePanel(c int) *chart.Chart {
	s := r.Silence
	p := timePanel("samples before and after the silence", s.Fields[c])
	var points []chart.Point
	for i, sm := range s.Around {
		x := float64(sm.Time.UnixMicro()) / 1e6
		if i > 0 && s.Next != nil && sm.Time.Equal(s.Next.Time) {
			points = append(points, chart.Point{X: x, Y: math.NaN()}) // a gap
		}
		points = append(points, chart.Point{X: x, Y: float64(sm.Values[c])})
	}
	low, high, room := extent(points)
	start, end := r.span()
	p.Band("silent", chart.Point{X: start, Y: low - room}, chart.Point{X: end, Y: high + room}, scoredBand)
	p.Line("", points, chart.Style{Color: valueColor, Width: 1.2})
	return p
}

// gridPanel draws the cells of a grid, and around the regions that were found. The colour of a cell is its count, less the
// baseline's share of all counts.
func (e *Explanation) gridPanel() *chart.Chart {
	g, title, rate := e.Cells, "counts of the cells", 0.0
	if len(g.Baselines) > 0 {
		count, base := int64(0), int64(0)
		for i := range g.Counts {
			count, base = count+g.Counts[i], base+g.Baselines[i]
		}
		if base > 0 {
			rate = float64(count) / float64(base)
		}
		title = "counts of the cells, less what their baselines let expect"
	}
	excess := make([]float64, len(g.Counts))
	for i, v := range g.Counts {
		excess[i] = float64(v)
		if len(g.Baselines) > 0 {
			excess[i] -= rate * float64(g.Baselines[i])
		}
	}
	low, high := slices.Min(excess), slices.Max(excess)
	p := &chart.Chart{X: "column", Y: "row", Height: gridHeight}
	p.Title = fmt.Sprintf("%s\n%s, %s (blue) to %s (red)", e.title(), title, number(Number(low)), number(Number(high)))
	p.Cells(g.Columns, len(g.Counts)/g.Columns, func(column, row int) float64 { return excess[row*g.Columns+column] }, low, high)
	for _, r := range e.Regions {
		x0, x1 := float64(r.Columns[0]), float64(r.Columns[1]+1)
		y0, y1 := float64(r.Rows[0]), float64(r.Rows[1]+1)
		p.Line("", []chart.Point{{X: x0, Y: y0}, {X: x1, Y: y0}, {X: x1, Y: y1}, {X: x0, Y: y1}, {X: x0, Y: y0}},
			chart.Style{Color: "#000", Width: 2.5})
	}
	return p
}
