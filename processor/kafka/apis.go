package kafka

import (
	"errors"
	"fmt"
	"strings"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// Purpose is what an API is called for.
type Purpose int

// The purposes of APIs. Without Worker, and with exactly once without Transactions, no worker can run.
const (
	Worker           Purpose = iota // reading, writing and the group
	Transactions                    // exactly once
	StaticMember                    // an instance id
	ConsumerProtocol                // groups whose coordinator assigns
	Configurations                  // retention, record limits and timeouts of the brokers are known
	CreatingTopics                  // topics that do not exist are created
	GrowingTopics                   // changelogs of topics with more partitions are extended
	LeaderEpochs                    // records that an unclean election has lost are noticed
	PermissionsKnown                // operations that are not permitted are known before they are tried
)

// validateOnly is the version of CreateTopics that can be asked without creating (KIP-4).
const validateOnly = 1

// uses has the oldest version of each API that is enough for a purpose. Older ones lack a field without which the
// broker would do something else: TxnOffsetCommit 3 fences off members that have lost their partitions, OffsetFetch 7 waits for
// open transactions, ListOffsets 2 knows them.
var uses = []struct {
	api     protocol.ApiKey
	version int16
	purpose Purpose
}{
	{protocol.Produce, produceMinVersion, Worker},
	{protocol.Fetch, minFetch, Worker},
	{protocol.ListOffsets, 2, Worker},
	{protocol.Metadata, 1, Worker},
	{protocol.OffsetCommit, 2, Worker},
	{protocol.OffsetFetch, offsetFetchVersion, Worker},
	{protocol.FindCoordinator, 1, Worker},
	{protocol.JoinGroup, 1, Worker},
	{protocol.SyncGroup, 0, Worker},
	{protocol.Heartbeat, 0, Worker},
	{protocol.LeaveGroup, 0, Worker},
	{protocol.InitProducerId, 0, Worker},
	{protocol.AddPartitionsToTxn, 0, Transactions},
	{protocol.AddOffsetsToTxn, 0, Transactions},
	{protocol.TxnOffsetCommit, 3, Transactions},
	{protocol.EndTxn, 0, Transactions},
	{protocol.JoinGroup, 5, StaticMember},
	{protocol.SyncGroup, 3, StaticMember},
	{protocol.Heartbeat, 3, StaticMember},
	{protocol.OffsetCommit, 7, StaticMember},
	{consumerHeartbeatAPI, consumerHeartbeatVersion, ConsumerProtocol},
	{protocol.OffsetCommit, offsetCommitVersion, ConsumerProtocol},
	{protocol.Metadata, topicIDsVersion, ConsumerProtocol},
	{protocol.DescribeConfigs, 0, Configurations},
	{protocol.CreateTopics, validateOnly, CreatingTopics},
	{protocol.CreatePartitions, 0, GrowingTopics},
	{protocol.OffsetForLeaderEpoch, offsetForLeaderEpochVersion, LeaderEpochs},
	{protocol.Metadata, 8, PermissionsKnown},
	{protocol.DescribeGroups, 3, PermissionsKnown},
}

// Lacking names the APIs that the broker that Open connected to lacks for a purpose, with the version that is
// needed where it has an older one; empty: it has all.
func (c *Cluster) Lacking(purpose Purpose) string {
	var lacking []string
	for _, u := range uses {
		v, ok := c.transport.versions[u.api]
		switch {
		case u.purpose != purpose:
		case !ok:
			lacking = append(lacking, apiName(u.api))
		case v.max < u.version:
			lacking = append(lacking, fmt.Sprintf("%s v%d (it has v%d)", apiName(u.api), u.version, v.max))
		}
	}
	return strings.Join(lacking, ", ")
}

// apiName returns the name of an API, also where kafka-go has none.
func apiName(key protocol.ApiKey) string {
	switch key {
	case consumerHeartbeatAPI:
		return "ConsumerGroupHeartbeat"
	case describeProducersAPI:
		return "DescribeProducers"
	}
	return key.String()
}

// Unsupported reports whether a broker lacks the API of a request, or has it in other versions only.
func Unsupported(err error) bool {
	return errors.Is(err, kafkago.UnsupportedVersion)
}

// unsupported returns why a request cannot be sent: a broker that gets an API which it lacks closes the connection, and the
// client would try it again and again. A broker that has not been asked has every API.
func (t *transport) unsupported(m protocol.Message) error {
	if t.versions == nil {
		return nil
	}
	key := m.ApiKey()
	v, ok := t.versions[key]
	if !ok {
		return fmt.Errorf("kafka: the brokers lack the API %s: %w", apiName(key), kafkago.UnsupportedVersion)
	}
	if _, own := m.(wireMessage); !own && (v.max < key.MinVersion() || v.min > key.MaxVersion()) {
		return fmt.Errorf("kafka: the brokers have the API %s in versions %d to %d, the worker in %d to %d: %w",
			key, v.min, v.max, key.MinVersion(), key.MaxVersion(), kafkago.UnsupportedVersion)
	}
	if key == protocol.CreateTopics && v.max < validateOnly { // a creation that is only to be checked would be carried out
		return fmt.Errorf("kafka: the brokers have the API %s up to version %d; %d is needed: %w", key, v.max, validateOnly,
			kafkago.UnsupportedVersion)
	}
	return nil
}
