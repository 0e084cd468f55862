package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
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

	"odradek/processor/kafka/internal/brokertest"
)

func mustTLS(t *testing.T, cfg TLSConfig) *TLS {
	t.Helper()
	out, err := NewTLS(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestOpenErrors: each fault names the setting to look at, at once.
func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	a, unknown := brokertest.NewAuthority(t), brokertest.NewAuthority(t)
	ca := brokertest.File(t, dir, "ca.pem", a.PEM)
	otherCA := brokertest.File(t, dir, "other.pem", unknown.PEM)
	_, _, cert, key := unknown.Issue("client", nil)
	unknownCert, unknownKey := brokertest.File(t, dir, "s.pem", cert), brokertest.File(t, dir, "s.key", key)

	plaintext := brokertest.Cluster(t)
	withTLS := brokertest.Cluster(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{a.Server("127.0.0.1")}}))
	wrongName := brokertest.Cluster(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{a.Server("10.9.8.7")}}))
	mutual := brokertest.Cluster(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{a.Server("127.0.0.1")},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: a.Pool()}))
	withSASL := brokertest.Cluster(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "u", "pw"), kfake.Superuser("SCRAM-SHA-256", "u", "pw"))
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
		{name: "no brokers", text: []string{settingBrokers}},
		{name: "refused", brokers: []string{unused.Addr().String()},
			text: []string{"dial " + unused.Addr().String() + ": connection refused; check " + settingBrokers}},
		{name: "unknown host", brokers: []string{"no-such-host.invalid:9092"}, text: []string{"no-such-host.invalid", settingBrokers}},
		{name: "without port", brokers: []string{"127.0.0.1"}, text: []string{"port", settingBrokers}},
		{name: "silent", brokers: []string{silent.Addr().String()}, text: []string{"does not answer", settingBrokers}},
		{name: "silent with TLS", brokers: []string{silent.Addr().String()}, tls: &TLSConfig{CA: ca}, text: []string{"TLS to", settingTLS}},
		{name: "plaintext to TLS", brokers: withTLS.ListenAddrs(), text: []string{settingTLS}},
		{name: "TLS to plaintext", brokers: plaintext.ListenAddrs(), tls: &TLSConfig{CA: ca}, text: []string{"TLS to", settingTLS}},
		{name: "unknown authority", brokers: withTLS.ListenAddrs(), tls: &TLSConfig{CA: otherCA},
			text: []string{"unknown authority", settingTLSCA}},
		{name: "wrong host name", brokers: wrongName.ListenAddrs(), tls: &TLSConfig{CA: ca}, text: []string{"10.9.8.7", settingBrokers}},
		{name: "no client certificate", brokers: mutual.ListenAddrs(), tls: &TLSConfig{CA: ca}, text: []string{settingTLSCert}},
		{name: "client certificate of an unknown authority", brokers: mutual.ListenAddrs(),
			tls: &TLSConfig{CA: ca, Cert: unknownCert, Key: unknownKey}, text: []string{settingTLSCert}},
		{name: "no SASL", brokers: withSASL.ListenAddrs(), text: []string{settingSASL}},
		{name: "wrong password", brokers: withSASL.ListenAddrs(), sasl: [3]string{"PLAIN", "u", "no"}, text: []string{settingSASLPass},
			is: kafkago.SASLAuthenticationFailed},
		{name: "wrong password, SCRAM", brokers: withSASL.ListenAddrs(), sasl: [3]string{"SCRAM-SHA-256", "u", "no"},
			text: []string{settingSASLPass}},
		{name: "unknown user", brokers: withSASL.ListenAddrs(), sasl: [3]string{"SCRAM-SHA-256", "x", "pw"}, text: []string{settingSASLUser}},
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
			c, err := Open(brokertest.Within(t), cfg)
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
		if _, err := c.Admin.Topics(brokertest.Within(t)); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("context ends", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		start := time.Now()
		if _, err := Open(ctx, Config{Brokers: []string{silent.Addr().String()}}); err == nil || time.Since(start) > 20*time.Second {
			t.Fatal(err, time.Since(start))
		}
	})
}

