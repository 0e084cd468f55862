//go:build linux

package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"odradek/cmd/internal/admin"
	"odradek/cmd/internal/config"
)

var goChild struct {
	once sync.Once
	path string
	err  error
}

// goChildProgram returns a child that speaks the protocol and scores on the CPU: the
// test binary of package cuda.
func goChildProgram(t *testing.T) string {
	t.Helper()
	goChild.once.Do(func() {
		dir, err := os.MkdirTemp("", "odradek-cuda-") //nolint:usetesting // outlives the test that makes it
		if err != nil {
			goChild.err = err
			return
		}
		goChild.path = filepath.Join(dir, "gochild")
		build := exec.Command("go", "test", "-c", "-o", goChild.path, "./cuda")
		build.Dir = "../.."
		if out, err := build.CombinedOutput(); err != nil {
			goChild.err = fmt.Errorf("%w: %s", err, out)
		}
	})
	if goChild.err != nil {
		t.Fatal(goChild.err)
	}
	t.Setenv("ODRADEK_TEST_CUDA_CHILD", "1")
	return goChild.path
}

func TestNew(t *testing.T) {
	child := goChildProgram(t)
	none := filepath.Join(t.TempDir(), "none")
	for _, c := range []struct {
		environ   string
		kind      string
		err, says string // parts of the error, of the log
	}{
		{"ODRADEK_EXECUTOR=cpu", "cpu", "", ""},
		{"ODRADEK_EXECUTOR=auto", "cpu", "", "set ODRADEK_CUDA_CHILD to its path"},
		{"ODRADEK_EXECUTOR=auto ODRADEK_CUDA_CHILD=" + none, "cpu", "", "no such file"},
		{"ODRADEK_EXECUTOR=auto ODRADEK_CUDA_CHILD=/bin/false", "cpu", "", "exit status 1"},
		{"ODRADEK_EXECUTOR=auto ODRADEK_CUDA_CHILD=" + child, "cuda", "", "Go test child"},
		{"ODRADEK_EXECUTOR=cuda ODRADEK_CUDA_CHILD=" + child, "cuda", "", "scoring on a GPU"},
		{"ODRADEK_EXECUTOR=cuda", "", "ODRADEK_EXECUTOR=cuda: no program", ""},
		{"ODRADEK_EXECUTOR=cuda ODRADEK_CUDA_CHILD=/bin/false", "", "exit status 1", ""},
	} {
		var said bytes.Buffer
		cfg, faults, _ := config.Parse(append(strings.Fields(c.environ), "ODRADEK_GROUP=g", "ODRADEK_TOPICS=a,b",
			"ODRADEK_SCHEMA_REGISTRY_URL=http://r:8081"))
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		e, kind, err := newExecutor(cfg, slog.New(slog.NewTextHandler(&said, nil)))
		if kind != c.kind || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %s, %v, want %s, %s", c.environ, kind, err, c.kind, c.err)
		}
		if !strings.Contains(said.String(), c.says) || c.says == "" && said.Len() > 0 || strings.Count(said.String(), "\n") > 1 {
			t.Errorf("%s: the log says %q, want one line with %q", c.environ, said.String(), c.says)
		}
		if e != nil {
			e.Close()
		}
		var r admin.Report
		checkExecutor(&r, cfg)
		if r.Faulty() != (c.err != "") || len(r.Findings) != 1 {
			t.Errorf("%s: check says %+v", c.environ, r.Findings)
		}
	}
}
