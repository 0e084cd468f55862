//go:build ignore

// Testsum runs `go test` with its arguments and prints what a person wants to
// see of it: a line for each package as it ends, with its time, its counts and what it skipped and why; the whole
// output of each test that failed; every half a minute without any of these (-quiet) what is running; and at the end the
// counts, what was skipped and the slowest tests. It exits as go test did.
//
// A part of the tests, such as a cluster, that does not start (processor/kafkatest, Missing) fails one test. Those that
// need it too are not run, and counted as such, in any package.
//
//	go run .ci/testsum.go [-without=FILE] [-failures=FILE] [-quiet=DURATION] [-v] ./...
//
// The file of -without lists tests, one a line, that are not run. The summary names them;
// one that is not there is an error, so that the list cannot outlive what it leaves out.
// To the file of -failures it writes the failed tests, with their seeds and the last lines
// of their output.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
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

	Elapsed float64 // seconds, of an end
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
	quiet := 30 * time.Second
	if d, ok := option(&args, "-quiet="); ok {
		var err error
		if quiet, err = time.ParseDuration(d); err != nil || quiet <= 0 {
			return 2, fmt.Errorf("-quiet=%s is no duration above 0", d)
		}
	}
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
	s := summary{output: map[key][]string{}, parent: map[key]bool{}, ended: map[key]string{}, took: map[key]float64{}, why: map[key]string{}, last: map[string][]string{}, running: map[key]time.Time{}, causes: map[string]key{},
		verbose: verbose}
	in := bufio.NewScanner(out)
	in.Buffer(make([]byte, 1<<20), 1<<28)
	lines := make(chan []byte)
	go func() {
		defer close(lines)
		for in.Scan() {
			lines <- slices.Clone(in.Bytes())
		}
	}()
	still := time.NewTimer(quiet)
read:
	for {
		select {
		case line, ok := <-lines:
			var e event
			switch {
			case !ok:
				break read
			case json.Unmarshal(line, &e) != nil:
				fmt.Println(string(line)) // not go's: a program that wrote past the test
			case s.add(e):
				still.Reset(quiet)
			}
		case <-still.C:
			s.printRunning()
			still.Reset(quiet)
		}
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
	took    map[key]float64 // seconds, of tests that are no subtests
	why     map[key]string  // of tests that were skipped, or not run
	order   []key
	broken  []string            // packages that failed without a failed test
	last    map[string][]string // by package, the last lines of what no test wrote; of the compiler under ""
	running map[key]time.Time   // when tests, and packages, began; not those that wait for others (t.Parallel)
	causes  map[string]key      // by part that does not start: the test that failed of it
	verbose bool
}

// notStarted is what a test says that fails because a part does not start.
var notStarted = regexp.MustCompile(`(?m)^\s*\S+\.go:\d+: (\S+) (?:does not start|is required \(ODRADEK_REQUIRE\) and missing): `)

// notRun is what a test says that is not run for that.
const notRun = "not run: "

// end returns how a test ended, and why where it was skipped or not run.
func (s *summary) end(k key, action string) (end, why string) {
	text := strings.Join(s.output[k], "")
	if m := notStarted.FindStringSubmatch(text); m != nil && action == "fail" {
		if first, ok := s.causes[m[1]]; ok {
			return "not run", fmt.Sprintf("%s%s does not start, see %s %s", notRun, m[1], short(first.pkg), first.test)
		}
		s.causes[m[1]] = k
	}
	if action != "skip" {
		return action, ""
	}
	why = "no reason given"
	for _, l := range s.output[k] {
		if place.MatchString(l) {
			why = strings.TrimSpace(place.ReplaceAllString(l, ""))
		}
	}
	if strings.HasPrefix(why, notRun) {
		return "not run", why
	}
	return action, why
}

func short(pkg string) string { return strings.TrimPrefix(pkg, "odradek/") }

// printPackage prints the line of a package that has ended, and why its tests were skipped.
func (s *summary) printPackage(e event) {
	counts, whys := map[string]int{}, map[string]int{}
	for _, k := range s.order {
		if end := s.ended[k]; k.pkg == e.Package && (!s.parent[k] || end == "fail" && !s.childFailed(k)) {
			counts[end]++
			if s.why[k] != "" {
				whys[s.why[k]]++
			}
		}
	}
	if e.Action == "skip" && len(counts) == 0 {
		return // no tests
	}
	word := map[string]string{"pass": "ok", "skip": "ok", "fail": "FAIL"}[e.Action]
	line := fmt.Sprintf("%-4s  %-42s %7.1f s ", word, short(e.Package), e.Elapsed)
	if slices.ContainsFunc(s.last[e.Package], func(l string) bool { return strings.Contains(l, "(cached)") }) {
		line = fmt.Sprintf("%-4s  %-42s    cached ", word, short(e.Package))
	}
	for _, end := range []string{"pass", "fail", "skip", "not run"} {
		if n := counts[end]; n > 0 {
			line += fmt.Sprintf("  %d %s", n, map[string]string{"pass": "passed", "fail": "failed", "skip": "skipped", "not run": "not run"}[end])
		}
	}
	fmt.Println(line)
	for _, why := range slices.Sorted(maps.Keys(whys)) {
		fmt.Printf("      %d %s\n", whys[why], why)
	}
}

