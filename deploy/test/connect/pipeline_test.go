package connect

import (
	"context"
	"encoding/json"
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
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/processor/kafkatest"
)

// This file runs the pipelines of deploy/connect.

func TestMain(m *testing.M) { kafkatest.Main(m) }

const repository = "../../.."

// sensors is how many sensors of line-3 fail at once.
const sensors = 200

// receiver is an HTTP server that keeps what it is sent.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	requests map[string][]request // by path
	refuse   int                  // how many requests it answers with an error first
	hold     chan request         // gets the next request to /webhook, which is not answered; nil: none
}

type request struct {
	key  string // Idempotency-Key
	body []byte
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{requests: map[string][]request{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if r.receive(w, request{q.Header.Get("Idempotency-Key"), body}, q.URL.Path, err) {
			<-q.Context().Done()
		}
	}))
	t.Cleanup(r.Close)
	return r
}

// receive takes a request and reports whether it is to be held.
func (r *receiver) receive(w http.ResponseWriter, q request, path string, err error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuse > 0 || err != nil {
		r.refuse--
		w.WriteHeader(http.StatusServiceUnavailable)
		return false
	}
	if r.hold != nil && path == "/webhook" {
		r.hold <- q
		r.hold = nil
		return true
	}
	r.requests[path] = append(r.requests[path], q)
	return false
}

func (r *receiver) to(path string) []request {
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

// run starts a program that ends with the test; its output is shown if that fails.
func run(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := kafkatest.Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s:\n%s", cmd.Path, log.String())
		}
	})
}

// startWorker runs a worker over the topic sensors of the brokers. It has a detector that knows what to expect within 20 samples.
func startWorker(t *testing.T, brokers string) {
	t.Helper()
	w := exec.Command(kafkatest.GoProgram(t, repository, "worker", "build", "./cmd/worker"), "run")
	w.Env = os.Environ()
	for _, s := range []string{"KAFKA_BROKERS=" + brokers, "GROUP=plant", "TOPICS=sensors", "FORMAT=json", "OUTPUT_FORMAT=json", "KEY_FIELD=key",
		"TIME_FIELD=time", "VALUE_FIELDS=value", "GROUP_BY=^[^/]+", "HTTP_ADDR=off", "PAGE_ADDR=off", "EXECUTOR=cpu", "DETECTORS=level",
		"DETECTOR_LEVEL_OP=zscore", "DETECTOR_LEVEL_WINDOW=40", "DETECTOR_LEVEL_THRESHOLD=fixed:5.5", "DETECTOR_LEVEL_CLOSE_AFTER=3",
		"SCHEMA_REGISTRY_CACHE_DIR=off"} {
		w.Env = append(w.Env, "ODRADEK_"+s)
	}
	run(t, w)
}

// engine is a program that runs pipelines.
type engine struct {
	name    string
	program string   // its folder
	args    []string // before the file
	adapt   func(t *testing.T, text string) string
}

// The engines: the present one has its input stood in for, the earlier one has its own.
var engines = []engine{
	{"the engine of Redpanda Connect 4.60", "redpanda", []string{"run"}, func(_ *testing.T, text string) string { return text }},
	{"Benthos 4.27", "benthos", []string{"-c"}, earlier},
}

// earlier returns the pipeline for Benthos 4.27: its input has another name and no isolation level, and lets several batches of a
// partition be under way without being asked.
func earlier(t *testing.T, text string) string {
	t.Helper()
	from, to := strings.Index(text, "        # The workers write transactions"), strings.Index(text, "    policy:\n")
	if strings.Count(text, "      redpanda:\n") != 1 || from < 0 || to < from {
		t.Fatal("the pipeline's input has changed")
	}
	return strings.Replace(text[:from]+"        checkpoint_limit: 4096\n"+text[to:], "      redpanda:\n", "      kafka_franz:\n", 1)
}

