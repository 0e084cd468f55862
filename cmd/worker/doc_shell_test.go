package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"odradek/processor/kafkatest"
)

// snippet is a part of a page that is no prose: fenced or indented lines.
type snippet struct {
	lang string // of a fence
	line int    // number of the first line
	text string
}

// docSnippets returns the snippets of a page.
func docSnippets(t *testing.T, page string) (snippets []snippet) {
	t.Helper()
	b, err := os.ReadFile(page)
	must(t, err)
	var open *snippet
	fenced, number, blank := false, 0, true
	for line := range strings.Lines(string(b)) {
		number++
		rest, indented := strings.CutPrefix(line, "    ")
		switch lang, fence := strings.CutPrefix(strings.TrimSpace(line), "```"); {
		case fence && fenced:
			fenced, open = false, nil
		case fence:
			fenced = true
			snippets = append(snippets, snippet{lang: lang, line: number + 1})
			open = &snippets[len(snippets)-1]
		case fenced:
			open.text += line
		case indented && (open != nil || blank): // else it goes on in an item of a list
			if open == nil {
				snippets = append(snippets, snippet{line: number})
				open = &snippets[len(snippets)-1]
			}
			open.text += rest
		default: // an empty line ends an indented snippet, too: output stands below its command
			open = nil
		}
		blank = strings.TrimSpace(line) == ""
	}
	return snippets
}

// notCommands are the snippets without a language that are no commands, by page: how they begin, and what they are.
var notCommands = map[string][][2]string{
	"deploy/connect/README.md": {{"CRITICAL level", "a message"}},
	"docs/backtest.md":         {{"56380 rows", "output of backtest"}, {"level: 41 published", "output of backtest"}},
	"docs/first-hour.md": {{"1a15d587a91b", "output of a consumer"}, {"what       near", "output of why"}, {"level=INFO", "a line of the log"},
		{"241 letters", "output of dlq"}, {"message   presses", "output of dlq"}, {"sent 240", "output of dlq"}},
	"docs/grids.md":                      {{"ODRADEK_KEY_FIELD=region", "settings"}},
	"docs/metrics.md":                    {{"records_consumed", "a sum of metrics"}},
	"docs/operations/change-settings.md": {{"level=ERROR", "a line of the log"}, {"ODRADEK_DETECTORS=vibration", "settings"}},
	"docs/operations/why.md":             {{"anomaly    5064", "output of why"}},
	"docs/outputs.md":                    {{`"score": null`, "a part of a record"}, {`{"id":`, "a record"}},
}

// docPrograms are the programs that pages may show, each with what is held of a command; nil: nothing is, for the reason beside it.
var docPrograms = map[string]func(*docCheck, docRun) error{
	"worker": (*docCheck).worker,
	"demo":   (*docCheck).ownProgram,
	"bench":  (*docCheck).ownProgram,
	"make":   (*docCheck).makefile,
	"go":     (*docCheck).goCommand,
	"docker": (*docCheck).docker,
	"rpk":    (*docCheck).files, // Redpanda Connect
	"curl":   (*docCheck).curl,
	"python": (*docCheck).script,
	"script": (*docCheck).script, // below scripts, run by its own name

	"git":   nil, // of the clone that the reader makes
	"sed":   nil, // edits a file that an earlier command of the page writes
	"jq":    nil, // reads the answers of curl, which TestDocRequests checks
	"mvn":   nil, // of a Java program beside its page, which make bench runs where Java is
	"javac": nil, // likewise
	"java":  nil, // likewise
}

// docRun is a command that a page shows, as a shell runs it.
type docRun struct {
	program string   // its name; script for one below scripts
	args    []string // with the path first for a script
	environ []string // settings
	at      string   // page and line of its snippet
}

// docCheck checks the commands of pages.
type docCheck struct {
	t    *testing.T
	root string
	ran  map[string]int // by program, and by command of the worker
}

// recorder is what stands for every program while a page is run: it keeps its arguments and the environment.
const recorder = `#!/bin/bash
out=$(/usr/bin/mktemp "$DOC_RECORDS/XXXXXXXX")
{ printf '%s\0' "$DOC_BLOCK" "$0" "$#" "$@"; /usr/bin/env -0; } > "$out"
`

