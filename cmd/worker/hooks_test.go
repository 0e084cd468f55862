package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"odradek/cmd/internal/config"
	"odradek/processor"
)

// What a worker that a test has started does to itself. Only the test binary
// reads these variables; the released worker has no hooks.
const (
	// failpointEnv names a step of the commit, of a cycle with records or, after
	// "idle-", of one without. The process ends with SIGKILL there, the n-th time
	// if ":n" follows.
	failpointEnv = config.Prefix + "TEST_FAILPOINT"
	// brokenEnv is offsetsFirst for a worker that commits offsets before outputs.
	brokenEnv = config.Prefix + "TEST_BROKEN"
	// lookEnv is Hooks.MetadataInterval.
	lookEnv = config.Prefix + "TEST_LOOK"

	offsetsFirst = "offsets-first" // in failpointEnv: between the two
)

var failpoints = []string{string(processor.BeforeSend), string(processor.BeforeEnd), string(processor.AfterEnd),
	string(processor.BeforeChangelog), string(processor.BeforeOffsets), offsetsFirst}

// hooksOf makes the hooks that the two variables ask for.
func hooksOf(failpoint, broken string) (h processor.Hooks) {
	name, n, _ := strings.Cut(failpoint, ":")
	if name != "" && !slices.Contains(failpoints, strings.TrimPrefix(name, "idle-")) {
		panic(fmt.Sprintf("%s=%s: no such step", failpointEnv, failpoint))
	}
	left, err := strconv.Atoi(n)
	if err != nil {
		left = 1
	}
	// One goroutine commits, so left is not shared.
	pass := func(step string, records int) {
		if records == 0 {
			step = "idle-" + step
		}
		if step != name {
			return
		}
		if left--; left == 0 {
			if self, err := os.FindProcess(os.Getpid()); err == nil {
				_ = self.Kill()
			}
			select {}
		}
	}
	if name != "" {
		h.Step = func(step processor.Step, records int) { pass(string(step), records) }
	}
	switch broken {
	case "":
	case offsetsFirst:
		h.BeforeOutputs = func(records int, commitOffsets func() error) error {
			if err := commitOffsets(); err != nil {
				return err
			}
			pass(offsetsFirst, records)
			return nil
		}
	default:
		panic(fmt.Sprintf("%s=%s: no such fault", brokenEnv, broken))
	}
	return h
}
