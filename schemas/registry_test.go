package schemas

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"
)

// faulty wraps a registry's handler: while status is set, it answers that.
type faulty struct {
	*srfake.Registry
	status   atomic.Int32
	requests atomic.Int64
	delay    atomic.Int64
}

func newFaulty(t *testing.T, opts ...srfake.Option) *faulty {
	f := &faulty{Registry: srfake.New(opts...)}
	t.Cleanup(f.Close)
	f.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		f.requests.Add(1)
		time.Sleep(time.Duration(f.delay.Load()))
		if s := f.status.Load(); s != 0 {
			http.Error(w, "out of order", int(s))
			return true
		}
		return false
	})
	return f
}

func (f *faulty) register(t *testing.T, subject string, s sr.Schema) int32 {
	t.Helper()
	id, _, err := f.RegisterSchema(subject, s)
	if err != nil {
		t.Fatal(err)
	}
	return int32(id)
}

func open(t *testing.T, c RegistryConfig) *Registry {
	t.Helper()
	if c.Timeout == 0 {
		c.Timeout = 2 * time.Second
	}
	r, err := NewRegistry(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

const closed = "http://127.0.0.1:1" // where nothing listens

func TestRegistryConfig(t *testing.T) {
	for _, c := range []struct {
		c    RegistryConfig
		want string
	}{
		{RegistryConfig{}, "ODRADEK_SCHEMA_REGISTRY_URL is empty"},
		{RegistryConfig{URLs: []string{"registry:8081"}}, "ODRADEK_SCHEMA_REGISTRY_URL"},
		{RegistryConfig{URLs: []string{"http://u:secret@h", "ftp://u:secret@h"}}, "ODRADEK_SCHEMA_REGISTRY_URL"},
		{RegistryConfig{URLs: []string{"http://u:p@h"}, Username: "u"}, "ODRADEK_SCHEMA_REGISTRY_USERNAME"},
		{RegistryConfig{URLs: []string{"http://h"}, Password: "p"}, "ODRADEK_SCHEMA_REGISTRY_PASSWORD without"},
		{RegistryConfig{URLs: []string{"http://h"}, Username: "u", BearerToken: "t"}, "ODRADEK_SCHEMA_REGISTRY_TOKEN"},
	} {
		_, err := NewRegistry(c.c)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v, want %q", c.c, err, c.want)
		}
	}
}

func TestRegistryFetchesOnce(t *testing.T) {
	f := newFaulty(t)
	id := f.register(t, "in-value", sr.Schema{Schema: plantSchema})
	r := open(t, RegistryConfig{URLs: []string{f.URL() + "/"}})
	f.delay.Store(int64(50 * time.Millisecond))
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			s, err := r.SchemaByID(t.Context(), id)
			if err != nil || s.Text != plantSchema || s.ID != id || s.Type != "AVRO" {
				t.Error(s, err)
			}
		})
	}
	wg.Wait()
	if n := f.requests.Load(); n != 1 {
		t.Errorf("%d requests", n)
	}
	if s := r.Stats(); s.Requests != 1 || s.Failures != 0 || !s.Up {
		t.Errorf("%+v", s)
	}
}

