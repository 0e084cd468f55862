package processor

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"odradek/processor/kafkatest"
	"odradek/processor/metrics"
	"odradek/schemas/formats"
	"odradek/schemas/output"
	"odradek/schemas/registry"
)

const patience = kafkatest.Patience

// waitFor waits until a condition holds.
func waitFor(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

// start runs a processor in the background; stop drains it, or ends it with an error
// and without a hand-over.
func (b *bench) start(cfg Config) (p *Processor, stop func(cause error)) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p, err := New(ctx, cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	done := false
	stop = func(cause error) {
		if done {
			return
		}
		done = true
		if cause != nil {
			p.session.fatal.fail(cause)
		} else {
			cancel()
		}
		select {
		case err := <-ended:
			if err != cause {
				b.t.Errorf("Run: %v", err)
			}
		case <-time.After(patience):
			b.t.Error("Run does not end")
		}
		cancel()
	}
	b.t.Cleanup(func() { stop(nil) })
	return p, stop
}

// A partition that waits for the schema registry is held, not hung: restarting the
// worker would help nobody, and after the restart it would be held as before. That
// is so while it runs and while it is restored, and ends when the registry answers.
func TestHeldIsNotStalled(t *testing.T) {
	b := newBench(t, 1)
	var up atomic.Bool
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !up.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"schema":` + strconv.Quote(output.ReadingSchema) + `}`))
	}))
	defer srv.Close()
	start := func() (*Processor, *metrics.Metrics, func(error)) {
		reg, err := registry.New(registry.Config{URLs: []string{srv.URL}})
		if err != nil {
			t.Fatal(err)
		}
		cfg := b.config("one")
		cfg.Mappings.Decoder, err = formats.NewDecoder(output.ReadingMapping, reg, formats.Options{Schemas: []string{output.ReadingSchema}})
		if err != nil {
			t.Fatal(err)
		}
		cfg.ReplayLimit = time.Hour // all is replayed
		p, stop := b.start(cfg)
		cfg.Metrics.Watch(p.Status)
		return p, cfg.Metrics, stop
	}
	b.produce(100)
	b.framed(9)
	b.produce(100)

	notStalled := func(p *Processor, m *metrics.Metrics, what string) {
		t.Helper()
		waitFor(t, what+": the partition is held", func() bool {
			l := p.Status()
			if len(l) == 1 && l[0].Hold == "" {
				if err := p.Stalled(3 * time.Second); err != nil {
					t.Fatalf("%s: held for the registry, and Stalled says %v", what, err)
				}
			}
			return len(l) == 1 && l[0].Hold != ""
		})
		s := p.Status()[0]
		if !strings.Contains(s.Hold, "registry") || time.Since(s.HoldSince) > 10*time.Second {
			t.Errorf("%s: held for %q since %v", what, s.Hold, s.HoldSince)
		}
		if err := p.Stalled(0); err != nil {
			t.Errorf("%s: held for the registry, and Stalled says %v", what, err)
		}
		time.Sleep(10 * time.Millisecond)
		if n := gathered(t, m, "odradek_held_partitions"); n != 1 {
			t.Errorf("%s: odradek_held_partitions is %v", what, n)
		}
		if n := gathered(t, m, "odradek_partition_held_seconds"); n <= 0 {
			t.Errorf("%s: odradek_partition_held_seconds is %v", what, n)
		}
	}
	goesOn := func(p *Processor, m *metrics.Metrics, what string) {
		t.Helper()
		waitFor(t, what+": all is committed", func() bool {
			s := p.Status()[0]
			return s.Running && s.Lag == 0 && s.Committed >= 201
		})
		if s := p.Status()[0]; s.Hold != "" || gathered(t, m, "odradek_held_partitions") != 0 ||
			gathered(t, m, "odradek_partition_held_seconds") != 0 {
			t.Errorf("%s: held for %q after the registry is back", what, s.Hold)
		}
	}
	p, m, stop := start()
	notStalled(p, m, "running")
	up.Store(true)
	goesOn(p, m, "running")
	stop(errors.New("crash")) // without a last snapshot, so that there is something to replay

	up.Store(false)
	p, m, stop = start()
	notStalled(p, m, "restoring")
	if p.Ready() {
		t.Error("ready while it restores")
	}
	up.Store(true)
	goesOn(p, m, "restoring")
	stop(nil)
}

// framed produces a reading in Confluent framing, of schema id.
func (b *bench) framed(id int32) {
	b.t.Helper()
	v := output.NewReadingEncoder(id, "plant", "mm").Append(nil, []byte("framed"), 1700000000000000+int64(b.n)*1e6, 1, int64(b.n))
	if _, err := b.c.ProduceAcked(context.Background(),
		[]kafkatest.Record{{Topic: b.input, Partition: 0, Key: []byte("framed"), Value: v}}); err != nil {
		b.t.Fatal(err)
	}
}
