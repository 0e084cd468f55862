package kafka

import (
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/metadata"

	"odradek/processor/kafka/record"
)

// metadataCache has the brokers, and the leaders of topics, as the last metadata responses
// named them. It sends nothing.
type metadataCache struct {
	newNode func(id int32, addr string) *node

	mu         sync.RWMutex
	nodes      map[int32]*node
	topics     map[string]*topicState
	controller int32 // its broker id, -1 unknown
}

type topicState struct {
	code       kafkago.Error    // 0, or why the topic is not usable
	partitions []partitionState // by partition number
}

type partitionState struct {
	leader int32        // -1: none at the moment
	epoch  record.Epoch // of the leader
}

// node returns a broker by its id, nil where it is not known.
func (c *metadataCache) node(id int32) *node {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.nodes[id]
}

// add stores the address of a broker that is not known yet.
func (c *metadataCache) add(id int32, addr string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.nodes[id] == nil {
		c.nodes[id] = c.newNode(id, addr)
	}
}

// all returns the brokers.
func (c *metadataCache) all() []*node {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Collect(maps.Values(c.nodes))
}

// ids returns the ids of the brokers.
func (c *metadataCache) ids() []int32 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Collect(maps.Keys(c.nodes))
}

// controllerID returns the broker that changes topics, -1 where it is not known.
func (c *metadataCache) controllerID() int32 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.controller
}

// leader returns the leader of tp and the epoch of its term; see Cluster.Leader.
func (c *metadataCache) leader(tp TP) (broker int32, epoch record.Epoch, err error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	t := c.topics[tp.Topic]
	switch {
	case t == nil:
		return -1, 0, kafkago.UnknownTopicOrPartition
	case t.code != 0:
		return -1, 0, t.code
	case tp.Partition < 0 || int(tp.Partition) >= len(t.partitions):
		return -1, 0, kafkago.UnknownTopicOrPartition
	}
	p := t.partitions[tp.Partition]
	if p.leader < 0 {
		return -1, 0, kafkago.LeaderNotAvailable
	}
	return p.leader, p.epoch, nil
}

// partitions returns the number of partitions of a topic, or why the topic is not usable.
func (c *metadataCache) partitions(topic string) (int, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	t := c.topics[topic]
	if t == nil {
		return 0, kafkago.UnknownTopicOrPartition
	}
	if t.code != 0 {
		return 0, t.code
	}
	return len(t.partitions), nil
}

// ready returns why a topic cannot be used yet: it is unknown, or a partition has no leader.
func (c *metadataCache) ready(topic string) error {
	n, err := c.partitions(topic)
	for p := int32(0); err == nil && p < int32(n); p++ {
		_, _, err = c.leader(TP{Topic: topic, Partition: p})
	}
	return err
}

// has reports whether all topics have been asked for.
func (c *metadataCache) has(topics []string) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return !slices.ContainsFunc(topics, func(t string) bool { return c.topics[t] == nil })
}

// request returns the request for all topics so far and for these.
func (c *metadataCache) request(topics []string) *metadata.Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range topics {
		if c.topics[t] == nil {
			c.topics[t] = &topicState{code: kafkago.UnknownTopicOrPartition}
		}
	}
	req := &metadata.Request{TopicNames: make([]string, 0, len(c.topics))}
	for t := range c.topics {
		req.TopicNames = append(req.TopicNames, t)
	}
	return req
}

// forget drops a topic.
func (c *metadataCache) forget(topic string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.topics, topic)
}

// learn stores the brokers and leaders of a metadata response. epochs says whether it has
// the epochs of the leaders.
func (c *metadataCache) learn(res *metadata.Response, epochs bool) {
	var gone []*node
	c.mu.Lock()
	c.controller = res.ControllerID
	for _, b := range res.Brokers {
		addr := net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
		old := c.nodes[b.NodeID]
		if old != nil && old.addr == addr {
			continue
		}
		if old != nil {
			gone = append(gone, old)
		}
		c.nodes[b.NodeID] = c.newNode(b.NodeID, addr)
	}
	// A broker that is down is missing from the list. Its address is kept until
	// another has its id, because it mostly comes back where it was.
	for i := range res.Topics {
		t := &res.Topics[i]
		ts := &topicState{code: kafkago.Error(t.ErrorCode), partitions: make([]partitionState, len(t.Partitions))}
		for j := range ts.partitions {
			ts.partitions[j] = partitionState{leader: -1}
		}
		for j := range t.Partitions {
			p := &t.Partitions[j]
			if int(p.PartitionIndex) < 0 || int(p.PartitionIndex) >= len(ts.partitions) {
				continue // a broker that does not number from 0: not Kafka
			}
			ps := partitionState{leader: p.LeaderID}
			if epochs {
				ps.epoch = record.EpochOf(p.LeaderEpoch)
			}
			ts.partitions[p.PartitionIndex] = ps
		}
		c.topics[t.Name] = ts
	}
	c.mu.Unlock()
	for _, n := range gone {
		n.transport.CloseIdleConnections()
	}
}
