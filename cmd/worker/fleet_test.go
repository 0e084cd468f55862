package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/linkedin/goavro/v2"

	"odradek/cmd/internal/config"
	"odradek/processor/kafkatest"
)

// A test starts workers as processes of their own: this test binary, which runs
// main when runWorkerEnv is set. So a worker can be killed.
const runWorkerEnv = "ODRADEK_TEST_RUN_WORKER"

func TestMain(m *testing.M) {
	if os.Getenv(runWorkerEnv) != "" {
		hooks = hooksOf(os.Getenv(failpointEnv), os.Getenv(brokenEnv))
		hooks.MetadataInterval, _ = time.ParseDuration(os.Getenv(lookEnv))
		main()
		return
	}
	// The default is a folder of the user who runs the tests.
	os.Setenv(config.Prefix+"SCHEMA_REGISTRY_CACHE_DIR", config.Off)
	kafkatest.Main(allTests{m})
}

const patience = kafkatest.Patience

// client asks workers and registries. One that does not answer, such as a worker whose
// process a test has stopped, fails the test that asks and not the whole run.
var client = &http.Client{Timeout: 30 * time.Second}

// fleet is a group of workers on a cluster with one input topic.
type fleet struct {
	several  bool     // a record is several samples
	also     []string // more input topics, which env names
	t        *testing.T
	c        *kafkatest.Cluster
	registry string
	input    string
	group    string
	env      []string // more settings, NAME=value without the prefix
	dir      string   // of the logs

	mu      sync.Mutex
	workers []*child
}

// child is one worker process.
type child struct {
	name string
	cmd  *exec.Cmd
	http string
	log  string
	done chan struct{}
	err  error
}

func newFleet(t *testing.T, c *kafkatest.Cluster, input, group string, env ...string) *fleet {
	t.Helper()
	f := &fleet{t: t, c: c, registry: c.RegistryURL(t), input: input, group: group, env: env, dir: t.TempDir()}
	t.Cleanup(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, w := range f.workers {
			w.kill()
		}
		if t.Failed() {
			for _, w := range f.workers {
				b, _ := os.ReadFile(w.log)
				if len(b) > 6000 {
					b = b[len(b)-6000:]
				}
				t.Logf("log of %s:\n%s", w.name, b)
			}
		}
	})
	return f
}

// settings returns the environment of a worker of the fleet.
func (f *fleet) settings(more ...string) []string {
	list := append([]string{
		"KAFKA_BROKERS=" + strings.Join(f.c.Brokers, ","),
		"SCHEMA_REGISTRY_URL=" + f.registry,
		"GROUP=" + f.group, "TOPICS=" + f.input,
		"KEY_FIELD=sensor", "TIME_FIELD=time", "VALUE_FIELDS=value",
		"DETECTORS=change,level",
		"DETECTOR_CHANGE_OP=ikasst", "DETECTOR_CHANGE_WINDOW=8", "DETECTOR_CHANGE_STRIDE=4",
		"DETECTOR_LEVEL_OP=zscore", "DETECTOR_LEVEL_WINDOW=16",
		"SESSION_TIMEOUT=6s", "REBALANCE_TIMEOUT=20s",
		"TRANSACTION_TIMEOUT=5s", "COMMIT_INTERVAL=20ms", "REPLAY_LIMIT=1s",
		"COMPRESSION=none", "LOG_LEVEL=info",
	}, f.env...)
	env := os.Environ()
	for _, kv := range append(list, more...) {
		env = append(env, config.Prefix+kv)
	}
	return env
}

// start starts a worker; it may not be in the group yet when this returns.
func (f *fleet) start(name string, more ...string) *child {
	f.t.Helper()
	addr := freeAddr(f.t)
	log := filepath.Join(f.dir, name+".log")
	out, err := os.Create(log)
	if err != nil {
		f.t.Fatal(err)
	}
	defer out.Close()
	w := &child{name: name, http: addr, log: log, done: make(chan struct{})}
	w.cmd = exec.Command(os.Args[0], "run")
	w.cmd.Env = append(f.settings(append(more, "HTTP_ADDR="+addr)...), runWorkerEnv+"=1")
	w.cmd.Stdout, w.cmd.Stderr = out, out
	kafkatest.DieWithParent(w.cmd)
	if err := w.cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	go func() {
		w.err = w.cmd.Wait()
		close(w.done)
	}()
	f.mu.Lock()
	f.workers = append(f.workers, w)
	f.mu.Unlock()
	return w
}

