// Package replay runs recorded series through the state of a partition, the executor,
// the thresholds and the anomalies of the worker, and gives what each detector says of
// them. Score measures that against the labels of a data set.
package replay

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"odradek/cmd/worker/config"
	"odradek/cmd/worker/quality"
	"odradek/detectors"
	"odradek/processor/events"
	"odradek/processor/keystate"
)

// Verdicts are what one detector says of one series. Scores, Exceeds and Opened are by
// sample, Opens and Peaks by anomaly.
type Verdicts struct {
	Scores  []float64 // quality.Never where there is none
	Exceeds []bool    // the score is above the threshold
	Opened  []float64 // severity where an anomaly opened; quality.Never elsewhere
	Opens   []int     // samples at which anomalies opened
	Peaks   []int     // sample that each closed or still open anomaly's highest score speaks of

	// Place is the middle of the samples that the highest score speaks of, among the
	// scores that speak of none of the training part; -1 without any.
	Place int
}

// Series runs a series through the state of a partition, as the worker does with
// records of one key, and returns what each detector of c says, in the order of
// c.Detectors. A row of s has a value for each value field of c. Lateness, TTL, the
// largest jump and the largest number of series are left out: rows count as they come.
func Series(ctx context.Context, c *config.Config, exec detectors.Executor, s *quality.Series) ([]Verdicts, error) {
	cfg, err := stateOf(c)
	if err != nil {
		return nil, err
	}
	out := make([]Verdicts, len(cfg.Detectors))
	best := make([]float32, len(out))        // the score of Place
	about := make([]map[int64]int, len(out)) // last time that a score speaks of -> first sample it speaks of
	for d := range out {
		out[d].Scores = slices.Repeat([]float64{quality.Never}, s.Len())
		out[d].Opened = slices.Clone(out[d].Scores)
		out[d].Exceeds, out[d].Place = make([]bool, s.Len()), -1
		about[d] = map[int64]int{}
	}
	sampleAt := make(map[int64]int, s.Len())
	for i, t := range s.Times {
		if _, ok := sampleAt[t]; !ok {
			sampleAt[t] = i
		}
	}
	l := NewLane(cfg, exec, "", 0, 0, func(rows []keystate.Row, changes []keystate.EventRow) error {
		for i := range rows {
			r := &rows[i]
			o := &out[r.Detector]
			if r.State == keystate.RowWarmingUp || math.IsNaN(float64(r.Score)) {
				continue
			}
			o.Scores[r.Offset], o.Exceeds[r.Offset] = float64(r.Score), r.Exceeds
			at, ok := sampleAt[r.About]
			if !ok {
				continue
			}
			about[r.Detector][r.Until] = at
			if to, ok := sampleAt[r.Until]; ok && at >= s.Train && (o.Place < 0 || r.Score > best[r.Detector]) {
				o.Place, best[r.Detector] = (at+to)/2, r.Score
			}
		}
		for i := range changes {
			e := &changes[i]
			if e.Detector < 0 {
				continue
			}
			o, a := &out[e.Detector], &e.Change.Anomaly
			peak, ok := about[e.Detector][a.PeakTime]
			if !ok {
				peak = int(e.Change.Offset)
			}
			switch e.Change.Kind {
			case events.Open:
				o.Opens = append(o.Opens, int(e.Change.Offset))
				o.Peaks = append(o.Peaks, peak)
				o.Opened[e.Change.Offset] = float64(a.Severity)
			default:
				o.Peaks[len(o.Peaks)-1] = peak
			}
		}
		return nil
	})
	defer l.Close()
	sm := keystate.Sample{Key: []byte(s.Name)}
	for i := range s.Len() {
		sm.Time, sm.Offset, sm.Values = s.Times[i], int64(i), s.Row(i)
		if _, err := l.Fold(ctx, &sm); err != nil {
			return nil, err
		}
	}
	return out, l.Finish(ctx)
}

// stateOf is the configuration of the state without the limits of time and number.
func stateOf(c *config.Config) (*keystate.Config, error) {
	ks, err := c.KeystateConfig()
	if err != nil {
		return nil, err
	}
	ks.TTL, ks.MaxKeys, ks.Lateness, ks.MaxJump = 0, 0, 0, 0
	return ks, ks.Check()
}

// Settings returns the settings for series of dim values: those of the environment lines
// (NAME=value), with value fields x0, x1, ... and with anomalies. The error is a
// *ConfigError if settings of detectors, missing values or lateness have faults; a replay
// does not need the others, and their faults do not count.
func Settings(environ []string, dim int) (*config.Config, error) {
	fields := make([]string, dim)
	for i := range fields {
		fields[i] = "x" + strconv.Itoa(i)
	}
	environ = append(slices.Clone(environ), config.Prefix+"VALUE_FIELDS="+strings.Join(fields, ","), config.Prefix+"ANOMALIES=true")
	c, faults, _ := config.Parse(environ)
	if faults = config.FaultsOf(faults, []string{"DETECTOR", "MISSING", "LATENESS"}); len(faults) > 0 {
		return nil, &ConfigError{faults}
	}
	return c, nil
}

// ConfigError is the error of a configuration with faults.
type ConfigError struct{ Faults []config.Fault }

func (e *ConfigError) Error() string {
	return fmt.Sprintf("the configuration has %d fault(s)", len(e.Faults))
}
