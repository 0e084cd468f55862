// Package plan turns a batch into a device's work: tasks into tiles and launches, a long plan
// into parts for several devices, and status words into the tasks of the next round. It is
// pure: a plan follows from the batch and a Device, results from the batch alone. Each op's
// plan has a file of its own. The path of a launch is in package cuda.
package plan

import (
	"fmt"
	"slices"

	"odradek/detectors"
	_ "odradek/detectors/ops" // all ops: byOp has each
)

// Task is a detectors.Task in the form that the kernels read (task.h). Its field After is 1
// where Carry lies in the output and not in the input, Model is the model's place in the
// device's memory for models, and X the place of the rows in the input on the device.
type Task detectors.Task

// Tile is the work of one block, as in task.h.
type Tile struct {
	First, Count uint32 // tasks in plan order
	Part         uint32 // of the task, where several blocks share one; some ops give it another meaning
	Scratch      uint32 // offset of its scratch, in units of 256 bytes
}

// Launch is one kernel launch, as in task.h.
type Launch struct {
	Kernel              uint32 // index into Kernels
	Grid, Block, Shared uint32 // blocks, threads a block, bytes of dynamic shared memory
	FirstTile, Tiles    uint32
	// FirstTask and Tasks are the tasks of a launch that the child may repeat by itself, in plan order;
	// 0 for other launches.
	FirstTask, Tasks uint32
}

// Zeroed is scratch memory that is zero before a launch, as in task.h: both numbers in units of 256
// bytes.
type Zeroed struct{ Scratch, Count uint32 }

// Class determines the launches of a task: tasks of one class share them. A and B have a meaning of
// each op, such as sizes of a kernel.
type Class struct {
	Op            detectors.Op
	Variant, A, B uint32
}

// chain is a run of tasks in plan order that one block computes in order, each with the Next of its
// predecessor as carry.
type chain struct {
	first, count uint32
	cost         int
}

// opPlan describes an op's kernels, and which tasks they take.
type opPlan struct {
	op detectors.Op
	// kernels are the functions of NAME.cu, whose names begin with the op's name.
	kernels []string
	// class returns the task's class and its approximate device time in nanoseconds on a full device;
	// ok is false where the CPU scores it. It depends on the task's dimension, fresh rows, lengths and
	// parameters only, not on offsets or the carry. So a task's kernel, and with it every bit of its
	// result, depends on that task alone.
	class func(t *detectors.Task, params detectors.Words) (c Class, cost int, ok bool)
	// shared returns the most shared memory of a launch of the class, in bytes; the CPU scores its
	// tasks where a device has less.
	shared func(c Class) int
	// launches adds the tiles and launches of a class (builder.tile, builder.launch). The chains lie in
	// plan order and by falling cost, so that the long ones begin first.
	launches func(c Class, p *builder, chains []chain)
	// rounds is the largest number of rounds of a task, which its kernel requests with the status more;
	// after the last the task goes to the CPU. 0: the kernels request none.
	rounds int
	// again is class for a task's later rounds: round is 2 or more, next is the task's Next of the
	// previous round, which is its carry. nil: class.
	again func(t *detectors.Task, params detectors.Words, round int, next detectors.Words) (c Class, cost int, ok bool)
	// repeats reports that only the carry differs between rounds, so that the child may repeat the
	// launches by itself. Their kernels read the status word of a task first: StatusTodo is its first
	// round in the request, StatusMore has its carry in Next, and any other status needs no work.
	repeats bool
	// models reports that the kernels read the model of a task. They have one more parameter, after
	// scratch: const uint32_t *models. Without it a task with a model goes to the CPU.
	models bool
	// pointRows returns how many rows make a point, for tasks whose kernels read normalised points instead of rows
	// (normalise.go), and 0 for other tasks. class and the kernels get such a task with its points as its rows, and
	// with the parameters that rowParams makes of its own. nil: 0 for all tasks.
	pointRows func(params detectors.Words) int
	rowParams func(params detectors.Words) detectors.Words
	// divides reports whether several devices can divide the work in a task of the class, which has no Next. Their
	// launches do the portion builder.portion of builder.portions in each task, and merge returns the task's result
	// from what all of them wrote. nil: no class.
	divides func(c Class) bool
	merge   func(params detectors.Words, portions []detectors.Result) detectors.Result
}

