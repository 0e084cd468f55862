package main

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"odradek/cmd/internal/config"
	"odradek/processor/cycle"
	"odradek/processor/kafkatest"
)

// TestStateResume: a worker that ODRADEK_STOP_ABOVE has paused goes on when worker state resume says so, while it runs.
func TestStateResume(t *testing.T) { eachCluster(t, testStateResume) }

func testStateResume(t *testing.T, c *kafkatest.Cluster) {
	topic, environ := stateFixture(t, c)
	environ = append(environ, "ODRADEK_STOP_ABOVE=0.1/50")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	bad := make([]kafkatest.Record, 30)
	for i := range bad {
		bad[i] = kafkatest.Record{Topic: topic, Partition: 2, Value: []byte("no reading")}
	}
	_, err := c.ProduceAcked(ctx, bad)
	must(t, err)
	// A topic that is there is read every second, one that is not is looked for every ten.
	term, _, errs := console(environ...)
	if code := term.mute(ctx, []string{"add", "-yes", "-id", "none", "-keys", "none", "-forever"}); code != exitOK {
		t.Fatal(errs)
	}
	cfg, faults, _ := config.Parse(environ)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	wctx, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- runWith(wctx, environ, cfg, slog.New(slog.DiscardHandler)) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	// full waits until the window of partition 2 is full, with the dead letters written.
	full := func(letters int) {
		t.Helper()
		for {
			offs, err := c.Admin().Offsets(ctx, topic+"-g", true)
			must(t, err)
			if w := cycle.LetterWindowOf(offs[kafkatest.TP{Topic: topic, Partition: 2}].Metadata); w.Dead == 5 {
				recs, err := c.Admin().ReadAll(ctx, topic+"-g-dlq", true)
				must(t, err)
				if len(recs) == letters {
					return
				}
			}
			select {
			case <-ctx.Done():
				t.Fatalf("no full window with %d dead letters", letters)
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	resume := func(want string, args ...string) {
		t.Helper()
		term, _, errs := console(environ...)
		if code := term.state(ctx, append([]string{"resume", "-yes"}, args...)); code != exitOK || !strings.Contains(errs.String(), want) {
			t.Fatalf("resume %v: exit %d: %s", args, code, errs)
		}
	}
	full(5)
	resume("a window of 5 of 50 records begins there")
	full(10)
	resume("the records before offset", "-topic", topic, "-partition", "2", "-to", "latest")
	must(t, c.Admin().WaitCommitted(ctx, topic+"-g", topic))
	term, _, errs = console(environ...)
	if code := term.state(ctx, []string{"resume"}); code != exitFailed || !strings.Contains(errs.String(), "no partition has as many") {
		t.Errorf("resume where none is paused: exit %d: %s", code, errs)
	}
	term, out, errs := console(environ...)
	if code := term.mute(ctx, []string{"list", "-all"}); code != exitOK || !strings.Contains(out.String(), topic+"/2 at offset") {
		t.Errorf("mute list: exit %d: %s%s", code, out, errs)
	}
}
