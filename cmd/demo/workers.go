package main

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"odradek/cmd/internal/config"
	"odradek/processor/kafkatest"
)

// drainGrace is how much longer than ODRADEK_DRAIN_TIMEOUT a worker may take to end.
const drainGrace = 5 * time.Second

// workerEnviron returns the part of the demo's environment that a worker has too:
// everything but settings.
func workerEnviron(environ []string) (list []string) {
	for _, v := range environ {
		if !strings.HasPrefix(v, config.Prefix) || strings.HasPrefix(v, config.Prefix+"TEST_") {
			list = append(list, v)
		}
	}
	return list
}

// demoProcess is one worker.
type demoProcess struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // once done is closed
}

// demoProcesses are the demo's workers.
type demoProcesses struct {
	list  []*demoProcess
	ended chan error // has how each of them ended
}

// startWorkers starts a worker for each list of settings, with its standard error
// on stderr. They die with this process. An interrupt from the terminal does not
// reach them: the demo stops them once they have scored what there is.
func startWorkers(program string, environ []string, settings [][]string, stderr io.Writer) (*demoProcesses, error) {
	w := &demoProcesses{ended: make(chan error, len(settings))}
	shared := &sharedWriter{w: stderr}
	for _, s := range settings {
		p := &demoProcess{cmd: exec.Command(program, "run"), done: make(chan struct{})}
		p.cmd.Env = append(append([]string(nil), environ...), s...)
		p.cmd.Stderr = shared
		p.cmd.WaitDelay = time.Second // for what a worker's own child may hold open
		ownGroup(p.cmd)
		if err := kafkatest.Start(p.cmd); err != nil {
			w.kill()
			return nil, fmt.Errorf("start a worker: %w", err)
		}
		w.list = append(w.list, p)
		go func() {
			p.err = p.cmd.Wait()
			close(p.done)
			w.ended <- p.err
		}()
	}
	return w, nil
}

// stop lets the workers drain. What has not ended after limit is killed.
func (d *demoProcesses) stop(limit time.Duration) (err error) {
	for _, p := range d.list {
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // gone already is as good
	}
	late := time.After(limit)
	for _, p := range d.list {
		select {
		case <-p.done:
			err = errors.Join(err, p.err)
		case <-late:
			d.kill()
			return errors.Join(err, fmt.Errorf("a worker did not end within %v of SIGTERM", limit))
		}
	}
	return err
}

// kill ends the workers at once.
func (d *demoProcesses) kill() {
	for _, p := range d.list {
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// sharedWriter lets several goroutines write to one writer.
type sharedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *sharedWriter) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}
