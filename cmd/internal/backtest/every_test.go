package backtest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestIntervalsOfTheDocs runs the example of docs/records.md: events become counts per minute, 0 where there is none.
func TestIntervalsOfTheDocs(t *testing.T) {
	text, err := os.ReadFile("../../../docs/records.md")
	if err != nil {
		t.Fatal(err)
	}
	example := regexp.MustCompile(`(?m)^export (ODRADEK_EVERY=.*)$`).FindSubmatch(text)
	if example == nil {
		t.Fatal("docs/records.md has no example of ODRADEK_EVERY")
	}
	c := settings(t, append([]string{"ODRADEK_DETECTOR_LEVEL_OP=value", "ODRADEK_DETECTOR_LEVEL_WINDOW=1"},
		strings.Fields(string(example[1]))...)...)
	start := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	counts := []int{3, 1, 0, 0, 2, 5, 1, 1}
	rows := "key,time,value\n"
	for minute, n := range counts {
		for i := range n {
			rows += fmt.Sprintf("login,%s,7\n", start.Add(time.Duration(minute)*time.Minute+time.Duration(i)*time.Second).Format(time.RFC3339))
		}
	}
	file := filepath.Join(t.TempDir(), "rows.csv")
	if err := os.WriteFile(file, []byte(rows), 0o600); err != nil {
		t.Fatal(err)
	}
	scores, s := scoresOf(t, c, file)
	var got []string
	for _, row := range scores["login"] {
		got = append(got, fmt.Sprint(row.at, " ", row.score))
	}
	var want []string
	for minute, n := range counts[:len(counts)-1] { // the last one is open
		want = append(want, fmt.Sprint(start.Add(time.Duration(minute)*time.Minute).Format(time.RFC3339), " ", n))
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the scores are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if s.Outcomes["aggregated"] != 13 {
		t.Errorf("outcomes %v", s.Outcomes)
	}
}
