package kafka_test

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"odradek/processor/kafka"
	"odradek/processor/kafka/internal/brokertest"
)

// TestCloseLeavesNothing: no goroutine and no connection outlives the client.
func TestCloseLeavesNothing(t *testing.T) {
	fake := brokertest.Cluster(t, kfake.NumBrokers(3), kfake.SeedTopics(6, "in"))
	before := runtime.NumGoroutine()
	for i := 0; i < 5; i++ {
		c, err := kafka.Open(brokertest.Within(t), kafka.Config{Brokers: fake.ListenAddrs()})
		if err != nil {
			t.Fatal(err)
		}
		f := kafka.NewFetcher(c, kafka.FetchConfig{MaxWait: 10 * time.Second})
		for p := int32(0); p < 6; p++ {
			<-f.Add(brokertest.TP("in", p), 0).C()
		}
		if i%2 == 0 {
			f.Close()
			c.Close()
		} else {
			c.Close()
			f.Close()
		}
		if _, err := c.Admin.Topics(brokertest.Within(t)); !errors.Is(err, kafka.ErrClosed) {
			t.Fatalf("a closed client: %v", err)
		}
		if len(kafka.Connections(c)) != 0 {
			t.Fatalf("%d connections are open", len(kafka.Connections(c)))
		}
	}
	deadline := time.Now().Add(10 * time.Second)
	for runtime.NumGoroutine() > before && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	// kfake's side of the connections ends a little later than ours.
	if n := runtime.NumGoroutine(); n > before {
		buf := make([]byte, 1<<20)
		t.Fatalf("%d goroutines more\n%s", n-before, buf[:runtime.Stack(buf, true)])
	}
}