// freeAddr is an address of loopback for a worker that starts.
func freeAddr(t *testing.T) string {
	t.Helper()
	ports, err := kafkatest.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", ports[0])
}

func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	<-c.done
}

// drain sends SIGTERM and returns the exit code.
func (c *child) drain(t *testing.T) int {
	t.Helper()
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	return c.exit(t)
}

// exit waits for the process to end by itself.
func (c *child) exit(t *testing.T) int {
	t.Helper()
	select {
	case <-c.done:
	case <-time.After(patience):
		_ = c.cmd.Process.Signal(syscall.SIGCONT) // where a test has stopped it, the other signal waits for this one
		_ = c.cmd.Process.Signal(syscall.SIGQUIT)
		select {
		case <-c.done:
		case <-time.After(10 * time.Second):
			c.kill()
		}
		t.Fatalf("%s did not end within %s", c.name, patience)
	}
	var ee *exec.ExitError
	if errors.As(c.err, &ee) {
		return ee.ExitCode()
	}
	return 0
}

// began reports whether the worker got as far as its first line of log, which it writes
// after it has asked for signals.
func (c *child) began() bool {
	info, err := os.Stat(c.log)
	return err != nil || info.Size() > 0
}

func (c *child) get(path string) (int, string) {
	res, err := client.Get("http://" + c.http + path)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(b)
}

