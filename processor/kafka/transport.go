package kafka

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"sync"
	"time"

	"odradek/processor/kafka/wire"

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
	if raw, ok := r.msg.(wire.Message); ok {
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

func (c *Client) newNode(id int32, addr string) *node {
	return &node{
		id: id, addr: addr, netAddr: kafkago.TCP(addr),
		transport: &kafkago.Transport{
			Dial:        c.connect,
			DialTimeout: c.cfg.DialTimeout,
			// Shorter than what brokers (10 minutes) and load balancers (about 4) allow.
			IdleTimeout: 2 * time.Minute,
			// kafka-go wants metadata of its own, which nothing here uses: no topics,
			// seldom. The TTL is also the time limit of that request.
			MetadataTTL:    c.cfg.RequestTimeout,
			MetadataTopics: []string{},
			ClientID:       c.cfg.ClientID,
			Context:        c.life,
		},
	}
}

// timeoutOf is how long one attempt of a request may take.
func (c *Client) timeoutOf(m protocol.Message) time.Duration {
	switch m.(type) {
	case *metadata.Request, *findcoordinator.Request:
		// Answered from memory, and needed to get away from a broker that hangs: try
		// again, or another one, early.
		return c.cfg.RequestTimeout / 6
	}
	return c.cfg.RequestTimeout
}

// send makes one attempt at one address.
func (c *Client) send(ctx context.Context, timeout time.Duration, n *node, m protocol.Message) (protocol.Message, error) {
	c.mu.RLock()
	closed := c.closed
	c.mu.RUnlock()
	if closed {
		return nil, ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r := &routed{msg: m, correlation: c.corr.Add(1), clientID: c.cfg.ClientID}
	res, err := n.transport.RoundTrip(ctx, n.netAddr, r)
	if err != nil {
		return nil, &BrokerError{Broker: n.id, Addr: n.addr, API: m.ApiKey().String(), Err: err}
	}
	if res == nil {
		return nil, nil // a request without a response (acks=0)
	}
	return res.(reply).Message, nil
}

// dial connects, with the TLS handshake where TLS is on: a handshake that fails
// says so instead of being an unexpected EOF later.
func (c *Client) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.DialTimeout)
	defer cancel()
	var d net.Dialer
	nc, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, dialError(addr, err)
	}
	if cfg := c.cfg.TLS; cfg != nil {
		if cfg.ServerName == "" {
			host, _, err := net.SplitHostPort(addr)
			if err != nil {
				host = addr
			}
			cfg = cfg.Clone()
			cfg.ServerName = host
		}
		tc := tls.Client(nc, cfg)
		if err := tc.HandshakeContext(ctx); err != nil {
			nc.Close()
			return nil, tlsError(addr, err)
		}
		nc = tc
	}
	t := &trackedConn{Conn: nc, client: c}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		nc.Close()
		return nil, ErrClosed
	}
	c.conns[t] = struct{}{}
	return t, nil
}

// trackedConn lets Close end connections with a request in flight.
type trackedConn struct {
	net.Conn
	client *Client
	once   sync.Once
	err    error
}

func (t *trackedConn) Close() error {
	t.once.Do(func() {
		t.client.mu.Lock()
		delete(t.client.conns, t)
		t.client.mu.Unlock()
		t.err = t.Conn.Close()
	})
	return t.err
}
