package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"odradek/schemas"
)

// cache has the schemas that were fetched, in memory and on disk, and for a while the answers that there is none.
type cache struct {
	disk        *diskCache    // nil: none
	grace       time.Duration // Config.Grace
	negativeTTL time.Duration // Config.NegativeTTL
	silent      func() bool   // the registry has not answered shortly before

	hits, diskHits atomic.Int64

	mu      sync.Mutex
	schemas map[string]*schemas.Schema // by "id-7", "guid-...", "crc-..."
	absents map[string]absence
	flights map[string]*flight
	seen    map[string]bool // "subject/version" whose fingerprints are in schemas
}

func newCache(c *Config, silent func() bool) *cache {
	return &cache{grace: c.Grace, negativeTTL: c.NegativeTTL, silent: silent, schemas: map[string]*schemas.Schema{},
		absents: map[string]absence{}, flights: map[string]*flight{}, seen: map[string]bool{}}
}

// flight is a request in progress, for which other callers with the same name wait.
type flight struct {
	done   chan struct{}
	schema *schemas.Schema
	err    error
}

// scanned returns a version of a subject and its fingerprints, and caches it under these, so that a version is fetched once
// however many fingerprints are searched for: after that it returns none.
func (c *cache) scanned(key string, fetch func() (*schemas.Schema, error),
	fingerprints func(*schemas.Schema) []uint64) (*schemas.Schema, []uint64, error) {
	c.mu.Lock()
	done := c.seen[key]
	c.mu.Unlock()
	if done {
		return nil, nil, nil
	}
	s, err := fetch()
	if err != nil {
		return nil, nil, err
	}
	list := fingerprints(s)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[key] = true
	for _, crc := range list {
		c.schemas[fingerprintName(crc)] = s
	}
	return s, list, nil
}

// cached returns a schema from memory or disk, or fetches it. Callers at the same time for one
// name share a request.
func (c *cache) cached(ctx context.Context, name string, fetch func(context.Context) (*schemas.Schema, error)) (*schemas.Schema, error) {
	for {
		c.mu.Lock()
		if s, ok := c.schemas[name]; ok {
			c.mu.Unlock()
			c.hits.Add(1)
			return s, nil
		}
		if a, ok := c.absents[name]; ok && time.Now().Before(a.until) {
			c.mu.Unlock()
			c.hits.Add(1)
			return nil, a.err
		}
		f, waits := c.flights[name]
		if !waits {
			f = &flight{done: make(chan struct{})}
			c.flights[name] = f
		}
		c.mu.Unlock()

		if waits {
			select {
			case <-f.done:
			case <-ctx.Done():
				return nil, fmt.Errorf("registry: waiting for the registry: %w", ctx.Err())
			}
			// The caller whose request was shared may have been cancelled; then this one asks again.
			if f.err != nil && (errors.Is(f.err, context.Canceled) || errors.Is(f.err, context.DeadlineExceeded)) && ctx.Err() == nil {
				continue
			}
			return f.schema, f.err
		}

		f.schema, f.err = c.load(ctx, name, fetch)
		c.mu.Lock()
		delete(c.flights, name)
		switch {
		case f.err == nil:
			c.schemas[name] = f.schema
			delete(c.absents, name)
		case ctx.Err() != nil: // says nothing about the registry
		default:
			f.err = c.absent(name, f.err)
		}
		c.mu.Unlock()
		close(f.done)
		return f.schema, f.err
	}
}

// load asks the registry, and reads the disk when the registry is down or does not
// have the schema any more. The registry comes first because a new one at the same
// address gives old ids to other schemas.
func (c *cache) load(ctx context.Context, name string, fetch func(context.Context) (*schemas.Schema, error)) (*schemas.Schema, error) {
	kept := c.kept(name)
	if kept != nil && c.silent() {
		c.diskHits.Add(1)
		return kept, nil
	}
	s, err := fetch(ctx)
	switch {
	case err == nil:
		if c.disk != nil && (kept == nil || !reflect.DeepEqual(kept, s)) {
			b, _ := json.Marshal(s)
			_ = c.disk.put(name, b) // a full disk must not stop the worker; the next start fetches again
		}
	case kept != nil && ctx.Err() == nil:
		c.diskHits.Add(1)
		return kept, nil
	}
	return s, err
}

// kept returns the schema that the disk has under a name, or nil.
func (c *cache) kept(name string) *schemas.Schema {
	if c.disk == nil {
		return nil
	}
	b, ok := c.disk.get(name)
	s := &schemas.Schema{}
	if !ok || json.Unmarshal(b, s) != nil || s.Text == "" {
		return nil
	}
	return s
}

// registered is the content of the disk cache for a registration.
type registered struct{ ID int32 }

// remembered returns the id that ask returns. Where the registry does not answer it returns the one that it returned for
// the same schema before.
func (c *cache) remembered(subject, schemaJSON string, ask func() (int32, error)) (int32, error) {
	sum := sha256.Sum256([]byte(subject + "\x00" + schemaJSON))
	name := "registered-" + hex.EncodeToString(sum[:16])
	id, err := ask()
	if err == nil {
		if c.disk != nil {
			b, _ := json.Marshal(registered{id})
			_ = c.disk.put(name, b) // a full disk must not stop the worker; the next start asks again
		}
		return id, nil
	}
	var e *Error
	if c.disk != nil && errors.As(err, &e) && e.temporary() {
		if b, ok := c.disk.get(name); ok {
			var known registered
			if json.Unmarshal(b, &known) == nil && known.ID > 0 {
				c.diskHits.Add(1)
				return known.ID, nil
			}
		}
	}
	return 0, err
}
