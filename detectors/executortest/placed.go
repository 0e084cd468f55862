package executortest

import (
	"fmt"

	"odradek/detectors"
)

// Placed counts the tasks that an executor has scored so far, by place.
type Placed struct {
	Device   uint64 // by kernels of a device
	Declined uint64 // by the CPU, after a kernel had declined them
	CPU      uint64 // by the CPU, those included
}

func (p Placed) less(q Placed) Placed {
	return Placed{p.Device - q.Device, p.Declined - q.Declined, p.CPU - q.CPU}
}

// Placer is an executor with a device beside the CPU. A comparison of results does not distinguish a
// working kernel from one that declines every task, so the suite also checks a Placer's counts.
type Placer interface {
	detectors.Executor
	Placed() Placed
	Takes(detectors.Op) bool // there is a kernel for the op
}

// overLimits is the share of an op's tasks that may be of shapes which no kernel takes.
const overLimits = 0.05

// placements follows where an op's cases are scored, one after the other.
type placements struct {
	e      Placer
	op     detectors.Op
	at     Placed // before the current case
	sum    Placed
	tasks  int
	faults []error
}

// follow returns nil for an executor that is no Placer.
func follow(e detectors.Executor, op detectors.Op) *placements {
	p, ok := e.(Placer)
	if !ok {
		return nil
	}
	return &placements{e: p, op: op, at: p.Placed()}
}

// scored counts the tasks of a case, each executed in a separate batch. Some ops' kernels take only some of its
// methods, or of its tasks: where optional, the CPU may score the others.
func (p *placements) scored(name string, tasks int, optional bool) {
	if p == nil {
		return
	}
	now := p.e.Placed()
	delta := now.less(p.at)
	p.at = now
	counted := delta
	if optional {
		counted.CPU = delta.Declined
	}
	p.tasks += int(counted.Device + counted.CPU)
	p.sum = Placed{p.sum.Device + counted.Device, p.sum.Declined + counted.Declined, p.sum.CPU + counted.CPU}
	if delta.Device+delta.CPU != uint64(tasks) {
		p.faultf("%s: of %d tasks the device scored %d and the CPU %d", name, tasks, delta.Device, delta.CPU)
	}
	if delta.Declined > 0 {
		p.faultf("%s: the kernel left %d of %d tasks to the CPU, where it has to score all", name, delta.Declined, tasks)
	}
}

func (p *placements) faultf(format string, a ...any) {
	p.faults = append(p.faults, fmt.Errorf(format, a...))
}

// end returns the faults of where the op's tasks were scored.
func (p *placements) end() []error {
	if p == nil {
		return nil
	}
	s, over := p.sum, p.sum.CPU-p.sum.Declined
	switch takes := p.e.Takes(p.op); {
	case !takes && s.Device+s.Declined > 0:
		p.faultf("%v: the device had %d tasks, but has no kernel for the op", p.op, s.Device+s.Declined)
	case takes && s.Device == 0:
		p.faultf("%v: the device scored none of %d tasks, its kernel left %d to the CPU", p.op, p.tasks, s.Declined)
	case takes && float64(over) > overLimits*float64(p.tasks):
		p.faultf("%v: no kernel takes %d of %d tasks", p.op, over, p.tasks)
	}
	return p.faults
}
