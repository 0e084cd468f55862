package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"odradek/processor/kafkatest"
)

// runEnv has this test binary run main, as the bench starts its own children.
const runEnv = "ODRADEK_TEST_RUN_BENCH"

func TestMain(m *testing.M) {
	if os.Getenv(runEnv) != "" {
		main()
		return
	}
	kafkatest.Main(allTests{m})
}

// allTests runs the tests and removes the programs that they have built.
type allTests struct{ *testing.M }

func (m allTests) Run() int {
	defer func() { _ = os.RemoveAll(programs.dir) }()
	return m.M.Run()
}

var programs struct {
	mu    sync.Mutex
	dir   string
	built map[string]error
}

// goProgram is the path of a program that a command of go builds, once: name, and
// go's arguments but for -o.
func goProgram(t *testing.T, name string, args ...string) string {
	t.Helper()
	programs.mu.Lock()
	defer programs.mu.Unlock()
	if programs.built == nil {
		programs.built = map[string]error{}
		var err error
		if programs.dir, err = os.MkdirTemp("", "odradek-bench-"); err != nil { //nolint:usetesting // outlives the test that makes it
			t.Fatal(err)
		}
		readSources(t)
	}
	path := filepath.Join(programs.dir, name)
	err, ok := programs.built[name]
	if !ok {
		build := exec.Command("go", append([]string{args[0], "-o", path}, args[1:]...)...)
		build.Dir = "../.."
		out, failed := build.CombinedOutput()
		if failed != nil {
			err = fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), failed, out)
		}
		programs.built[name] = err
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// readSources looks at every source of the module, so that a stored result of this
// package's tests does not outlive the programs that they build.
func readSources(t *testing.T) {
	err := filepath.WalkDir("../..", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2 || d.Name() == "bin"):
			return filepath.SkipDir
		case strings.HasSuffix(name, ".go"):
			_, err = os.Stat(name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// workerBinary is the worker, as \`make build\` makes it.
func workerBinary(t *testing.T) string { return goProgram(t, "worker", "build", "./cmd/worker") }

// goChildProgram is a child of the GPU that speaks the protocol and scores on the
// CPU: the test binary of package cuda.
func goChildProgram(t *testing.T) string {
	t.Helper()
	t.Setenv("ODRADEK_TEST_CUDA_CHILD", "1")
	return goProgram(t, "gochild", "test", "-c", "./cuda")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
