package processor

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/processor/kafka"
)

// logBuffer holds a worker's log for a test to search.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

// lines returns the lines that have the text.
func (l *logBuffer) lines(text string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range strings.Split(l.buf.String(), "\n") {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// TestOffsetsDuringRebalance: at least once, a second worker joins while the first
// commits, and the leader's SyncGroup is late. Until it comes the coordinator answers
// commits of the new generation REBALANCE_IN_PROGRESS, and no newer generation
// follows. The commits wait, and no score comes twice.
func TestOffsetsDuringRebalance(t *testing.T) {
	b := newBench(t, 4)
	b.produce(500)

	// A SyncGroup with assignments waits for two commits of its generation: the
	// first one refused, and its repetition.
	var mu sync.Mutex
	commits := map[int32]int{}
	seen := func(gen int32) int {
		mu.Lock()
		defer mu.Unlock()
		return commits[gen]
	}
	late := 0
	b.c.Fake.ControlKey(int16(kmsg.OffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.c.Fake.KeepControl()
		mu.Lock()
		defer mu.Unlock()
		commits[req.(*kmsg.OffsetCommitRequest).Generation]++
		return nil, nil, false
	})
	joined := make(chan struct{})
	b.c.Fake.ControlKey(int16(kmsg.SyncGroup), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.c.Fake.KeepControl()
		r := req.(*kmsg.SyncGroupRequest)
		select {
		case <-joined:
		default:
			return nil, nil, false
		}
		if len(r.GroupAssignment) == 0 || late > 0 {
			return nil, nil, false
		}
		late++
		b.c.Fake.SleepControl(func() {
			for end := time.Now().Add(3 * time.Second); seen(r.Generation) < 2 && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
		})
		return nil, nil, false
	})

	var log logBuffer
	worker := func(client *kafka.Client) (*Processor, func(error)) {
		cfg := b.config("")
		cfg.Client, cfg.Guarantee, cfg.CommitInterval, cfg.TransactionTimeout = client, AtLeastOnce, 5*time.Millisecond, 5*time.Second
		cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
		return b.start(cfg)
	}
	other, err := kafka.Open(context.Background(), kafka.Config{Brokers: b.c.Brokers, ClientID: "two"})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	one, stopOne := worker(b.client)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := b.c.Admin().WaitCommitted(ctx, "g", b.input); err != nil {
		t.Fatal(err)
	}
	close(joined)
	two, stopTwo := worker(other)
	for len(two.Status()) != 2 || len(one.Status()) != 2 || !two.Ready() {
		b.produce(20)
		time.Sleep(5 * time.Millisecond)
		if ctx.Err() != nil {
			t.Fatal("the second worker does not get its half")
		}
	}
	if err := b.c.Admin().WaitCommitted(ctx, "g", b.input); err != nil {
		t.Error(err)
	}
	stopOne(nil)
	stopTwo(nil)
	if late == 0 {
		t.Fatal("no SyncGroup was late")
	}
	for _, line := range log.lines("cycle failed") {
		t.Error(line)
	}
	b.ledger() // finds doubled scores
}
