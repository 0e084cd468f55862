package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"odradek/cmd/internal/config"
)

const module = "odradek"

// layers says which packages of the module the code of a folder may import. The first pattern that matches the folder counts;
// tests may import anything but what has a home. Go's internal folders hold the rest.
var layers = []struct{ dir, imports string }{
	{"cmd/worker", "cmd/internal/... processor/... detectors/... cuda schemas/..."},
	{"cmd/internal/config/settingsfile", ""},
	{"cmd/internal/...", "cmd/internal/... processor/... detectors/... schemas/..."},
	{"cmd/demo", "cmd/internal/... processor/... schemas/..."},
	{"cmd/bench/...", "cmd/bench/... cmd/internal/... processor/... detectors/... cuda/... schemas/..."},
	{"processor/kafka/record", ""},
	{"processor/kafka/internal/...", "processor/kafka/... processor/kafkatest"},
	{"processor/kafka", "processor/kafka/record"},
	{"processor/kafkatest/...", "processor/kafkatest"},
	{"processor/anomaly", "processor/state/changelog detectors/ensemble detectors/threshold"},
	{"processor/state/changelog", "detectors"},
	{"processor/state/rules", "processor/anomaly processor/state/changelog detectors/..."},
	{"processor/state/series", "processor/anomaly processor/state/changelog processor/state/rules detectors/..."},
	{
		"processor/state/checkpoint",
		"processor/anomaly processor/state/changelog processor/state/rules processor/state/series detectors/...",
	},
	{"processor/state", "processor/anomaly processor/state/... detectors/..."},
	{"processor/...", "processor/... detectors/... schemas/..."},
	{"detectors", "detectors/vec"},
	{"detectors/ops", "detectors/..."},
	{"detectors/executortest", "detectors/..."},
	{"detectors/vec", ""}, {"detectors/quality", ""}, {"detectors/seedtest", ""}, {"detectors/threshold", ""}, {"detectors/ensemble", ""},
	{"detectors/*", "detectors detectors/vec"},
	{"cuda/kernels/...", ""},
	{"cuda/...", "cuda/... detectors/..."},
	{"schemas/formats", "schemas/..."},
	{"schemas/output", "schemas schemas/avro"},
	{"schemas/expression", ""},
	{"schemas/...", "schemas schemas/expression"},
}

// homes says which folders alone may import a package; with tests set, tests of any folder may.
var homes = []struct {
	imported, dirs string
	tests          bool
}{
	{"github.com/segmentio/kafka-go/...", "processor/kafka", false},
	{"github.com/twmb/franz-go/...",
		"processor/kafkatest processor/kafka/internal/brokertest schemas/schematest cmd/bench/faults cmd/bench/testbed cmd/bench/worker", true},
	{"github.com/linkedin/goavro/...", "schemas/avro schemas/schematest cmd/bench/ops cmd/bench/worker", true},
	{"github.com/bufbuild/protocompile/...", "schemas/protobuf", true},
	{"google.golang.org/protobuf/...", "schemas/protobuf schemas/otlp", true},
	{"cel.dev/cel-go/...", "schemas/expression", false},
	{"github.com/parquet-go/parquet-go/...", "cmd/internal/table cmd/bench/worker", true},
	{"github.com/caarlos0/env/...", "cmd/internal/config", false},
	{"github.com/aws/...", "cmd/internal/credentials", false},
	{"golang.org/x/oauth2/...", "cmd/internal/credentials", false},
	{"github.com/prometheus/...", "processor processor/metrics cmd/internal/page cmd/worker", true},
	{"go.opentelemetry.io/...", "cmd/worker", true},
	{"go.yaml.in/yaml/v3", "cmd/internal/config/settingsfile cmd/internal/try", false},
	{"gorgonia.org/cu/...", "cuda/device", false},
	{"C", "cuda/device", false},
	{"unsafe", "cuda cuda/plan cuda/device detectors/vec", true},
	{"testing", "detectors/executortest detectors/seedtest processor/kafka/internal/* schemas/schematest", true},
	{module + "/cuda/...", "cuda/... cmd/worker cmd/bench/... cmd/demo", false},
	{module + "/processor/kafkatest", "processor/kafkatest/up processor/kafka/internal/brokertest cmd/bench/... cmd/demo", true},
	{module + "/schemas/schematest", "", true},
	{module + "/detectors/executortest", "", true},
	{module + "/detectors/seedtest", "detectors/executortest processor/kafka/internal/*", true},
	{"github.com/influxdata/...", "", true},
	{"github.com/compose-spec/...", "", true},
	{"github.com/moby/...", "", true},
	{"go.yaml.in/yaml/v4", "", true},
}

