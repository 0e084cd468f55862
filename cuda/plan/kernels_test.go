package plan

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"odradek/cuda/kernels"
)

// TestNames looks for every kernel in its source and in its fatbin.
func TestNames(t *testing.T) {
	for _, name := range names {
		if kernels.Source(name) == "" {
			t.Errorf("no .fatbin has a name that kernel %s begins with: go generate ./cuda", name)
			continue
		}
		source, err := os.ReadFile("../kernels/" + kernels.Source(name) + ".cu")
		if err != nil {
			t.Error(err)
			continue
		}
		// By its own name, or composed by a macro.
		if !regexp.MustCompile(`\b` + name + `\s*[(,)]|\b` + kernels.Source(name) + `(_\w*)?##`).Match(source) {
			t.Errorf("%s.cu has no kernel %s", kernels.Source(name), name)
		}
		// Otherwise the module has it under another name, which only a device would show.
		if n := bytes.Count(source, []byte("__global__")); n != bytes.Count(source, []byte(`extern "C" __global__`)) {
			t.Errorf("%s.cu has a kernel without extern \"C\"", kernels.Source(name))
		}
		if b, err := kernels.Fatbin(kernels.Source(name)); err != nil || len(b) == 0 {
			t.Errorf("kernel %s: %v", name, err)
		}
	}
}

// TestKernelNames requires that a plan's kernels begin with the op's name, are defined once, and in no
// other .cu.
func TestKernelNames(t *testing.T) {
	for _, p := range plans {
		if len(p.kernels) == 0 {
			t.Errorf("op %s has a plan and no kernel", p.op)
		}
		for _, name := range p.kernels {
			if source := kernels.Source(name); !strings.HasPrefix(name, p.op.String()) || source != p.op.String() {
				t.Errorf("op %s has kernel %s, of %s.cu", p.op, name, source)
			}
		}
	}
	if sorted := slices.Sorted(slices.Values(names)); len(slices.Compact(sorted)) != len(names) {
		t.Errorf("a kernel is there twice: %v", names)
	}
}
