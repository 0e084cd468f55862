package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/cmd/internal/backtest"
	"odradek/cmd/internal/config"
	"odradek/detectors"
	"odradek/detectors/seedtest"
	"odradek/processor/kafkatest"
)

// backtestEnv returns the settings of a backtest of a topic of measurements on a cluster.
func backtestEnv(t *testing.T, c *kafkatest.Cluster) (env []string) {
	for _, kv := range []string{"KAFKA_BROKERS=" + strings.Join(c.Brokers, ","), "SCHEMA_REGISTRY_URL=" + c.RegistryURL(t), "KEY_FIELD=sensor",
		"TIME_FIELD=time", "VALUE_FIELDS=value", "MAX_FUTURE=0s", "EXECUTOR=cpu", "DETECTORS=level", "DETECTOR_LEVEL_OP=zscore",
		"DETECTOR_LEVEL_WINDOW=16", "PARTITION_BYTES=16384"} {
		env = append(env, config.Prefix+kv)
	}
	return env
}

// TestBacktestInterrupted sends SIGINT, as Ctrl-C does, to a backtest of a topic whose broker
// has stopped to answer: the process ends by itself, and its report and its table are whole
// and of what was read before.
func TestBacktestInterrupted(t *testing.T) {
	c := kafkatest.Fake(t, kafkatest.FakeOptions{Brokers: 1})
	input := c.Topic(t, "in", 1)
	m := newMeasurements(t, c.RegistryURL(t), input)
	const rows, step = 30_000, 2000
	for recs := range slices.Chunk(walk(t, m, input, seedtest.New(t), 5, rows), step) {
		if _, err := c.ProduceAcked(t.Context(), recs); err != nil {
			t.Fatal(err)
		}
	}
	quiet := make(chan struct{})
	c.Fake.ControlKey(kmsg.Fetch.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.Fake.KeepControl()
		if req.(*kmsg.FetchRequest).Topics[0].Partitions[0].FetchOffset > rows/2 {
			c.Fake.SleepControl(func() {
				select {
				case <-quiet:
				case <-time.After(patience):
				}
			})
		}
		return nil, nil, false
	})
	defer close(quiet)
	dir := t.TempDir()
	report, scores := filepath.Join(dir, "report.html"), filepath.Join(dir, "scores.csv")
	cmd := exec.Command(os.Args[0], "backtest", "-in-topic", input, "-report", report, "-scores", scores)
	cmd.Env = append(append(os.Environ(), backtestEnv(t, c)...), runWorkerEnv+"=1")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	kafkatest.DieWithParent(cmd)
	must(t, cmd.Start())
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if info, err := os.Stat(scores); err == nil && info.Size() > 0 {
			break
		}
		if len(done) > 0 || time.Now().After(end) {
			_ = cmd.Process.Kill()
			t.Fatalf("no score was written: %s", <-done)
		}
	}
	must(t, cmd.Process.Signal(syscall.SIGINT))
	select {
	case <-done:
	case <-time.After(patience):
		_ = cmd.Process.Kill()
		<-done
		t.Fatalf("the backtest goes on: %s", out.String())
	}
	list := tableRows(t, scores)
	text, err := os.ReadFile(report)
	must(t, err)
	read := -1
	if said := interrupted.FindStringSubmatch(out.String()); said != nil {
		read, err = strconv.Atoi(said[1])
		must(t, err)
	}
	// One row in a hundred lacks its value, and has no score.
	if code := cmd.ProcessState.ExitCode(); code != exitFailed || read <= 0 || read >= rows || len(list) > read || len(list) < read*9/10 {
		t.Errorf("exit %d, %d rows read, %d scores of %d rows; %s", code, read, len(list), rows, out.String())
	}
	for _, want := range []string{"This report is partial: interrupted", "</html>", "<svg"} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("the report of %d bytes lacks %q", len(text), want)
		}
	}
}

var interrupted = regexp.MustCompile(`interrupted: the results are of the (\d+) rows read before\n`)

// deleting is a Source that calls a function with the first share of a partition.
type deleting struct {
	backtest.Source
	partition int
	then      func()
}

func (d *deleting) Read(ctx context.Context, send func(int, *backtest.Share) error) error {
	return d.Source.Read(ctx, func(p int, s *backtest.Share) error {
		if p == d.partition && d.then != nil {
			d.then()
			d.then = nil
		}
		return send(p, s)
	})
}

// TestBacktestOfExpiringOffsets deletes records of a partition while it is read: error and
// summary name the offsets that were not read any more, what was read of it is scored, and
// the other partition is read to its end.
func TestBacktestOfExpiringOffsets(t *testing.T) {
	realCluster(t, func(t *testing.T, c *kafkatest.Cluster) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		const each, left = 30_000, 1000
		input := c.Topic(t, "in", 2)
		m := newMeasurements(t, c.RegistryURL(t), input)
		recs := walk(t, m, input, seedtest.New(t), 4, 2*each)
		for i := range recs {
			recs[i].Partition = int32(i % 2)
		}
		if _, err := c.ProduceAcked(ctx, recs); err != nil {
			t.Fatal(err)
		}
		cfg, faults, _ := config.Parse(append(backtestEnv(t, c), "ODRADEK_GROUP=g", "ODRADEK_TOPICS="+input))
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		client, registry, closeBoth, err := backtestCluster(ctx, cfg)
		must(t, err)
		defer func() { must(t, closeBoth()) }()
		o := backtestOptions{inTopic: input, from: "earliest", to: "end"}
		state, err := cfg.KeystateConfig()
		must(t, err)
		src, err := o.topicSource(ctx, cfg, state, client, registry)
		must(t, err)
		exec := detectors.NewCPU(1)
		defer exec.Close()
		s, err := backtest.Run(ctx, &backtest.Config{State: state, Executor: exec, Source: &deleting{Source: src, partition: 0,
			then: func() { must(t, c.Admin().DeleteRecords(ctx, input, 0, each-left)) }}})
		if err == nil || s.Partial != err.Error() {
			t.Fatalf("%v, partial %q", err, s.Partial)
		}
		read := s.Rows - each
		want := fmt.Sprintf("offsets %d to %d of %s/0 expired before they were read; the first one there is %d now",
			read, each-left-1, input, each-left)
		if !strings.Contains(err.Error(), want) || read <= 0 || read >= each-left {
			t.Errorf("%d rows: %v; want %q", s.Rows, err, want)
		}
	})
}
