package config

import (
	"math"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
)

// This file tells how much memory the process may use.

// MemoryLimit returns how many bytes of memory the process may use: the least limit of
// its cgroup and those above it, or the machine's memory; 0 where neither is known. It
// reads them once.
func MemoryLimit() int64 { return memoryLimit() }

var memoryLimit = sync.OnceValue(func() int64 {
	return limitIn(func(file string) string {
		b, _ := os.ReadFile(file)
		return string(b)
	})
})

// limitIn is Limit by the files that read returns, which are empty
// where there are none.
func limitIn(read func(file string) string) int64 {
	most := int64(math.MaxInt64)
	least := func(text string) {
		// "max" in version 2, and a number near the largest in version 1, are none.
		if n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64); err == nil && n > 0 {
			most = min(most, n)
		}
	}
	for _, line := range strings.Split(read("/proc/self/cgroup"), "\n") {
		p := strings.SplitN(line, ":", 3)
		if len(p) < 3 {
			continue
		}
		root, file := "/sys/fs/cgroup", "memory.max"
		if p[0] != "0" || p[1] != "" {
			if !strings.Contains(","+p[1]+",", ",memory,") {
				continue
			}
			root, file = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
		}
		// In a container the path is as the host sees it, and the limit at the root.
		for dir := path.Clean("/" + p[2]); ; dir = path.Dir(dir) {
			least(read(path.Join(root, dir, file)))
			if dir == "/" {
				break
			}
		}
	}
	for _, line := range strings.Split(read("/proc/meminfo"), "\n") {
		if kib, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			if n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(kib), "kB")), 10, 64); err == nil {
				most = min(most, n<<10)
			}
		}
	}
	if most == math.MaxInt64 {
		return 0
	}
	return most
}
