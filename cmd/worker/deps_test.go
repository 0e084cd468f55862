package main

import (
	"cmp"
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
)

const module = "odradek"

// within says which packages of the module a package's code may import: a
// pattern of its folder, those of the folders it may import, and why no others.
// The first that matches counts. Tests may import anything but what never and only
// forbid.
var within = []struct{ dir, imports, why string }{
	{"cmd/worker", "*", "the program puts everything together"},
	{"cmd/internal/config", "", "a number of bytes is text, and no setting"},
	{"cmd/internal/config/settingsfile", "", "it knows the shape of a file, and no setting"},
	{"cmd/internal/config", "", "it knows how variables are named, and no setting"},
	{"cmd/internal/config", "processor/state/rules", "it matches names, whatever they are of"},
	{"cmd/internal/config", "detectors/threshold", "a length is text, and no setting"},
	{"cmd/internal/config", "", "it reads numbers, whatever they are for"},
	{"cmd/internal/config", "", "it hides text, whatever the setting"},
	{"cmd/internal/config", "", "it asks the system, and knows no setting"},
	{"cmd/internal/config", "", "a preset is text, and checked like any other settings"},
	{"cmd/internal/config",
		"cmd/internal/config cmd/internal/config cmd/internal/config " +
			"cmd/internal/config cmd/internal/config/settingsfile " +
			"cmd/internal/config cmd/internal/config cmd/internal/config cmd/internal/config " +
			"processor processor/cycle processor/cycle " +
			"processor processor cmd/internal/page processor/kafka " +
			"processor/kafka/record processor processor/state processor/state/rules processor/state/series " +
			"processor/state/rules " +
			"processor/state/rules " +
			"processor/anomaly detectors detectors/ops detectors/scan detectors/season " +
			"detectors/season detectors/threshold detectors/ensemble schemas schemas/*",
		"settings are read and checked without a device, a broker or a command"},
	{"cmd/internal/config", "cmd/internal/config processor processor/state processor/state/series processor/metrics processor/cycle",
		"it compares settings and hands on those that may change; no broker, no command"},
	{"cmd/worker", "", "an id is kept in a folder; no setting, no group"},
	{"cmd/internal/admin",
		"cmd/internal/config cmd/internal/config cmd/internal/config cmd/internal/backtest detectors processor processor " +
			"processor/cycle processor processor processor processor/kafka " +
			"processor/kafka processor/kafka/record processor/state processor/state/series schemas schemas/formats schemas/registry",
		"a start is checked from outside, by the fold of a replay on the CPU: no GPU, no command"},
	{"cmd/demo",
		"cmd/internal/config cmd/internal/sensors processor/kafka processor/kafka processor/kafka/record processor/kafkatest schemas schemas/*",
		"the workers are other programs: the demo knows their settings and topics"},
	{"cmd/bench", "cmd/bench/* cmd/internal/config processor/kafkatest", "the program knows its benchmarks, which measure"},
	{"cmd/bench/testbed", "", "a table is made without knowing what its figures are of"},
	{"cmd/bench/testbed", "", "all benchmarks obey it"},
	{"cmd/bench/testbed", "", "it reads what the system counts"},
	{"cmd/bench/testbed", "cuda", "benchmarks of ops and of workers open the same GPUs"},
	{"cmd/bench/testbed", "cmd/bench/testbed cmd/bench/testbed cmd/bench/testbed cmd/internal/config processor/kafka processor/kafka/record " +
		"processor/kafkatest schemas schemas/*", "it runs workers as other programs, and the benchmarks say which figures they take"},
	{"cmd/bench/ops", "cmd/bench/testbed cmd/bench/testbed cmd/bench/testbed cmd/bench/testbed cuda cuda/plan detectors detectors/* detectors/ops/* " +
		"processor/kafkatest schemas schemas/*", "what computes is measured without a worker"},
	{"cmd/bench/worker", "cmd/bench/testbed cmd/bench/testbed cmd/bench/testbed cmd/internal/config detectors detectors/ops/* processor/kafka " +
		"processor/kafka/record processor/kafkatest processor/state processor/state/series schemas/output",
		"one worker is measured from outside"},
	{"cmd/bench/fleet", "cmd/bench/testbed cmd/bench/testbed cmd/bench/testbed cmd/bench/testbed cmd/internal/config processor/kafka " +
		"processor/kafka/record processor/kafkatest schemas/output", "a fleet is measured from outside"},
	{"detectors/quality", "", "it compares scores with labels, wherever both come from"},
	{"cmd/internal/backtest", "detectors/quality processor/anomaly processor/state processor/state/rules processor/state/rules",
		"what labels teach is measured by the worker's own rule; whoever runs the detectors hands in the anomalies"},
	{"cmd/internal/backtest", "processor/state detectors",
		"a replay is the fold of the worker without Kafka, and takes any executor"},
	{"cmd/internal/backtest", "schemas schemas/avro", "files of rows are read and written without knowing what becomes of the rows"},
	{"cmd/internal/backtest",
		"detectors/quality cmd/internal/backtest cmd/internal/backtest processor/kafka processor/kafka processor/kafka/record " +
			"processor/state processor/state/series processor/anomaly processor/cycle " +
			"detectors detectors/discord detectors/discord detectors/threshold schemas schemas/output",
		"a backtest shares rows out and gathers what the fold finds; settings and commands are the program's"},
	{"cmd/worker", "cmd/internal/config cmd/internal/admin cuda detectors processor/metrics cmd/internal/page",
		"the settings choose between executors; what they score is not known here"},
	{"cmd/internal/why",
		"cmd/internal/backtest processor/kafka processor/kafka processor/kafka/record processor/state processor/state/series " +
			"processor/cycle detectors detectors/threshold schemas schemas/output",
		"a score is explained by the fold that made it; settings and commands are the program's"},
	{"cmd/internal/why", "cmd/internal/config processor/kafka processor/kafka processor/kafka/record processor",
		"earlier settings are rebuilt from what the changelog has recorded, for whatever purpose"},
	{"cmd/internal/suggest",
		"cmd/internal/config cmd/internal/config cmd/internal/config cmd/internal/config/settingsfile cmd/internal/backtest " +
			"processor/anomaly processor/kafka " +
			"processor/kafka processor/kafka/record processor/state processor/cycle detectors detectors/threshold schemas " +
			"schemas/formats schemas/registry",
		"settings are proposed from what records say, by the fold that will read them; it starts no worker"},
	{"cmd/internal/admin", "processor/kafka processor/kafka processor/kafka/record processor/cycle schemas",
		"letters are read and sent again whatever their format is; settings and commands are the program's"},
	{"cmd/internal/admin",
		"cmd/internal/config cmd/internal/page cmd/internal/admin processor/feedback processor/kafka processor/kafka " +
			"processor/kafka/record processor/state processor/cycle processor",
		"stored state is read and changed from outside, without a processor; flags are the program's"},
	{"cmd/internal/page",
		"cmd/internal/config detectors/discord detectors/discord detectors/threshold processor/feedback processor/kafka " +
			"processor/kafka processor/kafka/record processor/state/rules processor/state/series processor/cycle " +
			"processor/trouble cmd/internal/page schemas schemas/formats schemas/output schemas/registry",
		"what the group has published is read beside the processor, and shares nothing with it"},
	{"cmd/internal/page", "cmd/internal/config processor processor/state processor/metrics cmd/internal/page",
		"it shows one worker, and changes nothing"},
	{"cmd/worker", "processor/cycle", "it shows cycles to others, and is the one package that knows how"},
	{"cmd/internal/sensors", "processor/kafka processor/kafka/record schemas/output",
		"signals are made and written to Kafka; nothing is scored here"},
	{"processor",
		"processor/cycle processor processor processor/cycle processor processor/trouble " +
			"processor processor processor processor processor/feedback processor " +
			"processor/cycle processor/state processor/state/rules processor/state/series processor/anomaly processor/metrics " +
			"processor/kafka processor/kafka processor/kafka processor/kafka/record cmd/internal/page " +
			"detectors detectors/threshold schemas schemas/output schemas/registry",
		"the processor is handed an Executor and knows no device; cmd puts the two together"},
	{"processor/state", "processor/state/* processor/anomaly detectors detectors/threshold detectors/ensemble detectors",
		"state is a fold of the log, without Kafka and without a wire format, so that replay gives the same scores"},
	{"processor/state/internal/heap", "", "it orders values of any kind"},
	{"processor/state/changelog", "detectors", "it writes numbers and words, whatever they say"},
	{
		"processor/state/rules",
		"processor/state/changelog",
		"it lists settings of decoders and of the order of samples, and does nothing with them",
	},
	{"processor/state/rules", "processor/state/changelog processor/state/rules processor/anomaly detectors/threshold",
		"it says how scores are judged, and judges none"},
	{"processor/state/rules", "processor/state/changelog", "what a decision does to the state is the state's"},
	{"processor/state", "", "it is arithmetic"},
	{
		"processor/state",
		"processor/state processor/state/internal/heap",
		"it orders keys of any kind by when they were last used",
	},
	{"processor/state", "processor/state processor/state/internal/heap processor/anomaly",
		"it orders keys of any kind by their newest sample, and a silence is an anomaly"},
	{"processor/state", "processor/state processor/anomaly", "it knows groups by name, not the series that are in them"},
	{"processor/state/checkpoint", "", "it is what an offset commit says"},
	{"processor/state/checkpoint", "processor/state/changelog processor/state/series", "it writes held samples of any kind of key"},
	{
		"processor/state",
		"processor/state processor/state/checkpoint",
		"what a sample says, but for its time, is its owner's",
	},
	{"processor/state", "processor/state/checkpoint", "what an operation changes is its owner's"},
	{"processor/state/rules", "", "it compares numbers"},
	{"processor/state/rules", "processor/state/changelog processor/state/rules", "it knows detectors and series by name"},
	{"processor/state/rules", "processor/state/changelog processor/state/rules processor/anomaly",
		"it compares anomalies, wherever they and their labels come from"},
	{
		"processor/state",
		"processor/state/rules processor/state/rules processor/state/rules processor/state/rules processor/state/series",
		"it says what is in force, and judges nothing",
	},
	{"processor/state/series",
		"processor/state/changelog processor/state/rules processor/state/rules processor/anomaly detectors detectors/threshold " +
			"detectors/ensemble detectors",
		"what is remembered of one series does not depend on the others, on undo or on batches"},
	{"processor/state", "processor/state/series detectors",
		"how a window becomes a task does not depend on the series' owner, or on what scores do to it"},
	{"processor/state/series", "processor/state/internal/heap", "it holds samples of any kind of key"},
	{"processor/state/series", "processor/state/series processor/state/series", "what becomes of a key is the state's"},
	{"processor/state/checkpoint", "processor/state/changelog", "it compares fingerprints, whatever they stand for"},
	{
		"processor/state/checkpoint",
		"processor/state/changelog processor/state/checkpoint processor/state/series processor/state/series",
		"it writes keys; when is the state's to know",
	},
	{
		"processor/state/checkpoint",
		"processor/state/changelog processor/state/rules processor/state/checkpoint processor/state/series " +
			"processor/state/checkpoint processor/state/rules processor/state/series processor/state/checkpoint",
		"it reads keys; what the input adds is the state's to know",
	},
	{
		"processor/state/checkpoint",
		"processor/state/changelog processor/state/rules processor/state/rules processor/state/series processor/state/series",
		"it measures a changelog without a state",
	},
	{"processor/cycle",
		"processor/state processor/state/series processor/anomaly processor/metrics processor/kafka processor/kafka/record " +
			"detectors detectors/threshold schemas/output",
		"results become records here, however they are committed"},
	{"processor/cycle", "processor/kafka/record processor/state processor/cycle processor/metrics processor/cycle",
		"what a transaction contains does not depend on how it is committed, or on what made it"},
	{"processor", "processor/metrics processor processor/kafka processor/kafka processor/state",
		"a status is set by one goroutine and read by any, whatever it is for"},
	{
		"processor/feedback",
		"processor/kafka processor/kafka processor/kafka/record processor/anomaly processor/state processor/state/rules " +
			"processor/state/rules processor/state/rules processor/cycle processor/trouble schemas schemas/output schemas/registry",
		"a topic is read beside the input; partitions decide what becomes of it",
	},
	{"processor/trouble", "", "it limits lines, whatever they say"},
	{"processor/cycle", "processor/kafka", "limits follow from measurements; others take them"},
	{
		"processor",
		"processor/state processor/state/rules processor/cycle processor schemas schemas/formats schemas/registry",
		"what a topic's shape decides is handed on, and nothing is done with it",
	},
	{"processor", "", "it compares two times, whatever they are of"},
	{
		"processor",
		"detectors processor/kafka processor/kafka/record",
		"every part of the processor can pause a partition, also for what a detector panics with",
	},
	{"processor", "processor/feedback processor/kafka processor/cycle processor",
		"dead letters are counted without knowing the records"},
	{"processor", "processor processor processor processor/cycle processor processor/trouble " +
		"processor/state processor/kafka processor/kafka processor/kafka/record",
		"what a partition resumes from is decided without folding, and shown by check"},
	{
		"processor",
		"processor/kafka",
		"every part of the processor can refuse what the operator has to decide: it imports only names of partitions",
	},
	{"processor", "processor processor/kafka processor/state",
		"two records are compared with the configuration; their readers restore, show or delete state"},
	{"processor/anomaly", "detectors/threshold processor/state/changelog",
		"the life of an anomaly follows from scores and thresholds alone, and is stored as the changelog's values are"},
	{"processor/kafka", "processor/kafka/record processor/kafka processor/kafka",
		"the client carries bytes and knows nothing of what is in them"},
	{"processor/kafka", "processor/kafka processor/kafka/record processor/kafka processor/kafka",
		"a member needs requests and partition counts; it knows nothing of what is read from its partitions"},
	{"processor/kafka", "processor/kafka processor/kafka/record processor/kafka processor/kafka",
		"chunks are fetched of the partitions that are added, in a group or not"},
	{"processor/kafka", "", "it writes and reads fields, whatever request they are of"},
	{"processor/kafka", "", "it waits, whatever for"},
	{"processor/kafka/record", "", "batches are read and written without a client, so that bytes alone test them"},
	{"processor/kafka/internal/recordtest", "", "the tests of all that it makes records for can import it"},
	{"processor/kafka/internal/brokertest", "processor/kafka/internal/recordtest processor/kafka/record processor/kafkatest",
		"the client's own tests can import it"},
	{"processor/kafka", "processor/kafka processor/kafka/internal/brokertest",
		"the tests of what stands on the client can import it"},
	{"processor/metrics", "processor/kafka processor/state schemas/*",
		"other packages move the counters, which know no more than what is counted"},
	{"cmd/internal/page", "", "pages show what they are handed"},
	{"processor/kafkatest", "", "what judges the product shares no code with it, and every package's tests can import it"},
	{"processor/kafkatest/up", "processor/kafkatest", "it starts brokers for tests and nothing else"},
	{"detectors", "detectors/vec detectors", "the contract knows no op: each registers itself"},
	{"detectors/ops", "detectors detectors/ops/*", "it lists the ops"},
	{"detectors/signals", "detectors", "the cases of every op can be made of its series"},
	{"detectors/sst", "detectors detectors/sst", "it describes change scores, whichever op computes them"},
	{
		"detectors/ops/*",
		"detectors detectors/* detectors/signals detectors/sst",
		"an adapter knows the contract and methods, and no other op",
	},
	{"detectors/executortest", "detectors detectors/* detectors/ops/*", "the suite serves any executor"},
	{"detectors/seedtest", "", "the tests of every package can import it"},
	{"detectors/vec", "", "every method imports it: it is the leaf"},
	{"detectors", "", "methods and keystate import it: it is a leaf"},
	{"detectors/ensemble", "", "it combines scores, whatever made them"},
	{"detectors/threshold", "", "keystate, events and settings import it: it is a leaf"},
	{"detectors/*", "detectors/vec", "a method takes slices and gives slices, so that it can be read beside its paper"},
	{"cuda", "cuda/child cuda/kernels cuda/plan cuda/tune detectors", "an executor sees tasks, not where they come from"},
	{"cuda/tune", "", "it compares times, whatever they are of"},
	{"cuda/child", "cuda/kernels cuda/plan", "a process with a device carries bytes out and knows nothing of tasks"},
	{"cuda/plan", "cuda/kernels detectors detectors/ops detectors/ops/*", "a plan follows from a batch alone, so that tables can test it"},
	{"cuda/device", "cuda/kernels cuda/plan", "the child is a program of its own, which knows memory and kernels by the plan's names"},
	{"cuda/kernels", "", "both sides of the protocol embed it"},
	{"cuda/kernels/gen", "", "it starts a compiler and is in no program"},
	{"schemas", "", "the contract knows no format"},
	{"schemas/registry", "schemas", "schemas are fetched and kept whatever their format is"},
	{"schemas/output", "schemas schemas/avro", "the worker's own records are Avro"},
	{"schemas/formats", "schemas schemas/*", "it is the one place that knows all formats"},
	{"schemas/schematest", "schemas", "the tests of every format can import it"},
	{"schemas/*", "schemas", "a format knows the contract, no other format and no registry"},
}

