package processor

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/detectors"
	"odradek/detectors/seedtest"
	"odradek/detectors/simple"
	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/processor/kafkatest"
	"odradek/processor/metrics"
	"odradek/processor/state"
	"odradek/processor/state/series"
	"odradek/schemas/formats"
	"odradek/schemas/output"
)

func TestMain(m *testing.M) { kafkatest.Main(m) }

// bench is one processor's surroundings on kfake.
type bench struct {
	t      *testing.T
	c      *kafkatest.Cluster
	client *kafka.Client
	input  string
	n      int
	rng    *rand.Rand
}

func newBench(t *testing.T, partitions int, opts ...kfake.Opt) *bench {
	c := kafkatest.Fake(t, kafkatest.FakeOptions{Opts: opts})
	b := &bench{t: t, c: c, input: c.Topic(t, "in", partitions), rng: seedtest.New(t)}
	client, err := kafka.Open(context.Background(), kafka.Config{Brokers: c.Brokers, ClientID: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	b.client = client
	for _, name := range []string{"scores", "dlq", "late"} {
		if err := client.Admin.CreateTopic(context.Background(), name, 1, 1, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := client.Admin.CreateTopic(context.Background(), "g-"+b.input+"-changelog", partitions, 1,
		map[string]string{"cleanup.policy": "compact"}); err != nil {
		t.Fatal(err)
	}
	return b
}

// produce writes n samples of some keys: 8 bytes of double behind the framing of
// the reading schema.
func (b *bench) produce(n int, opts ...kgo.Opt) {
	b.t.Helper()
	b.produceTo(-1, n, opts...)
}

// produceTo does so in one partition, or by key in -1.
func (b *bench) produceTo(partition int32, n int, opts ...kgo.Opt) {
	b.t.Helper()
	if _, err := b.c.ProduceAcked(context.Background(), b.readings(partition, n), opts...); err != nil {
		b.t.Fatal(err)
	}
}

// produceBatch produces n samples as one batch.
func (b *bench) produceBatch(partition int32, n int) {
	b.t.Helper()
	if err := b.c.Admin().ProduceBatch(context.Background(), b.input, partition, b.readings(partition, n)); err != nil {
		b.t.Fatal(err)
	}
}

// readings returns the next n samples.
func (b *bench) readings(partition int32, n int) []kafkatest.Record {
	enc := output.NewReadingEncoder(-1, "plant", "mm")
	recs := make([]kafkatest.Record, n)
	for i := range recs {
		name := fmt.Sprintf("s%02d", b.rng.IntN(30))
		v := math.Sin(float64(b.n)/9) + 0.1*b.rng.NormFloat64()
		recs[i] = kafkatest.Record{Topic: b.input, Partition: partition, Key: []byte(name), Time: 1700000000000 + int64(b.n)*1000,
			Value: enc.Append(nil, []byte(name), 1700000000000000+int64(b.n)*1e6, v, int64(b.n))}
		b.n++
	}
	return recs
}

func (b *bench) config(instance string) Config {
	b.t.Helper()
	dec, err := formats.NewDecoder(output.ReadingMapping, nil, formats.Options{Schemas: []string{output.ReadingSchema}})
	if err != nil {
		b.t.Fatal(err)
	}
	level, err := simple.NewZScore(8)
	if err != nil {
		b.t.Fatal(err)
	}
	var state state.Config
	state.Dim = 1
	state.Windows = []series.WindowConfig{{Columns: []int{0}, Fingerprint: 1}}
	state.Detectors = []series.DetectorConfig{{Name: "level", Detector: level, Stride: 3, Fingerprint: 2}}
	return Config{
		Client: b.client, Group: "g", InstanceID: instance, Topics: []string{b.input}, Start: StartEarliest,
		Session: 10 * time.Second, Rebalance: 10 * time.Second, Heartbeat: 100 * time.Millisecond,
		Mappings: MappingSet{Mapping: Mapping{Decoder: dec, State: &state}}, Executor: detectors.NewCPU(1),
		TransactionTimeout: 10 * time.Second, ReplayLimit: 300 * time.Millisecond,
		SchemaIDs:       cycle.SchemaIDs{cycle.Scores: -1, cycle.Anomalies: -1},
		Outputs:         cycle.TopicNames{cycle.Scores: "scores", cycle.DeadLetters: "dlq", cycle.Late: "late"},
		Changelog:       func(topic string) string { return "g-" + topic + "-changelog" },
		MaxMessageBytes: 900_000,
		Fetch:           kafka.FetchConfig{ReadCommitted: true, MaxWait: 20 * time.Millisecond, PartitionBytes: 8 << 10},
		Metrics:         cycle.NewMetrics(),
		Log:             slog.New(slog.NewTextHandler(testWriter{b.t}, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

// run runs a processor until the input is committed, then drains it. It returns
// the status between the two.
func (b *bench) run(cfg Config) []metrics.PartitionStatus {
	b.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	p, err := New(ctx, cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	wctx, wcancel := context.WithTimeout(ctx, patience)
	defer wcancel()
	for (len(p.Status()) == 0 || !p.Ready()) && wctx.Err() == nil {
		time.Sleep(5 * time.Millisecond)
	}
	for _, topic := range cfg.Topics {
		if err := b.c.Admin().WaitCommitted(wctx, cfg.Group, topic); err != nil {
			b.t.Errorf("%s is not committed: %v", topic, err)
		}
	}
	status := p.Status()
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			b.t.Fatalf("Run: %v", err)
		}
	case <-time.After(patience):
		b.t.Fatal("Run does not drain")
	}
	return status
}

// ledger reads the scores and requires one for each input.
func (b *bench) ledger() map[[2]int64]output.Score {
	b.t.Helper()
	return b.scores(func(id [2]int64) { b.t.Errorf("two scores for %v", id) })
}

// scores reads the scores, and calls again for each one of an input that has had one.
func (b *bench) scores(again func(id [2]int64)) map[[2]int64]output.Score {
	b.t.Helper()
	recs, err := b.c.Admin().ReadAll(context.Background(), "scores", true)
	if err != nil {
		b.t.Fatal(err)
	}
	got := map[[2]int64]output.Score{}
	for i := range recs {
		s, err := output.DecodeScore(recs[i].Value)
		if err != nil {
			b.t.Fatal(err)
		}
		id := [2]int64{int64(s.Partition), s.Offset}
		if _, dup := got[id]; dup {
			again(id)
		}
		if (s.State == output.WarmingUp) != (s.Remaining > 0) {
			b.t.Errorf("%v, of state %v, says that %d samples remain", id, s.State, s.Remaining)
		}
		got[id] = s
	}
	return got
}

// TestRollbackEqualsRestore: commits that fail at random, before and after the
// broker has carried them out, leave the same state behind that a restore reads
// from the changelog, to the byte, and the same scores as no failure.
func TestRollbackEqualsRestore(t *testing.T) {
	b := newBench(t, 3)
	b.produce(10000)
	var mu sync.Mutex
	type seen struct {
		offset int64
		state  []byte
	}
	handed, restored := map[kafka.TP]seen{}, map[kafka.TP]seen{}
	failures, rng := 0, rand.New(rand.NewPCG(b.rng.Uint64(), 1))
	// carryOut does what a request asks for, with the answer to no one.
	direct, err := kafkatest.NewAdmin(b.c.Brokers)
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	var carrying atomic.Bool
	carryOut := func(r *kmsg.EndTxnRequest) {
		b.c.Fake.SleepControl(func() {
			carrying.Store(true)
			defer carrying.Store(false)
			req := *r
			res, err := req.RequestWith(context.Background(), direct.Client())
			if err == nil {
				err = kerr.ErrorForCode(res.ErrorCode)
			}
			if err != nil {
				t.Errorf("carry out: %v", err)
			}
		})
	}
	var then []*kerr.Error // answers to the requests that follow
	// Every few EndTxn(commit): the connection is cut before, it is refused, or it is
	// carried out, or not, and the answer says to look elsewhere; what it is repeated
	// with is answered truly, or refused.
	b.c.Fake.ControlKey(int16(kmsg.EndTxn), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.c.Fake.KeepControl()
		if carrying.Load() {
			return nil, nil, false
		}
		mu.Lock()
		defer mu.Unlock()
		r := req.(*kmsg.EndTxnRequest)
		answer := func(err *kerr.Error) (kmsg.Response, error, bool) {
			resp := r.ResponseKind().(*kmsg.EndTxnResponse)
			resp.ErrorCode = err.Code
			return resp, nil, true
		}
		if len(then) > 0 {
			err := then[0]
			then = then[1:]
			return answer(err)
		}
		if !r.Commit || rng.IntN(3) == 0 || failures >= 30 {
			return nil, nil, false
		}
		failures++
		switch rng.IntN(6) {
		case 0:
			return nil, fmt.Errorf("cut"), true
		case 1:
			carryOut(r)
			return answer(kerr.NotCoordinator)
		case 2:
			then = append(then, kerr.InvalidTxnState)
			return answer(kerr.NotCoordinator)
		case 3:
			carryOut(r)
			then = append(then, []*kerr.Error{kerr.InvalidTxnState, kerr.ProducerFenced}[rng.IntN(2)])
			return answer(kerr.CoordinatorNotAvailable)
		case 4:
			carryOut(r)
			return nil, fmt.Errorf("cut"), true
		}
		return answer(kerr.OperationNotAttempted)
	})
	cfg := b.config("one")
	cfg.export = func(tp kafka.TP, wasRestored bool, offset int64, state []byte) {
		mu.Lock()
		defer mu.Unlock()
		if !wasRestored {
			handed[tp] = seen{offset, state}
		}
	}
	b.run(cfg)

	cfg = b.config("one") // static: it has its partitions back at once
	cfg.export = func(tp kafka.TP, wasRestored bool, offset int64, state []byte) {
		mu.Lock()
		defer mu.Unlock()
		if wasRestored {
			restored[tp] = seen{offset, state}
		}
	}
	b.run(cfg)
	if failures == 0 {
		t.Fatal("no commit was made to fail")
	}
	t.Logf("%d commits failed", failures)
	if len(handed) != 3 || len(restored) != 3 {
		t.Fatalf("%d partitions handed over, %d restored, want 3", len(handed), len(restored))
	}
	for tp, h := range handed {
		r := restored[tp]
		if h.offset != r.offset || !bytes.Equal(h.state, r.state) {
			t.Errorf("%v: state at %d after rollbacks (%d bytes) is not the restored one at %d (%d bytes)", tp, h.offset, len(h.state),
				r.offset, len(r.state))
		}
	}
	if got := b.ledger(); len(got) < b.n-30*3 || len(got) > b.n {
		t.Errorf("%d scores for %d records (at most 3 of each key wait for their stride)", len(got), b.n)
	}
}
