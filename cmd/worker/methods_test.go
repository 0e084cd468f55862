package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"odradek/detectors"
	"odradek/detectors/knn"
)

// TestMethodsPage: the table of docs/detectors.md names settings that exist, an op's as its table has them, benchmarks that
// exist, every op of the papers and every way to the top n.
func TestMethodsPage(t *testing.T) {
	read := func(path string) string {
		text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(path)))
		must(t, err)
		return string(text)
	}
	list := read("docs/detectors.md")
	settings, benchmarks := read("docs/configuration.md"), read("cmd/bench/bench.go")
	token := regexp.MustCompile("`[^`]+`")
	rows := 0
	seen := map[string]bool{}
	for line := range strings.Lines(list) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 5 || !strings.Contains(cells[3], "`") || strings.HasPrefix(cells[1], "---") {
			continue
		}
		rows++
		op := ""
		for _, code := range token.FindAllString(cells[3], -1) {
			name, value, _ := strings.Cut(strings.Trim(code, "`"), "=")
			switch {
			case name == "OP":
				if op = value; specByName(op) == nil {
					t.Errorf("%s: there is no op %q", cells[1], op)
				}
				seen[op] = true
			case strings.HasPrefix(name, "ODRADEK_"):
				if !strings.Contains(settings, "| `"+name+"` ") {
					t.Errorf("%s: there is no setting %s", cells[1], name)
				}
			case strings.HasPrefix(name, "bin/bench "):
				if !strings.Contains(benchmarks, `{"`+strings.TrimPrefix(name, "bin/bench ")+`",`) {
					t.Errorf("%s: there is no benchmark %s", cells[1], name)
				}
			case strings.HasPrefix(name, "worker "):
			default:
				row := "\n| `" + name + "` "
				if !strings.Contains(settings, row) && (op == "" || !strings.Contains(read("docs/ops/"+op+".md"), row)) {
					t.Errorf("%s: op %q has no setting %s", cells[1], op, name)
				}
			}
		}
	}
	for _, op := range []string{"lof", "knn", "solvingset", "svdsst", "ikasst", "discords", "scan"} {
		if !seen[op] {
			t.Errorf("no method is by op %s", op)
		}
	}
	ways := []string{"LOF_GPU", "DRAG", "PD3", "MERLIN", "PALMAD", "SVD-SST", "IKA-SST", "BF, DM and AX"}
	for _, a := range knn.Algorithms {
		ways = append(ways, a.Name)
	}
	for _, way := range ways {
		if !strings.Contains(list, way) {
			t.Errorf("no row names %s", way)
		}
	}
	if rows < 13 {
		t.Errorf("%d rows", rows)
	}
}

// TestTables: README's table of faults has every op, and nothing else.
func TestTables(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	must(t, err)
	_, section, _ := strings.Cut(string(text), "\n## Ops by fault\n")
	section, _, _ = strings.Cut(section, "\n#")
	var got []string
	for _, row := range regexp.MustCompile(`(?m)^\| .*`).FindAllString(section, -1) {
		for _, m := range regexp.MustCompile("`([a-z]+)`").FindAllStringSubmatch(row, -1) {
			got = append(got, m[1])
		}
	}
	slices.Sort(got)
	ops := []string{"ensemble"} // not in the table of ops: it combines scores of others
	for _, o := range detectors.Ops() {
		ops = append(ops, o.String())
	}
	slices.Sort(ops)
	if got = slices.Compact(got); !slices.Equal(got, ops) {
		t.Errorf("ops %v, want %v", got, ops)
	}
}

func specByName(name string) *detectors.Spec {
	if o, ok := detectors.OpByName(name); ok {
		return o.Spec()
	}
	return nil
}