// run has a shell run the snippets of a page, with recorders in place of programs, and returns what was recorded. A command
// that is no recorder fails, as do a file that is not there and a fault in the shell's language.
func (c *docCheck) run(page string, snippets []snippet) (runs []docRun) {
	t := c.t
	dir, records := t.TempDir(), t.TempDir()
	stub := func(parts ...string) {
		name := filepath.Join(append([]string{dir}, parts...)...)
		must(t, os.MkdirAll(filepath.Dir(name), 0o755))
		must(t, os.WriteFile(name, []byte(recorder), 0o755))
	}
	for name := range docPrograms {
		stub("path", name)
	}
	for _, name := range []string{"worker", "demo", "bench"} {
		stub("work", "bin", name)
	}
	stub("work", "worker")
	for _, ext := range []string{"*.sh", "*.py"} {
		scripts, err := filepath.Glob(filepath.Join(c.root, "scripts", ext))
		must(t, err)
		for _, s := range scripts {
			stub("work", "scripts", filepath.Base(s))
		}
	}
	must(t, os.Symlink("/usr/bin/env", filepath.Join(dir, "path", "env")))
	script := "cd() { :; }\n"
	for _, b := range snippets {
		name := filepath.Join(dir, fmt.Sprintf("%s:%d", filepath.Base(page), b.line))
		must(t, os.WriteFile(name, []byte(b.text), 0o600))
		script += fmt.Sprintf("export DOC_BLOCK=%q\n. %q || :\nPATH=%q\n", fmt.Sprintf("%s:%d", page, b.line), name, filepath.Join(dir, "path"))
	}
	cmd := exec.CommandContext(t.Context(), "/bin/bash", "-c", script)
	cmd.Dir = filepath.Join(dir, "work")
	cmd.Env = []string{"PATH=" + filepath.Join(dir, "path"), "DOC_RECORDS=" + records, "HOME=" + dir}
	out, err := cmd.CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("%s: a shell says: %v\n%s", page, err, strings.ReplaceAll(string(out), dir+"/", ""))
	}
	files, err := os.ReadDir(records)
	must(t, err)
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(records, f.Name()))
		must(t, err)
		words := strings.Split(string(b), "\x00")
		var n int
		fmt.Sscan(words[2], &n)
		r := docRun{at: words[0], program: filepath.Base(words[1]), args: words[3 : 3+n]}
		if _, name, ok := strings.Cut(words[1], "scripts/"); ok {
			r.program, r.args = "script", append([]string{"scripts/" + name}, r.args...)
		}
		for _, word := range words[3+n:] {
			if strings.HasPrefix(word, "ODRADEK_") {
				r.environ = append(r.environ, strings.ReplaceAll(word, cmd.Dir+"/", "")) // $PWD is the folder of the test
			}
		}
		runs = append(runs, r)
	}
	return runs
}

// worker runs a command of the worker in a context that has ended, so that it waits for no broker: its name, flags and settings
// are right, as far as that is known without one.
func (c *docCheck) worker(r docRun) error {
	if len(r.args) == 0 {
		return fmt.Errorf("no command")
	}
	c.ran["worker "+r.args[0]]++
	ctx, cancel := context.WithCancel(c.t.Context())
	cancel()
	environ := []string{"ODRADEK_KAFKA_BROKERS=127.0.0.1:1", "ODRADEK_GROUP=plant", "ODRADEK_TOPICS=sensors,presses,machines",
		"ODRADEK_SCHEMA_REGISTRY_URL=http://127.0.0.1:1"}
	if strings.HasPrefix(r.at, "docs/operations/alarms.md") { // its mutes name a detector
		environ = append(environ, "ODRADEK_DETECTORS=spikes")
	}
	args := r.args
	if args[0] == "run" { // which waits for brokers; check has its flags, and reads its settings
		args = append([]string{"check"}, args[1:]...)
	}
	var out, errs bytes.Buffer
	if code := dispatch(ctx, args, &out, &errs, terminal{&out, &errs, append(environ, r.environ...)}.commands()); code == exitUsage {
		return fmt.Errorf("ends with %d: %s", code, errs.String())
	}
	return nil
}

