package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/metadata"

	"odradek/processor/kafka/record"
)

// Cluster is the part of a Client that knows brokers and leaders, and sends a request to a
// broker by its id.
type Cluster struct {
	transport *transport
	metadata  *metadataCache

	refreshing chan struct{} // holds one token: one metadata request at a time
	refreshes  atomic.Uint64 // finished metadata requests
}

func newCluster(t *transport) *Cluster {
	return &Cluster{
		transport:  t,
		metadata:   &metadataCache{newNode: t.newNode, nodes: map[int32]*node{}, topics: map[string]*topicState{}, controller: -1},
		refreshing: make(chan struct{}, 1),
	}
}

// roundTrip sends m to a broker (-1: any) and returns the response. The request
// ends at the context's deadline or after Config.RequestTimeout, whichever is
// first; Metadata and FindCoordinator are given a sixth of that time for each broker
// that is tried. It returns RoundTripWithin's errors.
func (c *Cluster) roundTrip(ctx context.Context, broker int32, m protocol.Message) (protocol.Message, error) {
	return c.RoundTripWithin(ctx, c.transport.timeoutOf(m), broker, m)
}

// RoundTripWithin makes one attempt of a request to a broker (-1: any). It ends at the
// context's deadline or after timeout, whichever is first. An error is a *BrokerError,
// whose outcome is unknown, or says that the broker is not known; the caller has to check error codes inside
// the response. m is a message of kafka-go's or a wireMessage; after an error it may still be written and
// read until its deadline, and must not be used again.
func (c *Cluster) RoundTripWithin(ctx context.Context, timeout time.Duration, broker int32, m protocol.Message) (protocol.Message, error) {
	if broker >= 0 {
		n, err := c.node(ctx, broker)
		if err != nil {
			return nil, err
		}
		return c.transport.send(ctx, timeout, n, m)
	}
	return c.transport.sendToAny(ctx, timeout, c.metadata.all(), m)
}

// node finds a broker by id, asking for metadata when it is not known.
func (c *Cluster) node(ctx context.Context, id int32) (*node, error) {
	for try := 0; ; try++ {
		if c.transport.dialer.isClosed() {
			return nil, ErrClosed
		}
		if n := c.metadata.node(id); n != nil {
			return n, nil
		}
		if try > 0 {
			return nil, fmt.Errorf("kafka: broker %d is not in the cluster's metadata: %w", id, kafkago.BrokerNotAvailable)
		}
		if err := c.Refresh(ctx); err != nil {
			return nil, err
		}
	}
}

// findLeader returns the broker that leads tp, asking for metadata where it is not
// known. Errors are Leader's.
func (c *Cluster) findLeader(ctx context.Context, tp TP) (int32, error) {
	if id, _, err := c.Leader(tp); err == nil {
		return id, nil
	}
	if err := c.Refresh(ctx, tp.Topic); err != nil {
		return -1, err
	}
	id, _, err := c.Leader(tp)
	if err != nil {
		return -1, fmt.Errorf("kafka: leader of %s: %w", tp, err)
	}
	return id, nil
}

// Leader returns the broker that leads tp and the epoch of its term, as the last
// metadata had them; it sends no request (see Refresh). The epoch is 0 where the broker is
// too old to send it (before Kafka 2.1, KIP-320). Without a leader the error is LEADER_NOT_AVAILABLE, without the
// topic or the partition UNKNOWN_TOPIC_OR_PARTITION, without permission
// TOPIC_AUTHORIZATION_FAILED.
func (c *Cluster) Leader(tp TP) (broker int32, epoch record.Epoch, err error) {
	return c.metadata.leader(tp)
}

// Partitions returns the number of partitions of a topic, from the last metadata if
// the topic is there; Refresh first for a current answer.
func (c *Cluster) Partitions(ctx context.Context, topic string) (int, error) {
	n, err := c.metadata.partitions(topic)
	if err == nil {
		return n, nil
	}
	if err := c.Refresh(ctx, topic); err != nil {
		return 0, err
	}
	if n, err = c.metadata.partitions(topic); err != nil {
		return 0, fmt.Errorf("kafka: partitions of topic %q: %w", topic, err)
	}
	return n, nil
}

