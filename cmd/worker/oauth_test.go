package main

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"odradek/processor/kafkatest"
)

// issuer is an identity provider: its keys as Kafka's validator fetches them, and tokens for client credentials.
type issuer struct {
	*httptest.Server
	key    *rsa.PrivateKey
	issued atomic.Int64
	life   time.Duration
}

func newIssuer(t *testing.T, life time.Duration) *issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	i := &issuer{key: key, life: life}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"keys":[{"kty":"RSA","kid":"one","use":"sig","alg":"RS256","n":%q,"e":%q}]}`,
			base64.RawURLEncoding.EncodeToString(key.N.Bytes()), base64.RawURLEncoding.EncodeToString(big.NewInt(int64(key.E)).Bytes()))
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		if _, secret, _ := r.BasicAuth(); secret != "pw" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		i.issued.Add(1)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":%d}`, i.token(t, r.FormValue("audience")), int(life.Seconds()))
	})
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":"%[1]s/keys","token_endpoint":"%[1]s/token"}`, i.URL)
	})
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	return i
}

// token returns a JSON Web Token of the user worker.
func (i *issuer) token(t *testing.T, audience string) string {
	part := func(v map[string]any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Error(err)
		}
		return base64.RawURLEncoding.EncodeToString(b)
	}
	now := time.Now()
	head := part(map[string]any{"alg": "RS256", "kid": "one", "typ": "JWT"}) + "." + part(map[string]any{"iss": i.URL, "sub": "worker",
		"aud": audience, "scope": "kafka", "iat": now.Unix(), "exp": now.Add(i.life).Unix()})
	sum := sha256.Sum256([]byte(head))
	sig, err := rsa.SignPKCS1v15(rand.Reader, i.key, crypto.SHA256, sum[:])
	if err != nil {
		t.Error(err)
	}
	return head + "." + base64.RawURLEncoding.EncodeToString(sig)
}

// TestOAuth: Kafka's own validator takes the tokens of the worker, through ends of sessions and tokens, and one for another audience
// ends the start with the settings to check.
func TestOAuth(t *testing.T) {
	kafkatest.SkipAsked(t, "kafka")
	i := newIssuer(t, 3*time.Second)
	const validator = "org.apache.kafka.common.security.oauthbearer."
	c, err := kafkatest.StartKafka(t.Context(), kafkatest.Options{Nodes: 1, SASL: true,
		JVM: []string{"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=" + i.URL + "/keys"},
		Config: map[string]string{
			"listener.name.sasl_ssl.sasl.enabled.mechanisms":                        "OAUTHBEARER",
			"listener.name.sasl_ssl.oauthbearer.sasl.jaas.config":                   validator + "OAuthBearerLoginModule required;",
			"listener.name.sasl_ssl.oauthbearer.sasl.server.callback.handler.class": validator + "OAuthBearerValidatorCallbackHandler",
			"listener.name.sasl_ssl.oauthbearer.connections.max.reauth.ms":          "60000",
			"sasl.oauthbearer.jwks.endpoint.url":                                    i.URL + "/keys",
			"sasl.oauthbearer.expected.issuer":                                      i.URL,
			"sasl.oauthbearer.expected.audience":                                    "kafka",
		}})
	if err != nil {
		kafkatest.Missing(t, "kafka", err)
	}
	t.Cleanup(c.Close)
	secret := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(secret, []byte("pw\n"), 0o600))
	environ := []string{"ODRADEK_KAFKA_BROKERS=" + strings.Join(c.Security.SASLBrokers, ","), "ODRADEK_KAFKA_TLS=true",
		"ODRADEK_KAFKA_TLS_CA_FILE=" + c.Security.CAFile, "ODRADEK_KAFKA_SASL_MECHANISM=OAUTHBEARER"}
	client := append(environ, "ODRADEK_KAFKA_OAUTH_TOKEN_URL="+i.URL+"/token", "ODRADEK_KAFKA_OAUTH_CLIENT_ID=worker",
		"ODRADEK_KAFKA_OAUTH_CLIENT_SECRET_FILE="+secret)
	generate := func(ctx context.Context, topic, args string, environ ...string) (int, string) {
		term, _, errs := console(environ...)
		code := term.generate(ctx, strings.Fields("-topic "+topic+" -partitions 1 -replication 1 "+args))
		return code, errs.String()
	}
	topic := kafkatest.Unique("oauth")
	code, said := generate(t.Context(), topic, "-rate 100 -duration 6s", append(client, "ODRADEK_KAFKA_OAUTH_AUDIENCE=kafka")...)
	recs, err := c.Admin().ReadAll(t.Context(), topic, true)
	if code != exitOK || err != nil || len(recs) < 400 || i.issued.Load() < 3 {
		t.Errorf("exit %d with %d records and %d tokens, %v: %s", code, len(recs), i.issued.Load(), err, said)
	}
	code, said = generate(t.Context(), kafkatest.Unique("oauth"), "-records 10", append(client, "ODRADEK_KAFKA_OAUTH_AUDIENCE=other")...)
	if code != exitFailed || !strings.Contains(said, "ODRADEK_KAFKA_OAUTH_AUDIENCE") {
		t.Errorf("another audience: exit %d: %s", code, said)
	}
	// A token that another program keeps in a file.
	i.life = time.Minute
	must(t, os.WriteFile(secret, []byte(i.token(t, "kafka")), 0o600))
	code, said = generate(t.Context(), kafkatest.Unique("oauth"), "-records 10", append(environ, "ODRADEK_KAFKA_OAUTH_TOKEN_FILE="+secret)...)
	if code != exitOK {
		t.Errorf("token in a file: exit %d: %s", code, said)
	}
}

