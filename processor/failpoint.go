package processor

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
)

// Failpoints end the process with SIGKILL at a named place, for the crash
// tests: ODRADEK_TEST_FAILPOINT=name:n dies at the n-th pass. They cost one
// comparison of a nil pointer.
var armed = parseFailpoint(os.Getenv("ODRADEK_TEST_FAILPOINT"))

// brokenOffsetsFirst commits offsets before outputs: the negative control that
// the exactly-once checker has to catch.
var brokenOffsetsFirst = os.Getenv("ODRADEK_TEST_BROKEN") == "offsets-first"

type armedFailpoint struct {
	name string
	left atomic.Int64
}

func parseFailpoint(s string) *armedFailpoint {
	name, n, _ := strings.Cut(s, ":")
	if name == "" {
		return nil
	}
	count, err := strconv.ParseInt(n, 10, 64)
	if err != nil {
		count = 1
	}
	f := &armedFailpoint{name: name}
	f.left.Store(count)
	return f
}

// failpoint names the points of cycles without records, which only say where
// partitions start, idle-<name>: how many there are depends on timing.
func (c *cycle) failpoint(name string) {
	if c.records == 0 {
		name = "idle-" + name
	}
	failpoint(name)
}

func failpoint(name string) {
	if armed == nil || armed.name != name {
		return
	}
	if armed.left.Add(-1) == 0 {
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			_ = self.Kill()
		}
		select {}
	}
}
