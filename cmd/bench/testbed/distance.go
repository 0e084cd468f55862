package testbed

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"odradek/processor/kafkatest"
)

// errNoDistance says why a broker cannot be made distant.
var errNoDistance = &kafkatest.MissingError{
	What: "a distant broker",
	Err:  errors.New("only a Kafka that this program starts has a listener for it"),
}

// distant are the addresses of the broker's second listener: the broker listens at one and advertises the other, where a
// proxy listens, so that a client of the proxy never learns an address without delay.
type distant struct{ listen, advertised string }

// config adds the second listener to the configuration of a broker; see kafkatest.Options.
func (d *distant) config(to map[string]string) error {
	ports, err := kafkatest.FreePorts(2)
	if err != nil {
		return err
	}
	d.listen, d.advertised = "127.0.0.1:"+strconv.Itoa(ports[0]), "127.0.0.1:"+strconv.Itoa(ports[1])
	const own = "PLAINTEXT://127.0.0.1:{port0}"
	to["listeners"] = own + ",CONTROLLER://127.0.0.1:{port1},DISTANT://" + d.listen
	to["advertised.listeners"] = own + ",DISTANT://" + d.advertised
	to["listener.security.protocol.map"] = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,DISTANT:PLAINTEXT"
	return nil
}

// Distant returns the address of a proxy of the broker that a request and its answer need the round trip to pass.
func (b *Bed) Distant(trip time.Duration) (address string, stop func(), err error) {
	if b.distant.listen == "" {
		return "", nil, errNoDistance
	}
	p, err := startProxy(b.distant.advertised, b.distant.listen, trip/2)
	if err != nil {
		return "", nil, err
	}
	return b.distant.advertised, p.close, nil
}

// proxy passes the bytes of TCP connections on, each after the same time, at any rate.
type proxy struct {
	listener net.Listener
	to       string
	delay    time.Duration // each way
	ctx      context.Context
	cancel   context.CancelFunc
	wg       sync.WaitGroup
}

func startProxy(at, to string, delay time.Duration) (*proxy, error) {
	l, err := net.Listen("tcp", at)
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: l, to: to, delay: delay}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.wg.Go(p.accept)
	return p, nil
}

// close ends all connections.
func (p *proxy) close() {
	p.cancel()
	p.listener.Close()
	p.wg.Wait()
}

func (p *proxy) accept() {
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
		ctx, cancel := context.WithCancel(p.ctx)
		p.wg.Go(func() { p.pass(ctx, cancel, broker, client) })
		p.wg.Go(func() { p.pass(ctx, cancel, client, broker) })
		p.wg.Go(func() {
			<-ctx.Done()
			client.Close()
			broker.Close()
		})
	}
}

// inFlight bounds the parts that are on their way in one direction of a connection: 256 MiB.
const inFlight = 4096

// part is what one read returned, and when it is to arrive.
type part struct {
	bytes []byte
	due   time.Time
}

// pass passes bytes on until the connection ends, and then ends the other direction, too.
func (p *proxy) pass(ctx context.Context, cancel context.CancelFunc, to io.Writer, from io.Reader) {
	parts := make(chan part, inFlight)
	p.wg.Go(func() {
		for x := range parts {
			if Pause(ctx, time.Until(x.due)) != nil {
				break
			}
			if _, err := to.Write(x.bytes); err != nil {
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
			parts <- part{buf[:n], time.Now().Add(p.delay)}
		}
		if err != nil {
			return
		}
	}
}
