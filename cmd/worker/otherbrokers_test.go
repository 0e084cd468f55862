package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/processor/kafkatest"
)

// likeness is what brokers that are not Apache Kafka have of its protocol: the newest version of an API, -1 for none. An API
// that is not listed is as the brokers behind have it.
type likeness map[kmsg.Key]int16

func (l *likeness) has(key kmsg.Key, version int16) bool {
	if l == nil {
		return true
	}
	newest, listed := (*l)[key]
	return !listed || version <= newest
}

// restrict takes the APIs and versions out of an answer that these brokers lack.
func (l *likeness) restrict(res *kmsg.ApiVersionsResponse) {
	res.ApiKeys = slices.DeleteFunc(res.ApiKeys, func(k kmsg.ApiVersionsResponseApiKey) bool {
		newest, listed := (*l)[kmsg.Key(k.ApiKey)]
		return listed && newest < k.MinVersion
	})
	for i := range res.ApiKeys {
		k := &res.ApiKeys[i]
		if newest, listed := (*l)[kmsg.Key(k.ApiKey)]; listed {
			k.MaxVersion = min(k.MaxVersion, newest)
		}
	}
}

// without returns the likeness with some APIs less.
func (l likeness) without(keys ...kmsg.Key) likeness {
	out := likeness{}
	for k, v := range l {
		out[k] = v
	}
	for _, k := range keys {
		out[k] = -1
	}
	return out
}

// The versions that Azure Event Hubs lists (aio-libs/aiokafka#945, oliveigah/klife#13; without transactions in the tier
// Standard, Azure/azure-event-hubs-for-kafka#209) and Redpanda 25 (platformatic/kafka#51); WarpStream's page names APIs only.
var (
	eventHubs = likeness{kmsg.Produce: 7, kmsg.Fetch: 6, kmsg.ListOffsets: 7, kmsg.Metadata: 5, kmsg.OffsetCommit: 8, kmsg.OffsetFetch: 8,
		kmsg.FindCoordinator: 4, kmsg.JoinGroup: 7, kmsg.Heartbeat: 4, kmsg.LeaveGroup: 4, kmsg.SyncGroup: 5, kmsg.DescribeGroups: 5,
		kmsg.ApiVersions: 3, kmsg.CreateTopics: 6, kmsg.DeleteTopics: 2, kmsg.InitProducerID: 1, kmsg.OffsetForLeaderEpoch: 0,
		kmsg.DescribeConfigs: 2, kmsg.CreatePartitions: 1, kmsg.DescribeACLs: -1, kmsg.IncrementalAlterConfigs: -1, kmsg.AlterConfigs: -1,
		kmsg.DescribeTransactions: -1}
	redpanda = likeness{kmsg.Produce: 7, kmsg.Fetch: 11, kmsg.ListOffsets: 4, kmsg.Metadata: 7, kmsg.OffsetCommit: 7, kmsg.OffsetFetch: 7,
		kmsg.FindCoordinator: 3, kmsg.AddPartitionsToTxn: 3, kmsg.TxnOffsetCommit: 3, kmsg.ApiVersions: 3}
	warpStream   = likeness{}.without(kmsg.OffsetForLeaderEpoch, kmsg.IncrementalAlterConfigs, kmsg.DeleteRecords)
	transactions = []kmsg.Key{kmsg.AddPartitionsToTxn, kmsg.AddOffsetsToTxn, kmsg.EndTxn, kmsg.TxnOffsetCommit}
)

// TestOtherBrokers: on brokers that lack some of Kafka's APIs a worker runs exactly once, or does not start and says which API
// is missing and what to set; it never sends a request that they lack.
func TestOtherBrokers(t *testing.T) {
	realCluster(t, func(t *testing.T, c *kafkatest.Cluster) {
		for _, b := range []struct {
			name    string
			like    likeness
			env     []string
			refused []string // words of the refusal; nil: it runs, with every score once
			said    []string // what check says
		}{
			{"redpanda", redpanda, nil, nil, []string{"permissions are not known", "Metadata v8 (it has v7)"}},
			{"warpstream", warpStream, nil, nil, []string{"unclean leader election", "OffsetForLeaderEpoch"}},
			{"event hubs premium", eventHubs, nil, nil, []string{"lost are not noticed: they lack OffsetForLeaderEpoch"}},
			{"event hubs standard", eventHubs.without(transactions...), nil,
				[]string{"no exactly once without AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit, EndTxn",
					"ODRADEK_GUARANTEE=at_least_once"}, nil},
			{"event hubs standard, at least once", eventHubs.without(transactions...), []string{"GUARANTEE=at_least_once"}, nil, nil},
			// Without the generation in TxnOffsetCommit a member that has lost its partitions could commit.
			{"before KIP-447", likeness{kmsg.TxnOffsetCommit: 2}, nil, []string{"TxnOffsetCommit v3 (it has v2)"}, nil},
			{"before require_stable", likeness{kmsg.OffsetFetch: 6}, nil,
				[]string{"no worker can run without OffsetFetch v7 (it has v6)", "Kafka 2.5"}, nil},
			{"no configurations", likeness{kmsg.DescribeConfigs: -1, kmsg.DescribeGroups: -1}, nil, nil,
				[]string{"retention.ms with ODRADEK_REPLAY_LIMIT", "DescribeConfigs"}},
			{"no creation", likeness{kmsg.CreateTopics: -1}, nil, []string{"CreateTopics", "ODRADEK_CREATE_TOPICS=false"}, nil},
			{"creation that cannot be asked for", likeness{kmsg.CreateTopics: 0}, nil, []string{"CreateTopics", "ODRADEK_CREATE_TOPICS=false"}, nil},
			{"static members", likeness{kmsg.JoinGroup: 4}, []string{"INSTANCE_ID=i"},
				[]string{"no instance id without JoinGroup v5 (it has v4)", "ODRADEK_INSTANCE_ID=off"}, nil},
			{"consumer protocol", likeness{}.without(kmsg.ConsumerGroupHeartbeat), []string{"GROUP_PROTOCOL=consumer"},
				[]string{"no group protocol consumer without ConsumerGroupHeartbeat", "ODRADEK_GROUP_PROTOCOL=classic"}, nil},
		} {
			t.Run(b.name, func(t *testing.T) {
				o := newOrdeal(t, c, 2)
				w := newWire(t, c, o.rng)
				w.like = &b.like
				o.produce(300)
				env := append(b.env, w.setting())
				stops, _, all := o.checked(env...)
				var text string
				for _, f := range stops {
					text += f.What + ": " + f.Detail + " -> " + f.Fix + "\n"
				}
				for _, want := range slices.Concat(b.refused, b.said) {
					if !strings.Contains(all, want) {
						t.Errorf("check does not say %q:\n%s", want, all)
					}
				}
				if (b.refused == nil) != (len(stops) == 0) {
					t.Errorf("check finds\n%s", all)
				}
				if b.refused == nil {
					o.start("w", env...).waitReady(t)
					o.end(b.name)
					return
				}
				refusal, code := o.refusal("w", env...)
				if code != exitFailed {
					t.Errorf("ended with %d: %s", code, refusal)
				}
				for _, want := range b.refused {
					if !strings.Contains(refusal, want) {
						t.Errorf("run does not say %q: %s", want, refusal)
					}
				}
			})
		}
	})
}
