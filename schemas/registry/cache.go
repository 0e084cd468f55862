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
func (k *cache) scanned(key string, fetch func() (*schemas.Schema, error),
	fingerprints func(*schemas.Schema) []uint64) (*schemas.Schema, []uint64, error) {
	k.mu.Lock()
	done := k.seen[key]
	k.mu.Unlock()
	if done {
		return nil, nil, nil
	}
	s, err := fetch()
	if err != nil {
		return nil, nil, err
	}
	list := fingerprints(s)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seen[key] = true
	for _, crc := range list {
		k.schemas[fingerprintName(crc)] = s
	}
	return s, list, nil
}

// cached returns a schema from memory or disk, or fetches it. Callers at the same time for one
// name share a request.
func (k *cache) cached(ctx context.Context, name string, fetch func(context.Context) (*schemas.Schema, error)) (*schemas.Schema, error) {
	for {
		k.mu.Lock()
		if s, ok := k.schemas[name]; ok {
			k.mu.Unlock()
			k.hits.Add(1)
			return s, nil
		}
		if a, ok := k.absents[name]; ok && time.Now().Before(a.until) {
			k.mu.Unlock()
			k.hits.Add(1)
			return nil, a.err
		}
		f, waits := k.flights[name]
		if !waits {
			f = &flight{done: make(chan struct{})}
			k.flights[name] = f
		}
		k.mu.Unlock()

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

		f.schema, f.err = k.load(ctx, name, fetch)
		k.mu.Lock()
		delete(k.flights, name)
		switch {
		case f.err == nil:
			k.schemas[name] = f.schema
			delete(k.absents, name)
		case ctx.Err() != nil: // says nothing about the registry
		default:
			f.err = k.absent(name, f.err)
		}
		k.mu.Unlock()
		close(f.done)
		return f.schema, f.err
	}
}

// load asks the registry, and reads the disk when the registry is down or does not
// have the schema any more. The registry comes first because a new one at the same
// address gives old ids to other schemas.
func (k *cache) load(ctx context.Context, name string, fetch func(context.Context) (*schemas.Schema, error)) (*schemas.Schema, error) {
	kept := k.kept(name)
	if kept != nil && k.silent() {
		k.diskHits.Add(1)
		return kept, nil
	}
	s, err := fetch(ctx)
	switch {
	case err == nil:
		if k.disk != nil && (kept == nil || !reflect.DeepEqual(kept, s)) {
			b, _ := json.Marshal(s)
			_ = k.disk.put(name, b) // a full disk must not stop the worker; the next start fetches again
		}
	case kept != nil && ctx.Err() == nil:
		k.diskHits.Add(1)
		return kept, nil
	}
	return s, err
}

// kept returns the schema that the disk has under a name, or nil.
func (k *cache) kept(name string) *schemas.Schema {
	if k.disk == nil {
		return nil
	}
	b, ok := k.disk.get(name)
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
func (k *cache) remembered(subject, schemaJSON string, ask func() (int32, error)) (int32, error) {
	sum := sha256.Sum256([]byte(subject + "\x00" + schemaJSON))
	name := "registered-" + hex.EncodeToString(sum[:16])
	id, err := ask()
	if err == nil {
		if k.disk != nil {
			b, _ := json.Marshal(registered{id})
			_ = k.disk.put(name, b) // a full disk must not stop the worker; the next start asks again
		}
		return id, nil
	}
	var e *Error
	if k.disk != nil && errors.As(err, &e) && e.temporary() {
		if b, ok := k.disk.get(name); ok {
			var known registered
			if json.Unmarshal(b, &known) == nil && known.ID > 0 {
				k.diskHits.Add(1)
				return known.ID, nil
			}
		}
	}
	return 0, err
}
