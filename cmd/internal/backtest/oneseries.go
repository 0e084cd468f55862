package backtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"odradek/detectors"
	"odradek/processor/anomaly"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/state"
	"odradek/processor/state/series"
)

// This file runs one series of a topic by several settings side by side, over the newest records that the topic has.

// OfSeries returns the configuration of a fold of one series by those of its detectors that reads accepts. Samples of other series
// only move the watermark. Keys are neither limited nor in groups.
func OfSeries(cfg *state.Config, key []byte, reads func(detector int) bool) *state.Config {
	s := *cfg
	s.Detectors = slices.Clone(s.Detectors)
	readBy := func(d series.DetectorConfig) bool { return d.Ensemble == nil && (d.Keys == nil || d.Keys(key)) }
	isRead := slices.ContainsFunc(cfg.Detectors, readBy)
	for i := range s.Detectors {
		d := &s.Detectors[i]
		before := d.Keys
		if isRead { // else the series is known by its patterns, because it may fall silent, and others with it
			d.Patterns = nil
		}
		d.Keys = func(k []byte) bool { return reads(i) && bytes.Equal(k, key) && (before == nil || before(k)) }
	}
	s.MaxKeys, s.Grouping, s.Blocks = 0, nil, false
	return &s
}

// SeriesConfig configures a run of one series.
type SeriesConfig struct {
	Topic     *TopicConfig // From and To are not read
	Partition int32
	Key       []byte
	Settings  []*state.Config // that judge the series, each by itself
	Executor  detectors.Executor

	// Samples, Records and Bytes are about the most to read. What is read ends where the partition does, or after Time.
	Samples, Records, Bytes int64
	Time                    time.Duration
}

// Bound is what keeps a run of a series from reading all that its partition has.
type Bound string

// The bounds.
const (
	NoBound      Bound = ""
	SamplesBound Bound = "samples"
	RecordsBound Bound = "records"
	BytesBound   Bound = "bytes"
	TimeBound    Bound = "time"
)

// SeriesResult has what a run of a series has read, and found.
type SeriesResult struct {
	First, End  int64 // offsets that the partition has, End excluded
	From, Until int64 // offsets that were read
	Bound       Bound // why they are fewer
	Records     int64
	Bytes       int64
	Samples     int64    // of the series
	Oldest      int64    // event time of one of them
	Newest      int64    // event time
	Troubles    []string // records that were left out
	Courses     []Course // by settings
	// Curve has the lowest and the highest value of each of at most curvePoints stretches of equal length, for some fields.
	Curve struct {
		Times     []int64
		Low, High [][]float64 // by field; NaN for none
	}
}

// Course is what settings find in a series. Detectors in shadow mode and silences are left out.
type Course struct {
	Anomalies []state.EventRow // their last changes, in the order in which they opened
	Faults    int              // that the anomalies are of
	Days      float64          // that were judged, by the detector that judged for the longest
}

const (
	curvePoints = 1024
	// seriesBatch is the number of samples that are scored together: few, so that what else the process does has its turn.
	seriesBatch = 256
	// work is how long a run computes before it rests as long, so that it takes half of a core at most.
	work = 5 * time.Millisecond
	// probe is the number of records that say how many the bounds allow.
	probe = 2000
)

// seriesRun is a run of a series.
type seriesRun struct {
	*SeriesConfig
	tp      kafka.TP
	fetcher *kafka.Fetcher
	source  *topicRange
	courses []*course
	curve   *plot
	out     SeriesResult
	left    int64 // samples that a grid cannot count
	rested  time.Time
}

