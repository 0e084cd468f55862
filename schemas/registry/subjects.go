package registry

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"odradek/schemas"
)

// registered is the content of the disk cache for a registration.
type registered struct{ ID int32 }

// Register registers an Avro schema under a subject and returns its id, which is
// the old one if the subject has that schema already. In an outage it returns the id from the
// disk cache, of an earlier process for the same subject and schema. It returns
// ErrIncompatible if the subject's compatibility rule forbids the schema.
func (r *Client) Register(ctx context.Context, subject, schemaJSON string) (int32, error) {
	return r.RegisterAs(ctx, subject, "AVRO", schemaJSON)
}

// RegisterAs registers a schema of a type, as schemas.Format names it, like Register.
func (r *Client) RegisterAs(ctx context.Context, subject, schemaType, text string) (int32, error) {
	return r.remembered(subject, text, func() (int32, error) {
		var a struct{ ID int32 }
		err := r.call(ctx, fmt.Sprintf("registering subject %q", subject), http.MethodPost,
			"/subjects/"+url.PathEscape(subject)+"/versions", schemaBody(schemaType, text), &a)
		return a.ID, err
	})
}

// Lookup returns the id of a schema that is registered under a subject, and ErrUnknownSchema if it
// is not. It serves registries that forbid registration to workers.
func (r *Client) Lookup(ctx context.Context, subject, schemaJSON string) (int32, error) {
	return r.remembered(subject, schemaJSON, func() (int32, error) {
		var a answer
		err := r.call(ctx, fmt.Sprintf("looking up subject %q", subject), http.MethodPost,
			"/subjects/"+url.PathEscape(subject), schemaBody("AVRO", schemaJSON), &a)
		return a.ID, err
	})
}

func (r *Client) remembered(subject, schemaJSON string, ask func() (int32, error)) (int32, error) {
	sum := sha256.Sum256([]byte(subject + "\x00" + schemaJSON))
	name := "registered-" + hex.EncodeToString(sum[:16])
	id, err := ask()
	if err == nil {
		if r.disk != nil {
			b, _ := json.Marshal(registered{id})
			_ = r.disk.put(name, b) // a full disk must not stop the worker; the next start asks again
		}
		return id, nil
	}
	var e *Error
	if r.disk != nil && errors.As(err, &e) && e.temporary() {
		if b, ok := r.disk.get(name); ok {
			var known registered
			if json.Unmarshal(b, &known) == nil && known.ID > 0 {
				r.diskHits.Add(1)
				return known.ID, nil
			}
		}
	}
	return 0, err
}

// schemaBody leaves out the type of an Avro schema, which is the default.
func schemaBody(schemaType, text string) any {
	if schemaType == "AVRO" {
		schemaType = ""
	}
	return struct {
		Schema string `json:"schema"`
		Type   string `json:"schemaType,omitempty"`
	}{text, schemaType}
}

// Latest returns the newest version of a subject. It is not cached.
func (r *Client) Latest(ctx context.Context, subject string) (*schemas.Schema, error) {
	return r.version(ctx, subject, "latest")
}

func (r *Client) version(ctx context.Context, subject, version string) (*schemas.Schema, error) {
	return r.schema(ctx, fmt.Sprintf("subject %q version %s", subject, version),
		"/subjects/"+url.PathEscape(subject)+"/versions/"+version)
}

// Versions returns the versions of a subject, ascending.
func (r *Client) Versions(ctx context.Context, subject string) ([]int, error) {
	var versions []int
	err := r.call(ctx, fmt.Sprintf("versions of subject %q", subject), http.MethodGet,
		"/subjects/"+url.PathEscape(subject)+"/versions", nil, &versions)
	return versions, err
}

// Compatible reports whether a schema could be registered under a subject, without
// registering it, and if not, why. A subject that does not exist takes any.
func (r *Client) Compatible(ctx context.Context, subject, schemaJSON string) (ok bool, reasons []string, err error) {
	var a struct {
		OK       bool     `json:"is_compatible"`
		Messages []string `json:"messages"`
	}
	err = r.call(ctx, fmt.Sprintf("compatibility with subject %q", subject), http.MethodPost,
		"/compatibility/subjects/"+url.PathEscape(subject)+"/versions/latest?verbose=true", schemaBody("AVRO", schemaJSON), &a)
	if errors.Is(err, ErrUnknownSchema) {
		return true, nil, nil
	}
	return a.OK, a.Messages, err
}

