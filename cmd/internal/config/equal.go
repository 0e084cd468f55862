package config

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"odradek/detectors"
	"odradek/processor/state/series"
)

// leastAlike is the least number of samples of a series that say how many are equal.
const leastAlike = 8

// EqualSamples collects samples by series, to find series with many equal samples, as rounded readings have.
type EqualSamples map[string][][]float64

// Add adds a sample.
func (e EqualSamples) Add(key []byte, values []float64) {
	e[string(key)] = append(e[string(key)], append([]float64(nil), values...))
}

// Crowded warns of a detector that compares densities (detectors.Coincident): if more samples of a window are equal than the K
// neighbours from which it computes a density, its scores say little. It returns a sentence about the series with the
// largest share of equal samples and the remedy; "" if no series has so many, or the detector compares no densities.
func (e EqualSamples) Crowded(d *series.DetectorConfig, columns []int) string {
	c, ok := d.Detector.(detectors.Coincident)
	if !ok {
		return ""
	}
	k, window := c.Coincident()
	worst, text := 0.0, ""
	for _, key := range slices.Sorted(maps.Keys(e)) {
		samples := e[key]
		if len(samples) < leastAlike || d.Keys != nil && !d.Keys([]byte(key)) {
			continue
		}
		counts, most := map[string]int{}, 0
		for _, values := range samples {
			row := ""
			for _, column := range columns {
				row += fmt.Sprintf(" %x", math.Float64bits(values[column]))
			}
			counts[row]++
			most = max(most, counts[row])
		}
		share := float64(most) / float64(len(samples))
		if most > 2 && share*float64(window) > float64(k) && share > worst {
			worst = share
			text = fmt.Sprintf(
				"%d of %d samples of series %q are equal: with such a share about %.0f of a window of %d are, more than K=%d. Equal ones are apart by "+
					"the values' resolution with FLOOR=resolution; a larger K tells densities apart",
				most,
				len(samples),
				key,
				share*float64(window),
				window,
				k,
			)
		}
	}
	return text
}
