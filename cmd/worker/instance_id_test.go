//go:build unix

package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestClaim: workers that share a folder have different ids, one that comes back has its own again, and groups do not
// take each other's.
func TestClaim(t *testing.T) {
	dir := t.TempDir()
	claim := func(group string) (string, func()) {
		t.Helper()
		id, release, err := claimInstanceID(dir, group)
		if err != nil {
			t.Fatal(err)
		}
		return id, release
	}
	first, end := claim("a")
	second, endSecond := claim("a")
	third, _ := claim("b/ ä")
	if first == second || third == first || third == second {
		t.Fatalf("ids %s, %s, %s", first, second, third)
	}
	end()
	if again, end := claim("a"); again != first {
		t.Errorf("the first is %s after a restart, it was %s", again, first)
	} else {
		end()
	}
	endSecond()
	if again, _ := claim("a"); again != first {
		t.Errorf("%s, want the first free id, %s", again, first)
	}
	if again, _ := claim("a"); again != second {
		t.Errorf("%s, want %s", again, second)
	}
	// A file that a crash has left empty gets an id.
	files, _ := filepath.Glob(filepath.Join(dir, "instance-*"))
	if len(files) != 3 {
		t.Fatalf("%q", files)
	}
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, filepath.Base(files[0])), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dir = other
	if id, _ := claim("a"); !valid.MatchString(id) {
		t.Errorf("id %q", id)
	}
	if _, _, err := claimInstanceID(filepath.Join(dir, "none"), "a"); err == nil {
		t.Error("a folder that is not there has an id")
	}
}
