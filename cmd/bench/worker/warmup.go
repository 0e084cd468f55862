package worker

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strconv"
	"time"

	"odradek/cmd/bench/testbed"
	"odradek/cmd/internal/config"
	"odradek/processor/kafkatest"
)

// Warm-up: a new group reads what a topic has retained without publishing it. The plain replay reads
// the same records in the same worker, killed before it has written any state.

const (
	warmupRecords = 10_000_000
	warmupKeys    = 1000
)

// Warmup measures how fast a new group reads retained input to fill its windows, and the time from its start to
// its first committed score.
func (b *Bench) Warmup(ctx context.Context) ([]testbed.Row, error) {
	if _, err := b.warmUp(ctx); err != nil { // the brokers
		return nil, err
	}
	in, err := b.NewInput(ctx, "warmup", warmupKeys)
	if err != nil {
		return nil, err
	}
	defer b.Drop(in.Topic)
	if err := b.Fill(ctx, in, b.Scale(warmupRecords)); err != nil {
		return nil, err
	}
	settings := []string{config.Prefix + "START=latest", config.Prefix + "WARMUP_FROM=24h", config.Prefix + "LOG_FORMAT=text"}
	rows, err := b.warmupRates(ctx, in, settings)
	if err != nil {
		return nil, err
	}
	first, err := b.firstScore(ctx, in, settings)
	if err != nil {
		return nil, err
	}
	r := testbed.NewRow("first score", first.Seconds(), "s").Want("<= 5", first <= 5*time.Second)
	return append(rows, r.Noted("from the start of the process to the first committed score, with %d records to read", in.Records)), nil
}

// warmupRates returns the rates of a warm-up and of the replay of the same records.
func (b *Bench) warmupRates(ctx context.Context, in *testbed.Input, settings []string) ([]testbed.Row, error) {
	group := in.Topic + "-rate"
	settings = append([]string{config.Prefix + "INSTANCE_ID=bench"}, settings...)
	w, err := b.StartWorker(in, group, settings...)
	if err != nil {
		return nil, err
	}
	defer w.Kill()
	defer b.Drop(w.Scores, w.Changelog, group+"-dlq", group+"-late")
	if b.Profile != "" {
		go func() {
			_ = testbed.Pause(ctx, 2*time.Second)
			b.SaveProfile(w, "warmup.cpu", 2*time.Second)
		}()
	}
	line := regexp.MustCompile(`(?m)^.*msg=backfilled.*$`)
	var log []byte
	for began := time.Now(); ; {
		if log, err = os.ReadFile(w.Log); err != nil {
			return nil, err
		}
		if len(line.FindAll(log, -1)) == testbed.Partitions {
			break
		}
		if err = w.Ended(); err == nil && time.Since(began) > 5*time.Minute {
			err = w.Failed(errors.New("the warm-up does not end"))
		}
		if err == nil {
			err = testbed.Pause(ctx, 50*time.Millisecond)
		}
		if err != nil {
			return nil, err
		}
	}
	cpu := w.CPU()
	var records float64
	var took time.Duration
	for _, l := range line.FindAll(log, -1) {
		f := map[string]string{}
		for _, m := range logField.FindAllSubmatch(l, -1) {
			f[string(m[1])] = string(m[2])
		}
		n, _ := strconv.ParseFloat(f["records"], 64)
		t, _ := time.ParseDuration(f["took"])
		records, took = records+n, max(took, t)
	}
	if int(records) != in.Records {
		return nil, w.Failed(errors.New("the warm-up has not read every record"))
	}
	if err := testbed.Pause(ctx, 2*time.Second); err != nil { // until the end is committed
		return nil, err
	}
	w.Kill()
	again, err := b.StartWorker(in, group, settings...)
	if err != nil {
		return nil, err
	}
	defer again.Kill()
	if err := again.Ready(ctx); err != nil {
		return nil, err
	}
	if log, err = os.ReadFile(again.Log); err != nil {
		return nil, err
	}
	replay, err := readRestored(log)
	if err != nil {
		return nil, again.Failed(err)
	}
	rate := records / took.Seconds()
	row := testbed.NewRow("rate", rate, "records/s").Want(">= 3,000,000", rate >= 3e6).
		Against("replay", replay.records/max(replay.replayTook.Seconds(), 1e-3), false)
	return []testbed.Row{
			row.Noted("%.0f records in %.1f s, %d keys, %d partitions, %.0f ns of the worker a record with its start; %s", records,
				took.Seconds(), warmupKeys, testbed.Partitions, float64(cpu)/records, b.Cluster.Kind),
		}, again.Stop(
			30 * time.Second,
		)
}

// firstScore returns the time from the start of a worker of a new group to its first committed score.
func (b *Bench) firstScore(ctx context.Context, in *testbed.Input, settings []string) (time.Duration, error) {
	group := in.Topic + "-first"
	began := time.Now()
	w, err := b.StartWorker(in, group, settings...)
	if err != nil {
		return 0, err
	}
	defer w.Kill()
	defer b.Drop(w.Scores, w.Changelog, group+"-dlq", group+"-late")
	if err := w.Ready(ctx); err != nil {
		return 0, err
	}
	admin := b.Cluster.Admin()
	for n := 0; ; n++ {
		if n%10 == 0 {
			var recs []kafkatest.Record
			for p := range in.Keys {
				value := testbed.AppendReading(nil, in.SchemaID, in.Keys[p][0], time.Now().UnixMicro(), 20, int64(n))
				recs = append(recs, kafkatest.Record{Topic: in.Topic, Partition: int32(p), Key: in.Keys[p][0], Value: value})
			}
			if _, err := b.Cluster.ProduceAcked(ctx, recs); err != nil {
				return 0, err
			}
		}
		ends, err := admin.Ends(ctx, w.Scores, kafkatest.LastStable)
		if err != nil {
			return 0, err
		}
		for _, end := range ends {
			if end > 0 {
				return time.Since(began), w.Stop(30 * time.Second)
			}
		}
		if err := w.Ended(); err != nil {
			return 0, err
		}
		if err := testbed.Pause(ctx, 20*time.Millisecond); err != nil {
			return 0, err
		}
	}
}
