package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"odradek/cmd/internal/config"
	"odradek/processor"
)

// minimal returns the least environment that is without fault.
func minimal(more ...string) []string {
	return append([]string{
		"ODRADEK_GROUP=g", "ODRADEK_TOPICS=a,b", "ODRADEK_SCHEMA_REGISTRY_URL=http://r:8081", "PATH=/bin",
	}, more...)
}

func TestDispatch(t *testing.T) {
	var ran []string
	cmds := []command{{"run", "runs", func(_ context.Context, args []string) int { ran = args; return 7 }}, {"check", "checks", nil}}
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"run -x y", 7, ""}, {"", exitUsage, "exit codes:"}, {"-h", exitOK, "exit codes:"}, {"help", exitOK, "checks"},
		{"chekc", exitUsage, "did you mean check?"},
		{"-config plant.yaml check -online", exitUsage, "flags come after it, as in worker check -config plant.yaml -online;"},
		{"-config plant.yaml", exitUsage, "-config stands before the command"},
		{"demo -for 30s", exitUsage, "did you mean `make demo`"}, {"bench decode", exitUsage, "did you mean `make bench`"}, // commands once
	} {
		var out bytes.Buffer
		if code := dispatch(context.Background(), strings.Fields(c.args), &out, &out, cmds); code != c.code ||
			!strings.Contains(out.String(), c.want) {
			t.Errorf("%q: exit %d, %s", c.args, code, &out)
		}
	}
	if strings.Join(ran, " ") != "-x y" {
		t.Errorf("run got %q", ran)
	}
}

// TestHelp holds that every command is there and has help with an example.
func TestHelp(t *testing.T) {
	have := map[string]command{}
	for _, c := range commands() {
		have[c.name] = c
	}
	for _, name := range strings.Fields("run generate check config state healthcheck version") {
		if have[name].run == nil {
			t.Errorf("no command %s", name)
		}
	}
	term, _, errs := console()
	for _, f := range []func(context.Context, []string) int{term.generate, term.check, term.config, term.state,
		term.healthcheck, term.version} {
		errs.Reset()
		if code := f(context.Background(), []string{"-h"}); code != exitOK || !strings.Contains(errs.String(), "usage: worker ") {
			t.Errorf("exit %d: %s", code, errs)
		}
	}
}

func TestConfigCommand(t *testing.T) {
	term, out, errs := console(minimal("ODRADEK_WORKERS=3", "ODRADEK_KAFKA_PASSWORD=geheim1", "ODRADEK_KAFKA_USERNAME=u",
		"ODRADEK_KAFKA_SASL_MECHANISM=PLAIN", "ODRADEK_NOTHING=1")...)
	if code := term.config(context.Background(), nil); code != exitOK || !strings.Contains(errs.String(), "ODRADEK_NOTHING") {
		t.Errorf("exit %d: %s", code, errs)
	}
	for _, line := range []string{"ODRADEK_WORKERS 3 env", "ODRADEK_KAFKA_PASSWORD (hidden) env", "ODRADEK_SCORES_TOPIC g-scores default",
		"# Detector near"} {
		if !strings.Contains(strings.Join(strings.Fields(out.String()), " "), line) {
			t.Errorf("lacks %q:\n%s", line, out)
		}
	}
	// What -env prints gives the same configuration, secrets aside.
	term, env, _ := console(minimal("ODRADEK_WORKERS=3", "ODRADEK_PARTITION_BYTES=3MiB", "ODRADEK_DETECTORS=a-b",
		"ODRADEK_DETECTOR_A_B_WINDOW=20")...)
	term.config(context.Background(), []string{"-env"})
	a, faults, warnings := config.Parse(strings.Split(env.String(), "\n"))
	b, _, _ := config.Parse(minimal("ODRADEK_WORKERS=3", "ODRADEK_PARTITION_BYTES=3MiB", "ODRADEK_DETECTORS=a-b",
		"ODRADEK_DETECTOR_A_B_WINDOW=20"))
	if len(faults)+len(warnings) > 0 || a.PrintEnv() != b.PrintEnv() {
		t.Errorf("%v %v\n%s\n%s", faults, warnings, a.PrintEnv(), b.PrintEnv())
	}
	// So does what -yaml prints.
	file := filepath.Join(t.TempDir(), "plant.yaml")
	term, yaml, _ := console(minimal("ODRADEK_WORKERS=3", "ODRADEK_PARTITION_BYTES=3MiB", "ODRADEK_DETECTORS=a-b",
		"ODRADEK_DETECTOR_A_B_WINDOW=20")...)
	term.config(context.Background(), []string{"-yaml"})
	must(t, os.WriteFile(file, yaml.Bytes(), 0o600))
	term, out, errs = console()
	if code := term.config(context.Background(), []string{"-env", "-config", file}); code != exitOK ||
		strings.Replace(out.String(), "ODRADEK_CONFIG="+file+"\n", "", 1) != b.PrintEnv() {
		t.Errorf("exit %d: %s\n%s", code, errs, out)
	}
	must(t, os.WriteFile(file, []byte("gruop: g\nttl: forever\n"), 0o600))
	term, out, _ = console()
	if code := term.check(context.Background(), []string{"-config", file}); code != exitFailed ||
		!strings.Contains(out.String(), "plant.yaml:1: no such setting: gruop -> did you mean group?") ||
		!strings.Contains(out.String(), `plant.yaml:2: "forever" is not a duration`) {
		t.Errorf("exit %d: %s", code, out)
	}
	term, _, errs = console()
	if code := term.config(context.Background(), nil); code != exitUsage || !strings.Contains(errs.String(), "ODRADEK_GROUP") {
		t.Errorf("a faulty configuration: exit %d, %s", code, errs)
	}
}

