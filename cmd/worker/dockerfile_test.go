package main

import (
	"bufio"
	"context"
	"debug/elf"
	"encoding/json"
	"fmt"
	goversion "go/version"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"

	"odradek/cmd/internal/config"
)

const repository = "../.."

// instruction is one of a Dockerfile: COPY --from=build /a /b is {COPY,
// {from: build}, "/a /b", nil}; with a JSON array as argument that is in exec.
type instruction struct {
	name  string
	flags map[string]string
	text  string
	exec  []string
}

// stage is a FROM and what follows it.
type stage struct {
	from, name   string
	instructions []instruction
}

var dockerInstructions = strings.Fields("FROM ARG ENV RUN CMD LABEL EXPOSE COPY ENTRYPOINT VOLUME USER WORKDIR STOPSIGNAL HEALTHCHECK")

// parseDockerfile reads the part of the language that ours is written in: no
// here-documents, no ADD, no ONBUILD, no directives, no ARG before FROM.
func parseDockerfile(text string) (stages []stage, err error) {
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		for strings.HasSuffix(line, `\`) && lines.Scan() {
			if next := strings.TrimSpace(lines.Text()); next == "" || next[0] != '#' {
				line = strings.TrimSuffix(line, `\`) + next
			} else {
				line += " " // a comment inside
			}
		}
		name, rest, _ := strings.Cut(line, " ")
		i := instruction{name: strings.ToUpper(name), flags: map[string]string{}, text: strings.TrimSpace(rest)}
		if !slices.Contains(dockerInstructions, i.name) {
			return nil, fmt.Errorf("instruction %q is not known", name)
		}
		for strings.HasPrefix(i.text, "--") {
			flag, rest, _ := strings.Cut(i.text[2:], " ")
			k, v, _ := strings.Cut(flag, "=")
			i.flags[k], i.text = v, strings.TrimSpace(rest)
		}
		array := i.text
		if i.name == "HEALTHCHECK" {
			array = strings.TrimSpace(strings.TrimPrefix(array, "CMD"))
		}
		if strings.HasPrefix(array, "[") {
			if err := json.Unmarshal([]byte(array), &i.exec); err != nil {
				return nil, fmt.Errorf("%s %s: %w", i.name, array, err)
			}
		}
		if i.name == "FROM" {
			words := strings.Fields(i.text)
			s := stage{from: words[0]}
			if len(words) == 3 && strings.EqualFold(words[1], "AS") {
				s.name = words[2]
			} else if len(words) != 1 {
				return nil, fmt.Errorf("FROM %s", i.text)
			}
			stages = append(stages, s)
			continue
		}
		if len(stages) == 0 {
			return nil, fmt.Errorf("%s before FROM", i.name)
		}
		last := &stages[len(stages)-1]
		last.instructions = append(last.instructions, i)
	}
	return stages, lines.Err()
}

// image is what a Dockerfile makes, as a folder and the settings beside it.
type image struct {
	root       string
	env        []string
	user       string
	entrypoint []string
	cmd        []string
	health     []string
	volumes    []string
	owners     map[string]string // --chown of what was copied
}

// outside are the files of a base image that ours copies, as a Debian has them:
// they are not here to be copied.
var outside = []string{"/etc/ssl/certs/ca-certificates.crt"}

// childStage is the stage that is not replayed: it installs packages of its
// Debian. What it builds, .ci/run builds with the same make child.
const childStage = "child"

// replayDockerfile does what a builder would do with a Dockerfile and its context, in a
// folder for each stage's root instead of a container: a path that a RUN line
// names below / is one below that folder if its first part was made by the
// Dockerfile.
func replayDockerfile(ctx context.Context, dockerfile, contextDir, work string, args map[string]string) (*image, error) {
	b, err := os.ReadFile(dockerfile)
	if err != nil {
		return nil, err
	}
	stages, err := parseDockerfile(string(b))
	if err != nil {
		return nil, err
	}
	sent, err := buildContext(contextDir, filepath.Join(work, "context"))
	if err != nil {
		return nil, err
	}
	named := map[string]*image{}
	var img *image
	for n, s := range stages {
		img = named[s.from] // a stage made of another goes on in its folder
		if img == nil {
			if s.from != "scratch" && !imageRE.MatchString(s.from) {
				return nil, fmt.Errorf("FROM %s is not pinned to a version", s.from)
			}
			img = &image{root: filepath.Join(work, fmt.Sprintf("stage-%d", n)), owners: map[string]string{}}
		}
		if s.name != "" {
			named[s.name] = img
		}
		if s.name == childStage {
			continue
		}
		if err := os.MkdirAll(img.root, 0o755); err != nil {
			return nil, err
		}
		dir := "/"
		vars := map[string]string{}
		for _, kv := range img.env {
			k, v, _ := strings.Cut(kv, "=")
			vars[k] = v
		}
		expand := func(text string) string {
			return os.Expand(text, func(name string) string { return vars[name] })
		}
		at := func(p string) string {
			if !path.IsAbs(p) {
				p = path.Join(dir, p)
			}
			return filepath.Join(img.root, filepath.FromSlash(p))
		}
		for _, i := range s.instructions {
			switch i.name {
			case "WORKDIR":
				dir = i.text
				err = os.MkdirAll(at("."), 0o755)
			case "ARG":
				k, v, _ := strings.Cut(i.text, "=")
				if given, ok := args[k]; ok {
					v = given
				}
				vars[k] = v
			case "ENV":
				for _, kv := range strings.Fields(i.text) {
					k, v, ok := strings.Cut(kv, "=")
					if !ok {
						return nil, fmt.Errorf("ENV %s", i.text)
					}
					vars[k] = v
					img.env = append(img.env, k+"="+v)
				}
			case "COPY":
				from, base := sent, named[i.flags["from"]]
				if stage, other := i.flags["from"]; other {
					if base == nil {
						return nil, fmt.Errorf("COPY --from=%s: no such stage", stage)
					}
					if from = base.root; stage == childStage {
						continue
					}
				}
				words := strings.Fields(i.text)
				to := words[len(words)-1]
				for _, w := range words[:len(words)-1] {
					if base != nil && slices.Contains(outside, w) {
						continue
					}
					if err := copyTree(filepath.Join(from, filepath.FromSlash(w)), at(to), strings.HasSuffix(to, "/")); err != nil {
						return nil, fmt.Errorf("COPY %s: %w", i.text, err)
					}
				}
				if i.flags["chown"] != "" {
					img.owners[to] = i.flags["chown"]
				}
			case "RUN":
				line := expand(i.text)
				tops, _ := os.ReadDir(img.root)
				for _, top := range append([]string{"/out"}, below(tops)...) {
					line = regexp.MustCompile(`(^|[\s=])`+regexp.QuoteMeta(top)+`(/|\s|$)`).ReplaceAllString(line, "${1}"+img.root+top+"${2}")
				}
				cmd := exec.CommandContext(ctx, "sh", "-c", line)
				cmd.Dir, cmd.Env = at("."), append(os.Environ(), img.env...)
				if out, err := cmd.CombinedOutput(); err != nil {
					return nil, fmt.Errorf("RUN %s: %w\n%s", i.text, err, out)
				}
			case "USER":
				img.user = i.text
			case "ENTRYPOINT":
				img.entrypoint = i.exec
			case "CMD":
				img.cmd = i.exec
			case "HEALTHCHECK":
				img.health = i.exec
			case "VOLUME":
				img.volumes = append(img.volumes, i.exec...)
			}
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", i.name, i.text, err)
			}
		}
	}
	return img, nil
}

func below(list []os.DirEntry) (out []string) {
	for _, e := range list {
		out = append(out, "/"+e.Name())
	}
	return out
}

// buildContext copies what .dockerignore lets through.
func buildContext(from, to string) (string, error) {
	f, err := os.Open(filepath.Join(from, ".dockerignore"))
	if err != nil {
		return "", err
	}
	defer f.Close()
	patterns, err := ignorefile.ReadAll(f)
	if err != nil {
		return "", err
	}
	ignored, err := patternmatcher.New(patterns)
	if err != nil {
		return "", err
	}
	return to, filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, name)
		if err != nil || rel == "." {
			return err
		}
		if d.IsDir() {
			if rel == ".git" {
				return filepath.SkipDir
			}
			return nil
		}
		if out, err := ignored.MatchesOrParentMatches(rel); err != nil || out || !d.Type().IsRegular() {
			return err
		}
		return copyFile(name, filepath.Join(to, rel))
	})
}

// copyTree is COPY of one source: a folder's content, or a file, into a folder
// where the target is one.
func copyTree(from, to string, intoDir bool) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		if target, err := os.Stat(to); intoDir || err == nil && target.IsDir() {
			to = filepath.Join(to, filepath.Base(from))
		}
		return copyFile(from, to)
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	return filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		return copyFile(name, filepath.Join(to, rel))
	})
}

func copyFile(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, b, info.Mode().Perm())
}

// command returns a command in the image, without anything of this environment.
func (m *image) command(ctx context.Context, env []string, args ...string) *exec.Cmd {
	line := append(slices.Clone(m.entrypoint), args...)
	cmd := exec.CommandContext(ctx, filepath.Join(m.root, line[0]), line[1:]...)
	cmd.Env = slices.Concat(m.env, env) // the last one counts
	return cmd
}

// imageCommit is the commit that the tests' image is built of.
const imageCommit = "9876543-dirty"

// built is the image of the repository's Dockerfile, made once for all tests.
var built struct {
	once sync.Once
	dir  string
	img  *image
	err  error
}

// allTests runs the tests and removes what they shared.
type allTests struct{ *testing.M }

func (a allTests) Run() int {
	defer func() { os.RemoveAll(built.dir) }()
	return a.M.Run()
}

// buildImage replays the Dockerfile of the repository.
func buildImage(t *testing.T) *image {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "odradek-image-"); built.err != nil { //nolint:usetesting // outlives the test that makes it
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		began := time.Now()
		built.img, built.err = replayDockerfile(ctx, filepath.Join(repository, "Dockerfile"), repository, built.dir,
			map[string]string{"COMMIT": imageCommit})
		t.Logf("the Dockerfile's steps took %v", time.Since(began).Round(time.Millisecond))
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.img
}

// imageFaults lists what an image of ours must not be.
func imageFaults(m *image) (faults []string) {
	if uid, _, _ := strings.Cut(m.user, ":"); !regexp.MustCompile(`^[1-9]\d*$`).MatchString(uid) {
		faults = append(faults, fmt.Sprintf("USER %q: want a number that is not root's", m.user))
	}
	if !slices.Equal(m.entrypoint, []string{"/worker"}) {
		return append(faults, fmt.Sprintf("ENTRYPOINT %q", m.entrypoint))
	}
	if !slices.Equal(m.cmd, []string{"run"}) || !slices.Equal(m.health, []string{"/worker", "healthcheck"}) {
		faults = append(faults, fmt.Sprintf("CMD %q, HEALTHCHECK %q", m.cmd, m.health))
	}
	c, _, _ := config.Parse(m.env)
	cache := c.Registry.CacheDir
	if info, err := os.Stat(filepath.Join(m.root, cache)); cache == "" || err != nil || !info.IsDir() || !slices.Contains(m.volumes, cache) ||
		m.owners[cache] != m.user {
		faults = append(faults, fmt.Sprintf("the schema cache %q is not a folder of the user's and a volume: %v", cache, err))
	}
	program := filepath.Join(m.root, m.entrypoint[0])
	f, err := elf.Open(program)
	if err != nil {
		return append(faults, err.Error())
	}
	defer f.Close()
	if libs, err := f.ImportedLibraries(); err != nil || len(libs) > 0 {
		faults = append(faults, fmt.Sprintf("the program needs %v (%v): it is not static", libs, err))
	}
	if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		faults = append(faults, "the program needs a dynamic linker")
	}
	if info, err := os.Stat(program); err != nil || info.Mode().Perm()&0o005 != 0o005 {
		faults = append(faults, "the program cannot be run by everyone")
	}
	return faults
}

// TestDockerfile replays the build steps, without a container engine, on what
// .dockerignore sends of the tree, and looks at what comes out.
func TestDockerfile(t *testing.T) {
	img := buildImage(t)
	for _, f := range imageFaults(img) {
		t.Error(f)
	}
	out, err := img.command(t.Context(), nil, "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "odradek "+release+"+"+imageCommit+" go") {
		t.Errorf("version: %v, %q", err, out)
	}
	b, err := os.ReadFile(filepath.Join(repository, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(repository, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	has := regexp.MustCompile(`golang:([\d.]+)`).FindSubmatch(b)
	wants := regexp.MustCompile(`(?m)^go ([\d.]+)`).FindSubmatch(mod)
	if has == nil || wants == nil || goversion.Compare("go"+string(has[1]), "go"+string(wants[1])) < 0 {
		t.Errorf("the image builds with Go %s, go.mod asks for %s", has, wants)
	}
}

// TestDockerfileRules holds that the rules bite.
func TestDockerfileRules(t *testing.T) {
	good, err := os.ReadFile(filepath.Join(repository, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	// The folder stands for the repository: a program that builds at once.
	tree := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module m\n", "go.sum": "", "cmd/worker/main.go": "package main\n\nvar version string\n\nfunc main() { println(version) }\n",
		".dockerignore": "*\n!go.mod\n!go.sum\n!cmd\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(tree, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(tree, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ old, new, want string }{
		{"", "", ""},
		{"golang:1.26.5-bookworm", "golang:latest", "not pinned"},
		{"FROM scratch", "FROM gcr.io/distroless/static:nonroot", "not pinned"},
		{"USER 65532:65532\n", "", "USER"},
		{"USER 65532:65532", "USER root", "USER"},
		{"--chown=65532:65532 ", "", "schema cache"},
		{"VOLUME", "#VOLUME", "schema cache"},
		{"COPY go.mod go.sum ./", "COPY go.mod go.sum LICENSE ./", "LICENSE"},
		{"--from=build /out/worker", "--from=built /out/worker", "no such stage"},
		{"./cmd/worker\n", "./cmd/wroker\n", "./cmd/wroker: exit status"},
		{"FROM worker", "FROM wroker", "not pinned"},
		{"-o /out/worker", "-o /out/wroker", "/out/worker"},
		{`ENTRYPOINT ["/worker"]`, `ENTRYPOINT /worker run`, "ENTRYPOINT"},
		{`CMD ["/worker", "healthcheck"]`, `CMD /worker healthcheck`, "HEALTHCHECK"},
		{"STOPSIGNAL", "STOPSINGAL", "not known"},
	} {
		if !strings.Contains(string(good), c.old) {
			t.Fatalf("Dockerfile has no %q", c.old)
		}
		dir := t.TempDir()
		file := filepath.Join(dir, "Dockerfile")
		text := string(good)
		if c.old != "" {
			text = strings.ReplaceAll(text, c.old, c.new)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		img, err := replayDockerfile(t.Context(), file, tree, dir, nil)
		got := fmt.Sprint(err)
		if err == nil {
			got = strings.Join(imageFaults(img), "; ")
		}
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%q for %q: want a fault with %q, got %q", c.new, c.old, c.want, got)
		}
	}
	// What .dockerignore holds back is not there to be copied.
	if err := os.WriteFile(filepath.Join(tree, ".dockerignore"), []byte("*\n!go.mod\n!cmd\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = replayDockerfile(t.Context(), filepath.Join(repository, "Dockerfile"), tree, t.TempDir(), nil)
	if err == nil || !strings.Contains(err.Error(), "go.sum") {
		t.Errorf("go.sum is ignored, and the build says %v", err)
	}
}
