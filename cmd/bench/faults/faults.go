// Package faults runs workers beside three nodes of real Kafka while one kind of fault happens to them again and again, and
// checks what they published, record by record: against the input, against a worker that nothing happened to and, for one
// detector, against a plain program. Readers that share no code with the worker read the outputs.
package faults

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"odradek/cmd/bench/testbed"
	"odradek/cmd/internal/config"
	"odradek/processor/kafkatest"
)

// Options say what to run.
type Options struct {
	Version   string        // of Kafka
	Nodes     int           // of the cluster: 3, or 1
	Worker    string        // program of the worker
	Other     string        // another build of it: scores the undisturbed run, and takes turns with Worker in kind upgrade; "": none
	Only      []string      // names of faults; empty: all, in turn
	Guarantee string        // exactly_once or at_least_once
	Round     time.Duration // in which one kind of fault happens
	Total     time.Duration // in which rounds begin
	Seed      uint64        // of the faults and of the input
	Rate      int           // records a second of the input
	Python    string        // with confluent-kafka, for a second reader; "": without
	Dir       string        // of logs and of the brokers' data
	Settings  []string      // further settings of the workers, ODRADEK_NAME=value
	Log       io.Writer     // what is going on; nil: nothing

	clockWorker string                             // program of the worker with a wall clock that jumps
	checked     func(r *round, input string) error // of the test: after the check of a round, before its topics go
}

// Result is the outcome of one round.
type Result struct {
	Fault     string  `json:"fault"`
	Kafka     string  `json:"kafka"`
	Nodes     int     `json:"nodes,omitempty"` // of Kafka; 0: three
	Guarantee string  `json:"guarantee"`
	Protocol  string  `json:"protocol,omitempty"` // of the group: consumer; empty: classic
	Executor  string  `json:"executor,omitempty"` // of the workers: cuda; empty: the CPU
	Seed      uint64  `json:"seed"`
	Seconds   float64 `json:"seconds"`   // in which faults happened
	Faults    int     `json:"faults"`    // that happened
	Kills     int     `json:"kills"`     // of workers and nodes, among them
	Records   int     `json:"records"`   // of the input
	Scores    int     `json:"scores"`    // published, scores while warming up included
	Anomalies int     `json:"anomalies"` // records of the anomalies topic
	Lost      int     `json:"lost"`      // outputs that the undisturbed worker published and this one did not, and inputs lost by the brokers
	Doubled   int     `json:"doubled"`   // outputs that were there before, under the same identity
	Differing int     `json:"differing"` // outputs whose bytes differ, or whose score is not the plain program's
	Gap       float64 `json:"gap"`       // seconds, the longest time in which a partition had no commit while input arrived
	Recovery  float64 `json:"recovery"`  // seconds from the end of the faults until all input was scored
	Readers   int     `json:"readers"`   // that read the outputs
	// Transactions that committed offsets, each of which was checked in the log.
	Transactions int     `json:"transactions,omitempty"`
	OtherBits    int     `json:"other_bits,omitempty"` // lines of the workers' logs: the CPU has scored a batch of a GPU
	Levels       []Level `json:"levels,omitempty"`     // of a soak
	Examples     string  `json:"examples,omitempty"`
}

// Whole reports whether nothing was lost or different and, where the worker promises it, nothing doubled, and whether what a
// worker holds stayed level.
func (r *Result) Whole() bool {
	return r.Lost == 0 && r.Differing == 0 && (r.Doubled == 0 || r.Guarantee == atLeastOnce) &&
		!slices.ContainsFunc(r.Levels, func(l Level) bool { return l.Exceeded })
}

const (
	atLeastOnce      = "at_least_once"
	consumerProtocol = "consumer"
	onGPU            = "cuda"
)

// Names lists the kinds of faults.
func Names() (names []string) {
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return names
}

// What says what happens in a kind of fault.
func What(name string) string {
	for _, k := range kinds {
		if k.name == name {
			return k.what
		}
	}
	return ""
}

