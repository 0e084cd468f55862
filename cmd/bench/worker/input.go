package worker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"odradek/cmd/bench/testbed"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
)

// sensorRate is the number of samples a second of each sensor of capacity: one sample every
// 100 ms, as in the paper.
const sensorRate = 10

// fleetWriters is the number of producers of a fleet's records.
const fleetWriters = 4

// fleetInput is the topic of a fleet of sensors. Sensors are added in steps, so that full windows stay full, and equally to all partitions.
type fleetInput struct {
	*testbed.Input
	made  int       // names tried for keys
	next  []int     // by partition: the next of its sensors
	round []int     // by partition: times that all of them had their turn
	last  []int64   // by partition: event time of its last record
	wave  []float64 // the signal below the noise, one period
}

func (b *FleetBench) newFleetInput(ctx context.Context, name string) (*fleetInput, error) {
	in, err := b.NewEmptyInput(ctx, name, b.Partitions)
	if err != nil {
		return nil, err
	}
	n := b.Partitions
	f := &fleetInput{Input: in, next: make([]int, n), round: make([]int, n), last: make([]int64, n), wave: make([]float64, 1<<10)}
	for i := range f.wave {
		f.wave[i] = 20 + 4*math.Sin(2*math.Pi*float64(i)/float64(len(f.wave)))
	}
	return f, nil
}

// value returns a sensor's next value: a wave of its own phase, with noise.
func (f *fleetInput) value(sensor, round int, rng *rand.Rand) float64 {
	return f.wave[(sensor*389+round*7)&(len(f.wave)-1)] + rng.Float64()
}

// grow raises the number of sensors to n.
func (f *fleetInput) grow(sensors int) {
	each := (sensors + len(f.Keys) - 1) / len(f.Keys)
	for i := f.made; len(f.Keys[0]) < each || !f.even(); i, f.made = i+1, i+1 {
		key := fmt.Appendf(nil, "press-%06d/bearing", i)
		if p := kafka.Partition(key, len(f.Keys)); len(f.Keys[p]) < each {
			f.Keys[p] = append(f.Keys[p], key)
		}
	}
}

func (f *fleetInput) even() bool {
	for _, k := range f.Keys {
		if len(k) != len(f.Keys[0]) {
			return false
		}
	}
	return true
}

// sensors returns the number of sensors.
func (f *fleetInput) sensors() int { return len(f.Keys) * len(f.Keys[0]) }

// fleetWriter is a producer of some partitions of a fleet.
type fleetWriter struct {
	f     *fleetInput
	prod  *kafka.Producer
	parts []int
	out   map[kafka.TP]*record.Batches
	to    []*record.Batches
	rng   *rand.Rand
	value []byte
}

func (f *fleetInput) writer(ctx context.Context, client *kafka.Client, i, n, batch int) (*fleetWriter, error) {
	w := &fleetWriter{f: f, prod: client.NewProducer(kafka.ProducerConfig{}), out: map[kafka.TP]*record.Batches{},
		rng: rand.New(rand.NewPCG(uint64(i), uint64(f.round[0]))), value: make([]byte, 0, 128)}
	for p := i; p < len(f.Keys); p += n {
		b := record.NewBatches(batch, record.CodecNone)
		w.parts, w.to = append(w.parts, p), append(w.to, b)
		w.out[kafka.TP{Topic: f.Topic, Partition: int32(p)}] = b
	}
	return w, w.prod.Init(ctx)
}

// add appends the next record of the writer's k-th partition, of its sensors from
// lo to hi.
func (w *fleetWriter) add(k, lo, hi int, at int64, now int64) error {
	f, p := w.f, w.parts[k]
	i := f.next[p]
	if i < lo || i >= hi {
		i = lo
		f.round[p]++
	}
	f.next[p], f.last[p] = i+1, at
	key := f.Keys[p][i]
	w.value = testbed.AppendReading(w.value[:0], f.SchemaID, key, at, f.value(i, f.round[p], w.rng), at)
	return w.to[k].Append(now, key, w.value, nil)
}

// flush sends the added records.
func (w *fleetWriter) flush(ctx context.Context) error {
	if err := w.prod.Produce(ctx, w.out); err != nil {
		return err
	}
	for _, b := range w.to {
		b.Reset()
	}
	return nil
}

// writers runs f for each of the writers of the fleet.
func (b *FleetBench) writers(ctx context.Context, f *fleetInput, batch int, run func(w *fleetWriter, writers int) error) error {
	client, err := kafka.Open(ctx, kafka.Config{Brokers: b.Cluster.Brokers, ClientID: "bench"})
	if err != nil {
		return err
	}
	defer client.Close()
	n := min(fleetWriters, len(f.Keys))
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			w, err := f.writer(ctx, client, i, n, batch)
			if err == nil {
				err = run(w, n)
			}
			errs[i] = err
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// fillFleet writes records as fast as the brokers take them: each records of every
// partition, its sensors from lo to hi in turn, with event times a microsecond apart
// that end about now.
func (b *FleetBench) fillFleet(ctx context.Context, f *fleetInput, lo, hi, each int) error {
	began := time.Now()
	from := began.UnixMicro() - int64(each)
	err := b.writers(ctx, f, testbed.BatchBytes, func(w *fleetWriter, _ int) error {
		const round = 1 << 13 // records of a partition between acknowledgements
		for n := 0; n < each; {
			more, now := min(round, each-n), time.Now().UnixMilli()
			for k, p := range w.parts {
				at := max(f.last[p], from+int64(n))
				for i := range more {
					if err := w.add(k, lo, hi, at+int64(i)+1, now); err != nil {
						return err
					}
				}
			}
			n += more
			if err := w.flush(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("fill %s: %w", f.Topic, err)
	}
	b.Say("wrote %d records to %s in %v", each*len(f.Keys), f.Topic, time.Since(began).Round(time.Millisecond))
	return nil
}

// pace writes records at a rate until ctx ends, all partitions and of each its
// sensors up to hi in turn; their event times are the time of sending.
func (b *FleetBench) pace(ctx context.Context, f *fleetInput, hi int, rate float64, sent *atomic.Int64) error {
	latest := int64(0)
	for _, at := range f.last {
		latest = max(latest, at)
	}
	if early := time.Duration(latest-time.Now().UnixMicro()) * time.Microsecond; early > 0 {
		if err := testbed.Pause(ctx, early); err != nil {
			return nil //nolint:nilerr // the measurement is over: there is nothing left to write
		}
	}
	return b.writers(ctx, f, 1<<20, func(w *fleetWriter, writers int) error {
		share := rate * float64(len(w.parts)) / float64(len(f.Keys))
		began := time.Now()
		for n, k := int64(0), 0; ctx.Err() == nil; {
			owed := min(int64(share*time.Since(began).Seconds())-n, 1<<16)
			if owed < int64(share/1000) || owed < 1 {
				time.Sleep(200 * time.Microsecond)
				continue
			}
			now := time.Now()
			for i := range owed {
				if i&0xff == 0xff {
					now = time.Now()
				}
				if err := w.add(k, 0, hi, now.UnixMicro(), now.UnixMilli()); err != nil {
					return err
				}
				if k++; k == len(w.parts) {
					k = 0
				}
			}
			n += owed
			if err := w.flush(context.WithoutCancel(ctx)); err != nil {
				return fmt.Errorf("worker: generate: %w", err)
			}
			sent.Add(owed)
		}
		return nil
	})
}
