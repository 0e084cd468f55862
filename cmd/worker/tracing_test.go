package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"odradek/processor/cycle"
)

// collect starts a collector of spans. The returned function returns those that it has, by name, and the service's name.
func collect(t *testing.T) (url string, spans func() (map[string]*otlp.Span, string)) {
	var mu sync.Mutex
	all, service := map[string]*otlp.Span{}, ""
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		var body io.Reader = q.Body
		if q.Header.Get("Content-Encoding") == "gzip" {
			body, _ = gzip.NewReader(q.Body)
		}
		b, err := io.ReadAll(body)
		var req collector.ExportTraceServiceRequest
		if err = errors.Join(err, proto.Unmarshal(b, &req)); err != nil || q.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", q.URL.Path, err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, r := range req.ResourceSpans {
			for _, a := range r.Resource.Attributes {
				if a.Key == "service.name" {
					service = a.Value.GetStringValue()
				}
			}
			for _, s := range r.ScopeSpans {
				for _, span := range s.Spans {
					all[span.Name] = span
				}
			}
		}
	}))
	t.Cleanup(srv.Close)
	return srv.URL, func() (map[string]*otlp.Span, string) {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(all), service
	}
}

func TestCycle(t *testing.T) {
	url, spans := collect(t)
	env := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": url}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
	t.Setenv("OTEL_SERVICE_NAME", "plant-odradek")
	traced, stop, err := startTracing(t.Context(), func(name string) string { return env[name] }, "plant", "v1", slog.Default())
	if err != nil || traced == nil {
		t.Fatal(err)
	}
	at := time.Unix(1_700_000_000, 0)
	traced(&cycle.Trace{Fetched: at, Began: at.Add(time.Second), Ended: at.Add(3 * time.Second), Partitions: 2, Records: 17,
		Bytes: 4711, Outputs: map[string]int{"scores": 34}, Err: errors.New("kafka: no coordinator"), Traceparents: []string{
			"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "none", "00-00000000000000000000000000000000-00f067aa0ba902b7-01"}})
	stop()
	got, service := spans()
	all, process, commit := got["cycle"], got["process"], got["commit"]
	if len(got) != 3 || all == nil || process == nil || commit == nil || service != "plant-odradek" {
		t.Fatalf("service %q, spans %v", service, got)
	}
	for _, c := range []struct {
		span     *otlp.Span
		from, to time.Duration
		parent   []byte
		failed   bool
	}{{all, 0, 3 * time.Second, nil, true}, {process, 0, time.Second, all.SpanId, false},
		{commit, time.Second, 3 * time.Second, all.SpanId, true}} {
		s := c.span
		if int64(s.StartTimeUnixNano) != at.Add(c.from).UnixNano() || int64(s.EndTimeUnixNano) != at.Add(c.to).UnixNano() ||
			!bytes.Equal(s.ParentSpanId, c.parent) || !bytes.Equal(s.TraceId, all.TraceId) ||
			(s.GetStatus().GetCode() == otlp.Status_STATUS_CODE_ERROR) != c.failed {
			t.Errorf("%v", s)
		}
	}
	values := map[string]string{}
	for _, a := range all.Attributes {
		values[a.Key] = a.Value.String()
	}
	for name, want := range map[string]string{"messaging.batch.message_count": "17", "odradek.partitions": "2", "odradek.bytes": "4711",
		"odradek.records.scores": "34", "messaging.consumer.group.name": `"plant"`} {
		if !strings.Contains(values[name], want) {
			t.Errorf("%s is %q, want %s", name, values[name], want)
		}
	}
	if len(all.Links) != 1 || all.Links[0].SpanId[7] != 0xb7 {
		t.Errorf("links %v", all.Links)
	}
}

func TestTracingStart(t *testing.T) {
	for _, c := range []struct {
		name string
		env  map[string]string
		on   bool
		err  string
	}{
		{"no variable", nil, false, ""},
		{"turned off", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"}, false, ""},
		{"for traces", map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1/v1/traces"}, true, ""},
		{"gRPC", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, false,
			`OTEL_EXPORTER_OTLP_PROTOCOL is "grpc"`},
	} {
		cycle, stop, err := startTracing(t.Context(), func(name string) string { return c.env[name] }, "g", "v", slog.New(slog.DiscardHandler))
		stop()
		if (cycle != nil) != c.on || (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: on %t, %v", c.name, cycle != nil, err)
		}
	}
}
