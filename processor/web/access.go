package web

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// Access says who may use the JSON API. The page itself has no data of the worker and is for everybody.
type Access struct {
	// Token is what a request has to bring, as "Authorization: Bearer <token>"; "": none is asked for.
	Token string
	// ClientCertificates says that the server asks for certificates of clients and verifies them. One stands for the token.
	ClientCertificates bool
	// Hosts are the names, beside those of this host, that requests without a token or certificate may be sent to; AnyHost: all.
	Hosts []string
}

// Writable reports whether anybody may write feedback: not without a token or certificates.
func (a *Access) Writable() bool { return a.Token != "" || a.ClientCertificates }

// check returns why a request may not read, or, with write, not write.
func (a *Access) check(r *http.Request, write bool) error {
	if a.ClientCertificates && r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		return nil
	}
	if a.Token != "" {
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		given, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(a.Token))
		if ok && subtle.ConstantTimeCompare(given[:], want[:]) == 1 {
			return nil
		}
		return &Error{http.StatusUnauthorized, "web: send the token of ODRADEK_PAGE_TOKEN as Authorization: Bearer <token>"}
	}
	if a.ClientCertificates { // the server accepts no connection without one
		return &Error{http.StatusUnauthorized, "web: no certificate of the client"}
	}
	if err := hostFault(r, a.Hosts); err != nil {
		return err
	}
	if write {
		return &Error{http.StatusForbidden, "web: feedback is written only with a token: set ODRADEK_PAGE_TOKEN, or " +
			"ODRADEK_PAGE_TLS_CLIENT_CA_FILE"}
	}
	return nil
}

// TLSFiles are PEM files of the server.
type TLSFiles struct {
	Cert, Key string // certificate and key; read again when they change
	ClientCA  string // authorities of the clients' certificates, which are then required; "": none is asked for
}

// NewTLS reads the files.
func NewTLS(f TLSFiles) (*tls.Config, error) {
	pair := &keyPair{cert: f.Cert, key: f.Key}
	if _, err := pair.get(nil); err != nil {
		return nil, err
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: pair.get}
	if f.ClientCA == "" {
		return c, nil
	}
	pem, err := os.ReadFile(f.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("web: %w", err)
	}
	c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	if !c.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("web: %s holds no PEM certificate", f.ClientCA)
	}
	return c, nil
}

// keyPair is a certificate that follows its files. While they cannot be read (half written), the last good one serves.
type keyPair struct {
	cert, key string
	mu        sync.Mutex
	pair      *tls.Certificate
	read      [2]time.Time // when the files had changed last
}

func (p *keyPair) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, cerr := os.Stat(p.cert)
	k, kerr := os.Stat(p.key)
	err := errors.Join(cerr, kerr)
	if err == nil {
		changed := [2]time.Time{c.ModTime(), k.ModTime()}
		if p.pair != nil && changed == p.read {
			return p.pair, nil
		}
		var pair tls.Certificate
		if pair, err = tls.LoadX509KeyPair(p.cert, p.key); err == nil {
			p.pair, p.read = &pair, changed
		}
	}
	if p.pair != nil {
		return p.pair, nil
	}
	return nil, fmt.Errorf("web: %s, %s: %w", p.cert, p.key, err)
}
