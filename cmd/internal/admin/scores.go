package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"odradek/cmd/internal/backtest"
	"odradek/cmd/internal/config"
	"odradek/detectors"
	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/state"
	"odradek/schemas"
)

// The limits of what is folded of a topic, the newest records.
const (
	foldRecords = 20_000
	foldBytes   = 64 << 20
	foldLimit   = 10 * time.Second
	// manySamples is the least number of samples that speak for a key that is another one in each.
	manySamples = 100
)

// folded is what has become of some samples of a topic, by the fold of a worker.
type folded struct {
	records  int
	bytes    int64
	counts   state.Counts
	samples  int
	present  []int            // of each value
	complete int              // samples that have all values
	full     []int            // of each window, samples that it takes
	series   map[string]int32 // samples by series key
	repeated bool             // a series has several
	nearest  int32            // the least number of samples that a series lacks until its first score; 0: not known
	whole    bool             // all records of the topic
}

// scores folds the newest records of each input topic as a worker would, and reports whether some series will have a score. Records
// can be read one by one and yet never be scored: where none has all values of a detector, or each is of another series.
func (e *examination) scores(ctx context.Context) {
	if e.down || e.reg == nil && len(e.c.Registry.URLs) > 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, foldLimit)
	defer cancel()
	f := kafka.NewFetcher(e.client, kafka.FetchConfig{ReadCommitted: true})
	defer f.Close()
	exec := detectors.NewCPU(1)
	defer exec.Close()
	for _, in := range e.inputs {
		c := e.c.ForTopic(in.Name)
		x, err := e.fold(ctx, f, exec, c, in)
		switch {
		case err != nil && ctx.Err() != nil:
			e.r.Warn("scores of "+in.Name, "not known: the records could not be read in time", "give -timeout more time")
		case err != nil:
			e.r.Warn("scores of "+in.Name, "not known: "+err.Error(), "")
		case x.samples > 0:
			x.report(e.r, c, "scores of "+in.Name)
		}
	}
}

// fold folds the newest records of a topic, until one has a score.
func (e *examination) fold(
	ctx context.Context,
	f *kafka.Fetcher,
	exec detectors.Executor,
	c *config.Config,
	in kafka.TopicInfo,
) (*folded, error) {
	dec, err := c.NewDecoder(e.reg)
	if err != nil {
		return nil, err
	}
	ks, err := c.KeystateConfig()
	if err != nil {
		return nil, err
	}
	tps, first, ends, err := e.bounds(ctx, in)
	if err != nil {
		return nil, err
	}
	x := &folded{series: map[string]int32{}, whole: len(tps) == in.Partitions}
	split := schemas.NewSplitter(c.Series())
	reading := schemas.Reading{}
	var lane *backtest.Lane
	end := func() error { // of a lane
		if lane == nil {
			return nil
		}
		err := lane.Finish(ctx)
		counts, _ := lane.Counts()
		for i, n := range counts {
			x.counts[i] += n
		}
		lane.Close()
		lane = nil
		return err
	}
	tell := func(rows []state.Row, _ []state.EventRow) error {
		for i := range rows {
			if r := &rows[i]; r.State == state.RowWarmingUp && r.Remaining > 0 && (x.nearest == 0 || r.Remaining < x.nearest) {
				x.nearest = r.Remaining
			} else if ks.Reading.Every > 0 && r.State != state.RowWarmingUp {
				x.counts[state.Scored]++ // its records are counted as aggregated
			}
		}
		return nil
	}
	place := int64(0)
	for _, tp := range tps {
		from := max(first[tp], ends[tp]-foldRecords/int64(len(tps)))
		x.whole = x.whole && from == first[tp]
		reading.Partition = tp.Partition
		// With REKEY one partition of the internal topic has the samples of a series of all partitions.
		if lane == nil || !e.c.Cycle.Rekey {
			if err := end(); err != nil {
				return nil, err
			}
			lane = backtest.NewLane(ks, exec, tp.Topic, tp.Partition, 0, tell)
		}
		err := f.ReadRange(ctx, tp, from, ends[tp], func(rec *record.Record) (bool, error) {
			if x.records++; x.counts[state.Scored] > 0 && (x.repeated || x.samples >= 10*manySamples) || x.bytes > foldBytes {
				x.whole = false
				return false, nil
			}
			x.bytes += int64(len(rec.Key) + len(rec.Value))
			ms := cycle.Timestamp(rec)
			if dec.Decode(ctx, rec.Key, rec.Value, ms, rec.Header, &reading) != nil {
				return true, nil //nolint:nilerr // reported of the records
			}
			if most := c.Keys.MaxFuture; most > 0 && ms >= 0 && reading.Time > ms*1000+most.Microseconds() {
				return true, nil
			}
			for i := range split.Samples(&reading) {
				key, at, values := split.Sample(&reading, i)
				sm := state.Sample{Key: key, Time: at, Ahead: reading.Time - at, Offset: ks.Place(place, i), Values: values}
				if lane.Misplaced(&sm) != nil {
					continue
				}
				x.note(&sm)
				x.fill(ks, values)
				out, err := lane.Fold(ctx, &sm)
				if err != nil {
					return false, err
				}
				if out == state.Scored {
					x.counts[state.Scored]++ // and again at the lane's end
				}
			}
			place++
			return true, nil
		})
		if err != nil {
			_ = end()
			return nil, err
		}
	}
	return x, end()
}

