//go:build linux

package cuda

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"odradek/detectors"
)

// TestToyOpEmulated runs the kernel of a toy (testdata/toyop), which has no fatbin, on the CPU, in a copy of the module.
// TestRecipes of package processor requires that an op needs no more than the toy's files and lines.
func TestToyOpEmulated(t *testing.T) {
	emulating(t)
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go to build a copy of the module with")
	}
	dir := t.TempDir()
	for from, to := range map[string]string{"../detectors": "detectors", "../cuda": "cuda", "testdata/toyop": ""} {
		if err := os.CopyFS(filepath.Join(dir, to), os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
	edit := func(name, from string, pattern, replacement string) {
		t.Helper()
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		edited := regexp.MustCompile(pattern).ReplaceAllString(string(text), replacement)
		if pattern != "" && edited == string(text) {
			t.Fatalf("%s has no %q", name, pattern)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(edited), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	edit("go.mod", "../go.mod", "", "")
	edit("go.sum", "../go.sum", "", "")
	adapter := "detectors/ops/toy/toy.go"
	edit(adapter, filepath.Join(dir, adapter), `(const Op detectors.Op = )0\n`, fmt.Sprintf("${1}%d\n", len(detectors.Ops())))
	edit("detectors/ops/ops.go", "../detectors/ops/ops.go", `(?m)^\t// Ops without shapes\.\n`, "${0}\t_ \"odradek/detectors/ops/toy\"\n")
	plans := "cuda/plan/ops.go"
	edit(plans, filepath.Join("..", plans), `(?m)^var plans = .*\n`, "${0}\t&toyPlan,\n")

	goTest := func(env []string, pkg, passed string, args ...string) {
		t.Helper()
		// Without -trimpath the copy's folder is part of what is compiled, and nothing is found in the build cache.
		test := exec.Command("go", append([]string{"test", "-trimpath", "-vet=off", "-count=1", "-v", pkg}, args...)...)
		test.Dir = dir
		test.Env = append(os.Environ(), env...)
		if out, err := test.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: "+passed+" ")) {
			t.Fatalf("%v: %v\n%s", test.Args, err, out)
		}
	}
	goTest(nil, "./cuda/kernels", "TestParams", "-run", "TestParams", "-update")
	// Without the other ops' plans, their kernels, which take a minute, are not built.
	edit(plans, filepath.Join(dir, plans), `(?m)^(\t&toyPlan,\n)(\t&\w+Plan,\n)+`, "${1}")
	goTest([]string{"ODRADEK_SKIP=", "ODRADEK_REQUIRE=emulate"}, "./cuda", "TestEmulated/toy", "-run", "^TestEmulated$/^toy$")
}
