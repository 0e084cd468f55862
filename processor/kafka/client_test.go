package kafka

import (
	"context"
	"testing"
	"time"

	"odradek/processor/kafka/internal/brokertest"

	"github.com/twmb/franz-go/pkg/kfake"
)

// open returns a client of the cluster that is closed with the test.
func open(t testing.TB, brokers []string) *Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c, err := Open(ctx, Config{Brokers: brokers})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestOpenLeadersAndCoordinator(t *testing.T) {
	fake := brokertest.Cluster(t, kfake.NumBrokers(3), kfake.SeedTopics(6, "a"))
	c := open(t, fake.ListenAddrs())
	ctx := context.Background()
	for p := int32(0); p < 6; p++ {
		id, err := c.Cluster.findLeader(ctx, brokertest.TP("a", p))
		if err != nil || int64(id) != int64(fake.LeaderFor("a", p)) {
			t.Fatalf("partition %d: leader %d, %v; want %d", p, id, err, fake.LeaderFor("a", p))
		}
	}
	if n, err := c.Cluster.Partitions(ctx, "a"); n != 6 || err != nil {
		t.Fatal(n, err)
	}
	if id, err := c.coordinators.find(ctx, groupCoordinator, "g"); err != nil || int64(id) != int64(fake.CoordinatorFor("g")) {
		t.Fatalf("coordinator %d, %v; want %d", id, err, fake.CoordinatorFor("g"))
	}
	if _, err := c.Cluster.findLeader(ctx, brokertest.TP("absent", 0)); err == nil {
		t.Fatal("leader of an absent topic")
	} else {
		t.Log(err)
	}
}
