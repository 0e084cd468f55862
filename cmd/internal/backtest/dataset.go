package backtest

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"odradek/cmd/internal/table"
	"odradek/detectors/quality"
	"odradek/detectors/threshold"
	"odradek/processor/anomaly"
	"odradek/processor/state"
)

// DataSet is a Source of the series of a labelled data set. Each series is a partition of
// its own, and the detectors' results are measured against its labels by the rules that
// were published with the set.
type DataSet struct {
	set        []quality.Series
	partitions []Partition
	names      []string         // of the detectors
	tallies    []*quality.Tally // by detector, then of all together if there are several

	mu    sync.Mutex
	waits map[int][]quality.Results                   // results on series that wait for the series before them
	next  int                                         // series to be measured next
	added func(series int, results []quality.Results) // a hook of tests

	// Changes takes each change of an anomaly of a detector, the changes of a series in order and of several series at once;
	// nil: nothing does.
	Changes func(series int, e *state.EventRow)
}

// NewDataSet returns a Source of the series, in a format of package quality. states has the
// state's configuration for each number of values that a series has, which may have other detectors. Series i stands for
// partition i of the topic.
func NewDataSet(set []quality.Series, format, topic string, states map[int]*state.Config) *DataSet {
	d := &DataSet{set: set, waits: map[int][]quality.Results{}}
	for i := range set {
		d.partitions = append(d.partitions, Partition{Topic: topic, Number: int32(i), state: states[set[i].Dim], recorded: d})
	}
	d.names = detectorNames(nil, d.partitions)
	for _, name := range d.names {
		d.tallies = append(d.tallies, quality.NewTally(format, name, rateOf(states, name)))
	}
	if len(d.tallies) > 1 {
		d.tallies = append(d.tallies, quality.NewTally(format, Together, 0))
	}
	return d
}

// rateOf returns the rate of a detector's conformal threshold; 0 where it has none, or another one for series of other
// numbers of values.
func rateOf(states map[int]*state.Config, name string) (asked float64) {
	first := true
	for _, state := range states {
		for i := range state.Detectors {
			if state.Detectors[i].Name != name {
				continue
			}
			rate := 0.0
			if r := state.Detectors[i].Threshold; r != nil && r.Kind == threshold.Conformal {
				rate = r.Value
			}
			if !first && rate != asked {
				return 0
			}
			asked, first = rate, false
		}
	}
	return asked
}

// Together is the name of the results of all detectors together, in place of a detector's name.
const Together = "all together"

// Partitions implements Source.
func (d *DataSet) Partitions() []Partition { return d.partitions }

// Total implements Source, in samples.
func (d *DataSet) Total() (n int64) {
	for i := range d.set {
		n += int64(d.set[i].Len())
	}
	return n
}

// Troubles implements Source.
func (d *DataSet) Troubles() []string { return nil }

// sharedRows is the number of samples of a series in one Share.
const sharedRows = 4096

