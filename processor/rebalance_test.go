package processor

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/processor/kafka"
)

// TestOneLineForAnAssignment: the log has one line for each assignment, one for each hand-over and one for each loss, with the
// generation, how many partitions it is of and the first of them.
func TestOneLineForAnAssignment(t *testing.T) {
	b := newBench(t, 2)
	b.produce(200)
	other, err := kafka.Open(context.Background(), kafka.Config{Brokers: b.c.Brokers, ClientID: "two"})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cfg := b.config("")
	log := cfg.capture()
	one, stopOne := b.start(cfg)
	if err := b.c.Admin().WaitCommitted(ctx, "g", b.input); err != nil {
		t.Fatal(err)
	}
	cfg = b.config("")
	cfg.Client = other
	two, stopTwo := b.start(cfg)
	for (len(two.Status()) != 1 || len(one.Status()) != 1 || !two.Ready()) && ctx.Err() == nil {
		time.Sleep(5 * time.Millisecond)
	}
	stopTwo(nil)
	for (len(one.Status()) != 2 || !one.Ready()) && ctx.Err() == nil {
		time.Sleep(5 * time.Millisecond)
	}
	lost := false // by one heartbeat
	b.c.Fake.ControlKey(int16(kmsg.Heartbeat), func(req kmsg.Request) (kmsg.Response, error, bool) {
		if lost {
			return nil, nil, false
		}
		lost = true
		resp := req.ResponseKind().(*kmsg.HeartbeatResponse)
		resp.ErrorCode = kerr.IllegalGeneration.Code // joins again at once
		return resp, nil, true
	})
	// The log has the loss before the processor has given the partitions up.
	for (len(log.with("partitions assigned")) != 3 || len(one.Status()) != 2 || !one.Ready()) && ctx.Err() == nil {
		time.Sleep(5 * time.Millisecond)
	}
	if ctx.Err() != nil {
		t.Fatalf("the partitions do not move:\n%s", strings.Join(log.with(""), "\n"))
	}
	stopOne(nil)

	// Both partitions, one to the other member, back, both lost, both again, and both at the end.
	want := []string{"assigned 2", "revoked 1", "assigned 1", "lost 2", "assigned 2", "revoked 2"}
	var got []string
	for _, line := range log.with("msg=") {
		for _, word := range []string{"assigned", "revoked", "lost"} {
			if !strings.Contains(line, word) {
				continue
			}
			_, after, _ := strings.Cut(line, " partitions=")
			n, _, _ := strings.Cut(after, " ")
			got = append(got, word+" "+n)
			if !strings.Contains(line, " generation=") || !strings.Contains(line, " first="+b.input+"/") {
				t.Errorf("no generation or no first partition: %s", line)
			}
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the log has the lines %v, want %v:\n%s", got, want, strings.Join(log.with("partitions="), "\n"))
	}
}
