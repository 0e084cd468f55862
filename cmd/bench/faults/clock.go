package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// edits has for each file, by its absolute path, texts that it has once, each before the text that takes its place.
type edits map[string][]string

// overlay writes edited copies of files to dir, and the file that tells go build (-overlay) to take them. It returns this file's name.
func overlay(dir string, of edits) (string, error) {
	replace := map[string]string{}
	for file, texts := range of {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		for i := 0; i < len(texts); i += 2 {
			if n := bytes.Count(text, []byte(texts[i])); n != 1 {
				return "", fmt.Errorf("%s has %q %d times, not once", file, texts[i], n)
			}
			text = bytes.Replace(text, []byte(texts[i]), []byte(texts[i+1]), 1)
		}
		replace[file] = filepath.Join(dir, strings.ReplaceAll(strings.Trim(file, "/"), "/", "-"))
		if err := os.WriteFile(replace[file], text, 0o600); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "overlay.json")
	return name, os.WriteFile(name, text, 0o600)
}

// The edits of Go's package time that make a worker's wall clock jump. Durations come from the monotonic clock, and stay right.
const (
	now      = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	wrongNow = now + "\tsec += wrongBy(mono)\n"

	unixTime = "func unixTime("
	// wrongBy draws another number every three seconds, and other numbers in each process: from two days back to 50 minutes ahead. Kafka
	// refuses a batch with records more than an hour ahead.
	wrongBy = `func wrongBy(mono int64) int64 {
	x := (uint64(mono/3e9) + uint64(startNano)) * 0x9e3779b97f4a7c15
	x = (x ^ x>>29) * 0xbf58476d1ce4e5b9
	return int64(x>>33%(48*3600+3000)) - 48*3600
}

`
)

// clockOverlay writes an overlay by which a program has a wall clock that jumps.
func clockOverlay(ctx context.Context, dir string) (string, error) {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOROOT: %w", err)
	}
	file := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	return overlay(dir, edits{file: {now, wrongNow, unixTime, wrongBy + unixTime}})
}

// wrongClockWorker builds the worker of this module with a wall clock that jumps.
func wrongClockWorker(ctx context.Context, dir string) (program string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	file, err := clockOverlay(ctx, dir)
	if err != nil {
		return "", err
	}
	program = filepath.Join(dir, "worker-wrong-clock")
	build := exec.CommandContext(ctx, "go", "build", "-overlay", file, "-o", program, "odradek/cmd/worker")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, out)
	}
	return program, nil
}
