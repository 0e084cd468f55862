package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go/sasl"

	"odradek/processor/kafka/record"
)

// TP names one partition of a topic.
type TP = record.TP

// Config says how to reach a cluster.
type Config struct {
	Brokers  []string       // bootstrap addresses, host:port
	ClientID string         // shown in the brokers' logs and quotas; default "odradek"
	TLS      *TLS           // nil: plaintext; see NewTLS
	SASL     sasl.Mechanism // nil: none; see NewSASL

	DialTimeout    time.Duration // connect, TLS and SASL together; default 10 s
	RequestTimeout time.Duration // one request; default 30 s
}

// Client is a connection to one cluster, composed of a part for each thing that requests are about. A caller
// takes the one it needs: fetch the *Cluster, a command that lists offsets the *Offsets. All share
// connections and metadata, and are safe for use by several goroutines.
//
// Connections and version negotiation are kafka-go's, by one Transport for each
// broker address; routing is the client's own, because kafka-go's follows a
// metadata cache that only time renews. So is the SASL exchange (see
// saslConn), with kafka-go's mechanisms.
type Client struct {
	Cluster     *Cluster     // brokers and leaders, and requests to them
	Offsets     *Offsets     // offsets of logs and of groups
	Admin       *Admin       // topics and configurations
	Permissions *Permissions // what the client may do

	coordinators *coordinators
}

// ErrClosed reports a request on a closed Client.
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
		return nil, fmt.Errorf("kafka: no bootstrap brokers; set %s", settingBrokers)
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
	c := newClient(newTransport(cfg))
	err := c.Cluster.transport.negotiate(ctx)
	if err == nil {
		err = c.Cluster.Refresh(ctx)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// newClient returns the parts of a client on a transport.
func newClient(t *transport) *Client {
	cluster := newCluster(t)
	coords := &coordinators{cluster: cluster, known: map[coordinatorKey]int32{}}
	admin := &Admin{cluster}
	return &Client{
		Cluster: cluster, Offsets: &Offsets{cluster, coords}, Admin: admin, Permissions: &Permissions{cluster, admin, coords},
		coordinators: coords,
	}
}

// Close ends every connection; requests in flight fail. A client that is
// closed stays closed.
func (c *Client) Close() error {
	conns := c.Cluster.transport.dialer.close()
	c.Cluster.transport.end() // a request that began just before makes a new pool after CloseIdleConnections
	for _, n := range append(c.Cluster.metadata.all(), c.Cluster.transport.seeds...) {
		n.transport.CloseIdleConnections()
	}
	for _, t := range conns {
		_ = t.Close()
	}
	return nil
}
