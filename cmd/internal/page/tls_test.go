package page

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"odradek/cmd/internal/config"
	"odradek/processor/kafkatest"
)

// TestClientCertificates: over TLS a client with a certificate of the authority reads and writes, any other does not, and a
// renewed certificate of the server serves at once.
func TestClientCertificates(t *testing.T) {
	dir := t.TempDir()
	ours, err := kafkatest.NewAuthority("ours")
	if err != nil {
		t.Fatal(err)
	}
	others, err := kafkatest.NewAuthority("others")
	if err != nil {
		t.Fatal(err)
	}
	issue := func(a *kafkatest.Authority, name string) (files [2]string) {
		cert, key, err := a.Issue(name, time.Now().Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		files = [2]string{filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key")}
		for i, content := range [][]byte{cert, key} {
			if err := os.WriteFile(files[i], content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return files
	}
	ca := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(ca, ours.PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	server := issue(ours, "server")
	tlsConfig, err := config.NewServerTLS(config.ServerTLS{Cert: server[0], Key: server[1], ClientCA: ca})
	if err != nil {
		t.Fatal(err)
	}
	h, _ := apiHandler(Access{ClientCertificates: true})
	s, err := Serve("127.0.0.1:0", h, tlsConfig)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ours.PEM)
	ask := func(files *[2]string, method string) (code int, serverName string, err error) {
		c := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
		if files != nil {
			pair, err := tls.LoadX509KeyPair(files[0], files[1])
			if err != nil {
				t.Fatal(err)
			}
			c.Certificates = []tls.Certificate{pair}
		}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: c}, Timeout: time.Minute}
		defer client.CloseIdleConnections()
		r, err := http.NewRequestWithContext(t.Context(), method, "https://"+s.Addr+"/feedback?id=a", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(r)
		if err != nil {
			return 0, "", err
		}
		defer res.Body.Close()
		_, err = io.Copy(io.Discard, res.Body)
		return res.StatusCode, res.TLS.PeerCertificates[0].Subject.CommonName, err
	}
	mine, foreign := issue(ours, "client"), issue(others, "stranger")
	if code, _, err := ask(&mine, "DELETE"); err != nil || code != 200 {
		t.Errorf("with a certificate: %d, %v", code, err)
	}
	if code, _, err := ask(nil, "DELETE"); err == nil {
		t.Errorf("without a certificate: %d", code)
	}
	if code, _, err := ask(&foreign, "DELETE"); err == nil {
		t.Errorf("with a certificate of others: %d", code)
	}
	renewed := issue(ours, "renewed")
	for i := range renewed {
		later := time.Now().Add(time.Minute)
		if err := os.Rename(renewed[i], server[i]); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(server[i], later, later); err != nil {
			t.Fatal(err)
		}
	}
	if _, name, err := ask(&mine, "DELETE"); err != nil || name != "renewed" {
		t.Errorf("after a renewal the server is %q, %v", name, err)
	}
	if err := os.Remove(server[1]); err != nil {
		t.Fatal(err)
	}
	if _, name, err := ask(&mine, "DELETE"); err != nil || name != "renewed" {
		t.Errorf("while the key is away the server is %q, %v", name, err)
	}
	for _, f := range []config.ServerTLS{{Cert: server[0], Key: server[1]}, {Cert: mine[0], Key: mine[1], ClientCA: mine[1]}, {Cert: mine[0],
		Key: mine[1], ClientCA: "absent"}} {
		if _, err := config.NewServerTLS(f); err == nil {
			t.Errorf("%+v is taken", f)
		}
	}
}
