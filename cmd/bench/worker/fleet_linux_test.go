package worker

import (
	"bytes"
	"context"
	"testing"
	"time"

	"odradek/cmd/bench/testbed"
	"odradek/processor/kafka"
	"odradek/processor/kafkatest"
)

func TestFleetInput(t *testing.T) {
	f := &fleetInput{Input: &testbed.Input{Keys: make([][][]byte, 6)}}
	seen := map[string]bool{}
	for _, sensors := range []int{6, 100, 100, 250} {
		f.grow(sensors)
		want := (sensors + 5) / 6
		if f.sensors() != 6*want {
			t.Fatalf("%d sensors, want %d", f.sensors(), 6*want)
		}
		for p, keys := range f.Keys {
			if len(keys) != want {
				t.Errorf("partition %d has %d sensors, want %d", p, len(keys), want)
			}
		}
	}
	for p, keys := range f.Keys {
		for _, k := range keys {
			if int(kafka.Partition(k, len(f.Keys))) != p || seen[string(k)] {
				t.Errorf("sensor %s in partition %d: not its own, or twice", k, p)
			}
			seen[string(k)] = true
		}
	}
}

// TestBenchFleet runs the parts of fleet and capacity, small, on kfake, with the
// CPU and with a child that computes as it does, one after the other in one group.
func TestBenchFleet(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	child := goChildProgram(t)
	var log bytes.Buffer
	b := &FleetBench{
		Bed: &testbed.Bed{Measuring: &testbed.Measuring{Quick: true, Verbose: true, Log: &log}, Kafka: "kfake",
			WorkerProgram: workerBinary(t), Dir: t.TempDir()},
		GPU: &testbed.GPUOptions{Child: child}, Executors: "cpu,cuda", GPUs: "1,0,2", Partitions: 3, SST: 8,
	}
	defer b.Close()
	defer func() {
		if t.Failed() {
			t.Log(log.String())
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	if err := b.Open(ctx); err != nil {
		t.Fatal(err)
	}
	settings, window, _ := b.fleetDetectors(48)
	f, err := b.newFleetInput(ctx, "test")
	if err != nil {
		t.Fatal(err)
	}
	f.grow(60)
	if err := b.fillFleet(ctx, f, 0, len(f.Keys[0]), len(f.Keys[0])*window); err != nil {
		t.Fatal(err)
	}
	sides := b.sides()
	if len(sides) != 4 || sides[0].err != nil || sides[1].err != nil || sides[2].err == nil || sides[3].gpus != 2 || sides[3].err != nil {
		t.Fatalf("sides %+v", sides)
	}
	for i := range sides[:2] {
		side := &sides[i]
		r, err := b.startFleet(ctx, f, side, settings)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Kill()
		if err := r.caughtUp(ctx, time.Minute); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		m, err := r.throughput(ctx, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		// No more than all that was written in all of the time.
		ends, err := b.Cluster.Admin().Ends(ctx, f.Topic, kafkatest.HighWatermark)
		if err != nil {
			t.Fatal(err)
		}
		all := int64(0)
		for _, n := range ends {
			all += n
		}
		if n := m.Rate * m.Span.Seconds(); n < 1 || n > float64(all) || m.Span > time.Since(began) {
			t.Errorf("%s: %.0f records in %v, of %d in %v", side.name, n, m.Span, all, time.Since(began))
		}
		l, err := r.delays(ctx, f.sensors(), 2000, 300*time.Millisecond, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if len(l.Micros) == 0 || l.Rate < 1000 {
			t.Errorf("%s: %d scores at %.0f records/s", side.name, len(l.Micros), l.Rate)
		}
		if err := b.addSensors(ctx, r, f.sensors()+30, window); err != nil {
			t.Fatal(err)
		}
		// Two scores for each record, none of them late: event times go on.
		if err := r.caughtUp(ctx, time.Minute); err != nil {
			t.Fatal(err)
		}
		got, err := r.Metrics("odradek_records_consumed_total", "odradek_records_scored_total", "odradek_records_warming_up_total",
			"odradek_executor_batches_total", "odradek_gpu_faults_total")
		if err != nil {
			t.Fatal(err)
		}
		if sum := got["odradek_records_scored_total"] + got["odradek_records_warming_up_total"]; sum != got["odradek_records_consumed_total"] {
			t.Errorf("%s: %.0f records scored or warming up, %.0f consumed", side.name, sum, got["odradek_records_consumed_total"])
		}
		if (got["odradek_executor_batches_total"] > 0) != (side.gpus > 0) || got["odradek_gpu_faults_total"] > 0 {
			t.Errorf("%s: %v", side.name, got)
		}
		t.Logf("%s: %v", side.name, m)
		if err := r.Stop(20 * time.Second); err != nil {
			t.Fatal(err)
		}
	}
}
