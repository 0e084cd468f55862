package worker

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"odradek/cmd/bench/testbed"
)

// TestBenchPath runs the path and a peer, small, on kfake: what is measured means
// nothing, that all parts work and every score is there does.
func TestBenchPath(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Setenv(runEnv, "1") // its own children are this test binary
	var log bytes.Buffer
	b := &Bench{Bed: &testbed.Bed{Measuring: &testbed.Measuring{Quick: true, Repeat: 1, Log: &log}, Kafka: "kfake",
		WorkerProgram: workerBinary(t), Dir: t.TempDir()}}
	defer b.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	if err := b.Open(ctx); err != nil {
		t.Fatal(err)
	}
	in, err := b.NewInput(ctx, "test", 100)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Fill(ctx, in, 200_000); err != nil {
		t.Fatal(err)
	}
	if _, err := b.pathRun(ctx, in, "t", true); err != nil && !strings.Contains(err.Error(), "too few records") {
		t.Error(err)
	}
	if _, err := b.franzPace(ctx, in); err != nil && !strings.Contains(err.Error(), "too few records") {
		t.Error(err)
	}
}

func TestRestoreRows(t *testing.T) {
	const log = `time=x level=INFO msg=started
time=x level=INFO msg=restored topic=t partition=0 offset=9 keys=2 took=3s changelog_bytes=300000000 changelog_took=1s replayed=1000 replay_took=2s
time=x level=INFO msg=restored topic=t partition=1 offset=9 keys=2 took=3s changelog_bytes=300000000 changelog_took=2s replayed=3000 replay_took=1s
`
	rows, err := restoreRows([]byte(log), 1000)
	if err != nil || len(rows) != 2 || rows[0].Value != 300 || !*rows[0].Met || rows[1].Value != 2000 || *rows[1].Ratio != 2 || *rows[1].Met {
		t.Errorf("%+v, %v", rows, err)
	}
	if _, err := restoreRows([]byte("msg=started"), 1); err == nil {
		t.Error("a log without a restored partition is no figure")
	}
}
