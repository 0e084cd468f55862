package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"odradek/schemas"
)

// Config says where a schema registry of the Confluent REST API is.
type Config struct {
	// URLs are base addresses of one registry, tried in turn, with a path if it
	// has one, as "http://apicurio:8080/apis/ccompat/v7".
	URLs     []string
	Username string        // basic authentication, with Password
	Password func() string // asked for each request
	// Token returns a bearer token, in place of user name and password; asked for each request.
	Token   func(context.Context) (string, error)
	Headers map[string]string // further ones
	// Sign is set where the registry is AWS Glue, and signs its requests.
	Sign      Sign
	Transport *http.Transport // nil: http.DefaultTransport
	// CacheDir is the folder that keeps fetched schemas across restarts; "" for none. Several workers and registries
	// may share it. An unusable folder is no error: see CacheFault.
	CacheDir string
	Timeout  time.Duration // of one request; 0 means 5 s
	// Grace is for how long the registry must answer that it has no such schema until that is final; 0: the first answer is.
	Grace time.Duration
	// NegativeTTL is for how long a final answer that there is no such schema is cached; 0 means 10 s.
	NegativeTTL time.Duration
}

// Errors that callers distinguish.
var (
	// ErrUnknownSchema reports that the registry has no such schema.
	ErrUnknownSchema = errors.New("the registry has no such schema")
	// ErrIncompatible reports that the registry refused to register a schema.
	ErrIncompatible = errors.New("the schema is not compatible with the subject's earlier versions")
)

// Error is a request that failed.
type Error struct {
	Op     string // "schema id 7", for instance
	URL    string // without credentials
	Status int    // of HTTP, 0 where there was no answer
	Code   int    // the registry's own
	Glue   bool   // AWS Glue's
	Token  bool   // the request had a bearer token
	Err    error
}

