package series

import "odradek/detectors"

// Unscalable returns why the rows of a detector on a window cannot be scaled (DetectorConfig.Scale); "" if they
// can: a method that takes the rows of one task alone, in their own units.
func Unscalable(d *DetectorConfig, w *WindowConfig) string {
	if d.Detector == nil {
		return "it has no rows"
	}
	columns := len(w.Columns)
	_, modelled := d.Detector.(detectors.Modelled)
	if z, ok := d.Detector.(detectors.Summarizer); ok && z.Summary(columns) != nil {
		return "its summary of what has left the window is not"
	}
	out, _ := d.Detector.Size(detectors.View{Dim: columns, Rows: detectors.TaskRows(d.Detector, d.Stride), Fresh: d.Stride})
	switch {
	case columns < 2:
		return "there is one field"
	case modelled:
		return "its reference set is not"
	case d.Detector.Op().Elem() != detectors.F32 || w.Incomplete || w.Grid != nil:
		return "the method has scales of its own"
	case out.Carry > 0:
		return "what it has learnt is not"
	}
	return ""
}
