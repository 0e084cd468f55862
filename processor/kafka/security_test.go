package kafka

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"odradek/processor/kafka/record"
)

// authority issues certificates for a test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

var serial atomic.Int64

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t}
	a.cert, a.key, a.pem, _ = a.make("authority", nil)
	return a
}

func (a *authority) make(name string, hosts []string) (*x509.Certificate, *ecdsa.PrivateKey, []byte, []byte) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(serial.Add(1)), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			tmpl.IPAddresses = append(tmpl.IPAddresses, ip)
		} else {
			tmpl.DNSNames = append(tmpl.DNSNames, h)
		}
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		tmpl.IsCA, tmpl.KeyUsage = true, x509.KeyUsageCertSign
		parent, signer = tmpl, key
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	kd, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: kd})
}

func (a *authority) server(hosts ...string) tls.Certificate {
	_, _, cert, key := a.make("broker", hosts)
	c, err := tls.X509KeyPair(cert, key)
	if err != nil {
		a.t.Fatal(err)
	}
	return c
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

func file(t *testing.T, dir, name string, b []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func mustTLS(t *testing.T, cfg TLSConfig) *tls.Config {
	t.Helper()
	out, err := NewTLS(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestSecureRoundTrip: TLS with SASL, each mechanism, all the way to a fetch.
func TestSecureRoundTrip(t *testing.T) {
	a := newAuthority(t)
	ca := file(t, t.TempDir(), "ca.pem", a.pem)
	fake := cluster(t, kfake.NumBrokers(2), kfake.SeedTopics(4, "in"), kfake.EnableSASL(),
		kfake.Superuser("PLAIN", "p", "pw"), kfake.Superuser("SCRAM-SHA-256", "s2", "pw"), kfake.Superuser("SCRAM-SHA-512", "s5", "pw"),
		kfake.TLS(&tls.Config{Certificates: []tls.Certificate{a.server("127.0.0.1", "localhost")}}))
	writer := franz(t, fake, kgo.DialTLSConfig(&tls.Config{RootCAs: a.pool()}), kgo.SASL(plain.Auth{User: "p", Pass: "pw"}.AsMechanism()))
	for p := int32(0); p < 4; p++ {
		write(t, writer, "in", p, 0, 100)
	}
	for mechanism, user := range map[string]string{"PLAIN": "p", "scram-sha-256": "s2", "SCRAM_SHA_512": "s5"} {
		t.Run(mechanism, func(t *testing.T) {
			m, err := NewSASL(mechanism, user, "pw")
			if err != nil {
				t.Fatal(err)
			}
			c, err := Open(testContext(t), Config{Brokers: fake.ListenAddrs()[:1], TLS: mustTLS(t, TLSConfig{CA: ca}), SASL: m})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			f := c.NewFetcher(FetcherConfig{})
			defer f.Close()
			for p := int32(0); p < 4; p++ {
				readTo(t, f.Add(tpOf("in", p), 0), 0, 100, func(*record.Record) {})
			}
		})
	}
}

// TestOpenErrors: each fault names the setting to look at, at once.
func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	a, stranger := newAuthority(t), newAuthority(t)
	ca := file(t, dir, "ca.pem", a.pem)
	otherCA := file(t, dir, "other.pem", stranger.pem)
	_, _, cert, key := stranger.make("client", nil)
	strangerCert, strangerKey := file(t, dir, "s.pem", cert), file(t, dir, "s.key", key)

	plaintext := cluster(t)
	withTLS := cluster(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{a.server("127.0.0.1")}}))
	wrongName := cluster(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{a.server("10.9.8.7")}}))
	mutual := cluster(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{a.server("127.0.0.1")},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: a.pool()}))
	withSASL := cluster(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "u", "pw"), kfake.Superuser("SCRAM-SHA-256", "u", "pw"))
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	unused, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	unused.Close()

	for _, tc := range []struct {
		name    string
		brokers []string
		tls     *TLSConfig
		sasl    [3]string
		text    []string
		is      error
	}{
		{name: "no brokers", text: []string{envBrokers}},
		{name: "refused", brokers: []string{unused.Addr().String()},
			text: []string{"dial " + unused.Addr().String() + ": connection refused; check " + envBrokers}},
		{name: "unknown host", brokers: []string{"no-such-host.invalid:9092"}, text: []string{"no-such-host.invalid", envBrokers}},
		{name: "without port", brokers: []string{"127.0.0.1"}, text: []string{"port", envBrokers}},
		{name: "silent", brokers: []string{silent.Addr().String()}, text: []string{"does not answer", envBrokers}},
		{name: "silent with TLS", brokers: []string{silent.Addr().String()}, tls: &TLSConfig{CA: ca}, text: []string{"TLS to", envTLS}},
		{name: "plaintext to TLS", brokers: withTLS.ListenAddrs(), text: []string{envTLS}},
		{name: "TLS to plaintext", brokers: plaintext.ListenAddrs(), tls: &TLSConfig{CA: ca}, text: []string{"TLS to", envTLS}},
		{name: "unknown authority", brokers: withTLS.ListenAddrs(), tls: &TLSConfig{CA: otherCA}, text: []string{"unknown authority", envTLSCA}},
		{name: "wrong host name", brokers: wrongName.ListenAddrs(), tls: &TLSConfig{CA: ca}, text: []string{"10.9.8.7", envBrokers}},
		{name: "no client certificate", brokers: mutual.ListenAddrs(), tls: &TLSConfig{CA: ca}, text: []string{envTLSCert}},
		{name: "client certificate of a stranger", brokers: mutual.ListenAddrs(), tls: &TLSConfig{CA: ca, Cert: strangerCert, Key: strangerKey},
			text: []string{envTLSCert}},
		{name: "no SASL", brokers: withSASL.ListenAddrs(), text: []string{envSASL}},
		{name: "wrong password", brokers: withSASL.ListenAddrs(), sasl: [3]string{"PLAIN", "u", "no"}, text: []string{envSASLPass},
			is: kafkago.SASLAuthenticationFailed},
		{name: "wrong password, SCRAM", brokers: withSASL.ListenAddrs(), sasl: [3]string{"SCRAM-SHA-256", "u", "no"},
			text: []string{envSASLPass}},
		{name: "unknown user", brokers: withSASL.ListenAddrs(), sasl: [3]string{"SCRAM-SHA-256", "x", "pw"}, text: []string{envSASLUser}},
		{name: "mechanism not offered", brokers: withSASL.ListenAddrs(), sasl: [3]string{"SCRAM-SHA-512", "u", "pw"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := Config{Brokers: tc.brokers, DialTimeout: time.Second, RequestTimeout: time.Second}
			if tc.tls != nil {
				cfg.TLS = mustTLS(t, *tc.tls)
			}
			var err error
			if cfg.SASL, err = NewSASL(tc.sasl[0], tc.sasl[1], tc.sasl[2]); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			c, err := Open(testContext(t), cfg)
			if err == nil {
				c.Close()
				t.Fatal("no error")
			}
			t.Log(err)
			if time.Since(start) > 10*time.Second {
				t.Errorf("took %v", time.Since(start))
			}
			for _, s := range tc.text {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%q is not in it", s)
				}
			}
			if tc.is != nil && !errors.Is(err, tc.is) {
				t.Errorf("is not %v", tc.is)
			}
		})
	}
	t.Run("one of several answers", func(t *testing.T) {
		c := open(t, append([]string{unused.Addr().String()}, plaintext.ListenAddrs()...))
		if _, err := c.Topics(testContext(t)); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("context ends", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		start := time.Now()
		if _, err := Open(ctx, Config{Brokers: []string{silent.Addr().String()}}); err == nil || time.Since(start) > 2*time.Second {
			t.Fatal(err, time.Since(start))
		}
	})
}

