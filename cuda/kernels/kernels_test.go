package kernels

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
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
