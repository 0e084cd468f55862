package kafka

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"
	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
	"github.com/segmentio/kafka-go/protocol/saslhandshake"

	"odradek/detectors/seedtest"
	"odradek/processor/kafka/internal/brokertest"
)

// loginServer is the broker's side of SASL PLAIN, with sessions that a test ends.
// A request outside of a session ends the connection, as a broker does; any other
// is answered with its own body.
type loginServer struct {
	net.Listener
	lifetime atomic.Int64 // of a session, in milliseconds, as told to the client
	refuse   atomic.Bool  // the next logins
	cut      atomic.Bool  // the connection at the next login

	mu       sync.Mutex
	logins   int
	expired  bool
	requests [][]byte
}

func newLoginServer(t *testing.T) *loginServer {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	brokertest.Must(t, err)
	s := &loginServer{Listener: l}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go s.serve(nc)
		}
	}()
	return s
}

func (s *loginServer) serve(nc net.Conn) {
	defer nc.Close()
	authenticating := true
	for {
		var size [4]byte
		if _, err := io.ReadFull(nc, size[:]); err != nil {
			return
		}
		frame := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(nc, frame); err != nil {
			return
		}
		key, version := protocol.ApiKey(binary.BigEndian.Uint16(frame)), int16(binary.BigEndian.Uint16(frame[2:]))
		correlation := int32(binary.BigEndian.Uint32(frame[4:]))
		var res protocol.Message
		switch key {
		case protocol.ApiVersions:
			res = &apiversions.Response{ApiKeys: []apiversions.ApiKeyResponse{
				{ApiKey: int16(protocol.SaslHandshake), MaxVersion: 1}, {ApiKey: int16(protocol.SaslAuthenticate), MaxVersion: 2}}}
		case protocol.SaslHandshake:
			if s.cut.Load() {
				return
			}
			authenticating = true
			res = &saslhandshake.Response{Mechanisms: []string{"PLAIN"}}
		case protocol.SaslAuthenticate:
			if !authenticating {
				return
			}
			r := &saslauthenticate.Response{SessionLifetimeMs: s.lifetime.Load()}
			if s.refuse.Load() {
				r = &saslauthenticate.Response{ErrorCode: int16(kafkago.SASLAuthenticationFailed), ErrorMessage: "no longer"}
			} else {
				s.mu.Lock()
				s.logins++
				s.expired = false
				s.mu.Unlock()
				authenticating = false
			}
			res = r
		default:
			s.mu.Lock()
			refused := s.expired || authenticating
			if !refused {
				s.requests = append(s.requests, frame)
			}
			s.mu.Unlock()
			if refused {
				return
			}
			nc.Write(append(size[:], frame...))
			continue
		}
		if err := protocol.WriteResponse(nc, version, correlation, res); err != nil {
			return
		}
	}
}

func (s *loginServer) expire() {
	s.mu.Lock()
	s.expired = true
	s.mu.Unlock()
}

func (s *loginServer) counts() (logins, requests int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logins, len(s.requests)
}

// login connects to the server with a dialer of its own.
func (s *loginServer) login(t *testing.T) *saslConn {
	d := newDialer(Config{ClientID: "test", SASL: mustSASL(t, "PLAIN", "u", "pw"), DialTimeout: 10 * time.Second})
	nc, err := d.connect(brokertest.Within(t), "tcp", s.Addr().String())
	brokertest.Must(t, err)
	t.Cleanup(func() { nc.Close() })
	brokertest.Must(t, nc.SetDeadline(time.Now().Add(10*time.Second)))
	return nc.(*saslConn)
}

// request returns a frame of n bytes that loginServer sends back.
func request(n int) []byte {
	b := make([]byte, 4+n)
	binary.BigEndian.PutUint32(b, uint32(n))
	binary.BigEndian.PutUint16(b[4:], uint16(protocol.Heartbeat))
	return b
}

