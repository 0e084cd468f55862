package page

import (
	"fmt"
	"net"
	"net/http"
	"odradek/cmd/internal/config"
	"slices"
	"strings"
)

// hostFault returns why a request of a server without a token or certificates is refused by the name that it was sent to; nil for none. A
// page of a browser whose own name is made to resolve to this address (DNS rebinding) counts as of the same origin, and would read
// all. So a name has to be one of this host or one that is configured. An address is not resolved, so it is no such name.
func hostFault(r *http.Request, allowed []string) error {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	address, _, _ := strings.Cut(host, "%") // without a zone
	switch {
	case host == "localhost", strings.HasSuffix(host, ".localhost"), net.ParseIP(address) != nil:
		return nil
	case slices.ContainsFunc(allowed, func(name string) bool { return name == config.AnyHost || strings.EqualFold(name, host) }):
		return nil
	}
	return &Error{http.StatusForbidden, fmt.Sprintf("web: host %q is neither localhost nor an address: without a token any page in a browser "+
		"could read here by such a name; add it to ODRADEK_PAGE_HOSTS, or set ODRADEK_PAGE_TOKEN", host)}
}

// onThisHost answers only requests that were sent to a name of this host, or to an address.
func onThisHost(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hostFault(r, nil) != nil {
			http.Error(w, "web: profiles are read at localhost or an address only", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}
