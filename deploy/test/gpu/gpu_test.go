//go:build linux

// Package gpu runs worker and odradek-cuda in the root of the image as a container with a GPU is made: a CDI specification such as
// `nvidia-ctk cdi generate` writes is injected by the library of the container engines, and NVIDIA's own hook prepares the root. The
// driver is a stand-in that has one device and does nothing; files are copied in place of bind mounts.
package gpu

import (
	"debug/elf"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	runtime "github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/cdi"
)

const repository = "../../.."

var (
	child = flag.String("child", repository+"/bin/odradek-cuda", "`program` of make child")
	kit   = flag.String("kit", repository+"/bin/cuda", "`folder` that it was linked with")
)

// driver is the version of the stand-in.
const driver = "libcuda.so.550.54.15"

// toolkits are versions of NVIDIA's container toolkit whose hooks treat a root differently.
var toolkits = []string{"v1.17.8", "v1.20.2"}

// where are the folders in which hosts have the driver, and so containers.
var where = map[string]string{
	"Debian":       "/usr/lib/x86_64-linux-gnu",
	"Red Hat":      "/usr/lib64",
	"Bottlerocket": "/x86_64-bottlerocket-linux-gnu/sys-root/usr/lib",
}

func TestContainer(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("chroot needs root")
	}
	dir := t.TempDir()
	build := func(args string, env ...string) {
		t.Helper()
		cmd := exec.Command("go", strings.Fields(args)...)
		cmd.Dir, cmd.Env = repository, append(os.Environ(), env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", cmd.Args, err, out)
		}
	}
	worker := filepath.Join(dir, "worker")
	build("build -o "+worker+" ./cmd/worker", "CGO_ENABLED=0")
	for _, version := range toolkits {
		build("install github.com/NVIDIA/nvidia-container-toolkit/cmd/nvidia-cdi-hook@"+version,
			"CGO_ENABLED=1", "GOBIN="+filepath.Join(dir, version))
	}
	library := standIn(t, dir)

	t.Run("no driver", func(t *testing.T) {
		root, env := image(t, worker)
		if said := check(t, root, env); !strings.Contains(said, "the CPU, because no GPU can be used") ||
			!strings.Contains(said, "libcuda.so.1: cannot open shared object file") {
			t.Errorf("check says %s", said)
		}
	})
	for host, folder := range where {
		for _, version := range toolkits {
			t.Run(host+", "+version, func(t *testing.T) {
				root, env := image(t, worker)
				env = append(env, inject(t, root, filepath.Join(dir, version, "nvidia-cdi-hook"), library, folder)...)
				if said := check(t, root, env); !strings.Contains(said, "device 0, Stand-in, 1024 MiB, 7 SMs, compute capability 9.0") {
					t.Errorf("check says %s", said)
				}
			})
		}
	}
	// The device plugin of GKE mounts a folder, with links, and runs no hook.
	t.Run("GKE", func(t *testing.T) {
		root, env := image(t, worker)
		folder := filepath.Join(root, "usr/local/nvidia/lib64")
		put(t, library, filepath.Join(folder, driver))
		if err := os.Symlink(driver, filepath.Join(folder, "libcuda.so.1")); err != nil {
			t.Fatal(err)
		}
		if said := check(t, root, env); !strings.Contains(said, "device 0, Stand-in") {
			t.Errorf("check says %s", said)
		}
	})
}

