package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/findcoordinator"
	"github.com/segmentio/kafka-go/protocol/metadata"
	"github.com/segmentio/kafka-go/sasl"

	"odradek/processor/kafka/record"
)

// TP names one partition of a topic.
type TP = record.TP

// Config says how to reach a cluster.
type Config struct {
	Brokers  []string       // bootstrap addresses, host:port
	ClientID string         // shown in the brokers' logs and quotas; default "odradek"
	TLS      *tls.Config    // nil: plaintext
	SASL     sasl.Mechanism // nil: none; see NewSASL

	DialTimeout    time.Duration // connect, TLS and SASL together; default 10 s
	RequestTimeout time.Duration // one request; default 30 s
}

// Client is a connection to one cluster. It knows brokers, leaders and
// coordinators, and sends a request to a broker by its id. It is safe for use by
// several goroutines.
//
// Connections and version negotiation are kafka-go's, by one Transport for each
// broker address; routing is the client's own, because kafka-go's follows a
// metadata cache that nothing but time renews. So is the SASL exchange (see
// saslConn), with kafka-go's mechanisms.
type Client struct {
	cfg      Config
	versions map[protocol.ApiKey]versionRange // of the broker that Open spoke to
	corr     atomic.Int32                     // correlation ids
	seed     atomic.Int32                     // the bootstrap address that answered last

	mu     sync.RWMutex
	seeds  []*node
	nodes  map[int32]*node
	topics map[string]*topicState
	coords map[coordinatorKey]int32
	ctrl   int32 // the controller's broker id, -1 unknown
	conns  map[*trackedConn]struct{}
	closed bool

	refreshing chan struct{} // holds one token: one metadata request at a time
	refreshes  atomic.Uint64 // finished metadata requests
}

// versionRange is what a broker says it speaks of one API.
type versionRange struct{ min, max int16 }

// node is one broker address with its own pool of connections.
type node struct {
	id        int32 // -1: a bootstrap address
	addr      string
	netAddr   net.Addr
	transport *kafkago.Transport
}

type topicState struct {
	code       kafkago.Error    // 0, or why the topic is not usable
	partitions []partitionState // by partition number
}

type partitionState struct {
	leader int32        // -1: none at the moment
	epoch  record.Epoch // of the leader
	code   kafkago.Error
}

type coordinatorKey struct {
	kind int8
	key  string
}

// Kinds of coordinators, as FindCoordinator numbers them.
const (
	groupCoordinator int8 = 0
	txnCoordinator   int8 = 1
)

// ErrClosed is what a request on a closed Client gets.
var ErrClosed = errors.New("kafka: client is closed")

// BrokerError says which request to which broker failed on the way: connecting,
// sending or waiting. Whether the broker has carried the request out is not known.
type BrokerError struct {
	Broker int32  // -1: a bootstrap address
	Addr   string // host:port
	API    string // "Produce", "Fetch", ...
	Err    error
}

func (e *BrokerError) Error() string {
	if e.Broker < 0 {
		return fmt.Sprintf("kafka: %s to %s: %v", e.API, e.Addr, e.Err)
	}
	return fmt.Sprintf("kafka: %s to broker %d (%s): %v", e.API, e.Broker, e.Addr, e.Err)
}

func (e *BrokerError) Unwrap() error { return e.Err }

