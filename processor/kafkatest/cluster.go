package kafkatest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Versions lists the versions of Apache Kafka that are tested, the newest first: the newest one, the oldest that the worker
// supports and, before a release, one between.
var Versions = versions()

func versions() []string {
	if Long() {
		return []string{"4.4.0", "4.1.1", "3.9.1"}
	}
	return []string{"4.4.0", "3.9.1"}
}

// KindFake is kfake, in the process of the test. Each version of Versions is another kind.
const KindFake = "kfake"

// KindNewest is the newest version of Apache Kafka.
var KindNewest = kindOf(Versions[0])

// Patience is how long a test waits for what must happen. It is no measure: the machine may have much other work.
const Patience = 5 * time.Minute

// Kinds lists every kind of cluster, the cheapest first.
var Kinds = kinds()

func kindOf(version string) string { return "kafka-" + version }

func kinds() []string {
	kinds := []string{KindFake}
	for _, v := range Versions {
		kinds = append(kinds, kindOf(v))
	}
	return kinds
}

// Cluster is a running Kafka cluster: kfake in this process, real nodes that
// this process started, or a cluster started elsewhere that it only uses.
type Cluster struct {
	Kind    string   // one of Kinds
	Version string   // of Apache Kafka; "kfake" for kfake
	Brokers []string // host:port of the plain listener; on a kfake with TLS or SASL, of that listener
	// Registry is the base URL of the schema registry that belongs to the
	// cluster; on a real cluster empty until RegistryURL was called.
	Registry string
	Security *Security     // nil without TLS and SASL
	Dir      string        // data and logs; "" for kfake in memory
	Took     time.Duration // from the start to every node being ready

	// RegistryServer is the registry at Registry, to stop and start it; nil
	// before RegistryURL on a real cluster, and with FakeOptions.NoRegistry.
	RegistryServer *RegistryServer
	Fake           *kfake.Cluster // kfake only: faults and control functions; a new one after Restart

	nodes     []*Node
	restart   func() error // kfake only
	removeDir bool

	mu     sync.Mutex
	admin  *Admin
	closed bool
}

// Node returns the i-th node of a real cluster that this process started, by
// its place in Nodes, and panics when there is none.
func (c *Cluster) Node(i int) *Node { return c.nodes[i] }

// Nodes returns the nodes that this process started: none for kfake and for a
// cluster that is only used. A test that needs nodes to kill skips or starts a
// cluster of its own with StartKafka.
func (c *Cluster) Nodes() []*Node { return c.nodes }

// NodeByID returns the node with that broker id, nil when there is none.
func (c *Cluster) NodeByID(id int32) *Node {
	for _, n := range c.nodes {
		if n.ID == id {
			return n
		}
	}
	return nil
}

// Real reports whether the brokers are Apache Kafka.
func (c *Cluster) Real() bool { return c.Kind != KindFake }

// TransactionsV2 reports whether the cluster has version 2 of the transactions' protocol when it starts (KIP-890).
func (c *Cluster) TransactionsV2() bool { return !strings.HasPrefix(c.Version, "3.") }

// Admin returns the cluster's own client for topics, groups and reading back,
// made at the first call and closed with the cluster.
func (c *Cluster) Admin() *Admin {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.admin == nil {
		a, err := NewAdmin(c.Brokers, c.Security.adminOpts(c)...)
		if err != nil {
			panic(fmt.Sprintf("kafkatest: admin client: %v", err)) // only wrong options can do that
		}
		c.admin = a
	}
	return c.admin
}

// Restart stops the whole cluster without grace and starts it again at the same
// addresses with what it had persisted. On real Kafka each node is killed; on
// kfake it needs FakeOptions.Dir.
func (c *Cluster) Restart(ctx context.Context) error {
	if c.Kind == KindFake {
		if c.restart == nil {
			return errors.New("kafkatest: restart: this kfake keeps its data in memory; set FakeOptions.Dir")
		}
		return c.restart()
	}
	if len(c.nodes) == 0 {
		return errors.New("kafkatest: restart: the cluster was started by another process")
	}
	for _, n := range c.nodes {
		n.Kill()
	}
	for _, n := range c.nodes {
		if err := n.launch(); err != nil {
			return err
		}
	}
	if err := c.waitReady(ctx); err != nil {
		return err
	}
	return c.Admin().waitReplicated(ctx)
}