// standIn compiles a driver with all functions of the real one.
func standIn(t *testing.T, dir string) string {
	t.Helper()
	f, err := elf.Open(*kit + "/lib/libcuda.so")
	if err != nil {
		t.Fatalf("%v: make child", err)
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	source := `#include <stddef.h>
#include <string.h>
int cuDeviceGetCount(int *n) { *n = 1; return 0; }
int cuDeviceGetName(char *s, int n, int d) { strncpy(s, "Stand-in", n); return 0; }
int cuDeviceTotalMem_v2(size_t *n, int d) { *n = 1 << 30; return 0; }
int cuDeviceGetAttribute(int *v, int a, int d) { *v = a == 16 ? 7 : a == 75 ? 9 : a == 76 ? 0 : 1 << 16; return 0; }
`
	for _, s := range symbols {
		if strings.HasPrefix(s.Name, "cu") && s.Section != elf.SHN_UNDEF && !strings.Contains(source, " "+s.Name+"(") {
			source += "int " + s.Name + "(void) { return 0; }\n"
		}
	}
	path := filepath.Join(dir, driver)
	cc := exec.Command("gcc", "-shared", "-fPIC", "-w", "-Wl,-soname,libcuda.so.1", "-x", "c", "-o", path, "-")
	cc.Stdin = strings.NewReader(source)
	if out, err := cc.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// image makes the root of the Dockerfile's last stage of this machine's files, with the worker, and returns its environment.
func image(t *testing.T, worker string) (root string, env []string) {
	t.Helper()
	root = t.TempDir()
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(root, "etc"), 0o755); err != nil { // of the certificates
		t.Fatal(err)
	}
	put(t, worker, filepath.Join(root, "worker"))
	text, err := os.ReadFile(repository + "/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	_, last, ok := strings.Cut(string(text), "\nFROM worker\n")
	if !ok {
		t.Fatal("the Dockerfile has no last stage of worker")
	}
	for line := range strings.SplitSeq(last, "\n") {
		words := strings.Fields(line)
		switch {
		case len(words) == 4 && words[0] == "COPY" && words[2] == "/src/bin/odradek-cuda":
			put(t, *child, filepath.Join(root, words[3]))
		case len(words) == 4 && words[0] == "COPY" && words[2] == "/out/lib":
			for _, word := range strings.Fields(string(text)) {
				if strings.HasPrefix(word, "/lib/x86_64-linux-gnu/lib") {
					put(t, word, filepath.Join(root, words[3], filepath.Base(word)))
				}
			}
		case len(words) == 4 && words[0] == "COPY":
			put(t, words[2], filepath.Join(root, words[3]))
		case len(words) > 1 && words[0] == "ENV":
			env = append(env, words[1:]...)
		}
	}
	if len(env) == 0 {
		t.Fatal("the last stage has no ENV")
	}
	return root, env
}

func put(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o755)
	}
	if err == nil {
		err = os.WriteFile(to, b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// inject does to a container's root what an engine does for --device nvidia.com/gpu=all, and returns its further environment.
func inject(t *testing.T, root, hook, library, folder string) []string {
	t.Helper()
	specs, bundle := t.TempDir(), t.TempDir()
	asked := fmt.Sprintf(`{"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu",
		"devices": [{"name": "all", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0", "hostPath": "/dev/null"}]}}],
		"containerEdits": {
			"env": ["NVIDIA_VISIBLE_DEVICES=void"],
			"deviceNodes": [{"path": "/dev/nvidia-uvm", "hostPath": "/dev/null"}, {"path": "/dev/nvidiactl", "hostPath": "/dev/null"}],
			"mounts": [{"hostPath": %q, "containerPath": "%s/%s", "options": ["ro", "nosuid", "nodev", "rbind", "rprivate"]}],
			"hooks": [
				{"hookName": "createContainer", "path": %q, "args": ["nvidia-cdi-hook", "create-symlinks", "--link", "libcuda.so.1::%s/libcuda.so"]},
				{"hookName": "createContainer", "path": %[4]q, "args": ["nvidia-cdi-hook", "update-ldcache", "--folder", %[5]q]}]}}`,
		library, folder, driver, hook, folder)
	if err := os.WriteFile(specs+"/nvidia.json", []byte(asked), 0o644); err != nil {
		t.Fatal(err)
	}
	cache, err := cdi.NewCache(cdi.WithSpecDirs(specs), cdi.WithAutoRefresh(false))
	if err != nil {
		t.Fatal(err)
	}
	spec := &runtime.Spec{Version: runtime.Version, Root: &runtime.Root{Path: root}, Process: &runtime.Process{}, Linux: &runtime.Linux{}}
	if missing, err := cache.InjectDevices(spec, "nvidia.com/gpu=all"); err != nil {
		t.Fatalf("%v: %v; %v", missing, err, cache.GetErrors())
	}
	if len(spec.Mounts) != 1 || len(spec.Linux.Devices) != 3 || spec.Hooks == nil || len(spec.Hooks.CreateContainer) != 2 {
		t.Fatalf("injected: %+v", spec)
	}
	for _, m := range spec.Mounts {
		put(t, m.Source, filepath.Join(root, m.Destination))
	}
	b, err := json.Marshal(spec)
	if err == nil {
		err = os.WriteFile(bundle+"/config.json", b, 0o644)
	}
	state, serr := json.Marshal(runtime.State{Version: runtime.Version, ID: "one", Status: runtime.StateCreating, Pid: os.Getpid(),
		Bundle: bundle})
	if err != nil || serr != nil {
		t.Fatal(err, serr)
	}
	for _, h := range spec.Hooks.CreateContainer {
		cmd := mounted(root, append([]string{h.Path}, h.Args[1:]...)...)
		cmd.Stdin = strings.NewReader(string(state))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", h.Args, err, out)
		}
	}
	return spec.Process.Env
}

// mounted returns a command in a mount namespace of its own, in which root is a file system, with /proc and /dev.
func mounted(root string, args ...string) *exec.Cmd {
	const prepare = `set -e
mount --bind "$1" "$1"
mkdir -p "$1/proc" "$1/dev"
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
shift
exec "$@"`
	return exec.Command("unshare", append([]string{"--mount", "--propagation", "private", "sh", "-c", prepare, "sh", root}, args...)...)
}

// check runs worker check in a root, as the image's user.
func check(t *testing.T, root string, env []string) string {
	t.Helper()
	cmd := mounted(root, "chroot", "--userspec=65532:65532", root, "/worker", "check")
	cmd.Env = slices.Concat(env, []string{"PATH=" + os.Getenv("PATH"), "ODRADEK_KAFKA_BROKERS=127.0.0.1:1", "ODRADEK_FORMAT=json",
		"ODRADEK_GROUP=plant", "ODRADEK_TOPICS=sensors", "ODRADEK_KEY_FIELD=sensor", "ODRADEK_TIME_FIELD=time", "ODRADEK_VALUE_FIELDS=value"})
	out, _ := cmd.CombinedOutput() // the text says how it ended
	_, executor, _ := strings.Cut(string(out), "ODRADEK_EXECUTOR")
	return executor
}
