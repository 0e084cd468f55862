package backtest

import (
	"fmt"
	"math"
	"strings"

	"odradek/cmd/internal/chart"
	"odradek/detectors"
	"odradek/detectors/discord"
	"odradek/processor/state"
)

// heat is the heatmap of a series by one detector: for each length, from the least on, and
// each bucket of the series' plot, the largest normalised distance of the discords that
// cover it, over all windows that were searched.
type heat struct {
	lengths discord.Lengths
	rows, n int
	cells   []uint8 // by rows, as in discord.Heatmap
}

const (
	heatRows   = 64   // most lengths with a row of their own
	heatSeries = 1000 // series of a lane that have heatmaps
	heatOfCell = 127. // steps of a cell for a normalised distance of 1
	heatHeight = 96   // in the report, in units of the SVG
)

// addHeatmap merges the heatmap of a window of detector d into the series'. It ignores blocks
// of other kinds, and treats the samples of the window as evenly spaced.
func (p *plot) addHeatmap(d detectors.Detector, stride int, r *state.BlockRow) error {
	if r.MediaType != discord.MediaType {
		return nil
	}
	var h discord.Heatmap
	if err := h.UnmarshalBinary(r.Data); err != nil {
		return fmt.Errorf("backtest: %w", err)
	}
	at := int(r.Detector)
	if p.heat[at] == nil {
		rows := min(h.Rows, heatRows)
		p.heat[at] = &heat{h.Lengths, rows, p.n, make([]uint8, rows*p.n)}
	}
	searched := h.Starts + h.Lengths.Min - 1
	samples := searched // of the task; a detector with a window has more than it searches
	if d.Window() > 1 {
		samples += stride - 1
	}
	each := float64(r.Until-r.About) / float64(max(1, samples-1))
	first := float64(r.About) + each*float64(samples-searched)
	wide := each * float64(h.Starts) / float64(h.Columns)
	for column := range h.Columns {
		from := p.bucket(int64(first + wide*float64(column)))
		to := p.bucket(int64(first + wide*float64(column+1)))
		from = min(from, p.bucket(int64(first+wide*float64(column)))) // the width may have doubled
		heat := p.heat[at]
		for row := range h.Rows {
			v := h.Cells[row*h.Columns+column]
			if v == 0 {
				continue
			}
			own := heat.cells[row*heat.rows/h.Rows*heat.n:]
			for i := from; i <= to; i++ {
				own[i] = max(own[i], v)
			}
		}
	}
	return nil
}

// halve merges the buckets in pairs.
func (h *heat) halve() {
	for from := 0; from < len(h.cells); from += h.n {
		l := h.cells[from : from+h.n]
		for i := range h.n / 2 {
			l[i] = max(l[2*i], l[2*i+1])
		}
		clear(l[h.n/2:])
	}
}

// most returns the largest normalised distance.
func (h *heat) most() float64 {
	most := uint8(1)
	for _, v := range h.cells {
		most = max(most, v)
	}
	return float64(most-1) / heatOfCell
}

// distance returns the normalised distance of a cell; NaN for none.
func (h *heat) distance(row, column int) float64 {
	if v := h.cells[row*h.n+column]; v > 0 {
		return float64(v-1) / heatOfCell
	}
	return math.NaN()
}

// heatPanel draws the heatmap of a detector for the report, below the scores and with their time axis.
func (s *seriesTrack) heatPanel(h *heat, name string) Panel {
	var b strings.Builder
	open(&b, heatHeight, "heatmap of "+name)
	buckets := s.buckets()
	fmt.Fprintf(&b, `<g transform="scale(%g %g)">%s</g>`, panelWidth/float64(buckets), heatHeight/float64(h.rows),
		chart.Cells(buckets, h.rows, func(column, row int) float64 { return h.distance(row, column) }, 0, h.most()))
	for _, l := range s.labels {
		band(&b, "mark", s.x(l.From), s.x(l.To), heatHeight)
	}
	b.WriteString("</svg>")
	return Panel{Title: fmt.Sprintf("discords of %s: lengths %d (below) to %d", name, h.lengths.Min, h.last()), Low: "normalised distance 0",
		Top: number(math.Round(h.most()*100) / 100), SVG: drawn(&b)}
}

// last returns the largest length.
func (h *heat) last() int {
	return h.lengths.Min + (h.lengths.Max-h.lengths.Min)/max(1, h.lengths.Step)*max(1, h.lengths.Step)
}

// heatmaps returns the panels of the report.
func (s *seriesTrack) heatmaps(detectors []string) (list []Panel) {
	for d, h := range s.plot.heat {
		if h != nil {
			list = append(list, s.heatPanel(h, detectors[d]))
		}
	}
	return list
}

// tellBlocks takes the blocks of tasks.
func (l *lane) tellBlocks(rows []state.BlockRow) error {
	for i := range rows {
		r := &rows[i]
		series := l.ofKey(r.Key)
		if series.plot == nil || series.plot.heat == nil {
			continue
		}
		d := &l.state.Detectors[r.Detector]
		if err := series.plot.addHeatmap(d.Detector, d.Stride, r); err != nil {
			return err
		}
	}
	return nil
}
