package why

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/schemas"
)

// sample is a sample of the source partition.
type sample struct {
	offset int64 // state.Config.Place of its record and its number there
	time   int64
	ahead  int64     // state.Sample.Ahead
	key    int32     // index into source.keys
	values []float64 // nil for samples of other series
}

// source holds what was read of the source partition.
type source struct {
	tp          kafka.TP
	first       int64 // the first offset that the partition has
	from, until int64 // offsets that were read
	records     int64
	bytes       int64
	limited     bool // from is above first because of the limits
	samples     []sample
	keys        [][]byte // the first is the key of the anomaly's series
	own         int      // samples of that series
	unreadable  []string // why records were left out, the first few
	left        int      // records that were left out
}

// most is the largest number of faults of records that a report lists.
const most = 5

// probe is the number of records whose mean size converts the limit of bytes into one of records.
const probe = 2000

// maxSeriesKey is the longest series key that the worker takes.
const maxSeriesKey = 8 << 10

// retryPause is the time between two attempts to get a schema.
const retryPause = 500 * time.Millisecond

// read reads the partition of an anomaly up to the record of its last change, and on until the series has had further samples, for
// which tasks with a stride wait. It begins as early as the limits allow.
func (c *Config) read(ctx context.Context, f *kafka.Fetcher, anomaly *found, further int) (*source, error) {
	a := anomaly.last()
	s := &source{tp: kafka.TP{Topic: a.Topic, Partition: a.Partition}, keys: [][]byte{anomaly.key}}
	infos, err := c.Client.Admin.Topics(ctx, a.Topic)
	if err != nil {
		return nil, fmt.Errorf("why: topic %q: %w", a.Topic, err)
	}
	if !infos[a.Topic].Exists || int(a.Partition) >= infos[a.Topic].Partitions {
		return nil, fmt.Errorf("why: the source of the anomaly, partition %s, does not exist, or may not be described", s.tp)
	}
	first, err := c.Client.Offsets.ListOffsets(ctx, []kafka.TP{s.tp}, kafka.Earliest)
	if err != nil {
		return nil, fmt.Errorf("why: %w", err)
	}
	end, err := c.Client.Offsets.ListStable(ctx, []kafka.TP{s.tp})
	if err != nil {
		return nil, fmt.Errorf("why: %w", err)
	}
	s.first = first[s.tp]
	s.from, s.until = s.first, end[s.tp]
	if a.Offset < s.first || a.Offset >= s.until {
		s.from, s.until = s.first, s.first
		return s, nil
	}
	records, err := c.recordsWithin(ctx, f, s.tp, max(s.first, a.Offset-probe), a.Offset)
	if err != nil {
		return nil, err
	}
	if from := a.Offset + 1 - records; from > s.first {
		s.from, s.limited = from, true
	}
	return s, c.readSamples(ctx, f, s, a.Offset, a.EventTime, further, records)
}

// recordsWithin returns how many records the limits allow, by the size of those from an offset to another.
func (c *Config) recordsWithin(ctx context.Context, f *kafka.Fetcher, tp kafka.TP, from, to int64) (int64, error) {
	n, size := int64(0), int64(0)
	err := f.ReadRange(ctx, tp, from, to, func(r *record.Record) (bool, error) {
		n++
		size += int64(len(r.Key) + len(r.Value))
		return true, nil
	})
	if err != nil {
		return 0, fmt.Errorf("why: %w", err)
	}
	most := c.MaxRecords
	if size > 0 {
		most = min(most, max(1, int64(float64(c.MaxBytes)/float64(size)*float64(n))))
	}
	return most, nil
}

func (c *Config) readSamples(ctx context.Context, f *kafka.Fetcher, s *source, last, lastTime int64, further int, most int64) error {
	index := map[string]int32{string(s.keys[0]): 0}
	dec, split := c.Decoder.Clone(), schemas.NewSplitter(c.Series)
	reading := schemas.Reading{Partition: s.tp.Partition}
	var after []int64 // times of the series' samples behind the last change
	newest := int64(0)
	next := s.from
	enough := func() bool {
		n := 0
		for _, t := range after {
			if t <= newest-c.State.Reading.Lateness {
				n++
			}
		}
		return n >= further
	}
	err := f.ReadRange(ctx, s.tp, s.from, s.until, func(r *record.Record) (bool, error) {
		next = r.Offset + 1
		s.records++
		s.bytes += int64(len(r.Key) + len(r.Value))
		err := c.decode(ctx, dec, split, r, &reading)
		if err != nil {
			var de *schemas.DecodeError
			if errors.As(err, &de) && de.Retry || ctx.Err() != nil {
				return false, fmt.Errorf("offset %d: %w", r.Offset, err)
			}
			s.leave(r.Offset, err)
			return r.Offset <= last || s.records < most+1000, nil
		}
		newest = max(newest, reading.Time)
		for i := range split.Samples(&reading) {
			key, eventTime, values := split.Sample(&reading, i)
			at, ok := index[string(key)]
			if !ok {
				at = int32(len(s.keys))
				s.keys = append(s.keys, bytes.Clone(key))
				index[string(key)] = at
			}
			sm := sample{offset: c.State.Place(r.Offset, i), time: eventTime, ahead: reading.Time - eventTime, key: at}
			if at == 0 {
				s.own++
				sm.values = append([]float64(nil), values...)
				if r.Offset > last && eventTime > lastTime {
					after = append(after, eventTime)
				}
			}
			s.samples = append(s.samples, sm)
		}
		return r.Offset < last || !enough() && s.records < 2*most, nil
	})
	var gone *kafka.OffsetOutOfRangeError
	if errors.As(err, &gone) {
		return fmt.Errorf("why: offsets from %d on of %s expired while they were read: try again", gone.Offset, s.tp)
	}
	if err != nil {
		return fmt.Errorf("why: %s: %w", s.tp, err)
	}
	s.until = next
	return nil
}

func (s *source) leave(offset int64, why error) {
	if s.left++; len(s.unreadable) < most {
		s.unreadable = append(s.unreadable, fmt.Sprintf("offset %d: %v", offset, why))
	}
}

// decode reads a record. After an error that is not worth another try, the record is a dead letter.
func (c *Config) decode(ctx context.Context, dec schemas.Decoder, split *schemas.Splitter, r *record.Record, to *schemas.Reading) error {
	header := r.Header
	if r.HeaderCount == 0 {
		header = nil
	}
	began, ms := time.Now(), cycle.Timestamp(r)
	for {
		err := dec.Decode(ctx, r.Key, r.Value, ms, header, to)
		var de *schemas.DecodeError
		if err == nil || !errors.As(err, &de) || !de.Retry || time.Since(began) > c.Patience {
			if f := c.MaxFuture; err == nil && f > 0 && ms >= 0 && to.Time > ms*1000+f.Microseconds() {
				err = errors.New("the event time is too far after the record's timestamp (ODRADEK_MAX_FUTURE)")
			}
			if n := split.KeyBytes(to); err == nil && n > maxSeriesKey {
				err = fmt.Errorf("the series key has %d bytes, %d at most", n, maxSeriesKey)
			}
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retryPause):
		}
	}
}
