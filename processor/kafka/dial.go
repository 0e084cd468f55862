package kafka

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
)

// dialer makes connections to brokers, with TLS and a login where the configuration has them,
// and keeps account of them so that close ends all.
type dialer struct {
	cfg Config

	mu     sync.Mutex
	conns  map[*trackedConn]struct{}
	closed bool
}

func newDialer(cfg Config) *dialer { return &dialer{cfg: cfg, conns: map[*trackedConn]struct{}{}} }

// close makes dial refuse connections from now on, and returns the present ones.
func (d *dialer) close() []*trackedConn {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	conns := make([]*trackedConn, 0, len(d.conns))
	for t := range d.conns {
		conns = append(conns, t)
	}
	return conns
}

func (d *dialer) isClosed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed
}

// dial connects, with the TLS handshake where TLS is on: a handshake that fails
// says so instead of being an unexpected EOF later.
func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.DialTimeout)
	defer cancel()
	var nd net.Dialer
	nc, err := nd.DialContext(ctx, network, addr)
	if err != nil {
		return nil, dialError(addr, err)
	}
	if d.cfg.TLS != nil {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			host = addr
		}
		cfg, err := d.cfg.TLS.For(host)
		if err != nil {
			nc.Close()
			return nil, err
		}
		tc := tls.Client(nc, cfg)
		if err := tc.HandshakeContext(ctx); err != nil {
			nc.Close()
			return nil, tlsError(addr, err)
		}
		nc = tc
	}
	t := &trackedConn{Conn: nc, dialer: d}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		nc.Close()
		return nil, ErrClosed
	}
	d.conns[t] = struct{}{}
	return t, nil
}

// trackedConn lets Close end connections with a request in flight.
type trackedConn struct {
	net.Conn
	dialer *dialer
	once   sync.Once
	err    error
}

func (t *trackedConn) Close() error {
	t.once.Do(func() {
		t.dialer.mu.Lock()
		delete(t.dialer.conns, t)
		t.dialer.mu.Unlock()
		t.err = t.Conn.Close()
	})
	return t.err
}
