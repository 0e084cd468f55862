package sensors

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
)

// Label is one planted fault, as written to the labels.
type Label struct {
	Sensor  string    `json:"sensor,omitempty"` // the series of a reading
	Series  string    `json:"series,omitempty"` // of any other record
	Fault   string    `json:"fault"`
	FromSeq int64     `json:"from_seq"`
	ToSeq   int64     `json:"to_seq"` // the last one of the fault
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	Size    float64   `json:"size,omitempty"` // added to the value; of a frequency or a hot spot the factor
	Box     []float64 `json:"box,omitempty"`  // x0, y0, x1, y1 of a hot spot
}

// Options configures a Source.
type Options struct {
	Topic       string        // for the readings
	LabelsTopic string        // for the labels; empty: none
	Rate        float64       // records a second, all series together; 0 for full speed
	Records     int64         // records to make; 0 for no end
	Duration    time.Duration // how long to make records; 0 for no end
	Start       time.Time     // event time of the first step
	Interval    time.Duration // event time from a series' step to the next
	Dropout     string        // DropoutNull or DropoutAbsent

	HeadStart int64         // records made at full speed before Rate holds
	Made      *atomic.Int64 // how many records were sent, those left out included; may be nil
}

// What a sensor sends at a dropout.
const (
	DropoutNull   = "null"   // records with a null value
	DropoutAbsent = "absent" // no records
)

// Source turns steps into records. The records of a run are a function of the
// options and the stream; how they fall into batches is not.
type Source struct {
	LabelFile       *bufio.Writer // for the labels; nil: none
	LabelPartitions int           // of the topic for the labels; 0: none
	Labels          int64         // written
	Next            int64         // records made

	o          Options
	stream     Stream
	keys       [][]byte
	target     []int32 // partition of each series
	partitions int
	value      []byte
}

// round has the records that are sent together.
type round struct {
	readings, labels []*record.Batches
	next             int64 // records made with it
}

// NewSource makes a source of a stream for a topic with that number of partitions.
func NewSource(o Options, stream Stream, partitions int) *Source {
	g := &Source{o: o, stream: stream, keys: stream.Keys(), partitions: partitions}
	for _, key := range g.keys {
		g.target = append(g.target, kafka.Partition(key, partitions))
	}
	return g
}

// Name returns the name of sensor i, the key of its records.
func Name(i int) string { return fmt.Sprintf("sensor-%05d", i) }

// at returns the event time of a step.
func (s *Source) at(step int64) time.Time {
	return s.o.Start.Add(time.Duration(step) * s.o.Interval)
}

// record encodes record i: series i mod n, step i div n. The value is valid until
// the next call. ok is false at a dropout: the value is null.
func (s *Source) record(i int64) (series int, value []byte, ok bool) {
	n := int64(len(s.keys))
	series, step := int(i%n), i/n
	us := s.o.Start.UnixMicro() + step*s.o.Interval.Nanoseconds()/1000
	s.value, ok = s.stream.Append(s.value[:0], series, step, us)
	return series, s.value, ok
}

// fill appends n more records to r, and the labels of the faults that end in
// them.
func (s *Source) fill(r *round, n, kafkaTime int64) error {
	for range n {
		series, value, ok := s.record(s.Next)
		if ok || s.o.Dropout != DropoutAbsent {
			if err := r.readings[s.target[series]].Append(kafkaTime, s.keys[series], value, nil); err != nil {
				return fmt.Errorf("sensors: %w", err)
			}
		}
		step := s.Next / int64(len(s.keys))
		if l, planted := s.stream.Label(series, step); planted && step == l.ToSeq {
			if err := s.label(r, series, &l); err != nil {
				return err
			}
		}
		s.Next++
	}
	r.next = s.Next
	return nil
}

