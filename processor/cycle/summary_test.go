package cycle

import (
	"math"
	"testing"

	"odradek/detectors"
	"odradek/detectors/discord"
	"odradek/detectors/simple"
	"odradek/processor/anomaly"
	"odradek/processor/state"
	"odradek/processor/state/series"
)

// TestSummary: records of anomalies have a sentence for people.
func TestSummary(t *testing.T) {
	shape := detectors.Must(discord.New(discord.Params{Window: 20000, Length: 50}))
	cfg := &state.Config{Detectors: []series.DetectorConfig{
		{Name: "shape", Detector: shape, Fields: []string{"value"}},
		{Name: "limit", Detector: detectors.Must(simple.NewValue(1, false)), Fields: []string{"temperature", "load"}},
		{Name: "flat", Detector: detectors.Must(simple.NewFlatline(0)), Fields: []string{"flow"}},
		{Name: "both", Ensemble: &series.Ensemble{Members: []int{0, 1}}, Fields: []string{"shape", "limit"}},
		{Name: "many", Detector: shape, Fields: []string{"accel[0]", "accel[1]"}},
	}, Units: map[string]string{"temperature": "°C", "accel": "m/s²", "/press-2": "bar", "flow": "l/min"}}
	key := series.NewKey([]byte("line1/press-2"), new(series.Set))
	for _, c := range []struct {
		detector int32
		change   anomaly.Change
		want     string
	}{
		{0, anomaly.Change{Anomaly: anomaly.Anomaly{Actual: []float64{97.2}, Expected: []float64{72.42}, Contribution: []float64{1}}},
			"line1/press-2 rose to 97.2 bar, expected 72.4 bar: shape unlike the last 20,000 readings"},
		{0, anomaly.Change{Kind: anomaly.Close, Anomaly: anomaly.Anomaly{Start: 0, End: 7_265e6, Actual: []float64{220_000.75},
			Expected: []float64{37_076_111}, Contribution: []float64{1}}},
			"line1/press-2 fell to 220,001 bar, expected 37,076,111 bar: shape unlike the last 20,000 readings. Over after 2 h 1 min"},
		{1, anomaly.Change{Kind: anomaly.Update, Anomaly: anomaly.Anomaly{End: 90e6, Actual: []float64{81.25, 3}, Contribution: []float64{1, 0},
			Threshold: 80}}, "line1/press-2 temperature was 81.25 °C: beyond its limit, 80, for 1 min 30 s so far"},
		{1, anomaly.Change{Kind: anomaly.Close, Anomaly: anomaly.Anomaly{Samples: 1, Start: 90e6, End: 90e6, Actual: []float64{81.25, 3},
			Contribution: []float64{1, 0}, Threshold: 80}}, "line1/press-2 temperature was 81.25 °C: beyond its limit, 80. Over after one sample"},
		{1, anomaly.Change{Kind: anomaly.Update, Anomaly: anomaly.Anomaly{Samples: 3, Start: 90e6, End: 90e6, Actual: []float64{81.25, 3},
			Contribution: []float64{1, 0}, Threshold: 80}}, "line1/press-2 temperature was 81.25 °C: beyond its limit, 80, for 3 samples so far"},
		{1, anomaly.Change{Kind: anomaly.Close, Anomaly: anomaly.Anomaly{Samples: 2, End: 250, Actual: []float64{81.25, 3},
			Contribution: []float64{1, 0}, Threshold: 80}}, "line1/press-2 temperature was 81.25 °C: beyond its limit, 80. Over after 250 us"},
		{2, anomaly.Change{Anomaly: anomaly.Anomaly{Actual: []float64{4}, Contribution: []float64{1},
			PeakScore: 3000, Like: &anomaly.Like{Count: 3}}},
			"line1/press-2 flow was 4 l/min: unchanged for 3,000 readings. Like 3 false alarms"},
		{3, anomaly.Change{Kind: anomaly.Close, Reason: anomaly.Moved, Anomaly: anomaly.Anomaly{Contribution: []float64{0.6, 0.4}}},
			"line1/press-2: unusual to the detectors shape, limit together, most to shape. " +
				"No longer watched here: the series has moved to another partition"},
		{3, anomaly.Change{Anomaly: anomaly.Anomaly{Actual: []float64{4, 1}, Contribution: []float64{0, 1}}},
			"line1/press-2: unusual to the detectors shape, limit together, most to limit"},
		{3, anomaly.Change{Anomaly: anomaly.Anomaly{Actual: []float64{97.2, 1}, Expected: []float64{72.42, 1}, Contribution: []float64{1, 0},
			Carrier: "limit", Spread: 1.134}}, "line1/press-2 temperature rose to 97.2 °C, expected 72.4 ± 1.1 °C: " +
			"unusual to the detectors shape, limit together, most to limit"},
		{3, anomaly.Change{Anomaly: anomaly.Anomaly{Actual: []float64{97.2}, Expected: []float64{72.42}, Contribution: []float64{1},
			Carrier: "shape", Spread: 0.0374}}, "line1/press-2 rose to 97.2 bar, expected 72.4 ± 0.037 bar: " +
			"unusual to the detectors shape, limit together, most to shape"},
		{4, anomaly.Change{Anomaly: anomaly.Anomaly{Actual: []float64{0, 9.31}, Expected: []float64{0, 10.2}, Contribution: []float64{0, 1},
			Spread: math.Inf(1)}}, "line1/press-2 accel[1] fell to 9.31 m/s², expected 10.2 m/s²: shape unlike the last 20,000 readings"},
		{state.SilenceDetector, anomaly.Change{Anomaly: anomaly.Anomaly{End: 300e6}}, "line1/press-2 has sent nothing for 5 min"},
		{state.SilenceDetector, anomaly.Change{Kind: anomaly.Close, Anomaly: anomaly.Anomaly{End: 2 * 86400e6}},
			"line1/press-2 sends again after 2 d"},
		{state.RemovedDetector, anomaly.Change{Kind: anomaly.Close, Reason: anomaly.DetectorRemoved, Anomaly: anomaly.Anomaly{PeakScore: 9.5,
			Threshold: 3}}, "line1/press-2: score 9.5 over 3. No longer watched: the detector is gone, or in another mode"},
	} {
		row := state.EventRow{Key: key, Detector: c.detector, Name: "gone", Change: c.change}
		switch {
		case c.detector >= 0:
			row.Name = cfg.Detectors[c.detector].Name
		case c.detector == state.SilenceDetector:
			row.Name = series.SilenceName
		}
		if a := AnomalyRecord(&row, cfg); a.Summary != c.want {
			t.Errorf("%q\nwant %q", a.Summary, c.want)
		}
	}
}

