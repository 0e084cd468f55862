package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"odradek/cmd/worker/config"
	"odradek/processor/kafkatest"
)

// benchProcess is a process under measurement.
type benchProcess struct {
	name string
	cmd  *exec.Cmd
	log  string
	done chan struct{}
	err  error
}

// spawn starts a process with its standard error in a log of its own. It is
// killed with this one, where the system can do that.
func (b *bench) spawn(name string, env []string, stdout io.Writer, program string, args ...string) (*benchProcess, error) {
	b.children++
	p := &benchProcess{name: name, log: filepath.Join(b.dir, fmt.Sprintf("%s-%d.log", name, b.children)), done: make(chan struct{})}
	f, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p.cmd = exec.Command(program, args...)
	p.cmd.Dir, p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = b.dir, env, stdout, f
	if stdout == nil {
		p.cmd.Stdout = f
	}
	if err := kafkatest.Start(p.cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// failed is the error of a process that ended or does not do what it should,
// with the end of its log.
func (p *benchProcess) failed(why error) error {
	lines, _ := os.ReadFile(p.log)
	if len(lines) > 2000 {
		lines = lines[len(lines)-2000:]
	}
	return fmt.Errorf("%s: %w; the end of its log:\n%s", p.name, why, lines)
}

func (p *benchProcess) ended() error {
	select {
	case <-p.done:
		if p.err == nil {
			return p.failed(errors.New("it ended"))
		}
		return p.failed(p.err)
	default:
		return nil
	}
}

func (p *benchProcess) kill() {
	_ = p.cmd.Process.Kill() // gone already is as good
	<-p.done
}

// stop lets it drain.
func (p *benchProcess) stop(limit time.Duration) error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		if p.err != nil {
			return p.failed(p.err)
		}
		return nil
	case <-time.After(limit):
		p.kill()
		return p.failed(fmt.Errorf("not ended %v after SIGTERM", limit))
	}
}

// cpu is the processor time that the process and its children have used, user and
// system.
func (p *benchProcess) cpu() time.Duration { return familyCPU(p.cmd.Process.Pid) }

// workerProcess is a worker under measurement: `worker run`.
type workerProcess struct {
	*benchProcess
	addr, pprof string
	group       string
	scores      string
	changelog   string
	http        *http.Client
}

// workerEnv is the configuration of a worker on an input: one trivial detector,
// everything else as it is by default.
func (b *bench) workerEnv(in *benchInput, group string, settings ...string) []string {
	env := make([]string, 0, 64)
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, config.Prefix) || strings.HasPrefix(e, config.Prefix+"TEST_") {
			env = append(env, e)
		}
	}
	set := func(name, value string) { env = append(env, config.Prefix+name+"="+value) }
	set("KAFKA_BROKERS", strings.Join(b.cluster.Brokers, ","))
	set("SCHEMA_REGISTRY_URL", b.registry.URL)
	set("GROUP", group)
	set("TOPICS", in.topic)
	set("KEY_FIELD", "sensor")
	set("TIME_FIELD", "ts")
	set("VALUE_FIELDS", "value")
	set("DETECTORS", "level")
	set("DETECTOR_LEVEL_OP", "zscore")
	set("DETECTOR_LEVEL_WINDOW", "8")
	set("ANOMALIES", "false") // scores are what is measured, beside peers that only score
	if b.o.compress != "" {
		set("COMPRESSION", b.o.compress)
	}
	if b.o.procs > 0 {
		env = append(env, "GOMAXPROCS="+strconv.Itoa(b.o.procs))
	}
	env = append(env, settings...)
	return append(env, b.o.set...)
}

// startWorker starts a worker; settings are lines NAME=value that win over the
// defaults of workerEnv.
func (b *bench) startWorker(in *benchInput, group string, settings ...string) (*workerProcess, error) {
	program, err := kafkatest.WorkerProgram(b.o.worker)
	if err != nil {
		return nil, err
	}
	ports, err := freeAddrs(2)
	if err != nil {
		return nil, err
	}
	w := &workerProcess{addr: ports[0], pprof: ports[1], group: group, scores: group + "-scores",
		changelog: config.ChangelogName(config.ChangelogPrefix(group), in.topic),
		http:      &http.Client{Timeout: 30 * time.Second}}
	env := b.workerEnv(in, group, settings...)
	env = append(env, config.Prefix+"HTTP_ADDR="+w.addr)
	if b.o.profile != "" {
		env = append(env, config.Prefix+"PPROF_ADDR="+w.pprof)
	}
	if w.benchProcess, err = b.spawn("worker", env, nil, program, "run"); err != nil {
		return nil, err
	}
	b.say("worker %s: pid %d, log %s", group, w.cmd.Process.Pid, w.log)
	return w, nil
}

// freeAddrs finds free addresses on loopback.
func freeAddrs(n int) ([]string, error) {
	var addrs []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // held until all are found, so that they differ
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}

// ready waits until the worker has its partitions and restored them.
func (w *workerProcess) ready(ctx context.Context) error {
	deadline := time.Now().Add(2 * time.Minute)
	for {
		if err := w.ended(); err != nil {
			return err
		}
		if res, err := w.http.Get("http://" + w.addr + "/readyz"); err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return nil
			}
		}
		if time.Now().After(deadline) {
			return w.failed(errors.New("not ready in 2m"))
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// metrics scrapes the worker and returns, for each name, the sum over its labels.
func (w *workerProcess) metrics(names ...string) (map[string]float64, error) {
	if err := w.ended(); err != nil {
		return nil, err
	}
	res, err := w.http.Get("http://" + w.addr + "/metrics")
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	return sumMetrics(body, names...), nil
}

func sumMetrics(body []byte, names ...string) map[string]float64 {
	sums := make(map[string]float64, len(names))
	for line := range bytes.Lines(body) {
		for _, name := range names {
			rest, ok := bytes.CutPrefix(line, []byte(name))
			if !ok || len(rest) == 0 || rest[0] != '{' && rest[0] != ' ' {
				continue
			}
			text := bytes.TrimSpace(rest)
			text = text[bytes.LastIndexByte(text, ' ')+1:]
			if v, err := strconv.ParseFloat(string(text), 64); err == nil {
				sums[name] += v
			}
		}
	}
	return sums
}

// consumed is the number of records in committed cycles.
func (w *workerProcess) consumed() (int64, error) {
	m, err := w.metrics("odradek_records_consumed_total")
	return int64(m["odradek_records_consumed_total"]), err
}

// saveProfile writes a CPU profile of the worker over the time d.
func (b *bench) saveProfile(w *workerProcess, name string, d time.Duration) {
	if err := os.MkdirAll(b.o.profile, 0o755); err != nil {
		b.say("profile: %v", err)
		return
	}
	res, err := w.http.Get(fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", w.pprof, int(d.Seconds())))
	if err != nil {
		b.say("profile: %v", err)
		return
	}
	defer res.Body.Close()
	f, err := os.Create(filepath.Join(b.o.profile, name))
	if err != nil {
		b.say("profile: %v", err)
		return
	}
	defer f.Close()
	if _, err := io.Copy(f, res.Body); err != nil {
		b.say("profile: %v", err)
	}
}

// counter is a peer's standard output: a running count of records, one a line.
type counter struct {
	n    atomic.Int64
	line []byte
}

func (c *counter) Write(p []byte) (int, error) {
	c.line = append(c.line, p...)
	for {
		line, rest, whole := bytes.Cut(c.line, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		if n, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 10, 64); err == nil {
			c.n.Store(n)
		}
		c.line = append(c.line[:0], rest...)
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
