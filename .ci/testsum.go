//go:build ignore

// Testsum runs `go test` with its arguments and prints what a person wants to
// see of it: go's own line for each package, the whole output of each test that
// failed, and at the end the counts and what was skipped and why. It exits as
// go test did.
//
//	go run .ci/testsum.go [-without=FILE] [-failures=FILE] [-v] ./...
//
// The file of -without lists tests, one a line, that are not run. The summary names them;
// one that is not there is an error, so that the list cannot outlive what it leaves out.
// To the file of -failures it writes the failed tests, with their seeds and the last lines
// of their output.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"time"
)

// event is one line of `go test -json`.
type event struct {
	Action, Package, ImportPath, Test, Output string
}

type key struct{ pkg, test string }

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "testsum:", err)
		code = 2
	}
	os.Exit(code)
}

func run(args []string) (int, error) {
	var without []string
	if file, ok := option(&args, "-without="); ok {
		var err error
		if without, err = leftOut(file); err != nil {
			return 2, err
		}
		args = append([]string{"-skip", "^(" + strings.Join(without, "|") + ")$"}, args...)
	}
	failures, toFile := option(&args, "-failures=")
	verbose := slices.Contains(args, "-v")
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 2, err
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return 2, err
	}
	s := summary{output: map[key][]string{}, parent: map[key]bool{}, ended: map[key]string{}, last: map[string][]string{}, verbose: verbose}
	in := bufio.NewScanner(out)
	in.Buffer(make([]byte, 1<<20), 1<<28)
	for in.Scan() {
		var e event
		if json.Unmarshal(in.Bytes(), &e) != nil {
			fmt.Println(in.Text()) // not go's: a program that wrote past the test
			continue
		}
		s.add(e)
	}
	if err := in.Err(); err != nil {
		_ = cmd.Process.Kill()
		return 2, err
	}
	err = cmd.Wait()
	s.print(time.Since(began), without)
	if toFile {
		if err := os.WriteFile(failures, []byte(s.failures()), 0o644); err != nil {
			return 2, err
		}
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), nil
	}
	return 0, err
}

// option takes the argument that begins with prefix out of args and returns the rest of it.
func option(args *[]string, prefix string) (value string, ok bool) {
	i := slices.IndexFunc(*args, func(a string) bool { return strings.HasPrefix(a, prefix) })
	if i < 0 {
		return "", false
	}
	value = strings.TrimPrefix((*args)[i], prefix)
	*args = slices.Delete(slices.Clone(*args), i, i+1)
	return value, true
}

// leftOut reads the names of tests from a file and checks that each is in a
// package of this module.
func leftOut(file string) (names []string, err error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			names = append(names, line)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s names no test", file)
	}
	there := map[string]bool{}
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		src, err := os.ReadFile(path)
		for _, m := range testFunc.FindAllSubmatch(src, -1) {
			there[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		if !there[n] {
			return nil, fmt.Errorf("%s names %s, which is no test", file, n)
		}
	}
	return names, nil
}

// testFunc is the head of a test.
var testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

type summary struct {
	output  map[key][]string // of tests that did not pass
	parent  map[key]bool     // tests that have subtests
	ended   map[key]string
	order   []key
	broken  []string            // packages that failed without a failed test
	last    map[string][]string // by package, the last lines of what no test wrote; of the compiler under ""
	verbose bool
}

func (s *summary) add(e event) {
	k := key{e.Package, e.Test}
	switch e.Action {
	case "run":
		if i := strings.LastIndexByte(e.Test, '/'); i >= 0 {
			s.parent[key{e.Package, e.Test[:i]}] = true
		}
	case "build-output":
		fmt.Print(e.Output)
		s.last[""] = lastLines(append(s.last[""], e.Output))
	case "output":
		if s.verbose {
			fmt.Print(e.Output)
		}
		if e.Test == "" {
			s.last[e.Package] = lastLines(append(s.last[e.Package], e.Output))
			if !s.verbose && e.Output != "PASS\n" && e.Output != "FAIL\n" {
				fmt.Print(e.Output)
			}
			return
		}
		if !strings.HasPrefix(e.Output, "=== ") {
			s.output[k] = append(s.output[k], e.Output)
		}
	case "pass", "fail", "skip":
		if e.Test == "" {
			if e.Action == "fail" {
				s.unended(e.Package)
				if !slices.ContainsFunc(s.order, func(o key) bool { return o.pkg == e.Package && s.ended[o] == "fail" }) {
					s.broken = append(s.broken, e.Package)
				}
			}
			return
		}
		s.ended[k] = e.Action
		s.order = append(s.order, k)
		if e.Action == "fail" && !s.verbose {
			fmt.Print(strings.Join(s.output[k], ""))
		}
		if e.Action == "pass" {
			delete(s.output, k)
		}
	}
}

