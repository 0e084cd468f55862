//go:build linux

package child

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"odradek/cuda/plan"
)

// Device is a device and its present child.
type Device struct {
	o     *Options
	index int
	// Load is the planned time of the batches on the device or waiting for it, ns.
	Load atomic.Int64

	mu    sync.Mutex
	child *Process // nil: out of service
	stats Stats
}

// NewDevice returns the device of an index, without a child yet.
func NewDevice(o *Options, index int) *Device {
	return &Device{o: o, index: index, stats: Stats{Index: index}}
}

// Index returns the device's index.
func (d *Device) Index() int { return d.index }

// Stats returns the counts so far.
func (d *Device) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.stats
	if d.child != nil {
		s.Uploads += d.child.models.Uploads()
	}
	return s
}

// Close ends the child, by force after patience. Nothing may be in flight, and Supervise
// has to have ended.
func (d *Device) Close(patience time.Duration) error {
	c := d.Serving()
	if c == nil {
		return nil
	}
	err := c.end(patience)
	d.mu.Lock()
	d.child, d.stats.Up, d.stats.Pid = nil, false, 0
	d.mu.Unlock()
	return err
}

// Serving returns the child that serves the device; nil while it is out of service.
func (d *Device) Serving() *Process {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.child
}

// Healthy returns the child that serves the device, nil if that has failed but is not yet
// out of service: a batch that was lost with it must not be sent to it again.
func (d *Device) Healthy() *Process {
	d.mu.Lock()
	c := d.child
	d.mu.Unlock()
	if c == nil {
		return nil
	}
	select {
	case <-c.dead:
		return nil
	default:
		return c
	}
}

// Open starts a child and puts the device in service. A child that is killed while it
// starts is started again, within the StartTimeout.
func (d *Device) Open(ctx context.Context) error {
	for deadline := time.Now().Add(d.o.StartTimeout); ; {
		err := d.start(ctx)
		if err == nil || !killed(err) || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(d.o.Retry / 8):
		}
	}
}

// start is Open without another attempt.
func (d *Device) start(ctx context.Context) error {
	c, err := spawn(ctx, d.o, d.index)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stats.Starts++
	if err != nil {
		d.stats.LastFault = err.Error()
		return err
	}
	d.child = c
	d.stats.NextTry = time.Time{}
	d.stats.Info, d.stats.Up, d.stats.Pid = c.Info, true, c.cmd.Process.Pid
	return nil
}

// backoff determines how long a device stays out of service. A batch that fails every time,
// or a driver that is being replaced, should not keep a core busy: with consecutive
// faults the wait doubles. A killed child is no fault of the device and is replaced at
// once, so that a worker whose children are killed every few seconds keeps its GPU.
type backoff struct {
	retry  time.Duration // the first wait
	faults int           // consecutive ones
}

// most is the largest number of times that the wait doubles.
const most = 6

// wait returns the wait before the next child.
func (b *backoff) wait() time.Duration {
	if b.faults == 0 {
		return 0
	}
	return b.retry << min(b.faults-1, most)
}

// after returns the wait before the first start after a child that lived for the given
// time. Its death begins a new count of faults if it had lived for longer than twice the wait
// before it.
func (b *backoff) after(lived time.Duration, killed bool) time.Duration {
	if lived > 2*max(b.wait(), b.retry) {
		b.faults = 0
	}
	switch {
	case killed && lived >= b.retry:
		return 0
	case killed:
		return b.retry
	}
	defer func() { b.faults++ }()
	return b.wait()
}

// again returns the wait after a child that did not start.
func (b *backoff) again() time.Duration {
	b.faults++
	return b.wait()
}

