package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// docSettings are the settings that the tests of docs/records.md are of.
const docSettings = `
format: json
key_field: id
time_field: at
value_fields: [temp, bytes]
only_if: quality == "GOOD"
missing_if: [temp=-9999]
transform: [bytes=rate]
detectors: {level: {op: zscore, fields: [temp], window: 64, threshold: "fixed:8", close_after: 3}}
`

// docSuite writes the tests that docs/records.md shows, and the files that they name, and returns the path of the tests.
func docSuite(t *testing.T, change func(string) string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "records.md"))
	must(t, err)
	suite := regexp.MustCompile("(?s)```yaml\n(config: [^`]*tests:\n.*?)```").FindSubmatch(page)
	if suite == nil {
		t.Fatal("docs/records.md shows no tests")
	}
	dir := t.TempDir()
	rows := "id,at,temp,bytes,quality\n"
	for i := range 400 {
		temp := wave(i)
		if i == 320 {
			temp += 50
		}
		rows += fmt.Sprintf("a,2026-01-31T08:%02d:%02dZ,%v,%d,GOOD\n", i/6, i%6*10, temp, 10*i)
	}
	rows = strings.NewReplacer("T08:60:", "T09:00:", "T08:61:", "T09:01:", "T08:62:", "T09:02:", "T08:63:", "T09:03:", "T08:64:", "T09:04:",
		"T08:65:", "T09:05:", "T08:66:", "T09:06:").Replace(rows)
	for name, text := range map[string]string{"plant.yaml": docSettings, "spike.csv": rows, "plant_test.yaml": change(string(suite[1]))} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return filepath.Join(dir, "plant_test.yaml")
}

// TestSuite: worker test runs the tests that docs/records.md shows; where records, settings or expectations are others, it says what
// differs, in words.
func TestSuite(t *testing.T) {
	for name, x := range map[string]struct {
		from, to string
		code     int
		want     []string
	}{
		"as shown": {"", "", exitOK, []string{"ok    ", ": bad quality, no reading, a counter\n", "2 tests, 0 failed"}},
		"another value": {"{temp: 20.5, bytes: null}", "{temp: 20.6, bytes: 0}", exitFailed,
			[]string{"FAIL  ", "sample 1: want bytes=0, got missing\n", "sample 1: want temp=20.6, got 20.5\n", "ok    ", "2 tests, 1 failed"}},
		"another key": {"{key: a, values:", "{key: b, values:", exitFailed, []string{"sample 1: want key b, got a"}},
		"another time": {`time: "2026-01-31T08:00:10Z"`, `time: "2026-01-31T08:00:11Z"`, exitFailed,
			[]string{"want time 2026-01-31T08:00:11Z, got 2026-01-31T08:00:10Z"}},
		"no such value": {"values: {temp: 20.5,", "values: {tmp: 20.5,", exitFailed, []string{"the sample has no value tmp"}},
		"another reason": {"reason: truncated", "reason: bad_type", exitFailed,
			[]string{`sample 3: want the reason "bad_type", got line 3`}},
		"another outcome": {"- {outcome: filtered}", "- {outcome: read}", exitFailed,
			[]string{"sample 4: want read, got line 4: filtered: only_if"}},
		"one too many": {"  - {outcome: dead, reason: truncated}\n", "", exitFailed,
			[]string{"sample 3: not expected here: line 3: dead (truncated)", "2 tests, 1 failed"}},
		"one is missing": {"  - {outcome: filtered}\n", "  - {outcome: filtered}\n  - {key: a}\n", exitFailed,
			[]string{"sample 5: want read, key a, which is not there"}},
		"no anomaly": {`from: "2026-01-31T08:50:00Z"`, `from: "2026-01-31T08:56:00Z"`, exitFailed,
			[]string{"want at least 1 anomalies of detector level of key a from 2026-01-31T08:56:00Z", "got 0; there are 1 in all\n",
				"level of a from 2026-01-31T08:53:20Z"}},
		"no anomaly, by default one": {`from: "2026-01-31T08:50:00Z", to: "2026-01-31T09:00:00Z", at_least: 1, at_most: 1`,
			`from: "2026-01-31T08:58:00Z"`, exitFailed,
			[]string{"want at least 1 anomalies of detector level of key a from 2026-01-31T08:58:00Z, got 0"}},
		"too many": {"at_least: 1, at_most: 1", "at_most: 0", exitFailed, []string{"want at most 0 anomalies"}},
		"settings": {"tests:", "settings: {missing_if: [temp=7]}\ntests:", exitFailed,
			[]string{"sample 2: want missing, time 2026-01-31T08:00:10Z", "got line 2: read  a  2026-01-31T08:00:10Z  temp=-9999"}},
		"a fault of the settings": {"tests:", "settings: {only_if: quality =}\ntests:", exitUsage, []string{"ODRADEK_ONLY_IF"}},
		"an unknown word":         {"outcome: filtered", "outcom: filtered", exitFailed, []string{"outcom"}},
		"an unknown outcome":      {"outcome: filtered", "outcome: filter", exitFailed, []string{`no outcome "filter"`}},
		"rows in the file": {"file: spike.csv ", "csv: |\n    id,at,temp,bytes,quality\n    a,2026-01-31T08:55:00Z,1,1,BAD\n" +
			"  samples: [{outcome: filtered}]\n  #", exitFailed, []string{"got 0; there are 0 in all"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := docSuite(t, func(text string) string {
				if !strings.Contains(text, x.from) {
					t.Fatalf("no %q in\n%s", x.from, text)
				}
				return strings.Replace(text, x.from, x.to, 1)
			})
			term, out, errs := console("ODRADEK_MISSING=hold", "ODRADEK_NOTHING=1")
			code := term.test(t.Context(), []string{path})
			if code != x.code {
				t.Errorf("exit %d, want %d", code, x.code)
			}
			for _, want := range x.want {
				if !strings.Contains(out.String()+errs.String(), want) {
					t.Errorf("want %q in\n%s%s", want, out, errs)
				}
			}
		})
	}
}
