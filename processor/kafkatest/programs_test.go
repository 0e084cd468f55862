package kafkatest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWorkerProgram: only where no worker is named does the error say how to build one,
// so that it never suggests writing over a file that -worker named.
func TestWorkerProgram(t *testing.T) {
	named := filepath.Join(t.TempDir(), "notes.txt")
	if err := os.WriteFile(named, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := WorkerProgram(named); err == nil || strings.Contains(err.Error(), "go build") || !strings.Contains(err.Error(), "-worker") {
		t.Errorf("a file that is no program: %v", err)
	}
	if _, err := WorkerProgram(""); err == nil || !strings.Contains(err.Error(), "go build -o ") {
		t.Errorf("no worker beside the program: %v", err)
	}
	if err := os.Chmod(named, 0o700); err != nil {
		t.Fatal(err)
	}
	if got, err := WorkerProgram(named); got != named || err != nil {
		t.Errorf("%s, %v", got, err)
	}
}