// plans has the ops with kernels, in the order of the kernels' indices.
var plans = [...]*opPlan{
	&ikasstPlan,
	&lofPlan,
	&knnPlan,
	&svdsstPlan,
	&discordsPlan,
	&discordPlan,
	&scanPlan,
	&topnPlan,
	&arPlan,
}

var (
	byOp    []*opPlan // by number of an op: its plan, nil for none
	names   []string  // of the kernels, by a Launch's index
	sources []string  // the .cu files of the kernels, without the ending
)

// init fills the lists of kernels and ops from plans. An initialiser cannot, because a plan's functions
// look kernels up in these lists.
func init() {
	byOp = make([]*opPlan, len(detectors.Ops()))
	for _, p := range plans {
		byOp[p.op] = p
		names = append(names, p.kernels...)
		sources = append(sources, p.op.String())
	}
	names, sources = append(names, normaliseKernel), append(sources, normaliseKernel)
}

// Has reports whether there are kernels for an op.
func Has(op detectors.Op) bool { return byOp[op] != nil }

// Kernels lists the names of the kernels by a Launch's index. The caller must not change the list.
func Kernels() []string { return names }

// Sources lists the files of the kernels in package kernels, without .cu. The caller must not change
// the list.
func Sources() []string { return sources }

// SetRounds sets an op's rounds until undo is called. Tests with a child that requests
// rounds call it, without a batch in flight.
func SetRounds(op detectors.Op, rounds int, repeats bool) (undo func()) {
	return set(op, func(p *opPlan) { p.rounds, p.repeats = rounds, repeats })
}

// SetModels sets an op's models, like SetRounds.
func SetModels(op detectors.Op) (undo func()) {
	return set(op, func(p *opPlan) { p.models = true })
}

// SetKernel sends all tasks of an op to one kernel, one block for each chain, as
// SetRounds does. The kernel is one of package kernels' Tests, by index, and reads models.
func SetKernel(op detectors.Op, test int) (undo func()) {
	return set(op, func(p *opPlan) {
		*p = opPlan{
			class:  func(t *detectors.Task, _ detectors.Words) (Class, int, bool) { return Class{Op: t.Op}, 1, true },
			shared: func(Class) int { return 0 },
			launches: func(_ Class, p *builder, chains []chain) {
				for _, c := range chains {
					p.tile(Tile{First: c.first, Count: c.count})
				}
				p.launch(uint32(len(names)+test), 32, 0)
			},
			models: true,
		}
	})
}

func set(op detectors.Op, change func(p *opPlan)) (undo func()) {
	old := byOp[op]
	p := *old
	change(&p)
	byOp[op] = &p
	return func() { byOp[op] = old }
}

// kernel returns the index of a kernel.
func kernel(name string) uint32 {
	i := slices.Index(names, name)
	if i < 0 {
		panic(fmt.Sprintf("plan: %q is none of the kernels that plans name", name))
	}
	return uint32(i)
}

// Planner makes the plans of one batch's Execute: see doc.go. It is reused.
type Planner struct {
	classifier
	progress
	segments
	builder
	models
	points normaliser

	round   int
	order   []int32 // batch index of each task in plan order
	chains  []chain
	later   int              // tasks of this plan in a later round
	repeats int              // how often the child may run the repeatable launches; 0: there are none
	outputs int              // numbers of the device's outputs
	part    bool             // of a batch that is split: see split.go
	params  []detectors.Span // of a part's tasks
	q       Request          // the request for this round's plan
}

// Start begins an Execute.
func (p *Planner) Start(b *detectors.Batch) {
	n := len(b.Tasks)
	p.classifier.begin()
	p.progress.begin(n)
	p.segments.begin(n)
	p.Places, p.round = nil, 0
}

