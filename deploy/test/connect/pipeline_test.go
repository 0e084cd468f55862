// Package connect runs the pipelines of deploy/connect.
package connect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/redpanda-data/benthos/v4/public/components/io"
	_ "github.com/redpanda-data/benthos/v4/public/components/pure"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

const repository = "../../.."

// sensors is how many sensors of line-3 fail at once.
const sensors = 200

// receiver is an HTTP server that keeps what it is sent.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	requests map[string][]request // by path
	refuse   int                  // how many requests it answers with an error first
}

type request struct {
	key  string // Idempotency-Key
	body []byte
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{requests: map[string][]request{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.refuse > 0 || err != nil {
			r.refuse--
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		r.requests[q.URL.Path] = append(r.requests[q.URL.Path], request{q.Header.Get("Idempotency-Key"), body})
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) of(path string) []request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.requests[path])
}

// waitFor waits until the condition holds.
func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("there is still not: ", what)
		}
	}
}

// startWorker runs a worker over the topic sensors of the brokers. It has a detector that knows what to expect within 20 samples.
func startWorker(t *testing.T, brokers string) {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "worker")
	build := exec.Command("go", "build", "-o", bin, "./cmd/worker")
	build.Dir = repository
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	w := exec.Command(bin, "run")
	w.Env = append(os.Environ(), "CGO_ENABLED=0")
	for _, s := range []string{"KAFKA_BROKERS=" + brokers, "GROUP=plant", "TOPICS=sensors", "FORMAT=json", "OUTPUT_FORMAT=json", "KEY_FIELD=key",
		"TIME_FIELD=time", "VALUE_FIELDS=value", "GROUP_BY=^[^/]+", "HTTP_ADDR=off", "PAGE_ADDR=off", "EXECUTOR=cpu", "DETECTORS=level",
		"DETECTOR_LEVEL_OP=zscore", "DETECTOR_LEVEL_WINDOW=40", "DETECTOR_LEVEL_THRESHOLD=fixed:5.5", "DETECTOR_LEVEL_CLOSE_AFTER=3",
		"FETCH_MAX_WAIT=20ms", "SCHEMA_REGISTRY_CACHE_DIR=off"} {
		w.Env = append(w.Env, "ODRADEK_"+s)
	}
	var log strings.Builder
	w.Stdout, w.Stderr = &log, &log
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = w.Process.Signal(os.Interrupt)
		_ = w.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
}

// message is what a webhook gets.
type message struct {
	Key, Status, Band, Detectors, Start, End, Text string
	Count, Severity                                int
	Series                                         []string
}

// alert is what Alertmanager gets.
type alert struct {
	Labels, Annotations map[string]string
	StartsAt, EndsAt    time.Time
}

// TestPipeline: 200 sensors of a line fail at once, and one of another line. A worker finds them; the pipeline sends one message for
// each line when they open and one when they are over, to all three receivers, though these refuse the first requests.
func TestPipeline(t *testing.T) {
	for name, c := range map[string]struct {
		partitions int32
		pattern    string
	}{
		"groups of the workers":        {1, ""},
		"groups of several partitions": {3, "^[^/]+"},
	} {
		split := true
		for try := 1; split && try <= 5; try++ { // on a busy machine the anomalies may open across the end of a window
			t.Run(name, func(t *testing.T) { split = testPipeline(t, c.partitions, c.pattern) })
		}
		if split {
			t.Errorf("%s: the messages of a group were split in each of five runs", name)
		}
	}
}

// window is the pipeline's WINDOW; its windows begin at its multiples.
const window = 3 * time.Second

