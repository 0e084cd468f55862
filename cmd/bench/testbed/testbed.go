// Package testbed starts the processes that benchmarks measure, brokers, a registry, workers and peers, and fills input
// topics. It measures rates, processor time and the latency of scores.
package testbed

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"odradek/processor/kafkatest"
)

// Bed has the brokers, the registry and the processes of the benchmarks that run a
// worker. What is exported, but for Dir and Cluster, is set by flags.
type Bed struct {
	*Measuring
	Kafka         string   // version of Kafka to start, or kfake
	Brokers       string   // brokers to use instead, host:port,...
	Procs         int      // GOMAXPROCS of the worker; 0: all cores
	Compress      string   // compression of what the worker and its peers write; "": the worker's
	WorkerProgram string   // program of the worker; "": worker, beside this program
	Settings      []string // further settings of the worker, ODRADEK_NAME=value
	Dir           string   // logs and data of the children; removed at the end

	Cluster  *kafkatest.Cluster
	registry *kafkatest.RegistryServer
	distant  distant
	topics   []string // inputs made
	children int
}

// Open starts the brokers and the registry, or uses the ones that flags name.
func (b *Bed) Open(ctx context.Context) (err error) {
	if b.Cluster != nil {
		return nil
	}
	if b.registry == nil {
		if b.registry, err = kafkatest.StartFakeRegistry(); err != nil {
			return err
		}
	}
	switch {
	case b.Brokers != "":
		b.Cluster, err = kafkatest.Attach(ctx, "of -brokers", b.Brokers)
	case b.Kafka == kafkatest.KindFake:
		b.Cluster, err = kafkatest.StartFake(kafkatest.FakeOptions{Brokers: 1, NoRegistry: true, Dir: filepath.Join(b.Dir, "kfake")})
	default:
		o := benchBroker(b.Kafka, filepath.Join(b.Dir, "kafka"))
		if err = b.distant.config(o.Config); err == nil {
			b.Cluster, err = kafkatest.StartKafka(ctx, o)
		}
	}
	if err == nil {
		b.Say("brokers %s at %s, ready in %v", b.Cluster.Kind, strings.Join(b.Cluster.Brokers, ","), b.Cluster.Took.Round(time.Millisecond))
	}
	return err
}

// benchBroker configures a broker like its own start script, not reduced as for tests: a heap
// of 1 GiB, the script's collector flags, the optimising compiler, and Kafka's default
// thread counts and cleaning intervals, except for topics that a benchmark deletes.
func benchBroker(version, dir string) kafkatest.Options {
	return kafkatest.Options{
		Version: version, Nodes: 1, HeapMB: 1024, Dir: dir,
		JVM: []string{"-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
			"-XX:+ExplicitGCInvokesConcurrent"},
		Config: map[string]string{
			"num.network.threads":             "3",
			"num.io.threads":                  "8",
			"background.threads":              "10",
			"log.cleaner.backoff.ms":          "15000",
			"log.retention.check.interval.ms": "20000",
			"log.initial.task.delay.ms":       "30000",
			"log.segment.delete.delay.ms":     "1000", // one benchmark's topics make room for the next one's
			"log.cleaner.dedupe.buffer.size":  "134217728",
			"log.cleaner.io.buffer.size":      "524288",
		},
	}
}

// Close ends the brokers and deletes the inputs and, without ODRADEK_TEST_KEEP, Dir.
func (b *Bed) Close() {
	if b.Cluster != nil {
		b.Drop(b.topics...)
		b.Cluster.Close()
	}
	if b.registry != nil {
		b.registry.Close()
	}
	if os.Getenv("ODRADEK_TEST_KEEP") == "" {
		os.RemoveAll(b.Dir)
	}
}
