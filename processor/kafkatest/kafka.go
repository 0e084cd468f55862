package kafkatest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Options says what cluster of real nodes to start; the zero value is three
// nodes of the newest tested version.
type Options struct {
	Version string // one of Versions; default the first
	Nodes   int    // 3 (default) or 1
	// SASL adds a SASL_SSL and an SSL listener and the authorizer, which lets
	// everyone do everything with a resource that no ACL names. The plain listener
	// remains for the cluster's own client, which no ACL restricts.
	SASL   bool
	HeapMB int    // of each node; default 400
	Dir    string // data and logs; default a temporary folder that Close removes
	// Config is broker configuration over the defaults here, for every node. In
	// its values {port0} to {port3} stand for free ports of the node's own, of
	// which the first belongs to Addr and the second to the controller.
	Config map[string]string
	JVM    []string // further flags of each node's Java
}

// Node is one real Kafka node, broker and controller in one.
type Node struct {
	ID      int32
	Addr    string // of the plain listener
	LogFile string

	dir  string
	jvm  []string // command and arguments
	mu   sync.Mutex
	proc *process
}

// StartKafka starts real Kafka nodes on loopback, resolved from Maven Central at
// the first time, and waits until all serve. Everything that slows a test is
// turned down: small heaps, few internal partitions, no initial rebalance delay,
// sessions from 500 ms, a dead broker noticed within seconds. Topics are not
// created on demand and keep everything; three nodes replicate to three with two
// in sync.
func StartKafka(ctx context.Context, o Options) (*Cluster, error) {
	if o.Version == "" {
		o.Version = Versions[0]
	}
	classes, err := loaded(ctx, o.Version)
	if err != nil {
		return nil, err
	}
	o.JVM = append([]string{"-XX:SharedArchiveFile=" + classes}, o.JVM...)
	return startKafka(ctx, o)
}

func startKafka(ctx context.Context, o Options) (*Cluster, error) {
	if o.Nodes == 0 {
		o.Nodes = 3
	}
	if o.HeapMB == 0 {
		o.HeapMB = 400
	}
	jvm, err := Java()
	if err != nil {
		return nil, &MissingError{"Apache Kafka " + o.Version, err}
	}
	jars, err := kafkaJars(ctx, o.Version)
	if err != nil {
		return nil, err
	}
	format, err := formatted(ctx, jvm, jars, o.Version)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	c := &Cluster{Kind: kindOf(o.Version), Version: o.Version, Dir: o.Dir}
	if c.Dir == "" {
		if c.Dir, err = tempDir("kafka"); err != nil {
			return nil, err
		}
		c.removeDir = true
	} else if c.Dir, err = filepath.Abs(o.Dir); err != nil {
		return nil, err
	}
	if err := c.writeNodes(o, jvm, jars, format); err != nil {
		c.Close()
		return nil, fmt.Errorf("kafkatest: Kafka %s: %w", o.Version, err)
	}
	for _, n := range c.nodes {
		if err := n.launch(); err != nil {
			c.Close()
			return nil, err
		}
	}
	if err := c.waitReady(ctx); err != nil {
		c.Close()
		return nil, err
	}
	c.Took = time.Since(began)
	_, err = c.Describe()
	return c, err
}

