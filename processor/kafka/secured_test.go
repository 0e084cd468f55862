package kafka_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"odradek/processor/kafka"
	"odradek/processor/kafka/internal/brokertest"
	"odradek/processor/kafka/record"
	"odradek/processor/kafkatest"
)

// TestSecureRoundTrip: TLS with SASL, each mechanism, all the way to a fetch.
func TestSecureRoundTrip(t *testing.T) {
	a := brokertest.NewAuthority(t)
	ca := brokertest.File(t, t.TempDir(), "ca.pem", a.PEM)
	fake := brokertest.Cluster(t, kfake.NumBrokers(2), kfake.SeedTopics(4, "in"), kfake.EnableSASL(),
		kfake.Superuser("PLAIN", "p", "pw"), kfake.Superuser("SCRAM-SHA-256", "s2", "pw"), kfake.Superuser("SCRAM-SHA-512", "s5", "pw"),
		kfake.TLS(&tls.Config{Certificates: []tls.Certificate{a.Server("127.0.0.1", "localhost")}}))
	writer := brokertest.Franz(t, fake.ListenAddrs(), kgo.DialTLSConfig(&tls.Config{RootCAs: a.Pool()}),
		kgo.SASL(plain.Auth{User: "p", Pass: "pw"}.AsMechanism()))
	for p := int32(0); p < 4; p++ {
		brokertest.Write(t, writer, "in", p, 0, 100)
	}
	for mechanism, user := range map[string]string{"PLAIN": "p", "scram-sha-256": "s2", "SCRAM_SHA_512": "s5"} {
		t.Run(mechanism, func(t *testing.T) {
			m, err := kafka.NewSASL(mechanism, user, "pw")
			if err != nil {
				t.Fatal(err)
			}
			c, err := kafka.Open(brokertest.Within(t), kafka.Config{Brokers: fake.ListenAddrs()[:1], TLS: kafka.TLSForTest(t,
				kafka.TLSConfig{CA: ca}), SASL: m})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			f := kafka.NewFetcher(c, kafka.FetchConfig{})
			defer f.Close()
			for p := int32(0); p < 4; p++ {
				n := 0
				err := f.ReadRange(brokertest.Within(t), brokertest.TP("in", p), 0, 100, func(*record.Record) (bool,
					error) {
					n++
					return true, nil
				})
				if err != nil || n != 100 {
					t.Fatalf("%d records of partition %d: %v", n, p, err)
				}
			}
		})
	}
}

// TestBrokersReauthentication: a group's member, a fetcher and a transactional
// producer work past the ends of their sessions on brokers that let a session last
// 3 s. Nothing fails, and no connection is lost.
func TestBrokersReauthentication(t *testing.T) {
	brokertest.Kinds(t, func(t *testing.T, k *kafkatest.Cluster) {
		t.Parallel() // with the other kinds: they share no broker
		if k.Security == nil || !k.Real() {
			t.Skip("kfake has no sessions that end")
		}
		ctx := brokertest.Within(t)
		tlsCfg := kafka.TLSForTest(t, kafka.TLSConfig{CA: k.Security.CAFile})
		var all sync.WaitGroup
		for _, mechanism := range kafkatest.Mechanisms {
			u := k.Security.User(mechanism)
			c, err := kafka.Open(ctx, kafka.Config{Brokers: k.Security.SASLBrokers, TLS: tlsCfg, SASL: kafka.SASLForTest(t, mechanism, u.Name,
				u.Password)})
			brokertest.Must(t, err)
			defer c.Close()
			in, out := k.Topic(t, "in", 3), k.Topic(t, "out", 3)
			all.Go(func() {
				if err := workPastSessions(ctx, t, c, in, out, 6*time.Second); err != nil {
					t.Errorf("%s: %v", mechanism, err)
				}
			})
		}
		all.Wait()
	})
}

func workPastSessions(ctx context.Context, t *testing.T, c *kafka.Client, in, out string, d time.Duration) error {
	name := kafkatest.Unique("g")
	m := kafka.JoinGroup(ctx, c, kafka.GroupConfig{Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Group: name, Topics: []string{in},
		SessionTimeout: 10 * time.Second, HeartbeatInterval: 200 * time.Millisecond})
	assigned := make(chan struct{}, 10)
	go func() {
		for e := range m.Events() {
			if e.Kind == kafka.Assigned {
				assigned <- struct{}{}
			}
			e.Done()
		}
	}()
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if err := m.Leave(ctx); err != nil {
			t.Error(err)
		}
	}()
	<-assigned
	f := kafka.NewFetcher(c, kafka.FetchConfig{ReadCommitted: true})
	defer f.Close()
	var read atomic.Int64
	for p := range int32(3) {
		s := f.Add(brokertest.TP(out, p), 0)
		go func() {
			var it record.Iterator
			for ch := range s.C() {
				if ch.Err != nil {
					t.Error(ch.Err)
					return
				}
				for it.Reset(&ch.Chunk); it.Next(); {
					read.Add(1)
				}
				ch.Release()
			}
		}()
	}
	p := c.NewProducer(kafka.ProducerConfig{TransactionalID: kafkatest.Unique("tx"), TransactionTimeout: 10 * time.Second,
		Timeout: 10 * time.Second})
	if err := p.Init(ctx); err != nil {
		return err
	}
	var before map[net.Conn]struct{}
	n := 0
	for end := time.Now().Add(time.Hour); time.Now().Before(end); n++ {
		set := map[record.TP]*record.Batches{}
		for q := range int32(3) {
			b := record.NewBatches(1<<20, record.CodecNone)
			if err := b.Append(1, nil, fmt.Append(nil, n), nil); err != nil {
				return err
			}
			set[brokertest.TP(out, q)] = b
		}
		if err := p.Send(ctx, set, m.Generation(), name, map[record.TP]kafka.Offset{brokertest.TP(in, 0): {Offset: int64(n + 1)}}); err != nil {
			return fmt.Errorf("transaction %d: %w", n, err)
		}
		if err := p.End(ctx, true); err != nil {
			return fmt.Errorf("end of transaction %d: %w", n, err)
		}
		if n == 1 {
			before, end = kafka.Connections(c), time.Now().Add(d)
		}
		time.Sleep(50 * time.Millisecond)
	}
	now := kafka.Connections(c)
	gone := 0
	for nc := range before {
		if _, ok := now[nc]; !ok {
			gone++
		}
	}
	if gone > 0 || len(before) == 0 {
		return fmt.Errorf("%d of %d connections were lost in %v", gone, len(before), d)
	}
	brokertest.Eventually(t, "everything is read", func() bool { return read.Load() == int64(3*n) })
	t.Logf("%d transactions, %d connections, %d at the end", n, len(before), len(now))
	return nil
}
