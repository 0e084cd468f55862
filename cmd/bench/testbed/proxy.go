package testbed

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Link is what a Proxy does with the bytes of its connections.
type Link struct {
	Delay        time.Duration // of each part, each way; parts do not wait for each other
	Rate         int           // bytes a second, each way of each connection; 0: any
	Refuse       bool          // no connection
	HoldRequests bool          // the broker gets nothing until the link is another one, or never if the connection ends before
	HoldAnswers  bool          // the client gets nothing
}

// Proxy passes the bytes of TCP connections to a broker on.
type Proxy struct {
	listener net.Listener
	to       string
	ctx      context.Context
	cancel   context.CancelFunc
	wg       sync.WaitGroup

	mu    sync.Mutex
	link  Link
	lose  bool // the next answer
	conns map[net.Conn]struct{}
}

// NewProxy returns a proxy that listens at an address and passes everything on to another.
func NewProxy(at, to string, link Link) (*Proxy, error) {
	l, err := net.Listen("tcp", at)
	if err != nil {
		return nil, fmt.Errorf("testbed: proxy: %w", err)
	}
	p := &Proxy{listener: l, to: to, link: link, conns: map[net.Conn]struct{}{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.wg.Go(p.accept)
	return p, nil
}

// Addr returns the address at which the proxy listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Set changes the link; one that refuses connections breaks those that there are.
func (p *Proxy) Set(link Link) {
	p.mu.Lock()
	p.link = link
	p.mu.Unlock()
	if link.Refuse {
		p.Cut()
	}
}

// Cut breaks all connections, and what is on its way is lost.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

// LoseReply makes the broker's next answer be lost, and its connection break.
func (p *Proxy) LoseReply() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose = true
}

// Close ends the proxy and all connections.
func (p *Proxy) Close() {
	p.cancel()
	p.listener.Close()
	p.wg.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		broker, err := new(net.Dialer).DialContext(p.ctx, "tcp", p.to)
		if err != nil {
			client.Close()
			continue
		}
		if !p.add(client, broker) {
			continue
		}
		ctx, cancel := context.WithCancel(p.ctx)
		p.wg.Go(func() { p.pass(ctx, cancel, broker, client, false) })
		p.wg.Go(func() { p.pass(ctx, cancel, client, broker, true) })
		p.wg.Go(func() {
			<-ctx.Done()
			p.mu.Lock()
			defer p.mu.Unlock()
			for _, c := range []net.Conn{client, broker} {
				c.Close()
				delete(p.conns, c)
			}
		})
	}
}

// add takes a connection up, unless none is allowed now.
func (p *Proxy) add(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.link.Refuse {
			c.Close()
			continue
		}
		p.conns[c] = struct{}{}
	}
	return !p.link.Refuse
}

// inFlight bounds the parts that are on their way in one direction of a connection: 256 MiB.
const inFlight = 4096

// part is what one read returned, and when it is to arrive.
type part struct {
	bytes []byte
	due   time.Time
}

// pass passes bytes on, in order, until the connection ends, and then ends the other direction, too.
func (p *Proxy) pass(ctx context.Context, cancel context.CancelFunc, to io.Writer, from io.Reader, answers bool) {
	parts := make(chan part, inFlight)
	p.wg.Go(func() {
		for x := range parts {
			if !p.arrive(ctx, to, x, answers) {
				break
			}
		}
		cancel()
		for range parts { // the reader may be waiting for room
		}
	})
	defer close(parts)
	for {
		buf := make([]byte, 64<<10)
		n, err := from.Read(buf)
		if n > 0 {
			p.mu.Lock()
			delay := p.link.Delay
			p.mu.Unlock()
			parts <- part{buf[:n], time.Now().Add(delay)}
		}
		if err != nil {
			return
		}
	}
}

// arrive delivers a part when it is due. It reports false where the connection is to end.
func (p *Proxy) arrive(ctx context.Context, to io.Writer, x part, answers bool) bool {
	if Pause(ctx, time.Until(x.due)) != nil {
		return false
	}
	for {
		p.mu.Lock()
		link, lost := p.link, answers && p.lose
		if lost {
			p.lose = false
		}
		p.mu.Unlock()
		if lost {
			return false
		}
		if answers && link.HoldAnswers || !answers && link.HoldRequests {
			if Pause(ctx, 10*time.Millisecond) != nil {
				return false
			}
			continue
		}
		if link.Rate > 0 && Pause(ctx, time.Duration(float64(len(x.bytes))/float64(link.Rate)*float64(time.Second))) != nil {
			return false
		}
		_, err := to.Write(x.bytes)
		return err == nil
	}
}
