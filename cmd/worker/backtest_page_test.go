package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"odradek/cmd/internal/page"
	"odradek/processor/kafkatest"
)

// TestBacktestOfPage: a running worker says what a higher sensitivity would have found in a series: a small fault that it did not publish
// itself. Of several requests at once one is answered, the others are told to ask again, and the stream goes on. With REKEY the series
// is read where all of its records are.
func TestBacktestOfPage(t *testing.T) {
	for _, more := range []string{"", "ODRADEK_REKEY=true"} {
		t.Run(more, func(t *testing.T) { testBacktestOfPage(t, more) })
	}
}

func testBacktestOfPage(t *testing.T, more string) {
	const n = 20_000
	k := kafkatest.Fake(t, kafkatest.FakeOptions{Brokers: 1, NoRegistry: true})
	must(t, k.Admin().CreateTopic(t.Context(), "in", 2, 1, nil))
	rekey := more != ""
	records := make([]kafkatest.Record, n)
	start := time.Now().Add(-n * time.Second).UnixMilli()
	for i := range records {
		v := math.Sin(float64(i))
		if i == 15_000 || i == 15_001 {
			v = 1.8
		}
		at := start + int64(i)*1000
		records[i] = kafkatest.Record{Topic: "in", Partition: 0, Key: fmt.Append(nil, i), Time: at,
			Value: fmt.Appendf(nil, `{"id":"pump-1","at":%d,"v":%.4f}`, at, v)}
	}
	_, err := k.ProduceAcked(t.Context(), records)
	must(t, err)
	addr := freeAddr(t)
	environ := []string{"ODRADEK_KAFKA_BROKERS=" + strings.Join(k.Brokers, ","), "ODRADEK_GROUP=g", "ODRADEK_TOPICS=in", "ODRADEK_FORMAT=json",
		"ODRADEK_KEY_FIELD=id", "ODRADEK_TIME_FIELD=at", "ODRADEK_VALUE_FIELDS=v", "ODRADEK_PRESET=change", "ODRADEK_REPLICATION=1",
		"ODRADEK_HTTP_ADDR=off", "ODRADEK_PAGE_ADDR=" + addr}
	if rekey {
		environ = append(environ, more, "ODRADEK_LATENESS=1m")
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	get := func(path string, answer any) int {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+path, nil)
		if err != nil {
			t.Error(err)
			return 0
		}
		res, err := client.Do(r)
		if err != nil {
			t.Error(err)
			return 0
		}
		defer res.Body.Close()
		if err := json.NewDecoder(res.Body).Decode(answer); err != nil {
			t.Error(err)
		}
		return res.StatusCode
	}
	const path = "/backtest?key=pump-1&sensitivity=high"
	runUntil(t, k, environ, "in", func() {
		var got struct {
			page.Backtest
			Error string
		}
		for code := 0; code != http.StatusOK || got.Samples < n; time.Sleep(50 * time.Millisecond) {
			if code = get(path, &got); code != http.StatusOK && code != http.StatusNotFound || ctx.Err() != nil {
				t.Fatalf("%d: %s; %d samples", code, got.Error, got.Samples)
			}
		}
		topic := map[bool]string{false: "in", true: "g-rekey"}[rekey]
		at := time.UnixMilli(start + 15_001_000)
		if len(got.After.Anomalies) != 1 || got.Before.Faults != 0 || got.After.Faults != 1 || got.After.Anomalies[0].Start.After(at) ||
			got.After.Anomalies[0].End.Before(at) || got.Topic != topic || got.Cut != "" || got.Setting != "ODRADEK_SENSITIVITY=high" {
			t.Fatalf("%s, before %+v, after %+v, %q, %s", got.Topic, got.Before, got.After, got.Cut, got.Setting)
		}
		var published page.AnomalyList
		if get("/anomalies", &published); published.Open+published.Closed != 0 {
			t.Errorf("the worker has published %d anomalies", published.Open+published.Closed)
		}
		var status struct{ Sensitivity string }
		if get("/status.json", &status); status.Sensitivity != "normal" {
			t.Errorf("the sensitivity in force is %q", status.Sensitivity)
		}
		var mu sync.Mutex
		codes := map[int]int{}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				var got struct{ Error string }
				code := get(path, &got)
				mu.Lock()
				defer mu.Unlock()
				if codes[code]++; code != http.StatusOK && !strings.Contains(got.Error, "another backtest is running") {
					t.Errorf("%d: %s", code, got.Error)
				}
			})
		}
		wg.Wait()
		if codes[http.StatusOK] == 0 || codes[http.StatusServiceUnavailable] == 0 {
			t.Errorf("of 4 requests at once: %v", codes)
		}
	})
}
