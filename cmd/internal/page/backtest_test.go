package page

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"odradek/cmd/internal/config"
	"odradek/processor/kafkatest"
)

// newBacktestBed starts an explorer of a worker with a preset whose input topic has 300 samples of each of two series, with a small
// fault of pump-1 that only a high sensitivity finds.
func newBacktestBed(t *testing.T, more ...string) *bed {
	t.Helper()
	var b *bed
	b = newBed(t, func(c *Config) {
		parse := func() *config.Config {
			c, faults, _ := config.Parse(append([]string{"ODRADEK_GROUP=g", "ODRADEK_TOPICS=in,other", "ODRADEK_FORMAT=json", "ODRADEK_KEY_FIELD=id",
				"ODRADEK_TIME_FIELD=at", "ODRADEK_VALUE_FIELDS=a,b", "ODRADEK_KAFKA_BROKERS=" + strings.Join(b.cluster.Brokers, ",")}, more...))
			if len(faults) > 0 {
				t.Fatal(faults)
			}
			return c
		}
		c.Backtests = &Backtests{Settings: parse}
	})
	b.c.Backtests.Started = b.c.Backtests.Settings()
	b.topic("in", 1)
	b.topic("other", 1)
	var records []kafkatest.Record
	for i := range 300 {
		for _, id := range []string{"pump-1", "\\u0000pump-2"} {
			v := math.Sin(float64(i))
			if id == "pump-1" && (i == 200 || i == 201) {
				v = 1.8
			}
			records = append(records, kafkatest.Record{Topic: "in", Key: []byte("k"), Time: b.at(60*i) / 1000,
				Value: fmt.Appendf(nil, `{"id":"%s","at":%d,"a":%.4f,"b":%.4f}`, id, b.at(60*i)/1000, v, v)})
		}
	}
	b.write(records...)
	return b
}

