package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"odradek/schemas"
)

// transport sends requests to the addresses of a registry.
type transport struct {
	config Config
	urls   []*url.URL
	client *http.Client
	first  atomic.Int32 // index of the address that answered last

	requests, failures atomic.Int64
	up                 atomic.Bool
	silentUntil        atomic.Int64 // unix ns; see silentPause
}

// silent reports whether no address has answered shortly before.
func (t *transport) silent() bool { return time.Now().UnixNano() < t.silentUntil.Load() }

// temporary reports whether the same request may succeed later or elsewhere.
func (e *Error) temporary() bool {
	return e.Status == 0 || e.Status >= 500 || e.Status == http.StatusTooManyRequests || e.Status == http.StatusRequestTimeout
}

// call sends one request to the registry's addresses in turn, the one that
// answered last first, until one gives an answer that another would not change. What
// does not exist has to be unknown to all that answer.
func (t *transport) call(ctx context.Context, op, method, path string, body, into any) error {
	var sent []byte
	if body != nil {
		sent, _ = json.Marshal(body)
	}
	first := int(t.first.Load())
	var last error
	var absent *Error
	for i := range t.urls {
		k := (first + i) % len(t.urls)
		err := t.send(ctx, t.urls[k], op, method, path, sent, into)
		if (method == http.MethodGet || t.config.Sign != nil) && err != nil && errors.Is(err, ErrUnknownSchema) {
			absent = err // of a replica that lags, perhaps
			continue
		}
		if err == nil || !err.temporary() {
			t.first.Store(int32(k))
			t.silentUntil.Store(0)
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
	t.silentUntil.Store(time.Now().Add(silentPause).UnixNano())
	if absent != nil {
		return absent
	}
	return last
}

func (t *transport) send(ctx context.Context, base *url.URL, op, method, path string, body []byte, into any) *Error {
	shown := *base
	shown.User = nil
	fail := func(status int, err error) *Error {
		t.failures.Add(1)
		return &Error{Op: op, URL: shown.String(), Status: status, Glue: t.config.Sign != nil, Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, t.config.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, shown.String()+path, bytes.NewReader(body))
	if err != nil {
		return fail(0, err)
	}
	req.Header.Set("Accept", "application/vnd.schemaregistry.v1+json, application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/vnd.schemaregistry.v1+json")
	}
	for name, value := range t.config.Headers {
		req.Header.Set(name, value)
	}
	switch {
	case t.config.Sign != nil:
		if err := t.signed(ctx, req, body); err != nil {
			return fail(0, err)
		}
	case t.config.Token != nil:
		token, err := t.config.Token(ctx)
		if err != nil {
			return fail(0, err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
	case t.config.Username != "":
		password := ""
		if t.config.Password != nil {
			password = t.config.Password()
		}
		req.SetBasicAuth(t.config.Username, password)
	case base.User != nil:
		password, _ := base.User.Password()
		req.SetBasicAuth(base.User.Username(), password)
	}
	t.requests.Add(1)
	resp, err := t.client.Do(req)
	if err != nil {
		t.up.Store(false)
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
		t.up.Store(false)
		return fail(0, err)
	}
	t.up.Store(true)
	if resp.StatusCode == http.StatusOK {
		if err := json.Unmarshal(b, into); err != nil {
			return fail(http.StatusOK, fmt.Errorf("the answer is not a registry's: %w (does schema_registry_url lack a path?)", err))
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
	e := &Error{Op: op, URL: shown.String(), Status: resp.StatusCode, Code: said.Code, Token: t.config.Token != nil,
		Err: errors.New(said.Message)}
	if t.config.Sign != nil {
		if glueError(e, b); e.temporary() || e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden {
			t.failures.Add(1)
		}
		return e
	}
	switch {
	case isJSON && (resp.StatusCode == http.StatusNotFound ||
		method == http.MethodGet && (resp.StatusCode == http.StatusBadRequest || resp.StatusCode == http.StatusUnprocessableEntity)):
		e.Err = fmt.Errorf("%w: %s", ErrUnknownSchema, said.Message)
	case resp.StatusCode == http.StatusNotFound:
		// A proxy or a wrong path: nothing is known about the schema.
		e.Err = errors.New("the registry does not support this call; does schema_registry_url lack a path? " +
			strconv.Quote(said.Message))
		t.failures.Add(1)
	case resp.StatusCode == http.StatusConflict:
		e.Err = fmt.Errorf("%w: %s", ErrIncompatible, said.Message)
	case e.temporary() || resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		t.failures.Add(1)
	}
	return e
}

// version fetches a version of a subject, or "latest".
func (t *transport) version(ctx context.Context, subject, version string) (*schemas.Schema, error) {
	return t.schema(ctx, fmt.Sprintf("subject %q version %s", subject, version),
		"/subjects/"+url.PathEscape(subject)+"/versions/"+version)
}

// answer is what the registry sends for a schema.
type answer struct {
	Subject    string      `json:"subject"`
	Version    int         `json:"version"`
	ID         int32       `json:"id"`
	GUID       string      `json:"guid"`
	SchemaType string      `json:"schemaType"`
	Schema     string      `json:"schema"`
	References []reference `json:"references"`
}

type reference struct {
	Name    string `json:"name"`
	Subject string `json:"subject"`
	Version int    `json:"version"`
}

// schema fetches a schema and those that it refers to.
func (t *transport) schema(ctx context.Context, op, path string) (*schemas.Schema, error) {
	a := answer{ID: -1}
	if err := t.call(ctx, op, http.MethodGet, path, nil, &a); err != nil {
		return nil, err
	}
	s := &schemas.Schema{ID: a.ID, GUID: a.GUID, Subject: a.Subject, Version: a.Version, Type: a.SchemaType, Text: a.Schema}
	if s.Type == "" {
		s.Type = "AVRO"
	}
	if s.Text == "" {
		return nil, &Error{Op: op, URL: redact(t.urls[0].String()), Status: http.StatusOK, Err: errors.New(
			"the answer has no schema in it")}
	}
	c := &referenceCollector{transport: t, op: op, seen: map[string]bool{}}
	if err := c.add(ctx, a.References); err != nil {
		return nil, err
	}
	s.References = c.found
	return s, nil
}

// referenceCollector gathers the schemas that one refers to, each after those
// that it refers to itself.
type referenceCollector struct {
	transport *transport
	op        string
	seen      map[string]bool
	found     []schemas.Reference
}

func (c *referenceCollector) add(ctx context.Context, refs []reference) error {
	for _, ref := range refs {
		key := fmt.Sprintf("%s/%d", ref.Subject, ref.Version)
		if c.seen[key] {
			continue
		}
		c.seen[key] = true
		if len(c.seen) > maxReferences {
			return &Error{Op: c.op, URL: redact(c.transport.urls[0].String()), Status: http.StatusOK, Err: fmt.Errorf(
				"it refers to more than %d schemas", maxReferences)}
		}
		var a answer
		path := "/subjects/" + url.PathEscape(ref.Subject) + "/versions/" + strconv.Itoa(ref.Version)
		if err := c.transport.call(ctx, c.op+", reference "+ref.Name, http.MethodGet, path, nil, &a); err != nil {
			return err
		}
		if err := c.add(ctx, a.References); err != nil {
			return err
		}
		c.found = append(c.found, schemas.Reference{Name: ref.Name, Text: a.Schema})
	}
	return nil
}
