package backtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"odradek/cmd/internal/table"
	"odradek/detectors/seedtest"
)

// runRows runs the detectors of settings over rows of the columns key, time and value.
func runRows(t *testing.T, rows []string, settings ...string) *Summary {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rows.csv")
	if err := os.WriteFile(path, []byte("key,time,value\n"+strings.Join(rows, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := detectorsOf(t, settings...)
	src, err := NewFiles([]string{path}, table.Options{Mapping: c.SchemaMapping()}, c.Series(), nil, "t", 3)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Run(t.Context(), configOf(t, c, src))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// level are the settings of a detector that judges each sample from the 64th on.
var level = []string{"DETECTORS=level", "DETECTOR_LEVEL_OP=zscore", "DETECTOR_LEVEL_WINDOW=64", "DETECTOR_LEVEL_THRESHOLD=fixed:8"}

func minutes(rng *rand.Rand, key string, n int) (rows []string) {
	for i := range n {
		rows = append(
			rows,
			fmt.Sprintf("%s,%s,%v", key, degenerateBegin.Add(time.Duration(i)*time.Minute).Format(time.RFC3339), rng.NormFloat64()),
		)
	}
	return rows
}

// TestNothingJudged: what was not judged is named with the reason, in place of no anomalies.
func TestNothingJudged(t *testing.T) {
	rng := seedtest.New(t)
	var missing []string
	for _, row := range minutes(rng, "a", 50) {
		missing = append(missing, row[:strings.LastIndex(row, ",")+1])
	}
	for _, c := range []struct {
		name     string
		rows     []string
		settings []string
		want     string
	}{
		{"all are judged", minutes(rng, "a", 500), nil, "level: 0 anomalies, 0.000 alarms per series-day"},
		{"too short", append(minutes(rng, "a", 20), minutes(rng, "b", 30)...), nil,
			"level: nothing was judged: b has 30 samples, and its first score comes with sample 64 at the earliest"},
		{"one of two", append(minutes(rng, "a", 500), minutes(rng, "b", 30)...), nil,
			"level: 0 anomalies, 0.000 alarms per series-day; 1 of 2 series were not judged: b has 30 samples, and its first score comes with " +
				"sample 64 at the earliest"},
		{"warm-up of the threshold", minutes(rng, "a", 70), []string{"DETECTOR_LEVEL_THRESHOLD=quantile:0.95*9", "DETECTOR_LEVEL_WARMUP=16"},
			"level: nothing was judged: a has 7 scores, too few for its threshold, which has a warm-up of 16"},
		{"no threshold", minutes(rng, "a", 500), []string{"DETECTOR_LEVEL_THRESHOLD=off"},
			"level: nothing was judged: its threshold is off"},
		{"other series", minutes(rng, "a", 500), []string{"DETECTOR_LEVEL_KEYS=b*"},
			"level: nothing was judged: it was given none of the 500 rows of a; of all rows were 500 filtered"},
		{"no rows", nil, nil, "level: nothing was judged: there are no samples"},
		{"no values", missing, nil,
			"level: nothing was judged: it was given none of the 50 rows of a; of all rows were 50 missing"},
	} {
		s := runRows(t, c.rows, append(slices.Clone(level), c.settings...)...)
		if lines := s.Lines(time.Second); len(lines) < 2 || lines[1] != c.want {
			t.Errorf("%s: %q, want %q", c.name, lines, c.want)
		}
		var page strings.Builder
		if err := s.WriteReport(&page, []string{"value"}, Report{}); err != nil {
			t.Fatal(err)
		}
		if _, why, explained := strings.Cut(c.want, "udged: "); explained && !strings.Contains(page.String(), why+".") {
			t.Errorf("%s: the report does not say %q", c.name, why)
		}
	}
}

// TestFaultsOfSeveralDetectors: what two detectors find of one spike is one fault, and a run of one detector has no line of it.
func TestFaultsOfSeveralDetectors(t *testing.T) {
	rows := minutes(seedtest.New(t), "a", 500)
	rows[300] = rows[300][:strings.LastIndex(rows[300], ",")] + ",1000"
	rows[400] = rows[400][:strings.LastIndex(rows[400], ",")] + ",9000"
	two := append(slices.Clone(level), "DETECTORS=level,again", "DETECTOR_AGAIN_OP=zscore", "DETECTOR_AGAIN_WINDOW=32",
		"DETECTOR_AGAIN_THRESHOLD=fixed:20")
	for _, c := range []struct {
		settings []string
		want     bool
	}{{two, true}, {level, false}} {
		s := runRows(t, rows, c.settings...)
		if slices.Contains(s.Lines(time.Second), "faults: 2, of 4 anomalies") != c.want || s.Faults != 2 {
			t.Errorf("%q: %d faults, %q", c.settings, s.Faults, s.Lines(time.Second))
		}
	}
}

// TestJudgedDays: one record whose clock is wrong, wherever it stands, changes the series-days by less than one
// hundredth, and days without records count.
func TestJudgedDays(t *testing.T) {
	rng := seedtest.New(t)
	rows := minutes(rng, "a", 3000)
	want := float64(3000-64) / 1440
	for _, at := range []int{0, 1, rng.IntN(3000), 1000, 2999} {
		for _, clock := range []string{"1970-01-21T12:00:00Z", "1970-01-01T00:00:01Z", "2026-03-01T00:00:00Z"} {
			wrong := slices.Clone(rows)
			wrong[at] = "a," + clock + ",0.5"
			s := runRows(t, wrong, append(slices.Clone(level), "DETECTOR_LEVEL_WINDOW=3")...)
			if got := s.Detectors[0].Days; math.Abs(got-3000.0/1440) > 3000.0/1440/100 && clock < "2026" || got > 3.1 {
				t.Errorf("row %d at %s: %v series-days", at, clock, got)
			}
		}
	}
	s := runRows(t, rows, level...)
	if got := s.Detectors[0].Days; math.Abs(got-want) > 1e-9 || s.Days != got {
		t.Errorf("%v series-days of the detector, %v in all, want %v of the scores that were judged", got, s.Days, want)
	}
	var bursts []string // of 200 samples, one a second, once a day
	for day := range 30 {
		for i := range 200 {
			bursts = append(bursts, fmt.Sprintf("a,%s,%v", degenerateBegin.AddDate(0, 0, day).Add(time.Duration(i)*time.Second).Format(time.RFC3339),
				rng.NormFloat64()))
		}
	}
	if got := runRows(t, bursts, level...).Days; math.Abs(got-29) > 0.1 {
		t.Errorf("30 days of a burst each are %v series-days", got)
	}
}
