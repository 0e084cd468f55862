package ops

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// resultLine is a line of docs/benchmarks/results.
type resultLine struct {
	Name, Case, Note       string
	Value, Baseline, Ratio *float64
}

func resultLines(t *testing.T, path string) (lines []resultLine) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		var r resultLine
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%s:%d: %v", path, i+1, err)
		}
		lines = append(lines, r)
	}
	return lines
}

var (
	numeral      = regexp.MustCompile(`\d[\d,]*(\.\d+)?`)
	resultsLink  = regexp.MustCompile(`\]\(benchmarks/(results/[\w-]+\.jsonl)\)`)
	measuredLine = regexp.MustCompile(`^(\d+) tasks in (\S+) .* copies of (\d+) MB`)
)

// floorThen is what a line says of the floor of its day.
var floorThen = regexp.MustCompile(`[\d.e-]+% of the floor`)

// numbers returns the numbers of the line, and of what floors make of it today.
func (r *resultLine) numbers() (all []float64) {
	for _, v := range []*float64{r.Value, r.Baseline, r.Ratio} {
		if v != nil {
			all = append(all, *v)
		}
	}
	for _, text := range numeral.FindAllString(floorThen.ReplaceAllString(r.Note, ""), -1) {
		v, _ := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64)
		all = append(all, v)
	}
	if share, ok := r.ofFloor(); ok {
		all = append(all, share)
	}
	return all
}

// ofFloor returns a kernel's share of its floor, of an H200.
func (r *resultLine) ofFloor() (share float64, ok bool) {
	name, ok := strings.CutSuffix(r.Case, ", kernel")
	m := measuredLine.FindStringSubmatch(r.Note)
	if !ok || m == nil {
		return 0, false
	}
	for _, s := range allShapes() {
		if s.name == name {
			s.tasks, _ = strconv.Atoi(m[1])
			mb, _ := strconv.Atoi(m[3])
			took, err := time.ParseDuration(m[2])
			seconds, _ := s.least(132, mb<<20)
			return seconds / took.Seconds(), err == nil
		}
	}
	return 0, false
}

// prints reports whether text is how v is printed, in its unit or another one.
func prints(text string, v float64) bool {
	text = strings.ReplaceAll(text, ",", "")
	want, _ := strconv.ParseFloat(text, 64)
	half := 0.5
	if _, fraction, ok := strings.Cut(text, "."); ok {
		half = 0.5 * math.Pow10(-len(fraction))
	} else if zeros := len(text) - len(strings.TrimRight(text, "0")); zeros < len(text) {
		half *= math.Pow10(zeros)
	}
	for _, unit := range []float64{1, 1e-3, 1e-6, 1e3, 100} {
		if math.Abs(v*unit-want) <= half*(1+1e-9) {
			return true
		}
	}
	return false
}

// TestBenchmarkFigures holds each figure in the tables of docs/benchmarks.md to a line of a result file: one that the row
// links or, if it links none, one that the text of its section links before the table. Targets are left out, and text in
// brackets. It cannot tell whether the line is the right one. A result file that the page does not link is a fault, too.
func TestBenchmarkFigures(t *testing.T) {
	text, err := os.ReadFile("../../../docs/benchmarks.md")
	if err != nil {
		t.Fatal(err)
	}
	_, results, ok := strings.Cut(string(text), "\n## Results\n")
	if !ok {
		t.Fatal("no section Results")
	}
	var above, header []string
	figures, linked := 0, map[string]bool{}
	for _, line := range strings.Split(results, "\n") {
		var links []string
		for _, m := range resultsLink.FindAllStringSubmatch(line, -1) {
			links, linked[m[1]] = append(links, m[1]), true
		}
		if !strings.HasPrefix(line, "|") {
			if strings.HasPrefix(line, "### ") {
				above = nil
			}
			above, header = append(above, links...), nil
			continue
		}
		files := links
		if len(files) == 0 {
			files = above
		}
		cells := strings.Split(strings.Trim(resultsLink.ReplaceAllString(line, "]"), "|"), "|")
		if header == nil {
			header = cells
			continue
		}
		if strings.HasPrefix(line, "|--") {
			continue
		}
		var numbers []float64
		for _, file := range files {
			for _, r := range resultLines(t, "../../../docs/benchmarks/"+file) {
				numbers = append(numbers, r.numbers()...)
			}
		}
		for i, cell := range cells[1:] {
			if h := header[i+1]; strings.Contains(h, "target") {
				continue
			}
			for _, text := range numeral.FindAllString(quoted(cell), -1) {
				figures++
				if !slices.ContainsFunc(numbers, func(v float64) bool { return prints(text, v) }) {
					t.Errorf("no line of %v says %s: %s", files, text, strings.TrimSpace(cells[0]))
				}
			}
		}
	}
	if figures < 100 {
		t.Errorf("the tables have %d figures: they are not where this test looks", figures)
	}
	kept, err := filepath.Glob("../../../docs/benchmarks/results/*.jsonl")
	if err != nil || len(kept) == 0 {
		t.Fatalf("no result files: %v", err)
	}
	for _, file := range kept {
		if name := "results/" + filepath.Base(file); !linked[name] {
			t.Errorf("no figure of the page is from %s", name)
		}
	}
}

var aside = regexp.MustCompile("\\([^)]*\\)|p50|p99|w=\\d+|r=\\d+|N=\\d+|z-score of \\d+|LOF of \\d+ samples|all in|`[^`]*`")

// quoted returns a cell without what is no figure of its own.
func quoted(cell string) string { return aside.ReplaceAllString(cell, "") }

// TestBenchmarkSpreads: a row of the first table that is of runs a quarter apart says
// so.
func TestBenchmarkSpreads(t *testing.T) {
	text, err := os.ReadFile("../../../docs/benchmarks.md")
	if err != nil {
		t.Fatal(err)
	}
	spread := regexp.MustCompile(`spread (\d+)%`)
	apart := map[string]string{}
	for _, r := range resultLines(t, "../../../docs/benchmarks/results/epyc-2core.jsonl") {
		if m := spread.FindStringSubmatch(r.Note); m != nil && atoi(m[1]) > 25 {
			apart[r.Name] = m[1]
		}
	}
	for _, name := range slices.Sorted(maps.Keys(apart)) {
		row := regexp.MustCompile(`(?m)^\| `+name+` \|.*$`).FindAllString(string(text), -1)
		if !slices.ContainsFunc(row, func(s string) bool { return strings.Contains(s, fmt.Sprintf("%s %%", apart[name])) }) {
			t.Errorf("%s has a spread of %s %%, and its row does not say so", name, apart[name])
		}
	}
}

func atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}
