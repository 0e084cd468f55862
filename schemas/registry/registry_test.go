package registry

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"odradek/schemas"
	"odradek/schemas/output"
	"odradek/schemas/schematest"
)

func open(t *testing.T, c Config) *Client {
	t.Helper()
	if c.Timeout == 0 {
		c.Timeout = 2 * time.Second
	}
	r, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func TestRegistryConfig(t *testing.T) {
	for _, c := range []struct {
		c    Config
		want string
	}{
		{Config{}, "schema_registry_url is empty"},
		{Config{URLs: []string{"registry:8081"}}, "schema_registry_url"},
		{Config{URLs: []string{"http://u:secret@h", "ftp://u:secret@h"}}, "schema_registry_url"},
		{Config{URLs: []string{"http://u:p@h"}, Username: "u"}, "schema_registry_username"},
		{Config{URLs: []string{"http://h"}, Password: fixed("p")}, "schema_registry_password without"},
		{Config{URLs: []string{"http://h"}, Username: "u", Token: fixedToken("t")}, "schema_registry_token"},
	} {
		_, err := New(c.c)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v, want %q", c.c, err, c.want)
		}
	}
}

func TestRegistryFetchesOnce(t *testing.T) {
	f := schematest.NewRegistry(t)
	id := f.Register(t, "in-value", sr.Schema{Schema: schematest.PlantSchema})
	r := open(t, Config{URLs: []string{f.URL() + "/"}})
	f.Delay.Store(int64(50 * time.Millisecond))
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			s, err := r.SchemaByID(t.Context(), id)
			if err != nil || s.Text != schematest.PlantSchema || s.ID != id || s.Type != "AVRO" {
				t.Error(s, err)
			}
		})
	}
	wg.Wait()
	if n := f.Requests.Load(); n != 1 {
		t.Errorf("%d requests", n)
	}
	if s := r.Stats(); s.Requests != 1 || s.Failures != 0 || !s.Up {
		t.Errorf("%+v", s)
	}
}

// A caller that gives up does not fail those that wait for its request.
func TestRegistryCancelledLeader(t *testing.T) {
	f := schematest.NewRegistry(t)
	id := f.Register(t, "in-value", sr.Schema{Schema: schematest.PlantSchema})
	r := open(t, Config{URLs: []string{f.URL()}})
	f.Delay.Store(int64(100 * time.Millisecond))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := r.SchemaByID(ctx, id); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	time.Sleep(20 * time.Millisecond)
	wg.Go(func() {
		if _, err := r.SchemaByID(t.Context(), id); err != nil {
			t.Error(err)
		}
	})
	time.Sleep(20 * time.Millisecond)
	cancel()
	wg.Wait()
}