// TestRegistryOAuth: Apicurio Registry, which checks signature and issuer of tokens itself, takes a schema with a token of its issuer,
// and with none and with one of another issuer the command ends with the settings to check.
func TestRegistryOAuth(t *testing.T) {
	kafkatest.SkipAsked(t, "registry")
	i, other := newIssuer(t, time.Minute), newIssuer(t, time.Minute)
	r, err := kafkatest.StartRegistry(t.Context(), "QUARKUS_OIDC_TENANT_ENABLED=true", "QUARKUS_OIDC_AUTH_SERVER_URL="+i.URL,
		"APICURIO_AUTH_ANONYMOUS_READ_ACCESS_ENABLED=true")
	if err != nil {
		kafkatest.Missing(t, "registry", err)
	}
	t.Cleanup(r.Close)
	c := kafkatest.Fake(t, kafkatest.FakeOptions{})
	generate := func(environ ...string) (int, string) {
		term, _, errs := console(append(environ, "ODRADEK_KAFKA_BROKERS="+strings.Join(c.Brokers, ","), "ODRADEK_SCHEMA_REGISTRY_URL="+r.URL)...)
		code := term.generate(t.Context(), strings.Fields("-topic "+kafkatest.Unique("oauth")+" -partitions 1 -replication 1 -records 10"))
		return code, errs.String()
	}
	with := func(i *issuer) []string {
		return []string{"ODRADEK_SCHEMA_REGISTRY_OAUTH_TOKEN_URL=" + i.URL + "/token", "ODRADEK_SCHEMA_REGISTRY_OAUTH_CLIENT_ID=worker",
			"ODRADEK_SCHEMA_REGISTRY_OAUTH_CLIENT_SECRET=pw", "ODRADEK_SCHEMA_REGISTRY_OAUTH_AUDIENCE=registry"}
	}
	if code, said := generate(with(i)...); code != exitOK || i.issued.Load() == 0 {
		t.Errorf("exit %d with %d tokens: %s", code, i.issued.Load(), said)
	}
	for _, c := range []struct {
		name    string
		environ []string
		check   string
	}{{"none", nil, "ODRADEK_SCHEMA_REGISTRY_USERNAME"}, {"another issuer's", with(other), "ODRADEK_SCHEMA_REGISTRY_TOKEN"}} {
		if code, said := generate(c.environ...); code != exitFailed || !strings.Contains(said, c.check) {
			t.Errorf("token: %s: exit %d: %s", c.name, code, said)
		}
	}
}