// Refresh asks a broker for the cluster's brokers and for the leaders of topics, of
// those asked about before and of these. Callers at the same time share a request.
func (c *Cluster) Refresh(ctx context.Context, topics ...string) error {
	before := c.refreshes.Load()
	select {
	case c.refreshing <- struct{}{}:
		defer func() { <-c.refreshing }()
	case <-ctx.Done():
		return fmt.Errorf("kafka: metadata: %w", context.Cause(ctx))
	}
	// A request that began after this call did, and asked for everything in the
	// cache, answers this one as well.
	if c.refreshes.Load() >= before+2 && c.metadata.has(topics) {
		return nil
	}
	if c.transport.dialer.isClosed() {
		return ErrClosed
	}
	m, err := c.roundTrip(ctx, -1, c.metadata.request(topics))
	if err != nil {
		return err
	}
	epochs := c.transport.newest(protocol.Metadata) >= 7 // else they are not in the response
	c.metadata.learn(m.(*metadata.Response), epochs)
	c.refreshes.Add(1)
	return nil
}

// Supports reports whether the broker that Open connected to has a version of an API.
func (c *Cluster) Supports(api protocol.ApiKey, version int16) bool {
	v, ok := c.transport.versions[api]
	return ok && v.min <= version && v.max >= version
}

// RequestTimeout returns how long one attempt of a request may take, see Config.
func (c *Cluster) RequestTimeout() time.Duration { return c.transport.dialer.cfg.RequestTimeout }

// unknownTopicPatience is how long a topic may be unknown before that is
// believed: brokers learn of a new topic one after the other.
const unknownTopicPatience = 5 * time.Second

// EachLeader calls f for every broker that leads some of tps, at the same time,
// with its partitions sorted. f returns the partitions' error codes, or the error of
// its request, which then counts for each of them. A partition whose error a new leader
// may not have is tried again, with fresh metadata, until the context ends.
func (c *Cluster) EachLeader(ctx context.Context, tps []TP,
	f func(ctx context.Context, broker int32, tps []TP) (map[TP]kafkago.Error, error)) error {
	left := slices.Clone(tps)
	slices.SortFunc(left, record.TP.Compare)
	delay := newBackoff(10*time.Millisecond, 500*time.Millisecond)
	start := time.Now()
	for {
		byLeader := map[int32][]TP{}
		failed := map[TP]error{}
		for _, tp := range left {
			id, err := c.findLeader(ctx, tp)
			if err != nil {
				failed[tp] = err
				continue
			}
			byLeader[id] = append(byLeader[id], tp)
		}
		var mu sync.Mutex
		var wg sync.WaitGroup
		for id, tps := range byLeader {
			wg.Go(func() {
				codes, err := f(ctx, id, tps)
				mu.Lock()
				defer mu.Unlock()
				for _, tp := range tps {
					if err != nil {
						failed[tp] = err
					} else if code := codes[tp]; code != 0 {
						failed[tp] = fmt.Errorf("kafka: %s: %w", tp, newCodeError(code))
					}
				}
			})
		}
		wg.Wait()
		if len(failed) == 0 {
			return nil
		}
		left = left[:0]
		topics := map[string]bool{}
		var last error
		for tp, err := range failed {
			if errors.Is(err, ErrClosed) || !leaderMayChange(err) ||
				errors.Is(err, kafkago.UnknownTopicOrPartition) && time.Since(start) > unknownTopicPatience {
				return err
			}
			left = append(left, tp)
			topics[tp.Topic] = true
			last = err
		}
		slices.SortFunc(left, record.TP.Compare)
		if delay.Wait(ctx) != nil {
			return last
		}
		names := make([]string, 0, len(topics))
		for t := range topics {
			names = append(names, t)
		}
		if err := c.Refresh(ctx, names...); err != nil && ctx.Err() != nil {
			return last
		}
	}
}

// leaderMayChange reports whether a request that failed for a partition can succeed
// at another broker or a little later.
func leaderMayChange(err error) bool {
	var broken *BrokerError
	if errors.As(err, &broken) {
		return ClassOf(err) != Fatal
	}
	var code kafkago.Error
	if !errors.As(err, &code) {
		return false
	}
	switch code {
	case kafkago.UnknownTopicOrPartition, kafkago.LeaderNotAvailable, kafkago.NotLeaderForPartition,
		kafkago.RequestTimedOut, kafkago.BrokerNotAvailable, kafkago.ReplicaNotAvailable, kafkago.NetworkException,
		kafkago.KafkaStorageError, kafkago.FencedLeaderEpoch, kafkago.UnknownLeaderEpoch, kafkago.OffsetNotAvailable,
		kafkago.ListenerNotFound, kafkago.UnknownTopicID, kafkago.InconsistentTopicID:
		return true
	}
	return false
}
