package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"odradek/cmd/worker/config"
	"odradek/cmd/worker/quality"
	"odradek/processor/events"
	"odradek/processor/keystate"
)

// replayed is what one detector said of one series, by sample.
type replayed struct {
	scores  []float64 // quality.Never where there is none
	exceeds []bool
	opened  []float64 // severity where an anomaly opened; quality.Never elsewhere
	opens   []int     // samples at which anomalies opened
	peaks   []int     // sample that each closed or still open anomaly's highest score speaks of
}

// replayBatch is how many samples are scored together; the scores do not depend
// on it.
const replayBatch = 256

// replaySeries runs a series through the state of a partition, as the worker does with
// records of one key, and returns what each detector said.
func replaySeries(ctx context.Context, cfg *keystate.Config, exec executor, s *quality.Series) ([]replayed, error) {
	state := keystate.New(cfg)
	batch := exec.Batch()
	defer exec.Release(batch)
	out := make([]replayed, len(cfg.Detectors))
	about := make([]map[int64]int, len(out)) // last time that a score speaks of -> first sample it speaks of
	for d := range out {
		out[d].scores = slices.Repeat([]float64{quality.Never}, s.Len())
		out[d].opened = slices.Clone(out[d].scores)
		out[d].exceeds = make([]bool, s.Len())
		about[d] = map[int64]int{}
	}
	sampleAt := make(map[int64]int, s.Len())
	for i, t := range s.Times {
		if _, ok := sampleAt[t]; !ok {
			sampleAt[t] = i
		}
	}
	finish := func(next int64) error {
		if err := exec.Execute(ctx, batch); err != nil {
			return err
		}
		state.Apply(batch)
		batch.Reset()
		for i := range state.Rows {
			r := &state.Rows[i]
			o := &out[r.Detector]
			if r.State == keystate.RowWarmingUp || math.IsNaN(float64(r.Score)) {
				continue
			}
			o.scores[r.Offset], o.exceeds[r.Offset] = float64(r.Score), r.Exceeds
			if at, ok := sampleAt[r.About]; ok {
				about[r.Detector][r.Until] = at
			}
		}
		state.Rows = state.Rows[:0]
		for i := range state.Events {
			e := &state.Events[i]
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
				o.opens = append(o.opens, int(e.Change.Offset))
				o.peaks = append(o.peaks, peak)
				o.opened[e.Change.Offset] = float64(a.Severity)
			default:
				o.peaks[len(o.peaks)-1] = peak
			}
		}
		state.Events = state.Events[:0]
		state.Mark(next)
		// Keys with changed anomalies have to be in the cycle's snapshot.
		if err := state.Snapshot(math.MinInt64, 4<<20, func(_, _ []byte) error { return nil }); err != nil {
			return err
		}
		state.Committed(next)
		return nil
	}
	state.Mark(0)
	state.Committed(0)
	sm := keystate.Sample{Key: []byte(s.Name)}
	for i := range s.Len() {
		if i%replayBatch == 0 && i > 0 || !state.Fits(batch) {
			if err := finish(int64(i)); err != nil {
				return nil, err
			}
		}
		sm.Time, sm.Offset, sm.Values = s.Times[i], int64(i), s.Row(i)
		state.Fold(&sm, batch)
	}
	return out, finish(int64(s.Len()))
}

// scoreConfig is the configuration for series of dim values: that of the
// environment with value fields x0, x1, ... of their number, and with anomalies.
func (t terminal) scoreConfig(dim int) (*config.Config, *keystate.Config, error) {
	fields := make([]string, dim)
	for i := range fields {
		fields[i] = "x" + strconv.Itoa(i)
	}
	environ := append(slices.Clone(t.environ), config.Prefix+"VALUE_FIELDS="+strings.Join(fields, ","), config.Prefix+"ANOMALIES=true")
	c, faults, _ := config.Parse(environ)
	if faults = config.FaultsOf(faults, []string{"DETECTOR", "MISSING", "LATENESS"}); len(faults) > 0 {
		return nil, nil, &configError{faults}
	}
	ks, err := c.KeystateConfig()
	if err != nil {
		return nil, nil, err
	}
	ks.TTL, ks.MaxKeys, ks.Lateness, ks.MaxJump = 0, 0, 0, 0
	return c, ks, ks.Check()
}

// configError is a configuration with faults.
type configError struct{ faults []config.Fault }

func (e *configError) Error() string {
	return fmt.Sprintf("the configuration has %d fault(s)", len(e.faults))
}
