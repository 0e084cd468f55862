//go:build linux

package cuda

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// device is a device and whichever child serves it now.
type device struct {
	o     *Options
	index int
	// load is the planned time of the batches on the device or waiting for it, ns.
	load atomic.Int64

	mu    sync.Mutex
	child *child // nil: out of service
	stats DeviceStats
}

func (d *device) serving() *child {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.child
}

// start starts a child and puts the device in service.
func (d *device) start(ctx context.Context) error {
	c, err := spawn(ctx, d.o, d.index)
	if err == nil && d.o.Resident > 0 {
		err = d.keepOn(c)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stats.Starts++
	if err != nil {
		d.stats.LastFault = err.Error()
		return err
	}
	d.child = c
	d.stats.Info, d.stats.Up, d.stats.Pid = c.Info, true, c.cmd.Process.Pid
	return nil
}

// keepOn takes memory for windows on a child that has just started. A device that
// has none does without.
func (d *device) keepOn(c *child) error {
	l, err := c.take(context.Background())
	if err != nil {
		return err
	}
	size := d.o.Resident / alignment * alignment
	r, err := c.ask(l, &request{kind: kindKeep, inBytes: uint64(size)}, "", time.Now().Add(d.o.StartTimeout))
	c.give(l)
	if err == nil && r.code == codeOK {
		c.kept = newKept(d, c, r.a, size)
	} else if err == nil && d.o.Log != nil {
		d.o.Log.Warn("the GPU has no memory for windows, they travel with every batch", "device", d.index, "bytes", size, "err", r.text)
	}
	return err
}

// healthy is how long a child has to live for its fault to be the first one.
const healthy = 30 * time.Second

// keep starts a child again whenever one is gone, until ctx ends. A child that
// lived for long is replaced at once. Where one fault follows the other, the wait
// doubles: a batch that breaks the device every time, or a driver that is being
// replaced, should not keep a core busy.
func (d *device) keep(ctx context.Context, log *slog.Logger) {
	faults := 0
	for {
		c := d.serving()
		select {
		case <-ctx.Done():
			return
		case <-c.dead:
		}
		d.mu.Lock()
		d.child = nil
		d.stats.Up, d.stats.Pid = false, 0
		d.stats.Faults++
		d.stats.LastFault = c.failed().Error()
		d.mu.Unlock()
		if time.Since(c.ready) > healthy {
			faults = 0
		}
		attrs := []any{"device", d.index, "err", c.failed(), "pid", c.cmd.Process.Pid}
		if s := c.said.last(); s != "" {
			attrs = append(attrs, "stderr", s)
		}
		log.Error("GPU child failed: its batches are scored elsewhere, it is started again", attrs...)
		select {
		case <-c.gone:
		case <-time.After(goneTimeout): // a new one may find the device busy; it will be tried again
		}
		for began := time.Now(); ; faults++ {
			if faults > 0 {
				select {
				case <-ctx.Done():
					return
				case <-time.After(d.o.Retry << min(faults-1, 6)):
				}
			}
			err := d.start(ctx)
			if ctx.Err() != nil {
				return
			}
			if err == nil {
				log.Info("GPU in service again", "device", d.index, "after", time.Since(began).Round(time.Millisecond))
				faults++
				break
			}
			log.Error("GPU child did not start", "device", d.index, "err", err, "next try in", d.o.Retry<<min(faults, 6))
		}
	}
}

// goneTimeout is how long a killed child may take to end. It is 0.1 s, but a
// driver may hold on to it.
const goneTimeout = 5 * time.Second

func (d *device) count(tasks int, nanos uint64) {
	d.mu.Lock()
	d.stats.Batches++
	d.stats.Tasks += uint64(tasks)
	d.stats.Busy += time.Duration(nanos)
	d.mu.Unlock()
}

// slack is how many times longer than planned a batch may take.
const slack = 20

// allowance is how long a request may take now that this much work is there.
func (d *device) allowance() time.Duration {
	return d.o.Deadline + time.Duration(slack*d.load.Load())
}