// pipeline returns the command of the pipeline of deploy/connect with its variables.
func (e engine) pipeline(t *testing.T, variables map[string]string) *exec.Cmd {
	t.Helper()
	text, err := os.ReadFile(repository + "/deploy/connect/redpanda/anomalies.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "anomalies.yaml")
	if err := os.WriteFile(file, []byte(e.adapt(t, string(text))), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(kafkatest.GoProgram(t, ".", e.program, "build", "./"+e.program), append([]string{"-s", "http.enabled=false", "-s", "logger.level=WARN"}, append(e.args, file)...)...)
	cmd.Env = os.Environ()
	for name, value := range variables {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return cmd
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

// plant is a topic of sensors with a worker behind it.
type plant struct {
	t       *testing.T
	brokers string
	client  *kgo.Client
	rng     *rand.Rand
	at      time.Time
}

func newPlant(t *testing.T, partitions int32) *plant {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, "sensors"), kfake.SeedTopics(3, anomalies))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	p := &plant{t: t, brokers: strings.Join(cluster.ListenAddrs(), ","), rng: rand.New(rand.NewPCG(1, 2)), at: time.UnixMilli(1_767_225_600_000).UTC()}
	if p.client, err = kgo.NewClient(kgo.SeedBrokers(p.brokers), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.client.Close)
	startWorker(t, p.brokers)
	return p
}

// step is a second of the plant. The readings of line-3 and of one sensor of another line have the fault, readings of a third line never.
func (p *plant) step(fault float64) {
	p.t.Helper()
	p.at = p.at.Add(time.Second)
	var records []*kgo.Record
	for i := range sensors + 2 {
		key, value := fmt.Sprintf("line-3/sensor-%03d", i), p.rng.NormFloat64()+fault
		if i >= sensors {
			key = fmt.Sprintf("line-%d/sensor-000", i)
		}
		if i == sensors+1 {
			value -= fault
		}
		v := fmt.Sprintf(`{"key": %q, "time": %d, "value": %g}`, key, p.at.UnixMilli(), value)
		records = append(records, &kgo.Record{Topic: "sensors", Key: []byte(key), Value: []byte(v), Timestamp: p.at})
	}
	if err := p.client.ProduceSync(p.t.Context(), records...).FirstErr(); err != nil {
		p.t.Fatal(err)
	}
}

// waitAnomalies waits until the topic has n anomalies.
func (p *plant) waitAnomalies(n int) {
	p.t.Helper()
	reader, err := kgo.NewClient(kgo.SeedBrokers(p.brokers), kgo.ConsumeTopics(anomalies), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		p.t.Fatal(err)
	}
	defer reader.Close()
	ctx, cancel := context.WithTimeout(p.t.Context(), 2*time.Minute)
	defer cancel()
	for n > 0 {
		f := reader.PollFetches(ctx)
		if err := f.Err(); err != nil {
			p.t.Fatalf("%d anomalies are missing: %v", n, err)
		}
		n -= f.NumRecords()
	}
}

// forget has the broker forget the members of the pipeline's group, which it would do 45 s after they died.
func (p *plant) forget() {
	p.t.Helper()
	const group = "odradek-notify"
	ask := kmsg.NewPtrDescribeGroupsRequest()
	ask.Groups = []string{group}
	described, err := ask.RequestWith(p.t.Context(), p.client)
	if err != nil {
		p.t.Fatal(err)
	}
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Group = group
	for _, m := range described.Groups[0].Members {
		member := kmsg.NewLeaveGroupRequestMember()
		member.MemberID = m.MemberID
		leave.Members = append(leave.Members, member)
	}
	if _, err := leave.RequestWith(p.t.Context(), p.client); err != nil || len(leave.Members) == 0 {
		p.t.Fatalf("%d members: %v", len(leave.Members), err)
	}
}

// anomalies is the topic of the anomalies.
const anomalies = "plant-anomalies"

// variables returns the pipeline's variables.
func (p *plant) variables(r *receiver, pattern string) map[string]string {
	return map[string]string{"BROKERS": p.brokers, "ANOMALIES_TOPIC": anomalies, "WINDOW": window.String(), "GROUP_PATTERN": pattern,
		"WEBHOOK_URL": r.URL + "/webhook", "SLACK_URL": r.URL + "/slack", "ALERTMANAGER_URL": r.URL}
}

// window is the pipeline's WINDOW.
const window = 3 * time.Second

// unsplit runs a test until no group of it was split: on a busy machine the anomalies may open, or close, across the end of a window.
func unsplit(t *testing.T, name string, test func(t *testing.T) (split bool)) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		split := true
		for try := 1; split && try <= 5; try++ {
			t.Run(fmt.Sprint("try ", try), func(t *testing.T) { split = test(t) })
			split = split && !t.Failed()
		}
		if split {
			t.Error("the messages of a group were split in each of five runs")
		}
	})
}

