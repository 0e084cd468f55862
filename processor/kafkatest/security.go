package kafkatest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// The SASL mechanisms of the secured listener.
const (
	Plain       = "PLAIN"
	ScramSHA256 = "SCRAM-SHA-256"
	ScramSHA512 = "SCRAM-SHA-512"
)

// Mechanisms lists the SASL mechanisms that every secured listener accepts.
var Mechanisms = []string{Plain, ScramSHA256, ScramSHA512}

// User is a user that the secured listener knows, by one mechanism.
type User struct{ Mechanism, Name, Password string }

// Security says how to reach a cluster's secured listeners. The certificates
// are of an authority made for this cluster alone; the server's is good for
// 127.0.0.1 and localhost.
type Security struct {
	SASLBrokers []string // SASL_SSL: TLS, then SASL; a client certificate is welcome, not asked for
	TLSBrokers  []string // SSL: on real Kafka a client certificate is required, its principal is User:CN=client
	CAFile      string   // PEM: the authority that signed all certificates
	CertFile    string   // PEM: the client's certificate
	KeyFile     string   // PEM: the client's key, PKCS #8, not encrypted
	Users       []User   // one a mechanism
}

// User returns the user of a mechanism; unknown mechanisms panic.
func (s *Security) User(mechanism string) User {
	for _, u := range s.Users {
		if u.Mechanism == mechanism {
			return u
		}
	}
	panic("kafkatest: no user with mechanism " + mechanism)
}

func (s *Security) pool() *x509.CertPool {
	b, err := os.ReadFile(s.CAFile)
	if err != nil {
		panic(fmt.Sprintf("kafkatest: the cluster's authority: %v", err))
	}
	p := x509.NewCertPool()
	if !p.AppendCertsFromPEM(b) {
		panic("kafkatest: no certificate in " + s.CAFile)
	}
	return p
}

// ClientTLS returns a client's TLS configuration that trusts the cluster.
func (s *Security) ClientTLS() *tls.Config {
	return &tls.Config{RootCAs: s.pool(), MinVersion: tls.VersionTLS12}
}

// MutualTLS returns a client's TLS configuration that trusts the cluster and
// shows the client's certificate.
func (s *Security) MutualTLS() *tls.Config {
	c := s.ClientTLS()
	cert, err := tls.LoadX509KeyPair(s.CertFile, s.KeyFile)
	if err != nil {
		panic(fmt.Sprintf("kafkatest: the client's certificate: %v", err))
	}
	c.Certificates = []tls.Certificate{cert}
	return c
}

// Opts returns what a franz-go client needs for the secured listener: with a
// mechanism SASL over TLS, with "" the client's certificate. The seed brokers
// are among it.
func (s *Security) Opts(mechanism string) []kgo.Opt {
	if mechanism == "" {
		return []kgo.Opt{kgo.SeedBrokers(s.TLSBrokers...), kgo.DialTLSConfig(s.MutualTLS())}
	}
	return []kgo.Opt{kgo.SeedBrokers(s.SASLBrokers...), kgo.DialTLSConfig(s.ClientTLS()), SASL(s.User(mechanism))}
}

// SASL returns a franz-go client's option for that user.
func SASL(u User) kgo.Opt {
	switch u.Mechanism {
	case Plain:
		return kgo.SASL(plain.Auth{User: u.Name, Pass: u.Password}.AsMechanism())
	case ScramSHA256:
		return kgo.SASL(scram.Auth{User: u.Name, Pass: u.Password}.AsSha256Mechanism())
	case ScramSHA512:
		return kgo.SASL(scram.Auth{User: u.Name, Pass: u.Password}.AsSha512Mechanism())
	}
	panic("kafkatest: no mechanism " + u.Mechanism)
}

// adminOpts returns what the cluster's own client needs: nothing where the plain
// listener is plain.
func (s *Security) adminOpts(c *Cluster) []kgo.Opt {
	if s == nil || c.Real() {
		return nil
	}
	if len(s.SASLBrokers) > 0 {
		return s.Opts(Plain)
	}
	return s.Opts("")
}

// users are fixed, so that real nodes can be formatted once and for all.
var users = []User{
	{Plain, "plain-user", "plain-secret"},
	{ScramSHA256, "scram256-user", "scram256-secret"},
	{ScramSHA512, "scram512-user", "scram512-secret"},
}

// newSecurity makes an authority, a server's and a client's certificate, and
// writes them below dir: ca.pem, server.pem (key and chain, as Kafka's PEM key
// stores want it), client.crt and client.key.
func newSecurity(dir string) (*Security, tls.Certificate, error) {
	a, err := NewAuthority("odradek test authority")
	if err != nil {
		return nil, tls.Certificate{}, err
	}
	forever := time.Now().AddDate(1, 0, 0)
	serverCert, serverKey, err := a.Issue("localhost", forever)
	if err != nil {
		return nil, tls.Certificate{}, err
	}
	clientCert, clientKey, err := a.Issue("client", forever)
	if err != nil {
		return nil, tls.Certificate{}, err
	}
	s := &Security{
		CAFile:   filepath.Join(dir, "ca.pem"),
		CertFile: filepath.Join(dir, "client.crt"),
		KeyFile:  filepath.Join(dir, "client.key"),
		Users:    append([]User(nil), users...),
	}
	chain := append(append([]byte(nil), serverCert...), a.PEM...)
	for name, b := range map[string][]byte{
		s.CAFile:                         a.PEM,
		filepath.Join(dir, "server.pem"): append(append([]byte(nil), serverKey...), chain...),
		s.CertFile:                       clientCert,
		s.KeyFile:                        clientKey,
	} {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			return nil, tls.Certificate{}, err
		}
	}
	server, err := tls.X509KeyPair(chain, serverKey)
	return s, server, err
}

// Authority is a certificate authority for tests; one that a cluster does not
// trust makes the certificates that must be refused.
type Authority struct {
	PEM  []byte // its own certificate
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes an authority with a fresh key.
func NewAuthority(name string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t := &x509.Certificate{
		SerialNumber:          big.NewInt(time.Now().UnixNano()),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().AddDate(1, 0, 0),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &Authority{pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), cert, key}, err
}

// Issue makes a certificate that serves both a server on loopback and a client, with a
// new key; both are returned in PEM, the key as PKCS #8. A time in the past
// makes an expired one.
func (a *Authority) Issue(commonName string, until time.Time) (cert, key []byte, err error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	from := time.Now().Add(-time.Hour)
	if until.Before(from) {
		from = until.Add(-time.Hour)
	}
	t := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: commonName},
		NotBefore:    from,
		NotAfter:     until,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:     []string{"localhost"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, k.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), nil
}
