package kafkatest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/sr/srfake"
)

// RegistryServer is a schema registry with Confluent's interface at URL: srfake
// in this process, or Apicurio Registry. It can be stopped and started again at
// the same address with the schemas it had.
type RegistryServer struct {
	URL  string
	Fake *srfake.Registry // srfake only: interceptors, seeding
	Took time.Duration    // from the start to the first answer
	Dir  string           // Apicurio only: its data and log

	heal   sync.Mutex // of Heal, which tests of several kinds call at once
	addr   string
	server *http.Server // srfake
	proc   *process     // Apicurio
	args   []string
}

// StartFakeRegistry starts srfake on a free port of loopback.
func StartFakeRegistry(opts ...srfake.Option) (*RegistryServer, error) {
	ports, err := FreePorts(1)
	if err != nil {
		return nil, err
	}
	r := &RegistryServer{Fake: srfake.NewRegistry(opts...), addr: "127.0.0.1:" + strconv.Itoa(ports[0])}
	r.URL = "http://" + r.addr
	return r, r.Start(context.Background())
}

// StartRegistry starts Apicurio Registry, resolved from Maven Central, and waits
// until it answers. Its database is a file, so that it survives a restart;
// unless variables (NAME=value) are given, as its container image takes them:
// they say where it keeps its schemas.
func StartRegistry(ctx context.Context, variables ...string) (*RegistryServer, error) {
	jvm, err := Java()
	if err != nil {
		return nil, &MissingError{"registry", err}
	}
	jars, err := registryJars(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := tempDir("registry")
	if err != nil {
		return nil, err
	}
	ports, err := FreePorts(1)
	if err != nil {
		return nil, err
	}
	r := &RegistryServer{Dir: dir, addr: "127.0.0.1:" + strconv.Itoa(ports[0])}
	r.URL = "http://" + r.addr + "/apis/ccompat/v7"
	if len(variables) > 0 {
		r.args = append([]string{"env"}, variables...)
	}
	r.args = append(r.args, jvm, "-Xmx300m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-Dquarkus.http.host=127.0.0.1", "-Dquarkus.http.port="+strconv.Itoa(ports[0]))
	if len(variables) == 0 {
		// Stop may come right after a write
		r.args = append(r.args, "-Dapicurio.datasource.url=jdbc:h2:file:"+filepath.Join(dir, "registry")+";WRITE_DELAY=0")
	}
	r.args = append(r.args, "-jar", filepath.Join(jars, "apicurio-registry-app-"+registryVersion+"-runner.jar"))
	if err := r.Start(ctx); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Start starts the registry again after Stop, at the same address, and waits
// until it answers. On a registry that runs it does nothing.
func (r *RegistryServer) Start(ctx context.Context) error {
	began := time.Now()
	switch {
	case r.Fake != nil:
		if r.server != nil {
			return nil
		}
		l, err := net.Listen("tcp", r.addr)
		if err != nil {
			return fmt.Errorf("kafkatest: registry: %w", err)
		}
		r.server = &http.Server{Handler: r.Fake.Handler(), ReadHeaderTimeout: 10 * time.Second}
		go func(s *http.Server) { _ = s.Serve(l) }(r.server) // ends with Close
	case r.Dir != "":
		if r.proc.running() {
			return nil
		}
		log := filepath.Join(r.Dir, "registry.log")
		p, err := spawn(r.Dir, log, r.args[0], r.args[1:]...)
		if err != nil {
			return err
		}
		r.proc = p
		if err := poll(ctx, 50*time.Millisecond, p, r.answers); err != nil {
			return fmt.Errorf("kafkatest: registry: %w\n%s", err, strings.Join(tail(log, 20, nil), "\n"))
		}
	default:
		return r.answers(ctx) // of another process
	}
	if r.Took == 0 {
		r.Took = time.Since(began)
	}
	return nil
}

func (r *RegistryServer) answers(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL+"/subjects", nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", req.URL, res.Status)
	}
	return nil
}

// Stop ends the registry at once; Start brings it back. A registry of another
// process is left alone.
func (r *RegistryServer) Stop() {
	if r.server != nil {
		_ = r.server.Close()
		r.server = nil
	}
	r.proc.kill()
}

// Pause stops Apicurio's process without ending its connections, as a hung
// server does; Resume lets it go on. On srfake use its interceptors.
func (r *RegistryServer) Pause() {
	if r.proc.running() {
		Pause(r.proc.cmd.Process)
	}
}

// Resume ends a Pause.
func (r *RegistryServer) Resume() {
	if r.proc.running() {
		Resume(r.proc.cmd.Process)
	}
}

// Heal resumes or starts the registry if it is paused or stopped.
func (r *RegistryServer) Heal(ctx context.Context) error {
	r.heal.Lock()
	defer r.heal.Unlock()
	r.Resume()
	return r.Start(ctx)
}

// Close ends the registry and removes its data.
func (r *RegistryServer) Close() {
	r.Stop()
	if r.Dir != "" && os.Getenv("ODRADEK_TEST_KEEP") == "" {
		os.RemoveAll(r.Dir)
	}
}

// Program returns the file of a registry that this process started; "" for others.
func (r *RegistryServer) Program() string {
	if len(r.args) == 0 {
		return ""
	}
	return r.args[len(r.args)-1]
}
