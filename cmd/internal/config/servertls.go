package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// ServerTLS are PEM files of the server.
type ServerTLS struct {
	Cert, Key string // certificate and key; read again when they change
	ClientCA  string // authorities of the clients' certificates, which are then required; "": none is asked for
}

// NewServerTLS reads the files.
func NewServerTLS(f ServerTLS) (*tls.Config, error) {
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
		return nil, fmt.Errorf("config: %w", err)
	}
	c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	if !c.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("config: %s holds no PEM certificate", f.ClientCA)
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
	return nil, fmt.Errorf("config: %s, %s: %w", p.cert, p.key, err)
}
