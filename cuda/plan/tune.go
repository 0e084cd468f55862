package plan

import (
	"fmt"
	"math/bits"
)

// The number of blocks that an op gives a large set or grid is a launch parameter: no result depends on it, and which one is
// the fastest depends on the device and on the sizes. It is counted for each multiprocessor of the device, and is one of a
// few that the op names. Package tune finds the fastest one; a plan asks for it (Device.Choose).

// usualSMs is the number of multiprocessors of an H100 or H200, and of a device that does not tell.
const usualSMs = 132

// Device has what the launches of a plan depend on besides the batch. No result depends on it.
type Device struct {
	SMs    int            // multiprocessors; 0: 132
	Choose func(Knob) int // returns one of the choices; nil: the default
}

// Knob is the launch parameter of a plan's tasks of one class.
type Knob struct {
	// Class names the kernel, the size of a set or grid and the number of tasks, both up to a power of two. All
	// tasks with one name get one choice.
	Class   string
	Choices []int // blocks for each multiprocessor, the default first
	// Cost is the planned time of the plan in nanoseconds, where its time depends on this choice alone; else 0.
	Cost int
}

// knob is the launch parameter of a class.
type knob struct {
	kernel, of string                    // the kernel that takes most of the time; of what size is the number
	size       int                       // of a task
	choices    []int                     // blocks for each multiprocessor, the default first
	blocks     func(full, tasks int) int // of each of some tasks on a device that is given full blocks
}

// differ reports whether the choices give different numbers of blocks.
func (k *knob) differ(sms, tasks int) bool {
	for _, c := range k.choices {
		if k.blocks(c*sms, tasks) != k.blocks(k.choices[0]*sms, tasks) {
			return true
		}
	}
	return false
}

// tuning has the launch parameters of a plan.
type tuning struct {
	Target Device

	sms    int // multiprocessors
	full   int // blocks that the device is given for the class in hand
	knob   Knob
	choice int
}

// begin forgets the choice of the last plan.
func (p *tuning) begin() {
	p.knob, p.choice = Knob{}, 0
	if p.sms = p.Target.SMs; p.sms <= 0 {
		p.sms = usualSMs
	}
}

// choose sets full for the tasks of a class. cost is the planned time of the plan if it has only these, else 0.
func (p *tuning) choose(op *opPlan, c Class, chains []chain, cost int) {
	p.full = 0
	if op.knob == nil {
		return
	}
	k := op.knob(c)
	if len(k.choices) == 0 {
		return
	}
	choice, tasks := k.choices[0], 0
	for _, ch := range chains {
		tasks += int(ch.count)
	}
	if k.differ(p.sms, tasks) {
		class := fmt.Sprintf("%s %s<=2^%d tasks<=2^%d", k.kernel, k.of, bits.Len(uint(k.size-1)), bits.Len(uint(tasks-1)))
		p.knob = Knob{class, k.choices, cost}
		if p.Target.Choose != nil {
			choice = p.Target.Choose(p.knob)
		}
	}
	p.choice, p.full = choice, choice*p.sms
}

// Chosen returns the launch parameter of the plan's tasks, once the plan is written, and the choice. The knob has no class where
// there is nothing to choose, and no cost where the time of the plan says nothing about the choice.
func (p *tuning) Chosen() (k Knob, choice int) { return p.knob, p.choice }
