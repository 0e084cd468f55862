package kafka

import (
	"testing"

	"github.com/segmentio/kafka-go/sasl"

	"odradek/processor/kafka/internal/brokertest"
)

// This file opens the client for the tests of the packages that use it.

// OpenForTest returns a client that is closed with the test.
func OpenForTest(t testing.TB, brokers []string) *Client {
	t.Helper()
	c, err := Open(brokertest.Within(t), Config{Brokers: brokers})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// ProducerForTest returns an initialised producer; "" makes one without transactions.
func ProducerForTest(t testing.TB, c *Client, id string) *Producer {
	t.Helper()
	p := c.NewProducer(ProducerConfig{TransactionalID: id})
	if err := p.Init(brokertest.Within(t)); err != nil {
		t.Fatal(err)
	}
	return p
}

// TLSForTest returns what kafka.NewTLS makes of files that are right.
func TLSForTest(t testing.TB, cfg TLSConfig) *TLS {
	t.Helper()
	out, err := NewTLS(cfg)
	brokertest.Must(t, err)
	return out
}

// SASLForTest returns a mechanism with credentials that can be used.
func SASLForTest(t testing.TB, mechanism, user, password string) sasl.Mechanism {
	t.Helper()
	m, err := NewSASL(mechanism, user, password)
	brokertest.Must(t, err)
	return m
}
