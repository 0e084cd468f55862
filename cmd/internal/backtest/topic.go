package backtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"odradek/cmd/internal/table"
	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/state"
	"odradek/schemas"
)

// TopicConfig selects the records of a topic. Reading them writes nothing and joins no
// group.
type TopicConfig struct {
	Client  *kafka.Client
	Fetch   kafka.FetchConfig
	Decoder schemas.Decoder
	Series  []string      // names of the values of a reading that are series of their own; nil: a reading is one sample
	State   *state.Config // that the samples are folded by; it numbers a record's samples
	Topic   string
	// From and To are offsets of every partition, times in RFC 3339, or earliest and end,
	// To excluded.
	From, To string
	// MaxFuture bounds how far an event time is ahead of its record's timestamp; 0: no bound.
	MaxFuture time.Duration
	// Patience bounds the wait for a schema that the registry does not have.
	Patience time.Duration
}

// topicRange is a Source of a topic.
type topicRange struct {
	c          *TopicConfig
	partitions []Partition
	until      []int64
	total      int64

	mu   sync.Mutex
	done int64
	bad  int64
	why  []string

	skipped [schemas.Skips]int64 // records that are left out and no fault, by reason
}

// rowsOfTopic is the number of records of a batch.
const rowsOfTopic = 2048

// NewTopic resolves the offsets of a range. The error names those that have expired.
func NewTopic(ctx context.Context, c *TopicConfig) (Source, error) {
	infos, err := c.Client.Admin.Topics(ctx, c.Topic)
	if err != nil {
		return nil, fmt.Errorf("backtest: topic %q: %w", c.Topic, err)
	}
	if !infos[c.Topic].Exists {
		return nil, fmt.Errorf("backtest: topic %q does not exist, or may not be described", c.Topic)
	}
	var tps []kafka.TP
	for p := range infos[c.Topic].Partitions {
		tps = append(tps, kafka.TP{Topic: c.Topic, Partition: int32(p)})
	}
	first, err := c.Client.Offsets.ListOffsets(ctx, tps, kafka.Earliest)
	if err != nil {
		return nil, fmt.Errorf("backtest: first offsets of %q: %w", c.Topic, err)
	}
	end, err := c.Client.Offsets.ListStable(ctx, tps)
	if err != nil {
		return nil, fmt.Errorf("backtest: last offsets of %q: %w", c.Topic, err)
	}
	bound := func(text, flag string) (map[kafka.TP]int64, error) {
		switch text {
		case "earliest":
			return first, nil
		case "end":
			return end, nil
		}
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 {
			all := map[kafka.TP]int64{}
			for _, tp := range tps {
				all[tp] = n
			}
			return all, nil
		}
		t, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return nil, fmt.Errorf("backtest: %s %q: use an offset, a time (RFC 3339), earliest or end", flag, text)
		}
		at, err := c.Client.Offsets.ListOffsets(ctx, tps, t.UnixMilli())
		if err != nil {
			return nil, fmt.Errorf("backtest: offsets of %q at %s: %w", c.Topic, text, err)
		}
		return at, nil
	}
	from, err := bound(c.From, "-from")
	if err != nil {
		return nil, err
	}
	to, err := bound(c.To, "-to")
	if err != nil {
		return nil, err
	}
	s := &topicRange{c: c}
	var errs []error
	for _, tp := range tps {
		a, b := from[tp], min(to[tp], end[tp])
		if a < first[tp] && a < b {
			errs = append(errs, fmt.Errorf("backtest: offsets %d to %d of %s have expired; the first one there is %d: use it, or -from earliest", a,
				min(b, first[tp])-1, tp, first[tp]))
		}
		b = max(a, b)
		s.partitions = append(s.partitions, Partition{Topic: c.Topic, Number: tp.Partition, First: a})
		s.until = append(s.until, b)
		s.total += b - a
	}
	return s, errors.Join(errs...)
}

func (t *topicRange) Partitions() []Partition { return t.partitions }
func (t *topicRange) Total() int64            { return t.total }

func (t *topicRange) Troubles() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := slices.Clone(t.why)
	if t.bad > int64(len(t.why)) {
		list = append(list, fmt.Sprintf("%d records were left out in all", t.bad))
	}
	for why, n := range t.skipped {
		if n > 0 {
			list = append(list, fmt.Sprintf("%d records (%s)", n, schemas.Skip(why)))
		}
	}
	return list
}

// Read reads the partitions side by side. An error in one does not end the
// others.
func (t *topicRange) Read(ctx context.Context, send func(int, *Share) error) error {
	f := kafka.NewFetcher(t.c.Client, t.c.Fetch)
	defer f.Close()
	errs := make([]error, len(t.partitions))
	var wg sync.WaitGroup
	for i := range t.partitions {
		wg.Go(func() { errs[i] = t.read(ctx, f, i, send) })
	}
	wg.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errors.Join(errs...)
}

