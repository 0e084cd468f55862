//go:build linux

package child

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

// Process is a running child program with its device and lanes. It is not used again after its first
// fault.
type Process struct {
	Info
	cmd   *exec.Cmd
	all   []*Lane
	free  chan struct{} // one for each of idle
	dead  chan struct{} // closed by fail
	gone  chan struct{} // closed when the process has ended and the device has released the shared memory
	ready time.Time

	mu     sync.Mutex
	idle   []*Lane // the one used last is at the end
	cause  error
	mapped map[uint32]bool // memory by id

	models Models

	stderr tail // the end of its stderr
}

// Lane is a socket to the child; one request at a time.
type Lane struct {
	conn *os.File
	seq  uint32
	m    [MessageBytes]byte
}

// errGone is the cause where the child's process has ended.
var errGone = errors.New("the child is gone")

// killed reports whether a child was ended by a signal that people, orchestrators and the
// kernel's out-of-memory killer send, and not by a fault of the device or the worker.
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
func spawn(ctx context.Context, o *Options, device int) (*Process, error) {
	c := &Process{
		free: make(chan struct{}, o.Lanes), dead: make(chan struct{}), gone: make(chan struct{}), mapped: map[uint32]bool{},
	}
	c.models.bytes = int(o.Models / modelAlign * modelAlign)
	args := []string{"-device", strconv.Itoa(device), "-lanes", strconv.Itoa(o.Lanes)}
	c.cmd = exec.Command(o.Program, append(slices.Clone(o.Args), args...)...)
	c.cmd.Env = append(os.Environ(), o.Env...)
	c.cmd.Stdout, c.cmd.Stderr = &c.stderr, &c.stderr
	c.cmd.WaitDelay = 500 * time.Millisecond
	c.cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true} // the worker handles an interrupt at the terminal
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
		c.all = append(c.all, &Lane{conn: os.NewFile(uintptr(pair[0]), "lane")})
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
		return nil, fmt.Errorf("child: start %s: %w", o.Program, err)
	}
	go func() { // ends with the process
		err := c.cmd.Wait()
		close(c.gone)
		if err == nil {
			err = errors.New("it ended by itself")
		}
		c.Fail(fmt.Errorf("%w: %w", errGone, err))
	}()
	stop := context.AfterFunc(ctx, func() { c.Fail(ctx.Err()) })
	r, err := c.Ask(c.all[0], &Request{Kind: KindHello}, time.Now().Add(o.StartTimeout))
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err == nil && r.Code != CodeOK {
		err = errors.New(r.Text)
	}
	if v := kernels.Version(plan.Kernels()); err == nil && r.Nanos != 0 && r.Nanos != v {
		err = fmt.Errorf("%s is of another build: it has kernels %x, this program %x", o.Program, r.Nanos, v)
	}
	if err != nil {
		c.Fail(err)
		<-c.gone
		if s := c.stderr.last(); s != "" {
			err = fmt.Errorf("%w (%s)", err, s)
		}
		return nil, fmt.Errorf("child: device %d: %w", device, err)
	}
	c.Info = r.info()
	c.ready = time.Now()
	for _, l := range c.all {
		c.Release(l)
	}
	return c, nil
}

// Fail ends the child. Failed returns the first cause.
func (p *Process) Fail(cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cause != nil {
		return
	}
	p.cause = cause
	close(p.dead)
	p.kill()
	p.closeLanes()
}

// kill ends the process and its process group.
func (p *Process) kill() {
	select {
	case <-p.gone: // another process may have its number
	default:
		_ = unix.Kill(-p.cmd.Process.Pid, unix.SIGKILL)
	}
}

// end closes the lanes, upon which the child ends by itself, and kills one that does not.
// The child must be idle.
func (p *Process) end(patience time.Duration) error {
	p.mu.Lock()
	if p.cause == nil {
		p.cause = errors.New("closed")
		close(p.dead)
		p.closeLanes()
	}
	p.mu.Unlock()
	select {
	case <-p.gone:
		return nil
	case <-time.After(patience):
	}
	p.kill()
	select {
	case <-p.gone:
		return nil
	case <-time.After(goneTimeout):
		return fmt.Errorf("child: process %d does not end", p.cmd.Process.Pid)
	}
}

// Failed returns the cause of a child's end, nil while it serves.
func (p *Process) Failed() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cause
}

// Gone waits until the device has released the shared memory; it returns false after
// goneTimeout.
func (p *Process) Gone() bool {
	select {
	case <-p.gone:
		return true
	case <-time.After(goneTimeout):
		return false
	}
}

