package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"

	"odradek/cmd/internal/config"
)

const composeFile = "../../docker-compose.yml"

// loadCompose loads docker-compose.yml with every profile, after replacing text
// in it: old, new, ...
func loadCompose(t *testing.T, replace ...string) *types.Project {
	t.Helper()
	b, err := os.ReadFile(composeFile)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for i := 0; i+1 < len(replace); i += 2 {
		if !strings.Contains(text, replace[i]) {
			t.Fatalf("docker-compose.yml has no %q", replace[i])
		}
		text = strings.ReplaceAll(text, replace[i], replace[i+1])
	}
	dir, err := filepath.Abs(filepath.Dir(composeFile))
	if err != nil {
		t.Fatal(err)
	}
	p, err := loader.LoadWithContext(context.Background(), types.ConfigDetails{
		WorkingDir:  dir,
		ConfigFiles: []types.ConfigFile{{Filename: composeFile, Content: []byte(text)}},
	}, func(o *loader.Options) {
		o.SetProjectName("odradek", false)
		o.Profiles = []string{"*"}
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// environOf returns the environment that a service's container gets, NAME=value.
func environOf(s types.ServiceConfig) []string {
	var list []string
	for name, value := range s.Environment {
		if value != nil { // nil: as on the host
			list = append(list, name+"="+*value)
		}
	}
	slices.Sort(list)
	return list
}

// imageRE is an image with a version in its tag.
var imageRE = regexp.MustCompile(`^[a-z0-9./-]+:v?\d+\.\d+\.\d+[a-z0-9.-]*$`)

// composeFaults lists what is wrong with the file, by service.
func composeFaults(p *types.Project) (faults []string) {
	add := func(s types.ServiceConfig, format string, args ...any) {
		faults = append(faults, s.Name+": "+fmt.Sprintf(format, args...))
	}
	oneShot := map[string]bool{} // whose end others wait for
	for _, s := range p.Services {
		for name, d := range s.DependsOn {
			if d.Condition == types.ServiceConditionCompletedSuccessfully {
				oneShot[name] = true
			}
		}
	}
	for _, s := range p.Services {
		ours := s.Build != nil
		switch {
		case ours && s.Image == "":
			add(s, "the image that is built has no name")
		case !ours && !imageRE.MatchString(s.Image):
			add(s, "image %q is not pinned to a version", s.Image)
		}
		switch h := s.HealthCheck; {
		case oneShot[s.Name]:
			if h == nil || !h.Disable {
				add(s, "it ends, so the image's healthcheck has to be disabled")
			}
			if s.Restart != "" && s.Restart != types.RestartPolicyNo {
				add(s, "it ends, and restart is %q", s.Restart)
			}
		case h == nil || h.Disable || len(h.Test) < 2:
			add(s, "no healthcheck")
		case h.Test[0] != "CMD":
			add(s, "the healthcheck needs a shell: %v", h.Test)
		case ours && (h.Test[1] != "/worker" || h.Test[2] != "healthcheck"):
			add(s, "the healthcheck is %v", h.Test)
		}
		for name, d := range s.DependsOn {
			want := types.ServiceConditionHealthy
			if oneShot[name] {
				want = types.ServiceConditionCompletedSuccessfully
			}
			if d.Condition != want {
				add(s, "depends on %s with condition %s, not %s", name, d.Condition, want)
			}
		}
		if s.ContainerName != "" {
			add(s, "container_name %q keeps it from being scaled", s.ContainerName)
		}
		if !ours {
			for _, kv := range environOf(s) {
				if strings.HasPrefix(kv, config.Prefix) {
					add(s, "%s means nothing to this image", kv)
				}
			}
			continue
		}
		if !s.ReadOnly || !slices.Contains(s.CapDrop, "ALL") {
			add(s, "needs neither a writable root nor capabilities")
		}
		env := environOf(s)
		c, bad, warnings := config.Parse(env)
		for _, f := range append(bad, warnings...) {
			add(s, "%v", f)
		}
		var out bytes.Buffer
		if code := (terminal{&out, &out, env}).check(context.Background(), nil); code != exitOK {
			add(s, "worker check exits with %d: %s", code, &out)
		}
		if len(s.Command) == 0 || !slices.ContainsFunc(commands(), func(c command) bool { return c.name == s.Command[0] }) {
			add(s, "the program has no command %v", s.Command)
			continue
		}
		if !oneShot[s.Name] && s.Restart != types.RestartPolicyUnlessStopped {
			add(s, "restart %q leaves it down after a restart of the daemon, which ends it with exit code 0", s.Restart)
		}
		if s.Command[0] != "run" {
			continue
		}
		for _, port := range s.Ports {
			if s.Name == "page" && port.HostIP == "127.0.0.1" && port.Published == "9465" { // as README says
				continue
			}
			add(s, "a port of the host (%s) keeps it from being scaled", port.Published)
		}
		if c.Group.InstanceID != "" {
			add(s, "one instance id for all of its containers")
		}
		if s.StopGracePeriod == nil || time.Duration(*s.StopGracePeriod) <= c.Program.DrainTimeout {
			add(s, "stop_grace_period is %v, the drain may take %v", s.StopGracePeriod, c.Program.DrainTimeout)
		}
		if !slices.ContainsFunc(s.Volumes, func(v types.ServiceVolumeConfig) bool {
			return v.Type == types.VolumeTypeVolume && v.Target == c.Registry.CacheDir
		}) {
			add(s, "no volume at the schema cache, %q", c.Registry.CacheDir)
		}
		if slices.Contains(s.Profiles, "gpu") {
			gpu := false
			if s.Deploy != nil && s.Deploy.Resources.Reservations != nil {
				for _, d := range s.Deploy.Resources.Reservations.Devices {
					gpu = gpu || d.Driver == "nvidia" && slices.Contains(d.Capabilities, "gpu")
				}
			}
			if !gpu {
				add(s, "the profile gpu reserves no GPU")
			}
		}
	}
	for _, name := range []string{"kafka", "registry", "setup", "generator", "page", "worker", "worker-gpu", "prometheus", "grafana"} {
		if _, ok := p.Services[name]; !ok {
			faults = append(faults, name+": no such service")
		}
	}
	for name, s := range p.Services {
		if (name == "worker-gpu") != (len(s.Profiles) > 0) {
			add(s, "profiles %v", s.Profiles)
		}
	}
	// One broker cannot keep three copies, which is what Kafka asks for by default.
	kafka := p.Services["kafka"]
	for _, name := range []string{"OFFSETS_TOPIC_REPLICATION_FACTOR", "TRANSACTION_STATE_LOG_REPLICATION_FACTOR",
		"TRANSACTION_STATE_LOG_MIN_ISR"} {
		if v := kafka.Environment["KAFKA_"+name]; v == nil || *v != "1" {
			add(kafka, "KAFKA_%s is not 1", name)
		}
	}
	return faults
}

// TestComposeFile holds docker-compose.yml to its own rules and to the program's
// configuration.
func TestComposeFile(t *testing.T) {
	p := loadCompose(t)
	for _, f := range composeFaults(p) {
		t.Error(f)
	}
	// What the comment on worker-gpu says: it runs without a GPU, too.
	c, _, _ := config.Parse(environOf(p.Services["worker-gpu"]))
	exec, kind, err := newExecutor(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	exec.Close()
	if kind != "cpu" && kind != "cuda" || c.Fetch.Executor != "auto" {
		t.Errorf("worker-gpu scores on %s with %s", kind, c.Fetch.Executor)
	}
}

// TestComposeRules holds that the rules bite: each change of the file is found,
// as the fault that it is.
func TestComposeRules(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"ODRADEK_GROUP:", "ODRADEK_GRUOP:", "worker: ODRADEK_GROUP"},
		{"ODRADEK_DRAIN_TIMEOUT:", "ODRADEK_DRIAN_TIMEOUT:", "ODRADEK_DRIAN_TIMEOUT"},
		{"ODRADEK_PRESET: default", "ODRADEK_PRESET: none", "ODRADEK_PRESET"},
		{"ODRADEK_PRESET: default", "ODRADEK_PRESET: default\n  ODRADEK_DETECTORS: level", "ODRADEK_PRESET"},
		{"ODRADEK_PRESET: default", "ODRADEK_DETECTOR_SHAPE_STRIDE: \"four\"", "ODRADEK_DETECTOR_SHAPE_STRIDE"},
		{"ODRADEK_PRESET: default", "ODRADEK_DETECTOR_LEVEL_OP: zscore", "ODRADEK_DETECTOR_LEVEL_OP"},
		{"ODRADEK_EXECUTOR: auto", "ODRADEK_EXECUTOR: cuda", "no program"},
		{"ODRADEK_LOG_FORMAT: json", "ODRADEK_LOG_FORMAT: json\n  ODRADEK_INSTANCE_ID: one", "worker: one instance id"},
		{"image: apache/kafka:4.4.0", "image: apache/kafka:latest", `kafka: image "apache/kafka:latest" is not pinned`},
		{"image: prom/prometheus:v3.5.0", "image: prom/prometheus", "prometheus: image"},
		{"image: apicurio/apicurio-registry:3.0.9", "image: apicurio/apicurio-registry:3", "registry: image"},
		{"test: [CMD, /worker, healthcheck]", "test: /worker healthcheck", "worker: the healthcheck needs a shell"},
		{"test: [CMD, /worker, healthcheck]", "test: [CMD, /bin/sh, healthcheck]", "worker: the healthcheck is"},
		{"test: [CMD, /bin/promtool, check, healthy, \"--url=http://localhost:9090\"]", "disable: true", "prometheus: no healthcheck"},
		{"condition: service_completed_successfully", "condition: service_started", "depends on setup with condition"},
		{"condition: service_healthy", "condition: service_started", "depends on kafka with condition"},
		{`expose: ["9464"]`, `ports: ["127.0.0.1:9465:9465"]`, "worker: a port of the host (9465)"},
		{"${PAGE_PORT:-9465}:9465", "9465-9474:9465", "page: a port of the host (9465-9474)"},
		{"127.0.0.1:${PAGE_PORT", "0.0.0.0:${PAGE_PORT", "page: a port of the host (9465)"},
		{"  worker:\n    <<: *worker", "  worker:\n    container_name: worker\n    <<: *worker", `worker: container_name "worker"`},
		{"restart: unless-stopped", "restart: on-failure:5", "generator: restart"},
		{"restart: unless-stopped", "restart: on-failure:5", "worker: restart"},
		{"stop_grace_period: 35s", "stop_grace_period: 10s", "worker: stop_grace_period is 10s"},
		{"schema-cache:/var/cache/odradek", "schema-cache:/var/cache", "worker: no volume"},
		{"capabilities: [gpu]", "capabilities: [utility]", "worker-gpu: the profile gpu reserves no GPU"},
		{"profiles: [gpu]", "profiles: []", "worker-gpu: profiles"},
		{"command: [run]", "command: [rnu]", "worker: the program has no command"},
		{"  generator:\n", "  generate:\n", "generator: no such service"},
		{"KAFKA_TRANSACTION_STATE_LOG_MIN_ISR", "KAFKA_TRANSACTION_STATE_MIN_ISR", "kafka: KAFKA_TRANSACTION_STATE_LOG_MIN_ISR is not 1"},
		{"read_only: true", "read_only: false", "worker: needs neither"},
		{"CLUSTER_ID:", "ODRADEK_CLUSTER_ID:", "kafka: ODRADEK_CLUSTER_ID"},
	} {
		got := composeFaults(loadCompose(t, c.old, c.new))
		if !slices.ContainsFunc(got, func(f string) bool { return strings.Contains(f, c.want) }) {
			t.Errorf("%q for %q: want a fault with %q, got %q", c.new, c.old, c.want, got)
		}
	}
}

// TestChartSettings: the settings file of the Helm chart's default values has no fault.
func TestChartSettings(t *testing.T) {
	b, err := os.ReadFile("../../deploy/helm/values.yaml")
	must(t, err)
	_, rest, _ := strings.Cut(string(b), "\nconfig:\n")
	settings, _, found := strings.Cut(rest, "\n\n")
	file := filepath.Join(t.TempDir(), "odradek.yaml")
	must(t, os.WriteFile(file, []byte(strings.ReplaceAll(strings.TrimPrefix(settings, "  "), "\n  ", "\n")), 0o600))
	term, out, _ := console()
	if code := term.check(t.Context(), []string{"-config", file}); code != exitOK || !found {
		t.Errorf("exit %d: %s", code, out)
	}
}
