package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/cmd/internal/config"
	"odradek/processor/kafkatest"
)

// TestBrokersFail: under load the node that leads an input partition and the one
// that coordinates the group are killed or hang, for less and for more time than
// the cluster takes to notice. The one that coordinates a worker's transactions is
// killed with the commit of one in hand, and others take over. Then all nodes are
// restarted in turn.
func TestBrokersFail(t *testing.T) {
	eachOf(t, kafkatest.Kinds[1:], kafkatest.Kinds[1:2], func(t *testing.T, kind string) {
		c := kafkatest.Open(t, kind)
		if len(c.Nodes()) < 3 {
			t.Skip("the nodes of the cluster in use belong to another process")
		}
		// A transaction outlasts the time that the cluster takes to notice.
		o := newOrdeal(t, c, 6, "TRANSACTION_TIMEOUT=15s", "SESSION_TIMEOUT=15s")
		w := newWire(t, c, o.rng)
		o.start("static", "INSTANCE_ID=static", w.setting()).waitReady(t)
		o.start("dynamic").waitReady(t)
		o.load(500)
		const coordinator = "transaction coordinator"
		roles := []struct {
			name string
			node func() (int32, error)
		}{
			{"leader of the input", func() (int32, error) {
				ps, err := c.Admin().Partitions(o.ctx, o.input)
				return ps[0].Leader, err
			}},
			{"group coordinator", func() (int32, error) { return c.Admin().Coordinator(o.ctx, o.group, false) }},
			{coordinator, func() (int32, error) { return c.Admin().Coordinator(o.ctx, o.group+"-static", true) }},
		}
		for range *faultRounds {
			hung := o.rng.IntN(len(roles) - 1)
			for i, role := range roles {
				id, err := role.node()
				must(t, err)
				n := c.NodeByID(id)
				if n == nil {
					t.Fatalf("no node %d is the %s", id, role.name)
				}
				// The cluster takes 5 s to notice; to be back before that is another fault.
				down := time.Second
				if role.name == coordinator || o.rng.IntN(2) == 0 {
					down = 7 * time.Second
				}
				t.Logf("%s: node %d, down for %v, hangs %t", role.name, id, down, i == hung)
				if role.name == coordinator {
					f := w.disturb(kmsg.EndTxn, held)
					w.wait(kmsg.EndTxn, f)
					close(f.free)
					o.pause(0, 5*time.Millisecond)
				}
				if i == hung {
					n.Pause()
				} else {
					n.Kill()
				}
				time.Sleep(down)
				// All in sync again, or the next kill stops the cluster itself.
				must(t, c.Heal(o.ctx))
				o.goesOn(role.name)
			}
			for _, n := range c.Nodes() {
				must(t, n.Restart(o.ctx))
				must(t, c.Heal(o.ctx))
				o.goesOn("restart")
			}
		}
		o.end("brokers fail")
	})
}

// TestLeadersMove: leaders of input, scores and changelogs and, where they can be
// moved, the coordinators move again and again under load.
func TestLeadersMove(t *testing.T) {
	realCluster(t, func(t *testing.T, c *kafkatest.Cluster) {
		o := newOrdeal(t, c, 4)
		o.start("static", "INSTANCE_ID=static").waitReady(t)
		o.start("dynamic").waitReady(t)
		o.load(2000)
		topics := []string{o.input, o.group + "-scores", config.ChangelogName(o.group+"-", o.input)}
		nodes, err := c.Admin().Nodes(o.ctx)
		must(t, err)
		moves := 0
		for end := time.Now().Add(5 * time.Second); time.Now().Before(end); moves++ {
			topic, p := topics[o.rng.IntN(len(topics))], int32(o.rng.IntN(4))
			must(t, c.MoveLeader(o.ctx, topic, p, nodes[o.rng.IntN(len(nodes))]))
			if c.Fake != nil {
				switch o.rng.IntN(10) {
				case 0:
					c.Fake.RehashCoordinators()
				case 1:
					c.Fake.ShufflePartitionLeaders()
				}
				o.pause(0, 50*time.Millisecond)
			}
		}
		o.end(fmt.Sprintf("%d leaders moved", moves))
	})
}
