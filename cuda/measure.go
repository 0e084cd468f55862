//go:build linux

package cuda

import (
	"context"
	"errors"
	"fmt"
	"time"

	"odradek/cuda/child"
	"odradek/detectors"
)

// Measurement has the times of a batch's launches, without copies.
type Measurement struct {
	Median, Fastest time.Duration
	Copies          int // of the buffers, used in turn so that the L2 is cold
}

// Measure executes the tasks of a batch that a device takes, then their launches repeat times
// more, on up to rotate copies of the buffers in turn. Benchmarks call it.
func (e *Executor) Measure(ctx context.Context, b *detectors.Batch, repeat, rotate int) (m Measurement, err error) {
	h := e.memories.state(b)
	d, c := e.devices.pick()
	if h == nil || d == nil {
		return m, errors.New("cuda: measure: no device in service, or the batch is of another executor")
	}
	if err := e.memories.ensureShared(h); err != nil {
		return m, fmt.Errorf("cuda: measure: %w", err)
	}
	p := &h.plan
	p.SMs = c.SMs
	p.Start(b)
	p.Assign(b)
	t := attempt{device: d, child: c, plan: p}
	if p.ReadsModels && !t.placeModels(b) {
		return m, errors.New("cuda: measure: no room for the batch's models")
	}
	executed := false
	defer func() { c.Models().Done(t.models, executed) }()
	if p.Tasks == 0 || !e.dispatcher.write(h, p) {
		return m, errors.New("cuda: measure: no device takes a task of this batch, or there is no room for its plan")
	}
	l, err := c.Acquire(ctx)
	if err != nil {
		return m, fmt.Errorf("cuda: measure: %w", err)
	}
	defer c.Release(l)
	limit := time.Now().Add(e.o.Deadline + child.MapTime + child.Slack*time.Duration(repeat+1)*time.Duration(p.Work))
	if refused, err := c.Map(l, &h.memory.Memory, limit); err != nil || refused != nil {
		return m, fmt.Errorf("cuda: measure: %w", errors.Join(err, refused))
	}
	if len(t.models) > 0 {
		if refused, err := c.ReserveModels(l, limit); err != nil || refused != nil {
			return m, fmt.Errorf("cuda: measure: %w", errors.Join(err, refused))
		}
	}
	q := child.Request{Kind: child.KindMeasure, Repeat: uint32(repeat), Rotate: uint32(rotate), Request: p.Request}
	q.CopyOut = true
	r, err := c.Ask(l, &q, limit)
	if err == nil && r.Code != child.CodeOK {
		err = errors.New(r.Text)
	}
	if err != nil {
		return m, fmt.Errorf("cuda: measure: %w", err)
	}
	executed = true
	return Measurement{time.Duration(r.Nanos), time.Duration(r.A), int(r.B)}, nil
}
