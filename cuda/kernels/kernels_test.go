package kernels

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestGenerated holds every source and fatbin to SHA256SUMS: a kernel or a header
// that was edited has to be generated again.
func TestGenerated(t *testing.T) {
	text, err := os.ReadFile("SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]string{}
	for line := range strings.Lines(string(text)) {
		sum, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok {
			t.Fatalf("SHA256SUMS: %q", line)
		}
		sums[name] = sum
	}
	var found []string
	for _, pattern := range []string{"*.cu", "*.h", "*.fatbin"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, names...)
	}
	for _, name := range found {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		switch sum := fmt.Sprintf("%x", sha256.Sum256(b)); {
		case sums[name] == "":
			t.Errorf("%s is new: go generate ./cuda", name)
		case sums[name] != sum:
			t.Errorf("%s has changed: go generate ./cuda", name)
		}
		delete(sums, name)
	}
	for name := range sums {
		t.Errorf("%s is gone: go generate ./cuda", name)
	}
}

// TestNames looks for every kernel in its source and in its fatbin.
func TestNames(t *testing.T) {
	for _, name := range Names {
		if Source(name) == "" {
			t.Errorf("no .fatbin has a name that kernel %s begins with: go generate ./cuda", name)
			continue
		}
		source, err := os.ReadFile(Source(name) + ".cu")
		if err != nil {
			t.Error(err)
			continue
		}
		// As it is, or put together by a macro.
		if !regexp.MustCompile(`\b` + name + `\s*[(,)]|\b` + Source(name) + `(_\w*)?##`).Match(source) {
			t.Errorf("%s.cu has no kernel %s", Source(name), name)
		}
		// Else the module has it under another name, which only a device would tell.
		if n := bytes.Count(source, []byte("__global__")); n != bytes.Count(source, []byte(`extern "C" __global__`)) {
			t.Errorf("%s.cu has a kernel without extern \"C\"", Source(name))
		}
		if b, err := Fatbin(Source(name)); err != nil || len(b) == 0 {
			t.Errorf("kernel %s: %v", name, err)
		}
	}
}
