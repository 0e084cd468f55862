package processor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/linkedin/goavro/v2"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"odradek/processor/kafkatest"
	"odradek/processor/state"
	"odradek/schemas"
	"odradek/schemas/formats"
)

// TestNoPayloadIsTold: what is in keys, values and headers of records is in no log
// line at any level, in no error, no metric and no header that is added to a dead
// letter. The name of a series in state that cannot be read is shown as its digest.
func TestNoPayloadIsTold(t *testing.T) {
	const secret = "Xyzzy"
	check := func(where, text string) {
		t.Helper()
		hex := fmt.Sprintf("% x", secret[:4])
		for _, s := range []string{secret, strings.ToLower(secret), fmt.Sprintf("%x", secret[:4]), hex} {
			if at := strings.Index(text, s); at >= 0 {
				t.Errorf("%s tells %q: ...%.200s", where, s, text[max(0, at-80):])
			}
		}
	}
	schema := `{"type":"record","name":"R","fields":[{"name":"sensor","type":["null","string",{"type":"enum","name":"E","symbols":["A"]}]},
		{"name":"time","type":["null",{"type":"long","logicalType":"timestamp-micros"},"string"]},{"name":"value","type":["null","double","string"]}]}`
	codec, err := goavro.NewCodec(schema)
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, 1)
	record := func(sensor, at, value any) []byte {
		v, err := codec.BinaryFromNative(nil, map[string]any{"sensor": sensor, "time": at, "value": value})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	text := func(s string) any { return goavro.Union("string", s) }
	at := func(s int) any { return goavro.Union("long.timestamp-micros", time.Unix(1700000000+int64(s), 0)) }
	number := goavro.Union("double", 1.5)
	good := record(text(secret+"-1"), at(1000), number)
	badEnum := []byte{4, 77} // the third branch, a symbol that is not there
	values := [][]byte{
		good, good,
		record(text(secret+"-1"), at(1), number), // late
		record(text(secret+"-2"), text(secret), number),
		record(text(secret+"-3"), at(2), text(secret)),
		record(text(secret+strings.Repeat("y", 9<<10)), at(3), number),
		record(text(secret+"-4"), at(4), goavro.Union("double", math.Inf(1))),
		append([]byte(nil), good[:len(good)-4]...),
		append(append([]byte(nil), good...), secret...),
		append(badEnum, secret...),
		[]byte(secret), nil,
	}
	for i := range 40 { // state for the changelog
		values = append(values, record(text(secret+"-1"), at(2000+i), number))
	}
	var recs []kafkatest.Record
	for _, v := range values {
		recs = append(recs, kafkatest.Record{Topic: b.input, Partition: 0, Key: []byte(secret + "-key"), Time: 1700000000000, Value: v,
			Headers: []kafkatest.Header{{Key: "h", Value: []byte(secret)}}})
	}
	recs = append(recs, kafkatest.Record{Topic: b.input, Partition: 0, Key: []byte(secret), Time: 1700000000000, Value: good,
		Headers: []kafkatest.Header{{Key: schemas.SchemaIDHeader, Value: []byte(secret)}}})
	if _, err := b.c.ProduceAcked(context.Background(), recs); err != nil {
		t.Fatal(err)
	}
	config := func() (Config, *logLines) {
		cfg := b.config("one")
		dec, err := formats.NewDecoder(schemas.Mapping{Key: "sensor", Time: "time", Fields: []string{"value"}}, nil,
			formats.Options{Bare: schema})
		if err != nil {
			t.Fatal(err)
		}
		cfg.Mappings.Decoder = dec
		l := new(logLines)
		cfg.Log = slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
		cfg.ReplayLimit = time.Nanosecond
		return cfg, l
	}
	cfg, log := config()
	b.run(cfg)
	check("the log", strings.Join(log.with(""), "\n"))
	w := httptest.NewRecorder()
	promhttp.HandlerFor(cfg.Metrics.Registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	check("/metrics", w.Body.String())
	dead, classes := b.dead(), map[string]bool{}
	for i := range dead {
		classes[head(&dead[i], "odradek.error.class")] = true
		for _, h := range dead[i].Headers {
			if h.Key != "h" && h.Key != schemas.SchemaIDHeader {
				check("header "+h.Key, string(h.Value))
			}
		}
	}
	if len(dead) != 10 || len(classes) < 6 {
		t.Errorf("%d dead letters of classes %v", len(dead), classes)
	}

	// Without a bare schema a value has to begin with a framing.
	var reading schemas.Reading
	err = b.config("").Mappings.Decoder.Decode(context.Background(), nil, []byte(secret), 0, nil, &reading)
	check("the error of a framing", fmt.Sprint(err))

	// State that cannot be read.
	name := "g-" + b.input + "-changelog"
	logged, err := b.c.Admin().ReadAll(context.Background(), name, true)
	if err != nil {
		t.Fatal(err)
	}
	spoilt := 0
	for i := range logged {
		if r := &logged[i]; len(r.Value) > 0 && bytes.Contains(r.Key, []byte(secret)) {
			spoilt++
			if _, err := b.c.ProduceAcked(context.Background(),
				[]kafkatest.Record{{Topic: name, Partition: 0, Key: r.Key, Value: []byte(secret)}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if spoilt == 0 {
		t.Fatal("no state in the changelog")
	}
	cfg, log = config()
	p, err := New(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err = p.Run(ctx)
	var refused *RefusedError
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), state.Digest([]byte(secret+"-1"))) {
		t.Errorf("state that cannot be read: %v", err)
	}
	check("the log of a refusal", strings.Join(log.with(""), "\n"))
	check("the refusal", fmt.Sprint(err))
}
