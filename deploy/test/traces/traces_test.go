package traces

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"

	"odradek/processor/kafkatest"
)

// This file runs a worker in front of the OTLP receiver of OpenTelemetry's own collector.

func TestMain(m *testing.M) { kafkatest.Main(m) }

const repository = "../../.."

// collect starts the collector's receiver and returns its URL and what it hands on.
func collect(t *testing.T) (url string, traces *consumertest.TracesSink) {
	t.Helper()
	ports, err := kafkatest.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", ports[0])
	factory := otlpreceiver.NewFactory()
	settings := factory.CreateDefaultConfig()
	if err := confmap.NewFromStringMap(map[string]any{"protocols": map[string]any{"http": map[string]any{"endpoint": addr}}}).Unmarshal(settings); err != nil {
		t.Fatal(err)
	}
	traces = new(consumertest.TracesSink)
	r, err := factory.CreateTraces(t.Context(), receivertest.NewNopSettings(component.MustNewType("otlp")), settings, traces)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Start(t.Context(), componenttest.NewNopHost()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Shutdown(t.Context()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	return "http://" + addr, traces
}

// TestTraces: each cycle of a worker is a trace at the collector, with all records that were read, linked with traces of these;
// scores and anomalies go on with the trace of the record that they name as their source.
func TestTraces(t *testing.T) {
	url, traces := collect(t)
	cluster, err := kafkatest.StartFake(kafkatest.FakeOptions{Brokers: 1, NoRegistry: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	input := cluster.Topic(t, "sensors", 3)
	for _, output := range []string{"plant-scores", "plant-anomalies"} {
		if err := cluster.Admin().CreateTopic(t.Context(), output, 3, 0, nil); err != nil {
			t.Fatal(err)
		}
	}
	w := exec.Command(kafkatest.GoProgram(t, repository, "worker", "build", "./cmd/worker"), "run")
	w.Env = append(os.Environ(), "OTEL_EXPORTER_OTLP_ENDPOINT="+url, "OTEL_SERVICE_NAME=plant-odradek")
	for _, s := range []string{"KAFKA_BROKERS=" + strings.Join(cluster.Brokers, ","), "GROUP=plant", "TOPICS=" + input, "FORMAT=json", "OUTPUT_FORMAT=json",
		"KEY_FIELD=key", "TIME_FIELD=time", "VALUE_FIELDS=value", "HTTP_ADDR=off", "PAGE_ADDR=off", "EXECUTOR=cpu", "CARRY_HEADERS=traceparent",
		"DETECTORS=level", "DETECTOR_LEVEL_OP=zscore", "DETECTOR_LEVEL_WINDOW=40", "DETECTOR_LEVEL_THRESHOLD=fixed:5.5",
		"SCHEMA_REGISTRY_CACHE_DIR=off"} {
		w.Env = append(w.Env, "ODRADEK_"+s)
	}
	var log strings.Builder
	w.Stdout, w.Stderr = &log, &log
	if err := kafkatest.Start(w); err != nil {
		t.Fatal(err)
	}
	ended := false
	end := func() {
		if !ended {
			ended = true
			_ = w.Process.Signal(os.Interrupt)
			_ = w.Wait()
		}
	}
	t.Cleanup(func() {
		end()
		if t.Failed() {
			t.Log(log.String())
		}
	})

	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	const sensors, steps = 30, 80
	var records []kafkatest.Record
	for step := range steps {
		at := int64(1_767_225_600_000 + 1000*step)
		for i := range sensors {
			value := rng.NormFloat64()
			if step > 60 && i < 10 {
				value += 100
			}
			key := fmt.Sprintf("sensor-%02d", i)
			r := kafkatest.Record{Topic: input, Partition: int32(i % 3), Time: at, Key: []byte(key),
				Value: fmt.Appendf(nil, `{"key": %q, "time": %d, "value": %g}`, key, at, value)}
			if i%5 > 0 { // others have no trace
				r.Headers = []kafkatest.Header{{Key: "traceparent", Value: fmt.Appendf(nil, "00-%016x%016x-%016x-01", rng.Uint64(), rng.Uint64()|1, rng.Uint64()|1)}}
			}
			records = append(records, r)
		}
	}
	sent, err := cluster.ProduceAcked(t.Context(), records)
	if err != nil {
		t.Fatal(err)
	}
	sources, traced := map[kafkatest.TP]map[int64]string{}, map[string]bool{}
	for _, r := range sent {
		if sources[r.TP()] == nil {
			sources[r.TP()] = map[int64]string{}
		}
		v, _ := r.Header("traceparent")
		sources[r.TP()][r.Offset] = string(v)
		if len(v) > 0 {
			traced[strings.Split(string(v), "-")[1]] = true
		}
	}
	if err := cluster.Admin().WaitCommitted(t.Context(), "plant", input); err != nil {
		t.Fatal(err)
	}
	end()

	for topic, least := range map[string]int{"plant-scores": sensors * (steps - 1), "plant-anomalies": 10} {
		outputs, err := kafkatest.ReadAll(t.Context(), cluster.Brokers, topic, true)
		if err != nil {
			t.Fatal(err)
		}
		carried := 0
		for _, r := range outputs {
			var o struct {
				Source struct {
					Topic     string
					Partition int32
					Offset    int64
				}
			}
			if err := json.Unmarshal(r.Value, &o); err != nil {
				t.Fatal(err)
			}
			want, ok := sources[kafkatest.TP{Topic: o.Source.Topic, Partition: o.Source.Partition}][o.Source.Offset]
			if got, _ := r.Header("traceparent"); !ok || string(got) != want {
				t.Fatalf("%s has traceparent %q, want %q", r.Value, got, want)
			}
			if want != "" {
				carried++
			}
		}
		if len(outputs) < least || carried < len(outputs)/2 {
			t.Errorf("%s has %d records, %d with a trace, want %d", topic, len(outputs), carried, least)
		}
	}
	checkSpans(t, traces.AllTraces(), len(records), traced)
}

// checkSpans checks what the collector has of n records, some of them of traces.
func checkSpans(t *testing.T, all []ptrace.Traces, n int, traces map[string]bool) {
	t.Helper()
	type trace struct {
		cycle ptrace.Span
		parts map[string]ptrace.Span
	}
	cycles := map[string]*trace{}
	each(all, func(service string, s ptrace.Span) {
		if service != "plant-odradek" {
			t.Errorf("a span of service %q", service)
		}
		c := cycles[s.TraceID().String()]
		if c == nil {
			c = &trace{parts: map[string]ptrace.Span{}}
			cycles[s.TraceID().String()] = c
		}
		if s.Name() == "cycle" {
			c.cycle = s
		} else {
			c.parts[s.Name()] = s
		}
	})
	records, scores, linked := int64(0), int64(0), 0
	for id, c := range cycles {
		if c.cycle == (ptrace.Span{}) || !slices.Equal(slices.Sorted(maps.Keys(c.parts)), []string{"commit", "process"}) {
			t.Fatalf("trace %s has the spans %v beside the cycle", id, c.parts)
		}
		process, commit := c.parts["process"], c.parts["commit"]
		if process.ParentSpanID() != c.cycle.SpanID() || commit.ParentSpanID() != c.cycle.SpanID() || process.StartTimestamp() != c.cycle.StartTimestamp() ||
			process.EndTimestamp() != commit.StartTimestamp() || commit.EndTimestamp() != c.cycle.EndTimestamp() || commit.EndTimestamp() <= commit.StartTimestamp() {
			t.Errorf("trace %s: process %v to %v and commit to %v in a cycle from %v to %v", id, process.StartTimestamp(), process.EndTimestamp(),
				commit.EndTimestamp(), c.cycle.StartTimestamp(), c.cycle.EndTimestamp())
		}
		for name, into := range map[string]*int64{"messaging.batch.message_count": &records, "odradek.records.scores": &scores} {
			if v, ok := c.cycle.Attributes().Get(name); ok {
				*into += v.Int()
			}
		}
		for i := range c.cycle.Links().Len() {
			linked++
			if traceID := c.cycle.Links().At(i).TraceID().String(); !traces[traceID] {
				t.Errorf("a cycle is linked with trace %s, which no record is of", traceID)
			}
		}
	}
	if records != int64(n) || scores < int64(n)*9/10 || linked == 0 {
		t.Errorf("%d cycles of %d records with %d scores and %d links, want %d records", len(cycles), records, scores, linked, n)
	}
	t.Logf("%d cycles of %d records with %d scores, linked with %d traces", len(cycles), records, scores, linked)
}

// each calls f with the spans of all traces.
func each(all []ptrace.Traces, f func(service string, s ptrace.Span)) {
	for _, traces := range all {
		for _, r := range traces.ResourceSpans().All() {
			service, _ := r.Resource().Attributes().Get("service.name")
			for _, scope := range r.ScopeSpans().All() {
				for _, s := range scope.Spans().All() {
					f(service.Str(), s)
				}
			}
		}
	}
}
