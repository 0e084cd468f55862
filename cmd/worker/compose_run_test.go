package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/types"
	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/cmd/internal/config"
	"odradek/processor/cycle"
	"odradek/processor/kafkatest"
	"odradek/schemas/output"
)

// container is a service's command in the image that the Dockerfile makes, run
// as a process, with the service's environment and nothing else.
type container struct {
	*child
	s    types.ServiceConfig
	img  *image
	here *strings.Replacer // the addresses and paths of the compose file, as they are here
}

func newContainer(t *testing.T, img *image, s types.ServiceConfig, name string, here ...string) *container {
	t.Helper()
	addr := freeAddr(t)
	here = append(here, "localhost:9465", addr, ":9464", addr, ":9465", addr)
	return &container{&child{name: name, http: addr, log: filepath.Join(t.TempDir(), name+".log"), done: make(chan struct{})}, s, img,
		strings.NewReplacer(here...)}
}

func (c *container) mapped(list []string) (out []string) {
	for _, s := range list {
		out = append(out, c.here.Replace(s))
	}
	return out
}

func (c *container) start(t *testing.T) {
	t.Helper()
	out, err := os.Create(c.log)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	c.cmd = c.img.command(context.Background(), c.mapped(environOf(c.s)), c.mapped(c.s.Command)...)
	c.cmd.Stdout, c.cmd.Stderr = out, out
	kafkatest.DieWithParent(c.cmd)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		c.err = c.cmd.Wait()
		close(c.done)
	}()
	t.Cleanup(func() {
		c.kill()
		if b, _ := os.ReadFile(c.log); t.Failed() {
			t.Logf("log of %s:\n%s", c.name, b[max(0, len(b)-6000):])
		}
	})
}

// exec is `docker compose exec`: another command in the same environment.
func (c *container) exec(args ...string) (code int, out string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := c.img.command(ctx, c.mapped(environOf(c.s)), c.mapped(args)...)
	b, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return -1, err.Error()
	}
	return cmd.ProcessState.ExitCode(), string(b)
}

// healthy runs the service's healthcheck.
func (c *container) healthy() bool {
	code, _ := c.exec(c.s.HealthCheck.Test[2:]...) // after CMD and /worker
	return code == 0
}

func (c *container) waitHealthy(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(patience); !c.healthy(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s does not become healthy: %v", c.name, c.s.HealthCheck.Test)
		}
	}
}

// brokerProperties returns what the image apache/kafka makes of its variables:
// KAFKA_A_B is a.b, a double underscore is one, a triple one a dash.
func brokerProperties(s types.ServiceConfig) map[string]string {
	p := map[string]string{}
	for name, value := range s.Environment {
		name, ours := strings.CutPrefix(name, "KAFKA_")
		if !ours || value == nil || name == "HEAP_OPTS" {
			continue
		}
		name = strings.NewReplacer("___", "-", "__", "_", "_", ".").Replace(strings.ToLower(name))
		p[name] = *value
	}
	return p
}

// composeKafka starts the broker of the compose file: its properties, on ports
// that are free here.
func composeKafka(ctx context.Context, t *testing.T, s types.ServiceConfig) *kafkatest.Cluster {
	t.Helper()
	// What kafkatest sets for its own brokers goes back to Kafka's defaults.
	config := map[string]string{
		"offsets.topic.replication.factor": "3", "transaction.state.log.replication.factor": "3", "transaction.state.log.min.isr": "2",
		"default.replication.factor": "1", "min.insync.replicas": "1", "auto.create.topics.enable": "true",
		"offsets.topic.num.partitions": "50", "transaction.state.log.num.partitions": "50",
		"group.initial.rebalance.delay.ms": "3000", "group.min.session.timeout.ms": "6000", "log.retention.ms": "604800000",
	}
	here := strings.NewReplacer("kafka:29093", "127.0.0.1:{port1}", "//:29093", "//127.0.0.1:{port1}", "kafka:19092", "127.0.0.1:{port0}",
		"//:19092", "//127.0.0.1:{port0}", "localhost:9092", "127.0.0.1:{port2}", "//:9092", "//127.0.0.1:{port2}")
	for name, value := range brokerProperties(s) {
		if name != "log.dirs" {
			config[name] = here.Replace(value)
		}
	}
	_, version, _ := strings.Cut(s.Image, ":")
	c, err := kafkatest.StartKafka(ctx, kafkatest.Options{Version: version, Nodes: 1, Config: config})
	if err != nil {
		kafkatest.Missing(t, "kafka", err)
	}
	t.Cleanup(c.Close)
	t.Logf("broker ready in %v", c.Took.Round(time.Millisecond))
	known := configOf(ctx, t, c, kmsg.ConfigResourceTypeBroker, "1")
	for name := range brokerProperties(s) {
		if _, ok := known[name]; !ok {
			t.Errorf("Kafka knows no property %s", name)
		}
	}
	return c
}

