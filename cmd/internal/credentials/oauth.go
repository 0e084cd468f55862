// Package credentials gets what proves to brokers and schema registries who the worker is: tokens of OAuth 2.0 and
// signatures of AWS.
package credentials

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"odradek/processor/kafka"
)

// OAuth says how to get bearer tokens.
type OAuth struct {
	Settings string // what the names of the settings begin with, as kafka_oauth
	// Token returns a token that another program keeps fresh; nil: TokenURL gives them.
	Token func() string
	// TokenURL gives a token for client credentials (RFC 6749, section 4.4).
	TokenURL string
	ClientID string
	Secret   func() string
	Scope    string            // separated by spaces; may be empty
	Audience string            // may be empty
	Client   *http.Client      // nil: the default
	Values   map[string]string // SASL extensions (RFC 7628), as logicalCluster of Confluent Cloud
}

// Tokens are the bearer tokens of one OAuth, each used until most of its time has passed.
type Tokens struct {
	o OAuth

	mu      sync.Mutex
	token   string
	renew   time.Time // when to get another one
	expires time.Time
	now     func() time.Time
}

// NewTokens asks for nothing yet.
func NewTokens(o OAuth) *Tokens { return &Tokens{o: o, now: time.Now} }

const (
	// renewAt is the part of a token's time after which there is another one: brokers end a session with its token, and clients
	// log in again from 70 % of a session on.
	renewAt = 0.6
	// tokenTimeout bounds a request for a token.
	tokenTimeout = 10 * time.Second
	// tokenRetry is how long a token that could not be renewed serves before the next try.
	tokenRetry = 10 * time.Second
)

// Get returns a token. While no new one can be had the last one serves, until it expires.
func (t *Tokens) Get(ctx context.Context) (string, error) {
	if t.o.Token != nil {
		return t.o.Token(), nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	if t.token != "" && now.Before(t.renew) {
		return t.token, nil
	}
	fresh, err := t.fetch(ctx)
	switch {
	case err == nil:
		t.token, t.expires = fresh.AccessToken, fresh.Expiry
		t.renew = now.Add(time.Duration(renewAt * float64(fresh.Expiry.Sub(now))))
	case t.token != "" && now.Before(t.expires):
		if t.renew = now.Add(tokenRetry); t.renew.After(t.expires) {
			t.renew = t.expires
		}
	default:
		return "", err
	}
	return t.token, nil
}

func (t *Tokens) fetch(ctx context.Context) (*oauth2.Token, error) {
	ctx, cancel := context.WithTimeout(ctx, tokenTimeout)
	defer cancel()
	if t.o.Client != nil {
		ctx = context.WithValue(ctx, oauth2.HTTPClient, t.o.Client)
	}
	cc := clientcredentials.Config{ClientID: t.o.ClientID, ClientSecret: t.o.Secret(), TokenURL: t.o.TokenURL,
		Scopes: strings.Fields(t.o.Scope)}
	if t.o.Audience != "" {
		cc.EndpointParams = map[string][]string{"audience": {t.o.Audience}}
	}
	token, err := cc.Token(ctx)
	var refused *oauth2.RetrieveError
	switch {
	case errors.As(err, &refused) && refused.ErrorCode != "":
		return nil, fmt.Errorf("credentials: %s refuses a token: %s: %s; check %s_client_id, %[4]s_client_secret and %[4]s_scope",
			t.o.TokenURL, refused.ErrorCode, refused.ErrorDescription, t.o.Settings)
	case errors.As(err, &refused):
		return nil, fmt.Errorf("credentials: %s gives no token: status %d; check %s_token_url", t.o.TokenURL, refused.Response.StatusCode,
			t.o.Settings)
	case err != nil:
		return nil, fmt.Errorf("credentials: token of %s_token_url: %w", t.o.Settings, err)
	}
	return token, nil
}

// Login returns the login at brokers.
func (t *Tokens) Login() *kafka.Login {
	return &kafka.Login{Mechanism: "OAUTHBEARER", Message: t.message,
		Settings: fmt.Sprintf("%s_client_id, %[1]s_scope and %[1]s_audience, or %[1]s_token", t.o.Settings)}
}

// message returns the client's message of RFC 7628, section 3.1.
func (t *Tokens) message(ctx context.Context, _ string) ([]byte, error) {
	token, err := t.Get(ctx)
	if err != nil {
		return nil, err
	}
	b := []byte("n,,\x01auth=Bearer " + token + "\x01")
	for _, name := range slices.Sorted(maps.Keys(t.o.Values)) {
		b = append(b, name+"="+t.o.Values[name]+"\x01"...)
	}
	return append(b, 1), nil
}

// Transport returns http.DefaultTransport with t's authorities and certificate, which follow their files; nil t leaves it as it is.
func Transport(t *kafka.TLS) *http.Transport {
	h := http.DefaultTransport.(*http.Transport).Clone()
	if t == nil {
		return h
	}
	h.DialTLSContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		return t.Dial(ctx, network, addr, host)
	}
	return h
}
