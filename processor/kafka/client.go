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
	versions map[protocol.ApiKey]versionRange // of the broker that Open connected to
	corr     atomic.Int32                     // correlation ids
	seed     atomic.Int32                     // the bootstrap address that answered last
	life     context.Context                  // of what the Transports do by themselves; Close ends it
	end      context.CancelFunc

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

// versionRange is the versions of one API that a broker supports.
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
}

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
	c.life, c.end = context.WithCancel(context.Background())
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
	if err := c.Refresh(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Close ends every connection; requests in flight fail. A client that is
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
	c.end() // a request that began just before makes a new pool after CloseIdleConnections
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
// first; Metadata and FindCoordinator are given a sixth of that time for each broker
// that is tried. Errors are those of RoundTripWithin.
func (c *Client) roundTrip(ctx context.Context, broker int32, m protocol.Message) (protocol.Message, error) {
	return c.RoundTripWithin(ctx, c.timeoutOf(m), broker, m)
}

// RoundTripWithin is one attempt of a request to a broker (-1: any): it ends at the
// context's deadline or after timeout, whichever is first. An error is a *BrokerError,
// whose outcome is unknown, or says that the broker is not known; the caller has to check error codes inside
// the response. m is a message of kafka-go's or a wire.Message; after an error it may still be written and
// read until its deadline, and must not be used again.
func (c *Client) RoundTripWithin(ctx context.Context, timeout time.Duration, broker int32, m protocol.Message) (protocol.Message, error) {
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
		if err := c.Refresh(ctx); err != nil {
			return nil, err
		}
	}
}

// findLeader returns the broker that leads tp, asking for metadata where it is not
// known. Errors are Leader's.
func (c *Client) findLeader(ctx context.Context, tp TP) (int32, error) {
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
func (c *Client) Leader(tp TP) (broker int32, epoch record.Epoch, err error) {
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

// Partitions returns the number of partitions of a topic, from the last metadata if
// the topic is there; Refresh first for a current answer.
func (c *Client) Partitions(ctx context.Context, topic string) (int, error) {
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
		if err := c.Refresh(ctx, topic); err != nil {
			return 0, err
		}
	}
}

// Refresh asks a broker for the cluster's brokers and for the leaders of topics, of
// those asked about before and of these. Callers at the same time share a request.
func (c *Client) Refresh(ctx context.Context, topics ...string) error {
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

// learn stores the brokers and leaders of a metadata response.
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

// Supports reports whether the broker that Open connected to has a version of an API.
func (c *Client) Supports(api protocol.ApiKey, version int16) bool {
	v, ok := c.versions[api]
	return ok && v.min <= version && v.max >= version
}

// RequestTimeout returns how long one attempt of a request may take, see Config.
func (c *Client) RequestTimeout() time.Duration { return c.cfg.RequestTimeout }