func ask(t *testing.T, b *bed, edit func(*BacktestQuery)) (*Backtest, error) {
	t.Helper()
	q := &BacktestQuery{Key: "pump-1", Topic: "in", Partition: new(int32), Sensitivity: "high", Samples: usualBacktest}
	if edit != nil {
		edit(q)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	return b.Backtest(ctx, q)
}

// TestBacktest: a fault that only a high sensitivity finds is on one side, and the answer says what was read.
func TestBacktest(t *testing.T) {
	b := newBacktestBed(t, "ODRADEK_PRESET=change")
	got, err := ask(t, b, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got.Before.Sensitivity != "normal" || got.Before.Faults != 0 || got.Before.Total != 0 || got.Before.AlarmsPerDay != 0 ||
		got.After.Sensitivity != "high" || got.After.Faults != 1 || got.After.Total != 1 || len(got.After.Anomalies) != 1 {
		t.Fatalf("before %+v, after %+v", got.Before, got.After)
	}
	a := got.After.Anomalies[0]
	if a.Both || a.Detector != "level" || a.Start.After(b.start.Add(201*time.Minute)) || a.End.Before(b.start.Add(201*time.Minute)) ||
		got.After.Days <= 0.1 || math.Abs(float64(got.After.AlarmsPerDay)-1/got.After.Days) > 1e-9 || a.Fault == "" || a.Band == "" {
		t.Errorf("%+v, %v days", a, got.After.Days)
	}
	if got.Samples != 300 || got.Records != 600 || got.Cut != "" || !got.From.Equal(b.start) || !got.To.Equal(b.start.Add(299*time.Minute)) ||
		got.Topic != "in" || got.Setting != "ODRADEK_SENSITIVITY=high" || strings.Join(got.Fields, " ") != "a b" || len(got.Times) != 300 ||
		len(got.Low[1]) != 300 || len(got.Notes) != 0 {
		t.Errorf("%+v", got)
	}
	if low, err := ask(t, b, func(q *BacktestQuery) { q.Sensitivity = "normal" }); err != nil || low.After.Total != 0 {
		t.Errorf("the same sensitivity: %+v, %v", low, err)
	}
	both, err := ask(t, newBacktestBed(t, "ODRADEK_PRESET=change", "ODRADEK_SENSITIVITY=high"), nil)
	if err != nil || both.Before.Total != 1 || !both.Before.Anomalies[0].Both || !both.After.Anomalies[0].Both {
		t.Errorf("where both have it: %+v, %v", both, err)
	}
	cut, err := ask(t, b, func(q *BacktestQuery) { q.Samples = 100 })
	if err != nil || cut.Records != 200 || cut.Cut != "Not read: the 400 offsets before (100 samples are the most that were asked for)." {
		t.Errorf("%+v, %v", cut, err)
	}
	if few, err := ask(t, b, func(q *BacktestQuery) { q.Samples = 10 }); err != nil || len(few.Notes) != 1 ||
		!strings.Contains(few.Notes[0], "too few") || !math.IsNaN(float64(few.After.AlarmsPerDay)) {
		t.Errorf("%+v, %v", few, err)
	}
	b.limits.time = 0
	late, err := ask(t, b, nil)
	if err != nil || !strings.Contains(late.Cut, "the newest ") || !strings.Contains(late.Cut, "the time was over") {
		t.Errorf("%+v, %v", late, err)
	}
	// Where the topic is not given, the newest anomaly says where the series is.
	b.limits = usualBounds
	b.topic("anomalies", 1)
	b.write(b.anomaly(1, 1, 0, "pump-1", 10, nil))
	b.list(AnomalyQuery{}, "one is open", func(l *AnomalyList) bool { return l.Open == 1 })
	if found, err := ask(t, b, func(q *BacktestQuery) { q.Topic, q.Partition = "", nil }); err != nil || found.After.Total != 1 {
		t.Errorf("%+v, %v", found, err)
	}
}

// TestBacktestRefused: what cannot be run says why, and leaves the turn to the next.
func TestBacktestRefused(t *testing.T) {
	b := newBacktestBed(t, "ODRADEK_PRESET=change")
	one := int32(1)
	for _, x := range []struct {
		edit func(*BacktestQuery)
		code int
		want string
	}{
		{func(q *BacktestQuery) { q.Key = "pump-9" }, 404, `none of the last 600 records of in/0 is of series "pump-9"`},
		{func(q *BacktestQuery) { q.Topic = "other" }, 404, "other/0 has no records"},
		{func(q *BacktestQuery) { q.Topic = "anomalies" }, 404, "in, other"},
		{func(q *BacktestQuery) { q.Partition = &one }, 404, "has 1 partitions"},
		{func(q *BacktestQuery) { q.Topic = "" }, 404, "no anomaly in memory"},
	} {
		var e *Error
		if _, err := ask(t, b, x.edit); !errors.As(err, &e) || e.Code != x.code || !strings.Contains(e.Text, x.want) {
			t.Errorf("%v, want %d, %s", err, x.code, x.want)
		}
	}
	var e *Error
	named := newBacktestBed(t, "ODRADEK_DETECTORS=x", "ODRADEK_DETECTOR_X_OP=zscore")
	if _, err := ask(t, named, nil); !errors.As(err, &e) || e.Code != http.StatusConflict || !strings.Contains(e.Text, "ALARMS_PER_DAY") {
		t.Errorf("without a preset: %v", err)
	}
	b.testing <- struct{}{}
	if _, err := ask(t, b, nil); err == nil || !strings.Contains(err.Error(), "another backtest is running") {
		t.Errorf("two at once: %v", err)
	}
	<-b.testing
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	q := &BacktestQuery{Key: "pump-1", Topic: "in", Partition: new(int32), Sensitivity: "high", Samples: 1000}
	if _, err := b.Backtest(ctx, q); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := ask(t, b, nil); err != nil {
		t.Errorf("after these: %v", err)
	}
	b.c.Backtests = nil
	if _, err := ask(t, b, nil); err == nil {
		t.Error("without settings: no error")
	}
}

// TestBacktestQuery: the parameters of /backtest reach the Explorer, and a client that goes ends the run.
func TestBacktestQuery(t *testing.T) {
	h, g := apiHandler(Access{})
	zero := int32(0)
	code, _ := request(h, "GET", "/backtest?key=a&sensitivity=low&topic=in&partition=0&samples=200", "")
	if q, ok := g.asked[0].(BacktestQuery); !ok || code != 200 || q.Key != "a" || q.Sensitivity != "low" || q.Topic != "in" ||
		*q.Partition != zero || q.Samples != 200 {
		t.Errorf("%d %+v", code, g.asked)
	}
	g.wait, g.gone = make(chan struct{}), make(chan struct{})
	s := httptest.NewServer(h)
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/backtest?key=a&sensitivity=low", nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if res, err := http.DefaultClient.Do(r); err == nil {
			res.Body.Close()
		}
	}()
	<-g.wait
	cancel()
	select {
	case <-g.gone:
	case <-time.After(10 * time.Second): // less than backtestTimeout
		t.Error("the run goes on without its client")
	}
}

// TestKeyOf: a key that is no text is found by what is shown of it.
func TestKeyOf(t *testing.T) {
	for _, key := range [][]byte{[]byte("pump-1"), {0xff, 1}, []byte("0x61"), []byte("0xzz"), []byte("0x")} {
		if got := keyOf(seriesOf(key)); !bytes.Equal(got, key) {
			t.Errorf("%x is %x", key, got)
		}
	}
}
