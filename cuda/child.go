//go:build linux

package cuda

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"odradek/cuda/kernels"
	"odradek/cuda/plan"
)

// child is one run of the child program: a device of its own, lanes to it. It
// is used until its first fault and then never again.
type child struct {
	Info
	cmd   *exec.Cmd
	all   []*lane
	free  chan struct{} // one for each of idle
	dead  chan struct{} // closed by fail
	gone  chan struct{} // closed when the process has ended and the device lets go of our memory
	ready time.Time

	mu     sync.Mutex
	idle   []*lane // the one used last is at the end
	cause  error
	mapped map[uint32]bool // memory by id

	cache *cacheMemory // nil: none

	said tail // the end of what it wrote to stderr
}

// lane is a socket to the child; one request at a time.
type lane struct {
	conn *os.File
	seq  uint32
	m    [messageBytes]byte
}

// errGone is in the cause of a child whose process has ended.
var errGone = errors.New("the child is gone")

// killed reports whether a child's end was a signal that people, orchestrators and
// the kernel's out-of-memory killer send, and no fault of the device nor ours.
func killed(cause error) bool {
	var exit *exec.ExitError
	if !errors.Is(cause, errGone) || !errors.As(cause, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() {
		return false
	}
	switch status.Signal() {
	case unix.SIGKILL, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT:
		return true
	}
	return false
}

// spawn starts a child for a device and waits until it has answered.
func spawn(ctx context.Context, o *Options, device int) (*child, error) {
	c := &child{
		free: make(chan struct{}, o.Lanes), dead: make(chan struct{}), gone: make(chan struct{}), mapped: map[uint32]bool{},
	}
	args := []string{"-device", strconv.Itoa(device), "-lanes", strconv.Itoa(o.Lanes)}
	c.cmd = exec.Command(o.Child, append(slices.Clone(o.Args), args...)...)
	c.cmd.Env = append(os.Environ(), o.Env...)
	c.cmd.Stdout, c.cmd.Stderr = &c.said, &c.said
	c.cmd.WaitDelay = 500 * time.Millisecond
	c.cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true} // an interrupt at the terminal is the worker's to handle
	var err error
	for range o.Lanes {
		var pair [2]int
		pair, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			break
		}
		if err = unix.SetNonblock(pair[0], true); err != nil {
			break
		}
		c.all = append(c.all, &lane{conn: os.NewFile(uintptr(pair[0]), "lane")})
		c.cmd.ExtraFiles = append(c.cmd.ExtraFiles, os.NewFile(uintptr(pair[1]), "lane"))
	}
	if err == nil {
		err = c.cmd.Start()
	}
	for _, f := range c.cmd.ExtraFiles {
		f.Close()
	}
	if err != nil {
		c.closeLanes()
		return nil, fmt.Errorf("cuda: start %s: %w", o.Child, err)
	}
	go func() { // ends with the process
		err := c.cmd.Wait()
		close(c.gone)
		if err == nil {
			err = errors.New("it ended by itself")
		}
		c.fail(fmt.Errorf("%w: %w", errGone, err))
	}()
	stop := context.AfterFunc(ctx, func() { c.fail(ctx.Err()) })
	r, err := c.ask(c.all[0], &request{kind: kindHello}, "", time.Now().Add(o.StartTimeout))
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err == nil && r.code != codeOK {
		err = errors.New(r.text)
	}
	if v := kernels.Version(); err == nil && r.nanos != 0 && r.nanos != v {
		err = fmt.Errorf("%s is of another build: it has kernels %x, this program %x", o.Child, r.nanos, v)
	}
	if err != nil {
		c.fail(err)
		<-c.gone
		if s := c.said.last(); s != "" {
			err = fmt.Errorf("%w (%s)", err, s)
		}
		return nil, fmt.Errorf("cuda: device %d: %w", device, err)
	}
	c.Info = r.info()
	c.ready = time.Now()
	for _, l := range c.all {
		c.give(l)
	}
	return c, nil
}

// fail ends the child. The first cause is the one that is told.
func (c *child) fail(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		return
	}
	c.cause = cause
	close(c.dead)
	c.kill()
	c.closeLanes()
}

// kill ends the process, and what it may have started in its group.
func (c *child) kill() {
	select {
	case <-c.gone: // its number may be another's
	default:
		_ = unix.Kill(-c.cmd.Process.Pid, unix.SIGKILL)
	}
}

