package worker

import (
	"context"
	"fmt"
	"time"

	"odradek/cmd/bench/testbed"
)

// trips are the round trips of distant, with the records a second to be reached. A transaction takes at least four of
// them, one after the other.
var trips = []struct {
	trip time.Duration
	want float64
}{{160 * time.Millisecond, 100_000}, {240 * time.Millisecond, 60_000}, {400 * time.Millisecond, 30_000}}

// The times of distant: cycles have their size before it is measured, and a slow worker need not read the whole input.
const (
	distantWarm = 20 * time.Second
	distantSpan = time.Minute
)

// Distant measures the rate of a worker with a backlog whose requests to the brokers take a round trip more.
func (b *Bench) Distant(ctx context.Context) (rows []testbed.Row, err error) {
	in, err := b.NewInput(ctx, "distant", pathKeys)
	if err != nil {
		return nil, err
	}
	if err := b.Fill(ctx, in, pathRecords); err != nil {
		return nil, err
	}
	for _, x := range trips {
		r, err := b.distantRun(ctx, in, x.trip)
		if err != nil {
			return rows, err
		}
		rows = append(rows, r.Want(fmt.Sprintf(">= %s", testbed.Figure(x.want)), r.Value >= x.want))
	}
	return rows, nil
}

func (b *Bench) distantRun(ctx context.Context, in *testbed.Input, trip time.Duration) (r testbed.Row, err error) {
	address, stop, err := b.Bed.Distant(trip)
	if err != nil {
		return r, err
	}
	defer stop()
	w, err := b.StartWorker(in, fmt.Sprintf("%s-%d", in.Topic, trip.Milliseconds()), "ODRADEK_KAFKA_BROKERS="+address)
	if err != nil {
		return r, err
	}
	defer w.Kill()
	defer b.Drop(w.Scores, w.Changelog, w.Group+"-dlq", w.Group+"-late")
	if err := w.Ready(ctx); err != nil {
		return r, err
	}
	if err := testbed.Pause(ctx, b.Span(distantWarm)); err != nil {
		return r, err
	}
	began := time.Now()
	before, err := w.Cycles()
	if err != nil {
		return r, err
	}
	var c testbed.Cycles
	for c.Records+before.Records < float64(in.Records) && time.Since(began) < b.Span(distantSpan) {
		if err := testbed.Pause(ctx, 200*time.Millisecond); err != nil {
			return r, err
		}
		now, err := w.Cycles()
		if err != nil {
			return r, err
		}
		c = now.Since(before)
	}
	rate := c.Records / time.Since(began).Seconds()
	return testbed.NewRow(fmt.Sprintf("%d ms", trip.Milliseconds()), rate, "records/s").
		Noted("%v; %d keys, %d partitions, %s", c, pathKeys, testbed.Partitions, b.Cluster.Kind), nil
}
