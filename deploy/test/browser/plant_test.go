package browser

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"odradek/processor/kafkatest"
)

const (
	repository = "../../.."
	topic      = "line"
	group      = "plant"
	token      = "a token of the tests alone"
	history    = 900 // samples of each machine before the worker starts, one a second
)

// machines are the series; the first has a fault that is over, the second one that goes on.
var machines = []string{"press-1", "press-2", "press-3", "pump-1", "pump-2", "mill/7 <b>"}

// plant is a line of machines: a broker, a worker that reads their records, and a generator with faults on demand.
type plant struct {
	cluster *kafkatest.Cluster
	page    string // URL of the page
	log     *bytes.Buffer

	mu     sync.Mutex
	rng    *rand.Rand
	faulty map[string]bool
}

// startPlant starts a plant, which ends with the test, and waits until the worker has read its history.
func startPlant(t *testing.T) *plant {
	t.Helper()
	worker := buildWorker(t)
	p := newPlant(t)
	start := time.Now().Add(-history * time.Second)
	var records []kafkatest.Record
	for i := range history {
		at := start.Add(time.Duration(i) * time.Second)
		p.set(machines[0], i >= 200 && i < 240)
		p.set(machines[1], i >= history-20)
		for _, m := range machines {
			records = append(records, p.record(m, at))
		}
	}
	if _, err := p.cluster.ProduceAcked(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	p.runWorker(t, worker, "ODRADEK_FORMAT=json", "ODRADEK_KEY_FIELD=machine", "ODRADEK_TIME_FIELD=at", "ODRADEK_VALUE_FIELDS=temperature,vibration",
		"ODRADEK_DETECTORS=level,shape,trial", "ODRADEK_DETECTOR_LEVEL_OP=zscore", "ODRADEK_DETECTOR_LEVEL_WINDOW=120",
		"ODRADEK_DETECTOR_LEVEL_THRESHOLD=fixed:8", "ODRADEK_DETECTOR_LEVEL_CLOSE_AFTER=400",
		"ODRADEK_DETECTOR_SHAPE_OP=knn", "ODRADEK_DETECTOR_SHAPE_WINDOW=256", "ODRADEK_DETECTOR_SHAPE_EMBED=8", "ODRADEK_DETECTOR_SHAPE_K=5",
		"ODRADEK_DETECTOR_SHAPE_SCALE=range", "ODRADEK_DETECTOR_SHAPE_THRESHOLD=conformal:0.002",
		"ODRADEK_DETECTOR_TRIAL_OP=zscore", "ODRADEK_DETECTOR_TRIAL_WINDOW=90", "ODRADEK_DETECTOR_TRIAL_THRESHOLD=fixed:8",
		"ODRADEK_DETECTOR_TRIAL_SHADOW=true")
	go p.run(t)
	return p
}

// newPlant returns a plant without a worker, whose broker ends with the test.
func newPlant(t *testing.T) *plant {
	t.Helper()
	cluster, err := kafkatest.StartFake(kafkatest.FakeOptions{Brokers: 1, NoRegistry: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	if err := cluster.Admin().CreateTopic(t.Context(), topic, 2, 1, nil); err != nil {
		t.Fatal(err)
	}
	return &plant{cluster: cluster, rng: rand.New(rand.NewPCG(7, 7)), faulty: map[string]bool{}, log: new(bytes.Buffer)}
}

// buildWorker builds the program.
func buildWorker(t *testing.T) string {
	t.Helper()
	worker := filepath.Join(t.TempDir(), "worker")
	build := exec.Command("go", "build", "-o", worker, "./cmd/worker")
	build.Dir = repository
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return worker
}

// environment returns this process's environment with settings in place of its own.
func (p *plant) environment(settings ...string) []string {
	others := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "ODRADEK_") })
	return append(others, append(settings, "ODRADEK_KAFKA_BROKERS="+strings.Join(p.cluster.Brokers, ","))...)
}

// runWorker starts a worker, which ends with the test, and waits until it has read the topic.
func (p *plant) runWorker(t *testing.T, worker string, settings ...string) {
	t.Helper()
	addr := freeAddr(t)
	p.page = "http://" + addr + "/"
	cmd := exec.Command(worker, "run")
	cmd.Env = p.environment(append(settings, "ODRADEK_GROUP="+group, "ODRADEK_TOPICS="+topic, "ODRADEK_EXECUTOR=cpu", "ODRADEK_REPLICATION=1",
		"ODRADEK_HTTP_ADDR="+addr, "ODRADEK_PAGE_TOKEN="+token)...)
	cmd.Stdout, cmd.Stderr = p.log, p.log
	kafkatest.DieWithParent(cmd)
	if err := kafkatest.Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the worker's log:\n%s", p.log)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if err := p.cluster.Admin().WaitCommitted(ctx, group, topic); err != nil {
		t.Fatalf("%v\n%s", err, p.log)
	}
}

// freeAddr returns an address of this host that nobody listens on.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// set has a machine behave as one with a fault, or as the others.
func (p *plant) set(machine string, faulty bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faulty[machine] = faulty
}

// record is what a machine says at a time.
func (p *plant) record(machine string, at time.Time) kafkatest.Record {
	p.mu.Lock()
	defer p.mu.Unlock()
	seconds := float64(at.UnixMilli()) / 1000
	temperature := 70 + 2*math.Sin(2*math.Pi*math.Mod(seconds, 60)/60) + 0.3*p.rng.NormFloat64()
	vibration := 0.4 + 0.02*p.rng.NormFloat64()
	if p.faulty[machine] {
		temperature += 25
		vibration += 0.1
	}
	return kafkatest.Record{Topic: topic, Partition: -1, Key: []byte(machine), Time: at.UnixMilli(),
		Value: fmt.Appendf(nil, `{"machine":%q,"at":%d,"temperature":%.3f,"vibration":%.4f}`, machine, at.UnixMilli(), temperature, vibration)}
}

// run writes a record of each machine, twice a second.
func (p *plant) run(t *testing.T) {
	for t.Context().Err() == nil {
		at := time.Now()
		var records []kafkatest.Record
		for _, m := range machines {
			records = append(records, p.record(m, at))
		}
		if _, err := p.cluster.ProduceAcked(t.Context(), records); err != nil {
			return // the test is over
		}
		select {
		case <-t.Context().Done():
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// get asks the worker with the token.
func (p *plant) get(t *testing.T, path string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.page+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
