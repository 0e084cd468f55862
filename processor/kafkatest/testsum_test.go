package kafkatest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTestsum runs .ci/testsum.go on a module whose packages need a cluster that does not start: one test fails with the
// cause, the others are not run, and each package has a line with its counts.
func TestTestsum(t *testing.T) {
	program, err := filepath.Abs("../../.ci/testsum.go")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, format string, args ...any) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(fmt.Sprintf(format, args...)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module odradek\n\ngo 1.26\n")
	const head = "package x\n\nimport \"testing\"\n\n"
	log := strings.Repeat("\tt.Log(\"a line of a broker's log\")\n", 30)
	for _, name := range []string{"a", "b"} { // a process each
		text := head + "func TestFirst(t *testing.T) {\n" + log + "\tt.Fatalf(\"kafka does not start: exit status 1 of " + name + "\")\n}\n"
		text += "func TestEach(t *testing.T) {\n\tt.Run(\"kafka\", func(t *testing.T) { " +
			"t.Skip(\"not run: kafka does not start, see TestFirst\") })\n" +
			"\tt.Run(\"kfake\", func(t *testing.T) {})\n}\n"
		for i := range 25 {
			text += fmt.Sprintf("func TestMore%d(t *testing.T) { t.Skip(\"not run: kafka does not start, see TestFirst\") }\n", i)
		}
		write(name+"/x_test.go", "%s", text)
	}
	// The cause is given as a subtest's cause, which has no other words.
	write(
		"c/x_test.go",
		"%s",
		head+"func TestOnly(t *testing.T) {\n\tt.Run(\"kafka\", func(t *testing.T) { "+
			"t.Fatal(\"kafka does not start: exit status 1 of c\") })\n}\n",
	)
	write("d/x_test.go", "%s", head+"func TestGood(t *testing.T) {}\nfunc TestBad(t *testing.T) { t.Error(\"wrong\") }\n"+
		"func TestElse(t *testing.T) { t.Skip(\"skipped part registry: no Java\") }\n")
	write("e/x_test.go", "%s", head+"func TestGood(t *testing.T) {}\n")
	write("f/x.go", "package f\n")
	write("g/x_test.go", "%s", head+"func TestGood(t *testing.T) { undefined() }\n")
	cmd := exec.Command("go", "run", program, "-failures="+filepath.Join(dir, "failures"), "-p", "1", "-count=1", "./...")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	out, err := cmd.Output()
	if err == nil {
		t.Error("it ends with 0")
	}
	text := regexp.MustCompile(`\d+\.\d s`).ReplaceAllString(string(out), "n s")
	for _, want := range []string{
		"x_test.go:36: kafka does not start: exit status 1 of a\n",
		"FAIL  a                                              n s   1 passed  1 failed  26 not run\n" +
			"      26 not run: kafka does not start, see TestFirst\n",
		"FAIL  b                                              n s   1 passed  27 not run\n" +
			"      26 not run: kafka does not start, see TestFirst\n      1 not run: kafka does not start, see a TestFirst\n",
		"FAIL  c                                              n s   1 not run\n",
		"FAIL  d                                              n s   1 passed  1 failed  1 skipped\n      1 skipped part registry: no Java\n",
		"ok    e                                              n s   1 passed\n",
		"failed: a TestFirst\nfailed: d TestBad\nfailed: odradek/g (did not build, or ended early)\n",
		"\n4 passed, 3 failed, 1 skipped, 54 not run\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q", want)
		}
	}
	if n := strings.Count(text, "\n"); n > 75 || strings.Contains(text, "exit status 1 of b") ||
		strings.Contains(text, "exit status 1 of c") ||
		t.Failed() {
		t.Errorf("%d lines:\n%s", n, text)
	}
	failures, err := os.ReadFile(filepath.Join(dir, "failures"))
	if err != nil || strings.Count(string(failures), "does not start") != 1 {
		t.Errorf("failures: %v\n%s", err, failures)
	}
}

// TestTestsumPaused: of tests that run beside each other, those that wait for their turn are not among the running ones.
func TestTestsumPaused(t *testing.T) {
	program, err := filepath.Abs("../../.ci/testsum.go")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	text := "package x\n\nimport (\n\t\"os\"\n\t\"testing\"\n\t\"time\"\n)\n\n" +
		"func released(t *testing.T) {\n\tt.Parallel()\n\tfor {\n" +
		"\t\tif _, err := os.Stat(t.Name()); err == nil {\n\t\t\treturn\n\t\t}\n\t\ttime.Sleep(time.Millisecond)\n\t}\n}\n\n" +
		"func TestA(t *testing.T) { released(t) }\nfunc TestB(t *testing.T) { released(t) }\nfunc TestC(t *testing.T) { released(t) }\n"
	for name, content := range map[string]string{"go.mod": "module odradek\n\ngo 1.26\n", "x_test.go": text} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "run", program, "-quiet=20ms", "-count=1", "-parallel=1", ".")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	running := regexp.MustCompile(`odradek (Test[ABC]) for `)
	seen := map[string]bool{}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		before := len(seen)
		for _, n := range running.FindAllStringSubmatch(lines.Text(), -1) {
			seen[n[1]] = true // one that was seen before may be about to end
			if err := os.WriteFile(filepath.Join(dir, n[1]), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if len(seen) > before+1 {
			t.Errorf("one test runs at a time; it says %q", lines.Text())
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if len(seen) != 3 {
		t.Errorf("running were %v, want three tests", seen)
	}
}
