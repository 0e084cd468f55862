package config

import (
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"time"

	"odradek/processor"
	"odradek/processor/kafka"
)

// KafkaConfig returns the configuration of the Kafka client. It fails on an
// unreadable certificate file or an unknown SASL mechanism, which Parse reports as faults.
func (c *Config) KafkaConfig() (kafka.Config, error) {
	s := &c.Kafka
	cfg := kafka.Config{Brokers: s.Brokers, ClientID: s.ClientID}
	if s.TLS {
		t, err := kafka.NewTLS(s.tlsConfig())
		if err != nil {
			return cfg, err
		}
		cfg.TLS = t
	}
	m, err := kafka.NewSASL(s.SASLMechanism, s.Username, s.Password.Reveal())
	if err != nil {
		return cfg, err
	}
	cfg.SASL = m
	return cfg, nil
}

// FetchConfig returns how the input is fetched: committed records, 8 MiB a response unless one partition may have more.
func (c *Config) FetchConfig() kafka.FetchConfig {
	part := int(c.Fetch.PartitionBytes)
	return kafka.FetchConfig{ReadCommitted: true, MaxBytes: max(8<<20, part), PartitionBytes: part}
}

// Heartbeat returns the time between heartbeats: 3 s with the default session, so that many may be lost in a session, and a
// rebalance is noticed soon in a long one.
func (c *Config) Heartbeat() time.Duration { return min(3*time.Second, c.Group.SessionTimeout/15) }

// StallLimit returns how long a partition with input may commit nothing before the worker counts as hanging: longer than any
// transaction, which the brokers end.
func (c *Config) StallLimit() time.Duration { return max(time.Minute, 2*c.Cycle.TransactionTimeout) }

// StartAt returns where a partition without a committed offset begins: a Kafka timestamp in
// milliseconds, or one of the processor's special values.
func (c *Config) StartAt() (int64, error) {
	switch c.Group.Start {
	case "earliest":
		return processor.StartEarliest, nil
	case "latest":
		return processor.StartLatest, nil
	}
	t, err := time.Parse(time.RFC3339Nano, c.Group.Start)
	if err != nil {
		return 0, fmt.Errorf("%sSTART: %w", Prefix, err)
	}
	return t.UnixMilli(), nil
}

func (s *kafkaSettings) tlsConfig() kafka.TLSConfig {
	return kafka.TLSConfig{CA: s.TLSCAFile, Cert: s.TLSCertFile, Key: s.TLSKeyFile, ServerName: s.TLSServerName, Insecure: s.TLSInsecure}
}

// tlsFaults reads the files one by one, so that each names its own setting.
func (s *kafkaSettings) tlsFaults() (faults []Fault) {
	if s.TLSCAFile != "" {
		if _, err := certPool(s.TLSCAFile); err != nil {
			faults = append(faults, Fault{Name: Prefix + "KAFKA_TLS_CA_FILE", Problem: err.Error()})
		}
	}
	if s.TLSCertFile == "" || s.TLSKeyFile == "" {
		return faults
	}
	for _, f := range [][2]string{{"KAFKA_TLS_CERT_FILE", s.TLSCertFile}, {"KAFKA_TLS_KEY_FILE", s.TLSKeyFile}} {
		if _, err := os.ReadFile(f[1]); err != nil {
			return append(faults, Fault{Name: Prefix + f[0], Problem: err.Error(), Fix: "name a file that the worker may read"})
		}
	}
	if _, err := kafka.NewTLS(kafka.TLSConfig{Cert: s.TLSCertFile, Key: s.TLSKeyFile}); err != nil {
		msg := err.Error()
		if i := strings.Index(msg, "tls: "); i >= 0 {
			msg = msg[i:]
		}
		faults = append(faults, Fault{Name: Prefix + "KAFKA_TLS_CERT_FILE", Problem: s.TLSCertFile + " and " + s.TLSKeyFile + ": " + msg})
	}
	return faults
}

func certPool(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no PEM certificate", file)
	}
	return pool, nil
}
