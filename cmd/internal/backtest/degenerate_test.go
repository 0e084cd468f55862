package backtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"odradek/cmd/internal/config"
	"odradek/detectors/seedtest"
)

// sample is a value of a series at a time; NaN is a missing one.
type sample struct {
	at    time.Time
	value float64
}

// found is an anomaly of a table.
type found struct {
	detector string
	severity int
	start    time.Time
}

// anomaliesOf runs series, each in a file of its own, and returns the anomalies of each, and the run's summary.
func anomaliesOf(t *testing.T, c *config.Config, series map[string][]sample) (map[string][]found, *Summary) {
	t.Helper()
	dir := t.TempDir()
	var paths []string
	for name, samples := range series {
		var b strings.Builder
		b.WriteString("key,time,value\n")
		for _, s := range samples {
			text := ""
			if s.value == s.value {
				text = strconv.FormatFloat(s.value, 'g', -1, 64)
			}
			fmt.Fprintf(&b, "%s,%s,%s\n", name, s.at.Format(time.RFC3339), text)
		}
		path := filepath.Join(dir, fmt.Sprintf("rows-%d.csv", len(paths)))
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	all, s := tableOf(t, c, paths, true)
	var err error
	anomalies := map[string][]found{}
	for _, r := range all { // id, series_key, detector, severity, band, start, ...
		a := found{detector: r[2]}
		if a.severity, err = strconv.Atoi(r[3]); err != nil {
			t.Fatal(err)
		}
		if a.start, err = time.Parse(time.RFC3339, r[5]); err != nil {
			t.Fatal(err)
		}
		anomalies[r[1]] = append(anomalies[r[1]], a)
	}
	return anomalies, s
}

var degenerateBegin = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// each returns n samples at a distance.
func each(n int, step time.Duration, value func(i int) float64) (all []sample) {
	for i := range n {
		all = append(all, sample{degenerateBegin.Add(time.Duration(i) * step), value(i)})
	}
	return all
}

// TestFirstStepOfAConstant: a series that has been constant for weeks has no anomaly as long as it is, and its first
// step, to the next number or by the resolution of its sensor, none of a severity of 100, with any preset.
func TestFirstStepOfAConstant(t *testing.T) {
	const constant, rows = 3500, 4000
	series := map[string][]sample{}
	for name, c := range map[string][2]float64{
		"next of 0": {0, math.SmallestNonzeroFloat64}, "next of 7": {7, math.Nextafter(7, 8)}, "next of 1e9": {1e9, math.Nextafter(1e9, 2e9)},
		"a tenth": {21.5, 21.6}, "back": {7, 7}, "down": {1e6, 1e6 - 1},
	} {
		series[name] = each(rows, 5*time.Minute, func(i int) float64 {
			if i < constant || name == "back" && i >= constant+1 {
				return c[0]
			}
			return c[1]
		})
	}
	series["back"][constant].value = 7.25
	for _, preset := range []string{"default", "fast", "sensitive", "vector", "change"} {
		all, _ := anomaliesOf(t, detectorsOf(t, "PRESET="+preset), series)
		for name := range series {
			for _, a := range all[name] {
				if a.severity > 90 {
					t.Errorf("%s, %s: severity %d of %s", preset, name, a.severity, a.detector)
				}
				reach := 64
				if a.detector == "past" || a.detector == "both" {
					reach = 150 + 2*32 // the longest subsequence, and a mean of three scores, each of 32 samples
				}
				if a.start.Before(series[name][constant-reach].at) {
					t.Errorf("%s, %s: an anomaly of %s at %v", preset, name, a.detector, a.start)
				}
			}
			if len(all[name]) == 0 && name == "a tenth" {
				t.Errorf("%s: nothing of the first step after %d equal samples", preset, constant)
			}
		}
	}
}

// detectorsOf returns a configuration of detectors by settings without the prefix.
func detectorsOf(t *testing.T, list ...string) *config.Config {
	t.Helper()
	var env []string
	for _, s := range list {
		env = append(env, "ODRADEK_"+s)
	}
	c, faults, _ := config.Parse(env)
	if faults = config.FaultsOf(faults, []string{"DETECTOR", "PRESET"}); len(faults) > 0 {
		t.Fatal(faults)
	}
	return c
}

// rush is a load that rises in the morning and falls in the evening of a zone's days, but for Sundays.
func rush(rng *rand.Rand, zone *time.Location, at time.Time) float64 {
	v := 10 + 0.3*rng.NormFloat64()
	if local := at.In(zone); local.Weekday() != time.Sunday && local.Hour() >= 8 && local.Hour() < 18 {
		v += 40
	}
	return v
}

func berlin(t *testing.T) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// TestChangeOfTheClock: a load that follows local time has no anomaly when the clock changes if the season has its
// zone, and has one in every morning and evening after that if it has not.
func TestChangeOfTheClock(t *testing.T) {
	zone, rng := berlin(t), seedtest.New(t)
	change := time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC)
	start := change.AddDate(0, 0, -42)
	var samples []sample
	for at := start; at.Before(change.AddDate(0, 0, 5)); at = at.Add(10 * time.Minute) {
		samples = append(samples, sample{at, rush(rng, zone, at)})
	}
	after := func(zone string) (n int) {
		c := detectorsOf(t, "DETECTORS=week", "DETECTOR_WEEK_OP=season", "DETECTOR_WEEK_PERIOD=week", "DETECTOR_WEEK_BINS=168",
			"DETECTOR_WEEK_ZONE="+zone, "DETECTOR_WEEK_THRESHOLD=fixed:8", "DETECTOR_WEEK_CLOSE_AFTER=2")
		all, s := anomaliesOf(t, c, map[string][]sample{"load": samples})
		for _, a := range all["load"] {
			if !a.start.Before(change.AddDate(0, 0, -7)) {
				n++
			}
		}
		if s.Outcomes["scored"] < int64(4*7*144) {
			t.Errorf("%s: %v", zone, s.Outcomes)
		}
		return n
	}
	if n := after("Europe/Berlin"); n > 0 {
		t.Errorf("%d anomalies around the change of the clock", n)
	}
	if n := after("UTC"); n < 8 {
		t.Errorf("only %d anomalies of five mornings and evenings that come an hour early: the test shows too little", n)
	}
}