// RunSeries reads the newest records of a partition, as far as the bounds allow, and folds the samples of a series. It rests as long as
// it computes.
func RunSeries(ctx context.Context, c *SeriesConfig) (*SeriesResult, error) {
	r := &seriesRun{SeriesConfig: c, tp: kafka.TP{Topic: c.Topic.Topic, Partition: c.Partition},
		source: &topicRange{c: c.Topic}, fetcher: kafka.NewFetcher(c.Topic.Client, c.Topic.Fetch)}
	defer r.fetcher.Close()
	if err := r.place(ctx); err != nil {
		return nil, err
	}
	if r.out.First == r.out.End {
		return &r.out, nil
	}
	r.curve = newPlot(curvePoints, c.Settings[0].Dim, 0)
	for _, s := range c.Settings {
		own := newCourse(s, c, r.out.From)
		defer own.lane.Close()
		r.courses = append(r.courses, own)
	}
	if err := r.read(ctx); err != nil {
		return nil, err
	}
	for _, own := range r.courses {
		if err := own.lane.Finish(ctx); err != nil {
			return nil, err
		}
		r.out.Courses = append(r.out.Courses, own.end())
	}
	if r.out.Troubles = r.source.Troubles(); r.left > 0 {
		r.out.Troubles = append(r.out.Troubles, fmt.Sprintf("%d samples that the grid cannot count", r.left))
	}
	r.curve.curve(&r.out)
	return &r.out, nil
}

// place finds where to begin: the size of the newest records, and how many of them are of the series, say how many the bounds allow.
func (r *seriesRun) place(ctx context.Context) error {
	first, err := r.Topic.Client.Offsets.ListOffsets(ctx, []kafka.TP{r.tp}, kafka.Earliest)
	if err != nil {
		return fmt.Errorf("backtest: %s: %w", r.tp, err)
	}
	end, err := r.Topic.Client.Offsets.ListStable(ctx, []kafka.TP{r.tp})
	if err != nil {
		return fmt.Errorf("backtest: %s: %w", r.tp, err)
	}
	r.out.First, r.out.End = first[r.tp], end[r.tp]
	r.out.From, r.out.Until = r.out.First, r.out.End
	var offsets, size, own int64
	rows := newTopicRows(r.Topic, r.Partition)
	for n := int64(16); ; n *= 8 {
		from := max(r.out.First, r.out.End-n)
		offsets, size, own = r.out.End-from, 0, 0
		err := r.fetcher.ReadRange(ctx, r.tp, from, r.out.End, func(rec *record.Record) (bool, error) {
			size += int64(len(rec.Key) + len(rec.Value))
			err := r.source.decode(ctx, r.tp, rows, rec)
			for _, k := range rows.batch.Key {
				if bytes.Equal(rows.batch.Keys[k], r.Key) {
					own++
				}
			}
			rows.reset()
			return true, err
		})
		if err != nil {
			return fmt.Errorf("backtest: %s from offset %d on: %w", r.tp, from, err)
		}
		if from == r.out.First || n >= probe || size > r.Bytes/16 {
			break
		}
	}
	r.source = &topicRange{c: r.Topic} // what was left out is counted again
	for _, b := range []struct {
		bound    Bound
		most     int64
		measured int64
	}{{RecordsBound, r.Records, offsets}, {BytesBound, r.Bytes, size}, {SamplesBound, r.Samples, own}} {
		if b.measured == 0 {
			continue
		}
		most := max(1, int64(float64(b.most)/float64(b.measured)*float64(offsets)))
		if from := r.out.End - most; from > r.out.From {
			r.out.From, r.out.Bound = from, b.bound
		}
	}
	return nil
}

// read reads and folds.
func (r *seriesRun) read(ctx context.Context) error {
	rows := newTopicRows(r.Topic, r.Partition)
	until := time.Now().Add(r.Time)
	r.rested = time.Now()
	stop := func(why Bound, next int64) {
		r.out.Bound, r.out.Until = why, next
	}
	err := r.fetcher.ReadRange(ctx, r.tp, r.out.From, r.out.End, func(rec *record.Record) (bool, error) {
		r.out.Records++
		r.out.Bytes += int64(len(rec.Key) + len(rec.Value))
		if err := r.source.decode(ctx, r.tp, rows, rec); err != nil {
			return false, err
		}
		switch next := rec.Offset + 1; {
		case r.out.Bytes > r.Bytes+r.Bytes/4 && next < r.out.End: // older records were larger than the newest
			stop(BytesBound, next)
			return false, nil
		case len(rows.offsets) >= seriesBatch:
			if err := r.fold(ctx, rows); err != nil {
				return false, err
			}
			if time.Now().After(until) && next < r.out.End {
				stop(TimeBound, next)
				return false, nil
			}
			if err := r.rest(ctx); err != nil {
				return false, err
			}
		}
		return true, nil
	})
	var gone *kafka.OffsetOutOfRangeError
	switch {
	case errors.As(err, &gone):
		return fmt.Errorf("backtest: offsets from %d on of %s expired while they were read: try again", gone.Offset, r.tp)
	case err != nil:
		return fmt.Errorf("backtest: %s: %w", r.tp, err)
	}
	return r.fold(ctx, rows)
}

