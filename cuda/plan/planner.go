// Package plan turns a batch into a device's work: tasks into tiles and launches, a long plan
// into parts for several devices, and status words into the tasks of the next round. It is
// pure: a plan follows from the batch alone. Each op's plan has a file of its own. The path of
// a launch is in package cuda.
package plan

import (
	"fmt"
	"math"
	"math/bits"
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
	// launches adds the tiles and launches of a class (Planner.tile, Planner.launch). The chains lie in
	// plan order and by falling cost, so that the long ones begin first.
	launches func(c Class, p *Planner, chains []chain)
	// caches reports that the kernels take every task of their classes, whatever its values, so that
	// the window cache may hold their windows (windowcache.go).
	caches bool
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
	names, sources = append(names, windowCacheKernel), append(sources, windowCacheKernel)
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
			launches: func(_ Class, p *Planner, chains []chain) {
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

// place is the state of a task in an Execute.
type place uint8

const (
	waiting  place = iota // for the task whose Next is its carry
	onDevice              // in this round's plan
	onCPU                 // in this round, after the device
	done
)

// Planner makes the plans of one batch's Execute: see doc.go. It is reused.
type Planner struct {
	Shared       int             // bytes of shared memory that a block may have on each device, 0 for no limit
	in           detectors.Words // of the batch
	tasks        []Task          // in plan order, in the batch's memory
	tiles        []Tile
	launched     int // tiles that belong to a launch
	launches     []Launch
	scratchBytes uint64
	zeroes       []Zeroed

	order         []int32 // batch index of each task in plan order
	cpu           []int32 // tasks for the CPU in this round, by index
	places        []place // by batch index
	forced        []bool  // by batch index: a kernel declined it; nil for none
	left          int     // tasks not done
	round         int     // 1 for the first
	rounds        []int32 // by batch index: rounds in which a task requested another; nil for none
	later         int     // tasks of this plan in a later round
	repeats       int     // how often the child may run the repeatable launches; 0: there are none
	declined      int     // tasks that their kernels declined
	segment       []int32 // by batch index: its segment; valid for the device's tasks only
	next          []int32 // by batch index: the next task of its segment, -1 at the end
	segments      []segment
	byCost        []int32 // segments by falling cost
	sorted        []int32 // segments by group, then by falling cost
	groups        []int32 // where each group begins in sorted
	chains        []chain
	outputs       int // numbers of the device's outputs
	cost, longest int // ns: all of the device's tasks, the costliest chain

	classes []Class
	index   map[Class]int32
	waves   int32
	shapes  [64]shapeClass
	serial  uint32
	last    *detectors.Task // of the last classOf; nil: none yet
	found   *shapeClass     // its class

	Places  []ModelPlace             // of Models, on the device that the plan is for
	modelAt map[uint32]uint32        // by offset of a model among the batch's: its first word in the device's memory
	updates []detectors.WindowUpdate // of this round
	cachedX uint32                   // word of In on the device at which the X outside the batch begin
	part    bool                     // of a batch that is split: see split.go
	params  []detectors.Span         // of a part's tasks
	q       Request                  // the request for this round's plan
}

// segment is a run of linked tasks of one class: a chain, or a part of a chain whose tasks have several
// classes. A later part is in a later launch.
type segment struct {
	class, wave int32
	head, last  int32
	count       uint32
	cost        int
}

// shape has everything that determines a task's class. Within a batch, a span stands for the content of
// the parameters.
type shape struct {
	op                                               detectors.Op
	dim, fresh, x, bins, scores, next, detail, model uint32
	params                                           detectors.Span
}

// shapeClass caches the class of a shape, because most tasks have the shape of others.
type shapeClass struct {
	shape
	serial uint32 // of the Planner, when it was filled
	class  int32  // -1: for the CPU
	cost   int
}

// Start begins an Execute.
func (p *Planner) Start(b *detectors.Batch) {
	n := len(b.Tasks)
	p.places = slices.Grow(p.places[:0], n)[:n]
	clear(p.places)
	p.segment = slices.Grow(p.segment[:0], n)[:n]
	p.next = slices.Grow(p.next[:0], n)[:n]
	p.forced, p.declined = nil, 0
	p.updates, p.round, p.rounds, p.Places = b.Updates, 0, nil, nil
	p.left = n
	p.serial++
	p.classes = p.classes[:0]
	if p.index == nil {
		p.index = map[Class]int32{}
	}
	clear(p.index)
}

// Before returns the task whose Next is task i's carry, -1 for none. A link to a task
// without a carry is ignored.
func Before(b *detectors.Batch, i int) int32 {
	after := b.Tasks[i].After
	if after == 0 {
		return -1
	}
	if int(after) > i {
		panic(fmt.Sprintf("plan: task %d is linked after task %d", i, after-1))
	}
	if b.Tasks[after-1].Next.Len == 0 {
		return -1
	}
	return int32(after) - 1
}

// Assign finds a place for every task that is not done, and the segments of the device's tasks in this
// round. A task waits for another round where the CPU has to score the task before it first, because
// the side that scores a task depends on that task alone.
func (p *Planner) Assign(b *detectors.Batch) {
	if p.round++; p.round > 1 {
		p.updates = nil
	}
	p.in, p.last = b.In, nil
	p.cpu, p.segments = p.cpu[:0], p.segments[:0]
	p.waves, p.cost, p.longest = 0, 0, 0
	for i := range b.Tasks {
		if p.places[i] == done {
			continue
		}
		var class int32
		var cost int
		if p.rounds == nil || p.rounds[i] == 0 {
			class, cost = p.classOf(&b.Tasks[i])
		} else {
			class, cost = p.classAgain(b, i)
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
			p.next[i] = -1
			p.cost += cost
			wave := int32(0)
			if at == onDevice {
				k := p.segment[from]
				s := &p.segments[k]
				if s.class == class && s.last == from {
					p.next[from], s.last = int32(i), int32(i)
					s.count++
					s.cost += cost
					p.longest = max(p.longest, s.cost)
					p.segment[i] = k
					continue
				}
				wave = s.wave
				if class <= s.class {
					wave++
				}
				p.waves = max(p.waves, wave)
			}
			p.segment[i] = int32(len(p.segments))
			p.segments = append(p.segments, segment{class, wave, int32(i), int32(i), 1, cost})
			p.longest = max(p.longest, cost)
		}
	}
}

// classOf returns the index of a task's class, -1 for the CPU, and its cost.
func (p *Planner) classOf(t *detectors.Task) (int32, int) {
	if p.last != nil && alike(p.last, t) {
		return p.found.class, p.found.cost
	}
	op := byOp[t.Op]
	if op == nil || t.Model.Len > 0 && !op.models {
		return -1, 0
	}
	s := shape{t.Op, t.Dim, t.Fresh, t.X.Len, t.Bins.Len, t.Scores.Len, t.Next.Len, t.Detail.Len, t.Model.Len, t.Params}
	e := &p.shapes[(t.X.Len*7+t.Fresh*5+t.Params.Off*3+t.Bins.Len+uint32(t.Op))%uint32(len(p.shapes))]
	p.last, p.found = t, e
	if e.serial == p.serial && e.shape == s {
		return e.class, e.cost
	}
	e.shape, e.serial, e.class = s, p.serial, -1
	c, cost, ok := op.class(t, p.in[t.Params.Off:t.Params.Off+t.Params.Len])
	if ok && (p.Shared == 0 || op.shared(c) <= p.Shared) {
		e.class, e.cost = p.indexOf(c), max(cost, 1)
	}
	return e.class, e.cost
}

// alike reports whether two tasks have the same shape; most consecutive tasks have.
func alike(t, u *detectors.Task) bool {
	return t.Op == u.Op && t.Dim == u.Dim && t.Fresh == u.Fresh && t.X.Len == u.X.Len && t.Bins.Len == u.Bins.Len &&
		t.Scores.Len == u.Scores.Len && t.Next.Len == u.Next.Len && t.Detail.Len == u.Detail.Len && t.Model.Len == u.Model.Len &&
		t.Params == u.Params
}

// classAgain is classOf for a task in a later round.
func (p *Planner) classAgain(b *detectors.Batch, i int) (int32, int) {
	t := &b.Tasks[i]
	op := byOp[t.Op]
	if op.again == nil {
		return p.classOf(t)
	}
	next := b.Out[t.Next.Off : t.Next.Off+t.Next.Len]
	c, cost, ok := op.again(t, p.in[t.Params.Off:t.Params.Off+t.Params.Len], int(p.rounds[i])+1, next)
	if !ok || p.Shared > 0 && op.shared(c) > p.Shared {
		return -1, 0
	}
	return p.indexOf(c), max(cost, 1)
}

// indexOf returns the index of a class among those of the batch.
func (p *Planner) indexOf(c Class) int32 {
	k, known := p.index[c]
	if !known {
		k = int32(len(p.classes))
		p.classes = append(p.classes, c)
		p.index[c] = k
	}
	return k
}

// Pending returns the number of tasks that are not done.
func (p *Planner) Pending() int { return p.left }

// NoneDone reports whether no task is done.
func (p *Planner) NoneDone() bool { return p.left == len(p.places) }

// Declined returns the number of tasks that their kernels declined.
func (p *Planner) Declined() int { return p.declined }

// Request returns the request for this round's plan, once it is written.
func (p *Planner) Request() *Request { return &p.q }

// ClassOf returns the class of a detector's tasks with the given fresh rows after a full window; ok is
// false where no kernel takes them.
func ClassOf(d detectors.Detector, dim, fresh int) (c Class, ok bool) {
	rows := d.Window() + fresh - 1
	size, ok := d.Size(detectors.View{Dim: dim, Rows: rows, Fresh: fresh})
	op := byOp[d.Op()]
	if op == nil || !ok || rows*dim > math.MaxInt32 {
		return Class{}, false
	}
	t := detectors.Task{
		Op: d.Op(), Dim: uint32(dim), Fresh: uint32(fresh), X: detectors.Span{Len: uint32(rows * dim)},
		Scores: detectors.Span{Len: uint32(size.Scores)}, Next: detectors.Span{Len: uint32(size.Carry)},
		Detail: detectors.Span{Len: uint32(size.Detail)},
	}
	c, _, ok = op.class(&t, d.Params())
	return c, ok
}

// Device returns the number of tasks of this round's plan.
func (p *Planner) Device() int {
	n := 0
	for i := range p.segments {
		n += int(p.segments[i].count)
	}
	return n
}

// lay writes the device's tasks in plan order to tasks, which has room for all of them, and makes tiles
// and launches: class by class in each wave, chains by falling cost.
func (p *Planner) lay(b *detectors.Batch, tasks []Task) {
	p.tasks = tasks
	p.order = p.order[:0]
	p.tiles, p.launches, p.launched, p.scratchBytes = p.tiles[:0], p.launches[:0], 0, 0
	p.outputs, p.later, p.repeats, p.zeroes = 0, 0, 0, p.zeroes[:0]
	if len(p.updates) > 0 {
		p.launchUpdates()
	}
	p.sort()
	for g := 0; g+1 < len(p.groups); g++ {
		lo, hi := p.groups[g], p.groups[g+1]
		if lo == hi {
			continue
		}
		p.chains = p.chains[:0]
		for _, k := range p.sorted[lo:hi] {
			s := &p.segments[k]
			p.chains = append(p.chains, chain{uint32(len(p.order)), s.count, s.cost})
			for i := s.head; i >= 0; i = p.next[i] {
				t, of := &p.tasks[len(p.order)], &b.Tasks[i]
				*t = Task(*of)
				if t.X.Off >= detectors.InCache {
					t.X.Off += p.cachedX - detectors.InCache
				}
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
				p.outputs += int(t.Scores.Len + t.Next.Len + t.Detail.Len)
				p.order = append(p.order, i)
			}
		}
		c := p.classes[g%len(p.classes)]
		op, first := byOp[c.Op], len(p.launches)
		op.launches(c, p, p.chains)
		if op.repeats {
			p.repeat(op, p.launches[first:], int(p.chains[0].first))
		}
		if p.launched != len(p.tiles) {
			panic(fmt.Sprintf("plan: tiles of %v without a launch", c))
		}
	}
}

// sort orders the segments by wave and class, then by falling cost in steps of an eighth, then by
// index. It is a counting sort, since there may be 100,000.
func (p *Planner) sort() {
	groups := (int(p.waves) + 1) * len(p.classes)
	if groups == 1 && p.even() { // the usual batch: many keys, one detector
		p.sorted = slices.Grow(p.sorted[:0], len(p.segments))[:len(p.segments)]
		for i := range p.sorted {
			p.sorted[i] = int32(i)
		}
		p.groups = append(p.groups[:0], 0, int32(len(p.segments)))
		return
	}
	p.groups = slices.Grow(p.groups[:0], groups+1)[:groups+1]
	clear(p.groups)
	group := func(s *segment) int { return int(s.wave)*len(p.classes) + int(s.class) }
	for i := range p.segments {
		p.groups[group(&p.segments[i])+1]++
	}
	for g := range groups {
		p.groups[g+1] += p.groups[g]
	}
	p.sorted = slices.Grow(p.sorted[:0], len(p.segments))[:len(p.segments)]
	falls := [costSteps + 1]int32{}
	for i := range p.segments {
		falls[costSteps-costStep(p.segments[i].cost)]++
	}
	at := int32(0)
	for i, n := range falls {
		falls[i] = at
		at += n
	}
	p.byCost = slices.Grow(p.byCost[:0], len(p.segments))[:len(p.segments)]
	for i := range p.segments {
		k := costSteps - costStep(p.segments[i].cost)
		p.byCost[falls[k]] = int32(i)
		falls[k]++
	}
	for _, i := range p.byCost {
		g := group(&p.segments[i])
		p.sorted[p.groups[g]] = i
		p.groups[g]++
	}
	for g := groups; g > 0; g-- {
		p.groups[g] = p.groups[g-1]
	}
	p.groups[0] = 0
}

// even reports whether all segments cost the same.
func (p *Planner) even() bool {
	for i := range p.segments {
		if p.segments[i].cost != p.segments[0].cost {
			return false
		}
	}
	return true
}

const costSteps = 64 * 8

// costStep returns the step of a cost: eight steps per doubling.
func costStep(cost int) int {
	n := bits.Len(uint(cost))
	if n < 4 {
		return cost
	}
	return n<<3 | cost>>(n-4)&7
}

// tile adds a block's work to the next launch.
func (p *Planner) tile(t Tile) { p.tiles = append(p.tiles, t) }

// launch adds a launch of the tiles since the last launch, a block each.
func (p *Planner) launch(kernel uint32, block, shared int) {
	p.launchGrid(kernel, len(p.tiles)-p.launched, block, shared)
}

// launchGrid is launch for a kernel whose blocks find their tiles themselves.
func (p *Planner) launchGrid(kernel uint32, grid, block, shared int) {
	if p.launched == len(p.tiles) {
		return
	}
	p.launches = append(p.launches, Launch{
		Kernel: kernel, Grid: uint32(grid), Block: uint32(block), Shared: uint32(shared),
		FirstTile: uint32(p.launched), Tiles: uint32(len(p.tiles) - p.launched),
	})
	p.launched = len(p.tiles)
}

// again adds a launch of another kernel on the tiles of the last launch: an op's next phase.
func (p *Planner) again(kernel uint32, grid, block, shared int) {
	l := p.launches[len(p.launches)-1]
	l.Kernel, l.Grid, l.Block, l.Shared = kernel, uint32(grid), uint32(block), uint32(shared)
	p.launches = append(p.launches, l)
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

// zeroed allocates scratch memory that is zero before the launches of the plan and before each
// repetition.
func (p *Planner) zeroed(n int) uint32 {
	at := p.scratch(n)
	count := uint32(p.scratchBytes/Alignment) - at
	if last := len(p.zeroes) - 1; last >= 0 && p.zeroes[last].Scratch+p.zeroes[last].Count == at {
		p.zeroes[last].Count += count
	} else {
		p.zeroes = append(p.zeroes, Zeroed{at, count})
	}
	return at
}

// scratch allocates n bytes on the device for the batch alone, with undefined content; the offset is in
// units of 256 bytes, as in tiles.
func (p *Planner) scratch(n int) uint32 {
	at := p.scratchBytes
	p.scratchBytes += uint64(Align(n))
	return uint32(at / Alignment)
}

// Alignment is the alignment of everything in a batch's memory, in bytes.
const Alignment = 256

// Align rounds up to a multiple of Alignment.
func Align(n int) int { return (n + Alignment - 1) &^ (Alignment - 1) }
