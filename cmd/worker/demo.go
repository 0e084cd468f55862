//go:build !nobench

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"odradek/processor/brokertest"
	"odradek/processor/kafka"
	"odradek/processor/web"
	"odradek/schemas"
)

// demoOptions are the flags of `demo`.
type demoOptions struct {
	duration time.Duration
	sensors  int
	rate     float64
	http     string
}

func (t terminal) demo(ctx context.Context, args []string) int {
	fs := t.flags("demo", `Runs everything in one process: a Kafka broker and a schema registry in memory, a generator of sensor records with
planted faults, and a worker that scores them. At the end it reads the scores back and says which faults they show.`,
		"  worker demo\n  worker demo -duration 0 -rate 20000    # until interrupted")
	var o demoOptions
	fs.DurationVar(&o.duration, "duration", 15*time.Second, "how long to generate; 0 until interrupted")
	fs.IntVar(&o.sensors, "sensors", 40, "number of sensors")
	fs.Float64Var(&o.rate, "rate", 8000, "records per second")
	fs.StringVar(&o.http, "http", "127.0.0.1:9464", "address of the status page; another port is taken where this one is in use")
	if code, done := parse(fs, args); done {
		return code
	}
	if err := t.runDemo(ctx, &o); err != nil {
		return t.fail(err)
	}
	return exitOK
}

// Windows of the demo's detectors, in samples.
const (
	demoChangeWindow = 32
	demoLevelWindow  = 64
)

func (t terminal) runDemo(ctx context.Context, o *demoOptions) error {
	cluster, err := brokertest.StartFake(brokertest.FakeOptions{Brokers: 1})
	if err != nil {
		return err
	}
	defer cluster.Close()
	dir, err := os.MkdirTemp("", "odradek-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	const topic = "sensors"
	if err := cluster.Admin().CreateTopic(ctx, topic, 4, 1, nil); err != nil {
		return err
	}
	addr := freePort(o.http)
	c, faults, _ := ParseConfig([]string{
		"ODRADEK_KAFKA_BROKERS=" + strings.Join(cluster.Brokers, ","),
		"ODRADEK_SCHEMA_REGISTRY_URL=" + cluster.Registry,
		"ODRADEK_GROUP=demo", "ODRADEK_TOPICS=" + topic, "ODRADEK_REPLICATION=1",
		"ODRADEK_KEY_FIELD=sensor", "ODRADEK_TIME_FIELD=time", "ODRADEK_VALUE_FIELDS=value",
		"ODRADEK_DETECTORS=change,level",
		fmt.Sprintf("ODRADEK_DETECTOR_CHANGE_WINDOW=%d", demoChangeWindow), "ODRADEK_DETECTOR_CHANGE_STRIDE=4",
		"ODRADEK_DETECTOR_LEVEL_OP=zscore", fmt.Sprintf("ODRADEK_DETECTOR_LEVEL_WINDOW=%d", demoLevelWindow),
		"ODRADEK_HTTP_ADDR=" + addr, "ODRADEK_LOG_LEVEL=warn",
	})
	if len(faults) > 0 {
		return fmt.Errorf("demo: %v", faults)
	}
	fmt.Fprintf(t.out, "broker %s, schema registry %s, status page http://%s\n", cluster.Brokers[0], cluster.Registry, addr)

	// Generator and worker: the worker outlives the generator until it has
	// scored everything.
	g := generateOptions{topic: topic, sensors: o.sensors, rate: o.rate, duration: o.duration, seed: 1, faults: "all",
		faultEvery: 300, labels: filepath.Join(dir, "labels.jsonl"), plant: "demo", unit: "mm/s"}
	model, err := g.check()
	if err != nil {
		return err
	}
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	worked, generated := make(chan error, 1), make(chan error, 1)
	recent := web.NewFaults(20)
	log := newLogger(t.err, c, recent)
	go func() { worked <- runWorker(working, c, log, recent) }()
	go func() { generated <- t.runGenerate(ctx, c, &g, model) }()
	err = t.watchDemo(addr, generated, worked)
	if err == nil {
		wait, cancel := context.WithTimeout(working, 20*time.Second)
		err = cluster.Admin().WaitCommitted(wait, "demo", topic)
		cancel()
	}
	stop()
	select {
	case werr := <-worked:
		if err == nil {
			err = werr
		}
	case <-time.After(c.Program.DrainTimeout):
	}
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	fmt.Fprintln(t.out, "drained; reading the scores back")
	return t.judgeDemo(context.WithoutCancel(ctx), c, &g)
}

// watchDemo prints what the worker says of itself until the generator ends.
func (t terminal) watchDemo(addr string, generated, worked <-chan error) error {
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		select {
		case err := <-generated:
			return err
		case err := <-worked:
			return fmt.Errorf("the worker ended: %v", err)
		case <-tick.C:
		}
		res, err := http.Get("http://" + addr + "/status.json")
		if err != nil {
			continue
		}
		var s struct {
			State      string     `json:"state"`
			Rate       float64    `json:"records_per_second"`
			Latency    [2]float64 `json:"event_to_score"`
			Partitions []struct{ Lag, Keys int64 }
		}
		err = json.NewDecoder(res.Body).Decode(&s)
		res.Body.Close()
		if err != nil {
			return err
		}
		var lag, keys int64
		for _, p := range s.Partitions {
			lag, keys = lag+p.Lag, keys+p.Keys
		}
		fmt.Fprintf(t.out, "%s: %6.0f records/s, %d series, lag %d, event to committed score p50 %.0f ms p99 %.0f ms\n",
			s.State, s.Rate, keys, lag, s.Latency[0]*1000, s.Latency[1]*1000)
	}
}

