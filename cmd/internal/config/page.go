package config

import (
	"crypto/tls"
	"fmt"
	"strings"
)

// minToken is the least length of the page's token in bytes: 128 random bits have 22 characters in base64.
const minToken = 16

// AnyHost in ODRADEK_PAGE_HOSTS (the Hosts of an Access of package page) stands for all names.
const AnyHost = "*"

// page checks the settings of the page's server.
func (ch *checker) page() {
	s := &ch.c.Program
	if n := len(s.PageToken.Reveal()); n > 0 && n < minToken {
		ch.add("PAGE_TOKEN", fmt.Sprintf("has %d characters", n), fmt.Sprintf("use %d random ones or more", minToken))
	}
	for _, name := range s.PageHosts {
		if name == "" || name != AnyHost && strings.ContainsAny(name, ":/*@ ") {
			ch.add("PAGE_HOSTS", fmt.Sprintf("%q is not the name of a host", name), "write names without a port, such as odradek.example.com, or *")
		}
	}
	switch {
	case (s.PageCert == "") != (s.PageKey == ""):
		ch.add("PAGE_TLS_CERT_FILE", Prefix+"PAGE_TLS_CERT_FILE and "+Prefix+"PAGE_TLS_KEY_FILE go together: one is set, the other is not",
			"set both or neither")
	case s.PageCert == "" && s.PageClientCA != "":
		ch.add("PAGE_TLS_CLIENT_CA_FILE", "set, but the page's server has no certificate", "set "+Prefix+"PAGE_TLS_CERT_FILE, too")
	case s.PageCert == "":
	case s.PageAddr == s.HTTPAddr:
		ch.add("PAGE_TLS_CERT_FILE", "set, but probes and metrics are on the same address", "give "+Prefix+"PAGE_ADDR a port of its own")
	default:
		if _, err := ch.c.PageTLS(); err != nil {
			ch.add("PAGE_TLS_CERT_FILE", err.Error(), "name files that the worker may read")
		}
	}
}

// PageTLS returns the TLS configuration of the page's server; nil for plain HTTP.
func (c *Config) PageTLS() (*tls.Config, error) {
	s := &c.Program
	if s.PageCert == "" {
		return nil, nil
	}
	return NewServerTLS(ServerTLS{Cert: s.PageCert, Key: s.PageKey, ClientCA: s.PageClientCA})
}

// PageIsOpen reports whether others than this host may reach the page, and read without a token or a certificate.
func (c *Config) PageIsOpen() bool {
	s := &c.Program
	return s.PageAddr != Off && !loopback(s.PageAddr) && s.PageToken.Reveal() == "" && s.PageClientCA == ""
}