// TestGapOfDays: after a gap of eleven days, which ends at another time of day, histories in time and numbers of
// alarms a day go on, and the season is where it is: nothing ordinary is an anomaly, and a fault is one.
func TestGapOfDays(t *testing.T) {
	zone, rng := berlin(t), seedtest.New(t)
	gap, end := degenerateBegin.AddDate(0, 0, 28), degenerateBegin.AddDate(0, 0, 39).Add(9*time.Hour)
	fault := end.AddDate(0, 0, 2).Add(2*time.Hour + 30*time.Minute)
	var samples []sample
	for at := degenerateBegin; at.Before(end.AddDate(0, 0, 3)); at = at.Add(10 * time.Minute) {
		if at.Before(gap) || !at.Before(end) {
			v := rush(rng, zone, at)
			if !at.Before(fault) && at.Before(fault.Add(time.Hour)) {
				v += 15
			}
			samples = append(samples, sample{at, v})
		}
	}
	c := detectorsOf(t, "DETECTORS=week,daily,near", "DETECTOR_WEEK_OP=season", "DETECTOR_WEEK_PERIOD=week", "DETECTOR_WEEK_BINS=168",
		"DETECTOR_WEEK_ZONE=Europe/Berlin", "DETECTOR_WEEK_HISTORY=3d", "DETECTOR_WEEK_THRESHOLD=mad:12", "DETECTOR_WEEK_CLOSE_AFTER=2",
		"DETECTOR_DAILY_OP=season", "DETECTOR_DAILY_PERIOD=week", "DETECTOR_DAILY_ZONE=Europe/Berlin", "DETECTOR_DAILY_HISTORY=14d",
		"DETECTOR_DAILY_ALARMS_PER_DAY=0.1", "DETECTOR_DAILY_CLOSE_AFTER=2",
		"DETECTOR_NEAR_OP=knn", "DETECTOR_NEAR_HISTORY=14d:1024", "DETECTOR_NEAR_ALARMS_PER_DAY=0.2", "DETECTOR_NEAR_CLOSE_AFTER=20")
	all, s := anomaliesOf(t, c, map[string][]sample{"load": samples})
	before, hits := map[string]int{}, map[string]int{}
	for _, a := range all["load"] {
		switch {
		case a.start.Before(end):
		case a.start.Before(fault.Add(-3 * time.Hour)):
			before[a.detector]++
		case a.start.Before(fault.Add(time.Hour)):
			hits[a.detector]++
		}
	}
	t.Log(before, hits, s.Outcomes)
	for _, d := range []string{"week", "daily", "near"} {
		if before[d] > 2 { // in two days, at an alarm in ten or five days or a bound far from ordinary
			t.Errorf("%s: %d anomalies of ordinary samples after the gap", d, before[d])
		}
		if hits[d] == 0 {
			t.Errorf("%s: nothing of the fault after the gap", d)
		}
	}
}