// TestUnitOf: units are of fields, or of series that are each a field of a record.
func TestUnitOf(t *testing.T) {
	cfg := &state.Config{Units: map[string]string{"accel": "m/s²", "/b": "bar", "/a.x": "K"}}
	for _, c := range [][3]string{{"press-1", "accel[2]", "m/s²"}, {"press-1", "accel", "m/s²"}, {"press-1/b[0]", "value", "bar"},
		{"line/press-1/a.x", "value", "K"}, {"press-1/b", "", ""}, {"b", "value", ""}, {"press-1/a", "value", ""}, {"", "value", ""}} {
		if got := cfg.UnitOf([]byte(c[0]), c[1]); got != c[2] {
			t.Errorf("field %q of %q has the unit %q, want %q", c[1], c[0], got, c[2])
		}
	}
}

func TestNumber(t *testing.T) {
	for _, c := range []struct {
		v      float64
		digits int
		want   string
	}{{0, 3, "0"}, {-0.0001, 2, "0"}, {1234.5, 1, "1,234.5"}, {-999999.9, 0, "-1,000,000"}, {1e20, 2, "1e+20"}, {3e-7, 2, "3e-07"},
		{math.NaN(), 1, "NaN"}, {12, 3, "12"}, {-0.25, 2, "-0.25"}} {
		if got := number(c.v, c.digits); got != c.want {
			t.Errorf("%v with %d digits is %q, want %q", c.v, c.digits, got, c.want)
		}
	}
}
