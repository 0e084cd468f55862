package config

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"odradek/cmd/internal/credentials"
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
	switch s.SASLMechanism {
	case awsMSK:
		cfg.SASL = credentials.NewAWS(s.AWSRegion).Login()
	case oauthBearer:
		o, err := s.OAuth.source("kafka_oauth")
		if err != nil {
			return cfg, err
		}
		if s.OAuthToken.Reveal() != "" {
			o.Token = s.OAuthToken.Current
		}
		o.Values = map[string]string{}
		for _, e := range s.Extensions {
			name, value, _ := strings.Cut(e, "=")
			o.Values[name] = value
		}
		cfg.SASL = credentials.NewTokens(o).Login()
	default:
		m, err := kafka.FollowPassword(s.SASLMechanism, s.Username, s.Password.Current)
		if err != nil {
			return cfg, err
		}
		cfg.SASL = m
	}
	return cfg, nil
}

// The mechanisms of SASL without a user name.
const (
	oauthBearer = "OAUTHBEARER"
	awsMSK      = "AWS_MSK_IAM"
)

// source returns where tokens come from; settings is what the names of the settings begin with.
func (s *oauthSettings) source(settings string) (credentials.OAuth, error) {
	o := credentials.OAuth{Settings: settings, TokenURL: s.TokenURL, ClientID: s.ClientID, Secret: s.Secret.Current, Scope: s.Scope,
		Audience: s.Audience}
	if s.CAFile != "" {
		t, err := kafka.NewTLS(kafka.TLSConfig{Settings: settings, CA: s.CAFile})
		if err != nil {
			return o, err
		}
		o.Client = &http.Client{Transport: credentials.Transport(t)}
	}
	return o, nil
}

// oauth checks the settings of a source of tokens; prefix is what their names begin with after ODRADEK_. wanted says that tokens
// have to come from there.
func (ch *checker) oauth(s *oauthSettings, prefix string, wanted bool) {
	secret := s.Secret.Reveal()
	if *s == (oauthSettings{}) && !wanted {
		return
	}
	if s.TokenURL == "" {
		ch.add(prefix+"TOKEN_URL", "not set", "set the token endpoint, as https://login.example.com/oauth2/token")
	} else if p, err := url.Parse(s.TokenURL); err != nil || p.Host == "" || p.Scheme != "http" && p.Scheme != "https" || p.User != nil {
		ch.add(prefix+"TOKEN_URL", "not an http or https URL without a user", "write it like https://login.example.com/oauth2/token")
	}
	if s.ClientID == "" {
		ch.add(prefix+"CLIENT_ID", "not set, but tokens come from "+Prefix+prefix+"TOKEN_URL", "set the client id")
	}
	if secret == "" {
		ch.add(prefix+"CLIENT_SECRET", "not set, but tokens come from "+Prefix+prefix+"TOKEN_URL",
			"set it or "+Prefix+prefix+"CLIENT_SECRET_FILE")
	}
	if s.CAFile != "" {
		if err := caFault(s.CAFile); err != nil {
			ch.add(prefix+"CA_FILE", err.Error(), "name a file of certificates that the worker may read")
		}
	}
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
		if err := caFault(s.TLSCAFile); err != nil {
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

// caFault returns why a file holds no certificate authorities; nil where it does.
func caFault(file string) error {
	pem, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if !x509.NewCertPool().AppendCertsFromPEM(pem) {
		return fmt.Errorf("%s holds no PEM certificate", file)
	}
	return nil
}
