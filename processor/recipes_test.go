package processor

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"odradek/detectors"
	_ "odradek/detectors/ops" // all ops have their numbers
)

// recipe is what CONTRIBUTING.md says of how to add something, followed literally.
type recipe struct {
	files   map[string]string      // new files by their name, from the repository's folder
	lines   map[string][][2]string // by file: a text that it has once, and the lines to add before it
	tests   [][]string             // package, pattern, and a test that must have passed
	written []string               // files that go generate writes, or changes
	says    map[string]string      // by generated file: what it says of the addition
}

const additions, toyOp = "processor/testdata/recipes/", "cuda/testdata/toyop/"

var recipes = map[string]recipe{
	"output": {
		files: map[string]string{"processor/cycle/toy.go": additions + "output/toy.go",
			"processor/toy_test.go": additions + "output/toy_test.go"},
		lines: map[string][][2]string{
			"processor/cycle/table.go": {
				{"\toutputCount\n", "\tToy\n"},
				{"}\n\n// ChangelogSpec describes", "\tToy: {Name: \"toy\", Setting: \"TOY_TOPIC\", Holds: \"the counts\", " +
					"Doc: \"Topic of a toy.\", write: (*Writer).writeToy},\n"},
			},
			"docs/outputs.md": {{"| `<group>-late` |", "| `<group>-toy` | how many scores a chunk has |\n"}},
		},
		tests:   [][]string{{"./processor/cycle", "^TestOutputs$", "TestOutputs"}, {"./processor", "^TestToy$", "TestToy"}},
		written: []string{"docs/configuration.md"},
		says:    map[string]string{"docs/configuration.md": "`ODRADEK_TOY_TOPIC` | &lt;group>-toy"},
	},
	"format": {
		files: map[string]string{"schemas/toy/toy.go": additions + "format/toy.go",
			"schemas/formats/toy_test.go": additions + "format/toy_test.go"},
		lines: map[string][][2]string{
			"schemas/formats/table.go": {{"}\n\n// Auto is", "\t&toy.Format,\n"}, {")\n\n// table lists", "\t\"odradek/schemas/toy\"\n"}},
		},
		tests:   [][]string{{"./schemas/formats", "^TestToy$", "TestToy"}, {"./cmd/internal/config", "^TestFormatNames$", "TestFormatNames"}},
		written: []string{"docs/configuration.md"},
		says:    map[string]string{"docs/configuration.md": "otlp, toy"},
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
	// An op without parameters and without a kernel.
	"op": {
		files: map[string]string{"detectors/step/step.go": additions + "op/step.go"},
		lines: map[string][][2]string{"detectors/ops/ops.go": {{"\t// Ops without shapes.\n", "\t_ \"odradek/detectors/step\"\n"}}},
		tests: [][]string{{"./detectors", "^TestCPU$/^one_core$/^step$", "TestCPU/one_core/step"}, {"./detectors/ops", "", "TestParamTables"},
			{"./processor/state", "^TestAnomalyCoversItsFault$", "TestAnomalyCoversItsFault"}},
		written: []string{"docs/configuration.md", "docs/ops/step.md", "docs/ops/step.svg"},
		says:    map[string]string{"docs/configuration.md": "solvingset, step, svdsst"},
	},
	// An op with both: TestToyOpEmulated of package cuda runs its kernel.
	"opkernel": {
		files: map[string]string{"cuda/kernels/toy.cu": toyOp + "cuda/kernels/toy.cu", "cuda/plan/toy.go": toyOp + "cuda/plan/toy.go",
			"detectors/ops/toy/toy.go": toyOp + "detectors/ops/toy/toy.go"},
		lines: map[string][][2]string{
			"detectors/ops/ops.go": {{"\t// Ops without shapes.\n", "\t_ \"odradek/detectors/ops/toy\"\n"}},
			"cuda/plan/ops.go":     {{"\t&ikasstPlan,\n", "\t&toyPlan,\n"}},
		},
		tests: [][]string{{"./detectors", "^TestCPU$/^one_core$/^toy$", "TestCPU/one_core/toy"},
			{"./detectors/ops", "^TestDescribe$", "TestDescribe"}},
		written: []string{"cuda/kernels/toy_params.h", "docs/configuration.md", "docs/ops/toy.md", "docs/ops/toy.svg"},
		says: map[string]string{"docs/configuration.md": "topn, toy, value",
			"docs/ops/toy.md": "| `COUNT_FROM` | integer | `1099511627776` | 0 to 281474976710656 | The first number of the count in the carry. | `7` |"},
	},
	"setting": {
		files: map[string]string{"cmd/internal/config/toy_test.go": additions + "setting/toy_test.go"},
		lines: map[string][][2]string{
			"cmd/internal/config/config.go": {{"\tLogLevel ", "\tToyTime time.Duration `env:\"TOY_TIME\" envDefault:\"1s\" min:\"0s\" max:\"1h\" doc:\"Time of a toy.\"`\n"}},
		},
		tests:   [][]string{{"./cmd/internal/config", "^(TestToy|TestNamedSettingsExist)$", "TestToy"}},
		written: []string{"docs/configuration.md"},
		says:    map[string]string{"docs/configuration.md": "`ODRADEK_TOY_TIME` | `1s` | 0s to 1h | Time of a toy."},
	},
}

// generators are the tests that write the generated files, as go generate runs them: package, pattern, one of them.
var generators = [][]string{
	{"./cuda/kernels", "TestParams", "TestParams"},
	{"./cmd/internal/config", "TestConfigurationDoc|TestOpPages", "TestConfigurationDoc"},
}

// TestRecipes follows the recipes of CONTRIBUTING.md in one copy of the module, which takes minutes to compile: with the
// files and lines that the recipes name, and what go generate writes, each addition works, is documented, and nothing else
// has to change.
func TestRecipes(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go to build a copy of the module with")
	}
	m := toyModule{t.TempDir()}
	for _, part := range []string{"processor", "detectors", "cuda", "schemas", "cmd/internal", "docs"} {
		if err := os.CopyFS(filepath.Join(m.dir, part), os.DirFS(filepath.Join("..", part))); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		m.write(t, name, m.read(t, filepath.Join("..", name)))
	}
	names := slices.Sorted(maps.Keys(recipes))
	want := map[string]bool{}
	ops := len(detectors.Ops())
	for _, name := range names {
		for _, name := range m.add(t, recipes[name], &ops) {
			want[name] = true
		}
	}
	for _, g := range generators {
		m.test(t, g[0], g[1], g[2], "-update")
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			r := recipes[name]
			for name, says := range r.says {
				if !strings.Contains(m.read(t, filepath.Join(m.dir, name)), says) {
					t.Errorf("%s does not say %q", name, says)
				}
			}
			for _, test := range r.tests {
				m.test(t, test[0], test[1], test[2])
			}
		})
	}
	if changed, want := m.changed(t), slices.Sorted(maps.Keys(want)); !slices.Equal(changed, want) {
		t.Errorf("these files are other than before: %v, want %v", changed, want)
	}
}

