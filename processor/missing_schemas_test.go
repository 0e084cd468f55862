package processor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"odradek/processor/kafka"
	"odradek/processor/kafkatest"
	"odradek/processor/state/rules"
	"odradek/schemas/formats"
	"odradek/schemas/output"
	"odradek/schemas/registry"
)

// registryServer is a schema registry that has the schemas of its map.
type registryServer struct {
	*httptest.Server
	mu    sync.Mutex
	has   map[int]bool // the ids that have the reading schema; all others have none
	down  bool
	asked map[int]int // requests by id
}

func newRegistry(t *testing.T) *registryServer {
	r := &registryServer{has: map[int]bool{}, asked: map[int]int{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		id, _ := strconv.Atoi(q.URL.Path[strings.LastIndexByte(q.URL.Path, '/')+1:])
		r.asked[id]++
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.down:
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.has[id]:
			_, _ = w.Write([]byte(`{"schema":` + strconv.Quote(output.ReadingSchema) + `}`))
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"error_code":40403,"message":"Schema not found"}`))
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *registryServer) set(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

func (r *registryServer) requests(id int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked[id]
}

// start starts a processor of config, changed.
func (r *registryServer) start(b *bench, grace time.Duration, change func(*Config)) (*Processor, func(error)) {
	b.t.Helper()
	cfg := r.config(b, grace)
	if change != nil {
		change(&cfg)
	}
	return b.start(cfg)
}

// config returns the configuration of a processor whose decoder has a client of its own for the registry.
func (r *registryServer) config(b *bench, grace time.Duration) Config {
	b.t.Helper()
	reg, err := registry.New(registry.Config{URLs: []string{r.URL}, Grace: grace, NegativeTTL: 200 * time.Millisecond})
	if err != nil {
		b.t.Fatal(err)
	}
	cfg := b.config("one")
	cfg.Mappings.Decoder, err = formats.NewDecoder(output.ReadingMapping, reg, formats.Options{Schemas: []string{output.ReadingSchema}})
	if err != nil {
		b.t.Fatal(err)
	}
	cfg.ReplayLimit = time.Hour // all is replayed
	cfg.SchemaGrace = grace
	return cfg
}

// letters returns the dead letters' values.
func (b *bench) letters() (values [][]byte) {
	b.t.Helper()
	recs, err := b.c.Admin().ReadAll(context.Background(), "dlq", true)
	if err != nil {
		b.t.Fatal(err)
	}
	for i := range recs {
		values = append(values, recs[i].Value)
	}
	return values
}

func (b *bench) committed(p *Processor, offset int64) {
	b.t.Helper()
	waitFor(b.t, fmt.Sprintf("offset %d is committed", offset), func() bool {
		l := p.Status()
		return len(l) == 1 && l[0].Running && l[0].Committed >= offset
	})
}

// A replica of the registry that lags answers 404 for a schema that was just
// registered. The record waits for it; nothing becomes a dead letter.
func TestLaggingRegistry(t *testing.T) {
	b, r := newBench(t, 1), newRegistry(t)
	b.produce(50)
	b.framed(9)
	p, stop := r.start(b, time.Minute, nil)
	waitFor(t, "the partition is held for the schema", func() bool {
		l := p.Status()
		return len(l) == 1 && l[0].Hold == heldForSchema && r.requests(9) > 1
	})
	if err := p.Stalled(0); err != nil {
		t.Errorf("held for a schema, and Stalled says %v", err)
	}
	r.set(func() { r.has[9] = true })
	b.committed(p, 51)
	stop(nil)
	if n := len(b.letters()); n > 0 {
		t.Errorf("%d dead letters for a schema that came late", n)
	}
}

// An id that never exists costs the grace period once. Then its records are dead
// letters at once, as are records of other such ids: a burst of corrupt records does
// not hold the partition for each of them.
func TestUnknownSchemaIsCondemned(t *testing.T) {
	b, r := newBench(t, 1), newRegistry(t)
	const grace = 700 * time.Millisecond
	b.produce(20)
	const bad = 40
	for i := range int32(bad) {
		b.framed(1000 + i/2)
	}
	b.produce(20)
	began := time.Now()
	p, stop := r.start(b, grace, nil)
	b.committed(p, 40+bad)
	took := time.Since(began)
	stop(nil)
	if n := len(b.letters()); n != bad {
		t.Errorf("%d dead letters of %d", n, bad)
	}
	if took < grace || took > 10*time.Second {
		t.Errorf("%d records of %d unknown schemas took %s at a grace period of %s", bad, bad/2, took, grace)
	}
	if r.requests(1000) < 2 {
		t.Error("a dead letter at the first answer")
	}
}

// A replay makes the same dead letters, and no others, without asking the
// registry: it is down at first, and has the schema later on.
func TestReplayAsksNobody(t *testing.T) {
	b, r := newBench(t, 1), newRegistry(t)
	b.produce(100)
	b.framed(9)
	b.framed(9)
	b.produce(20)
	var mu sync.Mutex
	var state []byte
	export := func(c *Config) {
		c.export = func(_ kafka.TP, restored bool, _ int64, s []byte) {
			mu.Lock()
			defer mu.Unlock()
			if restored {
				state = s
			}
		}
	}
	restored := func() (s []byte) {
		waitFor(t, "the restored state is exported", func() bool {
			mu.Lock()
			defer mu.Unlock()
			s, state = state, nil
			return s != nil
		})
		return s
	}
	p, stop := r.start(b, 0, nil)
	b.committed(p, 122)
	stop(errors.New("crash")) // without a last snapshot
	if n := len(b.letters()); n != 2 {
		t.Fatalf("%d dead letters", n)
	}

	r.set(func() { r.down, r.asked = true, map[int]int{} })
	p, stop = r.start(b, time.Minute, export)
	waitFor(t, "it is ready while the registry is down", p.Ready)
	if n := r.requests(9); n > 0 {
		t.Errorf("the replay has asked the registry %d times", n)
	}
	without := restored()
	stop(errors.New("crash"))

	// Now the registry has it. What was a dead letter stays one; what comes is read.
	r.set(func() { r.down, r.has[9] = false, true })
	p, stop = r.start(b, time.Minute, export)
	waitFor(t, "it is ready again", p.Ready)
	if with := restored(); !bytes.Equal(with, without) || bytes.Contains(with, []byte("framed")) {
		t.Errorf("the restored state has changed with the registry: %d and %d bytes", len(without), len(with))
	}
	b.framed(9)
	b.produce(20)
	b.committed(p, 143)
	stop(errors.New("crash"))

	// The withdrawal is a decision, too.
	p, stop = r.start(b, time.Minute, export)
	waitFor(t, "it is ready once more", p.Ready)
	if !bytes.Contains(restored(), []byte("framed")) {
		t.Error("the record that was read after the decision is not in the restored state")
	}
	stop(nil)
	if n := len(b.letters()); n != 2 {
		t.Errorf("%d dead letters in the end", n)
	}
}

// TestReplayOfDeletedSchema: a record that was read when it was live is not dropped in a replay because its schema has been
// deleted from the registry since. The start is refused after the grace period, and empties the state where that is allowed.
func TestReplayOfDeletedSchema(t *testing.T) {
	b, r := newBench(t, 1), newRegistry(t)
	b.produce(30)
	b.framed(9)
	b.produce(10)
	r.set(func() { r.has[9] = true })
	p, stop := r.start(b, time.Minute, nil)
	b.committed(p, 41)
	stop(errors.New("crash"))
	r.set(func() { r.has[9] = false; r.asked = map[int]int{} })
	cfg := r.config(b, 300*time.Millisecond)
	b.refused(cfg, "offset 30", "schema id 9", "former settings", "worker state reset")
	if n := r.requests(9); n < 2 {
		t.Errorf("given up after %d answers", n)
	}
	cfg.StateLost = Reset
	if status := b.run(cfg); status[0].Keys != 0 {
		t.Errorf("%d series are left", status[0].Keys)
	}
}

// TestMissingKeySchema: a record whose key names a schema that the registry lacks becomes a dead letter as one whose value does, also where
// values name none; a replay makes the same dead letters when the registry has the schema by then.
func TestMissingKeySchema(t *testing.T) {
	b, r := newBench(t, 1), newRegistry(t)
	r.has[8] = true
	produce := func(id int32, sensor string, n int) {
		recs := make([]kafkatest.Record, n)
		for i := range recs {
			at := 1_700_000_000_000 + int64(b.n)*200
			recs[i] = kafkatest.Record{Topic: b.input, Partition: 0, Time: at, Value: fmt.Appendf(nil, `{"at":%d,"a":%d}`, at, b.n%7),
				Key: output.NewReadingEncoder(id, "plant", "mm").Append(nil, []byte(sensor), 0, 1, 1)}
			b.n++
		}
		if _, err := b.c.ProduceAcked(context.Background(), recs); err != nil {
			t.Fatal(err)
		}
	}
	produce(8, "known", 40)
	produce(9, "framed", 2)
	produce(8, "known", 20)
	var mu sync.Mutex
	var restored []byte
	start := func() (*Processor, func(error)) {
		cfg := b.reread(rules.Reading{Decoding: rules.Decoding{Format: "json", Key: "id", Time: "at", TimeUnit: "ms", Fields: []string{"a"}}})
		cfg.Mappings.State.Reading.Key = "@key.sensor"
		reg, err := registry.New(registry.Config{URLs: []string{r.URL}, NegativeTTL: 200 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		if cfg.Mappings.Decoder, err = NewDecoder(&cfg.Mappings.State.Reading, reg, nil); err != nil {
			t.Fatal(err)
		}
		cfg.Mappings.Former = nil
		cfg.ReplayLimit = time.Hour
		cfg.export = func(_ kafka.TP, again bool, _ int64, s []byte) {
			mu.Lock()
			defer mu.Unlock()
			if again {
				restored = s
			}
		}
		return b.start(cfg)
	}
	p, stop := start()
	b.committed(p, 62)
	stop(errors.New("crash"))
	if n := len(b.letters()); n != 2 {
		t.Fatalf("%d dead letters", n)
	}
	r.set(func() { r.has[9] = true })
	p, stop = start()
	produce(9, "later", 3)
	b.committed(p, 65)
	stop(nil)
	mu.Lock()
	defer mu.Unlock()
	if !bytes.Contains(restored, []byte("known")) || bytes.Contains(restored, []byte("framed")) {
		t.Error("a replay has not read what was read, or has read a dead letter")
	}
	if n := len(b.letters()); n != 2 {
		t.Errorf("%d dead letters in the end", n)
	}
}
