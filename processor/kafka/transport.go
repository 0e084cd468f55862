package kafka

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/findcoordinator"
	"github.com/segmentio/kafka-go/protocol/metadata"
)

// emptyMetadata asks for the brokers and no topic.
func emptyMetadata() *metadata.Request { return &metadata.Request{TopicNames: []string{}} }

// routed carries a message past kafka-go's own routing. It is a BrokerMessage
// that stays on the node's one address, and a RawExchanger only to learn the
// negotiated version.
type routed struct {
	msg         protocol.Message
	correlation int32
	clientID    string
	version     int16
}

// reply hides a response from Transport, which type-asserts the request when it
// sees a metadata response and would panic.
type reply struct{ protocol.Message }

func (r *routed) ApiKey() protocol.ApiKey { return r.msg.ApiKey() }

func (r *routed) Broker(protocol.Cluster) (protocol.Broker, error) {
	return protocol.Broker{ID: -1}, nil
}

func (r *routed) Required(v map[protocol.ApiKey]int16) bool {
	r.version = v[r.msg.ApiKey()]
	return true
}

func (r *routed) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	var m protocol.Message
	var err error
	if raw, ok := r.msg.(wireMessage); ok {
		m, err = raw.Exchange(rw, r.version, r.correlation, r.clientID)
	} else {
		if p, ok := r.msg.(protocol.PreparedMessage); ok {
			p.Prepare(r.version)
		}
		m, err = protocol.RoundTrip(rw, r.version, r.correlation, r.clientID, r.msg)
	}
	if err != nil {
		return nil, err
	}
	return reply{m}, nil
}

// node is one broker address with its own pool of connections.
type node struct {
	id        int32 // -1: a bootstrap address
	addr      string
	netAddr   net.Addr
	transport *kafkago.Transport
}

// versionRange is the versions of one API that a broker supports.
type versionRange struct{ min, max int16 }

// transport makes single attempts of requests, to a given broker or to any.
type transport struct {
	dialer   *dialer
	versions map[protocol.ApiKey]versionRange // of the broker that negotiate connected to
	corr     atomic.Int32                     // correlation ids
	life     context.Context                  // of what the Transports do by themselves; Close ends it
	end      context.CancelFunc

	seeds []*node      // the bootstrap addresses
	seed  atomic.Int32 // the one that answered last
}

func newTransport(cfg Config) *transport {
	t := &transport{dialer: newDialer(cfg)}
	t.life, t.end = context.WithCancel(context.Background())
	for _, addr := range cfg.Brokers {
		t.seeds = append(t.seeds, t.newNode(-1, addr))
	}
	return t
}

// negotiate connects to the first of the bootstrap brokers that answers, and learns the
// API versions that it supports.
func (t *transport) negotiate(ctx context.Context) error {
	var errs []error
	for i, s := range t.seeds {
		v, err := t.probe(ctx, s.addr)
		if err != nil {
			errs = append(errs, err)
			if ClassOf(err) == Fatal {
				break // the others would say the same, and count failed logins
			}
			continue
		}
		t.versions = v
		t.seed.Store(int32(i))
		return nil
	}
	return gravest(errs...)
}

// newest returns the newest version of an API that the broker supports, 0 where it has none.
func (t *transport) newest(api protocol.ApiKey) int16 { return t.versions[api].max }

func (t *transport) newNode(id int32, addr string) *node {
	return &node{
		id: id, addr: addr, netAddr: kafkago.TCP(addr),
		transport: &kafkago.Transport{
			Dial:        t.dialer.connect,
			DialTimeout: t.dialer.cfg.DialTimeout,
			// Shorter than what brokers (10 minutes) and load balancers (about 4) allow.
			IdleTimeout: 2 * time.Minute,
			// kafka-go wants metadata of its own, which nothing here uses: no topics,
			// seldom. The TTL is also the time limit of that request.
			MetadataTTL:    t.dialer.cfg.RequestTimeout,
			MetadataTopics: []string{},
			ClientID:       t.dialer.cfg.ClientID,
			Context:        t.life,
		},
	}
}

// timeoutOf returns how long one attempt of a request may take.
func (t *transport) timeoutOf(m protocol.Message) time.Duration {
	switch m.(type) {
	case *metadata.Request, *findcoordinator.Request, *brokerFeatures:
		// Answered from memory, and needed to get away from a broker that hangs: try
		// again, or another one, early.
		return t.dialer.cfg.RequestTimeout / 6
	}
	return t.dialer.cfg.RequestTimeout
}

// send makes one attempt at one address.
func (t *transport) send(ctx context.Context, timeout time.Duration, n *node, m protocol.Message) (protocol.Message, error) {
	if t.dialer.isClosed() {
		return nil, ErrClosed
	}
	if err := t.unsupported(m); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r := &routed{msg: m, correlation: t.corr.Add(1), clientID: t.dialer.cfg.ClientID}
	res, err := n.transport.RoundTrip(ctx, n.netAddr, r)
	if err != nil {
		return nil, &BrokerError{Broker: n.id, Addr: n.addr, API: apiName(m.ApiKey()), Err: err}
	}
	if res == nil {
		return nil, nil // a request without a response (acks=0)
	}
	return res.(reply).Message, nil
}

// sendToAny makes an attempt at one broker after the other until one answers: first the bootstrap
// address that answered last, then the other bootstrap addresses, then others.
func (t *transport) sendToAny(ctx context.Context, timeout time.Duration, others []*node, m protocol.Message) (protocol.Message, error) {
	candidates := make([]*node, 0, len(t.seeds)+len(others))
	first := int(t.seed.Load())
	for i := range t.seeds {
		candidates = append(candidates, t.seeds[(first+i)%len(t.seeds)])
	}
	candidates = append(candidates, others...)
	var errs []error
	for i, n := range candidates {
		r, err := t.send(ctx, timeout, n, m)
		if err == nil {
			if i < len(t.seeds) {
				t.seed.Store(int32((first + i) % len(t.seeds)))
			}
			return r, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil || errors.Is(err, ErrClosed) {
			break
		}
	}
	return nil, gravest(errs...)
}
