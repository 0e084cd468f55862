package processor

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"odradek/detectors"
	_ "odradek/detectors/ops" // all ops have their numbers
)

// recipe is what CONTRIBUTING.md says of how to add something, followed literally.
type recipe struct {
	files    map[string]string      // new files by their name, from a folder of testdata/recipes
	lines    map[string][][2]string // by file: a text that it has once, and the lines to add before it
	generate []string               // arguments of go test that write the generated files
	tests    [][]string             // package, pattern, and a test that must have passed
	written  []string               // the generated files
	says     map[string]string      // by generated file: what it says of the addition
}

var recipes = map[string]recipe{
	"output": {
		files: map[string]string{"processor/cycle/toy.go": "output/toy.go", "processor/toy_test.go": "output/toy_test.go"},
		lines: map[string][][2]string{
			"processor/cycle/table.go": {
				{"\toutputCount\n", "\tToy\n"},
				{"}\n\n// ChangelogSpec describes", "\tToy: {Name: \"toy\", Setting: \"TOY_TOPIC\", Holds: \"the counts\", " +
					"Doc: \"Topic of a toy.\", write: (*Writer).writeToy},\n"},
			},
			"docs/outputs.md": {{"| `<group>-late` |", "| `<group>-toy` | how many scores a chunk has |\n"}},
		},
		generate: []string{"./cmd/internal/config", "-run", "TestConfigurationDoc", "-update"},
		tests:    [][]string{{"./processor/cycle", "^TestOutputs$", "TestOutputs"}, {"./processor", "^TestToy$", "TestToy"}},
		written:  []string{"docs/configuration.md"},
		says:     map[string]string{"docs/configuration.md": "`ODRADEK_TOY_TOPIC` | &lt;group>-toy"},
	},
	"format": {
		files: map[string]string{"schemas/toy/toy.go": "format/toy.go", "schemas/formats/toy_test.go": "format/toy_test.go"},
		lines: map[string][][2]string{
			"schemas/formats/table.go": {{"}\n\n// Auto is", "\t&toy.Format,\n"}, {")\n\n// table lists", "\t\"odradek/schemas/toy\"\n"}},
		},
		generate: []string{"./cmd/internal/config", "-run", "TestConfigurationDoc", "-update"},
		tests:    [][]string{{"./schemas/formats", "^TestToy$", "TestToy"}, {"./cmd/internal/config", "^TestFormatNames$", "TestFormatNames"}},
		written:  []string{"docs/configuration.md"},
		says:     map[string]string{"docs/configuration.md": "protobuf, toy"},
	},
	"metric": {
		lines: map[string][][2]string{
			"processor/metrics/metrics.go": {
				{"\tscoresPublished, ", "\ttoy prometheus.Counter\n"},
				{"\tm.tasks = plain(", "\tm.toy = plain(\"toy_commits_total\", \"Committed cycles.\")\n"},
				{"\tm.cycleRecords.Observe(", "\tm.toy.Inc()\n"},
			},
			"docs/metrics.md": {{"| `odradek_transactions_total` |", "| `odradek_toy_commits_total` | | Committed cycles. |\n"}},
		},
		tests: [][]string{{"./processor/metrics", "^TestMetricsDoc$", "TestMetricsDoc"}},
	},
	"op": {
		files:    map[string]string{"detectors/toy/toy.go": "op/toy.go"},
		lines:    map[string][][2]string{"detectors/ops/ops.go": {{"\t// Ops without shapes.\n", "\t_ \"odradek/detectors/toy\"\n"}}},
		generate: []string{"./cmd/internal/config", "-run", "TestConfigurationDoc|TestOpPages", "-update"},
		tests: [][]string{{"./detectors", "^TestCPU$/^one_core$/^toy$", "TestCPU"}, {"./detectors/ops", "", "TestParamTables"},
			{"./processor/state", "^TestAnomalyCoversItsFault$", "TestAnomalyCoversItsFault"}},
		written: []string{"docs/configuration.md", "docs/ops/toy.md", "docs/ops/toy.svg"},
		says:    map[string]string{"docs/configuration.md": "topn, toy, value"},
	},
	"setting": {
		files: map[string]string{"cmd/internal/config/toy_test.go": "setting/toy_test.go"},
		lines: map[string][][2]string{
			"cmd/internal/config/config.go": {{"\tLogLevel ", "\tToy time.Duration `env:\"TOY\" envDefault:\"1s\" min:\"0s\" max:\"1h\" doc:\"Time of a toy.\"`\n"}},
		},
		generate: []string{"./cmd/internal/config", "-run", "TestConfigurationDoc", "-update"},
		tests:    [][]string{{"./cmd/internal/config", "^(TestToy|TestNamedSettingsExist)$", "TestToy"}},
		written:  []string{"docs/configuration.md"},
		says:     map[string]string{"docs/configuration.md": "`ODRADEK_TOY` | `1s` | 0s to 1h | Time of a toy."},
	},
}

// TestRecipes follows the recipes of CONTRIBUTING.md, each in a copy of the module: with the files and lines that the
// recipe names, and what go generate writes, the addition works, is documented, and nothing else has to change. The op
// here has neither parameters nor a kernel; TestToyOp of package cuda adds one with both.
func TestRecipes(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go to build a copy of the module with")
	}
	for _, name := range slices.Sorted(maps.Keys(recipes)) {
		t.Run(name, func(t *testing.T) { recipes[name].follow(t) })
	}
}

func (r recipe) follow(t *testing.T) {
	dir := t.TempDir()
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	write := func(name, text string) {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, part := range []string{"processor", "detectors", "schemas", "cmd/internal", "docs"} {
		if err := os.CopyFS(filepath.Join(dir, part), os.DirFS(filepath.Join("..", part))); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		write(name, read(filepath.Join("..", name)))
	}
	var want []string
	for name, from := range r.files {
		// The numbers of ops leave none out.
		next := fmt.Sprintf("const Op detectors.Op = %d\n", len(detectors.Ops()))
		write(name, strings.Replace(read(filepath.Join("testdata/recipes", from)), "const Op detectors.Op = 0\n", next, 1))
		want = append(want, name)
	}
	for name, lines := range r.lines {
		text := read(filepath.Join(dir, name))
		for _, line := range lines {
			if strings.Count(text, line[0]) != 1 {
				t.Fatalf("%s has no %q, or several", name, line[0])
			}
			text = strings.Replace(text, line[0], line[1]+line[0], 1)
		}
		write(name, text)
		want = append(want, name)
	}
	// Without -trimpath the copy's folder is part of what is compiled, and nothing is found in the build cache.
	run := func(passed string, args ...string) {
		t.Helper()
		c := exec.Command("go", append([]string{"test", "-trimpath", "-vet=off", "-count=1", "-v"}, args...)...)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: "+passed+" ")) {
			t.Fatalf("%v: %v\n%s", c.Args, err, out)
		}
	}
	if len(r.generate) > 0 {
		first, _, _ := strings.Cut(r.generate[2], "|")
		run(first, r.generate...)
	}
	for name, says := range r.says {
		if !strings.Contains(read(filepath.Join(dir, name)), says) {
			t.Errorf("%s does not say %q", name, says)
		}
	}
	for _, test := range r.tests {
		run(test[2], test[0], "-run", test[1])
	}

	var changed []string
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
		if read(path) != string(before) {
			changed = append(changed, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, r.written...)
	slices.Sort(want)
	if !slices.Equal(changed, want) {
		t.Errorf("these files are other than before: %v, want %v", changed, want)
	}
}