// waitReady waits until the worker has joined and restored.
func (c *child) waitReady(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		if code, _ := c.get("/readyz"); code == http.StatusOK {
			return
		}
		select {
		case <-c.done:
			b, _ := os.ReadFile(c.log)
			t.Fatalf("%s ended: %v\n%s", c.name, c.err, b)
		default:
		}
		if time.Now().After(end) {
			t.Fatalf("%s is not ready", c.name)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// logged reports whether the worker's log has the text.
func (c *child) logged(text string) bool {
	b, _ := os.ReadFile(c.log)
	return bytes.Contains(b, []byte(text))
}

// killJoinLeave runs a worker that is killed and comes back, while another joins and leaves, each after more input. It returns the
// scores, of which none is there twice, and holds that each sample has an outcome.
func (f *fleet) killJoinLeave(produce func()) map[scoreID]scored {
	t := f.t
	t.Helper()
	produce()
	a := f.start("a", "INSTANCE_ID=a")
	a.waitReady(t)
	produce()
	b := f.start("b", "INSTANCE_ID=b")
	produce()
	b.waitReady(t)
	a.kill()
	produce()
	a = f.start("a-again", "INSTANCE_ID=a")
	a.waitReady(t)
	produce()
	if code := b.drain(t); code != exitOK {
		t.Errorf("the leaving worker ended with %d", code)
	}
	produce()
	f.waitDone()
	a.waitCounted(t, nil)
	if code := a.drain(t); code != exitOK {
		t.Errorf("drain ended with %d", code)
	}
	got, doubled := f.scores()
	if len(doubled) > 0 {
		t.Errorf("%d scores doubled, such as %v", len(doubled), doubled[0])
	}
	return got
}

// inputGroup returns the consumer group that reads the input.
func (f *fleet) inputGroup() string {
	if slices.Contains(f.env, "REKEY=true") {
		return f.group + "-rekey"
	}
	return f.group
}

// waitDone waits until the group has committed the input to its end.
func (f *fleet) waitDone() {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, input := range append([]string{f.input}, f.also...) {
		if err := f.c.Admin().WaitCommitted(ctx, f.inputGroup(), input); err != nil {
			f.t.Fatalf("group %s did not finish %s: %v", f.inputGroup(), input, err)
		}
	}
}

// add writes records to the input, runs a worker until the group has committed
// them all, and drains it.
func (f *fleet) add(recs []kafkatest.Record, name string, more ...string) *child {
	f.t.Helper()
	_, err := f.c.ProduceAcked(context.Background(), recs)
	must(f.t, err)
	w := f.start(name, more...)
	w.waitReady(f.t)
	f.waitDone()
	if code := w.drain(f.t); code != exitOK {
		f.t.Errorf("%s drained with %d", name, code)
	}
	return w
}

// scoreID is what a score is identified by.
type scoreID struct {
	topic     string
	partition int32
	offset    int64
	detector  string
	series    string // where a record is several samples
	sample    int32  // its number plus 1, where a record is an array of readings
	start     int64  // of an interval: a record may close several, also of other series
}

// scored is what has to be equal between two runs.
type scored struct {
	key       string
	eventTime int64
	scoreTime int64
	state     string
	bits      uint64 // of the score, NaN for none
	remaining int32  // 0 for none
}

func (s scored) value() float64 { return math.Float64frombits(s.bits) }

// scores reads the scores topic with franz-go, read_committed, and decodes it
// with goavro and the schema that the registry has for it: nothing of the worker.
func (f *fleet) scores() (map[scoreID]scored, []scoreID) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	topic := f.group + "-scores"
	if err := f.c.Admin().WaitStable(ctx, topic); err != nil {
		f.t.Fatalf("%s does not become stable: %v", topic, err)
	}
	recs, err := f.c.Admin().ReadAll(ctx, topic, true)
	if err != nil {
		f.t.Fatal(err)
	}
	out := make(map[scoreID]scored, len(recs))
	var doubled []scoreID
	codecs := map[uint32]*goavro.Codec{}
	intervals := slices.ContainsFunc(f.env, func(s string) bool { return strings.HasPrefix(s, "EVERY=") })
	for i := range recs {
		r := &recs[i]
		if len(r.Value) < 6 || r.Value[0] != 0 {
			f.t.Fatalf("score at %v offset %d is not in Confluent framing", r.TP(), r.Offset)
		}
		id := binary.BigEndian.Uint32(r.Value[1:])
		codec := codecs[id]
		if codec == nil {
			codec = registryCodec(f.t, f.registry, id)
			codecs[id] = codec
		}
		native, rest, err := codec.NativeFromBinary(r.Value[5:])
		if err != nil || len(rest) != 0 {
			f.t.Fatalf("score at %v offset %d: %v, %d bytes left", r.TP(), r.Offset, err, len(rest))
		}
		m := native.(map[string]any)
		src := m["source"].(map[string]any)
		sid := scoreID{topic: src["topic"].(string), partition: src["partition"].(int32), offset: src["offset"].(int64),
			detector: m["detector"].(string)}
		v := math.NaN()
		if u, ok := m["score"].(map[string]any); ok {
			v = u["double"].(float64)
		}
		s := scored{key: m["series_key"].(string), eventTime: micros(m["event_time"]), scoreTime: micros(m["score_time"]),
			state: m["state"].(string), bits: math.Float64bits(v)}
		if u, ok := m["remaining"].(map[string]any); ok {
			s.remaining = u["int"].(int32)
		}
		if (s.state == "warming_up") != (s.remaining > 0) {
			f.t.Fatalf("%v: %d samples remain in the state %s", sid, s.remaining, s.state)
		}
		if string(r.Key) != s.key {
			f.t.Fatalf("score of %q has record key %q", s.key, r.Key)
		}
		if f.several {
			sid.series = s.key
		}
		if intervals {
			sid.series, sid.start = s.key, s.eventTime
		}
		if u, ok := m["sample"].(map[string]any); ok {
			sid.sample = 1 + u["int"].(int32)
		}
		if _, ok := out[sid]; ok {
			doubled = append(doubled, sid)
		}
		out[sid] = s
	}
	return out, doubled
}

// blocks reads the topic of blocks: key, headers and value of each record, by the sample
// that it ends with. The samples' offsets are those that offsets give for them, unless it is nil.
func (f *fleet) blocks(offsets map[kafkatest.TP]map[int64]int64) map[scoreID]string {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	must(f.t, f.c.Admin().WaitStable(ctx, f.group+"-blocks"))
	recs, err := f.c.Admin().ReadAll(ctx, f.group+"-blocks", true)
	must(f.t, err)
	out := make(map[scoreID]string, len(recs))
	for i := range recs {
		r := &recs[i]
		id, text := scoreID{topic: f.input}, fmt.Sprintf("%q ", r.Key)
		for _, h := range r.Headers {
			switch h.Key {
			case "odradek.source.partition":
				n, err := strconv.ParseInt(string(h.Value), 10, 32)
				must(f.t, err)
				id.partition = int32(n)
			case "odradek.source.offset":
				id.offset, err = strconv.ParseInt(string(h.Value), 10, 64)
				must(f.t, err)
			case "odradek.detector":
				id.detector = string(h.Value)
			default:
				text += fmt.Sprintf("%s=%q ", h.Key, h.Value)
			}
		}
		if offsets != nil {
			id.offset = offsets[kafkatest.TP{Topic: id.topic, Partition: id.partition}][id.offset]
		}
		if out[id] != "" {
			f.t.Errorf("a second block for %v", id)
		}
		out[id] = fmt.Sprintf("%s%x", text, r.Value)
	}
	return out
}

func micros(v any) int64 {
	if t, ok := v.(time.Time); ok {
		return t.UnixMicro()
	}
	return v.(int64)
}

func registryCodec(t *testing.T, url string, id uint32) *goavro.Codec {
	t.Helper()
	res, err := client.Get(fmt.Sprintf("%s/schemas/ids/%d", url, id))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var body struct{ Schema string }
	if err := json.NewDecoder(res.Body).Decode(&body); err != nil {
		t.Fatal(err)
	}
	codec, err := goavro.NewCodec(body.Schema)
	if err != nil {
		t.Fatal(err)
	}
	return codec
}

// register registers an Avro schema with plain HTTP.
func register(t *testing.T, url, subject, schema string) uint32 {
	t.Helper()
	return registerAs(t, url, subject, "AVRO", schema)
}

// registerAs registers a schema of a type that the registry knows.
func registerAs(t *testing.T, url, subject, kind, schema string) uint32 {
	t.Helper()
	body, _ := json.Marshal(map[string]string{"schema": schema, "schemaType": kind})
	res, err := client.Post(url+"/subjects/"+subject+"/versions", "application/vnd.schemaregistry.v1+json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	var got struct{ ID uint32 }
	if err := json.Unmarshal(b, &got); err != nil || got.ID == 0 {
		t.Fatalf("register %s: %s: %s", subject, res.Status, b)
	}
	return got.ID
}

// sensorSchema is a user's schema, not one of ours: nested, with unions, and
// more fields than are read.
const sensorSchema = `{"type":"record","name":"Measurement","namespace":"com.example.plant","fields":[
 {"name":"sensor","type":"string"},
 {"name":"site","type":{"type":"record","name":"Site","fields":[{"name":"hall","type":"int"},{"name":"line","type":["null","string"],"default":null}]}},
 {"name":"time","type":{"type":"long","logicalType":"timestamp-millis"}},
 {"name":"value","type":["null","double"]},
 {"name":"unit","type":["null","string"],"default":null}]}`

// measurements encodes with goavro.
type measurements struct {
	codec *goavro.Codec
	id    uint32
	n     int // records made
}

func newMeasurements(t *testing.T, url, topic string) *measurements {
	t.Helper()
	codec, err := goavro.NewCodec(sensorSchema)
	if err != nil {
		t.Fatal(err)
	}
	return &measurements{codec: codec, id: register(t, url, topic+"-value", sensorSchema)}
}

func (m *measurements) record(t *testing.T, topic, sensor string, at time.Time, value float64) kafkatest.Record {
	t.Helper()
	var v any
	if !math.IsNaN(value) {
		v = goavro.Union("double", value)
	}
	b := binary.BigEndian.AppendUint32([]byte{0}, m.id)
	b, err := m.codec.BinaryFromNative(b, map[string]any{
		"sensor": sensor, "site": map[string]any{"hall": 3, "line": goavro.Union("string", "north")},
		"time": at, "value": v, "unit": nil,
	})
	if err != nil {
		t.Fatal(err)
	}
	return kafkatest.Record{Topic: topic, Partition: -1, Key: []byte(sensor), Value: b}
}

// compare fails the test where two runs differ.
func compare(t *testing.T, what string, want, got map[scoreID]scored) {
	t.Helper()
	missing, extra, differ := 0, 0, 0
	for id, w := range want {
		g, ok := got[id]
		switch {
		case !ok:
			if missing++; missing <= 5 {
				t.Errorf("%s: no score for %v", what, id)
			}
		case g != w && !(g.key == w.key && g.eventTime == w.eventTime && g.scoreTime == w.scoreTime && g.state == w.state &&
			g.remaining == w.remaining && math.IsNaN(g.value()) && math.IsNaN(w.value())):
			if differ++; differ <= 5 {
				t.Errorf("%s: %v is %+v (%v), undisturbed %+v (%v)", what, id, g, g.value(), w, w.value())
			}
		}
	}
	for id := range got {
		if _, ok := want[id]; !ok {
			if extra++; extra <= 5 {
				t.Errorf("%s: a score for %v, which the undisturbed run has not", what, id)
			}
		}
	}
	if missing+extra+differ > 0 {
		t.Errorf("%s: of %d scores %d missing, %d too many, %d different", what, len(want), missing, extra, differ)
	}
}
