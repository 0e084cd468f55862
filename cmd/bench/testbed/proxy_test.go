package testbed

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"
)

// echo listens and sends back what it gets.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				io.CopyN(c, c, 1<<20)
			}()
		}
	}()
	return l.Addr().String()
}

func proxyOf(t *testing.T, link Link) *Proxy {
	t.Helper()
	p, err := NewProxy("127.0.0.1:0", echo(t), link)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func dial(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err == nil {
		err = c.SetDeadline(time.Now().Add(time.Minute))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestProxyDelay: bytes arrive whole and in order, no sooner than after a round trip, and requests in flight do not wait for
// each other. Bytes that are on their way when a side closes arrive, too.
func TestProxyDelay(t *testing.T) {
	const trip = 100 * time.Millisecond
	c := dial(t, proxyOf(t, Link{Delay: trip / 2}))
	sent := make([]byte, 1<<20)
	for i := range sent {
		sent[i] = byte(i * i >> 7)
	}
	began := time.Now()
	go func() {
		for at := 0; at < len(sent); at += 1 << 10 { // a thousand requests: with a wait for each answer 100 s
			if _, err := c.Write(sent[at : at+1<<10]); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	got, err := io.ReadAll(c)
	if err != nil || !bytes.Equal(got, sent) {
		t.Fatalf("%d bytes of %d, %v", len(got), len(sent), err)
	}
	if took := time.Since(began); took < trip || took > 50*time.Second {
		t.Errorf("%v for requests with a round trip of %v", took, trip)
	}
}

// TestProxyFaults: a proxy holds requests or answers back, loses an answer, limits the rate, breaks and refuses connections.
func TestProxyFaults(t *testing.T) {
	p := proxyOf(t, Link{})
	answered := func(c net.Conn) bool {
		_, _ = c.Write([]byte("x")) // the read says whether it failed
		n, _ := c.Read(make([]byte, 1))
		return n == 1
	}
	c := dial(t, p)
	if !answered(c) {
		t.Error("nothing passes")
	}
	p.LoseReply()
	if answered(c) {
		t.Error("an answer came that was to be lost")
	}
	if c = dial(t, p); !answered(c) {
		t.Error("a second answer was lost")
	}
	for _, held := range []Link{{HoldAnswers: true}, {HoldRequests: true}} {
		p.Set(held)
		cut := time.AfterFunc(200*time.Millisecond, p.Cut)
		if answered(c) {
			t.Errorf("an answer came through %+v", held)
		}
		cut.Stop()
		c = dial(t, p)
		time.AfterFunc(200*time.Millisecond, func() { p.Set(Link{}) })
		began := time.Now()
		if !answered(c) || time.Since(began) < 150*time.Millisecond {
			t.Errorf("no answer after %+v, or one at once", held)
		}
	}
	p.Set(Link{Rate: 10_000})
	began := time.Now()
	_, _ = c.Write(make([]byte, 2000))
	if _, err := io.ReadFull(c, make([]byte, 2000)); err != nil || time.Since(began) < 350*time.Millisecond {
		t.Errorf("2,000 bytes there and back in %v at 10,000 a second: %v", time.Since(began), err)
	}
	p.Set(Link{Refuse: true})
	if answered(c) || answered(dial(t, p)) {
		t.Error("a connection is there though it is refused")
	}
	p.Set(Link{})
	if !answered(dial(t, p)) {
		t.Error("nothing passes again")
	}
}
