package keystate

import "odradek/processor/keystate/series"

// An ensemble has no tasks: it scores the rows of its members, warming-up ones included, in the
// order in which Apply makes them. That order does not depend on the batches, so its rows do not either. Its state
// of a series is a Trace, which a replay computes again from the members' scores.

// checkEnsemble reports the faults of an ensemble.
func (c *Config) checkEnsemble(d *series.DetectorConfig, bad func(format string, args ...any)) {
	stride, seen := 1, map[int]bool{}
	for _, i := range d.Ensemble.Members {
		switch {
		case i < 0 || i >= len(c.Detectors):
			bad("ensemble %q: member %d of %d detectors", d.Name, i, len(c.Detectors))
			return
		case c.Detectors[i].Ensemble != nil:
			bad("ensemble %q: its member %q is an ensemble", d.Name, c.Detectors[i].Name)
		case c.gridOf(i) != nil:
			bad("ensemble %q: its member %q scores grids, not samples", d.Name, c.Detectors[i].Name)
		case seen[i]:
			bad("ensemble %q: %q is a member twice", d.Name, c.Detectors[i].Name)
		}
		seen[i] = true
		stride = max(stride, c.Detectors[i].Stride)
	}
	if err := d.Ensemble.Combination(stride).Check(); err != nil {
		bad("ensemble %q: %w", d.Name, err)
	}
	if d.Detector != nil {
		bad("ensemble %q has a method of its own", d.Name)
	}
}

// gridOf returns the grid that a detector scores; nil: none.
func (c *Config) gridOf(i int) *series.Grid {
	if w := c.Detectors[i].Window; w >= 0 && w < len(c.Windows) {
		return c.Windows[w].Grid
	}
	return nil
}
