package kernels

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"odradek/detectors"
)

var update = flag.Bool("update", false, "write params.h anew")

// TestParams holds params.h to the parameter tables of the ops.
func TestParams(t *testing.T) {
	want := paramsHeader()
	if *update {
		if err := os.WriteFile("params.h", want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile("params.h")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("params.h is not what the tables in detectors say: go generate ./cuda")
	}
}

// paramsHeader writes the words of each op's parameters as a struct.
func paramsHeader() []byte {
	var b bytes.Buffer
	b.WriteString(`// What the parameters of a task hold, by op: Task::params lies at an even offset.
// made by go generate ./cuda from the tables in detectors; do not edit
#pragma once
#include <stdint.h>
`)
	types := map[detectors.ParamType]string{
		detectors.Int: "int32_t", detectors.Long: "int64_t", detectors.Float: "float", detectors.Bool: "uint32_t",
	}
	for _, op := range detectors.Ops() {
		s := op.Spec()
		name := strings.ToUpper(s.Name[:1]) + s.Name[1:] + "Params"
		fmt.Fprintf(&b, "\nstruct %s {\n", name)
		size, least := 0, 1
		for _, w := range s.Words() {
			field := fieldName(w.Name)
			switch w.Type {
			case detectors.Floats:
				fmt.Fprintf(&b, "    // %s are the numbers after these, to the end.\n", field)
				fmt.Fprintf(&b, "    __device__ const float *%s() const { return reinterpret_cast<const float *>(this) + %d; }\n", field, w.Offset)
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
	}
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