func TestHealthcheck(t *testing.T) {
	healthy := true
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/healthz" || !healthy {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		fmt.Fprintln(w, "said", r.URL.Path)
	}))
	addr := strings.TrimPrefix(srv.URL, "http://")
	check := func(args ...string) (int, string) {
		term, out, errs := console("ODRADEK_HTTP_ADDR=" + addr)
		code := term.healthcheck(context.Background(), args)
		return code, out.String() + errs.String()
	}
	if code, out := check(); code != exitOK || !strings.Contains(out, "said /healthz") {
		t.Errorf("exit %d, %s", code, out)
	}
	if code, _ := check("-path", "/readyz"); code != exitFailed {
		t.Errorf("readyz: exit %d", code)
	}
	healthy = false
	if code, _ := check(); code != exitFailed {
		t.Errorf("unhealthy: exit %d", code)
	}
	srv.Close()
	if code, out := check(); code != exitFailed || !strings.Contains(out, "no worker answers") {
		t.Errorf("nobody there: exit %d, %s", code, out)
	}
	for in, want := range map[string]string{":9464": "localhost:9464", "0.0.0.0:1": "localhost:1", "[::]:2": "localhost:2",
		"10.0.0.1:3": "10.0.0.1:3"} {
		if got := localAddr(in); got != want {
			t.Errorf("%s is %s", in, got)
		}
	}
}

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int
	}{
		{nil, 0}, {errors.New("x"), 1}, {fmt.Errorf("a: %w", processor.ErrInstanceFenced), 3},
		{fmt.Errorf("a: %w", &processor.RefusedError{}), 4}, {errors.Join(errors.New("x"), &processor.RefusedError{}), 4}, {errDrainTimeout, 1},
	} {
		if got := exitCode(c.err); got != c.code {
			t.Errorf("%v: %d, want %d", c.err, got, c.code)
		}
	}
}

func TestDrainLimit(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := withDrainLimit(ctx, 10*time.Millisecond, func(context.Context) error { select {} }); !errors.Is(err, errDrainTimeout) {
		t.Errorf("a drain without end: %v", err)
	}
	if err := withDrainLimit(ctx, time.Minute, func(context.Context) error { time.Sleep(20 * time.Millisecond); return nil }); err != nil {
		t.Errorf("a clean drain: %v", err)
	}
	want := errors.New("x")
	if err := withDrainLimit(context.Background(), 0, func(context.Context) error { return want }); err != want {
		t.Errorf("%v", err)
	}
}

// TestHangupAtTheStart: SIGHUP does not end run before its handler is there.
func TestHangupAtTheStart(t *testing.T) {
	if os.Getenv("ODRADEK_TEST_SIGNALS") != "" {
		ignoreHangup([]string{"run"})
		fmt.Println("ready")
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			fmt.Println("ready")
		}
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestHangupAtTheStart$")
	cmd.Env = append(os.Environ(), "ODRADEK_TEST_SIGNALS=1")
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	signals := 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if lines.Text() != "ready" {
			continue
		}
		if signals++; signals > 50 { // the process may answer before one signal reaches it, not before so many do
			must(t, in.Close())
			break
		}
		must(t, cmd.Process.Signal(syscall.SIGHUP))
		_, _ = fmt.Fprintln(in) // the end of the process shows in Wait
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("SIGHUP at the start: %v", err)
	}
}

// The first signal ends the context, the second the process, with its number
// in the exit code. SIGTERM within a second of the first one counts as that one.
func TestSecondSignal(t *testing.T) {
	if os.Getenv("ODRADEK_TEST_SIGNALS") != "" {
		ctx := signalContext()
		fmt.Println("ready")
		<-ctx.Done()
		fmt.Println("draining")
		select {}
	}
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestSecondSignal$")
		cmd.Env = append(os.Environ(), "ODRADEK_TEST_SIGNALS=1")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
		var first time.Time
		var again *time.Ticker
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			switch lines.Text() {
			case "ready":
				first = time.Now()
				_ = cmd.Process.Signal(s)
			case "draining":
				again = time.NewTicker(20 * time.Millisecond)
				go func() {
					for range again.C { // until the process has ended
						if cmd.Process.Signal(s) != nil {
							return
						}
					}
				}()
			}
		}
		err = cmd.Wait()
		again.Stop()
		timer.Stop()
		if took := time.Since(first); s == syscall.SIGTERM && took < time.Second {
			t.Errorf("it ended within %v of the first SIGTERM", took)
		}
		var ee *exec.ExitError
		if !errors.As(err, &ee) || ee.ExitCode() != 128+int(s) {
			t.Errorf("%v: %v", s, err)
		}
	}
}
