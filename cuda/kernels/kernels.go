// Package kernels has the device's code: one .cu per op, built by go generate
// ./cuda into fatbins that are part of odradek-cuda (cuda/device).
package kernels

import (
	"embed"
	"fmt"
	"hash/fnv"
	"strings"
)

// layout changes with task.h and the protocol of parent and child.
const layout = 7

// Tests lists the kernels of fault.cu, which a child that was started with the flag -faults
// loads after plan.Kernels.
var Tests = []string{"fault_rounds", "fault_models", "fault_layout"}

//go:embed *.fatbin
var fatbins embed.FS

// Fatbin returns the code built from NAME.cu: for several architectures, and as PTX for
// later ones.
func Fatbin(name string) (string, error) {
	b, err := fatbins.ReadFile(name + ".fatbin")
	if err != nil {
		return "", fmt.Errorf("kernels: no %s.fatbin; go generate ./cuda", name)
	}
	return string(b), nil
}

// Source returns the name of the .cu file with the kernel, without the ending; "" where there is none.
func Source(kernel string) (source string) {
	files, _ := fatbins.ReadDir(".") // embedded files: it cannot fail
	for _, f := range files {
		name := strings.TrimSuffix(f.Name(), ".fatbin")
		if strings.HasPrefix(kernel, name) && len(name) > len(source) {
			source = name
		}
	}
	return source
}

// Version differs between builds whose launches are incompatible; names are the kernels by index.
func Version(names []string) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, layout, names)
	return h.Sum64()
}
