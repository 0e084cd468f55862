package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"
	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
	"github.com/segmentio/kafka-go/protocol/saslhandshake"
	"github.com/segmentio/kafka-go/sasl"
)

// connect makes a connection for Transport: dial, and the SASL exchange where
// SASL is on. kafka-go has an exchange of its own, which forgets how long the
// session lasts: the broker then closes the connection at the first request after
// its end, and whether a request in flight was carried out is not known.
func (d *dialer) connect(ctx context.Context, network, addr string) (net.Conn, error) {
	nc, err := d.dial(ctx, network, addr)
	if err != nil || d.cfg.SASL == nil {
		return nc, err
	}
	ctx, cancel := context.WithTimeout(ctx, d.cfg.DialTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { nc.SetDeadline(time.Unix(1, 0)) })
	s := &saslConn{Conn: nc, dialer: d, addr: addr}
	err = s.login(ctx)
	if !stop() && err == nil {
		err = fmt.Errorf("kafka: %s: SASL %s: %w", addr, d.cfg.SASL.Name(), context.Cause(ctx))
	}
	if err != nil {
		nc.Close()
		return nil, unsent(err)
	}
	return s, nil
}

// saslConn is a connection with a SASL session that may end (KIP-368). Before the
// first request that would come close to the end it authenticates again, so that
// no request meets the end. Transport has one request at a time on a connection,
// and writes and reads it in one goroutine; without that the exchange could come
// between a request and its response, hence the count of both.
type saslConn struct {
	net.Conn
	dialer   *dialer
	addr     string
	versions map[protocol.ApiKey]int16

	renew    time.Time // when to authenticate again; zero: the session does not end
	requests frames    // written
	replies  frames    // read
}

// minReauthentication is how long a broker refuses to authenticate a connection
// again after the last time: a second, and a little for its clock.
const minReauthentication = 1100 * time.Millisecond

// login learns which versions of the exchange the broker speaks and
// authenticates.
func (s *saslConn) login(ctx context.Context) error {
	pc := protocol.NewConn(s.Conn, s.dialer.cfg.ClientID)
	m, err := pc.RoundTrip(new(apiversions.Request))
	if err != nil {
		return fmt.Errorf("kafka: %s does not answer as a Kafka broker: %w; check %s", s.addr, err, settingBrokers)
	}
	res := m.(*apiversions.Response)
	if res.ErrorCode != 0 {
		return fmt.Errorf("kafka: %s: API versions: %w", s.addr, kafkago.Error(res.ErrorCode))
	}
	s.versions = map[protocol.ApiKey]int16{}
	for _, k := range res.ApiKeys {
		if key := protocol.ApiKey(k.ApiKey); key == protocol.SaslHandshake || key == protocol.SaslAuthenticate {
			s.versions[key] = key.SelectVersion(k.MinVersion, k.MaxVersion)
		}
	}
	return s.authenticate(ctx, pc)
}

// authenticate begins a session and notes when to begin the next.
func (s *saslConn) authenticate(ctx context.Context, pc *protocol.Conn) error {
	pc.SetVersions(s.versions)
	began := time.Now()
	lifetime, err := s.dialer.authenticate(ctx, pc, s.addr)
	if err != nil {
		if errors.Is(err, errLoginCut) && s.versions[protocol.SaslHandshake] == 0 {
			// Before SaslAuthenticate a broker had no other way to refuse.
			err = s.dialer.refused(s.addr, kafkago.SASLAuthenticationFailed)
		}
		return err
	}
	s.renew = time.Time{}
	if lifetime > 0 {
		// Between 70 and 85 % of it, so that connections made together do not come
		// back together, and a request in flight has time to arrive.
		part := time.Duration(float64(lifetime) * (0.70 + 0.15*rand.Float64()))
		s.renew = began.Add(max(part, minReauthentication))
	}
	return nil
}

// Write sends a part of a request, before its first byte a new login if the
// session is near its end. A login that fails sends nothing of the request.
func (s *saslConn) Write(b []byte) (int, error) {
	if !s.renew.IsZero() && s.idle() && !time.Now().Before(s.renew) {
		ctx, cancel := context.WithTimeout(context.Background(), s.dialer.cfg.DialTimeout)
		defer cancel()
		// The deadline of the connection, the request's own, bounds the exchange.
		if err := s.authenticate(ctx, protocol.NewConn(s.Conn, s.dialer.cfg.ClientID)); err != nil {
			return 0, unsent(err)
		}
	}
	n, err := s.Conn.Write(b)
	s.requests.pass(b[:n])
	return n, err
}