// Open connects to the first of the bootstrap brokers that answers, and reads
// the cluster's brokers. The error of a broker that cannot be reached, of a failed
// TLS handshake or of refused credentials names the setting to look at.
func Open(ctx context.Context, cfg Config) (*Client, error) {
	if len(cfg.Brokers) == 0 {
		return nil, fmt.Errorf("kafka: no bootstrap brokers; set %s", envBrokers)
	}
	if cfg.ClientID == "" {
		cfg.ClientID = "odradek"
	}
	if cfg.DialTimeout <= 0 {
		cfg.DialTimeout = 10 * time.Second
	}
	if cfg.RequestTimeout <= 0 {
		cfg.RequestTimeout = 30 * time.Second
	}
	c := &Client{
		cfg:    cfg,
		nodes:  map[int32]*node{},
		topics: map[string]*topicState{},
		coords: map[coordinatorKey]int32{},
		ctrl:   -1,
		conns:  map[*trackedConn]struct{}{},

		refreshing: make(chan struct{}, 1),
	}
	for _, addr := range cfg.Brokers {
		c.seeds = append(c.seeds, c.newNode(-1, addr))
	}
	var errs []error
	for i, s := range c.seeds {
		v, err := c.probe(ctx, s.addr)
		if err != nil {
			errs = append(errs, err)
			if ClassOf(err) == Fatal {
				break // the others would say the same, and count failed logins
			}
			continue
		}
		c.versions = v
		c.seed.Store(int32(i))
		break
	}
	if c.versions == nil {
		c.Close()
		return nil, errors.Join(errs...)
	}
	if err := c.refresh(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Close ends every connection; requests on their way fail. A client that is
// closed stays closed.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	nodes := append([]*node(nil), c.seeds...)
	for _, n := range c.nodes {
		nodes = append(nodes, n)
	}
	conns := make([]*trackedConn, 0, len(c.conns))
	for t := range c.conns {
		conns = append(conns, t)
	}
	c.mu.Unlock()
	for _, n := range nodes {
		n.transport.CloseIdleConnections()
	}
	for _, t := range conns {
		_ = t.Close()
	}
	return nil
}

// roundTrip sends m to a broker (-1: any) and returns the response. The request
// ends at the context's deadline or after Config.RequestTimeout, whichever is
// first; JoinGroup and SyncGroup are given the rebalance timeout on top, Metadata
// and FindCoordinator a sixth of the time for each broker that is tried. An error
// is a *BrokerError (outcome unknown) or says that the broker is not known; error
// codes inside the response are the caller's to look at.
func (c *Client) roundTrip(ctx context.Context, broker int32, m protocol.Message) (protocol.Message, error) {
	return c.roundTripWithin(ctx, c.timeoutOf(m), broker, m)
}

func (c *Client) roundTripWithin(ctx context.Context, timeout time.Duration, broker int32, m protocol.Message) (protocol.Message, error) {
	if broker >= 0 {
		n, err := c.node(ctx, broker)
		if err != nil {
			return nil, err
		}
		return c.send(ctx, timeout, n, m)
	}
	// Any broker will do: the one that answered last, then the other bootstrap
	// addresses, then the brokers that metadata named.
	c.mu.RLock()
	candidates := make([]*node, 0, len(c.seeds)+len(c.nodes))
	first := int(c.seed.Load())
	for i := range c.seeds {
		candidates = append(candidates, c.seeds[(first+i)%len(c.seeds)])
	}
	for _, n := range c.nodes {
		candidates = append(candidates, n)
	}
	c.mu.RUnlock()
	var errs []error
	for i, n := range candidates {
		r, err := c.send(ctx, timeout, n, m)
		if err == nil {
			if i < len(c.seeds) {
				c.seed.Store(int32((first + i) % len(c.seeds)))
			}
			return r, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil || errors.Is(err, ErrClosed) {
			break
		}
	}
	return nil, errors.Join(errs...)
}

// node finds a broker by id, asking for metadata when it is not known.
func (c *Client) node(ctx context.Context, id int32) (*node, error) {
	for try := 0; ; try++ {
		c.mu.RLock()
		n, closed := c.nodes[id], c.closed
		c.mu.RUnlock()
		if closed {
			return nil, ErrClosed
		}
		if n != nil {
			return n, nil
		}
		if try > 0 {
			return nil, fmt.Errorf("kafka: broker %d is not in the cluster's metadata: %w", id, kafkago.BrokerNotAvailable)
		}
		if err := c.refresh(ctx); err != nil {
			return nil, err
		}
	}
}

// leader returns the broker that leads tp, from the cache if it is there.
// Without a leader the error is LEADER_NOT_AVAILABLE, without the topic or the
// partition UNKNOWN_TOPIC_OR_PARTITION, without permission
// TOPIC_AUTHORIZATION_FAILED.
func (c *Client) leader(ctx context.Context, tp TP) (int32, error) {
	if id, err := c.cachedLeader(tp); err == nil {
		return id, nil
	}
	if err := c.refresh(ctx, tp.Topic); err != nil {
		return -1, err
	}
	id, err := c.cachedLeader(tp)
	if err != nil {
		return -1, fmt.Errorf("kafka: leader of %s: %w", tp, err)
	}
	return id, nil
}

func (c *Client) cachedLeader(tp TP) (int32, error) {
	p, err := c.cachedPartition(tp)
	return p.leader, err
}

// cachedPartition returns the partition's leader and its epoch.
func (c *Client) cachedPartition(tp TP) (partitionState, error) {
	none := partitionState{leader: -1}
	c.mu.RLock()
	defer c.mu.RUnlock()
	t := c.topics[tp.Topic]
	switch {
	case t == nil:
		return none, kafkago.UnknownTopicOrPartition
	case t.code != 0:
		return none, t.code
	case tp.Partition < 0 || int(tp.Partition) >= len(t.partitions):
		return none, kafkago.UnknownTopicOrPartition
	}
	p := t.partitions[tp.Partition]
	if p.leader < 0 {
		return none, kafkago.LeaderNotAvailable
	}
	return p, nil
}

// partitionCount returns the number of partitions of a topic, from the cache if
// it is there; refresh first for a current answer.
func (c *Client) partitionCount(ctx context.Context, topic string) (int, error) {
	for try := 0; ; try++ {
		c.mu.RLock()
		t := c.topics[topic]
		c.mu.RUnlock()
		if t != nil && t.code == 0 {
			return len(t.partitions), nil
		}
		if try > 0 {
			code := kafkago.UnknownTopicOrPartition
			if t != nil {
				code = t.code
			}
			return 0, fmt.Errorf("kafka: partitions of topic %q: %w", topic, code)
		}
		if err := c.refresh(ctx, topic); err != nil {
			return 0, err
		}
	}
}

// refresh asks a broker for the cluster's brokers and for the leaders of topics;
// without topics, of those in the cache. Callers at the same time share a request.
func (c *Client) refresh(ctx context.Context, topics ...string) error {
	before := c.refreshes.Load()
	select {
	case c.refreshing <- struct{}{}:
		defer func() { <-c.refreshing }()
	case <-ctx.Done():
		return fmt.Errorf("kafka: metadata: %w", context.Cause(ctx))
	}
	// A request that began after this call did, and asked for everything in the
	// cache, answers this one as well.
	if c.refreshes.Load() >= before+2 && c.known(topics) {
		return nil
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return ErrClosed
	}
	for _, t := range topics {
		if c.topics[t] == nil {
			c.topics[t] = &topicState{code: kafkago.UnknownTopicOrPartition}
		}
	}
	req := &metadata.Request{TopicNames: make([]string, 0, len(c.topics))}
	for t := range c.topics {
		req.TopicNames = append(req.TopicNames, t)
	}
	c.mu.Unlock()
	m, err := c.roundTrip(ctx, -1, req)
	if err != nil {
		return err
	}
	c.learn(m.(*metadata.Response))
	c.refreshes.Add(1)
	return nil
}

func (c *Client) known(topics []string) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, t := range topics {
		if c.topics[t] == nil {
			return false
		}
	}
	return true
}

// learn takes brokers and leaders from a metadata response.
func (c *Client) learn(res *metadata.Response) {
	var gone []*node
	epochs := c.versions[protocol.Metadata].max >= 7 // else they are not in the response
	c.mu.Lock()
	c.ctrl = res.ControllerID
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
	// A broker that is down is missing from the list; its address is kept until
	// another takes its id, for it mostly comes back where it was.
	for i := range res.Topics {
		t := &res.Topics[i]
		ts := &topicState{code: kafkago.Error(t.ErrorCode), partitions: make([]partitionState, len(t.Partitions))}
		for j := range ts.partitions {
			ts.partitions[j] = partitionState{leader: -1, code: kafkago.LeaderNotAvailable}
		}
		for j := range t.Partitions {
			p := &t.Partitions[j]
			if int(p.PartitionIndex) < 0 || int(p.PartitionIndex) >= len(ts.partitions) {
				continue // a broker that does not number from 0: not Kafka
			}
			ps := partitionState{leader: p.LeaderID, code: kafkago.Error(p.ErrorCode)}
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

// coordinator returns the broker that coordinates a group (groupCoordinator) or
// a transactional id (txnCoordinator), from the cache if it is there. The
// broker's own error (COORDINATOR_NOT_AVAILABLE while the internal topic is being
// made, authorisation) comes back as it is.
func (c *Client) coordinator(ctx context.Context, kind int8, key string) (int32, error) {
	k := coordinatorKey{kind, key}
	c.mu.RLock()
	id, ok := c.coords[k]
	c.mu.RUnlock()
	if ok {
		return id, nil
	}
	m, err := c.roundTrip(ctx, -1, &findcoordinator.Request{Key: key, KeyType: kind})
	if err != nil {
		return -1, err
	}
	res := m.(*findcoordinator.Response)
	if res.ErrorCode != 0 {
		what := "group"
		if kind == txnCoordinator {
			what = "transactional id"
		}
		return -1, fmt.Errorf("kafka: coordinator of %s %q: %w", what, key, kafkago.Error(res.ErrorCode))
	}
	c.mu.Lock()
	c.coords[k] = res.NodeID
	if c.nodes[res.NodeID] == nil {
		c.nodes[res.NodeID] = c.newNode(res.NodeID, net.JoinHostPort(res.Host, strconv.Itoa(int(res.Port))))
	}
	c.mu.Unlock()
	return res.NodeID, nil
}

// forgetCoordinator makes the next coordinator call ask again: after
// NOT_COORDINATOR, or when the coordinator does not answer.
func (c *Client) forgetCoordinator(kind int8, key string) {
	c.mu.Lock()
	delete(c.coords, coordinatorKey{kind, key})
	c.mu.Unlock()
}
