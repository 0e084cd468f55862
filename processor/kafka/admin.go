package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/createpartitions"
	"github.com/segmentio/kafka-go/protocol/createtopics"
	"github.com/segmentio/kafka-go/protocol/deletetopics"
	"github.com/segmentio/kafka-go/protocol/describeconfigs"
	"github.com/segmentio/kafka-go/protocol/metadata"
)

// TopicInfo describes a topic, or says why it cannot.
type TopicInfo struct {
	Name        string
	Exists      bool
	Authorized  bool // false: the client may not describe the topic, and nothing else is known
	Internal    bool
	Partitions  int
	Replication int        // of partition 0
	Leaderless  int        // partitions without a leader at the moment
	Operations  Operations // what the client may do, from Kafka 2.3 on
}

// Admin is the part of a Client that describes, creates and deletes topics, and reads configurations.
type Admin struct{ cluster *Cluster }

// Topics describes topics by name; without names, all that the client may see.
// A topic that does not exist is in the result and says so.
func (a *Admin) Topics(ctx context.Context, names ...string) (map[string]TopicInfo, error) {
	req := &metadata.Request{TopicNames: names, IncludeTopicAuthorizedOperations: true}
	m, err := a.cluster.roundTrip(ctx, -1, req)
	if err != nil {
		return nil, err
	}
	out := make(map[string]TopicInfo, len(names))
	for _, t := range m.(*metadata.Response).Topics {
		info := TopicInfo{Name: t.Name, Internal: t.IsInternal}
		switch code := kafkago.Error(t.ErrorCode); code {
		case 0, kafkago.LeaderNotAvailable:
			if len(t.Partitions) == 0 { // the topic was created just now, and has some
				return nil, fmt.Errorf("kafka: partitions of topic %q: %w", t.Name, kafkago.LeaderNotAvailable)
			}
			info.Exists, info.Authorized = true, true
			info.Operations = operationsSince(a.cluster, protocol.Metadata, 8, t.TopicAuthorizedOperations)
		case kafkago.UnknownTopicOrPartition:
			info.Authorized = true
		case kafkago.TopicAuthorizationFailed:
		default:
			return nil, fmt.Errorf("kafka: topic %q: %w", t.Name, newCodeError(code))
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
// topic. A single broker may say so of a topic that was created just now.
func (a *Admin) Unknown(ctx context.Context, topic string) bool {
	ctx, cancel := context.WithTimeout(ctx, everywhereLimit)
	defer cancel()
	return !slices.ContainsFunc(a.cluster.metadata.ids(), func(broker int32) bool {
		m, err := a.cluster.roundTrip(ctx, broker, &metadata.Request{TopicNames: []string{topic}})
		return err == nil && slices.ContainsFunc(m.(*metadata.Response).Topics, func(t metadata.ResponseTopic) bool {
			return t.Name == topic && kafkago.Error(t.ErrorCode) != kafkago.UnknownTopicOrPartition
		})
	})
}

// CreateTopic creates a topic and waits until its partitions have leaders and, for
// a while, until every broker that responds knows it: the next program may ask any. A
// topic that exists already is no error, regardless of its partitions and configuration. replication -1 is
// the brokers' default (Kafka 2.4).
func (a *Admin) CreateTopic(ctx context.Context, name string, partitions, replication int, configs map[string]string) error {
	if err := a.createTopic(ctx, name, partitions, replication, configs, false); err != nil {
		return err
	}
	delay := newBackoff(10*time.Millisecond, 500*time.Millisecond)
	for {
		// Another broker than the controller may not know the topic yet.
		if err := a.cluster.Refresh(ctx, name); err != nil {
			return err
		}
		err := a.cluster.metadata.ready(name)
		if err == nil {
			a.awaitEverywhere(ctx, name)
			return nil
		}
		if errors.Is(err, kafkago.TopicAuthorizationFailed) {
			return nil // created, but the client may not describe it
		}
		if delay.Wait(ctx) != nil {
			return fmt.Errorf("kafka: created topic %q, but it is not ready: %w", name, err)
		}
	}
}

// MayCreateTopic returns what CreateTopic would return, and creates no topic: the brokers
// check permission, replication factor and their own policy (KIP-4, validate_only).
func (a *Admin) MayCreateTopic(ctx context.Context, name string, partitions, replication int, configs map[string]string) error {
	return a.createTopic(ctx, name, partitions, replication, configs, true)
}

func (a *Admin) createTopic(ctx context.Context, name string, partitions, replication int, configs map[string]string, only bool) error {
	t := createtopics.RequestTopic{Name: name, NumPartitions: int32(partitions), ReplicationFactor: int16(replication)}
	for k, v := range configs {
		t.Configs = append(t.Configs, createtopics.RequestConfig{Name: k, Value: v})
	}
	slices.SortFunc(t.Configs, func(x, y createtopics.RequestConfig) int { return strings.Compare(x.Name, y.Name) })
	return a.toController(ctx, func(broker int32) error {
		m, err := a.cluster.roundTrip(ctx, broker, &createtopics.Request{
			Topics: []createtopics.RequestTopic{t}, TimeoutMs: int32(a.cluster.RequestTimeout().Milliseconds()), ValidateOnly: only,
		})
		if err != nil {
			return err
		}
		for _, r := range m.(*createtopics.Response).Topics {
			switch code := kafkago.Error(r.ErrorCode); {
			case code == 0 || code == kafkago.TopicAlreadyExists:
			case r.ErrorMessage != "":
				return fmt.Errorf("kafka: create topic %q: %s: %w", name, r.ErrorMessage, newCodeError(code))
			default:
				return fmt.Errorf("kafka: create topic %q: %w", name, newCodeError(code))
			}
		}
		return nil
	})
}

// CreatePartitions extends a topic to total partitions, and waits until
// they have leaders. A topic that has as many already is no error: another worker may
// have extended it.
func (a *Admin) CreatePartitions(ctx context.Context, name string, total int) error {
	err := a.toController(ctx, func(broker int32) error {
		m, err := a.cluster.roundTrip(ctx, broker, &createpartitions.Request{
			Topics:    []createpartitions.RequestTopic{{Name: name, Count: int32(total)}},
			TimeoutMs: int32(a.cluster.RequestTimeout().Milliseconds()),
		})
		if err != nil {
			return err
		}
		for _, r := range m.(*createpartitions.Response).Results {
			switch code := kafkago.Error(r.ErrorCode); {
			case code == 0:
			case r.ErrorMessage != "":
				return fmt.Errorf("kafka: partitions of topic %q: %s: %w", name, r.ErrorMessage, newCodeError(code))
			default:
				return fmt.Errorf("kafka: partitions of topic %q: %w", name, newCodeError(code))
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, kafkago.InvalidPartitionNumber) {
		return err
	}
	delay := newBackoff(10*time.Millisecond, 500*time.Millisecond)
	for {
		infos, terr := a.Topics(ctx, name)
		if terr == nil && infos[name].Partitions >= total && infos[name].Leaderless == 0 {
			if terr = a.cluster.Refresh(ctx, name); terr == nil {
				a.awaitEverywhere(ctx, name)
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
func (a *Admin) awaitEverywhere(ctx context.Context, topic string) {
	ctx, cancel := context.WithTimeout(ctx, everywhereLimit)
	defer cancel()
	left := a.cluster.metadata.ids()
	delay := newBackoff(10*time.Millisecond, 200*time.Millisecond)
	for {
		left = slices.DeleteFunc(left, func(broker int32) bool {
			m, err := a.cluster.roundTrip(ctx, broker, &metadata.Request{TopicNames: []string{topic}})
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

// DeleteTopic deletes a topic. One that does not exist is no error.
func (a *Admin) DeleteTopic(ctx context.Context, name string) error {
	err := a.toController(ctx, func(broker int32) error {
		m, err := a.cluster.roundTrip(ctx, broker, &deletetopics.Request{
			TopicNames: []string{name}, TimeoutMs: int32(a.cluster.RequestTimeout().Milliseconds()),
		})
		if err != nil {
			return err
		}
		for _, r := range m.(*deletetopics.Response).Responses {
			if code := kafkago.Error(r.ErrorCode); code != 0 && code != kafkago.UnknownTopicOrPartition {
				return fmt.Errorf("kafka: delete topic %q: %w", name, newCodeError(code))
			}
		}
		return nil
	})
	if err == nil {
		a.cluster.metadata.forget(name)
	}
	return err
}

// toController calls f with the controller's id, and again after the controller has
// changed.
func (a *Admin) toController(ctx context.Context, f func(broker int32) error) error {
	delay := newBackoff(20*time.Millisecond, time.Second)
	for {
		err := f(a.cluster.metadata.controllerID())
		var broken *BrokerError
		moved := errors.Is(err, kafkago.NotController) || errors.Is(err, kafkago.BrokerNotAvailable) ||
			errors.As(err, &broken) && ClassOf(err) != Fatal
		if err == nil || !moved || delay.Wait(ctx) != nil {
			return err
		}
		if rerr := a.cluster.Refresh(ctx); rerr != nil && ctx.Err() != nil {
			return err
		}
	}
}

// TopicConfig returns a topic's effective configuration by name, such as
// retention.ms and cleanup.policy. Values that are secret are left out.
func (a *Admin) TopicConfig(ctx context.Context, topic string) (map[string]string, error) {
	return a.describeConfig(ctx, -1, 2, topic, fmt.Sprintf("topic %q", topic))
}

// BrokerConfig returns the effective configuration of one of the brokers, such
// as transaction.max.timeout.ms. Values that are secret are left out.
func (a *Admin) BrokerConfig(ctx context.Context) (map[string]string, error) {
	id := a.cluster.metadata.controllerID()
	return a.describeConfig(ctx, id, 4, strconv.Itoa(int(id)), fmt.Sprintf("broker %d", id))
}

func (a *Admin) describeConfig(ctx context.Context, broker int32, resource int8, name, what string) (map[string]string, error) {
	delay := newBackoff(20*time.Millisecond, 500*time.Millisecond)
	start := time.Now()
	for {
		m, err := a.cluster.roundTrip(ctx, broker, &describeconfigs.Request{
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
				err = fmt.Errorf("kafka: configuration of %s: %s: %w", what, r.ErrorMessage, newCodeError(code))
			default:
				err = fmt.Errorf("kafka: configuration of %s: %w", what, newCodeError(code))
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