// Ping makes sure that the registry can be reached with these credentials.
func (r *Client) Ping(ctx context.Context) error {
	var subjects []string
	return r.call(ctx, "subjects", http.MethodGet, "/subjects", nil, &subjects)
}

// temporary reports whether the same request may succeed later or elsewhere.
func (e *Error) temporary() bool {
	return e.Status == 0 || e.Status >= 500 || e.Status == http.StatusTooManyRequests || e.Status == http.StatusRequestTimeout
}

// call sends one request to the registry's addresses in turn, the one that
// answered last first, until one gives an answer that another would not change. What
// does not exist has to be unknown to all that answer.
func (r *Client) call(ctx context.Context, op, method, path string, body, into any) error {
	if r == nil {
		return errNoRegistry
	}
	var sent []byte
	if body != nil {
		sent, _ = json.Marshal(body)
	}
	first := int(r.first.Load())
	var last error
	var absent *Error
	for i := range r.urls {
		k := (first + i) % len(r.urls)
		err := r.send(ctx, r.urls[k], op, method, path, sent, into)
		if method == http.MethodGet && err != nil && errors.Is(err, ErrUnknownSchema) {
			absent = err // of a replica that lags, perhaps
			continue
		}
		if err == nil || !err.temporary() {
			r.first.Store(int32(k))
			r.silentUntil.Store(0)
			if err == nil {
				return nil
			}
			return err
		}
		last = err
		if ctx.Err() != nil {
			return last
		}
	}
	r.silentUntil.Store(time.Now().Add(silentPause).UnixNano())
	if absent != nil {
		return absent
	}
	return last
}

func (r *Client) send(ctx context.Context, base *url.URL, op, method, path string, body []byte, into any) *Error {
	shown := *base
	shown.User = nil
	fail := func(status int, err error) *Error {
		r.failures.Add(1)
		return &Error{Op: op, URL: shown.String(), Status: status, Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, r.config.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, shown.String()+path, bytes.NewReader(body))
	if err != nil {
		return fail(0, err)
	}
	req.Header.Set("Accept", "application/vnd.schemaregistry.v1+json, application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/vnd.schemaregistry.v1+json")
	}
	switch {
	case r.config.BearerToken != "":
		req.Header.Set("Authorization", "Bearer "+r.config.BearerToken)
	case r.config.Username != "":
		req.SetBasicAuth(r.config.Username, r.config.Password)
	case base.User != nil:
		password, _ := base.User.Password()
		req.SetBasicAuth(base.User.Username(), password)
	}
	r.requests.Add(1)
	resp, err := r.client.Do(req)
	if err != nil {
		r.up.Store(false)
		var inner *url.Error // its text repeats method and address
		if errors.As(err, &inner) {
			err = inner.Err
		}
		return fail(0, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes+1))
	if err == nil && len(b) > maxAnswerBytes {
		err = fmt.Errorf("an answer of more than %d bytes", maxAnswerBytes)
	}
	if err != nil {
		r.up.Store(false)
		return fail(0, err)
	}
	r.up.Store(true)
	if resp.StatusCode == http.StatusOK {
		if err := json.Unmarshal(b, into); err != nil {
			return fail(http.StatusOK, fmt.Errorf("the answer is not a registry's: %w (does ODRADEK_SCHEMA_REGISTRY_URL lack a path?)", err))
		}
		return nil
	}
	var said struct {
		Code    int    `json:"error_code"`
		Message string `json:"message"`
	}
	isJSON := json.Unmarshal(b, &said) == nil && said.Code != 0
	if said.Message == "" {
		said.Message = strings.TrimSpace(string(b[:min(len(b), 200)]))
	}
	e := &Error{Op: op, URL: shown.String(), Status: resp.StatusCode, Code: said.Code, Err: errors.New(said.Message)}
	switch {
	case isJSON && (resp.StatusCode == http.StatusNotFound ||
		method == http.MethodGet && (resp.StatusCode == http.StatusBadRequest || resp.StatusCode == http.StatusUnprocessableEntity)):
		e.Err = fmt.Errorf("%w: %s", ErrUnknownSchema, said.Message)
	case resp.StatusCode == http.StatusNotFound:
		// A proxy or a wrong path: nothing is known about the schema.
		e.Err = errors.New("the registry does not support this call; does ODRADEK_SCHEMA_REGISTRY_URL lack a path? " +
			strconv.Quote(said.Message))
		r.failures.Add(1)
	case resp.StatusCode == http.StatusConflict:
		e.Err = fmt.Errorf("%w: %s", ErrIncompatible, said.Message)
	case e.temporary() || resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		r.failures.Add(1)
	}
	return e
}
