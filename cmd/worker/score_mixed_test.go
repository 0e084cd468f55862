package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"odradek/detectors/seedtest"
)

// A data set may have series of one and of several values, for which a preset has other detectors. Each series has the
// results that it has alone, whichever comes first.
func TestScoreOfMixedSeries(t *testing.T) {
	rnd := seedtest.New(t)
	dir := t.TempDir()
	write := func(name string, columns, rows int, labelled bool) {
		var b bytes.Buffer
		for c := range columns {
			fmt.Fprintf(&b, "v%d,", c)
		}
		b.WriteString("label\n")
		at := rows / 2
		for i := range rows {
			fault := labelled && i >= at && i < at+40
			for c := range columns {
				v := math.Sin(float64(i)/7+float64(c)) + 0.05*rnd.NormFloat64()
				if fault {
					v = 25 + rnd.NormFloat64()
				}
				fmt.Fprintf(&b, "%v,", v)
			}
			fmt.Fprintln(&b, map[bool]int{true: 1}[fault])
		}
		if err := os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	columns := map[string]int{"a": 1, "b": 3, "c": 1, "d": 2, "e": 3}
	for name, n := range columns {
		write(name+"_train.csv", n, 3000, false)
		write(name+"_test.csv", n, 1000, true)
	}
	preset := []string{"ODRADEK_PRESET=fast"}
	opened := map[string]float64{} // by detector
	for name := range columns {
		for _, l := range score(t, preset, "-data", dir, "-series", name) {
			opened[l["detector"].(string)] += l["anomalies_opened"].(float64)
		}
	}
	lines := score(t, preset, "-data", dir)
	var names []string
	for _, l := range lines {
		name := l["detector"].(string)
		names = append(names, name)
		if l["anomalies_opened"] != opened[name] && name != "all together" {
			t.Errorf("%s: %v anomalies of all series at once, %v of each alone", name, l["anomalies_opened"], opened[name])
		}
		want := 2.0 // series of one value
		if name == "near" || name == "all together" {
			want = 5
		}
		if l["series"] != want {
			t.Errorf("%s measures %v series, want %v", name, l["series"], want)
		}
	}
	if strings.Join(names, ",") != "near,shape,flat,all together" {
		t.Errorf("detectors %v", names)
	}
	if near := fmt.Sprint(lines[0]["settings"]); !strings.Contains(near, "of 1 values: OP=knn") || !strings.Contains(near, "EMBED=2") {
		t.Errorf("settings of near: %s", near)
	}
	for _, series := range []string{"*", "[be]", "[abe]"} { // series of several values first, and alone
		tables := t.TempDir()
		var out, errs bytes.Buffer
		code := terminal{&out, &errs, preset}.backtest(t.Context(), []string{"-data", dir, "-series", series, "-quiet", "-report",
			filepath.Join(tables, "r.html"), "-scores", filepath.Join(tables, "s.csv"), "-anomalies", filepath.Join(tables, "a.csv")})
		if code != exitOK {
			t.Fatalf("%s: exit %d: %s", series, code, errs.String())
		}
		scores, err := os.ReadFile(filepath.Join(tables, "s.csv"))
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]bool{} // by series and detector
		for line := range strings.Lines(string(scores)) {
			if f := strings.Split(line, ","); len(f) > 3 && columns[f[0]] > 0 {
				found[f[0]+" "+f[3]] = true
			}
		}
		for name, n := range columns {
			for _, d := range []string{"near", "shape", "flat"} {
				if want := (series == "*" || strings.Contains(series, name)) && (n == 1 || d == "near"); found[name+" "+d] != want {
					t.Errorf("-series %s: scores of %s on %s: %v", series, d, name, !want)
				}
			}
		}
	}
	var out, errs bytes.Buffer
	if code := (terminal{&out, &errs, preset}).score(t.Context(), []string{"-data", dir, "-rates"}); code != exitOK ||
		!strings.Contains(out.String(), "| shape |") {
		t.Errorf("rates: exit %d, %s%s", code, out.String(), errs.String())
	}
}

// A detector that has judged nothing says so, and why, in place of no anomalies.
func TestScoreOfNothing(t *testing.T) {
	var out, errs bytes.Buffer
	environ := []string{"ODRADEK_DETECTORS=long", "ODRADEK_DETECTOR_LONG_OP=discord", "ODRADEK_DETECTOR_LONG_WINDOW=9000",
		"ODRADEK_DETECTOR_LONG_LENGTH=4000"}
	for _, command := range []func(terminal) int{
		func(c terminal) int { return c.score(t.Context(), []string{"-data", dataSets + "nab"}) },
		func(c terminal) int {
			return c.backtest(t.Context(), []string{"-data", dataSets + "nab", "-quiet", "-report", filepath.Join(t.TempDir(), "r.html")})
		},
	} {
		out.Reset()
		if code := command(terminal{&out, &errs, environ}); code != exitOK || !strings.Contains(out.String(), "nothing was judged: ") ||
			strings.Contains(out.String(), "alarms per series-day") {
			t.Errorf("exit %d, %s%s", code, out.String(), errs.String())
		}
	}
}
