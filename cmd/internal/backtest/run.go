// Package backtest runs the configured detectors over recorded samples, from files or a range of a topic, through the
// same fold as the stream, and writes tables of scores and anomalies and a report.
//
// # The path of a row
//
//  1. A Source reads rows as table.Batches and sends each partition its share of them. Rows of
//     files are distributed by series key, as by a producer; a topic has its own
//     partitions; each series of a labelled data set is one.
//  2. A lane for each partition folds its rows (Lane) in a goroutine of its own.
//     Its results depend on its partition's rows and their order alone: not on the
//     number of cores, nor on the sizes of the batches of rows and of tasks.
//  3. lane.tell takes scores and changes of anomalies, marks the ones whose series is not
//     warm yet (warmth), and collects the data of the tables, the report and the measures
//     of a data set.
//  4. Run joins the lanes' results into a Summary.
package backtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"odradek/cmd/internal/table"
	"odradek/detectors"
	"odradek/processor/state"
)

// Source supplies the rows of a run.
type Source interface {
	// Partitions returns the partitions of the rows, at least one.
	Partitions() []Partition
	// Read sends all rows, each partition's in order, until ctx ends. It may call send from several goroutines, but
	// only from one at a time for a partition.
	Read(ctx context.Context, send func(partition int, s *Share) error) error
	// Total returns the amount to read, in the unit of Share.Done; 0 where it is unknown.
	Total() int64
	// Troubles describes unreadable input that was left out, a line each.
	Troubles() []string
}

// Partition is the input partition of a lane. Topic and number are part of the ids of
// anomalies; First is the first offset.
type Partition struct {
	Topic  string
	Number int32
	First  int64

	state    *state.Config // nil: the Config's
	recorded *DataSet      // the data set that the partition is a series of; nil: none
}

// stateOf returns the state's configuration of the partition in a run.
func (p *Partition) stateOf(c *Config) *state.Config {
	if p.state != nil {
		return p.state
	}
	return c.State
}

// Share are the rows of a batch that belong to one partition.
type Share struct {
	Batch   *table.Batch // with a user of its own for the share
	Rows    []uint32     // of the batch, rising; nil: all
	First   int64        // offset of the first row; the others follow it
	Offsets []int64      // if they do not: of each row of the batch, as state.Config.Place has them; a record's rows are together
	Ahead   []int64      // state.Sample.Ahead of each row of the batch; nil: 0
	Done    int64        // how much of the source has been read with this share
	Last    bool         // the partition ends with it
}

// Config configures a run.
type Config struct {
	State    *state.Config // of a data set: its first series'
	Executor detectors.Executor
	Source   Source
	Labels   Labels   // nil: none
	Out      *Outputs // nil: no tables
	// Published are anomalies to compare with; nil: none.
	Published Published
	Plots     int // series that are drawn, at most
	Progress  *table.Progress
}

// shares is the largest number of Shares that wait for a lane.
const shares = 4

// Run runs to the end of the source, or until ctx ends: then it scores the rows that were read, and the Summary says
// that it is partial. After an error of the source the Summary covers the rows before it.
func Run(ctx context.Context, c *Config) (*Summary, error) {
	if c.Progress == nil {
		c.Progress = new(table.Progress)
	}
	c.Progress.Total.Store(c.Source.Total())
	parts := c.Source.Partitions()
	lanes := make([]*lane, len(parts))
	queues := make([]chan *Share, len(parts))
	fails := make([]error, len(parts))
	reading, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	for i := range parts {
		l := newLane(c, &parts[i])
		lanes[i], queues[i] = l, make(chan *Share, shares)
		wg.Go(func() {
			defer l.fold.Close()
			// The rows that were read are scored also after the end of ctx.
			fails[i] = l.run(context.WithoutCancel(ctx), queues[i])
			if fails[i] != nil {
				stop()
				for s := range queues[i] {
					s.Batch.Release()
				}
			}
		})
	}
	err := c.Source.Read(reading, func(p int, s *Share) error {
		select {
		case queues[p] <- s:
			return nil
		case <-reading.Done():
			s.Batch.Release()
			return reading.Err()
		}
	})
	for _, q := range queues {
		close(q)
	}
	wg.Wait()
	s := c.summary(lanes, detectorNames(c, parts))
	if broken := errors.Join(fails...); broken != nil {
		return s, broken
	}
	if c.Out != nil {
		if e := c.Out.close(); e != nil {
			return s, e
		}
	}
	if ctx.Err() != nil {
		s.Partial = "interrupted"
		return s, nil
	}
	if err != nil {
		s.Partial = err.Error()
	}
	return s, err
}

// lane is one partition of a run.
type lane struct {
	c         *Config
	partition *Partition
	state     *state.Config
	judge     *judge // nil: the partition is not a series of a data set
	fold      *Lane
	warm      []warmth // by detector
	series    []*seriesTrack
	byName    map[string]*seriesTrack
	atKey     []*seriesTrack               // of the present batch, by index of the key
	open      map[[16]byte]*state.EventRow // anomalies that are open
	shown     []Anomaly                    // the gravest
	faults    int                          // anomalies that were the first of their fault
	scores    *scoreBuffer                 // nil: scores are not written
	counts    counts
	troubles  []string // why records were left out, the first mostReasons
	fault     error
}

