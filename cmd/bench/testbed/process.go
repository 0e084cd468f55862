package testbed

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
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"odradek/cmd/internal/config"
	"odradek/processor/kafkatest"
)

// Process is a process under measurement.
type Process struct {
	name string
	cmd  *exec.Cmd
	Log  string
	Done chan struct{}
	Err  error
}

// Spawn starts a process with its standard error in a log of its own. It is
// killed with this one, where the system can do that.
func (b *Bed) Spawn(name string, env []string, stdout io.Writer, program string, args ...string) (*Process, error) {
	b.children++
	p := &Process{name: name, Log: filepath.Join(b.Dir, fmt.Sprintf("%s-%d.log", name, b.children)), Done: make(chan struct{})}
	f, err := os.Create(p.Log)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p.cmd = exec.Command(program, args...)
	p.cmd.Dir, p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = b.Dir, env, stdout, f
	if stdout == nil {
		p.cmd.Stdout = f
	}
	if err := kafkatest.Start(p.cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		p.Err = p.cmd.Wait()
		close(p.Done)
	}()
	return p, nil
}

// Failed returns an error with the end of the process's log.
func (p *Process) Failed(why error) error {
	lines, _ := os.ReadFile(p.Log)
	if len(lines) > 2000 {
		lines = lines[len(lines)-2000:]
	}
	return fmt.Errorf("%s: %w; the end of its log:\n%s", p.name, why, lines)
}

// Ended returns an error once the process has ended.
func (p *Process) Ended() error {
	select {
	case <-p.Done:
		if p.Err == nil {
			return p.Failed(errors.New("it ended"))
		}
		return p.Failed(p.Err)
	default:
		return nil
	}
}

// Kill ends the process at once and waits for its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.Done
}

// PID returns the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Pause stops the process without ending it.
func (p *Process) Pause() { kafkatest.Pause(p.cmd.Process) }

// Resume ends a Pause.
func (p *Process) Resume() { kafkatest.Resume(p.cmd.Process) }

// Stop lets the process drain.
func (p *Process) Stop(limit time.Duration) error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.Done:
		if p.Err != nil {
			return p.Failed(p.Err)
		}
		return nil
	case <-time.After(limit):
		p.Kill()
		return p.Failed(fmt.Errorf("not ended %v after SIGTERM", limit))
	}
}

// CPU returns the processor time that the process and its children have used, user and
// system.
func (p *Process) CPU() time.Duration { return FamilyCPU(p.cmd.Process.Pid) }

// PeakBytes returns the most resident memory that the process has had.
func (p *Process) PeakBytes() int64 { return PeakBytes(p.cmd.Process.Pid) }

// Worker is a worker under measurement: `worker run`.
type Worker struct {
	*Process
	addr, pprof string
	Group       string
	Scores      string
	Changelog   string
	http        *http.Client
}

// Environ returns the environment of this program without a worker's settings.
func Environ() (env []string) {
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, config.Prefix) || strings.HasPrefix(e, config.Prefix+"TEST_") {
			env = append(env, e)
		}
	}
	return env
}

// WorkerEnv returns the configuration of a worker on an input: one trivial detector and
// otherwise the defaults.
func (b *Bed) WorkerEnv(in *Input, group string, settings ...string) []string {
	env := Environ()
	set := func(name, value string) { env = append(env, config.Prefix+name+"="+value) }
	set("KAFKA_BROKERS", strings.Join(b.Cluster.Brokers, ","))
	set("SCHEMA_REGISTRY_URL", b.registry.URL)
	set("GROUP", group)
	set("TOPICS", in.Topic)
	set("KEY_FIELD", "sensor")
	set("TIME_FIELD", "ts")
	set("VALUE_FIELDS", "value")
	preset := func(line string) bool { return strings.HasPrefix(line, config.Prefix+"PRESET=") }
	if !slices.ContainsFunc(settings, preset) { // a preset is measured with its anomalies
		set("DETECTORS", "level")
		set("DETECTOR_LEVEL_OP", "zscore")
		set("DETECTOR_LEVEL_WINDOW", "8")
		set("ANOMALIES", "false") // peers only score, so only scoring is measured
	}
	if b.Compress != "" {
		set("COMPRESSION", b.Compress)
	}
	if b.Procs > 0 {
		env = append(env, "GOMAXPROCS="+strconv.Itoa(b.Procs))
	}
	env = append(env, settings...)
	return append(env, b.Settings...)
}

// StartWorker starts a worker; settings are lines NAME=value that override
// WorkerEnv.
func (b *Bed) StartWorker(in *Input, group string, settings ...string) (*Worker, error) {
	program, err := kafkatest.WorkerProgram(b.WorkerProgram)
	if err != nil {
		return nil, err
	}
	ports, err := freeAddrs(2)
	if err != nil {
		return nil, err
	}
	w := &Worker{addr: ports[0], pprof: ports[1], Group: group, Scores: group + "-scores",
		Changelog: config.ChangelogName(config.ChangelogPrefix(group), in.Topic),
		http:      &http.Client{Timeout: 30 * time.Second}}
	env := b.WorkerEnv(in, group, settings...)
	env = append(env, config.Prefix+"HTTP_ADDR="+w.addr)
	env = append(env, config.Prefix+"PPROF_ADDR="+w.pprof)
	if w.Process, err = b.Spawn("worker", env, nil, program, "run"); err != nil {
		return nil, err
	}
	b.Say("worker %s: pid %d, log %s", group, w.cmd.Process.Pid, w.Log)
	return w, nil
}