// writeNodes writes every node's folder and configuration.
func (c *Cluster) writeNodes(o Options, jvm, jars, format string) error {
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return err
	}
	ports, err := FreePorts(4 * o.Nodes)
	if err != nil {
		return err
	}
	at := func(node, listener int) string { return "127.0.0.1:" + strconv.Itoa(ports[4*node+listener]) }
	var voters []string
	for i := range o.Nodes {
		voters = append(voters, strconv.Itoa(i+1)+"@"+at(i, 1))
		c.Brokers = append(c.Brokers, at(i, 0))
	}
	if o.SASL {
		if c.Security, _, err = newSecurity(c.Dir); err != nil {
			return err
		}
		for i := range o.Nodes {
			c.Security.SASLBrokers = append(c.Security.SASLBrokers, at(i, 2))
			c.Security.TLSBrokers = append(c.Security.TLSBrokers, at(i, 3))
		}
	}
	cluster := randomUUID()
	for i := range o.Nodes {
		dir := filepath.Join(c.Dir, "node-"+strconv.Itoa(i+1))
		n := &Node{ID: int32(i + 1), Addr: at(i, 0), LogFile: filepath.Join(dir, "server.log"), dir: dir}
		data := filepath.Join(dir, "data")
		if err := layFormat(format, data, cluster, n.ID); err != nil {
			return err
		}
		p := properties(o)
		p["node.id"] = strconv.Itoa(i + 1)
		p["log.dirs"] = data
		p["controller.quorum.voters"] = strings.Join(voters, ",")
		listeners := "PLAINTEXT://" + at(i, 0) + ",CONTROLLER://" + at(i, 1)
		advertised := "PLAINTEXT://" + at(i, 0)
		if o.SASL {
			secure := ",SASL_SSL://" + at(i, 2) + ",SSL://" + at(i, 3)
			listeners += secure
			advertised += secure
			p["ssl.keystore.location"] = filepath.Join(c.Dir, "server.pem")
			p["ssl.truststore.location"] = c.Security.CAFile
		}
		p["listeners"] = listeners
		p["advertised.listeners"] = advertised
		for k, v := range o.Config {
			for l := range 4 {
				v = strings.ReplaceAll(v, fmt.Sprintf("{port%d}", l), strconv.Itoa(ports[4*i+l]))
			}
			p[k] = v
		}
		if err := writeProperties(filepath.Join(dir, "server.properties"), p); err != nil {
			return err
		}
		n.jvm = []string{jvm, "-Xmx" + strconv.Itoa(o.HeapMB) + "m"}
		if o.HeapMB < 1000 {
			// Small heaps on few cores: nothing to gain from compiling twice and
			// collecting in parallel.
			n.jvm = append(n.jvm, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
		}
		n.jvm = append(n.jvm, o.JVM...)
		n.jvm = append(n.jvm, logFlags(o.Version, dir)...)
		n.jvm = append(n.jvm, "-cp", filepath.Join(jars, "*"), "kafka.Kafka", filepath.Join(dir, "server.properties"))
		if err := writeLogConfig(o.Version, dir); err != nil {
			return err
		}
		c.nodes = append(c.nodes, n)
	}
	return nil
}

