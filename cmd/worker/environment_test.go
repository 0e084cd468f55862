package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// environment lists what may read the environment: a pattern of files, the
// expression that reads ("*" for any), and what it is for. Nothing else may: an
// undocumented variable could end a released program, or have it break a promise,
// wherever somebody happens to set it.
var environment = []struct{ files, reads, why string }{
	{"cmd/worker/serve.go", "os.Environ()", "the settings, which docs/configuration.md lists"},
	{"cmd/worker/run.go", "os.Getenv", "GOMEMLIMIT, the Go runtime's own"},
	{"cuda/child/process.go", "os.Environ()", "odradek-cuda inherits it and reads nothing of it"},
	{"cuda/kernels/gen/*", "*", "no part of the product: it compiles kernels"},
	{"cmd/demo/*", "*", "no part of the product"},
	{"cmd/bench/...", "*", "no part of the product; it starts other programs"},
	{"processor/kafkatest/*", "*", "brokers for tests"},
	{"detectors/seedtest/*", "*", "seeds of tests"},
}

// TestEnvironment holds that released programs have no test switches: where they
// read the environment, and that nothing but tests sets hooks.
func TestEnvironment(t *testing.T) {
	seen := map[string]bool{}
	eachFile(t, func(rel string, f *ast.File) {
		if strings.HasSuffix(rel, "_test.go") {
			return
		}
		for _, read := range environmentReads(f) {
			i := slices.IndexFunc(environment, func(r struct{ files, reads, why string }) bool {
				return anyMatches(r.files, rel) && (r.reads == "*" || r.reads == read)
			})
			if i < 0 {
				t.Errorf("%s: %s reads the environment: make it a setting, which config checks and documents, or a hook that tests set", rel, read)
				continue
			}
			seen[environment[i].files] = true
		}
		for _, fault := range hookFaults(f) {
			t.Errorf("%s: %s: only tests may", rel, fault)
		}
	})
	for _, r := range environment {
		if r.reads != "*" && !seen[r.files] {
			t.Errorf("%s does not read %s any more: take the row out", r.files, r.reads)
		}
	}
	// What odradek-cuda has in C.
	files := 0
	for _, pattern := range []string{"device/*.c", "device/*.h", "kernels/*.h", "kernels/*.cu"} {
		names, err := filepath.Glob(filepath.Join("..", "..", "cuda", pattern))
		must(t, err)
		for _, name := range names {
			files++
			b, err := os.ReadFile(name)
			must(t, err)
			if getenv.Match(b) {
				t.Errorf("%s reads the environment", name)
			}
		}
	}
	if files < 10 {
		t.Errorf("only %d files of C and CUDA seen", files)
	}
}

var getenv = regexp.MustCompile(`\b(secure_)?getenv\b|\benviron\b`)

// environmentReads lists the expressions of a file that read the environment.
func environmentReads(f *ast.File) (reads []string) {
	packages := map[string]bool{}
	for _, i := range f.Imports {
		switch path := strings.Trim(i.Path.Value, `"`); path {
		case "os", "syscall", "C", "golang.org/x/sys/unix":
			name := path[strings.LastIndex(path, "/")+1:]
			if i.Name != nil {
				name = i.Name.Name
			}
			packages[name] = true
		}
	}
	called := map[ast.Expr]bool{}
	reader := func(e ast.Expr) bool {
		s, ok := e.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		x, ok := s.X.(*ast.Ident)
		return ok && packages[x.Name] &&
			slices.Contains([]string{"Getenv", "LookupEnv", "Environ", "ExpandEnv", "getenv", "secure_getenv", "environ"}, s.Sel.Name)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch e := n.(type) {
		case *ast.CallExpr:
			if reader(e.Fun) {
				called[e.Fun] = true
				reads = append(reads, types.ExprString(e))
			}
		case *ast.SelectorExpr:
			if reader(e) && !called[e] {
				reads = append(reads, types.ExprString(e))
			}
		}
		return true
	})
	return reads
}

