package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// TB is the part of testing.TB that is used here; *testing.T and *testing.B are
// such. The package does not import testing, since the bench imports it.
type TB interface {
	Helper()
	Name() string
	Logf(format string, args ...any)
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
	Cleanup(func())
	TempDir() string
	Failed() bool
}

// startLimit bounds the start of a cluster or registry, jars included.
const startLimit = 5 * time.Minute

// shared holds what this process started once for all of its tests.
var shared struct {
	mu       sync.Mutex
	clusters map[string]*once[*Cluster]
	registry *once[*RegistryServer]
	failed   map[string]string // by part and why it is not there: the test that failed of it
}

// once starts something at the first call; an error is kept, so that the tests
// that follow fail or skip at once.
type once[T any] struct {
	once sync.Once
	v    T
	err  error
	done atomic.Bool

	mu     sync.Mutex
	broken error // of heal
}

func (o *once[T]) get(f func() (T, error)) (T, error) {
	o.once.Do(func() { o.v, o.err = f(); o.done.Store(true) })
	return o.v, o.err
}

// heal calls f, unless it has failed before: what does not start again keeps every later test from waiting for it.
func (o *once[T]) heal(f func() error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.broken == nil {
		o.broken = f()
	}
	return o.broken
}

// Main runs a package's tests, ends what they shared, and exits:
//
//	func TestMain(m *testing.M) { kafkatest.Main(m) }
func Main(m interface{ Run() int }) {
	code := m.Run()
	if code != 0 && os.Getenv("ODRADEK_TEST_KEEP") == "" && os.Getenv("CI") == "" {
		fmt.Fprintln(os.Stderr, "kafkatest: set ODRADEK_TEST_KEEP=1 to keep the brokers' logs")
	}
	CloseShared()
	os.Exit(code)
}

// CloseShared ends the shared clusters and the shared registry; Main calls it.
func CloseShared() {
	_ = os.RemoveAll(programs.dir) // of GoProgram; none is no error
	shared.mu.Lock()
	defer shared.mu.Unlock()
	for _, o := range shared.clusters {
		if o.done.Load() && o.v != nil {
			o.v.Close()
		}
	}
	shared.clusters = nil
	if r := shared.registry; r != nil && r.done.Load() && r.v != nil {
		r.v.Close()
	}
	shared.registry = nil
}

func listed(env, part string) bool {
	return slices.Contains(strings.FieldsFunc(os.Getenv(env), func(r rune) bool { return r == ',' || r == ' ' }), part)
}

// Required reports whether ODRADEK_REQUIRE names the part ("kafka", "registry",
// ...): a test that lacks it then fails instead of skipping.
func Required(part string) bool { return listed("ODRADEK_REQUIRE", part) }

// Missing ends a test that lacks a part: a skip that names the part and why, or
// a failure where ODRADEK_REQUIRE names it, or where the part is there and does
// not start. One test fails of a cause; those after it are not run, which says no more.
func Missing(t TB, part string, why error) {
	t.Helper()
	how := "does not start" // .ci/testsum.go knows the words, of other packages' tests
	if m := (*MissingError)(nil); errors.As(why, &m) {
		if !Required(part) {
			t.Skipf("skipped part %s: %v", part, why)
		}
		how = "is required (ODRADEK_REQUIRE) and missing"
	}
	cause := fmt.Sprintf("%s %s: %v", part, how, why)
	shared.mu.Lock()
	if shared.failed == nil {
		shared.failed = map[string]string{}
	}
	first := shared.failed[cause]
	if first == "" {
		shared.failed[cause] = t.Name()
	}
	shared.mu.Unlock()
	if first != "" {
		t.Skipf("not run: %s %s, see %s", part, how, first)
	}
	t.Fatalf("%s", cause)
}

// Long reports whether ODRADEK_LONG asks for a long run: all tests on all kinds of
// cluster, more seeds, more faults.
func Long() bool { return os.Getenv("ODRADEK_LONG") != "" }

// LongOnly skips what only a long run does, with the same words each time, so that
// a summary can count it.
func LongOnly(t TB) {
	t.Helper()
	if !Long() {
		t.Skipf("left to a long run (ODRADEK_LONG=1)")
	}
}

// SkipAsked skips the test where ODRADEK_SKIP names the part.
func SkipAsked(t TB, part string) {
	t.Helper()
	if listed("ODRADEK_SKIP", part) {
		t.Skipf("skipped part %s: ODRADEK_SKIP names it", part)
	}
}

// Open returns a cluster of a kind with TLS and SASL listeners where the kind
// can have them beside the plain one: a fresh kfake that ends with the test, or
// the shared real cluster, healed.
func Open(t TB, kind string) *Cluster {
	t.Helper()
	if kind == KindFake {
		return Fake(t, FakeOptions{})
	}
	version, ok := strings.CutPrefix(kind, "kafka-")
	if !ok {
		t.Fatalf("kafkatest: no kind of cluster %q: there are %v", kind, Kinds)
	}
	return Kafka(t, version)
}