// Read implements Source. It reads one series on each core at a time.
func (d *DataSet) Read(ctx context.Context, send func(int, *Share) error) error {
	var next, done atomic.Int64
	errs := make([]error, runtime.GOMAXPROCS(0))
	var wg sync.WaitGroup
	for w := range errs {
		wg.Go(func() {
			for errs[w] == nil {
				i := int(next.Add(1)) - 1
				if i >= len(d.set) {
					return
				}
				errs[w] = d.read(ctx, i, &done, send)
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errors.Join(errs...)
}

func (d *DataSet) read(ctx context.Context, i int, done *atomic.Int64, send func(int, *Share) error) error {
	s := &d.set[i]
	for from, to := 0, -1; to < s.Len() && ctx.Err() == nil; from = to {
		to = min(from+sharedRows, s.Len())
		b := &table.Batch{Keys: [][]byte{[]byte(s.Name)}, Key: make([]uint32, to-from), Times: s.Times[from:to],
			Width: s.Dim, Values: s.Values[from*s.Dim : to*s.Dim]}
		if s.Labels != nil {
			b.Labels = s.Labels[from:to]
		}
		if err := send(i, &Share{Batch: b, First: int64(from), Done: done.Add(int64(to - from)), Last: to == s.Len()}); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Measures returns the results of the run, one for each detector, and where there are several one of what
// they find together.
func (d *DataSet) Measures() []quality.Result {
	var list []quality.Result
	for _, t := range d.tallies {
		list = append(list, t.Result())
	}
	return list
}

// add takes the detectors' results on a whole series. The series are measured in their order,
// not as they end, so that sums are always rounded in the same way.
func (d *DataSet) add(series int, v []quality.Results) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.waits[series] = v; d.waits[d.next] != nil; d.next++ {
		results := d.waits[d.next]
		state := d.partitions[d.next].state
		for i := range state.Detectors {
			d.tallies[slices.Index(d.names, state.Detectors[i].Name)].Add(&d.set[d.next], &results[i])
		}
		if len(d.tallies) > len(d.names) {
			all := quality.Together(results)
			d.tallies[len(d.names)].Add(&d.set[d.next], &all)
		}
		if d.added != nil {
			d.added(d.next, results)
		}
		delete(d.waits, d.next)
	}
}

// judge collects the results of the detectors of a lane on a series of a data set, by sample.
type judge struct {
	results  []quality.Results
	sampleAt map[int64]int     // time -> first sample with it
	about    []map[float32]int // by detector: score -> first sample that it is about
	best     []float32         // by detector: the score of Place
	opened   []int             // by detector: the sample at which the open anomaly opened; -1: none is open
	train    int               // samples of the training part
}

func newJudge(s *quality.Series, state *state.Config) *judge {
	j := &judge{sampleAt: make(map[int64]int, s.Len()), best: make([]float32, len(state.Detectors)), train: s.Train}
	for i := range state.Detectors {
		r := quality.NewResults(s.Len())
		if t := state.Detectors[i].Threshold; t != nil {
			r.Warmup = t.Warmup
		}
		j.results, j.about, j.opened = append(j.results, r), append(j.about, map[float32]int{}), append(j.opened, -1)
	}
	for i, t := range slices.Backward(s.Times) {
		j.sampleAt[t] = i
	}
	return j
}

func (j *judge) add(rows []state.Row, changes []state.EventRow) {
	for i := range rows {
		r := &rows[i]
		v := &j.results[r.Detector]
		if r.State == state.RowWarmingUp || math.IsNaN(float64(r.Judged)) {
			continue
		}
		v.Scores[r.Offset], v.Exceeds[r.Offset] = float64(r.Judged), r.Exceeds
		at, ok := j.sampleAt[r.About]
		if !ok {
			continue
		}
		j.about[r.Detector][r.Judged] = at
		if to, ok := j.sampleAt[r.Until]; ok && at >= j.train && (v.Place < 0 || r.Judged > j.best[r.Detector]) {
			v.Place, j.best[r.Detector] = (at+to)/2, r.Judged
		}
	}
	for i := range changes {
		e := &changes[i]
		if e.Detector < 0 {
			continue
		}
		v, a := &j.results[e.Detector], &e.Change.Anomaly
		peak, ok := j.about[e.Detector][a.PeakScore]
		if !ok {
			peak = int(e.Change.Offset)
		}
		switch e.Change.Kind {
		case anomaly.Open:
			v.Opens, v.Peaks = append(v.Opens, int(e.Change.Offset)), append(v.Peaks, peak)
			v.Opened[e.Change.Offset] = float64(a.Severity)
			j.opened[e.Detector] = int(e.Change.Offset)
		default:
			v.Peaks[len(v.Peaks)-1] = peak
			if e.Change.Kind == anomaly.Close && j.opened[e.Detector] >= 0 {
				v.Detect(j.opened[e.Detector], min(int(e.Change.Offset), len(v.Exceeds)-1))
				j.opened[e.Detector] = -1
			}
		}
	}
}

// finish returns the results; an anomaly that is still open lasts until the end.
func (j *judge) finish() []quality.Results {
	for i, opened := range j.opened {
		if opened >= 0 {
			j.results[i].Detect(opened, len(j.results[i].Exceeds)-1)
		}
	}
	return j.results
}
