package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPapers holds the tables of docs/papers.md to what `bench papers` prints.
func TestPapers(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "papers.md"))
	if err != nil {
		t.Fatal(err)
	}
	results := filepath.Join("..", "..", "docs", "benchmarks", "results")
	for _, number := range []string{"000", "001", "002", "003", "004"} {
		var out, errs bytes.Buffer
		if code := (terminal{&out, &errs, nil}).papers([]string{"-results", results, number}); code != exitOK {
			t.Fatalf("%s: exit %d: %s", number, code, &errs)
		}
		if !bytes.Contains(page, out.Bytes()) {
			t.Errorf("docs/papers.md lacks the table of `bench papers %s`:\n%s", number, &out)
		}
	}
	var out, errs bytes.Buffer
	code := (terminal{&out, &errs, nil}).papers([]string{"005"})
	if code != exitUsage || !strings.Contains(errs.String(), "use 000 to 004") {
		t.Errorf("exit %d: %s", code, &errs)
	}
}
