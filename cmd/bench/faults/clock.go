package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The edit of Go's time.Now that makes a worker's wall clock jump; time that has passed is measured by another clock, and stays right.
const (
	nowFunc  = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	wrongNow = nowFunc + "\tsec += wrongBy(mono)\n"

	// wrongBy draws another number every three seconds, in each process others: from two days back to 50 minutes ahead. Of records more
	// than an hour ahead Kafka refuses the batch.
	wrongBy = `
func wrongBy(mono int64) int64 {
	x := (uint64(mono/3e9) + uint64(startNano)) * 0x9e3779b97f4a7c15
	x = (x ^ x>>29) * 0xbf58476d1ce4e5b9
	return int64(x>>33%(48*3600+3000)) - 48*3600
}
`
)

// clockOverlay writes Go's package time with the edit, and the file that makes go build take it. It returns this file's name.
func clockOverlay(ctx context.Context, dir string) (string, error) {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOROOT: %w", err)
	}
	file := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	if strings.Count(string(text), nowFunc) != 1 {
		return "", fmt.Errorf("%s has another time.Now than this edit is for", file)
	}
	edited, overlay := filepath.Join(dir, "wrong-time.go"), filepath.Join(dir, "wrong-time.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{file: edited}})
	if err != nil {
		return "", err
	}
	text = []byte(strings.Replace(string(text), nowFunc, wrongNow, 1) + wrongBy)
	return overlay, errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(edited, text, 0o600),
		os.WriteFile(overlay, replace, 0o600))
}

// wrongClockWorker builds the worker of this module with a wall clock that jumps.
func wrongClockWorker(ctx context.Context, dir string) (program string, err error) {
	overlay, err := clockOverlay(ctx, dir)
	if err != nil {
		return "", err
	}
	program = filepath.Join(dir, "worker-wrong-clock")
	build := exec.CommandContext(ctx, "go", "build", "-overlay", overlay, "-o", program, "odradek/cmd/worker")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, out)
	}
	return program, nil
}