// finish writes the labels of the faults that have begun and not ended.
func (s *Source) finish(r *round) error {
	n := int64(len(s.keys))
	for i := range min(n, s.Next) {
		last := (s.Next - 1 - i) / n // the last step that was made
		if l, planted := s.stream.Label(int(i), last); planted && last < l.ToSeq {
			l.ToSeq = last
			if err := s.label(r, int(i), &l); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Source) label(r *round, series int, l *Label) error {
	s.Labels++
	if s.LabelFile == nil && s.LabelPartitions == 0 {
		return nil
	}
	l.From, l.To = s.at(l.FromSeq), s.at(l.ToSeq)
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	if s.LabelPartitions > 0 {
		p := kafka.Partition(s.keys[series], s.LabelPartitions)
		if err := r.labels[p].Append(time.Now().UnixMilli(), s.keys[series], b, nil); err != nil {
			return fmt.Errorf("sensors: label: %w", err)
		}
	}
	if s.LabelFile != nil {
		if _, err := s.LabelFile.Write(append(b, '\n')); err != nil {
			return fmt.Errorf("sensors: label: %w", err)
		}
	}
	return nil
}

const (
	roundRecords = 1 << 17              // most records of a round
	tick         = 5 * time.Millisecond // between rounds at a rate
	drainLimit   = 5 * time.Second      // to send what was made when ctx ended; brokers may be away
)

// Run makes records until the options or ctx end it, and sends everything that
// it has made. A round is filled while the one before it is sent. batches makes an
// empty buffer for one partition.
func (s *Source) Run(ctx context.Context, batches func() *record.Batches,
	send func(context.Context, map[kafka.TP]*record.Batches) error) error {
	list := func(n int) []*record.Batches {
		l := make([]*record.Batches, n)
		for i := range l {
			l[i] = batches()
		}
		return l
	}
	free, full := make(chan *round, 2), make(chan *round)
	for range cap(free) {
		free <- &round{readings: list(s.partitions), labels: list(s.LabelPartitions)}
	}
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(drainLimit, cancel) })()
	sent := make(chan error, 1)
	go func() {
		var failed error
		for r := range full {
			if failed == nil {
				if failed = send(work, s.collect(r)); failed != nil {
					cancel() // ends the loop below
				} else if s.o.Made != nil {
					s.o.Made.Store(r.next)
				}
			}
			for _, b := range append(r.readings, r.labels...) {
				b.Reset()
			}
			free <- r
		}
		sent <- failed
	}()

	var err error
	start := time.Now()
	for err == nil {
		n := s.due(time.Since(start))
		if n < 0 || ctx.Err() != nil || work.Err() != nil {
			r := <-free
			err = s.finish(r)
			full <- r
			break
		}
		if n == 0 {
			select {
			case <-time.After(tick):
			case <-ctx.Done():
			case <-work.Done():
			}
			continue
		}
		r := <-free
		err = s.fill(r, n, time.Now().UnixMilli())
		full <- r
	}
	close(full)
	return errors.Join(err, <-sent)
}

// due returns how many records to make after elapsed; below 0 at the end.
func (s *Source) due(elapsed time.Duration) int64 {
	n := int64(roundRecords)
	if s.o.Rate > 0 {
		n = min(n, s.o.HeadStart+int64(elapsed.Seconds()*s.o.Rate)-s.Next)
	}
	if s.o.Records > 0 {
		left := s.o.Records - s.Next
		if left == 0 {
			return -1
		}
		n = min(n, left)
	}
	if s.o.Duration > 0 && elapsed >= s.o.Duration {
		return -1
	}
	return max(n, 0)
}

// collect lists the batches of a round.
func (s *Source) collect(r *round) map[kafka.TP]*record.Batches {
	out := make(map[kafka.TP]*record.Batches, len(r.readings)+len(r.labels))
	put := func(topic string, list []*record.Batches) {
		for i, b := range list {
			if b.Count() > 0 {
				out[kafka.TP{Topic: topic, Partition: int32(i)}] = b
			}
		}
	}
	put(s.o.Topic, r.readings)
	put(s.o.LabelsTopic, r.labels)
	return out
}
