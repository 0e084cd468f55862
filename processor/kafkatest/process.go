package kafkatest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

// process is a child with its output in a file.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed when it is gone
}

// spawner runs functions on one thread that lives as long as this process. The
// kernel's death signal to a child is sent when the thread that forked it ends,
// and Go ends threads as it likes; a thread that is locked for good is not ended.
var spawner = sync.OnceValue(func() chan<- func() {
	ch := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range ch {
			f()
		}
	}()
	return ch
})

// Start starts a command, which is killed when this process dies, however that
// comes about, where the system can do that (Linux).
func Start(cmd *exec.Cmd) error {
	DieWithParent(cmd)
	started := make(chan error)
	spawner() <- func() { started <- cmd.Start() }
	return <-started
}

// spawn starts a command whose output is appended to the file log. The child is
// killed when this process dies, where the system can do that (Linux).
func spawn(dir, log string, name string, args ...string) (*process, error) {
	f, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, f, f
	p := &process{cmd: cmd, exited: make(chan struct{})}
	if err := Start(cmd); err != nil {
		return nil, fmt.Errorf("kafkatest: starting %s: %w", name, err)
	}
	go func() {
		_ = cmd.Wait() // how it ended is in its log
		close(p.exited)
	}()
	return p, nil
}

func (p *process) running() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// kill ends the process at once, paused or not, and waits for that.
func (p *process) kill() {
	if p.running() {
		_ = p.cmd.Process.Kill() // already gone is as good
		<-p.exited
	}
}

// Java returns the Java runtime to use; Kafka 4 and the registry need 17.
var Java = sync.OnceValues(func() (string, error) {
	name := "java"
	if home := os.Getenv("JAVA_HOME"); home != "" {
		name = home + "/bin/java"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", errors.New("no Java runtime: install Java 17 or later, or set JAVA_HOME")
	}
	out, err := exec.Command(path, "-version").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s -version: %w", path, err)
	}
	m := regexp.MustCompile(`version "(\d+)`).FindSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("%s -version says %.80q", path, out)
	}
	if major, _ := strconv.Atoi(string(m[1])); major < 17 {
		return "", fmt.Errorf("%s is Java %d: install Java 17 or later, or set JAVA_HOME", path, major)
	}
	return path, nil
})

// given are the ports that this process has given out. None is given twice: a node
// listens only seconds after it got its ports, and not while it is down.
var given struct {
	sync.Mutex
	ports map[int]bool
}

// FreePorts finds n ports on loopback that nothing listens on and that neither this nor
// another process has got from FreePorts, below the range that the kernel takes for outgoing
// connections: a node that is down for a while finds its port free again.
func FreePorts(n int) ([]int, error) {
	given.Lock()
	defer given.Unlock()
	if given.ports == nil {
		given.ports = make(map[int]bool)
	}
	var ports []int
	for try := 0; len(ports) < n; try++ {
		if try > 1000 {
			return nil, errors.New("kafkatest: no free ports on 127.0.0.1")
		}
		p := 10000 + rand.IntN(22000)
		if given.ports[p] || !claimPort(p) {
			continue
		}
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(p))
		if err != nil {
			continue
		}
		defer l.Close() // held until all are found, so that they differ
		given.ports[p] = true
		ports = append(ports, p)
	}
	return ports, nil
}

// poll calls f every so often until it returns nil, the process p exits or ctx
// ends; the error then has f's last one.
func poll(ctx context.Context, every time.Duration, p *process, f func(ctx context.Context) error) error {
	for {
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := f(try)
		cancel()
		if err == nil {
			return nil
		}
		var gone <-chan struct{}
		if p != nil {
			gone = p.exited
		}
		select {
		case <-gone:
			return fmt.Errorf("the process ended: %v", p.cmd.ProcessState)
		case <-ctx.Done():
			return fmt.Errorf("%w; last: %w", ctx.Err(), err)
		case <-time.After(every):
		}
	}
}

// tail returns the last n lines of a file that keep accepts (nil: all).
func tail(file string, n int, keep func(string) bool) []string {
	f, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	var lines []string
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		if keep == nil || keep(s.Text()) {
			if len(lines) == n {
				copy(lines, lines[1:])
				lines = lines[:n-1]
			}
			lines = append(lines, strings.TrimSpace(s.Text()))
		}
	}
	return lines
}
