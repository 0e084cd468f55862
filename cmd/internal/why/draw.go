package why

import (
	"bytes"
	"cmp"
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"
	"strings"

	gonum "gonum.org/v1/plot"
	"gonum.org/v1/plot/palette/moreland"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"odradek/detectors"
)

// Sizes of a drawing.
const (
	width       = 26 * vg.Centimeter
	panelHeight = 6 * vg.Centimeter
	gridHeight  = 12 * vg.Centimeter
	headline    = 1.2 * vg.Centimeter
)

// Limits of a drawing.
const (
	mostFields     = 3       // drawn of a sample
	mostNeighbours = 8       // marked, or laid over the scored samples
	mostMembers    = 4       // drawn of an ensemble
	mostCells      = 1 << 12 // of a grid that are drawn one by one; more become an image
)

var (
	valueColor   = color.NRGBA{0x24, 0x58, 0xa6, 0xff}
	scoredColor  = color.NRGBA{0xd0, 0x34, 0x2c, 0xff}
	scoredBand   = color.NRGBA{0xd0, 0x34, 0x2c, 0x46}
	partBand     = color.NRGBA{0x1f, 0x9d, 0x55, 0x38}
	pastBand     = color.NRGBA{0x24, 0x58, 0xa6, 0x38}
	partColor    = color.NRGBA{0x1f, 0x9d, 0x55, 0xc0}
	scoreColor   = color.NRGBA{0x55, 0x60, 0x6e, 0xff}
	boundColor   = color.NRGBA{0xb2, 0x5a, 0x00, 0xff}
	expectColor  = color.NRGBA{0x8a, 0x2b, 0xe2, 0xff}
	pictureWhite = color.White
)

// panel is a plot of a drawing, and its height.
type panel struct {
	plot   *gonum.Plot
	height vg.Length
}

// WritePNG writes a drawing of the report, under a headline.
func (r *Report) WritePNG(w io.Writer) error {
	panels, err := r.panels()
	if err != nil {
		return err
	}
	first := panels[0].plot
	first.Title.Text = strings.TrimSpace(fmt.Sprintf("%s, %s\nscore %s\n%s", r.Anomaly.summary(), r.Anomaly.ID, r.verdict(), first.Title.Text))
	panels[0].height += headline
	c := vgimg.NewWith(vgimg.UseWH(width, height(panels)), vgimg.UseDPI(110), vgimg.UseBackgroundColor(pictureWhite))
	drawPanels(draw.New(c), panels)
	if _, err := (vgimg.PngCanvas{Canvas: c}).WriteTo(w); err != nil {
		return fmt.Errorf("explain: %w", err)
	}
	return nil
}

// svg returns a drawing of the report as an SVG element.
func (r *Report) svg() ([]byte, error) {
	panels, err := r.panels()
	if err != nil {
		return nil, err
	}
	c := vgsvg.New(width, height(panels))
	drawPanels(draw.New(c), panels)
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return nil, fmt.Errorf("explain: %w", err)
	}
	text := b.Bytes()
	if i := bytes.Index(text, []byte("<svg")); i > 0 {
		text = text[i:] // without the XML declaration
	}
	return bytes.ReplaceAll(text, []byte("<image "), []byte(`<image preserveAspectRatio="none" style="image-rendering:pixelated" `)), nil
}

func height(panels []panel) (sum vg.Length) {
	for _, p := range panels {
		sum += p.height
	}
	return sum
}

// drawPanels draws panels one below the other, with their axes aligned.
func drawPanels(c draw.Canvas, panels []panel) {
	top := c.Max.Y
	for _, p := range panels {
		area := c
		area.Min.Y, area.Max.Y = top-p.height, top
		area.Min.X, area.Max.X = c.Min.X+0.2*vg.Centimeter, c.Max.X-0.6*vg.Centimeter
		p.plot.Draw(area)
		top -= p.height
	}
}

func (r *Report) panels() (all []panel, err error) {
	add := func(p *gonum.Plot, tall vg.Length, fault error) {
		if fault != nil && err == nil {
			err = fmt.Errorf("explain: draw: %w", fault)
		}
		if p != nil {
			all = append(all, panel{p, tall})
		}
	}
	if e := r.Explanation; e != nil {
		e.addPanels(add)
		for i := range min(len(e.Members), mostMembers) {
			if of := e.Members[i].Of; of != nil {
				of.addPanels(add)
			}
		}
	}
	if len(r.History) > 0 {
		p, fault := r.historyPanel()
		add(p, panelHeight, fault)
	}
	if r.Silence != nil && len(r.Silence.Around) > 0 {
		for c := range min(len(r.Silence.Fields), mostFields) {
			p, fault := r.silencePanel(c)
			add(p, panelHeight, fault)
		}
	}
	if len(all) == 0 { // nothing was recomputed: the headline alone
		p := gonum.New()
		p.HideAxes()
		add(p, headline, nil)
	}
	return all, err
}