// Pid returns the number of the process.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Models returns the directory of the models on the child's device.
func (p *Process) Models() *Models { return &p.models }

// ReserveModels reserves the device's memory for models, unless the child already has it. refused is the error of a
// device without enough memory.
func (p *Process) ReserveModels(l *Lane, deadline time.Time) (refused, err error) {
	m := &p.models
	m.reserving.Lock()
	defer m.reserving.Unlock()
	if m.reserved {
		return nil, nil
	}
	r, err := p.Ask(l, &Request{Kind: KindModels, Request: plan.Request{InBytes: uint64(m.bytes)}}, deadline)
	if err != nil {
		return nil, err
	}
	if r.Code != CodeOK {
		return errors.New(r.Text), nil
	}
	m.reserved = true
	return nil, nil
}

func (p *Process) closeLanes() {
	for _, l := range p.all {
		l.conn.Close()
	}
}

// Acquire waits for a lane. It prefers the one used last, whose thread in the child has slept for the
// shortest time: the p99 of single tasks was 371 us with four lanes in turn and 109 us with one.
func (p *Process) Acquire(ctx context.Context) (*Lane, error) {
	select {
	case <-p.free:
	default:
		select {
		case <-p.free:
		case <-p.dead:
			return nil, p.Failed()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.idle[len(p.idle)-1]
	p.idle = p.idle[:len(p.idle)-1]
	return l, nil
}

// Release returns a lane.
func (p *Process) Release(l *Lane) {
	p.mu.Lock()
	p.idle = append(p.idle, l)
	p.mu.Unlock()
	p.free <- struct{}{}
}

// Ask sends a request and waits for the reply. Any error ends the child.
func (p *Process) Ask(l *Lane, q *Request, deadline time.Time) (r Reply, err error) {
	l.seq++
	q.Seq = l.seq
	q.encode(&l.m)
	message := l.m[:]
	if q.Path != "" {
		message = append(binary.LittleEndian.AppendUint32(message[:MessageBytes:MessageBytes], uint32(len(q.Path))), q.Path...)
	}
	if err = l.conn.SetDeadline(deadline); err == nil {
		_, err = l.conn.Write(message)
	}
	if err == nil {
		_, err = io.ReadFull(l.conn, l.m[:])
	}
	if err == nil {
		r, err = decodeReply(&l.m)
	}
	switch {
	case err == nil && r.Seq != q.Seq:
		err = fmt.Errorf("reply %d to request %d", r.Seq, q.Seq)
	case err == nil && r.Code != CodeOK && r.Code != CodeNoMemory && r.Code != CodeNonsense:
		// After any other error of a device its process has lost it.
		err = fmt.Errorf("the device failed: %s (%d)", r.Text, r.Code)
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = errors.New("no answer before the deadline")
	}
	if err == nil {
		return r, nil
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		select { // its exit status follows shortly and has the cause
		case <-p.dead:
		case <-time.After(500 * time.Millisecond):
		}
	}
	p.Fail(err)
	return r, p.Failed()
}

// Map maps a memory in the child, by its path, unless it is mapped. refused is the
// error where the child cannot map it but remains usable.
func (p *Process) Map(l *Lane, m *plan.Memory, deadline time.Time) (refused, err error) {
	p.mu.Lock()
	known := p.mapped[m.ID]
	p.mu.Unlock()
	if known {
		return nil, nil
	}
	r, err := p.Ask(l, &Request{Kind: KindMap, Path: m.Path, Request: plan.Request{Batch: m.ID, InBytes: uint64(len(m.Bytes))}}, deadline)
	if err != nil {
		return nil, err
	}
	if r.Code != CodeOK {
		return errors.New(r.Text), nil
	}
	p.mu.Lock()
	p.mapped[m.ID] = true
	p.mu.Unlock()
	return nil, nil
}

// Unmap unmaps a memory in the child.
func (p *Process) Unmap(id uint32, allowance func() time.Duration) {
	p.mu.Lock()
	known := p.mapped[id]
	delete(p.mapped, id)
	p.mu.Unlock()
	if !known {
		return
	}
	if l, err := p.Acquire(context.Background()); err == nil {
		// A child that fails to answer is ended, its memory with it.
		_, _ = p.Ask(l, &Request{Kind: KindUnmap, Request: plan.Request{Batch: id}}, time.Now().Add(allowance()))
		p.Release(l)
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
