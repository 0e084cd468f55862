package backtest

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"strings"

	gonum "gonum.org/v1/plot"
	"gonum.org/v1/plot/palette/moreland"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// WriteHeatmaps writes the heatmaps of the drawn series into a folder, which it creates: a
// PNG and an SVG file for each series and detector.
func (s *Summary) WriteHeatmaps(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("backtests: heatmaps: %w", err)
	}
	for _, of := range s.plots {
		detectors := of.detectors()
		for d, h := range of.plot.heat {
			if h == nil {
				continue
			}
			path := filepath.Join(dir, fileName(text(of.name))+"-"+fileName(detectors[d]))
			if err := of.writeHeatmap(path, h, detectors[d]); err != nil {
				return fmt.Errorf("backtests: heatmap of %s: %w", text(of.name), err)
			}
		}
	}
	return nil
}

// fileName replaces what a file's name must not contain.
func fileName(name string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\:*?"<>|`, r) || r < ' ' {
			return '_'
		}
		return r
	}, name)
}

// Sizes of a heatmap's file.
const (
	heatWidth = 24 * vg.Centimeter
	heatTall  = 9 * vg.Centimeter
	heatBar   = 2.4 * vg.Centimeter // width of the colour scale
)

func (s *seriesTrack) writeHeatmap(path string, h *heat, detector string) error {
	picture := vgimg.New(heatWidth, heatTall)
	if err := s.drawHeatmap(draw.New(picture), h, detector); err != nil {
		return err
	}
	lines := vgsvg.New(heatWidth, heatTall)
	if err := s.drawHeatmap(draw.New(lines), h, detector); err != nil {
		return err
	}
	var pixels, text bytes.Buffer
	if _, err := (vgimg.PngCanvas{Canvas: picture}).WriteTo(&pixels); err != nil {
		return err
	}
	if _, err := lines.WriteTo(&text); err != nil {
		return err
	}
	// The cells and the scale are images of a pixel a cell, which the library leaves in
	// the proportions of their pixels.
	svg := bytes.ReplaceAll(text.Bytes(), []byte("<image "), []byte(`<image preserveAspectRatio="none" style="image-rendering:pixelated" `))
	return errors.Join(os.WriteFile(path+".png", pixels.Bytes(), 0o644), os.WriteFile(path+".svg", svg, 0o644)) //nolint:gosec // as the report
}

// grid adapts a heatmap to the plotting library: seconds of event time, and lengths.
type grid struct {
	*heat
	s       *seriesTrack
	buckets int
}

func (g grid) Dims() (columns, rows int) { return g.buckets, g.rows }
func (g grid) Z(column, row int) float64 { return g.distance(row, column) }
func (g grid) X(column int) float64      { return g.s.seconds(float64(column) + 0.5) }
func (g grid) Y(row int) float64 {
	return float64(g.Min) + float64(g.Max-g.Min)*float64(row)/float64(max(1, g.rows-1))
}
func (s *seriesTrack) seconds(b float64) float64 {
	return (float64(s.plot.begin) + b*float64(int64(1)<<s.plot.width)) / 1e6
}

func (s *seriesTrack) drawHeatmap(c draw.Canvas, h *heat, detector string) error {
	g := grid{h, s, s.buckets()}
	if g.buckets < 2 || g.rows < 2 {
		g = grid{h.twice(), s, max(2, g.buckets)} // the library wants two of each
	}
	scale := moreland.SmoothBlueRed()
	scale.SetMin(0)
	scale.SetMax(max(1e-9, h.most()))
	p := gonum.New()
	p.Title.Text = text(s.name) + ": discords of " + detector
	p.X.Tick.Marker = gonum.TimeTicks{Format: "2006-01-02\n15:04:05"}
	p.Y.Label.Text = "length, samples"
	cells := plotter.NewHeatMap(g, scale.Palette(heatColours))
	cells.Min, cells.Max, cells.Rasterized = 0, scale.Max(), true
	p.Add(cells)
	low, high := p.Y.Min, p.Y.Max
	for _, l := range s.labels {
		from, to := float64(l.From)/1e6, float64(l.To)/1e6
		around, err := plotter.NewPolygon(plotter.XYs{{X: from, Y: low}, {X: to, Y: low}, {X: to, Y: high}, {X: from, Y: high}})
		if err != nil {
			return fmt.Errorf("label: %w", err)
		}
		around.Color = nil
		around.LineStyle = draw.LineStyle{Color: color.RGBA{0x1f, 0x9d, 0x55, 0xff}, Width: vg.Points(0.8)}
		p.Add(around)
	}
	if len(s.labels) > 0 {
		p.X.Label.Text = "event time, UTC; green: labelled"
	} else {
		p.X.Label.Text = "event time, UTC"
	}
	bar := gonum.New()
	bar.HideX()
	bar.Y.Label.Text = "normalised distance"
	bar.Add(&plotter.ColorBar{ColorMap: scale, Vertical: true})
	p.Draw(draw.Crop(c, 0, -heatBar, 0, -0.2*vg.Centimeter))
	bar.Draw(draw.Crop(c, heatWidth-heatBar+0.2*vg.Centimeter, -0.4*vg.Centimeter, 0.9*vg.Centimeter, -0.8*vg.Centimeter))
	return nil
}

// twice returns the heatmap, with a single length twice.
func (h *heat) twice() *heat {
	if h.rows > 1 {
		return h
	}
	t := *h
	t.rows, t.Max, t.cells = 2, h.Min+1, append(append([]uint8(nil), h.cells...), h.cells...)
	return &t
}