// counts are sums over a lane.
type counts struct{ rows, left int64 }

func newLane(c *Config, p *Partition) *lane {
	l := &lane{c: c, partition: p, state: p.stateOf(c), byName: map[string]*seriesTrack{}, open: map[[16]byte]*state.EventRow{}}
	for i := range l.state.Detectors {
		l.warm = append(l.warm, warmthOf(l.state, i))
	}
	if c.Out != nil {
		l.scores = c.Out.buffer(l.state, p)
	}
	l.fold = NewLane(l.state, c.Executor, p.Topic, p.Number, p.First, l.tell)
	l.fold.TellBlocks = l.tellBlocks
	return l
}

func (l *lane) run(ctx context.Context, in <-chan *Share) error {
	whole := false
	for s := range in {
		err := l.consume(ctx, s)
		l.c.Progress.Rows.Add(int64(s.rows()))
		for {
			done := l.c.Progress.Done.Load()
			if s.Done <= done || l.c.Progress.Done.CompareAndSwap(done, s.Done) {
				break
			}
		}
		s.Batch.Release()
		if err != nil {
			return err
		}
		if whole = s.Last; whole {
			break
		}
	}
	if err := l.fold.Finish(ctx); err != nil {
		return err
	}
	l.endOpen()
	if l.scores != nil {
		if err := l.scores.flush(); err != nil {
			return err
		}
	}
	if whole && l.judge != nil {
		l.partition.recorded.add(int(l.partition.Number), l.judge.finish())
	}
	l.judge = nil
	return l.fault
}

func (s *Share) rows() int {
	if s.Rows == nil {
		return s.Batch.Len()
	}
	return len(s.Rows)
}

// row returns the row of the batch that is row i of the share.
func (s *Share) row(i int) int {
	if s.Rows == nil {
		return i
	}
	return int(s.Rows[i])
}

func (s *Share) offset(i int) int64 {
	if s.Offsets == nil {
		return s.First + int64(i)
	}
	return s.Offsets[s.row(i)]
}

// sample returns row i of the share.
func (s *Share) sample(i int) state.Sample {
	row := s.row(i)
	sm := state.Sample{Key: s.Batch.Keys[s.Batch.Key[row]], Time: s.Batch.Times[row], Offset: s.offset(i), Values: s.Batch.Row(row)}
	if s.Ahead != nil {
		sm.Ahead = s.Ahead[row]
	}
	return sm
}

func (l *lane) consume(ctx context.Context, s *Share) error {
	b := s.Batch
	if d := l.partition.recorded; d != nil && l.judge == nil {
		l.judge = newJudge(&d.set[l.partition.Number], l.state)
	}
	l.atKey = slices.Grow(l.atKey[:0], len(b.Keys))[:len(b.Keys)]
	clear(l.atKey)
	for from := 0; from < s.rows(); {
		to := l.recordEnd(s, from)
		if err := l.misplaced(s, from, to); err != nil {
			l.leaveOut(l.state.Record(s.offset(from)), err)
			from = to
			continue
		}
		for ; from < to; from++ {
			row := s.row(from)
			k := b.Key[row]
			series := l.atKey[k]
			if series == nil {
				series = l.seriesOf(b.Keys[k])
				l.atKey[k] = series
			}
			sm := s.sample(from)
			sm.Key = series.name
			series.add(&sm, len(b.Labels) > 0 && b.Labels[row])
			if _, err := l.fold.Fold(ctx, &sm); err != nil {
				return fmt.Errorf("backtest: partition %d, offset %d: %w", l.partition.Number, l.state.Record(sm.Offset), err)
			}
		}
	}
	l.counts.rows += int64(s.rows())
	return l.fault
}

// recordEnd returns where the samples of the record end that row from of the share is of.
func (l *lane) recordEnd(s *Share, from int) int {
	to := from + 1
	if l.state.SampleBits == 0 {
		return to
	}
	for record := l.state.Record(s.offset(from)); to < s.rows() && l.state.Record(s.offset(to)) == record; {
		to++
	}
	return to
}

// misplaced returns why a grid cannot count one of the samples of a record, which is then a dead letter of the worker.
func (l *lane) misplaced(s *Share, from, to int) error {
	for i := from; i < to; i++ {
		sm := s.sample(i)
		if err := l.fold.Misplaced(&sm); err != nil {
			return err
		}
	}
	return nil
}

// leaveOut notes that the record at offset was left out.
func (l *lane) leaveOut(offset int64, why error) {
	if l.counts.left++; len(l.troubles) < mostReasons {
		l.troubles = append(l.troubles, fmt.Sprintf("%s/%d at offset %d: %v", l.partition.Topic, l.partition.Number, offset, why))
	}
}

func (l *lane) seriesOf(name []byte) *seriesTrack {
	series := l.byName[string(name)]
	if series == nil {
		series = newSeries(name, l.c, l.state, len(l.series))
		l.byName[string(series.name)] = series
		l.series = append(l.series, series)
	}
	return series
}