// printRunning prints which tests run.
func (s *summary) printRunning() {
	var list []string
	for k, began := range s.running {
		if k.test != "" && !s.parent[k] {
			list = append(list, fmt.Sprintf("%s %s for %v", short(k.pkg), k.test, time.Since(began).Round(time.Second)))
		}
	}
	if sort.Strings(list); len(list) > 0 {
		fmt.Println("running:", strings.Join(list[:min(len(list), 4)], ", "))
	}
}

// add takes an event, and reports whether it printed something.
func (s *summary) add(e event) (printed bool) {
	k := key{e.Package, e.Test}
	switch e.Action {
	case "run":
		s.running[k] = time.Now()
		if i := strings.LastIndexByte(e.Test, '/'); i >= 0 {
			s.parent[key{e.Package, e.Test[:i]}] = true
		}
	case "pause":
		delete(s.running, k)
	case "cont":
		s.running[k] = time.Now()
	case "build-output":
		fmt.Print(e.Output)
		s.last[""] = lastLines(append(s.last[""], e.Output))
	case "output":
		if s.verbose {
			fmt.Print(e.Output)
		}
		if e.Test == "" {
			s.last[e.Package] = lastLines(append(s.last[e.Package], e.Output))
			if !s.verbose && !packageLine.MatchString(e.Output) {
				fmt.Print(e.Output)
				return true
			}
			return false
		}
		if !strings.HasPrefix(e.Output, "=== ") {
			s.output[k] = append(s.output[k], e.Output)
		}
	case "pass", "fail", "skip":
		delete(s.running, k)
		if e.Test == "" {
			if e.Action == "fail" {
				s.unended(e.Package)
				if !slices.ContainsFunc(s.order, func(o key) bool { return o.pkg == e.Package && s.ended[o] == "fail" }) {
					if !s.onlyNotRun(e.Package) {
						s.broken = append(s.broken, e.Package)
					}
				}
			}
			s.printPackage(e)
			return true
		}
		s.ended[k], s.why[k] = s.end(k, e.Action)
		s.order = append(s.order, k)
		if !strings.Contains(e.Test, "/") {
			s.took[k] = e.Elapsed
		}
		if s.ended[k] == "fail" && !s.verbose {
			fmt.Print(strings.Join(s.output[k], ""))
			printed = true
		}
		if e.Action == "pass" {
			delete(s.output, k)
		}
	}
	return printed
}

// packageLine matches go's own lines of a package.
var packageLine = regexp.MustCompile(`^(PASS|FAIL)\n|^(ok  |FAIL|\?   )\t|^exit status|^\s*$`)

// onlyNotRun reports whether a package failed because of a part that another package's test has failed of.
func (s *summary) onlyNotRun(pkg string) bool {
	return slices.ContainsFunc(s.order, func(k key) bool { return k.pkg == pkg && s.ended[k] == "not run" })
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

// childFailed reports whether a subtest failed, or was not run.
func (s *summary) childFailed(k key) bool {
	return slices.ContainsFunc(s.order, func(o key) bool {
		return o.pkg == k.pkg && strings.HasPrefix(o.test, k.test+"/") && (s.ended[o] == "fail" || s.ended[o] == "not run")
	})
}

// place is what t.Log writes before a message.
var place = regexp.MustCompile(`^\s*\S+\.go:\d+: `)

// slowest returns the tests that took the longest, 10 s or more, with their times.
func (s *summary) slowest() (list []string) {
	keys := slices.SortedFunc(maps.Keys(s.took), func(a, b key) int { return cmp.Compare(s.took[b], s.took[a]) })
	for _, k := range keys[:min(len(keys), 12)] {
		if s.took[k] >= 10 {
			list = append(list, fmt.Sprintf("%s %s %.0f s", short(k.pkg), k.test, s.took[k]))
		}
	}
	return list
}

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
		if why := s.why[k]; why != "" {
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
	if slow := s.slowest(); len(slow) > 0 {
		fmt.Println("the slowest:", strings.Join(slow, ", "))
	}
	fmt.Printf("took %v\n", took.Round(time.Second))
	fmt.Printf("%d passed, %d failed, %d skipped", counts["pass"], counts["fail"]+len(s.broken), counts["skip"])
	if n := counts["not run"]; n > 0 {
		fmt.Printf(", %d not run", n)
	}
	fmt.Println()
}
