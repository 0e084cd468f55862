package credentials

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestTokens: a token serves until 60 % of its time have passed, and longer while there is no other; then there is an error that
// names the settings.
func TestTokens(t *testing.T) {
	var n int
	var down bool
	var form string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		id, secret, _ := r.BasicAuth()
		form = fmt.Sprint(id, secret, r.Form)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case down:
			w.WriteHeader(http.StatusServiceUnavailable)
		case secret == "wrong" || r.Form.Get("client_secret") == "wrong":
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":"invalid_client","error_description":"no such client"}`)
		default:
			n++
			fmt.Fprintf(w, `{"access_token":"t%d","token_type":"Bearer","expires_in":100}`, n)
		}
	}))
	defer s.Close()
	secret, began := "pw", time.Now()
	var after time.Duration
	tokens := NewTokens(OAuth{Settings: "kafka_oauth", TokenURL: s.URL, ClientID: "worker", Secret: func() string { return secret },
		Scope: "a b", Audience: "kafka", Values: map[string]string{"logicalCluster": "lkc-1", "identityPoolId": "pool-1"}})
	tokens.now = func() time.Time { return began.Add(after) }
	get := func(at time.Duration, want string) {
		t.Helper()
		after = at
		if got, err := tokens.Get(t.Context()); got != want || (err == nil) != (want != "") {
			t.Fatalf("after %v: %q, %v, want %q", at, got, err, want)
		}
	}
	get(0, "t1")
	if want := "workerpwmap[audience:[kafka] grant_type:[client_credentials] scope:[a b]]"; form != want {
		t.Errorf("asked with %s, want %s", form, want)
	}
	get(58*time.Second, "t1")
	down = true
	get(62*time.Second, "t1")
	get(98*time.Second, "t1")
	get(102*time.Second, "")
	down = false
	get(102*time.Second, "t2") // the server's clock is still at the beginning
	message, err := tokens.Login().Message(t.Context(), "broker")
	if want := "n,,\x01auth=Bearer t3\x01identityPoolId=pool-1\x01logicalCluster=lkc-1\x01\x01"; string(message) != want || err != nil {
		t.Errorf("%q, %v, want %q", message, err, want)
	}
	secret, tokens.token = "wrong", ""
	_, err = tokens.Get(t.Context())
	for _, want := range []string{"invalid_client", "no such client", "kafka_oauth_client_id"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	if errors.Unwrap(err) != nil { // its text has the whole answer
		t.Errorf("wraps %v", errors.Unwrap(err))
	}
	other := NewTokens(OAuth{Token: func() string { return secret }})
	if got, err := other.Get(t.Context()); got != "wrong" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