// A caller that gives up does not fail those that wait for its request.
func TestRegistryCancelledLeader(t *testing.T) {
	f := newFaulty(t)
	id := f.register(t, "in-value", sr.Schema{Schema: plantSchema})
	r := open(t, RegistryConfig{URLs: []string{f.URL()}})
	f.delay.Store(int64(100 * time.Millisecond))
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

func TestRegistryOutage(t *testing.T) {
	f := newFaulty(t)
	id := f.register(t, "in-value", sr.Schema{Schema: benchSchema})
	later := f.register(t, "in-value", sr.Schema{Schema: plantSchema})
	r := open(t, RegistryConfig{URLs: []string{f.URL()}, NegativeTTL: 50 * time.Millisecond})
	d, err := NewDecoder(benchMapping, r, DecoderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	value := testRecords(t)[0]
	decode := func(d *Decoder, id int32) error {
		var out Reading
		binary.BigEndian.PutUint32(value[1:], uint32(id))
		return d.Decode(t.Context(), nil, value, 0, nil, &out)
	}
	if err := decode(d, id); err != nil {
		t.Fatal(err)
	}
	for _, status := range []int32{500, 503, 429, 401, 403, 404 /* of a proxy */} {
		f.status.Store(status)
		if err := decode(d, id); err != nil {
			t.Errorf("status %d, known id: %v", status, err)
		}
		if err := decode(d.Clone(), id); err != nil {
			t.Errorf("status %d, known id, another decoder: %v", status, err)
		}
		err := decode(d, 1000+status)
		var e *DecodeError
		if !errors.As(err, &e) || !e.Retry || e.Class != ClassUnknownSchema || e.SchemaID != 1000+status {
			t.Errorf("status %d, unknown id: %v", status, err)
		}
		if status == 401 && !strings.Contains(err.Error(), "ODRADEK_SCHEMA_REGISTRY_USERNAME") ||
			status == 404 && !strings.Contains(err.Error(), "ODRADEK_SCHEMA_REGISTRY_URL") {
			t.Error(err)
		}
		// It is not asked again at once.
		before := f.requests.Load()
		if err := decode(d, 1000+status); err == nil || f.requests.Load() != before {
			t.Errorf("%v, %d requests more", err, f.requests.Load()-before)
		}
	}
	f.status.Store(0)

	// The registry says that there is no such id: the record is condemned, and
	// the answer is believed for a while.
	before := f.requests.Load()
	for range 3 {
		var e *DecodeError
		if err := decode(d, 77); !errors.As(err, &e) || e.Retry || e.Class != ClassUnknownSchema {
			t.Error(err)
		}
	}
	if n := f.requests.Load() - before; n != 1 {
		t.Errorf("%d requests for an id that is not there", n)
	}
	time.Sleep(60 * time.Millisecond)
	f.SeedSchema("late-value", 1, 77, sr.Schema{Schema: benchSchema + " "})
	if err := decode(d, 77); err != nil {
		t.Error(err)
	}

	// Down altogether, then back.
	down := open(t, RegistryConfig{URLs: []string{closed}})
	d2, _ := NewDecoder(benchMapping, down, DecoderOptions{})
	var e *DecodeError
	if err := decode(d2, id); !errors.As(err, &e) || !e.Retry || !strings.Contains(err.Error(), "ODRADEK_SCHEMA_REGISTRY_URL") {
		t.Error(err)
	}
	if err := down.Ping(t.Context()); err == nil || down.Stats().Up || down.Stats().Failures == 0 {
		t.Error(err, down.Stats())
	}

	// Several addresses: the first one is down.
	both := open(t, RegistryConfig{URLs: []string{closed, f.URL()}})
	if s, err := both.SchemaByID(t.Context(), later); err != nil || s.Text != plantSchema {
		t.Error(err)
	}
	if err := both.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	// A schema without the mapped fields, and one that is no Avro.
	if err := decode(d, later); !errors.As(err, &e) || e.Class != ClassMissingField || e.Field != "sensor" || e.SchemaID != later || e.Retry {
		t.Error(err)
	}
	proto := f.register(t, "p-value", sr.Schema{Schema: `syntax = "proto3";`, Type: sr.TypeProtobuf})
	if err := decode(d, proto); !errors.As(err, &e) || e.Class != ClassUnknownSchema || !strings.Contains(err.Error(), "PROTOBUF") {
		t.Error(err)
	}
	wrong := f.register(t, "w-value", sr.Schema{Schema: `{"type":"record","name":"R","fields":[{"name":"a","type":"Nowhere"}]}`})
	if err := decode(d, wrong); !errors.As(err, &e) || e.Class != ClassUnknownSchema || e.Retry {
		t.Error(err)
	}
}

func TestRegistryDiskCache(t *testing.T) {
	f := newFaulty(t)
	id := f.register(t, "in-value", sr.Schema{Schema: plantSchema})
	dir := t.TempDir()
	c := RegistryConfig{URLs: []string{f.URL()}, CacheDir: dir}
	first := open(t, c)
	if _, err := first.SchemaByID(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	out, err := first.Register(t.Context(), "scores-value", ScoreSchema)
	if err != nil || out <= 0 {
		t.Fatal(out, err)
	}

	f.status.Store(503)
	again := open(t, c)
	if s, err := again.SchemaByID(t.Context(), id); err != nil || s.Text != plantSchema || s.ID != id || again.Stats().DiskHits != 1 {
		t.Error(s, err, again.Stats())
	}
	if got, err := again.Register(t.Context(), "scores-value", ScoreSchema); err != nil || got != out {
		t.Error(got, err)
	}
	if _, err := again.Register(t.Context(), "other-value", ScoreSchema); err == nil {
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
	f.status.Store(0)
	time.Sleep(outagePause)
	if s, err := torn.SchemaByID(t.Context(), id); err != nil || s.Text != plantSchema {
		t.Error(err)
	}
	if b, _ := os.ReadFile(files[0]); !bytes.Equal(b, whole) {
		t.Error("the file was not written anew")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*", ".new-*")); len(left) != 0 {
		t.Error(left)
	}

	// Another registry's ids are others.
	other := open(t, RegistryConfig{URLs: []string{closed}, CacheDir: dir})
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
	c := RegistryConfig{URLs: []string{srv.URL}, CacheDir: t.TempDir()}
	gone, one, two := "", plantSchema, benchSchema
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
		if err := r.disk.put(name, []byte(`{"ID":`+strconv.Itoa(int(id))+`,"JSON":"\"int\""}`)); err != nil {
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
	f := newFaulty(t)
	id := f.register(t, "in-value", sr.Schema{Schema: plantSchema})
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	r := open(t, RegistryConfig{URLs: []string{f.URL()}, CacheDir: filepath.Join(file, "x")})
	if err := r.CacheFault(); err == nil || !strings.Contains(err.Error(), "ODRADEK_SCHEMA_REGISTRY_CACHE_DIR") {
		t.Error(err)
	}
	if _, err := r.SchemaByID(t.Context(), id); err != nil {
		t.Error(err)
	}
	// Readable and no more; root may write everywhere, so a folder stands in the way.
	c := RegistryConfig{URLs: []string{f.URL()}, CacheDir: t.TempDir()}
	r = open(t, c)
	if _, err := r.SchemaByID(t.Context(), id); err != nil || r.CacheFault() != nil {
		t.Fatal(err, r.CacheFault())
	}
	probe := r.disk.path("probe")
	if err := errors.Join(os.Remove(probe), os.MkdirAll(filepath.Join(probe, "x"), 0o755)); err != nil {
		t.Fatal(err)
	}
	f.status.Store(503)
	r = open(t, c)
	if s, err := r.SchemaByID(t.Context(), id); err != nil || s.Text != plantSchema || r.CacheFault() == nil {
		t.Error(s, err, r.CacheFault())
	}
}

func TestRegistryAuth(t *testing.T) {
	basic := "Basic " + "dXNlcjpwYXNz" // user:pass
	f := newFaulty(t, srfake.WithAuth(basic))
	with := strings.Replace(f.URL(), "http://", "http://user:pass@", 1)
	for _, c := range []struct {
		c    RegistryConfig
		want string
	}{
		{RegistryConfig{URLs: []string{f.URL()}, Username: "user", Password: "pass"}, ""},
		{RegistryConfig{URLs: []string{with}}, ""},
		{RegistryConfig{URLs: []string{f.URL()}, Username: "user", Password: "word"}, "ODRADEK_SCHEMA_REGISTRY_USERNAME"},
		{RegistryConfig{URLs: []string{f.URL()}}, "ODRADEK_SCHEMA_REGISTRY_USERNAME"},
		{RegistryConfig{URLs: []string{strings.Replace(with, ":pass", ":secret", 1)}}, "ODRADEK_SCHEMA_REGISTRY_USERNAME"},
	} {
		err := open(t, c.c).Ping(t.Context())
		if c.want == "" && err != nil || c.want != "" &&
			(err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%+v: %v, want %q", c.c, err, c.want)
		}
	}
	token := newFaulty(t, srfake.WithAuth("Bearer abc"))
	if err := open(t, RegistryConfig{URLs: []string{token.URL()}, BearerToken: "abc"}).Ping(t.Context()); err != nil {
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
	if err := open(t, RegistryConfig{URLs: []string{s.URL}, TLS: &tls.Config{RootCAs: pool}}).Ping(t.Context()); err != nil {
		t.Error(err)
	}
	err := open(t, RegistryConfig{URLs: []string{s.URL}}).Ping(t.Context())
	if err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Error(err)
	}
}

func TestRegistryReferences(t *testing.T) {
	f := newFaulty(t)
	f.register(t, "unit", sr.Schema{Schema: `{"type":"enum","name":"Unit","namespace":"acme","symbols":["C","F"]}`})
	f.register(t, "site", sr.Schema{
		Schema:     `{"type":"record","name":"Site","namespace":"acme","fields":[{"name":"plant","type":"string"},{"name":"unit","type":"Unit"}]}`,
		References: []sr.SchemaReference{{Name: "acme.Unit", Subject: "unit", Version: 1}},
	})
	id := f.register(t, "in-value", sr.Schema{
		Schema: `{"type":"record","name":"Reading","namespace":"acme","fields":[{"name":"site","type":"acme.Site"},{"name":"unit","type":"Unit"},
			{"name":"t","type":{"type":"long","logicalType":"timestamp-micros"}},
			{"name":"v","type":{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}}]}`,
		References: []sr.SchemaReference{{Name: "acme.Site", Subject: "site", Version: 1}, {Name: "acme.Unit", Subject: "unit", Version: 1}},
	})
	dir := t.TempDir()
	for i := range 2 { // from the registry, then from disk
		if i == 1 {
			f.status.Store(503)
		}
		r := open(t, RegistryConfig{URLs: []string{f.URL()}, CacheDir: dir})
		d, err := NewDecoder(Mapping{Key: "site.plant+site.unit", Time: "t", Fields: []string{"v"}}, r, DecoderOptions{})
		if err != nil {
			t.Fatal(err)
		}
		value := binary.BigEndian.AppendUint32([]byte{0}, uint32(id))
		value = append(value, 2, 'x', 2, 0, 18, 4, 1, 0)
		var out Reading
		if err := d.Decode(t.Context(), nil, value, 0, nil, &out); err != nil || string(out.Key) != "x/F" ||
			out.Values[0] != 2.56 || out.Time != 9 {
			t.Errorf("round %d: %q %v %v", i, out.Key, out, err)
		}
		if n := r.Stats(); n.Requests != int64(3-2*i) || n.DiskHits != int64(i) {
			t.Errorf("round %d: %+v", i, n)
		}
		s, _ := r.SchemaByID(t.Context(), id)
		if faults := Check(Mapping{Fields: []string{"v"}}, s); faults != nil {
			t.Error(faults)
		}
	}
}

func TestRegistryGUIDAndFingerprint(t *testing.T) {
	f := newFaulty(t)
	id := f.register(t, "in-value", sr.Schema{Schema: benchSchema})
	f.register(t, "in-value", sr.Schema{Schema: plantSchema})
	ss, ok := f.GetSchema("in-value", 1)
	if !ok {
		t.Fatal("no schema")
	}
	guid, err := hex.DecodeString(strings.ReplaceAll(ss.GUID, "-", ""))
	if err != nil || len(guid) != 16 {
		t.Fatal(ss.GUID)
	}
	r := open(t, RegistryConfig{URLs: []string{f.URL()}, NegativeTTL: time.Minute})
	d, err := NewDecoder(benchMapping, r, DecoderOptions{Subjects: []string{"absent-value", "in-value"}})
	if err != nil {
		t.Fatal(err)
	}
	body := testRecords(t)[0][5:]
	header := func(value []byte) func(string) ([]byte, bool) {
		return func(name string) ([]byte, bool) { return value, name == "__value_schema_id" }
	}
	v1 := append([]byte{1}, guid...)
	v0 := binary.BigEndian.AppendUint32([]byte{0}, uint32(id))
	crc, _ := Fingerprint(benchSchema)
	single := append(binary.LittleEndian.AppendUint64([]byte{0xc3, 1}, crc), body...)
	none := func(string) ([]byte, bool) { return nil, false }
	for range 2 {
		var out Reading
		if err := d.Decode(t.Context(), nil, body, 0, header(v1), &out); err != nil || out.Schema != id {
			t.Error("GUID in header:", err, out.Schema)
		}
		if err := d.Decode(t.Context(), nil, append(v1[:17:17], body...), 0, none, &out); err != nil {
			t.Error("GUID in front:", err)
		}
		if err := d.Decode(t.Context(), nil, body, 0, header(v0), &out); err != nil || out.Schema != id {
			t.Error("id in header:", err)
		}
		if err := d.Decode(t.Context(), nil, append(v0[:5:5], body...), 0, none, &out); err != nil {
			t.Error("id in front, other headers:", err)
		}
		if err := d.Decode(t.Context(), nil, single, 0, nil, &out); err != nil || out.Schema != id {
			t.Error("fingerprint:", err, out.Schema)
		}
		wantClass(t, d.Decode(t.Context(), nil, body, 0, header([]byte{9}), &out), ClassMagic, "")
		wantClass(t, d.Decode(t.Context(), nil, body, 0, header(append(v1[:17:17], 0)), &out), ClassMagic, "")
		wantClass(t, d.Decode(t.Context(), nil, body, 0, header(append([]byte{1}, make([]byte, 16)...)), &out), ClassUnknownSchema, "")
		wantClass(t, d.Decode(t.Context(), nil, append([]byte{0xc3, 1, 1, 2, 3, 4, 5, 6, 7, 8}, body...), 0, nil, &out), ClassUnknownSchema, "")
		wantClass(t, d.Decode(t.Context(), nil, nil, 0, header(v1), &out), ClassTombstone, "")
	}
}

// A registry without the call for GUIDs, as Apicurio, condemns a record that
// has one; an address that is no registry at all does not.
func TestRegistryWithoutGUIDs(t *testing.T) {
	f := newFaulty(t)
	f.Intercept(func(w http.ResponseWriter, req *http.Request) bool {
		if !strings.HasPrefix(req.URL.Path, "/schemas/guids/") {
			return false
		}
		w.WriteHeader(http.StatusNotFound)
		return true
	})
	r := open(t, RegistryConfig{URLs: []string{f.URL()}})
	if _, err := r.SchemaByGUID(t.Context(), [16]byte{1}); !errors.Is(err, ErrUnknownSchema) {
		t.Error(err)
	}
	f.status.Store(404)
	if _, err := r.SchemaByGUID(t.Context(), [16]byte{2}); err == nil || errors.Is(err, ErrUnknownSchema) {
		t.Error(err)
	}
}

func TestRegistrySubjects(t *testing.T) {
	f := newFaulty(t)
	r := open(t, RegistryConfig{URLs: []string{f.URL()}})
	ctx := t.Context()
	if _, err := r.Latest(ctx, "scores-value"); !errors.Is(err, ErrUnknownSchema) {
		t.Error(err)
	}
	if _, err := r.Lookup(ctx, "scores-value", ScoreSchema); !errors.Is(err, ErrUnknownSchema) {
		t.Error(err)
	}
	if ok, _, err := r.Compatible(ctx, Subject("scores"), ScoreSchema); !ok || err != nil {
		t.Error(ok, err)
	}
	id, err := r.Register(ctx, Subject("scores"), ScoreSchema)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := r.Register(ctx, "scores-value", ScoreSchema); err != nil || again != id {
		t.Error(again, err)
	}
	if found, err := r.Lookup(ctx, "scores-value", ScoreSchema); err != nil || found != id {
		t.Error(found, err)
	}
	s, err := r.Latest(ctx, "scores-value")
	if err != nil || s.ID != id || s.Version != 1 || s.Subject != "scores-value" {
		t.Error(s, err)
	}
	if v, err := r.Versions(ctx, "scores-value"); err != nil || len(v) != 1 {
		t.Error(v, err)
	}
	if _, err := r.Register(ctx, "a/b c-value", ReadingSchema); err != nil {
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
	if _, err := r.Register(ctx, "scores-value", plantSchema); !errors.Is(err, ErrIncompatible) ||
		!strings.Contains(err.Error(), "READER_FIELD") {
		t.Error(err)
	}
	f.ClearInterceptors()
	// Not a registry at all.
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("<html>")) }))
	defer page.Close()
	if err := open(t, RegistryConfig{URLs: []string{page.URL}}).Ping(ctx); err == nil || !strings.Contains(err.Error(),
		"ODRADEK_SCHEMA_REGISTRY_URL") {
		t.Error(err)
	}
}

// An answer that there is no such schema is final when it was given for the grace
// period, and every address of the registry has been asked.
func TestRegistryGrace(t *testing.T) {
	f, lagging := newFaulty(t), newFaulty(t)
	id := f.register(t, "in-value", sr.Schema{Schema: plantSchema})
	both := open(t, RegistryConfig{URLs: []string{lagging.URL(), f.URL()}})
	for range 2 {
		if s, err := both.SchemaByID(t.Context(), id); err != nil || s.Text != plantSchema {
			t.Errorf("one replica has it: %v", err)
		}
	}
	before := [2]int64{lagging.requests.Load(), f.requests.Load()}
	var a *AbsentError
	if _, err := both.SchemaByID(t.Context(), id+1); !errors.As(err, &a) || !a.Final || !errors.Is(err, ErrUnknownSchema) {
		t.Errorf("no replica has it, no grace period: %v", err)
	}
	if lagging.requests.Load()-before[0] != 1 || f.requests.Load()-before[1] != 1 {
		t.Error("not every replica was asked")
	}
	dead := open(t, RegistryConfig{URLs: []string{lagging.URL(), closed}})
	if _, err := dead.SchemaByID(t.Context(), id+1); !errors.As(err, &a) {
		t.Errorf("one replica is down: %v", err)
	}

	const grace = 600 * time.Millisecond
	r := open(t, RegistryConfig{URLs: []string{f.URL()}, Grace: grace})
	d, err := NewDecoder(benchMapping, r, DecoderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	clone := d.Clone()
	value := testRecords(t)[0]
	decode := func(d *Decoder, id int32) (e *DecodeError) {
		binary.BigEndian.PutUint32(value[1:], uint32(id))
		errors.As(d.Decode(t.Context(), nil, value, 0, nil, new(Reading)), &e)
		return e
	}
	first := time.Now()
	if e := decode(d, 77); e == nil || !e.Absent || !e.Retry || e.Class != ClassUnknownSchema {
		t.Fatalf("first answer: %v", e)
	}
	for e := decode(clone, 77); e.Retry; e = decode(clone, 77) {
		if time.Since(first) > 20*grace {
			t.Fatal("never final")
		}
		time.Sleep(10 * time.Millisecond)
	}
	if waited := time.Since(first); waited < grace {
		t.Errorf("final after %s of %s", waited, grace)
	}
	if n := r.Stats().Requests; n < 3 || n > 6 {
		t.Errorf("asked %d times", n)
	}
	if e := decode(d, 77); e == nil || !e.Absent || e.Retry {
		t.Errorf("another decoder does not know that it is final: %v", e)
	}
	if e := decode(d, 78); e == nil || !e.Retry {
		t.Errorf("another id: %v", e)
	}
	f.SeedSchema("late-value", 1, 78, sr.Schema{Schema: benchSchema + " "})
	for e := decode(d, 78); e != nil; e = decode(d, 78) {
		if !e.Retry {
			t.Fatalf("condemned though it is there: %v", e)
		}
		time.Sleep(10 * time.Millisecond)
	}
	// An outage is no answer, and does not set the clock back.
	if e := decode(d, 79); e == nil || !e.Absent {
		t.Fatal(e)
	}
	f.status.Store(503)
	time.Sleep(grace)
	if e := decode(d, 79); e == nil || !e.Retry || e.Absent {
		t.Errorf("outage: %v", e)
	}
	f.status.Store(0)
	time.Sleep(outagePause)
	if e := decode(d, 79); e == nil || !e.Absent || e.Retry {
		t.Errorf("after the outage: %v", e)
	}
}

// TestRef: records of one schema have one ref, however it is framed, and no other
// schema has it.
func TestRef(t *testing.T) {
	d, err := NewDecoder(benchMapping, open(t, RegistryConfig{URLs: []string{closed}}), DecoderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	header := func(v []byte) func(string) ([]byte, bool) {
		return func(name string) ([]byte, bool) { return v, name == SchemaIDHeader }
	}
	id := []byte{0, 0, 0, 0, 7}
	a, ok := d.Ref(append(id, 1, 2), nil)
	b, ok2 := d.Ref([]byte{9, 9}, header(id))
	if !ok || !ok2 || a != b || string(a.Append(nil)) != "i\x00\x00\x00\x07" {
		t.Errorf("%v %v, %v %v", a, ok, b, ok2)
	}
	seen := map[SchemaRef]bool{a: true}
	for _, v := range [][]byte{{0, 0, 0, 0, 8}, append([]byte{1}, make([]byte, 16)...), append([]byte{0xc3, 1}, make([]byte, 8)...),
		append([]byte{0xc3, 1, 1}, make([]byte, 7)...)} {
		r, ok := d.Ref(v, nil)
		if !ok || seen[r] {
			t.Errorf("% x: %v %v", v, r, ok)
		}
		seen[r] = true
	}
	for _, v := range [][]byte{nil, {}, {0, 0, 0, 0}, {7, 0, 0, 0, 0}, {0xc3, 1, 0}} {
		if r, ok := d.Ref(v, nil); ok {
			t.Errorf("% x has the ref %v", v, r)
		}
	}
	bare, err := NewDecoder(benchMapping, nil, DecoderOptions{Bare: benchSchema})
	if err != nil {
		t.Fatal(err)
	}
	if r, ok := bare.Ref(id, nil); ok {
		t.Errorf("a bare value has the ref %v", r)
	}
}
