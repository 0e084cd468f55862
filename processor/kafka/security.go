package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
)

// The worker's settings that errors of this package point to.
const (
	settingBrokers  = "kafka_brokers"
	settingTLS      = "kafka_tls"
	settingTLSCA    = "kafka_tls_ca_file"
	settingTLSCert  = "kafka_tls_cert_file"
	settingTLSKey   = "kafka_tls_key_file"
	settingSASL     = "kafka_sasl_mechanism"
	settingSASLUser = "kafka_username"
	settingSASLPass = "kafka_password"
)

// NewSASL returns the mechanism for a user and a password: PLAIN, SCRAM-SHA-256
// or SCRAM-SHA-512, in any case; "" is none.
func NewSASL(mechanism, user, password string) (sasl.Mechanism, error) {
	name := strings.ToUpper(strings.ReplaceAll(mechanism, "_", "-"))
	if name == "" {
		return nil, nil
	}
	if user == "" {
		return nil, fmt.Errorf("kafka: SASL %s without a user name; set %s", name, settingSASLUser)
	}
	var m sasl.Mechanism
	var err error
	switch name {
	case "PLAIN":
		m = plain.Mechanism{Username: user, Password: password}
	case "SCRAM-SHA-256":
		m, err = scram.Mechanism(scram.SHA256, user, password)
	case "SCRAM-SHA-512":
		m, err = scram.Mechanism(scram.SHA512, user, password)
	default:
		return nil, fmt.Errorf("kafka: unknown SASL mechanism %q; %s takes PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512", mechanism, settingSASL)
	}
	if err != nil { // SASLprep refuses control characters and the like
		return nil, fmt.Errorf("kafka: SASL %s: user name or password has characters that SASL does not allow: %w; check %s and %s",
			name, err, settingSASLUser, settingSASLPass)
	}
	return m, nil
}

// TLSConfig names PEM files. All are optional: without CA the system's roots
// are used; Cert and Key, together, are the client's own (mTLS).
type TLSConfig struct {
	Settings      string // what the names of the settings begin with; "": kafka_tls
	CA, Cert, Key string
	ServerName    string // what the broker's certificate must be for; "" the host dialled
	Insecure      bool   // accept any certificate
}

// TLS makes the configurations of connections.
type TLS struct {
	config *tls.Config
	roots  *followed[x509.CertPool] // nil: the system's
}

// For returns the configuration of a connection to a host.
func (t *TLS) For(host string) (*tls.Config, error) {
	cfg := t.config.Clone()
	if cfg.ServerName == "" {
		cfg.ServerName = host
	}
	if t.roots == nil {
		return cfg, nil
	}
	var err error
	cfg.RootCAs, err = t.roots.get()
	return cfg, err
}

// Dial connects to an address whose certificate is to be for host, and does the handshake.
func (t *TLS) Dial(ctx context.Context, network, addr, host string) (net.Conn, error) {
	cfg, err := t.For(host)
	if err != nil {
		return nil, err
	}
	return (&tls.Dialer{Config: cfg}).DialContext(ctx, network, addr)
}

// NewTLS reads the files and returns what Config.TLS needs. The files are read again when they change, at the next
// handshake, so that a renewed certificate or authority needs no restart; while they cannot be read
// (half written), what was read last serves.
func NewTLS(cfg TLSConfig) (*TLS, error) {
	if cfg.Settings == "" {
		cfg.Settings = settingTLS
	}
	ca, cert, key := cfg.Settings+"_ca_file", cfg.Settings+"_cert_file", cfg.Settings+"_key_file"
	out := &TLS{config: &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         cfg.ServerName,
		InsecureSkipVerify: cfg.Insecure, //nolint:gosec // the user's explicit choice
	}}
	if cfg.CA != "" {
		out.roots = &followed[x509.CertPool]{files: []string{cfg.CA}, load: func() (*x509.CertPool, error) {
			pem, err := os.ReadFile(cfg.CA)
			if err != nil {
				return nil, fmt.Errorf("kafka: %s: %w", ca, err)
			}
			pool := x509.NewCertPool()
			if !pool.AppendCertsFromPEM(pem) {
				return nil, fmt.Errorf("kafka: %s: %s holds no PEM certificate", ca, cfg.CA)
			}
			return pool, nil
		}}
		if _, err := out.roots.get(); err != nil {
			return nil, err
		}
	}
	if (cfg.Cert == "") != (cfg.Key == "") {
		return nil, fmt.Errorf("kafka: %s and %s go together: one is set, the other is not", cert, key)
	}
	if cfg.Cert != "" {
		pair := &followed[tls.Certificate]{files: []string{cfg.Cert, cfg.Key}, load: func() (*tls.Certificate, error) {
			c, err := tls.LoadX509KeyPair(cfg.Cert, cfg.Key)
			if err != nil {
				return nil, fmt.Errorf("kafka: %s %s, %s %s: %w", cert, cfg.Cert, key, cfg.Key, err)
			}
			return &c, nil
		}}
		if _, err := pair.get(); err != nil {
			return nil, err
		}
		out.config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair.get() }
	}
	return out, nil
}

// followed is what was read from files, and is read again once they have changed.
type followed[T any] struct {
	files []string
	load  func() (*T, error)

	mu   sync.Mutex
	last *T
	mod  []time.Time // when the files had changed last
}