// TestSeasonLongerThanTheSeries: with a week's season, a series of six days has no more anomalies than its rate
// allows, and one of four weeks is judged by a history much shorter than the season.
func TestSeasonLongerThanTheSeries(t *testing.T) {
	zone, rng := berlin(t), seedtest.New(t)
	samplesOf := func(days int) []sample {
		return each(days*144, 10*time.Minute, func(i int) float64 {
			at := degenerateBegin.Add(time.Duration(i) * 10 * time.Minute)
			v := rush(rng, zone, at)
			if i >= 144*(days-2)+72 && i < 144*(days-2)+78 {
				v += 500
			}
			return v
		})
	}
	c := detectorsOf(t, "DETECTORS=week", "DETECTOR_WEEK_OP=season", "DETECTOR_WEEK_PERIOD=week", "DETECTOR_WEEK_ZONE=Europe/Berlin",
		"DETECTOR_WEEK_HISTORY=64", "DETECTOR_WEEK_THRESHOLD=conformal:0.01")
	all, _ := anomaliesOf(t, c, map[string][]sample{"short": samplesOf(6)})
	if n := len(all["short"]); n > 6*144/100 { // samples of an hour are compared with those before them
		t.Errorf("six days of a week: %d anomalies at a rate of 0.01: %v", n, all["short"])
	}
	all, s := anomaliesOf(t, c, map[string][]sample{"long": samplesOf(28)})
	fault := degenerateBegin.Add(time.Duration(144*26+72) * 10 * time.Minute)
	// An alarm at the rate of 0.01 just before the fault can begin the same anomaly.
	hit := false
	for _, a := range all["long"] {
		hit = hit || !a.start.After(fault) && fault.Sub(a.start) <= time.Hour && a.severity >= 90
	}
	if !hit || s.Outcomes["scored"] == 0 {
		t.Errorf("four weeks: no anomaly at %v: %v, %v", fault, all["long"], s.Outcomes)
	}
}

// TestOneValueADay: a fault in more than three years of a value a day is found, by presets and with a few alarms a year.
func TestOneValueADay(t *testing.T) {
	rng := seedtest.New(t)
	const days, fault = 1300, 1250
	samples := each(days, 24*time.Hour, func(i int) float64 {
		v := 100 + 10*math.Sin(2*math.Pi*float64(i)/7) + rng.NormFloat64()
		if i >= fault && i < fault+3 {
			v += 60
		}
		return v
	})
	perYear := detectorsOf(t, "DETECTORS=near,week,level", "DETECTOR_NEAR_OP=knn", "DETECTOR_NEAR_EMBED=7", "DETECTOR_NEAR_HISTORY=730d",
		"DETECTOR_NEAR_ALARMS_PER_DAY=0.01", "DETECTOR_WEEK_OP=season", "DETECTOR_WEEK_PERIOD=week", "DETECTOR_WEEK_BINS=7",
		"DETECTOR_WEEK_HISTORY=365d:256", "DETECTOR_WEEK_ALARMS_PER_DAY=0.005", "DETECTOR_LEVEL_OP=zscore", "DETECTOR_LEVEL_WINDOW=28",
		"DETECTOR_LEVEL_ALARMS_PER_DAY=0.01")
	for name, c := range map[string]*config.Config{
		"default": detectorsOf(t, "PRESET=default"), "sensitive": detectorsOf(t, "PRESET=sensitive"), "a year": perYear,
	} {
		all, s := anomaliesOf(t, c, map[string][]sample{"daily": samples})
		other, hits := 0, map[string]bool{}
		for _, a := range all["daily"] {
			if i := int(a.start.Sub(degenerateBegin) / (24 * time.Hour)); i > fault-64 && i < fault+3 {
				hits[a.detector] = true
			} else {
				other++
			}
		}
		t.Log(name, other, hits, s.Outcomes)
		if len(hits) == 0 || name == "a year" && len(hits) < 3 || other > 30 {
			t.Errorf("%s: found by %v, %d others, %v", name, hits, other, s.Outcomes)
		}
	}
}