// Supervise starts a new child whenever one has ended, until ctx ends.
func (d *Device) Supervise(ctx context.Context) {
	log := d.o.Log
	back := backoff{retry: d.o.Retry}
	for {
		c := d.Serving()
		select {
		case <-ctx.Done():
			return
		case <-c.dead:
		}
		d.mu.Lock()
		d.child = nil
		d.stats.Uploads += c.models.Uploads()
		d.stats.Up, d.stats.Pid, d.stats.NextTry = false, 0, time.Now()
		d.stats.Faults++
		d.stats.LastFault = c.Failed().Error()
		d.mu.Unlock()
		attrs := []any{"device", d.index, "err", c.Failed(), "pid", c.cmd.Process.Pid}
		if s := c.stderr.last(); s != "" {
			attrs = append(attrs, "stderr", s)
		}
		log.Error("GPU child failed: its batches are scored elsewhere, it is started again", attrs...)
		select {
		case <-c.gone:
		case <-time.After(goneTimeout): // a new one may find the device busy; it will be tried again
		}
		began := time.Now()
		for wait := back.after(began.Sub(c.ready), killed(c.Failed())); ; wait = back.again() {
			if wait > 0 {
				log.Info("GPU out of service", "device", d.index, "next try in", wait)
				d.setNextTry(time.Now().Add(wait))
				select {
				case <-ctx.Done():
					return
				case <-time.After(wait):
				}
			}
			err := d.start(ctx)
			if ctx.Err() != nil {
				return
			}
			if err == nil {
				log.Info("GPU in service again", "device", d.index, "after", time.Since(began).Round(time.Millisecond))
				break
			}
			log.Error("GPU child did not start", "device", d.index, "err", err)
		}
	}
}

// setNextTry sets the time of the next start of a device that is out of service.
func (d *Device) setNextTry(t time.Time) {
	d.mu.Lock()
	d.stats.NextTry = t
	d.mu.Unlock()
}

// goneTimeout bounds the time that a killed child takes to end. Usually that is 0.1 s, but a
// driver may delay it.
const goneTimeout = 5 * time.Second

// MapTime is the time allowed for locking a batch's memory: 1 GiB takes 0.3 s.
const MapTime = 5 * time.Second

// notWritten is a status word before the device has written it.
const notWritten = 0xffffffff

// Execute executes a request on the device's child c, and returns the status words of its tasks. deaths is the number of children
// that have died with the batch: each doubles its time limit, because a busy machine may be slow and not the batch endless.
// refused is the error of a child without room for the batch, which remains usable; err is the error of ctx, or one after which
// the child must be replaced.
func (d *Device) Execute(
	ctx context.Context, c *Process, m *plan.Memory, q *plan.Request, deaths int,
) (status []uint32, refused, err error) {
	l, err := c.Acquire(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer c.Release(l)
	allowance := d.Allowance() << deaths
	if refused, err = c.Map(l, m, time.Now().Add(allowance+MapTime)); refused != nil || err != nil {
		return nil, refused, err
	}
	if q.Models > 0 {
		if refused, err = c.ReserveModels(l, time.Now().Add(allowance)); refused != nil || err != nil {
			return nil, refused, err
		}
	}
	status = plan.View[uint32](m.Bytes, int(q.StatusOff), int(q.Tasks))
	for i := range status {
		status[i] = notWritten
	}
	allowance = d.Allowance() << deaths
	q.RoundLimit = uint64(allowance)
	r, err := c.Ask(l, &Request{Kind: KindExecute, Request: *q}, time.Now().Add(allowance*time.Duration(max(q.Rounds, 1))))
	if err != nil {
		return nil, nil, err
	}
	if r.Code != CodeOK {
		return nil, errors.New(r.Text), nil
	}
	for k, s := range status {
		if s > plan.StatusLeft && s != plan.StatusMore {
			c.Fail(fmt.Errorf("status %#x of task %d of %d", s, k, len(status)))
			return nil, nil, c.Failed()
		}
	}
	d.mu.Lock()
	d.stats.Batches++
	d.stats.Tasks += uint64(len(status) - q.Later) // in their first round
	d.stats.Busy += time.Duration(r.Nanos)
	d.mu.Unlock()
	return status, nil, nil
}

// Slack is the factor by which a batch may take longer than planned.
const Slack = 20

// Allowance returns the time limit of a request, by the planned work of the device.
func (d *Device) Allowance() time.Duration {
	return d.o.Deadline + time.Duration(Slack*d.Load.Load())
}
