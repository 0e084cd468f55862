//go:build linux

package cuda

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"odradek/detectors"
)

// settle takes the status words of this round, in plan order. A task that its
// kernel left alone is the CPU's, those behind it in its chain wait for another
// round.
func (p *planner) settle(b *detectors.Batch, status []uint32) error {
	taken := 0
	for k, s := range status {
		switch s {
		case 0:
			taken++
		case 1:
		default:
			return fmt.Errorf("status %#x of task %d of %d", s, k, len(status))
		}
	}
	if taken == p.left {
		p.left = 0
		return nil
	}
	left := false
	for k, i := range p.order {
		from := before(b, int(i))
		switch {
		case from >= 0 && p.places[from] != done:
			p.places[i] = waiting
		case status[k] == 0:
			p.places[i] = done
			p.left--
		default:
			if p.forced == nil {
				p.forced = make([]bool, len(b.Tasks))
			}
			p.forced[i] = true
			p.declined++
			p.places[i] = onCPU
			p.cpu = append(p.cpu, i)
			left = true
		}
	}
	if left {
		slices.Sort(p.cpu)
	}
	return nil
}

// force leaves all tasks that are not done to the CPU.
func (p *planner) force() {
	p.forced = make([]bool, len(p.places))
	for i := range p.forced {
		p.forced[i] = true
		if p.places[i] != done {
			p.places[i] = waiting
		}
	}
}

// runs are the tasks that the CPU has in this round, by what they wait for.
func (p *planner) runs(b *detectors.Batch) (heads, last []int32) {
	for _, i := range p.cpu {
		from := before(b, int(i))
		p.next[i] = -1
		switch {
		case from < 0 || p.places[from] == done:
			p.segment[i] = int32(len(heads))
			heads, last = append(heads, i), append(last, i)
		case p.places[from] == onCPU:
			r := p.segment[from]
			p.segment[i] = r
			p.next[last[r]] = i
			last[r] = i
		default:
			p.places[i] = waiting
		}
	}
	return heads, last
}

// portion is how many nanoseconds of work a goroutine takes at a time.
const portion = 20_000

// score scores the CPU's tasks of this round, on as many goroutines as are free.
func (e *Executor) score(ctx context.Context, p *planner, b *detectors.Batch) error {
	heads, _ := p.runs(b)
	if len(heads) == 0 {
		return nil
	}
	cost, tasks := 0, 0
	step := (len(p.cpu) + 63) / 64
	for k, i := range p.cpu {
		if k%step == 0 {
			r := b.Rows(int(i))
			cost += step * b.Tasks[i].Op.Spec().Cost(&r)
		}
		if p.places[i] == onCPU {
			tasks++
		}
	}
	each := max(1, len(heads)*portion/max(cost, 1))
	var at atomic.Int64
	work := func() {
		r := rowsPool.Get().(*detectors.Rows)
		defer rowsPool.Put(r)
		for ctx.Err() == nil {
			hi := int(at.Add(int64(each)))
			lo := hi - each
			if lo >= len(heads) {
				return
			}
			for _, head := range heads[lo:min(hi, len(heads))] {
				for i := head; i >= 0; i = p.next[i] {
					*r = b.Rows(int(i))
					b.Tasks[i].Op.Spec().CPU(r)
				}
			}
		}
	}
	var wg sync.WaitGroup
helpers:
	for range min(cap(e.helpers), (len(heads)-1)/each) {
		select {
		case e.helpers <- struct{}{}:
			wg.Go(func() {
				work()
				<-e.helpers
			})
		default:
			break helpers
		}
	}
	work()
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	e.cpuTasks.Add(uint64(tasks))
	for _, i := range p.cpu {
		if p.places[i] == onCPU {
			p.places[i] = done
			p.left--
		}
	}
	return nil
}

var rowsPool = sync.Pool{New: func() any { return new(detectors.Rows) }}