func (e *Error) Error() string {
	s := fmt.Sprintf("registry: %s from the registry at %s: ", e.Op, e.URL)
	switch {
	case e.Glue && e.Status == http.StatusUnauthorized:
		return s + "it refuses the credentials that the AWS SDK finds: " + e.Err.Error()
	case e.Glue && e.Status == http.StatusForbidden:
		return s + "the role's policy does not allow glue:GetSchemaVersion: " + e.Err.Error()
	case e.Token && e.Status == http.StatusUnauthorized:
		return s + "it refuses the token: check schema_registry_token, or schema_registry_oauth_scope and schema_registry_oauth_audience: " +
			e.Err.Error()
	case e.Token && e.Status == http.StatusForbidden:
		return s + "the token of schema_registry_token or schema_registry_oauth_token_url does not allow this: " + e.Err.Error()
	}
	switch e.Status {
	case 0:
		return s + e.Err.Error() + " (is schema_registry_url right, and the registry up?)"
	case http.StatusUnauthorized:
		return s + "it refuses the credentials: check schema_registry_username and schema_registry_password: " +
			e.Err.Error()
	case http.StatusForbidden:
		return s + "the user of schema_registry_username is not allowed to do this: " + e.Err.Error()
	}
	return s + fmt.Sprintf("status %d: ", e.Status) + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// Stats are counters for metrics, since the start.
type Stats struct {
	Requests int64 // sent
	Failures int64 // without an answer, or with one of status 5xx, 401, 403 or 429
	Hits     int64 // answered from memory
	DiskHits int64 // answered from disk
	Up       bool  // the last request had an answer
}

// Client is a client of a schema registry. It caches what it has fetched, because an id,
// a GUID or a fingerprint always names the same schema. So an outage of the registry
// affects new schemas only. It is safe for use by several goroutines.
type Client struct {
	transport transport
	cache     *cache
	fault     error // of CacheDir
}

// Limits of the registry client.
const (
	maxReferences  = 64
	silentPause    = 10 * time.Second // how long the disk is used without a request, after one that got no answer
	maxAnswerBytes = 16 << 20
)

// New checks the configuration and opens the disk cache. It sends the registry no
// request. An error names the setting at fault.
func New(c Config) (*Client, error) {
	r := &Client{transport: transport{config: c}}
	var faults []error
	for _, u := range c.URLs {
		if u = strings.TrimSpace(u); u == "" {
			continue
		}
		p, err := url.Parse(u)
		if err != nil || p.Scheme != "http" && p.Scheme != "https" || p.Host == "" {
			faults = append(faults, fmt.Errorf("registry: schema_registry_url: %q is not an address like https://registry:8081",
				redact(u)))
			continue
		}
		if p.User != nil && c.Username != "" {
			faults = append(faults, errors.New(
				"registry: schema_registry_url has a user in it and schema_registry_username is set: give one"))
		}
		p.Path = strings.TrimRight(p.Path, "/")
		p.RawQuery, p.Fragment = "", ""
		r.transport.urls = append(r.transport.urls, p)
	}
	if len(r.transport.urls) == 0 && len(faults) == 0 {
		faults = append(faults, errors.New("registry: schema_registry_url is empty"))
	}
	if c.Username == "" && c.Password != nil {
		faults = append(faults, errors.New("registry: schema_registry_password without schema_registry_username"))
	}
	if c.Username != "" && c.Token != nil {
		faults = append(faults, errors.New("registry: schema_registry_username and schema_registry_token: give one"))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	if r.transport.config.Timeout <= 0 {
		r.transport.config.Timeout = 5 * time.Second
	}
	if r.transport.config.NegativeTTL <= 0 {
		r.transport.config.NegativeTTL = 10 * time.Second
	}
	r.cache = newCache(&r.transport.config, r.transport.silent)
	if c.CacheDir != "" {
		r.cache.disk, r.fault = openDiskCache(c.CacheDir, r.transport.urls)
	}
	t := c.Transport
	if t == nil {
		t = http.DefaultTransport.(*http.Transport).Clone()
	}
	r.transport.client = &http.Client{Transport: t}
	return r, nil
}

// CacheFault returns why CacheDir cannot be used, or cannot be written; nil
// where it can. The client works either way.
func (c *Client) CacheFault() error { return c.fault }

func redact(u string) string {
	if i := strings.LastIndexByte(u, '@'); i >= 0 {
		return u[i+1:]
	}
	return u
}

// Close drops idle connections.
func (c *Client) Close() {
	if c != nil {
		c.transport.client.CloseIdleConnections()
	}
}

// Stats returns the counters so far.
func (c *Client) Stats() Stats {
	return Stats{
		Requests: c.transport.requests.Load(), Failures: c.transport.failures.Load(),
		Hits: c.cache.hits.Load(), DiskHits: c.cache.diskHits.Load(), Up: c.transport.up.Load(),
	}
}

// errNoRegistry is the error of a record that needs a registry if none is configured.
var errNoRegistry = fmt.Errorf("%w: no registry is configured, set schema_registry_url", ErrUnknownSchema)

// SchemaByID returns the schema of an id, from memory, else from the registry, else
// from disk. The error is ErrUnknownSchema if the registry has none; any other
// error means that no answer came, and a later call may succeed.
func (c *Client) SchemaByID(ctx context.Context, id int32) (*schemas.Schema, error) {
	if c == nil {
		return nil, errNoRegistry
	}
	if c.Glue() {
		return nil, fmt.Errorf("schema id %d: %w", id, errGlue)
	}
	return c.cache.cached(ctx, "id-"+strconv.Itoa(int(id)), func(ctx context.Context) (*schemas.Schema, error) {
		s, err := c.transport.schema(ctx, fmt.Sprintf("schema id %d", id), "/schemas/ids/"+strconv.Itoa(int(id)))
		if err == nil {
			s.ID = id
		}
		return s, err
	})
}

// SchemaByGUID is SchemaByID for a GUID. The schema's ID is -1 if the registry does not return it.
func (c *Client) SchemaByGUID(ctx context.Context, guid [16]byte) (*schemas.Schema, error) {
	if c == nil {
		return nil, errNoRegistry
	}
	text := fmt.Sprintf("%x-%x-%x-%x-%x", guid[:4], guid[4:6], guid[6:8], guid[8:10], guid[10:])
	return c.cache.cached(ctx, "guid-"+text, func(ctx context.Context) (*schemas.Schema, error) {
		if c.Glue() {
			return c.transport.glueVersion(ctx, text)
		}
		s, err := c.transport.schema(ctx, "schema "+text, "/schemas/guids/"+text)
		var e *Error
		switch {
		case err == nil:
			s.GUID = text
		case errors.As(err, &e) && e.Status == http.StatusNotFound && c.Ping(ctx) == nil:
			// Apicurio has no such call. Anyone can write a GUID into a header, so
			// that must not stop a partition for ever.
			return nil, fmt.Errorf("schema %s: %w, or does not know GUIDs", text, ErrUnknownSchema)
		}
		return s, err
	})
}

// SchemaByFingerprint searches all versions of subjects for the schema of
// a CRC-64-AVRO fingerprint, with the errors of SchemaByID. fingerprints returns the fingerprints of a schema.
func (c *Client) SchemaByFingerprint(ctx context.Context, subjects []string, fingerprint uint64,
	fingerprints func(*schemas.Schema) []uint64) (*schemas.Schema, error) {
	if !c.HasIDs() || len(subjects) == 0 {
		return nil, fmt.Errorf("fingerprint %016x: %w: it is of none of the configured schemas", fingerprint, ErrUnknownSchema)
	}
	return c.cache.cached(ctx, fingerprintName(fingerprint), func(ctx context.Context) (*schemas.Schema, error) {
		for _, subject := range subjects {
			versions, err := c.Versions(ctx, subject)
			if err != nil && !errors.Is(err, ErrUnknownSchema) {
				return nil, err
			}
			for _, v := range slices.Backward(versions) { // the newest is the most likely one
				version := strconv.Itoa(v)
				s, list, err := c.cache.scanned(subject+"/"+version, func() (*schemas.Schema, error) {
					return c.transport.version(ctx, subject, version)
				}, fingerprints)
				if err != nil {
					return nil, err
				}
				if slices.Contains(list, fingerprint) {
					return s, nil
				}
			}
		}
		return nil, fmt.Errorf("fingerprint %016x: %w: no version of %s has it", fingerprint, ErrUnknownSchema, strings.Join(subjects, ", "))
	})
}

func fingerprintName(crc uint64) string { return fmt.Sprintf("crc-%016x", crc) }