// note takes a sample into account.
func (f *folded) note(sm *state.Sample) {
	f.samples++
	f.series[string(sm.Key)]++
	f.repeated = f.repeated || f.series[string(sm.Key)] > 1
	if f.present == nil {
		f.present = make([]int, len(sm.Values))
	}
	complete := 1
	for i, v := range sm.Values {
		if v != v {
			complete = 0
		} else if i < len(f.present) {
			f.present[i]++
		}
	}
	f.complete += complete
}

// fill counts a sample for the windows that take its values.
func (f *folded) fill(ks *state.Config, values []float64) {
	if f.full == nil {
		f.full = make([]int, len(ks.Windows))
	}
	for i := range ks.Windows {
		w := &ks.Windows[i]
		if w.Incomplete || !slices.ContainsFunc(w.Columns, func(c int) bool { return values[c] != values[c] }) {
			f.full[i]++
		}
	}
}

// mute returns the names of the detectors whose windows have taken no sample; "": each has some.
func (f *folded) mute(c *config.Config) string {
	ks, err := c.KeystateConfig()
	if err != nil || ks.Reading.Hold {
		return ""
	}
	var names []string
	for i := range ks.Detectors {
		d := &ks.Detectors[i]
		if d.Ensemble == nil && len(ks.Windows[d.Window].Columns) > 1 && f.full[d.Window] == 0 {
			names = append(names, d.Name)
		}
	}
	return strings.Join(names, ", ")
}

// report says whether some series will have a score.
func (f *folded) report(r *Report, c *config.Config, what string) {
	most := int32(0)
	for _, n := range f.series {
		most = max(most, n)
	}
	read := fmt.Sprintf("%d samples of %d series", f.samples, len(f.series))
	never := f.counts[state.Missing] + f.counts[state.Filtered]
	switch {
	case f.samples >= manySamples && !f.repeated: // some methods have a score of the first sample
		r.wrong(what, fmt.Sprintf("each of %d samples is of a series of its own, so none will ever have a history to judge it by", f.samples),
			"correct "+c.MappingPrefix()+"KEY_FIELD: it names what is measured, not the record")
	case f.counts[state.Scored] > 0:
		if mute := f.mute(c); mute != "" && f.samples >= FewRecords {
			r.Warn(what, fmt.Sprintf("none of %s has all values of detector %s, which will have no score%s", read, mute, f.lacking(c)),
				"give it its FIELDS, or make each field a series of its own ("+c.MappingPrefix()+"SERIES_FIELDS)")
			return
		}
		r.OK(what, "the first is among the newest %s", read)
	case f.samples >= FewRecords && f.counts[state.Filtered] == int64(f.samples):
		r.wrong(what, fmt.Sprintf("none of %s is read by a detector, so there will be none", read), "correct KEYS of the detectors")
	case f.samples >= FewRecords && never == int64(f.samples):
		r.wrong(what, fmt.Sprintf("none of %s has all values of a detector, so there will be none%s", read, f.lacking(c)),
			"correct "+c.MappingPrefix()+"VALUE_FIELDS; make each field a series of its own ("+c.MappingPrefix()+"SERIES_FIELDS); or give each "+
				"detector its FIELDS")
	case f.samples >= manySamples && len(f.series) > f.samples/2:
		r.Warn(what, fmt.Sprintf("%s, of which none has a score, and none more than %d samples", read, most),
			"see "+c.MappingPrefix()+"KEY_FIELD: it names what is measured, not the record")
	default:
		detail := fmt.Sprintf("none yet of the newest %s", read)
		if f.whole {
			detail = fmt.Sprintf("none yet of all %s", read)
		}
		if f.nearest > 0 {
			detail += fmt.Sprintf(": the nearest lacks %d samples", f.nearest)
		}
		r.OK(what, "%s", detail)
	}
}

// lacking says how many samples have each value.
func (f *folded) lacking(c *config.Config) string {
	m := c.SchemaMapping()
	all, err := m.Columns(nil)
	if err != nil || len(all) != len(f.present) || c.Series() != nil || len(all) < 2 {
		return ""
	}
	const most = 8
	var parts []string
	for i, name := range m.ColumnNames(all) {
		if i == most {
			parts = append(parts, fmt.Sprintf("and %d more", len(all)-most))
			break
		}
		parts = append(parts, fmt.Sprintf("%s in %d", name, f.present[i]))
	}
	return fmt.Sprintf(": %s, all together in %d", strings.Join(parts, ", "), f.complete)
}
