package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestCrashCode: a crash of the Go runtime ends with a code that stands for nothing else, so that a restart policy can stop at faulty
// settings and go on after a crash. The help and docs/operations.md name every code, and the docs what a policy should stop at.
func TestCrashCode(t *testing.T) {
	const crash = "ODRADEK_TEST_CRASH"
	if os.Getenv(crash) != "" {
		go panic("crash")
		select {}
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCrashCode$")
	cmd.Env = append(os.Environ(), crash+"=1")
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || !bytes.Contains(out, []byte("panic: crash")) {
		t.Fatalf("no crash: %v\n%s", err, out)
	}
	crashed := cmd.ProcessState.ExitCode()
	codes := []int{exitOK, exitFailed, crashed, exitFenced, exitRefused, exitUsage}
	if !slices.IsSorted(codes) || len(slices.Compact(slices.Clone(codes))) != len(codes) {
		t.Errorf("a crash ends with %d; the codes are %v", crashed, codes)
	}
	var faulty bytes.Buffer
	term := terminal{&faulty, &faulty, []string{"ODRADEK_LATENESS=soon"}}
	if code := term.check(t.Context(), nil); code != exitUsage && code != exitFailed || code == crashed {
		t.Errorf("check of faulty settings ends with %d", code)
	}
	if code := term.mute(t.Context(), []string{"list"}); code != exitUsage || code == crashed {
		t.Errorf("faulty settings end with %d", code)
	}
	persist := []int{exitFenced, exitRefused, exitUsage}
	for file, mark := range map[string]string{"../../docs/operations.md": "| %d |", "../../deploy/systemd/odradek.service": ""} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, code := range codes {
			if mark != "" && !strings.Contains(string(b), fmt.Sprintf(mark, code)) {
				t.Errorf("%s has no row of code %d", file, code)
			}
		}
		if m := regexp.MustCompile(`RestartPreventExitStatus=(.*)`).FindSubmatch(b); mark == "" && (m == nil ||
			string(m[1]) != strings.Trim(fmt.Sprint(persist), "[]")) {
			t.Errorf("%s: %q, want codes %v", file, m, persist)
		}
	}
	for _, code := range codes {
		if !strings.Contains(usageTail, fmt.Sprintf("\n  %d  ", code)) {
			t.Errorf("the help has no code %d", code)
		}
	}
	if b, err := os.ReadFile("../../docker-compose.yml"); err != nil || !strings.Contains(string(b),
		fmt.Sprintf("exit codes %d, %d and %d need a person", persist[0], persist[1], persist[2])) {
		t.Errorf("docker-compose.yml does not name the codes %v: %v", persist, err)
	}
}
