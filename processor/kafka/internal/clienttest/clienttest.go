// Package clienttest opens the client for the tests of the packages that use it.
package clienttest

import (
	"crypto/tls"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/sasl"

	"odradek/processor/kafka"
	"odradek/processor/kafka/internal/brokertest"
)

// Open returns a client that is closed with the test.
func Open(t testing.TB, brokers []string) *kafka.Client {
	t.Helper()
	c, err := kafka.Open(brokertest.Within(t, 20*time.Second), kafka.Config{Brokers: brokers})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// Producer returns an initialised producer; "" makes one without transactions.
func Producer(t testing.TB, c *kafka.Client, id string) *kafka.Producer {
	t.Helper()
	p := c.NewProducer(kafka.ProducerConfig{TransactionalID: id})
	if err := p.Init(brokertest.Within(t, 60*time.Second)); err != nil {
		t.Fatal(err)
	}
	return p
}

// TLS returns what kafka.NewTLS makes of files that are right.
func TLS(t testing.TB, cfg kafka.TLSConfig) *tls.Config {
	t.Helper()
	out, err := kafka.NewTLS(cfg)
	brokertest.Must(t, err)
	return out
}

// SASL returns a mechanism with credentials that can be used.
func SASL(t testing.TB, mechanism, user, password string) sasl.Mechanism {
	t.Helper()
	m, err := kafka.NewSASL(mechanism, user, password)
	brokertest.Must(t, err)
	return m
}
