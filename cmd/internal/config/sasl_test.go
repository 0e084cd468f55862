package config

import (
	"crypto/tls"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"odradek/processor/kafkatest"
)

// TestLoginFaults: every fault of a login is named at once, by its setting.
func TestLoginFaults(t *testing.T) {
	const oauth = "ODRADEK_KAFKA_SASL_MECHANISM=OAUTHBEARER"
	for _, c := range []struct{ environ, want []string }{
		{[]string{oauth}, []string{"KAFKA_OAUTH_CLIENT_ID", "KAFKA_OAUTH_CLIENT_SECRET", "KAFKA_OAUTH_TOKEN_URL"}},
		{[]string{oauth, "ODRADEK_KAFKA_OAUTH_TOKEN=t"}, nil},
		{[]string{oauth, "ODRADEK_KAFKA_OAUTH_TOKEN=t", "ODRADEK_KAFKA_OAUTH_SCOPE=x"}, []string{"KAFKA_OAUTH_TOKEN"}},
		{[]string{oauth, "ODRADEK_KAFKA_OAUTH_TOKEN=t", "ODRADEK_KAFKA_OAUTH_EXTENSIONS=x", "ODRADEK_KAFKA_USERNAME=u"},
			[]string{"KAFKA_OAUTH_EXTENSIONS", "KAFKA_USERNAME"}},
		{[]string{oauth, "ODRADEK_KAFKA_OAUTH_TOKEN_URL=login", "ODRADEK_KAFKA_OAUTH_CLIENT_ID=i", "ODRADEK_KAFKA_OAUTH_CLIENT_SECRET=s",
			"ODRADEK_KAFKA_OAUTH_CA_FILE=/nowhere"}, []string{"KAFKA_OAUTH_CA_FILE", "KAFKA_OAUTH_TOKEN_URL"}},
		{[]string{"ODRADEK_KAFKA_SASL_MECHANISM=AWS_MSK_IAM", "ODRADEK_KAFKA_AWS_REGION=eu-west-1"}, nil},
		{[]string{"ODRADEK_KAFKA_AWS_REGION=eu-west-1", "ODRADEK_KAFKA_OAUTH_TOKEN=t", "ODRADEK_KAFKA_OAUTH_SCOPE=x"},
			[]string{"KAFKA_AWS_REGION", "KAFKA_OAUTH_TOKEN", "KAFKA_OAUTH_TOKEN_URL"}},
		{[]string{"ODRADEK_SCHEMA_REGISTRY_OAUTH_TOKEN_URL=https://x", "ODRADEK_SCHEMA_REGISTRY_TOKEN=t", "ODRADEK_SCHEMA_REGISTRY_KEY_FILE=k"},
			[]string{"SCHEMA_REGISTRY_CERT_FILE", "SCHEMA_REGISTRY_OAUTH_CLIENT_ID", "SCHEMA_REGISTRY_OAUTH_CLIENT_SECRET",
				"SCHEMA_REGISTRY_OAUTH_TOKEN_URL"}},
		{[]string{"ODRADEK_SCHEMA_REGISTRY_LOGICAL_CLUSTER=lsrc-1"}, []string{"SCHEMA_REGISTRY_LOGICAL_CLUSTER"}},
	} {
		_, faults, _ := Parse(minimal(c.environ...))
		var got []string
		for _, f := range faults {
			got = append(got, strings.TrimPrefix(f.Name, Prefix))
		}
		if slices.Sort(got); !slices.Equal(got, c.want) {
			t.Errorf("%v: faults of %v, want %v: %v", c.environ, got, c.want, faults)
		}
	}
}

// TestRegistryLogin: the registry sees the client's certificate, a token of the token endpoint, and Confluent Cloud's headers; a password
// and an authority that change in their files hold from the next connection on.
func TestRegistryLogin(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(time.Duration(len(b)) * time.Second) // another time for another content
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
		return path
	}
	authority, err := kafkatest.NewAuthority("plant")
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := authority.Issue("worker", time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	var seen string
	serve := func(h http.HandlerFunc) *httptest.Server {
		tlsConfig, err := NewServerTLS(ServerTLS{Cert: file("c.pem", cert), Key: file("k.pem", key), ClientCA: file("ca.pem", authority.PEM)})
		if err != nil {
			t.Fatal(err)
		}
		pair, err := tlsConfig.GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		tlsConfig.Certificates = []tls.Certificate{*pair} // or httptest has its own
		s := httptest.NewUnstartedServer(h)
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.TLS = tlsConfig
		s.StartTLS()
		t.Cleanup(s.Close)
		return s
	}
	registry := serve(func(w http.ResponseWriter, r *http.Request) {
		seen = strings.Join([]string{r.TLS.PeerCertificates[0].Subject.CommonName, r.Header.Get("Authorization"),
			r.Header.Get("target-sr-cluster"), r.Header.Get("Confluent-Identity-Pool-Id")}, " ")
		w.Write([]byte("[]"))
	})
	tokens := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte(`{"access_token":"abc","token_type":"Bearer","expires_in":60}`))
	}))
	defer tokens.Close()
	ping := func(environ ...string) string {
		t.Helper()
		seen = ""
		c, faults, _ := Parse(append(minimal(environ...), "ODRADEK_SCHEMA_REGISTRY_URL="+registry.URL,
			"ODRADEK_SCHEMA_REGISTRY_CA_FILE="+filepath.Join(dir, "ca.pem"), "ODRADEK_SCHEMA_REGISTRY_CACHE_DIR=off",
			"ODRADEK_SCHEMA_REGISTRY_CERT_FILE="+filepath.Join(dir, "c.pem"), "ODRADEK_SCHEMA_REGISTRY_KEY_FILE="+filepath.Join(dir, "k.pem")))
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		client, err := c.NewRegistry()
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if err := client.Ping(t.Context()); err != nil {
			return err.Error()
		}
		return seen
	}
	got := ping("ODRADEK_SCHEMA_REGISTRY_OAUTH_TOKEN_URL="+tokens.URL, "ODRADEK_SCHEMA_REGISTRY_OAUTH_CLIENT_ID=i",
		"ODRADEK_SCHEMA_REGISTRY_OAUTH_CLIENT_SECRET=s", "ODRADEK_SCHEMA_REGISTRY_OAUTH_CA_FILE="+file("tokens.pem", pemOf(tokens)),
		"ODRADEK_SCHEMA_REGISTRY_LOGICAL_CLUSTER=lsrc-1", "ODRADEK_SCHEMA_REGISTRY_IDENTITY_POOL=pool-1")
	if want := "worker Bearer abc lsrc-1 pool-1"; got != want {
		t.Errorf("seen %q, want %q", got, want)
	}
	c, _, _ := Parse(minimal("ODRADEK_SCHEMA_REGISTRY_PASSWORD_FILE=" + file("pw", []byte("one\n"))))
	file("pw", []byte("second\n"))
	if p := c.Registry.Password; p.Current() != "second" || p.Reveal() != "one" {
		t.Errorf("password %q, at the start %q", p.Current(), p.Reveal())
	}
	file("pw", nil)
	if p := c.Registry.Password; p.Current() != "one" {
		t.Errorf("password %q from a file that is being written", p.Current())
	}
	other, err := kafkatest.NewAuthority("other")
	if err != nil {
		t.Fatal(err)
	}
	file("ca.pem", other.PEM)
	if got := ping(); !strings.Contains(got, "unknown authority") {
		t.Errorf("with another authority: %s", got)
	}
}

// pemOf returns the certificate of a server.
func pemOf(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}
