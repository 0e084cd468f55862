package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"odradek/processor/kafka/backoff"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/createpartitions"
	"github.com/segmentio/kafka-go/protocol/createtopics"
	"github.com/segmentio/kafka-go/protocol/deletetopics"
	"github.com/segmentio/kafka-go/protocol/describeconfigs"
	"github.com/segmentio/kafka-go/protocol/describegroups"
	"github.com/segmentio/kafka-go/protocol/metadata"
)

// Operation is one thing that an ACL allows, numbered as in the protocol
// (org.apache.kafka.common.acl.AclOperation).
type Operation uint8

// The operations that a worker needs on some resource.
const (
	OpRead            Operation = 3
	OpWrite           Operation = 4
	OpCreate          Operation = 5
	OpDelete          Operation = 6
	OpAlter           Operation = 7
	OpDescribe        Operation = 8
	OpClusterAction   Operation = 9
	OpDescribeConfigs Operation = 10
	OpAlterConfigs    Operation = 11
	OpIdempotentWrite Operation = 12
)

var operationNames = map[Operation]string{
	OpRead: "Read", OpWrite: "Write", OpCreate: "Create", OpDelete: "Delete", OpAlter: "Alter",
	OpDescribe: "Describe", OpClusterAction: "ClusterAction", OpDescribeConfigs: "DescribeConfigs",
	OpAlterConfigs: "AlterConfigs", OpIdempotentWrite: "IdempotentWrite",
}

// String returns the name that kafka-acls uses.
func (o Operation) String() string {
	if n, ok := operationNames[o]; ok {
		return n
	}
	return fmt.Sprintf("operation %d", uint8(o))
}

// Operations is a set of operations that the client may do on something
// (KIP-430). Without Known the broker has not said.
type Operations struct {
	Known bool
	bits  uint32
}

// Has says whether o is in the set; false when the set is not known.
func (s Operations) Has(o Operation) bool { return s.Known && s.bits&(1<<o) != 0 }

