//go:build linux

package cuda

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"odradek/detectors"
)

// toyOp is a method in three files (testdata/toyop), which needs two more lines.
var toyOp = struct{ files, lines, generated []string }{
	files:     []string{"cuda/kernels/toy.cu", "cuda/plan/toy.go", "detectors/ops/toy/toy.go"},
	lines:     []string{"cuda/plan/ops.go", "detectors/ops/ops.go"},
	generated: []string{"cuda/kernels/toy_params.h", "docs/configuration.md", "docs/ops/toy.md", "docs/ops/toy.svg"},
}

// TestToyOp requires that a new op is an adapter, a plan, its kernels and a line in each of two lists:
// a copy of the module gets those of a toy, go generate makes the other files, the op passes the suite
// of all ops on the CPU, and no other file has changed.
func TestToyOp(t *testing.T) {
	dir := toyModule(t)
	goTest(t, dir, nil, "./detectors", "^TestCPU$/^one_core$/^toy$", "--- PASS: TestCPU/one_core/toy")
	goTest(t, dir, nil, "./detectors/ops", "^TestDescribe$", "--- PASS: TestDescribe")
	for page, want := range map[string]string{"configuration": "svdsst, topn, toy, value, zscore",
		"ops/toy": "| `COUNT_FROM` | integer | `1099511627776` | 0 to 281474976710656 | The first number of the count in the carry. | `7` |"} {
		text, err := os.ReadFile(filepath.Join(dir, "docs", page+".md"))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("docs/%s.md does not have %q", page, want)
		}
	}
	changed := changes(t, "..", dir)
	var all []string
	for name, lines := range changed {
		all = append(all, name)
		if slices.Contains(toyOp.lines, name) && lines != 1 {
			t.Errorf("%s has %d lines more", name, lines)
		}
		t.Logf("%4d lines: %s", lines, name)
	}
	slices.Sort(all)
	want := slices.Concat(toyOp.files, toyOp.lines, toyOp.generated)
	if slices.Sort(want); !slices.Equal(all, want) {
		t.Errorf("a new op touches %v, want %v", all, want)
	}
}

// TestToyOpEmulated runs the toy's kernel, which has no fatbin, on the CPU.
func TestToyOpEmulated(t *testing.T) {
	emulating(t)
	dir := toyModule(t)
	// Without the other ops' plans, their kernels, which take a minute, are not built.
	plans := filepath.Join(dir, "cuda/plan/ops.go")
	text, err := os.ReadFile(plans)
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "\t&") || !strings.HasSuffix(line, "Plan,\n") || strings.Contains(line, "toyPlan") {
			kept = append(kept, line)
		}
	}
	if len(kept) == strings.Count(string(text), "\n") {
		t.Fatal("no line of a plan in " + plans)
	}
	if err := os.WriteFile(plans, []byte(strings.Join(kept, "")), 0o644); err != nil {
		t.Fatal(err)
	}
	goTest(t, dir, []string{"ODRADEK_SKIP=", "ODRADEK_REQUIRE=emulate"}, "./cuda", "^TestEmulated$/^toy$", "--- PASS: TestEmulated/toy")
}

// toyModule returns the folder of a copy of the module that has the toy.
func toyModule(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go to build a copy of the module with")
	}
	dir, err := makeToyModule()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// makeToyModule makes the copy once for all tests; TestMain removes it.
var makeToyModule = sync.OnceValues(func() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "odradek-toyop"); err != nil {
		return "", err
	}
	copied = dir
	for _, part := range []string{"cmd", "processor", "detectors", "cuda", "schemas", "docs"} {
		if err := os.CopyFS(filepath.Join(dir, part), os.DirFS(filepath.Join("..", part))); err != nil {
			return "", err
		}
	}
	line := func(file, after, line string) error {
		file = filepath.Join(dir, file)
		text, err := os.ReadFile(file)
		if err == nil && strings.Count(string(text), after) != 1 {
			err = fmt.Errorf("%s has no line %q, or several", file, after)
		}
		if err != nil {
			return err
		}
		return os.WriteFile(file, []byte(strings.Replace(string(text), after, after+line, 1)), 0o644)
	}
	for _, file := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join("..", file))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, file), text, 0o644)
		}
		if err != nil {
			return "", err
		}
	}
	for _, file := range toyOp.files {
		text, err := os.ReadFile(filepath.Join("testdata/toyop", file))
		if err != nil {
			return "", err
		}
		next := fmt.Sprintf("const Op detectors.Op = %d\n", len(detectors.Ops()))
		text = bytes.Replace(text, []byte("const Op detectors.Op = 0\n"), []byte(next), 1)
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, file), text, 0o644); err != nil {
			return "", err
		}
	}
	if err := line("detectors/ops/ops.go", "\t// Ops without shapes.\n", "\t_ \"odradek/detectors/ops/toy\"\n"); err != nil {
		return "", err
	}
	if err := line("cuda/plan/ops.go", "var plans = [...]*opPlan{\n", "\t&toyPlan,\n"); err != nil {
		return "", err
	}
	// Without -trimpath the copy's folder is part of what is compiled, and nothing is found in the build cache.
	for pkg, name := range map[string]string{"./cuda/kernels": "TestParams", "./cmd/internal/config": "TestConfigurationDoc|TestOpPages"} {
		generate := exec.Command("go", "test", "-trimpath", "-vet=off", pkg, "-run", name, "-update")
		generate.Dir = dir
		if out, err := generate.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%v: %w\n%s", generate.Args, err, out)
		}
	}
	return dir, nil
})

var copied string // the folder of the copy

// goTest runs tests of a package of the copy, whose output must contain passed.
func goTest(t *testing.T, dir string, env []string, pkg, name, passed string) {
	t.Helper()
	test := exec.Command("go", "test", "-trimpath", "-vet=off", "-count=1", "-v", pkg, "-run", name)
	test.Dir = dir
	test.Env = append(os.Environ(), env...)
	out, err := test.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte(passed)) {
		t.Errorf("%v: %v\n%s", test.Args, err, out)
	}
}

// changes returns the files that differ between two trees, each with the number of lines added in the
// second, for the folders of the copy.
func changes(t *testing.T, from, to string) map[string]int {
	t.Helper()
	changed := map[string]int{}
	err := filepath.WalkDir(to, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(to, path)
		if err != nil {
			return err
		}
		now, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		before, err := os.ReadFile(filepath.Join(from, name))
		if err != nil && !os.IsNotExist(err) {
			return err
		}
		if !bytes.Equal(before, now) {
			changed[name] = bytes.Count(now, []byte("\n")) - bytes.Count(before, []byte("\n"))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return changed
}
