package backtest

import (
	"encoding/csv"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"odradek/cmd/internal/config"
	"odradek/cmd/internal/table"
	"odradek/detectors/seedtest"
)

// scoreRow is a row of a table of scores: its detector and time, the score's text and
// number.
type scoreRow struct {
	detector, at, text string
	score              float64
}

// tableOf runs files of rows in one partition and returns the rows of the table of scores or, with anomalies, of theirs.
func tableOf(t *testing.T, c *config.Config, paths []string, anomalies bool) ([][]string, *Summary) {
	t.Helper()
	src, err := NewFiles(paths, table.Options{Mapping: c.SchemaMapping()}, nil, nil, "t", 1)
	if err != nil {
		t.Fatal(err)
	}
	run := configOf(t, c, src)
	path := filepath.Join(t.TempDir(), "out.csv")
	ofScores, ofAnomalies := path, ""
	if anomalies {
		ofScores, ofAnomalies = "", path
	}
	if run.Out, err = NewOutputs(ofScores, ofAnomalies, 1, nil, false); err != nil {
		t.Fatal(err)
	}
	s, err := Run(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return all[1:], s
}

// scoresOf runs a file of rows in one partition and returns the scores of each series.
func scoresOf(t *testing.T, c *config.Config, file string) (map[string][]scoreRow, *Summary) {
	t.Helper()
	all, s := tableOf(t, c, []string{file}, false)
	var err error
	rows := map[string][]scoreRow{}
	for _, r := range all { // series_key, event_time, score_time, detector, score, ...
		row := scoreRow{detector: r[3], at: r[1], text: r[4], score: math.NaN()}
		if r[4] != "" {
			if row.score, err = strconv.ParseFloat(r[4], 64); err != nil {
				t.Fatal(err)
			}
		}
		rows[r[0]] = append(rows[r[0]], row)
	}
	return rows, s
}

// TestSeriesOfAllKinds runs what discords are not defined for, or only just, beside an
// ordinary series: one shorter than two of its subsequences, constants, gaps, a step by
// 1e9, a window of one period, an anomaly that comes twice. Every series ends, its scores
// are numbers in [0, 2], and the ordinary series has the scores that it has alone.
func TestSeriesOfAllKinds(t *testing.T) {
	const window, rows = 120, 700
	rnd := seedtest.New(t)
	noise := rand.New(rand.NewPCG(rnd.Uint64(), 2))
	series := map[string]func(i int) float64{
		"good":     func(i int) float64 { return math.Sin(float64(i)/5) + 0.1*noise.NormFloat64() },
		"short":    func(int) float64 { return rnd.NormFloat64() },
		"constant": func(int) float64 { return 7 },
		"gaps": func(i int) float64 {
			if i%50 < 3 || i > 400 && i < 500 {
				return math.NaN()
			}
			return rnd.NormFloat64()
		},
		"step": func(i int) float64 {
			if i >= rows/2 {
				return 1e9 + rnd.NormFloat64()
			}
			return rnd.NormFloat64()
		},
		"period": func(i int) float64 { return math.Sin(2 * math.Pi * float64(i) / window) },
		"twice": func(i int) float64 {
			if i%window >= 40 && i%window < 44 {
				return 5
			}
			return math.Sin(float64(i) * 0.7)
		},
	}
	values := map[string][]float64{}
	write := func(names ...string) string {
		var b strings.Builder
		b.WriteString("key,time,value\n")
		for i := range rows {
			for _, name := range names {
				if name == "short" && i >= 2*8-1 {
					continue
				}
				if len(values[name]) == i {
					values[name] = append(values[name], series[name](i))
				}
				text := ""
				if v := values[name][i]; v == v {
					text = strconv.FormatFloat(v, 'g', -1, 64)
				}
				fmt.Fprintf(&b, "%s,%d,%s\n", name, 1_700_000_000_000+i*1000, text)
			}
		}
		path := filepath.Join(t.TempDir(), "rows.csv")
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	// Lengths up to half of the window, which is the longest that has a neighbour in it.
	c := settings(t, "ODRADEK_DETECTORS=left,whole,tumbling", "ODRADEK_TIME_UNIT=ms",
		"ODRADEK_DETECTOR_LEFT_OP=discord", "ODRADEK_DETECTOR_LEFT_WINDOW=120", "ODRADEK_DETECTOR_LEFT_LENGTH=8",
		"ODRADEK_DETECTOR_LEFT_MAX_LENGTH=60",
		"ODRADEK_DETECTOR_WHOLE_OP=discords", "ODRADEK_DETECTOR_WHOLE_WINDOW=120", "ODRADEK_DETECTOR_WHOLE_MIN_LENGTH=3",
		"ODRADEK_DETECTOR_WHOLE_MAX_LENGTH=60", "ODRADEK_DETECTOR_WHOLE_LENGTH_STEP=19",
		"ODRADEK_DETECTOR_TUMBLING_OP=discords", "ODRADEK_DETECTOR_TUMBLING_WINDOW=120", "ODRADEK_DETECTOR_TUMBLING_MIN_LENGTH=60",
		"ODRADEK_DETECTOR_TUMBLING_MAX_LENGTH=60", "ODRADEK_DETECTOR_TUMBLING_TUMBLING=true", "ODRADEK_DETECTOR_TUMBLING_K=2")
	alone, _ := scoresOf(t, c, write("good"))
	got, s := scoresOf(t, c, write("short", "constant", "good", "gaps", "step", "period", "twice"))
	if a, b := fmt.Sprint(alone["good"]), fmt.Sprint(got["good"]); a != b {
		t.Error("the ordinary series has other scores than alone")
	}
	finite := map[string]map[string]int{}
	for name, list := range got {
		finite[name] = map[string]int{}
		for _, r := range list {
			switch {
			case r.score >= 0 && r.score <= 2:
				finite[name][r.detector]++
			case r.text != "":
				t.Errorf("%s of %s at %s is %s", r.detector, name, r.at, r.text)
			}
			if name == "constant" && r.score > 0 {
				t.Errorf("%s of constants at %s is %s", r.detector, r.at, r.text)
			}
		}
	}
	if n := finite["short"]; n["left"]+n["whole"]+n["tumbling"] > 0 || s.Series != 7 || s.Rows != 6*rows+15 {
		t.Errorf("scores of 15 samples %v; %d rows of %d series", n, s.Rows, s.Series)
	}
	missing := 0
	for _, v := range values["gaps"] {
		if v != v {
			missing++
		}
	}
	if s.Outcomes["missing"] != int64(missing) {
		t.Errorf("%d samples are missing, want %d", s.Outcomes["missing"], missing)
	}
	for _, name := range []string{"good", "constant", "step", "period", "twice", "gaps"} {
		least := rows - 2*window
		if name == "gaps" {
			least -= missing
		}
		if n := finite[name]; n["left"] < least || n["whole"] == 0 || n["tumbling"] == 0 {
			t.Errorf("%s has the scores %v", name, n)
		}
	}
}

// TestMisplaced: a row that a grid cannot count, a dead letter of the worker, is left out and named, and its series has no
// other rows.
func TestMisplaced(t *testing.T) {
	env := []string{"ODRADEK_DETECTORS=hot", "ODRADEK_DETECTOR_HOT_OP=scan", "ODRADEK_DETECTOR_HOT_FIELDS=x,y,n", "ODRADEK_VALUE_FIELDS=x,y,n",
		"ODRADEK_DETECTOR_HOT_WINDOW=16", "ODRADEK_DETECTOR_HOT_COLUMNS=4", "ODRADEK_DETECTOR_HOT_GRID=1m",
		"ODRADEK_DETECTOR_HOT_GRID_BOX=0,0,4,4", "ODRADEK_DETECTOR_HOT_GRID_LEARN=2"}
	c, faults, _ := config.Parse(env)
	if faults = config.FaultsOf(faults, []string{"DETECTOR"}); len(faults) > 0 {
		t.Fatal(faults)
	}
	file := filepath.Join(t.TempDir(), "grid.csv")
	if err := os.WriteFile(file, []byte("key,time,x,y,n\na,1,1,1,1\na,2,1,9,1\nb,3,-1,1,1\na,4,2,2,1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, s := scoresOf(t, c, file)
	if len(s.Troubles) != 2 || !strings.Contains(s.Troubles[0], "t/0 at offset 1: ") ||
		!strings.Contains(s.Troubles[1], "t/0 at offset 2: ") || s.Series != 1 || s.Outcomes["missing"] > 0 {
		t.Errorf("%d series, %v, left out: %q", s.Series, s.Outcomes, s.Troubles)
	}
}