// The results of what is pure follow from its input alone: no clock, log, file, network or random source of the process.
const (
	pure   = "detectors/... processor/state/... processor/anomaly processor/kafka/record cuda/plan"
	impure = "time log log/slog math/rand crypto/rand net net/http os"
	// What reads labelled files, measures time or makes seeds is not pure.
	testTools = "detectors/executortest detectors/seedtest detectors/quality"
)

func matches(pattern, name string) bool {
	if base, ok := strings.CutSuffix(pattern, "/..."); ok {
		return name == base || strings.HasPrefix(name, base+"/")
	}
	ok, _ := path.Match(pattern, name) // the patterns here are well formed
	return ok
}

func anyMatches(patterns, name string) bool {
	return slices.ContainsFunc(strings.Fields(patterns), func(p string) bool { return matches(p, name) })
}

// importFault says what is wrong with a file's import; "" for nothing.
func importFault(file, imported string) string {
	dir, test := path.Dir(file), strings.HasSuffix(file, "_test.go")
	for _, h := range homes {
		if matches(h.imported, imported) && !anyMatches(h.dirs, dir) && !(test && h.tests) {
			return "only these may import it: " + h.dirs
		}
	}
	if test {
		return ""
	}
	if anyMatches(impure, imported) && anyMatches(pure, dir) && !anyMatches(testTools, dir) {
		return "results here follow from the input alone"
	}
	target, ours := strings.CutPrefix(imported, module+"/")
	for _, l := range layers {
		if matches(l.dir, dir) {
			if ours && !anyMatches(l.imports, target) {
				return l.dir + " may import of the module: " + l.imports
			}
			return ""
		}
	}
	return "no layer has the folder " + dir
}

// unseeded returns the functions of math/rand/v2 in a file that draw from the process's own source.
func unseeded(f *ast.File) (uses []string) {
	seeded := strings.Fields("New NewPCG NewChaCha8 NewZipf Rand PCG ChaCha8 Zipf Source")
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "rand" && x.Obj == nil && !slices.Contains(seeded, s.Sel.Name) {
				uses = append(uses, s.Sel.Name)
			}
		}
		return true
	})
	return uses
}

// eachFile calls see with every Go file of the module but for programs in no build, and with the file's path in the module.
func eachFile(t *testing.T, see func(rel string, f *ast.File)) {
	t.Helper()
	root, files := filepath.Join("..", ".."), 0
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, other := os.Stat(filepath.Join(name, "go.mod"))
			if base := d.Name(); name != root && (strings.HasPrefix(base, ".") || base == "testdata" || base == "bin" || other == nil) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		if len(f.Comments) > 0 && f.Comments[0].List[0].Text == "//go:build ignore" {
			return nil
		}
		rel, err := filepath.Rel(root, name)
		files++
		see(filepath.ToSlash(rel), f)
		return err
	})
	if err != nil || files < 500 {
		t.Fatalf("%d files seen: %v", files, err)
	}
}

// TestLayers holds every file of the module to the arrows of docs/architecture.md.
func TestLayers(t *testing.T) {
	eachFile(t, func(rel string, f *ast.File) {
		dir, product := path.Dir(rel), !strings.HasSuffix(rel, "_test.go")
		for _, i := range f.Imports {
			p, err := strconv.Unquote(i.Path.Value)
			must(t, err)
			if fault := importFault(rel, p); fault != "" {
				t.Errorf("%s imports %s: %s", rel, p, fault)
			}
			if p == "math/rand/v2" && product && anyMatches(pure, dir) && !anyMatches(testTools, dir) {
				for _, use := range unseeded(f) {
					t.Errorf("%s uses rand.%s, the random source of the process", rel, use)
				}
			}
		}
	})
}