func (e *Explanation) addPanels(add func(*gonum.Plot, vg.Length, error)) {
	if len(e.Window) > 0 {
		for i, c := range e.drawnFields() {
			p, err := e.windowPanel(c)
			if p != nil && i > 0 {
				p.Title.Text = "" // the same as the first's
			}
			add(p, panelHeight, err)
			if from, to := e.Scored[0], e.Scored[1]; from >= 0 && to-from >= 2 && e.neighbours(to-from) > 0 {
				p, err := e.overlayPanel(c)
				add(p, panelHeight, err)
			}
		}
	}
	if len(e.Rows) > 0 {
		p, err := e.sharesPanel()
		add(p, panelHeight*2/3, err)
	}
	if e.Cells != nil && e.Cells.Columns > 1 && len(e.Cells.Counts) > e.Cells.Columns {
		p, err := e.gridPanel()
		add(p, gridHeight, err)
	}
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

// timePlot returns a plot over event time.
func timePlot(title, label string) *gonum.Plot {
	p := gonum.New()
	p.Title.Text = title
	p.Y.Label.Text = label
	p.X.Tick.Marker = gonum.TimeTicks{Format: "2006-01-02\n15:04:05"}
	p.Add(plotter.NewGrid())
	p.Legend.Top, p.Legend.Left = true, true
	return p
}

// addLine adds a line with gaps where a number is missing.
func addLine(p *gonum.Plot, name string, points plotter.XYs, of color.Color, thick vg.Length, dashed bool) error {
	first := true
	for from := 0; from < len(points); from++ {
		to := from
		for to < len(points) && finite(points[to].Y) {
			to++
		}
		if to > from {
			l, err := plotter.NewLine(points[from:to])
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			l.Color, l.Width = of, thick
			if dashed {
				l.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
			}
			p.Add(l)
			if first && name != "" {
				p.Legend.Add(name, l)
			}
			first = false
		}
		from = to
	}
	return nil
}

// addBand fills the times from one to another over the whole height.
func addBand(p *gonum.Plot, name string, from, to, low, high float64, fill color.Color) error {
	around, err := plotter.NewPolygon(plotter.XYs{{X: from, Y: low}, {X: to, Y: low}, {X: to, Y: high}, {X: from, Y: high}})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	around.Color, around.LineStyle = fill, draw.LineStyle{Color: fill, Width: vg.Points(0.8)}
	p.Add(around)
	if name != "" {
		p.Legend.Add(name, around)
	}
	return nil
}

// windowPanel draws a field of the window, with what was scored and what it was compared with.
func (e *Explanation) windowPanel(c int) (*gonum.Plot, error) {
	p := timePlot(e.title(), e.Fields[c])
	low, high := math.Inf(1), math.Inf(-1)
	points := make(plotter.XYs, len(e.Window))
	for i := range e.Window {
		points[i] = plotter.XY{X: e.seconds(i), Y: float64(e.Window[i].Values[c])}
		if v := points[i].Y; finite(v) {
			low, high = min(low, v), max(high, v)
		}
	}
	if c < len(e.Expected) && finite(float64(e.Expected[c])) {
		low, high = min(low, float64(e.Expected[c])), max(high, float64(e.Expected[c]))
	}
	if !(low <= high) {
		low, high = 0, 1
	}
	room := max(1e-9, (high-low)*0.05, math.Abs(high)*1e-6)
	low, high = low-room, high+room
	marked := map[string]bool{}
	for i := range e.Inputs {
		in := &e.Inputs[i]
		if i >= mostNeighbours || in.To < 0 || in.Last == nil {
			continue
		}
		name := in.Role
		if marked[name] {
			name = ""
		}
		marked[in.Role] = true
		fill := partBand
		if in.Role == detectors.Past {
			fill = pastBand
		}
		if err := addBand(p, name, e.seconds(in.From), e.seconds(in.To), low, high, fill); err != nil {
			return nil, err
		}
	}
	if e.Scored[1] >= 0 {
		if err := addBand(p, "scored", e.seconds(e.Scored[0]), e.seconds(e.Scored[1]), low, high, scoredBand); err != nil {
			return nil, err
		}
	}
	if err := addLine(p, "", points, valueColor, vg.Points(1), false); err != nil {
		return nil, err
	}
	own := float64(e.Sample.Time.UnixMicro()) / 1e6
	if e.Reading != nil {
		own = float64(e.Reading.UnixMicro()) / 1e6
	}
	if c < len(e.Expected) && finite(float64(e.Expected[c])) {
		if err := addDot(p, "expected", own, float64(e.Expected[c]), expectColor); err != nil {
			return nil, err
		}
	}
	if c < len(e.Actual) && finite(float64(e.Actual[c])) {
		if err := addDot(p, "measured", own, float64(e.Actual[c]), scoredColor); err != nil {
			return nil, err
		}
	}
	p.Y.Min, p.Y.Max = low, high
	return p, nil
}

func addDot(p *gonum.Plot, name string, x, y float64, of color.Color) error {
	dot, err := plotter.NewScatter(plotter.XYs{{X: x, Y: y}})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	dot.GlyphStyle = draw.GlyphStyle{Color: of, Radius: vg.Points(3.5), Shape: draw.CircleGlyph{}}
	p.Add(dot)
	p.Legend.Add(name, dot)
	return nil
}

// overlayPanel draws the scored samples over those of the nearest neighbours.
func (e *Explanation) overlayPanel(c int) (*gonum.Plot, error) {
	p := gonum.New()
	near := min(mostNeighbours, e.neighbours(e.Scored[1]-e.Scored[0]))
	p.Title.Text = fmt.Sprintf("%s: the scored samples, and the nearest %d", e.Detector, near)
	p.X.Label.Text, p.Y.Label.Text = "sample", e.Fields[c]
	p.Add(plotter.NewGrid())
	p.Legend.Top, p.Legend.Left = true, true
	course := func(from, to int) plotter.XYs {
		points := plotter.XYs{}
		for i := from; i <= to; i++ {
			points = append(points, plotter.XY{X: float64(i - from), Y: float64(e.Window[i].Values[c])})
		}
		return points
	}
	from, to := e.Scored[0], e.Scored[1]
	name, drawn := "neighbours", 0
	for i := range e.Inputs {
		in := &e.Inputs[i]
		if in.From < 0 || in.To-in.From != to-from || in.To >= len(e.Window) || drawn == mostNeighbours {
			continue
		}
		if err := addLine(p, name, course(in.From, in.To), partColor, vg.Points(0.8), false); err != nil {
			return nil, err
		}
		name = ""
		drawn++
	}
	return p, addLine(p, "scored", course(from, to), scoredColor, vg.Points(2), false)
}

// sharesPanel draws where in time the present differs from the past.
func (e *Explanation) sharesPanel() (*gonum.Plot, error) {
	p := timePlot(e.Detector+": where the present differs from the past", "share, %")
	points := plotter.XYs{}
	for i, v := range e.Rows {
		if k := e.RowsFrom + i; k >= 0 && k < len(e.Window) {
			points = append(points, plotter.XY{X: e.seconds(k), Y: 100 * float64(v)})
		}
	}
	p.Y.Min = 0
	return p, addLine(p, "", points, scoredColor, vg.Points(1.2), false)
}

// historyPanel draws the detector's scores and thresholds.
func (r *Report) historyPanel() (*gonum.Plot, error) {
	p := timePlot("scores of "+r.Anomaly.Detector, "score")
	scores, bounds := plotter.XYs{}, plotter.XYs{}
	low, high, most := math.Inf(1), math.Inf(-1), 0.0
	for _, h := range r.History {
		x := float64(h.Time.UnixMicro()) / 1e6
		scores = append(scores, plotter.XY{X: x, Y: float64(h.Score)})
		bounds = append(bounds, plotter.XY{X: x, Y: float64(h.Threshold)})
		if v := float64(h.Score); finite(v) {
			low, high = min(low, v), max(high, v)
		}
		if v := float64(h.Threshold); finite(v) {
			most = max(most, v)
		}
	}
	if !(low <= high) {
		low, high = 0, 1
	}
	low, high = min(low, 0), max(high, most)
	begin := float64(r.Anomaly.Start.UnixMicro()) / 1e6
	end := float64(r.Anomaly.End.UnixMicro()) / 1e6
	if last := scores[len(scores)-1].X; end > last {
		end = last
	}
	if err := addBand(p, "anomaly", max(begin, scores[0].X), end, low, high*1.05, scoredBand); err != nil {
		return nil, err
	}
	if err := addLine(p, "score", scores, scoreColor, vg.Points(1), false); err != nil {
		return nil, err
	}
	return p, addLine(p, "threshold", bounds, boundColor, vg.Points(1.2), true)
}

// silencePanel draws a field before and after a silence.
func (r *Report) silencePanel(c int) (*gonum.Plot, error) {
	s := r.Silence
	p := timePlot("samples before and after the silence", s.Fields[c])
	low, high := math.Inf(1), math.Inf(-1)
	points := plotter.XYs{}
	for i, sm := range s.Around {
		v := float64(sm.Values[c])
		if finite(v) {
			low, high = min(low, v), max(high, v)
		}
		if i > 0 && s.Next != nil && sm.Time.Equal(s.Next.Time) {
			points = append(points, plotter.XY{X: float64(sm.Time.UnixMicro()) / 1e6, Y: math.NaN()}) // a gap
		}
		points = append(points, plotter.XY{X: float64(sm.Time.UnixMicro()) / 1e6, Y: v})
	}
	if !(low <= high) {
		low, high = 0, 1
	}
	room := max(1e-9, (high-low)*0.05, math.Abs(high)*1e-6)
	begin, end := float64(r.Anomaly.Start.UnixMicro())/1e6, float64(r.Anomaly.End.UnixMicro())/1e6
	if err := addBand(p, "silent", begin, end, low-room, high+room, scoredBand); err != nil {
		return nil, err
	}
	return p, addLine(p, "", points, valueColor, vg.Points(1), false)
}

// cellGrid adapts the cells of a grid to the plotting library: the colour is the count, less the baseline's share of all counts.
type cellGrid struct {
	*Cells
	rate float64 // counts for each of the baseline
}

func (g cellGrid) Dims() (columns, rows int) { return g.Columns, len(g.Counts) / g.Columns }
func (g cellGrid) X(column int) float64      { return float64(column) + 0.5 }
func (g cellGrid) Y(row int) float64         { return float64(row) + 0.5 }
func (g cellGrid) Z(column, row int) float64 {
	i := row*g.Columns + column
	z := float64(g.Counts[i])
	if len(g.Baselines) > 0 {
		z -= g.rate * float64(g.Baselines[i])
	}
	return z
}

// gridPanel draws the cells of a grid, and around the regions that were found.
func (e *Explanation) gridPanel() (*gonum.Plot, error) {
	g := cellGrid{Cells: e.Cells}
	title := "counts of the cells"
	if len(g.Baselines) > 0 {
		count, base := int64(0), int64(0)
		for i := range g.Counts {
			count, base = count+g.Counts[i], base+g.Baselines[i]
		}
		if g.rate = 0; base > 0 {
			g.rate = float64(count) / float64(base)
		}
		title = "counts of the cells, less what their baselines let expect"
	}
	low, high := math.Inf(1), math.Inf(-1)
	columns, rows := g.Dims()
	for c := range columns {
		for r := range rows {
			low, high = min(low, g.Z(c, r)), max(high, g.Z(c, r))
		}
	}
	scale := moreland.SmoothBlueRed()
	scale.SetMin(low)
	scale.SetMax(max(high, low+1e-9))
	p := gonum.New()
	p.Title.Text = fmt.Sprintf("%s\n%s, %s (blue) to %s (red)", e.title(), title, number(Number(low)), number(Number(high)))
	p.X.Label.Text, p.Y.Label.Text = "column", "row"
	cells := plotter.NewHeatMap(g, scale.Palette(255))
	cells.Min, cells.Max, cells.Rasterized = low, scale.Max(), len(g.Counts) > mostCells
	p.Add(cells)
	for _, r := range e.Regions {
		x0, x1 := float64(r.Columns[0]), float64(r.Columns[1]+1)
		y0, y1 := float64(r.Rows[0]), float64(r.Rows[1]+1)
		around, err := plotter.NewLine(plotter.XYs{{X: x0, Y: y0}, {X: x1, Y: y0}, {X: x1, Y: y1}, {X: x0, Y: y1}, {X: x0, Y: y0}})
		if err != nil {
			return nil, fmt.Errorf("region: %w", err)
		}
		around.Color, around.Width = color.Black, vg.Points(2)
		p.Add(around)
	}
	return p, nil
}