// get returns what the files hold, or held when they could be read last.
func (f *followed[T]) get() (*T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var mod []time.Time
	for _, name := range f.files {
		s, err := os.Stat(name)
		if err != nil {
			break // load says why
		}
		mod = append(mod, s.ModTime())
	}
	if f.last != nil && slices.EqualFunc(mod, f.mod, time.Time.Equal) {
		return f.last, nil
	}
	v, err := f.load()
	switch {
	case err == nil:
		f.last, f.mod = v, mod
	case f.last == nil:
		return nil, err
	}
	return f.last, nil
}

// dialError returns the error of a connection that failed, with the setting to check. Nothing was sent, also where the
// name of a stopped container is not known any more, so the request may be sent again.
func dialError(addr string, err error) error {
	var op *net.OpError
	var sys *os.SyscallError
	switch {
	case errors.As(err, &sys):
		err = sys.Err // "connection refused", not the addresses three times
	case errors.As(err, &op) && op.Err != nil:
		err = op.Err
	}
	return &classed{Retriable, fmt.Errorf("kafka: dial %s: %w; check %s", addr, err, settingBrokers)}
}

// tlsError returns the error of a failed handshake, with what is wrong and the setting
// to check.
func tlsError(addr string, err error) error {
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var header tls.RecordHeaderError
	hint := "check " + settingTLS + " and the port in " + settingBrokers
	switch {
	case errors.As(err, &unknown):
		hint = "check " + settingTLSCA
	case errors.As(err, &host):
		hint = "check the name in " + settingBrokers + ", or the broker's certificate"
	case errors.As(err, &invalid):
		hint = "the broker's certificate is not valid; check " + settingTLSCA
	case errors.As(err, &header), errors.Is(err, io.EOF), errors.Is(err, context.DeadlineExceeded):
		hint = "the port may not speak TLS: check " + settingTLS + " and the port in " + settingBrokers
	case isAlert(err):
		hint = "the broker refused the client's certificate: check " + settingTLSCert + " and " + settingTLSKey
	}
	out := fmt.Errorf("kafka: TLS to %s: %w; %s", addr, err, hint)
	if isAlert(err) {
		return &classed{Fatal, out}
	}
	return unsent(out)
}

// isAlert reports whether the other side ended TLS with an alert; the type of that
// error is not exported.
func isAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

// probe connects to one address by itself, step by step, because Transport
// reports a failed SASL exchange and plaintext sent to a TLS port alike, as an
// unexpected EOF. It returns the API versions that the broker supports.
func (t *transport) probe(ctx context.Context, addr string) (map[protocol.ApiKey]versionRange, error) {
	nc, err := t.dialer.dial(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	deadline := time.Now().Add(t.dialer.cfg.DialTimeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	nc.SetDeadline(deadline)
	stop := context.AfterFunc(ctx, func() { nc.SetDeadline(time.Unix(1, 0)) })
	defer stop()

	pc := protocol.NewConn(nc, t.dialer.cfg.ClientID)
	m, err := pc.RoundTrip(new(apiversions.Request))
	if err != nil {
		hint := "check " + settingBrokers
		if t.dialer.cfg.TLS != nil {
			// With TLS 1.3 the broker judges the client's certificate only after
			// the client thinks that the handshake is done.
			if isAlert(err) {
				return nil, tlsError(addr, err)
			}
		} else {
			hint += "; if the port speaks TLS, set " + settingTLS
		}
		return nil, fmt.Errorf("kafka: %s does not answer as a Kafka broker: %w; %s", addr, err, hint)
	}
	res := m.(*apiversions.Response)
	if res.ErrorCode != 0 {
		return nil, fmt.Errorf("kafka: %s: API versions: %w", addr, kafkago.Error(res.ErrorCode))
	}
	supported := make(map[protocol.ApiKey]versionRange, len(res.ApiKeys))
	agreed := make(map[protocol.ApiKey]int16, len(res.ApiKeys))
	for _, k := range res.ApiKeys {
		key := protocol.ApiKey(k.ApiKey)
		supported[key] = versionRange{k.MinVersion, k.MaxVersion}
		agreed[key] = key.SelectVersion(k.MinVersion, k.MaxVersion)
	}
	pc.SetVersions(agreed)
	if t.dialer.cfg.SASL != nil {
		if _, err := t.dialer.authenticate(ctx, pc, addr); err != nil {
			if errors.Is(err, errLoginCut) {
				// Brokers close the connection on wrong credentials, some time later.
				err = t.dialer.refused(addr, kafkago.SASLAuthenticationFailed)
			}
			return nil, err
		}
	}
	// A listener that wants SASL answers ApiVersions without it and closes the
	// connection at the first other request; ask for something small.
	if _, err := pc.RoundTrip(&routed{msg: emptyMetadata(), correlation: t.corr.Add(1), clientID: t.dialer.cfg.ClientID}); err != nil {
		hint := "check " + settingBrokers
		if t.dialer.cfg.SASL == nil {
			hint = "if the listener wants SASL, set " + settingSASL
		}
		return nil, fmt.Errorf("kafka: %s closed the connection on the first request: %w; %s", addr, err, hint)
	}
	return supported, nil
}