// end lets the child end by itself, as one whose parent is gone does; one that
// does not is killed. It must be idle.
func (c *child) end(patience time.Duration) error {
	c.mu.Lock()
	if c.cause == nil {
		c.cause = errors.New("closed")
		close(c.dead)
		c.closeLanes()
	}
	c.mu.Unlock()
	select {
	case <-c.gone:
		return nil
	case <-time.After(patience):
	}
	c.kill()
	select {
	case <-c.gone:
		return nil
	case <-time.After(goneTimeout):
		return fmt.Errorf("cuda: child %d does not end", c.cmd.Process.Pid)
	}
}

func (c *child) failed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

func (c *child) closeLanes() {
	for _, l := range c.all {
		l.conn.Close()
	}
}

// take waits for a lane. Of several it is the one used last: its thread in the
// child has not slept for long (one task after the other over four lanes in turn
// had a p99 of 371 us, over one lane 109 us).
func (c *child) take(ctx context.Context) (*lane, error) {
	select {
	case <-c.free:
		return c.latest(), nil
	default:
	}
	select {
	case <-c.free:
		return c.latest(), nil
	case <-c.dead:
		return nil, c.failed()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c *child) latest() *lane {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.idle[len(c.idle)-1]
	c.idle = c.idle[:len(c.idle)-1]
	return l
}

// give gives a lane back.
func (c *child) give(l *lane) {
	c.mu.Lock()
	c.idle = append(c.idle, l)
	c.mu.Unlock()
	c.free <- struct{}{}
}

// ask sends a request and waits for the reply. Any error is the end of the child.
func (c *child) ask(l *lane, q *request, path string, deadline time.Time) (reply, error) {
	l.seq++
	q.seq = l.seq
	r, err := l.ask(q, path, deadline)
	switch {
	case err == nil && r.seq != q.seq:
		err = fmt.Errorf("reply %d to request %d", r.seq, q.seq)
	case err == nil && r.broken():
		err = fmt.Errorf("the device failed: %s (%d)", r.text, r.code)
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = errors.New("no answer before the deadline")
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		select { // its exit status says more, in a moment
		case <-c.dead:
		case <-time.After(500 * time.Millisecond):
		}
	}
	if err != nil {
		c.fail(err)
		return r, c.failed()
	}
	return r, nil
}

func (l *lane) ask(q *request, path string, deadline time.Time) (reply, error) {
	if err := l.conn.SetDeadline(deadline); err != nil {
		return reply{}, err
	}
	q.encode(&l.m)
	message := l.m[:]
	if path != "" {
		message = append(binary.LittleEndian.AppendUint32(message[:messageBytes:messageBytes], uint32(len(path))), path...)
	}
	if _, err := l.conn.Write(message); err != nil {
		return reply{}, err
	}
	if _, err := io.ReadFull(l.conn, l.m[:]); err != nil {
		return reply{}, err
	}
	return decodeReply(&l.m)
}

// share maps a memory in the child, unless it is. refused: the child is well but
// cannot.
func (c *child) share(l *lane, m *memory, deadline time.Time) (refused, err error) {
	c.mu.Lock()
	known := c.mapped[m.ID]
	c.mu.Unlock()
	if known {
		return nil, nil
	}
	r, err := c.ask(l, &request{kind: kindMap, Request: plan.Request{Batch: m.ID, InBytes: uint64(len(m.Bytes))}}, m.path(), deadline)
	if err != nil {
		return nil, err
	}
	if r.code != codeOK {
		return errors.New(r.text), nil
	}
	c.mu.Lock()
	c.mapped[m.ID] = true
	c.mu.Unlock()
	return nil, nil
}

// forget unmaps a memory in the child.
func (c *child) forget(id uint32, allowance func() time.Duration) {
	c.mu.Lock()
	known := c.mapped[id]
	delete(c.mapped, id)
	c.mu.Unlock()
	if !known {
		return
	}
	if l, err := c.take(context.Background()); err == nil {
		// A child that fails to answer is ended, its memory with it.
		_, _ = c.ask(l, &request{kind: kindUnmap, Request: plan.Request{Batch: id}}, "", time.Now().Add(allowance()))
		c.give(l)
	}
}

// tail keeps the end of what was written.
type tail struct {
	mu sync.Mutex
	b  []byte
}

const tailBytes = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if n := len(t.b); n > tailBytes {
		t.b = append(t.b[:0], t.b[n-tailBytes:]...)
	}
	return len(p), nil
}

func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(strings.ToValidUTF8(string(t.b), "?"))
}