// variablesIn are the folders whose code may name an environment variable: programs, and what is there for tests.
const variablesIn = "cmd/... processor/kafkatest/... processor/kafka/internal/... schemas/schematest " +
	"detectors/executortest detectors/seedtest deploy/... scripts/..."

// variable returns a variable of the worker that a file names in a text or a comment; "" for none.
func variable(f *ast.File) (name string) {
	find := func(text string) {
		if at := strings.Index(text, config.Prefix); at >= 0 && name == "" {
			name = strings.FieldsFunc(text[at:], func(r rune) bool { return r != '_' && (r < 'A' || r > 'Z') })[0]
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			find(l.Value)
		}
		return true
	})
	for _, c := range f.Comments {
		find(c.Text())
	}
	return name
}

// TestVariables holds that libraries name settings by their fields: package config knows the variables.
func TestVariables(t *testing.T) {
	eachFile(t, func(rel string, f *ast.File) {
		if name := variable(f); name != "" && !strings.HasSuffix(rel, "_test.go") && !anyMatches(variablesIn, path.Dir(rel)) {
			t.Errorf("%s names the variable %s: name the setting as a settings file has it, see config.WithVariables", rel, name)
		}
	})
}

// TestLayersBite holds that the rules refuse what they are there for.
func TestLayersBite(t *testing.T) {
	for _, c := range []struct {
		file, imported string
		ok             bool
	}{
		{"processor/commit.go", "odradek/processor/state", true},
		{"processor/commit.go", "odradek/cuda", false},
		{"processor/commit_test.go", "odradek/cuda", false},
		{"processor/commit.go", "odradek/processor/kafkatest", false},
		{"processor/commit.go", "github.com/segmentio/kafka-go/protocol", false},
		{"processor/commit.go", "github.com/twmb/franz-go/pkg/kgo", false},
		{"processor/commit_test.go", "github.com/twmb/franz-go/pkg/kgo", true},
		{"processor/kafka/produce.go", "github.com/segmentio/kafka-go/protocol", true},
		{"processor/kafka/produce.go", "odradek/schemas", false},
		{"processor/kafka/record/records.go", "odradek/processor/kafka", false},
		{"processor/state/state.go", "odradek/schemas", false},
		{"processor/state/state.go", "time", false},
		{"processor/state/rules/rules.go", "odradek/processor/state/series", false},
		{"detectors/op.go", "odradek/detectors/lof", false},
		{"detectors/lof/lof.go", "odradek/detectors/vec", true},
		{"detectors/lof/lof.go", "odradek/detectors/knn", false},
		{"detectors/lof/lof.go", "log/slog", false},
		{"detectors/lof/lof.go", "unsafe", false},
		{"cuda/executor.go", "odradek/processor", false},
		{"cuda/executor.go", "C", false},
		{"cuda/plan/planner.go", "os", false},
		{"cmd/worker/run.go", "odradek/cmd/bench/ops", false},
		{"cmd/worker/run.go", "github.com/caarlos0/env/v10", false},
		{"cmd/internal/why/why.go", "odradek/cuda", false},
		{"schemas/avro/codec.go", "odradek/schemas/registry", false},
		{"processor/newidea/x.go", "odradek/cuda", false},
		{"newidea/x.go", "fmt", false},
	} {
		if fault := importFault(c.file, c.imported); (fault == "") != c.ok {
			t.Errorf("%s importing %s: %q, want it allowed: %t", c.file, c.imported, fault, c.ok)
		}
	}
}

// TestProduct holds that the worker's binary has no broker, no second Kafka client and nothing else that is there for tests.
func TestProduct(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	list := strings.Fields(string(out))
	for _, p := range list {
		if strings.HasSuffix(p, "test") &&
			!anyMatches("internal/... "+module+"/cmd/internal/backtest", p) || // internal/synctest is the runtime's
			anyMatches("testing/... github.com/twmb/... "+module+"/cmd/demo/... "+module+"/cmd/bench/...", p) {
			t.Errorf("the worker contains %s", p)
		}
	}
	if !slices.Contains(list, module+"/processor/kafka") {
		t.Errorf("the list of %d packages lacks the Kafka client: is it the worker's?", len(list))
	}
}
