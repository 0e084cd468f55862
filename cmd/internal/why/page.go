package why

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"

	"odradek/cmd/internal/chart"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// section is an explanation on the page.
type section struct {
	Title, About string
	Tables       []table
}

// WriteHTML writes the report as one page that loads nothing else.
func (r *Report) WriteHTML(w io.Writer) error {
	var sections []section
	var add func(e *Explanation)
	add = func(e *Explanation) {
		if e == nil {
			return
		}
		sections = append(sections, section{e.title(), e.about(), e.tables()})
		for i := range e.Members {
			add(e.Members[i].Of)
		}
	}
	add(r.Explanation)
	var silence []string
	if r.Silence != nil {
		silence = r.Silence.lines()
	}
	err := page.Execute(w, map[string]any{
		"Title": r.Anomaly.summary(), "Facts": r.facts(), "Silence": silence, "Sections": sections,
		"Picture": template.HTML(chart.SVG(r.panels())), //nolint:gosec // SVG escapes its texts
	})
	if err != nil {
		return fmt.Errorf("why: %w", err)
	}
	return nil
}