// String lists the operations.
func (s Operations) String() string {
	if !s.Known {
		return "unknown"
	}
	var names []string
	for o := range operationNames {
		if s.Has(o) {
			names = append(names, o.String())
		}
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func operations(bits int32) Operations {
	if bits == math.MinInt32 { // what brokers send for "not asked for"
		return Operations{}
	}
	return Operations{Known: true, bits: uint32(bits)}
}

// Resource is a kind of thing that ACLs are about.
type Resource uint8

// The resources whose operations a worker asks about.
const (
	ResourceTopic Resource = iota
	ResourceGroup
	ResourceCluster         // its name is not used
	ResourceTransactionalID // only Describe can be found out without touching the id
)

// TopicInfo describes a topic, or says why it cannot.
type TopicInfo struct {
	Name        string
	Exists      bool
	Authorized  bool // false: the client may not describe the topic, and nothing else is known
	Internal    bool
	Partitions  int
	Replication int        // of partition 0
	Leaderless  int        // partitions that nobody leads at the moment
	Operations  Operations // what the client may do, from Kafka 2.3 on
}

// Topics describes topics by name; without names, all that the client may see.
// A topic that does not exist is in the result and says so.
func (c *Client) Topics(ctx context.Context, names ...string) (map[string]TopicInfo, error) {
	req := &metadata.Request{TopicNames: names, IncludeTopicAuthorizedOperations: true}
	m, err := c.roundTrip(ctx, -1, req)
	if err != nil {
		return nil, err
	}
	out := make(map[string]TopicInfo, len(names))
	for _, t := range m.(*metadata.Response).Topics {
		info := TopicInfo{Name: t.Name, Internal: t.IsInternal}
		switch code := kafkago.Error(t.ErrorCode); code {
		case 0, kafkago.LeaderNotAvailable:
			if len(t.Partitions) == 0 { // it was made just now; 0 is not their number
				return nil, fmt.Errorf("kafka: partitions of topic %q: %w", t.Name, kafkago.LeaderNotAvailable)
			}
			info.Exists, info.Authorized = true, true
			info.Operations = c.topicOperations(t.TopicAuthorizedOperations)
		case kafkago.UnknownTopicOrPartition:
			info.Authorized = true
		case kafkago.TopicAuthorizationFailed:
		default:
			return nil, fmt.Errorf("kafka: topic %q: %w", t.Name, code)
		}
		info.Partitions = len(t.Partitions)
		for _, p := range t.Partitions {
			if p.PartitionIndex == 0 {
				info.Replication = len(p.ReplicaNodes)
			}
			if p.LeaderID < 0 {
				info.Leaderless++
			}
		}
		out[t.Name] = info
	}
	for _, n := range names {
		if _, ok := out[n]; !ok {
			return nil, fmt.Errorf("kafka: topic %q: missing from the broker's response", n)
		}
	}
	return out, nil
}

// Unknown reports whether every broker that answers says that there is no such
// topic. A single broker may say so of a topic that was made just now.
func (c *Client) Unknown(ctx context.Context, topic string) bool {
	ctx, cancel := context.WithTimeout(ctx, everywhereLimit)
	defer cancel()
	c.mu.RLock()
	brokers := slices.Collect(maps.Keys(c.nodes))
	c.mu.RUnlock()
	return !slices.ContainsFunc(brokers, func(broker int32) bool {
		m, err := c.roundTrip(ctx, broker, &metadata.Request{TopicNames: []string{topic}})
		return err == nil && slices.ContainsFunc(m.(*metadata.Response).Topics, func(t metadata.ResponseTopic) bool {
			return t.Name == topic && kafkago.Error(t.ErrorCode) != kafkago.UnknownTopicOrPartition
		})
	})
}

// topicOperations returns the operations of a metadata response, unknown ones where
// the broker is older than Kafka 2.3 (Metadata v8) and leaves the field at zero.
func (c *Client) topicOperations(bits int32) Operations {
	if c.versions[protocol.Metadata].max < 8 {
		return Operations{}
	}
	return operations(bits)
}

// Operations returns what the client may do on a topic, a group, the cluster or a
// transactional id. It changes nothing. Of a transactional id only Describe can be
// found out; whether the client may also write to it shows at Producer.Init.
func (c *Client) Operations(ctx context.Context, kind Resource, name string) (Operations, error) {
	switch kind {
	case ResourceTopic:
		infos, err := c.Topics(ctx, name)
		if err != nil {
			return Operations{}, err
		}
		if !infos[name].Authorized {
			return Operations{Known: true}, nil // not even Describe
		}
		return infos[name].Operations, nil
	case ResourceCluster:
		m, err := c.roundTrip(ctx, -1, &metadata.Request{TopicNames: []string{}, IncludeClusterAuthorizedOperations: true})
		if err != nil {
			return Operations{}, err
		}
		return c.topicOperations(m.(*metadata.Response).ClusterAuthorizedOperations), nil
	case ResourceGroup:
		return c.groupOperations(ctx, name)
	case ResourceTransactionalID:
		c.forgetCoordinator(txnCoordinator, name)
		switch _, err := c.coordinatorWithin(ctx, txnCoordinator, name); {
		case errors.Is(err, kafkago.TransactionalIDAuthorizationFailed):
			return Operations{Known: true}, nil
		case err != nil:
			return Operations{}, err
		}
		return Operations{Known: true, bits: 1 << OpDescribe}, nil
	}
	return Operations{}, fmt.Errorf("kafka: operations of resource kind %d", kind)
}

func (c *Client) groupOperations(ctx context.Context, group string) (Operations, error) {
	delay := backoff.New(10*time.Millisecond, 500*time.Millisecond)
	for {
		id, err := c.coordinatorWithin(ctx, groupCoordinator, group)
		var m protocol.Message
		if err == nil {
			m, err = c.roundTrip(ctx, id, &describegroups.Request{Groups: []string{group}, IncludeAuthorizedOperations: true})
		}
		if err == nil {
			for _, g := range m.(*describegroups.Response).Groups {
				switch code := kafkago.Error(g.ErrorCode); code {
				case 0, kafkago.GroupIdNotFound:
					if c.versions[protocol.DescribeGroups].max < 3 {
						return Operations{}, nil
					}
					return operations(g.AuthorizedOperations), nil
				default:
					err = fmt.Errorf("kafka: describe group %q: %w", group, code)
				}
			}
		}
		switch {
		case errors.Is(err, kafkago.GroupAuthorizationFailed):
			return Operations{Known: true}, nil
		case err == nil:
			return Operations{}, fmt.Errorf("kafka: describe group %q: missing from the broker's response", group)
		case !c.retryCoordinator(groupCoordinator, group, err) || delay.Wait(ctx) != nil:
			return Operations{}, err
		}
	}
}

// CreateTopic makes a topic and waits until its partitions have leaders and, for
// a while, until every broker that responds knows it: the next program may ask any. A
// topic that is there already is no error, whatever its shape. replication -1 is
// the brokers' default (Kafka 2.4).
func (c *Client) CreateTopic(ctx context.Context, name string, partitions, replication int, configs map[string]string) error {
	if err := c.createTopic(ctx, name, partitions, replication, configs, false); err != nil {
		return err
	}
	delay := backoff.New(10*time.Millisecond, 500*time.Millisecond)
	for {
		// Another broker than the controller may not know the topic yet.
		if err := c.Refresh(ctx, name); err != nil {
			return err
		}
		err := c.allLed(name)
		if err == nil {
			c.awaitEverywhere(ctx, name)
			return nil
		}
		if errors.Is(err, kafkago.TopicAuthorizationFailed) {
			return nil // created, but not ours to describe
		}
		if delay.Wait(ctx) != nil {
			return fmt.Errorf("kafka: created topic %q, but it is not ready: %w", name, err)
		}
	}
}

// MayCreateTopic returns what CreateTopic would return, and makes no topic: the brokers
// check permission, replication factor and their own policy (KIP-4, validate_only).
func (c *Client) MayCreateTopic(ctx context.Context, name string, partitions, replication int, configs map[string]string) error {
	return c.createTopic(ctx, name, partitions, replication, configs, true)
}

func (c *Client) createTopic(ctx context.Context, name string, partitions, replication int, configs map[string]string, only bool) error {
	t := createtopics.RequestTopic{Name: name, NumPartitions: int32(partitions), ReplicationFactor: int16(replication)}
	for k, v := range configs {
		t.Configs = append(t.Configs, createtopics.RequestConfig{Name: k, Value: v})
	}
	slices.SortFunc(t.Configs, func(a, b createtopics.RequestConfig) int { return strings.Compare(a.Name, b.Name) })
	return c.toController(ctx, func(broker int32) error {
		m, err := c.roundTrip(ctx, broker, &createtopics.Request{
			Topics: []createtopics.RequestTopic{t}, TimeoutMs: int32(c.cfg.RequestTimeout.Milliseconds()), ValidateOnly: only,
		})
		if err != nil {
			return err
		}
		for _, r := range m.(*createtopics.Response).Topics {
			switch code := kafkago.Error(r.ErrorCode); {
			case code == 0 || code == kafkago.TopicAlreadyExists:
			case r.ErrorMessage != "":
				return fmt.Errorf("kafka: create topic %q: %s: %w", name, r.ErrorMessage, code)
			default:
				return fmt.Errorf("kafka: create topic %q: %w", name, code)
			}
		}
		return nil
	})
}

// CreatePartitions gives a topic partitions until it has total, and waits until
// they have leaders. One that has as many already is no error: another may have
// done the same.
func (c *Client) CreatePartitions(ctx context.Context, name string, total int) error {
	err := c.toController(ctx, func(broker int32) error {
		m, err := c.roundTrip(ctx, broker, &createpartitions.Request{
			Topics:    []createpartitions.RequestTopic{{Name: name, Count: int32(total)}},
			TimeoutMs: int32(c.cfg.RequestTimeout.Milliseconds()),
		})
		if err != nil {
			return err
		}
		for _, r := range m.(*createpartitions.Response).Results {
			switch code := kafkago.Error(r.ErrorCode); {
			case code == 0:
			case r.ErrorMessage != "":
				return fmt.Errorf("kafka: partitions of topic %q: %s: %w", name, r.ErrorMessage, code)
			default:
				return fmt.Errorf("kafka: partitions of topic %q: %w", name, code)
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, kafkago.InvalidPartitionNumber) {
		return err
	}
	delay := backoff.New(10*time.Millisecond, 500*time.Millisecond)
	for {
		infos, terr := c.Topics(ctx, name)
		if terr == nil && infos[name].Partitions >= total && infos[name].Leaderless == 0 {
			if terr = c.Refresh(ctx, name); terr == nil {
				c.awaitEverywhere(ctx, name)
				return nil
			}
		}
		if err != nil { // refused, and not because another was first
			return err
		}
		if delay.Wait(ctx) != nil {
			return fmt.Errorf("kafka: topic %q was given partitions, but they are not ready: %w", name, cmp.Or(terr, ctx.Err()))
		}
	}
}

// everywhereLimit is how long CreateTopic waits for the last broker.
const everywhereLimit = 3 * time.Second

// awaitEverywhere waits until no broker that responds says that the topic is unknown.
// It gives up on a broker that lags for long or does not respond: later requests
// to that one have to be retried.
func (c *Client) awaitEverywhere(ctx context.Context, topic string) {
	ctx, cancel := context.WithTimeout(ctx, everywhereLimit)
	defer cancel()
	c.mu.RLock()
	left := slices.Collect(maps.Keys(c.nodes))
	c.mu.RUnlock()
	delay := backoff.New(10*time.Millisecond, 200*time.Millisecond)
	for {
		left = slices.DeleteFunc(left, func(broker int32) bool {
			m, err := c.roundTrip(ctx, broker, &metadata.Request{TopicNames: []string{topic}})
			if err != nil {
				return true
			}
			return !slices.ContainsFunc(m.(*metadata.Response).Topics, func(t metadata.ResponseTopic) bool {
				return kafkago.Error(t.ErrorCode) == kafkago.UnknownTopicOrPartition || len(t.Partitions) == 0
			})
		})
		if len(left) == 0 || delay.Wait(ctx) != nil {
			return
		}
	}
}

// allLed returns why a topic cannot be used yet.
func (c *Client) allLed(topic string) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	t := c.topics[topic]
	if t == nil {
		return kafkago.UnknownTopicOrPartition
	}
	if t.code != 0 {
		return t.code
	}
	for _, p := range t.partitions {
		if p.leader < 0 {
			return kafkago.LeaderNotAvailable
		}
	}
	return nil
}

// DeleteTopic deletes a topic. One that does not exist is no error.
func (c *Client) DeleteTopic(ctx context.Context, name string) error {
	err := c.toController(ctx, func(broker int32) error {
		m, err := c.roundTrip(ctx, broker, &deletetopics.Request{
			TopicNames: []string{name}, TimeoutMs: int32(c.cfg.RequestTimeout.Milliseconds()),
		})
		if err != nil {
			return err
		}
		for _, r := range m.(*deletetopics.Response).Responses {
			if code := kafkago.Error(r.ErrorCode); code != 0 && code != kafkago.UnknownTopicOrPartition {
				return fmt.Errorf("kafka: delete topic %q: %w", name, code)
			}
		}
		return nil
	})
	if err == nil {
		c.mu.Lock()
		delete(c.topics, name)
		c.mu.Unlock()
	}
	return err
}

// toController calls f with the controller's id, and again after the controller has
// changed.
func (c *Client) toController(ctx context.Context, f func(broker int32) error) error {
	delay := backoff.New(20*time.Millisecond, time.Second)
	for {
		c.mu.RLock()
		id := c.ctrl
		c.mu.RUnlock()
		err := f(id)
		var broken *BrokerError
		moved := errors.Is(err, kafkago.NotController) || errors.Is(err, kafkago.BrokerNotAvailable) ||
			errors.As(err, &broken) && ClassOf(err) != Fatal
		if err == nil || !moved || delay.Wait(ctx) != nil {
			return err
		}
		if rerr := c.Refresh(ctx); rerr != nil && ctx.Err() != nil {
			return err
		}
	}
}

// TopicConfig returns a topic's effective configuration by name, such as
// retention.ms and cleanup.policy. Values that are secret are left out.
func (c *Client) TopicConfig(ctx context.Context, topic string) (map[string]string, error) {
	return c.describeConfig(ctx, -1, 2, topic, fmt.Sprintf("topic %q", topic))
}

// BrokerConfig returns the effective configuration of one of the brokers, such
// as transaction.max.timeout.ms. Values that are secret are left out.
func (c *Client) BrokerConfig(ctx context.Context) (map[string]string, error) {
	c.mu.RLock()
	id := c.ctrl
	c.mu.RUnlock()
	return c.describeConfig(ctx, id, 4, strconv.Itoa(int(id)), fmt.Sprintf("broker %d", id))
}

func (c *Client) describeConfig(ctx context.Context, broker int32, resource int8, name, what string) (map[string]string, error) {
	delay := backoff.New(20*time.Millisecond, 500*time.Millisecond)
	start := time.Now()
	for {
		m, err := c.roundTrip(ctx, broker, &describeconfigs.Request{
			Resources: []describeconfigs.RequestResource{{ResourceType: resource, ResourceName: name}},
		})
		if err != nil {
			return nil, err
		}
		for _, r := range m.(*describeconfigs.Response).Resources {
			switch code := kafkago.Error(r.ErrorCode); {
			case code == 0:
				out := make(map[string]string, len(r.ConfigEntries))
				for _, e := range r.ConfigEntries {
					if !e.IsSensitive {
						out[e.ConfigName] = e.ConfigValue
					}
				}
				return out, nil
			case r.ErrorMessage != "":
				err = fmt.Errorf("kafka: configuration of %s: %s: %w", what, r.ErrorMessage, code)
			default:
				err = fmt.Errorf("kafka: configuration of %s: %w", what, code)
			}
		}
		if err == nil {
			return nil, fmt.Errorf("kafka: configuration of %s: missing from the broker's response", what)
		}
		// A broker may not know a new topic yet.
		if !errors.Is(err, kafkago.UnknownTopicOrPartition) || time.Since(start) > time.Second || delay.Wait(ctx) != nil {
			return nil, err
		}
	}
}
