package processor

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestToyOutput holds that a new output topic is a row of outputs.Table, the function that writes
// its records and a line of docs/outputs.md: a copy of the module gets those of a toy
// (testdata/toyoutput), go generate makes the rest, the toy's records are in the same
// transactions as the scores, and no other file has changed.
func TestToyOutput(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go to build a copy of the module with")
	}
	dir := t.TempDir()
	for _, part := range []string{"processor", "detectors", "schemas", "cmd/internal/config", "docs"} {
		if err := os.CopyFS(filepath.Join(dir, part), os.DirFS(filepath.Join("..", part))); err != nil {
			t.Fatal(err)
		}
	}
	write := func(name string, text []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) []byte {
		t.Helper()
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		write(name, read(filepath.Join("..", name)))
	}
	line := func(name, before, line string) {
		t.Helper()
		text := string(read(filepath.Join(dir, name)))
		if strings.Count(text, before) != 1 {
			t.Fatalf("%s has no %q, or several", name, before)
		}
		write(name, []byte(strings.Replace(text, before, line+before, 1)))
	}
	const table = "processor/cycle/table.go"
	line(table, "\toutputCount\n", "\tToy\n")
	line(table, "}\n\n// ChangelogSpec describes", "\tToy: {Name: \"toy\", Setting: \"TOY_TOPIC\", Holds: \"the counts\", Key: \"none\", "+
		"Doc: \"Topic of a toy.\", write: (*Writer).writeToy},\n")
	line("docs/outputs.md", "| `<group>-late` |", "| `<group>-toy` | how many scores a chunk has |\n")
	write("processor/cycle/toy.go", read("testdata/toyoutput/toy.go"))
	write("processor/toy_test.go", read("testdata/toyoutput/toy_test.go"))
	run := func(want string, args ...string) {
		t.Helper()
		c := exec.Command("go", append([]string{"test", "-vet=off", "-count=1"}, args...)...)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil || !bytes.Contains(out, []byte(want)) {
			t.Fatalf("%v: %v\n%s", c.Args, err, out)
		}
	}
	run("ok", "./cmd/internal/config", "-run", "TestConfigurationDoc", "-update")
	if text := read(filepath.Join(dir, "docs/configuration.md")); !bytes.Contains(text, []byte("`ODRADEK_TOY_TOPIC` | &lt;group>-toy")) {
		t.Error("the documentation of the settings does not have the toy's")
	}
	run("--- PASS: TestOutputs", "-v", "./processor/cycle", "-run", "^TestOutputs$")
	run("--- PASS: TestToy", "-v", "./processor", "-run", "^TestToy$")

	changed := map[string]int{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		before, err := os.ReadFile(filepath.Join("..", name))
		if err != nil && !os.IsNotExist(err) {
			return err
		}
		if now := read(path); !bytes.Equal(before, now) {
			changed[name] = bytes.Count(now, []byte("\n")) - bytes.Count(before, []byte("\n"))
			t.Logf("%4d lines: %s", changed[name], name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"docs/configuration.md", "docs/outputs.md", table, "processor/cycle/toy.go", "processor/toy_test.go"}
	var all []string
	for name := range changed {
		all = append(all, name)
	}
	slices.Sort(all)
	if !slices.Equal(all, want) || changed[table] != 2 || changed["docs/outputs.md"] != 1 {
		t.Errorf("a new output touches %v", changed)
	}
}