// properties returns what all nodes have in common.
func properties(o Options) map[string]string {
	replicas, insync := strconv.Itoa(o.Nodes), strconv.Itoa((o.Nodes+1)/2)
	p := map[string]string{
		"process.roles":                  "broker,controller",
		"inter.broker.listener.name":     "PLAINTEXT",
		"controller.listener.names":      "CONTROLLER",
		"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL",

		"default.replication.factor":               replicas,
		"min.insync.replicas":                      insync,
		"offsets.topic.replication.factor":         replicas,
		"transaction.state.log.replication.factor": replicas,
		"transaction.state.log.min.isr":            insync,
		"offsets.topic.num.partitions":             "5",
		"transaction.state.log.num.partitions":     "5",
		"num.partitions":                           "1",
		"auto.create.topics.enable":                "false",
		"group.initial.rebalance.delay.ms":         "0",
		"group.min.session.timeout.ms":             "500",
		// Of the consumer protocol, whose members do not choose.
		"group.consumer.min.session.timeout.ms":    "500",
		"group.consumer.session.timeout.ms":        "6000",
		"group.consumer.min.heartbeat.interval.ms": "100",
		"group.consumer.heartbeat.interval.ms":     "200",

		// A dead or paused broker is fenced after 5 s instead of 9, and a slow
		// replica leaves the in-sync set after 5 s instead of 30. Shorter times
		// fence healthy brokers on a machine that is busy: a heartbeat's own
		// time-out is its interval.
		"broker.session.timeout.ms":              "5000",
		"broker.heartbeat.interval.ms":           "1000",
		"initial.broker.registration.timeout.ms": "120000",
		"replica.lag.time.max.ms":                "5000",
		// Transactions that time out are looked for every 0.5 s instead of 10.
		"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
		// Kafka's default: what the worker writes has to outlive the test in the topics
		// that it makes (CreateTopic makes the tests' topics). What a topic asks for in
		// retention, compaction and deletion happens while a test looks.
		"log.retention.ms":                "604800000",
		"log.retention.check.interval.ms": "2000",
		"log.cleaner.backoff.ms":          "1000",
		"log.initial.task.delay.ms":       "2000",
		"file.delete.delay.ms":            "1000",

		"num.network.threads":                   "2",
		"num.io.threads":                        "4",
		"background.threads":                    "2",
		"log.cleaner.dedupe.buffer.size":        "4194304", // of 128 MiB: a third of the heap
		"log.cleaner.io.buffer.size":            "1048576",
		"controller.quorum.append.linger.ms":    "2",
		"metadata.max.idle.interval.ms":         "5000", // a record that says nothing, every 0.5 s: an eighth of what idle nodes compute
		"controlled.shutdown.retry.backoff.ms":  "500",
		"metadata.log.max.snapshot.interval.ms": "3600000",
	}
	if o.SASL {
		maps.Copy(p, map[string]string{
			"ssl.keystore.type":   "PEM",
			"ssl.truststore.type": "PEM",
			// On SASL_SSL client.auth counts only with the listener's prefix.
			"listener.name.sasl_ssl.ssl.client.auth":         "requested",
			"listener.name.ssl.ssl.client.auth":              "required",
			"listener.name.sasl_ssl.sasl.enabled.mechanisms": strings.Join(Mechanisms, ","),

			// SASL sessions end after 3 s, so that a client that does not
			// authenticate again in time loses connections in every longer test.
			"connections.max.reauth.ms": "3000",

			"authorizer.class.name":          "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
			"allow.everyone.if.no.acl.found": "true",
			"super.users":                    "User:ANONYMOUS", // clients of the plain listener, nodes too
		})
		login := "org.apache.kafka.common.security."
		p["listener.name.sasl_ssl.plain.sasl.jaas.config"] = login + "plain.PlainLoginModule required"
		for _, u := range users {
			switch u.Mechanism {
			case Plain:
				p["listener.name.sasl_ssl.plain.sasl.jaas.config"] += fmt.Sprintf(" user_%s=%q", u.Name, u.Password)
			default:
				p["listener.name.sasl_ssl."+strings.ToLower(u.Mechanism)+".sasl.jaas.config"] = login + "scram.ScramLoginModule required;"
			}
		}
		p["listener.name.sasl_ssl.plain.sasl.jaas.config"] += ";"
	}
	return p
}

func writeProperties(name string, p map[string]string) error {
	var b bytes.Buffer
	for _, k := range slices.Sorted(maps.Keys(p)) {
		fmt.Fprintf(&b, "%s=%s\n", k, p[k])
	}
	return os.WriteFile(name, b.Bytes(), 0o600)
}

// logFlags returns the flags of the version's logging backend; the log is standard
// error's.
func logFlags(version, dir string) []string {
	if strings.HasPrefix(version, "3.") {
		return []string{"-Dlog4j.configuration=file:" + filepath.Join(dir, "log4j.properties")}
	}
	return []string{
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=info",
		"-Dorg.slf4j.simpleLogger.showDateTime=true",
		"-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
		"-Dorg.slf4j.simpleLogger.showThreadName=false",
	}
}

func writeLogConfig(version, dir string) error {
	if !strings.HasPrefix(version, "3.") {
		return nil
	}
	return os.WriteFile(filepath.Join(dir, "log4j.properties"), []byte(`log4j.rootLogger=INFO, err
log4j.appender.err=org.apache.log4j.ConsoleAppender
log4j.appender.err.target=System.err
log4j.appender.err.layout=org.apache.log4j.PatternLayout
log4j.appender.err.layout.ConversionPattern=%d{HH:mm:ss.SSS} %p %c{1} %m%n
`), 0o600)
}