// Run runs rounds until the time is over, at least one, and calls done with the result of each. It returns an error where
// a round could not be run, or where the workers did not finish their input after the faults.
func Run(ctx context.Context, o Options, done func(Result) error) error {
	chosen := slices.DeleteFunc(slices.Clone(kinds), func(k kind) bool {
		return k.name == upgrade || k.name == soak || k.name == gpuChild && !o.onGPU() || k.name == workerDisk && os.Geteuid() != 0
	})
	if len(o.Only) > 0 {
		chosen = nil
		for _, name := range o.Only {
			i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
			if i < 0 {
				return fmt.Errorf("faults: no fault %q: there are %s", name, strings.Join(Names(), ", "))
			}
			chosen = append(chosen, kinds[i])
		}
	}
	if err := o.check(); err != nil {
		return err
	}
	wrongClocks := func(k kind) bool { return k.name == workerClocks }
	if slices.ContainsFunc(chosen, wrongClocks) {
		var err error
		if o.clockWorker, err = wrongClockWorker(ctx, o.Dir); err != nil && len(o.Only) > 0 {
			return fmt.Errorf("faults: a worker with a wrong clock: %w", err)
		} else if err != nil {
			o.say("no worker with a wrong clock: %v", err)
			chosen = slices.DeleteFunc(chosen, wrongClocks)
		}
	}
	bed := &testbed.Bed{Dir: o.Dir}
	o.Nodes = cmp.Or(o.Nodes, 3)
	var small *disk
	if !slices.ContainsFunc(chosen, func(k kind) bool { return k.name == soak }) { // which writes more than such a disk has
		var err error
		last := filepath.Join(o.Dir, "kafka", fmt.Sprintf("node-%d", o.Nodes), "data")
		if small, err = mountDisk(last, o.diskBytes()); err != nil {
			o.say("no disk of a node can be filled: %v", err)
		}
	}
	defer small.free() // after the nodes have ended
	c, proxies, err := startCluster(ctx, o)
	if err != nil {
		return err
	}
	defer func() {
		for _, p := range proxies {
			p.Close()
		}
		c.Close()
	}()
	began := time.Now()
	for i := 0; i == 0 || time.Since(began) < o.Total; i++ {
		seed := o.Seed + uint64(i)
		k := chosen[i%len(chosen)]
		if k.name == soak {
			o.Round = o.Total
		}
		r := &round{Options: o, ctx: ctx, bed: bed, c: c, proxies: proxies, disk: small, kind: k, seed: seed,
			name: fmt.Sprintf("%s-%d", k.name, i), rng: rand.New(rand.NewPCG(seed, 1))}
		res, err := r.run()
		if err != nil {
			return fmt.Errorf("faults: %s, seed %d: %w", k.name, seed, err)
		}
		if err := done(res); err != nil {
			return err
		}
	}
	return nil
}

// diskBytes is the size of a node's disk that can be filled: what a node writes in a round, several times.
func (o *Options) diskBytes() int { return max(3<<29, int(float64(o.Rate)*o.Round.Seconds())<<11) }

