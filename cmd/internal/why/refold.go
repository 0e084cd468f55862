package why

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"odradek/cmd/internal/backtest"
	"odradek/detectors"
	"odradek/processor/state"
	"odradek/processor/state/series"
	"odradek/schemas/output"
)

// folded holds what a fold of samples computed for the series.
type folded struct {
	rows   [][]state.Row // by detector, in the order of the samples
	events []state.EventRow
}

// foldConfig returns the configuration of a fold of one series by some of the detectors.
func (c *Config) foldConfig(key []byte, reads func(detector int) bool, watch func(*state.Watched)) *state.Config {
	s := backtest.OfSeries(c.State, key, reads)
	s.Watch = watch
	return s
}

// fold folds samples, the first of which is of the record at offset first, or of a later one.
func (c *Config) fold(ctx context.Context, st *state.Config, s *source, samples []sample, first int64) (*folded, error) {
	f := &folded{rows: make([][]state.Row, len(st.Detectors))}
	lane := backtest.NewLane(st, c.Executor, s.tp.Topic, s.tp.Partition, first,
		func(rows []state.Row, changes []state.EventRow) error {
			for i := range rows {
				d := rows[i].Detector
				f.rows[d] = append(f.rows[d], rows[i])
			}
			f.events = append(f.events, changes...)
			return nil
		})
	defer lane.Close()
	for i := range samples {
		sm := state.Sample{Key: s.keys[samples[i].key], Time: samples[i].time, Ahead: samples[i].ahead, Offset: samples[i].offset,
			Values: samples[i].values}
		if samples[i].key == 0 {
			if err := lane.Misplaced(&sm); err != nil {
				continue // it was a dead letter
			}
		}
		if _, err := lane.Fold(ctx, &sm); err != nil {
			return nil, fmt.Errorf("why: %w", err)
		}
	}
	if err := lane.Finish(ctx); err != nil {
		return nil, fmt.Errorf("why: %w", err)
	}
	return f, nil
}

// peak returns the row of the highest score of an anomaly, and whether its score equals the published one, bit for bit; -1: there is
// none. An anomaly's peak time is one that its highest score is about. last is the offset of the anomaly's last record.
func (c *Config) peak(d *series.DetectorConfig, rows []state.Row, a *output.Anomaly, last int64) (at int, same bool) {
	at = -1
	ahead := 0 // a sum counts a member's score for samples before it, too, and then the peak may be at a later sample
	if d.Ensemble != nil {
		if e := d.Ensemble.Combination(func(i int) *series.DetectorConfig { return &c.State.Detectors[i] }); len(e.Every) > 0 {
			ahead = slices.Max(e.Every) - 1
		}
	}
	for i := range rows {
		r := &rows[i]
		until := max(r.Until, rows[min(i+ahead, len(rows)-1)].Until)
		if a.PeakTime < r.About || a.PeakTime > until || r.Judged != r.Judged || c.State.Record(r.Offset) > last {
			continue
		}
		if float64(r.Judged) == a.PeakScore {
			return i, true
		}
		if at < 0 || math.Abs(float64(r.Judged)-a.PeakScore) < math.Abs(float64(rows[at].Judged)-a.PeakScore) {
			at = i
		}
	}
	return at, false
}

// candidates returns the first and the last row about an anomaly's peak, among which that at i is: with another alignment, any of them
// may have the score of the peak, for those about one spike are alike.
func (c *Config) candidates(rows []state.Row, a *output.Anomaly, i int) (from, to int) {
	for from = i; from > 0 && rows[from-1].Until >= a.PeakTime; from-- {
	}
	for to = i; i >= 0 && to < c.after(rows, a) && rows[to+1].About <= a.PeakTime; to++ {
	}
	return from, to
}

// period returns after how many samples the tasks of a detector are cut and centred alike again.
func period(d *series.DetectorConfig) int {
	block := 1
	if d.Detector.Op().Elem() == detectors.F32 {
		block = detectors.CenterRun(detectors.TaskRows(d.Detector, d.Stride))
	}
	a, b := block, d.Stride
	for b > 0 {
		a, b = b, a%b
	}
	return block / a * d.Stride
}

// remembers reports whether a detector's scores depend on more than its window: on a carry, or on a summary of what has left
// it. An ensemble's depend on means of its members' scores, or on their thresholds.
func remembers(d *series.DetectorConfig, dim int) bool {
	if d.Ensemble != nil {
		return true
	}
	if z, ok := d.Detector.(detectors.Summarizer); ok && z.Summary(dim) != nil {
		return true
	}
	if _, ok := d.Detector.(detectors.Timed); ok {
		dim++ // the time
	}
	size, _ := d.Detector.Size(detectors.View{Dim: dim, Rows: detectors.TaskRows(d.Detector, d.Stride), Fresh: d.Stride})
	return size.Carry > 0
}

// aligned is a fold of the samples of a window and the ones just before it, aligned as the worker's window is.
type aligned struct {
	samples []sample
	filler  int // samples before the series' own
	end     int // of the rows of the samples, among all rows
	row     int // of the peak, among its rows
	*folded
}

// searchTime bounds the search of align.
const searchTime = time.Minute

// align searches for the alignment of a detector that remembers nothing: a task's rows are centred on a value that the number of
// the series' samples selects, and its first row follows from the stride. What the worker counted from is not known where the
// first samples are gone; there are few possibilities, and each is tried until one gives the published score to the bit.
// Samples that make up the number have left the window when the score is made, and may be any.
// rows are the detector's, of the samples in its window; the peak is one of those from from to to. It returns nil if there is none.
func (c *Config) align(
	ctx context.Context, s *source, detector int, rows []state.Row, from, to int, a *output.Anomaly,
) (*aligned, error) {
	d := &c.State.Detectors[detector]
	if c.State.Reading.Every > 0 {
		return nil, nil // a row is of several records
	}
	n := period(d)
	need := detectors.TaskRows(d.Detector, d.Stride) + max(1, int(d.Smooth)) - 1
	if from+1 < need || n < 2 || to-from > 10*need+1000 {
		return nil, nil
	}
	values := make(map[int64]*sample, s.own)
	for k := range s.samples {
		if s.samples[k].key == 0 {
			values[s.samples[k].offset] = &s.samples[k]
		}
	}
	start, end := from+1-need, min(len(rows), to+d.Stride)
	first := *values[rows[start].Offset]
	window := make([]sample, 0, n+need+d.Stride)
	for k := range n {
		filler := first
		filler.time -= int64(n - k)
		window = append(window, filler)
	}
	for _, r := range rows[start:end] {
		window = append(window, *values[r.Offset])
	}
	for k := range window { // in the order in which they were in the window, regardless of the order they came in
		window[k].offset = c.State.Place(int64(k), 0)
	}
	state := c.foldConfig(s.keys[0], func(i int) bool { return i == detector }, nil)
	inOrder(state)
	began := time.Now()
	for phase := 0; phase < n && time.Since(began) < searchTime; phase++ {
		f, err := c.fold(ctx, state, s, window[phase:], c.State.Record(window[phase].offset))
		if err != nil {
			return nil, err
		}
		if at, same := c.peak(d, f.rows[detector], a, math.MaxInt64); same {
			return &aligned{samples: window[phase:], filler: n - phase, end: end, row: at, folded: f}, nil
		}
	}
	return nil, nil
}

// inOrder has a fold take samples as they come, all of them.
func inOrder(c *state.Config) {
	c.Reading.Lateness, c.Reading.MaxJump, c.Silence, c.TTL, c.Reading.DropDuplicates = 0, 0, 0, 0, false
}
