package kafka

import (
	"errors"
	"strings"
	"testing"

	"odradek/processor/kafka/internal/brokertest"
	"odradek/processor/kafkatest"
)

// The tests of this file run on every kind of broker, for what kfake does not
// do: logs on disk, replication, elections, an authorizer, throttled metadata.

// TestBrokersAdmin: topics, configurations, commits and permissions.
func TestBrokersAdmin(t *testing.T) {
	brokertest.Kinds(t, func(t *testing.T, k *kafkatest.Cluster) {
		ctx := brokertest.Within(t)
		c := open(t, k.Brokers)
		name, group := kafkatest.Unique("log"), kafkatest.Unique("g")
		if err := c.Admin.CreateTopic(ctx, name, 3, -1, map[string]string{"cleanup.policy": "compact", "retention.ms": "123456"}); err != nil {
			t.Fatal(err)
		}
		defer c.Admin.DeleteTopic(ctx, name)
		if err := c.Admin.CreateTopic(ctx, name, 3, -1, nil); err != nil {
			t.Fatal(err)
		}
		infos, err := c.Admin.Topics(ctx, name, name+"-absent")
		if err != nil {
			t.Fatal(err)
		}
		if i := infos[name]; !i.Exists || i.Partitions != 3 || i.Leaderless != 0 || !i.Operations.Known || !i.Operations.Has(OpWrite) {
			t.Errorf("%+v", i)
		}
		if infos[name+"-absent"].Exists {
			t.Errorf("%+v", infos)
		}
		cfg, err := c.Admin.TopicConfig(ctx, name)
		if err != nil || cfg["cleanup.policy"] != "compact" || cfg["retention.ms"] != "123456" || cfg["min.insync.replicas"] == "" {
			t.Errorf("%v, %v", cfg, err)
		}
		if k.Real() {
			for _, bad := range []error{c.Admin.CreateTopic(ctx, "no/slash", 1, -1, nil), c.Admin.CreateTopic(ctx, name+"-wide", 1, 9, nil),
				c.Admin.CreateTopic(ctx, name+"-config", 1, -1, map[string]string{"no.such": "x"})} {
				if bad == nil {
					t.Error("a topic that cannot be")
				}
				t.Log(bad)
			}
		}
		tps := []TP{brokertest.TP(name, 0), brokertest.TP(name, 2)}
		got, err := c.Offsets.Committed(ctx, group, tps)
		if err != nil || got[tps[1]].Offset != -1 {
			t.Fatal(got, err)
		}
		if err := c.Offsets.CommitOffsets(ctx, noGroup, group, map[TP]Offset{tps[1]: {Offset: 42, Metadata: "1;2;3"}}); err != nil {
			t.Fatal(err)
		}
		if got, err = c.Offsets.Committed(ctx, group, tps); err != nil || got[tps[1]] != (Offset{Offset: 42, Metadata: "1;2;3"}) ||
			got[tps[0]].Offset != -1 {
			t.Fatal(got, err)
		}
		var oe *OffsetError
		long := map[TP]Offset{tps[1]: {Offset: 43, Metadata: strings.Repeat("x", 5000)}}
		if err := c.Offsets.CommitOffsets(ctx, noGroup, group, long); k.Real() && !errors.As(err, &oe) {
			t.Error(err)
		} else {
			t.Log(err)
		}
		ops, err := c.Permissions.Operations(ctx, ResourceGroup, group)
		if err != nil || !ops.Has(OpRead) {
			t.Error(ops, err)
		}
		if ops, err = c.Permissions.Operations(ctx, ResourceCluster, ""); err != nil || !ops.Known {
			t.Error(ops, err)
		}
		if ops, err = c.Permissions.Operations(ctx, ResourceTransactionalID, "any"); err != nil || !ops.Has(OpDescribe) {
			t.Error(ops, err)
		}
		if err := c.Admin.DeleteTopic(ctx, name); err != nil {
			t.Error(err)
		}
		if err := c.Admin.DeleteTopic(ctx, name); err != nil {
			t.Error(err)
		}
	})
}