// configOf returns the configuration of a broker or topic, without names that Kafka
// does not know.
func configOf(ctx context.Context, t *testing.T, c *kafkatest.Cluster, kind kmsg.ConfigResourceType, name string) map[string]string {
	t.Helper()
	req := kmsg.NewPtrDescribeConfigsRequest()
	res := kmsg.NewDescribeConfigsRequestResource()
	res.ResourceType, res.ResourceName = kind, name
	req.Resources = append(req.Resources, res)
	got, err := req.RequestWith(ctx, c.Admin().Client())
	if err != nil || len(got.Resources) != 1 || got.Resources[0].ErrorCode != 0 {
		t.Fatalf("configuration of %s: %v, %+v", name, err, got)
	}
	list := map[string]string{}
	for _, e := range got.Resources[0].Configs {
		if e.ConfigType != 0 && e.Value != nil {
			list[e.Name] = *e.Value
		}
	}
	return list
}

// composeRegistry starts the registry of the compose file and asks it what its
// healthcheck asks.
func composeRegistry(ctx context.Context, t *testing.T, s types.ServiceConfig, broker string) *kafkatest.RegistryServer {
	t.Helper()
	var variables []string
	for _, kv := range environOf(s) {
		variables = append(variables, strings.ReplaceAll(kv, "kafka:19092", broker))
	}
	r, err := kafkatest.StartRegistry(ctx, variables...)
	if err != nil {
		kafkatest.Missing(t, "registry", err)
	}
	t.Cleanup(r.Close)
	t.Logf("registry ready in %v", r.Took.Round(time.Millisecond))
	if _, version, _ := strings.Cut(s.Image, ":"); !strings.Contains(r.Program(), version) {
		t.Errorf("the compose file has %s, tried is %s", s.Image, r.Program())
	}
	health := func(addr string) error {
		_, port, _ := net.SplitHostPort(addr)
		line := slices.Clone(s.HealthCheck.Test[1:])
		for i := range line {
			line[i] = strings.ReplaceAll(line[i], "127.0.0.1/8080", "127.0.0.1/"+port)
		}
		return exec.CommandContext(ctx, line[0], line[1:]...).Run()
	}
	err = health(strings.TrimPrefix(strings.TrimSuffix(r.URL, "/apis/ccompat/v7"), "http://"))
	for began := time.Now(); err != nil && time.Since(began) < 20*time.Second; time.Sleep(time.Second) { // compose repeats it, too
		err = health(strings.TrimPrefix(strings.TrimSuffix(r.URL, "/apis/ccompat/v7"), "http://"))
	}
	if err != nil {
		t.Errorf("the registry's healthcheck: %v", err)
	}
	if health(freeAddr(t)) == nil {
		t.Error("the registry's healthcheck finds a registry where there is none")
	}
	return r
}