// only says where alone something may be imported: a pattern of the imported
// path ("..." for everything below), those of files, and why nowhere else. With
// tests set, tests may import it anywhere.
var only = []struct {
	imported, files string
	tests           bool
	why             string
}{
	{"github.com/segmentio/kafka-go/...",
		"processor/kafka/* processor/kafka/* processor/kafka/* processor/kafka/* processor/kafka/*", false,
		"the packages of the client answer for the library's faults and for its protocol"},
	{"github.com/linkedin/goavro/...", "schemas/avro/* schemas/schematest/* cmd/bench/ops/* cmd/bench/worker/*", true,
		"a wire format has one home"},
	{"github.com/bufbuild/protocompile/...", "schemas/protobuf/*", true, "a wire format has one home"},
	{"google.golang.org/protobuf/...", "schemas/protobuf/*", true, "a wire format has one home"},
	{"github.com/parquet-go/parquet-go/...", "cmd/internal/backtest/* cmd/bench/fleet/*", true, "one package knows the file formats of tables"},
	{"gonum.org/v1/plot/...", "cmd/internal/backtest/heat*.go cmd/internal/why/draw.go", false,
		"it is 7 MB, for drawings as files; the report draws by itself"},
	{"github.com/twmb/franz-go/...",
		"processor/kafkatest/* processor/kafka/internal/brokertest/* schemas/schematest/* cmd/bench/testbed/* cmd/bench/worker/*", true,
		"the product has one Kafka client; the second one is there to judge it"},
	{module + "/processor/kafkatest",
		"processor/kafkatest/up/* processor/kafka/internal/brokertest/* cmd/bench/* cmd/bench/*/* cmd/demo/*", true,
		"the product carries no broker: 12 MB and a second client"},
	{module + "/schemas/schematest", "", true, "it imports testing, which puts its flags on every program"},
	{module + "/detectors/executortest", "", true, "it imports testing, which puts its flags on every program"},
	{module + "/detectors/seedtest", "detectors/executortest/* processor/kafka/internal/*/*", true,
		"it imports testing, which puts its flags on every program"},
	{"github.com/caarlos0/env/...", "cmd/internal/config/*", false, "a setting that is read elsewhere is neither checked nor documented"},
	{"github.com/prometheus/...", "processor/* processor/metrics/* cmd/internal/page/* cmd/worker/*", true,
		"what is pure counts nothing; its caller does"},
	{"go.opentelemetry.io/...", "cmd/worker/*", false, "it is 5 MB of the worker, with gRPC; what is traced is plain data"},
	{"gorgonia.org/cu/...", "cuda/device/*", false,
		"it needs cgo, and ends the process where there is no device: only the child can afford that"},
	{module + "/cuda/...", "cuda/* cuda/child/* cuda/plan/* cuda/device/* cuda/kernels/params_test.go " +
		"cmd/worker/* cmd/bench/testbed/* cmd/bench/ops/* cmd/demo/cuda*_test.go",
		false, "one place picks the executor; everything else has the interface"},
	{"C", "cuda/device/*", false, "the worker is static, built without cgo"},
	{"unsafe", "cuda/* cuda/plan/* cuda/device/* detectors/vec/*", true,
		"memory is reinterpreted where it is shared with a device or read by assembly, nowhere else"},
	{"testing", "detectors/executortest/* detectors/seedtest/* processor/kafka/internal/*/* schemas/schematest/*", true,
		"it puts its flags on every program that imports it"},
	{"github.com/compose-spec/...", "", true, "it serves the tests of docker-compose.yml"},
	{"github.com/moby/...", "", true, "it serves the tests of .dockerignore"},
	{"go.yaml.in/yaml/v3", "cmd/internal/config/settingsfile/*", false, "one package knows what a settings file looks like"},
	{"go.yaml.in/yaml/v4", "", true, "it serves the tests of the configuration of Prometheus"},
}

