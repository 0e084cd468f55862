package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestGenerated compares every fatbin's checksums with the code of its present sources.
func TestGenerated(t *testing.T) {
	stale, err := staleFatbins("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range stale {
		t.Errorf("%s.fatbin was built from other code: go generate ./cuda", f.name)
	}
	gone, err := orphans("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range gone {
		t.Errorf("%s.cu is gone: go generate ./cuda", name)
	}
	blocks, err := readSums("..")
	if err != nil {
		t.Fatal(err)
	}
	for name := range blocks {
		if _, err := os.Stat("../" + name + ".cu"); err != nil {
			t.Errorf("%s has a block of %s: go generate ./cuda", sumsFile, name)
		}
	}
}

// TestStale requires that a fatbin is stale after a change of code in its source, in a header or in a
// header's header, until it is built itself, and after a change of its own bytes; a changed comment
// makes none stale.
func TestStale(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(when string, want ...string) {
		t.Helper()
		stale, err := staleFatbins(dir)
		var got []string
		for _, f := range stale {
			got = append(got, f.name)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s %v are stale, %v, want %v", when, got, err, want)
		}
	}
	building := func(names ...string) (f []fatbin) {
		t.Helper()
		for _, name := range names {
			bin, err := newFatbin(dir, name)
			if err != nil {
				t.Fatal(err)
			}
			f = append(f, bin)
		}
		return f
	}
	done := func(built []fatbin) {
		t.Helper()
		for _, f := range built {
			write(f.name+".fatbin", "code of "+f.name)
		}
		if err := writeSums(dir, built); err != nil {
			t.Fatal(err)
		}
	}
	built := func(names ...string) {
		t.Helper()
		done(building(names...))
	}
	write("task.h", "struct Task;")
	write("device.h", "#ifdef E\n#include \"emulate/emulate.h\"\n#endif\n#include \"task.h\"\n")
	write("one.cu", "#include \"device.h\"\n")
	write("two.cu", "#include \"device.h\"\n#include \"two.h\"\n")
	write("two.h", "#include <stdint.h>\n#include \"task.h\"\n")
	expect("at first", "one", "two")
	built("one", "two")
	expect("once built")
	write("two.h", "// Two.\n\n#include <stdint.h>  // of C\n#include \"task.h\"\n")
	expect("with comments in two.h")
	write("two.h", "// Two.\n\nint two;\n")
	expect("after an edit of two.h", "two")
	built("two")
	write("task.h", "struct Task {};")
	expect("after an edit of task.h", "one", "two")
	built("one")
	expect("with one of them built", "two")
	built("two")
	two := building("two")
	write("two.h", "int two, three;\n")
	done(two)
	expect("after an edit while it was built", "two")
	built("two")
	write("one.fatbin", "other code")
	expect("with another fatbin", "one")
	built("one")
	write("three.cu", "")
	expect("with a new kernel", "three")
	built("three")
	if err := os.Remove(filepath.Join(dir, "two.cu")); err != nil {
		t.Fatal(err)
	}
	if got, err := orphans(dir); err != nil || !slices.Equal(got, []string{"two"}) {
		t.Errorf("fatbins without a source are %v, %v", got, err)
	}
	if err := removeOrphans(dir); err != nil {
		t.Fatal(err)
	}
	built()
	if blocks, err := readSums(dir); err != nil || len(blocks) != 2 || len(blocks["one"]) != 4 {
		t.Errorf("%v, %v: want blocks of one, with three sources, and three", blocks, err)
	}
	expect("at the end")
}