// Assign finds a place for every task that is not done, and the segments of the device's tasks in this
// round. A task waits for another round where the CPU has to score the task before it first, because
// the side that scores a task depends on that task alone.
func (p *Planner) Assign(b *detectors.Batch) {
	p.round++
	p.words, p.last = b.In, nil
	p.cpu = p.cpu[:0]
	p.segments.clear()
	for i := range b.Tasks {
		if p.places[i] == done {
			continue
		}
		var class int32
		var cost int
		if p.rounds == nil || p.rounds[i] == 0 {
			class, cost = p.classOf(&b.Tasks[i])
		} else {
			class, cost = p.classAgain(b, i, int(p.rounds[i])+1)
		}
		if p.forced != nil && p.forced[i] {
			class = -1
		}
		from := Before(b, i)
		at := done
		if from >= 0 {
			at = p.places[from]
		}
		switch {
		case at == waiting, at == onCPU && class >= 0, at == onDevice && byOp[b.Tasks[from].Op].rounds > 0:
			p.places[i] = waiting
		case class < 0:
			p.places[i] = onCPU
			p.cpu = append(p.cpu, int32(i))
		default:
			p.places[i] = onDevice
			p.add(int32(i), class, cost, from, at == onDevice)
		}
	}
}

// Request returns the request for this round's plan, once it is written.
func (p *Planner) Request() *Request { return &p.q }

// lay writes the device's tasks in plan order to tasks, which has room for all of them, and makes tiles
// and launches: class by class in each wave, chains by falling cost.
func (p *Planner) lay(b *detectors.Batch, tasks []Task) {
	p.builder.begin(tasks, p.words, p.Shared)
	p.order = p.order[:0]
	p.outputs, p.later, p.repeats = 0, 0, 0
	p.points.launch(b, &p.segments, p.classes, &p.builder)
	p.sort(len(p.classes))
	for g := 0; g+1 < len(p.groups); g++ {
		lo, hi := p.groups[g], p.groups[g+1]
		if lo == hi {
			continue
		}
		p.chains = p.chains[:0]
		for _, k := range p.sorted[lo:hi] {
			s := &p.list[k]
			p.chains = append(p.chains, chain{uint32(len(p.order)), s.count, s.cost})
			for i := s.head; i >= 0; i = p.next[i] {
				t, of := &p.tasks[len(p.order)], &b.Tasks[i]
				*t = Task(*of)
				p.points.setPoints(i, t)
				if of.Model.Len > 0 {
					t.Model.Off = p.modelAt[of.Model.Off]
				}
				if of.After != 0 {
					t.After, t.Carry = 0, detectors.Span{}
					if from := Before(b, int(i)); from >= 0 {
						t.After, t.Carry = 1, b.Tasks[from].Next
					}
				}
				if p.rounds != nil && p.rounds[i] > 0 {
					t.After, t.Carry = 1, t.Next
					p.later++
				}
				if p.Divided() {
					p.moveOutputs(t)
				}
				p.outputs += int(t.Scores.Len + t.Next.Len + t.Detail.Len)
				p.order = append(p.order, i)
			}
		}
		c := p.classes[g%len(p.classes)]
		op, first := byOp[c.Op], len(p.launches)
		op.launches(c, &p.builder, p.chains)
		if op.repeats {
			p.repeat(op, p.launches[first:], int(p.chains[0].first))
		}
		if p.launched != len(p.tiles) {
			panic(fmt.Sprintf("plan: tiles of %v without a launch", c))
		}
	}
}

// repeat lets the child repeat the launches of the tasks from first to the present end of the plan, as
// often as the task with the most rounds may.
func (p *Planner) repeat(op *opPlan, launches []Launch, first int) {
	left := op.rounds
	for _, i := range p.order[first:] {
		if p.rounds != nil {
			left = min(left, op.rounds-int(p.rounds[i]))
		}
	}
	for i := range launches {
		launches[i].FirstTask, launches[i].Tasks = uint32(first), uint32(len(p.order)-first)
	}
	if p.repeats == 0 || left < p.repeats {
		p.repeats = left
	}
}
