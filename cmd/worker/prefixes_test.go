package main

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var prefix = regexp.MustCompile(`^([a-z][a-z0-9-]*): `)

// errorTexts returns the texts, or the beginnings of texts, of the errors and panics that a file makes.
func errorTexts(f *ast.File) (texts []string) {
	method := "" // that encloses the call
	ast.Inspect(f, func(n ast.Node) bool {
		if fn, ok := n.(*ast.FuncDecl); ok {
			method = fn.Name.Name
		}
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		name := ""
		switch fun := call.Fun.(type) {
		case *ast.Ident:
			name = fun.Name
		case *ast.SelectorExpr:
			if x, ok := fun.X.(*ast.Ident); ok {
				name = x.Name + "." + fun.Sel.Name
			}
		}
		if name != "panic" && name != "errors.New" && name != "fmt.Errorf" && (name != "fmt.Sprintf" || method != "Error") {
			return true
		}
		text := call.Args[0]
		if c, ok := text.(*ast.CallExpr); ok && name == "panic" && len(c.Args) > 0 { // fmt.Sprintf
			text = c.Args[0]
		}
		for {
			sum, ok := text.(*ast.BinaryExpr)
			if !ok {
				break
			}
			text = sum.X
		}
		if l, ok := text.(*ast.BasicLit); ok && l.Kind == token.STRING {
			if s, err := strconv.Unquote(l.Value); err == nil {
				texts = append(texts, s)
			}
		}
		return true
	})
	return texts
}

// TestErrorPrefixes requires of errors and panics that begin with a word and a colon that the word is the name of their
// package, or in a program the name of the program or of one of its commands, each of which has a file.
func TestErrorPrefixes(t *testing.T) {
	type text struct{ file, text, word string }
	var texts []text
	allowed := map[string][]string{} // by folder
	eachFile(t, func(rel string, f *ast.File) {
		if strings.HasSuffix(rel, "_test.go") {
			return
		}
		dir, name := path.Dir(rel), f.Name.Name
		if name == "main" {
			name = path.Base(dir)
			allowed[dir] = append(allowed[dir], strings.TrimSuffix(path.Base(rel), ".go"))
		}
		allowed[dir] = append(allowed[dir], name)
		for _, s := range errorTexts(f) {
			if m := prefix.FindStringSubmatch(s); m != nil {
				texts = append(texts, text{rel, s, m[1]})
			}
		}
	})
	for _, x := range texts {
		if !slices.Contains(allowed[path.Dir(x.file)], x.word) {
			t.Errorf("%s: the error %q does not begin with its package's name", x.file, x.text)
		}
	}
	if len(texts) < 500 {
		t.Errorf("%d errors begin with a word: are these all?", len(texts))
	}
}
