package config

import (
	"math"
	"strings"
	"testing"

	"odradek/detectors"
	"odradek/detectors/knn"
	"odradek/detectors/lof"
	"odradek/detectors/seedtest"
	"odradek/processor/state/series"
)

// TestCrowded has series of exact and of rounded readings: a detector by densities is warned of, where more than K of its window
// are equal.
func TestCrowded(t *testing.T) {
	rng := seedtest.New(t)
	exact, rounded := EqualSamples{}, EqualSamples{}
	for range 25 {
		v := 20 + 0.2*rng.NormFloat64()
		exact.Add([]byte("a"), []float64{7, v})
		rounded.Add([]byte("a"), []float64{v, math.Round(v)})
		rounded.Add([]byte("b"), []float64{v, v})
	}
	few := EqualSamples{"a": rounded["a"][:leastAlike-1]}
	configOf := func(d detectors.Detector) *series.DetectorConfig {
		return &series.DetectorConfig{Name: "d", Detector: d}
	}
	density := configOf(detectors.Must(lof.New(lof.OpParams{Window: 256, K: 20})))
	for _, c := range []struct {
		name    string
		samples EqualSamples
		d       *series.DetectorConfig
		warned  bool
	}{
		{"exact", exact, density, false},
		{"rounded", rounded, density, true},
		{"few", few, density, false},
		{"a larger K", rounded, configOf(detectors.Must(lof.New(lof.OpParams{Window: 1024, K: 512}))), true},
		{"a K as large as the share", rounded, configOf(detectors.Must(lof.New(lof.OpParams{Window: 40, K: 20}))), true},
		{"by distances", rounded, configOf(detectors.Must(knn.New(knn.Params{Window: 256, K: 20}))), false},
	} {
		text := c.samples.Crowded(c.d, []int{1})
		if (text != "") != c.warned || c.warned && !strings.Contains(text, `series "a"`) {
			t.Errorf("%s: %q", c.name, text)
		}
	}
}