// hookFaults lists the expressions of a file that set hooks of the processor, or
// arguments and environment of odradek-cuda. Handing the variable hooks on, which
// tests of cmd/worker set, is none, nor is handing on variables of a processor's settings.
func hookFaults(f *ast.File) (faults []string) {
	isHooks := func(e ast.Expr) bool { return slices.Contains([]string{"hooks", "Hooks"}, lastName(e)) }
	add := func(what string, e ast.Expr) { faults = append(faults, what+" "+types.ExprString(e)) }
	ast.Inspect(f, func(n ast.Node) bool {
		switch e := n.(type) {
		case *ast.CompositeLit:
			switch typ := lastName(e.Type); {
			case typ == "Hooks":
				add("makes", e.Type)
			case typ == "Options" && types.ExprString(e.Type) == "cuda.Options":
				for _, el := range e.Elts {
					if kv, ok := el.(*ast.KeyValueExpr); ok && (lastName(kv.Key) == "Args" || lastName(kv.Key) == "Env") {
						add("sets cuda.Options", kv.Key)
					}
				}
			}
		case *ast.KeyValueExpr:
			if isHooks(e.Key) {
				add("sets", e.Key)
			}
		case *ast.UnaryExpr:
			if e.Op == token.AND && isHooks(e.X) {
				add("takes the address of", e.X)
			}
		case *ast.ValueSpec:
			for _, name := range e.Names {
				if isHooks(name) && len(e.Values) > 0 {
					add("sets", name)
				}
			}
		case *ast.AssignStmt:
			for i, to := range e.Lhs {
				s, field := to.(*ast.SelectorExpr)
				switch {
				case field && s.Sel.Name == "Hooks" && len(e.Rhs) == len(e.Lhs) && types.ExprString(e.Rhs[i]) == "hooks":
				case isHooks(to), field && isHooks(s.X):
					add("sets", to)
				}
			}
		}
		return true
	})
	return faults
}

// lastName returns the name that an expression ends with.
func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// TestEnvironmentRules holds that the rules bite.
func TestEnvironmentRules(t *testing.T) {
	for _, c := range []struct{ code, want string }{
		{`var v = os.Getenv("A")`, `os.Getenv("A")`},
		{`var v, ok = os.LookupEnv("A")`, `os.LookupEnv("A")`},
		{`var v = os.ExpandEnv("$A")`, `os.ExpandEnv("$A")`},
		{`var v = sys.Getenv`, "sys.Getenv"},
		{`var v = C.getenv(name)`, "C.getenv(name)"},
		{`var v = os.Args`, ""},
		{`var v = other.Getenv("A")`, ""},
		{`var hooks processor.Hooks`, ""},
		{`func f() { cfg.Hooks = hooks }`, ""},
		{`func f() { cfg.Hooks = other }`, "sets cfg.Hooks"},
		{`func f() { cfg.Hooks.Step = nil }`, "sets cfg.Hooks.Step"},
		{`func f() { hooks = other() }`, "sets hooks"},
		{`func f() { hooks.Step = step }`, "sets hooks.Step"},
		{`func f() { set(&hooks) }`, "takes the address of hooks"},
		{`var hooks = other()`, "sets hooks"},
		{`var h = processor.Hooks{}`, "makes processor.Hooks"},
		{`var c = processor.Config{Hooks: h}`, "sets Hooks"},
		{`var o = cuda.Options{Child: child, Args: args}`, "sets cuda.Options Args"},
		{`var o = cuda.Options{Child: child}`, ""},
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "", "package x\nimport (\"os\"; sys \"golang.org/x/sys/unix\"; \"C\")\n"+c.code, 0)
		must(t, err)
		if got := strings.Join(append(environmentReads(f), hookFaults(f)...), ", "); got != c.want {
			t.Errorf("%s: %q, want %q", c.code, got, c.want)
		}
	}
	for text, want := range map[string]bool{`char *v = getenv("A");`: true, "extern char **environ;": true, "// the environment": false} {
		if getenv.MatchString(text) != want {
			t.Errorf("%s: reads the environment: %t, want %t", text, !want, want)
		}
	}
}