// rest rests as long as the run has computed.
func (r *seriesRun) rest(ctx context.Context) error {
	took := time.Since(r.rested)
	if took < work {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(took):
	}
	r.rested = time.Now()
	return nil
}

// fold folds the samples of whole records, and empties rows.
func (r *seriesRun) fold(ctx context.Context, rows *topicRows) error {
	s := &Share{Batch: rows.batch, Offsets: rows.offsets, Ahead: rows.ahead}
	for i := range s.rows() {
		sm := s.sample(i)
		if bytes.Equal(sm.Key, r.Key) {
			if r.courses[0].lane.Misplaced(&sm) != nil { // its record is a dead letter
				r.left++
				continue
			}
			if r.out.Samples == 0 {
				r.out.Oldest, r.out.Newest = sm.Time, sm.Time
			}
			r.out.Samples++
			r.out.Oldest, r.out.Newest = min(r.out.Oldest, sm.Time), max(r.out.Newest, sm.Time)
			r.curve.values(sm.Time, sm.Values)
		}
		for _, own := range r.courses {
			if _, err := own.lane.Fold(ctx, &sm); err != nil {
				return fmt.Errorf("backtest: %s, offset %d: %w", r.tp, own.lane.cfg.Record(sm.Offset), err)
			}
		}
	}
	rows.reset()
	return ctx.Err()
}

// course is a fold of the series by some settings.
type course struct {
	state  *state.Config
	lane   *Lane
	judged []judged         // by detector
	at     map[[16]byte]int // of an anomaly in list
	list   []state.EventRow
}

func newCourse(cfg *state.Config, c *SeriesConfig, first int64) *course {
	own := &course{state: OfSeries(cfg, c.Key, func(int) bool { return true }), judged: make([]judged, len(cfg.Detectors)),
		at: map[[16]byte]int{}}
	own.lane = NewLane(own.state, c.Executor, c.Topic.Topic, c.Partition, first, own.tell)
	own.lane.most = seriesBatch
	return own
}

// tell takes finished rows and changes of anomalies; see NewLane.
func (o *course) tell(rows []state.Row, changes []state.EventRow) error {
	for i := range rows {
		if r := &rows[i]; r.Threshold <= math.MaxFloat32 && !o.state.Detectors[r.Detector].Shadow { // neither off nor in its warm-up
			o.judged[r.Detector].add(r.Time)
		}
	}
	for i := range changes {
		e := &changes[i]
		if e.Detector < 0 || e.Change.Anomaly.Shadow {
			continue
		}
		at, ok := o.at[e.Change.Anomaly.ID]
		if !ok {
			at = len(o.list)
			o.at[e.Change.Anomaly.ID] = at
			o.list = append(o.list, state.EventRow{})
		}
		o.list[at] = *e
	}
	return nil
}

func (o *course) end() Course {
	out := Course{Anomalies: o.list}
	for i := range o.judged {
		out.Days = max(out.Days, float64(o.judged[i].time())/86_400e6)
	}
	for i := range o.list {
		if a := &o.list[i].Change.Anomaly; a.Fault == a.ID {
			out.Faults++
		}
	}
	return out
}

// Over reports whether the anomaly of the last change was closed.
func Over(e *state.EventRow) bool { return e.Change.Kind == anomaly.Close }

// curve adds what is drawn of the values to a result.
func (p *plot) curve(out *SeriesResult) {
	c := &out.Curve
	c.Low, c.High = make([][]float64, p.dim), make([][]float64, p.dim)
	for i := range p.n {
		some := false
		for f := range p.dim {
			some = some || p.lo[f*p.n+i] == p.lo[f*p.n+i]
		}
		if !some {
			continue
		}
		c.Times = append(c.Times, p.start+int64(i)<<p.width)
		for f := range p.dim {
			c.Low[f] = append(c.Low[f], p.base[f]+float64(p.lo[f*p.n+i]))
			c.High[f] = append(c.High[f], p.base[f]+float64(p.hi[f*p.n+i]))
		}
	}
}
