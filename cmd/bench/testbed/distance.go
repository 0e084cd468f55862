package testbed

import (
	"errors"
	"strconv"
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
	p, err := NewProxy(b.distant.advertised, b.distant.listen, Link{Delay: trip / 2})
	if err != nil {
		return "", nil, err
	}
	return b.distant.advertised, p.Close, nil
}