func (s *saslConn) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	s.replies.pass(b[:n])
	return n, err
}

// idle reports whether no request is in flight: each has its response.
func (s *saslConn) idle() bool {
	return s.requests.whole() && s.replies.whole() && s.requests.done == s.replies.done
}

// frames follows the frames of one direction of a connection: four bytes of size,
// then that many bytes.
type frames struct {
	done int // frames that have passed
	size [4]byte
	have int // bytes of the size that have passed
	left int // bytes of the frame to come
}

func (f *frames) pass(b []byte) {
	for len(b) > 0 {
		if f.left > 0 {
			n := min(f.left, len(b))
			f.left -= n
			b = b[n:]
			if f.left == 0 {
				f.done++
			}
			continue
		}
		n := copy(f.size[f.have:], b)
		f.have += n
		b = b[n:]
		if f.have == len(f.size) {
			f.have = 0
			if f.left = int(binary.BigEndian.Uint32(f.size[:])); f.left == 0 {
				f.done++
			}
		}
	}
}

// whole reports whether the last frame has passed to its end.
func (f *frames) whole() bool { return f.left == 0 && f.have == 0 }

// unsent classes a login that failed: the request after it has not been sent, so that
// it may be sent again unless the credentials are wrong.
func unsent(err error) error {
	if ClassOf(err) == Fatal {
		return err
	}
	return &classed{Retriable, err}
}

// errLoginCut reports that the connection ended while the broker checked the credentials.
var errLoginCut = errors.New("connection closed during the login")

// refused returns the error of credentials that the broker does not accept.
func (d *dialer) refused(addr string, why error) error {
	if l, ok := d.cfg.SASL.(*Login); ok {
		return fmt.Errorf("kafka: %s refused the login (SASL %s): %w; check %s", addr, l.Mechanism, why, l.Settings)
	}
	return fmt.Errorf("kafka: %s refused user name or password (SASL %s): %w; check %s and %s",
		addr, d.cfg.SASL.Name(), why, settingSASLUser, settingSASLPass)
}

// authenticate runs the SASL exchange (KIP-43, KIP-152) and returns how long the
// session lasts, 0 without an end.
func (d *dialer) authenticate(ctx context.Context, pc *protocol.Conn, addr string) (time.Duration, error) {
	name := d.cfg.SASL.Name()
	m, err := pc.RoundTrip(&saslhandshake.Request{Mechanism: name})
	if err != nil {
		return 0, fmt.Errorf("kafka: %s: SASL handshake: %w; if the listener has no SASL, unset %s", addr, err, settingSASL)
	}
	if hs := m.(*saslhandshake.Response); hs.ErrorCode != 0 && len(hs.Mechanisms) == 0 {
		return 0, fmt.Errorf("kafka: the listener %s has no SASL: %w; unset %s", addr, kafkago.Error(hs.ErrorCode), settingSASL)
	} else if hs.ErrorCode != 0 {
		return 0, fmt.Errorf("kafka: %s does not take SASL %s, only %s: %w; check %s",
			addr, name, strings.Join(hs.Mechanisms, ", "), kafkago.Error(hs.ErrorCode), settingSASL)
	}
	host, _, _ := net.SplitHostPort(addr)
	ctx = sasl.WithMetadata(ctx, &sasl.Metadata{Host: host})
	session, state, err := d.cfg.SASL.Start(ctx)
	if err != nil {
		return 0, fmt.Errorf("kafka: %s: SASL %s: %w", addr, name, err)
	}
	var lifetime time.Duration
	for done := false; !done; {
		m, err := pc.RoundTrip(&saslauthenticate.Request{AuthBytes: state})
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("%w: %w", errLoginCut, err)
		}
		if err != nil {
			return 0, fmt.Errorf("kafka: %s: SASL %s: %w", addr, name, err)
		}
		res := m.(*saslauthenticate.Response)
		if res.ErrorCode != 0 {
			if res.ErrorMessage != "" {
				return 0, d.refused(addr, fmt.Errorf("%s: %w", res.ErrorMessage, kafkago.SASLAuthenticationFailed))
			}
			return 0, d.refused(addr, kafkago.Error(res.ErrorCode))
		}
		lifetime = time.Duration(res.SessionLifetimeMs) * time.Millisecond
		if done, state, err = session.Next(ctx, res.AuthBytes); err != nil {
			return 0, d.refused(addr, err)
		}
	}
	return lifetime, nil
}