// loaded returns the archive of the classes that a node has loaded when it is ready, which a node maps instead of reading
// and verifying them: its start takes 1.9 s of CPU instead of 3.5. Another Java than the one that wrote it goes without.
func loaded(ctx context.Context, version string) (string, error) {
	dir, err := Cached("kafka-"+version+"-classes", func(dir string) error {
		c, err := startKafka(ctx, Options{Version: version, Nodes: 1, SASL: true,
			JVM: []string{"-XX:ArchiveClassesAtExit=" + filepath.Join(dir, "classes.jsa")}})
		if err != nil {
			return err
		}
		defer c.Close()
		return c.Node(0).Stop(ctx) // writes it
	})
	return filepath.Join(dir, "classes.jsa"), err
}

// formatted returns a folder formatted by Kafka's own storage tool, with the
// SCRAM users in it, kept in the cache: what it holds is the same for every
// node and cluster but for the ids in meta.properties, and running the tool
// takes seconds a node.
func formatted(ctx context.Context, jvm, jars, version string) (string, error) {
	dir, err := Cached("kafka-"+version+"-formatted", func(dir string) error {
		conf := filepath.Join(dir, "format.properties")
		p := map[string]string{
			"process.roles": "broker,controller", "node.id": "1", "controller.quorum.voters": "1@127.0.0.1:9093",
			"listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093", "controller.listener.names": "CONTROLLER",
			"log.dirs": filepath.Join(dir, "data"),
		}
		if err := writeProperties(conf, p); err != nil {
			return err
		}
		args := []string{"-XX:TieredStopAtLevel=1", "-cp", filepath.Join(jars, "*")}
		args = append(args, logFlags(version, dir)...)
		args = append(args, "kafka.tools.StorageTool", "format", "-t", randomUUID(), "-c", conf)
		if err := writeLogConfig(version, dir); err != nil {
			return err
		}
		for _, u := range users {
			if u.Mechanism != Plain {
				args = append(args, "--add-scram", fmt.Sprintf("%s=[name=%s,password=%s]", u.Mechanism, u.Name, u.Password))
			}
		}
		if out, err := exec.CommandContext(ctx, jvm, args...).CombinedOutput(); err != nil {
			return fmt.Errorf("kafkatest: formatting: %w: %.1000s", err, out)
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("kafkatest: Kafka %s: %w", version, err)
	}
	return filepath.Join(dir, "data"), nil
}

var idLine = regexp.MustCompile(`(?m)^(cluster\.id|node\.id|directory\.id)=.*$`)

// layFormat copies a formatted folder for another node of another cluster.
func layFormat(from, to, cluster string, node int32) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	files, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, f := range files {
		if f.IsDir() { // since Kafka 4.4 the metadata log's first snapshot
			if err := layFormat(filepath.Join(from, f.Name()), filepath.Join(to, f.Name()), cluster, node); err != nil {
				return err
			}
			continue
		}
		b, err := os.ReadFile(filepath.Join(from, f.Name()))
		if err != nil {
			return err
		}
		if f.Name() == "meta.properties" {
			ids := map[string]string{"cluster.id": cluster, "node.id": strconv.Itoa(int(node)), "directory.id": randomUUID()}
			b = idLine.ReplaceAllFunc(b, func(line []byte) []byte {
				key, _, _ := strings.Cut(string(line), "=")
				return []byte(key + "=" + ids[key])
			})
		}
		if err := os.WriteFile(filepath.Join(to, f.Name()), b, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// randomUUID returns an id as Kafka writes them: 16 bytes in URL-safe base64.
// Kafka refuses those that begin with a dash.
func randomUUID() string {
	for {
		var b [16]byte
		_, _ = rand.Read(b[:]) // never fails
		if s := base64.RawURLEncoding.EncodeToString(b[:]); s[0] != '-' {
			return s
		}
	}
}

// launch starts the node's process if it does not run.
func (n *Node) launch() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proc.running() {
		return nil
	}
	p, err := spawn(n.dir, n.LogFile, n.jvm[0], n.jvm[1:]...)
	n.proc = p
	return err
}

// PID returns the process id, 0 when the node is down.
func (n *Node) PID() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.proc.running() {
		return 0
	}
	return n.proc.cmd.Process.Pid
}

// Running reports whether the node's process lives; a paused one does.
func (n *Node) Running() bool { return n.PID() != 0 }

// Wait returns when the node's process has ended.
func (n *Node) Wait() {
	n.mu.Lock()
	p := n.proc
	n.mu.Unlock()
	if p != nil {
		<-p.exited
	}
}

// Kill ends the node at once (SIGKILL), as a power cut would.
func (n *Node) Kill() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.proc.kill()
}

// Stop shuts the node down in good order: leaders move away first. When ctx
// ends before that, the node is killed and ctx's error returned.
func (n *Node) Stop(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.proc.running() {
		return nil
	}
	Resume(n.proc.cmd.Process)
	n.proc.terminate()
	select {
	case <-n.proc.exited:
		return nil
	case <-ctx.Done():
		n.proc.kill()
		return fmt.Errorf("kafkatest: node %d did not stop in time and was killed: %w", n.ID, ctx.Err())
	}
}

// Start starts a node that is down, at its old address with its old data, and
// waits until the cluster counts it in.
func (n *Node) Start(ctx context.Context) error {
	if err := n.launch(); err != nil {
		return err
	}
	return n.ready(ctx, 0)
}

// Restart stops the node in good order and starts it again.
func (n *Node) Restart(ctx context.Context) error {
	if err := n.Stop(ctx); err != nil {
		return err
	}
	return n.Start(ctx)
}

// Pause stops the node's process without ending it (SIGSTOP): its connections
// stay open and nothing answers.
func (n *Node) Pause() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proc.running() {
		Pause(n.proc.cmd.Process)
	}
}