// FreeAddr finds a free address on loopback.
func FreeAddr() (string, error) {
	addrs, err := freeAddrs(1)
	if err != nil {
		return "", err
	}
	return addrs[0], nil
}

// freeAddrs finds free addresses on loopback.
func freeAddrs(n int) ([]string, error) {
	var addrs []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // kept open until all are found, so that they differ
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}

// Ready waits until the worker has its partitions and restored them.
func (w *Worker) Ready(ctx context.Context) error {
	deadline := time.Now().Add(2 * time.Minute)
	for {
		if err := w.Ended(); err != nil {
			return err
		}
		if res, err := w.http.Get("http://" + w.addr + "/readyz"); err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return nil
			}
		}
		if time.Now().After(deadline) {
			return w.Failed(errors.New("not ready in 2m"))
		}
		if err := Pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// Metrics scrapes the worker and returns, for each name, the sum over its labels.
func (w *Worker) Metrics(names ...string) (map[string]float64, error) {
	if err := w.Ended(); err != nil {
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

// Heap returns the bytes of the worker's heap that are in use after a collection, and the bytes of its state.
func (w *Worker) Heap() (live, state float64, err error) {
	res, err := w.http.Get("http://" + w.pprof + "/debug/pprof/heap?gc=1")
	if err != nil {
		return 0, 0, err
	}
	_, err = io.Copy(io.Discard, res.Body)
	res.Body.Close()
	if err != nil {
		return 0, 0, err
	}
	const inUse, ofState = "go_memstats_heap_alloc_bytes", "odradek_state_bytes"
	m, err := w.Metrics(inUse, ofState)
	return m[inUse], m[ofState], err
}

// Consumed returns the number of records in committed cycles.
func (w *Worker) Consumed() (int64, error) {
	m, err := w.Metrics("odradek_records_consumed_total")
	return int64(m["odradek_records_consumed_total"]), err
}

// SaveProfile writes a CPU profile of the worker over the time d.
func (b *Bed) SaveProfile(w *Worker, name string, d time.Duration) {
	if err := os.MkdirAll(b.Profile, 0o755); err != nil {
		b.Say("profile: %v", err)
		return
	}
	res, err := w.http.Get(fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", w.pprof, int(d.Seconds())))
	if err != nil {
		b.Say("profile: %v", err)
		return
	}
	defer res.Body.Close()
	f, err := os.Create(filepath.Join(b.Profile, name))
	if err != nil {
		b.Say("profile: %v", err)
		return
	}
	defer f.Close()
	if _, err := io.Copy(f, res.Body); err != nil {
		b.Say("profile: %v", err)
	}
}

// Cycles counts the committed cycles of a worker.
type Cycles struct{ Number, Records, Bytes, Seconds float64 }

// Cycles returns those since the worker began.
func (w *Worker) Cycles() (c Cycles, err error) {
	const duration, records, bytes = "odradek_commit_duration_seconds_sum", "odradek_cycle_records", "odradek_cycle_bytes_sum"
	m, err := w.Metrics(duration, records+"_sum", records+"_count", bytes)
	return Cycles{m[records+"_count"], m[records+"_sum"], m[bytes], m[duration]}, err
}

// Since returns the cycles that c has beyond before.
func (c Cycles) Since(before Cycles) Cycles {
	return Cycles{c.Number - before.Number, c.Records - before.Records, c.Bytes - before.Bytes, c.Seconds - before.Seconds}
}

func (c Cycles) String() string {
	return fmt.Sprintf("%s cycles of %s records and %s KiB, %s ms a commit", Figure(c.Number), Figure(c.Records/c.Number),
		Figure(c.Bytes/c.Number/1024), Figure(1000*c.Seconds/c.Number))
}

// SayCycles logs the size, time and number of the worker's cycles: what may limit it.
func (b *Bed) SayCycles(w *Worker) {
	const gc = "go_gc_duration_seconds_count"
	c, err := w.Cycles()
	m, err2 := w.Metrics(gc)
	if err == nil && err2 == nil {
		b.Say("%s: %v; %.0f collections", w.Group, c, m[gc])
	}
}

// Compression returns the codec of the worker and the peers.
func (b *Bed) Compression() string {
	c, _, _ := config.Parse(b.WorkerEnv(&Input{Topic: "none"}, "none"))
	return c.Output.Compression
}

// Counter is a peer's standard output: a running count of records, one a line.
type Counter struct {
	Records atomic.Int64
	line    []byte
}

// Write takes the next bytes of the output.
func (c *Counter) Write(p []byte) (int, error) {
	c.line = append(c.line, p...)
	for {
		line, rest, whole := bytes.Cut(c.line, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		if n, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 10, 64); err == nil {
			c.Records.Store(n)
		}
		c.line = append(c.line[:0], rest...)
	}
}

// Pause waits for d, or returns the error of a context that ends before.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