func TestRegistryDiskCache(t *testing.T) {
	f := schematest.NewRegistry(t)
	id := f.Register(t, "in-value", sr.Schema{Schema: schematest.PlantSchema})
	dir := t.TempDir()
	c := Config{URLs: []string{f.URL()}, CacheDir: dir}
	first := open(t, c)
	if _, err := first.SchemaByID(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	out, err := first.Register(t.Context(), "scores-value", output.ScoreSchema)
	if err != nil || out <= 0 {
		t.Fatal(out, err)
	}

	f.Status.Store(503)
	again := open(t, c)
	if s, err := again.SchemaByID(t.Context(), id); err != nil || s.Text != schematest.PlantSchema || s.ID != id ||
		again.Stats().DiskHits != 1 {
		t.Error(s, err, again.Stats())
	}
	if got, err := again.Register(t.Context(), "scores-value", output.ScoreSchema); err != nil || got != out {
		t.Error(got, err)
	}
	if _, err := again.Register(t.Context(), "other-value", output.ScoreSchema); err == nil {
		t.Error("registered in an outage")
	}
	if _, err := again.SchemaByID(t.Context(), id+100); err == nil || errors.Is(err, ErrUnknownSchema) {
		t.Error(err)
	}

	// Torn, empty, of another make: as if they were not there.
	files, _ := filepath.Glob(filepath.Join(dir, "*", "id-*"))
	if len(files) != 1 {
		t.Fatal(files)
	}
	whole, _ := os.ReadFile(files[0])
	for cut := 0; cut <= len(whole); cut++ {
		b := append([]byte(nil), whole[:cut]...)
		if cut == len(whole) {
			b[cut/2] ^= 1
		}
		if _, ok := openDiskFile(b); ok {
			t.Errorf("accepted %d of %d bytes", cut, len(whole))
		}
	}
	if err := os.WriteFile(files[0], whole[:len(whole)/2], 0o644); err != nil {
		t.Fatal(err)
	}
	torn := open(t, c)
	if _, err := torn.SchemaByID(t.Context(), id); err == nil {
		t.Error("no error in an outage with a torn file")
	}
	f.Status.Store(0)
	time.Sleep(outagePause)
	if s, err := torn.SchemaByID(t.Context(), id); err != nil || s.Text != schematest.PlantSchema {
		t.Error(err)
	}
	if b, _ := os.ReadFile(files[0]); !bytes.Equal(b, whole) {
		t.Error("the file was not written anew")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*", ".new-*")); len(left) != 0 {
		t.Error(left)
	}

	// Another registry's ids are others.
	other := open(t, Config{URLs: []string{schematest.Closed}, CacheDir: dir})
	if _, err := other.SchemaByID(t.Context(), id); err == nil {
		t.Error("an id of another registry")
	}
}

// A registry that was set up anew at the same address gives old ids to other
// schemas: what it says counts, and the disk stands in only when it says nothing.
func TestRegistryBeforeDisk(t *testing.T) {
	var text atomic.Pointer[string]
	requests := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests++
		switch s := text.Load(); {
		case s == nil:
			w.WriteHeader(http.StatusServiceUnavailable)
		case *s == "":
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"error_code":40403,"message":"Schema not found"}`))
		default:
			_, _ = w.Write([]byte(`{"schema":` + strconv.Quote(*s) + `}`))
		}
	}))
	defer srv.Close()
	c := Config{URLs: []string{srv.URL}, CacheDir: t.TempDir()}
	gone, one, two := "", schematest.PlantSchema, schematest.SensorSchema
	for i, x := range []struct{ says, want *string }{{&one, &one}, {nil, &one}, {&gone, &one}, {&two, &two}, {nil, &two}} {
		text.Store(x.says)
		s, err := open(t, c).SchemaByID(t.Context(), 1)
		if err != nil || s.Text != *x.want {
			t.Errorf("round %d: %v %v", i, s, err)
		}
	}
	// In an outage one request shows it for all that the disk has.
	r := open(t, c)
	for id := range int32(3) {
		name := fmt.Sprintf("id-%d", id)
		if err := r.cache.disk.put(name, []byte(`{"ID":`+strconv.Itoa(int(id))+`,"JSON":"\"int\""}`)); err != nil {
			t.Fatal(err)
		}
	}
	requests = 0
	for id := range int32(3) {
		if s, err := r.SchemaByID(t.Context(), id); err != nil || s.Text != `"int"` {
			t.Error(s, err)
		}
	}
	if requests != 1 || r.Stats().DiskHits != 3 {
		t.Errorf("%d requests, %+v", requests, r.Stats())
	}
}

// A cache that cannot be used is said and done without.
func TestRegistryCacheFault(t *testing.T) {
	f := schematest.NewRegistry(t)
	id := f.Register(t, "in-value", sr.Schema{Schema: schematest.PlantSchema})
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	r := open(t, Config{URLs: []string{f.URL()}, CacheDir: filepath.Join(file, "x")})
	if err := r.CacheFault(); err == nil || !strings.Contains(err.Error(), "schema_registry_cache_dir") {
		t.Error(err)
	}
	if _, err := r.SchemaByID(t.Context(), id); err != nil {
		t.Error(err)
	}
	// Readable and no more; root may write everywhere, so a folder stands in the way.
	c := Config{URLs: []string{f.URL()}, CacheDir: t.TempDir()}
	r = open(t, c)
	if _, err := r.SchemaByID(t.Context(), id); err != nil || r.CacheFault() != nil {
		t.Fatal(err, r.CacheFault())
	}
	probe := r.cache.disk.path("probe")
	if err := errors.Join(os.Remove(probe), os.MkdirAll(filepath.Join(probe, "x"), 0o755)); err != nil {
		t.Fatal(err)
	}
	f.Status.Store(503)
	r = open(t, c)
	if s, err := r.SchemaByID(t.Context(), id); err != nil || s.Text != schematest.PlantSchema || r.CacheFault() == nil {
		t.Error(s, err, r.CacheFault())
	}
}

func TestRegistryAuth(t *testing.T) {
	basic := "Basic " + "dXNlcjpwYXNz" // user:pass
	f := schematest.NewRegistry(t, srfake.WithAuth(basic))
	with := strings.Replace(f.URL(), "http://", "http://user:pass@", 1)
	for _, c := range []struct {
		c    Config
		want string
	}{
		{Config{URLs: []string{f.URL()}, Username: "user", Password: fixed("pass")}, ""},
		{Config{URLs: []string{with}}, ""},
		{Config{URLs: []string{f.URL()}, Username: "user", Password: fixed("word")}, "schema_registry_username"},
		{Config{URLs: []string{f.URL()}}, "schema_registry_username"},
		{Config{URLs: []string{strings.Replace(with, ":pass", ":secret", 1)}}, "schema_registry_username"},
	} {
		err := open(t, c.c).Ping(t.Context())
		if c.want == "" && err != nil || c.want != "" &&
			(err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%+v: %v, want %q", c.c, err, c.want)
		}
	}
	token := schematest.NewRegistry(t, srfake.WithAuth("Bearer abc"))
	if err := open(t, Config{URLs: []string{token.URL()}, Token: fixedToken("abc")}).Ping(t.Context()); err != nil {
		t.Error(err)
	}
	err := open(t, Config{URLs: []string{token.URL()}, Token: fixedToken("ab")}).Ping(t.Context())
	if err == nil || !strings.Contains(err.Error(), "schema_registry_token") {
		t.Error(err)
	}
}

func TestRegistryTLS(t *testing.T) {
	f := srfake.NewRegistry()
	s := httptest.NewUnstartedServer(f.Handler())
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of the handshake that is to fail
	s.StartTLS()
	defer s.Close()
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	trusting := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	if err := open(t, Config{URLs: []string{s.URL}, Transport: trusting}).Ping(t.Context()); err != nil {
		t.Error(err)
	}
	err := open(t, Config{URLs: []string{s.URL}}).Ping(t.Context())
	if err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Error(err)
	}
}

// A registry without the call for GUIDs, as Apicurio, condemns a record that
// has one; an address that is no registry at all does not.
func TestRegistryWithoutGUIDs(t *testing.T) {
	f := schematest.NewRegistry(t)
	f.Intercept(func(w http.ResponseWriter, req *http.Request) bool {
		if !strings.HasPrefix(req.URL.Path, "/schemas/guids/") {
			return false
		}
		w.WriteHeader(http.StatusNotFound)
		return true
	})
	r := open(t, Config{URLs: []string{f.URL()}})
	if _, err := r.SchemaByGUID(t.Context(), [16]byte{1}); !errors.Is(err, ErrUnknownSchema) {
		t.Error(err)
	}
	f.Status.Store(404)
	if _, err := r.SchemaByGUID(t.Context(), [16]byte{2}); err == nil || errors.Is(err, ErrUnknownSchema) {
		t.Error(err)
	}
}

func TestRegistrySubjects(t *testing.T) {
	f := schematest.NewRegistry(t)
	r := open(t, Config{URLs: []string{f.URL()}})
	ctx := t.Context()
	if _, err := r.Latest(ctx, "scores-value"); !errors.Is(err, ErrUnknownSchema) {
		t.Error(err)
	}
	if _, err := r.Lookup(ctx, "scores-value", output.ScoreSchema); !errors.Is(err, ErrUnknownSchema) {
		t.Error(err)
	}
	if ok, _, err := r.Compatible(ctx, schemas.Subject("scores"), output.ScoreSchema); !ok || err != nil {
		t.Error(ok, err)
	}
	id, err := r.Register(ctx, schemas.Subject("scores"), output.ScoreSchema)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := r.Register(ctx, "scores-value", output.ScoreSchema); err != nil || again != id {
		t.Error(again, err)
	}
	if found, err := r.Lookup(ctx, "scores-value", output.ScoreSchema); err != nil || found != id {
		t.Error(found, err)
	}
	s, err := r.Latest(ctx, "scores-value")
	if err != nil || s.ID != id || s.Version != 1 || s.Subject != "scores-value" {
		t.Error(s, err)
	}
	if v, err := r.Versions(ctx, "scores-value"); err != nil || len(v) != 1 {
		t.Error(v, err)
	}
	if _, err := r.Register(ctx, "a/b c-value", output.ReadingSchema); err != nil {
		t.Error(err)
	}
	f.Intercept(func(w http.ResponseWriter, req *http.Request) bool {
		if req.Method != http.MethodPost {
			return false
		}
		w.WriteHeader(http.StatusConflict)
		w.Write([]byte(`{"error_code":409,"message":"READER_FIELD_MISSING_DEFAULT_VALUE"}`))
		return true
	})
	if _, err := r.Register(ctx, "scores-value", schematest.PlantSchema); !errors.Is(err, ErrIncompatible) ||
		!strings.Contains(err.Error(), "READER_FIELD") {
		t.Error(err)
	}
	f.ClearInterceptors()
	// Not a registry at all.
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("<html>")) }))
	defer page.Close()
	if err := open(t, Config{URLs: []string{page.URL}}).Ping(ctx); err == nil || !strings.Contains(err.Error(),
		"schema_registry_url") {
		t.Error(err)
	}
}

func FuzzDiskFile(f *testing.F) {
	c := &diskCache{f.TempDir()}
	if err := c.put("x", []byte(`{"JSON":"\"int\""}`)); err != nil {
		f.Fatal(err)
	}
	if b, ok := c.get("x"); !ok || string(b) != `{"JSON":"\"int\""}` {
		f.Fatal(string(b))
	}
	f.Add([]byte(diskHeader + "00000000\n"))
	f.Add([]byte("odradek"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if body, ok := openDiskFile(b); ok && len(body) >= len(b) {
			t.Fatal(len(body))
		}
	})
}

// fixed and fixedToken are credentials that do not change.
func fixed(password string) func() string { return func() string { return password } }

func fixedToken(token string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return token, nil }
}

// TestRegistryHeaders: the headers of the configuration and a token that is asked for anew go with each request.
func TestRegistryHeaders(t *testing.T) {
	var seen []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Header.Get("Authorization")+" "+r.Header.Get("target-sr-cluster"))
		fmt.Fprint(w, "[]")
	}))
	defer s.Close()
	n := 0
	c := open(t, Config{URLs: []string{s.URL}, Headers: map[string]string{"target-sr-cluster": "lsrc-1"},
		Token: func(context.Context) (string, error) { n++; return fmt.Sprint("t", n), nil }})
	for range 2 {
		if err := c.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"Bearer t1 lsrc-1", "Bearer t2 lsrc-1"}; !slices.Equal(seen, want) {
		t.Errorf("%q, want %q", seen, want)
	}
}
