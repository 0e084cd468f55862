package plan

import (
	"slices"

	"odradek/detectors"
)

// The status words of tasks.
const (
	StatusDone = 0
	StatusLeft = 1 // the kernel declined it
	StatusTodo = 2 // before the first round of repeatable launches; no reply has it
	StatusMore = 3 // the task requests another round, with its Next as carry
)

// place is the state of a task in an Execute.
type place uint8

const (
	waiting  place = iota // for the task whose Next is its carry
	onDevice              // in this round's plan
	onCPU                 // in this round, after the device
	done
)

// Progress has the state of each task of the batch: it waits, is on the device or the CPU in this round, or is done.
type Progress struct {
	Left     int     // tasks not done
	CPU      []int32 // tasks for the CPU in this round, by index
	Declined int     // tasks that their kernels declined

	places []place // by batch index
	forced []bool  // by batch index: for the CPU in any case; nil for none
	rounds []int32 // by batch index: rounds in which a task requested another; nil for none

	run, next []int32 // by batch index, for the CPU's tasks: see Runs
}

// ReadStatus takes the status words of the tasks of the plan q of this round, which is p or a part of
// it, in plan order. A declined task goes to the CPU, and the tasks after it in its chain wait for
// another round. So does a task that requests more, until it has had as many rounds as its op allows;
// then it goes to the CPU, too.
func (p *Progress) ReadStatus(b *detectors.Batch, q *Planner, status []uint32) {
	taken := 0
	for _, s := range status {
		if s == StatusDone {
			taken++
		}
	}
	if taken == p.Left {
		p.Left = 0
		return
	}
	left := false
	for k, i := range q.order {
		from := Before(b, int(i))
		switch {
		case from >= 0 && p.places[from] != done:
			p.places[i] = waiting
		case status[k] == StatusDone:
			p.places[i] = done
			p.Left--
		case status[k] == StatusMore && p.mayRepeat(b, q, i):
			p.places[i] = waiting
		default:
			if p.forced == nil {
				p.forced = make([]bool, len(b.Tasks))
			}
			p.forced[i] = true
			p.Declined++
			p.places[i] = onCPU
			p.CPU = append(p.CPU, i)
			left = true
		}
	}
	if left {
		slices.Sort(p.CPU)
	}
}

// mayRepeat records that a task of the plan q requests another round, and reports whether it may have
// one.
func (p *Progress) mayRepeat(b *detectors.Batch, q *Planner, i int32) bool {
	op := byOp[b.Tasks[i].Op]
	if p.rounds == nil {
		p.rounds = make([]int32, len(b.Tasks))
	}
	had := 1
	if op.repeats {
		had = q.repeats
	}
	p.rounds[i] += int32(had)
	return int(p.rounds[i]) < op.rounds
}

// Lost makes the tasks of the plan q of this round, which is p or a part of it, wait for
// another round after the loss of their device.
func (p *Progress) Lost(q *Planner) {
	for _, i := range q.order {
		p.places[i] = waiting
		if p.rounds != nil {
			p.rounds[i] = 0 // the device may have written half of its Next: it begins again
		}
	}
}

// AllToCPU assigns all tasks that are not done to the CPU.
func (p *Progress) AllToCPU() {
	p.forced = make([]bool, len(p.places))
	for i := range p.forced {
		p.forced[i] = true
		if p.places[i] != done {
			p.places[i] = waiting
		}
	}
}

// Runs links the CPU's tasks of this round by their carries. It returns the first task of each run; by
// task the next one of its run, -1 at the end; and the tasks.
func (p *Progress) Runs(b *detectors.Batch) (heads, next, tasks []int32) {
	n := len(p.places)
	p.run, p.next = slices.Grow(p.run[:0], n)[:n], slices.Grow(p.next[:0], n)[:n]
	var last []int32
	for _, i := range p.CPU {
		from := Before(b, int(i))
		p.next[i] = -1
		switch {
		case from < 0 || p.places[from] == done:
			p.run[i] = int32(len(heads))
			heads, last = append(heads, i), append(last, i)
		case p.places[from] == onCPU:
			r := p.run[from]
			p.run[i] = r
			p.next[last[r]] = i
			last[r] = i
		default:
			p.places[i] = waiting
		}
	}
	return heads, p.next, p.CPU
}

// ToCPU assigns the tasks of the plan q, of the same batch, that are not done to the CPU.
func (p *Progress) ToCPU(q *Planner) {
	if p.forced == nil {
		p.forced = make([]bool, len(p.places))
	}
	for _, i := range q.order {
		p.forced[i] = true
	}
}

// Scored records that the CPU has scored its tasks of this round, and returns their number.
func (p *Progress) Scored() (tasks int) {
	for _, i := range p.CPU {
		if p.places[i] == onCPU {
			p.places[i] = done
			p.Left--
			tasks++
		}
	}
	return tasks
}

// Concurrent returns the CPU's tasks of this round that can be scored while the device works, because none of their carries
// comes from a task on the device. The others are scored when the device has finished. Runs has to be called before.
func (p *Progress) Concurrent() (mine []int32) {
	var others []int32
	for _, i := range p.CPU {
		if p.places[i] == onCPU {
			mine = append(mine, i)
		} else {
			p.places[i] = onCPU // after the device
			others = append(others, i)
		}
	}
	if len(mine) > 0 {
		p.CPU = append(p.CPU[:0], others...)
	}
	return mine
}

// Done records that tasks are done.
func (p *Progress) Done(tasks []int32) {
	for _, i := range tasks {
		p.places[i] = done
		p.Left--
	}
}
