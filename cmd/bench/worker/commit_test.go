package worker

import (
	"bytes"
	"context"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"odradek/cmd/bench/testbed"
)

// TestBenchCommit: the transactions of commit hold together on kfake.
func TestBenchCommit(t *testing.T) {
	if testing.Short() {
		t.Skip("writes a hundred megabytes")
	}
	var log bytes.Buffer
	b := &FleetBench{Bed: &testbed.Bed{Measuring: &testbed.Measuring{Quick: true, Log: &log}, Kafka: "kfake", Dir: t.TempDir()},
		Partitions: 4}
	defer b.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	if err := b.Open(ctx); err != nil {
		t.Fatal(err)
	}
	rows, err := b.Commit(ctx)
	if err != nil || len(rows) != 2 {
		t.Fatalf("%d rows, want one for each size; %v", len(rows), err)
	}
	for _, r := range rows {
		if r.Value <= 0 || r.Unit != "ms" || r.Met != nil || !strings.Contains(r.Note, "MB, 4 partitions") {
			t.Errorf("%+v", r)
		}
	}
	size, _ := strconv.ParseFloat(regexp.MustCompile(`([\d.]+) MB`).FindStringSubmatch(rows[0].Note)[1], 64)
	if size < 9 || size > 12 { // a cycle of 463,000 records has 100 MB
		t.Errorf("a tenth of the large transaction has %.1f MB", size)
	}
}