// ownProgram has a program of this module parse its flags and names, and print its help.
func (c *docCheck) ownProgram(r docRun) error {
	program := kafkatest.GoProgram(c.t, c.root, r.program, "build", "./cmd/"+r.program)
	out, err := exec.CommandContext(c.t.Context(), program, append(r.args, "-h")...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// makefile has make say what it would do: the targets are there.
func (c *docCheck) makefile(r docRun) error {
	cmd := exec.CommandContext(c.t.Context(), "make", append([]string{"-n"}, r.args...)...)
	cmd.Dir = c.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// goCommand looks for the packages and files that a command of go names.
func (c *docCheck) goCommand(r docRun) error {
	for _, arg := range r.args {
		if rest, ok := strings.CutPrefix(arg, "./"); ok {
			if _, err := os.Stat(filepath.Join(c.root, strings.TrimSuffix(rest, "/..."))); err != nil {
				return err
			}
		}
	}
	return nil
}

// docker looks for the services that a command of Compose names.
func (c *docCheck) docker(r docRun) error {
	if len(r.args) < 2 || r.args[0] != "compose" {
		return fmt.Errorf("only docker compose is known")
	}
	services := loadCompose(c.t).Services
	var names []string
	for i, arg := range r.args[2:] {
		switch {
		case r.args[1+i] == "--scale":
			arg, _, _ = strings.Cut(arg, "=")
			names = append(names, arg)
		case !strings.HasPrefix(arg, "-") && (r.args[1] == "exec" || r.args[1] == "run") && len(names) == 0:
			names = append(names, arg)
			if arg == "worker" && r.args[1] == "run" {
				if err := c.worker(docRun{args: r.args[3+i:], at: r.at}); err != nil {
					return err
				}
			}
		}
	}
	for _, name := range names {
		if _, ok := services[name]; !ok {
			return fmt.Errorf("docker-compose.yml has no service %s", name)
		}
	}
	if !slices.Contains([]string{"up", "down", "exec", "run"}, r.args[1]) {
		return fmt.Errorf("docker compose %s is not known here", r.args[1])
	}
	return nil
}

// files looks below deploy for the files that are named.
func (c *docCheck) files(r docRun) error {
	for _, arg := range r.args {
		arg = strings.TrimPrefix(arg, "@")
		if ext := filepath.Ext(arg); ext != ".yaml" && ext != ".json" || strings.Contains(arg, "://") {
			continue
		}
		found, err := filepath.Glob(filepath.Join(c.root, "deploy", "*", "*", filepath.Base(arg)))
		if err != nil || len(found) == 0 {
			return fmt.Errorf("no file %s below deploy", arg)
		}
	}
	return nil
}

// curl checks the files; TestDocRequests sends the requests of docs/api.md.
func (c *docCheck) curl(r docRun) error {
	if strings.HasPrefix(r.at, "docs/api.md") {
		return nil
	}
	return c.files(r)
}

// script has the language of a script check it.
func (c *docCheck) script(r docRun) error {
	if len(r.args) == 0 {
		return fmt.Errorf("no script")
	}
	name := filepath.Join(c.root, r.args[0])
	if _, err := os.Stat(name); err != nil || filepath.Ext(name) != ".sh" {
		return err
	}
	if out, err := exec.CommandContext(c.t.Context(), "/bin/bash", "-n", name).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// inlineCommand is a command in the running text.
var inlineCommand = regexp.MustCompile("`((?:make [a-z]|go (?:run|test|generate|build) |scripts/[a-z_-]+[.](?:sh|py)|" +
	"(?:bin/)?bench -|(?:bin/)?demo -)[^`]*)`")

// inlineSnippets returns the commands in the running text of a page as snippets.
func inlineSnippets(t *testing.T, page string) (snippets []snippet) {
	t.Helper()
	b, err := os.ReadFile(page)
	must(t, err)
	for _, at := range inlineCommand.FindAllSubmatchIndex(b, -1) {
		text := strings.ReplaceAll(string(b[at[2]:at[3]]), "\n", " ")
		snippets = append(snippets, snippet{line: 1 + bytes.Count(b[:at[0]], []byte("\n")), text: text})
	}
	return snippets
}

// TestDocCommands has a shell run every command that README and the pages of docs and deploy show, with the settings that the page
// exports, and recorders in place of the programs; then each recorded command is checked: the worker's run. A program that is
// not in docPrograms fails, and so does a snippet that is neither commands nor in notCommands.
func TestDocCommands(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	must(t, err)
	c := &docCheck{t: t, root: root, ran: map[string]int{}}
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "docs/*/*/*/*.md", "deploy/*.md", "deploy/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		must(t, err)
		pages = append(pages, found...)
	}
	var runs []docRun
	excepted := 0
	for _, page := range pages {
		name, err := filepath.Rel(root, page)
		must(t, err)
		if name == "CHANGELOG.md" {
			continue
		}
		var snippets []snippet
		for _, b := range docSnippets(t, page) {
			if b.lang != "" && b.lang != "sh" {
				continue
			}
			if slices.ContainsFunc(notCommands[name], func(x [2]string) bool { return strings.HasPrefix(b.text, x[0]) }) {
				excepted++
				continue
			}
			snippets = append(snippets, b)
		}
		runs = append(runs, c.run(name, append(snippets, inlineSnippets(t, page)...))...)
	}
	listed := 0
	for _, list := range notCommands {
		listed += len(list)
	}
	if excepted != listed {
		t.Errorf("%d snippets are no commands, and notCommands lists %d", excepted, listed)
	}
	stdin := os.Stdin
	t.Cleanup(func() { os.Stdin = stdin })
	os.Stdin, err = os.Open(os.DevNull)
	must(t, err)
	here, err := os.Getwd()
	must(t, err)
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "presses.yaml"), []byte("group: odradek-presses\n"), 0o600)) // of first-hour.md
	for _, r := range runs {
		c.ran[r.program]++
		check := docPrograms[r.program]
		if check == nil {
			continue
		}
		t.Chdir(map[bool]string{true: dir, false: here}[r.program == "worker"]) // which writes files
		if err := check(c, r); err != nil {
			t.Errorf("%s: %s %s: %v", r.at, r.program, strings.Join(r.args, " "), err)
		}
	}
	for _, name := range []string{"generate", "suggest", "check", "backtest", "why", "mute", "feedback", "dlq", "state", "score", "run"} {
		if c.ran["worker "+name] == 0 {
			t.Errorf("no page shows worker %s", name)
		}
	}
	for name := range docPrograms {
		if c.ran[name] == 0 {
			t.Errorf("no page shows %s", name)
		}
	}
	t.Log(c.ran)
}
