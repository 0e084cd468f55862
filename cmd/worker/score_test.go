package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"odradek/detectors/seedtest"
)

// dataSets has small recordings with labels.
const dataSets = "../../detectors/quality/testdata/"

// score runs the subcommand and returns its lines.
func score(t *testing.T, env []string, args ...string) []map[string]any {
	t.Helper()
	var out, errs bytes.Buffer
	if code := (terminal{&out, &errs, env}).score(context.Background(), append(args, "-json")); code != exitOK {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	var lines []map[string]any
	for dec := json.NewDecoder(&out); dec.More(); {
		var l map[string]any
		if err := dec.Decode(&l); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l)
	}
	return lines
}

var scoreEnv = []string{
	"ODRADEK_DETECTORS=near,level", "ODRADEK_DETECTOR_NEAR_OP=knn", "ODRADEK_DETECTOR_NEAR_WINDOW=128", "ODRADEK_DETECTOR_NEAR_K=3",
	"ODRADEK_DETECTOR_NEAR_EMBED=1",
	"ODRADEK_DETECTOR_NEAR_THRESHOLD=mad:100", "ODRADEK_DETECTOR_NEAR_CLOSE_AFTER=30", "ODRADEK_DETECTOR_LEVEL_OP=zscore",
	"ODRADEK_DETECTOR_LEVEL_WINDOW=64", "ODRADEK_DETECTOR_LEVEL_THRESHOLD=fixed:1e9",
}