// never says what the code (not the tests) in a folder and below may not import,
// and why. The first that matches counts.
var never = []struct{ dir, imports, why string }{
	{"detectors/executortest", "", "it measures time and prints seeds"},
	{"detectors/seedtest", "", "it makes seeds"},
	{"detectors/...", "time log log/slog math/rand crypto/rand net net/http os", pure},
	{"processor/kafka/record/...", "time log log/slog math/rand math/rand/v2 crypto/rand net net/http os", pure},
	{"processor/state/...", "time log log/slog math/rand math/rand/v2 crypto/rand net net/http os", pure},
	{"cuda/plan/...", "time log log/slog math/rand math/rand/v2 crypto/rand net net/http os", pure},
	{"processor/cycle/...", "log log/slog math/rand math/rand/v2 crypto/rand net net/http os", "limits follow from what the caller measures"},
	{"processor/...", "time log log/slog math/rand math/rand/v2 crypto/rand net net/http os", pure},
	{"processor/anomaly/...", "time log log/slog math/rand math/rand/v2 crypto/rand net net/http os", pure},
}

const pure = "results follow from the input alone: no clock, no log, no random source of the process"

// seeded are the names of math/rand/v2 that use no source of the process.
var seeded = []string{"New", "NewPCG", "NewChaCha8", "NewZipf", "Rand", "PCG", "ChaCha8", "Zipf", "Source"}

