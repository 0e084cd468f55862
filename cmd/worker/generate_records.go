package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"odradek/processor/kafka"
	"odradek/schemas"
)

// Label is one planted fault, as written to the labels.
type Label struct {
	Sensor  string    `json:"sensor"`
	Fault   string    `json:"fault"`
	FromSeq int64     `json:"from_seq"`
	ToSeq   int64     `json:"to_seq"` // the last one of the fault
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	Size    float64   `json:"size,omitempty"` // added to the value; of a frequency the factor
}

// recordSource turns steps into records. The records of a run are a function of
// the options; how they fall into batches is not.
type recordSource struct {
	o       *generateOptions
	sensors []sensor
	names   [][]byte
	target  []int32 // partition of each sensor
	parts   int
	enc     *schemas.ReadingEncoder
	start   time.Time

	next  int64 // records made
	value []byte

	labelFile       *bufio.Writer // nil: none
	labelPartitions int           // of the labels topic; 0: none
	labels          int64         // written
}

// round is what is sent together.
type round struct {
	readings, labels []*kafka.Batches
	next             int64 // records made with it
}

func newRecordSource(o *generateOptions, m *signalModel, schemaID int32, partitions int) *recordSource {
	g := &recordSource{
		o: o, enc: schemas.NewReadingEncoder(schemaID, o.plant, o.unit), parts: partitions,
		sensors: make([]sensor, o.sensors), names: make([][]byte, o.sensors), target: make([]int32, o.sensors),
	}
	g.start, _ = time.Parse(time.RFC3339Nano, o.start) // has been checked
	for i := range g.sensors {
		g.sensors[i] = m.sensor(i)
		g.names[i] = []byte(sensorName(i))
		g.target[i] = kafka.Partition(g.names[i], partitions)
	}
	return g
}

func sensorName(i int) string { return fmt.Sprintf("sensor-%05d", i) }

// at is the event time of a step.
func (g *recordSource) at(step int64) time.Time {
	return g.start.Add(time.Duration(step) * g.o.interval)
}

// record encodes record i: sensor i mod n, step i div n. The value is valid until
// the next call. ok is false where the sensor says nothing: its value is null.
func (g *recordSource) record(i int64) (sensor int, value []byte, ok bool) {
	n := int64(len(g.sensors))
	sensor, step := int(i%n), i/n
	v, ok := g.sensors[sensor].at(step)
	if !ok {
		v = math.NaN()
	}
	us := g.start.UnixMicro() + step*g.o.interval.Nanoseconds()/1000
	g.value = g.enc.Append(g.value[:0], g.names[sensor], us, v, step)
	return sensor, g.value, ok
}

// fill appends n more records to r, and the labels of the faults that end in
// them.
func (g *recordSource) fill(r *round, n, kafkaTime int64) error {
	for range n {
		sensor, value, ok := g.record(g.next)
		if ok || g.o.dropout != dropoutAbsent {
			if err := r.readings[g.target[sensor]].Append(kafkaTime, g.names[sensor], value, nil); err != nil {
				return fmt.Errorf("generate: %w", err)
			}
		}
		s := &g.sensors[sensor]
		if step := g.next / int64(len(g.sensors)); s.slot > 0 && step == s.fault.to && !s.fault.none {
			if err := g.label(r, sensor, s.fault); err != nil {
				return err
			}
		}
		g.next++
	}
	r.next = g.next
	return nil
}

// finish writes the labels of the faults that have begun and not ended.
func (g *recordSource) finish(r *round) error {
	n := int64(len(g.sensors))
	for i := range min(n, g.next) {
		s := &g.sensors[i]
		last := (g.next - 1 - i) / n // the last step that was made
		if f := s.fault; s.slot > 0 && !f.none && f.from <= last && last < f.to {
			f.to = last
			if err := g.label(r, int(i), f); err != nil {
				return err
			}
		}
	}
	return nil
}

func (g *recordSource) label(r *round, sensor int, f plantedFault) error {
	g.labels++
	if g.labelFile == nil && g.labelPartitions == 0 {
		return nil
	}
	b, err := json.Marshal(Label{string(g.names[sensor]), f.kind.String(), f.from, f.to, g.at(f.from), g.at(f.to), f.size})
	if err != nil {
		return err
	}
	if g.labelPartitions > 0 {
		p := kafka.Partition(g.names[sensor], g.labelPartitions)
		if err := r.labels[p].Append(time.Now().UnixMilli(), g.names[sensor], b, nil); err != nil {
			return fmt.Errorf("generate: label: %w", err)
		}
	}
	if g.labelFile != nil {
		if _, err := g.labelFile.Write(append(b, '\n')); err != nil {
			return fmt.Errorf("generate: label: %w", err)
		}
	}
	return nil
}

const (
	roundRecords = 1 << 17              // most records of a round
	tick         = 5 * time.Millisecond // between rounds at a rate
)

// run makes records until the options or ctx end it, and sends everything that
// it has made. A round is filled while the one before it is sent.
func (g *recordSource) run(ctx context.Context, batches func() *kafka.Batches, send func(context.Context, map[kafka.TP]*kafka.Batches) error) error {
	list := func(n int) []*kafka.Batches {
		l := make([]*kafka.Batches, n)
		for i := range l {
			l[i] = batches()
		}
		return l
	}
	free, full := make(chan *round, 2), make(chan *round)
	for range cap(free) {
		free <- &round{readings: list(g.parts), labels: list(g.labelPartitions)}
	}
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	sent := make(chan error, 1)
	go func() {
		var failed error
		for r := range full {
			if failed == nil {
				if failed = send(work, g.collect(r)); failed != nil {
					cancel() // ends the loop below
				} else if g.o.made != nil {
					g.o.made.Store(r.next)
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
	begin := time.Now()
	for err == nil {
		n := g.due(time.Since(begin))
		if n < 0 || ctx.Err() != nil || work.Err() != nil {
			r := <-free
			err = g.finish(r)
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
		err = g.fill(r, n, time.Now().UnixMilli())
		full <- r
	}
	close(full)
	return errors.Join(err, <-sent)
}

// due is how many records to make after elapsed; below 0 where it is the end.
func (g *recordSource) due(elapsed time.Duration) int64 {
	n := int64(roundRecords)
	if g.o.rate > 0 {
		n = min(n, g.o.headStart+int64(elapsed.Seconds()*g.o.rate)-g.next)
	}
	if g.o.records > 0 {
		left := g.o.records - g.next
		if left == 0 {
			return -1
		}
		n = min(n, left)
	}
	if g.o.duration > 0 && elapsed >= g.o.duration {
		return -1
	}
	return max(n, 0)
}

// collect lists what a round has to send.
func (g *recordSource) collect(r *round) map[kafka.TP]*kafka.Batches {
	out := make(map[kafka.TP]*kafka.Batches, len(r.readings)+len(r.labels))
	put := func(topic string, list []*kafka.Batches) {
		for i, b := range list {
			if b.Count() > 0 {
				out[kafka.TP{Topic: topic, Partition: int32(i)}] = b
			}
		}
	}
	put(g.o.topic, r.readings)
	put(g.o.labelsTopic, r.labels)
	return out
}
