package backtest

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"time"

	"odradek/detectors/quality"
	"odradek/detectors/threshold"
)

//go:embed report.html
var reportText string

var reportTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"moment": moment, "number": number, "count": count, "percent": func(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) },
	"band": threshold.Band, "seconds": func(s float64) string {
		return time.Duration(s * float64(time.Second)).Round(time.Second).String()
	},
}).Parse(reportText))

// Report has the content of the page besides the Summary.
type Report struct {
	*Summary
	Title    string
	Inputs   []string
	Settings []Setting
	Version  string
	Took     time.Duration
	Measures []quality.Result // of a data set
	Drawn    []Drawing
}

// Setting is a line of the table of settings.
type Setting struct{ Detector, Settings string }

// Drawing is a series with its plots.
type Drawing struct {
	Name      string
	From, To  string
	Samples   int64
	Panels    []Panel
	Heatmaps  []Panel // of detectors with heatmaps
	Anomalies int
}

// WriteReport writes a report as one HTML page without further files.
func (s *Summary) WriteReport(w io.Writer, fields []string, r Report) error {
	r.Summary = s
	for _, series := range s.plots {
		names := series.detectors()
		d := Drawing{Name: text(series.name), From: moment(series.first), To: moment(series.last), Samples: series.samples,
			Panels: series.panels(fields, names), Heatmaps: series.heatmaps(names)}
		for i := range series.dets {
			d.Anomalies += series.dets[i].anomalies
		}
		r.Drawn = append(r.Drawn, d)
	}
	if err := reportTemplate.Execute(w, &r); err != nil {
		return fmt.Errorf("backtest: write the report: %w", err)
	}
	return nil
}

// RowsPerSecond returns the rate of the run.
func (r *Report) RowsPerSecond() float64 { return float64(r.Rows) / max(1e-9, r.Took.Seconds()) }

// count writes a whole number with its thousands apart.
func count(n any) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return s
}