// Fake starts a kfake cluster that ends with the test.
func Fake(t TB, o FakeOptions) *Cluster {
	t.Helper()
	c, err := StartFake(o)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(c.Close)
	return c
}

// Kafka returns the process's cluster of real nodes of that version (see
// Versions), started at the first call, with every node up. Where Java, Maven
// or the jars are missing the test is skipped by name, or fails when
// ODRADEK_REQUIRE names "kafka". A test may kill, pause and restart nodes, if no
// other test of the same version runs in parallel; they are up again for the next.
func Kafka(t TB, version string) *Cluster {
	t.Helper()
	SkipAsked(t, "kafka")
	shared.mu.Lock()
	o := shared.clusters[version]
	if o == nil {
		o = new(once[*Cluster])
		if shared.clusters == nil {
			shared.clusters = make(map[string]*once[*Cluster])
		}
		shared.clusters[version] = o
	}
	shared.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	first := !o.done.Load()
	c, err := o.get(func() (*Cluster, error) {
		name := "ODRADEK_TEST_KAFKA_" + strings.ReplaceAll(version, ".", "_")
		if where := os.Getenv(name); where != "" {
			return Attach(ctx, version, where)
		}
		return StartKafka(ctx, Options{Version: version, SASL: true})
	})
	if err != nil {
		Missing(t, "kafka", err)
	}
	if first {
		t.Logf("kafkatest: %s, %d nodes, ready in %v, %s", c.Kind, len(c.nodes), c.Took.Round(time.Millisecond), c.Dir)
	}
	if err := o.heal(func() error { return c.Heal(ctx) }); err != nil {
		Missing(t, "kafka", fmt.Errorf("nodes left down by an earlier test: %w", err))
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("kafkatest: %s in %s; warnings:\n%s", c.Kind, c.Dir, c.Logs(10))
		}
	})
	return c
}

// Registry returns the process's real schema registry (Apicurio), started at the
// first call. Where it cannot be had the test is skipped by name, or fails when
// ODRADEK_REQUIRE names "registry". It is shared: use subjects of your own.
func Registry(t TB) *RegistryServer {
	t.Helper()
	SkipAsked(t, "registry")
	shared.mu.Lock()
	if shared.registry == nil {
		shared.registry = new(once[*RegistryServer])
	}
	o := shared.registry
	shared.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	first := !o.done.Load()
	r, err := o.get(func() (*RegistryServer, error) {
		if url := os.Getenv("ODRADEK_TEST_REGISTRY"); url != "" {
			return &RegistryServer{URL: strings.TrimRight(url, "/")}, nil
		}
		return StartRegistry(ctx)
	})
	if err != nil {
		Missing(t, "registry", err)
	}
	if first {
		t.Logf("kafkatest: registry at %s, ready in %v", r.URL, r.Took.Round(time.Millisecond))
	}
	if err := o.heal(func() error { return r.Heal(ctx) }); err != nil {
		Missing(t, "registry", fmt.Errorf("left down by an earlier test: %w", err))
	}
	return r
}

// RegistryURL returns the base URL of a registry to use with the cluster: the
// cluster's own srfake on kfake, else the shared Apicurio (see Registry).
func (c *Cluster) RegistryURL(t TB) string {
	t.Helper()
	c.mu.Lock()
	url := c.Registry
	own := url != "" && (!c.Real() || c.RegistryServer == nil)
	c.mu.Unlock()
	if own {
		return url
	}
	r := Registry(t) // again for each test: heals it
	c.mu.Lock()
	defer c.mu.Unlock()
	c.RegistryServer, c.Registry = r, r.URL
	return r.URL
}

// Unique returns a name for a topic, group, subject or transactional id that no
// other test uses, beginning with prefix.
func Unique(prefix string) string {
	return fmt.Sprintf("%s-%08x", prefix, rand.Uint32())
}

// Topic creates a topic with a unique name that begins with prefix and deletes
// it after the test. Configs come in pairs: name, value.
func (c *Cluster) Topic(t TB, prefix string, partitions int, configs ...string) string {
	t.Helper()
	name := Unique(prefix)
	m := make(map[string]string)
	for i := 0; i+1 < len(configs); i += 2 {
		m[configs[i]] = configs[i+1]
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := c.Admin().CreateTopic(ctx, name, partitions, 0, m); err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if !c.Real() {
			return // ends with the test
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = c.Admin().DeleteTopic(ctx, name) // best effort: a node may be down by the test's own doing
	})
	return name
}
