package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"odradek/processor/kafkatest"
)

// TestLessonsOfRecordings holds what three labels of a kind teach the default preset on recorded series: at least 80 % of the later
// false alarms of that kind are removed, at most 2 % of the labelled anomalies lost, in the same series and in other ones. SMD has two
// machines here, so for the latter each of their fields is a series (docs/quality.md has the figures).
func TestLessonsOfRecordings(t *testing.T) {
	kafkatest.LongOnly(t)
	const same, other = 3, 6 // cells of the table
	for _, c := range []struct {
		set    string
		fields bool
		held   []int
	}{{"nab", false, []int{same, other}}, {"smd", false, []int{same}}, {"smd", true, []int{same, other}}} {
		t.Run(fmt.Sprint(c.set, " ", c.fields), func(t *testing.T) {
			dir := filepath.Join("..", "..", "..", "shared", "data", c.set)
			if files, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(files) == 0 {
				t.Skipf("no recorded series: ../shared/data/%s is absent", c.set)
			}
			var out, errs bytes.Buffer
			if code := (terminal{&out, &errs, nil}).score(t.Context(), []string{"-data", dir, "-feedback", "3",
				fmt.Sprint("-fields=", c.fields)}); code != exitOK {
				t.Fatalf("score ends with %d: %s", code, errs.String())
			}
			t.Log(out.String())
			for _, first := range c.held {
				if removed, lost := lessonsOf(t, out.String(), first); removed < 0.8 || lost > 0.02 {
					t.Errorf("cell %d: %.3f are removed and %.3f lost, want 0.8 at least and 0.02 at most", first, removed, lost)
				}
			}
		})
	}
}

// lessonsOf returns the shares of false alarms removed and of labelled anomalies lost, of all events that vary, from two cells.
func lessonsOf(t *testing.T, table string, first int) (removed, lost float64) {
	t.Helper()
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < first+2 || strings.TrimSpace(cells[1]) != "**all**" {
			continue
		}
		var shares [2]float64
		for i := range shares { // "134 of 151, 0.887 (0.840 to 0.930)"
			_, share, _ := strings.Cut(cells[first+i], ", ")
			share, _, _ = strings.Cut(share, " ")
			var err error
			if shares[i], err = strconv.ParseFloat(share, 64); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
		}
		return shares[0], shares[1]
	}
	t.Fatalf("no row of all events:\n%s", table)
	return 0, 0
}