func TestSettings(t *testing.T) {
	dir := t.TempDir()
	a := newAuthority(t)
	_, _, cert, key := a.make("client", nil)
	_, _, _, otherKey := a.make("other", nil)
	certFile, keyFile := file(t, dir, "c.pem", cert), file(t, dir, "c.key", key)
	for _, tc := range []struct {
		cfg  TLSConfig
		text string
	}{
		{TLSConfig{CA: filepath.Join(dir, "absent")}, envTLSCA},
		{TLSConfig{CA: keyFile}, envTLSCA},
		{TLSConfig{Cert: certFile}, envTLSKey},
		{TLSConfig{Key: keyFile}, envTLSCert},
		{TLSConfig{Cert: certFile, Key: filepath.Join(dir, "absent")}, envTLSKey},
		{TLSConfig{Cert: certFile, Key: file(t, dir, "o.key", otherKey)}, envTLSKey},
	} {
		if _, err := NewTLS(tc.cfg); err == nil || !strings.Contains(err.Error(), tc.text) {
			t.Errorf("%+v: %v", tc.cfg, err)
		} else {
			t.Log(err)
		}
	}
	for _, tc := range [][3]string{{"GSSAPI", "u", "p"}, {"PLAIN", "", "p"}, {"SCRAM-SHA-256", "u", "\x01"}} {
		if _, err := NewSASL(tc[0], tc[1], tc[2]); err == nil {
			t.Errorf("%q", tc)
		} else {
			t.Log(err)
		}
	}
}

// TestCertificateReload: a renewed client certificate is used from the next
// connection on; a half-written one is not.
func TestCertificateReload(t *testing.T) {
	dir := t.TempDir()
	a := newAuthority(t)
	var seen atomic.Value // the client name of the last handshake
	fake := cluster(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{a.server("127.0.0.1")},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: a.pool(),
		VerifyPeerCertificate: func(_ [][]byte, chains [][]*x509.Certificate) error {
			seen.Store(chains[0][0].Subject.CommonName)
			return nil
		}}))
	mod := time.Now().Add(-time.Minute)
	put := func(name string, b []byte) string {
		path := file(t, dir, name, b)
		mod = mod.Add(time.Second)
		if err := os.Chtimes(path, mod, mod); err != nil {
			t.Fatal(err)
		}
		return path
	}
	_, _, cert, key := a.make("first", nil)
	cfg := mustTLS(t, TLSConfig{CA: file(t, dir, "ca.pem", a.pem), Cert: put("c.pem", cert), Key: put("c.key", key)})
	connect := func(want string) {
		t.Helper()
		c, err := Open(testContext(t), Config{Brokers: fake.ListenAddrs(), TLS: cfg})
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		if seen.Load() != want {
			t.Fatalf("connected as %v, want %v", seen.Load(), want)
		}
	}
	connect("first")
	_, _, cert, key = a.make("second", nil)
	put("c.pem", cert[:len(cert)/2])
	connect("first")
	put("c.pem", cert)
	connect("first") // the key is still the old one's
	put("c.key", key)
	connect("second")
	os.Remove(filepath.Join(dir, "c.pem"))
	connect("second")
}

func mustSASL(t *testing.T, mechanism, user, password string) sasl.Mechanism {
	t.Helper()
	m, err := NewSASL(mechanism, user, password)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