// demoScore is a score as the demo looks at it.
type demoScore struct {
	time  int64
	score float64
}

// judgeDemo reads scores and labels and prints, for each kind of fault, how many
// the detectors show: some score that speaks of the fault is above all but
// one in ten thousand of the scores of healthy stretches.
func (t terminal) judgeDemo(ctx context.Context, c *Config, g *generateOptions) error {
	labels, err := readLabels(g.labels)
	if err != nil {
		return err
	}
	scores, n, err := readScores(ctx, c)
	if err != nil {
		return err
	}
	reach := map[string]int64{ // how far from a fault a score may speak of it
		"change": demoChangeWindow * g.interval.Microseconds(), "level": demoLevelWindow * g.interval.Microseconds(),
	}
	near := func(l *Label, detector string, at int64) bool {
		return at >= l.From.UnixMicro()-reach[detector] && at <= l.To.UnixMicro()+reach[detector]
	}
	detectors := []string{"change", "level"}
	bound := map[string]float64{}
	for _, d := range detectors {
		var healthy []float64
		for sensor, list := range scores[d] {
			ls := labels[sensor]
			for _, s := range list {
				if !slices.ContainsFunc(ls, func(l Label) bool { return near(&l, d, s.time) }) {
					healthy = append(healthy, s.score)
				}
			}
		}
		if len(healthy) == 0 {
			return fmt.Errorf("demo: no scores of detector %s; run it for longer", d)
		}
		slices.Sort(healthy)
		bound[d] = healthy[len(healthy)-1-len(healthy)/10_000]
	}
	planted, shown := map[string]int{}, map[string]map[string]int{}
	for sensor, ls := range labels {
		for _, l := range ls {
			planted[l.Fault]++
			any := false
			for _, d := range detectors {
				if slices.ContainsFunc(scores[d][sensor], func(s demoScore) bool { return s.score > bound[d] && near(&l, d, s.time) }) {
					count(shown, d, l.Fault)
					any = true
				}
			}
			if any {
				count(shown, "any", l.Fault)
			}
		}
	}
	fmt.Fprintf(t.out, "%d scores of %d sensors; of the planted faults the detectors show (above 99.99 %% of healthy scores):\n", n, len(scores[detectors[0]]))
	w := tabwriter.NewWriter(t.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "fault\tplanted\tchange\tlevel\teither\t")
	for _, f := range faultNames {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t\n", f, planted[f], shown["change"][f], shown["level"][f], shown["any"][f])
	}
	return w.Flush()
}

func count(m map[string]map[string]int, a, b string) {
	if m[a] == nil {
		m[a] = map[string]int{}
	}
	m[a][b]++
}

func readLabels(file string) (map[string][]Label, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	labels := map[string][]Label{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var l Label
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return nil, err
		}
		labels[l.Sensor] = append(labels[l.Sensor], l)
	}
	return labels, nil
}

// readScores reads the scores topic, committed records only: by detector and
// sensor.
func readScores(ctx context.Context, c *Config) (scores map[string]map[string][]demoScore, n int, err error) {
	kc, err := c.KafkaConfig()
	if err != nil {
		return nil, 0, err
	}
	client, err := kafka.Open(ctx, kc)
	if err != nil {
		return nil, 0, err
	}
	defer client.Close()
	topic := c.Output.ScoresTopic
	infos, err := client.Topics(ctx, topic)
	if err != nil {
		return nil, 0, err
	}
	var tps []kafka.TP
	for p := range infos[topic].Partitions {
		tps = append(tps, kafka.TP{Topic: topic, Partition: int32(p)})
	}
	ends, err := client.ListStable(ctx, tps)
	if err != nil {
		return nil, 0, err
	}
	f := client.NewFetcher(kafka.FetcherConfig{ReadCommitted: true, MaxWait: 100 * time.Millisecond})
	defer f.Close()
	scores = map[string]map[string][]demoScore{}
	for _, tp := range tps {
		err := readRange(ctx, f, tp, 0, ends[tp], func(rec *kafka.Record) (bool, error) {
			s, err := schemas.DecodeScore(rec.Value)
			if err != nil {
				return false, err
			}
			n++
			if s.Score == s.Score {
				if scores[s.Detector] == nil {
					scores[s.Detector] = map[string][]demoScore{}
				}
				bySensor := scores[s.Detector]
				bySensor[string(s.Key)] = append(bySensor[string(s.Key)], demoScore{s.ScoreTime, s.Score})
			}
			return true, nil
		})
		if err != nil {
			return nil, 0, err
		}
	}
	return scores, n, nil
}

// freePort is addr, or another port of its host where that is in use.
func freePort(addr string) string {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		host, _, _ := net.SplitHostPort(addr)
		if l, err = net.Listen("tcp", net.JoinHostPort(host, "0")); err != nil {
			return addr
		}
	}
	defer l.Close()
	return l.Addr().String()
}
