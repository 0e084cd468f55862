package metrics

import (
	"regexp"
	"strings"
)

// The function of this file is for tests alone: this package's holds docs/metrics.md equal to a scrape, others compare
// alerts and dashboards with the page.

var documentedRow = regexp.MustCompile("(?m)^\\| `(odradek_[a-z_]+)` \\| ([a-z, ]*) ?\\|")

// Documented reads the tables of docs/metrics.md: by name the type of a metric, a space, and its labels, which ", " separates.
func Documented(page string) map[string]string {
	_, histograms, _ := strings.Cut(page, "\n## Histograms\n")
	histograms, _, _ = strings.Cut(histograms, "\n## ")
	list := map[string]string{}
	for _, row := range documentedRow.FindAllStringSubmatch(page, -1) {
		kind := "gauge"
		switch {
		case strings.HasSuffix(row[1], "_total"):
			kind = "counter"
		case strings.Contains(histograms, "`"+row[1]+"`"):
			kind = "histogram"
		}
		list[row[1]] = kind + " " + strings.TrimSpace(strings.Replace(row[2], "partition", "topic, partition", 1))
	}
	return list
}