// read reads a partition.
func (t *topicRange) read(ctx context.Context, f *kafka.Fetcher, i int, send func(int, *Share) error) error {
	p := &t.partitions[i]
	tp := kafka.TP{Topic: p.Topic, Partition: p.Number}
	b := newTopicRows(t.c, tp.Partition)
	next := p.First
	flush := func() error {
		t.mu.Lock()
		t.done += next - b.from
		done := t.done
		t.mu.Unlock()
		b.from = next
		if len(b.offsets) == 0 {
			return nil
		}
		err := send(i, &Share{Batch: b.batch, Offsets: b.offsets, Ahead: b.ahead, Done: done})
		b.reset()
		return err
	}
	b.from = next
	err := f.ReadRange(ctx, tp, p.First, t.until[i], func(r *record.Record) (bool, error) {
		if err := t.decode(ctx, tp, b, r); err != nil {
			return false, err
		}
		if next = r.Offset + 1; len(b.offsets) < rowsOfTopic {
			return true, nil
		}
		return true, flush()
	})
	var gone *kafka.OffsetOutOfRangeError
	switch {
	case err == nil:
		next = t.until[i]
	case errors.As(err, &gone) && gone.LogStart > gone.Offset:
		err = fmt.Errorf("backtest: offsets %d to %d of %s expired before they were read; the first one there is %d now", gone.Offset,
			min(gone.LogStart, t.until[i])-1, tp, gone.LogStart)
	default:
		err = fmt.Errorf("backtest: %s from offset %d on: %w", tp, next, err)
	}
	if e := flush(); err == nil {
		err = e
	}
	return err
}

// topicRows is a batch that grows record by record. It has all samples of a record or none.
type topicRows struct {
	batch   *table.Batch
	offsets []int64
	ahead   []int64
	index   map[string]uint32
	from    int64 // offset that it begins at
	dec     schemas.Decoder
	split   *schemas.Splitter
	state   *state.Config
	reading schemas.Reading
}

func newTopicRows(c *TopicConfig, partition int32) *topicRows {
	r := &topicRows{dec: c.Decoder.Clone(), split: schemas.NewSplitter(c.Series), state: c.State,
		reading: schemas.Reading{Partition: partition}}
	r.reset()
	return r
}

func (r *topicRows) reset() {
	r.batch, r.offsets, r.ahead, r.index = &table.Batch{Width: r.state.Dim}, nil, nil, map[string]uint32{}
}

// add appends the samples of the record at offset, which reading has.
func (r *topicRows) add(offset int64) {
	t := r.batch
	for i := range r.split.Samples(&r.reading) {
		key, time, values := r.split.Sample(&r.reading, i)
		at, ok := r.index[string(key)]
		if !ok {
			at = uint32(len(t.Keys))
			own := append([]byte(nil), key...)
			t.Keys = append(t.Keys, own)
			r.index[string(own)] = at
		}
		t.Key, t.Times, t.Values = append(t.Key, at), append(t.Times, time), append(t.Values, values...)
		r.offsets, r.ahead = append(r.offsets, r.state.Place(offset, i)), append(r.ahead, r.reading.Time-time)
	}
}

// retryPause is the time between two attempts to get a schema.
const retryPause = 500 * time.Millisecond

// decode decodes a record into the batch; one that cannot be read, which would be a dead
// letter of the worker, is left out.
func (t *topicRange) decode(ctx context.Context, tp kafka.TP, b *topicRows, r *record.Record) error {
	header := r.Header
	if r.HeaderCount == 0 {
		header = nil
	}
	began, ms := time.Now(), cycle.Timestamp(r)
	for {
		err := b.dec.Decode(ctx, r.Key, r.Value, ms, header, &b.reading)
		var de *schemas.DecodeError
		if errors.As(err, &de) && de.Retry {
			if time.Since(began) > t.c.Patience {
				return fmt.Errorf("offset %d: %w", r.Offset, err)
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(retryPause):
			}
			continue
		}
		rd := &b.reading
		if f := t.c.MaxFuture; err == nil && rd.Len() > 0 && f > 0 && ms >= 0 && rd.Time > ms*1000+f.Microseconds() {
			err = errors.New("the event time is too far after the record's timestamp (ODRADEK_MAX_FUTURE)")
		}
		if n := b.split.KeyBytes(rd); err == nil && n > maxSeriesKey {
			err = fmt.Errorf("the series key has %d bytes, %d at most", n, maxSeriesKey)
		}
		if err != nil {
			t.mu.Lock()
			if t.bad++; len(t.why) < mostReasons {
				t.why = append(t.why, fmt.Sprintf("%s at offset %d: %v", tp, r.Offset, err))
			}
			t.mu.Unlock()
			return nil
		}
		break
	}
	if why := b.reading.Skipped; why != schemas.NotSkipped {
		t.mu.Lock()
		t.skipped[why]++
		t.mu.Unlock()
		return nil
	}
	b.add(r.Offset)
	return nil
}

// maxSeriesKey is the longest series key that the worker takes.
const maxSeriesKey = 8 << 10
