package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"odradek/processor/cycle"
)

// This file exports the cycles of a worker as spans of OpenTelemetry.

// The variables of OpenTelemetry that turn the export on, and the one that names its protocol. The exporter and the SDK read
// these and all others of the specification: headers, certificates, sampling, limits of queues.
var (
	endpoints = []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"}
	protocols = []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"}
)

const protocol = "http/protobuf"

// stopLimit bounds how long the last spans are waited for.
const stopLimit = 5 * time.Second

// logEvery is the least time between two log lines about spans that could not be exported.
const logEvery = time.Minute

// startTracing starts the export of spans to an OpenTelemetry collector, if the variables name one. traced has to be called with
// each cycle, and is nil without a collector; stop ends the export. An error is a fault of the variables. A collector that
// does not answer is no error: its spans are lost.
func startTracing(ctx context.Context, getenv func(string) string, group, version string, log *slog.Logger) (
	traced func(*cycle.Trace), stop func(), err error) {
	stop = func() {}
	if (getenv(endpoints[0]) == "" && getenv(endpoints[1]) == "") || getenv("OTEL_SDK_DISABLED") == "true" {
		return nil, stop, nil
	}
	for _, name := range protocols {
		if p := getenv(name); p != "" && p != protocol {
			return nil, stop, fmt.Errorf("tracing: %s is %q, and spans are exported as %s alone: set it to that, with the collector's port for it",
				name, p, protocol)
		}
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, stop, fmt.Errorf("tracing: %w", err)
	}
	about, err := resource.Merge(resource.NewSchemaless(attribute.String("service.name", "odradek"),
		attribute.String("service.version", version)), resource.Environment())
	if err != nil {
		return nil, stop, fmt.Errorf("tracing: OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	var logged atomic.Int64
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		now := time.Now().UnixNano()
		if last := logged.Load(); now-last > int64(logEvery) && logged.CompareAndSwap(last, now) {
			log.Warn("spans cannot be exported", "err", err)
		}
	}))
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(about))
	e := &exporterOfCycles{tracer: provider.Tracer("odradek"), group: group}
	return e.cycle, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			log.Warn("the last spans are not exported", "err", err)
		}
	}, nil
}

type exporterOfCycles struct {
	tracer trace.Tracer
	group  string
}

// cycle makes the spans of a cycle: of all of it, from the fetch of its oldest chunk on, and in it of the processing and of the commit.
func (e *exporterOfCycles) cycle(c *cycle.Trace) {
	attributes := []attribute.KeyValue{
		attribute.String("messaging.system", "kafka"),
		attribute.String("messaging.operation.type", "process"),
		attribute.String("messaging.consumer.group.name", e.group),
		attribute.Int("messaging.batch.message_count", c.Records),
		attribute.Int("odradek.partitions", c.Partitions),
		attribute.Int("odradek.bytes", c.Bytes),
	}
	for name, n := range c.Outputs {
		attributes = append(attributes, attribute.Int("odradek.records."+name, n))
	}
	ctx, span := e.tracer.Start(context.Background(), "cycle", trace.WithTimestamp(c.Fetched), trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(attributes...), trace.WithLinks(links(c.Traceparents)...))
	_, processing := e.tracer.Start(ctx, "process", trace.WithTimestamp(c.Fetched))
	processing.End(trace.WithTimestamp(c.Began))
	_, commit := e.tracer.Start(ctx, "commit", trace.WithTimestamp(c.Began), trace.WithSpanKind(trace.SpanKindProducer))
	if c.Err != nil {
		for _, s := range []trace.Span{commit, span} {
			s.SetStatus(codes.Error, c.Err.Error())
		}
	}
	commit.End(trace.WithTimestamp(c.Ended))
	span.End(trace.WithTimestamp(c.Ended))
}

// links returns links to the spans that the traceparents name. Those that are none are left out.
func links(traceparents []string) (list []trace.Link) {
	for _, t := range traceparents {
		ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": t})
		if c := trace.SpanContextFromContext(ctx); c.IsValid() {
			list = append(list, trace.Link{SpanContext: c})
		}
	}
	return list
}
