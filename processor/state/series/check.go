package series

import (
	"fmt"

	"odradek/detectors"
	"odradek/detectors/threshold"
)

// Check returns all faults of windows and detectors of samples of dim values.
func Check(dim int, windows []WindowConfig, dets []DetectorConfig) []error {
	c := check{dim: dim, windows: windows, dets: dets}
	prints := map[uint64]bool{}
	for i := range windows {
		w := &windows[i]
		c.window(i, w)
		if prints[w.Fingerprint] {
			c.bad("window %d has the fingerprint of another window", i)
		}
		prints[w.Fingerprint] = true
	}
	names := map[uint64]string{}
	for i := range dets {
		d := &dets[i]
		if other, ok := names[NameHash(d.Name)]; ok {
			c.bad("detector %d: the name %q is taken by %q", i, d.Name, other)
		}
		names[NameHash(d.Name)] = d.Name
		switch {
		case d.Ensemble != nil:
			c.ensemble(d)
		case d.Detector == nil:
			c.bad("detector %q is nil", d.Name)
		case d.Window < 0 || d.Window >= len(windows):
			c.bad("detector %q: window %d of %d", d.Name, d.Window, len(windows))
		default:
			c.rows(d)
		}
		if d.Window >= 0 && d.Window < len(windows) {
			w := &windows[d.Window]
			if d.Detector != nil {
				c.method(d, w)
			}
			if d.Scale {
				if why := Unscalable(d, w); why != "" {
					c.bad("detector %q cannot scale its fields: %s", d.Name, why)
				}
			}
		}
		c.alarm(d)
	}
	return c.faults
}

// check collects the faults of a configuration.
type check struct {
	dim     int
	windows []WindowConfig
	dets    []DetectorConfig
	faults  []error
}

func (c *check) bad(format string, args ...any) {
	c.faults = append(c.faults, fmt.Errorf(format, args...))
}

// window checks the i-th window by itself.
func (c *check) window(i int, w *WindowConfig) {
	if len(w.Columns) == 0 || len(w.Columns) > MaxDim {
		c.bad("window %d has %d columns, use 1 to %d", i, len(w.Columns), MaxDim)
	}
	for _, col := range w.Columns {
		if col < 0 || col >= c.dim {
			c.bad("window %d: column %d is not one of the %d values", i, col, c.dim)
		}
	}
	if w.Grid != nil {
		if err := w.Grid.Check(w.Columns, c.dim); err != nil {
			c.bad("window %d: %w", i, err)
		}
	}
}

// rows checks how many rows a detector reads.
func (c *check) rows(d *DetectorConfig) {
	switch {
	case d.Stride < 1 || d.Detector.Window() < 1 || d.Stride > MaxRows || d.Detector.Window() > MaxRows:
		c.bad("detector %q: window %d and stride %d, use 1 to %d", d.Name, d.Detector.Window(), d.Stride, MaxRows)
	case NewSetup(0, d, len(c.windows[d.Window].Columns)).MinRows == 0:
		c.bad("detector %q scores no sample of a full window of %d rows", d.Name, d.Detector.Window())
	}
}

// method checks a detector's method on its window.
func (c *check) method(d *DetectorConfig, w *WindowConfig) {
	columns := len(w.Columns)
	if w.Grid != nil {
		if n := w.Grid.Cells(); d.Stride != 1 || d.Detector.Window() != n || d.Detector.Op().Elem() != detectors.I64 {
			c.bad("detector %q: window %d and stride %d on a grid of %d cells, use a method of counts, all cells and 1",
				d.Name, d.Detector.Window(), d.Stride, n)
		}
	}
	if w.Incomplete && !takesIncomplete(d.Detector, columns) {
		c.bad("detector %q takes no rows with missing values", d.Name)
	}
	if m, ok := d.Detector.(detectors.Modelled); ok && len(m.Origin()) != columns {
		c.bad("detector %q has %d values a row, its model %d", d.Name, columns, len(m.Origin()))
	}
	if z, ok := d.Detector.(detectors.Summarizer); ok {
		if p := z.Summary(columns); p != nil {
			if err := p.Defaults(); err != nil {
				c.bad("detector %q: %w", d.Name, err)
			} else if p.Dim != columns || d.Detector.Op().Elem() != detectors.F32 || d.Detector.Window() < 2 {
				c.bad("detector %q: a summary is of rows of float32, and of a window of at least 2 rows", d.Name)
			}
		}
	}
}

// takesIncomplete reports whether a detector scores rows with missing values.
func takesIncomplete(d detectors.Detector, columns int) bool {
	if z, ok := d.(detectors.Summarizer); ok && z.Summary(columns) != nil {
		return false // of whole rows
	}
	_, ok := d.(detectors.Incomplete)
	return ok && d.Op().Elem() != detectors.I64
}

// alarm checks what becomes of a detector's scores.
func (c *check) alarm(d *DetectorConfig) {
	if d.Name == SilenceName {
		c.bad("detector %q: events of silence have this name: choose another one", d.Name)
	}
	if d.Smooth < 0 || d.Smooth > threshold.MaxSmoothing {
		c.bad("detector %q: a mean of %d scores, use 1 to %d", d.Name, d.Smooth, threshold.MaxSmoothing)
	}
	if d.Threshold != nil {
		if err := d.Threshold.Check(); err != nil {
			c.bad("detector %q: %w", d.Name, err)
		}
	}
	if d.Events == nil {
		return
	}
	if err := d.Events.Check(); err != nil {
		c.bad("detector %q: %w", d.Name, err)
	}
	if d.Threshold == nil {
		c.bad("detector %q has events but no threshold", d.Name)
	}
}

// ensemble checks an ensemble's members and its combination.
func (c *check) ensemble(d *DetectorConfig) {
	seen := map[int]bool{}
	for _, i := range d.Ensemble.Members {
		switch {
		case i < 0 || i >= len(c.dets):
			c.bad("ensemble %q: member %d of %d detectors", d.Name, i, len(c.dets))
			return
		case c.dets[i].Ensemble != nil:
			c.bad("ensemble %q: its member %q is an ensemble", d.Name, c.dets[i].Name)
		case c.gridOf(i) != nil:
			c.bad("ensemble %q: its member %q scores grids, not samples", d.Name, c.dets[i].Name)
		case seen[i]:
			c.bad("ensemble %q: %q is a member twice", d.Name, c.dets[i].Name)
		}
		seen[i] = true
	}
	for _, g := range d.Ensemble.Gates {
		if g.Detector < 0 || g.Detector >= len(c.dets) {
			c.bad("ensemble %q: gate of detector %d of %d", d.Name, g.Detector, len(c.dets))
			return
		}
		gate := &c.dets[g.Detector]
		if _, ok := gate.Detector.(detectors.Seasonal); !ok || c.gridOf(g.Detector) != nil {
			c.bad("ensemble %q: its gate %q knows no season", d.Name, gate.Name)
		}
	}
	if err := d.Ensemble.Combination(func(i int) *DetectorConfig { return &c.dets[i] }).Check(); err != nil {
		c.bad("ensemble %q: %w", d.Name, err)
	}
	if d.Detector != nil {
		c.bad("ensemble %q has a method of its own", d.Name)
	}
}

// gridOf returns the grid that a detector scores; nil: none.
func (c *check) gridOf(i int) *Grid {
	if w := c.dets[i].Window; w >= 0 && w < len(c.windows) {
		return c.windows[w].Grid
	}
	return nil
}
