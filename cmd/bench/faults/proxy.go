package faults

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"sync"
	"time"
)

// mode is what a proxy does.
type mode uint8

const (
	passing  mode = iota // bytes both ways, after a delay
	refusing             // no connection
	silent               // the node's answers do not arrive
)

// proxy stands before one node.
type proxy struct {
	to       string
	listener net.Listener

	mu    sync.Mutex
	mode  mode
	delay time.Duration // of each part, both ways
	lose  bool          // the next answer
	conns map[net.Conn]struct{}
}

var proxied = regexp.MustCompile(`(?m)^(advertised\.)?listeners=.*PROXIED://([^,\s]+)`)

// newProxy returns the proxy of the node whose configuration is in the file: it listens where the node says to clients
// that it listens.
func newProxy(properties string) (*proxy, error) {
	text, err := os.ReadFile(properties)
	if err != nil {
		return nil, fmt.Errorf("faults: proxy: %w", err)
	}
	p := &proxy{conns: map[net.Conn]struct{}{}}
	var at string
	for _, m := range proxied.FindAllSubmatch(text, -1) {
		if len(m[1]) > 0 {
			at = string(m[2])
		} else {
			p.to = string(m[2])
		}
	}
	if p.listener, err = net.Listen("tcp", at); err != nil {
		return nil, fmt.Errorf("faults: proxy: %w", err)
	}
	go p.accept()
	return p, nil
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

// set changes the mode; refusing breaks the connections that there are.
func (p *proxy) set(m mode, delay time.Duration) {
	p.mu.Lock()
	p.mode, p.delay = m, delay
	p.mu.Unlock()
	if m == refusing {
		p.cut()
	}
}

// cut breaks all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
	clear(p.conns)
}

// loseReply has the next answer of the node lost, and its connection broken.
func (p *proxy) loseReply() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose = true
}

func (p *proxy) close() {
	p.listener.Close()
	p.cut()
}

// add takes up a connection unless none is allowed now.
func (p *proxy) add(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.mode == refusing {
			c.Close()
			continue
		}
		p.conns[c] = struct{}{}
	}
	return p.mode != refusing
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		go func() {
			node, err := new(net.Dialer).DialContext(context.Background(), "tcp", p.to)
			if err != nil {
				client.Close()
				return
			}
			if p.add(client, node) {
				go p.pass(node, client, false)
				go p.pass(client, node, true)
			}
		}()
	}
}

// pass passes on what arrives, in order, until one side closes; both are closed then. Each part waits the delay, and parts
// wait for the part before: the rate falls with the delay, as on a link with small windows.
func (p *proxy) pass(to io.WriteCloser, from io.ReadCloser, answer bool) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			p.mu.Lock()
			delay, lost := p.delay, answer && p.lose
			if lost {
				p.lose = false
			}
			for answer && p.mode == silent { // until the connection is cut, or the mode ends
				p.mu.Unlock()
				time.Sleep(10 * time.Millisecond)
				p.mu.Lock()
			}
			p.mu.Unlock()
			if lost {
				return
			}
			time.Sleep(delay)
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
