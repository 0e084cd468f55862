package page

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
)

// Access says who may use the JSON API. The page itself has no data of the worker and is for everybody.
type Access struct {
	// Token is what a request has to bring, as "Authorization: Bearer <token>"; "": none is asked for.
	Token string
	// ClientCertificates says that the server asks for certificates of clients and verifies them. One stands for the token.
	ClientCertificates bool
	// Hosts are the names, beside this host's own, that requests without a token or certificate may be sent to; config.AnyHost: all.
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