// testPipeline reports whether a group was split: its anomalies opened, or closed, in two windows.
func testPipeline(t *testing.T, partitions int32, pattern string) (split bool) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, "sensors"), kfake.SeedTopics(3, "plant-anomalies"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	brokers := strings.Join(cluster.ListenAddrs(), ",")
	r := newReceiver(t)
	r.refuse = 2
	for name, value := range map[string]string{"BROKERS": brokers, "ANOMALIES_TOPIC": "plant-anomalies", "WINDOW": window.String(), "GROUP_PATTERN": pattern,
		"WEBHOOK_URL": r.URL + "/webhook", "SLACK_URL": r.URL + "/slack", "ALERTMANAGER_URL": r.URL} {
		t.Setenv(name, value)
	}
	env, err := newEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	builder := env.NewStreamBuilder()
	text, err := os.ReadFile(repository + "/deploy/connect/redpanda/anomalies.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(builder.SetYAML(string(text)), builder.SetLoggerYAML("level: error")); err != nil {
		t.Fatal(err)
	}
	stream, err := builder.Build()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var ended atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := stream.Run(ctx); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
		ended.Store(true)
	}()
	t.Cleanup(func() {
		if err := stream.StopWithin(time.Minute); err != nil {
			t.Error(err)
		}
		cancel()
		<-done
	})

	startWorker(t, brokers)
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	at := time.UnixMilli(1_767_225_600_000).UTC()
	rng := rand.New(rand.NewPCG(1, 2))
	step := func(fault float64) {
		t.Helper()
		at = at.Add(time.Second)
		var records []*kgo.Record
		for i := range sensors + 2 {
			key, value := fmt.Sprintf("line-3/sensor-%03d", i), rng.NormFloat64()+fault
			if i >= sensors {
				key = fmt.Sprintf("line-%d/sensor-000", i)
			}
			if i == sensors+1 { // never fails
				value -= fault
			}
			v := fmt.Sprintf(`{"key": %q, "time": %d, "value": %g}`, key, at.UnixMilli(), value)
			records = append(records, &kgo.Record{Topic: "sensors", Key: []byte(key), Value: []byte(v), Timestamp: at})
		}
		if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for range 60 {
		step(0)
	}
	nextWindow := func() { time.Sleep(time.Until(time.Now().Truncate(window).Add(window))) }
	nextWindow()
	step(100)
	began := at
	waitFor(t, "a message of each line that fails", func() bool { return ended.Load() || len(r.of("/webhook")) >= 2 && len(r.of("/api/v2/alerts")) >= 2 })
	nextWindow()
	for range 30 {
		step(0)
	}
	waitFor(t, "a message of each line that is over", func() bool { return ended.Load() || len(r.of("/webhook")) >= 4 && len(r.of("/api/v2/alerts")) >= 4 })

	byKey, alerts := map[string][]message{}, map[string][]alert{}
	for _, q := range r.of("/webhook") {
		var m message
		if err := json.Unmarshal(q.body, &m); err != nil || len(q.key) != 64 {
			t.Fatalf("%s: %v, key %q", q.body, err, q.key)
		}
		byKey[m.Key] = append(byKey[m.Key], m)
	}
	for _, q := range r.of("/api/v2/alerts") {
		var list []alert
		if err := json.Unmarshal(q.body, &list); err != nil || len(q.key) != 64 {
			t.Fatalf("%s: %v, key %q", q.body, err, q.key)
		}
		for _, a := range list {
			line, _, _ := strings.Cut(a.Labels["series"], "/")
			alerts[line] = append(alerts[line], a)
		}
	}
	for _, list := range byKey {
		if len(list) != 2 || list[0].Status == list[1].Status || list[0].Count != list[1].Count {
			t.Logf("split: %+v", list)
			return true
		}
	}
	slack := r.of("/slack")
	if len(byKey) != 2 || len(alerts) != 2 || len(slack) != 4 {
		t.Fatalf("messages of %d keys, alerts of %d, %d in Slack: %v", len(byKey), len(alerts), len(slack), byKey)
	}
	for key, list := range byKey {
		if list[0].Status != "firing" || list[1].Status != "resolved" {
			t.Fatalf("%s: %+v", key, list)
		}
		open, over := list[0], list[1]
		t.Log(open.Text)
		t.Log(over.Text)
		line, count, most := "line-3/", sensors, 20
		if open.Count == 1 {
			line, count, most = fmt.Sprintf("line-%d/", sensors), 1, 1
		}
		if pattern != "" && key+"/" != line || pattern == "" && len(key) != 32 {
			t.Errorf("the key of %s is %q", line, key)
		}
		if open.Count != count || len(open.Series) != most || open.Band == "" || open.Detectors != "level" || open.End != "" ||
			open.Start != began.Format("2006-01-02T15:04:05.000Z") || over.End == "" || !strings.HasPrefix(open.Text, strings.ToUpper(open.Band)+" level: ") {
			t.Errorf("%s: %+v", key, open)
		}
		for _, s := range open.Series {
			if !strings.HasPrefix(s, line) {
				t.Errorf("%s: %s is not of %s", key, s, line)
			}
		}
		states := map[string][]bool{} // of an id: whether each alert is over
		for _, a := range alerts[strings.TrimSuffix(line, "/")] {
			ends := time.Until(a.EndsAt)
			states[a.Labels["odradek_id"]] = append(states[a.Labels["odradek_id"]], ends <= 0)
			if !strings.HasPrefix(a.Labels["series"], line) || a.Labels["detector"] != "level" || a.Labels["alertname"] != "OdradekAnomaly" ||
				a.Labels["topic"] != "sensors" || !a.StartsAt.Equal(began) || ends > 0 && ends < 24*time.Hour || a.Annotations["band"] != open.Band {
				t.Fatalf("%s: %+v", key, a)
			}
		}
		if len(states) != count {
			t.Errorf("%s: alerts of %d anomalies, want %d", key, len(states), count)
		}
		for id, over := range states {
			if !slices.Equal(over, []bool{false, true}) {
				t.Errorf("alerts of %s are over: %v", id, over)
			}
		}
	}
	for _, q := range slack {
		var m struct{ Text string }
		if err := json.Unmarshal(q.body, &m); err != nil || !strings.HasPrefix(m.Text, ":") || !strings.Contains(m.Text, "level: ") {
			t.Errorf("%s: %v", q.body, err)
		}
	}
	return false
}
