package faults

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestClockOverlay: the clock of a program that is built with the overlay is wrong, within the bounds that the fault names.
func TestClockOverlay(t *testing.T) {
	dir := t.TempDir()
	file, err := clockOverlay(t.Context(), dir)
	must(t, err)
	source, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "now")
	must(t, os.WriteFile(source, []byte("package main\n\nimport \"time\"\n\nfunc main() { println(time.Now().Unix()) }\n"), 0o600))
	if out, err := exec.Command("go", "build", "-overlay", file, "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	seen := map[int64]bool{}
	for range 5 {
		out, err := exec.Command(program).CombinedOutput()
		must(t, err)
		s, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
		must(t, err)
		by := s - time.Now().Unix()
		if seen[by] = true; by < -48*3600-10 || by > 3000 {
			t.Errorf("its clock is wrong by %d s", by)
		}
	}
	if len(seen) < 4 {
		t.Errorf("five processes have clocks that are wrong by %v s", seen)
	}
}