// TestCompose starts what docker-compose.yml describes, in its order and with its
// environment, without containers: broker and registry of the same versions from
// Maven Central with the settings of the file, setup, generator and three workers
// from the program that the Dockerfile's steps make. Only addresses and paths
// differ. The workers score and are healthy, and end when told to.
func TestCompose(t *testing.T) {
	kafkatest.SkipAsked(t, "kafka")
	kafkatest.SkipAsked(t, "registry")
	if testing.Short() {
		t.Skip("short")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	p := loadCompose(t)
	kafka := composeKafka(ctx, t, p.Services["kafka"])
	broker := kafka.Brokers[0]
	registry := composeRegistry(ctx, t, p.Services["registry"], broker)
	img := buildImage(t)
	cache := t.TempDir() // the volume, which workers share
	began := time.Now()
	here := []string{"kafka:19092", broker, "http://registry:8080/apis/ccompat/v7", registry.URL, "/var/cache/odradek", cache}

	setup := newContainer(t, img, p.Services["setup"], "setup", here...)
	for range 2 { // what is there is left as it is
		if code, out := setup.exec(setup.s.Command...); code != exitOK {
			t.Fatalf("setup: exit %d: %s", code, out)
		}
	}
	t.Logf("setup twice after %v", time.Since(began).Round(time.Millisecond))
	c, faults, warnings := config.Parse(setup.mapped(environOf(setup.s)))
	if len(faults)+len(warnings) > 0 {
		t.Fatalf("%v %v", faults, warnings)
	}
	// The registry keeps its schemas in Kafka, and Kafka keeps them for ever.
	journal, err := kafka.Admin().ReadAll(ctx, "kafkasql-journal", true)
	if keep := configOf(ctx, t, kafka, kmsg.ConfigResourceTypeTopic, "kafkasql-journal"); err != nil || len(journal) == 0 ||
		keep["retention.ms"] != "-1" {
		t.Errorf("the registry's topic has %d records (%v) and keeps them for %s ms", len(journal), err, keep["retention.ms"])
	}
	input := c.Group.Topics[0]
	for topic, partitions := range map[string]int{input: 8, c.Output.Topics[cycle.Scores]: 8,
		c.Output.Topics[cycle.DeadLetters]: 8, c.Output.Topics[cycle.Late]: 8,
		c.ChangelogTopic(input): 8} {
		if list, err := kafka.Admin().Partitions(ctx, topic); err != nil || len(list) != partitions {
			t.Errorf("setup made %d partitions of %s, want %d: %v", len(list), topic, partitions, err)
		}
	}

	generator := newContainer(t, img, p.Services["generator"], "generator", here...)
	workers := []*container{}
	for i := range 3 { // --scale worker=3
		workers = append(workers, newContainer(t, img, p.Services["worker"], fmt.Sprintf("worker-%d", i+1), here...))
	}
	for _, w := range append(workers, generator) {
		if w.healthy() {
			t.Errorf("%s is healthy before it was started", w.name)
		}
	}
	generator.start(t)
	generator.waitHealthy(t)
	if code, out := workers[0].exec("check", "-online"); code != exitOK {
		t.Errorf("check -online: exit %d:\n%s", code, out)
	}
	t.Logf("generator healthy, configuration checked after %v", time.Since(began).Round(time.Millisecond))
	for _, w := range workers {
		w.start(t)
	}
	for _, w := range workers {
		w.waitReady(t)
		if !w.healthy() {
			t.Errorf("%s is not healthy", w.name)
		}
	}
	if _, err := kafka.Admin().WaitGroup(ctx, c.Group.Group, len(workers), input); err != nil {
		t.Fatal(err)
	}
	t.Logf("three workers in the group after %v", time.Since(began).Round(time.Millisecond))

	f := &fleet{t: t, c: kafka, registry: registry.URL, input: input, group: c.Group.Group}
	for ; ; time.Sleep(500 * time.Millisecond) {
		recs, err := kafka.Admin().ReadAll(ctx, c.Output.Topics[cycle.Scores], true)
		if err != nil {
			t.Fatal(err)
		}
		scored := map[string]int{} // with a number: while a detector warms up it says so
		for i := range recs {
			s, err := output.DecodeScore(recs[i].Value)
			if err != nil {
				t.Fatal(err)
			}
			if !math.IsNaN(s.Score) {
				scored[s.Detector]++
			}
		}
		if soonScored(c, scored) {
			break
		}
		if time.Since(began) > patience { // seconds on an idle machine
			t.Fatalf("of %d records these are scores: %v", len(recs), scored)
		}
	}
	t.Logf("scores of near, shape and flat after %v", time.Since(began).Round(time.Millisecond))
	for _, w := range append([]*container{generator}, workers...) {
		if !w.healthy() {
			t.Errorf("%s is not healthy while it works", w.name)
		}
		stopped := time.Now()
		if code := w.drain(t); code != exitOK {
			t.Errorf("%s ended with %d", w.name, code)
		}
		if w.s.StopGracePeriod != nil && time.Since(stopped) > time.Duration(*w.s.StopGracePeriod) {
			t.Errorf("%s took %v to end", w.name, time.Since(stopped))
		}
		if w.healthy() {
			t.Errorf("%s is healthy after its end", w.name)
		}
	}
	scores, doubled := f.scores()
	count := map[string]int{}
	for id, s := range scores {
		if !math.IsNaN(s.value()) {
			count[id.detector]++
		}
	}
	t.Logf("scores %v", count)
	if len(doubled) > 0 || !soonScored(c, count) {
		t.Errorf("%d scores doubled; %v", len(doubled), count)
	}
	if list, _ := os.ReadDir(cache); len(list) == 0 {
		t.Error("the workers kept no schema in the volume")
	}
}

// soonScored reports whether every detector has scores but those whose first comes minutes after the start: past with
// the 1,231st sample of a series, both with the 1,776th.
func soonScored(c *config.Config, scores map[string]int) bool {
	return !slices.ContainsFunc(c.Detectors, func(d config.DetectorSettings) bool {
		return scores[d.Name] == 0 && d.Name != "past" && d.Name != "both"
	})
}
