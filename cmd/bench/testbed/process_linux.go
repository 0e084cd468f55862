package testbed

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

// clockTick is the unit of /proc/<pid>/stat, the same on all of Linux's
// architectures that Go runs on.
const clockTick = 10 * time.Millisecond

// ProcessCPU returns the user and system time of a process and all its threads.
func ProcessCPU(pid int) time.Duration {
	used, _ := processStat(pid)
	return used
}

// OwnCPU returns the user and system time of this process, to a microsecond.
func OwnCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// processStat returns the user and system time of a process, and its parent.
func processStat(pid int) (used time.Duration, parent int) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0
	}
	// The second field is the name in parentheses and may hold anything.
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	parent, _ = strconv.Atoi(string(fields[1]))
	var ticks int64
	for _, i := range []int{11, 12} { // utime, stime
		n, _ := strconv.ParseInt(string(fields[i]), 10, 64)
		ticks += n
	}
	return time.Duration(ticks) * clockTick, parent
}

// FamilyCPU is ProcessCPU of a process and those that it has started and that
// are alive: a worker's child on each GPU.
func FamilyCPU(pid int) time.Duration {
	sum := ProcessCPU(pid)
	for _, used := range children(pid) {
		sum += used
	}
	return sum
}

// children returns the processes that a process has started and that are alive, with their user and system time.
func children(pid int) map[int]time.Duration {
	by := map[int]time.Duration{}
	all, _ := os.ReadDir("/proc")
	for _, e := range all {
		if p, err := strconv.Atoi(e.Name()); err == nil {
			if used, parent := processStat(p); parent == pid {
				by[p] = used
			}
		}
	}
	return by
}

// KillChildren sends SIGKILL to the processes that a process has started, and returns their number.
func KillChildren(pid int) (killed int) {
	for child := range children(pid) {
		if syscall.Kill(child, syscall.SIGKILL) == nil {
			killed++
		}
	}
	return killed
}

// MachineCPU returns the time that all cores together were busy and idle.
func MachineCPU() (busy, idle time.Duration) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0
	}
	line, _, _ := bytes.Cut(b, []byte("\n"))
	// cpu user nice system idle iowait irq softirq steal; guests are in user.
	for i, f := range bytes.Fields(line) {
		n, _ := strconv.ParseInt(string(f), 10, 64)
		switch t := time.Duration(n) * clockTick; {
		case i == 0 || i > 8:
		case i == 4 || i == 5:
			idle += t
		default:
			busy += t
		}
	}
	return busy, idle
}

// ResidentBytes returns the resident memory of a process.
func ResidentBytes(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	fields := bytes.Fields(b)
	n, _ := strconv.ParseInt(string(fields[1]), 10, 64)
	return n * int64(os.Getpagesize())
}

// PeakBytes returns the most resident memory that a process has had.
func PeakBytes(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(b) {
		if text, ok := bytes.CutPrefix(line, []byte("VmHWM:")); ok {
			n, _ := strconv.ParseInt(string(bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(text), []byte("kB")))), 10, 64)
			return n << 10
		}
	}
	return 0
}
