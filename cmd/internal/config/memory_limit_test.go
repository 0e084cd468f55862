package config

import "testing"

func TestLimit(t *testing.T) {
	const info = "MemTotal:       16384000 kB\nMemFree:        1 kB\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"none known":  {nil, 0},
		"the machine": {map[string]string{"/proc/meminfo": info}, 16384000 << 10},
		"no limit in version 2": {map[string]string{"/proc/meminfo": info, "/proc/self/cgroup": "0::/a/b\n",
			"/sys/fs/cgroup/a/b/memory.max": "max\n"}, 16384000 << 10},
		"version 2, above the own group": {map[string]string{"/proc/meminfo": info, "/proc/self/cgroup": "0::/a/b\n",
			"/sys/fs/cgroup/a/b/memory.max": "max\n", "/sys/fs/cgroup/a/memory.max": "1073741824\n"}, 1 << 30},
		"version 2 in a container": {map[string]string{"/proc/meminfo": info, "/proc/self/cgroup": "0::/\n",
			"/sys/fs/cgroup/memory.max": "536870912\n"}, 1 << 29},
		"version 1": {map[string]string{"/proc/meminfo": info, "/proc/self/cgroup": "5:cpu,cpuacct:/x\n4:memory:/docker/abc\n",
			"/sys/fs/cgroup/memory/memory.limit_in_bytes": "268435456\n"}, 1 << 28},
		"no limit in version 1": {map[string]string{"/proc/meminfo": info, "/proc/self/cgroup": "4:memory:/\n",
			"/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 16384000 << 10},
		"more than the machine has": {map[string]string{"/proc/meminfo": info, "/proc/self/cgroup": "0::/\n",
			"/sys/fs/cgroup/memory.max": "99999999999999\n"}, 16384000 << 10},
	} {
		if got := limitIn(func(f string) string { return c.files[f] }); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
