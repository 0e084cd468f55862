package kafkatest

import (
	"crypto/tls"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/sr/srfake"
)

// FakeOptions says what kfake cluster to start; the zero value is three
// brokers in memory, plaintext, with a registry.
type FakeOptions struct {
	Brokers int // default 3
	// Dir keeps the log on disk: memory stays flat, and Restart keeps the data.
	Dir string
	// TLS and SASL apply to the only kind of listener that a kfake has: with one
	// of them set Cluster.Brokers speaks that, and nothing speaks plaintext.
	TLS, SASL  bool
	AutoCreate bool // the first record of a topic creates it
	NoRegistry bool
	Registry   []srfake.Option   // of the registry: authentication, compatibility
	Config     map[string]string // broker configuration over the defaults here
	Opts       []kfake.Opt       // anything else: MaxVersions, EnableACLs, ...
}

// StartFake starts a kfake cluster in this process, and beside it a schema
// registry (srfake). Topics are not created on demand. Groups accept sessions
// from 100 ms. It stands in for Kafka where one process must hold everything;
// what it does otherwise than Kafka: an offset fetch of an unknown group answers
// GROUP_ID_NOT_FOUND, each join restarts the rebalance timer, a transaction
// ends at once (CONCURRENT_TRANSACTIONS is never seen), and EndTxn 5 that aborts, from a producer that another has fenced, is answered
// with the other's epoch. Its cleaner lets a record
// of an open transaction replace a committed one, which is gone when that
// transaction aborts: so it comes around once an hour, and a test that is about
// compaction calls Cluster.Fake.Compact while no transaction is open. Real Kafka's
// cleaner runs in all tests.
func StartFake(o FakeOptions) (*Cluster, error) {
	began := time.Now()
	if o.Brokers == 0 {
		o.Brokers = 3
	}
	c := &Cluster{Kind: KindFake, Version: KindFake, Dir: o.Dir}
	config := map[string]string{
		"log.retention.ms":           "604800000", // as on the real nodes
		"transaction.max.timeout.ms": "900000",
		// What the broker says of the limits below.
		"group.min.session.timeout.ms": "100",
		"group.max.session.timeout.ms": "1800000",
		// Of the consumer protocol, whose members do not choose; as on the real nodes.
		"group.consumer.session.timeout.ms":    "6000",
		"group.consumer.heartbeat.interval.ms": "200",
	}
	for k, v := range o.Config {
		config[k] = v
	}
	opts := []kfake.Opt{
		kfake.NumBrokers(o.Brokers),
		kfake.ClusterID("odradek-test"),
		kfake.GroupMinSessionTimeout(100 * time.Millisecond),
		kfake.GroupMaxSessionTimeout(30 * time.Minute),
		kfake.DefaultNumPartitions(1),
		kfake.BrokerConfigs(config),
	}
	if o.Dir != "" {
		opts = append(opts, kfake.DataDir(filepath.Join(o.Dir, "kfake")))
	}
	if o.TLS || o.SASL {
		dir := o.Dir
		if dir == "" {
			var err error
			if dir, err = tempDir("kfake"); err != nil {
				return nil, err
			}
			c.Dir, c.removeDir = dir, true
		}
		s, server, err := newSecurity(dir)
		if err != nil {
			return nil, err
		}
		opts = append(opts, kfake.TLS(&tls.Config{
			Certificates: []tls.Certificate{server},
			ClientAuth:   tls.VerifyClientCertIfGiven,
			ClientCAs:    s.pool(),
			MinVersion:   tls.VersionTLS12,
		}))
		if o.SASL {
			opts = append(opts, kfake.EnableSASL())
			for _, u := range s.Users {
				opts = append(opts, kfake.Superuser(u.Mechanism, u.Name, u.Password))
			}
		} else {
			s.Users = nil
		}
		c.Security = s
	}
	if o.AutoCreate {
		opts = append(opts, kfake.AllowAutoTopicCreation())
	}
	opts = append(opts, o.Opts...)
	// Ports are given, not asked for, so that Restart has the same ones. Another process may
	// take one between the search and the start.
	var ports []int
	start := func() error {
		f, err := kfake.NewCluster(append(slices.Clone(opts), kfake.Ports(ports...))...)
		if err != nil {
			return fmt.Errorf("kafkatest: kfake: %w", err)
		}
		c.Fake = f
		return nil
	}
	for try := 1; ; try++ {
		var err error
		if ports, err = FreePorts(o.Brokers); err == nil {
			err = start()
		}
		if err == nil {
			break
		}
		if try == 3 || !errors.Is(err, syscall.EADDRINUSE) {
			c.Close()
			return nil, err
		}
	}
	for _, p := range ports {
		c.Brokers = append(c.Brokers, "127.0.0.1:"+strconv.Itoa(p))
	}
	if o.Dir != "" {
		c.restart = func() error { c.Fake.Close(); return start() }
	}
	if c.Security != nil {
		if o.SASL {
			c.Security.SASLBrokers = c.Brokers
		} else {
			c.Security.TLSBrokers = c.Brokers
		}
	}
	if !o.NoRegistry {
		r, err := StartFakeRegistry(o.Registry...)
		if err != nil {
			c.Close()
			return nil, err
		}
		c.RegistryServer, c.Registry = r, r.URL
	}
	c.Took = time.Since(began)
	return c, nil
}