// TestPipeline: 200 sensors of a line fail at once, and one of another line. A worker finds them; the pipeline sends one message for
// each line when they open and one when they are over, to all three receivers, though these refuse the first requests.
func TestPipeline(t *testing.T) {
	for _, e := range engines {
		unsplit(t, e.name+", groups of the workers", func(t *testing.T) bool { return testPipeline(t, e, 1, "") })
		unsplit(t, e.name+", groups of several partitions", func(t *testing.T) bool { return testPipeline(t, e, 3, "^[^/]+") })
	}
}

// testPipeline reports whether a group was split.
func testPipeline(t *testing.T, e engine, partitions int32, pattern string) (split bool) {
	p, r := newPlant(t, partitions), newReceiver(t)
	r.refuse = 2
	run(t, e.pipeline(t, p.variables(r, pattern)))
	for range 60 {
		p.step(0)
	}
	p.step(100)
	began := p.at
	waitFor(t, "a message of each line that fails", func() bool { return len(r.to("/webhook")) >= 2 && len(r.to("/api/v2/alerts")) >= 2 })
	for range 30 {
		p.step(0)
	}
	waitFor(t, "a message of each line that is over", func() bool { return len(r.to("/webhook")) >= 4 && len(r.to("/api/v2/alerts")) >= 4 })

	byKey, alerts := map[string][]message{}, map[string][]alert{}
	for _, q := range r.to("/webhook") {
		var m message
		if err := json.Unmarshal(q.body, &m); err != nil || len(q.key) != 64 {
			t.Fatalf("%s: %v, key %q", q.body, err, q.key)
		}
		byKey[m.Key] = append(byKey[m.Key], m)
	}
	for _, q := range r.to("/api/v2/alerts") {
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
	slack := r.to("/slack")
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

// TestPipelineCrash: the pipeline is killed while a webhook has its message and has not answered. The pipeline that is started in its
// place has the same messages with the same keys for all three receivers, and what it had sent before the kill comes again with its key.
func TestPipelineCrash(t *testing.T) {
	for _, e := range engines {
		unsplit(t, e.name, func(t *testing.T) bool { return testPipelineCrash(t, e) })
	}
}

// testPipelineCrash reports whether a group was split.
func testPipelineCrash(t *testing.T, e engine) (split bool) {
	p, r := newPlant(t, 3), newReceiver(t)
	for range 60 {
		p.step(0)
	}
	p.step(100)
	p.waitAnomalies(sensors + 1) // a window has them all
	held := make(chan request, 1)
	r.hold = held
	variables := p.variables(r, "^[^/]+")
	first := e.pipeline(t, variables)
	run(t, first)
	var q request
	select {
	case q = <-held:
	case <-time.After(2 * time.Minute):
		t.Fatal("no message")
	}
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.forget()
	before := r.to("/webhook")
	run(t, e.pipeline(t, variables))
	waitFor(t, "the message of each line, again", func() bool { return len(r.to("/webhook")) >= len(before)+2 && len(r.to("/api/v2/alerts")) >= 2 })
	bodies, times := map[string]string{q.key: string(q.body)}, map[string]int{}
	for _, w := range r.to("/webhook") {
		var m message
		if err := json.Unmarshal(w.body, &m); err != nil {
			t.Fatal(err)
		}
		if m.Count != sensors && m.Count != 1 {
			t.Logf("split: %+v", m)
			return true
		}
		if body, ok := bodies[w.key]; ok && body != string(w.body) {
			t.Errorf("key %s is of two messages: %s and %s", w.key, body, w.body)
		}
		bodies[w.key] = string(w.body)
		times[w.key]++
	}
	if len(bodies) != 2 || times[q.key] != 1 || len(times) != 2 {
		t.Errorf("messages of the keys %v after one of %s that was not answered, want two keys, this one once", times, q.key)
	}
	for _, path := range []string{"/slack", "/api/v2/alerts"} {
		keys := map[string]bool{}
		for _, q := range r.to(path) {
			keys[q.key] = true
			if bodies[q.key] == "" {
				t.Errorf("%s has got %s, which is no key of the webhook", path, q.key)
			}
		}
		if len(keys) != 2 {
			t.Errorf("%s has got messages of %d keys, want 2", path, len(keys))
		}
	}
	return false
}
