package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestCode(t *testing.T) {
	for _, c := range []struct{ source, want string }{
		{"", ""},
		{"\n\n", ""},
		{"int a;", "int a;\n"},
		{"// a\n\n  int  a;  // b\n\n\tint b;\n", "int a;\nint b;\n"},
		{"int a; /* b\n c */ int d;", "int a; int d;\n"},
		{"a/**/b /* // */ c // /*\nd", "a b c\nd\n"},
		{`s = "// \" /* no comment */";  // one`, "s = \"// \\\" /* no comment */\";\n"},
		{`c = '"'; d = '\''; // '`, "c = '\"'; d = '\\'';\n"},
		{"n = 1'000'000; // '", "n = 1'000'000;\n"},
		{"x = 0x1p-3f / 2. // /\n/ y", "x = 0x1p-3f / 2.\n/ y\n"},
		{"#define A(x) \\\n  x  // y \\\n still a comment\n\nint a;", "#define A(x) x\nint a;\n"},
		{"#define A \\\n\nint a;", "#define A\nint a;\n"},
		{"#define A(x) x\n#define B (x) x", "#define A(x) x\n#define B (x) x\n"},
		{"#include <a.h>  // b\n # include \"c.h\"", "#include <a.h>\n# include \"c.h\"\n"},
		{"R r; uR = \"x\";", "R r; uR = \"x\";\n"},
	} {
		if got, err := code([]byte(c.source)); err != nil || string(got) != c.want {
			t.Errorf("code(%q) is %q, %v, want %q", c.source, got, err, c.want)
		}
	}
	for source, want := range map[string]string{
		"int a = __LINE__;":   "__LINE__",
		"assert(a);":          "assert",
		"s = R\"(//)\";":      "raw string",
		"a /* b":              "comment without end",
		"s = \"a\n\";":        "without end on its line",
		"c = 'a":              "without end on its line",
		"c = \"a\\":           "without end on its line",
		"__builtin_LINE()":    "__builtin_LINE",
		"source_location::a;": "source_location",
	} {
		if got, err := code([]byte(source)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("code(%q) is %q, %v, want an error with %q", source, got, err, want)
		}
	}
}

// TestCodeOfKernels compares the code of each kernel source with its code with other comments, and with
// the output of g++'s preprocessor, which here removes comments and "#pragma once" but neither joins
// lines, expands macros nor follows includes.
func TestCodeOfKernels(t *testing.T) {
	var sources []string
	for _, pattern := range []string{"../*.cu", "../*.h"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, found...)
	}
	if len(sources) == 0 {
		t.Skip("the sources of the kernels are not here")
	}
	gxx, err := exec.LookPath("g++")
	if err != nil {
		t.Log("no g++: its preprocessor is not compared")
	}
	for _, name := range sources {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		want, err := code(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		commented := bytes.ReplaceAll(text, []byte("\n"), []byte("  // 'other\" /* words\n\n"))
		if !bytes.Contains(text, []byte("\\\n")) { // a comment cannot precede a splice
			if got, err := code(commented); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: other comments change its code, %v", name, err)
			}
		}
		if gxx == "" {
			continue
		}
		clean, err := exec.Command(gxx, "-fpreprocessed", "-dD", "-E", "-P", "-x", "c++", name).Output()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		solid := func(text []byte) string {
			text = bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("\\\n"), nil), []byte("#pragma once"), nil)
			return strings.Join(strings.Fields(string(text)), "")
		}
		if got, want := solid(want), solid(clean); got != want {
			t.Errorf("%s: the checksum covers %d characters of code, g++ leaves %d", name, len(got), len(want))
		}
	}
}

func TestHasLineNumbers(t *testing.T) {
	for flag, want := range map[string]bool{
		"-lineinfo": true, "--generate-line-info": true, "-G": true, "-g": true, "-gencode": false, "-O3": false,
	} {
		if got := hasLineNumbers(flag); got != want {
			t.Errorf("hasLineNumbers(%q) is %t", flag, got)
		}
	}
}
