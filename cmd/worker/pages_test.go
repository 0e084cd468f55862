package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

var (
	pageLink   = regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]*))?\)`)
	pageFile   = regexp.MustCompile(`\b(?:cmd|processor|detectors|cuda|schemas|docs|scripts|deploy|\.ci)/[a-zA-Z0-9_/.-]*\.(?:go|md|sh|py|yml|avsc|cu|cpp|h|c|s)\b`)
	pageTarget = regexp.MustCompile("(?m)(?:`|^    )make ([a-z-]+)")
	pageTest   = regexp.MustCompile(`\bTest[A-Z][A-Za-z0-9]+\b`)
	makeTarget = regexp.MustCompile(`(?m)^([a-z-]+):`)
	testFunc   = regexp.MustCompile(`(?m)^func (Test[A-Z][A-Za-z0-9]+)\(`)
)

// headings returns the anchors of a page's headings: in lower case, with - for a space and without punctuation; a heading that is
// there already gets a number.
func headings(t *testing.T, page string) map[string]bool {
	t.Helper()
	b, err := os.ReadFile(page)
	must(t, err)
	anchors, fenced := map[string]bool{}, false
	for line := range strings.Lines(string(b)) {
		fenced = fenced != strings.HasPrefix(line, "```")
		text := strings.TrimLeft(line, "#")
		if fenced || text == line || !strings.HasPrefix(text, " ") {
			continue
		}
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(text))
		for n, first := 1, anchor; anchors[anchor]; n++ {
			anchor = first + "-" + strconv.Itoa(n)
		}
		anchors[anchor] = true
	}
	return anchors
}

// TestPages holds that what pages for people name is there: links with their anchors, source files, tests
// and targets of make. All of these move, and a page does not notice. README and the pages of one task each are short.
func TestPages(t *testing.T) {
	root := filepath.Join("..", "..")
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	must(t, err)
	targets, tests := map[string]bool{}, map[string]bool{}
	for _, m := range makeTarget.FindAllStringSubmatch(string(makefile), -1) {
		targets[m[1]] = true
	}
	var pages []string
	must(t, filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin" || d.Name() == "testdata"):
			return filepath.SkipDir
		case strings.HasSuffix(name, ".md"):
			pages = append(pages, name)
		case strings.HasSuffix(name, "_test.go"):
			b, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			for _, m := range testFunc.FindAllStringSubmatch(string(b), -1) {
				tests[m[1]] = true
			}
		}
		return nil
	}))
	links := 0
	for _, page := range pages {
		b, err := os.ReadFile(page)
		must(t, err)
		text := string(b)
		rel, err := filepath.Rel(root, page)
		must(t, err)
		for _, m := range pageLink.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			links++
			target := page
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(page), m[1])
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: the link to %s: %v", rel, m[1], err)
			} else if m[2] != "" && filepath.Ext(target) == ".md" && !headings(t, target)[m[2]] {
				t.Errorf("%s: the link to %s#%s: no heading of that page has this anchor", rel, m[1], m[2])
			}
		}
		n := len(strings.Fields(text))
		if n > 1500 && (rel == "README.md" || filepath.Dir(rel) == filepath.Join("docs", "operations")) {
			t.Errorf("%s has %d words, more than 1,500", rel, n)
		}
		if rel == "CHANGELOG.md" { // tells of what was
			continue
		}
		for _, file := range pageFile.FindAllString(text, -1) {
			if _, err := os.Stat(filepath.Join(root, file)); err != nil && !strings.Contains(file, "NAME") {
				t.Errorf("%s names %s: %v", rel, file, err)
			}
		}
		for _, m := range pageTarget.FindAllStringSubmatch(text, -1) {
			if !targets[m[1]] {
				t.Errorf("%s: make %s: the Makefile has no such target", rel, m[1])
			}
		}
		for _, name := range pageTest.FindAllString(text, -1) {
			if !tests[name] && name != "TestX" {
				t.Errorf("%s names %s, and there is no such test", rel, name)
			}
		}
	}
	if len(pages) < 10 || links < 20 || len(targets) < 10 || len(tests) < 100 {
		t.Errorf("only %d pages, %d links, %d targets of make and %d tests seen", len(pages), links, len(targets), len(tests))
	}
}
