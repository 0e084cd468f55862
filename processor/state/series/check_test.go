package series

import (
	"fmt"
	"strings"
	"testing"

	"odradek/detectors/simple"
	"odradek/detectors/threshold"
	"odradek/processor/anomaly"
)

// TestCheck: each fault of a valid configuration is found, alone.
func TestCheck(t *testing.T) {
	z, err := simple.NewZScore(5)
	if err != nil {
		t.Fatal(err)
	}
	bound := threshold.Params{Kind: threshold.Fixed, Value: 2, History: 100}
	summed := scorer{window: 4, bins: true}
	for _, c := range []struct {
		spoil func(w []WindowConfig, d []DetectorConfig)
		want  string // in the fault; "": there is none
	}{
		{func([]WindowConfig, []DetectorConfig) {}, ""},
		{func(w []WindowConfig, _ []DetectorConfig) { w[1].Columns = []int{0, 2} }, "window 1: column 2 is not one of the 2 values"},
		{func(w []WindowConfig, _ []DetectorConfig) { w[1].Fingerprint = 1 }, "window 1 has the fingerprint of another window"},
		{func(w []WindowConfig, _ []DetectorConfig) { w[2].Grid = &Grid{} }, "window 2: a grid of 0 columns and 0 rows"},
		{func(w []WindowConfig, _ []DetectorConfig) { w[1].Incomplete = true }, `"b" takes no rows with missing values`},
		{func(_ []WindowConfig, d []DetectorConfig) { d[1].Name = "a" }, `detector 1: the name "a" is taken by "a"`},
		{func(_ []WindowConfig, d []DetectorConfig) { d[1].Name = SilenceName }, "events of silence have this name"},
		{func(_ []WindowConfig, d []DetectorConfig) { d[1].Detector = nil }, `detector "b" is nil`},
		{func(_ []WindowConfig, d []DetectorConfig) { d[1].Window = 3 }, `"b": window 3 of 3`},
		{func(_ []WindowConfig, d []DetectorConfig) { d[1].Stride = 0 }, `"b": window 4 and stride 0`},
		{func(_ []WindowConfig, d []DetectorConfig) { d[1].Scale = true }, `"b" cannot scale its fields: its summary`},
		{func(_ []WindowConfig, d []DetectorConfig) { d[2].Scale = true }, `"e" cannot scale its fields: it has no rows`},
		{func(_ []WindowConfig, d []DetectorConfig) { d[0].Smooth = -1 }, `"a": a mean of -1 scores`},
		{func(_ []WindowConfig, d []DetectorConfig) { d[0].Threshold = nil }, `"a" has events but no threshold`},
		{func(_ []WindowConfig, d []DetectorConfig) { d[0].Events = &anomaly.Policy{} }, `detector "a": `},
		{func(_ []WindowConfig, d []DetectorConfig) { d[2].Ensemble.Members[1] = 3 }, `"e": member 3 of 3 detectors`},
		{func(_ []WindowConfig, d []DetectorConfig) { d[2].Ensemble.Members[1] = 2 }, `"e": its member "e" is an ensemble`},
		{func(_ []WindowConfig, d []DetectorConfig) { d[2].Ensemble.Members[1] = 0 }, `"e": "a" is a member twice`},
		{func(_ []WindowConfig, d []DetectorConfig) { d[2].Ensemble.Memory = 1 }, `ensemble "e": `},
		{func(_ []WindowConfig, d []DetectorConfig) { d[2].Detector = z }, `"e" has a method of its own`},
	} {
		windows := []WindowConfig{{Columns: []int{0}, Fingerprint: 1}, {Columns: []int{0, 1}, Fingerprint: 2},
			{Columns: []int{1}, Fingerprint: 3}}
		dets := []DetectorConfig{
			{Name: "a", Detector: z, Stride: 1, Threshold: &bound, Events: &anomaly.Policy{OpenAfter: 1, CloseAfter: 1, Release: 1}},
			{Name: "b", Detector: summed, Window: 1, Stride: 1},
			{Name: "e", Ensemble: &Ensemble{Members: []int{0, 1}, Memory: 100, MinPoints: 10}},
		}
		c.spoil(windows, dets)
		faults := Check(2, windows, dets)
		if c.want == "" && len(faults) > 0 || c.want != "" && (len(faults) != 1 || !strings.Contains(faults[0].Error(), c.want)) {
			t.Errorf("faults %q, want one with %q", fmt.Sprint(faults), c.want)
		}
	}
}
