package kafkatest

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// WorkerProgram returns the path of the worker's program, for demo and bench: what
// their flag -worker names, or the file worker beside this program.
func WorkerProgram(named string) (string, error) {
	name, advice := named, "-worker is to name a program that can be run"
	if name == "" {
		self, err := os.Executable()
		if err != nil {
			return "", fmt.Errorf("find this program: %w", err)
		}
		name = filepath.Join(filepath.Dir(self), "worker")
		advice = fmt.Sprintf("`make build` and `go build -o %s ./cmd/worker` make one, -worker names another place", name)
	}
	path, err := filepath.Abs(name)
	if err == nil {
		path, err = exec.LookPath(path)
	}
	if err != nil {
		return "", fmt.Errorf("no worker to start: %w; %s", err, advice)
	}
	return path, nil
}

// programs holds what GoProgram has built for the tests of this process.
var programs struct {
	mu    sync.Mutex
	dir   string
	built map[string]error
}

// GoProgram returns the path of a program that a command of go builds, once: name, and
// go's arguments but for -o. The command runs in root, the module's folder as the test
// sees it. Main removes the programs.
func GoProgram(t TB, root, name string, args ...string) string {
	t.Helper()
	programs.mu.Lock()
	defer programs.mu.Unlock()
	if programs.built == nil {
		programs.built = map[string]error{}
		var err error
		if programs.dir, err = os.MkdirTemp("", "odradek-programs-"); err != nil {
			t.Fatalf("%v", err)
		}
		if err := readSources(root); err != nil {
			t.Fatalf("%v", err)
		}
	}
	path := filepath.Join(programs.dir, name)
	err, ok := programs.built[name]
	if !ok {
		build := exec.Command("go", append([]string{args[0], "-o", path}, args[1:]...)...)
		build.Dir = root
		out, failed := build.CombinedOutput()
		if failed != nil {
			err = fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), failed, out)
		}
		programs.built[name] = err
	}
	if err != nil {
		t.Fatalf("%v", err)
	}
	return path
}

// readSources looks at every source of the module, so that a stored result of a
// package's tests does not outlive the programs that they build.
func readSources(root string) error {
	return filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
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
}