func TestSettings(t *testing.T) {
	dir := t.TempDir()
	a := brokertest.NewAuthority(t)
	_, _, cert, key := a.Issue("client", nil)
	_, _, _, otherKey := a.Issue("other", nil)
	certFile, keyFile := brokertest.File(t, dir, "c.pem", cert), brokertest.File(t, dir, "c.key", key)
	for _, tc := range []struct {
		cfg  TLSConfig
		text string
	}{
		{TLSConfig{CA: filepath.Join(dir, "absent")}, settingTLSCA},
		{TLSConfig{CA: keyFile}, settingTLSCA},
		{TLSConfig{Cert: certFile}, settingTLSKey},
		{TLSConfig{Key: keyFile}, settingTLSCert},
		{TLSConfig{Cert: certFile, Key: filepath.Join(dir, "absent")}, settingTLSKey},
		{TLSConfig{Cert: certFile, Key: brokertest.File(t, dir, "o.key", otherKey)}, settingTLSKey},
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

// TestCertificateReload: a renewed client certificate and a renewed authority are used from the next
// connection on; a half-written file is not.
func TestCertificateReload(t *testing.T) {
	dir := t.TempDir()
	a := brokertest.NewAuthority(t)
	var seen atomic.Value // the client name of the last handshake
	fake := brokertest.Cluster(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{a.Server("127.0.0.1")},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: a.Pool(),
		VerifyPeerCertificate: func(_ [][]byte, chains [][]*x509.Certificate) error {
			seen.Store(chains[0][0].Subject.CommonName)
			return nil
		}}))
	mod := time.Now().Add(-time.Minute)
	put := func(name string, b []byte) string {
		path := brokertest.File(t, dir, name, b)
		mod = mod.Add(time.Second)
		if err := os.Chtimes(path, mod, mod); err != nil {
			t.Fatal(err)
		}
		return path
	}
	_, _, cert, key := a.Issue("first", nil)
	cfg := mustTLS(t, TLSConfig{CA: put("ca.pem", brokertest.NewAuthority(t).PEM), Cert: put("c.pem", cert), Key: put("c.key", key)})
	connect := func(want string) {
		t.Helper()
		c, err := Open(brokertest.Within(t), Config{Brokers: fake.ListenAddrs(), TLS: cfg})
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		if seen.Load() != want {
			t.Fatalf("connected as %v, want %v", seen.Load(), want)
		}
	}
	if c, err := Open(brokertest.Within(t), Config{Brokers: fake.ListenAddrs(), TLS: cfg}); err == nil {
		c.Close()
		t.Fatal("connected to brokers of another authority")
	}
	put("ca.pem", a.PEM)
	connect("first")
	put("ca.pem", a.PEM[:10])
	connect("first")
	_, _, cert, key = a.Issue("second", nil)
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

// TestFollowPassword: a login takes the password of now.
func TestFollowPassword(t *testing.T) {
	fake := brokertest.Cluster(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "u", "new"), kfake.Superuser("SCRAM-SHA-256", "u", "new"))
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256"} {
		password := "old"
		m, err := FollowPassword(mechanism, "u", func() string { return password })
		brokertest.Must(t, err)
		for _, password = range []string{"old", "new"} {
			c, err := Open(brokertest.Within(t), Config{Brokers: fake.ListenAddrs(), SASL: m})
			if (err == nil) != (password == "new") {
				t.Errorf("%s, password %s: %v", mechanism, password, err)
			}
			if err == nil {
				c.Close()
			}
		}
	}
	if m, err := FollowPassword("", "", func() string { return "" }); m != nil || err != nil {
		t.Errorf("without a mechanism: %v, %v", m, err)
	}
}