func matches(pattern, name string) bool {
	if base, ok := strings.CutSuffix(pattern, "/..."); ok {
		return name == base || strings.HasPrefix(name, base+"/")
	}
	if pattern == "*" {
		return true
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
	for _, r := range only {
		if matches(r.imported, imported) && !anyMatches(r.files, file) && !(test && r.tests) {
			return "may be imported only by " + cmp.Or(r.files, "tests") + ": " + r.why
		}
	}
	if test {
		return ""
	}
	for _, r := range never {
		if matches(r.dir, dir) {
			if slices.Contains(strings.Fields(r.imports), imported) {
				return "no code in " + r.dir + " may import it: " + r.why
			}
			break
		}
	}
	if target, ok := strings.CutPrefix(imported, module+"/"); ok {
		for _, r := range within {
			if matches(r.dir, dir) {
				if !anyMatches(r.imports, target) {
					return dir + " may import " + cmp.Or(r.imports, "nothing") + " of the module: " + r.why
				}
				return ""
			}
		}
	}
	return ""
}

// TestImports holds every file of the module to the arrows of the design: cmd ->
// processor, cuda; processor -> keystate, events, detectors, schemas; cuda ->
// detectors -> methods -> vec; one home each for the Kafka client, Avro, the
// environment and the device.
func TestImports(t *testing.T) {
	eachFile(t, func(rel string, f *ast.File) {
		if !slices.ContainsFunc(within, func(r struct{ dir, imports, why string }) bool { return matches(r.dir, path.Dir(rel)) }) {
			t.Errorf("%s: the design has no folder %s", rel, path.Dir(rel))
		}
		if generator(f) {
			return
		}
		for _, i := range f.Imports {
			p, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if fault := importFault(rel, p); fault != "" {
				t.Errorf("%s imports %s: %s", rel, p, fault)
			}
			if p == "math/rand/v2" && strings.HasPrefix(rel, "detectors/") && !strings.HasSuffix(rel, "_test.go") {
				for _, use := range unseeded(f, i) {
					t.Errorf("%s uses rand.%s, the random source of the process", rel, use)
				}
			}
		}
	})
}

// eachFile calls see with every Go file of the module and its path in it.
func eachFile(t *testing.T, see func(rel string, f *ast.File)) {
	t.Helper()
	root := filepath.Join("..", "..")
	files := 0
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if base := d.Name(); name != root && (strings.HasPrefix(base, ".") || base == "testdata" || base == "bin") {
				return filepath.SkipDir
			}
			if _, err := os.Stat(filepath.Join(name, "go.mod")); name != root && err == nil {
				return filepath.SkipDir // another module
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		files++
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		see(filepath.ToSlash(rel), f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 20 {
		t.Fatalf("only %d files seen", files)
	}
}

// generator reports whether a file is in no build: a program that writes others.
func generator(f *ast.File) bool {
	return slices.ContainsFunc(f.Comments, func(c *ast.CommentGroup) bool {
		return c.Pos() < f.Package && slices.ContainsFunc(c.List, func(l *ast.Comment) bool { return l.Text == "//go:build ignore" })
	})
}

// unseeded lists the uses of math/rand/v2's functions without a source.
func unseeded(f *ast.File, i *ast.ImportSpec) (uses []string) {
	name := "rand"
	if i.Name != nil {
		name = i.Name.Name
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == name && !slices.Contains(seeded, s.Sel.Name) {
				uses = append(uses, s.Sel.Name)
			}
		}
		return true
	})
	return uses
}

// TestProduct holds that the worker's binary has no broker, no second Kafka client
// and nothing else that is there for tests: what it imports, at any depth.
func TestProduct(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	list := strings.Fields(string(out))
	for _, p := range list {
		if fault := productFault(p); fault != "" {
			t.Errorf("the worker contains %s: %s", p, fault)
		}
	}
	if !slices.Contains(list, module+"/processor/kafka") {
		t.Errorf("the list of %d packages lacks the Kafka client: is it the worker's?", len(list))
	}
	for p, fine := range map[string]bool{
		module + "/processor/kafkatest": false, module + "/detectors/executortest": false, "net/http/httptest": false, "testing": false,
		"testing/iotest":                     false,
		"github.com/twmb/franz-go/pkg/kfake": false, module + "/cmd/bench": false, module + "/processor/kafka": true,
		"github.com/segmentio/kafka-go": true,
		"internal/synctest":             true, // of the runtime
	} {
		if (productFault(p) == "") != fine {
			t.Errorf("%s: %q, want it allowed: %t", p, productFault(p), fine)
		}
	}
}

// productFault says why a package is not to be in the worker; "" where it may be.
func productFault(imported string) string {
	switch {
	case strings.HasSuffix(imported, "test") && !strings.HasPrefix(imported, "internal/"), matches("testing/...", imported):
		return "it is there for tests"
	case matches("github.com/twmb/...", imported):
		return "the product has one Kafka client"
	case matches(module+"/cmd/demo/...", imported), matches(module+"/cmd/bench/...", imported):
		return "it is a program of its own"
	}
	return ""
}

// TestImportRules holds that the rules bite.
func TestImportRules(t *testing.T) {
	for _, c := range []struct {
		file, imported string
		ok             bool
	}{
		{"processor/cycle.go", "odradek/processor/state", true},
		{"processor/cycle.go", "odradek/cuda", false},
		{"processor/cycle_test.go", "odradek/cuda", false},
		{"processor/cycle.go", "github.com/segmentio/kafka-go/protocol", false},
		{"processor/kafka/produce.go", "github.com/segmentio/kafka-go/protocol", true},
		{"processor/kafka/produce.go", "odradek/schemas", false},
		{"processor/kafka/produce.go", "odradek/processor/kafka/record", true},
		{"processor/kafka/produce.go", "odradek/processor/kafka", false},
		{"processor/kafka/fetch.go", "github.com/segmentio/kafka-go/protocol", true},
		{"processor/kafka/fetch.go", "odradek/processor/kafka", true},
		{"processor/kafka/fetch.go", "odradek/processor/kafka", false},
		{"processor/kafka/group.go", "odradek/processor/kafka", false},
		{"processor/kafka/reader.go", "odradek/processor/kafka", false},
		{"processor/kafka/record/records.go", "odradek/processor/kafka", false},
		{"processor/kafka/record/records.go", "github.com/segmentio/kafka-go", false},
		{"processor/kafka/fetch_test.go", "odradek/processor/kafkatest", true},
		{"processor/cycle.go", "odradek/processor/kafkatest", false},
		{"processor/cycle.go", "github.com/twmb/franz-go/pkg/kgo", false},
		{"processor/cycle_test.go", "github.com/twmb/franz-go/pkg/kgo", true},
		{"processor/kafkatest/fake.go", "github.com/twmb/franz-go/pkg/kfake", true},
		{"processor/kafkatest/fake.go", "odradek/processor/kafka", false},
		{"cmd/bench/worker/path.go", "odradek/processor/kafkatest", true},
		{"cmd/bench/worker/path.go", "odradek/cmd/bench/fleet", false},
		{"cmd/bench/worker/path.go", "github.com/parquet-go/parquet-go", false},
		{"cmd/bench/fleet/backtest.go", "github.com/parquet-go/parquet-go", true},
		{"cmd/bench/testbed/testbed.go", "odradek/cmd/bench/worker", false},
		{"cmd/bench/testbed/report.go", "odradek/cmd/bench/testbed", false},
		{"cmd/demo/demo.go", "odradek/processor/kafkatest", true},
		{"cmd/demo/demo.go", "odradek/processor", false},
		{"cmd/demo/demo.go", "github.com/twmb/franz-go/pkg/kgo", false},
		{"cmd/worker/generate.go", "odradek/processor/kafkatest", false},
		{"cmd/worker/run.go", "odradek/processor/kafkatest", false},
		{"cmd/worker/run.go", "odradek/cuda", false},
		{"cmd/worker/run.go", "github.com/caarlos0/env/v10", false},
		{"cmd/internal/config/config.go", "github.com/caarlos0/env/v10", true},
		{"cmd/internal/config/settingsfile/read.go", "go.yaml.in/yaml/v3", true},
		{"cmd/internal/config/config.go", "go.yaml.in/yaml/v3", false},
		{"cmd/internal/config/state.go", "odradek/processor/state", true},
		{"cmd/internal/config/state.go", "odradek/detectors/quality", false},
		{"cmd/internal/backtest/lane.go", "odradek/processor/state", true},
		{"cmd/internal/backtest/lane.go", "odradek/processor", false},
		{"cmd/worker/run.go", "github.com/compose-spec/compose-go/v2/loader", false},
		{"cmd/worker/compose_test.go", "github.com/compose-spec/compose-go/v2/loader", true},
		{"cmd/worker/executors.go", "odradek/cuda", true},
		{"processor/status_partition.go", "odradek/processor", false},
		{"processor/cycle/limits_cycle.go", "odradek/processor", false},
		{"processor/cycle/limits_cycle.go", "os", false},
		{"processor/owner.go", "odradek/processor", false},
		{"processor/owner.go", "crypto/rand", false},
		{"processor/state/state.go", "time", false},
		{"processor/state/state.go", "odradek/detectors", true},
		{"processor/state/state.go", "odradek/schemas", false},
		{"processor/cycle/writer.go", "github.com/linkedin/goavro/v2", false},
		{"processor/cycle/writer.go", "odradek/processor", false},
		{"schemas/avro/codec.go", "github.com/linkedin/goavro/v2", true},
		{"schemas/formats/decoder.go", "github.com/linkedin/goavro/v2", false},
		{"schemas/avro/codec.go", "odradek/schemas/registry", false},
		{"detectors/lof/op_lof.go", "odradek/detectors", true},
		{"detectors/lof/op_lof.go", "odradek/detectors/lof", true},
		{"detectors/lof/op_lof.go", "odradek/detectors/knn", false},
		{"detectors/lof/op_lof.go", "time", false},
		{"detectors/op.go", "odradek/detectors/lof", false},
		{"detectors/op.go", "odradek/detectors/lof", false},
		{"detectors/lof/lof.go", "odradek/detectors/vec", true},
		{"detectors/lof/lof.go", "odradek/detectors/sst", false},
		{"detectors/lof/lof.go", "odradek/detectors", false},
		{"detectors/lof/lof.go", "log/slog", false},
		{"detectors/lof/lof_test.go", "time", true},
		{"detectors/sst/sst.go", "unsafe", false},
		{"detectors/vec/vec.go", "unsafe", true},
		{"processor/kafka/fetch.go", "unsafe", false},
		{"cuda/executor.go", "odradek/detectors", true},
		{"cuda/executor.go", "odradek/processor", false},
		{"cuda/executor.go", "odradek/cuda/kernels", true},
		{"cuda/executor.go", "C", false},
		{"cuda/plan/planner.go", "odradek/detectors", true},
		{"cuda/plan/planner.go", "odradek/cuda", false},
		{"cuda/plan/planner.go", "odradek/cuda/child", false},
		{"cuda/child/process.go", "odradek/cuda/plan", true},
		{"cuda/child/process.go", "odradek/detectors", false},
		{"cuda/child/process.go", "unsafe", false},
		{"cuda/plan/write.go", "os", false},
		{"cuda/device/main.go", "odradek/cuda/kernels", true},
		{"cuda/kernels/kernels.go", "odradek/cuda", false},
		{"cmd/bench/worker/path.go", "odradek/cuda", false},
		{"cmd/bench/fleet/fleet.go", "odradek/cuda", false},
		{"cmd/bench/ops/ops.go", "odradek/cuda", true},
	} {
		fault := importFault(c.file, c.imported)
		if (fault == "") != c.ok {
			t.Errorf("%s importing %s: %q, want it allowed: %t", c.file, c.imported, fault, c.ok)
		}
		if fault != "" && !strings.Contains(fault, ": ") {
			t.Errorf("%s importing %s: %q gives no reason", c.file, c.imported, fault)
		}
	}
	for _, r := range within {
		reason(t, r.dir, r.why)
	}
	for _, r := range only {
		reason(t, r.imported, r.why)
	}
	for _, r := range never {
		reason(t, r.dir, r.why)
	}
}

// reason fails the test where a rule has none.
func reason(t *testing.T, rule, why string) {
	t.Helper()
	if len(strings.Fields(why)) < 3 {
		t.Errorf("the rule of %s has no reason: %q", rule, why)
	}
}
