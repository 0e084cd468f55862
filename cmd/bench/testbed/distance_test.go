package testbed

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"
)

// TestProxy: bytes arrive whole and in order, no sooner than after a round trip, and requests in flight do not wait for
// each other. Bytes that are on their way when a side closes arrive, too.
func TestProxy(t *testing.T) {
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	go func() {
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				io.CopyN(c, c, 1<<20)
			}()
		}
	}()
	const trip = 100 * time.Millisecond
	p, err := startProxy("127.0.0.1:0", echo.Addr().String(), trip/2)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	c, err := net.Dial("tcp", p.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
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