// TestSessionRenewal: a session is renewed at the first byte of a request, when
// its time has come and nothing else is on the connection, however requests and
// responses are cut; no request meets its end.
func TestSessionRenewal(t *testing.T) {
	r := seedtest.New(t)
	s := newLoginServer(t)
	s.lifetime.Store(60_000)
	c := s.login(t)
	due := func() { c.renew = time.Now().Add(-time.Second) }
	logins := func(want int) {
		t.Helper()
		if got, _ := s.counts(); got != want {
			t.Fatalf("%d logins, want %d", got, want)
		}
	}
	logins(1)
	for i := range 50 {
		s.expire()
		due()
		req := request(8 + r.IntN(20000))
		for b := req; len(b) > 0; {
			n := min(1+r.IntN(len(b)), len(b))
			if _, err := c.Write(b[:n]); err != nil {
				t.Fatal(err)
			}
			b = b[n:]
			due() // within a request: not yet
		}
		got := make([]byte, len(req))
		half := r.IntN(len(req))
		if _, err := io.ReadFull(c, got[:half]); err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		logins(i + 2)
		if _, err := io.ReadFull(c, got[half:]); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, req) {
			t.Fatal("another response")
		}
	}

	// A response that is not read to its end is in the way of the exchange.
	c.renew = time.Time{}
	_, err := c.Write(request(100))
	brokertest.Must(t, err)
	_, err = io.ReadFull(c, make([]byte, 50))
	brokertest.Must(t, err)
	due()
	_, err = c.Write(request(100))
	brokertest.Must(t, err)
	_, err = io.ReadFull(c, make([]byte, 54+104))
	brokertest.Must(t, err)
	logins(51)
	_, err = c.Write(request(100))
	brokertest.Must(t, err)
	_, err = io.ReadFull(c, make([]byte, 104))
	brokertest.Must(t, err)
	logins(52)
}

// TestSessionTime: when a session is renewed by what the broker says of its end.
func TestSessionTime(t *testing.T) {
	s := newLoginServer(t)
	for _, tc := range []struct{ lifetime, from, to time.Duration }{
		{10 * time.Second, 7 * time.Second, 8500 * time.Millisecond},
		{time.Hour, 42 * time.Minute, 51 * time.Minute},
		{time.Second, minReauthentication, minReauthentication},
	} {
		s.lifetime.Store(tc.lifetime.Milliseconds())
		before := time.Now()
		c := s.login(t)
		if from, to := time.Until(c.renew), c.renew.Sub(before); to < tc.from || from > tc.to {
			t.Errorf("session of %v: renewed after %v to %v", tc.lifetime, from, to)
		}
	}
	s.lifetime.Store(0)
	if c := s.login(t); !c.renew.IsZero() {
		t.Errorf("a session without end is renewed at %v", c.renew)
	}
}

// TestSessionRefused: a request is not sent where the session cannot be renewed,
// and the error says so by its class.
func TestSessionRefused(t *testing.T) {
	s := newLoginServer(t)
	s.lifetime.Store(60_000)
	fail := func(c *saslConn) error {
		t.Helper()
		c.renew = time.Now().Add(-time.Second)
		n, err := c.Write(request(10))
		if _, requests := s.counts(); n != 0 || err == nil || requests != 0 {
			t.Fatalf("%d bytes written, %d requests arrived: %v", n, requests, err)
		}
		t.Log(err)
		return &BrokerError{Err: err}
	}
	c := s.login(t)
	s.refuse.Store(true)
	if err := fail(c); ClassOf(err) != Fatal || !errors.Is(err, kafkago.SASLAuthenticationFailed) ||
		!strings.Contains(err.Error(), settingSASLPass) {
		t.Errorf("%v: %v", ClassOf(err), err)
	}
	s.refuse.Store(false)
	c = s.login(t)
	s.cut.Store(true)
	if err := fail(c); ClassOf(err) != Retriable {
		t.Errorf("%v: %v", ClassOf(err), err)
	}
}