// MoveLeader makes a node the leader of a partition; the node must hold a replica.
func (c *Cluster) MoveLeader(ctx context.Context, topic string, partition, node int32) error {
	if c.Fake != nil {
		return c.Fake.MoveTopicPartition(topic, partition, node)
	}
	return c.Admin().moveLeader(ctx, topic, partition, node)
}

// Heal starts every node that is down and resumes every node that is paused,
// and waits until all serve and every replica is in sync.
func (c *Cluster) Heal(ctx context.Context) error {
	for _, n := range c.nodes {
		n.Resume()
		if err := n.launch(); err != nil {
			return err
		}
	}
	if err := c.waitReady(ctx); err != nil || len(c.nodes) == 0 {
		return err
	}
	return c.Admin().waitReplicated(ctx)
}

// Close kills the cluster's processes and removes its folder if it made one. It leaves a
// cluster that was started elsewhere running.
func (c *Cluster) Close() {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.closed = true
	a := c.admin
	c.mu.Unlock()
	if a != nil {
		a.Close()
	}
	for _, n := range c.nodes {
		n.Kill()
	}
	if c.Fake != nil {
		c.Fake.Close()
	}
	if c.RegistryServer != nil && !c.Real() {
		c.RegistryServer.Close()
	}
	if c.removeDir && os.Getenv("ODRADEK_TEST_KEEP") == "" {
		os.RemoveAll(c.Dir)
	}
}

// Logs returns the last lines, at most n a node, of the nodes' logs that are
// warnings or worse.
func (c *Cluster) Logs(n int) string {
	var out strings.Builder
	for _, node := range c.nodes {
		lines := tail(node.LogFile, 4*n, func(s string) bool {
			return strings.Contains(s, "ERROR") || strings.Contains(s, "WARN") || strings.Contains(s, "FATAL")
		})
		if len(lines) > n {
			lines = lines[len(lines)-n:]
		}
		for _, l := range lines {
			fmt.Fprintf(&out, "node %d: %s\n", node.ID, l)
		}
	}
	return out.String()
}

// description is what cluster.json holds: enough for another process to use
// the cluster.
type description struct {
	Kind, Version, Registry string
	Brokers                 []string
	Security                *Security `json:",omitempty"`
}

// Describe writes the cluster's addresses and credentials to cluster.json in
// its folder and returns the file's name, for ODRADEK_TEST_KAFKA_<version>.
func (c *Cluster) Describe() (string, error) {
	b, err := json.MarshalIndent(description{c.Kind, c.Version, c.Registry, c.Brokers, c.Security}, "", "  ")
	if err != nil {
		return "", err
	}
	name := filepath.Join(c.Dir, "cluster.json")
	return name, os.WriteFile(name, append(b, '\n'), 0o600)
}

// Attach returns a cluster that runs elsewhere: where is a list of plain
// addresses, host:port,..., or the name of a cluster.json.
func Attach(ctx context.Context, version, where string) (*Cluster, error) {
	c := &Cluster{Kind: "kafka-" + version, Version: version}
	if strings.HasSuffix(where, ".json") {
		b, err := os.ReadFile(where)
		if err != nil {
			return nil, fmt.Errorf("kafkatest: attach: %w", err)
		}
		var d description
		if err := json.Unmarshal(b, &d); err != nil {
			return nil, fmt.Errorf("kafkatest: attach: %s: %w", where, err)
		}
		if d.Version != version {
			return nil, fmt.Errorf("kafkatest: attach: %s describes Kafka %s, not %s", where, d.Version, version)
		}
		c.Brokers, c.Security, c.Registry = d.Brokers, d.Security, d.Registry
	} else {
		for _, b := range strings.Split(where, ",") {
			c.Brokers = append(c.Brokers, strings.TrimSpace(b))
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, err := c.Admin().Nodes(ctx); err != nil {
		return nil, fmt.Errorf("kafkatest: attach: no answer from %v: %w", c.Brokers, err)
	}
	return c, nil
}
