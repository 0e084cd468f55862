package kernels

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"odradek/cuda/plan"
	"odradek/detectors"
)

var update = flag.Bool("update", false, "write the headers of parameters anew")

// TestParams holds NAME_params.h, of each op that has kernels, to the op's parameter table.
func TestParams(t *testing.T) {
	left, err := filepath.Glob("*_params.h")
	if err != nil {
		t.Fatal(err)
	}
	old := map[string]bool{}
	for _, name := range left {
		old[name] = true
	}
	for _, op := range detectors.Ops() {
		if !plan.Has(op) {
			continue
		}
		name, want := op.String()+"_params.h", paramsHeader(op.Spec())
		delete(old, name)
		if *update {
			if err := os.WriteFile(name, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the table in detectors says, %v: go generate ./cuda", name, err)
		}
	}
	for name := range old {
		t.Errorf("%s is of no op that has kernels: remove it", name)
	}
}

// paramsHeader writes the words of an op's parameters as a struct.
func paramsHeader(s *detectors.Spec) []byte {
	name := strings.ToUpper(s.Name[:1]) + s.Name[1:] + "Params"
	var b bytes.Buffer
	fmt.Fprintf(&b, `// What the parameters of a task of op %s hold: Task::params lies at an even offset.
// made by go generate ./cuda from the table in detectors; do not edit
#pragma once
#include <stdint.h>

struct %s {
`, s.Name, name)
	types := map[detectors.ParamType]string{
		detectors.Int: "int32_t", detectors.Long: "int64_t", detectors.Float: "float", detectors.Bool: "uint32_t",
	}
	size, least := 0, 1
	for _, w := range s.Words() {
		field := fieldName(w.Name)
		switch w.Type {
		case detectors.Floats, detectors.Ints:
			of := map[detectors.ParamType]string{detectors.Floats: "float", detectors.Ints: "int32_t"}[w.Type]
			fmt.Fprintf(&b, "    // %s are the numbers after these, to the end.\n", field)
			fmt.Fprintf(&b, "    __device__ const %[1]s *%[2]s() const { return reinterpret_cast<const %[1]s *>(this) + %[3]d; }\n",
				of, field, w.Offset)
			continue
		case detectors.Bool:
			fmt.Fprintf(&b, "    %s %s;  // 0 or 1\n", types[w.Type], field)
		default:
			fmt.Fprintf(&b, "    %s %s;\n", types[w.Type], field)
		}
		size = w.Offset + 1
		if w.Type == detectors.Long {
			size, least = w.Offset+2, 2
		}
	}
	fmt.Fprintf(&b, "};\nstatic_assert(sizeof(%s) == %d, \"layout\");\n", name, 4*((size+least-1)/least*least))
	return b.Bytes()
}

// fieldName writes a parameter's name as that of a field: POWER_STEPS is powerSteps.
func fieldName(param string) string {
	parts := strings.Split(strings.ToLower(param), "_")
	for i, p := range parts[1:] {
		parts[i+1] = strings.ToUpper(p[:1]) + p[1:]
	}
	return strings.Join(parts, "")
}