// lastLines returns the last of them, no more than shown.
func lastLines(lines []string) []string { return lines[max(len(lines)-shown, 0):] }

// shown is how many lines of a failed test's output its failure has.
const shown = 20

// failures returns the failed tests, each with its seed and the last lines of its output,
// and the packages that failed without one.
func (s *summary) failures() string {
	var b strings.Builder
	for _, k := range s.order {
		if s.ended[k] != "fail" || s.childFailed(k) {
			continue
		}
		fmt.Fprintf(&b, "%s %s", strings.TrimPrefix(k.pkg, "odradek/"), k.test)
		for name := k.test; ; name = name[:strings.LastIndexByte(name, '/')] { // the seed may be its parent's
			if m := seed.FindString(strings.Join(s.output[key{k.pkg, name}], "")); m != "" {
				fmt.Fprintf(&b, ", %s", m)
				break
			}
			if !strings.Contains(name, "/") {
				break
			}
		}
		fmt.Fprintf(&b, "\n%s", strings.Join(lastLines(s.output[k]), ""))
	}
	for k, lines := range s.output {
		if s.ended[k] != "" {
			continue
		}
		if i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "panic: ") }); i >= 0 {
			lines = lines[i:min(len(lines), i+shown)]
		}
		fmt.Fprintf(&b, "%s %s had not ended\n%s", strings.TrimPrefix(k.pkg, "odradek/"), k.test, strings.Join(lastLines(lines), ""))
	}
	for _, p := range s.broken {
		fmt.Fprintf(&b, "%s did not build, or ended early\n%s%s", p, strings.Join(s.last[""], ""), strings.Join(s.last[p], ""))
	}
	return b.String()
}

// seed is what a test with random input writes of it.
var seed = regexp.MustCompile(`ODRADEK_TEST_SEED=\d+`)

// unended prints what tests had said that never ended: a panic, a timeout.
func (s *summary) unended(pkg string) {
	for k, lines := range s.output {
		if k.pkg == pkg && s.ended[k] == "" && !s.verbose {
			fmt.Print(strings.Join(lines, ""))
		}
	}
}

func (s *summary) childFailed(k key) bool {
	return slices.ContainsFunc(s.order, func(o key) bool {
		return o.pkg == k.pkg && strings.HasPrefix(o.test, k.test+"/") && s.ended[o] == "fail"
	})
}

// place is what t.Log writes before a message.
var place = regexp.MustCompile(`^\s*\S+\.go:\d+: `)

func (s *summary) print(took time.Duration, without []string) {
	counts := map[string]int{}
	reasons := map[string][]string{}
	var failed []string
	for _, k := range s.order {
		end := s.ended[k]
		name := strings.TrimPrefix(k.pkg, "odradek/") + " " + k.test
		if s.parent[k] && (end != "fail" || s.childFailed(k)) {
			continue // its subtests count
		}
		counts[end]++
		if end == "fail" {
			failed = append(failed, name)
		}
		if end == "skip" {
			why := "no reason given"
			for _, l := range s.output[k] {
				if place.MatchString(l) {
					why = strings.TrimSpace(place.ReplaceAllString(l, ""))
				}
			}
			reasons[why] = append(reasons[why], name)
		}
	}
	fmt.Println()
	for _, f := range failed {
		fmt.Println("failed:", f)
	}
	for _, p := range s.broken {
		fmt.Println("failed:", p, "(did not build, or ended early)")
	}
	whys := make([]string, 0, len(reasons))
	for w := range reasons {
		whys = append(whys, w)
	}
	sort.Strings(whys)
	for _, w := range whys {
		names := reasons[w]
		more := ""
		if len(names) > 4 {
			names, more = names[:4], fmt.Sprintf(" and %d more", len(names)-4)
		}
		fmt.Printf("%s: %s%s\n", w, strings.Join(names, ", "), more)
	}
	if len(without) > 0 {
		fmt.Printf("left out here, %d tests: %s\n", len(without), strings.Join(without, ", "))
	}
	fmt.Printf("took %v\n", took.Round(time.Second))
	fmt.Printf("%d passed, %d failed, %d skipped\n", counts["pass"], counts["fail"]+len(s.broken), counts["skip"])
}
