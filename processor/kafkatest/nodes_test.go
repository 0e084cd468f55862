package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// TestNodes kills, restarts and pauses a leader while a producer writes: no
// acknowledged record is lost and none is doubled. How a node is ended is the same
// for all versions.
func TestNodes(t *testing.T) {
	for _, v := range Versions[:1] {
		t.Run("kafka-"+v, func(t *testing.T) {
			LongOnly(t) // the worker's TestBrokersFail kills, restarts and pauses leaders, too, and counts the records
			c := Kafka(t, v)
			if len(c.Nodes()) < 3 {
				t.Skip("the nodes of the cluster in use belong to another process")
			}
			ctx := limit(t)
			topic := c.Topic(t, "nodes", 3)
			p, err := NewProducer(c.Brokers)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			stop, done := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					case <-time.After(time.Millisecond):
						p.Produce(ctx, Record{Topic: topic, Partition: int32(i % 3), Value: fmt.Appendf(nil, "%d", i)})
					}
				}
			}()
			step := func(what string, f func(n *Node) error) {
				t.Helper()
				ps, err := c.Admin().Partitions(ctx, topic)
				if err != nil {
					t.Fatal(err)
				}
				n := c.NodeByID(ps[0].Leader)
				began := time.Now()
				if err := f(n); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				t.Logf("%s node %d: %v", what, n.ID, time.Since(began).Round(time.Millisecond))
			}
			moved := func(n *Node) error {
				return poll(ctx, 50*time.Millisecond, nil, func(ctx context.Context) error {
					ps, err := c.Admin().Partitions(ctx, topic)
					if err != nil {
						return err
					}
					for _, p := range ps {
						if p.Leader < 0 || p.Leader == n.ID {
							return fmt.Errorf("partition %d: leader %d", p.ID, p.Leader)
						}
					}
					return nil
				})
			}
			step("killed", func(n *Node) error {
				group, at := coordinatedBy(ctx, t, c, n.ID), TP{topic, 0}
				if err := c.Admin().SetOffsets(ctx, group, map[TP]Committed{at: {Offset: 7}}); err != nil {
					t.Fatal(err)
				}
				offsets := func() error {
					got, err := c.Admin().Offsets(ctx, group, true)
					if err == nil && got[at].Offset != 7 {
						err = fmt.Errorf("offsets %v", got)
					}
					return err
				}
				n.Kill()
				// The others still name the node as the coordinator, and the client remembers it.
				return errors.Join(offsets(), moved(n))
			})
			began := time.Now()
			if err := c.Heal(ctx); err != nil {
				t.Fatal(err)
			}
			t.Logf("healed in %v", time.Since(began).Round(time.Millisecond))
			step("restarted", func(n *Node) error { return n.Restart(ctx) })
			step("paused", func(n *Node) error { n.Pause(); defer n.Resume(); return moved(n) })
			step("moved the leader from", func(n *Node) error { return c.MoveLeader(ctx, topic, 0, n.ID%3+1) })
			close(stop)
			<-done
			if err := p.Flush(ctx); err != nil {
				t.Fatal(err)
			}
			got, err := c.Admin().ReadAll(ctx, topic, true)
			if err != nil {
				t.Fatal(err)
			}
			acked := p.Ledger().Acked()
			t.Logf("%d acknowledged, %d refused, %d unknown", len(acked), len(p.Ledger().Refused()), len(p.Ledger().Unknown()))
			if len(acked) < 100 {
				t.Fatal("too few records to say anything")
			}
			if len(p.Ledger().Unknown()) == 0 {
				for i := range got {
					got[i].Time = acked[min(i, len(acked)-1)].Time
				}
				same(t, "after the faults", got, acked)
			}
		})
	}
}

// coordinatedBy returns the name of a new group that a node coordinates.
func coordinatedBy(ctx context.Context, t *testing.T, c *Cluster, node int32) string {
	t.Helper()
	for {
		group := Unique("group")
		switch at, err := c.Admin().Coordinator(ctx, group, false); {
		case err != nil:
			t.Fatal(err)
		case at == node:
			return group
		}
	}
}

// TestRestartKeepsData restarts a whole cluster: a kfake that has a folder, and
// real nodes, killed all at once.
func TestRestartKeepsData(t *testing.T) {
	t.Run("kfake", func(t *testing.T) { restartKeepsData(t, Fake(t, FakeOptions{Dir: t.TempDir()})) })
	for _, v := range Versions {
		t.Run("kafka-"+v, func(t *testing.T) {
			LongOnly(t) // the worker's TestBrokersFail restarts a cluster, too, and counts the records
			t.Parallel()
			c := Kafka(t, v)
			if len(c.Nodes()) == 0 {
				t.Skip("the nodes of the cluster in use belong to another process")
			}
			restartKeepsData(t, c)
		})
	}
}

func restartKeepsData(t *testing.T, c *Cluster) {
	ctx := limit(t)
	topic := c.Topic(t, "kept", 2)
	acked, err := c.ProduceAcked(ctx, records(t, topic, 1000))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	got, err := c.Admin().ReadAll(ctx, topic, true)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "after the restart", got, acked)
}

// TestSingleNode starts a cluster as the benchmarks do: one node of its own, plain.
func TestSingleNode(t *testing.T) {
	SkipAsked(t, "kafka")
	LongOnly(t) // the worker's TestCompose starts a node of its own
	ctx := limit(t)
	c, err := StartKafka(ctx, Options{Nodes: 1, HeapMB: 1000, Dir: t.TempDir(), Config: map[string]string{"num.partitions": "7"}})
	if err != nil {
		Missing(t, "kafka", err)
	}
	defer c.Close()
	t.Logf("one node ready in %v", c.Took)
	if c.Security != nil || len(c.Brokers) != 1 {
		t.Errorf("%+v", c)
	}
	if err := c.Admin().CreateTopic(ctx, "seven", 7, 0, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := ProduceTransactions(ctx, c.Brokers, "id", [][]Record{records(t, "seven", 10)}, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadAll(ctx, c.Brokers, "seven", false); err != nil || len(got) != 10 {
		t.Fatalf("%d records: %v", len(got), err)
	}
}