// toyModule is a copy of the module.
type toyModule struct{ dir string }

func (m toyModule) read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (m toyModule) write(t *testing.T, name, text string) {
	t.Helper()
	name = filepath.Join(m.dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// add adds the files and lines of a recipe, and returns the files that it may change. An op gets the next number.
func (m toyModule) add(t *testing.T, r recipe, ops *int) []string {
	t.Helper()
	const number = "const Op detectors.Op = "
	names := slices.Clone(r.written)
	for name, from := range r.files {
		text := m.read(t, filepath.Join("..", from))
		if before, after, ok := strings.Cut(text, number+"0\n"); ok {
			text = before + number + strconv.Itoa(*ops) + "\n" + after
			*ops++
		}
		m.write(t, name, text)
		names = append(names, name)
	}
	for name, lines := range r.lines {
		text := m.read(t, filepath.Join(m.dir, name))
		for _, line := range lines {
			if strings.Count(text, line[0]) != 1 {
				t.Fatalf("%s has no %q, or several", name, line[0])
			}
			text = strings.Replace(text, line[0], line[1]+line[0], 1)
		}
		m.write(t, name, text)
		names = append(names, name)
	}
	return names
}

// test runs tests of a package of the copy, of which one that is named must have passed. Without -trimpath the copy's
// folder is part of what is compiled, and nothing is found in the build cache.
func (m toyModule) test(t *testing.T, pkg, pattern, passed string, flags ...string) {
	t.Helper()
	c := exec.Command("go", append([]string{"test", "-trimpath", "-vet=off", "-count=1", "-v", pkg, "-run", pattern}, flags...)...)
	c.Dir = m.dir
	if out, err := c.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: "+passed+" ")) {
		t.Fatalf("%v: %v\n%s", c.Args, err, out)
	}
}

// changed lists the copy's files that differ from the repository's.
func (m toyModule) changed(t *testing.T) (changed []string) {
	t.Helper()
	err := filepath.WalkDir(m.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(m.dir, path)
		if err != nil {
			return err
		}
		before, err := os.ReadFile(filepath.Join("..", name))
		if err != nil && !os.IsNotExist(err) {
			return err
		}
		if m.read(t, path) != string(before) {
			changed = append(changed, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return changed
}