// check says which options make no sense, before brokers are started.
func (o *Options) check() error {
	switch {
	case o.Rate <= 0 || o.Round <= 0:
		return errors.New("faults: a rate and a time of a round above 0 are needed")
	case o.Guarantee != "exactly_once" && o.Guarantee != atLeastOnce:
		return fmt.Errorf("faults: no guarantee %q: there are exactly_once and %s", o.Guarantee, atLeastOnce)
	case o.Nodes != 0 && o.Nodes != 1 && o.Nodes != 3:
		return fmt.Errorf("faults: a cluster has 1 or 3 nodes, not %d", o.Nodes)
	case o.Other == "" && slices.Contains(o.Only, upgrade):
		return errors.New("faults: kind upgrade needs another build of the worker: -other names its program")
	case o.Dir != "" && exists(filepath.Join(o.Dir, "kafka")):
		return fmt.Errorf("faults: %s has the brokers of an earlier run, whose groups have the same names: name another folder", o.Dir)
	case o.Python != "":
		if _, err := exec.LookPath(o.Python); err != nil {
			return fmt.Errorf("faults: the Python of the second reader: %w", err)
		}
	}
	return nil
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// startCluster starts three nodes that advertise a proxy each to the workers.
func startCluster(ctx context.Context, o Options) (*kafkatest.Cluster, []*testbed.Proxy, error) {
	const own = "PLAINTEXT://127.0.0.1:{port0}"
	c, err := kafkatest.StartKafka(ctx, kafkatest.Options{Version: o.Version, Nodes: o.Nodes, Dir: filepath.Join(o.Dir, "kafka"),
		HeapMB: max(400, min(o.Rate/20, 900)), // at 22,000 records a second nodes with 400 MB ended in two of 21 rounds
		Config: map[string]string{
			"listeners":                      own + ",CONTROLLER://127.0.0.1:{port1},PROXIED://127.0.0.1:{port2}",
			"advertised.listeners":           own + ",PROXIED://127.0.0.1:{port3}",
			"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,PROXIED:PLAINTEXT",
			"log.segment.delete.delay.ms":    "1000",
		}})
	if err != nil {
		return nil, nil, err
	}
	var proxies []*testbed.Proxy
	for i := range c.Nodes() {
		p, err := newProxy(filepath.Join(c.Dir, fmt.Sprintf("node-%d", i+1), "server.properties"))
		if err != nil {
			c.Close()
			return nil, nil, err
		}
		proxies = append(proxies, p)
	}
	return c, proxies, nil
}

// round is one kind of fault on topics of its own.
type round struct {
	Options
	ctx     context.Context
	c       *kafkatest.Cluster
	proxies []*testbed.Proxy
	disk    *disk // of the last node, that can be filled; nil: none
	kind    kind
	seed    uint64
	name    string
	rng     *rand.Rand

	bed     *testbed.Bed
	load    *load
	avro    *avro // of the input in kinds registry and worker-disk
	workers []*worker
	lasting *worker  // that never ends in a soak
	others  []string // settings of the workers that start from now on
	started int
	faults  int
	kills   int

	workerDisk *disk // of the workers, with logs, schemas and instance ids; nil: none that can be filled
}

// The size of a round's input and fleet.
const (
	partitions = 6
	sensors    = 48
	fleet      = 3
)

// recovery bounds the time from the last fault until all input is scored.
const recovery = 2 * time.Minute

func (r *round) say(format string, args ...any) { r.Options.say(r.name+": "+format, args...) }

func (o *Options) say(format string, args ...any) {
	if o.Log != nil {
		fmt.Fprintf(o.Log, "%s %s\n", time.Now().Format("15:04:05.000"), fmt.Sprintf(format, args...))
	}
}

// pause waits a time between the two, drawn at random.
func (r *round) pause(least, most time.Duration) {
	select {
	case <-r.ctx.Done():
	case <-time.After(least + time.Duration(r.rng.Int64N(int64(most-least)+1))):
	}
}

func (r *round) run() (res Result, err error) {
	res = Result{Fault: r.kind.name, Kafka: r.Version, Guarantee: r.Guarantee, Seed: r.seed, Readers: 1}
	if r.Nodes == 1 {
		res.Nodes = 1
	}
	if slices.Contains(r.Settings, config.Prefix+"GROUP_PROTOCOL="+consumerProtocol) {
		res.Protocol = consumerProtocol
	}
	if r.onGPU() {
		res.Executor = onGPU
	}
	input := "in-" + r.name
	admin := r.c.Admin()
	if err := admin.CreateTopic(r.ctx, input, partitions, 0, nil); err != nil {
		return res, err
	}
	if r.kind.name == workerDisk {
		d, err := mountDisk(filepath.Join(r.Dir, r.name), 16<<20)
		if err != nil {
			return res, err
		}
		defer d.free()
		r.bed, r.workerDisk = &testbed.Bed{Dir: d.dir}, d
	}
	if r.kind.name == registry || r.kind.name == workerDisk {
		if r.avro, err = openRegistry(r.ctx, input); err != nil {
			return res, err
		}
		defer r.avro.close()
	}
	defer func() {
		for _, w := range r.workers {
			w.Kill()
		}
		if err == nil && res.Whole() { // else the logs stay, to be looked into
			r.drop(input)
		}
	}()
	for i := range fleet {
		w, err := r.start(i)
		if err != nil {
			return res, err
		}
		r.workers = append(r.workers, w)
	}
	load, err := r.startLoad(input)
	if err != nil {
		return res, err
	}
	r.load = load
	first, cancel := context.WithTimeout(r.ctx, recovery)
	defer cancel()
	for len(r.committed(input)) < partitions && err == nil { // before that there is nothing to disturb
		r.pause(100*time.Millisecond, 100*time.Millisecond)
		err = errors.Join(first.Err(), r.alive())
	}
	began := time.Now()
	samples := make(chan [][]float64, 1)
	wctx, stop := context.WithCancel(r.ctx)
	defer stop()
	if r.kind.name == soak {
		// Segments of an hour would make the size of the changelog a saw's, with one tooth in the run.
		if err := admin.SetTopicConfig(r.ctx, changelog(r.group(), input), map[string]string{"segment.ms": "300000"}); err != nil {
			return res, err
		}
		r.lasting = r.workers[0]
		go func() { samples <- r.watch(wctx, input) }()
	}
	for time.Since(began) < r.Round && r.ctx.Err() == nil && err == nil {
		r.faults++
		err = errors.Join(r.kind.do(r), r.alive())
		r.pause(0, time.Second)
	}
	res.Seconds, res.Faults, res.Kills = time.Since(began).Seconds(), r.faults, r.kills
	over := time.Now()
	err = errors.Join(err, r.heal(), r.alive(), load.end(&res))
	if err := errors.Join(err, r.ctx.Err()); err != nil {
		return res, err
	}
	wait, cancel := context.WithTimeout(r.ctx, recovery)
	defer cancel()
	if err := admin.WaitCommitted(wait, r.group(), input); err != nil {
		return res, r.unfinished(fmt.Errorf("the workers did not score all input in %v after the last fault: %w", recovery, err))
	}
	res.Recovery = time.Since(over).Seconds()
	if stop(); r.lasting != nil {
		res.Levels = levels(<-samples)
	}
	for _, w := range r.workers {
		if err := drain(w); err != nil {
			return res, err
		}
	}
	if err := r.undisturbed(input); err != nil {
		return res, err
	}
	err = errors.Join(r.check(input, load.acked, &res), r.otherBits(&res))
	r.say("%+v", res)
	if err == nil && r.checked != nil {
		err = r.checked(r, input)
	}
	return res, err
}

func (r *round) group() string { return "g-" + r.name }

// drop deletes what a round wrote; an error costs disk space only.
func (r *round) drop(input string) {
	ctx, cancel := context.WithTimeout(r.ctx, 30*time.Second)
	defer cancel()
	_ = r.c.Admin().DeleteTopic(ctx, input)
	for _, group := range []string{r.group(), r.group() + "-ref"} {
		for _, suffix := range []string{"-scores", "-anomalies", "-dlq", "-late", "-feedback"} {
			_ = r.c.Admin().DeleteTopic(ctx, group+suffix)
		}
		_ = r.c.Admin().DeleteTopic(ctx, changelog(group, input))
	}
}

// otherBits counts the batches of GPUs that the CPU has scored, whose scores may have other bits than the undisturbed worker's.
func (r *round) otherBits(res *Result) error {
	logs, err := filepath.Glob(filepath.Join(r.Dir, r.name+"-*.log"))
	for _, name := range logs {
		text, readErr := os.ReadFile(name)
		err = errors.Join(err, readErr)
		res.OtherBits += bytes.Count(text, []byte("with other bits"))
	}
	return err
}

// undisturbed scores the input by one worker of another group, past the proxies.
func (r *round) undisturbed(input string) error {
	r.others = nil
	w, err := r.launch("undisturbed", cmp.Or(r.Other, r.Worker), r.settings(input, r.group()+"-ref", r.c.Brokers, "exactly_once"))
	if err != nil {
		return err
	}
	r.workers = append(r.workers, w)
	ctx, cancel := context.WithTimeout(r.ctx, 5*recovery+r.Round)
	defer cancel()
	if err := r.c.Admin().WaitCommitted(ctx, r.group()+"-ref", input); err != nil {
		return r.unfinished(fmt.Errorf("the undisturbed worker: %w", err))
	}
	return drain(w)
}

// heal ends all faults.
func (r *round) heal() error {
	r.link(testbed.Link{})
	if err := r.whole(); err != nil {
		return err
	}
	for _, w := range r.workers {
		w.Resume()
	}
	return nil
}

// Table writes the results as a table of Markdown, a row for each fault, guarantee, group protocol, executor and size of the cluster:
// exactly once, classic, the CPU and three nodes unless it says another.
func Table(out io.Writer, results []Result) {
	type row struct {
		Result
		runs int
	}
	rows := map[string]*row{}
	var order []string
	total := row{}
	for _, r := range results {
		id := fmt.Sprint(r.Guarantee, " ", r.Protocol, " ", r.Executor, " ", r.Nodes, " ", r.Fault)
		if rows[id] == nil {
			rows[id] = &row{Result: Result{Fault: r.Fault, Nodes: r.Nodes, Guarantee: r.Guarantee, Protocol: r.Protocol, Executor: r.Executor}}
			order = append(order, id)
		}
		for _, to := range []*row{rows[id], &total} {
			to.runs++
			to.Faults += r.Faults
			to.Kills += r.Kills
			to.Records += r.Records
			to.Lost += r.Lost
			to.Doubled += r.Doubled
			to.Differing += r.Differing
			to.Gap = max(to.Gap, r.Gap)
		}
	}
	slices.SortStableFunc(order, func(a, b string) int {
		x, y := rows[a], rows[b]
		return cmp.Or(-strings.Compare(x.Guarantee, y.Guarantee), strings.Compare(x.Protocol, y.Protocol),
			strings.Compare(x.Executor, y.Executor), x.Nodes-y.Nodes, place(x.Fault)-place(y.Fault))
	})
	fmt.Fprintln(out, "| fault | runs | faults | kills | records | lost | doubled | differing | longest gap, s |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|---|---|")
	line := func(r *row) {
		name := r.Fault
		if r.Nodes == 1 {
			name += ", one node"
		}
		if r.Guarantee == atLeastOnce {
			name += ", at least once"
		}
		if r.Protocol == consumerProtocol {
			name += ", consumer protocol"
		}
		if r.Executor == onGPU {
			name += ", on a GPU"
		}
		fmt.Fprintf(out, "| %s | %d | %d | %d | %d | %d | %d | %d | %.1f |\n", name, r.runs, r.Faults, r.Kills, r.Records,
			r.Lost, r.Doubled, r.Differing, r.Gap)
	}
	for _, id := range order {
		line(rows[id])
	}
	total.Fault = "all"
	line(&total)
}

func place(name string) int {
	return slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
}

// Read reads results, one JSON object a line.
func Read(file string) (results []Result, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("faults: %w", err)
	}
	for i, line := range bytes.Split(bytes.TrimSpace(text), []byte("\n")) {
		var r Result
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("faults: %s, line %d: %w", file, i+1, err)
		}
		results = append(results, r)
	}
	return results, nil
}