// TestScoreOfACorpus scores a corpus in NAB's shape with one plain fault in each series: one detector finds
// them all at once, the other, which never says anything, has 0.
func TestScoreOfACorpus(t *testing.T) {
	rnd := seedtest.New(t)
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "labels"), 0o755); err != nil {
		t.Fatal(err)
	}
	windows := map[string][][2]string{}
	for s := range 3 {
		name := fmt.Sprintf("made/%d.csv", s)
		text := "timestamp,value\n"
		start := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
		at := 500 + rnd.IntN(300)
		for i := range 1000 {
			v := math.Sin(float64(i)/5) + 0.1*rnd.NormFloat64()
			if i >= at && i < at+20 {
				v += 30 // so that the first sample is the worst, and later ones are among their like
			}
			text += fmt.Sprintf("%s,%v\n", start.Add(time.Duration(i)*time.Minute).Format(time.DateTime), v)
		}
		stamp := func(i int) string {
			return start.Add(time.Duration(i)*time.Minute).Format(time.DateTime) + ".000000"
		}
		windows[name] = [][2]string{{stamp(at), stamp(at + 40)}}
		if err := os.MkdirAll(filepath.Join(dir, "data", "made"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "data", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, _ := json.Marshal(windows)
	if err := os.WriteFile(filepath.Join(dir, "labels", "combined_windows.json"), b, 0o644); err != nil {
		t.Fatal(err)
	}
	lines := score(t, scoreEnv, "-data", dir)
	if len(lines) != 3 || lines[0]["detector"] != "near" || lines[0]["format"] != "nab" {
		t.Fatalf("%v", lines)
	}
	near, level := lines[0]["nab"].(map[string]any)["standard"].(map[string]any), lines[1]["nab"].(map[string]any)["standard"].(map[string]any)
	if near["score"].(float64) < 90 || near["found"] != 3.0 || near["windows"] != 3.0 {
		t.Errorf("three plain faults: %v", near)
	}
	if level["score"] != 0.0 || level["configured"] != 0.0 || lines[1]["anomalies_opened"] != 0.0 {
		t.Errorf("a detector that says nothing: %v", lines[1])
	}
	if one := score(t, scoreEnv, "-data", dir, "-series", "1"); one[0]["series"] != 1.0 {
		t.Errorf("%v", one[0])
	}
}

func TestScoreOfTheOtherFormats(t *testing.T) {
	for _, set := range []string{"tcpd", "rows", "nab", "ucr"} {
		for _, l := range score(t, scoreEnv, "-data", dataSets+set) {
			if l["set"] != set || l["format"] != set {
				t.Errorf("%v", l)
			}
			if _, ok := l["covering"]; ok != (set == "tcpd") {
				t.Errorf("%s: %v", set, l)
			}
			if _, ok := l["auc_roc"]; ok == (set == "tcpd") {
				t.Errorf("%s: %v", set, l)
			}
		}
	}
}

// TestScoreOfUCR: the place of the highest score counts in series of the UCR archive, and nothing in the
// training part.
func TestScoreOfUCR(t *testing.T) {
	rnd := seedtest.New(t)
	dir := t.TempDir()
	for _, name := range []string{"1_found_600_900_910.txt", "2_elsewhere_600_1200_1210.txt"} {
		text := ""
		for i := range 1500 {
			v := math.Sin(float64(i)/5) + 0.05*rnd.NormFloat64()
			switch {
			case i >= 400 && i < 410:
				v += 9 * rnd.NormFloat64()
			case i >= 900 && i < 910:
				v += 3
			}
			text += fmt.Sprintln(v)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"ODRADEK_DETECTORS=shape", "ODRADEK_DETECTOR_SHAPE_OP=discord", "ODRADEK_DETECTOR_SHAPE_WINDOW=1000",
		"ODRADEK_DETECTOR_SHAPE_LENGTH=30"}
	if l := score(t, env, "-data", dir)[0]; l["format"] != "ucr" || l["series"] != 2.0 || l["ucr_found"] != 1.0 {
		t.Errorf("%v", l)
	}
}

// TestScoreOfSeveral: settings of how records become samples change nothing in a data set, whose samples are of no record.
func TestScoreOfSeveral(t *testing.T) {
	const set = dataSets + "nab"
	tested := func(env []string) (measures []map[string]any, scores string) {
		path := filepath.Join(t.TempDir(), "scores.csv")
		var out, errs bytes.Buffer
		code := terminal{&out, &errs, env}.backtest(t.Context(), []string{"-data", set, "-quiet", "-report", "", "-scores", path})
		b, err := os.ReadFile(path)
		if err != nil || code != exitOK {
			t.Fatalf("%v: backtest ends with %d, %v: %s", env, code, err, errs.String())
		}
		measures = score(t, env, "-data", set)
		for i := range measures {
			delete(measures[i], "seconds")
		}
		list := strings.Split(string(b), "\n") // several series at a time
		slices.Sort(list)
		return measures, strings.Join(list, "\n")
	}
	want, wantScores := tested(scoreEnv)
	for _, env := range [][]string{
		{"ODRADEK_SERIES_FIELDS=temperature,load"},
		{"ODRADEK_READINGS_FIELD=points", "ODRADEK_TIME_FIELD=points.at", "ODRADEK_VALUE_FIELDS=points.value"},
	} {
		got, scores := tested(append(slices.Clone(scoreEnv), env...))
		if a, b := fmt.Sprint(want), fmt.Sprint(got); a != b || scores != wantScores {
			t.Errorf("%v: %s, want %s; scores of %d bytes, want %d", env, b, a, len(scores), len(wantScores))
		}
	}
}

func TestScoreRefuses(t *testing.T) {
	f := func(want string, env []string, args ...string) {
		t.Helper()
		var out, errs bytes.Buffer
		if code := (terminal{&out, &errs, env}).score(context.Background(), args); code == exitOK || !strings.Contains(errs.String(), want) {
			t.Errorf("%v: exit %d, %q", args, code, errs.String())
		}
	}
	f("-data is needed", nil)
	f("no such file", nil, "-data", dataSets+"none")
	f("no data set", nil, "-data", dataSets+"nab/data")
	f("no series matches", nil, "-data", dataSets+"rows", "-series", "b")
	f("DETECTOR_CHANGE_STRIDE", []string{"ODRADEK_DETECTORS=change", "ODRADEK_DETECTOR_CHANGE_STRIDE=0"}, "-data", dataSets+"rows")
	f("SERIES_FIELDS makes each field a series of its own, and the 2 values of a sample of", []string{"ODRADEK_DETECTORS=change",
		"ODRADEK_SERIES_FIELDS=a,b"}, "-data", dataSets+"rows")
	f("mad:6", []string{"ODRADEK_DETECTORS=change", "ODRADEK_DETECTOR_CHANGE_THRESHOLD=mad"}, "-data", dataSets+"rows")
}

// Scores of other programs are judged and measured like a detector's: perfect ones have
// every measure at its best, and the buffers of VUS-PR are as for the values.
func TestScoreOfOtherPrograms(t *testing.T) {
	rnd := seedtest.New(t)
	dir, scores := t.TempDir(), t.TempDir()
	table := func(path, header string, row func(i int) string) {
		t.Helper()
		text := header + "\n"
		for i := range 800 {
			text += row(i) + "\n"
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a", "b"} {
		at := 500 + rnd.IntN(200)
		label := func(i int) int {
			if i >= at && i < at+10 {
				return 1
			}
			return 0
		}
		table(filepath.Join(dir, name+"_test.csv"), "x0,label", func(i int) string {
			return fmt.Sprintf("%v,%d", math.Sin(float64(i)/5), label(i))
		})
		table(filepath.Join(scores, name+".csv"), "oracle,noise", func(i int) string {
			oracle := fmt.Sprint(label(i))
			if i < 20 {
				oracle = ""
			}
			return fmt.Sprintf("%s,%v", oracle, rnd.Float64())
		})
	}
	env := []string{"ODRADEK_DETECTOR_ORACLE_THRESHOLD=fixed:0.5", "ODRADEK_DETECTOR_NOISE_THRESHOLD=fixed:2"}
	lines := score(t, env, "-data", dir, "-scores", scores)
	if len(lines) != 3 { // and all together
		t.Fatalf("%d lines", len(lines))
	}
	oracle, noise := lines[0], lines[1]
	if oracle["detector"] != "oracle" || oracle["average_precision"] != 1.0 ||
		oracle["found_anomalies"] != 2.0 || oracle["false_anomalies"] != 0.0 ||
		oracle["f1"] != 1.0 {
		t.Errorf("the labels as scores: %v", oracle)
	}
	if noise["found_anomalies"] != 0.0 || noise["average_precision"].(float64) > 0.5 {
		t.Errorf("random scores below the threshold: %v", noise)
	}
	var errs bytes.Buffer
	for text, want := range map[string]string{"oracle\n1\n": "use the same in all", "oracle,noise\n1,1\n": "one row a sample",
		"oracle,noise\n" + strings.Repeat("1,x\n", 800): "row 1, column noise"} {
		if err := os.WriteFile(filepath.Join(scores, "b.csv"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		errs.Reset()
		code := (terminal{&errs, &errs, env}).score(context.Background(), []string{"-data", dir, "-scores", scores})
		if code == exitOK || !strings.Contains(errs.String(), want) {
			t.Errorf("exit %d, %q; want %q", code, errs.String(), want)
		}
	}
}

// TestBacktestOfADataSet: `backtest -data` says what `score` says, and has a report besides.
func TestBacktestOfADataSet(t *testing.T) {
	text := func(command func(terminal) int) (int, string, string) {
		var out, errs bytes.Buffer
		code := command(terminal{&out, &errs, scoreEnv})
		return code, took.ReplaceAllString(out.String(), ", n s\n"), errs.String()
	}
	for _, set := range []string{"tcpd", "rows", "nab", "ucr"} {
		dir, page, anomalies := dataSets+set, filepath.Join(t.TempDir(), "r.html"), filepath.Join(t.TempDir(), "a.csv")
		_, want, _ := text(func(c terminal) int { return c.score(t.Context(), []string{"-data", dir}) })
		code, got, errs := text(func(c terminal) int {
			return c.backtest(t.Context(), []string{"-data", dir, "-quiet", "-report", page, "-anomalies", anomalies})
		})
		if code != exitOK || want == "" || !strings.HasSuffix(got, want) || got == want {
			t.Errorf("%s: exit %d, %s, %q, want at its end %q", set, code, errs, got, want)
		}
		b, err := os.ReadFile(page)
		if err != nil || !strings.Contains(string(b), "Measures of the data set") {
			t.Errorf("%s: %v; the page has no measures", set, err)
		}
		if b, err = os.ReadFile(anomalies); err != nil || len(b) == 0 {
			t.Errorf("%s: %v, no table of anomalies", set, err)
		}
	}
	for want, args := range map[string][]string{
		"exclude each other":        {"-data", "x", "-in", "y"},
		"is needed":                 {"-quiet"},
		"has labels of its own":     {"-data", "x", "-labels", "y"},
		"syntax error in pattern":   {"-data", "x", "-series", "["},
		"no such file":              {"-data", "x"},
		"no series matches":         {"-data", dataSets + "rows", "-series", "b"},
		"ODRADEK_EXECUTOR: \"gpu\"": {"-data", dataSets + "rows"},
	} {
		var out, errs bytes.Buffer
		env := scoreEnv
		if strings.Contains(want, "gpu") {
			env = append(env[:len(env):len(env)], "ODRADEK_EXECUTOR=gpu")
		}
		code := terminal{&out, &errs, env}.backtest(t.Context(), append(args, "-report", filepath.Join(t.TempDir(), "r.html")))
		if code == exitOK || out.Len() > 0 || !strings.Contains(errs.String(), want) {
			t.Errorf("%v: exit %d after %q, %q; want %q", args, code, out.String(), errs.String(), want)
		}
	}
}

// took is the time at the end of the first line of a data set's measures.
var took = regexp.MustCompile(`, [0-9]+ s\n`)