// Resume ends a Pause.
func (n *Node) Resume() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proc.running() {
		Resume(n.proc.cmd.Process)
	}
}

// ready waits until the node answers and its own metadata lists it, and with
// nodes > 0 that many nodes and a controller.
func (n *Node) ready(ctx context.Context, nodes int) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(n.Addr), kgo.RequestRetries(0), kgo.DialTimeout(time.Second))
	if err != nil {
		return err
	}
	defer cl.Close()
	n.mu.Lock()
	p := n.proc
	n.mu.Unlock()
	err = poll(ctx, 50*time.Millisecond, p, func(ctx context.Context) error {
		req := kmsg.NewPtrMetadataRequest()
		req.Topics = []kmsg.MetadataRequestTopic{}
		r, err := cl.SeedBrokers()[0].Request(ctx, req)
		if err != nil {
			return err
		}
		m := r.(*kmsg.MetadataResponse)
		if len(m.Brokers) < nodes || m.ControllerID < 0 {
			return fmt.Errorf("%d of %d nodes, controller %d", len(m.Brokers), nodes, m.ControllerID)
		}
		if !slices.ContainsFunc(m.Brokers, func(b kmsg.MetadataResponseBroker) bool { return b.NodeID == n.ID }) {
			return errors.New("not registered yet")
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("kafkatest: node %d is not ready: %w\nthe end of %s:\n%s", n.ID, err, n.LogFile,
			strings.Join(tail(n.LogFile, 20, nil), "\n"))
	}
	return nil
}

// waitReady waits until every node serves and sees all others.
func (c *Cluster) waitReady(ctx context.Context) error {
	for _, n := range c.nodes {
		if err := n.ready(ctx, len(c.nodes)); err != nil {
			return err
		}
	}
	return nil
}
